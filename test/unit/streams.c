/* passes/streams.c: lanes, cycles and latency of what moves. */
#include "passes/streams.h"

#include <CUnit/CUnit.h>

static const wafer_machine machine = {.width = 100,
                                      .height = 100,
                                      .clock_hz = 1000,
                                      .hop_cycles = 2,
                                      .ramp_cycles = 3,
                                      .edge_in_bytes_per_second = 8000,
                                      .edge_out_bytes_per_second = 16000,
                                      .edge_latency_cycles = 50,
                                      .memoryx_bytes_per_second = 4000,
                                      .memoryx_latency_cycles = 70};
static const wafer_holding edge = {.where = WAFER_AT_edge}, memoryx = {.where = WAFER_AT_memoryx};

static wafer_holding on(uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
  return (wafer_holding){.where = WAFER_AT_wafer, .rect = {x, y, width, height}};
}

static void words(void) {
  wafer_type floats = {WAFER_DTYPE_f32, {2, {3, 5}}}, bytes = {WAFER_DTYPE_u8, {1, {5}}};
  wafer_type scalar = {WAFER_DTYPE_i64, {0, {0}}}, empty = {WAFER_DTYPE_f32, {2, {0, 7}}};
  CU_ASSERT_EQUAL(stream_words(&floats, WAFER_DTYPE_f32), 15);
  CU_ASSERT_EQUAL(stream_words(&floats, WAFER_DTYPE_f16), 8);
  CU_ASSERT_EQUAL(stream_words(&bytes, WAFER_DTYPE_f16), 2);
  CU_ASSERT_EQUAL(stream_words(&scalar, WAFER_DTYPE_f16), 2);
  CU_ASSERT_EQUAL(stream_words(&empty, WAFER_DTYPE_f32), 0);
}

/* The shorter of the heights or of the widths, whichever is more; heights alone towards the edge.
 */
static void lanes(void) {
  wafer_holding tall = on(0, 0, 2, 10), flat = on(10, 0, 8, 3), low = on(0, 20, 1, 1);
  CU_ASSERT_EQUAL(stream_lanes(&tall, &flat), 3);
  CU_ASSERT_EQUAL(stream_lanes(&flat, &tall), 3);
  CU_ASSERT_EQUAL(stream_lanes(&tall, &low), 1);
  CU_ASSERT_EQUAL(stream_lanes(&flat, &flat), 8);
  CU_ASSERT_EQUAL(stream_lanes(&edge, &flat), 3);
  CU_ASSERT_EQUAL(stream_lanes(&flat, &edge), 3);
}

static void cycles(void) {
  wafer_holding one = on(0, 0, 1, 1), many = on(5, 0, 10, 10);
  CU_ASSERT_EQUAL(stream_cycles(&machine, &many, &many, 95), 10);
  CU_ASSERT_EQUAL(stream_cycles(&machine, &edge, &many, 80), 40); /* 320 bytes at 8 a cycle */
  CU_ASSERT_EQUAL(stream_cycles(&machine, &edge, &one, 80), 80);
  CU_ASSERT_EQUAL(stream_cycles(&machine, &many, &edge, 80), 20);
  CU_ASSERT_EQUAL(stream_cycles(&machine, &memoryx, &many, 80), 80);
}

static void latency(void) {
  wafer_holding a = on(0, 0, 1, 1), b = on(9, 0, 1, 1);
  CU_ASSERT_EQUAL(stream_latency(&machine, &a, &b, 9), 9 * 2 + 2 * 3);
  CU_ASSERT_EQUAL(stream_latency(&machine, &edge, &b, 9), 9 * 2 + 2 * 3 + 50);
  CU_ASSERT_EQUAL(stream_latency(&machine, &memoryx, &b, 9), 9 * 2 + 2 * 3 + 50 + 70);
}

/* A value of 8 x 8 floats on 4 x 4 cores, `rows` and `cols`: parts of each dim. */
static wafer_holding holding(uint32_t rows0, uint32_t rows1, uint32_t cols0, uint32_t cols1) {
  wafer_holding h = on(0, 0, 4, 4);
  h.layout = (wafer_layout){.rank = 2,
                            .rows = {rows0, rows1},
                            .cols = {cols0, cols1},
                            .row_stride = {1, 1},
                            .col_stride = {1, 1}};
  return h;
}

/* A pass along lines of 4 cores: a word after the other, 4 hops of 2, 2 ramps of 3. */
static void relayouts(void) {
  const wafer_shape shape = {2, {8, 8}};
  wafer_holding tiles = holding(4, 1, 1, 4), bands = holding(4, 1, 1, 1);
  wafer_holding turned = holding(1, 4, 4, 1), all = holding(1, 1, 1, 1);
  /* every row has its 16 words already: they go along it */
  CU_ASSERT_EQUAL(relayout_cycles(&machine, &tiles, &bands, &shape, 64), 16 + 14);
  CU_ASSERT_EQUAL(relayout_cycles(&machine, &bands, &tiles, &shape, 64), 16 + 14);
  /* neither rows nor columns have what they need: 16 words along rows, then 16 along columns */
  CU_ASSERT_EQUAL(relayout_cycles(&machine, &tiles, &turned, &shape, 64), 2 * (16 + 14));
  /* columns agree, all words go along each */
  CU_ASSERT_EQUAL(relayout_cycles(&machine, &bands, &all, &shape, 64), 64 + 14);
  /* 16 words along rows first, all along columns then; the other order would be dearer */
  CU_ASSERT_EQUAL(relayout_cycles(&machine, &tiles, &all, &shape, 64), 16 + 14 + 64 + 14);
}

/* Rows that hold the same bring shares, which go along the columns; what all columns have too goes
 * to its rows at once, if they are neighbours. */
static void repeated_rows(void) {
  const wafer_shape shape = {2, {8, 8}};
  wafer_holding tiles = holding(4, 1, 1, 4), columns = holding(1, 1, 1, 4);
  wafer_holding near = holding(2, 1, 1, 1), far = near;
  CU_ASSERT_EQUAL(spread_cycles(&machine, &tiles, &shape, 64), 0);
  CU_ASSERT_EQUAL(spread_cycles(&machine, &columns, &shape, 64), 16 + 14);
  near.layout.row_stride[0] = 2;
  CU_ASSERT_EQUAL(spread_cycles(&machine, &near, &shape, 64), 32);
  CU_ASSERT_EQUAL(spread_cycles(&machine, &far, &shape, 64), 64 + 14);
}

CU_TestInfo tests_streams[] = {
    {"rows that hold the same share what enters", repeated_rows},
    {"relayouts", relayouts},
    {"words by element type", words},
    {"lanes by rectangles", lanes},
    {"cycles by lanes and the edge", cycles},
    {"latency by hops and where", latency},
    CU_TEST_INFO_NULL,
};

/* Kernels: costs worked out by hand, and equal kernels. */
#include <CUnit/CUnit.h>

#include "kernel_plain.h"

#define START (28 + 6 - 1)     /* of a vector instruction: its descriptors, its set-up */
#define DEPARTURE (28 + 6 + 4) /* of words: descriptors, set-up, both ramps */

static void test_map_cost(void) {
  body_text b;
  body_text_begin(&b, "map", "4x100xf32 100xf32");
  body_text_node(&b, "add", "0 1", "");
  /* 2 rows of 50, the vector that is added repeats */
  wafer_cost cost = cost_of(&b, "rows0:2 cols1:2");
  CU_ASSERT_EQUAL(cost.compute_cycles, START + 100);
  CU_ASSERT_EQUAL(cost.fabric_cycles, 0);
  CU_ASSERT_EQUAL(cost.cycles, cost.compute_cycles);
  CU_ASSERT_EQUAL(cost.operations, 400);
  CU_ASSERT_EQUAL(cost.input_bytes, 4 * (100 + 50));
  CU_ASSERT_EQUAL(cost.output_bytes, 4 * 100);
  CU_ASSERT_EQUAL(cost.weight_bytes + cost.scratch_bytes, 0);
  CU_ASSERT_EQUAL(cost.code_bytes, 768);
  body_text_begin(&b, "map", "4x100xf32 4x100xf32");
  body_text_node(&b, "add", "0 1", ""); /* dense in both: one instruction */
  CU_ASSERT_EQUAL(cost_of(&b, "").compute_cycles, START + 400);
}

/* The timing of one core: 5158 cycles for 5124 elements with descriptors to load, one of them to
 * read the time. */
static void test_vector_timing(void) {
  body_text b;
  body_text_begin(&b, "map", "5124xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL(cost_of(&b, "").compute_cycles, 5158 - 1);
}

static void test_conv_cost(void) {
  body_text b;
  conv_3x3(&b);
  /* whole: 384 accumulators set to zero, zeros around the operand, and 6*8*8 results by 36 taps:
   * one instruction over filters, places, and channels with the taps of a row, once per row of
   * taps, in a loop that moves two bases */
  wafer_cost cost = cost_of(&b, "");
  CU_ASSERT_EQUAL(cost.compute_cycles,
                  (START + 384) + 4 * (START + 40) + (384 * 36 + 1 + START + 2 + 1 + 3 * (5 + 4)));
  CU_ASSERT_EQUAL(cost.fabric_cycles, 0);
  CU_ASSERT_EQUAL(cost.operations, 2 * 384 * 36);
  CU_ASSERT_EQUAL(cost.input_bytes, 4 * 4 * 10 * 10); /* with its padding */
  CU_ASSERT_EQUAL(cost.weight_bytes, 4 * 6 * 4 * 9);
  CU_ASSERT_EQUAL(cost.output_bytes, 4 * 384);
  CU_ASSERT_EQUAL(cost.scratch_bytes, 0);
}

static void test_conv_halo(void) {
  body_text b;
  conv_3x3(&b);
  /* 4 bands of 2 rows: inner ones send a row of 4 channels x 8 to either side, through one ramp */
  wafer_cost cost = cost_of(&b, "rows2:4");
  CU_ASSERT_EQUAL(cost.fabric_cycles, 2 * 32 + DEPARTURE + 4);
  CU_ASSERT_EQUAL(cost.input_bytes, 4 * 4 * 4 * 10);
  /* with the channels cut inside the band, halves of the words go two cores far: over a link go
   * those of a bus of two senders and of one sender of the next */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:4 rows4:2").fabric_cycles -
                      cost_of(&b, "rows2:4 cols4:2").fabric_cycles,
                  16 * 3 - 2 * 16);
}

static void test_conv_reduction(void) {
  body_text b;
  conv_3x3(&b);
  /* 384 partial sums down a chain of 4, 384 results back */
  wafer_cost cost = cost_of(&b, "rows4:4");
  CU_ASSERT_EQUAL(cost.fabric_cycles, (1 + START + 384 + (2 * 2 + 2) * 3) + (384 + 3 + DEPARTURE));
  CU_ASSERT_EQUAL(cost.scratch_bytes, 0); /* in the output's buffer */
  b.body.storage =
      WAFER_DTYPE_f16; /* sums stay f32 on the way there, results are packed on the way back */
  cost = cost_of(&b, "rows4:4");
  CU_ASSERT_EQUAL(cost.fabric_cycles, (1 + START + 384 + 6 * 3) + (192 + 3 + DEPARTURE));
  CU_ASSERT_EQUAL(cost.output_bytes, 2 * 384);
  CU_ASSERT_EQUAL(cost.scratch_bytes, 4 * 384);
}

/* The published chain: 512 cores, 4096 words, 7218 cycles measured less the broadcast that follows
 * here. */
static void test_chain_formula(void) {
  body_text b;
  body_text_begin(&b, "reduce", "512x4096xf32");
  body_text_node(&b, "reduce_sum", "0", "axes=0 keepdims=0");
  CU_ASSERT_EQUAL(cost_of(&b, "cols1:512").fabric_cycles,
                  (1 + START + 4096 + 6 * 511) + (4096 + 511 + DEPARTURE));
}

static void test_pointwise_run(void) {
  body_text b;
  body_text_begin(&b, "conv", "1x4x8x8xf32 w:6x4x1x1xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0");
  CU_ASSERT_EQUAL(cost_of(&b, "").compute_cycles, (START + 4 * 384) + (START + 384));
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:4 cols3:4").fabric_cycles, 0); /* no window, no halo */
}

static void test_strided_halo(void) {
  body_text b;
  body_text_begin(&b, "conv", "1x1x16x4xf32 w:1x1x2x1xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=2,1 dilations=1,1 pads=0,0,0,0");
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:4").fabric_cycles,
                  0); /* 2 results need just the 4 rows that are there */
  /* 3 parts of 3 results: part 2 begins at row 12, its own rows are 12 .. 15; part 1 lacks row 6 ..
   * 11's end */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:3").fabric_cycles, 0);
  /* 5 parts of 2 results but tiles of 4 rows (3.2): same places again */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:5").fabric_cycles, 0);
  /* 7 parts: 2 results need 4 rows, tiles have 3: part 3 needs 12 .. 15 and has 9 .. 11; tiles of
   * 3 x 4 words go two cores far */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:7").fabric_cycles, 12 * 3 + DEPARTURE + 4);
}

static void test_softmax_cost(void) {
  body_text b;
  body_text_begin(&b, "softmax", "4x32xf32");
  body_text_node(&b, "softmax", "0", "axis=1");
  wafer_cost cost = cost_of(&b, "cols1:2");
  CU_ASSERT_EQUAL(cost.fabric_cycles, 2 * ((1 + START + 4 + 6) + (4 + 1 + DEPARTURE)));
  CU_ASSERT_EQUAL(cost.compute_cycles, 5 * (START + 4 * 16) + 3 * (START + 4));
  CU_ASSERT_EQUAL(cost_of(&b, "rows0:4").fabric_cycles, 0);
}

/* Chains work in the output's buffer; a value that lives beside it needs room of its own. */
static void test_scratch(void) {
  body_text b;
  body_text_begin(&b, "map", "64xf32");
  body_text_node(&b, "exp", "0", "");
  body_text_node(&b, "neg", "1", "");
  CU_ASSERT_EQUAL(cost_of(&b, "").scratch_bytes, 0);
  CU_ASSERT_EQUAL(cost_of(&b, "").code_bytes, 768 + 96);
  body_text_begin(&b, "map", "64xf32");
  body_text_node(&b, "exp", "0", "");
  body_text_node(&b, "neg", "0", "");
  body_text_node(&b, "add", "1 2", "");
  CU_ASSERT_EQUAL(cost_of(&b, "").scratch_bytes, 4 * 64);
}

static void test_depths_and_types(void) {
  body_text b;
  body_text_begin(&b, "map", "64xi64 64xi64");
  body_text_node(&b, "equal", "0 1", "");
  b.depth[0] = 2;
  b.body.output_depth = 3;
  b.body.storage = WAFER_DTYPE_f16; /* integers stay as they are */
  CU_ASSERT_EQUAL(cost_of(&b, "").input_bytes, 8 * 64 * 3);
  CU_ASSERT_EQUAL(cost_of(&b, "").output_bytes, 64 * 3);
  CU_ASSERT_EQUAL(cost_of(&b, "").compute_cycles, START + 2 * 64);
}

static void test_signatures(void) {
  body_text a, b;
  conv_3x3(&a);
  conv_3x3(&b);
  b.nodes[0].name = "another";
  CU_ASSERT_EQUAL(wafer_kernel_signature(&a.body), wafer_kernel_signature(&b.body));
  b.depth[0] = 2;
  CU_ASSERT_NOT_EQUAL(wafer_kernel_signature(&a.body), wafer_kernel_signature(&b.body));
  conv_3x3(&b);
  b.body.storage = WAFER_DTYPE_f16;
  CU_ASSERT_NOT_EQUAL(wafer_kernel_signature(&a.body), wafer_kernel_signature(&b.body));
  conv_3x3(&b);
  b.attrs[0].ints[1][0] = 2; /* a stride */
  CU_ASSERT_NOT_EQUAL(wafer_kernel_signature(&a.body), wafer_kernel_signature(&b.body));
}

CU_TestInfo tests_kernel_cost[] = {
    {"cost of a broadcast addition", test_map_cost},
    {"one vector instruction takes what was measured", test_vector_timing},
    {"cost of a convolution", test_conv_cost},
    {"halo of a convolution", test_conv_halo},
    {"partial sums of a convolution", test_conv_reduction},
    {"chain of 512 cores", test_chain_formula},
    {"a 1x1 window runs over all of the tile", test_pointwise_run},
    {"halo when windows and tiles drift apart", test_strided_halo},
    {"cost of a softmax whose dim is cut", test_softmax_cost},
    {"values between nodes", test_scratch},
    {"depths and element types", test_depths_and_types},
    {"equal kernels have equal signatures", test_signatures},
    CU_TEST_INFO_NULL,
};

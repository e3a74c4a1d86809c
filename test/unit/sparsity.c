/* runtime/kernel/sparsity.c, runtime/kernel/deal.c, passes/sparsity.c, sparse operands in
 * kernel_gemm.c and size_common.c, sparse parameters in memoryx.c. */
#include "passes/sparsity.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "body_text.h"
#include "passes/size/size.h"
#include "wafer/deal.h"
#include "wafer/memoryx.h"
#include "wafer/pairs.h"

static wafer_weight weight_of(wafer_dtype dtype, int64_t rows, int64_t cols, const void *data) {
  wafer_weight w = {.name = "w", .dtype = dtype, .shape = {2, {rows, cols}}, .data = data};
  w.bytes = (size_t)(rows * cols) * wafer_dtype_bytes(dtype);
  return w;
}

/* Numbers that look drawn, the same on every run. */
static float drawn(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
  return (float)(int32_t)(x >> 32) / 2147483648.0f + 1e-9f;
}

static void smallest_magnitudes_go_earlier_ones_first(void) {
  wafer_arena *arena = wafer_arena_create();
  static const float values[8] = {3, -1, 1, -0.5f, 1, -7, 0, -1};
  static const uint16_t halves[4] = {0x3c00, 0xb800, 0x3800, 0xc000}; /* 1, -0.5, 0.5, -2 */
  wafer_weight w = weight_of(WAFER_DTYPE_f32, 2, 4, values);
  const float *kept = sparsity_prune(arena, &w, 4);
  CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
  static const float wanted[8] = {3, 0, 0, 0, 1, -7, 0, -1};
  CU_ASSERT_EQUAL(memcmp(kept, wanted, sizeof wanted), 0);
  CU_ASSERT_EQUAL(sparsity_nonzeros(&w), 7);
  w.data = kept;
  CU_ASSERT_EQUAL(sparsity_nonzeros(&w), 4);
  w = weight_of(WAFER_DTYPE_f16, 2, 2, halves);
  const uint16_t *half = sparsity_prune(arena, &w, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(half);
  CU_ASSERT(half[0] == 0x3c00 && half[1] == 0 && half[2] == 0x3800 && half[3] == 0xc000);
  half = sparsity_prune(arena, &w, 4);
  CU_ASSERT(half && half[0] == 0 && half[3] == 0);
  wafer_arena_destroy(arena);
}

static uint64_t fullest(const wafer_weight *w, const wafer_layout *layout) {
  uint64_t most = UINT64_MAX;
  CU_ASSERT(sparsity_fullest(w, layout, &most));
  return most;
}

enum { ROWS = 60, COLS = 50 };

static void the_fullest_tile_is_counted(void) {
  wafer_arena *arena = wafer_arena_create();
  static float values[ROWS * COLS];
  for (int i = 0; i < ROWS * COLS; i++) values[i] = drawn((uint64_t)i);
  wafer_weight w = weight_of(WAFER_DTYPE_f32, ROWS, COLS, values);
  w.data = sparsity_prune(arena, &w, ROWS * COLS * 9 / 10);
  wafer_layout layout = {.rank = 2, .rows = {7, 1}, .cols = {1, 3}};
  uint64_t count[7][3] = {{0}}, most = 0;
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLS; c++)
      count[r / 9][c / 17] += ((const float *)w.data)[r * COLS + c] != 0;
  for (int i = 0; i < 21; i++)
    if (count[i / 3][i % 3] > most) most = count[i / 3][i % 3];
  CU_ASSERT_EQUAL(fullest(&w, &layout), most);
  CU_ASSERT(most > 300 / 21);
  w.data = NULL;
  CU_ASSERT_EQUAL(fullest(&w, &layout), 0);
  wafer_arena_destroy(arena);
}

/* Cut both ways: each tile has at most its share of rows and columns, and the fullest hardly more
 * non-zeros than the mean, where blocks of neighbours have a fifth more. */
static void dealt_tiles_are_nearly_as_full(void) {
  enum { DEALT_ROWS = 600, DEALT_COLS = 500 };
  wafer_arena *arena = wafer_arena_create();
  float *values = WAFER_NEW(arena, float, DEALT_ROWS *DEALT_COLS);
  for (int i = 0; i < DEALT_ROWS * DEALT_COLS; i++) values[i] = drawn((uint64_t)i);
  wafer_weight w = weight_of(WAFER_DTYPE_f32, DEALT_ROWS, DEALT_COLS, values);
  w.data = sparsity_prune(arena, &w, DEALT_ROWS * DEALT_COLS * 9 / 10);
  static const uint32_t cases[][2] = {{7, 23}, {23, 7}, {1, 125}, {150, 1}, {1, 1}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    uint32_t rows = cases[c][0], cols = cases[c][1];
    uint64_t *count = WAFER_NEW(arena, uint64_t, (size_t)rows *cols), most = 0;
    wafer_deal deal;
    CU_ASSERT_FATAL(wafer_deal_weight(arena, &w, cases[c], &deal));
    uint32_t high = (DEALT_ROWS + rows - 1) / rows, wide = (DEALT_COLS + cols - 1) / cols;
    bool taken[2][DEALT_ROWS] = {{false}};
    for (uint32_t r = 0; r < DEALT_ROWS; r++) taken[0][deal.place[0][r]] = true;
    for (uint32_t i = 0; i < DEALT_COLS; i++) taken[1][deal.place[1][i]] = true;
    for (uint32_t r = 0; r < DEALT_ROWS; r++) CU_ASSERT(taken[0][r]);
    for (uint32_t i = 0; i < DEALT_COLS; i++) CU_ASSERT(taken[1][i]);
    for (int i = 0; i < DEALT_ROWS * DEALT_COLS; i++)
      if (((const float *)w.data)[i] != 0) {
        uint64_t n = ++count[deal.place[0][i / DEALT_COLS] / high * cols +
                             deal.place[1][i % DEALT_COLS] / wide];
        most = n > most ? n : most;
      }
    CU_ASSERT_EQUAL(most, deal.fullest);
    CU_ASSERT(100 * most <= 107 * (30000 / (rows * cols) + 1));
  }
  wafer_layout blocks = {.rank = 2, .rows = {7, 1}, .cols = {1, 23}};
  CU_ASSERT(100 * fullest(&w, &blocks) >= 115 * (30000 / (7 * 23)));
  wafer_arena_destroy(arena);
}

/* Filters are rows of as many non-zeros as all their taps have: parts of the filters hardly differ,
 * where blocks of neighbours have a quarter more. Each has its taps, whoever gets it. */
static void filters_are_dealt_with_all_their_taps(void) {
  enum { FILTERS = 64, CHANNELS = 24, TAPS = 9, ALL = FILTERS * CHANNELS * TAPS };
  wafer_arena *arena = wafer_arena_create();
  float *values = WAFER_NEW(arena, float, ALL);
  for (int i = 0; i < ALL; i++) values[i] = drawn((uint64_t)i);
  wafer_weight w = {.name = "w",
                    .dtype = WAFER_DTYPE_f32,
                    .shape = {4, {FILTERS, CHANNELS, 3, 3}},
                    .data = values,
                    .bytes = sizeof *values * ALL};
  w.data = sparsity_prune(arena, &w, ALL * 9 / 10);
  static const uint32_t cases[][2] = {{16, 1}, {1, 8}, {8, 3}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    uint32_t rows = cases[c][0], cols = cases[c][1];
    uint64_t count[24] = {0}, most = 0;
    wafer_deal deal;
    CU_ASSERT_FATAL(wafer_deal_weight(arena, &w, cases[c], &deal));
    for (int i = 0; i < ALL; i++) {
      uint32_t row = deal.place[0][i / TAPS / CHANNELS] / (FILTERS / rows);
      uint32_t col = deal.place[1][i / TAPS % CHANNELS] / (CHANNELS / cols);
      count[row * cols + col] += ((const float *)w.data)[i] != 0;
    }
    for (uint32_t t = 0; t < rows * cols; t++) most = count[t] > most ? count[t] : most;
    CU_ASSERT_EQUAL(most, deal.fullest);
    CU_ASSERT(100 * most <= 106 * (ALL / 10 / (rows * cols) + 1));
  }
  wafer_layout blocks = {.rank = 4, .rows = {8, 1, 1, 1}, .cols = {1, 3, 1, 1}};
  CU_ASSERT(100 * fullest(&w, &blocks) >= 115 * (ALL / 10 / 24));
  wafer_arena_destroy(arena);
}

/* Filters of one group, and one for each channel; of other groups each core needs whole ones. */
static void filters_may_be_dealt(void) {
  static const struct {
    const char *inputs, *attrs;
    bool want;
  } cases[] = {
      {"1x8x14x14xf32 w:16x8x3x3xf32", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1", true},
      {"1x16x12x12xf32 w:16x1x3x3xf32", "group=16 strides=1,1 dilations=1,1 pads=1,1,1,1", true},
      {"1x16x12x12xf32 w:16x8x3x3xf32", "group=2 strides=1,1 dilations=1,1 pads=1,1,1,1", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    body_text b;
    body_text_begin(&b, "conv", cases[i].inputs);
    CU_ASSERT_FATAL(body_text_node(&b, "conv", "0 1", cases[i].attrs) != UINT32_MAX);
    CU_ASSERT_EQUAL(wafer_kernel_may_deal(&b.body, 1), cases[i].want);
    CU_ASSERT(!wafer_kernel_may_deal(&b.body, 0));
  }
}

/* Guards: what is multiplied along one dim of the weight and joined with the result along the other
 * lay whole, in its own order, where the result's dim was dealt; outputs were wrong. */
static void what_nodes_take_differently_is_not_dealt(void) {
  static const struct {
    const char *anchor, *inputs, *product, *attrs, *tail;
    uint32_t weight;
    bool want;
  } cases[] = {
      {"conv", "1x8x6x6xf32 w:8x8x1x1xf32 1x8x6x6xf32", "0 1",
       "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0", "2 3", 1, true},
      {"conv", "1x8x6x6xf32 w:8x8x1x1xf32", "0 1",
       "group=1 strides=1,1 dilations=1,1 pads=0,0,0,0", "0 2", 1, false},
      {"conv", "1x8x6x6xf32 w:8x1x3x3xf32", "0 1",
       "group=8 strides=1,1 dilations=1,1 pads=1,1,1,1", "0 2", 1, true},
      {"matmul", "4x16xf32 w:16x16xf32", "0 1", "", "2 0", 1, false},
      {"matmul", "w:16x16xf32 16x4xf32", "0 1", "", "1 2", 0, false},
      {"matmul", "w:16x16xf32 16x4xf32 16x4xf32", "0 1", "", "2 3", 0, true}};
  static const char *const tails[] = {"add", "mul"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t t = 0; t < sizeof tails / sizeof *tails; t++) {
      body_text b;
      body_text_begin(&b, strcmp(cases[i].anchor, "conv") ? "gemm" : "conv", cases[i].inputs);
      CU_ASSERT_FATAL(body_text_node(&b, cases[i].anchor, cases[i].product, cases[i].attrs) !=
                      UINT32_MAX);
      CU_ASSERT_FATAL(body_text_node(&b, tails[t], cases[i].tail, "") != UINT32_MAX);
      CU_ASSERT_EQUAL(wafer_kernel_may_deal(&b.body, cases[i].weight), cases[i].want);
    }
}

/* A feed-forward layer of GPT-2 at density 0.1. */
static void a_tenth_streams_as_a_fifth(void) {
  const wafer_type type = {WAFER_DTYPE_f32, {2, {768, 3072}}};
  const uint64_t all = 768 * 3072, kept = all / 10;
  uint64_t wide = wafer_sparse_words(&type, WAFER_DTYPE_f32, kept);
  uint64_t narrow = wafer_sparse_words(&type, WAFER_DTYPE_f16, kept);
  CU_ASSERT_EQUAL(wide, 2 * kept);
  CU_ASSERT_EQUAL(narrow, kept);
  CU_ASSERT(10 * wide <= 2 * all);
  CU_ASSERT(10 * narrow <= 2 * (all / 2));
  CU_ASSERT_EQUAL(wafer_sparse_words(&type, WAFER_DTYPE_f32, all), all);
  CU_ASSERT_EQUAL(wafer_sparse_words(&type, WAFER_DTYPE_f16, all), all / 2);
  CU_ASSERT_EQUAL(wafer_sparse_words(&type, WAFER_DTYPE_f32, 0), 0);
}

/* Vector work of 12,288 tokens through a layer of 768x3072 on 192 rows and `columns` columns of
 * cores: 64 tokens each, and a part of the result's columns. */
static uint64_t layer_cycles(const wafer_machine *m, const char *split, wafer_sparsity is) {
  body_text b;
  wafer_cost cost;
  wafer_split how = split_text(split);
  body_text_begin(&b, "gemm", "12288x768xf32 w:768x3072xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "matmul", "0 1", ""), UINT32_MAX);
  const wafer_sparsity sparsity[2] = {{0}, is};
  b.body.sparsity = sparsity;
  wafer_kernel_cost(m, &b.body, &how, &cost);
  return cost.compute_cycles;
}

static void a_tenth_multiplies_in_an_eighth(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  const uint64_t all = 768 * 3072, kept = all / 10, tiles = 256;
  const char *split = "rows0:192 cols1:256";
  uint64_t dense = layer_cycles(m, split, (wafer_sparsity){0});
  uint64_t even =
      layer_cycles(m, split, (wafer_sparsity){true, kept, kept / tiles + 1, 0, 0, false, false});
  CU_ASSERT(100 * even <= 13 * dense);
  CU_ASSERT(100 * even > 10 * dense);
  /* Before it is counted, a fuller tile is expected; what has all of them takes longest. */
  uint64_t guessed = layer_cycles(m, split, (wafer_sparsity){true, kept, 0, 0, 0, false, false});
  uint64_t full =
      layer_cycles(m, split, (wafer_sparsity){true, kept, all / tiles, 0, 0, false, false});
  CU_ASSERT(even < guessed && guessed < full);
  /* A single token a core does not pay for the set-up: at most the dense product and its tile. */
  uint64_t thin = layer_cycles(m, "rows0:12288 cols1:16",
                               (wafer_sparsity){true, kept, kept / 16, 0, 0, false, false});
  CU_ASSERT(thin < 3 * layer_cycles(m, "rows0:12288 cols1:16", (wafer_sparsity){0}));
  wafer_arena_destroy(arena);
}

/* Filters as ResNeXt has them, whose channels are those of their group, and three filters for each
 * channel; of both all zeros were multiplied. */
static void filters_in_groups_multiply_what_is_not_zero(void) {
  static const struct {
    const char *inputs, *attrs;
    uint64_t nonzeros;
  } cases[] = {
      {"1x32x32x32xf32 w:32x4x3x3xf32", "group=8 strides=1,1 dilations=1,1 pads=1,1,1,1", 115},
      {"1x16x32x32xf32 w:48x1x5x5xf32", "group=16 strides=1,1 dilations=1,1 pads=2,2,2,2", 120}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  const wafer_split places = split_text("rows2:2 cols3:2");
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    body_text b;
    wafer_cost dense, sparse;
    body_text_begin(&b, "conv", cases[i].inputs);
    CU_ASSERT_FATAL(body_text_node(&b, "conv", "0 1", cases[i].attrs) != UINT32_MAX);
    const wafer_sparsity is[2] = {{0}, {.sparse = true, .nonzeros = cases[i].nonzeros}};
    wafer_kernel_cost(m, &b.body, &places, &dense);
    b.body.sparsity = is;
    CU_ASSERT(size_multiplies_sparse(&b.body));
    wafer_kernel_cost(m, &b.body, &places, &sparse);
    CU_ASSERT(100 * sparse.multiply_cycles <= 13 * dense.multiply_cycles);
  }
  wafer_arena_destroy(arena);
}

/* Tiles have the room of their pairs. What passes in slices multiplies with pairs, whatever its
 * size, and has room for two slices. */
static void pairs_take_their_room(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  body_text b;
  wafer_cost dense, sparse, slices, dense_slices;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  body_text_begin(&b, "gemm", "256x1024xf32 w:1024x1024xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "matmul", "0 1", ""), UINT32_MAX);
  const wafer_split parts = split_text("rows0:16 cols1:16");
  const uint64_t tile = 1024 * 64, pairs = 6600, kept = 1024 * 1024 / 10;
  const wafer_sparsity counted[2] = {{0}, {true, kept, pairs, 0, 0, false, false}};
  wafer_kernel_cost(m, &b.body, &parts, &dense);
  b.body.sparsity = counted;
  const wafer_split small = split_text("rows0:16 cols1:32");
  wafer_kernel_cost(m, &b.body, &small, &sparse);
  CU_ASSERT_EQUAL(dense.weight_bytes, b.body.input_depth[1] * 4 * tile);
  CU_ASSERT_EQUAL(sparse.weight_bytes, b.body.input_depth[1] * 4 * (2 * pairs + 3));
  CU_ASSERT_EQUAL(wafer_kernel_input_bytes(m, &b.body, &small, 1), 4 * (2 * pairs + 3));
  const uint32_t depths[3] = {1, 0, 1};
  b.body.input_depth = depths;
  wafer_kernel_cost(m, &b.body, &parts, &slices);
  b.body.sparsity = NULL;
  wafer_kernel_cost(m, &b.body, &parts, &dense_slices);
  CU_ASSERT_EQUAL(slices.weight_bytes, 2 * WAFER_SLICE_BYTES);
  CU_ASSERT(100 * slices.multiply_cycles <= 13 * dense_slices.multiply_cycles);
  CU_ASSERT(1000 * slices.multiply_cycles > 1000 * dense_slices.multiply_cycles * pairs / tile);
  CU_ASSERT(100 * slices.cycles <= 16 * dense_slices.cycles);
  wafer_arena_destroy(arena);
}

/* A weight of zeros alone has none to count. A plan keeps the counts and not what sizing thought
 * of the tiles, so both must give a core the same bytes: such plans could not be opened. */
static void zeros_alone_take_the_same_room(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  body_text b;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  body_text_begin(&b, "gemm", "2x3x3xf32 w:3x3xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "matmul", "0 1", ""), UINT32_MAX);
  const wafer_split parts = split_text("rows1:3 cols2:3");
  uint64_t bytes[2];
  for (int uneven = 0; uneven < 2; uneven++) {
    const wafer_sparsity is[2] = {{0}, {.sparse = true, .uneven = uneven}};
    b.body.sparsity = is;
    bytes[uneven] = wafer_kernel_input_bytes(m, &b.body, &parts, 1);
  }
  CU_ASSERT_EQUAL(bytes[0], bytes[1]);
  CU_ASSERT(bytes[0] < 3 * sizeof(float));
  wafer_arena_destroy(arena);
}

/* One row has all non-zeros, so a core has as many as there are, whatever is dealt: its tile has
 * room for all elements as soon as that is known. */
static void uneven_tiles_are_counted_again(void) {
  enum { SIDE = 64 };
  static float values[SIDE * SIDE];
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  body_text b;
  bool again = false;
  wafer_cost before, after;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  for (int i = 0; i < SIDE; i++) values[5 * SIDE + i] = 1;
  wafer_ir ir = {.arena = arena, .weights = wafer_weights_create(arena)};
  wafer_weight *w =
      wafer_weights_add(ir.weights, "w", WAFER_DTYPE_f32, &(wafer_shape){2, {SIDE, SIDE}}, values);
  w->sparse = true;
  w->nonzeros = SIDE;
  body_text_begin(&b, "gemm", "32x64xf32 w:64x64xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "matmul", "0 1", ""), UINT32_MAX);
  wafer_sparsity sparsity[2] = {{0}, {true, SIDE, 0, 0, 1, false, false}};
  const uint32_t inputs[2] = {0, 1};
  const wafer_graph_value graph_values[2] = {{.name = "x"}, {.name = "w", .sparse = true}};
  wafer_graph_kernel kernel = {.name = "k", .body = b.body, .inputs = inputs};
  kernel.body.sparsity = sparsity;
  const wafer_split split = split_text("rows0:1 cols2:64");
  const wafer_ctx ctx = {.diag = &diag, .arena = arena, .machine = m};
  wafer_kernel_cost(m, &kernel.body, &split, &before);
  for (int turn = 0; turn < 2; turn++) {
    again = false;
    CU_ASSERT_EQUAL(
        sparsity_recount(&ctx, &ir, &kernel, graph_values, &split, kernel.body.input_depth, &again),
        WAFER_OK);
    CU_ASSERT_EQUAL(again, turn == 0);
    CU_ASSERT(w->uneven);
    sparsity[1].uneven = true; /* as the graph is read then */
  }
  wafer_kernel_cost(m, &kernel.body, &split, &after);
  CU_ASSERT(after.weight_bytes == 4 * SIDE * kernel.body.input_depth[1] &&
            before.weight_bytes < after.weight_bytes / 4);
  wafer_arena_destroy(arena);
}

/* Cycles beyond 5/4 of the non-zeros' part. */
static int64_t wasted(size_multiply of) {
  return (int64_t)of.cycles - (int64_t)(of.due * 1250 / 1000);
}

/* The more cores, the larger the part that begins instructions has; and a pair of f16 that meets
 * few rows takes its set-up for them. */
static void small_tiles_and_few_rows_are_waste(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  wafer_diag diag = {0};
  body_text b;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "wse2", &m), WAFER_OK);
  body_text_begin(&b, "gemm", "256x768xf32 w:768x3072xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "matmul", "0 1", ""), UINT32_MAX);
  b.body.storage = WAFER_DTYPE_f16;
  const wafer_split many = split_text("rows0:64 cols1:512"),
                    fewer = split_text("rows0:64 cols1:64"),
                    long_runs = split_text("rows0:8 cols1:512"),
                    short_runs = split_text("rows0:128 cols1:32");
  CU_ASSERT_EQUAL(size_multiply_cycles(m, &b.body, &many).dense, 0);
  const wafer_sparsity sparsity[2] = {{0}, {true, 768 * 3072 / 10, 0, 0, 1, false, false}};
  b.body.sparsity = sparsity;
  CU_ASSERT(size_multiplies_sparse(&b.body));
  size_multiply of_many = size_multiply_cycles(m, &b.body, &many),
                of_fewer = size_multiply_cycles(m, &b.body, &fewer);
  CU_ASSERT(of_fewer.dense > 7 * of_many.dense);
  CU_ASSERT(wasted(of_many) * (int64_t)of_fewer.dense > wasted(of_fewer) * (int64_t)of_many.dense);
  size_multiply of_long = size_multiply_cycles(m, &b.body, &long_runs);
  wafer_cost cost, dense;
  wafer_kernel_cost(m, &b.body, &many, &cost);
  b.body.sparsity = NULL;
  wafer_kernel_cost(m, &b.body, &many, &dense);
  b.body.sparsity = sparsity;
  CU_ASSERT(of_many.cycles == cost.multiply_cycles && of_many.dense == dense.multiply_cycles);
  CU_ASSERT(wasted(of_long) < 0);
  CU_ASSERT(wasted(size_multiply_cycles(m, &b.body, &short_runs)) > 0);
  CU_ASSERT_EQUAL(size_waste_price(&of_many, &(size_waste){0}), 0);
  const size_waste price = {512, 0, 1250}, credit = {512, 20, 1250}, little = {1280, 1, 1250};
  const size_waste leaner = {512, 0, 1000};
  CU_ASSERT_EQUAL(size_waste_price(&of_many, &price), 8 * wasted(of_many));
  CU_ASSERT_EQUAL(size_waste_price(&of_many, &leaner), 8 * (int64_t)(of_many.cycles - of_many.due));
  CU_ASSERT_EQUAL(size_waste_price(&of_long, &price), 0);
  CU_ASSERT_EQUAL(size_waste_price(&of_long, &credit), 8 * wasted(of_long));
  CU_ASSERT_EQUAL(size_waste_price(&of_long, &little), -20 * (int64_t)(of_long.cycles / 20));
  wafer_arena_destroy(arena);
}

static void sparse_parameters_keep_their_zeros(void) {
  static const float initial[4] = {1, 0, -2, 0}, other[4] = {5, 5, 5, 5}, g[4] = {1, 1, 1, 1};
  for (int kind = 0; kind < WAFER_OPTIMIZER_COUNT; kind++) {
    wafer_parameter p = {.name = "w", .dtype = WAFER_DTYPE_f32, .shape = {2, {2, 2}}};
    p.initial = initial;
    p.sparse = true;
    wafer_memoryx_options o = {.optimizer = wafer_optimizer_default((wafer_optimizer_kind)kind),
                               .threads = 1};
    wafer_memoryx *m;
    CU_ASSERT_EQUAL_FATAL(wafer_memoryx_create(&o, &p, 1, &m), WAFER_OK);
    const float *w = wafer_memoryx_weight(m, 0);
    wafer_memoryx_set(m, 0, other);
    CU_ASSERT(w[0] == 5 && w[1] == 0 && w[2] == 5 && w[3] == 0);
    wafer_memoryx_update(m, &(wafer_update){.number = 1, .lr = 0.1, .scale = 1}, g);
    CU_ASSERT(w[0] != 5 && w[1] == 0 && w[2] != 5 && w[3] == 0);
    wafer_memoryx_destroy(m);
  }
}

CU_TestInfo tests_sparsity[] = {
    {"smallest magnitudes go, earlier ones first", smallest_magnitudes_go_earlier_ones_first},
    {"the fullest tile is counted", the_fullest_tile_is_counted},
    {"dealt tiles are nearly as full", dealt_tiles_are_nearly_as_full},
    {"filters are dealt with all their taps", filters_are_dealt_with_all_their_taps},
    {"filters may be dealt", filters_may_be_dealt},
    {"what nodes take differently is not dealt", what_nodes_take_differently_is_not_dealt},
    {"a tenth streams as a fifth", a_tenth_streams_as_a_fifth},
    {"a tenth multiplies in an eighth", a_tenth_multiplies_in_an_eighth},
    {"filters in groups multiply what is not zero", filters_in_groups_multiply_what_is_not_zero},
    {"pairs take their room", pairs_take_their_room},
    {"zeros alone take the same room", zeros_alone_take_the_same_room},
    {"uneven tiles are counted again", uneven_tiles_are_counted_again},
    {"small tiles and few rows are waste", small_tiles_and_few_rows_are_waste},
    {"sparse parameters keep their zeros", sparse_parameters_keep_their_zeros},
    CU_TEST_INFO_NULL,
};

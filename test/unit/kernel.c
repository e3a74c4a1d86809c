/* Kernels: loops, layouts, costs worked out by hand, and the laws of shape curves. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "body_text.h"
#include "op_hostile.h"

/* Round figures: every rate 1 element per cycle, set-up 6, descriptors 28, task switch 10, hop 1,
 * ramp 2. */
static wafer_machine plain_machine(void) {
  wafer_machine m = {.name = "plain",
                     .width = 32,
                     .height = 32,
                     .usable = {0, 0, 32, 32},
                     .clock_hz = 1000000000,
                     .core_bytes = 49152,
                     .reserved_bytes = 1024,
                     .vector_setup_cycles = 6,
                     .descriptor_load_cycles = 28,
                     .task_switch_cycles = 10,
                     .hop_cycles = 1,
                     .ramp_cycles = 2,
                     .colors = 24};
  for (int r = 0; r < WAFER_RATE_COUNT; r++)
    for (int w = 0; w < 2; w++) m.rate[r][w] = (wafer_throughput){w ? 4 : 1, 1};
  return m;
}

static wafer_cost cost_of(const body_text *b, const char *split) {
  wafer_machine m = plain_machine();
  wafer_split s = split_text(split);
  wafer_cost cost;
  wafer_kernel_cost(&m, &b->body, &s, &cost);
  return cost;
}

static void conv_3x3(body_text *b) {
  body_text_begin(b, "conv", "1x4x8x8xf32 w:6x4x3x3xf32");
  body_text_node(b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1");
}

/* ---- loops ---- */

static void test_loops(void) {
  static const struct {
    const char *family, *inputs, *op, *operands, *attrs, *want;
  } cases[] = {
      {"map", "2x3xf32", "relu", "0", "", "2 3 |"},
      {"gemm", "5x2x3xf32 w:3x7xf32", "matmul", "0 1", "", "5 2 7 | 3"},
      {"conv", "1x4x8x8xf32 w:6x4x3x3xf32", "conv", "0 1",
       "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1", "1! 6 8 8 | 4"},
      {"conv", "1x4x8x8xf32 w:8x2x3x3xf32", "conv", "0 1",
       "group=2 strides=1,1 dilations=1,1 pads=1,1,1,1", "1! 8 8 8 | 2!"},
      {"conv_transpose", "1x4x8x8xf32 w:4x6x2x2xf32", "conv_transpose", "0 1",
       "group=1 strides=2,2 dilations=1,1 pads=0,0,0,0 output_padding=0,0", "1! 6 16 16 | 4"},
      {"reduce", "2x3x4xf32", "reduce_sum", "0", "axes=0,2 keepdims=0", "3 | 2 4"},
      {"reduce", "2x3x4xf32", "arg_max", "0", "axis=1 keepdims=1 last=0", "2 1! 4 | 3"},
      {"softmax", "2x3xf32", "softmax", "0", "axis=1", "2 3 |"},
      {"pool", "1x4x8x8xf32", "max_pool", "0",
       "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0", "1! 4 4 4 |"},
      {"move", "2x3x4xf32", "transpose", "0", "perm=2,0,1", "4 2 3 |"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    wafer_loops loops;
    char got[128] = "";
    size_t n = 0;
    body_text_begin(&b, cases[i].family, cases[i].inputs);
    CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, cases[i].op, cases[i].operands, cases[i].attrs),
                              UINT32_MAX);
    wafer_kernel_loops(&b.body, &loops);
    for (uint32_t l = 0; l <= loops.count; l++) {
      if (l == loops.parallel)
        n += (size_t)snprintf(got + n, sizeof got - n, "|%s", l < loops.count ? " " : "");
      if (l == loops.count) break;
      n += (size_t)snprintf(got + n, sizeof got - n, "%ld%s%s", (long)loops.extent[l],
                            loops.divisible[l] ? "" : "!",
                            l + 1 < loops.count || l < loops.parallel ? " " : "");
    }
    if (strcmp(got, cases[i].want) != 0)
      printf("\n  %s: want '%s', got '%s'", cases[i].op, cases[i].want, got);
    CU_ASSERT_STRING_EQUAL(got, cases[i].want);
  }
}

/* ---- layouts ---- */

typedef struct layout_case {
  const char *name, *family, *inputs, *op, *operands, *attrs, *split;
  const char *want; /* parts of each input's dims, rows.columns, then of the output */
} layout_case;

static void format_layout(const wafer_layout *layout, char *text, size_t bytes) {
  size_t n = 0;
  text[0] = 0;
  for (uint32_t d = 0; d < layout->rank; d++)
    n += (size_t)snprintf(text + n, bytes - n, "%s%u.%u", d ? "," : "", layout->rows[d],
                          layout->cols[d]);
}

static void check_layout(const layout_case *c) {
  body_text b;
  char got[512] = "", one[64];
  body_text_begin(&b, c->family, c->inputs);
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, c->op, c->operands, c->attrs), UINT32_MAX);
  wafer_split split = split_text(c->split);
  for (uint32_t i = 0; i <= b.body.input_count; i++) {
    wafer_layout layout = i < b.body.input_count ? wafer_kernel_input_layout(&b.body, &split, i)
                                                 : wafer_kernel_output_layout(&b.body, &split, 0);
    format_layout(&layout, one, sizeof one);
    if (i) strcat(got, " ");
    strcat(got, one);
  }
  if (strcmp(got, c->want) != 0) printf("\n  %s: want '%s', got '%s'", c->name, c->want, got);
  CU_ASSERT_STRING_EQUAL(got, c->want);
}

static void test_layouts(void) {
#define CONV "conv", "0 1"
#define ATTRS(g) "group=" g " strides=1,1 dilations=1,1 pads=1,1,1,1"
  static const layout_case cases[] = {
      {"stretch", "map", "4x6xf32 6xf32", "add", "0 1", "", "rows0:2 cols1:3",
       "2.1,1.3 1.3 2.1,1.3"},
      {"stretch ones", "map", "4x6xf32 4x1xf32", "add", "0 1", "", "rows0:2 cols1:3",
       "2.1,1.3 2.1,1.1 2.1,1.3"},
      {"gemm", "gemm", "4x6xf32 w:6x8xf32", "matmul", "0 1", "", "rows0:2 cols1:4 rows2:3",
       "2.1,3.1 3.1,1.4 2.1,1.4"},
      {"gemm batch", "gemm", "2x4x6xf32 w:6x8xf32", "matmul", "0 1", "", "rows0:2 cols2:4",
       "2.1,1.1,1.1 1.1,1.4 2.1,1.1,1.4"},
      {"conv", "conv", "1x4x8x8xf32 w:6x4x3x3xf32", CONV, ATTRS("1"), "cols1:3 rows2:4 rows4:2",
       "1.1,2.1,4.1,1.1 1.3,2.1,1.1,1.1 1.1,1.3,4.1,1.1"},
      {"depthwise", "conv", "1x6x8x8xf32 w:6x1x3x3xf32", CONV, ATTRS("6"), "cols1:4 rows2:4",
       "1.1,1.4,4.1,1.1 1.4,1.1,1.1,1.1 1.1,1.4,4.1,1.1"},
      {"groups aligned", "conv", "1x4x8x8xf32 w:8x1x3x3xf32", CONV, ATTRS("4"), "cols1:2",
       "1.1,1.2,1.1,1.1 1.2,1.1,1.1,1.1 1.1,1.2,1.1,1.1"},
      {"groups divided", "conv", "1x4x8x8xf32 w:8x1x3x3xf32", CONV, ATTRS("4"), "cols1:8",
       "1.1,1.1,1.1,1.1 1.8,1.1,1.1,1.1 1.1,1.8,1.1,1.1"},
      {"transpose", "move", "2x3x4xf32", "transpose", "0", "perm=2,0,1", "rows0:4 cols2:3",
       "1.1,1.3,4.1 4.1,1.1,1.3"},
      {"reshape even", "move", "1x16x8xf32", "reshape", "0", "shape=1,128", "rows1:4",
       "1.1,4.1,1.1 1.1,4.1"},
      {"reshape odd", "move", "1x16x8xf32", "reshape", "0", "shape=1,128", "rows1:3",
       "1.1,3.1,1.1 1.1,3.1"},
      {"reshape scattered", "move", "2x8192xf32", "reshape", "0", "shape=64,256", "rows0:4 cols1:8",
       "1.1,4.1 4.1,1.8"},
      {"reshape keeps", "move", "6x16x8xf32", "reshape", "0", "shape=6,1,128", "rows0:3",
       "3.1,1.1,1.1 3.1,1.1,1.1"},
      {"slice", "move", "4x8xf32", "slice", "0", "starts=0,2 steps=1,1 shape=4,3",
       "rows0:2 cols1:3", "2.1,1.3 2.1,1.3"},
      {"slice of few", "move", "4x8xf32", "slice", "0", "starts=0,2 steps=1,1 shape=4,1",
       "rows0:2 cols2:4", "2.1,1.4 2.1,1.1"},
      {"concat", "move", "4x8xf32 4x2xf32", "concat", "0 1", "axis=1", "rows0:2 cols1:5",
       "2.1,1.5 2.1,1.5 2.1,1.5"},
      {"pad", "move", "4x8xf32", "pad", "0", "pads=0,1,0,3 mode=constant fill=0", "rows0:2 cols1:5",
       "2.1,1.5 2.1,1.5"},
      {"gather", "move", "4x8x6xf32 5xi64", "gather", "0 1", "axis=1", "rows0:2 rows1:5 cols2:3",
       "2.1,1.1,1.3 5.1 2.1,5.1,1.3"},
      {"gather cut", "move", "4x8x6xf32 5xi64", "gather", "0 1", "axis=1", "rows0:2 cols3:4",
       "2.1,1.4,1.1 1.1 2.1,1.1,1.1"},
      {"scatter", "move", "4x6xf32 5xi64 5x6xf32", "scatter", "0 1 2", "mode=add",
       "rows0:2 cols1:3", "2.1,1.3 1.1 1.1,1.3 2.1,1.3"},
      {"sort", "sort", "4x8xf32", "arg_sort", "0", "axis=1 descending=0", "rows0:2",
       "2.1,1.1 2.1,1.1"},
      {"reduce", "reduce", "4x8x6xf32", "reduce_sum", "0", "axes=1 keepdims=0", "rows0:2 cols2:4",
       "2.1,1.4,1.1 2.1,1.1"},
      {"pool", "pool", "1x4x8x8xf32", "max_pool", "0",
       "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0", "rows2:2 cols1:4",
       "1.1,1.4,2.1,1.1 1.1,1.4,2.1,1.1"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) check_layout(&cases[i]);
}

/* A tail's operands lie as the result they are added to; a value used twice lies where both agree.
 */
static void test_layout_of_tails(void) {
  body_text b;
  wafer_split split = split_text("rows2:2 cols1:3");
  body_text_begin(&b, "conv", "1x4x8x8xf32 w:6x4x3x3xf32 w:6x1x1xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1");
  body_text_node(&b, "mul", "3 2", "");
  body_text_node(&b, "relu", "4", "");
  wafer_layout scale = wafer_kernel_input_layout(&b.body, &split, 2);
  CU_ASSERT_EQUAL(scale.rank, 3);
  CU_ASSERT(scale.rows[0] == 1 && scale.cols[0] == 3 && scale.rows[1] == 1 && scale.cols[2] == 1);
  body_text_begin(&b, "gemm", "4x4xf32");
  body_text_node(&b, "matmul", "0 0", "");
  split = split_text("rows0:2 cols1:4");
  wafer_layout both = wafer_kernel_input_layout(&b.body, &split, 0);
  CU_ASSERT(both.rows[0] == 1 && both.cols[0] == 1 && both.rows[1] == 1 && both.cols[1] == 1);
}

/* Where each part lies follows from the nesting of the loops, whatever loops a value depends on. */
static void test_layout_positions(void) {
  body_text b;
  body_text_begin(&b, "conv", "1x4x8x8xf32 w:6x4x3x3xf32 6xf32");
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, "conv", "0 1 2", ATTRS("1")), UINT32_MAX);
  wafer_split split = split_text("rows1:3 cols1:2 rows2:4 cols3:2 rows4:2 cols4:2");
  static const int loop_of[3][4] = {{0, 4, 2, 3}, {1, 4, -1, -1}, {1, -1, -1, -1}};
  for (uint32_t row = 0; row < wafer_split_height(&split); row++)
    for (uint32_t col = 0; col < wafer_split_width(&split); col++) {
      uint32_t part[WAFER_MAX_LOOPS], r = row, c = col;
      for (uint32_t loop = 5; loop-- > 0;) {
        part[loop] = r % split.rows[loop] * split.cols[loop] + c % split.cols[loop];
        r /= split.rows[loop];
        c /= split.cols[loop];
      }
      for (uint32_t input = 0; input < 3; input++) {
        wafer_layout layout = wafer_kernel_input_layout(&b.body, &split, input);
        for (uint32_t d = 0; d < layout.rank; d++)
          CU_ASSERT_EQUAL(wafer_layout_part(&layout, d, row, col),
                          loop_of[input][d] < 0 ? 0 : part[loop_of[input][d]]);
      }
    }
  wafer_layout bias = wafer_kernel_input_layout(&b.body, &split, 2), other = bias;
  CU_ASSERT_TRUE(bias.row_stride[0] == 8 && bias.col_stride[0] == 4);
  other.row_stride[0] = 1;
  CU_ASSERT_FALSE(wafer_layout_equal(&bias, &other));
}

/* Two dims that a reshape makes one are cut as runs of it where the parts allow that. */
static void test_layout_of_merged_dims(void) {
  static const struct {
    const char *split;
    uint32_t heads, width, heads_stride;
  } cases[] = {{"cols1:64", 16, 4, 4}, {"cols1:8", 8, 1, 1},
               {"cols1:48", 48, 1, 1}, {"rows1:2 cols1:32", 64, 1, 1},
               {"cols1:16", 16, 1, 1}, {"rows0:4 cols1:512", 16, 32, 32}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    wafer_split split = split_text(cases[i].split);
    body_text_begin(&b, "move", "16x2048x256xf32");
    body_text_node(&b, "transpose", "0", "perm=1,0,2");
    body_text_node(&b, "reshape", "1", "shape=2048,4096");
    b.body.anchor = 1;
    wafer_layout x = wafer_kernel_input_layout(&b.body, &split, 0);
    CU_ASSERT_EQUAL(x.rows[0] * x.cols[0], cases[i].heads);
    CU_ASSERT_EQUAL(x.rows[2] * x.cols[2], cases[i].width);
    if (x.cols[0] > 1) CU_ASSERT_EQUAL(x.col_stride[0], cases[i].heads_stride);
  }
}

static void test_layout_tiles(void) {
  wafer_layout layout = {.rank = 2, .rows = {2, 1}, .cols = {1, 3}};
  wafer_shape shape = {2, {5, 7}};
  CU_ASSERT_EQUAL(wafer_layout_tile(&layout, &shape), 9);
  wafer_layout other = layout;
  CU_ASSERT(wafer_layout_equal(&layout, &other));
  other.rows[7] = 9; /* beyond the rank */
  CU_ASSERT(wafer_layout_equal(&layout, &other));
  other.cols[1] = 1;
  CU_ASSERT(!wafer_layout_equal(&layout, &other));
}

/* ---- costs by hand ---- */

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
   * one instruction over filters, places, and channels with the taps of a row, once per row of taps
   */
  wafer_cost cost = cost_of(&b, "");
  CU_ASSERT_EQUAL(cost.compute_cycles,
                  (START + 384) + 4 * (START + 32) + (384 * 36 + 1 + START + 4 + 3 * (5 + 5)));
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
  /* 4 bands of 2 rows: inner ones fetch a row of 4 channels x 8 from either side, over one hop */
  wafer_cost cost = cost_of(&b, "rows2:4");
  CU_ASSERT_EQUAL(cost.fabric_cycles, 32 + 1 + DEPARTURE + 4);
  CU_ASSERT_EQUAL(cost.input_bytes, 4 * 4 * 4 * 10);
  /* with the channels cut inside the band, two flows of half the words share a link of two hops */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:4 rows4:2").fabric_cycles -
                      cost_of(&b, "rows2:4 cols4:2").fabric_cycles,
                  (16 * 2 + 3 * 2) - (16 + 1));
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
  /* 7 parts: 2 results need 4 rows, tiles have 3: part 3 needs 12 .. 15 and has 9 .. 11 */
  CU_ASSERT_EQUAL(cost_of(&b, "rows2:7").fabric_cycles, 4 * 4 + 3 * 2 + DEPARTURE + 4);
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

/* ---- curves ---- */

typedef struct curve_case {
  const char *name, *family, *inputs, *op, *operands, *attrs;
} curve_case;

static const curve_case curve_cases[] = {
    {"conv", "conv", "1x32x20x20xf32 w:48x32x3x3xf32", "conv", "0 1",
     "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
    {"depthwise", "conv", "1x48x20x20xf32 w:48x1x3x3xf32", "conv", "0 1",
     "group=48 strides=2,2 dilations=1,1 pads=1,1,1,1"},
    {"gemm", "gemm", "1x200xf32 w:200x100xf32", "matmul", "0 1", ""},
    {"attention", "gemm", "1x8x40x15xf32 1x8x15x40xf32", "matmul", "0 1", ""},
    {"map", "map", "1x16x12x12xf32", "relu", "0", ""},
    {"vector", "map", "3000xf32", "relu", "0", ""},
    {"softmax", "softmax", "8x40x40xf32", "softmax", "0", "axis=2"},
    {"reduce", "reduce", "1x48x20x20xf32", "reduce_mean", "0", "axes=2,3 keepdims=1"},
    {"pool", "pool", "1x16x20x20xf32", "max_pool", "0",
     "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0"},
    {"transpose", "move", "1x16x20x20xf32", "transpose", "0", "perm=0,2,3,1"},
    {"resize", "move", "1x16x10x10xf32", "resize", "0",
     "shape=1,16,20,20 scales=1,1,2,2 mode=linear coordinates=half_pixel rounding=floor "
     "cubic_a=-0.75 "
     "exclude_outside=0"},
    {"transposed", "conv_transpose", "1x16x10x10xf32 w:16x8x2x2xf32", "conv_transpose", "0 1",
     "group=1 strides=2,2 dilations=1,1 pads=0,0,0,0 output_padding=0,0"},
    {"scalar", "map", "f32", "relu", "0", ""},
    {"empty", "map", "0x4xf32", "relu", "0", ""},
};

static void check_point(const char *name, const body_text *b, const wafer_shape_point *p,
                        uint64_t budget) {
  wafer_machine m = plain_machine();
  wafer_loops loops;
  wafer_cost cost;
  wafer_kernel_loops(&b->body, &loops);
  wafer_kernel_cost(&m, &b->body, &p->split, &cost);
  bool ok = cost.cycles == p->cycles && wafer_cost_bytes(&cost) == p->bytes && p->bytes <= budget &&
            wafer_split_height(&p->split) == p->height &&
            wafer_split_width(&p->split) == p->width && p->height <= 32 && p->width <= 32;
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) {
    uint32_t parts = p->split.rows[l] * p->split.cols[l];
    ok &= parts == 1 || (l < loops.count && loops.divisible[l] && parts <= loops.extent[l]);
  }
  if (!ok) printf("\n  %s: point %ux%u is not what its split costs", name, p->width, p->height);
  CU_ASSERT(ok);
}

static void check_curve(const curve_case *c, const body_text *b, const wafer_curve *curve,
                        uint64_t budget) {
  CU_ASSERT(curve->count > 0 && curve->count <= 512);
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *p = &curve->at[i];
    check_point(c->name, b, p, budget);
    CU_ASSERT(i == 0 || p->cycles >= p[-1].cycles);
    for (size_t j = 0; j < i; j++) /* earlier ones are no slower, so they must not fit inside */
      CU_ASSERT(curve->at[j].width > p->width || curve->at[j].height > p->height);
  }
}

static void test_curves(void) {
  wafer_machine m = plain_machine();
  wafer_curve_options options = {32, 32, 48000, 0, 0};
  for (size_t i = 0; i < WAFER_COUNT(curve_cases); i++) {
    const curve_case *c = &curve_cases[i];
    wafer_arena *arena = wafer_arena_create();
    body_text b;
    wafer_curve curve, again;
    body_text_begin(&b, c->family, c->inputs);
    CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(&b, c->op, c->operands, c->attrs), UINT32_MAX);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
    check_curve(c, &b, &curve, options.budget);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &again), WAFER_OK);
    CU_ASSERT(curve.count == again.count &&
              memcmp(curve.at, again.at, curve.count * sizeof *curve.at) == 0);
    wafer_arena_destroy(arena);
  }
}

/* Against every split of two loops, one per direction: none fits inside a point and is faster. */
static void test_curve_is_least(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_curve_options options = {32, 32, 48000, 0, 0};
  body_text b;
  wafer_curve curve;
  body_text_begin(&b, "map", "24x18xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  for (uint32_t r = 1; r <= 24; r++)
    for (uint32_t c = 1; c <= 18; c++) {
      wafer_split split = split_whole();
      wafer_cost cost;
      bool beaten = false;
      split.rows[0] = r, split.cols[1] = c;
      wafer_kernel_cost(&m, &b.body, &split, &cost);
      for (size_t i = 0; i < curve.count && !beaten; i++)
        beaten =
            curve.at[i].width <= c && curve.at[i].height <= r && curve.at[i].cycles <= cost.cycles;
      CU_ASSERT(beaten);
    }
  wafer_arena_destroy(arena);
}

static uint64_t least_area(const wafer_curve *curve, uint64_t cycles) {
  uint64_t area = UINT64_MAX;
  for (size_t i = 0; i < curve->count; i++) {
    uint64_t one = (uint64_t)curve->at[i].width * curve->at[i].height;
    if (curve->at[i].cycles <= cycles && one < area) area = one;
  }
  return area;
}

/* More memory never asks for more cores (the curve is thinned to 2 %, so with that slack). */
static void test_curve_monotone(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  wafer_curve tight, roomy;
  body_text_begin(&b, "conv", "1x32x20x20xf32 w:48x32x3x3xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1");
  wafer_curve_options options = {32, 32, 12000, 0, 0};
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &tight), WAFER_OK);
  options.budget = 48000;
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &roomy), WAFER_OK);
  for (size_t i = 0; i < tight.count; i++) {
    uint64_t cycles = tight.at[i].cycles, area = (uint64_t)tight.at[i].width * tight.at[i].height;
    CU_ASSERT(least_area(&roomy, cycles + cycles / 25) <= area);
  }
  CU_ASSERT(roomy.at[roomy.count - 1].cycles >= tight.at[tight.count - 1].cycles);
  wafer_arena_destroy(arena);
}

static void test_curve_without_room(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  wafer_curve curve;
  wafer_curve_options options = {2, 2, 4000, 0, 0};
  body_text_begin(&b, "map", "4096xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_EQUAL(curve.count, 0);
  CU_ASSERT_EQUAL(curve.least_bytes, 768 + 2 * 4 * 1024); /* 4 parts of 1024 */
  options.budget = curve.least_bytes;
  CU_ASSERT_EQUAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT(curve.count > 0);
  wafer_arena_destroy(arena);
}

/* Cuts that other curves have used, or found no room for, give the curve that they give at first.
 */
static void test_curves_share_cuts(void) {
  static const uint64_t budgets[] = {48000, 900, 12000, 5000, 3000, 1500, 20000};
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  conv_3x3(&b);
  wafer_cuts *cuts = wafer_cuts_create(&m, &b.body, 32, 24, arena);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cuts);
  size_t empty = 0;
  for (size_t i = 0; i < WAFER_COUNT(budgets); i++) {
    wafer_curve_options options = {32, 24, budgets[i], 0, 0};
    wafer_curve shared, alone;
    CU_ASSERT_EQUAL_FATAL(wafer_cuts_curve(cuts, &b.body, &options, arena, &shared), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &alone), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(shared.count, alone.count);
    if (alone.count) {
      CU_ASSERT(memcmp(shared.at, alone.at, alone.count * sizeof *alone.at) == 0);
      continue;
    }
    CU_ASSERT_EQUAL(shared.least_bytes, alone.least_bytes);
    empty++;
  }
  CU_ASSERT(empty >= 2 && empty < WAFER_COUNT(budgets));
  wafer_arena_destroy(arena);
}

static void test_curve_out_of_memory(void) {
  wafer_machine m = plain_machine();
  wafer_curve_options options = {32, 32, 48000, 0, 0};
  body_text b;
  conv_3x3(&b);
  wafer_status status = WAFER_NO_MEMORY;
  for (size_t n = 1; status == WAFER_NO_MEMORY && n < 200; n++) {
    wafer_arena *arena = wafer_arena_create();
    wafer_curve curve;
    wafer_arena_fail_after(n);
    status = wafer_kernel_curve(&m, &b.body, &options, arena, &curve);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    CU_ASSERT(status == WAFER_OK || curve.count == 0);
    wafer_arena_destroy(arena);
  }
  CU_ASSERT_EQUAL(status, WAFER_OK);
}

/* ---- whatever the shape rules accept ---- */

static int64_t hostile_dim(uint64_t *state) {
  static const int64_t dims[] = {0, 1, 1, 2, 3, 4, 6, 8, 9, 1000, (int64_t)1 << 33};
  return dims[op_hostile_next(state) % WAFER_COUNT(dims)];
}

static wafer_split hostile_split(uint64_t *state, const wafer_loops *loops) {
  wafer_split split = split_whole();
  for (uint32_t l = 0; l < loops->count; l++) {
    if (!loops->divisible[l]) continue;
    uint64_t parts =
        1 + op_hostile_next(state) % (uint64_t)(loops->extent[l] < 12 ? loops->extent[l] : 12);
    (op_hostile_next(state) % 2 ? split.rows : split.cols)[l] = (uint32_t)parts;
  }
  return split;
}

/* One op of its own family; false when its rule refuses it. */
static bool hostile_body(uint64_t *state, body_text *b) {
  wafer_op op = (wafer_op)(op_hostile_next(state) % WAFER_OP_COUNT);
  const wafer_op_info *info = wafer_op_get(op);
  uint32_t rank = (uint32_t)(op_hostile_next(state) % 6);
  if (info->family >= WAFER_FAMILY_COUNT || wafer_op_is(op, WAFER_TRAIT_SOURCE)) return false;
  body_text_begin(b, wafer_family_name(info->family), "");
  b->body.input_count = info->most;
  wafer_node *node = &b->nodes[0];
  *node = (wafer_node){.op = op, .name = "n", .operand_count = info->most};
  for (uint32_t i = 0; i < info->most; i++) {
    bool places = i == 1 && (op == WAFER_OP_gather || op == WAFER_OP_scatter);
    b->inputs[i] = (wafer_type){places ? WAFER_DTYPE_i64 : WAFER_DTYPE_f32, {.rank = rank}};
    for (uint32_t d = 0; d < rank; d++)
      b->inputs[i].shape.dims[d] =
          i && op_hostile_next(state) % 4 ? b->inputs[0].shape.dims[d] : hostile_dim(state);
    b->depth[i] = 1;
    node->operands[i] = i;
  }
  bool bias = op == WAFER_OP_conv || op == WAFER_OP_conv_transpose;
  if (bias) b->body.input_count = node->operand_count = 2;
  op_hostile_attrs(state, op, rank, &b->attrs[0]);
  node->attrs = b->attrs[0].attrs;
  if (wafer_op_infer(NULL, wafer_at_file("test"), op, &node->attrs, node->operand_count, b->inputs,
                     &node->type) != WAFER_OK)
    return false;
  b->body.node_count = b->body.output_count = 1;
  b->outputs[0] = b->body.input_count;
  return true;
}

static int64_t few(uint64_t *state, int64_t least, int64_t most) {
  return least + (int64_t)(op_hostile_next(state) % (uint64_t)(most - least + 1));
}

/* A convolution or pool of sound attributes: random ones are refused nearly always. */
static bool window_body(uint64_t *state, body_text *b) {
  static const wafer_op ops[] = {WAFER_OP_conv, WAFER_OP_conv_transpose, WAFER_OP_max_pool,
                                 WAFER_OP_average_pool};
  wafer_op op = ops[op_hostile_next(state) % WAFER_COUNT(ops)];
  bool weighs = op == WAFER_OP_conv || op == WAFER_OP_conv_transpose;
  int64_t group = few(state, 1, 4), in = few(state, 1, 3), out = few(state, 1, 3),
          taps = few(state, 1, 4);
  char inputs[128], attrs[256];
  snprintf(inputs, sizeof inputs, "%dx%dx%dx%dxf32 w:%dx%dx%dx%dxf32", (int)few(state, 1, 2),
           (int)(group * in), (int)few(state, 1, 20), (int)few(state, 1, 20),
           (int)(group * (op == WAFER_OP_conv ? out : in)), (int)(op == WAFER_OP_conv ? in : out),
           (int)taps, (int)few(state, 1, 4));
  snprintf(attrs, sizeof attrs,
           "group=%d kernel=%d,%d strides=%d,%d dilations=%d,%d pads=%d,%d,%d,%d "
           "output_padding=0,0 ceil_mode=%d "
           "count_include_pad=0",
           (int)group, (int)taps, (int)few(state, 1, 4), (int)few(state, 1, 3),
           (int)few(state, 1, 3), (int)few(state, 1, 3), (int)few(state, 1, 2),
           (int)few(state, 0, 1), (int)few(state, 0, 1), (int)few(state, 0, 1),
           (int)few(state, 0, 1), (int)few(state, 0, 1));
  body_text_begin(b, wafer_family_name(wafer_op_get(op)->family), inputs);
  if (!weighs) b->body.input_count = 1;
  return body_text_node(b, wafer_op_get(op)->name, weighs ? "0 1" : "0", attrs) != UINT32_MAX;
}

/* No body that passes the rules may fault, and no part may be longer than its whole. */
static void test_hostile_bodies(void) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  wafer_machine m = plain_machine();
  uint32_t seen[2] = {0};
  for (int round = 0; round < 100000; round++) {
    static body_text b;
    wafer_loops loops;
    wafer_cost cost, whole;
    bool window = round % 8 == 0;
    if (!(window ? window_body(&state, &b) : hostile_body(&state, &b))) continue;
    seen[window]++;
    wafer_kernel_loops(&b.body, &loops);
    wafer_split split = hostile_split(&state, &loops), uncut = split_whole();
    wafer_kernel_cost(&m, &b.body, &split, &cost);
    wafer_kernel_cost(&m, &b.body, &uncut, &whole);
    CU_ASSERT_FATAL(cost.output_bytes <= whole.output_bytes);
    CU_ASSERT_FATAL(whole.fabric_cycles == 0);
    for (uint32_t i = 0; i < b.body.input_count; i++) {
      wafer_layout layout = wafer_kernel_input_layout(&b.body, &split, i);
      int64_t elements = 0;
      CU_ASSERT_FATAL(layout.rank == b.inputs[i].shape.rank);
      CU_ASSERT_FATAL(wafer_shape_elements(&b.inputs[i].shape, &elements));
      CU_ASSERT_FATAL(wafer_layout_tile(&layout, &b.inputs[i].shape) <= (uint64_t)elements);
    }
  }
  CU_ASSERT(seen[0] > 5000 && seen[1] > 5000);
}

/* ---- signatures ---- */

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

CU_TestInfo tests_kernel[] = {
    {"loops of every family", test_loops},
    {"inputs and outputs lie as the loops are cut", test_layouts},
    {"tails and values used twice", test_layout_of_tails},
    {"parts lie as loops nest", test_layout_positions},
    {"tiles of a layout", test_layout_tiles},
    {"cost of a broadcast addition", test_map_cost},
    {"one vector instruction takes what was measured", test_vector_timing},
    {"cost of a convolution", test_conv_cost},
    {"halo of a convolution", test_conv_halo},
    {"partial sums of a convolution", test_conv_reduction},
    {"chain of 512 cores", test_chain_formula},
    {"a 1x1 window runs over all of the tile", test_pointwise_run},
    {"halo when windows and tiles drift apart", test_strided_halo},
    {"dims that a reshape makes one", test_layout_of_merged_dims},
    {"cost of a softmax whose dim is cut", test_softmax_cost},
    {"values between nodes", test_scratch},
    {"depths and element types", test_depths_and_types},
    {"points of curves are what their splits cost, none inside another", test_curves},
    {"no split beats the curve", test_curve_is_least},
    {"more memory, no more cores", test_curve_monotone},
    {"nothing fits: the fewest bytes", test_curve_without_room},
    {"curves share cuts, in any order", test_curves_share_cuts},
    {"curve without host memory", test_curve_out_of_memory},
    {"whatever the shape rules accept", test_hostile_bodies},
    {"equal kernels have equal signatures", test_signatures},
    CU_TEST_INFO_NULL,
};

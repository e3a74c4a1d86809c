/* Kernels: their loops, and where inputs and outputs lie when loops are cut. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "kernel_plain.h"

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
      {"normalize", "2x3x4xf32", "normalize", "0", "axes=1,2 epsilon=0 center=1", "2 3 4 |"},
      {"normalize", "2x3x4xf32", "normalize", "0", "axes=1 epsilon=0 center=1", "2 3! 4 |"},
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
       "1.1,1.4,1.1,1.1 1.8,1.1,1.1,1.1 1.1,1.8,1.1,1.1"},
      {"groups divided both ways", "conv", "1x4x8x8xf32 w:8x1x3x3xf32", CONV, ATTRS("4"),
       "rows1:2 cols1:4", "1.1,2.2,1.1,1.1 2.4,1.1,1.1,1.1 1.1,2.4,1.1,1.1"},
      {"groups of rows", "conv", "1x4x8x8xf32 w:8x2x3x3xf32", CONV, ATTRS("2"), "rows1:4 cols1:2",
       "1.1,2.1,1.1,1.1 4.2,1.1,1.1,1.1 1.1,4.2,1.1,1.1"},
      {"groups torn", "conv", "1x4x8x8xf32 w:12x2x3x3xf32", CONV, ATTRS("2"), "rows1:8",
       "1.1,1.1,1.1,1.1 8.1,1.1,1.1,1.1 1.1,8.1,1.1,1.1"},
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
      {"gather", "gather", "4x8x6xf32 5xi64", "gather", "0 1", "axis=1", "rows0:2 rows1:5 cols2:3",
       "2.1,1.1,1.3 5.1 2.1,5.1,1.3"},
      {"gather cut", "gather", "4x8x6xf32 5xi64", "gather", "0 1", "axis=1", "rows0:2 cols3:4",
       "2.1,1.4,1.1 1.1 2.1,1.1,1.1"},
      {"gather batched", "gather", "4x8x6xf32 4x5xi64", "gather_batched", "0 1", "axis=1",
       "rows0:2 rows1:5 cols2:3 cols3:4", "2.1,1.4,1.3 2.1,5.1 2.1,5.1,1.3"},
      {"scatter", "scatter", "4x6xf32 5xi64 5x6xf32", "scatter", "0 1 2", "mode=add",
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

/* What a concatenation puts together along one of two dims that become one has another length
 * there: it arrives whole along it, and cut along the other as the result is. */
static void test_layout_beside_merged_dims(void) {
  body_text b;
  wafer_split split = split_text("cols1:2 rows2:64");
  body_text_begin(&b, "move", "3x1x2x32xf32 3x1x2x32xf32");
  body_text_node(&b, "concat", "0 1", "axis=1");
  body_text_node(&b, "transpose", "2", "perm=0,2,1,3");
  body_text_node(&b, "reshape", "3", "shape=3,2,64");
  b.body.anchor = 2;
  for (uint32_t i = 0; i < 2; i++) {
    wafer_layout x = wafer_kernel_input_layout(&b.body, &split, i);
    CU_ASSERT(x.rows[1] == 1 && x.cols[1] == 1 && x.cols[2] == 2);
    CU_ASSERT(x.rows[3] == 32 && x.row_stride[3] == 1);
  }
}

/* What a slice takes of both of them arrives whole if it is little; a plane that no core holds is
 * cut along the first. */
static void test_layout_of_slices_of_merged_dims(void) {
  static const struct {
    const char *input, *slice, *flat, *split;
    uint32_t cut; /* parts of dim 1 */
  } cases[] = {
      {"1x8x8x3xf32", "starts=0,1,0,0 steps=1,2,2,1 shape=1,3,3,3", "shape=9,3", "rows0:3", 1},
      {"1x224x224x3xf32", "starts=0,5,0,0 steps=1,16,16,1 shape=1,14,14,3", "shape=196,3",
       "rows0:14", 14}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    wafer_split split = split_text(cases[i].split);
    body_text_begin(&b, "move", cases[i].input);
    body_text_node(&b, "slice", "0", cases[i].slice);
    body_text_node(&b, "reshape", "1", cases[i].flat);
    b.body.anchor = 1;
    wafer_layout x = wafer_kernel_input_layout(&b.body, &split, 0);
    CU_ASSERT_EQUAL(x.rows[1] * x.cols[1], cases[i].cut);
    CU_ASSERT_EQUAL(x.rows[2] * x.cols[2], 1);
  }
}

/* Queries, keys and values of 4 x 49 places, turned: the leading dims of what a reshape divides,
 * 4 and 3, leave a core a twelfth, which is too much; so it is cut along the largest. Of fewer
 * places it is cut along the leading ones. */
static void test_layout_of_large_parts(void) {
  static const struct {
    const char *input, *divided, *split;
    uint32_t parts;
  } cases[] = {{"196x1152xf32", "shape=4,49,3,4,96", "rows4:96", 96},
               {"196x1152xf32", "shape=4,49,3,4,96", "rows0:3", 1},
               {"28x1152xf32", "shape=4,7,3,4,96", "rows4:96", 1},
               {"28x1152xf32", "shape=4,7,3,4,96", "rows0:3", 3}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    body_text b;
    wafer_split split = split_text(cases[i].split);
    body_text_begin(&b, "move", cases[i].input);
    body_text_node(&b, "reshape", "0", cases[i].divided);
    body_text_node(&b, "transpose", "1", "perm=2,3,1,0,4");
    b.body.anchor = 1;
    wafer_layout x = wafer_kernel_input_layout(&b.body, &split, 0);
    CU_ASSERT_EQUAL(x.rows[1], cases[i].parts);
  }
}

/* The same of places in two dims, which first become one: that they are one loop makes a core's
 * part no smaller than that loop's few parts do. */
static void test_layout_of_large_merged_parts(void) {
  body_text b;
  wafer_split split = split_text("rows2:96");
  body_text_begin(&b, "move", "1x192x20x20xf32");
  body_text_node(&b, "reshape", "0", "shape=192,400");
  body_text_node(&b, "transpose", "1", "perm=1,0");
  body_text_node(&b, "reshape", "2", "shape=4,100,2,96");
  body_text_node(&b, "transpose", "3", "perm=0,2,3,1");
  b.body.anchor = 3;
  wafer_layout x = wafer_kernel_input_layout(&b.body, &split, 0);
  CU_ASSERT_EQUAL(x.rows[1], 96);
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

CU_TestInfo tests_kernel_layout[] = {
    {"loops of every family", test_loops},
    {"inputs and outputs lie as the loops are cut", test_layouts},
    {"tails and values used twice", test_layout_of_tails},
    {"parts lie as loops nest", test_layout_positions},
    {"tiles of a layout", test_layout_tiles},
    {"dims that a reshape makes one", test_layout_of_merged_dims},
    {"what is concatenated along one of them", test_layout_beside_merged_dims},
    {"what a slice takes of both of them", test_layout_of_slices_of_merged_dims},
    {"dims that leave too much for a core", test_layout_of_large_parts},
    {"those of dims that are one loop", test_layout_of_large_merged_parts},
    CU_TEST_INFO_NULL,
};

/* Windows, products and reductions through the execution engine against the oracle, odd shapes. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec_bench.h"

static const struct {
  const char *name, *x, *w;
  int64_t group, strides[2], dilations[2], pads[4];
  bool bias;
} convs[] = {
    {"3x3", "1x5x9x11", "7x5x3x3", 1, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"1x1", "1x16x7x6", "24x16x1x1", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {"stride 2, one-sided pads", "1x4x10x10", "8x4x3x3", 1, {2, 2}, {1, 1}, {0, 0, 1, 1}, true},
    {"depthwise", "1x12x9x8", "12x1x3x3", 12, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"depthwise, stride 2", "1x16x11x9", "16x1x5x5", 16, {2, 2}, {1, 1}, {2, 2, 2, 2}, true},
    {"grouped", "1x8x6x6", "12x4x3x3", 2, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {"dilated", "1x3x13x13", "4x3x3x3", 1, {1, 1}, {3, 3}, {3, 3, 3, 3}, true},
    {"batch", "5x3x6x5", "4x3x2x2", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
    {"single column", "1x6x12x1", "5x6x3x1", 1, {1, 1}, {1, 1}, {1, 0, 1, 0}, true},
    {"one pixel", "1x40x1x1", "24x40x1x1", 1, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
    {"single row", "1x10x1x17", "6x10x1x3", 1, {1, 1}, {1, 1}, {0, 1, 0, 1}, false},
    {"wide pads", "1x3x4x4", "4x3x3x3", 1, {1, 1}, {1, 1}, {4, 4, 4, 4}, true},
};

static void convolves(void) {
  for (size_t i = 0; i < WAFER_COUNT(convs); i++) {
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, convs[i].x, false),
             w = bench_input(&b, WAFER_DTYPE_f32, convs[i].w, true);
    char k[16];
    snprintf(k, sizeof k, "%d", (int)bench_shape(convs[i].w).dims[0]);
    uint32_t bias = bench_input(&b, WAFER_DTYPE_f32, k, true), operands[] = {x, w, bias};
    wafer_attr attrs[] = {
        whole(WAFER_ATTR_group, convs[i].group), ints(WAFER_ATTR_strides, 2, convs[i].strides),
        ints(WAFER_ATTR_dilations, 2, convs[i].dilations), ints(WAFER_ATTR_pads, 4, convs[i].pads)};
    bench_output(&b, bench_node(&b, WAFER_OP_conv, operands, convs[i].bias ? 3 : 2, attrs, 4));
    bench_check(&b, convs[i].name);
  }
}

/* As trained: weights come at run time. */
static void convolves_by_inputs(void) {
  for (size_t i = 0; i < WAFER_COUNT(convs); i++)
    for (int transposed = 0; transposed < 2; transposed++) {
      if (transposed && convs[i].pads[0] > 3) continue; /* nothing would remain */
      bench b = bench_start();
      wafer_shape xs = bench_shape(convs[i].x), ws = bench_shape(convs[i].w);
      if (transposed) xs.dims[1] = ws.dims[0];
      char shape[32];
      snprintf(shape, sizeof shape, "%dx%dx%dx%d", (int)xs.dims[0], (int)xs.dims[1],
               (int)xs.dims[2], (int)xs.dims[3]);
      uint32_t operands[] = {bench_input(&b, WAFER_DTYPE_f32, shape, false),
                             bench_input(&b, WAFER_DTYPE_f32, convs[i].w, false)};
      wafer_attr attrs[] = {whole(WAFER_ATTR_group, convs[i].group),
                            ints(WAFER_ATTR_strides, 2, convs[i].strides),
                            ints(WAFER_ATTR_dilations, 2, convs[i].dilations),
                            ints(WAFER_ATTR_pads, 4, convs[i].pads), INTS(output_padding, 0, 0)};
      bench_output(&b, bench_node(&b, transposed ? WAFER_OP_conv_transpose : WAFER_OP_conv,
                                  operands, 2, attrs, 5));
      bench_check(&b, convs[i].name);
    }
}

/* The gradient of a convolution's weights: kernels as large as what the convolution made. */
static void convolves_large_kernels(void) {
  static const struct {
    const char *x, *w;
    int64_t group, strides[2], dilations[2], pads[4];
  } cases[] = {
      {"5x7x9x11", "6x7x9x11", 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},  /* 3x3 */
      {"4x8x10x10", "8x8x5x5", 1, {1, 1}, {2, 2}, {0, 0, 1, 1}},  /* 3x3, stride 2 */
      {"3x5x13x13", "4x5x9x9", 1, {3, 3}, {1, 1}, {1, 1, 1, 1}},  /* dilated */
      {"1x24x9x8", "12x2x9x8", 12, {1, 1}, {1, 1}, {1, 1, 1, 1}}, /* depthwise */
      {"4x6x6x6", "12x3x6x6", 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},   /* grouped */
      {"3x1x8x8", "4x1x4x4", 1, {1, 1}, {2, 2}, {0, 0, 0, 0}},    /* a rest that counts nowhere */
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    bench b = bench_start();
    uint32_t operands[] = {bench_input(&b, WAFER_DTYPE_f32, cases[i].x, false),
                           bench_input(&b, WAFER_DTYPE_f32, cases[i].w, false)};
    wafer_attr attrs[] = {
        whole(WAFER_ATTR_group, cases[i].group), ints(WAFER_ATTR_strides, 2, cases[i].strides),
        ints(WAFER_ATTR_dilations, 2, cases[i].dilations), ints(WAFER_ATTR_pads, 4, cases[i].pads)};
    uint32_t y = bench_node(&b, WAFER_OP_conv, operands, 2, attrs, 4);
    bench_output(&b, NODE(&b, transpose, (y), INTS(perm, 1, 0, 2, 3)));
    bench_output(&b, NODE(&b, relu, (y)));
    bench_check(&b, cases[i].x);
  }
}

static uint32_t small_conv(bench *b, uint32_t x, uint32_t w, uint32_t bias) {
  return NODE(b, conv, (x, w, bias), whole(WAFER_ATTR_group, 1), INTS(strides, 1, 1),
              INTS(dilations, 1, 1), INTS(pads, 1, 1, 1, 1));
}

/* conv, clip, then a residual sum and a per-channel scale in the tail. */
static void runs_tails(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x8x7x9", false),
           w = bench_input(&b, WAFER_DTYPE_f32, "8x8x3x3", true);
  uint32_t bias = bench_input(&b, WAFER_DTYPE_f32, "8", true),
           scale = bench_input(&b, WAFER_DTYPE_f32, "8x1x1", true);
  uint32_t y = small_conv(&b, x, w, bias);
  y = NODE(&b, clip, (y), real(WAFER_ATTR_min, 0.0), real(WAFER_ATTR_max, 6.0));
  uint32_t sum = NODE(&b, add, (y, x));
  uint32_t scaled = NODE(&b, mul, (scale, sum));
  bench_output(&b, NODE(&b, sigmoid, (scaled)));
  b.most_stages = 1;
  bench_check(&b, "conv with a tail");
}

/* The value before the tail is an output too; another output branches off. */
static void keeps_what_is_needed(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x8x7x9", false),
           w = bench_input(&b, WAFER_DTYPE_f32, "8x8x3x3", true);
  uint32_t bias = bench_input(&b, WAFER_DTYPE_f32, "8", true);
  uint32_t y = small_conv(&b, x, w, bias), r = NODE(&b, relu, (y)), s = NODE(&b, sub, (r, y));
  bench_output(&b, y);
  bench_output(&b, r);
  bench_output(&b, NODE(&b, exp, (s)));
  bench_output(&b, NODE(&b, less, (y, r)));
  bench_check(&b, "several outputs");
}

static void transposes_convolutions(void) {
  static const int64_t cases[][5] = {/* stride, pad before, after, output padding, group */
                                     {2, 1, 1, 1, 1},
                                     {1, 0, 0, 0, 1},
                                     {2, 0, 0, 0, 2},
                                     {3, 1, 0, 0, 1}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    const int64_t *c = cases[i];
    bench b = bench_start();
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x6x5x4", false),
             w = bench_input(&b, WAFER_DTYPE_f32, "6x4x3x3", true);
    uint32_t bias = bench_input(&b, WAFER_DTYPE_f32, c[4] == 1 ? "4" : "8", true);
    uint32_t y = NODE(&b, conv_transpose, (x, w, bias), whole(WAFER_ATTR_group, c[4]),
                      INTS(strides, c[0], c[0]), INTS(dilations, 1, 1),
                      INTS(pads, c[1], c[1], c[2], c[2]), INTS(output_padding, c[3], c[3]));
    bench_output(&b, NODE(&b, relu, (y)));
    bench_check(&b, "conv_transpose");
  }
}

static void multiplies_matrices(void) {
  static const struct {
    const char *a, *b;
    bool constant;
  } cases[] = {{"13x17", "17x9", true},    {"13x17", "17x9", false},      {"1x64", "64x40", true},
               {"1x1x24", "24x35", true},  {"2x3x5x7", "2x3x7x4", false}, {"4x5x7", "7x6", true},
               {"4x5x7", "7x6", false},    {"3x5x7", "1x7x6", true},      {"5x7", "2x7x3", false},
               {"1x40x12", "12x36", true}, {"2x1x5x7", "3x7x4", false},   {"5x1", "1x5", false},
               {"7x3", "3x1", true}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    bench b = bench_start();
    uint32_t a = bench_input(&b, WAFER_DTYPE_f32, cases[i].a, false);
    uint32_t m = bench_input(&b, WAFER_DTYPE_f32, cases[i].b, cases[i].constant);
    uint32_t y = NODE(&b, matmul, (a, m));
    bench_output(&b, NODE(&b, clip, (y), real(WAFER_ATTR_min, -1.0), real(WAFER_ATTR_max, 1.5)));
    bench_check(&b, cases[i].a);
  }
}

/* Attention: transposed views as operands. */
static void multiplies_views(void) {
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x10x48", false);
  uint32_t h = NODE(&b, reshape, (x), INTS(shape, 1, 10, 3, 16));
  uint32_t q = NODE(&b, transpose, (h), INTS(perm, 0, 2, 1, 3)),
           k = NODE(&b, transpose, (h), INTS(perm, 0, 2, 3, 1));
  uint32_t s = NODE(&b, matmul, (q, k)), p = NODE(&b, softmax, (s), whole(WAFER_ATTR_axis, 3));
  uint32_t o = NODE(&b, matmul, (p, q)), t = NODE(&b, transpose, (o), INTS(perm, 0, 2, 1, 3));
  bench_output(&b, NODE(&b, reshape, (t), INTS(shape, 1, 10, 48)));
  bench_check(&b, "attention");
}

static void pools(void) {
  static const struct {
    const char *x;
    int64_t kernel[2], strides[2], dilations[2], pads[4], ceil, include;
  } cases[] = {{"1x8x9x10", {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 0, 0},
               {"1x1x12x13", {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 0, 0},
               {"1x3x9x9", {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, 0, 1},
               {"1x3x8x8", {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1, 0},
               {"2x5x8x7", {3, 2}, {1, 2}, {2, 1}, {1, 0, 1, 1}, 0, 0},
               {"1x6x1x9", {1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, 0, 1},
               {"1x4x6x6", {6, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 0, 0}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++)
    for (int mean = 0; mean < 2; mean++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_f32, cases[i].x, false);
      wafer_attr attrs[] = {ints(WAFER_ATTR_kernel, 2, cases[i].kernel),
                            ints(WAFER_ATTR_strides, 2, cases[i].strides),
                            ints(WAFER_ATTR_dilations, 2, cases[i].dilations),
                            ints(WAFER_ATTR_pads, 4, cases[i].pads),
                            whole(WAFER_ATTR_ceil_mode, cases[i].ceil),
                            whole(WAFER_ATTR_count_include_pad, cases[i].include)};
      bench_output(
          &b, bench_node(&b, mean ? WAFER_OP_average_pool : WAFER_OP_max_pool, &x, 1, attrs, 6));
      bench_check(&b, cases[i].x);
    }
}

static void reduces(void) {
  static const wafer_op ops[] = {WAFER_OP_reduce_sum, WAFER_OP_reduce_mean, WAFER_OP_reduce_max,
                                 WAFER_OP_reduce_min, WAFER_OP_reduce_prod};
  static const int64_t axes[][4] = {{1, 3},    {1, 1},       {2, 2, 3}, {1, 0},
                                    {2, 0, 2}, {4, 0, 1, 2}, {2, 1, 3}};
  for (size_t o = 0; o < WAFER_COUNT(ops); o++)
    for (size_t i = 0; i < WAFER_COUNT(axes); i++)
      for (int keep = 0; keep < 2; keep++) {
        bench b = bench_start();
        uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "2x3x5x7", false);
        wafer_attr attrs[] = {
            ints(WAFER_ATTR_axes, (uint32_t)(axes[i][0] == 4 ? 3 : axes[i][0]), axes[i] + 1),
            whole(WAFER_ATTR_keepdims, keep)};
        bench_output(&b, bench_node(&b, ops[o], &x, 1, attrs, 2));
        bench_check_within(&b, wafer_op_get(ops[o])->name, 1e-4);
      }
  bench b = bench_start();
  uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x33x90x100", false);
  bench_output(&b, NODE(&b, reduce_mean, (x), INTS(axes, 2, 3), whole(WAFER_ATTR_keepdims, 1)));
  bench_check(&b, "a long mean");
  b = bench_start();
  x = bench_input(&b, WAFER_DTYPE_i64, "4x5", false);
  bench_output(&b, NODE(&b, arg_max, (x), whole(WAFER_ATTR_axis, 1), whole(WAFER_ATTR_keepdims, 0),
                        whole(WAFER_ATTR_last, 0)));
  b.oracle_stages = 1;
  bench_check(&b, "arg_max");
}

/* Small numbers, some that need more than 16 bits, and sums beyond 32 bits, which wrap. */
static void multiplies_integers(void) {
  static const int64_t largest[] = {255, 40000, INT32_MAX};
  for (size_t m = 0; m < WAFER_COUNT(largest); m++)
    for (int known = 0; known < 2; known++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_i32, "2x5x37", false);
      uint32_t w = bench_input(&b, WAFER_DTYPE_i32, "37x18", known);
      int32_t *data[] = {b.data[x], b.data[w]};
      for (int i = 0; i < 370; i++)
        data[0][i] =
            (int32_t)((int64_t)bench_next(&b) * largest[i < 185 ? 0 : m] / INT32_MAX) - 100;
      for (int i = 0; i < 37 * 18; i++) data[1][i] = (int32_t)(bench_next(&b) % 511) - 255;
      bench_output(&b, NODE(&b, matmul, (x, w)));
      bench_check(&b, "product of integers");
    }
}

/* Weights in fewer bits than what they are multiplied with, by small numbers and by wide ones. */
static void multiplies_narrow_weights(void) {
  static const wafer_dtype narrow[] = {WAFER_DTYPE_i8, WAFER_DTYPE_u8, WAFER_DTYPE_i16};
  for (size_t t = 0; t < WAFER_COUNT(narrow); t++)
    for (int known = 0; known < 2; known++) {
      bench b = bench_start();
      uint32_t x = bench_input(&b, WAFER_DTYPE_i32, "4x37", false);
      uint32_t w = bench_input(&b, narrow[t], "37x18", known);
      int32_t *a = b.data[x];
      for (int i = 0; i < 4 * 37; i++)
        a[i] = (int32_t)(bench_next(&b) % (i < 74 ? 511 : INT32_MAX)) - 255;
      for (int i = 0; i < 37 * 18; i++)
        wafer_element_set_i64(narrow[t], b.data[w], i, (int64_t)bench_next(&b));
      bench_output(&b, NODE(&b, matmul, (x, w)));
      bench_check(&b, wafer_dtype_name(narrow[t]));
    }
}

CU_TestInfo tests_exec[] = {
    {"convolves with weights that come at run time", convolves_by_inputs},
    {"convolves kernels larger than results", convolves_large_kernels},
    {"convolves", convolves},
    {"runs tails on convolutions", runs_tails},
    {"keeps values that are needed later", keeps_what_is_needed},
    {"transposes convolutions", transposes_convolutions},
    {"multiplies matrices", multiplies_matrices},
    {"multiplies transposed views", multiplies_views},
    {"pools", pools},
    {"reduces", reduces},
    {"multiplies integers", multiplies_integers},
    {"multiplies weights of fewer bits", multiplies_narrow_weights},
    CU_TEST_INFO_NULL,
};

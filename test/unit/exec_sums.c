/* Convolutions whose input channels are cut over cores: the values of the oracle, in the order of
 * sums that cores have. */
#include <CUnit/CUnit.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec_bench.h"
#include "runtime/tensor/vmath.h"

static const wafer_sum_order orders[] = {
    {1, 1, 2, 2}, {3, 3, 1, 1}, {1, 1, 5, 3}, {4, 2, 3, 3}, {5, 3, 9, 3},
};

static const struct {
  const char *name, *x, *w;
  int64_t spatial, strides[3], dilations[3], pads[6];
} convs[] = {
    {"3x3", "1x5x9x11", "7x5x3x3", 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {"1x1, two blocks of filters", "1x18x7x6", "24x18x1x1", 2, {1, 1}, {1, 1}, {0}},
    {"stride 2, one-sided pads", "1x4x10x10", "8x4x3x3", 2, {2, 2}, {1, 1}, {0, 0, 1, 1}},
    {"dilated", "1x3x13x13", "4x3x3x3", 2, {1, 1}, {3, 3}, {3, 3, 3, 3}},
    {"batch", "5x3x6x5", "4x3x2x2", 2, {1, 1}, {1, 1}, {0}},
    {"one pixel", "1x40x1x1", "24x40x1x1", 2, {1, 1}, {1, 1}, {0}},
    {"single row", "1x10x1x17", "6x10x1x3", 2, {1, 1}, {1, 1}, {0, 1, 0, 1}},
    {"wide pads", "1x3x4x4", "4x3x3x3", 2, {1, 1}, {1, 1}, {4, 4, 4, 4}},
    {"a sequence", "2x7x19", "16x7x3", 1, {2}, {1}, {2, 1}},
    {"three dims", "1x6x4x5x6", "3x6x2x3x2", 3, {1, 2, 1}, {1, 1, 2}, {1, 0, 1, 0, 2, 1}},
};

static void sums_parts(void) {
  for (size_t i = 0; i < WAFER_COUNT(convs); i++)
    for (size_t k = 0; k < WAFER_COUNT(orders); k++)
      for (int known = 0; known < 2; known++) {
        bench b = bench_start();
        b.sums = &orders[k];
        char filters[16];
        snprintf(filters, sizeof filters, "%d", (int)bench_shape(convs[i].w).dims[0]);
        uint32_t spatial = (uint32_t)convs[i].spatial;
        uint32_t operands[] = {bench_input(&b, WAFER_DTYPE_f32, convs[i].x, false),
                               bench_input(&b, WAFER_DTYPE_f32, convs[i].w, known),
                               bench_input(&b, WAFER_DTYPE_f32, filters, known)};
        wafer_attr attrs[] = {whole(WAFER_ATTR_group, 1),
                              ints(WAFER_ATTR_strides, spatial, convs[i].strides),
                              ints(WAFER_ATTR_dilations, spatial, convs[i].dilations),
                              ints(WAFER_ATTR_pads, 2 * spatial, convs[i].pads)};
        uint32_t y = bench_node(&b, WAFER_OP_conv, operands, known ? 3 : 2, attrs, 4);
        bench_output(&b, known ? NODE(&b, relu, (y)) : y);
        bench_check(&b, convs[i].name);
      }
}

/* From the last of `count` values to the first: each is added to what comes from behind. */
static float chain(const float *value, uint32_t count) {
  float sum = value[count - 1];
  for (uint32_t i = count - 1; i-- > 0;) sum = value[i] + sum;
  return sum;
}

static float in_groups(const float *value, uint32_t count, uint32_t group) {
  float first[16];
  uint32_t groups = 0;
  for (uint32_t i = 0; i < count; i += group)
    first[groups++] = chain(value + i, count - i < group ? count - i : group);
  return chain(first, groups);
}

enum { CHANNELS = 40, FILTERS = 24, PLACES = 15 };

static float sum_of(const wafer_sum_order *o, const float *x, const float *w, float bias) {
  uint32_t length = (CHANNELS + o->rows * o->cols - 1) / (o->rows * o->cols);
  float row[16], part[16];
  for (uint32_t r = 0; r < o->rows; r++) {
    for (uint32_t p = 0; p < o->cols; p++) {
      uint32_t from = (r * o->cols + p) * length;
      part[p] = 0;
      for (uint32_t c = from; c < from + length && c < CHANNELS; c++)
        part[p] = fmaf(x[c * PLACES], w[c], part[p]);
      if (r == 0 && p == 0) part[p] += bias;
    }
    row[r] = in_groups(part, o->cols, o->col_group);
  }
  return in_groups(row, o->rows, o->row_group);
}

/* The rounding law: fidelities differ only in the order of sums, and where cores cut a sum not even
 * in that. */
static void follows_chains(void) {
  bool fuses = !WAFER_HAS_CLONES || strcmp(vmath_instruction_set(), "base") != 0;
  for (size_t k = 0; k < WAFER_COUNT(orders); k++) {
    bench b = bench_start();
    b.sums = &orders[k];
    uint32_t x = bench_input(&b, WAFER_DTYPE_f32, "1x40x3x5", false);
    uint32_t w = bench_input(&b, WAFER_DTYPE_f32, "24x40x1x1", true);
    uint32_t bias = bench_input(&b, WAFER_DTYPE_f32, "24", true);
    uint32_t y = NODE(&b, conv, (x, w, bias), whole(WAFER_ATTR_group, 1), INTS(strides, 1, 1),
                      INTS(dilations, 1, 1), INTS(pads, 0, 0, 0, 0));
    bench_output(&b, y);
    const float *in = b.data[x], *weights = b.data[w], *biases = b.data[bias];
    float *out = b.data[y];
    for (uint32_t f = 0; f < FILTERS; f++)
      for (uint32_t i = 0; i < PLACES; i++)
        out[f * PLACES + i] = sum_of(&orders[k], in + i, weights + f * CHANNELS, biases[f]);
    bench_check_within(&b, "order of sums", fuses ? 0 : 2e-6);
  }
}

CU_TestInfo tests_exec_sums[] = {
    {"sums channels in parts", sums_parts},
    {"adds parts along chains", follows_chains},
    CU_TEST_INFO_NULL,
};

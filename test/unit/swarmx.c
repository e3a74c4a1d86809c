#include "wafer/swarmx.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"

enum { ELEMENTS = 70001 };

static float draw(uint64_t leaf, uint64_t i) {
  uint64_t x = (leaf * 1000003 + i) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29, x *= 0xbf58476d1ce4e5b9u, x ^= x >> 32;
  float f = (float)(x & 0xffffff) * 0x1p-24f - 0.5f;
  return x >> 60 ? f : f * 1e6f; /* of different sizes, so that the order shows */
}

static void make_leaf(uint64_t leaf, float *to) {
  for (uint64_t i = 0; i < ELEMENTS; i++) to[i] = draw(leaf, i);
}

static void add_leaf(wafer_swarmx *s, uint64_t leaf, float *room) {
  make_leaf(leaf, room);
  wafer_shape shapes[] = {{1, {1000}}, {2, {69001, 1}}};
  wafer_view pieces[] = {wafer_view_of(WAFER_DTYPE_f32, &shapes[0], room),
                         wafer_view_of(WAFER_DTYPE_f32, &shapes[1], room + 1000)};
  double scalars[WAFER_SWARMX_SCALARS] = {1.0 / (double)(leaf + 1), 1, 0, 0};
  CU_ASSERT_EQUAL(wafer_swarmx_add_leaf(s, leaf, pieces, 2, scalars), WAFER_OK);
}

/* Leaves of systems 0 .. n-1, each a range, summed apart; then their nodes in the order `last`
 * says. */
static void sum_over(uint32_t systems, uint64_t leaves, bool backwards, uint32_t threads,
                     float *sum, double *loss) {
  wafer_swarmx *root, *system;
  const float *got = NULL;
  const double *scalars = NULL;
  float *room = malloc(ELEMENTS * sizeof *room);
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_create(NULL, ELEMENTS, NULL, threads, &root), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_create(NULL, ELEMENTS, NULL, threads, &system), WAFER_OK);
  wafer_swarmx_begin(root, leaves);
  for (uint32_t i = 0; i < systems; i++) {
    uint32_t which = backwards ? systems - 1 - i : i;
    wafer_swarmx_begin(system, leaves);
    for (uint64_t l = leaves * which / systems; l < leaves * (which + 1) / systems; l++)
      add_leaf(system, l, room);
    const wafer_swarmx_node *nodes;
    uint32_t count = wafer_swarmx_held(system, &nodes);
    CU_ASSERT(count <= 8);
    for (uint32_t n = 0; n < count; n++)
      CU_ASSERT_EQUAL(wafer_swarmx_add(root, &nodes[backwards ? count - 1 - n : n]), WAFER_OK);
  }
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_finish(root, &got, &scalars), WAFER_OK);
  memcpy(sum, got, ELEMENTS * sizeof *sum);
  *loss = scalars[0];
  CU_ASSERT_EQUAL(scalars[1], (double)leaves);
  wafer_swarmx_destroy(root);
  wafer_swarmx_destroy(system);
  free(room);
}

static void any_partition_gives_the_same_bits(void) {
  static const uint64_t counts[] = {1, 2, 5, 8, 13};
  float *one = malloc(ELEMENTS * sizeof *one), *other = malloc(ELEMENTS * sizeof *other);
  for (size_t c = 0; c < WAFER_COUNT(counts); c++) {
    double loss, other_loss;
    sum_over(1, counts[c], false, 1, one, &loss);
    for (uint32_t systems = 1; systems <= counts[c] + 1; systems += systems > 3 ? 5 : 1)
      for (int backwards = 0; backwards < 2; backwards++) {
        sum_over(systems, counts[c], backwards, 2, other, &other_loss);
        CU_ASSERT_EQUAL(memcmp(one, other, ELEMENTS * sizeof *one), 0);
        CU_ASSERT_EQUAL(loss, other_loss);
      }
  }
  free(one);
  free(other);
}

/* ((0+1)+(2+3)) + 4, and not the order of a loop. */
static void the_tree_is_the_one_described(void) {
  float *sum = malloc(ELEMENTS * sizeof *sum);
  double loss;
  sum_over(2, 5, false, 1, sum, &loss);
  for (uint64_t i = 0; i < ELEMENTS; i += 997) {
    float want = ((draw(0, i) + draw(1, i)) + (draw(2, i) + draw(3, i))) + draw(4, i);
    CU_ASSERT_EQUAL(sum[i], want);
  }
  sum_over(2, 7, false, 1, sum, &loss);
  for (uint64_t i = 0; i < ELEMENTS; i += 997) {
    float left = (draw(0, i) + draw(1, i)) + (draw(2, i) + draw(3, i));
    CU_ASSERT_EQUAL(sum[i], left + ((draw(4, i) + draw(5, i)) + draw(6, i)));
  }
  free(sum);
}

static void pieces_of_other_types_are_widened(void) {
  wafer_swarmx *s;
  uint16_t half[3] = {0x3c00, 0xc000, 0x0001}; /* 1, -2, 2^-24 */
  float single[2] = {3, 4};
  wafer_shape shapes[] = {{1, {3}}, {1, {2}}};
  wafer_view pieces[] = {wafer_view_of(WAFER_DTYPE_f16, &shapes[0], half),
                         wafer_view_of(WAFER_DTYPE_f32, &shapes[1], single)};
  pieces[1].strides[0] = -1; /* 4, 3 */
  pieces[1].data = &single[1];
  double scalars[WAFER_SWARMX_SCALARS] = {0};
  const float *sum;
  const double *got;
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_create(NULL, 5, NULL, 1, &s), WAFER_OK);
  wafer_swarmx_begin(s, 1);
  CU_ASSERT_EQUAL(wafer_swarmx_add_leaf(s, 0, pieces, 2, scalars), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_finish(s, &sum, &got), WAFER_OK);
  static const float want[] = {1, -2, 0x1p-24f, 4, 3};
  CU_ASSERT_EQUAL(memcmp(sum, want, sizeof want), 0);
  wafer_swarmx_destroy(s);
}

static void what_is_missing_is_said(void) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_swarmx *s;
  float zeros[5] = {0};
  wafer_swarmx_node node = {.level = 1, .index = 1, .data = zeros};
  const float *sum;
  const double *scalars;
  CU_ASSERT_EQUAL_FATAL(wafer_swarmx_create(&diag, 5, NULL, 1, &s), WAFER_OK);
  wafer_swarmx_begin(s, 4);
  CU_ASSERT_EQUAL(wafer_swarmx_add(s, &node), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_swarmx_finish(s, &sum, &scalars), WAFER_INTERNAL);
  CU_ASSERT_STRING_EQUAL(last.text, "2 of 4 micro-batches came to SwarmX");
  node.index = 2;
  CU_ASSERT_EQUAL(wafer_swarmx_add(s, &node), WAFER_INTERNAL);
  CU_ASSERT_STRING_EQUAL(last.text, "a partial sum begins at micro-batch 4 of 4");
  wafer_swarmx_destroy(s);
}

CU_TestInfo tests_swarmx[] = {
    {"any partition gives the same bits", any_partition_gives_the_same_bits},
    {"the tree is the one described", the_tree_is_the_one_described},
    {"pieces of other types are widened", pieces_of_other_types_are_widened},
    {"what is missing is said", what_is_missing_is_said},
    CU_TEST_INFO_NULL,
};

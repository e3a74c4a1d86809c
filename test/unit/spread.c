/* Which elements lie on which core. */
#include "backend/exchange/spread.h"

#include <CUnit/CUnit.h>

/* Every element of the tensor is on some core, replicas hold the same, and parts are as long as the
 * layout says. */
static void test_layouts(void) {
  static const struct {
    wafer_layout layout;
    wafer_shape shape;
    uint32_t width, height, bytes;
  } cases[] = {
      {{2, {4, 1}, {1, 3}, {1, 1}, {1, 1}, {0}}, {2, {8, 9}}, 3, 4, 24},
      {{2, {4, 1}, {1, 3}, {2, 1}, {1, 2}, {0}},
       {2, {7, 8}},
       6,
       8,
       24}, /* replicas between and around */
      {{3, {2, 3, 1}, {2, 1, 1}, {3, 1, 1}, {1, 1, 1}, {0}}, {3, {5, 4, 2}}, 2, 6, 32},
      {{1, {1}, {1}, {1}, {1}, {0}}, {1, {5}}, 2, 2, 20},
      {{0}, {0}, 2, 2, 4},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_shape *shape = &cases[i].shape;
    wafer_rect rect = {3, 1, cases[i].width, cases[i].height};
    uint32_t seen[WAFER_MAX_RANK][16] = {{0}};
    spread s;
    CU_ASSERT_FATAL(
        spread_of_layout(arena, rect, &cases[i].layout, shape, WAFER_DTYPE_f32, 64, &s));
    CU_ASSERT_EQUAL(spread_bytes(&s), cases[i].bytes);
    CU_ASSERT_EQUAL(spread_bytes(&s) / 4, wafer_layout_tile(&cases[i].layout, shape));
    for (uint32_t row = 0; row < rect.height; row++)
      for (uint32_t col = 0; col < rect.width; col++) {
        spread_box box = spread_at(&s, row, col);
        for (uint32_t d = 0; d < s.rank; d++) {
          int64_t part = wafer_layout_part(&cases[i].layout, d, row, col), n = s.dim[d].buffer;
          CU_ASSERT(box.lo[d] == box.hi[d] || (box.lo[d] == part * n && box.origin[d] == part * n));
          CU_ASSERT(box.hi[d] - box.lo[d] <= n);
          for (int32_t e = box.lo[d]; e < box.hi[d]; e++) seen[d][e]++;
        }
      }
    for (uint32_t d = 0; d < s.rank; d++)
      for (int64_t e = 0; e < shape->dims[d]; e++) CU_ASSERT(seen[d][e] > 0);
    if (s.rank) CU_ASSERT_EQUAL(s.dim[s.rank - 1].stride, 4);
    wafer_arena_destroy(arena);
  }
}

CU_TestInfo tests_spread[] = {{"layouts", test_layouts}, CU_TEST_INFO_NULL};

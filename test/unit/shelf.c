/* passes/size/shelf.c: rectangles on shelves. */
#include "passes/size/shelf.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

static wafer_machine machine_of(uint32_t width, uint32_t height) {
  return (wafer_machine){.width = width + 3, .height = height + 2, .usable = {2, 1, width, height}};
}

/* Rectangles inside the usable ones, apart from each other and from dead cores. */
static void check_legal(const wafer_machine *m, uint32_t count, const shelf_place *places) {
  for (uint32_t i = 0; i < count; i++) {
    wafer_rect r = places[i].rect;
    CU_ASSERT(r.x >= m->usable.x && r.x + r.width <= m->usable.x + m->usable.width);
    CU_ASSERT(r.y >= m->usable.y && r.y + r.height <= m->usable.y + m->usable.height);
    for (uint32_t k = 0; k < i; k++) CU_ASSERT_FALSE(wafer_rect_overlaps(r, places[k].rect));
    for (uint32_t d = 0; d < m->dead_count; d++)
      CU_ASSERT_FALSE(wafer_rect_overlaps(r, (wafer_rect){m->dead[d].x, m->dead[d].y, 1, 1}));
  }
}

static bool pack(const wafer_machine *m, uint32_t count, const shelf_shapes *kind,
                 shelf_place *places) {
  wafer_arena *arena = wafer_arena_create();
  uint32_t *kinds = WAFER_NEW(arena, uint32_t, count);
  shelf_problem problem = {
      .machine = m, .kind_count = 1, .count = count, .kinds = kind, .kind = kinds};
  bool fits = false;
  CU_ASSERT_EQUAL(shelf_pack(NULL, arena, &problem, places, &fits), WAFER_OK);
  if (fits) check_legal(m, count, places);
  wafer_arena_destroy(arena);
  return fits;
}

static void pareto(void) {
  shelf_point points[] = {{4, 2, 0}, {2, 4, 1}, {4, 4, 2}, {2, 5, 3}, {8, 1, 4}, {4, 2, 5}};
  CU_ASSERT_EQUAL_FATAL(shelf_pareto(6, points), 3);
  CU_ASSERT_EQUAL(points[0].index, 1);
  CU_ASSERT_EQUAL(points[1].index, 0);
  CU_ASSERT_EQUAL(points[2].index, 4);
}

/* Exactly as many as fit, and not one more. */
static void exact(void) {
  wafer_machine m = machine_of(12, 8);
  shelf_point square[] = {{4, 4, 7}};
  shelf_shapes kind = {1, square};
  shelf_place places[7];
  CU_ASSERT_TRUE(pack(&m, 6, &kind, places));
  CU_ASSERT_EQUAL(places[5].index, 7);
  CU_ASSERT_FALSE(pack(&m, 7, &kind, places));
}

/* The second shelf runs back: neighbours in the order are neighbours on the wafer. */
static void snake(void) {
  wafer_machine m = machine_of(12, 8);
  shelf_point square[] = {{4, 4, 0}};
  shelf_shapes kind = {1, square};
  shelf_place places[6];
  CU_ASSERT_TRUE_FATAL(pack(&m, 6, &kind, places));
  CU_ASSERT_EQUAL(places[0].rect.x, m.usable.x);
  CU_ASSERT_EQUAL(places[2].rect.x, places[3].rect.x);
  CU_ASSERT_EQUAL(places[5].rect.x, m.usable.x);
}

/* 1 x 6 is too high for the wafer, so 5 x 2 it is. */
static void shapes_are_chosen(void) {
  wafer_machine m = machine_of(10, 2);
  shelf_point points[] = {{1, 6, 0}, {5, 2, 1}};
  shelf_shapes kind = {2, points};
  shelf_place places[2];
  CU_ASSERT_TRUE_FATAL(pack(&m, 2, &kind, places));
  CU_ASSERT_EQUAL(places[0].index, 1);
  CU_ASSERT_FALSE(pack(&m, 3, &kind, places));
}

static void dead_cores(void) {
  static const wafer_core_at dead[] = {{5, 2}, {9, 6}};
  wafer_machine m = machine_of(12, 8);
  shelf_point square[] = {{3, 3, 0}};
  shelf_shapes kind = {1, square};
  shelf_place places[6];
  m.dead = dead;
  m.dead_count = 2;
  CU_ASSERT_TRUE(pack(&m, 5, &kind, places));
  m.dead_count = 0;
  CU_ASSERT_TRUE(pack(&m, 6, &kind, places));
}

/* Many items on a real wafer: heights are thinned, the result stays legal. */
static void many(void) {
  enum { N = 3000 };
  static shelf_place places[N];
  static shelf_point points[200];
  wafer_machine m = machine_of(743, 992);
  for (uint32_t i = 0; i < 200; i++) points[i] = (shelf_point){i + 1, 200 / (i + 1) + 200 - i, i};
  shelf_shapes kind = {shelf_pareto(200, points), points};
  CU_ASSERT_TRUE(pack(&m, 500, &kind, places));
  CU_ASSERT_FALSE(pack(&m, N, &kind, places));
}

/* What stands already and what is reserved is stepped over, to the right and down. */
static void around_what_stands(void) {
  wafer_machine m = machine_of(12, 8);
  static const wafer_rect fixed[] = {{2, 1, 4, 4}}, reserved[] = {{10, 5, 4, 1}};
  shelf_point square[] = {{4, 4, 0}};
  shelf_shapes shapes = {1, square};
  uint32_t kind[5] = {0};
  shelf_place places[5];
  bool fits;
  m.reserved = reserved;
  m.reserved_count = 1;
  shelf_problem problem = {.machine = &m,
                           .kind_count = 1,
                           .count = 4,
                           .kinds = &shapes,
                           .kind = kind,
                           .fixed_count = 1,
                           .fixed = fixed};
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_EQUAL(shelf_pack(NULL, arena, &problem, places, &fits), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(fits);
  check_legal(&m, 4, places);
  for (uint32_t i = 0; i < 4; i++) {
    CU_ASSERT_FALSE(wafer_rect_overlaps(places[i].rect, fixed[0]));
    CU_ASSERT_FALSE(wafer_rect_overlaps(places[i].rect, reserved[0]));
  }
  problem.count = 5;
  CU_ASSERT_EQUAL(shelf_pack(NULL, arena, &problem, places, &fits), WAFER_OK);
  CU_ASSERT_FALSE(fits);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_shelf[] = {
    {"points that others cover are dropped", pareto},
    {"as many as fit and not one more", exact},
    {"shelves run to and fro", snake},
    {"shapes fit their shelf", shapes_are_chosen},
    {"dead cores are stepped over", dead_cores},
    {"many items", many},
    {"packs around what stands", around_what_stands},
    CU_TEST_INFO_NULL,
};

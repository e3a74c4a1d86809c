/* passes/fabric.c: routes between rectangles, colours along them. */
#include "passes/fabric.h"

#include <CUnit/CUnit.h>

typedef struct fixture {
  wafer_machine machine;
  wafer_arena *arena;
  fabric *fabric;
} fixture;

static void setup(fixture *f, uint32_t colors, uint32_t dead_count, const wafer_core_at *dead) {
  f->machine = (wafer_machine){
      .width = 32, .height = 20, .colors = colors, .dead_count = dead_count, .dead = dead};
  f->arena = wafer_arena_create();
  f->fabric = fabric_create(f->arena, &f->machine);
  CU_ASSERT_PTR_NOT_NULL_FATAL(f->fabric);
}

static void teardown(fixture *f) {
  wafer_arena_destroy(f->arena);
}

static wafer_holding on(uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
  return (wafer_holding){.where = WAFER_AT_wafer, .rect = {x, y, width, height}};
}

static bool inside(wafer_rect r, uint32_t x, uint32_t y) {
  return x >= r.x && x < r.x + r.width && y >= r.y && y < r.y + r.height;
}

/* Every route is straight, joined, on the wafer, and leads from one place to the other. */
static void check_paths(const fixture *f, wafer_holding from, wafer_holding to, uint32_t least) {
  fabric_path paths[FABRIC_MAX_PATHS];
  uint32_t count = fabric_paths(f->fabric, &from, &to, paths);
  CU_ASSERT(count >= least);
  for (uint32_t p = 0; p < count; p++) {
    const wafer_route_segment *first = &paths[p].at[0], *last = &paths[p].at[paths[p].count - 1];
    for (uint32_t i = 0; i < paths[p].count; i++) {
      const wafer_route_segment *s = &paths[p].at[i];
      CU_ASSERT(s->x0 == s->x1 || s->y0 == s->y1);
      CU_ASSERT(s->x0 < f->machine.width && s->x1 < f->machine.width);
      CU_ASSERT(s->y0 < f->machine.height && s->y1 < f->machine.height);
      if (i) CU_ASSERT(s[-1].x1 == s->x0 && s[-1].y1 == s->y0);
    }
    bool starts_at_border = first->x0 == 0 || first->x0 == 31 || first->y0 == 0 || first->y0 == 19;
    bool ends_at_border = last->x1 == 0 || last->x1 == 31 || last->y1 == 0 || last->y1 == 19;
    CU_ASSERT(from.where == WAFER_AT_wafer ? inside(from.rect, first->x0, first->y0)
                                           : starts_at_border);
    CU_ASSERT(to.where == WAFER_AT_wafer ? inside(to.rect, last->x1, last->y1) : ends_at_border);
  }
}

static void routes_are_sound(void) {
  fixture f;
  wafer_holding edge = {.where = WAFER_AT_edge};
  setup(&f, 24, 0, NULL);
  check_paths(&f, edge, on(3, 4, 5, 6), 12);
  check_paths(&f, on(3, 4, 5, 6), edge, 12);
  check_paths(&f, on(3, 4, 5, 6), on(8, 2, 4, 9), 6);   /* side by side */
  check_paths(&f, on(20, 4, 5, 6), on(8, 12, 4, 4), 6); /* across */
  check_paths(&f, on(3, 4, 5, 6), on(4, 10, 2, 3), 2);  /* on top of each other */
  check_paths(&f, on(0, 0, 32, 3), on(0, 3, 32, 2), 5); /* no way round */
  check_paths(&f, on(0, 0, 8, 8), on(0, 0, 3, 12), 8);  /* one after the other on a corner */
  check_paths(&f, on(7, 7, 1, 1), on(8, 7, 1, 1), 1);
  teardown(&f);
}

static void dead_cores_are_avoided(void) {
  static const wafer_core_at wall[] = {{6, 4}, {6, 6}};
  fixture f;
  fabric_path paths[FABRIC_MAX_PATHS];
  setup(&f, 24, 2, wall);
  wafer_holding from = on(2, 4, 3, 3), to = on(9, 4, 3, 3);
  uint32_t count = fabric_paths(f.fabric, &from, &to, paths);
  CU_ASSERT_FATAL(count > 0);
  CU_ASSERT_EQUAL(paths[0].count, 1);
  CU_ASSERT_EQUAL(paths[0].at[0].y0, 5); /* the only row that is whole */
  teardown(&f);
}

/* A wall with one gap at the top, and another behind it with one at the bottom: no simple way. */
static void detours_lead_round(void) {
  wafer_core_at walls[38];
  uint32_t n = 0;
  for (uint32_t y = 0; y < 20; y++) {
    if (y > 0) walls[n++] = (wafer_core_at){6, y};
    if (y < 19) walls[n++] = (wafer_core_at){8, y};
  }
  fixture f;
  fabric_path paths[FABRIC_MAX_PATHS];
  wafer_route_segment way[FABRIC_MAX_DETOUR];
  wafer_core_at clash, busy[2];
  uint32_t count, colors[2];
  setup(&f, 24, n, walls);
  wafer_holding from = on(2, 9, 3, 3), to = on(12, 9, 3, 3);
  CU_ASSERT_EQUAL(fabric_paths(f.fabric, &from, &to, paths), 0);
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, FABRIC_MAX_COLORS, way, &count), WAFER_OK);
  CU_ASSERT_FATAL(count > 0);
  CU_ASSERT_EQUAL(fabric_hops(count, way), 2 + 9 + 2 + 19 + 4 + 8); /* up, down, up again */
  CU_ASSERT_TRUE(inside(from.rect, way[0].x0, way[0].y0));
  CU_ASSERT_TRUE(inside(to.rect, way[count - 1].x1, way[count - 1].y1));
  for (uint32_t i = 1; i < count; i++)
    CU_ASSERT(way[i].x0 == way[i - 1].x1 && way[i].y0 == way[i - 1].y1);
  CU_ASSERT_TRUE(fabric_claim(f.fabric, count, way, 0, &clash));
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, 0, way, &count), WAFER_OK);
  CU_ASSERT_EQUAL(count, 0); /* the colour is taken in both gaps */
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, 1, way, &count), WAFER_OK);
  CU_ASSERT(count > 0);
  wafer_route_segment across = {0, 0, 7, 0};
  CU_ASSERT_TRUE(fabric_claim(f.fabric, 1, &across, 5, &clash));
  CU_ASSERT_EQUAL(fabric_busiest(f.fabric, 2, busy, colors), 2);
  CU_ASSERT(colors[0] == 2 && colors[1] == 2 && busy[0].y == 0 && busy[1].y == 0);
  teardown(&f);
}

/* One row, two colours: two streams, not three; a third that comes from the same side may take
 * turns. */
static void colors_run_out(void) {
  fixture f;
  uint32_t chosen, color;
  wafer_core_at where;
  fabric_path row = {1, {{0, 5, 31, 5}}}, back = {1, {{31, 5, 0, 5}}}, other = {1, {{0, 6, 31, 6}}};
  setup(&f, 2, 0, NULL);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 1);
  CU_ASSERT_FALSE(fabric_assign(f.fabric, 1, &back, &chosen, &color, &where));
  CU_ASSERT_EQUAL(where.y, 5);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, &chosen, &color, &where));
  fabric_path both[] = {row, other};
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 2, both, &chosen, &color, &where));
  CU_ASSERT_EQUAL(chosen, 1);
  CU_ASSERT_EQUAL(color, 0);
  fabric_clear(f.fabric);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &back, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  teardown(&f);
}

static void claims_clash(void) {
  fixture f;
  wafer_core_at where = {0};
  wafer_route_segment row = {0, 5, 9, 5}, column = {4, 0, 4, 9};
  setup(&f, 24, 0, NULL);
  CU_ASSERT_TRUE(fabric_claim(f.fabric, 1, &row, 3, &where));
  CU_ASSERT_TRUE(fabric_claim(f.fabric, 1, &column, 4, &where));
  CU_ASSERT_FALSE(fabric_claim(f.fabric, 1, &column, 3, &where));
  CU_ASSERT_EQUAL(where.x, 4);
  CU_ASSERT_EQUAL(where.y, 5);
  teardown(&f);
}

CU_TestInfo tests_fabric[] = {
    {"routes lead from place to place", routes_are_sound},
    {"dead cores are avoided", dead_cores_are_avoided},
    {"detours lead round", detours_lead_round},
    {"colours run out", colors_run_out},
    {"a colour comes from one side", claims_clash},
    CU_TEST_INFO_NULL,
};

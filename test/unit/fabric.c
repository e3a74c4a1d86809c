/* passes/route/fabric.c: routes between rectangles, colours along them. */
#include "passes/route/fabric.h"

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

static fabric_end copies(uint32_t replicas, uint32_t x, uint32_t y, uint32_t width,
                         uint32_t height) {
  return (fabric_end){{.where = WAFER_AT_wafer, .rect = {x, y, width, height}}, replicas, width};
}

static fabric_end on(uint32_t x, uint32_t y, uint32_t width, uint32_t height) {
  return copies(1, x, y, width, height);
}

static bool inside(wafer_rect r, uint32_t x, uint32_t y) {
  return x >= r.x && x < r.x + r.width && y >= r.y && y < r.y + r.height;
}

static bool passes(const fabric_path *path, wafer_rect r) {
  for (uint32_t i = 0; i < path->count; i++) {
    const wafer_route_segment *s = &path->at[i];
    uint32_t x = s->x0 < s->x1 ? s->x0 : s->x1, y = s->y0 < s->y1 ? s->y0 : s->y1;
    wafer_rect run = {x, y, s->x0 + s->x1 - 2 * x + 1, s->y0 + s->y1 - 2 * y + 1};
    if (wafer_rect_overlaps(run, r)) return true;
  }
  return false;
}

static void check_replicas(const fabric_path *path, const fabric_end *end) {
  wafer_rect r = end->at.rect;
  for (uint32_t i = 0; end->at.where == WAFER_AT_wafer && i < end->replicas; i++, r.x += r.width)
    CU_ASSERT(passes(path, r));
}

/* The whole route brings its colour to each router from one side. */
static void check_claim(fixture *f, const fabric_path *path) {
  wafer_core_at clash;
  CU_ASSERT_TRUE(fabric_claim(f->fabric, path->count, path->at, 0, &clash));
  fabric_clear(f->fabric);
}

/* Every route is straight, joined, on the wafer, leads from one place to the other and passes their
 * replicas. */
static void check_paths(fixture *f, fabric_end from, fabric_end to, uint32_t least) {
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
    wafer_rect a = from.at.rect, b = to.at.rect;
    a.width *= from.replicas;
    b.width *= to.replicas;
    CU_ASSERT(from.at.where == WAFER_AT_wafer ? inside(a, first->x0, first->y0) : starts_at_border);
    CU_ASSERT(to.at.where == WAFER_AT_wafer ? inside(b, last->x1, last->y1) : ends_at_border);
    check_replicas(&paths[p], &from);
    check_replicas(&paths[p], &to);
    check_claim(f, &paths[p]);
  }
}

static void routes_are_sound(void) {
  fixture f;
  fabric_end edge = {{.where = WAFER_AT_edge}, 1, 0};
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

/* A route that ended at the first copy left the others without a way. */
static void replicas_are_passed(void) {
  fixture f;
  fabric_end edge = {{.where = WAFER_AT_edge}, 1, 0};
  setup(&f, 24, 0, NULL);
  check_paths(&f, edge, copies(3, 3, 4, 2, 6), 12);
  check_paths(&f, copies(3, 20, 4, 2, 6), edge, 12);
  check_paths(&f, copies(2, 3, 4, 2, 6), copies(3, 8, 2, 4, 9), 6);   /* side by side */
  check_paths(&f, copies(4, 16, 4, 3, 6), copies(2, 8, 12, 2, 4), 6); /* across */
  check_paths(&f, copies(4, 2, 4, 5, 4), copies(3, 9, 10, 2, 3), 2);  /* below the middle */
  check_paths(&f, copies(3, 9, 2, 2, 3), copies(5, 3, 10, 4, 4), 2);
  check_paths(&f, copies(8, 0, 0, 4, 3), copies(4, 0, 3, 8, 2), 4); /* no way round */
  teardown(&f);
}

static void dead_cores_are_avoided(void) {
  static const wafer_core_at wall[] = {{6, 4}, {6, 6}};
  fixture f;
  fabric_path paths[FABRIC_MAX_PATHS];
  setup(&f, 24, 2, wall);
  fabric_end from = on(2, 4, 3, 3), to = on(9, 4, 3, 3);
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
  fabric_end from = on(2, 9, 3, 3), to = on(12, 9, 3, 3);
  CU_ASSERT_EQUAL(fabric_paths(f.fabric, &from, &to, paths), 0);
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, FABRIC_MAX_COLORS, way, &count), WAFER_OK);
  CU_ASSERT_FATAL(count > 0);
  CU_ASSERT_EQUAL(wafer_route_hops(count, way), 2 + 9 + 2 + 19 + 4 + 8); /* up, down, up again */
  CU_ASSERT_TRUE(inside(from.at.rect, way[0].x0, way[0].y0));
  CU_ASSERT_TRUE(inside(to.at.rect, way[count - 1].x1, way[count - 1].y1));
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

/* Two routers above the middle of four copies: the way there leaves at an end of them. */
static void detours_pass_replicas(void) {
  fixture f;
  fabric_path way = {0};
  wafer_route_segment route[FABRIC_MAX_DETOUR];
  wafer_core_at clash;
  uint32_t count;
  fabric_end from = copies(4, 4, 10, 5, 4), to = on(13, 3, 2, 2);
  setup(&f, 24, 0, NULL);
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, 2, route, &count), WAFER_OK);
  CU_ASSERT_FATAL(count > 0 && count <= FABRIC_MAX_SEGMENTS);
  way.count = count;
  for (uint32_t i = 0; i < count; i++) way.at[i] = route[i];
  check_replicas(&way, &from);
  check_replicas(&way, &to);
  CU_ASSERT_TRUE(fabric_claim(f.fabric, count, route, 2, &clash));
  CU_ASSERT_EQUAL(fabric_detour(f.fabric, &from, &to, 2, route, &count), WAFER_OK);
  if (count) CU_ASSERT_TRUE(fabric_claim(f.fabric, count, route, 2, &clash));
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
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 1);
  CU_ASSERT_FALSE(fabric_assign(f.fabric, 1, &back, 0, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(where.y, 5);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 0, &chosen, &color, &where));
  fabric_path both[] = {row, other};
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 2, both, 0, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(chosen, 1);
  CU_ASSERT_EQUAL(color, 0);
  fabric_clear(f.fabric);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &back, 0, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  teardown(&f);
}

/* What other streams have at a core is taken last. */
static void colors_are_avoided(void) {
  fixture f;
  uint32_t chosen, color;
  wafer_core_at where;
  fabric_path row = {1, {{0, 5, 31, 5}}};
  setup(&f, 2, 0, NULL);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 1u << 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 1);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 1u << 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  teardown(&f);
}

/* Streams of one value take a colour of each other's first, where they enter every router that they
 * share from the same side. */
static void colors_are_joined(void) {
  fixture f;
  uint32_t chosen, color;
  wafer_core_at where;
  fabric_path row = {1, {{0, 5, 20, 5}}}, farther = {2, {{0, 5, 31, 5}, {31, 5, 31, 9}}},
              back = {1, {{31, 5, 0, 5}}};
  setup(&f, 4, 0, NULL);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &row, 0, 1u << 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 1);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &farther, 1u << 1, 1u << 1, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 1);
  CU_ASSERT_TRUE(fabric_assign(f.fabric, 1, &back, 1u << 1, 0, &chosen, &color, &where));
  CU_ASSERT_EQUAL(color, 0);
  teardown(&f);
}

/* What sizing expects of a way is what a stream gets while all colours are free. Between rectangles
 * that share neither rows nor columns it was the way between their corners: a stream of 617 hops
 * was thought to have 113, and had no room for the samples on their way. */
static void likely_hops_are_those_of_routes(void) {
  const struct {
    fabric_end from, to;
  } ways[] = {{on(3, 4, 5, 6), on(8, 2, 4, 9)},
              {on(20, 1, 5, 6), on(8, 12, 4, 4)},
              {on(20, 1, 3, 10), on(2, 12, 2, 7)},
              {on(3, 4, 5, 6), on(4, 10, 2, 3)},
              {copies(2, 3, 4, 2, 6), on(14, 12, 4, 4)},
              {on(2, 2, 12, 3), on(16, 8, 12, 3)},
              {on(2, 2, 3, 3), {{.where = WAFER_AT_edge}, 1, 0}}};
  for (size_t i = 0; i < WAFER_COUNT(ways); i++) {
    fixture f;
    fabric_path paths[FABRIC_MAX_PATHS];
    uint32_t chosen, color;
    wafer_core_at where;
    setup(&f, 24, 0, NULL);
    uint32_t count = fabric_paths(f.fabric, &ways[i].from, &ways[i].to, paths);
    CU_ASSERT_FATAL(count > 0);
    CU_ASSERT_TRUE(fabric_assign(f.fabric, count, paths, 0, 0, &chosen, &color, &where));
    CU_ASSERT_EQUAL(fabric_likely_hops(&f.machine, &ways[i].from, &ways[i].to),
                    wafer_route_hops(paths[chosen].count, paths[chosen].at));
    teardown(&f);
  }
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
    {"routes pass all replicas", replicas_are_passed},
    {"dead cores are avoided", dead_cores_are_avoided},
    {"detours lead round", detours_lead_round},
    {"detours pass all replicas", detours_pass_replicas},
    {"colours run out", colors_run_out},
    {"colours of the ends are avoided", colors_are_avoided},
    {"colours of a value are joined", colors_are_joined},
    {"likely hops are those of routes", likely_hops_are_those_of_routes},
    {"a colour comes from one side", claims_clash},
    CU_TEST_INFO_NULL,
};

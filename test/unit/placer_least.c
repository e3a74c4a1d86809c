/* passes/placer/placer_least.c, and what a search makes of it: layouts of least time. */
#include "wafer/placer.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "passes/placer/placer_search.h"

/* A whole of kernels that have one shape each. */
typedef struct whole {
  wafer_placer_problem p;
  placer in;
  uint64_t level;
  uint32_t key;
  curve_cache cache;
  tree tree;
} whole;

static void make_whole(whole *w, uint32_t side, uint32_t count, const wafer_placer_shapes *kinds,
                       const uint32_t *kind, wafer_arena *arena) {
  *w = (whole){.level = 1};
  w->p = (wafer_placer_problem){side, side, count, count, 0, kinds, kind, NULL, .time_weight = 1};
  w->in = (placer){.p = &w->p, .reach_w = side, .reach_h = side};
  w->in.levels = &w->level, w->in.level_count = 1;
  w->in.keys = &w->key, w->in.key_count = 1;
  CU_ASSERT_FATAL(curve_cache_init(&w->cache, &w->in, arena) &&
                  tree_init(&w->tree, &w->in, &w->cache, arena));
}

static void lay_out(tree *t, uint32_t side) {
  t->is.root_width = side;
  CU_ASSERT_FATAL(tree_build(t));
  tree_outline(t);
  CU_ASSERT_EQUAL(t->state.over, 0);
  tree_decode(t);
}

/* Five rectangles that fill the wafer in one way alone, each time the rest cut off whole; the order
 * says which. A shelf holds none of it. */
static void least_time(void) {
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape s[] = {
      {3, 10, 1, 0}, {7, 3, 1, 0}, {2, 7, 1, 0}, {5, 2, 1, 0}, {5, 5, 1, 0}};
  static const uint32_t order[5] = {0, 1, 2, 3, 4};
  wafer_placer_shapes kinds[5];
  whole w;
  uint32_t high = 1;
  for (uint32_t i = 0; i < 5; i++) kinds[i] = (wafer_placer_shapes){1, &s[i]};
  make_whole(&w, 10, 5, kinds, order, arena);
  least_work work = {.tables = 0};
  CU_ASSERT(!tree_least(&w.tree, order, 0, 0, &work, &high)); /* no work, no layout */
  work = (least_work){8, 1e-9};
  CU_ASSERT(!tree_least(&w.tree, order, 0, 0, &work, &high)); /* no time left */
  CU_ASSERT_EQUAL(work.tables, 8);
  work.until = 0;
  CU_ASSERT_FATAL(tree_least(&w.tree, order, 0, 0, &work, &high));
  CU_ASSERT_EQUAL(high, 0);
  CU_ASSERT_EQUAL(work.tables, 7);
  high = 1;
  CU_ASSERT_FATAL(tree_least(&w.tree, order, 0, high - 1, &work, &high));
  CU_ASSERT_EQUAL(high, 0);
  lay_out(&w.tree, 10);
  w.p.width = 9;
  high = 1;
  CU_ASSERT(!tree_least(&w.tree, order, 0, 0, &work, &high));
  wafer_arena_destroy(arena);
}

/* A rectangle cut in two at random, again and again, into `count` leaves, and their order. */
static void shatter(wafer_placer_shape *at, uint32_t count, uint32_t w, uint32_t h,
                    uint64_t *state) {
  uint32_t first = 1, side = w > h ? w : h;
  if (count == 1) {
    *at = (wafer_placer_shape){w, h, 1, 0};
    return;
  }
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  first += (uint32_t)(*state >> 33) % (count - 1);
  uint32_t part = side * first / count ? side * first / count : 1;
  shatter(at, first, w > h ? part : w, w > h ? h : part, state);
  shatter(at + first, count - first, w > h ? w - part : w, w > h ? h : h - part, state);
}

/* Each kernel is of a kind that has one shape. */
static void kinds_of_their_own(uint32_t count, const wafer_placer_shape *s,
                               wafer_placer_shapes *kinds, uint32_t *kind) {
  for (uint32_t i = 0; i < count; i++) {
    kinds[i] = (wafer_placer_shapes){1, &s[i]};
    kind[i] = i;
  }
}

/* What was one whole is put together again, whatever blocks of intervals its cuts lie in. */
static void least_time_of_many(void) {
  enum { MANY = 45, SIDE = 64 };
  wafer_placer_shape s[MANY];
  wafer_placer_shapes kinds[MANY];
  uint32_t kind[MANY];
  uint64_t state = 1;
  for (uint32_t n = 2; n <= MANY; n++) {
    wafer_arena *arena = wafer_arena_create();
    whole w;
    uint32_t high = 1;
    shatter(s, n, SIDE, SIDE, &state);
    kinds_of_their_own(n, s, kinds, kind);
    make_whole(&w, SIDE, n, kinds, kind, arena);
    CU_ASSERT_FATAL(tree_least(&w.tree, kind, 0, 0, &(least_work){.tables = 2}, &high));
    lay_out(&w.tree, SIDE);
    wafer_arena_destroy(arena);
  }
}

/* Two slats beside each other fit from time 172 on: seven tables know it of 200 times to within
 * two, and a search from the bound up would not come near. */
static void least_time_by_few(void) {
  enum { TIMES = 200, SIDE = 256 };
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shape s[TIMES];
  uint64_t levels[TIMES];
  uint32_t keys[TIMES], kind[2] = {0, 0}, high = TIMES;
  for (uint32_t i = 0; i < TIMES; i++) {
    s[i] = (wafer_placer_shape){SIDE / 2 + 172 - (i + 1), 1, i + 1, 0};
    levels[i] = i + 1, keys[i] = i;
  }
  wafer_placer_shapes kinds[] = {{TIMES, s}};
  wafer_placer_problem p = {SIDE, 1, 1, 2, 0, kinds, kind, NULL, .time_weight = 1};
  placer in = {.p = &p, .reach_w = SIDE, .reach_h = 1, .levels = levels, .level_count = TIMES};
  curve_cache cache;
  tree t;
  in.keys = keys, in.key_count = TIMES;
  CU_ASSERT_FATAL(curve_cache_init(&cache, &in, arena) && tree_init(&t, &in, &cache, arena));
  least_work work = {.tables = PLACER_FEW_TABLES - 1};
  CU_ASSERT_FATAL(tree_least(&t, (const uint32_t[]){0, 1}, 0, 0, &work, &high));
  CU_ASSERT(levels[keys[high]] >= 172 && levels[keys[high]] <= 173);
  wafer_arena_destroy(arena);
}

/* A table of many kernels takes more than the share of a round, and is made: annealing does
 * not put a whole together again. */
static void least_time_is_asked(void) {
  enum { MANY = 100, SIDE = 64 };
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shape s[MANY];
  wafer_placer_shapes kinds[MANY];
  uint32_t kind[MANY];
  uint64_t state = 2;
  shatter(s, MANY, SIDE, SIDE, &state);
  kinds_of_their_own(MANY, s, kinds, kind);
  wafer_placer_problem p = {SIDE, SIDE, MANY, MANY, 0, kinds, kind, NULL, .time_weight = 1};
  wafer_placer_options o = {.seed = 1, .moves = 1000};
  wafer_placement got;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
  CU_ASSERT_EQUAL(got.area, SIDE * SIDE);
  wafer_arena_destroy(arena);
}

/* Rectangles that fill a square, and each of them the kernels of a run. */
static void shatter_runs(wafer_placer_shape *at, uint32_t runs, uint32_t run, uint32_t side,
                         uint64_t *state) {
  wafer_placer_shape outer[16];
  shatter(outer, runs, side, side, state);
  for (uint32_t i = 0; i < runs; i++)
    shatter(at + i * run, run, outer[i].width, outer[i].height, state);
}

/* Each run has a rectangle to itself: its kernels fill what is around them. */
static void least_time_in_runs(void) {
  enum { RUNS = 7, RUN = 6, MANY = RUNS * RUN, SIDE = 64 };
  wafer_placer_shape s[MANY];
  wafer_placer_shapes kinds[MANY];
  uint32_t kind[MANY];
  uint64_t state = 3;
  for (uint32_t n = 0; n < 20; n++) {
    wafer_arena *arena = wafer_arena_create();
    whole w;
    uint32_t high = 1;
    shatter_runs(s, RUNS, RUN, SIDE, &state);
    kinds_of_their_own(MANY, s, kinds, kind);
    make_whole(&w, SIDE, MANY, kinds, kind, arena);
    CU_ASSERT_FATAL(tree_least(&w.tree, kind, RUN, 0, &(least_work){.tables = 2}, &high));
    lay_out(&w.tree, SIDE);
    for (uint32_t i = 0; i < MANY; i += RUN) {
      uint32_t low_x = SIDE, low_y = SIDE, high_x = 0, high_y = 0, area = 0;
      for (uint32_t k = i; k < i + RUN; k++) {
        const box b = w.tree.boxes[k];
        low_x = b.x < low_x ? b.x : low_x, low_y = b.y < low_y ? b.y : low_y;
        high_x = b.x + b.w > high_x ? b.x + b.w : high_x;
        high_y = b.y + b.h > high_y ? b.y + b.h : high_y;
        area += b.w * b.h;
      }
      CU_ASSERT_EQUAL((high_x - low_x) * (high_y - low_y), area);
    }
    wafer_arena_destroy(arena);
  }
}

/* Of 600 kernels on 400 x 400 cores one table would take more memory than there may be. */
static void least_time_of_hundreds(void) {
  enum { RUNS = 10, RUN = 60, MANY = RUNS * RUN, SIDE = 400 };
  static wafer_placer_shape s[MANY];
  static wafer_placer_shapes kinds[MANY];
  static uint32_t kind[MANY];
  wafer_arena *arena = wafer_arena_create();
  whole w;
  uint64_t state = 4;
  uint32_t high = 1;
  shatter_runs(s, RUNS, RUN, SIDE, &state);
  kinds_of_their_own(MANY, s, kinds, kind);
  make_whole(&w, SIDE, MANY, kinds, kind, arena);
  CU_ASSERT(tree_least_moves(&w.tree, 0) < (uint64_t)MANY * MANY * MANY * 2 * SIDE >> 20);
  CU_ASSERT_FATAL(tree_least(&w.tree, kind, 0, 0, &(least_work){.tables = 1}, &high));
  lay_out(&w.tree, SIDE);
  wafer_arena_destroy(arena);
}

/* Runs of six are so many that the table of the whole is too large: they are longer, up to where
 * their own are; on the larger wafer there is no memory for any. */
static void least_time_of_thousands(void) {
  enum { MANY = WAFER_PLACER_MOST_KERNELS };
  static const wafer_placer_shape unit = {1, 1, 1, 0};
  static wafer_placer_shapes kinds[MANY];
  static uint32_t kind[MANY];
  static const uint32_t sides[] = {633, 1000};
  for (uint32_t i = 0; i < MANY; i++) kinds[i] = (wafer_placer_shapes){1, &unit}, kind[i] = i;
  for (int k = 0; k < 2; k++) {
    wafer_arena *arena = wafer_arena_create();
    whole w;
    uint32_t high = 1;
    make_whole(&w, sides[k], MANY, kinds, kind, arena);
    CU_ASSERT(!tree_least_is_whole(&w.tree));
    const uint64_t moves = tree_least_moves(&w.tree, 6);
    CU_ASSERT(k ? moves == UINT64_MAX : moves < 200000);
    if (k) CU_ASSERT(!tree_least(&w.tree, kind, 6, 0, &(least_work){.tables = 1}, &high));
    wafer_arena_destroy(arena);
  }
}

CU_TestInfo tests_placer_least[] = {{"least time", least_time},
                                    {"of many", least_time_of_many},
                                    {"by few tables", least_time_by_few},
                                    {"is asked for", least_time_is_asked},
                                    {"in runs", least_time_in_runs},
                                    {"of hundreds", least_time_of_hundreds},
                                    {"of thousands", least_time_of_thousands},
                                    CU_TEST_INFO_NULL};

/* passes/placer/placer*.c: the placement engine on small problems made by hand. */
#include "wafer/placer.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <string.h>

#include "caught.h"
#include "passes/placer/placer_search.h"

/* As many cores as the work asks for, in every shape up to the side: time = work / cores, rounded
 * up. */
static wafer_placer_shapes malleable(wafer_arena *arena, uint32_t side, uint32_t work) {
  wafer_placer_shape *at = WAFER_NEW(arena, wafer_placer_shape, side * side);
  uint32_t n = 0;
  for (uint32_t w = 1; w <= side; w++)
    for (uint32_t h = 1; h <= side; h++)
      at[n++] = (wafer_placer_shape){w, h, (work + w * h - 1) / (w * h), w * 1000 + h};
  CU_ASSERT_FATAL(wafer_placer_pareto(&n, at, side, side, true, arena));
  return (wafer_placer_shapes){n, at};
}

/* The checker that knows nothing of the engine: rectangles of the shapes named, inside, apart; time
 * and wire from scratch. */
static void check_placement(const wafer_placer_problem *p, const wafer_placement *got) {
  uint64_t time = 0, area = 0;
  double wire = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    const wafer_placed *a = &got->at[i];
    const wafer_placer_shape *s = &p->kinds[p->kind[i]].at[a->shape];
    CU_ASSERT_EQUAL(a->width, a->turned ? s->height : s->width);
    CU_ASSERT_EQUAL(a->height, a->turned ? s->width : s->height);
    CU_ASSERT(p->turns || !a->turned);
    CU_ASSERT(a->x + a->width <= p->width && a->y + a->height <= p->height);
    for (uint32_t k = 0; k < i; k++) {
      const wafer_placed *b = &got->at[k];
      CU_ASSERT(a->x + a->width <= b->x || b->x + b->width <= a->x || a->y + a->height <= b->y ||
                b->y + b->height <= a->y);
    }
    if (s->time > time) time = s->time;
    area += (uint64_t)a->width * a->height;
  }
  for (uint32_t e = 0; e < p->edge_count; e++) {
    const wafer_placed *a = &got->at[p->edges[e].from], *b = &got->at[p->edges[e].to];
    wire += p->edges[e].weight * (fabs(a->x + a->width / 2.0 - b->x - b->width / 2.0) +
                                  fabs(a->y + a->height / 2.0 - b->y - b->height / 2.0));
  }
  CU_ASSERT_EQUAL(got->time, time);
  CU_ASSERT_EQUAL(got->area, area);
  CU_ASSERT_DOUBLE_EQUAL(got->wire2, 2 * wire, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(got->score, p->time_weight * (double)time + p->wire_weight * wire, 1e-6);
  CU_ASSERT(got->time_bound <= got->time);
  CU_ASSERT(got->score_bound <= got->score * (1 + 1e-9));
}

#define MOST 64

typedef struct chain_problem {
  wafer_placer_shapes kinds[3];
  uint32_t kind[MOST];
  wafer_placer_edge edges[2 * MOST];
  wafer_placer_problem p;
} chain_problem;

/* A chain of kernels of three kinds, with a bypass round every other one. */
static void make_chain(chain_problem *c, wafer_arena *arena, uint32_t side, uint32_t count) {
  memset(c, 0, sizeof *c);
  for (uint32_t k = 0; k < 3; k++) c->kinds[k] = malleable(arena, side, 1000 * (k + 1));
  for (uint32_t i = 0; i < count; i++) c->kind[i] = i * 7 % 3;
  uint32_t n = 0;
  for (uint32_t i = 0; i + 1 < count; i++) c->edges[n++] = (wafer_placer_edge){i, i + 1, 1 + i % 2};
  for (uint32_t i = 0; i + 2 < count; i += 2) c->edges[n++] = (wafer_placer_edge){i, i + 2, 1};
  c->p = (wafer_placer_problem){.width = side,
                                .height = side,
                                .kind_count = 3,
                                .count = count,
                                .edge_count = n,
                                .kinds = c->kinds,
                                .kind = c->kind,
                                .edges = c->edges,
                                .time_weight = 1,
                                .wire_weight = 1,
                                .turns = true};
}

static void chains_are_legal(void) {
  static const uint32_t counts[] = {1, 2, 3, 7, 20, 60};
  for (size_t k = 0; k < WAFER_COUNT(counts); k++) {
    wafer_arena *arena = wafer_arena_create();
    chain_problem c;
    make_chain(&c, arena, 40, counts[k]);
    for (int turns = 0; turns < 2; turns++) {
      c.p.turns = turns;
      wafer_placer_options o = {.seed = k, .moves = 3000};
      wafer_placement got;
      CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &got), WAFER_OK);
      check_placement(&c.p, &got);
    }
    wafer_arena_destroy(arena);
  }
}

/* Seed and moves decide; threads do not. */
static void deterministic(void) {
  wafer_arena *arena = wafer_arena_create();
  chain_problem c;
  make_chain(&c, arena, 40, 20);
  wafer_placement got[3];
  for (uint32_t i = 0; i < 3; i++) {
    wafer_placer_options o = {.seed = 5, .moves = 4000, .threads = i + 1};
    CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &got[i]), WAFER_OK);
  }
  size_t bytes = 20 * sizeof *got[0].at;
  CU_ASSERT_EQUAL(memcmp(got[0].at, got[1].at, bytes), 0);
  CU_ASSERT_EQUAL(memcmp(got[0].at, got[2].at, bytes), 0);
  wafer_arena_destroy(arena);
}

/* Four kernels of 1000, none faster than its quarter of 20 x 20 allows: the optimum is the bound.
 */
static void reaches_the_bound(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shapes kind = malleable(arena, 20, 1000);
  uint32_t kinds[4] = {0};
  wafer_placer_problem p = {
      20, 20, 1, 4, 0, &kind, kinds, NULL, .time_weight = 1, .wire_weight = 1};
  p.turns = true;
  wafer_placer_options o = {.seed = 1, .moves = 2000};
  wafer_placement got;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
  check_placement(&p, &got);
  CU_ASSERT_EQUAL(got.time_bound, 10);
  CU_ASSERT_EQUAL(got.time, 10);
  wafer_arena_destroy(arena);
}

/* More moves, better placements: the search is a search. */
static void moves_pay(void) {
  wafer_arena *arena = wafer_arena_create();
  chain_problem c;
  make_chain(&c, arena, 40, 30);
  for (uint32_t e = 0; e < c.p.edge_count; e++) /* an order the shelves know nothing about */
    c.edges[e].from = e % 30, c.edges[e].to = (e % 30 * 11 + 7) % 30;
  wafer_placement few, many;
  wafer_placer_options o = {.seed = 3, .moves = 64};
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &few), WAFER_OK);
  o.moves = 60000;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &many), WAFER_OK);
  CU_ASSERT(many.score < few.score);
  wafer_arena_destroy(arena);
}

/* From a good layout a short search does not end up slower; one that no cuts part is of no use, and
 * does no harm. */
static void starts(void) {
  wafer_arena *arena = wafer_arena_create();
  chain_problem c;
  make_chain(&c, arena, 40, 20);
  c.p.wire_weight = 0;
  wafer_placement good, got;
  wafer_placer_options o = {.seed = 1, .moves = 60000};
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &good), WAFER_OK);
  o = (wafer_placer_options){.seed = 9, .moves = 1, .start = good.at};
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &got), WAFER_OK);
  check_placement(&c.p, &got);
  CU_ASSERT(got.time <= good.time);
  static const wafer_placed pinwheel[5] = {{.x = 0, .y = 0, .width = 20, .height = 10},
                                           {.x = 20, .y = 0, .width = 10, .height = 20},
                                           {.x = 10, .y = 20, .width = 20, .height = 10},
                                           {.x = 0, .y = 10, .width = 10, .height = 20},
                                           {.x = 10, .y = 10, .width = 10, .height = 10}};
  make_chain(&c, arena, 40, 5);
  o.start = pinwheel;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &c.p, &o, &got), WAFER_OK);
  check_placement(&c.p, &got);
  wafer_arena_destroy(arena);
}

/* Cuts of a layout give its rows and columns back. */
static void cuts(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shape s[] = {{4, 2, 1, 0}};
  wafer_placer_shapes kind = {1, s};
  uint32_t kinds[5] = {0};
  wafer_placer_problem p = {8, 6, 1, 5, 0, &kind, kinds, NULL, .time_weight = 1, .wire_weight = 1};
  static const wafer_placed at[5] = {{.x = 4, .y = 4, .width = 4, .height = 2},
                                     {.x = 0, .y = 0, .width = 4, .height = 2},
                                     {.x = 0, .y = 4, .width = 4, .height = 2},
                                     {.x = 4, .y = 0, .width = 4, .height = 2},
                                     {.x = 2, .y = 2, .width = 4, .height = 2}};
  wafer_placer_options o = {.seed = 1, .moves = 1, .start = at};
  placer in = {.p = &p, .reach_w = 8, .reach_h = 6};
  uint64_t level = 1;
  in.levels = &level, in.level_count = 1;
  curve_cache cache;
  tree t;
  CU_ASSERT_FATAL(curve_cache_init(&cache, &in, arena) && tree_init(&t, &in, &cache, arena));
  CU_ASSERT_FATAL(tree_from_layout(&t, at));
  t.is.level = 0, t.is.root_width = 8;
  CU_ASSERT_FATAL(tree_build(&t));
  tree_outline(&t);
  CU_ASSERT_EQUAL(t.state.over, 0);
  tree_decode(&t);
  for (uint32_t i = 0; i < 5; i++) CU_ASSERT(t.boxes[i].x == at[i].x && t.boxes[i].y == at[i].y);
  wafer_placement got;
  CU_ASSERT_EQUAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
  wafer_arena_destroy(arena);
}

/* Whatever is changed, every run has one place in the row, and ends rise up to the last kernel; the
 * row follows the order unless it may be mixed. */
static void row_of_stacks(void) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    rng r = {seed};
    stacks s = {0};
    bool strayed = false;
    stacks_random(&s, &r, 20, 8);
    for (uint32_t k = 0; k < 500; k++, stacks_change(&s, &r)) {
      bool seen[PLACER_MOST_STACKS] = {0};
      for (uint32_t i = 0; i < s.count; i++) {
        uint32_t stack = s.row[i].stack;
        CU_ASSERT_FATAL(stack < s.count && !seen[stack]);
        seen[stack] = true;
        strayed |= stack != i;
        CU_ASSERT(s.at[i].end > (i ? s.at[i - 1].end : 0));
      }
      CU_ASSERT_EQUAL(s.at[s.count - 1].end, 20);
    }
    CU_ASSERT_EQUAL(strayed, s.mixed);
  }
}

/* A row of runs {1}, {0}, {2}: the joint after the first is outermost. */
static void mixed_row(void) {
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape s[] = {{2, 2, 1, 0}};
  static const uint32_t kind[3] = {0}, order[3] = {0, 1, 2};
  wafer_placer_shapes kinds = {1, s};
  wafer_placer_problem p = {4, 4, 1, 3, 0, &kinds, kind, NULL, .time_weight = 1};
  placer in = {.p = &p, .reach_w = 4, .reach_h = 4, .orders = {order, order}};
  curve_cache cache;
  tree t;
  CU_ASSERT_FATAL(curve_cache_init(&cache, &in, arena) && tree_init(&t, &in, &cache, arena));
  stacks row = {.count = 3,
                .at = {{.end = 1}, {.end = 2}, {.end = 3}},
                .row = {{1, 9, CUT_ABOVE}, {0, 5, CUT_BESIDE}, {2, 0, 0}}};
  tree_stacks(&t, &row);
  uint32_t stack[8], leaves[3];
  tree_order(&t.is, 3, stack, leaves);
  CU_ASSERT(leaves[0] == 1 && leaves[1] == 0 && leaves[2] == 2);
  CU_ASSERT_EQUAL(t.is.nodes[t.is.root].cut, CUT_ABOVE);
  CU_ASSERT_EQUAL(t.is.nodes[t.is.root].child[0], 1);
  wafer_arena_destroy(arena);
}

/* Rows and columns in turn fill the wafer in no tree of that order, but rows upon rows do beside
 * columns. */
static void equal_ones_side_by_side(void) {
  enum { SIDE = 64, ROWS = 16, MANY = SIDE + ROWS };
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape row = {SIDE, 1, 1, 0}, column = {1, SIDE - ROWS, 1, 0};
  const wafer_placer_shapes kinds[] = {{1, &row}, {1, &column}};
  uint32_t kind[MANY];
  for (uint32_t i = 0; i < MANY; i++) kind[i] = i % 5 > 0;
  wafer_placer_problem p = {SIDE, SIDE, 2, MANY, 0, kinds, kind, NULL, .time_weight = 1};
  wafer_placer_options o = {.seed = 1, .moves = 1000};
  wafer_placement got;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
  CU_ASSERT_EQUAL(got.area, SIDE * SIDE);
  wafer_arena_destroy(arena);
}

/* Where no wire has been measured yet there is no heat, and an annealing goes downhill: it was
 * void, where seconds left out the round that measures. */
static void no_heat(void) {
  enum { MANY = 16, SIDE = 8 };
  static const wafer_placer_shape shape[] = {{2, 2, 1, 0}};
  static const wafer_placer_shapes kinds[] = {{1, shape}};
  static const uint32_t kind[MANY] = {0};
  wafer_placer_edge edges[MANY / 2];
  uint32_t at[MANY + 1], neighbour[MANY], order[MANY];
  wafer_arena *arena = wafer_arena_create();
  static placer_run run;
  static worker w;
  uint64_t level = 1, areas[MANY];
  uint32_t key = 0;
  for (uint32_t i = 0; i < MANY; i++) {
    areas[i] = 4, at[i] = order[i] = i, neighbour[i] = (i + MANY / 2) % MANY;
    if (i < MANY / 2) edges[i] = (wafer_placer_edge){i, i + MANY / 2, 1};
  }
  at[MANY] = MANY;
  const wafer_placer_problem p = {
      SIDE, SIDE, 1, MANY, MANY / 2, kinds, kind, edges, .time_weight = 1, .wire_weight = 1};
  run = (placer_run){.options = &(wafer_placer_options){0}, .in = {.p = &p, .penalty = 100}};
  run.in.reach_w = run.in.reach_h = SIDE;
  run.in.levels = &level, run.in.level_count = 1, run.in.keys = &key, run.in.key_count = 1;
  run.in.neighbour_at = at, run.in.neighbour = neighbour;
  run.in.areas = areas;
  for (int k = 0; k < ORDERS; k++) run.in.orders[k] = order;
  CU_ASSERT_EQUAL_FATAL(pthread_mutex_init(&run.lock, NULL), 0);
  w = (worker){.run = &run, .arena = arena};
  CU_ASSERT_FATAL(curve_cache_init(&w.cache, &run.in, arena) &&
                  tree_init(&w.tree, &run.in, &w.cache, arena));
  candidate c = {.rng = {7}, .failed = true, .best = {.score = INFINITY}};
  c.best.at = WAFER_NEW(arena, wafer_placed, MANY);
  CU_ASSERT_FATAL(c.best.at && tree_shape_init(&c.now, &run.in, arena));
  search_start(&w, &c, 4, NULL);
  const uint64_t before = c.best.wire2;
  search_anneal(&w, &c, &(heat){1, 0.02}, &(budget){.most = 20000});
  CU_ASSERT(2 * c.best.wire2 < before + before / 2);
  pthread_mutex_destroy(&run.lock);
  wafer_arena_destroy(arena);
}

/* Lying or standing makes no difference to time or wire: the shape whose ports agree is taken. */
static void adapters_count(void) {
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape square[] = {{4, 4, 1, 0}}, slats[] = {{2, 8, 1, 0}, {8, 2, 1, 0}};
  static const wafer_placer_ports gives[] = {{.out = {1, 2, 3}}};
  static const uint32_t kind[2] = {0, 1};
  static const wafer_placer_edge edge = {0, 1, 1};
  wafer_placer_shapes kinds[2] = {{1, square}, {2, slats}};
  for (uint32_t agrees = 0; agrees < 2; agrees++)
    for (uint32_t components = 0; components < 2; components++) {
      wafer_placer_ports takes[2] = {{.in = {5, 5, 3}}, {.in = {5, 5, 3}}};
      takes[agrees].in[0] = 1, takes[agrees].in[1] = 2, takes[agrees].in[2] = components ? 9 : 3;
      const wafer_placer_ports *const ports[2] = {gives, takes};
      wafer_placer_problem p = {16, 16, 2, 2, 1, kinds, kind, &edge, .ports = ports};
      p.time_weight = p.wire_weight = 1, p.adapter_weight = 100, p.count_components = components;
      wafer_placer_options o = {.seed = 1, .moves = 5000};
      wafer_placement got;
      CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
      CU_ASSERT_EQUAL(got.adapters, components);
      CU_ASSERT_EQUAL(got.at[1].shape, agrees);
      CU_ASSERT_DOUBLE_EQUAL(got.score, 1 + 0.5 * (double)got.wire2 + 100 * components, 1e-9);
    }
  wafer_arena_destroy(arena);
}

/* What stands still pulls: to the corner it is nearest to, and no bound counts on its distance. */
static void terminals(void) {
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape s[] = {{4, 4, 1, 0}};
  static const uint32_t kind[2] = {0, 0};
  static const wafer_placer_edge edges[] = {{0, 2, 1}, {3, 1, 1}};
  static const wafer_placer_terminal at[] = {{-10, -10}, {26, 26}};
  wafer_placer_shapes kinds[1] = {{1, s}};
  wafer_placer_problem p = {8, 8, 1, 2, 2, kinds, kind, edges, .terminals = at};
  p.time_weight = p.wire_weight = 1, p.terminal_count = 2;
  wafer_placer_options o = {.seed = 1, .moves = 3000};
  wafer_placement got;
  for (int turn = 0; turn < 2; turn++) { /* the second time the other way round */
    wafer_placer_terminal turned[] = {at[turn], at[1 - turn]};
    p.terminals = turned;
    CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &o, &got), WAFER_OK);
    const wafer_placed *low = &got.at[turn], *high = &got.at[1 - turn];
    CU_ASSERT(low->x < high->x || low->y < high->y);
    CU_ASSERT(low->x <= high->x && low->y <= high->y);
    CU_ASSERT(got.score_bound <= got.score);
  }
  wafer_arena_destroy(arena);
}

/* A layout that was found before the time was over is not lost to one that did not fit. */
static void no_time(void) {
  wafer_arena *arena = wafer_arena_create();
  static const wafer_placer_shape s = {3, 1, 1, 0};
  wafer_placer_shapes kinds = {1, &s};
  uint32_t kind[40] = {0};
  wafer_placer_problem p = {30, 8, 1, 40, 0, &kinds, kind, NULL, .time_weight = 1};
  wafer_placer_options options = {.seconds = 1e-9, .spent = 1, .threads = 1};
  wafer_placement out;
  CU_ASSERT_EQUAL_FATAL(wafer_place(NULL, arena, &p, &options, &out), WAFER_OK);
  check_placement(&p, &out);
  CU_ASSERT(out.first_seconds > 1);
  wafer_arena_destroy(arena);
}

static void no_room(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shape square[] = {{4, 4, 9, 0}};
  wafer_placer_shapes kind = {1, square};
  uint32_t kinds[7] = {0};
  wafer_placer_problem p = {12, 8, 1, 6, 0, &kind, kinds, NULL, .time_weight = 1, .wire_weight = 1};
  wafer_placer_options o = {.seed = 1, .moves = 1000};
  wafer_placement got;
  caught last;
  wafer_diag diag = caught_diag(&last);
  CU_ASSERT_EQUAL_FATAL(wafer_place(&diag, arena, &p, &o, &got), WAFER_OK);
  check_placement(&p, &got);
  p.count = 7;
  CU_ASSERT_EQUAL(wafer_place(&diag, arena, &p, &o, &got), WAFER_NO_FIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, " cores, there are 12 x 8, which is 96; "));
  p.width = 11, p.height = 11; /* 7 * 16 = 112 of 121 cores, but two a row */
  CU_ASSERT_EQUAL(wafer_place(&diag, arena, &p, &o, &got), WAFER_NO_FIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "found no room"));
  p.count = 0;
  CU_ASSERT_EQUAL(wafer_place(&diag, arena, &p, &o, &got), WAFER_UNSUPPORTED);
  wafer_arena_destroy(arena);
}

static uint32_t left(uint32_t n, wafer_placer_shape *at, bool turns, wafer_arena *arena) {
  CU_ASSERT(wafer_placer_pareto(&n, at, 6, 6, turns, arena));
  return n;
}

static void pareto(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_placer_shape s[] = {{2, 3, 10, 0}, {3, 2, 10, 1}, {2, 3, 11, 2}, {3, 3, 9, 3},
                            {3, 4, 9, 4},  {1, 6, 10, 5}, {1, 7, 5, 6}};
  CU_ASSERT_EQUAL(left(7, s, true, arena), 4);
  CU_ASSERT_EQUAL(s[0].tag, 3); /* by time */
  wafer_placer_shape t[] = {{2, 4, 10, 0}, {4, 2, 10, 1}, {2, 2, 10, 2}};
  CU_ASSERT_EQUAL(left(3, t, false, arena), 1);
  CU_ASSERT_EQUAL(t[0].tag, 2);
  wafer_placer_shape u[] = {{2, 3, 10, 0}, {3, 3, 10, 1}, {4, 3, 10, 2}, {3, 4, 9, 3}};
  CU_ASSERT_EQUAL(left(4, u, false, arena), 3); /* only sides as odd cover */
  wafer_arena_destroy(arena);
}

/* Against all pairs of points. */
static void curves(void) {
  static const point a[] = {{1, 9, 0, 0}, {3, 5, 0, 0}, {4, 4, 0, 0}, {9, 1, 0, 0}};
  static const point b[] = {{2, 7, 0, 0}, {5, 5, 0, 0}, {6, 2, 0, 0}};
  const curve ca = {.count = 4, .at = a}, cb = {.count = 3, .at = b};
  for (int above = 0; above < 2; above++) {
    point out[32];
    curve got_curve =
        above ? curve_above(ca, cb, 12, 12, out, 32) : curve_beside(ca, cb, 12, 12, out);
    CU_ASSERT(got_curve.count > 0);
    for (uint32_t w = 0; w <= 12; w++) {
      uint32_t best = UINT32_MAX, got = UINT32_MAX;
      for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++) {
          uint32_t wide = above ? (a[i].w > b[k].w ? a[i].w : b[k].w) : a[i].w + b[k].w;
          uint32_t high = above ? a[i].h + b[k].h : (a[i].h > b[k].h ? a[i].h : b[k].h);
          if (wide <= w && high <= 12 && high < best) best = high;
        }
      for (uint32_t i = 0; i < got_curve.count; i++) {
        point q = got_curve.at[i];
        if (q.w <= w) got = q.h;
        uint32_t wide = above ? (a[q.a].w > b[q.b].w ? a[q.a].w : b[q.b].w) : a[q.a].w + b[q.b].w;
        CU_ASSERT_EQUAL(q.w, wide);
      }
      CU_ASSERT_EQUAL(got, best);
    }
  }
}

CU_TestInfo tests_placer[] = {{"legal", chains_are_legal},
                              {"deterministic", deterministic},
                              {"reaches the bound", reaches_the_bound},
                              {"moves pay", moves_pay},
                              {"starts", starts},
                              {"cuts", cuts},
                              {"row of stacks", row_of_stacks},
                              {"mixed row", mixed_row},
                              {"equal ones side by side", equal_ones_side_by_side},
                              {"no heat", no_heat},
                              {"adapters count", adapters_count},
                              {"terminals", terminals},
                              {"no time", no_time},
                              {"no room", no_room},
                              {"pareto", pareto},
                              {"curves", curves},
                              CU_TEST_INFO_NULL};

/* passes/placer/placer_shift.c and placer_polish.c: layouts made better, against all there are. */
#include "passes/placer/placer_search.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 6

static bool apart(const wafer_placed *a, const wafer_placed *b) {
  return a->x + a->width <= b->x || b->x + b->width <= a->x || a->y + a->height <= b->y ||
         b->y + b->height <= a->y;
}

static bool legal(const wafer_placer_problem *p, const wafer_placed *at) {
  for (uint32_t i = 0; i < p->count; i++) {
    if (at[i].x + at[i].width > p->width || at[i].y + at[i].height > p->height) return false;
    for (uint32_t k = 0; k < i; k++)
      if (!apart(&at[i], &at[k])) return false;
  }
  return true;
}

static int64_t middle2(const wafer_placer_problem *p, const wafer_placed *at, uint32_t i,
                       bool upright) {
  if (i >= p->count) return upright ? p->terminals[i - p->count].y2 : p->terminals[i - p->count].x2;
  return upright ? 2 * (int64_t)at[i].y + at[i].height : 2 * (int64_t)at[i].x + at[i].width;
}

static int64_t wires2(const wafer_placer_problem *p, const wafer_placed *at) {
  int64_t sum = 0;
  for (uint32_t e = 0; e < p->edge_count; e++)
    for (int upright = 0; upright < 2; upright++)
      sum += p->edges[e].weight * llabs(middle2(p, at, p->edges[e].from, upright) -
                                        middle2(p, at, p->edges[e].to, upright));
  return sum;
}

/* The least wires of any places along x, the order along it kept; rectangles from `next` on are
 * tried everywhere. */
static int64_t least(const wafer_placer_problem *p, const wafer_placed *was, wafer_placed *now,
                     uint32_t next) {
  if (next == p->count) return wires2(p, now);
  int64_t best = INT64_MAX;
  for (uint32_t x = 0; x + now[next].width <= p->width; x++) {
    bool fits = true;
    now[next].x = x;
    for (uint32_t k = 0; k < next && fits; k++)
      fits = apart(&now[next], &now[k]) && (was[k].y + was[k].height <= was[next].y ||
                                            was[next].y + was[next].height <= was[k].y ||
                                            (was[k].x < was[next].x) == (now[k].x < x));
    int64_t own = fits ? least(p, was, now, next + 1) : INT64_MAX;
    if (own < best) best = own;
  }
  return best;
}

typedef struct scene {
  wafer_placer_problem p;
  wafer_placer_edge edges[8];
  wafer_placer_terminal terminal;
  wafer_placed at[MOST];
} scene;

/* Rectangles one after the other where there is room. */
static void random_scene(scene *s, rng *r) {
  s->p = (wafer_placer_problem){.width = 12, .height = 7, .terminal_count = 1};
  s->p.terminals = &s->terminal, s->p.edges = s->edges;
  s->terminal = (wafer_placer_terminal){(int32_t)rng_below(r, 24), (int32_t)rng_below(r, 14)};
  for (uint32_t tries = 0; tries < 60 && s->p.count < 5; tries++) {
    wafer_placed *at = &s->at[s->p.count];
    *at = (wafer_placed){.width = 1 + rng_below(r, 4), .height = 1 + rng_below(r, 4)};
    at->x = rng_below(r, s->p.width - at->width + 1);
    at->y = rng_below(r, s->p.height - at->height + 1);
    bool fits = true;
    for (uint32_t k = 0; k < s->p.count; k++) fits &= apart(at, &s->at[k]);
    s->p.count += fits;
  }
  for (; s->p.edge_count < 7; s->p.edge_count++) {
    uint32_t from = rng_below(r, s->p.count), to = rng_below(r, s->p.count);
    if (from == to) to = s->p.count;
    s->edges[s->p.edge_count] = (wafer_placer_edge){from, to, 1 + rng_below(r, 3)};
  }
}

/* No places along x have shorter wires, for those along y that there are. */
static void exact(void) {
  rng r = {7};
  for (uint32_t round = 0; round < 60; round++) {
    scene s;
    random_scene(&s, &r);
    int64_t before = wires2(&s.p, s.at);
    CU_ASSERT(wafer_placer_shift(&s.p, 0, s.at));
    CU_ASSERT(legal(&s.p, s.at));
    int64_t after = wires2(&s.p, s.at);
    CU_ASSERT(after <= before);
    wafer_placed now[MOST];
    memcpy(now, s.at, sizeof now);
    CU_ASSERT_EQUAL(after, least(&s.p, s.at, now, 0));
  }
}

/* A wide slat between two odd ones: beside the axis of both, till it is a core wider. */
static void middles(void) {
  static const wafer_placer_shape odd[] = {{5, 2, 8, 0}}, even[] = {{4, 2, 10, 0}, {5, 2, 10, 1}};
  const wafer_placer_shapes kinds[] = {{1, odd}, {2, even}};
  const uint32_t kind[] = {0, 1, 0};
  const wafer_placer_edge edges[] = {{0, 1, 1}, {1, 2, 1}};
  wafer_placed at[] = {{.width = 5, .height = 2},
                       {.x = 1, .y = 3, .width = 4, .height = 2},
                       {.y = 6, .width = 5, .height = 2}};
  wafer_placer_problem p = {.width = 9, .height = 9, .kind_count = 2, .count = 3, .edge_count = 2};
  p.kinds = kinds, p.kind = kind, p.edges = edges, p.time_weight = p.wire_weight = 1;
  placer in = {.p = &p, .reach_w = 9, .reach_h = 9};
  wafer_arena *arena = wafer_arena_create();
  curve_cache cache;
  polisher o;
  CU_ASSERT_FATAL(curve_cache_init(&cache, &in, arena));
  CU_ASSERT_FATAL(polisher_init(&o, &in, &cache, arena));
  layout l = {.at = at};
  layout_score(&in, &l);
  uint64_t moves = layout_polish(&o, &l, &(budget){.most = 100000});
  CU_ASSERT(moves > 0 && moves < 100000);
  CU_ASSERT(legal(&p, at));
  CU_ASSERT_EQUAL(at[1].shape, 1);
  CU_ASSERT_EQUAL(l.wire2, 8); /* two rows to each neighbour */
  CU_ASSERT_EQUAL(l.time, 10);
  wafer_arena_destroy(arena);
}

/* The slowest kernel alone has room for a faster shape. */
static void faster(void) {
  static const wafer_placer_shape shapes[] = {{4, 2, 10, 0}, {6, 2, 7, 1}};
  const wafer_placer_shapes kinds[] = {{2, shapes}};
  const uint32_t kind[] = {0, 0};
  wafer_placed at[] = {{.shape = 1, .width = 6, .height = 2}, {.y = 4, .width = 4, .height = 2}};
  wafer_placer_problem p = {.width = 9, .height = 9, .kind_count = 1, .count = 2};
  p.kinds = kinds, p.kind = kind, p.time_weight = p.wire_weight = 1;
  placer in = {.p = &p, .reach_w = 9, .reach_h = 9};
  wafer_arena *arena = wafer_arena_create();
  curve_cache cache;
  polisher o;
  CU_ASSERT_FATAL(curve_cache_init(&cache, &in, arena));
  CU_ASSERT_FATAL(polisher_init(&o, &in, &cache, arena));
  layout l = {.at = at};
  layout_score(&in, &l);
  CU_ASSERT_EQUAL(l.time, 10);
  layout_polish(&o, &l, &(budget){.most = 100000});
  CU_ASSERT(legal(&p, at));
  CU_ASSERT_EQUAL(l.time, 7);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_placer_shift[] = {
    {"exact", exact}, {"middles", middles}, {"faster", faster}, CU_TEST_INFO_NULL};

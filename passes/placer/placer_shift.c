/* Shorter wires in a layout: along one axis, rectangles that overlap across it keep their order,
 * and the sum of all wires is made least, exactly. The sum is convex in differences of places, so
 * it is least where no set of rectangles gains by a step together, up or down; the set that gains
 * most is a minimum cut. */
#include <stdlib.h>
#include <string.h>

#include "placer.h"

#define ANY INT64_MAX
#define SWEEPS 8u /* along both axes in turn, at most */

/* ---- Cuts ---- */

static void arc(shifter *s, uint32_t from, uint32_t to, int64_t most) {
  uint32_t k = s->arc_count;
  s->arcs[k] = (shift_arc){to, s->first[from], most};
  s->arcs[k + 1] = (shift_arc){from, s->first[to], 0};
  s->first[from] = k, s->first[to] = k + 1;
  s->arc_count += 2;
}

/* Distances from the source; false when the sink is not reached. */
static bool reach(shifter *s, uint32_t source, uint32_t sink) {
  uint32_t head = 0, tail = 0;
  for (uint32_t i = 0; i < s->n + 2; i++) s->level[i] = PLACER_NONE, s->next[i] = s->first[i];
  s->level[source] = 0;
  s->queue[tail++] = source;
  while (head < tail) {
    uint32_t i = s->queue[head++];
    for (uint32_t k = s->first[i]; k != PLACER_NONE; k = s->arcs[k].next) {
      uint32_t to = s->arcs[k].to;
      if (!s->arcs[k].left || s->level[to] != PLACER_NONE) continue;
      s->level[to] = s->level[i] + 1;
      s->queue[tail++] = to;
    }
  }
  return s->level[sink] != PLACER_NONE;
}

static void use(shift_arc *a, int64_t by) {
  if (a->left != ANY) a->left -= by;
}

/* Pushes at most so much from i to the sink; how much it was. */
static int64_t push(shifter *s, uint32_t i, uint32_t sink, int64_t most) {
  if (i == sink) return most;
  int64_t done = 0;
  for (uint32_t *k = &s->next[i]; *k != PLACER_NONE; *k = s->arcs[*k].next) {
    shift_arc *a = &s->arcs[*k];
    if (!a->left || s->level[a->to] != s->level[i] + 1) continue;
    int64_t by = most - done < a->left ? most - done : a->left;
    by = push(s, a->to, sink, by);
    use(a, by);
    use(&s->arcs[*k ^ 1], -by);
    done += by;
    if (done == most) break;
  }
  return done;
}

/* ---- Steps ---- */

static int64_t magnitude(int64_t a) {
  return a < 0 ? -a : a;
}

static int64_t middle2(const shifter *s, uint32_t i) {
  return i < s->n ? 2 * (int64_t)s->place[i] + s->size[i] : s->fixed[i - s->n];
}

/* What wires cost when an end moves: terms of each end, less what both of them share. */
static void add_wires(shifter *s, int64_t step) {
  for (uint32_t e = 0; e < s->p->edge_count; e++) {
    const wafer_placer_edge *w = &s->p->edges[e];
    int64_t d = middle2(s, w->from) - middle2(s, w->to), now = magnitude(d);
    int64_t from = w->weight * (magnitude(d + 2 * step) - now);
    int64_t to = w->weight * (magnitude(d - 2 * step) - now);
    if (w->from < s->n) s->gain[w->from] -= from;
    if (w->to < s->n) s->gain[w->to] -= w->from < s->n ? -from : to;
    if (w->from < s->n && w->to < s->n && from + to > 0) arc(s, w->to, w->from, from + to);
  }
}

/* Moves the set that gains most up by a step; false when none gains. */
static bool step_up(shifter *s, int32_t step) {
  uint32_t n = s->n, source = n, sink = n + 1;
  int64_t all = 0;
  s->arc_count = 0;
  for (uint32_t i = 0; i < n + 2; i++) s->first[i] = PLACER_NONE;
  memset(s->gain, 0, n * sizeof *s->gain);
  add_wires(s, step);
  for (uint32_t k = 0; k < s->pair_count; k++) {
    uint32_t low = s->pairs[k].low, high = s->pairs[k].high;
    if (s->place[high] - s->place[low] - s->size[low] < step) arc(s, low, high, ANY);
  }
  for (uint32_t i = 0; i < n; i++) {
    bool stuck = s->place[i] + s->size[i] + step > s->most;
    if (s->gain[i] > 0) arc(s, source, i, s->gain[i]), all += s->gain[i];
    if (stuck || s->gain[i] < 0) arc(s, i, sink, stuck ? ANY : -s->gain[i]);
  }
  while (reach(s, source, sink)) all -= push(s, source, sink, ANY);
  for (uint32_t i = 0; i < n && all > 0; i++)
    if (s->level[i] != PLACER_NONE) s->place[i] += step;
  return all > 0;
}

/* Up becomes down. */
static void reflect(shifter *s) {
  for (uint32_t i = 0; i < s->n; i++) s->place[i] = s->most - s->place[i] - s->size[i];
  for (uint32_t i = 0; i < s->p->terminal_count; i++) s->fixed[i] = 2 * s->most - s->fixed[i];
  for (uint32_t k = 0; k < s->pair_count; k++) {
    uint32_t low = s->pairs[k].low;
    s->pairs[k].low = s->pairs[k].high, s->pairs[k].high = low;
  }
}

/* ---- An axis ---- */

static int by_place(const void *a, const void *b) {
  const shift_pair *x = a, *y = b;
  if (x->low != y->low) return x->low < y->low ? -1 : 1;
  return (x->high > y->high) - (x->high < y->high);
}

/* Pairs of which one sees the other along the axis: if they keep their order, all do. */
static void find_pairs(shifter *s, const wafer_placed *at, bool upright) {
  uint32_t across = upright ? s->p->width : s->p->height;
  shift_pair *order = s->order; /* place and kernel */
  for (uint32_t i = 0; i < s->n; i++) order[i] = (shift_pair){(uint32_t)s->place[i], i};
  qsort(order, s->n, sizeof *order, by_place);
  for (uint32_t k = 0; k < across; k++) s->seen[k] = PLACER_NONE;
  for (uint32_t i = 0; i < s->n; i++) s->mark[i] = PLACER_NONE;
  s->pair_count = 0;
  for (uint32_t k = 0; k < s->n; k++) {
    uint32_t i = order[k].high, from = upright ? at[i].x : at[i].y;
    uint32_t end = from + (upright ? at[i].width : at[i].height);
    for (uint32_t line = from; line < end; line++) {
      uint32_t before = s->seen[line];
      s->seen[line] = i;
      if (before == PLACER_NONE || s->mark[before] == i) continue;
      s->mark[before] = i;
      s->pairs[s->pair_count++] = (shift_pair){before, i};
    }
  }
}

static void load(shifter *s, const wafer_placed *at, bool upright) {
  const wafer_placer_problem *p = s->p;
  s->most = (int32_t)(upright ? p->height : p->width);
  for (uint32_t i = 0; i < s->n; i++) {
    s->place[i] = (int32_t)(upright ? at[i].y : at[i].x);
    s->size[i] = (int32_t)(upright ? at[i].height : at[i].width);
  }
  for (uint32_t i = 0; i < p->terminal_count; i++)
    s->fixed[i] = upright ? p->terminals[i].y2 : p->terminals[i].x2;
  find_pairs(s, at, upright);
}

static bool late(const shifter *s) {
  return s->until > 0 && search_seconds() >= s->until;
}

static bool shift_axis(shifter *s, wafer_placed *at, bool upright, int32_t first) {
  bool any = false, down = false;
  load(s, at, upright);
  for (int32_t step = first; step; step /= 2)
    for (uint32_t idle = 0; idle < 2;) {
      idle++;
      while (!late(s) && step_up(s, step)) any = true, idle = 0;
      reflect(s);
      down = !down;
    }
  if (down) reflect(s);
  for (uint32_t i = 0; i < s->n; i++) *(upright ? &at[i].y : &at[i].x) = (uint32_t)s->place[i];
  return any;
}

void shift_all(shifter *s, wafer_placed *at, int32_t first) {
  uint32_t idle = 0;
  for (uint32_t k = 0; k < SWEEPS && idle < 2 && !late(s); k++)
    idle = shift_axis(s, at, k % 2, first) ? 1 : idle + 1;
}

bool shifter_init(shifter *s, const wafer_placer_problem *p, wafer_arena *arena) {
  uint32_t n = p->count, side = p->width > p->height ? p->width : p->height;
  size_t pairs = 3 * (size_t)n; /* who sees whom is a planar graph */
  *s = (shifter){.p = p, .n = n};
  s->place = WAFER_NEW(arena, int32_t, n), s->size = WAFER_NEW(arena, int32_t, n);
  s->fixed = WAFER_NEW(arena, int64_t, p->terminal_count), s->gain = WAFER_NEW(arena, int64_t, n);
  s->pairs = WAFER_NEW(arena, shift_pair, pairs), s->order = WAFER_NEW(arena, shift_pair, n);
  s->arcs = WAFER_NEW(arena, shift_arc, 2 * (pairs + p->edge_count + 2 * (size_t)n));
  s->first = WAFER_NEW(arena, uint32_t, n + 2), s->next = WAFER_NEW(arena, uint32_t, n + 2);
  s->level = WAFER_NEW(arena, uint32_t, n + 2), s->queue = WAFER_NEW(arena, uint32_t, n + 2);
  s->seen = WAFER_NEW(arena, uint32_t, side), s->mark = WAFER_NEW(arena, uint32_t, n);
  return s->place && s->size && s->fixed && s->gain && s->pairs && s->order && s->arcs &&
         s->first && s->next && s->level && s->queue && s->seen && s->mark;
}

bool wafer_placer_shift(const wafer_placer_problem *problem, double until, wafer_placed *at) {
  wafer_arena *arena = wafer_arena_create();
  shifter s;
  bool ok = arena && shifter_init(&s, problem, arena);
  if (ok) s.until = until, shift_all(&s, at, SHIFT_FAR);
  if (arena) wafer_arena_destroy(arena);
  return ok;
}

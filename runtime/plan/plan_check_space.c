/* Rectangles against each other: a sweep over x with a segment tree over y. */
#include <stdlib.h>

#include "plan_check.h"

/* Over the compressed rows: what was added to all of a node's range, and the most below it. */
typedef struct tree {
  uint32_t leaves;
  uint64_t *added, *most;
} tree;

typedef struct range {
  uint32_t from, to; /* rows, `to` not included */
} range;

static void add(tree *t, uint32_t node, range all, range to, uint64_t weight) {
  if (to.from >= all.to || to.to <= all.from) return;
  if (to.from <= all.from && all.to <= to.to) {
    t->added[node] += weight; /* a weight is taken away by adding its complement */
    t->most[node] += weight;
    return;
  }
  uint32_t middle = all.from + (all.to - all.from) / 2;
  add(t, 2 * node, (range){all.from, middle}, to, weight);
  add(t, 2 * node + 1, (range){middle, all.to}, to, weight);
  uint64_t low = t->most[2 * node], high = t->most[2 * node + 1];
  t->most[node] = t->added[node] + (low > high ? low : high);
}

static uint32_t heaviest_row(const tree *t) {
  uint32_t node = 1;
  range all = {0, t->leaves};
  while (all.to - all.from > 1) {
    uint32_t middle = all.from + (all.to - all.from) / 2;
    bool low = t->most[2 * node] >= t->most[2 * node + 1];
    node = 2 * node + !low;
    all = low ? (range){all.from, middle} : (range){middle, all.to};
  }
  return all.from;
}

typedef struct edge {
  uint32_t x, rect;
  bool begins;
} edge;

static int by_x(const void *left, const void *right) {
  const edge *a = left, *b = right;
  if (a->x != b->x) return a->x < b->x ? -1 : 1;
  if (a->begins != b->begins) return a->begins ? 1 : -1; /* what ends here makes room first */
  return a->rect < b->rect ? -1 : a->rect > b->rect;
}

static int by_number(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

static uint32_t index_of(const uint32_t *rows, uint32_t count, uint32_t y) {
  uint32_t low = 0, high = count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (rows[middle] <= y)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* The borders of all rectangles, each once, ascending. */
static uint32_t borders(size_t count, const plan_weighed *rects, uint32_t *rows) {
  uint32_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    rows[2 * i] = rects[i].rect.y;
    rows[2 * i + 1] = rects[i].rect.y + rects[i].rect.height;
  }
  qsort(rows, 2 * count, sizeof *rows, by_number);
  for (size_t i = 0; i < 2 * count; i++)
    if (kept == 0 || rows[kept - 1] != rows[i]) rows[kept++] = rows[i];
  return kept;
}

bool plan_check_heaviest(wafer_arena *arena, size_t count, const plan_weighed *rects,
                         uint64_t *most, wafer_core_at *at) {
  *most = 0;
  if (count == 0) return true;
  edge *edges = WAFER_NEW(arena, edge, 2 * count);
  uint32_t *rows = WAFER_NEW(arena, uint32_t, 2 * count);
  if (!edges || !rows) return false;
  uint32_t lines = borders(count, rects, rows);
  tree t = {.leaves = lines, .added = WAFER_NEW(arena, uint64_t, 4 * (size_t)lines)};
  t.most = WAFER_NEW(arena, uint64_t, 4 * (size_t)lines);
  if (!t.added || !t.most) return false;
  for (size_t i = 0; i < count; i++) {
    edges[2 * i] = (edge){rects[i].rect.x, (uint32_t)i, true};
    edges[2 * i + 1] = (edge){rects[i].rect.x + rects[i].rect.width, (uint32_t)i, false};
  }
  qsort(edges, 2 * count, sizeof *edges, by_x);
  for (size_t i = 0; i < 2 * count; i++) {
    const plan_weighed *r = &rects[edges[i].rect];
    range to = {index_of(rows, lines, r->rect.y),
                index_of(rows, lines, r->rect.y + r->rect.height)};
    add(&t, 1, (range){0, lines}, to, edges[i].begins ? r->weight : 0 - r->weight);
    if (t.most[1] <= *most) continue;
    *most = t.most[1];
    *at = (wafer_core_at){edges[i].x, rows[heaviest_row(&t)]};
  }
  return true;
}

wafer_status plan_check_disjoint(const plan_check *c, const wafer_phase *phase) {
  const wafer_plan *plan = c->plan;
  plan_weighed *rects = WAFER_NEW(c->arena, plan_weighed, phase->action_count);
  if (!rects) return plan_check_no_memory(c);
  size_t count = 0;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &plan->kernels[phase->actions[a].index];
    rects[count] = (plan_weighed){k->rect, 1};
    rects[count++].rect.width *= k->replicas;
  }
  uint64_t most;
  wafer_core_at at;
  if (!plan_check_heaviest(c->arena, count, rects, &most, &at)) return plan_check_no_memory(c);
  if (most <= 1) return WAFER_OK;
  const wafer_kernel *met[2] = {NULL, NULL};
  for (uint32_t a = 0; a < phase->action_count && !met[1]; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &plan->kernels[phase->actions[a].index];
    wafer_rect all = k->rect;
    all.width *= k->replicas;
    if (wafer_rect_has(all, at.x, at.y)) met[met[0] != NULL] = k;
  }
  return wafer_fail(c->diag, plan_check_at(c, met[1]), WAFER_BAD_INPUT,
                    "kernels '%s' and '%s' both lie on core (%u, %u) in phase '%s'", met[0]->name,
                    met[1]->name, at.x, at.y, phase->name);
}

/* ---- dead cores ---- */

/* The number of dead cores in rows above y, or in row y left of x; they are sorted so. */
static uint32_t dead_before(const wafer_machine *m, uint32_t x, uint32_t y) {
  uint32_t low = 0, high = m->dead_count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    wafer_core_at at = m->dead[middle];
    if (at.y < y || (at.y == y && at.x < x))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

uint32_t plan_check_dead_in(const plan_check *c, wafer_rect rect) {
  const wafer_machine *m = c->plan->machine;
  uint32_t count = 0, next = dead_before(m, rect.x, rect.y);
  while (next < m->dead_count && m->dead[next].y - rect.y < rect.height) {
    uint32_t y = m->dead[next].y;
    count += dead_before(m, rect.x + rect.width, y) - dead_before(m, rect.x, y);
    next = dead_before(m, rect.x, y + 1);
  }
  return count;
}

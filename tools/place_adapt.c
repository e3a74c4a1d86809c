/* Protocols: once boxes and the slowest time stand, each kernel may still choose among the splits
 * that keep both. One kernel after the other takes the split that agrees best with its neighbours.
 */
#include <string.h>

#include "place.h"

#define SWEEPS 24
#define PATIENCE 8 /* sweeps without a better one */

typedef struct adapter {
  const contest *c;
  uint64_t unit, time;
  double until;
  const wafer_placed *at;
  bool components;
  contest_split *splits;
  uint32_t *first, *edge_of; /* edges at each kernel */
} adapter;

uint32_t contest_last_conv(const contest_kernel *k) {
  return k->type == KERNEL_CONV ? 0 : 2;
}

uint32_t contest_mismatches(const contest *c, const contest_split *splits, uint32_t edge) {
  const wafer_placer_edge *e = &c->edges[edge];
  const contest_split *a = &splits[e->from], *b = &splits[e->to];
  return (a->h != b->h) + (a->w != b->w) +
         (a->k[contest_last_conv(&c->kernels[e->from])] != b->c[0]);
}

static uint32_t cost_at(const adapter *a, uint32_t i) {
  uint32_t cost = 0;
  for (uint32_t e = a->first[i]; e < a->first[i + 1]; e++) {
    uint32_t n = contest_mismatches(a->c, a->splits, a->edge_of[e]);
    cost += a->components ? n : n > 0;
  }
  return cost;
}

typedef struct choice {
  contest_split split;
  uint32_t cost, ties;
} choice;

/* Ties: a fixed walk through the equals, so that repeated sweeps do not stand still. */
static void weigh(adapter *a, uint32_t i, const contest_split *s, uint32_t turn, choice *best) {
  a->splits[i] = *s;
  uint32_t cost = cost_at(a, i);
  if (cost > best->cost) return;
  best->ties = cost < best->cost ? 1 : best->ties + 1;
  turn = (turn * 2654435761u + i * 40503u + best->ties * 97u) >> 7;
  if (cost < best->cost || turn % best->ties == 0) best->split = *s;
  best->cost = cost;
}

/* Outputs that consumers would like, as far as the box has columns for them. */
static void try_outputs(adapter *a, uint32_t i, contest_split *s, uint32_t spare, uint32_t turn,
                        choice *best) {
  const contest_kernel *kernel = &a->c->kernels[i];
  uint32_t last = contest_last_conv(kernel), least = s->k[last];
  contest_conv convs[KERNEL_MOST_CONVS];
  contest_convs(kernel, convs);
  weigh(a, i, s, turn, best);
  for (uint32_t e = a->first[i]; e < a->first[i + 1]; e++) {
    const wafer_placer_edge *edge = &a->c->edges[a->edge_of[e]];
    if (edge->from != i) continue;
    uint32_t k = a->splits[edge->to].c[0];
    if (k <= least || k > least + spare || k > convs[last].K) continue;
    s->k[last] = k;
    weigh(a, i, s, turn, best);
  }
  s->k[last] = least;
}

/* Columns of all convolutions; false when the box is too narrow. */
static bool fill_columns(const adapter *a, uint32_t i, uint32_t convs, uint32_t columns,
                         contest_split *s, uint32_t *spare) {
  uint32_t sum = 0;
  for (uint32_t v = 0; v < convs; v++) {
    s->k[v] = contest_least_k(a->c, &a->c->kernels[i], a->unit, a->time, s, v);
    if (!s->k[v] || (sum += s->k[v]) > columns) return false;
  }
  *spare = columns - sum;
  return true;
}

/* Columns of a convolution if no quotient had to be rounded up. */
static double least_columns(const adapter *a, const contest_conv *v, const contest_split *s,
                            uint32_t c) {
  double work = (double)(v->H * v->W * v->R * v->S) * (double)(v->C * v->K) * (double)a->unit;
  return work / ((double)(v->T * v->T * s->h * s->w) * c * (double)a->time);
}

static void try_inputs(adapter *a, uint32_t i, uint32_t h, uint32_t w, uint32_t cap,
                       uint32_t columns, uint32_t turn, choice *best) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(&a->c->kernels[i], convs), spare;
  contest_split s = {.h = h, .w = w};
  double least = 0;
  for (uint32_t v = 0; v < n; v++) {
    s.c[v] = cap < convs[v].C ? cap : (uint32_t)convs[v].C;
    least += least_columns(a, &convs[v], &s, s.c[v]);
  }
  if (least > columns * (1 + 1e-9)) return; /* most are, and exact divisions take long */
  uint32_t most = s.c[0];
  if (!fill_columns(a, i, n, columns, &s, &spare)) return;
  try_outputs(a, i, &s, spare, turn, best);
  for (uint32_t e = a->first[i]; e < a->first[i + 1]; e++) {
    const wafer_placer_edge *edge = &a->c->edges[a->edge_of[e]];
    if (edge->to != i) continue;
    s.c[0] = a->splits[edge->from].k[contest_last_conv(&a->c->kernels[edge->from])];
    if (s.c[0] < most && fill_columns(a, i, n, columns, &s, &spare))
      try_outputs(a, i, &s, spare, turn, best);
  }
}

static void improve(adapter *a, uint32_t i, uint32_t turn) {
  const contest_kernel *kernel = &a->c->kernels[i];
  const wafer_placed *at = &a->at[i];
  uint32_t height = at->turned ? at->width : at->height;
  uint32_t columns = (at->turned ? at->height : at->width) / 3;
  choice best = {.split = a->splits[i], .cost = cost_at(a, i), .ties = 1};
  for (uint32_t h = 1; h <= kernel->H && 2 * h <= height; h++)
    for (uint32_t w = 1; w <= kernel->W && 2 * h * w <= height; w++)
      try_inputs(a, i, h, w, height / (h * w) - 1, columns, turn, &best);
  a->splits[i] = best.split;
}

uint32_t contest_adapters(const contest *c, const contest_split *splits, bool components) {
  uint32_t sum = 0;
  for (uint32_t e = 0; e < c->edge_count; e++) {
    uint32_t n = contest_mismatches(c, splits, e);
    sum += components ? n : n > 0;
  }
  return sum;
}

static bool list_edges(adapter *a, wafer_arena *arena) {
  const contest *c = a->c;
  a->first = WAFER_NEW(arena, uint32_t, c->count + 1);
  a->edge_of = WAFER_NEW(arena, uint32_t, 2 * (size_t)c->edge_count);
  if (!a->first || !a->edge_of) return false;
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->count; i++) {
    a->first[i] = n;
    for (uint32_t e = 0; e < c->edge_count; e++)
      if (c->edges[e].from == i || c->edges[e].to == i) a->edge_of[n++] = e;
  }
  a->first[c->count] = n;
  return true;
}

/* The time is over. */
static bool late(const adapter *a) {
  return a->until > 0 && contest_seconds() > a->until;
}

static bool improve_all(adapter *a, uint32_t sweep) {
  uint32_t n = a->c->count;
  for (uint32_t i = 0; i < n && !late(a); i++) improve(a, sweep % 2 ? n - 1 - i : i, sweep);
  return !late(a);
}

wafer_status contest_adapt(const wafer_diag *diag, wafer_arena *arena, const contest *c,
                           uint64_t unit, uint64_t time, double until, const wafer_placed *at,
                           bool components, contest_split *splits) {
  adapter a = {c, unit, time, until, at, components, NULL, NULL, NULL};
  size_t bytes = c->count * sizeof *splits;
  a.splits = wafer_arena_copy(arena, splits, bytes);
  if (!a.splits || !list_edges(&a, arena))
    return wafer_fail(diag, wafer_at_file(c->path), WAFER_NO_MEMORY, "no memory for protocols");
  uint32_t best = contest_adapters(c, a.splits, components), since = 0;
  for (uint32_t sweep = 0; sweep < SWEEPS && best && since < PATIENCE; sweep++) {
    if (!improve_all(&a, sweep)) break;
    uint32_t now = contest_adapters(c, a.splits, components);
    since++;
    if (now >= best) continue;
    best = now, since = 0;
    memcpy(splits, a.splits, bytes);
  }
  return WAFER_OK;
}

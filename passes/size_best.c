/* A pipeline's shapes and places from the placement engine (wafer/placer.h). A shape's time is what
 * the interval cannot fall below with it: its cycles, those of its heaviest stream over its rows,
 * and the edge. What the engine cannot know, buffers and the cost of hops, is settled as for
 * shelves, and the better layout stays. */
#include <stdlib.h>
#include <string.h>

#include "size_pipelined.h"
#include "wafer/placer.h"

#define DEFAULT_MOVES 500000
#define TRIES 3 /* each in more haste */

typedef struct search {
  pipeline *p;
  wafer_rect area; /* free of dead cores */
  uint64_t floor;  /* no shorter interval is of use */
  wafer_placer_problem problem;
  wafer_placement found;
  wafer_placed *start; /* the shelves' layout */
} search;

static uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static wafer_objective objective_of(const pipeline *p) { return p->ctx->options->objective; }

/* ---- The problem ---- */

static wafer_status kind_shapes(const search *s, const kind *of, wafer_placer_shapes *out) {
  wafer_arena *arena = s->p->ctx->arena;
  wafer_placer_shape *at = WAFER_NEW(arena, wafer_placer_shape, of->curve->count);
  uint32_t n = 0;
  if (!at) return pipeline_no_memory(s->p);
  for (size_t i = 0; i < of->curve->count; i++) {
    const wafer_shape_point *point = &of->curve->at[i];
    uint64_t time = max_u64(point->cycles, (of->words + point->height - 1) / point->height);
    if (time > UINT64_MAX >> (of->haste + 16)) continue;
    at[n++] = (wafer_placer_shape){point->width, point->height,
                                   max_u64(time << of->haste, s->floor), i};
  }
  n = wafer_placer_pareto(n, at, s->area.width, s->area.height, false, arena);
  *out = (wafer_placer_shapes){n, at};
  return WAFER_OK;
}

static wafer_status list_edges(search *s) {
  const wafer_graph *g = s->p->graph;
  size_t most = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++) most += g->kernels[k].body.input_count;
  wafer_placer_edge *edges = WAFER_NEW(s->p->ctx->arena, wafer_placer_edge, most);
  uint32_t n = 0;
  if (!edges) return pipeline_no_memory(s->p);
  for (uint32_t k = 0; k < g->kernel_count; k++)
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
      uint32_t from = g->values[g->kernels[k].inputs[i]].producer;
      if (from != WAFER_NONE && from != k) edges[n++] = (wafer_placer_edge){from, k, 1};
    }
  s->problem.edges = edges;
  s->problem.edge_count = n;
  return WAFER_OK;
}

/* Wires that cross the whole wafer weigh as much as a hundredth of the interval at most, unless
 * they are what is wanted. */
static double wire_weight(const search *s) {
  const wafer_placer_problem *q = &s->problem;
  double longest = (double)(q->edge_count + 1) * (q->width + q->height);
  double interval = (double)max_u64(s->p->out->cost.interval_cycles, 1);
  return (objective_of(s->p) == WAFER_OBJECTIVE_throughput ? 0.01 : 1) * interval / longest;
}

static wafer_status make_problem(search *s) {
  pipeline *p = s->p;
  wafer_placer_shapes *kinds = WAFER_NEW(p->ctx->arena, wafer_placer_shapes, p->kind_count);
  if (!kinds) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->kind_count; k++)
    WAFER_TRY(kind_shapes(s, &p->kinds[k], &kinds[k]));
  s->problem = (wafer_placer_problem){.width = s->area.width,
                                      .height = s->area.height,
                                      .kind_count = p->kind_count,
                                      .count = p->graph->kernel_count,
                                      .kinds = kinds,
                                      .kind = p->kind_of,
                                      .time_weight = 1};
  WAFER_TRY(list_edges(s));
  s->problem.wire_weight = wire_weight(s);
  return WAFER_OK;
}

/* ---- The search ---- */

/* found: the engine laid everything out. It is asked without a sink for errors: shelves may fit
 * where it fails, and there are other tries. */
static wafer_status look(search *s, shelf_place *places, bool *found) {
  const wafer_options *o = s->p->ctx->options;
  wafer_arena *arena = s->p->ctx->arena;
  wafer_diag quiet = s->p->ctx->diag ? *s->p->ctx->diag : (wafer_diag){0};
  quiet.emit = NULL;
  wafer_placer_options options = {.seed = o->place_seed, .moves = o->place_moves};
  options.start = s->start;
  options.seconds = o->place_seconds / TRIES;
  if (!o->place_moves && o->place_seconds <= 0) options.moves = DEFAULT_MOVES;
  WAFER_TRY(make_problem(s));
  wafer_status status = wafer_place(&quiet, arena, &s->problem, &options, &s->found);
  *found = status == WAFER_OK;
  if (status == WAFER_NO_MEMORY) return pipeline_no_memory(s->p);
  for (uint32_t k = 0; *found && k < s->problem.count; k++) {
    const wafer_placed *at = &s->found.at[k];
    uint64_t point = s->problem.kinds[s->problem.kind[k]].at[at->shape].tag;
    places[k] = (shelf_place){
        (uint32_t)point,
        {s->area.x + at->x, s->area.y + at->y, at->width, at->height}};
  }
  return WAFER_OK;
}

/* ---- The bound ---- */

/* Do the smallest shapes of at most t cycles fit the usable cores? */
static bool area_fits(const pipeline *p, uint64_t t) {
  uint64_t room = wafer_rect_area(p->ctx->machine->usable);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const kind *of = &p->kinds[p->kind_of[k]];
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < of->curve->count && of->curve->at[i].cycles <= t; i++) {
      uint64_t w = of->curve->at[i].width, h = of->curve->at[i].height;
      if (of->words > t * max_u64(w, h)) continue;
      if (w * h < least) least = w * h;
    }
    if (least > room) return false; /* none is that fast, or there is no room */
    room -= least;
  }
  return true;
}

/* No layout has a shorter interval. */
static uint64_t least_interval(const pipeline *p) {
  uint64_t low = p->edge, high = p->cycle_count ? p->cycles[p->cycle_count - 1] : low;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    if (area_fits(p, mid)) high = mid;
    else low = mid + 1;
  }
  return low;
}

/* ---- The choice ---- */

typedef struct merit {
  bool fits;
  uint64_t interval, latency, wire;
} merit;

static uint64_t apart(uint32_t a, uint32_t a_length, uint32_t b, uint32_t b_length) {
  return (uint64_t)llabs(2 * (int64_t)a + a_length - 2 * (int64_t)b - b_length);
}

static merit merit_of(const search *s, const shelf_place *places) {
  const wafer_mode_cost *cost = &s->p->out->cost;
  merit m = {true, cost->interval_cycles, cost->latency_cycles, 0};
  for (uint32_t e = 0; e < s->problem.edge_count; e++) {
    wafer_rect a = places[s->problem.edges[e].from].rect, b = places[s->problem.edges[e].to].rect;
    m.wire += apart(a.x, a.width, b.x, b.width) + apart(a.y, a.height, b.y, b.height);
  }
  return m;
}

static bool better(const search *s, const merit *a, const merit *b) {
  if (!b->fits) return a->fits;
  switch (objective_of(s->p)) {
  case WAFER_OBJECTIVE_throughput:
    if (a->interval != b->interval) return a->interval < b->interval;
    return a->wire != b->wire ? a->wire < b->wire : a->latency < b->latency;
  case WAFER_OBJECTIVE_latency:
    return a->latency != b->latency ? a->latency < b->latency : a->interval < b->interval;
  case WAFER_OBJECTIVE_wire:
    return a->interval <= b->interval && a->wire < b->wire;
  }
  return false;
}

static void tell(const search *s, const merit *shelves, const merit *best) {
  wafer_note(s->p->ctx->diag, (wafer_loc){0},
             "placer best: interval %llu cycles (shelves %llu; no layout below %llu), latency %llu "
             "(%llu), wires %llu cores (%llu)",
             (unsigned long long)best->interval, (unsigned long long)shelves->interval,
             (unsigned long long)least_interval(s->p), (unsigned long long)best->latency,
             (unsigned long long)shelves->latency, (unsigned long long)best->wire / 2,
             (unsigned long long)shelves->wire / 2);
}

/* None is in haste at first; then those whom the shelves hastened; then more. */
static wafer_status set_haste(pipeline *p, int try, const uint32_t *of_shelves) {
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  if (try == 0) memset(p->haste, 0, bytes);
  if (try == 1) memcpy(p->haste, of_shelves, bytes);
  if (try > 1) pipeline_hasten(p);
  return pipeline_find_kinds(p);
}

/* Tries until buffers no longer cost anything. */
static wafer_status try_all(search *s, shelf_place *tried, shelf_place *best, merit *b) {
  pipeline *p = s->p;
  merit shelves = *b;
  bool told = b->fits, found = true;
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  uint32_t *of_shelves = wafer_arena_copy(p->ctx->arena, p->haste, bytes);
  if (!of_shelves) return pipeline_no_memory(p);
  for (int k = 0; k < TRIES && found; k++) {
    WAFER_TRY(set_haste(p, k, of_shelves));
    WAFER_TRY(look(s, tried, &found));
    if (k == 0 && told) shelves = *b = merit_of(s, best); /* edges are known now */
    if (!found) break;
    WAFER_TRY(pipeline_settle(p, tried));
    merit m = merit_of(s, tried);
    if (better(s, &m, b)) {
      *b = m;
      memcpy(best, tried, s->problem.count * sizeof *best);
    }
    if (m.interval <= s->found.time) break;
  }
  if (b->fits && told) tell(s, &shelves, b);
  return WAFER_OK;
}

static wafer_placed *start_of(const pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  wafer_placed *start = WAFER_NEW(p->ctx->arena, wafer_placed, n);
  for (uint32_t k = 0; start && k < n; k++) {
    wafer_rect r = p->places[k].rect;
    start[k] = (wafer_placed){.x = r.x, .y = r.y, .width = r.width, .height = r.height};
  }
  return start;
}

static wafer_status search_layout(pipeline *p, shelf_place *best, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  search s = {.p = p, .floor = p->edge};
  shelf_place *tried = WAFER_NEW(p->ctx->arena, shelf_place, n);
  if (!tried || !size_whole_wafer(p->ctx->machine, &s.area)) return pipeline_no_memory(p);
  if (*fits) memcpy(best, p->places, n * sizeof *best);
  if (*fits && !(s.start = start_of(p))) return pipeline_no_memory(p);
  if (*fits && objective_of(p) == WAFER_OBJECTIVE_wire) s.floor = p->out->cost.interval_cycles;
  merit b = {.fits = *fits, .interval = p->out->cost.interval_cycles};
  WAFER_TRY(try_all(&s, tried, best, &b));
  *fits = b.fits;
  return WAFER_OK;
}

wafer_status pipeline_best(pipeline *p, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  const shelf_place *kept = curve_set_layout(p->curves, n);
  if (!kept) {
    shelf_place *best = WAFER_NEW(p->ctx->arena, shelf_place, n);
    if (!best) return pipeline_no_memory(p);
    WAFER_TRY(search_layout(p, best, fits));
    if (!*fits) return WAFER_OK;
    if (!curve_set_keep_layout(p->curves, n, best)) return pipeline_no_memory(p);
    kept = curve_set_layout(p->curves, n);
  }
  for (uint32_t k = 0; k < n; k++) p->out->kernels[k].rect = &kept[k].rect;
  *fits = true;
  return pipeline_settle(p, kept);
}

/* A pipeline's shapes and places from the placement engine (wafer/placer.h). A shape's time is what
 * the interval cannot fall below with it: its cycles, those of its heaviest stream over its rows,
 * and the edge. Several replicas of a split, side by side, are a shape as well: of r of them each
 * has every r-th sample, but all samples pass the rows of the first. What the engine cannot know,
 * buffers and the cost of hops, is settled as for shelves, and the better layout stays. */
#include <stdlib.h>
#include <string.h>

#include "size_pipelined.h"
#include "wafer/placer.h"

#define DEFAULT_MOVES 1000000
#define TRIES 4 /* each with more room for buffers, or in more haste */
#define MOST_REPLICAS 64u

typedef struct search {
  pipeline *p;
  wafer_rect area;          /* free of dead cores */
  uint64_t floor;           /* no shorter interval is of use */
  uint32_t replicas;        /* of a kernel, at most: in this try */
  uint32_t most;            /* in any */
  uint64_t bound;           /* no layout has a shorter interval */
  uint32_t *many;           /* of each kind: kernels */
  wafer_placer_edge *edges; /* between kernels */
  uint32_t edge_count;
  uint32_t *item;                    /* kernels that the engine places: those without a pin */
  const wafer_curve *const *guessed; /* of each kernel: the curve for depths as guessed */
  wafer_placer_problem problem;
  wafer_placement found;
  wafer_placed *start; /* the shelves' layout */
} search;

static uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static wafer_objective objective_of(const pipeline *p) {
  return p->ctx->options->objective;
}

/* ---- The problem ---- */

/* One replica of a point of the curve, then more as long as they gain; their number. `at` may be
 * NULL. The tag is the point, and from bit 32 the replicas. */
static uint32_t point_shapes(const search *s, const kind *of, size_t i, wafer_placer_shape *at) {
  const wafer_shape_point *point = &of->curve->at[i];
  uint64_t stream = (of->words + point->height - 1) / point->height, last = UINT64_MAX;
  uint32_t n = 0;
  for (uint32_t r = 1; r <= s->replicas && point->width * r <= s->area.width; r++) {
    uint64_t time = max_u64((point->cycles + r - 1) / r, stream);
    if (time > UINT64_MAX >> (of->haste + 16)) continue;
    time = max_u64(time << of->haste, s->floor);
    if (time == last) break;
    last = time;
    if (at)
      at[n] = (wafer_placer_shape){point->width * r, point->height, time, (uint64_t)r << 32 | i};
    n++;
  }
  return n;
}

static wafer_status kind_shapes(const search *s, const kind *of, wafer_placer_shapes *out) {
  wafer_arena *arena = s->p->ctx->arena;
  uint32_t n = 0;
  for (size_t i = 0; i < of->curve->count; i++) n += point_shapes(s, of, i, NULL);
  wafer_placer_shape *at = WAFER_NEW(arena, wafer_placer_shape, n);
  if (!at) return pipeline_no_memory(s->p);
  n = 0;
  for (size_t i = 0; i < of->curve->count; i++) n += point_shapes(s, of, i, at + n);
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
  s->edges = edges;
  s->edge_count = n;
  return WAFER_OK;
}

static bool is_pinned(const pipeline *p, uint32_t k) {
  return p->pin && p->pin[k];
}

/* Cores of all replicas. */
static wafer_rect all_replicas(const shelf_place *at) {
  wafer_rect all = at->rect;
  if (at->replicas) all.width *= at->replicas;
  return all;
}

static shelf_place pinned_place(const pipeline *p, uint32_t k) {
  const wafer_pin *pin = p->pin[k];
  return (shelf_place){p->pinned[k], pin->rect, pin->replicas, &p->curve[k]->at[p->pinned[k]]};
}

/* What the engine places, and what stands still; edges between pinned kernels do not change. */
static wafer_status list_items(search *s) {
  const pipeline *p = s->p;
  wafer_arena *arena = p->ctx->arena;
  uint32_t n = p->graph->kernel_count, items = 0, fixed = 0, edges = 0;
  uint32_t *index = WAFER_NEW(arena, uint32_t, n), *kinds = WAFER_NEW(arena, uint32_t, n);
  wafer_placer_terminal *terminals = WAFER_NEW(arena, wafer_placer_terminal, n);
  wafer_placer_edge *between = WAFER_NEW(arena, wafer_placer_edge, s->edge_count);
  s->item = WAFER_NEW(arena, uint32_t, n);
  if (!index || !kinds || !terminals || !between || !s->item) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++)
    if (!is_pinned(p, k)) kinds[items] = p->kind_of[k], s->item[index[k] = items++] = k;
  for (uint32_t k = 0; k < n; k++) {
    if (!is_pinned(p, k)) continue;
    shelf_place at = pinned_place(p, k);
    wafer_rect r = all_replicas(&at);
    terminals[fixed] =
        (wafer_placer_terminal){2 * (int32_t)r.x + (int32_t)r.width - 2 * (int32_t)s->area.x,
                                2 * (int32_t)r.y + (int32_t)r.height - 2 * (int32_t)s->area.y};
    index[k] = items + fixed++;
  }
  for (uint32_t e = 0; e < s->edge_count; e++) {
    wafer_placer_edge edge = {index[s->edges[e].from], index[s->edges[e].to], s->edges[e].weight};
    if (edge.from < items || edge.to < items) between[edges++] = edge;
  }
  s->problem = (wafer_placer_problem){.width = s->area.width,
                                      .height = s->area.height,
                                      .count = items,
                                      .kind = kinds,
                                      .edges = between,
                                      .edge_count = edges,
                                      .terminals = terminals,
                                      .terminal_count = fixed,
                                      .time_weight = 1};
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
  for (uint32_t k = 0; k < p->kind_count; k++) WAFER_TRY(kind_shapes(s, &p->kinds[k], &kinds[k]));
  WAFER_TRY(list_items(s));
  s->problem.kinds = kinds;
  s->problem.kind_count = p->kind_count;
  s->problem.wire_weight = wire_weight(s);
  return WAFER_OK;
}

/* ---- The search ---- */

/* found: the engine laid everything out. It is asked without a sink for errors: shelves may fit
 * where it fails, and there are other tries. */
static wafer_status look(search *s, uint64_t try, shelf_place *places, bool *found) {
  const wafer_options *o = s->p->ctx->options;
  wafer_arena *arena = s->p->ctx->arena;
  wafer_diag quiet = s->p->ctx->diag ? *s->p->ctx->diag : (wafer_diag){0};
  quiet.emit = NULL;
  wafer_placer_options options = {.seed = o->place_seed + try, .moves = o->place_moves};
  options.start = s->start;
  options.seconds = o->place_seconds / (2 * TRIES);
  if (!o->place_moves && o->place_seconds <= 0) options.moves = DEFAULT_MOVES;
  WAFER_TRY(make_problem(s));
  wafer_status status = wafer_place(&quiet, arena, &s->problem, &options, &s->found);
  *found = status == WAFER_OK;
  if (status == WAFER_NO_MEMORY) return pipeline_no_memory(s->p);
  if (*found) s->start = s->found.at; /* the next try goes on from here */
  for (uint32_t i = 0; *found && i < s->problem.count; i++) {
    const wafer_placed *at = &s->found.at[i];
    uint64_t tag = s->problem.kinds[s->problem.kind[i]].at[at->shape].tag;
    uint32_t replicas = (uint32_t)(tag >> 32), k = s->item[i];
    places[k] =
        (shelf_place){(uint32_t)tag,
                      {s->area.x + at->x, s->area.y + at->y, at->width / replicas, at->height},
                      replicas,
                      &s->p->curve[k]->at[(uint32_t)tag]};
  }
  for (uint32_t k = 0; *found && k < s->p->graph->kernel_count; k++)
    if (is_pinned(s->p, k)) places[k] = pinned_place(s->p, k);
  return WAFER_OK;
}

/* ---- The bound ---- */

/* Lengths along a direction of `all` cores, so changed that what fits beside each other still does:
 * measured so, too, no layout has more area than the wafer. Kernels of more than half the wafer's
 * height cannot stand on each other, of more than a third not three; their area does not show it.
 * (Dual feasible functions: Fekete and Schepers, Mathematical Programming 91, 2001.) 0: as it is.
 * To STEPS: what leaves less than `step` parts of 2 STEPS is all, and less than that is nothing.
 * Beyond: so many parts and no fractions. */
#define STEPS 8u
#define PARTS 6u
typedef struct measure {
  uint32_t step; /* below STEPS + PARTS */
  uint64_t all;
} measure;

static uint64_t measured(measure m, uint64_t length) {
  if (m.step > STEPS) { /* in units of 1 / parts of all */
    uint64_t parts = m.step - STEPS + 1, whole = (parts + 1) * length / m.all;
    bool even = (parts + 1) * length % m.all == 0;
    return even ? length * parts : whole * m.all;
  }
  if (2 * STEPS * length < m.step * m.all) return 0;
  return 2 * STEPS * length > (2 * STEPS - m.step) * m.all ? m.all : length;
}

/* What `all` measures: fractions of parts are counted exactly. */
static uint64_t measured_all(measure m) {
  return m.step > STEPS ? m.all * (m.step - STEPS + 1) : m.all;
}

/* Least area, so measured, on which a kind takes at most t cycles a sample; UINT64_MAX: none. */
static uint64_t least_area(const search *s, const kind *of, uint64_t t, measure x, measure y) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < of->curve->count && of->curve->at[i].cycles / s->most <= t; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    uint64_t w = at->width, h = at->height, replicas = t ? (at->cycles + t - 1) / t : 1;
    if (replicas > s->most || replicas * w > s->area.width) continue;
    if (of->words > t * max_u64(w, h)) continue;
    uint64_t area = measured(x, max_u64(replicas, 1) * w) * measured(y, h);
    if (area < least) least = area;
  }
  return least;
}

static bool measure_fits(const search *s, uint64_t t, measure x, measure y) {
  const pipeline *p = s->p;
  uint64_t room = measured_all(x) * measured_all(y);
  for (uint32_t k = 0; k < p->kind_count; k++) {
    uint64_t least = least_area(s, &p->kinds[k], t, x, y), many = s->many[k];
    if (least > room / many) return false; /* none is that fast, or there is no room */
    room -= least * many;
  }
  return true;
}

/* May shapes of at most t cycles fit the usable cores? */
static bool area_fits(const search *s, uint64_t t) {
  wafer_rect usable = s->p->ctx->machine->usable;
  for (uint32_t step = 0; step <= STEPS + PARTS; step++) {
    measure x = {0, usable.width}, y = {0, usable.height};
    if (!measure_fits(s, t, (measure){step, x.all}, y)) return false;
    if (step && !measure_fits(s, t, x, (measure){step, y.all})) return false;
  }
  return true;
}

static uint64_t least_interval(search *s) {
  const pipeline *p = s->p;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) s->many[p->kind_of[k]]++;
  uint64_t low = p->edge, high = p->cycle_count ? p->cycles[p->cycle_count - 1] : low;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    if (area_fits(s, mid))
      high = mid;
    else
      low = mid + 1;
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
  for (uint32_t e = 0; e < s->edge_count; e++) {
    wafer_rect a = all_replicas(&places[s->edges[e].from]);
    wafer_rect b = all_replicas(&places[s->edges[e].to]);
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
  case WAFER_OBJECTIVE_wire: return a->interval <= b->interval && a->wire < b->wire;
  }
  return false;
}

static void tell(const search *s, const merit *shelves, const merit *best) {
  wafer_note(s->p->ctx->diag, (wafer_loc){0},
             "placer best: interval %llu cycles (shelves %llu; no layout below %llu), latency %llu "
             "(%llu), wires %llu cores (%llu)",
             (unsigned long long)best->interval, (unsigned long long)shelves->interval,
             (unsigned long long)s->bound, (unsigned long long)best->latency,
             (unsigned long long)shelves->latency, (unsigned long long)best->wire / 2,
             (unsigned long long)shelves->wire / 2);
}

/* At first none is in haste, and buffers are as deep as guessed; then kernels are made for those
 * that the layout asked for, where there are such shapes; then those make haste whom the shelves
 * hastened. */
static wafer_status set_haste(pipeline *p, int try, const uint32_t *of_shelves) {
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  bool deeper = false;
  if (try == 0) memset(p->haste, 0, bytes);
  if (try) WAFER_TRY(pipeline_deepen(p, &deeper));
  if (try == TRIES - 1 || (try && !deeper)) memcpy(p->haste, of_shelves, bytes);
  memset(p->skipped, 0, ((size_t)p->graph->kernel_count + 2) * sizeof *p->skipped);
  return pipeline_find_kinds(p);
}

/* Tries until buffers no longer cost anything, then to be faster; each from where the last ended.
 */
static wafer_status try_haste(search *s, const uint32_t *of_shelves, shelf_place *tried,
                              shelf_place *best, merit *b) {
  pipeline *p = s->p;
  bool found = true, settled = false;
  memcpy(p->curve, s->guessed, p->graph->kernel_count * sizeof *p->curve);
  for (int k = 0; k < TRIES; k++) {
    if (!settled) WAFER_TRY(set_haste(p, k, of_shelves));
    WAFER_TRY(look(s, (uint64_t)k, tried, &found));
    if (!found) break;
    WAFER_TRY(pipeline_settle(p, tried));
    merit m = merit_of(s, tried);
    if (better(s, &m, b)) {
      *b = m;
      memcpy(best, tried, p->graph->kernel_count * sizeof *best);
    }
    settled = m.interval <= s->found.time;
    if (settled && m.interval <= s->bound) break;
  }
  return WAFER_OK;
}

/* Without replicas first: they cost latency, and gain nothing where the interval is the bound. */
static wafer_status try_all(search *s, shelf_place *tried, shelf_place *best, merit *b) {
  pipeline *p = s->p;
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  uint32_t *of_shelves = wafer_arena_copy(p->ctx->arena, p->haste, bytes);
  if (!of_shelves) return pipeline_no_memory(p);
  s->many = WAFER_NEW(p->ctx->arena, uint32_t, p->kind_count);
  bytes = p->graph->kernel_count * sizeof *p->curve;
  s->guessed = wafer_arena_copy(p->ctx->arena, p->curve, bytes);
  if (!s->many || !s->guessed) return pipeline_no_memory(p);
  WAFER_TRY(list_edges(s));
  if (b->fits) *b = merit_of(s, best);
  merit shelves = *b;
  s->bound = least_interval(s);
  s->replicas = 1;
  WAFER_TRY(try_haste(s, of_shelves, tried, best, b));
  s->replicas = s->most;
  if (s->most > 1 && (!b->fits || b->interval > s->bound))
    WAFER_TRY(try_haste(s, of_shelves, tried, best, b));
  if (shelves.fits) tell(s, &shelves, b);
  return WAFER_OK;
}

static wafer_placed *start_of(const pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  wafer_placed *start = WAFER_NEW(p->ctx->arena, wafer_placed, n);
  for (uint32_t k = 0, i = 0; start && k < n; k++) {
    wafer_rect r = p->places[k].rect;
    if (is_pinned(p, k)) continue;
    start[i++] = (wafer_placed){.x = r.x, .y = r.y, .width = r.width, .height = r.height};
  }
  return start;
}

/* A sample is not done sooner for them, and core programs serve one. */
static uint32_t most_replicas(const pipeline *p) {
  const wafer_options *o = p->ctx->options;
  if (o->objective != WAFER_OBJECTIVE_throughput || o->programs == WAFER_PROGRAMS_always) return 1;
  return o->replicas && o->replicas < MOST_REPLICAS ? o->replicas : MOST_REPLICAS;
}

/* The largest rectangle that nothing stands on; empty when everything is pinned. */
static wafer_status free_area(const pipeline *p, wafer_rect *out) {
  wafer_machine m = *p->ctx->machine;
  uint32_t n = p->graph->kernel_count, count = m.reserved_count;
  wafer_rect *taken = WAFER_NEW(p->ctx->arena, wafer_rect, (size_t)count + n);
  if (!taken) return pipeline_no_memory(p);
  if (count) memcpy(taken, m.reserved, count * sizeof *taken);
  for (uint32_t k = 0; k < n; k++)
    if (is_pinned(p, k)) {
      shelf_place at = pinned_place(p, k);
      taken[count++] = all_replicas(&at);
    }
  bool all = count == m.reserved_count + n;
  m.reserved = taken;
  m.reserved_count = count;
  *out = (wafer_rect){0};
  return all || size_whole_wafer(&m, out) ? WAFER_OK : pipeline_no_memory(p);
}

static wafer_status search_layout(pipeline *p, shelf_place *best, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  search s = {.p = p, .floor = p->edge, .most = most_replicas(p)};
  shelf_place *tried = WAFER_NEW(p->ctx->arena, shelf_place, n);
  if (!tried) return pipeline_no_memory(p);
  WAFER_TRY(free_area(p, &s.area));
  if (*fits) memcpy(best, p->places, n * sizeof *best);
  for (uint32_t k = 0; *fits && k < n; k++) best[k].point = &p->curve[k]->at[best[k].index];
  if (*fits && !(s.start = start_of(p))) return pipeline_no_memory(p);
  if (*fits && objective_of(p) == WAFER_OBJECTIVE_wire) s.floor = p->out->cost.interval_cycles;
  merit b = {.fits = *fits, .interval = p->out->cost.interval_cycles};
  if (s.area.width && s.area.height) WAFER_TRY(try_all(&s, tried, best, &b));
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

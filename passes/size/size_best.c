/* A pipeline's shapes and places from the placement engine (wafer/placer.h). A shape's time is what
 * the interval cannot fall below with it: its cycles, those of its heaviest stream over its rows,
 * and the edge. Several replicas of a split, side by side, are a shape as well: of r of them each
 * has every r-th sample, but all samples pass the rows of the first. What the engine cannot know,
 * buffers and the cost of hops, is settled as for shelves, and the better layout stays. */
#include <stdlib.h>
#include <string.h>

#include "size_best.h"
#include "streams.h"

#define DEFAULT_MOVES 2000000
#define MOST_WORK 512000000   /* of more than 256 kernels as many moves as go through so many */
#define TRAINING_MOVES 200000 /* of several times as many kernels, each of which takes longer */
#define QUICK_MOVES 100000
#define TRIES 4      /* each with more room for buffers, or in more haste */
#define MOST_TRIES 8 /* where buffers still cost something, or kernels are patient */
#define HOLDS 3      /* at last: what was found before, with room for what waits there */
#define WORTH 256    /* patience is tried if it promises an interval shorter by this part */
#define MOST_REPLICAS 64u

/* Whether core programs will tell how fast the pipeline is. */
static bool by_programs(const wafer_ctx *ctx, const wafer_graph *graph) {
  const wafer_options *o = ctx->options;
  bool alone = !o->training && !graph->piece;
  return o->programs == WAFER_PROGRAMS_always || (alone && size_gets_train(ctx, graph));
}

wafer_objective size_objective(const wafer_ctx *ctx, const wafer_graph *graph) {
  wafer_objective asked = ctx->options ? ctx->options->objective : WAFER_OBJECTIVE_throughput;
  return graph->piece ? WAFER_OBJECTIVE_latency : asked;
}

bool size_seeks_pace(const wafer_ctx *ctx, const wafer_graph *graph) {
  const wafer_options *o = ctx->options;
  return o && o->placer == WAFER_PLACER_best &&
         size_objective(ctx, graph) == WAFER_OBJECTIVE_throughput && o->replicas < 2 &&
         !o->pin_count && by_programs(ctx, graph);
}

static wafer_objective objective_of(const pipeline *p) {
  return size_objective(p->ctx, p->graph);
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

/* ---- The search ---- */

/* Where the engine's answer about an area puts its kernels. */
static void take_places(search *s, const search_area *area, const wafer_placer_problem *problem,
                        const wafer_placement *found, wafer_placed *now, shelf_place *places) {
  for (uint32_t i = 0; i < area->count; i++) {
    const wafer_placed *at = &found->at[i];
    uint64_t tag = problem->kinds[problem->kind[i]].at[at->shape].tag;
    uint32_t replicas = (uint32_t)(tag >> 32), k = s->item[area->first + i];
    wafer_placed *to = &now[area->first + i];
    *to = *at;
    to->x += area->rect.x;
    to->y += area->rect.y;
    places[k] = (shelf_place){(uint32_t)tag,
                              {to->x, to->y, at->width / replicas, at->height},
                              replicas,
                              &s->p->curve[k]->at[(uint32_t)tag]};
  }
}

/* Where nobody said how many: a move goes through all kernels. */
static uint64_t default_moves(const search *s) {
  uint64_t most = MOST_WORK / (s->item_count ? s->item_count : 1);
  if (s->p->ctx->options->training) return TRAINING_MOVES;
  return most < DEFAULT_MOVES ? most : DEFAULT_MOVES;
}

/* Asks the engine about one area, in its share of the moves and seconds. found: it laid everything
 * out. It is asked without a sink for errors: shelves may fit where it fails, and there are other
 * tries. */
static wafer_status look_at(search *s, search_area *area, uint64_t try, wafer_placed *now,
                            shelf_place *places, bool *found) {
  const wafer_options *o = s->p->ctx->options;
  wafer_diag quiet = s->p->ctx->diag ? *s->p->ctx->diag : (wafer_diag){0};
  wafer_placer_problem problem;
  wafer_placement placement;
  quiet.emit = NULL;
  wafer_placer_options options = {.seed = o->place_seed + try, .moves = o->place_moves};
  options.start = s->start ? s->start + area->first : NULL;
  options.seconds = o->place_seconds / (TRIES + MOST_TRIES + HOLDS) * area->count / s->item_count;
  if (!o->place_moves && o->place_seconds <= 0) options.moves = default_moves(s);
  if (s->quick && options.moves > QUICK_MOVES) options.moves = QUICK_MOVES;
  if (s->area_count > 1 && options.moves)
    options.moves = options.moves / s->item_count * area->count + 1;
  WAFER_TRY(search_problem(s, area, &problem));
  wafer_status status = wafer_place(&quiet, s->p->ctx->arena, &problem, &options, &placement);
  *found = status == WAFER_OK;
  if (status == WAFER_NO_MEMORY) return pipeline_no_memory(s->p);
  if (!*found) return WAFER_OK;
  area->time = placement.time;
  take_places(s, area, &problem, &placement, now, places);
  return WAFER_OK;
}

/* All areas, one after the other. */
static wafer_status look(search *s, uint64_t try, shelf_place *places, bool *found) {
  wafer_placed *now = WAFER_NEW(s->p->ctx->arena, wafer_placed, s->item_count);
  if (!now) return pipeline_no_memory(s->p);
  search_deal(s);
  s->found = 0;
  for (uint32_t a = 0; a < s->area_count; a++) {
    if (!s->areas[a].count) continue;
    WAFER_TRY(look_at(s, &s->areas[a], try, now, places, found));
    if (!*found) return WAFER_OK;
    s->found = max_u64(s->found, s->areas[a].time);
  }
  search_even_out(s);
  s->start = now; /* the next try goes on from here */
  for (uint32_t k = 0; k < s->p->graph->kernel_count; k++)
    if (search_is_pinned(s->p, k)) places[k] = search_pinned(s->p, k);
  return WAFER_OK;
}

/* ---- The choice ---- */

typedef struct merit {
  bool fits;
  uint64_t interval, latency, wire;
  uint64_t pace; /* interval of core programs, predicted; where there are some */
  uint64_t turn; /* the longest, predicted: what a kernel receives, computes and sends */
} merit;

static uint64_t apart(uint32_t a, uint32_t a_length, uint32_t b, uint32_t b_length) {
  return (uint64_t)llabs(2 * (int64_t)a + a_length - 2 * (int64_t)b - b_length);
}

static wafer_status weigh(const search *s, const shelf_place *places, merit *out) {
  const wafer_mode_cost *cost = &s->p->out->cost;
  merit m = {.fits = true, .interval = cost->interval_cycles, .latency = cost->latency_cycles};
  for (uint32_t e = 0; e < s->edge_count; e++) {
    wafer_rect a = search_all_replicas(&places[s->edges[e].from]);
    wafer_rect b = search_all_replicas(&places[s->edges[e].to]);
    m.wire += apart(a.x, a.width, b.x, b.width) + apart(a.y, a.height, b.y, b.height);
  }
  if (s->most == 1 && by_programs(s->p->ctx, s->p->graph))
    WAFER_TRY(pipeline_pace(s->p, places, &m.pace));
  *out = m;
  return pipeline_turn(s->p, places, &out->turn);
}

static bool better(const search *s, const merit *a, const merit *b) {
  if (!b->fits) return a->fits;
  switch (objective_of(s->p)) {
  case WAFER_OBJECTIVE_throughput:
    if (a->pace != b->pace) return a->pace < b->pace;
    if (a->interval != b->interval) return a->interval < b->interval;
    if (a->turn != b->turn) return a->turn < b->turn;
    return a->wire != b->wire ? a->wire < b->wire : a->latency < b->latency;
  case WAFER_OBJECTIVE_latency:
    return a->latency != b->latency ? a->latency < b->latency : a->interval < b->interval;
  case WAFER_OBJECTIVE_wire: return a->interval <= b->interval && a->wire < b->wire;
  }
  return false;
}

static void tell(const search *s, const merit *shelves, const merit *best) {
  uint32_t bands = wafer_machine_bands(s->p->ctx->machine);
  const char *of = "";
  if (bands > 1) of = wafer_arena_printf(s->p->ctx->arena, " of one of %u bands", bands);
  wafer_note(s->p->ctx->diag, (wafer_loc){0},
             "placer best: interval %llu cycles%s (shelves %llu; no layout below %llu), "
             "latency %llu (%llu), wires %llu cores (%llu)",
             (unsigned long long)best->interval, of ? of : "",
             (unsigned long long)shelves->interval, (unsigned long long)s->bound,
             (unsigned long long)best->latency, (unsigned long long)shelves->latency,
             (unsigned long long)best->wire / 2, (unsigned long long)shelves->wire / 2);
}

/* A layout whose cores do not hold what waits; of several the one with the fastest kernels. */
typedef struct shallow {
  uint64_t found; /* the time of its slowest kernel; 0: there is none */
  wafer_placed *start;
  shelf_place *places;
} shallow;

/* The tries of a search. */
typedef struct trial {
  const uint32_t *of_shelves; /* the haste there */
  shelf_place *tried, *best;
  merit *b;
  bool settled; /* the last one: buffers cost nothing */
  bool waits;   /* in one of them, cores could not hold what waits */
  bool patient; /* kernels are as patient as they may be */
  shallow shallow; /* since the last tries began, or kernels became patient */
  bool ends;    /* nothing is found, or no more of use */
} trial;

/* At first none is in haste, and buffers are as deep as guessed; then kernels are made for those
 * that the layout asked for, where there are such shapes; then those make haste whom the shelves
 * hastened. */
static wafer_status set_haste(pipeline *p, int try, bool last, const trial *t) {
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  bool deeper = false;
  if (try == 0) memset(p->haste, 0, bytes);
  if (try == 0) memset(p->patience, 0, bytes);
  if (try) WAFER_TRY(pipeline_deepen(p, &deeper));
  if (!t->patient && (last || (try && !deeper))) memcpy(p->haste, t->of_shelves, bytes);
  memset(p->skipped, 0, ((size_t)p->graph->kernel_count + 2) * sizeof *p->skipped);
  return pipeline_find_kinds(p);
}

/* No interval below it is of use: no layout has one, or the bands together wait for the edge. */
static uint64_t enough(const search *s) {
  if (objective_of(s->p) != WAFER_OBJECTIVE_throughput) return s->bound;
  return max_u64(s->bound, s->p->edge * wafer_machine_bands(s->p->ctx->machine));
}

/* How often to try with kernels as they are: seconds are shared out among the fewest there are. */
static int most_tries(const pipeline *p) {
  const wafer_options *o = p->ctx->options;
  return o->place_seconds > 0 && !o->place_moves ? TRIES : MOST_TRIES;
}

static bool some_want_more(const pipeline *p) {
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (p->wanted[k]) return true;
  return false;
}

static void keep_shallow(const search *s, trial *t) {
  if (t->shallow.found && t->shallow.found <= s->found) return;
  t->shallow.found = s->found;
  t->shallow.start = s->start;
  memcpy(t->shallow.places, t->tried, s->p->graph->kernel_count * sizeof *t->tried);
}

/* With kernels as they are. */
static wafer_status try_once(search *s, trial *t, int try) {
  pipeline *p = s->p;
  bool found = false;
  merit m;
  WAFER_TRY(look(s, (uint64_t)try, t->tried, &found));
  t->ends = !found;
  if (!found) return WAFER_OK;
  WAFER_TRY(pipeline_settle(p, t->tried));
  t->waits |= some_want_more(p);
  if (some_want_more(p)) WAFER_TRY(search_repair(s, t->tried));
  if (some_want_more(p)) keep_shallow(s, t);
  WAFER_TRY(weigh(s, t->tried, &m));
  if (better(s, &m, t->b)) {
    *t->b = m;
    memcpy(t->best, t->tried, p->graph->kernel_count * sizeof *t->best);
  }
  t->settled = m.interval <= s->found;
  t->ends = t->settled && m.interval <= enough(s);
  return WAFER_OK;
}

static wafer_status try_hasty(search *s, trial *t, int try, bool last) {
  if (!t->settled) WAFER_TRY(set_haste(s->p, try, last, t));
  return try_once(s, t, try);
}

/* Goes on from the fastest layout that was lost for want of room, if it was faster than what is
 * left: its kernels as they are but for that room, which may make others want more. */
static wafer_status hold(search *s, trial *t, int try) {
  pipeline *p = s->p;
  bool lost = t->shallow.found && t->shallow.found < t->b->interval;
  if (!lost || objective_of(p) != WAFER_OBJECTIVE_throughput || t->b->interval <= enough(s))
    return WAFER_OK;
  s->found = t->shallow.found;
  s->start = t->shallow.start;
  WAFER_TRY(pipeline_settle(p, t->shallow.places));
  t->ends = false;
  for (int i = 0; i < HOLDS && !t->ends && s->found && some_want_more(p); i++) {
    WAFER_TRY(pipeline_hold(p, s->found));
    WAFER_TRY(try_once(s, t, try + i));
  }
  return WAFER_OK;
}

/* Where samples wait for want of room: kernels that hold them no longer than pays, if these promise
 * to be faster. */
static wafer_status become_patient(search *s, trial *t) {
  pipeline *p = s->p;
  uint64_t cores = 0, interval = t->b->interval - t->b->interval / WORTH, found = interval;
  if (!t->waits || !t->b->fits || s->replicas < s->most || p->pin ||
      objective_of(p) != WAFER_OBJECTIVE_throughput || interval <= enough(s))
    return WAFER_OK;
  for (uint32_t a = 0; a < s->area_count; a++) cores += wafer_rect_area(s->areas[a].rect);
  WAFER_TRY(pipeline_be_patient(p, s->replicas, cores, enough(s), &found));
  t->patient = found < interval;
  if (!t->patient) return WAFER_OK;
  t->settled = true; /* buffers are as they ought to be */
  t->shallow.found = 0;
  memset(p->haste, 0, p->graph->kernel_count * sizeof *p->haste);
  return pipeline_find_kinds(p);
}

/* Tries until buffers no longer cost anything, then to be faster; each from where the last ended.
 */
static wafer_status try_haste(search *s, trial *t) {
  pipeline *p = s->p;
  int k = 0, most = most_tries(p);
  t->settled = t->waits = t->patient = t->ends = false;
  t->shallow.found = 0;
  for (uint32_t a = 0; a < s->area_count; a++) s->areas[a].fill = 1;
  memcpy(p->curve, s->guessed, p->graph->kernel_count * sizeof *p->curve);
  if (s->replicas > 1) WAFER_TRY(pipeline_copied_curves(p));
  for (; k < (s->quick ? 1 : TRIES) && !t->ends; k++) WAFER_TRY(try_hasty(s, t, k, k == most - 1));
  if (!s->quick && !t->ends) WAFER_TRY(become_patient(s, t));
  int limit = s->quick ? 0 : t->patient ? MOST_TRIES : most;
  for (; k < limit && !t->ends && (t->patient || !t->settled); k++)
    WAFER_TRY(try_hasty(s, t, k, k == most - 1));
  return s->quick || s->replicas < s->most ? WAFER_OK : hold(s, t, k);
}

/* Without replicas first: they cost latency, and gain nothing where the interval is the bound. */
static wafer_status try_all(search *s, shelf_place *tried, shelf_place *best, merit *b) {
  pipeline *p = s->p;
  size_t bytes = p->graph->kernel_count * sizeof *p->haste;
  uint32_t *of_shelves = wafer_arena_copy(p->ctx->arena, p->haste, bytes);
  trial t = {.of_shelves = of_shelves, .tried = tried, .best = best, .b = b};
  t.shallow.places = WAFER_NEW(p->ctx->arena, shelf_place, p->graph->kernel_count);
  if (!of_shelves || !t.shallow.places) return pipeline_no_memory(p);
  bytes = p->graph->kernel_count * sizeof *p->curve;
  s->guessed = wafer_arena_copy(p->ctx->arena, p->curve, bytes);
  if (!s->guessed) return pipeline_no_memory(p);
  WAFER_TRY(list_edges(s));
  if (b->fits) WAFER_TRY(weigh(s, best, b));
  merit shelves = *b;
  WAFER_TRY(search_find_bound(s));
  s->replicas = 1;
  WAFER_TRY(try_haste(s, &t));
  s->replicas = s->most;
  if (s->most > 1 && (!b->fits || b->interval > enough(s))) WAFER_TRY(try_haste(s, &t));
  if (shelves.fits) tell(s, &shelves, b);
  return WAFER_OK;
}

static wafer_placed *start_of(const pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  wafer_placed *start = WAFER_NEW(p->ctx->arena, wafer_placed, n);
  for (uint32_t k = 0, i = 0; start && k < n; k++) {
    wafer_rect r = p->places[k].rect;
    if (search_is_pinned(p, k)) continue;
    start[i++] = (wafer_placed){.x = r.x, .y = r.y, .width = r.width, .height = r.height};
  }
  return start;
}

/* A sample is not done sooner for them, and many of them leave core programs without colours: where
 * there are programs, bands share out the samples. */
static uint32_t most_replicas(const pipeline *p) {
  const wafer_options *o = p->ctx->options;
  bool unasked = o->replicas == 0 && by_programs(p->ctx, p->graph);
  if (objective_of(p) != WAFER_OBJECTIVE_throughput || unasked) return 1;
  return o->replicas && o->replicas < MOST_REPLICAS ? o->replicas : MOST_REPLICAS;
}

/* Shelves of kernels that may take so much longer, as the caller asks, who finds out what they are
 * worth; the layout at hand where they do not hold them. */
static wafer_status slow_down(search *s, uint32_t slower, shelf_place *best) {
  pipeline *p = s->p;
  uint64_t t = p->out->cost.interval_cycles;
  shelf_place *tried = WAFER_NEW(p->ctx->arena, shelf_place, p->graph->kernel_count);
  bool fits;
  if (!tried) return pipeline_no_memory(p);
  WAFER_TRY(pipeline_shelves(p, t + t * slower / WAFER_SLOWER_PARTS, tried, &fits));
  for (uint32_t k = 0; fits && k < p->graph->kernel_count; k++) {
    best[k] = tried[k];
    best[k].point = &p->curve[k]->at[tried[k].index]; /* of this curve: others come later */
  }
  return WAFER_OK;
}

/* From a layout that is settled to one whose core programs are predicted faster. The engine knows
 * of kernels one by one, and what they take together it does not make better. */
static wafer_status find_pace(search *s, shelf_place *best) {
  pipeline *p = s->p;
  merit before, found;
  WAFER_TRY(list_edges(s));
  WAFER_TRY(weigh(s, best, &before));
  uint32_t slower = s->quick ? 0 : p->ctx->options->slower;
  WAFER_TRY(slower ? slow_down(s, slower, best) : pipeline_meet_pace(p, s->quick, best));
  if (!s->quick) WAFER_TRY(pipeline_shorten_turns(p, best));
  WAFER_TRY(pipeline_settle(p, best));
  if (s->quick) return WAFER_OK;
  WAFER_TRY(weigh(s, best, &found));
  WAFER_TRY(search_find_bound(s));
  tell(s, &before, &found);
  return WAFER_OK;
}

/* Whether all pins together are a layout near which another is looked for. */
static bool wanders(const pipeline *p) {
  return p->pin && p->ctx->options->wander && p->ctx->options->pin_count == p->graph->kernel_count;
}

static wafer_status wander_off(pipeline *p, shelf_place *best) {
  WAFER_TRY(pipeline_wander(p, best));
  p->pin = NULL;
  return pipeline_settle(p, best);
}

static wafer_status search_layout(pipeline *p, bool quick, shelf_place *best, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  bool paced = size_seeks_pace(p->ctx, p->graph);
  search s = {.p = p, .floor = p->floor, .most = most_replicas(p), .quick = quick};
  shelf_place *tried = WAFER_NEW(p->ctx->arena, shelf_place, n);
  if (!tried) return pipeline_no_memory(p);
  WAFER_TRY(search_find_areas(&s));
  if (*fits) memcpy(best, p->places, n * sizeof *best);
  for (uint32_t k = 0; *fits && k < n; k++) best[k].point = p->out->kernels[k].point;
  if (*fits && wanders(p)) return wander_off(p, best);
  if (*fits && paced) return find_pace(&s, best);
  if (*fits && !(s.start = start_of(p))) return pipeline_no_memory(p);
  if (*fits && objective_of(p) == WAFER_OBJECTIVE_wire) s.floor = p->out->cost.interval_cycles;
  merit b = {.fits = *fits, .interval = p->out->cost.interval_cycles};
  if (s.area_count) WAFER_TRY(try_all(&s, tried, best, &b));
  *fits = b.fits;
  if (!*fits || !paced) return WAFER_OK;
  WAFER_TRY(pipeline_settle(p, best)); /* the engine's, where shelves hold nothing */
  return find_pace(&s, best);
}

wafer_status pipeline_take(pipeline *p, const shelf_place *kept) {
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) p->out->kernels[k].rect = &kept[k].rect;
  return pipeline_settle(p, kept);
}

wafer_status pipeline_best(pipeline *p, bool quick, bool *fits) {
  uint32_t n = p->graph->kernel_count;
  shelf_place *best = WAFER_NEW(p->ctx->arena, shelf_place, n);
  if (!best) return pipeline_no_memory(p);
  WAFER_TRY(search_layout(p, quick, best, fits));
  if (!*fits) return WAFER_OK;
  if (!curve_set_keep_layout(p->curves, n, best)) return pipeline_no_memory(p);
  return pipeline_take(p, curve_set_layout(p->curves, n));
}

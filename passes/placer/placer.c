/* The placement engine: checks the problem, finds the bounds, runs the chains, picks the best. */
#include "wafer/placer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "placer_search.h"

#define WORKERS 16u      /* threads at most */
#define LEAST_PART 4u    /* of all moves, or seconds, for an order that hangs on no seed */
#define RUNS_PART 32u    /* and for one cut into runs that have rectangles to themselves */
#define LEAST_RUN 6u     /* kernels of a run; the others' have some steps more */
#define RUN_STEP 4u
#define FEWEST_RUNS 20u /* fewer cut the wafer up too coarsely */
#define MOST_POLISH 512u /* a shift takes longer than the square */
#define GIVEN 4u /* every so many candidates start from the caller's layout, if there is one */

void placer_report(placer_run *run, double score) {
  pthread_mutex_lock(&run->lock);
  double passed = run->options->spent + search_seconds() - run->started;
  if (run->first == 0) run->first = passed;
  if (score >= run->shown) {
    pthread_mutex_unlock(&run->lock);
    return;
  }
  run->shown = score;
  char text[160];
  double gap = 100 * (run->shown / run->in.score_bound - 1);
  snprintf(text, sizeof text,
           "first legal answer after %.2f s, best %.1f, bound %.1f, gap %.2f %%; seconds",
           run->first, run->shown, run->in.score_bound, gap);
  double all = run->options->seconds > 0 ? run->options->spent + run->options->seconds : 0;
  wafer_progress(run->diag, text, (uint64_t)passed, (uint64_t)all);
  pthread_mutex_unlock(&run->lock);
}

static centre centre_of(const wafer_placer_problem *p, const layout *l, uint32_t i) {
  if (i >= p->count) return (centre){p->terminals[i - p->count].x2, p->terminals[i - p->count].y2};
  const wafer_placed *at = &l->at[i];
  return (centre){(int32_t)(2 * at->x + at->width), (int32_t)(2 * at->y + at->height)};
}

static uint64_t apart2(centre a, centre b) {
  return (uint64_t)llabs((int64_t)a.x2 - b.x2) + (uint64_t)llabs((int64_t)a.y2 - b.y2);
}

uint32_t placer_adapters(const wafer_placer_problem *p, const wafer_placer_edge *e, uint32_t from,
                         uint32_t to) {
  const uint32_t *gives = p->ports[p->kind[e->from]][from].out;
  const uint32_t *takes = p->ports[p->kind[e->to]][to].in;
  uint32_t differ = 0;
  for (uint32_t i = 0; i < WAFER_PLACER_PORT; i++) differ += gives[i] != takes[i];
  return p->count_components ? differ : differ > 0;
}

void layout_score(const placer *in, layout *l) {
  const wafer_placer_problem *p = in->p;
  l->time = l->wire2 = l->adapters = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    uint64_t time = p->kinds[p->kind[i]].at[l->at[i].shape].time;
    if (time > l->time) l->time = time;
  }
  for (uint32_t e = 0; e < p->edge_count; e++)
    l->wire2 += p->edges[e].weight *
                apart2(centre_of(p, l, p->edges[e].from), centre_of(p, l, p->edges[e].to));
  for (uint32_t e = 0; p->adapter_weight > 0 && e < p->edge_count; e++)
    if (placer_between(p, &p->edges[e]))
      l->adapters += placer_adapters(p, &p->edges[e], l->at[p->edges[e].from].shape,
                                     l->at[p->edges[e].to].shape);
  l->score = p->time_weight * (double)l->time + p->wire_weight * 0.5 * (double)l->wire2 +
             p->adapter_weight * l->adapters;
}

void layout_from_tree(const tree *t, layout *l) {
  for (uint32_t i = 0; i < t->count; i++) {
    box b = t->boxes[i];
    l->at[i] = (wafer_placed){
        t->cache->index[t->in->p->kind[i]][b.point / 2], b.point % 2, b.x, b.y, b.w, b.h};
  }
  layout_score(t->in, l);
}

static wafer_status no_memory(const wafer_diag *diag) {
  return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to place kernels");
}

static wafer_status check(const wafer_diag *diag, const wafer_placer_problem *p) {
  wafer_loc at = {0};
  if (!p->count || p->count > WAFER_PLACER_MOST_KERNELS)
    return wafer_fail(diag, at, WAFER_UNSUPPORTED, "%u kernels to place; 1 to %u are possible",
                      p->count, WAFER_PLACER_MOST_KERNELS);
  if (!p->width || !p->height || p->width > WAFER_PLACER_MOST_SIDE ||
      p->height > WAFER_PLACER_MOST_SIDE)
    return wafer_fail(diag, at, WAFER_UNSUPPORTED,
                      "a wafer of %u x %u cores; 1 to %u along each side are possible", p->width,
                      p->height, WAFER_PLACER_MOST_SIDE);
  return WAFER_OK;
}

static bool neighbours(placer *in, wafer_arena *arena) {
  const wafer_placer_problem *p = in->p;
  in->neighbour_at = WAFER_NEW(arena, uint32_t, p->count + 1);
  in->neighbour = WAFER_NEW(arena, uint32_t, 2 * (size_t)p->edge_count);
  uint32_t *fill = WAFER_NEW(arena, uint32_t, p->count);
  if (!in->neighbour_at || !in->neighbour || !fill) return false;
  for (uint32_t e = 0; e < p->edge_count; e++)
    if (placer_between(p, &p->edges[e]))
      in->neighbour_at[p->edges[e].from + 1]++, in->neighbour_at[p->edges[e].to + 1]++;
  for (uint32_t i = 0; i < p->count; i++) {
    in->neighbour_at[i + 1] += in->neighbour_at[i];
    fill[i] = in->neighbour_at[i];
  }
  for (uint32_t e = 0; e < p->edge_count; e++) {
    if (!placer_between(p, &p->edges[e])) continue;
    in->neighbour[fill[p->edges[e].from]++] = p->edges[e].to;
    in->neighbour[fill[p->edges[e].to]++] = p->edges[e].from;
  }
  return true;
}

/* ---- Rounds ---- */

/* What a round does to the best `lines` candidates, in a share of the budget. Many short searches
 * from different layouts find out which of them are worth the long ones. */
typedef struct round_row {
  enum { START, LEAST, RUNS, STACKS, ANNEAL, AGAIN, POLISH } does;
  uint32_t lines;
  double share;
  heat heats[2]; /* of candidates at even and at odd ranks: some must leave where they are */
} round_row;

static const round_row rounds[] = {{START, 32, 0, {{0, 0}, {0, 0}}},
                                   {LEAST, ORDERS, 0.1, {{0, 0}, {0, 0}}},
                                   {RUNS, 13, 0, {{0, 0}, {0, 0}}},
                                   {STACKS, 32, 0.1, {{0, 0}, {0, 0}}},
                                   {ANNEAL, 32, 0.23, {{1, 0.02}, {4, 0.02}}},
                                   {ANNEAL, 12, 0.14, {{0.5, 0.02}, {2, 0.02}}},
                                   {AGAIN, 4, 0.05, {{0, 0}, {0, 0}}},
                                   {ANNEAL, 4, 0.15, {{0.4, 0.01}, {1.6, 0.01}}},
                                   {AGAIN, 2, 0.05, {{0, 0}, {0, 0}}},
                                   {ANNEAL, 2, 0.11, {{0.25, 0.01}, {1, 0.01}}},
                                   {AGAIN, 2, 0.02, {{0, 0}, {0, 0}}},
                                   {POLISH, 4, 0.05, {{0, 0}, {0, 0}}}};

typedef struct crew {
  placer_run *run;
  const round_row *round;
  budget budget; /* of each candidate; but time is that of the round */
  uint32_t threads, lines;
  atomic_uint next;
  worker workers[WORKERS];
} crew;

typedef struct hand {
  crew *crew;
  worker *worker;
} hand;

/* Something is found, and the time is over. */
static bool enough(placer_run *run) {
  double seconds = run->options->seconds;
  if (seconds <= 0 || search_seconds() < run->started + seconds) return false;
  pthread_mutex_lock(&run->lock);
  bool found = run->first > 0;
  pthread_mutex_unlock(&run->lock);
  return found;
}

/* Likely numbers of shelves come first: where time is short there is no second. */
static uint32_t shelves(const crew *w, uint32_t i) {
  uint32_t likely = (uint32_t)(0.5 * sqrt(w->run->in.p->count));
  return (i + (likely ? likely - 1 : 0)) % w->lines + 1;
}

/* A share of the moves, or seconds, for what is worth more than its round's. */
static budget at_least(const crew *w, budget b, uint32_t share) {
  const wafer_placer_options *o = w->run->options;
  const double until = fmin(search_seconds() + o->seconds / share, w->run->started + o->seconds);
  if (b.most < o->moves / share) b.most = o->moves / share;
  if (o->seconds > 0 && b.until < until) b.until = until;
  return b;
}

/* Least times of the orders there are. Tables of hundreds of kernels take more than the round's
 * share, and are worth it: annealing does not come near what they find. Runs of kernels that are
 * alike gain nothing, and have the longest wires. */
static void find_least(const crew *w, worker *by, candidate *c, uint32_t i, budget b) {
  if (i == ORDER_ALIKE && !tree_least_is_whole(&by->tree)) return;
  if (i != ORDER_SHORT) b = at_least(w, b, LEAST_PART);
  search_least(by, c, w->run->in.orders[i], 0, 0, &b);
}

/* Least times where runs of an order have rectangles to themselves, which is soon known, and keeps
 * what is near in the order near. Longer runs lose less, in shorter ones wires are shorter. */
static void find_runs(const crew *w, worker *by, uint32_t i, budget b) {
  const placer *in = &w->run->in;
  const uint32_t run = LEAST_RUN + RUN_STEP * i;
  if (in->p->count < FEWEST_RUNS * run) return;
  b = at_least(w, b, RUNS_PART);
  search_least(by, &w->run->candidates[ORDERS + i], in->orders[i % SHORT_ORDERS], run, w->run->time,
               &b);
}

static void serve(crew *w, worker *by, uint32_t i) {
  candidate *c = &w->run->candidates[i];
  const wafer_placer_options *o = w->run->options;
  budget b = w->budget;
  if (b.until > 0) { /* an equal part of what is left */
    double now = search_seconds();
    b.until = now + (b.until - now) / ((w->lines - i + w->threads - 1) / w->threads);
  }
  switch (w->round->does) {
  case START:
    if (!enough(w->run)) search_start(by, c, shelves(w, i), i % GIVEN == 0 ? o->start : NULL);
    break;
  case LEAST: find_least(w, by, c, i, b); break;
  case RUNS: find_runs(w, by, i, b); break;
  case AGAIN: search_again(by, c, &b); break;
  case STACKS: search_stacks(by, c, 2 + i, &b); break;
  case POLISH:
    if (w->run->in.p->count <= MOST_POLISH) search_polish(by, c, &b);
    break;
  case ANNEAL: search_anneal(by, c, &w->round->heats[i % 2], &b); break;
  }
}

static void *work(void *self) {
  const hand *h = self;
  for (uint32_t i; (i = atomic_fetch_add(&h->crew->next, 1)) < h->crew->lines;)
    serve(h->crew, h->worker, i);
  return NULL;
}

/* One round; where the host grants fewer threads than asked, those there are do it all. */
static void run_round(crew *w) {
  pthread_t thread[WORKERS];
  bool made[WORKERS] = {0};
  hand hands[WORKERS];
  w->next = 0;
  for (uint32_t i = 0; i < w->threads; i++) hands[i] = (hand){w, &w->workers[i]};
  for (uint32_t i = 1; i < w->threads; i++)
    made[i] = pthread_create(&thread[i], NULL, work, &hands[i]) == 0;
  work(&hands[0]);
  for (uint32_t i = 1; i < w->threads; i++)
    if (made[i]) pthread_join(thread[i], NULL);
}

/* The best first; equals keep their order. */
static void rank(placer_run *run) {
  for (uint32_t i = 1; i < run->count; i++)
    for (uint32_t k = i; k && run->candidates[k].best.score < run->candidates[k - 1].best.score;
         k--) {
      candidate c = run->candidates[k];
      run->candidates[k] = run->candidates[k - 1];
      run->candidates[k - 1] = c;
    }
}

static double wire_share(const placer_run *run) {
  const wafer_placer_problem *p = run->in.p;
  const layout *l = &run->candidates[0].best;
  double wire = l->score < INFINITY ? p->wire_weight * 0.5 * (double)l->wire2 : 0;
  return fmax(wire / p->count, 1e-3 * run->in.score_bound);
}

/* What later rounds go by. */
static void take_stock(placer_run *run) {
  run->scale = wire_share(run);
  for (uint32_t i = 0; i < run->count; i++) {
    const layout *l = &run->candidates[i].best;
    if (l->score < INFINITY && (!run->time || l->time < run->time)) run->time = l->time;
  }
}

/* Moves that are left until this share of all is done: what a round leaves, the next one gets. */
static uint64_t moves_until(const crew *w, double share) {
  uint64_t due = (uint64_t)((double)w->run->options->moves * share), done = 0;
  for (uint32_t i = 0; i < w->threads; i++) done += w->workers[i].moves;
  return due > done ? due - done : 0;
}

static void run_rounds(crew *w) {
  placer_run *run = w->run;
  const wafer_placer_options *o = run->options;
  double share = 0, started = 0;
  for (size_t i = 0; i < WAFER_COUNT(rounds); i++) {
    w->round = &rounds[i];
    w->lines = rounds[i].lines;
    share += rounds[i].share;
    if (started == 0 && rounds[i].share > 0) started = search_seconds();
    double end = run->started + o->seconds;
    w->budget = (budget){.until = o->seconds > 0 ? started + (end - started) * share : 0};
    if (o->moves) w->budget.most = moves_until(w, share) / w->lines + 1;
    if (rounds[i].share > 0 && o->seconds > 0 && search_seconds() >= w->budget.until) continue;
    run_round(w);
    if (rounds[i].does < ANNEAL) take_stock(run); /* seconds may leave stacks out */
    if (rounds[i].does >= ANNEAL) rank(run);
  }
  rank(run); /* seconds may leave rounds out */
}

static bool candidate_init(candidate *c, const placer *in, uint64_t seed, uint32_t number,
                           wafer_arena *arena) {
  *c = (candidate){.failed = true};
  rng mix = {seed}; /* seeds that differ by one must not draw the same numbers, shifted */
  c->rng.state = rng_next(&mix) + number * 0xd1342543de82ef95u;
  c->rng.state = rng_next(&c->rng);
  c->best.at = WAFER_NEW(arena, wafer_placed, in->p->count);
  c->best.score = INFINITY;
  return c->best.at && tree_shape_init(&c->now, in, arena);
}

static bool worker_init(worker *w, placer_run *run) {
  *w = (worker){.run = run, .arena = wafer_arena_create()};
  w->order = w->arena ? WAFER_NEW(w->arena, uint32_t, run->in.p->count) : NULL;
  return w->order && curve_cache_init(&w->cache, &run->in, w->arena) &&
         tree_init(&w->tree, &run->in, &w->cache, w->arena) &&
         polisher_init(&w->polisher, &run->in, &w->cache, w->arena);
}

static uint32_t host_threads(uint32_t asked) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!asked) asked = cores > 0 ? (uint32_t)cores : 1;
  return asked < WORKERS ? asked : WORKERS;
}

static wafer_status finish(const wafer_diag *diag, wafer_arena *arena, const placer_run *run,
                           wafer_placement *out) {
  const layout *best = &run->candidates[0].best;
  const wafer_placer_problem *p = run->in.p;
  if (best->score == INFINITY)
    return wafer_fail(diag, wafer_at_file(p->file), WAFER_NO_FIT,
                      "%u kernels found no room on %u x %u cores, though their areas would fit; "
                      "give more --place-seconds or a larger wafer",
                      p->count, p->width, p->height);
  *out = (wafer_placement){.at = wafer_arena_copy(arena, best->at, p->count * sizeof *out->at),
                           .time = best->time,
                           .wire2 = best->wire2,
                           .adapters = best->adapters,
                           .score = best->score,
                           .time_bound = run->in.time_bound,
                           .score_bound = run->in.score_bound,
                           .first_seconds = run->first};
  out->others = WAFER_NEW(arena, wafer_placed *, run->count);
  if (!out->at || !out->others) return no_memory(diag);
  for (uint32_t i = 1; i < run->count; i++) {
    const layout *l = &run->candidates[i].best;
    if (l->score == INFINITY) continue;
    wafer_placed *at = wafer_arena_copy(arena, l->at, p->count * sizeof *at);
    if (!at) return no_memory(diag);
    out->others[out->other_count++] = at;
  }
  for (uint32_t i = 0; i < p->count; i++)
    out->area += (uint64_t)out->at[i].width * out->at[i].height;
  return WAFER_OK;
}

/* Of all kernels, each on its smallest shape. */
static uint64_t least_cores(const wafer_placer_problem *p) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    const wafer_placer_shapes *shapes = &p->kinds[p->kind[i]];
    uint64_t least = UINT64_MAX;
    for (uint32_t k = 0; k < shapes->count; k++) {
      uint64_t area = (uint64_t)shapes->at[k].width * shapes->at[k].height;
      least = area < least ? area : least;
    }
    sum += least;
  }
  return sum;
}

static wafer_status prepare(const wafer_diag *diag, wafer_arena *arena, placer_run *run) {
  const wafer_placer_problem *p = run->in.p;
  bool fits;
  run->in.reach_w = p->width + p->width / 32;
  run->in.reach_h = p->height + p->height / 32;
  if (!neighbours(&run->in, arena) || !placer_bounds(&run->in, arena, &fits))
    return no_memory(diag);
  if (!fits)
    return wafer_fail(diag, wafer_at_file(p->file), WAFER_NO_FIT,
                      "the smallest shapes of %u kernels need %llu cores, there are %u x %u, which "
                      "is %llu; take a larger wafer or fewer kernels",
                      p->count, (unsigned long long)least_cores(p), p->width, p->height,
                      (unsigned long long)p->width * p->height);
  run->in.penalty = 2 * run->in.score_bound / (p->width < p->height ? p->width : p->height);
  return WAFER_OK;
}

static wafer_status search(const wafer_diag *diag, wafer_arena *arena, placer_run *run,
                           wafer_placement *out) {
  WAFER_TRY(prepare(diag, arena, run));
  crew w = {.run = run, .threads = host_threads(run->options->threads)};
  bool ok = placer_orders(&run->in, run->options->seed, arena);
  run->count = rounds[0].lines;
  for (uint32_t i = 0; i < run->count && ok; i++)
    ok = candidate_init(&run->candidates[i], &run->in, run->options->seed, i, arena);
  for (uint32_t i = 0; i < w.threads && ok; i++) ok = worker_init(&w.workers[i], run);
  if (ok) run_rounds(&w);
  wafer_status status = ok ? finish(diag, arena, run, out) : no_memory(diag);
  for (uint32_t i = 0; i < w.threads; i++) {
    if (status == WAFER_OK) out->moves += w.workers[i].moves;
    wafer_arena_destroy(w.workers[i].arena);
  }
  return status;
}

wafer_status wafer_place(const wafer_diag *diag, wafer_arena *arena,
                         const wafer_placer_problem *problem, const wafer_placer_options *options,
                         wafer_placement *out) {
  WAFER_TRY(check(diag, problem));
  placer_run run = {.in = {.p = problem},
                    .diag = diag,
                    .started = search_seconds(),
                    .options = options,
                    .shown = INFINITY};
  if (pthread_mutex_init(&run.lock, NULL)) return no_memory(diag);
  wafer_status status = search(diag, arena, &run, out);
  pthread_mutex_destroy(&run.lock);
  return status;
}

/* The placement engine: checks the problem, finds the bounds, runs the chains, picks the best. */
#include "wafer/placer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "placer_chain.h"

double placer_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void placer_report(placer_run *run, double score) {
  pthread_mutex_lock(&run->lock);
  if (score < run->shown) run->shown = score;
  char text[96];
  double gap = 100 * (run->shown / run->in.score_bound - 1);
  snprintf(text, sizeof text, "best %.1f, bound %.1f, gap %.2f %%; seconds", run->shown,
           run->in.score_bound, gap);
  double passed = placer_seconds() - run->started;
  wafer_progress(run->diag, text, (uint64_t)passed, (uint64_t)run->seconds);
  pthread_mutex_unlock(&run->lock);
}

static uint64_t apart2(const wafer_placed *a, const wafer_placed *b) {
  int64_t x = (int64_t)(2 * (uint64_t)a->x + a->width) - (int64_t)(2 * (uint64_t)b->x + b->width);
  int64_t y =
      (int64_t)(2 * (uint64_t)a->y + a->height) - (int64_t)(2 * (uint64_t)b->y + b->height);
  return (uint64_t)(llabs(x) + llabs(y));
}

void layout_score(const placer *in, layout *l) {
  const wafer_placer_problem *p = in->p;
  l->time = l->wire2 = 0;
  for (uint32_t i = 0; i < p->count; i++) {
    uint64_t time = p->kinds[p->kind[i]].at[l->at[i].shape].time;
    if (time > l->time) l->time = time;
  }
  for (uint32_t e = 0; e < p->edge_count; e++)
    l->wire2 += p->edges[e].weight * apart2(&l->at[p->edges[e].from], &l->at[p->edges[e].to]);
  l->score = p->time_weight * (double)l->time + p->wire_weight * 0.5 * (double)l->wire2;
}

void layout_from_tree(const tree *t, layout *l) {
  for (uint32_t i = 0; i < t->count; i++) {
    box b = t->boxes[i];
    point q = t->curves[i][t->nodes[i].active].at[b.point];
    l->at[i] = (wafer_placed){t->cache->index[t->in->p->kind[i]][q.a], q.b != 0, b.x, b.y, b.w, b.h};
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
    in->neighbour_at[p->edges[e].from + 1]++, in->neighbour_at[p->edges[e].to + 1]++;
  for (uint32_t i = 0; i < p->count; i++) {
    in->neighbour_at[i + 1] += in->neighbour_at[i];
    fill[i] = in->neighbour_at[i];
  }
  for (uint32_t e = 0; e < p->edge_count; e++) {
    in->neighbour[fill[p->edges[e].from]++] = p->edges[e].to;
    in->neighbour[fill[p->edges[e].to]++] = p->edges[e].from;
  }
  return true;
}

static bool chain_init(chain *c, placer_run *run, const wafer_placer_options *o, uint32_t number,
                       const uint32_t *order) {
  *c = (chain){.run = run, .number = number, .order = order, .arena = wafer_arena_create()};
  if (!c->arena) return false;
  c->rng.state = o->seed * 0x9e3779b97f4a7c15u + number * 0xd1342543de82ef95u + 1;
  c->most_moves = o->moves;
  c->best.at = WAFER_NEW(c->arena, wafer_placed, run->in.p->count);
  c->best.score = INFINITY;
  return c->best.at && curve_cache_init(&c->cache, &run->in, c->arena) &&
         tree_init(&c->tree, &run->in, &c->cache, c->arena) &&
         tree_init(&c->round_tree, &run->in, &c->cache, c->arena) &&
         tree_init(&c->best_tree, &run->in, &c->cache, c->arena);
}

typedef struct crew {
  chain *chains;
  atomic_uint next;
  uint32_t threads;
  double seconds, started;
} crew;

/* Chains are taken in order; with fewer threads than chains each has its part of the time. */
static void *work(void *self) {
  crew *w = self;
  for (uint32_t i; (i = atomic_fetch_add(&w->next, 1)) < PLACER_CHAINS;) {
    chain *c = &w->chains[i];
    uint32_t rounds = (PLACER_CHAINS + w->threads - 1) / w->threads, round = i / w->threads;
    c->started = placer_seconds();
    c->deadline =
        w->seconds > 0 ? w->started + w->seconds * (round + 1) / rounds : 0;
    c->failed = !chain_run(c) && c->best.score == INFINITY;
  }
  return NULL;
}

static uint32_t host_threads(uint32_t asked) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (!asked) asked = cores > 0 ? (uint32_t)cores : 1;
  return asked < PLACER_CHAINS ? asked : PLACER_CHAINS;
}

static void run_chains(crew *w) {
  pthread_t thread[PLACER_CHAINS];
  bool made[PLACER_CHAINS] = {0};
  for (uint32_t i = 1; i < w->threads; i++)
    made[i] = pthread_create(&thread[i], NULL, work, w) == 0;
  work(w);
  for (uint32_t i = 1; i < w->threads; i++)
    if (made[i]) pthread_join(thread[i], NULL);
}

static wafer_status finish(const wafer_diag *diag, wafer_arena *arena, placer_run *run,
                           const chain *chains, wafer_placement *out) {
  const chain *best = &chains[0];
  const wafer_placer_problem *p = run->in.p;
  *out = (wafer_placement){.time_bound = run->in.time_bound, .score_bound = run->in.score_bound};
  for (uint32_t i = 0; i < PLACER_CHAINS; i++) {
    if (chains[i].best.score < best->best.score) best = &chains[i];
    out->moves += chains[i].moves;
    double first = chains[i].first - run->started;
    if (chains[i].first > 0 && (out->first_seconds == 0 || first < out->first_seconds))
      out->first_seconds = first;
  }
  if (best->best.score == INFINITY)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_FIT,
                      "%u kernels found no room on %u x %u cores, though their areas would fit; "
                      "give more --place-seconds or a larger wafer",
                      p->count, p->width, p->height);
  out->at = wafer_arena_copy(arena, best->best.at, p->count * sizeof *out->at);
  if (!out->at) return no_memory(diag);
  out->time = best->best.time;
  out->wire2 = best->best.wire2;
  out->score = best->best.score;
  for (uint32_t i = 0; i < p->count; i++)
    out->area += (uint64_t)out->at[i].width * out->at[i].height;
  return WAFER_OK;
}

static wafer_status prepare(const wafer_diag *diag, wafer_arena *arena, placer_run *run) {
  const wafer_placer_problem *p = run->in.p;
  bool fits;
  run->in.reach_w = p->width + p->width / 32;
  run->in.reach_h = p->height + p->height / 32;
  if (!neighbours(&run->in, arena) || !placer_bounds(&run->in, arena, &fits))
    return no_memory(diag);
  if (!fits)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_FIT,
                      "the smallest shapes of %u kernels need more than the %u x %u cores there "
                      "are; take a larger wafer or fewer kernels",
                      p->count, p->width, p->height);
  run->in.penalty = 2 * run->in.score_bound / (p->width < p->height ? p->width : p->height);
  return WAFER_OK;
}

static wafer_status search(const wafer_diag *diag, wafer_arena *arena, placer_run *run,
                           const wafer_placer_options *o, wafer_placement *out) {
  WAFER_TRY(prepare(diag, arena, run));
  uint32_t count = run->in.p->count;
  uint32_t *order = WAFER_NEW(arena, uint32_t, count);
  chain chains[PLACER_CHAINS] = {0};
  bool ok = order != NULL;
  for (uint32_t i = 0; i < count && ok; i++) order[i] = i;
  for (uint32_t i = 0; i < PLACER_CHAINS && ok; i++) ok = chain_init(&chains[i], run, o, i, order);
  wafer_status status = WAFER_OK;
  if (ok) {
    crew w = {chains, 0, host_threads(o->threads), o->seconds, run->started};
    run_chains(&w);
    status = finish(diag, arena, run, chains, out);
  } else {
    status = no_memory(diag);
  }
  for (uint32_t i = 0; i < PLACER_CHAINS; i++) wafer_arena_destroy(chains[i].arena);
  return status;
}

wafer_status wafer_place(const wafer_diag *diag, wafer_arena *arena,
                         const wafer_placer_problem *problem, const wafer_placer_options *options,
                         wafer_placement *out) {
  WAFER_TRY(check(diag, problem));
  placer_run run = {.in = {.p = problem},
                    .diag = diag,
                    .started = placer_seconds(),
                    .seconds = options->seconds,
                    .shown = INFINITY};
  if (pthread_mutex_init(&run.lock, NULL)) return no_memory(diag);
  wafer_status status = search(diag, arena, &run, options, out);
  pthread_mutex_destroy(&run.lock);
  return status;
}

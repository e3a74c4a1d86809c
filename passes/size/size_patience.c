/* How long a sample may stay in each kernel of a pipeline. What skips kernels waits at its reader
 * for as many samples as these have at a time, so that a slow shape on few cores costs cores
 * elsewhere. Each kernel gets the time at which cores for work and for what waits are fewest
 * together, by prices: what a cycle more in it costs the readers of all that skips it meanwhile. */
#include <math.h>
#include <string.h>

#include "size_pipelined.h"
#include "streams.h"

#define ROUNDS 16  /* of prices and times */
#define BUCKETS 24 /* of cores, for each doubling */
#define DOUBLINGS 40
#define FULL 64     /* but for one part in so many cores are taken: layouts leave as much */
#define EXACT 128   /* the interval is so small a part exact */
#define CHEAP 1024.0 /* what costs more by so small a part is as cheap */
#define UNEVEN 1.05 /* what waits is not cut evenly over all cores that are there for it */

/* A shape of a kernel. */
typedef struct weighed {
  uint64_t cycles, stream, cores;
  uint64_t fixed;         /* bytes of a core whatever waits */
  const uint64_t *sample; /* and of each value made by others, for each of its samples */
} weighed;

typedef struct priced {
  uint32_t count;
  weighed *at;
  uint32_t joins; /* values made by others; one alone waits for nobody */
  uint32_t *input;
  uint64_t *wait;  /* of each, from when it is made until the kernel begins */
  uint64_t cycles; /* of a sample */
  double price;    /* of a cycle, in cores */
  uint32_t last;   /* the kernel whose value comes last; WAFER_NONE: none */
} priced;

/* What is kept of the best round. */
typedef struct best_round {
  uint64_t cycles, *wait;
  double price;
} best_round;

typedef struct pricing {
  const pipeline *p;
  uint32_t count, replicas;
  uint64_t t, *start; /* of each kernel, of a sample */
  priced *of;
  best_round *best;
  double *price; /* of the round at hand */
} pricing;

static uint64_t parts(uint64_t a, uint64_t b) {
  return max_u64((a + b - 1) / b, 1);
}

/* ---- Shapes ---- */

static uint64_t bytes_of(const pricing *w, uint32_t k, const wafer_split *split,
                         const uint32_t *depths) {
  wafer_kernel_body body = size_with_depths(&w->p->graph->kernels[k].body, depths);
  wafer_cost cost;
  wafer_kernel_bytes(w->p->ctx->machine, &body, split, &cost);
  return wafer_cost_bytes(&cost);
}

/* The bytes of the shape, apart by what they are for. */
static bool weigh_bytes(pricing *w, uint32_t k, const wafer_shape_point *point, weighed *out) {
  const wafer_kernel_body *body = &w->p->graph->kernels[k].body;
  const priced *of = &w->of[k];
  uint64_t *sample = WAFER_NEW(w->p->ctx->arena, uint64_t, of->joins);
  uint32_t *depths = WAFER_NEW(w->p->ctx->arena, uint32_t, body->input_count + 1);
  if (!sample || !depths) return false;
  pipeline_shallow_depths(w->p, k, depths);
  uint64_t base = bytes_of(w, k, &point->split, depths), waiting = 0;
  for (uint32_t j = 0; j < of->joins; j++) {
    depths[of->input[j]]++;
    sample[j] = bytes_of(w, k, &point->split, depths) - base;
    depths[of->input[j]]--;
    waiting += SIZE_PIPELINE_DEPTH * sample[j];
  }
  out->fixed = base > waiting ? base - waiting : 0;
  out->sample = sample;
  return true;
}

static uint32_t bucket_of(const wafer_shape_point *point) {
  uint64_t cores = (uint64_t)point->width * point->height;
  uint32_t high = 63 - (uint32_t)__builtin_clzll(cores);
  uint32_t bucket = high * BUCKETS + (uint32_t)(((cores - (1ull << high)) * BUCKETS) >> high);
  return bucket < DOUBLINGS * BUCKETS ? bucket : DOUBLINGS * BUCKETS - 1;
}

/* Of all points of about as many cores the fastest, and the one with the fewest bytes. */
static bool weigh_curve(pricing *w, uint32_t k, const wafer_curve *curve) {
  const wafer_shape_point *best[2][DOUBLINGS * BUCKETS] = {{NULL}};
  uint64_t words = pipeline_heaviest_stream(w->p, k);
  priced *of = &w->of[k];
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *at = &curve->at[i];
    uint32_t b = bucket_of(at);
    if (!best[0][b] || at->cycles < best[0][b]->cycles) best[0][b] = at;
    if (!best[1][b] || at->bytes < best[1][b]->bytes) best[1][b] = at;
  }
  uint32_t count = 0;
  for (uint32_t b = 0; b < DOUBLINGS * BUCKETS; b++)
    count += (best[0][b] != NULL) + (best[1][b] != best[0][b]);
  if (!(of->at = WAFER_NEW(w->p->ctx->arena, weighed, count))) return false;
  for (uint32_t b = 0; b < DOUBLINGS * BUCKETS; b++)
    for (uint32_t i = 0; i < 2; i++) {
      const wafer_shape_point *at = best[i][b];
      if (!at || (i && at == best[0][b])) continue;
      weighed *to = &of->at[of->count++];
      *to = (weighed){.cycles = at->cycles,
                      .stream = (words + at->height - 1) / at->height,
                      .cores = (uint64_t)at->width * at->height};
      if (of->joins > 1 && !weigh_bytes(w, k, at, to)) return false;
    }
  return true;
}

static bool add_kernel(pricing *w, uint32_t k, const wafer_curve *curve) {
  wafer_arena *arena = w->p->ctx->arena;
  uint32_t inputs = w->p->graph->kernels[k].body.input_count;
  priced *of = &w->of[k];
  of->input = WAFER_NEW(arena, uint32_t, inputs);
  of->wait = WAFER_NEW(arena, uint64_t, inputs);
  w->best[k].wait = WAFER_NEW(arena, uint64_t, inputs);
  if (!of->input || !of->wait || !w->best[k].wait) return false;
  for (uint32_t i = 0; i < inputs; i++)
    if (pipeline_producer(w->p, k, i) != WAFER_NONE) of->input[of->joins++] = i;
  return weigh_curve(w, k, curve);
}

/* ---- Choice ---- */

/* Samples of a value that the kernel's copies hold each. */
static uint64_t depth_of(const pricing *w, const weighed *at, uint64_t copies, uint64_t wait) {
  return max_u64(parts(wait + at->cycles, w->t * copies), SIZE_PIPELINE_DEPTH);
}

/* How many times as many cores the shape wants for what waits; `late` (of the joins, if any) `by`
 * cycles longer. */
static double stretch(const pricing *w, uint32_t k, const weighed *at, uint64_t copies,
                      uint32_t late, uint64_t by) {
  const priced *of = &w->of[k];
  uint64_t waiting = 0, budget = wafer_machine_core_budget(w->p->ctx->machine);
  if (of->joins < 2) return 1;
  for (uint32_t j = 0; j < of->joins; j++)
    waiting += at->sample[j] * depth_of(w, at, copies, of->wait[j] + (j == late ? by : 0));
  if (at->fixed + waiting <= budget) return 1;
  return at->fixed < budget ? UNEVEN * (double)waiting / (double)(budget - at->fixed) : INFINITY;
}

/* Of the shapes of at most `most` cycles the one that is cheapest at a price of a cycle; what it
 * costs, in cores. INFINITY: there is none. */
static double choose(const pricing *w, uint32_t k, double price, uint64_t most, uint32_t late,
                     uint64_t by, const weighed **out) {
  const priced *of = &w->of[k];
  double least = INFINITY;
  for (uint32_t i = 0; i < of->count; i++) {
    const weighed *at = &of->at[i];
    uint64_t copies = parts(at->cycles, w->t);
    double cores = (double)(at->cores * copies), time = price * (double)at->cycles;
    if (copies > w->replicas || at->stream > w->t || at->cycles > most || cores + time >= least)
      continue;
    cores *= stretch(w, k, at, copies, late, by);
    if (cores + time >= least) continue;
    least = cores + time;
    if (out) *out = at;
  }
  return least;
}

/* ---- Times ---- */

static uint64_t made(const pricing *w, uint32_t k) {
  return w->start[k] + w->of[k].cycles;
}

/* When each kernel begins a sample, and how long what it takes has waited then. */
static void find_waits(pricing *w) {
  for (uint32_t k = 0; k < w->count; k++) {
    priced *of = &w->of[k];
    w->start[k] = 0;
    of->last = WAFER_NONE;
    for (uint32_t j = 0; j < of->joins; j++) {
      uint32_t from = pipeline_producer(w->p, k, of->input[j]);
      uint64_t comes = made(w, from) + pipeline_way(w->p, k, of->input[j]);
      if (of->last != WAFER_NONE && comes <= w->start[k]) continue;
      w->start[k] = comes;
      of->last = from;
    }
  }
  for (uint32_t k = w->count; k-- > 0;)
    if (w->p->graph->kernels[k].constant) pipeline_start_late(w->p, k, w->of[k].cycles, w->start);
  for (uint32_t k = 0; k < w->count; k++) {
    priced *of = &w->of[k];
    for (uint32_t j = 0; j < of->joins; j++)
      of->wait[j] = w->start[k] - made(w, pipeline_producer(w->p, k, of->input[j]));
  }
}

/* What a cycle more of waiting of join j of kernel k costs there; and each kernel that it waits
 * for has its part in that. */
static void charge(pricing *w, uint32_t k, uint32_t j) {
  const priced *of = &w->of[k];
  uint32_t from = pipeline_producer(w->p, k, of->input[j]);
  uint64_t by = max_u64(of->wait[j] / 8, w->t), ended = made(w, from);
  double now = choose(w, k, 0, of->cycles, WAFER_NONE, 0, NULL);
  double then = choose(w, k, 0, of->cycles, j, by, NULL);
  if (!(then > now) || then == INFINITY) return;
  for (uint32_t i = of->last; i != WAFER_NONE && i != from && made(w, i) > ended; i = w->of[i].last)
    w->price[i] += (then - now) / (double)by;
}

/* Cores of all kernels, none slower than it is. */
static double cores_of(const pricing *w) {
  double cores = 0;
  for (uint32_t k = 0; k < w->count; k++)
    cores += choose(w, k, 0, w->of[k].cycles, WAFER_NONE, 0, NULL);
  return cores;
}

static void keep(pricing *w) {
  for (uint32_t k = 0; k < w->count; k++) {
    const priced *of = &w->of[k];
    w->best[k].cycles = of->cycles;
    w->best[k].price = of->price;
    memcpy(w->best[k].wait, of->wait, of->joins * sizeof *of->wait);
  }
}

/* Whether every kernel has a shape for the interval: at first the one on the fewest cores. */
static bool begin(pricing *w, uint64_t t) {
  w->t = t;
  for (uint32_t k = 0; k < w->count; k++) {
    priced *of = &w->of[k];
    const weighed *at;
    of->price = 0;
    memset(of->wait, 0, of->joins * sizeof *of->wait);
    if (choose(w, k, 0, UINT64_MAX, WAFER_NONE, 0, &at) == INFINITY) return false;
    of->cycles = at->cycles;
  }
  return true;
}

/* Prices follow from times, and times from prices; they are eased, or both would swing. */
static void next_round(pricing *w) {
  memset(w->price, 0, w->count * sizeof *w->price);
  for (uint32_t k = 0; k < w->count; k++)
    for (uint32_t j = 0; w->of[k].joins > 1 && j < w->of[k].joins; j++) charge(w, k, j);
  for (uint32_t k = 0; k < w->count; k++) {
    priced *of = &w->of[k];
    const weighed *at;
    of->price = (of->price + w->price[k]) / 2;
    if (choose(w, k, of->price, UINT64_MAX, WAFER_NONE, 0, &at) < INFINITY) of->cycles = at->cycles;
  }
}

/* The fewest cores at an interval of t; INFINITY: there are no such shapes. */
static double fewest(pricing *w, uint64_t t) {
  double least = INFINITY;
  if (!begin(w, t)) return least;
  for (int round = 0; round < ROUNDS; round++) {
    find_waits(w);
    double cores = cores_of(w);
    if (cores < least) {
      least = cores;
      keep(w);
    }
    next_round(w);
  }
  return least;
}

/* ---- What comes of it ---- */

/* Buffers for as many samples as wait. */
static wafer_status deepen(pipeline *p, const pricing *w, uint32_t k) {
  const priced *of = &w->of[k];
  const wafer_kernel_body *body = &p->graph->kernels[k].body;
  const weighed *at;
  const wafer_curve *curve;
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, body->input_count + 1);
  if (!depths) return pipeline_no_memory(p);
  if (choose(w, k, 0, w->best[k].cycles, WAFER_NONE, 0, &at) == INFINITY) return WAFER_OK;
  pipeline_shallow_depths(p, k, depths);
  for (uint32_t j = 0; j < of->joins; j++)
    depths[of->input[j]] = (uint32_t)depth_of(w, at, parts(at->cycles, w->t), of->wait[j]);
  WAFER_TRY(pipeline_curve_for(p, k, depths, true, &curve));
  if (curve->count) p->curve[k] = curve;
  return WAFER_OK;
}

/* What a shape on the curve costs, in cores; INFINITY: it does not keep the interval. */
static double worth_of(const pricing *w, uint32_t k, const wafer_shape_point *at) {
  uint64_t copies = parts(at->cycles, w->t);
  bool keeps = copies <= w->replicas && pipeline_heaviest_stream(w->p, k) <= w->t * at->height;
  double cores = (double)((uint64_t)at->width * at->height * copies);
  return keeps ? cores + w->best[k].price * (double)at->cycles : INFINITY;
}

/* The most cycles of a shape on its curve that is among the cheapest, no less than were found
 * before. */
static uint64_t patience_of(const pricing *w, uint32_t k) {
  const wafer_curve *curve = w->p->curve[k];
  double least = INFINITY;
  uint64_t cycles = 0;
  for (size_t i = 0; i < curve->count; i++) least = fmin(least, worth_of(w, k, &curve->at[i]));
  for (size_t i = 0; i < curve->count; i++)
    if (worth_of(w, k, &curve->at[i]) <= least + least / CHEAP)
      cycles = max_u64(cycles, curve->at[i].cycles);
  return cycles ? max_u64(cycles, w->best[k].cycles) : 0;
}

static wafer_status make_room(pipeline *p, const pricing *w) {
  for (uint32_t k = 0; k < w->count; k++)
    if (w->of[k].joins > 1) WAFER_TRY(deepen(p, w, k));
  return WAFER_OK;
}

/* Patience, and room for what waits when each kernel is as slow as it may be. */
static wafer_status settle(pipeline *p, pricing *w) {
  for (uint32_t k = 0; k < w->count; k++)
    memcpy(w->of[k].wait, w->best[k].wait, w->of[k].joins * sizeof *w->of[k].wait);
  WAFER_TRY(make_room(p, w));
  for (uint32_t k = 0; k < w->count; k++) {
    uint64_t cycles = patience_of(w, k);
    p->patience[k] = (uint32_t)((cycles * SIZE_PATIENCE + w->t - 1) / w->t);
    w->of[k].cycles = max_u64(cycles, w->best[k].cycles);
  }
  find_waits(w);
  return make_room(p, w);
}

static wafer_status start(pricing *w, const wafer_curve *const *shallow) {
  wafer_arena *arena = w->p->ctx->arena;
  w->of = WAFER_NEW(arena, priced, w->count);
  w->best = WAFER_NEW(arena, best_round, w->count);
  w->price = WAFER_NEW(arena, double, w->count);
  w->start = WAFER_NEW(arena, uint64_t, w->count);
  bool ok = w->of && w->best && w->price && w->start;
  for (uint32_t k = 0; ok && k < w->count; k++) ok = add_kernel(w, k, shallow[k]);
  return ok ? WAFER_OK : pipeline_no_memory(w->p);
}

wafer_status pipeline_be_patient(pipeline *p, uint32_t replicas, uint64_t cores, uint64_t low,
                                 uint64_t *t) {
  const wafer_curve **shallow;
  pricing w = {.p = p, .count = p->graph->kernel_count, .replicas = replicas};
  double room = (double)(cores - cores / FULL);
  uint64_t high = *t;
  WAFER_TRY(pipeline_shallow(p, true, &shallow));
  WAFER_TRY(start(&w, shallow));
  while (high - low > low / EXACT + 1) { /* as far as is known high does, low does not */
    uint64_t mid = low + (high - low) / 2;
    *(fewest(&w, mid) <= room ? &high : &low) = mid;
  }
  if (high == *t || fewest(&w, high) == INFINITY) return WAFER_OK;
  *t = high;
  memcpy(p->curve, shallow, w.count * sizeof *p->curve);
  return settle(p, &w);
}

/* Lower bounds no placement can be below. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "placer.h"

typedef struct bounds {
  placer *in;
  curve_cache cache;
  double *pull;      /* of each kernel: edge weights at it */
  const curve **now; /* of each kernel, at the time looked at */
  const uint64_t *times;
  uint32_t time_count;
} bounds;

static bool look_at(bounds *b, uint64_t time, bool *fits) {
  const wafer_placer_problem *p = b->in->p;
  double area = 0;
  *fits = false;
  for (uint32_t i = 0; i < p->count; i++) {
    const curve *c = b->now[i] = curve_at(&b->cache, p->kind[i], time);
    if (!c) return false;
    double least = INFINITY;
    for (uint32_t k = 0; k < c->count; k++)
      if (c->at[k].w <= p->width && c->at[k].h <= p->height)
        least = fmin(least, (double)c->at[k].w * c->at[k].h);
    b->in->areas[i] = least < INFINITY ? (uint64_t)least : 1;
    area += least;
  }
  *fits = area <= (double)p->width * p->height;
  return true;
}

/* The Lagrangian of the area: two kernels that touch have centres at least half the sum of their
 * shorter sides apart, and all areas together fit the wafer at the price `price` a core. */
static double wire_bound(const bounds *b, double price) {
  const wafer_placer_problem *p = b->in->p;
  double sum = -price * p->width * p->height;
  for (uint32_t i = 0; i < p->count; i++) {
    double least = INFINITY;
    for (uint32_t k = 0; k < b->now[i]->count; k++) {
      point q = b->now[i]->at[k];
      if (q.w > p->width || q.h > p->height) continue;
      double cost =
          p->wire_weight * b->pull[i] * 0.5 * (q.w < q.h ? q.w : q.h) + price * ((double)q.w * q.h);
      if (cost < least) least = cost;
    }
    sum += least;
  }
  return sum;
}

/* Concave in the price. */
static double best_wire_bound(const bounds *b) {
  double high = 1e-6, best = wire_bound(b, 0), low = 0;
  while (wire_bound(b, 2 * high) > wire_bound(b, high) && high < 1e18) high *= 2;
  high *= 2;
  for (int i = 0; i < 40; i++) {
    double x = low + (high - low) / 3, y = high - (high - low) / 3;
    double fx = wire_bound(b, x), fy = wire_bound(b, y);
    best = fmax(best, fmax(fx, fy));
    if (fx < fy)
      low = x;
    else
      high = y;
  }
  return best;
}

/* Least over the times of: the time itself, and the wires of the shapes as fast as the next step.
 */
static bool bound_score(bounds *b, uint32_t first) {
  double best = INFINITY;
  const double weight = b->in->p->time_weight;
  for (uint32_t i = first; i < b->time_count;) {
    uint64_t time = b->times[i];
    if (weight * (double)time >= best) break;
    uint32_t next = i;
    while (next + 1 < b->time_count && (double)b->times[next + 1] <= (double)time * 1.001) next++;
    bool fits;
    if (!look_at(b, b->times[next], &fits)) return false;
    best = fmin(best, weight * (double)time + best_wire_bound(b));
    i = next + 1;
  }
  b->in->score_bound = best;
  return true;
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static bool all_times(bounds *b, wafer_arena *arena) {
  const wafer_placer_problem *p = b->in->p;
  uint64_t many = 0;
  for (uint32_t k = 0; k < p->kind_count; k++) many += p->kinds[k].count;
  uint64_t *times = WAFER_NEW(arena, uint64_t, many + 1);
  if (!times) return false;
  many = 0;
  for (uint32_t k = 0; k < p->kind_count; k++)
    for (uint32_t e = 0; e < b->cache.end_count[k]; e++)
      times[many++] = b->cache.shapes[k][b->cache.ends[k][e] - 1].time;
  qsort(times, many, sizeof *times, by_value);
  uint32_t n = 0;
  for (uint64_t i = 0; i < many; i++)
    if (!n || times[i] != times[n - 1]) times[n++] = times[i];
  b->times = times;
  b->time_count = n;
  return true;
}

/* Times at which a kind needs at least a five hundredth fewer cores than at the key before. */
static uint32_t keys_of(const bounds *b, uint32_t kind, uint64_t *keys) {
  uint64_t least = UINT64_MAX, last = UINT64_MAX;
  uint32_t n = 0;
  for (uint32_t e = 0, i = 0; e < b->cache.end_count[kind]; e++) {
    for (; i < b->cache.ends[kind][e]; i++) {
      const wafer_placer_shape *s = &b->cache.shapes[kind][i];
      uint64_t area = (uint64_t)s->width * s->height;
      if (area < least) least = area;
    }
    if (last != UINT64_MAX && least > last - last / 500 - 1) continue;
    last = least;
    keys[n++] = b->cache.shapes[kind][i - 1].time;
  }
  return n;
}

/* The levels that count, those of all kinds. */
static bool find_keys(bounds *b, wafer_arena *arena) {
  placer *in = b->in;
  uint64_t many = 0, n = 0;
  for (uint32_t k = 0; k < in->p->kind_count; k++) many += b->cache.end_count[k];
  uint64_t *times = WAFER_NEW(arena, uint64_t, many);
  uint32_t *keys = WAFER_NEW(arena, uint32_t, in->level_count);
  if (!times || !keys) return false;
  for (uint32_t k = 0; k < in->p->kind_count; k++) n += keys_of(b, k, times + n);
  qsort(times, n, sizeof *times, by_value);
  uint32_t level = 0;
  keys[in->key_count++] = 0;
  for (uint64_t i = 0; i < n; i++) {
    while (level < in->level_count && in->levels[level] < times[i]) level++;
    if (level < in->level_count && level != keys[in->key_count - 1]) keys[in->key_count++] = level;
  }
  in->keys = keys;
  return true;
}

/* The levels a search may look at start at the least time that fits by area. */
bool placer_bounds(placer *in, wafer_arena *arena, bool *fits) {
  bounds b = {.in = in};
  b.pull = WAFER_NEW(arena, double, in->p->count);
  in->areas = WAFER_NEW(arena, uint64_t, in->p->count);
  b.now = WAFER_NEW(arena, const curve *, in->p->count);
  if (!in->areas || !b.pull || !b.now || !curve_cache_init(&b.cache, in, arena) ||
      !all_times(&b, arena))
    return false;
  for (uint32_t e = 0; e < in->p->edge_count; e++) {
    if (!placer_between(in->p, &in->p->edges[e]))
      continue; /* terminals may be as near as nothing */
    b.pull[in->p->edges[e].from] += in->p->edges[e].weight;
    b.pull[in->p->edges[e].to] += in->p->edges[e].weight;
  }
  uint32_t low = 0, high = b.time_count;
  while (low < high) {
    uint32_t mid = (low + high) / 2;
    if (!look_at(&b, b.times[mid], fits)) return false;
    if (*fits)
      high = mid;
    else
      low = mid + 1;
  }
  *fits = low < b.time_count;
  if (!*fits) return true;
  in->levels = b.times + low;
  in->level_count = b.time_count - low;
  in->time_bound = b.times[low];
  return find_keys(&b, arena) && bound_score(&b, low);
}

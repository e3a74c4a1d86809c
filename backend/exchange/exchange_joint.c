#include "exchange_joint.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t ceil_div(int64_t a, int64_t b) { /* b > 0 */
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

typedef struct pieces {
  wafer_arena *arena;
  joint_piece *at;
  uint32_t count, room;
  bool failed;
} pieces;

static void put(pieces *p, joint_piece piece) {
  if (!WAFER_GROW(p->arena, p->at, p->count, p->room, 1)) {
    p->failed = true;
    return;
  }
  p->at[p->count++] = piece;
}

/* The indices i of a target's run with lo <= a * i + b < hi. */
static void linear(pieces *p, const spread_run *s, const spread_run *t, int64_t a, int64_t b) {
  int64_t lo = t->lo, hi = t->hi;
  if (a == 0) {
    if (b < s->lo || b >= s->hi) return;
  } else if (a > 0) {
    lo = most(lo, ceil_div(s->lo - b, a));
    hi = least(hi, ceil_div(s->hi - b, a));
  } else {
    lo = most(lo, ceil_div(b - s->hi + 1, -a));
    hi = least(hi, ceil_div(b - s->lo + 1, -a));
  }
  if (lo >= hi) return;
  put(p, (joint_piece){(int32_t)(s->at + a * lo + b - s->lo), (int32_t)a,
                       (int32_t)(t->at + lo - t->lo), (int32_t)(hi - lo)});
}

static void looked_up(pieces *p, const spread_run *s, const spread_run *t, const int64_t *table) {
  for (int64_t i = t->lo; i < t->hi; i++) {
    if (table[i] < s->lo || table[i] >= s->hi) continue;
    int32_t src = (int32_t)(s->at + table[i] - s->lo), dst = (int32_t)(t->at + i - t->lo);
    joint_piece *last = p->count ? &p->at[p->count - 1] : NULL;
    if (last && last->dst + last->count == dst) {
      int32_t step = src - (last->src + (last->count - 1) * last->step);
      if (last->count == 1) last->step = step;
      if (last->step == step) {
        last->count++;
        continue;
      }
    }
    put(p, (joint_piece){src, 0, dst, 1});
    if (p->failed) return;
  }
}

static int by_target(const void *left, const void *right) {
  const joint_piece *a = left, *b = right;
  return a->dst < b->dst ? -1 : a->dst > b->dst;
}

bool joint_pieces(wafer_arena *arena, const spread_part *source, const spread_part *target,
                  const index_dim *map, joint_list *out) {
  pieces p = {.arena = arena};
  for (uint32_t t = 0; t < target->count; t++)
    for (uint32_t s = 0; s < source->count; s++)
      if (map->table)
        looked_up(&p, &source->runs[s], &target->runs[t], map->table);
      else
        linear(&p, &source->runs[s], &target->runs[t], map->a, map->b);
  if (p.count > 1) qsort(p.at, p.count, sizeof *p.at, by_target);
  *out = (joint_list){p.at, p.count};
  return !p.failed;
}

/* A dim without a source: its indices all take the same element. */
static bool repeated(wafer_arena *arena, const spread_part *target, joint_list *out) {
  pieces p = {.arena = arena};
  for (uint32_t t = 0; t < target->count; t++)
    put(&p, (joint_piece){0, 0, target->runs[t].at, target->runs[t].hi - target->runs[t].lo});
  *out = (joint_list){p.at, p.count};
  return !p.failed;
}

/* A dim of the source whose index is constant. */
static bool constant(wafer_arena *arena, const spread_part *source, int64_t b, joint_list *out) {
  pieces p = {.arena = arena};
  for (uint32_t s = 0; s < source->count; s++)
    if (source->runs[s].lo <= b && b < source->runs[s].hi)
      put(&p, (joint_piece){(int32_t)(source->runs[s].at + b - source->runs[s].lo), 0, 0, 1});
  *out = (joint_list){p.at, p.count};
  return !p.failed;
}

bool joint_of(wafer_arena *arena, const spread_dim *source, uint32_t s, const spread_dim *target,
              uint32_t t, const index_dim *map, joint *out) {
  *out = (joint){.sources = source ? source->cols : 1, .targets = target ? target->cols : 1};
  out->list = WAFER_NEW(arena, joint_list, (size_t)out->sources * out->targets);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  if (!out->list) return false;
  for (uint32_t i = 0; i < out->sources; i++)
    for (uint32_t j = 0; j < out->targets; j++) {
      const spread_part *from = source ? &source->part[s * source->cols + i] : NULL;
      const spread_part *to = target ? &target->part[t * target->cols + j] : NULL;
      joint_list *list = &out->list[i * out->targets + j];
      bool done = !from ? repeated(arena, to, list)
                  : to  ? joint_pieces(arena, from, to, map, list)
                        : constant(arena, from, map->b, list);
      if (!done) return false;
      XXH3_64bits_update(&hash, &list->count, sizeof list->count);
      if (list->count) XXH3_64bits_update(&hash, list->at, list->count * sizeof *list->at);
    }
  out->hash = XXH3_64bits_digest(&hash);
  return true;
}

bool joint_equal(const joint *a, const joint *b) {
  if (a->hash != b->hash || a->sources != b->sources || a->targets != b->targets) return false;
  for (uint32_t i = 0; i < a->sources * a->targets; i++)
    if (a->list[i].count != b->list[i].count ||
        (a->list[i].count &&
         memcmp(a->list[i].at, b->list[i].at, a->list[i].count * sizeof *a->list[i].at) != 0))
      return false;
  return true;
}

static int by_index(const void *left, const void *right) {
  const spread_run *a = left, *b = right;
  return a->lo < b->lo ? -1 : a->lo > b->lo;
}

bool joint_union(wafer_arena *arena, const spread_part *const *parts, uint32_t count,
                 spread_part *out) {
  uint32_t all = 0, kept = 0;
  for (uint32_t i = 0; i < count; i++) all += parts[i]->count;
  spread_run *runs = WAFER_NEW(arena, spread_run, all);
  if (!runs) return false;
  for (uint32_t i = 0, at = 0; i < count; i++)
    for (uint32_t r = 0; r < parts[i]->count; r++) runs[at++] = parts[i]->runs[r];
  qsort(runs, all, sizeof *runs, by_index);
  for (uint32_t i = 0; i < all; i++)
    if (kept && runs[i].lo <= runs[kept - 1].hi)
      runs[kept - 1].hi = (int32_t)most(runs[kept - 1].hi, runs[i].hi);
    else
      runs[kept++] = runs[i];
  for (uint32_t i = 0, at = 0; i < kept; i++) {
    runs[i].at = (int32_t)at;
    at += (uint32_t)(runs[i].hi - runs[i].lo);
  }
  *out = (spread_part){kept, runs};
  return true;
}

bool joint_of_row(wafer_arena *arena, const spread_dim *dim, uint32_t kind, spread_part *out) {
  const spread_part **parts = WAFER_NEW(arena, const spread_part *, dim->cols);
  if (!parts) return false;
  for (uint32_t c = 0; c < dim->cols; c++) parts[c] = &dim->part[kind * dim->cols + c];
  return joint_union(arena, parts, dim->cols, out);
}

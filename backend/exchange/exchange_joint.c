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

typedef struct joint_work {
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

/* The indices i, from *first to *end - 1, with lo <= a * i + b < hi. */
static void preimage(const index_dim *map, int64_t lo, int64_t hi, int64_t *first, int64_t *end) {
  int64_t a = map->a, b = map->b;
  bool all = a == 0 && lo <= b && b < hi;
  *first = a > 0 ? ceil_div(lo - b, a) : a < 0 ? ceil_div(b - hi + 1, -a) : INT32_MIN;
  *end = a > 0 ? ceil_div(hi - b, a) : a < 0 ? ceil_div(b - lo + 1, -a) : INT32_MIN;
  if (all) *end = INT32_MAX;
}

static void linear(pieces *p, const spread_run *s, const spread_run *t, const index_dim *map) {
  int64_t lo, hi;
  preimage(map, s->lo, s->hi, &lo, &hi);
  lo = most(lo, t->lo);
  hi = least(hi, t->hi);
  if (lo >= hi) return;
  put(p, (joint_piece){(int32_t)(s->at + map->a * lo + map->b - s->lo), (int32_t)map->a,
                       (int32_t)(t->at + lo - t->lo), (int32_t)(hi - lo)});
}

/* One that goes on where the last one ended becomes part of it. */
static bool joins(joint_piece *last, int32_t src, int32_t dst, int32_t step, int32_t count) {
  if (last->dst + last->count != dst) return false;
  int32_t between = src - (last->src + (last->count - 1) * last->step);
  if ((last->count > 1 && last->step != between) || (count > 1 && step != between)) return false;
  last->step = between;
  last->count += count;
  return true;
}

/* Elements src, src + step, ... for dst, dst + 1, ...: steps stay even as long as they are,
 * whatever runs they come in. */
static void put_even(pieces *p, int32_t src, int32_t dst, int32_t step, int32_t count) {
  joint_piece *last = p->count ? &p->at[p->count - 1] : NULL;
  if (last && joins(last, src, dst, step, count)) return;
  if (last && count > 1 && joins(last, src, dst, 0, 1)) {
    put_even(p, src + step, dst + 1, count > 2 ? step : 0, count - 1);
    return;
  }
  put(p, (joint_piece){src, count > 1 ? step : 0, dst, count});
}

/* The first of a table's runs that has an index from `lo` on. */
static uint32_t first_run_from(const index_table *table, int64_t lo) {
  uint32_t from = 0, to = table->run_count;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (table->runs[middle].first + table->runs[middle].count > lo)
      to = middle;
    else
      from = middle + 1;
  }
  return from;
}

/* The part of a table's run that a run of the target has. */
static index_run clipped(const index_run *run, const spread_run *t) {
  int64_t lo = most(run->first, t->lo), hi = least(run->first + run->count, t->hi);
  return (index_run){lo, hi - lo, run->at + run->step * (lo - run->first), run->step};
}

static void looked_up(pieces *p, const spread_run *s, const spread_run *t,
                      const index_table *table) {
  uint32_t r = first_run_from(table, t->lo);
  for (; r < table->run_count && table->runs[r].first < t->hi && !p->failed; r++) {
    const index_run run = clipped(&table->runs[r], t);
    const index_dim even = {0, run.step, run.at - run.step * run.first, NULL};
    int64_t lo, hi;
    preimage(&even, s->lo, s->hi, &lo, &hi);
    lo = most(lo, run.first);
    hi = least(hi, run.first + run.count);
    if (lo >= hi) continue;
    put_even(p, (int32_t)(s->at + even.a * lo + even.b - s->lo), (int32_t)(t->at + lo - t->lo),
             (int32_t)run.step, (int32_t)(hi - lo));
  }
}

static int by_target(const void *left, const void *right) {
  const joint_piece *a = left, *b = right;
  return a->dst < b->dst ? -1 : a->dst > b->dst;
}

/* The first run that has an index from `lo` on. */
static uint32_t first_from(const spread_part *part, int64_t lo) {
  uint32_t from = 0, to = part->count;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (part->runs[middle].hi > lo)
      to = middle;
    else
      from = middle + 1;
  }
  return from;
}

/* What the target's runs take of the source; run t of them is of part part[t], or of part 0. */
static void all_linear(pieces *p, const spread_part *source, const spread_part *target,
                       const uint32_t *part, const index_dim *map) {
  for (uint32_t s = 0; s < source->count; s++) {
    int64_t lo, hi;
    preimage(map, source->runs[s].lo, source->runs[s].hi, &lo, &hi);
    for (uint32_t t = first_from(target, lo); t < target->count && target->runs[t].lo < hi; t++)
      linear(&p[part ? part[t] : 0], &source->runs[s], &target->runs[t], map);
  }
}

static void all_looked_up(pieces *p, const spread_part *source, const spread_part *target,
                          const index_table *table) {
  for (uint32_t t = 0; t < target->count; t++) {
    const spread_run *own = &target->runs[t];
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    uint32_t r = first_run_from(table, own->lo);
    for (; r < table->run_count && table->runs[r].first < own->hi; r++) {
      const index_run run = clipped(&table->runs[r], own);
      int64_t last = run.at + run.step * (run.count - 1);
      lo = least(lo, least(run.at, last));
      hi = most(hi, most(run.at, last));
    }
    for (uint32_t s = first_from(source, lo); s < source->count && source->runs[s].lo <= hi; s++)
      looked_up(p, &source->runs[s], own, table);
  }
}

static joint_list in_order(pieces *p) {
  if (p->count > 1) qsort(p->at, p->count, sizeof *p->at, by_target);
  return (joint_list){p->at, p->count};
}

bool joint_pieces(wafer_arena *arena, const spread_part *source, const spread_part *target,
                  const index_dim *map, joint_list *out) {
  pieces p = {.arena = arena};
  if (map->table)
    all_looked_up(&p, source, target, map->table);
  else
    all_linear(&p, source, target, NULL, map);
  *out = in_order(&p);
  return !p.failed;
}

/* ---- one part, many targets ---- */

/* A run of one of many parts. */
typedef struct part_run {
  spread_run run;
  uint32_t part;
} part_run;

static int by_first(const void *left, const void *right) {
  const part_run *a = left, *b = right;
  if (a->run.lo != b->run.lo) return a->run.lo < b->run.lo ? -1 : 1;
  return (a->part > b->part) - (a->part < b->part);
}

joint_many *joint_many_of(wafer_arena *arena, const spread_part *parts, uint32_t count) {
  joint_many *m = WAFER_NEW(arena, joint_many, 1);
  uint32_t all = 0, at = 0;
  for (uint32_t i = 0; i < count; i++) all += parts[i].count;
  part_run *order = WAFER_NEW(arena, part_run, all);
  spread_run *runs = WAFER_NEW(arena, spread_run, all);
  uint32_t *part = WAFER_NEW(arena, uint32_t, all);
  if (!m || !order || !runs || !part) return NULL;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < parts[i].count; k++) order[at++] = (part_run){parts[i].runs[k], i};
  if (all > 1) qsort(order, all, sizeof *order, by_first);
  *m = (joint_many){parts, count, {all, runs}, part, true, WAFER_NEW(arena, pieces, count)};
  if (!m->work) return NULL;
  for (uint32_t k = 0; k < all; k++) {
    runs[k] = order[k].run;
    part[k] = order[k].part;
    if (k && runs[k - 1].hi > runs[k].hi) m->ordered = false;
  }
  return m;
}

bool joint_pieces_of(wafer_arena *arena, const spread_part *source, const joint_many *targets,
                     const index_dim *map, joint_list *out) {
  bool made = true;
  if (map->table || !targets->ordered) {
    for (uint32_t i = 0; i < targets->count && made; i++)
      made = joint_pieces(arena, source, &targets->parts[i], map, &out[i]);
    return made;
  }
  pieces *p = targets->work;
  for (uint32_t i = 0; i < targets->count; i++) p[i] = (pieces){.arena = arena};
  all_linear(p, source, &targets->all, targets->part, map);
  for (uint32_t i = 0; i < targets->count; i++) {
    out[i] = in_order(&p[i]);
    made = made && !p[i].failed;
  }
  return made;
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
  const spread_part *from = source ? &source->part[s * source->cols] : NULL;
  const spread_part *to = target ? &target->part[t * target->cols] : NULL;
  const joint_many *many = from && to ? joint_many_of(arena, to, out->targets) : NULL;
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  if (!out->list || (from && to && !many)) return false;
  for (uint32_t i = 0; i < out->sources; i++) {
    joint_list *lists = &out->list[i * out->targets];
    bool done = !many || joint_pieces_of(arena, &from[i], many, map, lists);
    for (uint32_t j = 0; j < out->targets && done; j++) {
      if (!from) done = repeated(arena, &to[j], &lists[j]);
      if (from && !to) done = constant(arena, &from[i], map->b, &lists[j]);
      XXH3_64bits_update(&hash, &lists[j].count, sizeof lists[j].count);
      if (lists[j].count)
        XXH3_64bits_update(&hash, lists[j].at, lists[j].count * sizeof *lists[j].at);
    }
    if (!done) return false;
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

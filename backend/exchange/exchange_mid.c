#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "exchange_mid.h"

/* ---- which rows serve which ---- */

typedef struct set { /* of kinds of rows of one dim of the target */
  uint64_t *bits;
  uint32_t words;
} set;

typedef struct server {
  wafer_arena *arena;
  const spread *from, *to;
  const index_map *map;
  uint32_t *group, groups;
  set *allowed[WAFER_MAX_RANK]; /* by dim of the target, of each row of the source */
} server;

static bool find_groups(server *v, uint32_t ***members, uint32_t **count) {
  uint32_t rows = v->from->rect.height;
  v->group = spread_kinds(v->arena, v->from, true, &v->groups);
  *members = WAFER_NEW(v->arena, uint32_t *, v->groups);
  *count = WAFER_NEW(v->arena, uint32_t, v->groups);
  uint32_t *all = WAFER_NEW(v->arena, uint32_t, rows);
  if (!v->group || !*members || !*count || !all) return false;
  for (uint32_t r = 0; r < rows; r++) (*count)[v->group[r]]++;
  for (uint32_t g = 0; g < v->groups; g++) {
    (*members)[g] = all;
    all += (*count)[g];
    (*count)[g] = 0;
  }
  for (uint32_t r = 0; r < rows; r++)
    (*members)[v->group[r]][(*count)[v->group[r]]++] = v->from->rect.y + r;
  return true;
}

static void allow(const server *v, uint32_t row, uint32_t target_row) {
  for (uint32_t d = 0; d < v->to->rank; d++) {
    uint32_t kind = v->to->dim[d].row[target_row];
    v->allowed[d][row].bits[kind / 64] |= (uint64_t)1 << kind % 64;
  }
}

static bool find_servers(server *v) {
  uint32_t **members, *count, rows = v->from->rect.height;
  if (!find_groups(v, &members, &count)) return false;
  for (uint32_t d = 0; d < v->to->rank; d++) {
    uint32_t words = (v->to->dim[d].rows + 63) / 64;
    v->allowed[d] = WAFER_NEW(v->arena, set, rows);
    uint64_t *bits = WAFER_NEW(v->arena, uint64_t, (size_t)rows * words);
    if (!v->allowed[d] || !bits) return false;
    for (uint32_t r = 0; r < rows; r++) v->allowed[d][r] = (set){bits + (size_t)r * words, words};
  }
  for (uint32_t t = 0; t < v->to->rect.height; t++)
    for (uint32_t g = 0; g < v->groups; g++)
      allow(v, pass_nearest(members[g], count[g], v->to->rect.y + t) - v->from->rect.y, t);
  return true;
}

/* ---- the parts of a dim ---- */

/* Of one kind of rows: what they hold, and whom they serve. */
typedef struct row_kind {
  uint32_t source;
  const set *allowed;
} row_kind;

static bool find_kinds(const server *v, uint32_t d, const spread_dim *source, spread_dim *out,
                       row_kind **kinds) {
  uint32_t rows = v->from->rect.height, buckets = 64;
  while (buckets < 2 * rows) buckets *= 2;
  uint32_t *row = WAFER_NEW(v->arena, uint32_t, rows);
  uint32_t *bucket = WAFER_NEW(v->arena, uint32_t, buckets); /* 1 + kind */
  row_kind *list = *kinds = WAFER_NEW(v->arena, row_kind, rows);
  if (!row || !bucket || !list) return false;
  for (uint32_t r = 0; r < rows; r++) {
    const set *allowed = &v->allowed[d][r];
    size_t bytes = allowed->words * sizeof *allowed->bits;
    uint32_t s = source ? source->row[r] : 0;
    uint32_t at = (uint32_t)XXH3_64bits_withSeed(allowed->bits, bytes, s) & (buckets - 1);
    while (bucket[at] && (list[bucket[at] - 1].source != s ||
                          memcmp(list[bucket[at] - 1].allowed->bits, allowed->bits, bytes) != 0))
      at = (at + 1) & (buckets - 1);
    if (!bucket[at]) {
      list[out->rows] = (row_kind){s, allowed};
      bucket[at] = ++out->rows;
    }
    row[r] = bucket[at] - 1;
  }
  out->row = row;
  return true;
}

static bool same_set(const set *a, const set *b) {
  return memcmp(a->bits, b->bits, a->words * sizeof *a->bits) == 0;
}

/* What the rows that are served need in the columns of kind `c`, its `at` the index itself. */
static bool needed(const server *v, const spread_dim *target, const set *allowed, uint32_t c,
                   spread_part *out) {
  const spread_part **parts = WAFER_NEW(v->arena, const spread_part *, target->rows);
  uint32_t count = 0;
  if (!parts) return false;
  for (uint32_t r = 0; r < target->rows; r++)
    if (allowed->bits[r / 64] >> r % 64 & 1) parts[count++] = &target->part[r * target->cols + c];
  if (!joint_union(v->arena, parts, count, out)) return false;
  spread_run *runs = (spread_run *)out->runs;
  for (uint32_t i = 0; i < out->count; i++) runs[i].at = runs[i].lo;
  return true;
}

/* The indices that are needed and held, as the part of a buffer without gaps. */
static bool part_of(wafer_arena *arena, const joint_list *list, spread_part *out, int32_t *extent) {
  spread_run *runs = WAFER_NEW(arena, spread_run, list->count);
  int32_t count = 0, at = 0;
  if (!runs) return false;
  for (uint32_t i = 0; i < list->count; i++) {
    int32_t lo = list->at[i].dst, hi = lo + list->at[i].count;
    if (count && runs[count - 1].hi == lo)
      runs[count - 1].hi = hi;
    else
      runs[count++] = (spread_run){lo, hi, at};
    at += hi - lo;
  }
  *out = (spread_part){(uint32_t)count, runs};
  if (at > *extent) *extent = at;
  return true;
}

static bool make_dim(const server *v, uint32_t d, const spread_dim *source, const index_dim *map,
                     spread_dim *out) {
  const spread_dim *target = &v->to->dim[d];
  row_kind *kinds;
  *out = (spread_dim){.extent = target->extent, .cols = target->cols, .col = target->col};
  if (!find_kinds(v, d, source, out, &kinds)) return false;
  out->part = WAFER_NEW(v->arena, spread_part, (size_t)out->rows * out->cols);
  spread_part *need = WAFER_NEW(v->arena, spread_part, out->cols);
  joint_list *lists = WAFER_NEW(v->arena, joint_list, out->cols);
  const joint_many *many = NULL;
  if (!out->part || !need || !lists) return false;
  for (uint32_t k = 0; k < out->rows; k++) {
    spread_part held;
    bool again = k && same_set(kinds[k - 1].allowed, kinds[k].allowed);
    if (!joint_of_row(v->arena, source, kinds[k].source, &held)) return false;
    for (uint32_t c = 0; c < out->cols && !again; c++)
      if (!needed(v, target, kinds[k].allowed, c, &need[c])) return false;
    if (!again) many = joint_many_of(v->arena, need, out->cols);
    if (!many || !joint_pieces_of(v->arena, &held, many, map, lists)) return false;
    for (uint32_t c = 0; c < out->cols; c++)
      if (!part_of(v->arena, &lists[c], &out->part[k * out->cols + c], &out->buffer)) return false;
  }
  if (out->buffer == 0) out->buffer = 1;
  return true;
}

/* A dim of one index, which rows either have or have not. */
static bool make_flag(wafer_arena *arena, uint32_t height, uint32_t width, const uint8_t *has,
                      spread_dim *out) {
  uint32_t *row = WAFER_NEW(arena, uint32_t, height), *col = WAFER_NEW(arena, uint32_t, width);
  spread_part *part = WAFER_NEW(arena, spread_part, 2);
  spread_run *run = WAFER_NEW(arena, spread_run, 1);
  if (!row || !col || !part || !run) return false;
  for (uint32_t r = 0; has && r < height; r++) row[r] = !has[r];
  *run = (spread_run){0, 1, 0};
  part[0] = (spread_part){1, run};
  *out = (spread_dim){
      .extent = 1, .buffer = 1, .rows = 2, .cols = 1, .row = row, .col = col, .part = part};
  return true;
}

/* Rows that hold the elements at all constant indices. */
static bool find_constants(wafer_arena *arena, const spread *from, const index_map *map,
                           uint8_t *has) {
  memset(has, 1, from->rect.height);
  for (uint32_t s = 0; s < from->rank; s++) {
    const spread_dim *dim = &from->dim[s];
    if (map->dim[s].dim != INDEX_CONSTANT) continue;
    for (uint32_t k = 0; k < dim->rows; k++) {
      spread_part held;
      bool found = false;
      if (!joint_of_row(arena, dim, k, &held)) return false;
      for (uint32_t i = 0; i < held.count; i++)
        found |= held.runs[i].lo <= map->dim[s].b && map->dim[s].b < held.runs[i].hi;
      for (uint32_t r = 0; r < from->rect.height && !found; r++)
        if (dim->row[r] == k) has[r] = 0;
    }
  }
  return true;
}

static int source_of(const spread *from, const index_map *map, uint32_t d) {
  for (uint32_t s = 0; s < from->rank; s++)
    if (map->dim[s].dim == (int)d) return (int)s;
  return -1;
}

bool mid_make(wafer_arena *arena, const spread *from, const spread *to, const index_map *map,
              mid *out) {
  server v = {.arena = arena, .from = from, .to = to, .map = map};
  uint8_t *has = WAFER_NEW(arena, uint8_t, from->rect.height);
  if (!has || !find_servers(&v) || !find_constants(arena, from, map, has)) return false;
  *out = (mid){.map = index_identity(), .row_group = v.group};
  out->s = (spread){.rect = {to->rect.x, from->rect.y, to->rect.width, from->rect.height},
                    .dtype = to->dtype,
                    .rank = to->rank};
  for (uint32_t d = 0; d < to->rank; d++) {
    int s = source_of(from, map, d);
    if (s >= 0) {
      if (!make_dim(&v, d, &from->dim[s], &map->dim[s], &out->s.dim[d])) return false;
      continue;
    }
    if (!make_flag(arena, from->rect.height, to->rect.width, NULL, &out->s.dim[d])) return false;
    out->map.dim[d].a = 0; /* repeated in the second pass */
  }
  bool all = true;
  for (uint32_t r = 0; r < from->rect.height; r++) all = all && has[r];
  if (!all) {
    if (!make_flag(arena, from->rect.height, to->rect.width, has, &out->s.dim[to->rank]))
      return false;
    out->map.dim[to->rank] = (index_dim){.dim = INDEX_CONSTANT};
    out->s.rank++;
  }
  spread_pack(&out->s);
  return true;
}

/* ---- whether it is needed ---- */

static uint64_t indices(const joint_list *list) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < list->count; i++) n += (uint64_t)list->at[i].count;
  return n;
}

static bool held_anywhere(wafer_arena *arena, const spread_dim *dim, spread_part *out) {
  const spread_part **all = WAFER_NEW(arena, const spread_part *, dim->rows * dim->cols);
  if (!all) return false;
  for (uint32_t i = 0; i < dim->rows * dim->cols; i++) all[i] = &dim->part[i];
  return joint_union(arena, all, dim->rows * dim->cols, out);
}

/* Of one dim, in one row: all that there is `anywhere` of what is needed is in the row. */
static bool row_has(wafer_arena *arena, const spread_dim *source, uint32_t s,
                    const spread_part *anywhere, const spread_dim *target, uint32_t t,
                    const index_dim *map, bool *out) {
  spread_part held, need;
  joint_list own, any;
  if (!joint_of_row(arena, source, s, &held) || !joint_of_row(arena, target, t, &need) ||
      !joint_pieces(arena, &held, &need, map, &own) ||
      !joint_pieces(arena, anywhere, &need, map, &any))
    return false;
  *out = indices(&own) == indices(&any);
  return true;
}

bool mid_is_needless(wafer_arena *arena, const spread *from, const spread *to, const index_map *map,
                     bool *needless) {
  *needless = from->rect.y == to->rect.y && from->rect.height == to->rect.height;
  uint8_t *has = WAFER_NEW(arena, uint8_t, from->rect.height);
  if (!has || !find_constants(arena, from, map, has)) return false;
  for (uint32_t r = 0; r < from->rect.height; r++) *needless = *needless && has[r];
  for (uint32_t s = 0; s < from->rank && *needless; s++) {
    const spread_dim *source = &from->dim[s];
    if (source->rows < 2 || map->dim[s].dim == INDEX_CONSTANT) continue;
    const spread_dim *target = &to->dim[map->dim[s].dim];
    uint32_t last_s = UINT32_MAX, last_t = UINT32_MAX;
    spread_part anywhere;
    if (!held_anywhere(arena, source, &anywhere)) return false;
    for (uint32_t r = 0; r < from->rect.height && *needless; r++) {
      if (source->row[r] == last_s && target->row[r] == last_t) continue;
      last_s = source->row[r];
      last_t = target->row[r];
      if (!row_has(arena, source, last_s, &anywhere, target, last_t, &map->dim[s], needless))
        return false;
    }
  }
  return true;
}

/* ---- what it costs ---- */

static uint64_t count_of(const spread_part *part) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < part->count; i++) n += (uint64_t)(part->runs[i].hi - part->runs[i].lo);
  return n;
}

uint64_t mid_load(wafer_arena *arena, const spread *s) {
  uint32_t rows, cols, *row = spread_kinds(arena, s, true, &rows),
                       *col = spread_kinds(arena, s, false, &cols);
  uint64_t most = 0;
  if (!row || !col) return 0;
  for (uint32_t r = 0, seen = 0; r < s->rect.height && seen < rows; r++) {
    if (row[r] != seen) continue; /* the first of its kind */
    uint64_t all = 0;
    seen++;
    for (uint32_t c = 0, met = 0; c < s->rect.width && met < cols; c++) {
      if (col[c] != met) continue;
      uint64_t elements = 1;
      met++;
      for (uint32_t d = 0; d < s->rank; d++) elements *= count_of(spread_part_at(s, d, r, c));
      all += elements;
    }
    if (all > most) most = all;
  }
  return line_words(s->dtype, most);
}

#include "exchange_border.h"

/* Which of the rows that hold the same and share it a row is, `of` if it is none, and how many they
 * are. */
typedef struct share {
  uint32_t index, of;
} share;

/* Of the rows that hold the same, those in the middle: no more than keep the border busy, and than
 * there are columns that differ, for each is another sender in the columns. `lanes`: words that
 * cross the border in a cycle. */
static share *find_shares(wafer_arena *arena, const spread *s, uint64_t lanes) {
  uint32_t rows = s->rect.height, kinds, *kind = spread_kinds(arena, s, true, &kinds), columns;
  uint32_t *count = kind ? WAFER_NEW(arena, uint32_t, kinds) : NULL;
  share *shares = WAFER_NEW(arena, share, rows);
  if (!count || !shares || !spread_kinds(arena, s, false, &columns)) return NULL;
  for (uint32_t r = 0; r < rows; r++) shares[r].index = count[kind[r]]++;
  for (uint32_t r = 0; r < rows; r++) {
    uint64_t busy = (lanes + kinds - 1) / kinds, most = busy > columns ? busy : columns;
    uint32_t of = most < count[kind[r]] ? (uint32_t)most : count[kind[r]];
    uint32_t first = (count[kind[r]] - of) / 2, index = shares[r].index;
    bool one = index >= first && index < first + of;
    shares[r] = (share){one ? index - first : of, of};
  }
  return shares;
}

static int64_t length_of(const spread_part *part) {
  int64_t n = 0;
  for (uint32_t i = 0; i < part->count; i++) n += part->runs[i].hi - part->runs[i].lo;
  return n;
}

/* The dim of which rows have most: replicas share it out. */
static bool find_shared(wafer_arena *arena, const spread *s, uint32_t *shared) {
  int64_t best = 0;
  *shared = 0;
  for (uint32_t d = 0; d < s->rank; d++) {
    spread_part part;
    if (!joint_of_row(arena, &s->dim[d], s->dim[d].row[0], &part)) return false;
    if (length_of(&part) > best) {
      best = length_of(&part);
      *shared = d;
    }
  }
  return true;
}

/* The `index`-th share of a part, full wavelets but for the last. */
static void cut_share(spread_part *part, const share *by, uint32_t per) {
  spread_run *runs = (spread_run *)part->runs;
  int64_t n = length_of(part), each = (n + by->of - 1) / by->of, at = 0;
  each = (each + per - 1) / per * per;
  int64_t from = each * by->index, to = from + each;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < part->count; i++) {
    int64_t length = runs[i].hi - runs[i].lo, lo = from - at, hi = to - at;
    at += length;
    if (lo < 0) lo = 0;
    if (hi > length) hi = length;
    if (lo >= hi) continue;
    int32_t first = runs[i].lo;
    runs[kept++] = (spread_run){(int32_t)(first + lo), (int32_t)(first + hi), 0};
  }
  part->count = kept;
}

/* Every row is a kind of its own; buffers begin with the row's first index. */
static bool make_dim(wafer_arena *arena, const spread *s, uint32_t d, const share *shares,
                     int64_t *origin, spread_dim *out) {
  const spread_dim *dim = &s->dim[d];
  uint32_t rows = s->rect.height, *row = WAFER_NEW(arena, uint32_t, rows);
  uint32_t per = d + 1 == s->rank && wafer_dtype_bytes(s->dtype) < 4
                     ? 4 / (uint32_t)wafer_dtype_bytes(s->dtype)
                     : 1;
  *out = (spread_dim){.extent = dim->extent,
                      .buffer = (int32_t)dim->extent,
                      .rows = rows,
                      .cols = 1,
                      .row = row,
                      .col = WAFER_NEW(arena, uint32_t, 1),
                      .part = WAFER_NEW(arena, spread_part, rows)};
  if (!row || !out->col || !out->part) return false;
  for (uint32_t r = 0; r < rows; r++) {
    spread_part *part = &out->part[r];
    row[r] = r;
    if (!joint_of_row(arena, dim, dim->row[r], part)) return false;
    if (shares) cut_share(part, &shares[r], per);
    spread_run *runs = (spread_run *)part->runs;
    origin[r] = part->count ? runs->lo : 0;
    for (uint32_t i = 0; i < part->count; i++) runs[i].at = (int32_t)(runs[i].lo - origin[r]);
  }
  return true;
}

bool border_trunks(wafer_arena *arena, const spread *s, const uint32_t **trunks) {
  uint32_t kinds, columns, *kind = spread_kinds(arena, s, true, &kinds), changes = 0;
  if (!kind || !spread_kinds(arena, s, false, &columns)) return false;
  for (uint32_t r = 1; r < s->rect.height; r++) changes += kind[r] != kind[r - 1];
  *trunks = columns == 1 && changes + 1 == kinds && kinds < s->rect.height ? kind : NULL;
  return true;
}

bool border_make(wafer_arena *arena, const spread *s, uint32_t value, uint64_t lanes, bool whole,
                 border *out) {
  uint32_t rows = s->rect.height, shared;
  share *shares = find_shares(arena, s, lanes);
  int64_t *base = WAFER_NEW(arena, int64_t, rows), *origin = WAFER_NEW(arena, int64_t, rows);
  if (!shares || !base || !origin || !find_shared(arena, s, &shared)) return false;
  out->host = (spread){.rect = {0, s->rect.y, 1, rows}, .dtype = s->dtype, .rank = s->rank};
  for (uint32_t d = 0; d < s->rank; d++) {
    if (!make_dim(arena, s, d, d == shared && !whole ? shares : NULL, origin, &out->host.dim[d]))
      return false;
    for (uint32_t r = 0; r < rows; r++) base[r] = base[r] * s->dim[d].extent + origin[r];
  }
  spread_pack(&out->host);
  out->ports = (line_border){value, s->rect.y, base};
  return true;
}

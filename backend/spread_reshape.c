#include "spread_reshape.h"

#include <string.h>

/* ---- several dims as one ---- */

static bool is_whole(const spread_dim *dim) {
  for (uint32_t p = 0; p < dim->rows * dim->cols; p++) {
    const spread_part *part = &dim->part[p];
    if (part->count != 1 || part->runs->lo != 0 || part->runs->hi != dim->extent ||
        part->runs->at != 0)
      return false;
  }
  return dim->buffer == dim->extent;
}

/* Dims first .. end - 1 of which one alone is cut, the first that has more than one index. */
static bool merges(const spread *s, uint32_t first, uint32_t end) {
  while (first + 1 < end && s->dim[first].extent == 1 && is_whole(&s->dim[first])) first++;
  for (uint32_t d = first + 1; d < end; d++)
    if (!is_whole(&s->dim[d]) || s->dim[d - 1].stride != s->dim[d].stride * s->dim[d].buffer)
      return false;
  return true;
}

static bool scale_parts(wafer_arena *arena, const spread_dim *dim, int64_t times, int64_t by,
                        spread_dim *out) {
  uint32_t parts = dim->rows * dim->cols;
  out->part = WAFER_NEW(arena, spread_part, parts);
  if (!out->part) return false;
  for (uint32_t p = 0; p < parts; p++) {
    const spread_part *from = &dim->part[p];
    spread_run *runs = WAFER_NEW(arena, spread_run, from->count);
    if (!runs) return false;
    for (uint32_t r = 0; r < from->count; r++)
      runs[r] = (spread_run){(int32_t)(from->runs[r].lo * times / by),
                             (int32_t)(from->runs[r].hi * times / by),
                             (int32_t)(from->runs[r].at * times / by)};
    out->part[p] = (spread_part){from->count, runs};
  }
  return true;
}

static bool merge(wafer_arena *arena, const spread *s, uint32_t first, uint32_t end, spread *out) {
  int64_t inner = 1;
  while (first + 1 < end && s->dim[first].extent == 1) first++;
  for (uint32_t d = first + 1; d < end; d++) inner *= s->dim[d].extent;
  spread_dim *to = &out->dim[out->rank++];
  *to = s->dim[first];
  to->extent *= inner;
  to->buffer = (int32_t)(to->buffer * inner);
  to->stride = s->dim[end - 1].stride;
  return scale_parts(arena, &s->dim[first], inner, 1, to);
}

/* ---- one dim as several ---- */

/* Parts are whole indices of the outer factor. */
static bool is_coarse(const spread_dim *dim, int64_t inner) {
  if (dim->buffer % inner) return false;
  for (uint32_t p = 0; p < dim->rows * dim->cols; p++)
    for (uint32_t r = 0; r < dim->part[p].count; r++)
      if (dim->part[p].runs[r].lo % inner || dim->part[p].runs[r].hi % inner ||
          dim->part[p].runs[r].at % inner)
        return false;
  return true;
}

static bool whole_dim(wafer_arena *arena, const spread *s, int64_t extent, int32_t stride,
                      spread_dim *out) {
  *out = (spread_dim){.extent = extent,
                      .buffer = (int32_t)extent,
                      .stride = stride,
                      .rows = 1,
                      .cols = 1,
                      .row = WAFER_NEW(arena, uint32_t, s->rect.height),
                      .col = WAFER_NEW(arena, uint32_t, s->rect.width),
                      .part = WAFER_NEW(arena, spread_part, 1)};
  spread_run *run = WAFER_NEW(arena, spread_run, 1);
  if (!out->row || !out->col || !out->part || !run) return false;
  *run = (spread_run){0, (int32_t)extent, 0};
  out->part[0] = (spread_part){1, run};
  return true;
}

/* Parts are equal shares of one index of the outer factor; how many in an index, 0: they are not.
 */
static uint32_t shares(const spread_dim *dim, int64_t inner) {
  if (dim->buffer == 0 || inner % dim->buffer) return 0;
  for (uint32_t p = 0; p < dim->rows * dim->cols; p++) {
    const spread_part *part = &dim->part[p];
    if (part->count > 1 ||
        (part->count && (part->runs->lo != (int64_t)p * dim->buffer ||
                         part->runs->hi - part->runs->lo != dim->buffer || part->runs->at != 0)))
      return 0;
  }
  return (uint32_t)(inner / dim->buffer);
}

/* Kinds divided by, or modulo, `by`. */
static uint32_t *kinds_by(wafer_arena *arena, const uint32_t *kind, uint32_t count, uint32_t by,
                          bool modulo) {
  uint32_t *out = WAFER_NEW(arena, uint32_t, count);
  for (uint32_t i = 0; out && i < count; i++) out[i] = modulo ? kind[i] % by : kind[i] / by;
  return out;
}

/* Part p has index p / share of the outer factor and share p % share of the inner one. */
static bool fine_parts(wafer_arena *arena, spread_dim *dim, int64_t length) {
  uint32_t parts = dim->rows * dim->cols;
  spread_run *runs = WAFER_NEW(arena, spread_run, parts);
  dim->part = WAFER_NEW(arena, spread_part, parts);
  if (!runs || !dim->part) return false;
  for (uint32_t p = 0; p < parts; p++) {
    runs[p] = (spread_run){(int32_t)(p * length), (int32_t)((p + 1) * length), 0};
    dim->part[p] = (spread_part){(p + 1) * length <= dim->extent, &runs[p]};
  }
  return true;
}

static bool split_shares(wafer_arena *arena, const spread *s, const spread_dim *dim, uint32_t share,
                         spread_dim *outer, spread_dim *inner, bool *possible) {
  uint32_t height = s->rect.height, width = s->rect.width, cols = dim->cols;
  bool by_cols = cols % share == 0;
  *possible = by_cols || share % cols == 0;
  if (!*possible) return true;
  uint32_t rows_share = by_cols ? 1 : share / cols, cols_share = by_cols ? share : cols;
  if (dim->rows % rows_share) {
    *possible = false;
    return true;
  }
  outer->rows = dim->rows / rows_share;
  outer->cols = cols / cols_share;
  outer->row = kinds_by(arena, dim->row, height, rows_share, false);
  outer->col = kinds_by(arena, dim->col, width, cols_share, false);
  outer->buffer = 1;
  inner->rows = rows_share;
  inner->cols = cols_share;
  inner->row = kinds_by(arena, dim->row, height, rows_share, true);
  inner->col = kinds_by(arena, dim->col, width, cols_share, true);
  inner->buffer = dim->buffer;
  return outer->row && outer->col && inner->row && inner->col && fine_parts(arena, outer, 1) &&
         fine_parts(arena, inner, dim->buffer);
}

/* A dim as an outer factor and `count` indices of an inner one. */
static bool split(wafer_arena *arena, const spread *s, const spread_dim *dim, int64_t count,
                  spread_dim *outer, spread_dim *inner, bool *possible) {
  *outer = *inner = *dim;
  outer->extent = dim->extent / count;
  inner->extent = count;
  outer->stride = (int32_t)(dim->stride * count);
  if (is_coarse(dim, count)) {
    outer->buffer = (int32_t)(dim->buffer / count);
    return scale_parts(arena, dim, 1, count, outer) &&
           whole_dim(arena, s, count, dim->stride, inner);
  }
  uint32_t share = shares(dim, count);
  *possible = share != 0;
  return !*possible || split_shares(arena, s, dim, share, outer, inner, possible);
}

/* ---- groups of dims ---- */

/* Dims of either side with equal products; `suffix`: what follows each cut inside the group, over
 * both sides, from the largest down. */
typedef struct group {
  uint32_t from, from_end, to, to_end;
} group;

static bool next_group(const spread *a, const spread *b, group *g) {
  g->from = g->from_end;
  g->to = g->to_end;
  if (g->from == a->rank && g->to == b->rank) return false;
  int64_t left = 1, right = 1;
  if (g->from_end < a->rank) left = a->dim[g->from_end++].extent;
  if (g->to_end < b->rank) right = b->dim[g->to_end++].extent;
  while (left != right) {
    if (left < right && g->from_end < a->rank)
      left *= a->dim[g->from_end++].extent;
    else if (g->to_end < b->rank)
      right *= b->dim[g->to_end++].extent;
    else
      break;
  }
  return true;
}

/* Where a side's dims of the group are divided so that both sides have the same factors. */
static bool divide(wafer_arena *arena, const spread *s, uint32_t first, uint32_t end,
                   const spread *other, uint32_t other_first, uint32_t other_end, spread *out,
                   bool *possible) {
  for (uint32_t d = first; d < end && *possible; d++) {
    spread_dim rest = s->dim[d];
    int64_t below = 1, cut = 1; /* elements of the dims behind d; behind a dim of the other side */
    for (uint32_t i = d + 1; i < end; i++) below *= s->dim[i].extent;
    for (uint32_t i = other_first; i < other_end; i++) cut *= other->dim[i].extent;
    for (uint32_t i = other_first; i < other_end && *possible; i++) {
      cut /= other->dim[i].extent;
      if (cut <= below || cut >= below * rest.extent) continue;
      spread_dim outer, inner;
      *possible =
          cut % below == 0 && rest.extent % (cut / below) == 0 && out->rank + 1 < WAFER_MAX_RANK;
      if (!*possible) break;
      if (!split(arena, s, &rest, cut / below, &outer, &inner, possible)) return false;
      out->dim[out->rank++] = outer;
      rest = inner;
    }
    if (rest.extent == 1 && is_whole(&rest)) continue;
    *possible = *possible && out->rank < WAFER_MAX_RANK;
    if (*possible) out->dim[out->rank++] = rest;
  }
  return true;
}

static bool add_group(wafer_arena *arena, const spread *from, const spread *to, const group *g,
                      spread *from_view, spread *to_view, bool *possible) {
  uint32_t before = from_view->rank;
  if (g->from < g->from_end && g->to < g->to_end && merges(from, g->from, g->from_end) &&
      merges(to, g->to, g->to_end)) {
    *possible = from_view->rank < WAFER_MAX_RANK;
    return !*possible || (merge(arena, from, g->from, g->from_end, from_view) &&
                          merge(arena, to, g->to, g->to_end, to_view));
  }
  if (!divide(arena, from, g->from, g->from_end, to, g->to, g->to_end, from_view, possible) ||
      !divide(arena, to, g->to, g->to_end, from, g->from, g->from_end, to_view, possible))
    return false;
  *possible = *possible && from_view->rank == to_view->rank;
  for (uint32_t d = before; *possible && d < from_view->rank; d++)
    *possible = from_view->dim[d].extent == to_view->dim[d].extent;
  return true;
}

bool spread_reshape(wafer_arena *arena, const spread *from, const spread *to, spread *from_view,
                    spread *to_view, bool *possible) {
  group g = {0};
  *from_view = *from;
  *to_view = *to;
  from_view->rank = to_view->rank = 0;
  *possible = true;
  while (*possible && next_group(from, to, &g))
    if (!add_group(arena, from, to, &g, from_view, to_view, possible)) return false;
  return true;
}

/* The set of points of a shape curve that stays: exact, and thinned when it has more than
 * MAX_POINTS: one point, that of least area, per cell of a geometric grid over (time, aspect ratio)
 * that begins at 2 % of time, the extremes of each coordinate always. All orders are total, so the
 * result is the same on every run. */
#include <stdlib.h>
#include <string.h>

#include "kernel_curve.h"

#define MAX_POINTS 512 /* unless others are asked for */

static int by_cycles(const void *left, const void *right) {
  const wafer_shape_point *a = left, *b = right;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (kernel_area(a) != kernel_area(b)) return kernel_area(a) < kernel_area(b) ? -1 : 1;
  if (a->width != b->width) return a->width < b->width ? -1 : 1;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
  return memcmp(&a->split, &b->split, sizeof a->split);
}

typedef struct timed {
  uint64_t time;
  wafer_shape_point is;
} timed;

static int by_time(const void *left, const void *right) {
  const timed *a = left, *b = right;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (kernel_area(&a->is) != kernel_area(&b->is))
    return kernel_area(&a->is) < kernel_area(&b->is) ? -1 : 1;
  return by_cycles(&a->is, &b->is);
}

static wafer_status sort_by_time(kernel_points *set) {
  timed *order = WAFER_NEW(set->scratch, timed, set->count);
  if (!order) return WAFER_NO_MEMORY;
  for (size_t i = 0; i < set->count; i++)
    order[i] =
        (timed){kernel_time(&set->options, set->at[i].cycles, set->at[i].height), set->at[i]};
  qsort(order, set->count, sizeof *order, by_time);
  for (size_t i = 0; i < set->count; i++) set->at[i] = order[i].is;
  return WAFER_OK;
}

/* `lowest[w]`: Fenwick tree, least height of widths <= w. */
wafer_status kernel_only_pareto(kernel_points *set) {
  uint32_t *lowest = WAFER_NEW(set->scratch, uint32_t, (size_t)set->options.max_width + 1);
  size_t kept = 0;
  if (!lowest) return WAFER_NO_MEMORY;
  memset(lowest, 0xff, ((size_t)set->options.max_width + 1) * sizeof *lowest);
  if (set->count > 0) WAFER_TRY(sort_by_time(set));
  for (size_t i = 0; i < set->count; i++) {
    const wafer_shape_point p = set->at[i];
    uint32_t least = UINT32_MAX;
    for (uint32_t w = p.width; w > 0; w -= w & -w)
      if (lowest[w] < least) least = lowest[w];
    if (least <= p.height) continue;
    for (uint32_t w = p.width; w <= set->options.max_width; w += w & -w)
      if (p.height < lowest[w]) lowest[w] = p.height;
    set->at[kept++] = p;
  }
  set->count = kept;
  return WAFER_OK;
}

/* 64 log2 n, rounded down: by squaring, so that it is the same everywhere. */
static int32_t log_of(uint64_t n) {
  if (n == 0) return 0;
  int32_t whole = 63 - __builtin_clzll(n), fraction = 0;
  uint64_t mantissa = whole >= 31 ? n >> (whole - 31) : n << (31 - whole);
  for (int i = 0; i < 6; i++) {
    mantissa = mantissa * mantissa >> 31;
    fraction = 2 * fraction + (mantissa >> 32 ? 1 : 0);
    if (mantissa >> 32) mantissa >>= 1;
  }
  return whole * 64 + fraction;
}

typedef struct cell {
  int32_t cycles, aspect;
  uint64_t area;
  size_t point;
} cell;

static int by_cell(const void *left, const void *right) {
  const cell *a = left, *b = right;
  if (a->cycles != b->cycles) return a->cycles < b->cycles ? -1 : 1;
  if (a->aspect != b->aspect) return a->aspect < b->aspect ? -1 : 1;
  if (a->area != b->area) return a->area < b->area ? -1 : 1;
  return a->point < b->point ? -1 : a->point > b->point;
}

/* Marks the first point of every cell; returns how many cells there are. */
static size_t mark_cells(const kernel_points *set, cell *cells, bool *marked, int32_t cycles,
                         int32_t aspect) {
  size_t count = 0;
  for (size_t i = 0; i < set->count; i++) {
    const wafer_shape_point *p = &set->at[i];
    int32_t ratio = log_of(p->width) - log_of(p->height) + 32 * 64;
    cells[i] = (cell){log_of(kernel_time(&set->options, p->cycles, p->height)) / cycles,
                      ratio / aspect, kernel_area(p), i};
    marked[i] = false;
  }
  qsort(cells, set->count, sizeof *cells, by_cell);
  for (size_t i = 0; i < set->count; i++) {
    if (i && cells[i].cycles == cells[i - 1].cycles && cells[i].aspect == cells[i - 1].aspect)
      continue;
    marked[cells[i].point] = true;
    count++;
  }
  return count;
}

static void mark_extremes(const kernel_points *set, bool *marked) {
  size_t smallest = 0, narrowest = 0, lowest = 0;
  for (size_t i = 1; i < set->count; i++) {
    const wafer_shape_point *p = set->at;
    if (kernel_area(&p[i]) < kernel_area(&p[smallest])) smallest = i;
    if (p[i].width < p[narrowest].width) narrowest = i;
    if (p[i].height < p[lowest].height) lowest = i;
  }
  marked[0] = marked[smallest] = marked[narrowest] = marked[lowest] = true;
}

/* Grid cells begin at 2 % of cycles by half an octave of aspect ratio and widen until few enough
 * remain. */
wafer_status kernel_thin(kernel_points *set) {
  size_t most = set->options.most_points ? set->options.most_points : MAX_POINTS;
  if (set->count <= most || most < 8) return WAFER_OK;
  cell *cells = WAFER_NEW(set->scratch, cell, set->count);
  bool *marked = WAFER_NEW(set->scratch, bool, set->count);
  if (!cells || !marked) return WAFER_NO_MEMORY;
  int32_t cycles = 2, aspect = 32;
  while (mark_cells(set, cells, marked, cycles, aspect) > most - 4) {
    cycles += 1 + cycles / 4;
    aspect += aspect / 8;
  }
  mark_extremes(set, marked);
  size_t kept = 0;
  for (size_t i = 0; i < set->count; i++)
    if (marked[i]) set->at[kept++] = set->at[i];
  set->count = kept;
  return WAFER_OK;
}

void kernel_sort_points(kernel_points *set) {
  if (set->count) qsort(set->at, set->count, sizeof *set->at, by_cycles);
}

wafer_status wafer_curve_unite(const wafer_curve *const *parts, size_t count, wafer_arena *arena,
                               wafer_curve *out) {
  size_t total = 0, kept = 0;
  for (size_t i = 0; i < count; i++) total += parts[i]->count;
  wafer_shape_point *at = WAFER_NEW(arena, wafer_shape_point, total);
  if (!at) return WAFER_NO_MEMORY;
  for (size_t i = 0, n = 0; i < count; n += parts[i++]->count)
    if (parts[i]->count) memcpy(at + n, parts[i]->at, parts[i]->count * sizeof *at);
  if (total) qsort(at, total, sizeof *at, by_cycles);
  for (size_t i = 0; i < total; i++)
    if (!kept || memcmp(&at[i].split, &at[kept - 1].split, sizeof at[i].split) != 0)
      at[kept++] = at[i];
  *out = *parts[0];
  out->count = kept;
  out->at = at;
  return WAFER_OK;
}

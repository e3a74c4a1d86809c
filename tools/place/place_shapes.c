/* Shapes of the contest's kernels, exactly. A kernel with h, w and at most `cap` features a row has
 * the height h * w * (cap + 1); for each of these the filters a column, k, trade width for time. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

typedef unsigned __int128 wide;

static uint64_t ceil_div(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}
static uint64_t min64(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static uint64_t max64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

uint32_t contest_convs(const contest_kernel *k, contest_conv out[KERNEL_MOST_CONVS]) {
  uint64_t H = k->H, W = k->W, F = k->F;
  switch (k->type) {
  case KERNEL_CONV: out[0] = (contest_conv){H, W, k->R, k->S, k->C, k->K, k->T}; return 1;
  case KERNEL_DBLOCK:
    out[0] = (contest_conv){H, W, 1, 1, F, F / 4, 1};
    out[1] = (contest_conv){H, W, 3, 3, F / 4, F / 4, 1};
    out[2] = (contest_conv){H, W, 1, 1, F / 4, F, 1};
    return 3;
  case KERNEL_CBLOCK:
    out[0] = (contest_conv){H, W, 1, 1, F / 2, F / 4, 1};
    out[1] = (contest_conv){H, W, 3, 3, F / 4, F / 4, 2};
    out[2] = (contest_conv){H / 2, W / 2, 1, 1, F / 4, F, 1};
    out[3] = (contest_conv){H, W, 1, 1, F / 2, F, 2};
    return 4;
  }
  return 0;
}

wafer_status contest_unit(const wafer_diag *diag, const contest *c, uint64_t *unit) {
  *unit = 1;
  for (uint32_t i = 0; i < c->count; i++) {
    contest_conv convs[KERNEL_MOST_CONVS];
    uint32_t n = contest_convs(&c->kernels[i], convs);
    for (uint32_t k = 0; k < n; k++) {
      uint64_t square = convs[k].T * convs[k].T, a = *unit, b = square;
      while (b) {
        uint64_t rest = a % b;
        a = b, b = rest;
      }
      *unit *= square / a;
      if (*unit > 1u << 20)
        return wafer_fail(diag, wafer_at_file(c->path), WAFER_UNSUPPORTED,
                          "the strides of all kernels have no common square below %u; kernel %s "
                          "has stride %llu",
                          1u << 20, c->kernels[i].name, (unsigned long long)convs[k].T);
    }
  }
  return WAFER_OK;
}

/* One way to divide a kernel's image and features: what is left is to choose each convolution's k.
 */
typedef struct division {
  uint32_t convs;
  uint64_t base[KERNEL_MOST_CONVS]; /* time with all filters on one column, per column's share */
  uint64_t K[KERNEL_MOST_CONVS];
  uint64_t least[KERNEL_MOST_CONVS]; /* k that memory asks for */
} division;

bool contest_divide(const contest *c, const contest_conv *v, uint64_t unit, uint32_t h, uint32_t w,
                    uint32_t features, uint64_t *base, uint64_t *least) {
  wide time = (wide)ceil_div(v->H, h) * ceil_div(v->W, w) * ceil_div(v->C, features) * v->R * v->S *
              (unit / (v->T * v->T));
  wide words =
      (wide)v->C * v->R * v->S * w * h + (wide)(v->W + v->S - 1) * (v->H + v->R - 1) * features;
  wide room = (wide)c->memlimit * features * w * h;
  wide columns = (words * v->K + room - 1) / room;
  if (columns > v->K || time > UINT64_MAX / (v->K + 1)) return false;
  *base = (uint64_t)time;
  *least = max64(1, (uint64_t)columns);
  return true;
}

static bool divide(const contest *c, const contest_conv *convs, uint32_t n, uint64_t unit,
                   uint32_t h, uint32_t w, uint32_t cap, division *d) {
  d->convs = n;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t features = (uint32_t)min64(cap, convs[i].C);
    if (!contest_divide(c, &convs[i], unit, h, w, features, &d->base[i], &d->least[i]))
      return false;
    d->K[i] = convs[i].K;
  }
  return true;
}

/* Columns for at most this time, and the time they take; false when no k is that fast. */
static bool columns(const division *d, uint64_t most_time, uint64_t *sum, uint64_t *time,
                    uint32_t k[KERNEL_MOST_CONVS]) {
  *sum = *time = 0;
  for (uint32_t i = 0; i < d->convs; i++) {
    uint64_t share = min64(d->K[i], most_time / d->base[i]);
    if (!share) return false;
    uint64_t need = max64(d->least[i], ceil_div(d->K[i], share));
    *sum += need;
    *time = max64(*time, d->base[i] * ceil_div(d->K[i], need));
    if (k) k[i] = (uint32_t)need;
  }
  return true;
}

typedef struct cell {
  uint64_t time, tag;
} cell;

typedef struct table {
  uint32_t side, most_k; /* heights 1 .. side, columns 1 .. most_k */
  uint64_t sum_k;        /* columns that a kernel can have */
  cell *cells;
} table;

static cell *cell_at(const table *t, uint64_t height, uint64_t k) {
  return &t->cells[height * (t->most_k + 1) + k];
}

/* All widths of one division, from the narrowest to the fastest. */
static void fill_division(table *t, const division *d, uint64_t height, uint64_t tag) {
  uint64_t sum, time, most = UINT64_MAX;
  while (columns(d, most, &sum, &time, NULL) && sum <= t->most_k) {
    cell *at = cell_at(t, height, sum);
    if (time < at->time) *at = (cell){time, tag};
    if (!time) break;
    most = time - 1;
  }
}

/* More features a row change nothing when no quotient falls and memory is content: skipped. */
static bool same_division(const division *a, const division *b) {
  return !memcmp(a->base, b->base, a->convs * sizeof *a->base) &&
         !memcmp(a->least, b->least, a->convs * sizeof *a->least);
}

static void fill(table *t, const contest *c, const contest_kernel *kernel, uint64_t unit) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(kernel, convs);
  uint64_t most_c = 0;
  for (uint32_t i = 0; i < n; i++) most_c = max64(most_c, convs[i].C);
  for (uint32_t h = 1; h <= kernel->H && 2 * h <= t->side; h++)
    for (uint32_t w = 1; w <= kernel->W && 2 * h * w <= t->side; w++) {
      division before = {0};
      uint32_t alike = 0;
      uint64_t cap = min64(most_c, t->side / (h * w) - 1);
      for (uint32_t features = 1; features <= cap; features++) {
        division d = {0};
        if (!divide(c, convs, n, unit, h, w, features, &d)) continue;
        alike = before.convs && same_division(&before, &d) ? alike + 1 : 0;
        if (alike > h * w % 2) continue;
        before = d;
        fill_division(t, &d, (uint64_t)h * w * (features + 1),
                      h | (uint64_t)w << 16 | (uint64_t)features << 32);
      }
    }
}

#define COLUMN_MORE (1ull << 63) /* in a tag: a column more than are needed */

/* Cells that no lower and no narrower cell beats, of those whose sides are as odd. `best` are rows
 * of running minima. */
static uint32_t gather(const table *t, uint64_t *best, wafer_placer_shape *out) {
  uint32_t n = 0, all = t->most_k + 1;
  for (uint32_t k = 0; k < 2 * all; k++) best[k] = UINT64_MAX;
  for (uint32_t height = 1; height <= t->side; height++) {
    uint64_t left[2] = {UINT64_MAX, UINT64_MAX};
    for (uint32_t k = 1; k <= t->most_k; k++) {
      cell at = *cell_at(t, height, k), less = *cell_at(t, height, k - 1);
      uint64_t *row = &best[height % 2 * all + k], *least = &left[k % 2];
      if (less.time < at.time && k - 1 < t->sum_k) at = (cell){less.time, less.tag | COLUMN_MORE};
      *least = min64(*least, *row);
      if (at.time < *least) {
        if (out) out[n] = (wafer_placer_shape){3 * k, height, at.time, at.tag};
        n++;
        *least = at.time;
      }
      *row = *least;
    }
  }
  return n;
}

wafer_status contest_shapes(const wafer_diag *diag, wafer_arena *arena, const contest *c,
                            const contest_kernel *kernel, uint64_t unit, wafer_placer_shapes *out) {
  table t = {.side = c->width > c->height ? c->width : c->height};
  contest_conv convs[KERNEL_MOST_CONVS];
  for (uint32_t i = contest_convs(kernel, convs); i-- > 0;) t.sum_k += convs[i].K;
  t.most_k = t.side / 3;
  size_t cells = (size_t)(t.side + 1) * (t.most_k + 1);
  t.cells = malloc(cells * sizeof *t.cells);
  uint64_t *best = malloc(2 * (t.most_k + 1) * sizeof *best);
  bool ok = false;
  if (t.cells && best) {
    for (size_t i = 0; i < cells; i++) t.cells[i] = (cell){UINT64_MAX, 0};
    fill(&t, c, kernel, unit);
    wafer_placer_shape *shapes = WAFER_NEW(arena, wafer_placer_shape, gather(&t, best, NULL));
    uint32_t count = shapes ? gather(&t, best, shapes) : 0;
    ok = shapes && wafer_placer_pareto(&count, shapes, c->width, c->height, true, arena);
    *out = (wafer_placer_shapes){count, shapes};
  }
  free(t.cells);
  free(best);
  if (!ok)
    return wafer_fail(diag, wafer_at_file(c->path), WAFER_NO_MEMORY, "no memory for shape curves");
  if (!out->count)
    return wafer_fail(diag, wafer_at_file(c->path), WAFER_NO_FIT,
                      "kernel %s has no shape within %u x %u cores of %llu words; take more "
                      "cores or more memory",
                      kernel->name, c->width, c->height, (unsigned long long)c->memlimit);
  return WAFER_OK;
}

contest_split contest_split_of(const contest *c, const contest_kernel *kernel, uint64_t unit,
                               const wafer_placer_shape *shape) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(kernel, convs), cap = shape->tag >> 32 & 0xffff;
  contest_split s = {.h = shape->tag & 0xffff, .w = shape->tag >> 16 & 0xffff};
  division d = {0};
  uint64_t sum, time;
  if (divide(c, convs, n, unit, s.h, s.w, cap, &d)) columns(&d, shape->time, &sum, &time, s.k);
  for (uint32_t i = n, more = shape->tag & COLUMN_MORE ? 1 : 0; more && i-- > 0;)
    if (s.k[i] < convs[i].K) s.k[i]++, more = 0;
  for (uint32_t i = 0; i < n; i++) s.c[i] = (uint32_t)min64(cap, convs[i].C);
  return s;
}

uint32_t contest_least_k(const contest *c, const contest_kernel *kernel, uint64_t unit,
                         uint64_t most_time, const contest_split *split, uint32_t conv) {
  contest_conv convs[KERNEL_MOST_CONVS];
  contest_convs(kernel, convs);
  division d = {0};
  uint64_t sum, time;
  uint32_t k[KERNEL_MOST_CONVS];
  if (!divide(c, &convs[conv], 1, unit, split->h, split->w, split->c[conv], &d) ||
      !columns(&d, most_time, &sum, &time, k))
    return 0;
  return k[0];
}

uint64_t contest_time(const contest *c, const contest_kernel *kernel, uint64_t unit,
                      const contest_split *split) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(kernel, convs);
  uint64_t slowest = 0;
  for (uint32_t i = 0; i < n; i++) {
    division d = {0};
    if (!divide(c, &convs[i], 1, unit, split->h, split->w, split->c[i], &d)) return UINT64_MAX;
    slowest = max64(slowest, d.base[0] * ceil_div(d.K[0], split->k[i]));
  }
  return slowest;
}

void contest_dims(const contest_kernel *kernel, const contest_split *split, uint32_t *width,
                  uint32_t *height) {
  contest_conv convs[KERNEL_MOST_CONVS];
  uint32_t n = contest_convs(kernel, convs);
  *width = *height = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rows = split->h * split->w * (split->c[i] + 1);
    *width += 3 * split->k[i];
    if (rows > *height) *height = rows;
  }
}

#include "spread.h"

#include <string.h>

#include "wafer/pairs.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Kind of every row (or column) of a dim of the layout. */
static uint32_t *kinds(wafer_arena *arena, uint32_t count, uint32_t parts, uint32_t stride) {
  uint32_t *kind = WAFER_NEW(arena, uint32_t, count);
  for (uint32_t i = 0; kind && i < count && parts > 1; i++) kind[i] = i / stride % parts;
  return kind;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

static bool dim_of_layout(wafer_arena *arena, const spread *s, const wafer_layout *layout,
                          uint32_t d, int64_t extent, spread_dim *dim) {
  uint32_t parts = layout->rows[d] * layout->cols[d];
  int64_t length = ceil_div(extent, parts);
  spread_run *runs = WAFER_NEW(arena, spread_run, parts);
  *dim = (spread_dim){.extent = extent,
                      .buffer = (int32_t)length,
                      .rows = layout->rows[d],
                      .cols = layout->cols[d],
                      .row = kinds(arena, s->rect.height, layout->rows[d], layout->row_stride[d]),
                      .col = kinds(arena, s->rect.width, layout->cols[d], layout->col_stride[d]),
                      .part = WAFER_NEW(arena, spread_part, parts)};
  if (!runs || !dim->row || !dim->col || !dim->part) return false;
  for (uint32_t p = 0; p < parts; p++) {
    int64_t lo = least(p * length, extent), hi = least((p + 1) * length, extent);
    runs[p] = (spread_run){(int32_t)lo, (int32_t)hi, 0};
    dim->part[p] = (spread_part){lo < hi, &runs[p]};
  }
  return true;
}

bool spread_of_layout(wafer_arena *arena, wafer_rect rect, const wafer_layout *layout,
                      const wafer_shape *shape, wafer_dtype dtype, int32_t address, spread *out) {
  *out = (spread){.rect = rect, .dtype = dtype, .address = address, .rank = shape->rank};
  for (uint32_t d = 0; d < shape->rank; d++)
    if (!dim_of_layout(arena, out, layout, d, shape->dims[d], &out->dim[d])) return false;
  spread_pack(out);
  return true;
}

void spread_pack_in(spread *s, const uint8_t *order) {
  uint64_t element = wafer_dtype_bytes(s->dtype), stride = element;
  for (uint32_t i = s->rank; i-- > 0;) {
    spread_dim *dim = &s->dim[order[i]];
    if (order[i] + 1u == s->apart) stride = wafer_pairs_stride(stride, element);
    dim->stride = (int32_t)stride;
    stride *= (uint64_t)dim->buffer;
  }
}

void spread_pack(spread *s) {
  uint8_t order[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < s->rank; d++) order[d] = (uint8_t)d;
  s->apart = 0;
  spread_pack_in(s, order);
}

uint64_t spread_bytes(const spread *s) {
  uint64_t bytes = wafer_dtype_bytes(s->dtype);
  for (uint32_t d = 0; d < s->rank; d++) {
    uint64_t all = (uint64_t)s->dim[d].stride * (uint64_t)s->dim[d].buffer;
    if (s->dim[d].buffer == 0) return 0;
    if (all > bytes) bytes = all;
  }
  return bytes;
}

spread_box spread_at(const spread *s, uint32_t row, uint32_t col) {
  spread_box box = {.lo = {0}};
  for (uint32_t d = 0; d < s->rank; d++) {
    const spread_part *part = spread_part_at(s, d, row, col);
    if (part->count == 0) continue;
    box.lo[d] = part->runs->lo;
    box.hi[d] = part->runs->hi;
    box.origin[d] = part->runs->lo - part->runs->at;
  }
  return box;
}

bool spread_box_empty(const spread_box *box, uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++)
    if (box->lo[d] >= box->hi[d]) return true;
  return false;
}

/* ---- stripes ---- */

/* A kind of columns more, which hold nothing. */
static bool repeat_dim(wafer_arena *arena, const spread *s, uint32_t d, uint32_t width,
                       uint32_t columns, spread_dim *out) {
  const spread_dim *dim = &s->dim[d];
  uint32_t *col = WAFER_NEW(arena, uint32_t, width);
  *out = *dim;
  out->cols = dim->cols + 1;
  out->col = col;
  out->part = WAFER_NEW(arena, spread_part, (size_t)dim->rows * out->cols);
  if (!col || !out->part) return false;
  for (uint32_t x = 0; x < width; x++)
    col[x] = x % columns < s->rect.width ? dim->col[x % columns] : dim->cols;
  for (uint32_t r = 0; r < dim->rows; r++)
    memcpy(&out->part[r * out->cols], &dim->part[r * dim->cols], dim->cols * sizeof *dim->part);
  return true;
}

bool spread_repeat(wafer_arena *arena, const spread *s, uint32_t count, uint32_t columns,
                   spread *out) {
  *out = *s;
  out->rect.width += (count - 1) * columns;
  for (uint32_t d = 0; d < s->rank; d++)
    if (!repeat_dim(arena, s, d, out->rect.width, columns, &out->dim[d])) return false;
  return true;
}

/* ---- rows and columns alike ---- */

bool spread_turn(wafer_arena *arena, const spread *s, spread *out) {
  *out = *s;
  out->rect = wafer_rect_turn(s->rect);
  for (uint32_t d = 0; d < s->rank; d++) {
    const spread_dim *from = &s->dim[d];
    spread_dim *to = &out->dim[d];
    to->rows = from->cols;
    to->cols = from->rows;
    to->row = from->col;
    to->col = from->row;
    to->part = WAFER_NEW(arena, spread_part, (size_t)from->rows * from->cols);
    if (!to->part) return false;
    for (uint32_t r = 0; r < from->rows; r++)
      for (uint32_t c = 0; c < from->cols; c++)
        to->part[c * from->rows + r] = from->part[r * from->cols + c];
  }
  return true;
}

uint32_t *spread_kinds(wafer_arena *arena, const spread *s, bool of_rows, uint32_t *count) {
  uint32_t n = of_rows ? s->rect.height : s->rect.width, buckets = 64;
  while (buckets < 2 * n) buckets *= 2;
  uint32_t *kind = WAFER_NEW(arena, uint32_t, n), *bucket = WAFER_NEW(arena, uint32_t, buckets);
  *count = 0;
  if (!kind || !bucket) return NULL;
  for (uint32_t i = 0; i < n; i++) { /* buckets hold 1 + a position of each kind */
    uint32_t key[WAFER_MAX_RANK] = {0}, other[WAFER_MAX_RANK] = {0};
    for (uint32_t d = 0; d < s->rank; d++) key[d] = of_rows ? s->dim[d].row[i] : s->dim[d].col[i];
    uint32_t at = (uint32_t)XXH3_64bits(key, sizeof key) & (buckets - 1);
    for (; bucket[at]; at = (at + 1) & (buckets - 1)) {
      uint32_t j = bucket[at] - 1;
      for (uint32_t d = 0; d < s->rank; d++)
        other[d] = of_rows ? s->dim[d].row[j] : s->dim[d].col[j];
      if (memcmp(key, other, sizeof key) == 0) break;
    }
    if (!bucket[at]) {
      bucket[at] = i + 1;
      kind[i] = (*count)++;
    } else {
      kind[i] = kind[bucket[at] - 1];
    }
  }
  return kind;
}

/* ---- some of the cores ---- */

/* Twice as many kinds: of lines that are in, and of those that are not. */
static uint32_t *refined(wafer_arena *arena, uint32_t n, const uint32_t *kind, const bool *in) {
  uint32_t *fine = WAFER_NEW(arena, uint32_t, n);
  for (uint32_t i = 0; fine && i < n; i++) fine[i] = 2 * kind[i] + !in[i];
  return fine;
}

/* It is enough that a core holds nothing of one dim. */
bool spread_where(wafer_arena *arena, const spread *s, const bool *rows, const bool *cols,
                  spread *out) {
  const spread_dim *dim = &s->dim[0];
  *out = *s;
  out->dim[0].rows = 2 * dim->rows;
  out->dim[0].cols = 2 * dim->cols;
  out->dim[0].row = refined(arena, s->rect.height, dim->row, rows);
  out->dim[0].col = refined(arena, s->rect.width, dim->col, cols);
  out->dim[0].part = WAFER_NEW(arena, spread_part, (size_t)4 * dim->rows * dim->cols);
  if (!out->dim[0].row || !out->dim[0].col || !out->dim[0].part) return false;
  for (uint32_t r = 0; r < dim->rows; r++)
    for (uint32_t c = 0; c < dim->cols; c++)
      out->dim[0].part[(size_t)4 * r * dim->cols + 2 * c] = dim->part[r * dim->cols + c];
  return true;
}

/* Which lines are the first of their kind. */
static bool *first_of(wafer_arena *arena, const spread *s, bool of_rows) {
  uint32_t n = of_rows ? s->rect.height : s->rect.width, kinds, seen = 0;
  uint32_t *kind = spread_kinds(arena, s, of_rows, &kinds);
  bool *first = kind ? WAFER_NEW(arena, bool, n) : NULL;
  for (uint32_t i = 0; first && i < n; i++) {
    first[i] = kind[i] == seen;
    seen += first[i];
  }
  return first;
}

bool spread_once(wafer_arena *arena, const spread *s, spread *out) {
  const bool *rows = first_of(arena, s, true), *cols = first_of(arena, s, false);
  return rows && cols && spread_where(arena, s, rows, cols, out);
}

static bool part_equal(const spread_part *a, const spread_part *b) {
  return a->count == b->count &&
         (a->count == 0 || memcmp(a->runs, b->runs, a->count * sizeof *a->runs) == 0);
}

static bool dim_equal(const spread *s, const spread_dim *a, const spread_dim *b) {
  if (a->extent != b->extent || a->buffer != b->buffer || a->stride != b->stride) return false;
  if (a->rows != b->rows || a->cols != b->cols) return false;
  if (memcmp(a->row, b->row, s->rect.height * sizeof *a->row) != 0) return false;
  if (memcmp(a->col, b->col, s->rect.width * sizeof *a->col) != 0) return false;
  for (uint32_t i = 0; i < a->rows * a->cols; i++)
    if (!part_equal(&a->part[i], &b->part[i])) return false;
  return true;
}

bool spread_equal(const spread *a, const spread *b) {
  if (!wafer_rect_equal(a->rect, b->rect) || a->dtype != b->dtype) return false;
  if (a->address != b->address || a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (!dim_equal(a, &a->dim[d], &b->dim[d])) return false;
  return true;
}

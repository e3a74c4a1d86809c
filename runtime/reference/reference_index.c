/* Order and places: sorting, scattering, and the same bits as another type. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/modes.h"
#include "reference.h"

wafer_status reference_bitcast(reference_site *site) {
  memcpy(site->out->data, site->in[0].data,
         wafer_tensor_bytes(site->out->dtype, &site->out->shape));
  return WAFER_OK;
}

/* ---- arg_sort ---- */

typedef struct sort_item {
  reference_cell value;
  int64_t index;
} sort_item;

/* Equal values keep their order; NaN is more than any number. */
static int compare_real(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  double p = x->value.f, q = y->value.f;
  if (isnan(p) != isnan(q)) return isnan(p) ? 1 : -1;
  if (p < q || p > q) return p < q ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

static int compare_real_down(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  double p = x->value.f, q = y->value.f;
  if (isnan(p) != isnan(q)) return isnan(p) ? -1 : 1;
  if (p < q || p > q) return p < q ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

static int compare_whole(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  if (x->value.i != y->value.i) return x->value.i < y->value.i ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

static int compare_whole_down(const void *a, const void *b) {
  const sort_item *x = a, *y = b;
  if (x->value.i != y->value.i) return x->value.i < y->value.i ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

wafer_status reference_arg_sort(reference_site *site) {
  const wafer_view *x = &site->in[0];
  int64_t axis = wafer_attr_int(site->attrs, WAFER_ATTR_axis);
  int64_t n = x->shape.dims[axis], inner = x->strides[axis], count = reference_elements(x);
  bool real = wafer_dtype_is_float(x->dtype), huge = x->dtype == WAFER_DTYPE_u64;
  bool down = wafer_attr_int(site->attrs, WAFER_ATTR_descending) != 0;
  int (*compare)(const void *, const void *) = real ? (down ? compare_real_down : compare_real)
                                                    : (down ? compare_whole_down : compare_whole);
  sort_item *line;
  WAFER_TRY(reference_alloc(site, n, sizeof *line, &line));
  for (int64_t row = 0; row < count / n; row++) {
    int64_t at = row / inner * inner * n + row % inner;
    for (int64_t i = 0; i < n; i++) {
      reference_load(x, at + i * inner, 1, &line[i].value);
      if (huge) line[i].value.i ^= INT64_MIN; /* so that signed order is theirs */
      line[i].index = i;
    }
    qsort(line, (size_t)n, sizeof *line, compare);
    for (int64_t i = 0; i < n; i++)
      reference_store_i64(site->out, at + i * inner, 1, &line[i].index);
  }
  return WAFER_OK;
}

/* ---- scatter ---- */

static double real_of(scatter_mode mode, double old, double new) {
  if (mode == SCATTER_add) return old + new;
  if (mode == SCATTER_mul) return old * new;
  if (isnan(old) || mode == SCATTER_none) return mode == SCATTER_none ? new : old;
  if (isnan(new)) return new;
  return (mode == SCATTER_max) == (new > old) ? new : old;
}

static int64_t whole_of(scatter_mode mode, int64_t old, int64_t new, bool huge) {
  if (mode == SCATTER_none) return new;
  if (mode == SCATTER_add) return wrap_add(old, new);
  if (mode == SCATTER_mul) return wrap_mul(old, new);
  return (mode == SCATTER_max) == int_less(old, new, huge) ? new : old;
}

/* All in cells, so that sums are rounded once. */
static wafer_status accumulate(reference_site *site, scatter_mode mode, int64_t row, int64_t to,
                               int64_t from, reference_cell *cells) {
  bool real = wafer_dtype_is_float(site->out->dtype), huge = site->out->dtype == WAFER_DTYPE_u64;
  for (int64_t i = 0; i < row; i++) {
    reference_cell new, *old = &cells[to + i];
    reference_load(&site->in[2], from + i, 1, &new);
    if (real)
      old->f = real_of(mode, old->f, new.f);
    else
      old->i = whole_of(mode, old->i, new.i, huge);
  }
  return WAFER_OK;
}

wafer_status reference_scatter(reference_site *site) {
  const wafer_view *x = &site->in[0], *index = &site->in[1];
  int64_t rows = x->shape.dims[0], row = x->strides[0], count = reference_elements(x);
  scatter_mode mode =
      (scatter_mode)reference_word(site, WAFER_ATTR_mode, scatter_modes, SCATTER_MODE_COUNT);
  reference_cell *cells;
  WAFER_TRY(reference_alloc(site, count, sizeof *cells, &cells));
  reference_load(x, 0, count, cells);
  for (int64_t j = 0, n = reference_elements(index); j < n; j++) {
    int64_t at = wafer_element_i64(index->dtype, index->data, j);
    if (at < -rows || at >= rows)
      return wafer_fail(
          site->diag, site->loc, WAFER_BAD_INPUT,
          "scatter: index %" PRId64 " is out of range, dim 0 has %" PRId64 " elements", at, rows);
    WAFER_TRY(accumulate(site, mode, row, (at < 0 ? at + rows : at) * row, j * row, cells));
  }
  reference_store(site->out, 0, count, cells);
  return WAFER_OK;
}

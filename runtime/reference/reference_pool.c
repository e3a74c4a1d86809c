/* Pools: each window's taps inside the input, in order. */
#include <math.h>

#include "ops/window.h"
#include "reference.h"

typedef struct pool {
  windows at;
  bool real, huge, average, include_pad;
} pool;

/* Taps of a dim that fall inside the input with its pads: what an average counts. A window that
 * reaches over the end of those (ceil_mode) counts them alone. */
static int64_t padded_taps(const window_dim *dim, int64_t at) {
  int64_t start = at * dim->stride, limit = dim->in + dim->begin + dim->end;
  int64_t taps = (limit - start + dim->dilation - 1) / dim->dilation;
  return taps < dim->kernel ? taps : dim->kernel;
}

static reference_cell better(const pool *p, reference_cell best, reference_cell cell) {
  if (p->real) return cell.f > best.f || isnan(cell.f) ? cell : best;
  return int_less(best.i, cell.i, p->huge) ? cell : best;
}

static reference_cell total(const pool *p, reference_cell sum, reference_cell cell) {
  if (p->real) return (reference_cell){.f = sum.f + cell.f};
  return (reference_cell){.i = wrap_add(sum.i, cell.i)};
}

/* Of the taps of the window at (z, y, x); `empty` when there are none. */
static reference_cell pool_window(const pool *p, const reference_cell *plane, const int64_t *at,
                                  reference_cell empty, int64_t *taps) {
  const window_dim *d = p->at.dim;
  window_taps t[3];
  reference_cell result = empty;
  for (uint32_t i = 0; i < 3; i++) t[i] = window_taps_of(&d[i], at[i]);
  *taps = 0;
  for (int64_t z = t[0].first; z < t[0].last; z++)
    for (int64_t y = t[1].first; y < t[1].last; y++)
      for (int64_t x = t[2].first; x < t[2].last; x++) {
        int64_t iz = at[0] * d[0].stride - d[0].begin + z * d[0].dilation;
        int64_t iy = at[1] * d[1].stride - d[1].begin + y * d[1].dilation;
        int64_t ix = at[2] * d[2].stride - d[2].begin + x * d[2].dilation;
        reference_cell cell = plane[(iz * d[1].in + iy) * d[2].in + ix];
        result = (*taps)++ == 0 ? cell : (p->average ? total : better)(p, result, cell);
      }
  return result;
}

/* Sum to average. Nothing averages to 0. */
static reference_cell divided(const pool *p, reference_cell sum, const int64_t *at, int64_t taps) {
  const window_dim *d = p->at.dim;
  if (p->include_pad)
    taps = padded_taps(&d[0], at[0]) * padded_taps(&d[1], at[1]) * padded_taps(&d[2], at[2]);
  if (taps == 0) return sum;
  if (p->real) return (reference_cell){.f = sum.f / (double)taps};
  return (reference_cell){.i = int_div(sum.i, taps, p->huge)};
}

static void pool_plane(const pool *p, const reference_cell *plane, reference_cell empty,
                       reference_cell *out) {
  const window_dim *d = p->at.dim;
  int64_t at[3], taps;
  for (at[0] = 0; at[0] < d[0].out; at[0]++)
    for (at[1] = 0; at[1] < d[1].out; at[1]++)
      for (at[2] = 0; at[2] < d[2].out; at[2]++, out++) {
        *out = pool_window(p, plane, at, empty, &taps);
        if (p->average) *out = divided(p, *out, at, taps);
      }
}

static wafer_status run_pool(reference_site *site, pool *p, reference_cell empty) {
  const wafer_view *x = &site->in[0];
  uint32_t spatial;
  const int64_t *kernel = wafer_attr_ints(site->attrs, WAFER_ATTR_kernel, &spatial);
  int64_t planes = x->shape.dims[0] * x->shape.dims[1];
  int64_t in = reference_elements(x) / planes, out = reference_elements(site->out) / planes;
  reference_cell *from, *to;
  p->at = windows_of(site->attrs, &x->shape, &site->out->shape, kernel);
  p->real = wafer_dtype_is_float(x->dtype);
  p->huge = x->dtype == WAFER_DTYPE_u64;
  WAFER_TRY(reference_alloc(site, in, sizeof *from, &from));
  WAFER_TRY(reference_alloc(site, out, sizeof *to, &to));
  for (int64_t i = 0; i < planes; i++) {
    reference_load(x, i * in, in, from);
    pool_plane(p, from, empty, to);
    reference_store(site->out, i * out, out, to);
  }
  return WAFER_OK;
}

/* A window of padding alone gives the least value of the type. */
wafer_status reference_max_pool(reference_site *site) {
  pool p = {.average = false};
  return run_pool(site, &p, reference_least(site->in[0].dtype));
}

wafer_status reference_average_pool(reference_site *site) {
  pool p = {.average = true,
            .include_pad = wafer_attr_int(site->attrs, WAFER_ATTR_count_include_pad) != 0};
  return run_pool(site, &p, (reference_cell){0});
}

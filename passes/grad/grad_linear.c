/* Derivatives of matrix products and convolutions. */
#include "grad.h"

/* ---- matmul ---- */

static MlirValue product(grad *d, MlirValue a, MlirValue b) {
  return grad_binary(d, WAFER_OP_matmul, a, b);
}

/* All dims but the last as one: rows of a matrix. */
static MlirValue rows_of(grad *d, MlirValue x) {
  wafer_shape s = grad_shape(d, x);
  uint32_t last = s.rank - 1;
  return grad_reshape_to(d, x, 2, (int64_t[]){grad_elements(&s, 0, last), s.dims[last]});
}

/* b is a matrix for every batch of a: its gradient is one product over the rows of all batches,
 * not a sum of small ones; a's keeps its batches, whose dims may then be cut apart. */
static void by_matrix(grad *d) {
  wafer_shape b = grad_shape(d, d->x[1]);
  MlirValue w = grad_reshape_to(d, d->x[1], 2, b.dims + b.rank - 2);
  if (d->wanted[0]) d->part[0] = product(d, d->g, grad_swap_last(d, w));
  if (!d->wanted[1]) return;
  MlirValue part = product(d, grad_swap_last(d, rows_of(d, d->x[0])), rows_of(d, d->g));
  d->part[1] = grad_reshape(d, part, &b);
}

void grad_rule_matmul(grad *d) {
  wafer_shape a = grad_shape(d, d->x[0]), b = grad_shape(d, d->x[1]);
  bool one_matrix = grad_elements(&b, 0, b.rank - 2) == 1 && b.rank <= a.rank;
  if (a.rank > 2 && one_matrix) {
    by_matrix(d);
    return;
  }
  if (d->wanted[0]) d->part[0] = product(d, d->g, grad_swap_last(d, d->x[1]));
  if (d->wanted[1]) d->part[1] = product(d, grad_swap_last(d, d->x[0]), d->g);
}

/* ---- Convolutions: x (N, C, ...), w (K, C/group, ...), y (N, K, ...) ---- */

typedef struct window {
  uint32_t spatial;
  int64_t group;
  const int64_t *strides, *dilations, *pads; /* pads: begins, then ends */
} window;

static window window_of(const grad *d) {
  window w = {.group = grad_int(d, WAFER_ATTR_group)};
  uint32_t pads;
  w.strides = grad_ints(d, WAFER_ATTR_strides, &w.spatial);
  w.dilations = grad_ints(d, WAFER_ATTR_dilations, &w.spatial);
  w.pads = grad_ints(d, WAFER_ATTR_pads, &pads);
  return w;
}

static MlirValue convolve(grad *d, MlirValue x, MlirValue w, const window *by) {
  wafer_attr attrs[] = {{.id = WAFER_ATTR_group, .i = by->group},
                        {.id = WAFER_ATTR_strides, .ints = {by->spatial, by->strides}},
                        {.id = WAFER_ATTR_dilations, .ints = {by->spatial, by->dilations}},
                        {.id = WAFER_ATTR_pads, .ints = {2 * by->spatial, by->pads}}};
  return grad_op(d, WAFER_OP_conv, 2, (MlirValue[]){x, w}, WAFER_COUNT(attrs), attrs);
}

/* The first `count` elements of every spatial dim of x. */
static MlirValue trimmed(grad *d, MlirValue x, const int64_t *counts, uint32_t spatial) {
  wafer_shape s = grad_shape(d, x);
  for (uint32_t i = 0; i < spatial && d->status == WAFER_OK; i++)
    if (s.dims[i + 2] != counts[i]) x = grad_slice(d, x, i + 2, 0, counts[i], 1);
  return x;
}

/* (N, C, ...) -> (N, ..., C) */
static MlirValue channels_last(grad *d, MlirValue x) {
  uint32_t rank = grad_shape(d, x).rank;
  int64_t perm[WAFER_MAX_RANK] = {0};
  for (uint32_t i = 1; i < rank; i++) perm[i] = i + 1 < rank ? i + 1 : 1;
  return grad_transpose(d, x, perm);
}

/* x, whose spatial dims begin at `first`, with pads as far as windows reach. */
static MlirValue padded(grad *d, const window *by, MlirValue x, uint32_t first,
                        const wafer_shape *w, const wafer_shape *y) {
  int64_t pads[2 * WAFER_MAX_RANK] = {0};
  wafer_shape in = grad_shape(d, x);
  for (uint32_t i = 0; i < by->spatial; i++) {
    int64_t last = (y->dims[i + 2] - 1) * by->strides[i] + (w->dims[i + 2] - 1) * by->dilations[i];
    pads[first + i] = by->pads[i];
    pads[in.rank + first + i] = last + 1 - in.dims[first + i] - by->pads[i];
  }
  return grad_pad(d, x, pads, 0);
}

/* What tap t of the kernel meets, as rows of channels: (N * area, C). */
static MlirValue tap_rows(grad *d, const window *by, MlirValue x, const wafer_shape *w,
                          const wafer_shape *y, int64_t t) {
  for (uint32_t i = by->spatial; i-- > 0; t /= w->dims[i + 2])
    x = grad_slice(d, x, 1 + i, t % w->dims[i + 2] * by->dilations[i], y->dims[i + 2],
                   by->strides[i]);
  return rows_of(d, x);
}

/* (rows, groups * n) -> (groups, n, rows), or (groups, rows, n); of one group a matrix. */
static MlirValue by_groups(grad *d, MlirValue x, int64_t groups, bool rows_last) {
  wafer_shape s = grad_shape(d, x);
  if (groups == 1) return rows_last ? grad_swap_last(d, x) : x;
  x = grad_reshape_to(d, x, 3, (int64_t[]){s.dims[0], groups, s.dims[1] / groups});
  return grad_transpose(d, x, rows_last ? (int64_t[]){1, 2, 0} : (int64_t[]){1, 0, 2});
}

/* Of one sample and no more taps a product for each is as fast. */
#define FEW_TAPS 4

/* Windows that lie side by side: each element of x is in one. */
static bool is_tiled(const window *by, const wafer_shape *w, int64_t samples) {
  int64_t taps = grad_elements(w, 2, w->rank);
  for (uint32_t i = 0; i < by->spatial; i++)
    if (by->strides[i] != w->dims[i + 2] || (w->dims[i + 2] > 1 && by->dilations[i] != 1))
      return false;
  return taps > (samples > 1 ? 1 : FEW_TAPS) && 2 + 2 * by->spatial <= WAFER_MAX_RANK;
}

/* (N, groups * n, ...) -> (N, groups, n, area) */
static MlirValue areas_of(grad *d, MlirValue x, int64_t groups, int64_t n) {
  wafer_shape s = grad_shape(d, x);
  int64_t rest = grad_elements(&s, 1, s.rank);
  return grad_reshape_to(d, x, 4, (int64_t[]){s.dims[0], groups, n, rest / groups / n});
}

/* What all taps of such windows meet: (N, groups, channels * taps, area). */
static MlirValue tile_areas(grad *d, const window *by, MlirValue x, const wafer_shape *w,
                            const wafer_shape *y) {
  uint32_t spatial = by->spatial;
  int64_t apart[WAFER_MAX_RANK] = {y->dims[0], w->dims[1] * by->group},
          perm[WAFER_MAX_RANK] = {0, 1};
  for (uint32_t i = 0; i < spatial; i++) {
    apart[2 + 2 * i] = y->dims[i + 2];
    apart[3 + 2 * i] = w->dims[i + 2];
    perm[2 + i] = 3 + 2 * i;
    perm[2 + spatial + i] = 2 + 2 * i;
  }
  x = grad_reshape_to(d, padded(d, by, x, 2, w, y), 2 + 2 * spatial, apart);
  return areas_of(d, grad_transpose(d, x, perm), by->group,
                  w->dims[1] * grad_elements(w, 2, w->rank));
}

/* w's gradient then: of each sample one product, over all positions. */
static MlirValue tiled_part(grad *d, MlirValue large, MlirValue small, const wafer_shape *w,
                            const window *by) {
  wafer_shape y = grad_shape(d, small);
  MlirValue g = areas_of(d, small, by->group, w->dims[0] / by->group);
  MlirValue all = product(d, tile_areas(d, by, large, w, &y), grad_swap_last(d, g));
  all = grad_reduce(d, WAFER_OP_reduce_sum, all, 1, false);
  return grad_reshape(d, grad_swap_last(d, all), w);
}

/* w's gradient, where `large` is convolved to `small`: for each tap of the kernel one product of
 * matrices over all positions. All taps at once would want a copy of x for each. */
static MlirValue weight_part(grad *d, MlirValue large, MlirValue small, const wafer_shape *w,
                             const window *by) {
  wafer_shape y = grad_shape(d, small);
  int64_t taps = grad_elements(w, 2, w->rank), groups = by->group;
  int64_t shape[] = {1, groups, w->dims[1], w->dims[0] / groups};
  MlirValue *parts = WAFER_NEW(d->b->ctx->arena, MlirValue, (size_t)taps);
  if (is_tiled(by, w, y.dims[0])) return tiled_part(d, large, small, w, by);
  MlirValue x = padded(d, by, channels_last(d, large), 1, w, &y);
  MlirValue g = by_groups(d, rows_of(d, channels_last(d, small)), groups, false);
  for (int64_t t = 0; parts && t < taps && d->status == WAFER_OK; t++) {
    MlirValue rows = by_groups(d, tap_rows(d, by, x, w, &y, t), groups, true);
    parts[t] = grad_reshape_to(d, product(d, rows, g), 4, shape);
  }
  /* (taps, groups, inputs, outputs) -> (groups * outputs, inputs, taps) */
  MlirValue all = grad_concat_all(d, (uint32_t)taps, parts, 0);
  return grad_reshape(d, grad_transpose(d, all, (int64_t[]){1, 3, 2, 0}), w);
}

static MlirValue bias_part(grad *d) {
  uint32_t dims = 1;
  for (uint32_t i = 2; i < grad_shape(d, d->g).rank; i++) dims |= 1u << i;
  return grad_reduce(d, WAFER_OP_reduce_sum, d->g, dims, false);
}

void grad_rule_conv(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]), w = grad_shape(d, d->x[1]), y = grad_shape(d, d->y);
  window by = window_of(d);
  int64_t extra[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < by.spatial; i++)
    extra[i] = x.dims[i + 2] + by.pads[i] + by.pads[i + by.spatial] -
               (w.dims[i + 2] - 1) * by.dilations[i] - 1 - (y.dims[i + 2] - 1) * by.strides[i];
  wafer_attr attrs[] = {{.id = WAFER_ATTR_group, .i = by.group},
                        {.id = WAFER_ATTR_strides, .ints = {by.spatial, by.strides}},
                        {.id = WAFER_ATTR_dilations, .ints = {by.spatial, by.dilations}},
                        {.id = WAFER_ATTR_pads, .ints = {2 * by.spatial, by.pads}},
                        {.id = WAFER_ATTR_output_padding, .ints = {by.spatial, extra}}};
  if (d->wanted[0])
    d->part[0] = grad_op(d, WAFER_OP_conv_transpose, 2, (MlirValue[]){d->g, d->x[1]},
                         WAFER_COUNT(attrs), attrs);
  if (d->wanted[1]) d->part[1] = weight_part(d, d->x[0], d->g, &w, &by);
  if (d->count > 2 && d->wanted[2]) d->part[2] = bias_part(d);
}

/* y is what a convolution of y would give x for: the two change places. */
void grad_rule_conv_transpose(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]), w = grad_shape(d, d->x[1]);
  window by = window_of(d);
  if (d->wanted[0])
    d->part[0] = trimmed(d, convolve(d, d->g, d->x[1], &by), x.dims + 2, by.spatial);
  if (d->wanted[1]) d->part[1] = weight_part(d, d->g, d->x[0], &w, &by);
  if (d->count > 2 && d->wanted[2]) d->part[2] = bias_part(d);
}

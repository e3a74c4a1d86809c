/* Derivatives of data movement: views, pads, resizes. */
#include <string.h>

#include "grad.h"

void grad_rule_reshape(grad *d) {
  wafer_shape shape = grad_shape(d, d->x[0]);
  d->part[0] = grad_reshape(d, d->g, &shape);
}

void grad_rule_transpose(grad *d) {
  uint32_t rank;
  int64_t back[WAFER_MAX_RANK];
  const int64_t *perm = grad_ints(d, WAFER_ATTR_perm, &rank);
  for (uint32_t i = 0; i < rank; i++) back[perm[i]] = i;
  d->part[0] = grad_transpose(d, d->g, back);
}

/* Summed over what was repeated, as every part is. */
void grad_rule_expand(grad *d) {
  d->part[0] = d->g;
}

/* `step - 1` zeros behind every element of dim `axis`. */
static MlirValue dilated(grad *d, MlirValue x, uint32_t axis, int64_t step) {
  wafer_shape shape = grad_shape(d, x);
  int64_t before = grad_elements(&shape, 0, axis);
  int64_t after = grad_elements(&shape, axis + 1, shape.rank);
  x = grad_reshape_to(d, x, 4, (int64_t[]){before, shape.dims[axis], 1, after});
  x = grad_pad(d, x, (int64_t[]){0, 0, 0, 0, 0, 0, step - 1, 0}, 0);
  shape.dims[axis] *= step;
  return grad_reshape(d, x, &shape);
}

/* Elements go back to where they came from, zeros in between. */
void grad_rule_slice(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]), y = grad_shape(d, d->y);
  uint32_t rank;
  const int64_t *starts = grad_ints(d, WAFER_ATTR_starts, &rank);
  const int64_t *steps = grad_ints(d, WAFER_ATTR_steps, &rank);
  int64_t pads[2 * WAFER_MAX_RANK];
  MlirValue g = d->g;
  if (grad_elements(&y, 0, rank) == 0) return;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t n = y.dims[i], step = n > 1 ? steps[i] : 1, start = starts[i];
    if (step < 0) {
      start += (n - 1) * step, step = -step;
      g = grad_slice(d, g, i, n - 1, n, -1);
    }
    if (step > 1) g = dilated(d, g, i, step);
    pads[i] = start;
    pads[i + rank] = x.dims[i] - start - n * step; /* may cut the last zeros off */
  }
  d->part[0] = grad_pad(d, g, pads, 0);
}

void grad_rule_concat(grad *d) {
  uint32_t axis = (uint32_t)grad_int(d, WAFER_ATTR_axis);
  int64_t a = grad_shape(d, d->x[0]).dims[axis], b = grad_shape(d, d->x[1]).dims[axis];
  if (d->wanted[0]) d->part[0] = grad_slice(d, d->g, axis, 0, a, 1);
  if (d->wanted[1]) d->part[1] = grad_slice(d, d->g, axis, a, b, 1);
}

/* ---- What repeats elements: along each dim a matrix of which element went where ---- */

static double *matrix_of(grad *d, int64_t rows, int64_t columns) {
  wafer_arena *arena = d->b->ctx->arena;
  double *matrix = NULL;
  if (d->status == WAFER_OK) matrix = WAFER_NEW(arena, double, (size_t)(rows * columns));
  if (!matrix && d->status == WAFER_OK)
    d->status =
        wafer_fail(d->b->ctx->diag, d->b->loc, WAFER_NO_MEMORY,
                   "no memory for the gradient of a dim of %lld elements", (long long)columns);
  return matrix;
}

/* Where dim `axis` of a padded tensor comes from: the oracle pads the numbers of the elements. */
static MlirValue unpad(grad *d, MlirValue g, uint32_t axis, int64_t n, const int64_t *pads) {
  int64_t m = grad_shape(d, g).dims[axis];
  wafer_view from = grad_tensor(d, WAFER_DTYPE_i64, 1, &n);
  wafer_view to = grad_tensor(d, WAFER_DTYPE_i64, 1, &m);
  double *matrix = matrix_of(d, m, n);
  wafer_attr attrs[] = {{.id = WAFER_ATTR_pads, .ints = {2, pads}},
                        {.id = WAFER_ATTR_mode, .s = wafer_attr_string(&d->attrs, WAFER_ATTR_mode)},
                        {.id = WAFER_ATTR_fill, .f = 0}};
  if (!matrix || d->status != WAFER_OK) return g;
  for (int64_t i = 0; i < n; i++) ((int64_t *)from.data)[i] = i;
  d->status = wafer_reference_run(d->b->ctx->diag, d->b->loc, WAFER_OP_pad,
                                  &(wafer_attrs){WAFER_COUNT(attrs), attrs}, 1, &from, &to);
  for (int64_t j = 0; j < m && d->status == WAFER_OK; j++)
    matrix[j * n + ((int64_t *)to.data)[j]] = 1;
  return grad_contract(d, g, axis, n, matrix);
}

void grad_rule_pad(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]);
  uint32_t count;
  const int64_t *pads = grad_ints(d, WAFER_ATTR_pads, &count);
  int64_t back[2 * WAFER_MAX_RANK];
  MlirValue g = d->g;
  if (!strcmp(wafer_attr_string(&d->attrs, WAFER_ATTR_mode), "constant")) {
    for (uint32_t i = 0; i < count; i++) back[i] = -pads[i];
    d->part[0] = grad_pad(d, g, back, 0);
    return;
  }
  for (uint32_t i = 0; i < x.rank && d->status == WAFER_OK; i++)
    if (pads[i] || pads[i + x.rank])
      g = unpad(d, g, i, x.dims[i], (int64_t[]){pads[i], pads[i + x.rank]});
  d->part[0] = g;
}

static MlirValue unresize(grad *d, MlirValue g, uint32_t axis, int64_t n) {
  int64_t m = grad_shape(d, g).dims[axis];
  double *matrix = matrix_of(d, m, n);
  bool same = m == n;
  for (int64_t j = 0; matrix && j < m; j++) {
    wafer_resize_taps taps;
    wafer_resize_taps_of(&d->attrs, axis, n, m, j, &taps);
    for (int i = 0; i < 4; i++)
      if (taps.weight[i] != 0) matrix[j * n + taps.index[i]] += taps.weight[i];
    same = same && matrix[j * n + j] == 1;
  }
  return !matrix || same ? g : grad_contract(d, g, axis, n, matrix);
}

void grad_rule_resize(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]);
  MlirValue g = d->g;
  for (uint32_t i = 0; i < x.rank && d->status == WAFER_OK; i++) g = unresize(d, g, i, x.dims[i]);
  d->part[0] = g;
}

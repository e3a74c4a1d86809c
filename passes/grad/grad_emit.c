/* Building core ops for derivatives; a failure sticks. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "grad.h"

static const MlirValue none;

wafer_type grad_type(const grad *d, MlirValue x) {
  return d->status == WAFER_OK && !mlirValueIsNull(x) ? wafer_ir_value_type(x) : (wafer_type){0};
}

wafer_shape grad_shape(const grad *d, MlirValue x) {
  return grad_type(d, x).shape;
}

int64_t grad_elements(const wafer_shape *shape, uint32_t from, uint32_t to) {
  int64_t count = 1;
  for (uint32_t i = from; i < to; i++) count *= shape->dims[i];
  return count;
}

void grad_unsupported(grad *d, const char *format, ...) {
  char text[256];
  va_list list;
  if (d->status != WAFER_OK) return;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  d->status = wafer_fail(d->b->ctx->diag, d->b->loc, WAFER_UNSUPPORTED, "%s", text);
}

int64_t grad_int(const grad *d, wafer_attr_id id) {
  return wafer_attr_int(&d->attrs, id);
}

const int64_t *grad_ints(const grad *d, wafer_attr_id id, uint32_t *count) {
  return wafer_attr_ints(&d->attrs, id, count);
}

/* ---- Ops ---- */

MlirValue grad_op(grad *d, wafer_op op, uint32_t count, const MlirValue *operands,
                  uint32_t attr_count, const wafer_attr *attrs) {
  MlirValue result;
  if (d->status != WAFER_OK) return none;
  d->status = wafer_build(d->b, op, count, operands, attrs, attr_count, &result);
  return d->status == WAFER_OK ? result : none;
}

MlirValue grad_unary(grad *d, wafer_op op, MlirValue a) {
  return grad_op(d, op, 1, &a, 0, NULL);
}

MlirValue grad_binary(grad *d, wafer_op op, MlirValue a, MlirValue b) {
  return grad_op(d, op, 2, (MlirValue[]){a, b}, 0, NULL);
}

MlirValue grad_select(grad *d, MlirValue condition, MlirValue yes, MlirValue no) {
  return grad_op(d, WAFER_OP_select, 3, (MlirValue[]){condition, yes, no}, 0, NULL);
}

MlirValue grad_splat(grad *d, const wafer_type *type, double value) {
  MlirValue result;
  if (d->status != WAFER_OK) return none;
  d->status = wafer_build_splat(d->b, type, value, &result);
  return d->status == WAFER_OK ? result : none;
}

MlirValue grad_scalar(grad *d, MlirValue like, double value) {
  wafer_type type = {.dtype = grad_type(d, like).dtype};
  return grad_splat(d, &type, value);
}

MlirValue grad_cast(grad *d, MlirValue x, wafer_dtype dtype) {
  wafer_attr to = {.id = WAFER_ATTR_to, .s = wafer_dtype_name(dtype)};
  return grad_op(d, WAFER_OP_cast, 1, &x, 1, &to);
}

MlirValue grad_reshape_to(grad *d, MlirValue x, uint32_t rank, const int64_t *dims) {
  wafer_attr shape = {.id = WAFER_ATTR_shape, .ints = {rank, dims}};
  return grad_op(d, WAFER_OP_reshape, 1, &x, 1, &shape);
}

MlirValue grad_reshape(grad *d, MlirValue x, const wafer_shape *shape) {
  return grad_reshape_to(d, x, shape->rank, shape->dims);
}

MlirValue grad_expand(grad *d, MlirValue x, const wafer_shape *shape) {
  wafer_attr to = {.id = WAFER_ATTR_shape, .ints = {shape->rank, shape->dims}};
  return grad_op(d, WAFER_OP_expand, 1, &x, 1, &to);
}

MlirValue grad_transpose(grad *d, MlirValue x, const int64_t *perm) {
  wafer_attr attr = {.id = WAFER_ATTR_perm, .ints = {grad_shape(d, x).rank, perm}};
  return grad_op(d, WAFER_OP_transpose, 1, &x, 1, &attr);
}

MlirValue grad_swap_last(grad *d, MlirValue x) {
  int64_t perm[WAFER_MAX_RANK];
  uint32_t rank = grad_shape(d, x).rank;
  for (uint32_t i = 0; i < rank; i++) perm[i] = i + 2 < rank ? i : 2 * (int64_t)rank - 3 - i;
  return grad_transpose(d, x, perm);
}

MlirValue grad_reduce(grad *d, wafer_op op, MlirValue x, uint32_t dims, bool keep) {
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < WAFER_MAX_RANK; i++)
    if (dims >> i & 1) axes[count++] = i;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_axes, .ints = {count, axes}},
                        {.id = WAFER_ATTR_keepdims, .i = keep}};
  return grad_op(d, op, 1, &x, WAFER_COUNT(attrs), attrs);
}

MlirValue grad_slice(grad *d, MlirValue x, uint32_t axis, int64_t start, int64_t count,
                     int64_t step) {
  wafer_shape shape = grad_shape(d, x);
  int64_t starts[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < shape.rank; i++) steps[i] = 1;
  starts[axis] = start, steps[axis] = step, shape.dims[axis] = count;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_starts, .ints = {shape.rank, starts}},
                        {.id = WAFER_ATTR_steps, .ints = {shape.rank, steps}},
                        {.id = WAFER_ATTR_shape, .ints = {shape.rank, shape.dims}}};
  return grad_op(d, WAFER_OP_slice, 1, &x, WAFER_COUNT(attrs), attrs);
}

MlirValue grad_concat(grad *d, MlirValue a, MlirValue b, uint32_t axis) {
  wafer_attr attr = {.id = WAFER_ATTR_axis, .i = axis};
  return grad_op(d, WAFER_OP_concat, 2, (MlirValue[]){a, b}, 1, &attr);
}

MlirValue grad_concat_all(grad *d, uint32_t count, MlirValue *values, uint32_t axis) {
  if (!values && d->status == WAFER_OK)
    d->status = wafer_fail(d->b->ctx->diag, d->b->loc, WAFER_NO_MEMORY,
                           "no memory for %u parts of a gradient", count);
  while (count > 1 && d->status == WAFER_OK) {
    for (uint32_t i = 0; i + 1 < count; i += 2)
      values[i / 2] = grad_concat(d, values[i], values[i + 1], axis);
    if (count % 2) values[count / 2] = values[count - 1];
    count = (count + 1) / 2;
  }
  return d->status == WAFER_OK ? values[0] : none;
}

MlirValue grad_pad(grad *d, MlirValue x, const int64_t *pads, double value) {
  uint32_t rank = grad_shape(d, x).rank;
  bool any = false;
  for (uint32_t i = 0; i < 2 * rank; i++) any |= pads[i] != 0;
  if (!any) return x;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_pads, .ints = {2 * rank, pads}},
                        {.id = WAFER_ATTR_mode, .s = "constant"},
                        {.id = WAFER_ATTR_fill, .f = value}};
  return grad_op(d, WAFER_OP_pad, 1, &x, WAFER_COUNT(attrs), attrs);
}

MlirValue grad_gather(grad *d, MlirValue data, MlirValue index, uint32_t axis) {
  wafer_attr attr = {.id = WAFER_ATTR_axis, .i = axis};
  return grad_op(d, WAFER_OP_gather, 2, (MlirValue[]){data, index}, 1, &attr);
}

MlirValue grad_scatter(grad *d, MlirValue data, MlirValue index, MlirValue updates,
                       const char *mode) {
  wafer_attr attr = {.id = WAFER_ATTR_mode, .s = mode};
  return grad_op(d, WAFER_OP_scatter, 3, (MlirValue[]){data, index, updates}, 1, &attr);
}

/* ---- Constants ---- */

wafer_view grad_tensor(grad *d, wafer_dtype dtype, uint32_t rank, const int64_t *dims) {
  wafer_shape shape = {.rank = rank};
  memcpy(shape.dims, dims, rank * sizeof *dims);
  wafer_view view = wafer_view_of(dtype, &shape, NULL);
  if (d->status != WAFER_OK) return view;
  view.data = wafer_arena_alloc(d->b->ctx->arena, wafer_tensor_bytes(dtype, &shape), 1);
  if (!view.data)
    d->status = wafer_fail(d->b->ctx->diag, d->b->loc, WAFER_NO_MEMORY,
                           "no memory for a constant of the gradient");
  return view;
}

MlirValue grad_constant(grad *d, const wafer_view *view) {
  MlirValue result;
  if (d->status != WAFER_OK) return none;
  const char *name = d->b->loc.name ? d->b->loc.name : "gradient";
  d->status = wafer_build_computed(d->b, name, view, &result);
  return d->status == WAFER_OK ? result : none;
}

MlirValue grad_iota(grad *d, int64_t count) {
  wafer_view view = grad_tensor(d, WAFER_DTYPE_i64, 1, &count);
  for (int64_t i = 0; view.data && i < count; i++) ((int64_t *)view.data)[i] = i;
  return grad_constant(d, &view);
}

MlirValue grad_contract(grad *d, MlirValue x, uint32_t axis, int64_t m, const double *matrix) {
  wafer_type type = grad_type(d, x);
  int64_t n = type.shape.dims[axis], perm[WAFER_MAX_RANK], back[WAFER_MAX_RANK];
  uint32_t rank = type.shape.rank, last = rank - 1;
  wafer_view view = grad_tensor(d, type.dtype, 2, (int64_t[]){n, m});
  for (int64_t i = 0; view.data && i < n * m; i++)
    wafer_element_set_f64(type.dtype, view.data, i, matrix[i]);
  for (uint32_t i = 0; i < rank; i++) perm[i] = i < axis ? i : i == last ? axis : i + 1;
  for (uint32_t i = 0; i < rank; i++) back[perm[i]] = i;
  x = grad_transpose(d, x, perm);
  wafer_shape moved = grad_shape(d, x);
  x = grad_reshape_to(d, x, 2, (int64_t[]){grad_elements(&moved, 0, last), n});
  x = grad_binary(d, WAFER_OP_matmul, x, grad_constant(d, &view));
  moved.dims[last] = m;
  return grad_transpose(d, grad_reshape(d, x, &moved), back);
}

MlirValue grad_summed_to(grad *d, MlirValue g, MlirValue x) {
  if (d->status != WAFER_OK || mlirValueIsNull(g)) return none;
  wafer_type have = grad_type(d, g), want = grad_type(d, x);
  uint32_t dims = 0;
  if (have.shape.rank < want.shape.rank) {
    g = grad_expand(d, g, &want.shape);
    have = grad_type(d, g);
  }
  uint32_t lead = have.shape.rank - want.shape.rank;
  for (uint32_t i = 0; i < have.shape.rank; i++)
    if (i < lead || (want.shape.dims[i - lead] == 1 && have.shape.dims[i] != 1)) dims |= 1u << i;
  if (dims) g = grad_reduce(d, WAFER_OP_reduce_sum, g, dims, true);
  wafer_shape kept = {.rank = want.shape.rank};
  for (uint32_t i = 0; i < kept.rank; i++) kept.dims[i] = grad_shape(d, g).dims[i + lead];
  g = grad_expand(d, grad_reshape(d, g, &kept), &want.shape);
  return grad_cast(d, g, want.dtype);
}

/* Building core ops for an ONNX node; a failure sticks to the node. */
#include <string.h>

#include "import.h"

static const MlirValue none;

MlirValue emit_op(import_node *n, wafer_op op, uint32_t count, const MlirValue *operands,
                  const wafer_attr *attrs, uint32_t attr_count) {
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++)
    if (mlirValueIsNull(operands[i])) node_bad(n, "an input is missing");
  if (n->status != WAFER_OK) return none;
  MlirValue result;
  n->status = wafer_build(&n->im->b, op, count, operands, attrs, attr_count, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue emit_unary(import_node *n, wafer_op op, MlirValue a) {
  return emit_op(n, op, 1, &a, NULL, 0);
}

MlirValue emit_binary(import_node *n, wafer_op op, MlirValue a, MlirValue b) {
  return emit_op(n, op, 2, (MlirValue[]){a, b}, NULL, 0);
}

MlirValue emit_scalar_like(import_node *n, MlirValue x, double value) {
  if (n->status != WAFER_OK) return none;
  wafer_type type = {.dtype = node_dtype(n, x)};
  MlirValue result;
  n->status = wafer_build_splat(&n->im->b, &type, value, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue emit_constant(import_node *n, const wafer_view *view) {
  if (n->status != WAFER_OK) return none;
  MlirValue result;
  n->status = wafer_build_computed(&n->im->b, n->label, view, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue emit_constant_i64(import_node *n, uint32_t rank, int64_t count, const int64_t *values) {
  wafer_shape shape = {.rank = rank, .dims = {count}};
  int64_t *kept = node_new_ints(n, count);
  if (!kept) return none;
  if (count) memcpy(kept, values, (size_t)count * sizeof *kept);
  wafer_view view = wafer_view_of(WAFER_DTYPE_i64, &shape, kept);
  return emit_constant(n, &view);
}

MlirValue emit_iota(import_node *n, wafer_dtype dtype, int64_t count) {
  wafer_shape shape = {.rank = 1, .dims = {count}};
  int64_t elements;
  void *data = wafer_shape_elements(&shape, &elements)
                   ? wafer_arena_alloc(n->im->ctx->arena, (size_t)count, wafer_dtype_bytes(dtype))
                   : NULL;
  if (!data) {
    node_bad(n, "a range of %lld elements is too large", (long long)count);
    return none;
  }
  for (int64_t i = 0; i < count; i++) wafer_element_set_i64(dtype, data, i, i);
  wafer_view view = wafer_view_of(dtype, &shape, data);
  return emit_constant(n, &view);
}

MlirValue emit_select(import_node *n, MlirValue condition, MlirValue yes, MlirValue no) {
  return emit_op(n, WAFER_OP_select, 3, (MlirValue[]){condition, yes, no}, NULL, 0);
}

MlirValue emit_cast(import_node *n, MlirValue x, wafer_dtype dtype) {
  return emit_op(n, WAFER_OP_cast, 1, &x, (wafer_attr[]){TEXT_ATTR(to, wafer_dtype_name(dtype))},
                 1);
}

MlirValue emit_cast_saturated(import_node *n, MlirValue x, wafer_dtype dtype) {
  double least, most;
  if (!wafer_dtype_is_float(node_dtype(n, x))) x = emit_cast(n, x, WAFER_DTYPE_f32);
  wafer_dtype_range(dtype, &least, &most);
  return emit_cast(n, emit_clip(n, x, least, most), dtype);
}

MlirValue emit_clip(import_node *n, MlirValue x, double least, double most) {
  return emit_op(n, WAFER_OP_clip, 1, &x,
                 (wafer_attr[]){FLOAT_ATTR(min, least), FLOAT_ATTR(max, most)}, 2);
}

MlirValue emit_reshape(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims) {
  return emit_op(n, WAFER_OP_reshape, 1, &x, (wafer_attr[]){INTS_ATTR(shape, rank, dims)}, 1);
}

MlirValue emit_expand(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims) {
  return emit_op(n, WAFER_OP_expand, 1, &x, (wafer_attr[]){INTS_ATTR(shape, rank, dims)}, 1);
}

MlirValue emit_transpose(import_node *n, MlirValue x, uint32_t rank, const int64_t *perm) {
  return emit_op(n, WAFER_OP_transpose, 1, &x, (wafer_attr[]){INTS_ATTR(perm, rank, perm)}, 1);
}

MlirValue emit_swap_last(import_node *n, MlirValue x) {
  int64_t perm[WAFER_MAX_RANK];
  uint32_t rank = node_rank(n, x);
  if (rank < 2) {
    node_bad(n, "a matrix is needed, an input has %u dims", rank);
    return none;
  }
  for (uint32_t i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * (int64_t)rank - 3 - i;
  return emit_transpose(n, x, rank, perm);
}

MlirValue emit_concat(import_node *n, MlirValue a, MlirValue b, uint32_t axis) {
  return emit_op(n, WAFER_OP_concat, 2, (MlirValue[]){a, b}, (wafer_attr[]){INT_ATTR(axis, axis)},
                 1);
}

static void join_last(import_node *n, concat_tree *t) {
  MlirValue a = t->part[t->parts - 2], b = t->part[--t->parts];
  t->part[t->parts - 1] =
      t->backwards ? emit_concat(n, b, a, t->axis) : emit_concat(n, a, b, t->axis);
}

void emit_concat_next(import_node *n, concat_tree *t, MlirValue value) {
  if (n->status != WAFER_OK) return;
  t->part[t->parts++] = value;
  for (uint32_t before = t->count++; before & 1; before >>= 1) join_last(n, t);
}

MlirValue emit_concat_end(import_node *n, concat_tree *t) {
  while (t->parts > 1) join_last(n, t);
  return n->status == WAFER_OK && t->parts ? t->part[0] : none;
}

MlirValue emit_concat_all(import_node *n, uint32_t count, const MlirValue *values, uint32_t axis) {
  concat_tree all = {.axis = axis};
  if (!values && count && n->status == WAFER_OK) n->status = import_no_memory(n->im);
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++)
    emit_concat_next(n, &all, values[i]);
  return emit_concat_end(n, &all);
}

MlirValue emit_gather(import_node *n, MlirValue x, MlirValue index, uint32_t axis) {
  return emit_op(n, WAFER_OP_gather, 2, (MlirValue[]){x, index},
                 (wafer_attr[]){INT_ATTR(axis, axis)}, 1);
}

MlirValue emit_gather_batched(import_node *n, MlirValue x, MlirValue index, uint32_t axis) {
  if (axis == 0) return emit_gather(n, x, index, axis);
  return emit_op(n, WAFER_OP_gather_batched, 2, (MlirValue[]){x, index},
                 (wafer_attr[]){INT_ATTR(axis, axis)}, 1);
}

MlirValue emit_padded(import_node *n, MlirValue x, const int64_t *pads, double fill) {
  if (n->status != WAFER_OK) return none;
  wafer_attr attrs[] = {INTS_ATTR(pads, 2 * node_rank(n, x), pads), TEXT_ATTR(mode, "constant"),
                        FLOAT_ATTR(fill, fill)};
  return emit_op(n, WAFER_OP_pad, 1, &x, attrs, WAFER_COUNT(attrs));
}

MlirValue emit_part(import_node *n, MlirValue x, uint32_t axis, int64_t start, int64_t count) {
  wafer_shape shape = node_type(n, x).shape;
  int64_t starts[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  if (n->status != WAFER_OK) return none; /* x has no dims then */
  for (uint32_t i = 0; i < shape.rank; i++) steps[i] = 1;
  starts[axis] = start;
  shape.dims[axis] = count;
  wafer_attr attrs[] = {INTS_ATTR(starts, shape.rank, starts), INTS_ATTR(steps, shape.rank, steps),
                        INTS_ATTR(shape, shape.rank, shape.dims)};
  return emit_op(n, WAFER_OP_slice, 1, &x, attrs, WAFER_COUNT(attrs));
}

MlirValue emit_reduce(import_node *n, wafer_op op, MlirValue x, uint32_t dims, bool keep) {
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < node_rank(n, x); i++)
    if (dims >> i & 1) axes[count++] = i;
  wafer_attr attrs[] = {INTS_ATTR(axes, count, axes), INT_ATTR(keepdims, keep)};
  return emit_op(n, op, 1, &x, attrs, WAFER_COUNT(attrs));
}

MlirValue emit_softmax(import_node *n, MlirValue x, uint32_t axis) {
  return emit_op(n, WAFER_OP_softmax, 1, &x, (wafer_attr[]){INT_ATTR(axis, axis)}, 1);
}

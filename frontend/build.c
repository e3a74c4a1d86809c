/* Building core ops for an ONNX node; a failure sticks to the node. */
#include <string.h>

#include "import.h"

static const MlirValue none;

MlirValue build(import_node *n, wafer_op op, uint32_t count, const MlirValue *operands,
                const wafer_attr *attrs, uint32_t attr_count) {
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++)
    if (mlirValueIsNull(operands[i])) node_bad(n, "an input is missing");
  if (n->status != WAFER_OK) return none;
  MlirValue result;
  n->status = wafer_build(&n->im->b, op, count, operands, attrs, attr_count, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue op1(import_node *n, wafer_op op, MlirValue a) {
  return build(n, op, 1, &a, NULL, 0);
}

MlirValue op2(import_node *n, wafer_op op, MlirValue a, MlirValue b) {
  return build(n, op, 2, (MlirValue[]){a, b}, NULL, 0);
}

MlirValue scalar_like(import_node *n, MlirValue x, double value) {
  if (n->status != WAFER_OK) return none;
  wafer_type type = {.dtype = dtype_of(n, x)};
  MlirValue result;
  n->status = wafer_build_splat(&n->im->b, &type, value, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue constant(import_node *n, const wafer_view *view) {
  if (n->status != WAFER_OK) return none;
  MlirValue result;
  n->status = wafer_build_constant(&n->im->b, n->label, view, &result);
  return n->status == WAFER_OK ? result : none;
}

MlirValue constant_i64(import_node *n, uint32_t rank, int64_t count, const int64_t *values) {
  wafer_shape shape = {.rank = rank, .dims = {count}};
  int64_t *kept = new_ints(n, (uint32_t)count);
  if (!kept) return none;
  if (count) memcpy(kept, values, (size_t)count * sizeof *kept);
  wafer_view view = wafer_view_of(WAFER_DTYPE_i64, &shape, kept);
  return constant(n, &view);
}

MlirValue iota(import_node *n, wafer_dtype dtype, int64_t count) {
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
  return constant(n, &view);
}

MlirValue select_of(import_node *n, MlirValue condition, MlirValue yes, MlirValue no) {
  return build(n, WAFER_OP_select, 3, (MlirValue[]){condition, yes, no}, NULL, 0);
}

MlirValue cast_to(import_node *n, MlirValue x, wafer_dtype dtype) {
  return build(n, WAFER_OP_cast, 1, &x, (wafer_attr[]){TEXT_ATTR(to, wafer_dtype_name(dtype))}, 1);
}

MlirValue clip_to(import_node *n, MlirValue x, double least, double most) {
  return build(n, WAFER_OP_clip, 1, &x,
               (wafer_attr[]){FLOAT_ATTR(min, least), FLOAT_ATTR(max, most)}, 2);
}

MlirValue reshape_to(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims) {
  return build(n, WAFER_OP_reshape, 1, &x, (wafer_attr[]){INTS_ATTR(shape, rank, dims)}, 1);
}

MlirValue expand_to(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims) {
  return build(n, WAFER_OP_expand, 1, &x, (wafer_attr[]){INTS_ATTR(shape, rank, dims)}, 1);
}

MlirValue transpose_by(import_node *n, MlirValue x, uint32_t rank, const int64_t *perm) {
  return build(n, WAFER_OP_transpose, 1, &x, (wafer_attr[]){INTS_ATTR(perm, rank, perm)}, 1);
}

MlirValue swap_last(import_node *n, MlirValue x) {
  int64_t perm[WAFER_MAX_RANK];
  uint32_t rank = rank_of(n, x);
  if (rank < 2) {
    node_bad(n, "a matrix is needed, an input has %u dims", rank);
    return none;
  }
  for (uint32_t i = 0; i < rank; i++) perm[i] = i < rank - 2 ? i : 2 * (int64_t)rank - 3 - i;
  return transpose_by(n, x, rank, perm);
}

MlirValue concat_of(import_node *n, MlirValue a, MlirValue b, uint32_t axis) {
  return build(n, WAFER_OP_concat, 2, (MlirValue[]){a, b}, (wafer_attr[]){INT_ATTR(axis, axis)}, 1);
}

MlirValue part_of(import_node *n, MlirValue x, uint32_t axis, int64_t start, int64_t count) {
  wafer_shape shape = type_of(n, x).shape;
  int64_t starts[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < shape.rank; i++) steps[i] = 1;
  starts[axis] = start;
  shape.dims[axis] = count;
  wafer_attr attrs[] = {INTS_ATTR(starts, shape.rank, starts), INTS_ATTR(steps, shape.rank, steps),
                        INTS_ATTR(shape, shape.rank, shape.dims)};
  return build(n, WAFER_OP_slice, 1, &x, attrs, WAFER_COUNT(attrs));
}

MlirValue reduce_over(import_node *n, wafer_op op, MlirValue x, uint32_t dims, bool keep) {
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < rank_of(n, x); i++)
    if (dims >> i & 1) axes[count++] = i;
  wafer_attr attrs[] = {INTS_ATTR(axes, count, axes), INT_ATTR(keepdims, keep)};
  return build(n, op, 1, &x, attrs, WAFER_COUNT(attrs));
}

MlirValue softmax_over(import_node *n, MlirValue x, uint32_t axis) {
  return build(n, WAFER_OP_softmax, 1, &x, (wafer_attr[]){INT_ATTR(axis, axis)}, 1);
}

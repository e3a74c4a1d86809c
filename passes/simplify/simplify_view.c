/* Ops that move elements: two of a kind become one, those that move nothing become reshapes or go.
 */
#include <string.h>

#include "ir/ir_fold.h"
#include "simplify.h"

wafer_status build_transpose(const simplifier *s, MlirOperation at, MlirValue x, uint32_t rank,
                             const int64_t *perm, MlirValue *value) {
  wafer_builder b = build_before(s, at, at);
  wafer_attr attr = {.id = WAFER_ATTR_perm, .ints = {rank, perm}};
  return wafer_build(&b, WAFER_OP_transpose, 1, &x, &attr, 1, value);
}

/* reshape(reshape(x)) -> reshape(x) */
wafer_status rewrite_reshape(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirOperation before;
  if (!made_by(op, 0, WAFER_OP_reshape, &before)) return WAFER_OK;
  wafer_type type = result_type(op);
  return build_reshape(s, op, mlirOperationGetOperand(before, 0), &type.shape, value);
}

/* Dims longer than 1 keep their order. */
static bool keeps_order(const wafer_shape *x, const int64_t *perm) {
  int64_t last = -1;
  for (uint32_t d = 0; d < x->rank; d++) {
    if (x->dims[perm[d]] == 1) continue;
    if (perm[d] < last) return false;
    last = perm[d];
  }
  return true;
}

/* transpose(transpose(x)) -> transpose(x); a transpose that moves dims of 1 alone -> reshape */
wafer_status rewrite_transpose(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirOperation before;
  wafer_attrs attrs;
  uint32_t rank;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  const int64_t *outer = wafer_attr_ints(&attrs, WAFER_ATTR_perm, &rank);
  wafer_type x = operand_type(op, 0), type = result_type(op);
  if (keeps_order(&x.shape, outer))
    return build_reshape(s, op, mlirOperationGetOperand(op, 0), &type.shape, value);
  if (!made_by(op, 0, WAFER_OP_transpose, &before)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, before, &attrs));
  const int64_t *inner = wafer_attr_ints(&attrs, WAFER_ATTR_perm, &rank);
  int64_t perm[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) perm[d] = inner[outer[d]];
  return build_transpose(s, op, mlirOperationGetOperand(before, 0), rank, perm, value);
}

/* With the last two dims exchanged. */
static wafer_status build_turn(const simplifier *s, MlirOperation at, MlirValue x,
                               MlirValue *value) {
  int64_t perm[WAFER_MAX_RANK];
  wafer_shape from = wafer_ir_value_type(x).shape, to = from;
  for (uint32_t d = 0; d < from.rank; d++) {
    perm[d] = d + 2 < from.rank ? d : 2 * from.rank - 3 - d;
    to.dims[d] = from.dims[perm[d]];
  }
  return keeps_order(&from, perm) ? build_reshape(s, at, x, &to, value)
                                  : build_transpose(s, at, x, from.rank, perm, value);
}

/* Whether the operand is a turned matrix too large for folding, the other and the result being
 * smaller. */
static bool is_turned_weight(MlirOperation op, uint32_t index, MlirValue *matrix) {
  MlirOperation turn;
  if (!made_by(op, index, WAFER_OP_transpose, &turn)) return false;
  *matrix = mlirOperationGetOperand(turn, 0);
  wafer_type weight = operand_type(turn, 0), other = operand_type(op, !index), y = result_type(op);
  int64_t all, taken, made;
  return weight.shape.rank == 2 && wafer_ir_is_constant(*matrix) &&
         !fold_is_small(1, &weight, &weight) && other.shape.rank >= 2 &&
         wafer_shape_elements(&weight.shape, &all) && wafer_shape_elements(&other.shape, &taken) &&
         wafer_shape_elements(&y.shape, &made) && taken + made < all;
}

/* matmul(x, transpose(w)) -> transpose(matmul(w, transpose(x))) */
wafer_status rewrite_product(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirValue operands[2], product;
  if (!is_turned_weight(op, 1, &operands[0])) return WAFER_OK;
  WAFER_TRY(build_turn(s, op, mlirOperationGetOperand(op, 0), &operands[1]));
  wafer_builder b = build_before(s, op, op);
  WAFER_TRY(wafer_build(&b, WAFER_OP_matmul, 2, operands, NULL, 0, &product));
  return build_turn(s, op, product, value);
}

/* expand(expand(x)) -> expand(x) */
wafer_status rewrite_expand(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirOperation before;
  if (!made_by(op, 0, WAFER_OP_expand, &before)) return WAFER_OK;
  wafer_type type = result_type(op);
  wafer_builder b = build_before(s, op, op);
  MlirValue x = mlirOperationGetOperand(before, 0);
  wafer_attr attr = {.id = WAFER_ATTR_shape, .ints = {type.shape.rank, type.shape.dims}};
  return wafer_build(&b, WAFER_OP_expand, 1, &x, &attr, 1, value);
}

/* pad by nothing -> x */
wafer_status rewrite_pad(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  uint32_t count;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  const int64_t *pads = wafer_attr_ints(&attrs, WAFER_ATTR_pads, &count);
  for (uint32_t i = 0; i < count; i++)
    if (pads[i] != 0) return WAFER_OK;
  *value = mlirOperationGetOperand(op, 0);
  return WAFER_OK;
}

/* A reduction over dims of 1 -> reshape */
wafer_status rewrite_reduce(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  uint32_t count;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  const int64_t *axes = wafer_attr_ints(&attrs, WAFER_ATTR_axes, &count);
  wafer_type x = operand_type(op, 0), type = result_type(op);
  for (uint32_t i = 0; i < count; i++)
    if (x.shape.dims[axes[i]] != 1) return WAFER_OK;
  return build_reshape(s, op, mlirOperationGetOperand(op, 0), &type.shape, value);
}

/* ---- concat with a constant that is everywhere the same ---- */

wafer_status rewrite_concat(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  double fill;
  wafer_type type = result_type(op);
  int64_t pads[2 * WAFER_MAX_RANK] = {0};
  if (!wafer_dtype_is_float(type.dtype)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  uint32_t axis = (uint32_t)wafer_attr_int(&attrs, WAFER_ATTR_axis), rank = type.shape.rank;
  for (uint32_t at = 0; at < 2; at++) {
    MlirValue x = mlirOperationGetOperand(op, 1 - at);
    if (!wafer_ir_splat(mlirOperationGetOperand(op, at), &fill) || wafer_ir_is_constant(x))
      continue;
    pads[at == 0 ? axis : rank + axis] = operand_type(op, at).shape.dims[axis];
    wafer_builder b = build_before(s, op, op);
    wafer_attr pad[] = {{.id = WAFER_ATTR_pads, .ints = {2 * rank, pads}},
                        {.id = WAFER_ATTR_mode, .s = "constant"},
                        {.id = WAFER_ATTR_fill, .f = fill}};
    return wafer_build(&b, WAFER_OP_pad, 1, &x, pad, 3, value);
  }
  return WAFER_OK;
}

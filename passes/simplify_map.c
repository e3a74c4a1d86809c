/* Elementwise ops that do nothing, or that two of make one. */
#include <math.h>

#include "simplify.h"

static bool types_equal(const wafer_type *a, const wafer_type *b) {
  return a->dtype == b->dtype && wafer_shape_equal(&a->shape, &b->shape);
}

/* ---- x * 1, x / 1, x + 0, x - 0, x ^ 1 ---- */

static const struct {
  wafer_op op;
  double neutral;
  bool both; /* either operand may be the neutral one */
} neutrals[] = {
    {WAFER_OP_mul, 1, true}, {WAFER_OP_div, 1, false}, {WAFER_OP_add, 0, true},
    {WAFER_OP_sub, 0, false}, {WAFER_OP_pow, 1, false},
};

wafer_status rewrite_neutral(simplifier *s, MlirOperation op, MlirValue *value) {
  (void)s;
  wafer_op id = wafer_ir_op(op);
  for (size_t i = 0; i < WAFER_COUNT(neutrals); i++) {
    if (neutrals[i].op != id) continue;
    for (uint32_t at = neutrals[i].both ? 0 : 1; at < 2; at++) {
      double element;
      wafer_type kept = operand_type(op, 1 - at), type = result_type(op);
      if (!wafer_ir_splat(mlirOperationGetOperand(op, at), &element)) continue;
      if (element == neutrals[i].neutral && types_equal(&kept, &type))
        *value = mlirOperationGetOperand(op, 1 - at);
    }
  }
  return WAFER_OK;
}

/* ---- relu and clip of relu and clip ---- */

typedef struct bounds {
  double min, max;
} bounds;

static wafer_status bounds_of(const simplifier *s, MlirOperation op, bounds *b, bool *has) {
  wafer_op id = wafer_ir_op(op);
  wafer_attrs attrs;
  *has = id == WAFER_OP_relu || id == WAFER_OP_clip;
  *b = (bounds){.min = 0, .max = INFINITY};
  if (id != WAFER_OP_clip) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  *b = (bounds){.min = wafer_attr_float(&attrs, WAFER_ATTR_min), .max = wafer_attr_float(&attrs, WAFER_ATTR_max)};
  *has = b->min <= b->max;
  return WAFER_OK;
}

static double clamp(double x, const bounds *b) { return fmin(fmax(x, b->min), b->max); }

wafer_status rewrite_clip(simplifier *s, MlirOperation op, MlirValue *value) {
  bounds outer, inner;
  bool has;
  MlirOperation before = maker(mlirOperationGetOperand(op, 0));
  if (mlirOperationIsNull(before)) return WAFER_OK;
  WAFER_TRY(bounds_of(s, before, &inner, &has));
  if (!has) return WAFER_OK;
  WAFER_TRY(bounds_of(s, op, &outer, &has));
  if (!has) return WAFER_OK;
  wafer_builder b = build_before(s, op, before);
  MlirValue x = mlirOperationGetOperand(before, 0);
  bounds both = {.min = clamp(inner.min, &outer), .max = clamp(inner.max, &outer)};
  if (both.min == 0 && both.max == INFINITY) return wafer_build(&b, WAFER_OP_relu, 1, &x, NULL, 0, value);
  wafer_attr attrs[] = {{.id = WAFER_ATTR_min, .f = both.min}, {.id = WAFER_ATTR_max, .f = both.max}};
  return wafer_build(&b, WAFER_OP_clip, 1, &x, attrs, 2, value);
}

/* ---- select of a constant condition ---- */

wafer_status rewrite_select(simplifier *s, MlirOperation op, MlirValue *value) {
  double condition;
  if (!wafer_ir_splat(mlirOperationGetOperand(op, 0), &condition)) return WAFER_OK;
  MlirValue chosen = mlirOperationGetOperand(op, condition != 0 ? 1 : 2);
  wafer_type type = result_type(op);
  wafer_builder b = build_before(s, op, op);
  wafer_attr shape = {.id = WAFER_ATTR_shape, .ints = {type.shape.rank, type.shape.dims}};
  return wafer_build(&b, WAFER_OP_expand, 1, &chosen, &shape, 1, value);
}

/* ---- op(expand(x), y): the op broadcasts by itself ---- */

wafer_status rewrite_broadcast(simplifier *s, MlirOperation op, MlirValue *value) {
  (void)value;
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  wafer_type types[WAFER_OP_MAX_OPERANDS], whole = result_type(op), type;
  wafer_attrs attrs;
  MlirOperation expand;
  for (uint32_t i = 0; i < count && count > 1; i++) {
    if (!made_by(op, i, WAFER_OP_expand, &expand)) continue;
    for (uint32_t j = 0; j < count; j++) types[j] = operand_type(op, j);
    types[i] = operand_type(expand, 0);
    WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
    wafer_status status =
        wafer_op_infer(NULL, wafer_ir_loc(s->ir, op), wafer_ir_op(op), &attrs, count, types, &type);
    if (status != WAFER_OK || !types_equal(&type, &whole)) continue;
    mlirOperationSetOperand(op, i, mlirOperationGetOperand(expand, 0));
    erase_dead(expand);
  }
  return WAFER_OK;
}

/* Elementwise ops that do nothing, or that two of make one. */
#include <math.h>

#include "simplify.h"

/* ---- x * 1, x / 1, x + 0, x - 0, x ^ 1 ---- */

static const struct {
  wafer_op op;
  double neutral;
  bool both; /* either operand may be the neutral one */
} neutrals[] = {
    {WAFER_OP_mul, 1, true},  {WAFER_OP_div, 1, false}, {WAFER_OP_add, 0, true},
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
      if (element == neutrals[i].neutral && wafer_type_equal(&kept, &type))
        *value = mlirOperationGetOperand(op, 1 - at);
    }
  }
  return WAFER_OK;
}

/* ---- x / c, x ^ c, x * a * b, x + a + b ---- */

static bool can_change(const simplifier *s, MlirOperation op, uint32_t constant) {
  wafer_view view;
  MlirValue value = mlirOperationGetOperand(op, constant);
  wafer_dtype dtype = result_type(op).dtype;
  return (dtype == WAFER_DTYPE_f32 || dtype == WAFER_DTYPE_f64) && wafer_ir_is_constant(value) &&
         wafer_ir_constant(s->ctx, s->ir, value, &view);
}

/* Neither zeros and infinities nor numbers whose reciprocal loses bits. */
static bool invertible(const simplifier *s, MlirValue value) {
  wafer_view view;
  int64_t count;
  if (!wafer_ir_constant(s->ctx, s->ir, value, &view) || !wafer_shape_elements(&view.shape, &count))
    return false;
  for (int64_t i = 0; i < count; i++) {
    double size = fabs(wafer_element_f64(view.dtype, view.data, i));
    if (!(size > 1e-30 && size < 1e30)) return false;
  }
  return true;
}

/* A product is cheaper than a quotient, and merges with others. */
wafer_status rewrite_divide(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirValue operands[2] = {mlirOperationGetOperand(op, 0), mlirOperationGetOperand(op, 1)};
  if (!can_change(s, op, 1) || !invertible(s, operands[1])) return WAFER_OK;
  wafer_builder b = build_before(s, op, op);
  WAFER_TRY(wafer_build(&b, WAFER_OP_reciprocal, 1, &operands[1], NULL, 0, &operands[1]));
  return wafer_build(&b, WAFER_OP_mul, 2, operands, NULL, 0, value);
}

wafer_status rewrite_power(simplifier *s, MlirOperation op, MlirValue *value) {
  double exponent;
  MlirValue x[2] = {mlirOperationGetOperand(op, 0), mlirOperationGetOperand(op, 0)};
  wafer_type from = wafer_ir_value_type(x[0]), to = result_type(op);
  wafer_builder b = build_before(s, op, op);
  if (!wafer_type_equal(&from, &to) || !wafer_ir_splat(mlirOperationGetOperand(op, 1), &exponent))
    return WAFER_OK;
  if (exponent == 2) return wafer_build(&b, WAFER_OP_mul, 2, x, NULL, 0, value);
  if (!wafer_dtype_is_float(to.dtype)) return WAFER_OK;
  if (exponent == 0.5) return wafer_build(&b, WAFER_OP_sqrt, 1, x, NULL, 0, value);
  return exponent == -1 ? wafer_build(&b, WAFER_OP_reciprocal, 1, x, NULL, 0, value) : WAFER_OK;
}

/* The operand that is a constant, 2 when none is. */
static uint32_t constant_operand(const simplifier *s, MlirOperation op) {
  uint32_t at = 0;
  while (at < 2 && !can_change(s, op, at)) at++;
  return at;
}

/* One of the shapes stands for both: (4,1) by (4) would be (4,4), more to hold than they are. */
static bool merges(const wafer_type types[2]) {
  int64_t counts[2];
  if (!wafer_shape_elements(&types[0].shape, &counts[0]) ||
      !wafer_shape_elements(&types[1].shape, &counts[1]))
    return false;
  return counts[0] == 1 || counts[1] == 1 || wafer_shape_equal(&types[0].shape, &types[1].shape);
}

wafer_status rewrite_chain(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_op id = wafer_ir_op(op);
  MlirOperation before;
  uint32_t at = constant_operand(s, op), inner;
  if (at == 2 || !made_by(op, 1 - at, id, &before) || !used_once(before)) return WAFER_OK;
  if ((inner = constant_operand(s, before)) == 2) return WAFER_OK;
  MlirValue pair[2] = {mlirOperationGetOperand(before, inner), mlirOperationGetOperand(op, at)};
  wafer_type types[2] = {operand_type(before, inner), operand_type(op, at)};
  if (!merges(types)) return WAFER_OK;
  wafer_builder b = build_before(s, op, op);
  WAFER_TRY(wafer_build(&b, id, 2, pair, NULL, 0, &pair[1]));
  pair[0] = mlirOperationGetOperand(before, 1 - inner);
  return wafer_build(&b, id, 2, pair, NULL, 0, value);
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
  *b = (bounds){.min = wafer_attr_float(&attrs, WAFER_ATTR_min),
                .max = wafer_attr_float(&attrs, WAFER_ATTR_max)};
  *has = b->min <= b->max;
  return WAFER_OK;
}

static double clamp(double x, const bounds *b) {
  return fmin(fmax(x, b->min), b->max);
}

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
  if (both.min == 0 && both.max == INFINITY)
    return wafer_build(&b, WAFER_OP_relu, 1, &x, NULL, 0, value);
  wafer_attr attrs[] = {{.id = WAFER_ATTR_min, .f = both.min},
                        {.id = WAFER_ATTR_max, .f = both.max}};
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
    if (status != WAFER_OK || !wafer_type_equal(&type, &whole)) continue;
    mlirOperationSetOperand(op, i, mlirOperationGetOperand(expand, 0));
    erase_dead(expand);
  }
  return WAFER_OK;
}

/* Means, squares and roots that normalize become one op, on whose cores a value stays meanwhile:
 *
 *   c = x - reduce_mean(x)
 *   c * reciprocal(sqrt(reduce_mean(c * c) + epsilon))     ->  normalize(x) {center = 1}
 *   x / sqrt(reduce_mean(x * x) + epsilon)                 ->  normalize(x) {center = 0}
 *
 * What a scale and a shift make of it stays: the kernel's tail. Nothing in between may have other
 * uses, so the pass comes behind grad: a backward pass keeps the parts that it needs. */
#include "simplify/simplify.h"

typedef struct parts {
  MlirValue x;
  MlirOperation mean; /* of squares */
  double epsilon;
  bool center;
} parts;

static uint32_t uses_of(MlirValue value) {
  uint32_t count = 0;
  for (MlirOpOperand use = mlirValueGetFirstUse(value); !mlirOpOperandIsNull(use);
       use = mlirOpOperandGetNextUse(use))
    count++;
  return count;
}

/* Operand `index` is made by such an op for this one alone. */
static bool made_for(MlirOperation op, uint32_t index, wafer_op id, MlirOperation *found) {
  return made_by(op, index, id, found) && used_once(*found);
}

/* The op that multiplies by 1 / root, or divides by the root, of what is `root`'s operand. */
static bool find_root(MlirOperation op, MlirValue *scaled, MlirOperation *root) {
  double exponent;
  for (uint32_t i = 0; wafer_ir_op(op) == WAFER_OP_mul && i < 2; i++) {
    *scaled = mlirOperationGetOperand(op, 1 - i);
    if (made_for(op, i, WAFER_OP_reciprocal, root) && made_for(*root, 0, WAFER_OP_sqrt, root))
      return true;
    if (made_for(op, i, WAFER_OP_pow, root) &&
        wafer_ir_splat(mlirOperationGetOperand(*root, 1), &exponent) && exponent == -0.5)
      return true;
  }
  *scaled = mlirOperationGetOperand(op, 0);
  return wafer_ir_op(op) == WAFER_OP_div && made_for(op, 1, WAFER_OP_sqrt, root);
}

/* The mean of squares below the root, and what is added to it. */
static bool find_mean(MlirOperation root, parts *p) {
  MlirOperation sum = root;
  uint32_t at = 0;
  p->epsilon = 0;
  if (made_for(root, 0, WAFER_OP_add, &sum)) {
    while (at < 2 && !wafer_ir_splat(mlirOperationGetOperand(sum, 1 - at), &p->epsilon)) at++;
    if (at == 2) return false;
  } else {
    sum = root;
  }
  return p->epsilon >= 0 && made_for(sum, at, WAFER_OP_reduce_mean, &p->mean);
}

/* Means over the same dims, which stay as 1. */
static bool same_dims(const wafer_attrs *a, const wafer_attrs *b) {
  uint32_t count, others;
  const int64_t *x = wafer_attr_ints(a, WAFER_ATTR_axes, &count);
  const int64_t *y = wafer_attr_ints(b, WAFER_ATTR_axes, &others);
  bool same = count == others && wafer_attr_int(a, WAFER_ATTR_keepdims) != 0 &&
              wafer_attr_int(b, WAFER_ATTR_keepdims) != 0;
  for (uint32_t i = 0; same && i < count; i++) same = x[i] == y[i];
  return same;
}

/* x less its mean, squared and scaled, and nothing else. */
static wafer_status find_center(const wafer_ctx *ctx, const wafer_attrs *attrs, parts *p) {
  MlirOperation less = maker(p->x), mean;
  wafer_attrs own;
  if (mlirOperationIsNull(less) || wafer_ir_op(less) != WAFER_OP_sub || uses_of(p->x) != 3)
    return WAFER_OK;
  if (!made_for(less, 1, WAFER_OP_reduce_mean, &mean)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(ctx, mean, &own));
  MlirValue whole = mlirOperationGetOperand(less, 0);
  if (!mlirValueEqual(whole, mlirOperationGetOperand(mean, 0)) || !same_dims(attrs, &own))
    return WAFER_OK;
  p->center = true;
  p->x = whole;
  return WAFER_OK;
}

static wafer_status rewrite_op(simplifier *s, MlirOperation op, MlirValue *value) {
  parts p = {.center = false};
  MlirOperation root, squares;
  wafer_attrs attrs;
  *value = (MlirValue){NULL};
  if (!find_root(op, &p.x, &root) || !find_mean(root, &p)) return WAFER_OK;
  if (!made_for(p.mean, 0, WAFER_OP_mul, &squares)) return WAFER_OK;
  for (uint32_t i = 0; i < 2; i++)
    if (!mlirValueEqual(mlirOperationGetOperand(squares, i), p.x)) return WAFER_OK;
  wafer_type from = wafer_ir_value_type(p.x), to = result_type(op);
  if (!wafer_type_equal(&from, &to) || wafer_dtype_bits(to.dtype) > 32) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, p.mean, &attrs));
  if (!same_dims(&attrs, &attrs)) return WAFER_OK;
  WAFER_TRY(find_center(s->ctx, &attrs, &p));
  wafer_attr given[3] = {{.id = WAFER_ATTR_axes},
                         {.id = WAFER_ATTR_epsilon, .f = p.epsilon},
                         {.id = WAFER_ATTR_center, .i = p.center}};
  given[0].ints.at = wafer_attr_ints(&attrs, WAFER_ATTR_axes, &given[0].ints.count);
  wafer_builder b = build_before(s, op, op);
  return wafer_build(&b, WAFER_OP_normalize, 1, &p.x, given, WAFER_COUNT(given), value);
}

wafer_status wafer_pass_normalize(const wafer_ctx *ctx, wafer_ir *ir) {
  simplifier s = {.ctx = ctx, .ir = ir};
  MlirBlock block = wafer_ir_body(wafer_ir_main(ir));
  MlirOperation next;
  MlirValue value;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    wafer_op id = wafer_ir_op(op);
    if (id != WAFER_OP_mul && id != WAFER_OP_div) continue;
    WAFER_TRY(rewrite_op(&s, op, &value));
    if (mlirValueIsNull(value)) continue;
    mlirValueReplaceAllUsesOfWith(result_of(op), value);
    erase_dead(op);
  }
  return WAFER_OK;
}

/* Weights of integer products in as few bits as hold them.
 *
 * Quantized models multiply in i32 what lies in 8 bits: weight - zero point. Folded, each weight
 * would take four bytes of a core and of the wafer's edge; not folded, for it would be too large,
 * it is widened on the wafer for every sample, and streamed to the product. The second factor of a
 * product may lie in i8, u8 or i16 (wafer_op_infer), so here it becomes what its numbers need. */
#include "ir/ir_fold.h"
#include "simplify.h"

#define FACTOR 1

/* weight - zero point, the latter of one number, or one along some dims. */
typedef struct centered {
  MlirValue weight;
  wafer_view steps, zero; /* zero.data: null where nothing is taken off */
} centered;

static bool is_narrow(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_i8 || dtype == WAFER_DTYPE_u8 || dtype == WAFER_DTYPE_i16;
}

static bool find(const simplifier *s, MlirOperation product, centered *c) {
  MlirOperation op;
  MlirValue value = mlirOperationGetOperand(product, FACTOR);
  *c = (centered){.weight = value};
  if (made_by(product, FACTOR, WAFER_OP_sub, &op)) {
    value = mlirOperationGetOperand(op, 0);
    if (!wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(op, 1), &c->zero) ||
        !c->zero.data)
      return false;
  }
  if (!mlirOperationIsNull(op = maker(value)) && wafer_ir_op(op) == WAFER_OP_cast)
    value = mlirOperationGetOperand(op, 0);
  c->weight = value;
  const wafer_type type = wafer_ir_value_type(value), all = operand_type(product, FACTOR);
  return wafer_ir_is_constant(value) && !wafer_dtype_is_float(type.dtype) &&
         wafer_dtype_bits(type.dtype) <= wafer_dtype_bits(all.dtype) &&
         wafer_shape_equal(&type.shape, &all.shape);
}

/* Of element `i` of the weight in the zero point, which broadcasts. */
static int64_t zero_index(const centered *c, int64_t i) {
  const wafer_shape *shape = &c->steps.shape, *zero = &c->zero.shape;
  int64_t at = 0, around = 1;
  for (uint32_t d = 1; d <= zero->rank; d++) {
    int64_t all = shape->dims[shape->rank - d], own = zero->dims[zero->rank - d];
    if (own > 1) at += i % all * around;
    i /= all;
    around *= own;
  }
  return at;
}

static int64_t number(const centered *c, int64_t i) {
  int64_t step = wafer_element_i64(c->steps.dtype, c->steps.data, i);
  return c->zero.data ? step - wafer_element_i64(c->zero.dtype, c->zero.data, zero_index(c, i))
                      : step;
}

/* `none`: they take more than 16 bits. */
static wafer_dtype dtype_of(const centered *c, int64_t count) {
  static const wafer_dtype narrow[] = {WAFER_DTYPE_i8, WAFER_DTYPE_u8, WAFER_DTYPE_i16};
  int64_t least = 0, most = 0;
  double from, to;
  for (int64_t i = 0; i < count; i++) {
    int64_t x = number(c, i);
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
  for (uint32_t i = 0; i < WAFER_COUNT(narrow); i++) {
    wafer_dtype_range(narrow[i], &from, &to);
    if ((double)least >= from && (double)most <= to) return narrow[i];
  }
  return WAFER_DTYPE_none;
}

/* Numbers of the narrow type under the weight's name; null: there is none. */
static wafer_status build_numbers(const simplifier *s, wafer_builder *b, const centered *c,
                                  MlirValue *value) {
  int64_t count;
  const wafer_shape *shape = &c->steps.shape;
  if (!wafer_shape_elements(shape, &count)) return WAFER_OK;
  wafer_dtype dtype = dtype_of(c, count);
  if (dtype == WAFER_DTYPE_none) return WAFER_OK;
  void *data = wafer_arena_alloc(s->ctx->arena, wafer_tensor_bytes(dtype, shape), 1);
  if (!data)
    return wafer_fail(s->ctx->diag, b->loc, WAFER_NO_MEMORY, "no memory for %zu bytes of weights",
                      wafer_tensor_bytes(dtype, shape));
  for (int64_t i = 0; i < count; i++) wafer_element_set_i64(dtype, data, i, number(c, i));
  wafer_view view = wafer_view_of(dtype, shape, data);
  return wafer_build_computed(b, fold_name(s->ctx->arena, b->loc.name, WAFER_OP_cast), &view,
                              value);
}

/* product(x, w - zero) -> product(x, w'), w' in fewer bits */
wafer_status rewrite_wide_factor(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirValue operands[WAFER_OP_MAX_OPERANDS], narrow = {NULL};
  wafer_attrs attrs;
  centered c;
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  if (operand_type(op, FACTOR).dtype != WAFER_DTYPE_i32 || !find(s, op, &c)) return WAFER_OK;
  wafer_builder b = build_before(s, op, op);
  if (!c.zero.data && is_narrow(wafer_ir_value_type(c.weight).dtype))
    narrow = c.weight;
  else if (wafer_ir_constant(s->ctx, s->ir, c.weight, &c.steps) && c.steps.data)
    WAFER_TRY(build_numbers(s, &b, &c, &narrow));
  if (mlirValueIsNull(narrow)) return WAFER_OK;
  for (uint32_t i = 0; i < count; i++)
    operands[i] = i == FACTOR ? narrow : mlirOperationGetOperand(op, i);
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  return wafer_build(&b, wafer_ir_op(op), count, operands, attrs.at, attrs.count, value);
}

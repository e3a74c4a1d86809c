/* A gather of indices in equal steps is a slice. A slice looks for what it takes behind ops that
 * only lay elements beside others, so that nothing is left of the rest: of a recurrence of which
 * the last step is wanted, the other steps' results need not come together. */
#include "simplify.h"

/* What a slice takes. */
typedef struct range {
  wafer_shape shape;
  int64_t starts[WAFER_MAX_RANK], steps[WAFER_MAX_RANK];
} range;

static wafer_status range_of(const simplifier *s, MlirOperation slice, range *out) {
  wafer_attrs attrs;
  uint32_t rank;
  WAFER_TRY(wafer_ir_attrs(s->ctx, slice, &attrs));
  const int64_t *starts = wafer_attr_ints(&attrs, WAFER_ATTR_starts, &rank);
  const int64_t *steps = wafer_attr_ints(&attrs, WAFER_ATTR_steps, &rank);
  out->shape = result_type(slice).shape;
  for (uint32_t d = 0; d < rank; d++) {
    out->starts[d] = starts[d];
    out->steps[d] = steps[d];
  }
  return WAFER_OK;
}

static wafer_status build_range(const simplifier *s, MlirOperation at, MlirValue x, const range *r,
                                MlirValue *value) {
  wafer_builder b = build_before(s, at, at);
  uint32_t rank = r->shape.rank;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_starts, .ints = {rank, r->starts}},
                        {.id = WAFER_ATTR_steps, .ints = {rank, r->steps}},
                        {.id = WAFER_ATTR_shape, .ints = {rank, r->shape.dims}}};
  return wafer_build(&b, WAFER_OP_slice, 1, &x, attrs, 3, value);
}

/* All of x. */
static range whole_of(const wafer_shape *x) {
  range r = {.shape = *x};
  for (uint32_t d = 0; d < x->rank; d++) r.steps[d] = 1;
  return r;
}

static void take_dim(range *to, uint32_t d, const range *from, uint32_t of) {
  to->starts[d] = from->starts[of];
  to->steps[d] = from->steps[of];
  to->shape.dims[d] = from->shape.dims[of];
}

/* slice(slice(x)) -> slice(x) */
static wafer_status of_slice(simplifier *s, MlirOperation op, MlirOperation before, const range *r,
                             MlirValue *value) {
  range inner, both = *r;
  WAFER_TRY(range_of(s, before, &inner));
  for (uint32_t d = 0; d < r->shape.rank; d++)
    if (r->shape.dims[d] == 0 ||
        __builtin_mul_overflow(r->steps[d], inner.steps[d], &both.steps[d]) ||
        __builtin_mul_overflow(r->starts[d], inner.steps[d], &both.starts[d]) ||
        __builtin_add_overflow(both.starts[d], inner.starts[d], &both.starts[d]))
      return WAFER_OK;
  return build_range(s, op, mlirOperationGetOperand(before, 0), &both, value);
}

static bool takes_all(const range *r, const wafer_shape *x, uint32_t d) {
  return r->starts[d] == 0 && r->steps[d] == 1 && r->shape.dims[d] == x->dims[d];
}

/* The dim of `x` that is dim `of` of its reshape `y`: as long, with as much around it. False: none
 * is. */
static bool dim_of(const wafer_shape *x, const wafer_shape *y, uint32_t of, uint32_t *dim) {
  int64_t around = 1, outside = 1;
  for (uint32_t i = 0; i < of; i++) outside *= y->dims[i];
  for (uint32_t d = 0; d < x->rank && around <= outside; around *= x->dims[d++]) {
    if (around != outside || x->dims[d] != y->dims[of]) continue;
    *dim = d;
    return true;
  }
  return false;
}

/* slice(reshape(x)) -> reshape(slice(x)) where x has the dims of which not all is taken */
static wafer_status of_reshape(simplifier *s, MlirOperation op, MlirOperation before,
                               const range *r, MlirValue *value) {
  wafer_shape x = operand_type(before, 0).shape, y = result_type(before).shape;
  range moved = whole_of(&x);
  MlirValue part;
  for (uint32_t i = 0; i < y.rank; i++) {
    uint32_t d;
    if (takes_all(r, &y, i)) continue;
    if (r->shape.dims[i] == 0 || !dim_of(&x, &y, i, &d)) return WAFER_OK;
    take_dim(&moved, d, r, i);
  }
  WAFER_TRY(build_range(s, op, mlirOperationGetOperand(before, 0), &moved, &part));
  return build_reshape(s, op, part, &r->shape, value);
}

/* slice(concat(a, b)) -> slice(a) where nothing of b is wanted */
static wafer_status of_concat(simplifier *s, MlirOperation op, MlirOperation before, const range *r,
                              MlirValue *value) {
  wafer_attrs attrs;
  WAFER_TRY(wafer_ir_attrs(s->ctx, before, &attrs));
  uint32_t axis = (uint32_t)wafer_attr_int(&attrs, WAFER_ATTR_axis);
  int64_t first = r->starts[axis], end = 0, last;
  if (r->shape.dims[axis] == 0 ||
      __builtin_mul_overflow(r->shape.dims[axis] - 1, r->steps[axis], &last) ||
      __builtin_add_overflow(first, last, &last))
    return WAFER_OK;
  for (uint32_t i = 0; i < (uint32_t)mlirOperationGetNumOperands(before); i++) {
    int64_t begin = end;
    end += operand_type(before, i).shape.dims[axis];
    if (first < begin || first >= end) continue;
    if (last < begin || last >= end) return WAFER_OK;
    range part = *r;
    part.starts[axis] -= begin;
    return build_range(s, op, mlirOperationGetOperand(before, i), &part, value);
  }
  return WAFER_OK;
}

#define FEW 4

/* slice(concat(a, b)) -> concat(slice(a), slice(b)) where these come of several parts, too */
static wafer_status of_each(simplifier *s, MlirOperation op, MlirOperation before, const range *r,
                            MlirValue *value) {
  wafer_attrs attrs;
  MlirOperation joined;
  MlirValue parts[FEW];
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(before);
  WAFER_TRY(wafer_ir_attrs(s->ctx, before, &attrs));
  uint32_t axis = (uint32_t)wafer_attr_int(&attrs, WAFER_ATTR_axis);
  wafer_shape all = result_type(before).shape;
  if (count > FEW || !takes_all(r, &all, axis)) return WAFER_OK;
  for (uint32_t i = 0; i < count; i++)
    if (!made_by(before, i, WAFER_OP_concat, &joined)) return WAFER_OK;
  for (uint32_t i = 0; i < count; i++) {
    range part = *r;
    part.shape.dims[axis] = operand_type(before, i).shape.dims[axis];
    WAFER_TRY(build_range(s, op, mlirOperationGetOperand(before, i), &part, &parts[i]));
  }
  wafer_builder b = build_before(s, op, op);
  wafer_attr attr = {.id = WAFER_ATTR_axis, .i = axis};
  return wafer_build(&b, WAFER_OP_concat, count, parts, &attr, 1, value);
}

static wafer_status of_joined(simplifier *s, MlirOperation op, MlirOperation before, const range *r,
                              MlirValue *value) {
  WAFER_TRY(of_concat(s, op, before, r, value));
  return mlirValueIsNull(*value) ? of_each(s, op, before, r, value) : WAFER_OK;
}

/* slice(transpose(concat)) -> transpose(slice(concat)) where that leaves one operand */
static wafer_status of_transpose(simplifier *s, MlirOperation op, MlirOperation before,
                                 const range *r, MlirValue *value) {
  MlirOperation joined;
  wafer_attrs attrs;
  uint32_t rank;
  MlirValue part = {NULL};
  if (!made_by(before, 0, WAFER_OP_concat, &joined)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, before, &attrs));
  const int64_t *perm = wafer_attr_ints(&attrs, WAFER_ATTR_perm, &rank);
  wafer_shape x = operand_type(before, 0).shape;
  range moved = whole_of(&x);
  for (uint32_t i = 0; i < rank; i++) take_dim(&moved, (uint32_t)perm[i], r, i);
  WAFER_TRY(of_concat(s, op, joined, &moved, &part));
  if (mlirValueIsNull(part)) return WAFER_OK;
  return build_transpose(s, op, part, rank, perm, value);
}

wafer_status rewrite_slice(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirOperation before = maker(mlirOperationGetOperand(op, 0));
  range r;
  if (mlirOperationIsNull(before)) return WAFER_OK;
  WAFER_TRY(range_of(s, op, &r));
  switch (wafer_ir_op(before)) {
  case WAFER_OP_slice: return of_slice(s, op, before, &r, value);
  case WAFER_OP_reshape: return of_reshape(s, op, before, &r, value);
  case WAFER_OP_concat: return of_joined(s, op, before, &r, value);
  case WAFER_OP_transpose: return of_transpose(s, op, before, &r, value);
  default: return WAFER_OK;
  }
}

/* ---- gather of indices in equal steps ---- */

typedef struct progression {
  int64_t start, step, count;
} progression;

static bool progression_of(const wafer_view *indices, int64_t dim, progression *p) {
  if (!wafer_shape_elements(&indices->shape, &p->count) || p->count < 1) return false;
  p->step = 1;
  for (int64_t i = 0, last = 0; i < p->count; i++) {
    int64_t at = wafer_element_i64(indices->dtype, indices->data, i);
    at += at < 0 ? dim : 0;
    if (at < 0 || at >= dim) return false;
    if (i == 0) p->start = at;
    if (i == 1) p->step = at - last;
    if (i > 0 && (at - last != p->step || p->step == 0)) return false;
    last = at;
  }
  return true;
}

wafer_status rewrite_gather(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  wafer_view indices;
  progression p;
  MlirValue x = mlirOperationGetOperand(op, 0), rows;
  if (!wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(op, 1), &indices)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  uint32_t axis = (uint32_t)wafer_attr_int(&attrs, WAFER_ATTR_axis);
  wafer_type type = wafer_ir_value_type(x), whole = result_type(op);
  if (!progression_of(&indices, type.shape.dims[axis], &p)) return WAFER_OK;
  range r = whole_of(&type.shape);
  r.starts[axis] = p.start;
  r.steps[axis] = p.step;
  r.shape.dims[axis] = p.count;
  WAFER_TRY(build_range(s, op, x, &r, &rows));
  return build_reshape(s, op, rows, &whole.shape, value);
}

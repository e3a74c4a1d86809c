/* Derivatives of reductions, softmax and batch_norm. */
#include "grad.h"

/* The dims of a reduction as a bit set; `kept` is the operand's shape with 1 in their place. */
static uint32_t reduced(const grad *d, wafer_shape *kept) {
  uint32_t count, dims = 0;
  const int64_t *axes = grad_ints(d, WAFER_ATTR_axes, &count);
  *kept = grad_shape(d, d->x[0]);
  for (uint32_t i = 0; i < count; i++) dims |= 1u << axes[i], kept->dims[axes[i]] = 1;
  return dims;
}

static MlirValue zero_of(grad *d) {
  return grad_scalar(d, d->x[0], 0);
}

static MlirValue as_number(grad *d, MlirValue truth) {
  return grad_cast(d, truth, grad_type(d, d->x[0]).dtype);
}

static MlirValue spread(grad *d, MlirValue x, const wafer_shape *kept) {
  wafer_shape shape = grad_shape(d, d->x[0]);
  return grad_expand(d, grad_reshape(d, x, kept), &shape);
}

void grad_rule_reduce_sum(grad *d) {
  wafer_shape kept;
  reduced(d, &kept);
  d->part[0] = spread(d, d->g, &kept);
}

void grad_rule_reduce_mean(grad *d) {
  wafer_shape kept, x = grad_shape(d, d->x[0]);
  reduced(d, &kept);
  int64_t all = grad_elements(&x, 0, x.rank), left = grad_elements(&kept, 0, x.rank);
  double share = all ? (double)left / (double)all : 0;
  d->part[0] = spread(d, MUL(d->g, grad_scalar(d, d->g, share)), &kept);
}

/* Equal extremes share the gradient. */
void grad_rule_reduce_extreme(grad *d) {
  wafer_shape kept;
  uint32_t dims = reduced(d, &kept);
  MlirValue at = EQUAL(d->x[0], grad_reshape(d, d->y, &kept));
  MlirValue ties = grad_reduce(d, WAFER_OP_reduce_sum, as_number(d, at), dims, true);
  MlirValue each = DIV(grad_reshape(d, d->g, &kept), ties);
  d->part[0] = grad_select(d, at, each, zero_of(d));
}

/* The product of the others is y / x; where x is 0, the product of what is not 0 when it is the
 * only one. */
void grad_rule_reduce_prod(grad *d) {
  wafer_shape kept;
  uint32_t dims = reduced(d, &kept);
  MlirValue x = d->x[0], zero = zero_of(d), one = grad_scalar(d, x, 1), is_zero = EQUAL(x, zero);
  MlirValue zeros = grad_reduce(d, WAFER_OP_reduce_sum, as_number(d, is_zero), dims, true);
  MlirValue filled = grad_select(d, is_zero, one, x);
  MlirValue rest =
      MUL(grad_reduce(d, WAFER_OP_reduce_prod, filled, dims, true), grad_reshape(d, d->g, &kept));
  MlirValue at_zero = grad_select(d, EQUAL(zeros, one), rest, zero);
  MlirValue elsewhere = grad_select(d, EQUAL(zeros, zero), rest, zero);
  d->part[0] = grad_select(d, is_zero, at_zero, DIV(elsewhere, filled));
}

/* y * (g - the sum of g * y) */
void grad_rule_softmax(grad *d) {
  uint32_t axis = (uint32_t)grad_int(d, WAFER_ATTR_axis);
  MlirValue sum = grad_reduce(d, WAFER_OP_reduce_sum, MUL(d->g, d->y), 1u << axis, true);
  d->part[0] = MUL(d->y, SUB(d->g, sum));
}

/* y = (x - mean) * scale / sqrt(variance + epsilon) + bias, all but x per channel. */
void grad_rule_batch_norm(grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]), per = {.rank = x.rank};
  MlirValue c[5] = {d->x[0]};
  for (uint32_t i = 0; i < x.rank; i++) per.dims[i] = i == 1 ? x.dims[1] : 1;
  for (uint32_t i = 1; i < 5; i++) c[i] = grad_reshape(d, d->x[i], &per);
  MlirValue epsilon = grad_scalar(d, c[4], wafer_attr_float(&d->attrs, WAFER_ATTR_epsilon));
  MlirValue variance = ADD(c[4], epsilon);
  MlirValue narrow = grad_unary(d, WAFER_OP_reciprocal, grad_unary(d, WAFER_OP_sqrt, variance));
  MlirValue by_x = MUL(d->g, MUL(c[1], narrow)), centered = SUB(d->x[0], c[3]);
  MlirValue parts[5] = {by_x, {NULL}, d->g, {NULL}, {NULL}};
  if (d->wanted[1]) parts[1] = MUL(d->g, MUL(centered, narrow));
  if (d->wanted[3]) parts[3] = grad_unary(d, WAFER_OP_neg, by_x);
  if (d->wanted[4]) parts[4] = DIV(MUL(MUL(by_x, centered), grad_scalar(d, by_x, -0.5)), variance);
  d->part[0] = by_x;
  for (uint32_t i = 1; i < 5; i++)
    if (d->wanted[i])
      d->part[i] = grad_reshape_to(d, grad_summed_to(d, parts[i], c[i]), 1, &x.dims[1]);
}

/* Derivatives of elementwise ops. `a` and `b` are operands, `y` the result, `g` its gradient. */
#include "grad.h"

#define RULE(name) void grad_rule_##name(grad *d)
#define A d->x[0]
#define B d->x[1]
#define Y d->y
#define G d->g
#define NUMBER(value) grad_scalar(d, d->y, value)

static MlirValue negated(grad *d, MlirValue x) {
  return grad_unary(d, WAFER_OP_neg, x);
}
static MlirValue square(grad *d, MlirValue x) {
  return MUL(x, x);
}
static MlirValue root(grad *d, MlirValue x) {
  return grad_unary(d, WAFER_OP_sqrt, x);
}

/* ---- One operand ---- */

RULE(abs) {
  d->part[0] = MUL(G, grad_unary(d, WAFER_OP_sign, A));
}
RULE(neg) {
  d->part[0] = negated(d, G);
}
RULE(relu) {
  d->part[0] = grad_select(d, LESS(NUMBER(0), A), G, NUMBER(0));
}
RULE(sqrt) {
  d->part[0] = DIV(G, ADD(Y, Y));
}
RULE(reciprocal) {
  d->part[0] = negated(d, MUL(G, square(d, Y)));
}
RULE(exp) {
  d->part[0] = MUL(G, Y);
}
RULE(log) {
  d->part[0] = DIV(G, A);
}
RULE(sin) {
  d->part[0] = MUL(G, grad_unary(d, WAFER_OP_cos, A));
}
RULE(cos) {
  d->part[0] = negated(d, MUL(G, grad_unary(d, WAFER_OP_sin, A)));
}
RULE(tan) {
  d->part[0] = MUL(G, ADD(square(d, Y), NUMBER(1)));
}
RULE(asin) {
  d->part[0] = DIV(G, root(d, SUB(NUMBER(1), square(d, A))));
}
RULE(acos) {
  d->part[0] = negated(d, DIV(G, root(d, SUB(NUMBER(1), square(d, A)))));
}
RULE(atan) {
  d->part[0] = DIV(G, ADD(square(d, A), NUMBER(1)));
}
RULE(sinh) {
  d->part[0] = MUL(G, grad_unary(d, WAFER_OP_cosh, A));
}
RULE(cosh) {
  d->part[0] = MUL(G, grad_unary(d, WAFER_OP_sinh, A));
}
RULE(asinh) {
  d->part[0] = DIV(G, root(d, ADD(square(d, A), NUMBER(1))));
}
RULE(acosh) {
  d->part[0] = DIV(G, root(d, SUB(square(d, A), NUMBER(1))));
}
RULE(atanh) {
  d->part[0] = DIV(G, SUB(NUMBER(1), square(d, A)));
}
RULE(tanh) {
  d->part[0] = MUL(G, SUB(NUMBER(1), square(d, Y)));
}
/* 2 / sqrt(pi) * exp(-a^2) */
RULE(erf) {
  MlirValue bell = grad_unary(d, WAFER_OP_exp, negated(d, square(d, A)));
  d->part[0] = MUL(G, MUL(bell, NUMBER(1.1283791670955126)));
}
RULE(sigmoid) {
  d->part[0] = MUL(G, MUL(Y, SUB(NUMBER(1), Y)));
}
RULE(softplus) {
  d->part[0] = MUL(G, grad_unary(d, WAFER_OP_sigmoid, A));
}

/* Inside the limits, which count as inside. */
RULE(clip) {
  double least = wafer_attr_float(&d->attrs, WAFER_ATTR_min);
  double most = wafer_attr_float(&d->attrs, WAFER_ATTR_max);
  MlirValue above = grad_binary(d, WAFER_OP_less_equal, NUMBER(least), A);
  MlirValue below = grad_binary(d, WAFER_OP_less_equal, A, NUMBER(most));
  MlirValue inside = grad_binary(d, WAFER_OP_and, above, below);
  d->part[0] = grad_select(d, inside, G, NUMBER(0));
}

/* The gradient is cast back with all others. */
RULE(cast) {
  d->part[0] = G;
}

/* ---- Two operands ---- */

RULE(add) {
  d->part[0] = d->part[1] = G;
}
RULE(sub) {
  d->part[0] = G;
  if (d->wanted[1]) d->part[1] = negated(d, G);
}
RULE(mul) {
  if (d->wanted[0]) d->part[0] = MUL(G, B);
  if (d->wanted[1]) d->part[1] = MUL(G, A);
}
RULE(div) {
  MlirValue share = DIV(G, B);
  d->part[0] = share;
  if (d->wanted[1]) d->part[1] = negated(d, MUL(share, Y));
}

/* a - b * (a / b rounded): towards zero, or down. */
RULE(mod) {
  d->part[0] = G;
  if (!d->wanted[1]) return;
  MlirValue times = DIV(SUB(A, Y), B);
  d->part[1] = negated(d, MUL(G, grad_unary(d, WAFER_OP_round, times)));
}

/* The exponent may be of another type than the base and the result. */
RULE(pow) {
  wafer_dtype dtype = grad_type(d, Y).dtype;
  MlirValue zero = NUMBER(0), b = grad_cast(d, B, dtype);
  if (d->wanted[0]) {
    MlirValue less = grad_binary(d, WAFER_OP_pow, A, SUB(b, NUMBER(1)));
    d->part[0] = grad_select(d, EQUAL(b, zero), zero, MUL(G, MUL(b, less)));
  }
  if (d->wanted[1]) {
    MlirValue slope = MUL(Y, grad_unary(d, WAFER_OP_log, A));
    d->part[1] = MUL(G, grad_select(d, EQUAL(A, zero), zero, slope));
  }
}

/* Where both are equal each gets one half. */
static void share_extreme(grad *d, MlirValue first_wins) {
  MlirValue half = grad_select(d, EQUAL(A, B), MUL(G, NUMBER(0.5)), NUMBER(0));
  d->part[0] = grad_select(d, first_wins, G, half);
  if (!d->wanted[1]) return;
  MlirValue second_loses = grad_binary(d, WAFER_OP_or, first_wins, EQUAL(A, B));
  d->part[1] = grad_select(d, second_loses, half, G);
}
RULE(max) {
  share_extreme(d, LESS(B, A));
}
RULE(min) {
  share_extreme(d, LESS(A, B));
}

RULE(select) {
  MlirValue zero = NUMBER(0);
  if (d->wanted[1]) d->part[1] = grad_select(d, A, G, zero);
  if (d->wanted[2]) d->part[2] = grad_select(d, A, zero, G);
}

/* Losses: what each sums, and the model's output's part of its gradient. Both are written down
 * rather than derived, so that they are stable and share what they need. All is done in f32.
 *
 * Losses with classes see rows of classes, (R, C), and a label for each row. The label's class is
 * picked by comparing it with the number of each class, where e ^ y is computed anyway: a gather
 * would want the rows of many cores at one. */
#include <math.h>

#include "grad.h"

typedef struct loss_site {
  grad *d;
  const wafer_training_options *options;
  MlirValue y, t, seed; /* output and labels, rows where there are classes; seed: null */
  int64_t rows, classes;
  uint32_t all; /* dims of what is summed, as a bit set */
} loss_site;

static const wafer_training_options *training_of(const wafer_ctx *ctx) {
  return ctx->options->training;
}

static bool has_label_numbers(wafer_loss loss) {
  return loss == WAFER_LOSS_cross_entropy || loss == WAFER_LOSS_nll;
}
static bool has_classes(wafer_loss loss) {
  return has_label_numbers(loss) || loss == WAFER_LOSS_soft_cross_entropy;
}

static uint32_t class_axis(const wafer_training_options *o, uint32_t rank) {
  int64_t axis = o->class_axis ? o->class_axis : rank > 1 ? 1 : 0;
  return (uint32_t)(axis < 0 ? axis + rank : axis);
}

wafer_status grad_loss_labels(const wafer_ctx *ctx, wafer_ir *ir, const wafer_type *output,
                              wafer_type *labels) {
  const wafer_training_options *o = training_of(ctx);
  uint32_t rank = output->shape.rank, axis = class_axis(o, rank);
  wafer_loc loc = wafer_at_file(ir->file);
  *labels = *output;
  if (!wafer_dtype_is_float(output->dtype))
    return wafer_fail(ctx->diag, loc, WAFER_UNSUPPORTED,
                      "loss %s reads an output of type %s, needs floats; name another one with "
                      "--loss %s:OUTPUT",
                      wafer_loss_name(o->loss), wafer_dtype_name(output->dtype),
                      wafer_loss_name(o->loss));
  if (!has_classes(o->loss)) return WAFER_OK;
  if (axis >= rank)
    return wafer_fail(ctx->diag, loc, WAFER_USAGE, "loss %s: class axis %d of an output of %u dims",
                      wafer_loss_name(o->loss), o->class_axis, rank);
  if (!has_label_numbers(o->loss)) return WAFER_OK;
  if (output->shape.dims[axis] <= UINT32_MAX)
    wafer_ir_set_classes(ir, (uint32_t)output->shape.dims[axis]);
  *labels = (wafer_type){.dtype = WAFER_DTYPE_i64};
  for (uint32_t i = 0; i < rank; i++)
    if (i != axis) labels->shape.dims[labels->shape.rank++] = output->shape.dims[i];
  return WAFER_OK;
}

/* ---- Pieces ---- */

static MlirValue number(grad *d, double value) {
  return grad_splat(d, &(wafer_type){.dtype = WAFER_DTYPE_f32}, value);
}
static MlirValue total(const loss_site *s, MlirValue x) {
  return grad_reduce(s->d, WAFER_OP_reduce_sum, x, s->all, false);
}
static MlirValue row_sum(grad *d, MlirValue x) {
  return grad_reduce(d, WAFER_OP_reduce_sum, x, 2, true);
}

/* (..., C, ...) -> (R, C) */
static MlirValue class_rows(const loss_site *s, MlirValue x, uint32_t axis) {
  int64_t perm[WAFER_MAX_RANK];
  uint32_t rank = grad_shape(s->d, x).rank;
  for (uint32_t i = 0; i < rank; i++) perm[i] = i < axis ? i : i + 1 == rank ? axis : i + 1;
  return grad_reshape_to(s->d, grad_transpose(s->d, x, perm), 2, (int64_t[]){s->rows, s->classes});
}

/* (R, C) -> as x */
static MlirValue from_rows(const loss_site *s, MlirValue part, MlirValue x, uint32_t axis) {
  wafer_shape shape = grad_shape(s->d, x), moved = shape;
  int64_t perm[WAFER_MAX_RANK];
  uint32_t rank = shape.rank, last = rank - 1;
  for (uint32_t i = 0; i < rank; i++) {
    moved.dims[i] = shape.dims[i < axis ? i : i == last ? axis : i + 1];
    perm[i] = i < axis ? i : i == axis ? last : i - 1;
  }
  return grad_transpose(s->d, grad_reshape(s->d, part, &moved), perm);
}

/* Rows that count, (R, 1); null: all do. */
static MlirValue counted(const loss_site *s) {
  grad *d = s->d;
  MlirValue ignored = grad_scalar(d, s->t, (double)s->options->ignore_index);
  return grad_unary(d, WAFER_OP_not, EQUAL(s->t, ignored));
}

static MlirValue masked(grad *d, MlirValue valid, MlirValue x) {
  return mlirValueIsNull(valid) ? x : grad_select(d, valid, x, number(d, 0));
}

/* The softmax of the rows by its parts. */
typedef struct softmax {
  MlirValue z, e, sum; /* y - the largest, e ^ z, and its sum over the classes */
} softmax;

static softmax softmax_of(const loss_site *s) {
  grad *d = s->d;
  softmax p;
  p.z = SUB(s->y, grad_reduce(d, WAFER_OP_reduce_max, s->y, 2, true));
  p.e = grad_unary(d, WAFER_OP_exp, p.z);
  p.sum = row_sum(d, p.e);
  return p;
}

/* ---- Losses with a number as label ---- */

static void by_label(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  bool logits = s->options->loss == WAFER_LOSS_cross_entropy;
  softmax p = {.z = s->y};
  MlirValue valid = s->options->ignores ? counted(s) : (MlirValue){NULL};
  MlirValue here = EQUAL(s->t, grad_iota(d, s->classes)), zero = number(d, 0);
  if (logits) p = softmax_of(s);
  MlirValue picked = row_sum(d, grad_select(d, here, p.z, zero));
  MlirValue each = logits ? SUB(grad_unary(d, WAFER_OP_log, p.sum), picked)
                          : grad_unary(d, WAFER_OP_neg, picked);
  out->loss = total(s, masked(d, valid, each));
  out->count = mlirValueIsNull(valid) ? number(d, (double)s->rows)
                                      : total(s, grad_cast(d, valid, WAFER_DTYPE_f32));
  if (mlirValueIsNull(s->seed)) return;
  MlirValue seed = masked(d, valid, s->seed);
  if (logits) {
    MlirValue share = MUL(p.e, grad_unary(d, WAFER_OP_reciprocal, p.sum));
    out->part = MUL(grad_select(d, here, SUB(share, number(d, 1)), share), seed);
  } else {
    out->part = grad_select(d, here, grad_unary(d, WAFER_OP_neg, seed), zero);
  }
}

static MlirValue largest(grad *d, MlirValue rows) {
  wafer_attr attrs[] = {{.id = WAFER_ATTR_axis, .i = 1},
                        {.id = WAFER_ATTR_keepdims, .i = 1},
                        {.id = WAFER_ATTR_last, .i = 0}};
  return grad_op(d, WAFER_OP_arg_max, 1, &rows, WAFER_COUNT(attrs), attrs);
}

/* Of an ignored row no class is the label. */
static void count_correct(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  MlirValue answer = largest(d, s->y);
  bool numbers = has_label_numbers(s->options->loss);
  MlirValue right = EQUAL(answer, numbers ? s->t : largest(d, s->t));
  if (numbers && s->options->ignores) right = grad_binary(d, WAFER_OP_and, right, counted(s));
  out->correct = total(s, grad_cast(d, right, WAFER_DTYPE_f32));
}

/* ---- Losses with numbers of the output's shape ---- */

static void soft_cross_entropy(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  softmax p = softmax_of(s);
  out->loss = total(s, MUL(s->t, SUB(grad_unary(d, WAFER_OP_log, p.sum), p.z)));
  out->count = number(d, (double)s->rows);
  if (mlirValueIsNull(s->seed)) return;
  MlirValue share = MUL(p.e, DIV(row_sum(d, s->t), p.sum));
  out->part = MUL(SUB(share, s->t), s->seed);
}

static void mse(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  MlirValue off = SUB(s->y, s->t);
  out->loss = total(s, MUL(off, off));
  if (!mlirValueIsNull(s->seed)) out->part = MUL(off, MUL(s->seed, number(d, 2)));
}

static void l1(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  MlirValue off = SUB(s->y, s->t);
  out->loss = total(s, grad_unary(d, WAFER_OP_abs, off));
  if (!mlirValueIsNull(s->seed)) out->part = MUL(grad_unary(d, WAFER_OP_sign, off), s->seed);
}

static MlirValue safe_log(grad *d, MlirValue x) {
  wafer_attr attrs[] = {{.id = WAFER_ATTR_min, .f = -100}, {.id = WAFER_ATTR_max, .f = INFINITY}};
  MlirValue log = grad_unary(d, WAFER_OP_log, x);
  return grad_op(d, WAFER_OP_clip, 1, &log, WAFER_COUNT(attrs), attrs);
}

/* The gradient, (y - t) / (y (1 - y)), keeps away from 0 / 0 by 1e-12. */
static void bce(const loss_site *s, grad_loss *out) {
  grad *d = s->d;
  MlirValue one = number(d, 1), other = SUB(one, s->y);
  MlirValue yes = MUL(s->t, safe_log(d, s->y)), no = MUL(SUB(one, s->t), safe_log(d, other));
  out->loss = total(s, grad_unary(d, WAFER_OP_neg, ADD(yes, no)));
  if (mlirValueIsNull(s->seed)) return;
  MlirValue width = grad_binary(d, WAFER_OP_max, MUL(s->y, other), number(d, 1e-12));
  out->part = MUL(DIV(SUB(s->y, s->t), width), s->seed);
}

/* ---- Any ---- */

static void build(const loss_site *s, grad_loss *out) {
  switch (s->options->loss) {
  case WAFER_LOSS_soft_cross_entropy: soft_cross_entropy(s, out); break;
  case WAFER_LOSS_mse: mse(s, out); break;
  case WAFER_LOSS_l1: l1(s, out); break;
  case WAFER_LOSS_bce: bce(s, out); break;
  default: by_label(s, out);
  }
}

void grad_loss_build(grad *d, MlirValue y, MlirValue labels, MlirValue seed, grad_loss *out) {
  const wafer_training_options *o = training_of(d->b->ctx);
  wafer_type type = grad_type(d, y);
  uint32_t rank = type.shape.rank, axis = class_axis(o, rank);
  int64_t elements = grad_elements(&type.shape, 0, rank);
  bool classes = has_classes(o->loss);
  loss_site s = {.d = d, .options = o, .seed = seed, .all = classes ? 3 : (1u << rank) - 1};
  s.y = grad_cast(d, y, WAFER_DTYPE_f32);
  s.t = has_label_numbers(o->loss) ? labels : grad_cast(d, labels, WAFER_DTYPE_f32);
  *out = (grad_loss){.count = number(d, (double)elements)};
  if (classes) {
    s.classes = type.shape.dims[axis];
    s.rows = s.classes ? elements / s.classes : 0;
    s.y = class_rows(&s, s.y, axis);
    s.t = has_label_numbers(o->loss) ? grad_reshape_to(d, s.t, 2, (int64_t[]){s.rows, 1})
                                     : class_rows(&s, s.t, axis);
  }
  build(&s, out);
  if (classes && mlirValueIsNull(seed)) count_correct(&s, out);
  if (mlirValueIsNull(seed)) return;
  if (classes) out->part = from_rows(&s, out->part, y, axis);
  out->part = grad_cast(d, out->part, type.dtype);
}

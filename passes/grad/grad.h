/* Inside pass `grad`: rules of derivatives and what they build with. A failure sticks: after the
 * first one every helper returns a null value at once, so rules are plain expressions. */
#ifndef PASSES_GRAD_H
#define PASSES_GRAD_H

#include "wafer/grad.h"

/* One op on the way back. A rule sets `part` for operands that are `wanted`; parts that are larger
 * than their operand are summed over what was broadcast by the caller. */
typedef struct grad {
  wafer_builder *b;
  wafer_status status;
  MlirOperation op;
  wafer_attrs attrs;
  uint32_t count;                     /* operands */
  MlirValue x[WAFER_OP_MAX_OPERANDS]; /* operands */
  bool wanted[WAFER_OP_MAX_OPERANDS];
  MlirValue y, g; /* the result, and its gradient */
  MlirValue part[WAFER_OP_MAX_OPERANDS];
} grad;

typedef void grad_rule(grad *d);
#define OP(name, least, most, traits, shape, gradient, ...) grad_rule grad_rule_##gradient;
#include "wafer/ops.def"

/* ---- Building ---- */

wafer_type grad_type(const grad *d, MlirValue x);
wafer_shape grad_shape(const grad *d, MlirValue x);
/* Of dims from .. to - 1. */
int64_t grad_elements(const wafer_shape *shape, uint32_t from, uint32_t to);

MlirValue grad_op(grad *d, wafer_op op, uint32_t count, const MlirValue *operands,
                  uint32_t attr_count, const wafer_attr *attrs);
MlirValue grad_unary(grad *d, wafer_op op, MlirValue a);
MlirValue grad_binary(grad *d, wafer_op op, MlirValue a, MlirValue b);
MlirValue grad_select(grad *d, MlirValue condition, MlirValue yes, MlirValue no);
MlirValue grad_scalar(grad *d, MlirValue like, double value); /* of its element type */
MlirValue grad_splat(grad *d, const wafer_type *type, double value);
MlirValue grad_cast(grad *d, MlirValue x, wafer_dtype dtype);
MlirValue grad_reshape(grad *d, MlirValue x, const wafer_shape *shape);
MlirValue grad_reshape_to(grad *d, MlirValue x, uint32_t rank, const int64_t *dims);
MlirValue grad_expand(grad *d, MlirValue x, const wafer_shape *shape);
MlirValue grad_transpose(grad *d, MlirValue x, const int64_t *perm);
MlirValue grad_swap_last(grad *d, MlirValue x); /* the last two dims */
MlirValue grad_reduce(grad *d, wafer_op op, MlirValue x, uint32_t dims, bool keep); /* bit set */
/* `count` elements of dim `axis` from `start`, each `step` from the one before. */
MlirValue grad_slice(grad *d, MlirValue x, uint32_t axis, int64_t start, int64_t count,
                     int64_t step);
MlirValue grad_concat(grad *d, MlirValue a, MlirValue b, uint32_t axis);
/* Of all `count` values, in halves; `values` is used up, NULL: there was no memory for it. */
MlirValue grad_concat_all(grad *d, uint32_t count, MlirValue *values, uint32_t axis);
/* With `value`; begins, then ends, for every dim. */
MlirValue grad_pad(grad *d, MlirValue x, const int64_t *pads, double value);
MlirValue grad_gather(grad *d, MlirValue data, MlirValue index, uint32_t axis);
MlirValue grad_scatter(grad *d, MlirValue data, MlirValue index, MlirValue updates,
                       const char *mode);
MlirValue grad_constant(grad *d, const wafer_view *view); /* of data in the arena */
/* 0, 1, ... count - 1 as i64. */
MlirValue grad_iota(grad *d, int64_t count);
/* A dense tensor of the arena to be filled, its data NULL after a failure. */
wafer_view grad_tensor(grad *d, wafer_dtype dtype, uint32_t rank, const int64_t *dims);
/* Dim `axis` of x, of n elements, becomes one of m: times a row-major matrix of n x m. */
MlirValue grad_contract(grad *d, MlirValue x, uint32_t axis, int64_t m, const double *matrix);
/* Summed over the dims along which x was broadcast to g; cast to its type. */
MlirValue grad_summed_to(grad *d, MlirValue g, MlirValue x);
void grad_unsupported(grad *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

int64_t grad_int(const grad *d, wafer_attr_id id);
const int64_t *grad_ints(const grad *d, wafer_attr_id id, uint32_t *count);

#define ADD(a, b) grad_binary(d, WAFER_OP_add, a, b)
#define SUB(a, b) grad_binary(d, WAFER_OP_sub, a, b)
#define MUL(a, b) grad_binary(d, WAFER_OP_mul, a, b)
#define DIV(a, b) grad_binary(d, WAFER_OP_div, a, b)
#define LESS(a, b) grad_binary(d, WAFER_OP_less, a, b)
#define EQUAL(a, b) grad_binary(d, WAFER_OP_equal, a, b)

/* ---- Parts of the pass ---- */

/* What a loss makes of the model's output y. */
typedef struct grad_loss {
  MlirValue loss, count, correct; /* f32 scalars; correct: null but where it was asked for */
  MlirValue part;                 /* y's gradient; null without a seed */
} grad_loss;

/* The labels that a loss takes; UNSUPPORTED names what does not fit the output. */
wafer_status grad_loss_labels(const wafer_ctx *ctx, wafer_ir *ir, const wafer_type *output,
                              wafer_type *labels);
/* `seed` null: no gradient, but `correct` for the losses that have it. */
void grad_loss_build(grad *d, MlirValue y, MlirValue labels, MlirValue seed, grad_loss *out);

/* Gradients that are too large for a wafer to hold while they are made become one product each;
 * needs a machine, without which nothing is too large. */
wafer_status grad_join(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation end);
/* A part of a parameter's gradient that waits for another one, to be added to it, waits as the
 * factors of its product where these are hardly larger: a tied table's, from the head to the
 * embedding. */
void grad_defer(MlirOperation end);
/* The backward pass of a finished training step computes activations again, all but a few. */
wafer_status grad_recompute(const wafer_ctx *ctx, wafer_ir *ir);
/* Whether the step fits the wafer; needs a machine. */
wafer_status grad_fits(const wafer_ctx *ctx, wafer_ir *ir, bool *fits);

#endif

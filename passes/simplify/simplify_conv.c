/* What follows a convolution and is linear per output channel moves into its weights and bias. */
#include <math.h>

#include "simplify_channel.h"

/* y = scale[k] * conv + shift[k] for output channel k; NULL: ones, zeros. */
typedef struct affine {
  int64_t channels;
  double *scale, *shift;
} affine;

/* ---- Into the convolution ---- */

/* The output channel that element `i` of the weight belongs to. */
typedef struct weight_channels {
  bool transposed;
  int64_t group, inner; /* elements behind one (row, column) of the first two dims */
  const wafer_shape *shape;
} weight_channels;

static int64_t channel_of(const weight_channels *w, int64_t i) {
  int64_t row = i / w->inner / w->shape->dims[1], column = i / w->inner % w->shape->dims[1];
  if (!w->transposed) return row;
  return row / (w->shape->dims[0] / w->group) * w->shape->dims[1] + column;
}

static wafer_status scaled_weight(const simplifier *s, MlirOperation conv, wafer_builder *b,
                                  const affine *a, MlirValue *value) {
  wafer_attrs attrs;
  wafer_view view;
  int64_t count;
  *value = mlirOperationGetOperand(conv, 1);
  if (!a->scale || channel_all(a->scale, a->channels, 1)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, conv, &attrs));
  if (!wafer_ir_constant(s->ctx, s->ir, *value, &view) ||
      !wafer_shape_elements(&view.shape, &count))
    return channel_no_memory(s, conv); /* it was one before */
  weight_channels w = {.transposed = wafer_ir_op(conv) == WAFER_OP_conv_transpose,
                       .group = wafer_attr_int(&attrs, WAFER_ATTR_group),
                       .inner = 1,
                       .shape = &view.shape};
  for (uint32_t d = 2; d < view.shape.rank; d++) w.inner *= view.shape.dims[d];
  void *data = wafer_arena_alloc(s->ctx->arena, (size_t)count, wafer_dtype_bytes(view.dtype));
  if (!data) return channel_no_memory(s, conv);
  for (int64_t i = 0; i < count; i++)
    wafer_element_set_f64(view.dtype, data, i,
                          wafer_element_f64(view.dtype, view.data, i) *
                              a->scale[channel_of(&w, i)]);
  wafer_view scaled = wafer_view_of(view.dtype, &view.shape, data);
  const char *name = wafer_arena_printf(s->ctx->arena, "%s.weight", wafer_ir_node_name(conv));
  return name ? wafer_build_constant(b, name, &scaled, value) : channel_no_memory(s, conv);
}

/* bias * scale + shift; null when there is none and nothing to add. */
static wafer_status moved_bias(const simplifier *s, MlirOperation conv, wafer_builder *b,
                               const affine *a, MlirValue *value) {
  bool had = mlirOperationGetNumOperands(conv) == 3;
  wafer_view bias = {0};
  wafer_dtype dtype = result_type(conv).dtype;
  *value = (MlirValue){NULL};
  if (!had && (!a->shift || channel_all(a->shift, a->channels, 0))) return WAFER_OK;
  if (had && !wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(conv, 2), &bias))
    return channel_no_memory(s, conv); /* it was one before */
  void *data = wafer_arena_alloc(s->ctx->arena, (size_t)a->channels, wafer_dtype_bytes(dtype));
  if (!data) return channel_no_memory(s, conv);
  for (int64_t k = 0; k < a->channels; k++) {
    double old = had ? wafer_element_f64(dtype, bias.data, k) : 0;
    double moved = old * (a->scale ? a->scale[k] : 1) + (a->shift ? a->shift[k] : 0);
    wafer_element_set_f64(dtype, data, k, moved);
  }
  wafer_shape shape = {.rank = 1, .dims = {a->channels}};
  wafer_view view = wafer_view_of(dtype, &shape, data);
  const char *name = wafer_arena_printf(s->ctx->arena, "%s.bias", wafer_ir_node_name(conv));
  return name ? wafer_build_constant(b, name, &view, value) : channel_no_memory(s, conv);
}

/* A convolution that nobody else needs and whose weights can be changed. */
static bool foldable(const simplifier *s, MlirValue value, MlirOperation *conv) {
  *conv = maker(value);
  if (mlirOperationIsNull(*conv) || !used_once(*conv)) return false;
  wafer_op id = wafer_ir_op(*conv);
  if (id != WAFER_OP_conv && id != WAFER_OP_conv_transpose) return false;
  if (!channel_dtype(result_type(*conv).dtype) || !channel_readable(s, *conv, 1)) return false;
  return mlirOperationGetNumOperands(*conv) == 2 || channel_readable(s, *conv, 2);
}

static wafer_status fold_into(const simplifier *s, MlirOperation at, MlirOperation conv,
                              const affine *a, MlirValue *value) {
  wafer_builder b = build_before(s, at, conv);
  MlirValue operands[3] = {mlirOperationGetOperand(conv, 0)};
  wafer_attrs attrs;
  WAFER_TRY(wafer_ir_attrs(s->ctx, conv, &attrs));
  WAFER_TRY(scaled_weight(s, conv, &b, a, &operands[1]));
  WAFER_TRY(moved_bias(s, conv, &b, a, &operands[2]));
  uint32_t count = mlirValueIsNull(operands[2]) ? 2 : 3;
  return wafer_build(&b, wafer_ir_op(conv), count, operands, attrs.at, attrs.count, value);
}

/* ---- batch_norm ---- */

static wafer_status channel_constant(const simplifier *s, wafer_builder *b, const wafer_type *type,
                                     const double *values, MlirValue *value) {
  wafer_shape shape = {.rank = type->shape.rank - 1,
                       .dims = {type->shape.dims[1], 1, 1, 1, 1, 1, 1, 1}};
  void *data =
      wafer_arena_alloc(s->ctx->arena, (size_t)shape.dims[0], wafer_dtype_bytes(type->dtype));
  const char *name =
      wafer_arena_printf(s->ctx->arena, "%s.affine", b->loc.name ? b->loc.name : "folded");
  if (!data || !name)
    return wafer_fail(s->ctx->diag, b->loc, WAFER_NO_MEMORY, "no memory to fold weights");
  for (int64_t k = 0; k < shape.dims[0]; k++)
    wafer_element_set_f64(type->dtype, data, k, values[k]);
  wafer_view view = wafer_view_of(type->dtype, &shape, data);
  return wafer_build_constant(b, name, &view, value);
}

/* x * scale + shift with constants. */
static wafer_status mul_add(const simplifier *s, MlirOperation op, const affine *a,
                            MlirValue *value) {
  wafer_builder b = build_before(s, op, op);
  wafer_type type = result_type(op);
  MlirValue operands[2] = {mlirOperationGetOperand(op, 0)};
  WAFER_TRY(channel_constant(s, &b, &type, a->scale, &operands[1]));
  WAFER_TRY(wafer_build(&b, WAFER_OP_mul, 2, operands, NULL, 0, &operands[0]));
  WAFER_TRY(channel_constant(s, &b, &type, a->shift, &operands[1]));
  return wafer_build(&b, WAFER_OP_add, 2, operands, NULL, 0, value);
}

enum { BN_X, BN_SCALE, BN_BIAS, BN_MEAN, BN_VARIANCE };

/* (x - mean) / sqrt(variance + epsilon) * scale + bias of parameters that are not constants. */
static wafer_status expand_batch_norm(const simplifier *s, MlirOperation op, double epsilon,
                                      MlirValue *value) {
  wafer_builder b = build_before(s, op, op);
  wafer_type type = result_type(op);
  wafer_shape shape = {.rank = type.shape.rank - 1,
                       .dims = {type.shape.dims[1], 1, 1, 1, 1, 1, 1, 1}};
  MlirValue p[5] = {mlirOperationGetOperand(op, BN_X)}, pair[2];
  wafer_type scalar = {.dtype = operand_type(op, BN_VARIANCE).dtype};
  for (uint32_t i = BN_SCALE; i <= BN_VARIANCE; i++)
    WAFER_TRY(build_reshape(s, op, mlirOperationGetOperand(op, i), &shape, &p[i]));
  pair[0] = p[BN_VARIANCE];
  WAFER_TRY(wafer_build_splat(&b, &scalar, epsilon, &pair[1]));
  WAFER_TRY(wafer_build(&b, WAFER_OP_add, 2, pair, NULL, 0, &pair[0]));
  WAFER_TRY(wafer_build(&b, WAFER_OP_sqrt, 1, pair, NULL, 0, &pair[1]));
  pair[0] = p[BN_SCALE];
  WAFER_TRY(wafer_build(&b, WAFER_OP_div, 2, pair, NULL, 0, &p[BN_SCALE]));
  WAFER_TRY(
      wafer_build(&b, WAFER_OP_sub, 2, (MlirValue[]){p[BN_X], p[BN_MEAN]}, NULL, 0, &pair[0]));
  pair[1] = p[BN_SCALE];
  WAFER_TRY(wafer_build(&b, WAFER_OP_mul, 2, pair, NULL, 0, &pair[0]));
  pair[1] = p[BN_BIAS];
  return wafer_build(&b, WAFER_OP_add, 2, pair, NULL, 0, value);
}

static bool read_parameters(const simplifier *s, MlirOperation op, wafer_view views[5]) {
  for (uint32_t i = BN_SCALE; i <= BN_VARIANCE; i++)
    if (!wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(op, i), &views[i])) return false;
  return true;
}

wafer_status rewrite_batch_norm(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_view p[5];
  wafer_attrs attrs;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  double epsilon = wafer_attr_float(&attrs, WAFER_ATTR_epsilon);
  if (!read_parameters(s, op, p)) return expand_batch_norm(s, op, epsilon, value);
  affine a = {.channels = result_type(op).shape.dims[1]};
  a.scale = WAFER_NEW(s->ctx->arena, double, (size_t)a.channels);
  a.shift = WAFER_NEW(s->ctx->arena, double, (size_t)a.channels);
  if (!a.scale || !a.shift) return channel_no_memory(s, op);
  for (int64_t k = 0; k < a.channels; k++) {
    double variance = wafer_element_f64(p[BN_VARIANCE].dtype, p[BN_VARIANCE].data, k);
    double mean = wafer_element_f64(p[BN_MEAN].dtype, p[BN_MEAN].data, k);
    a.scale[k] =
        wafer_element_f64(p[BN_SCALE].dtype, p[BN_SCALE].data, k) / sqrt(variance + epsilon);
    a.shift[k] = wafer_element_f64(p[BN_BIAS].dtype, p[BN_BIAS].data, k) - mean * a.scale[k];
  }
  MlirOperation conv;
  bool finite = channel_finite(a.scale, a.channels) && channel_finite(a.shift, a.channels);
  if (finite && foldable(s, mlirOperationGetOperand(op, BN_X), &conv))
    return fold_into(s, op, conv, &a, value);
  return mul_add(s, op, &a, value);
}

/* ---- mul, add, sub, div by a constant per channel ---- */

/* What `op` does to the convolution at operand `at` with the constant c at the other operand.
 * False: not affine in it. */
static bool affine_of(wafer_op op, uint32_t at, double *c, affine *a, double *spare) {
  int64_t count = a->channels;
  switch (op) {
  case WAFER_OP_mul: a->scale = c; return true;
  case WAFER_OP_add: a->shift = c; return true;
  case WAFER_OP_sub:
    for (int64_t k = 0; k < count; k++) spare[k] = at == 0 ? -c[k] : -1;
    a->shift = at == 0 ? spare : c;
    a->scale = at == 0 ? NULL : spare;
    return true;
  case WAFER_OP_div:
    for (int64_t k = 0; k < count; k++) spare[k] = 1 / c[k];
    a->scale = spare;
    return at == 0;
  default: return false;
  }
}

static wafer_status scale_at(simplifier *s, MlirOperation op, uint32_t at, MlirValue *value) {
  MlirOperation conv;
  MlirValue x = mlirOperationGetOperand(op, at), other = mlirOperationGetOperand(op, 1 - at);
  if (!wafer_ir_is_constant(other) || !foldable(s, x, &conv)) return WAFER_OK;
  wafer_type type = result_type(conv), whole = result_type(op);
  if (!wafer_shape_equal(&type.shape, &whole.shape)) return WAFER_OK;
  affine a = {.channels = type.shape.dims[1]};
  double *c = WAFER_NEW(s->ctx->arena, double, (size_t)a.channels);
  double *spare = WAFER_NEW(s->ctx->arena, double, (size_t)a.channels);
  if (!c || !spare) return channel_no_memory(s, op);
  if (!channel_values(s, other, &type, c) || !affine_of(wafer_ir_op(op), at, c, &a, spare))
    return WAFER_OK;
  if (a.scale && !channel_finite(a.scale, a.channels)) return WAFER_OK;
  return fold_into(s, op, conv, &a, value);
}

wafer_status rewrite_scale(simplifier *s, MlirOperation op, MlirValue *value) {
  WAFER_TRY(scale_at(s, op, 0, value));
  return mlirValueIsNull(*value) ? scale_at(s, op, 1, value) : WAFER_OK;
}

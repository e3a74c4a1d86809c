/* What precedes a convolution: zeros around its input become pads, and what is linear per input
 * channel moves into its weights and bias. */
#include <string.h>

#include "simplify_channel.h"

/* ---- conv(pad(x)) ---- */

/* Zeros around the spatial dims alone. */
static bool is_zero_frame(const wafer_attrs *pad, const int64_t **pads, uint32_t *rank) {
  *pads = wafer_attr_ints(pad, WAFER_ATTR_pads, rank);
  *rank /= 2;
  if (strcmp(wafer_attr_string(pad, WAFER_ATTR_mode), "constant") ||
      wafer_attr_float(pad, WAFER_ATTR_fill) != 0)
    return false;
  for (uint32_t d = 0; d < 2 * *rank; d++)
    if ((*pads)[d] < 0 || (d % *rank < 2 && (*pads)[d] != 0)) return false;
  return true;
}

wafer_status rewrite_padded_conv(simplifier *s, MlirOperation op, MlirValue *value) {
  MlirOperation pad;
  wafer_attrs frame, attrs;
  const int64_t *outer;
  uint32_t rank, count = (uint32_t)mlirOperationGetNumOperands(op);
  if (!made_by(op, 0, WAFER_OP_pad, &pad)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, pad, &frame));
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  if (!is_zero_frame(&frame, &outer, &rank)) return WAFER_OK;
  int64_t pads[2 * WAFER_MAX_RANK];
  uint32_t inner_count, spatial = rank - 2;
  const int64_t *inner = wafer_attr_ints(&attrs, WAFER_ATTR_pads, &inner_count);
  for (uint32_t d = 0; d < spatial; d++) {
    pads[d] = inner[d] + outer[d + 2];
    pads[spatial + d] = inner[spatial + d] + outer[rank + d + 2];
  }
  wafer_attr *own = wafer_arena_copy(s->ctx->arena, attrs.at, attrs.count * sizeof *attrs.at);
  MlirValue operands[3] = {mlirOperationGetOperand(pad, 0)};
  if (!own) return channel_no_memory(s, op);
  for (uint32_t i = 0; i < attrs.count; i++)
    if (own[i].id == WAFER_ATTR_pads) own[i].ints.at = pads;
  for (uint32_t i = 1; i < count; i++) operands[i] = mlirOperationGetOperand(op, i);
  wafer_builder b = build_before(s, op, op);
  return wafer_build(&b, WAFER_OP_conv, count, operands, own, attrs.count, value);
}

/* ---- conv(x * c), conv(x + c) ---- */

/* Of a weight (K, C/group, ...): the input channel of an element. */
typedef struct input_channels {
  int64_t group, inner;
  const wafer_shape *shape;
} input_channels;

static int64_t input_channel(const input_channels *w, int64_t i) {
  int64_t row = i / w->inner / w->shape->dims[1], column = i / w->inner % w->shape->dims[1];
  return row / (w->shape->dims[0] / w->group) * w->shape->dims[1] + column;
}

static bool has_no_pads(const wafer_attrs *attrs) {
  uint32_t count;
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &count);
  for (uint32_t i = 0; i < count; i++)
    if (pads[i] != 0) return false;
  return true;
}

typedef struct moving {
  MlirOperation conv, before;
  wafer_attrs attrs;
  wafer_view weight;
  input_channels channels;
  int64_t count;   /* elements of the weight */
  const double *c; /* per input channel */
} moving;

/* w' = w * c */
static wafer_status scale_weight(const simplifier *s, const moving *m, wafer_builder *b,
                                 MlirValue *value) {
  wafer_dtype dtype = m->weight.dtype;
  void *data = wafer_arena_alloc(s->ctx->arena, (size_t)m->count, wafer_dtype_bytes(dtype));
  const char *name = wafer_arena_printf(s->ctx->arena, "%s.weight", wafer_ir_node_name(m->conv));
  if (!data || !name) return channel_no_memory(s, m->conv);
  for (int64_t i = 0; i < m->count; i++)
    wafer_element_set_f64(dtype, data, i,
                          wafer_element_f64(dtype, m->weight.data, i) *
                              m->c[input_channel(&m->channels, i)]);
  wafer_view scaled = wafer_view_of(dtype, &m->weight.shape, data);
  return wafer_build_constant(b, name, &scaled, value);
}

/* bias'[k] = bias[k] + sum of w[k] * c */
static wafer_status shift_bias(const simplifier *s, const moving *m, wafer_builder *b,
                               MlirValue *value) {
  wafer_dtype dtype = m->weight.dtype;
  wafer_shape shape = {.rank = 1, .dims = {m->weight.shape.dims[0]}};
  int64_t row = m->count / shape.dims[0];
  void *data = wafer_arena_alloc(s->ctx->arena, (size_t)shape.dims[0], wafer_dtype_bytes(dtype));
  const char *name = wafer_arena_printf(s->ctx->arena, "%s.bias", wafer_ir_node_name(m->conv));
  wafer_view bias = {0};
  if (!data || !name) return channel_no_memory(s, m->conv);
  if (mlirOperationGetNumOperands(m->conv) == 3 &&
      !wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(m->conv, 2), &bias))
    return channel_no_memory(s, m->conv); /* it was one before */
  for (int64_t k = 0; k < shape.dims[0]; k++) {
    double sum = bias.data ? wafer_element_f64(dtype, bias.data, k) : 0;
    for (int64_t i = k * row; i < (k + 1) * row; i++)
      sum += wafer_element_f64(dtype, m->weight.data, i) * m->c[input_channel(&m->channels, i)];
    wafer_element_set_f64(dtype, data, k, sum);
  }
  wafer_view shifted = wafer_view_of(dtype, &shape, data);
  return wafer_build_constant(b, name, &shifted, value);
}

/* The convolution with x for what came before; c goes into the weights or the bias. */
static wafer_status move_in(const simplifier *s, moving *m, MlirValue x, MlirValue *value) {
  wafer_builder b = build_before(s, m->conv, m->conv);
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(m->conv);
  MlirValue operands[3] = {x};
  for (uint32_t i = 1; i < count; i++) operands[i] = mlirOperationGetOperand(m->conv, i);
  if (wafer_ir_op(m->before) == WAFER_OP_mul) {
    WAFER_TRY(scale_weight(s, m, &b, &operands[1]));
  } else {
    WAFER_TRY(shift_bias(s, m, &b, &operands[2]));
    count = 3;
  }
  return wafer_build(&b, WAFER_OP_conv, count, operands, m->attrs.at, m->attrs.count, value);
}

/* An add reaches every product only where no product is with a pad. */
static bool can_move(const simplifier *s, MlirOperation conv, moving *m) {
  MlirValue input = mlirOperationGetOperand(conv, 0);
  m->conv = conv;
  m->before = maker(input);
  if (mlirOperationIsNull(m->before) || !used_once(m->before)) return false;
  wafer_op id = wafer_ir_op(m->before);
  if (id != WAFER_OP_mul && (id != WAFER_OP_add || !has_no_pads(&m->attrs))) return false;
  if (!channel_dtype(result_type(conv).dtype) || !channel_readable(s, conv, 1)) return false;
  if (mlirOperationGetNumOperands(conv) == 3 && !channel_readable(s, conv, 2)) return false;
  if (!wafer_ir_constant(s->ctx, s->ir, mlirOperationGetOperand(conv, 1), &m->weight)) return false;
  m->channels = (input_channels){
      .group = wafer_attr_int(&m->attrs, WAFER_ATTR_group), .inner = 1, .shape = &m->weight.shape};
  for (uint32_t d = 2; d < m->weight.shape.rank; d++) m->channels.inner *= m->weight.shape.dims[d];
  return wafer_shape_elements(&m->weight.shape, &m->count) && m->count > 0;
}

wafer_status rewrite_scaled_input(simplifier *s, MlirOperation op, MlirValue *value) {
  moving m;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &m.attrs));
  if (!can_move(s, op, &m)) return WAFER_OK;
  wafer_type type = result_type(m.before);
  double *c = WAFER_NEW(s->ctx->arena, double, (size_t)type.shape.dims[1]);
  if (!c) return channel_no_memory(s, op);
  m.c = c;
  for (uint32_t at = 0; at < 2 && mlirValueIsNull(*value); at++) {
    wafer_type x = operand_type(m.before, at);
    MlirValue other = mlirOperationGetOperand(m.before, 1 - at);
    if (!wafer_shape_equal(&x.shape, &type.shape) || !channel_values(s, other, &type, c)) continue;
    if (channel_finite(c, type.shape.dims[1]))
      WAFER_TRY(move_in(s, &m, mlirOperationGetOperand(m.before, at), value));
  }
  return WAFER_OK;
}

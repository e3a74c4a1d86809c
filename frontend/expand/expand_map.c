/* Elementwise operators: arithmetic, activations, comparisons, logic, casts. */
#include <math.h>
#include <string.h>

#include "operators.h"

/* ---- One to one ---- */

/* Operand 1 of a binary operator. Up to opset 6 its dims are those of operand 0 from `axis` on. */
static MlirValue second_operand(import_node *n) {
  MlirValue y = node_input(n, 1);
  wafer_shape shape = node_type(n, y).shape;
  uint32_t rank = node_rank(n, node_input(n, 0));
  if (n->opset >= 7 || !attr_int(n, "broadcast", 0) || !attr_has(n, "axis")) return y;
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), rank), given = shape.rank;
  if (axis + given > rank)
    node_bad(n, "operand 1 has %u dims, there are %u from axis %u on", given, rank - axis, axis);
  while (n->status == WAFER_OK && shape.rank < rank - axis) shape.dims[shape.rank++] = 1;
  return shape.rank == given ? y : emit_reshape(n, y, shape.rank, shape.dims);
}

void import_direct(import_node *n) {
  MlirValue operands[3] = {node_input(n, 0), node_input(n, 1), node_input(n, 2)};
  if (n->op->most == 2) operands[1] = second_operand(n);
  n->outputs[0] = emit_op(n, n->op->op, n->op->most, operands, NULL, 0);
}

/* Greater and GreaterOrEqual are Less and LessOrEqual the other way round. */
void import_swapped(import_node *n) {
  n->outputs[0] = emit_binary(n, n->op->op, second_operand(n), node_input(n, 0));
}

void import_chain(import_node *n) {
  MlirValue sum = node_input(n, 0);
  for (uint32_t i = 1; i < n->input_count; i++)
    sum = emit_binary(n, n->op->op, sum, node_input(n, i));
  if (mlirValueIsNull(sum)) node_bad(n, "an input is missing");
  n->outputs[0] = sum;
}

void import_mean(import_node *n) {
  import_chain(n);
  if (n->input_count > 1)
    n->outputs[0] = DIV(n->outputs[0], emit_scalar_like(n, node_input(n, 0), n->input_count));
}

void import_identity(import_node *n) {
  n->outputs[0] = node_input(n, 0);
}

void import_mod(import_node *n) {
  MlirValue operands[] = {node_input(n, 0), node_input(n, 1)};
  wafer_attr attr = INT_ATTR(truncate, attr_int(n, "fmod", 0));
  n->outputs[0] = emit_op(n, WAFER_OP_mod, 2, operands, &attr, 1);
}

/* In one type: the base's, or a float exponent's when the base is an integer. */
void import_pow(import_node *n) {
  MlirValue x = node_input(n, 0), y = second_operand(n);
  wafer_dtype base = node_dtype(n, x), exponent = node_dtype(n, y);
  bool widens = !wafer_dtype_is_float(base) && wafer_dtype_is_float(exponent);
  if (base == exponent) {
    n->outputs[0] = emit_binary(n, WAFER_OP_pow, x, y);
  } else if (widens) {
    n->outputs[0] = emit_cast(n, emit_binary(n, WAFER_OP_pow, emit_cast(n, x, exponent), y), base);
  } else {
    n->outputs[0] = emit_binary(n, WAFER_OP_pow, x, emit_cast(n, y, base));
  }
}

void import_isinf(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_attr attrs[] = {INT_ATTR(negative, attr_int(n, "detect_negative", 1)),
                        INT_ATTR(positive, attr_int(n, "detect_positive", 1))};
  n->outputs[0] = emit_op(n, WAFER_OP_isinf, 1, &x, attrs, WAFER_COUNT(attrs));
}

/* ---- Types ---- */

/* Up to opset 5 the type is named as TensorProto names it. */
static int64_t cast_target(import_node *n) {
  static const char *const names[] = {"UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                      "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
                                      "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
  if (n->opset >= 6) return attr_int(n, "to", 0);
  const char *to = attr_text(n, "to", "");
  for (size_t i = 1; i < WAFER_COUNT(names); i++)
    if (!strcmp(to, names[i])) return (int64_t)i;
  node_bad(n, "attribute to is '%s', which names no element type", to);
  return 0;
}

/* To a power of two: the cast takes the one below, whatever is left decides about the next one. */
static MlirValue cast_to_power(import_node *n, MlirValue x) {
  const char *mode = attr_text(n, "round_mode", "up");
  bool nearest = !strcmp(mode, "nearest");
  if (!nearest && strcmp(mode, "up") && strcmp(mode, "down"))
    node_bad(n, "round_mode is '%s', must be up, down or nearest", mode);
  x = emit_cast(n, x, WAFER_DTYPE_f32);
  if (attr_int(n, "saturate", 1)) x = emit_clip(n, x, -0x1p127, 0x1p127);
  MlirValue below = emit_cast(n, x, WAFER_DTYPE_f8e8m0);
  if (!strcmp(mode, "down")) return below;
  MlirValue power = emit_cast(n, below, WAFER_DTYPE_f32), limit = power;
  if (nearest) limit = MUL(power, emit_scalar_like(n, x, 1.5));
  MlirValue stays = emit_binary(n, nearest ? WAFER_OP_less : WAFER_OP_less_equal, x, limit);
  MlirValue next =
      MUL(power, emit_scalar_like(n, x, 2)); /* NaN: neither less nor more, stays NaN */
  return emit_cast(n, emit_select(n, stays, power, next), WAFER_DTYPE_f8e8m0);
}

static MlirValue cast_to(import_node *n, MlirValue x, wafer_dtype dtype) {
  if (node_dtype(n, x) == dtype) return emit_cast(n, x, dtype);
  switch (dtype) {
  case WAFER_DTYPE_f8e8m0: return cast_to_power(n, x);
  case WAFER_DTYPE_f8e4m3fn:
  case WAFER_DTYPE_f8e4m3fnuz:
  case WAFER_DTYPE_f8e5m2:
  case WAFER_DTYPE_f8e5m2fnuz:
    if (attr_int(n, "saturate", 1)) return emit_cast_saturated(n, x, dtype);
    return emit_cast(n, x, dtype);
  default: return emit_cast(n, x, dtype);
  }
}

void import_cast(import_node *n) {
  int64_t to = cast_target(n);
  wafer_dtype dtype =
      to > 0 && to < INT32_MAX ? wafer_dtype_by_onnx((int32_t)to) : WAFER_DTYPE_none;
  if (dtype == WAFER_DTYPE_none)
    node_problem(n, WAFER_PROBLEM_type, "element type %lld (%s)", (long long)to,
                 onnx_data_type_name(to));
  n->outputs[0] = cast_to(n, node_input(n, 0), dtype);
}

void import_cast_like(import_node *n) {
  n->outputs[0] = cast_to(n, node_input(n, 0), node_dtype(n, node_input(n, 1)));
}

/* ---- Clipping ---- */

static bool is_constant(const import_node *n, uint32_t index) {
  wafer_view view;
  return !node_has_input(n, index) || wafer_ir_is_constant(n->inputs[index]) ||
         training_known(n->im, n->inputs[index], false, &view);
}

void import_clip(import_node *n) {
  MlirValue x = node_input(n, 0);
  double least = -INFINITY, most = INFINITY;
  if (n->opset < 11) {
    least = attr_float(n, "min", least);
    most = attr_float(n, "max", most);
  } else if (!is_constant(n, 1) || !is_constant(n, 2) || !wafer_dtype_is_float(node_dtype(n, x))) {
    if (node_has_input(n, 1)) x = emit_binary(n, WAFER_OP_max, x, node_input(n, 1));
    if (node_has_input(n, 2)) x = emit_binary(n, WAFER_OP_min, x, node_input(n, 2));
    n->outputs[0] = x;
    return;
  } else {
    least = node_float(n, 1, "min", least);
    most = node_float(n, 2, "max", most);
  }
  n->outputs[0] = emit_clip(n, x, least, most);
}

MlirValue emit_hard_sigmoid(import_node *n, MlirValue x, double alpha, double beta) {
  MlirValue line = ADD(MUL(x, emit_scalar_like(n, x, alpha)), emit_scalar_like(n, x, beta));
  return emit_clip(n, line, 0, 1);
}

void import_hard_sigmoid(import_node *n) {
  MlirValue x = node_input(n, 0);
  n->outputs[0] = emit_hard_sigmoid(n, x, attr_float(n, "alpha", 0.2), attr_float(n, "beta", 0.5));
}

void import_hard_swish(import_node *n) {
  MlirValue x = node_input(n, 0);
  n->outputs[0] = MUL(x, emit_hard_sigmoid(n, x, 1.0 / 6, 0.5));
}

/* ---- Activations in two pieces ---- */

/* x < 0 ? negative : x */
static MlirValue below_zero(import_node *n, MlirValue x, MlirValue negative) {
  return emit_select(n, emit_binary(n, WAFER_OP_less, x, emit_scalar_like(n, x, 0)), negative, x);
}

MlirValue emit_leaky_relu(import_node *n, MlirValue x, double alpha) {
  MlirValue scaled = MUL(x, emit_scalar_like(n, x, alpha));
  return alpha > 0 && alpha <= 1 ? emit_binary(n, WAFER_OP_max, x, scaled)
                                 : below_zero(n, x, scaled);
}

void import_leaky_relu(import_node *n) {
  n->outputs[0] = emit_leaky_relu(n, node_input(n, 0), attr_float(n, "alpha", 0.01));
}

/* Up to opset 6 a vector of slopes is one per channel. */
void import_prelu(import_node *n) {
  MlirValue x = node_input(n, 0), slope = node_input(n, 1);
  wafer_shape shape = node_type(n, slope).shape;
  uint32_t rank = node_rank(n, x);
  if (n->opset < 7 && shape.rank == 1 && shape.dims[0] > 1) {
    while (shape.rank + 1 < rank) shape.dims[shape.rank++] = 1;
    slope = emit_reshape(n, slope, shape.rank, shape.dims);
  }
  n->outputs[0] = below_zero(n, x, MUL(x, slope));
}

/* exp(x) - 1 */
static MlirValue exp_less_one(import_node *n, MlirValue x) {
  return SUB(emit_unary(n, WAFER_OP_exp, x), emit_scalar_like(n, x, 1));
}

MlirValue emit_elu(import_node *n, MlirValue x, double alpha) {
  return below_zero(n, x, MUL(exp_less_one(n, x), emit_scalar_like(n, x, alpha)));
}

void import_elu(import_node *n) {
  n->outputs[0] = emit_elu(n, node_input(n, 0), attr_float(n, "alpha", 1));
}

void import_selu(import_node *n) {
  MlirValue x = node_input(n, 0);
  bool first = n->opset < 6; /* its defaults have fewer digits */
  MlirValue alpha =
      emit_scalar_like(n, x, attr_float(n, "alpha", first ? 1.6732 : 1.67326319217681884765625));
  MlirValue gamma =
      emit_scalar_like(n, x, attr_float(n, "gamma", first ? 1.0507 : 1.05070102214813232421875));
  n->outputs[0] = MUL(below_zero(n, x, MUL(exp_less_one(n, x), alpha)), gamma);
}

void import_celu(import_node *n) {
  MlirValue x = node_input(n, 0);
  MlirValue alpha = emit_scalar_like(n, x, attr_float(n, "alpha", 1));
  n->outputs[0] = below_zero(n, x, MUL(exp_less_one(n, DIV(x, alpha)), alpha));
}

MlirValue emit_thresholded_relu(import_node *n, MlirValue x, double alpha) {
  MlirValue above = emit_binary(n, WAFER_OP_less, emit_scalar_like(n, x, alpha), x);
  return emit_select(n, above, x, emit_scalar_like(n, x, 0));
}

void import_thresholded_relu(import_node *n) {
  n->outputs[0] = emit_thresholded_relu(n, node_input(n, 0), attr_float(n, "alpha", 1));
}

void import_shrink(import_node *n) {
  MlirValue x = node_input(n, 0), zero = emit_scalar_like(n, x, 0);
  double lambda = attr_float(n, "lambd", 0.5);
  MlirValue bias = emit_scalar_like(n, x, attr_float(n, "bias", 0));
  MlirValue above = emit_binary(n, WAFER_OP_less, emit_scalar_like(n, x, lambda), x);
  MlirValue below = emit_binary(n, WAFER_OP_less, x, emit_scalar_like(n, x, -lambda));
  n->outputs[0] = emit_select(n, above, SUB(x, bias), emit_select(n, below, ADD(x, bias), zero));
}

/* ---- Smooth activations ---- */

MlirValue emit_gelu_tanh(import_node *n, MlirValue x) {
  MlirValue cube = MUL(x, MUL(x, x));
  MlirValue inner = ADD(x, MUL(emit_scalar_like(n, x, 0.044715), cube));
  MlirValue bent =
      emit_unary(n, WAFER_OP_tanh, MUL(inner, emit_scalar_like(n, x, 0.79788456080286535588)));
  return MUL(MUL(x, emit_scalar_like(n, x, 0.5)), ADD(bent, emit_scalar_like(n, x, 1)));
}

MlirValue emit_gelu(import_node *n, MlirValue x) {
  MlirValue bent =
      emit_unary(n, WAFER_OP_erf, MUL(x, emit_scalar_like(n, x, 0.70710678118654752440)));
  return MUL(MUL(x, emit_scalar_like(n, x, 0.5)), ADD(bent, emit_scalar_like(n, x, 1)));
}

void import_gelu(import_node *n) {
  MlirValue x = node_input(n, 0);
  const char *approximate = attr_text(n, "approximate", "none");
  bool bent = !strcmp(approximate, "tanh");
  if (!bent && strcmp(approximate, "none"))
    node_bad(n, "approximate is '%s', must be none or tanh", approximate);
  n->outputs[0] = bent ? emit_gelu_tanh(n, x) : emit_gelu(n, x);
}

void import_mish(import_node *n) {
  MlirValue x = node_input(n, 0);
  n->outputs[0] = MUL(x, emit_unary(n, WAFER_OP_tanh, emit_unary(n, WAFER_OP_softplus, x)));
}

MlirValue emit_softsign(import_node *n, MlirValue x) {
  return DIV(x, ADD(emit_unary(n, WAFER_OP_abs, x), emit_scalar_like(n, x, 1)));
}

void import_softsign(import_node *n) {
  n->outputs[0] = emit_softsign(n, node_input(n, 0));
}

void import_swish(import_node *n) {
  MlirValue x = node_input(n, 0);
  double alpha = attr_float(n, "alpha", 1);
  MlirValue scaled = alpha == 1 ? x : MUL(x, emit_scalar_like(n, x, alpha));
  n->outputs[0] = MUL(x, emit_unary(n, WAFER_OP_sigmoid, scaled));
}

/* Quantized numbers: what an 8- or 16-bit integer stands for is computed in floats, products of
 * integers in i32. */
#include <string.h>

#include "operators.h"

/* A scale or zero point, of x's shape along `axis` when it is a vector, of blocks along `axis` when
 * it has x's rank. One number is for all of x, and `axis`, which x may not have, says nothing. */
static MlirValue aligned(import_node *n, MlirValue value, const wafer_shape *x, int64_t axis,
                         int64_t block) {
  wafer_shape shape = node_type(n, value).shape, wide = {.rank = x->rank + 1};
  int64_t dims[WAFER_MAX_RANK];
  if (n->status != WAFER_OK || shape.rank == 0) return value;
  if (shape.rank == 1 && shape.dims[0] == 1) return emit_reshape(n, value, 0, dims);
  uint32_t at = node_axis(n, axis, x->rank);
  if (shape.rank == 1 && (block == 0 || x->rank > 1)) {
    for (uint32_t d = 0; d < x->rank; d++) dims[d] = d == at ? shape.dims[0] : 1;
    return emit_reshape(n, value, x->rank, dims);
  }
  if (block < 1 || shape.rank != x->rank || x->rank == WAFER_MAX_RANK ||
      x->dims[at] != shape.dims[at] * block) {
    node_unsupported(n, "a scale of %u dims, blocks of %lld", shape.rank, (long long)block);
    return value;
  }
  for (uint32_t d = 0; d <= x->rank; d++)
    wide.dims[d] = d <= at ? shape.dims[d] : d == at + 1 ? 1 : shape.dims[d - 1];
  value = emit_reshape(n, value, wide.rank, wide.dims);
  wide.dims[at + 1] = block;
  return emit_reshape(n, emit_expand(n, value, wide.rank, wide.dims), x->rank, x->dims);
}

/* Floats round when they are cast. */
MlirValue emit_quantized(import_node *n, MlirValue x, MlirValue scale, MlirValue zero,
                         wafer_dtype dtype) {
  double least, most;
  MlirValue steps = DIV(x, scale);
  if (wafer_dtype_bits(dtype) > 16)
    node_unsupported(n, "numbers quantized to %s", wafer_dtype_name(dtype));
  if (!wafer_dtype_is_float(dtype)) steps = emit_unary(n, WAFER_OP_round, steps);
  if (zero.ptr) steps = ADD(steps, emit_cast(n, zero, node_dtype(n, steps)));
  wafer_dtype_range(dtype, &least, &most);
  if (!wafer_dtype_is_float(dtype) || attr_int(n, "saturate", 1))
    steps = emit_clip(n, steps, least, most);
  return emit_cast(n, steps, dtype);
}

void import_quantize_linear(import_node *n) {
  MlirValue x = node_input(n, 0), scale = node_input(n, 1), zero = node_input(n, 2);
  wafer_shape shape = node_type(n, x).shape;
  int64_t axis = attr_int(n, "axis", 1), block = attr_int(n, "block_size", 0);
  wafer_dtype dtype = attr_dtype(n, "output_dtype", WAFER_DTYPE_u8);
  wafer_dtype real = attr_dtype(n, "precision", WAFER_DTYPE_f32);
  if (node_has_input(n, 2)) dtype = node_dtype(n, zero);
  if (node_rank(n, scale) == 0) axis = 0;
  scale = aligned(n, scale, &shape, axis, block);
  if (node_has_input(n, 2)) zero = aligned(n, zero, &shape, axis, block);
  n->outputs[0] = emit_quantized(n, emit_cast(n, x, real), emit_cast(n, scale, real), zero, dtype);
}

void import_dequantize_linear(import_node *n) {
  MlirValue x = node_input(n, 0), scale = node_input(n, 1);
  wafer_shape shape = node_type(n, x).shape;
  wafer_dtype real = attr_dtype(n, "output_dtype", node_dtype(n, scale));
  int64_t axis = attr_int(n, "axis", 1), block = attr_int(n, "block_size", 0);
  if (node_rank(n, scale) == 0) axis = 0;
  MlirValue steps = emit_cast(n, x, WAFER_DTYPE_f32);
  if (node_has_input(n, 2))
    steps = SUB(steps,
                emit_cast(n, aligned(n, node_input(n, 2), &shape, axis, block), WAFER_DTYPE_f32));
  scale = emit_cast(n, aligned(n, scale, &shape, axis, block), WAFER_DTYPE_f32);
  n->outputs[0] = emit_cast(n, MUL(steps, scale), real);
}

MlirValue emit_dequantized(import_node *n, MlirValue x, MlirValue scale, MlirValue zero) {
  wafer_shape shape = node_type(n, x).shape;
  x = emit_cast(n, x, WAFER_DTYPE_f32);
  if (zero.ptr) x = SUB(x, emit_cast(n, aligned(n, zero, &shape, 0, 0), WAFER_DTYPE_f32));
  return MUL(x, emit_cast(n, aligned(n, scale, &shape, 0, 0), WAFER_DTYPE_f32));
}

/* To u8, with the scale and zero point of the numbers themselves; 0 is always among them. */
quantized_numbers emit_dynamically_quantized(import_node *n, MlirValue x) {
  MlirValue nought = emit_scalar_like(n, x, 0);
  uint32_t all = (1u << node_rank(n, x)) - 1;
  MlirValue least =
      emit_binary(n, WAFER_OP_min, nought, emit_reduce(n, WAFER_OP_reduce_min, x, all, false));
  MlirValue most =
      emit_binary(n, WAFER_OP_max, nought, emit_reduce(n, WAFER_OP_reduce_max, x, all, false));
  MlirValue scale = DIV(SUB(most, least), emit_scalar_like(n, x, 255));
  MlirValue zero = emit_unary(n, WAFER_OP_round, DIV(SUB(nought, least), scale));
  zero = emit_cast(n, emit_clip(n, zero, 0, 255), WAFER_DTYPE_u8);
  return (quantized_numbers){emit_quantized(n, x, scale, zero, WAFER_DTYPE_u8), scale, zero};
}

void import_dynamic_quantize_linear(import_node *n) {
  quantized_numbers q = emit_dynamically_quantized(n, node_input(n, 0));
  n->outputs[0] = q.y;
  if (n->output_count > 1) n->outputs[1] = q.scale;
  if (n->output_count > 2) n->outputs[2] = q.zero;
}

/* A scale or zero point of a matrix: of all of it, or a vector of one for each row (or column). */
static MlirValue along(import_node *n, MlirValue v, bool rows) {
  wafer_shape shape = node_type(n, v).shape;
  if (shape.rank != 1) return v;
  if (shape.dims[0] == 1) return emit_reshape(n, v, 0, NULL);
  return rows ? emit_reshape(n, v, 2, (int64_t[]){shape.dims[0], 1}) : v;
}

MlirValue emit_centered(import_node *n, MlirValue x, MlirValue zero, bool rows) {
  x = emit_cast(n, x, WAFER_DTYPE_i32);
  return zero.ptr ? SUB(x, emit_cast(n, along(n, zero, rows), WAFER_DTYPE_i32)) : x;
}

void import_matmul_integer(import_node *n) {
  MlirValue a = emit_centered(n, node_input(n, 0), node_input(n, 2), true);
  MlirValue b = emit_centered(n, node_input(n, 1), node_input(n, 3), false);
  n->outputs[0] = emit_matmul(n, a, b);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
void import_qlinear_matmul(import_node *n) {
  MlirValue a = emit_centered(n, node_input(n, 0), node_input(n, 2), true);
  MlirValue b = emit_centered(n, node_input(n, 3), node_input(n, 5), false);
  MlirValue scales[] = {node_input(n, 1), node_input(n, 4), node_input(n, 6)};
  for (uint32_t i = 0; i < 3; i++)
    scales[i] = emit_cast(n, along(n, scales[i], i != 1), WAFER_DTYPE_f32);
  MlirValue product = emit_cast(n, emit_matmul(n, a, b), WAFER_DTYPE_f32);
  MlirValue zero = along(n, node_input(n, 7), true);
  n->outputs[0] = emit_quantized(n, product, DIV(scales[2], MUL(scales[0], scales[1])), zero,
                                 node_dtype(n, zero));
}

/* Without its zero point, one for all or one for each output channel (dim 0). */
static MlirValue centered_weight(import_node *n, MlirValue w, MlirValue zero) {
  wafer_shape shape = node_type(n, w).shape, z = node_type(n, zero).shape;
  w = emit_cast(n, w, WAFER_DTYPE_i32);
  if (!zero.ptr) return w;
  zero = emit_cast(n, zero, WAFER_DTYPE_i32);
  for (uint32_t d = 1; d < shape.rank; d++) shape.dims[d] = 1;
  if (z.rank == 1 && z.dims[0] > 1) zero = emit_reshape(n, zero, shape.rank, shape.dims);
  return SUB(w, zero);
}

/* Padding stands for the zero point: it is 0 once that is taken off. */
void import_conv_integer(import_node *n) {
  MlirValue x = emit_centered(n, node_input(n, 0), node_input(n, 2), false);
  MlirValue w = centered_weight(n, node_input(n, 1), node_input(n, 3));
  n->outputs[0] = emit_conv(n, x, w, (MlirValue){NULL});
}

/* x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias; that of com.microsoft may have the
 * channels of x and y last, those of w stay where they are. */
void import_qlinear_conv(import_node *n) {
  bool last = *n->op->domain && attr_int(n, "channels_last", 0);
  MlirValue x = emit_centered(n, node_input(n, 0), node_input(n, 2), false);
  if (last) x = emit_channels_moved(n, x, true);
  MlirValue w = centered_weight(n, node_input(n, 3), node_input(n, 5));
  MlirValue sum = emit_cast(n, emit_conv(n, x, w, node_input(n, 8)), WAFER_DTYPE_f32);
  MlirValue scale = node_input(n, 4);
  wafer_shape s = node_type(n, scale).shape, y = node_type(n, sum).shape;
  for (uint32_t d = 0; d < y.rank; d++) y.dims[d] = d == 1 && s.rank == 1 ? s.dims[0] : 1;
  scale = emit_reshape(n, scale, s.rank == 1 && s.dims[0] > 1 ? y.rank : 0, y.dims);
  MlirValue own = emit_reshape(n, node_input(n, 1), 0, NULL);
  MlirValue result = emit_reshape(n, node_input(n, 6), 0, NULL);
  MlirValue zero = emit_reshape(n, node_input(n, 7), 0, NULL);
  MlirValue all = emit_quantized(n, sum, DIV(result, MUL(own, scale)), zero, node_dtype(n, zero));
  n->outputs[0] = last ? emit_channels_moved(n, all, false) : all;
}

/* com.microsoft: operators on quantized numbers that onnxruntime's quantizers write. What the
 * integers stand for is computed in f32; products of integers in i32. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

/* Input `index`, a scale or zero point for the whole tensor; null where it is left out. */
static MlirValue one_for_all(import_node *n, uint32_t index) {
  if (!node_has_input(n, index)) return none;
  wafer_shape s = node_type(n, node_input(n, index)).shape;
  if (s.rank > 1 || (s.rank == 1 && s.dims[0] != 1))
    node_problem(n, WAFER_PROBLEM_operator, "input %u (a scale or zero point) is not one number",
                 index);
  return emit_reshape(n, node_input(n, index), 0, NULL);
}

static void need(import_node *n, uint32_t index) {
  if (!node_has_input(n, index)) node_bad(n, "input %u is missing", index);
}

/* Inputs `index` to `index` + 2: numbers, their scale, their zero point, which may be left out. */
static MlirValue real(import_node *n, uint32_t index) {
  need(n, index);
  need(n, index + 1);
  return emit_dequantized(n, node_input(n, index), one_for_all(n, index + 1),
                          one_for_all(n, index + 2));
}

/* x by the scale and zero point of inputs `index` and `index` + 1, in the type of input `like`. */
static MlirValue stored(import_node *n, MlirValue x, uint32_t index, uint32_t like) {
  need(n, index);
  return emit_quantized(n, x, one_for_all(n, index), one_for_all(n, index + 1),
                        node_dtype(n, node_input(n, like)));
}

/* ---- Elementwise ---- */

/* a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero */
void import_qlinear_binary(import_node *n) {
  n->outputs[0] = stored(n, emit_binary(n, n->op->op, real(n, 0), real(n, 3)), 6, 0);
}

/* x, x_scale, x_zero, y_scale, y_zero */
void import_qlinear_unary(import_node *n) {
  n->outputs[0] = stored(n, emit_unary(n, n->op->op, real(n, 0)), 3, 0);
}

void import_qlinear_leaky_relu(import_node *n) {
  n->outputs[0] = stored(n, emit_leaky_relu(n, real(n, 0), attr_float(n, "alpha", 0.01)), 3, 0);
}

/* condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero */
void import_qlinear_where(import_node *n) {
  n->outputs[0] = stored(n, emit_select(n, node_input(n, 0), real(n, 1), real(n, 4)), 7, 1);
}

/* Attribute `opset` says whose Softmax: up to 12 the dims from `axis` on are one. */
void import_qlinear_softmax(import_node *n) {
  MlirValue x = real(n, 0);
  wafer_shape s = node_type(n, x).shape;
  bool flat = attr_int(n, "opset", 13) < 13;
  uint32_t axis = node_axis(n, attr_int(n, "axis", flat ? 1 : -1), s.rank);
  int64_t two[] = {1, 1};
  for (uint32_t d = 0; d < s.rank; d++) two[d >= axis] *= s.dims[d];
  MlirValue y = flat ? emit_softmax(n, emit_reshape(n, x, 2, two), 1) : emit_softmax(n, x, axis);
  n->outputs[0] = stored(n, emit_reshape(n, y, s.rank, s.dims), 3, 0);
}

/* y_scale, y_zero, then each operand with its own */
void import_qlinear_concat(import_node *n) {
  if (n->input_count % 3 != 2) node_bad(n, "operands come with a scale and a zero point each");
  if (n->status != WAFER_OK) return;
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), node_rank(n, node_input(n, 2)));
  uint32_t count = n->input_count / 3;
  MlirValue *all = WAFER_NEW(n->im->ctx->arena, MlirValue, count);
  for (uint32_t i = 0; all && i < count; i++) all[i] = real(n, 3 * i + 2);
  n->outputs[0] = stored(n, emit_concat_all(n, count, all, axis), 0, 2);
}

/* ---- Pools: of the plane of a sample's channel, wherever the channels are ---- */

static MlirValue pooled(import_node *n, MlirValue x) {
  if (n->op->op == WAFER_OP_average_pool) return emit_pool(n, WAFER_OP_average_pool, x);
  return emit_reduce(n, WAFER_OP_reduce_mean, x, ((1u << node_rank(n, x)) - 1) & ~3u, true);
}

/* x, x_scale, x_zero, y_scale, y_zero */
void import_qlinear_pool(import_node *n) {
  MlirValue x = real(n, 0);
  bool last = attr_int(n, "channels_last", 0) != 0;
  if (node_rank(n, x) < 3) node_bad(n, "the operand has %u dims, needs 3", node_rank(n, x));
  if (n->status != WAFER_OK) return;
  MlirValue y = pooled(n, last ? emit_channels_moved(n, x, true) : x);
  n->outputs[0] = stored(n, last ? emit_channels_moved(n, y, false) : y, 3, 0);
}

void import_qlinear_reduce_mean(import_node *n) {
  MlirValue x = real(n, 0);
  uint32_t rank = node_rank(n, x);
  int_list axes = attr_ints(n, "axes");
  uint32_t dims = axes.count ? node_axes(n, axes, rank) : (1u << rank) - 1;
  MlirValue y = emit_reduce(n, WAFER_OP_reduce_mean, x, dims, attr_int(n, "keepdims", 1) != 0);
  n->outputs[0] = stored(n, y, 3, 0);
}

/* ---- Products ---- */

/* A scale or zero point that is one number, or one per column of a matrix. */
static MlirValue per_column(import_node *n, uint32_t index) {
  if (!node_has_input(n, index)) return none;
  wafer_shape s = node_type(n, node_input(n, index)).shape;
  if (s.rank == 1 && s.dims[0] == 1) return emit_reshape(n, node_input(n, index), 0, NULL);
  return node_input(n, index);
}

/* The integers' product, and what one of it stands for. */
static MlirValue product(import_node *n, MlirValue a, MlirValue b, MlirValue a_scale,
                         MlirValue b_scale) {
  if (node_rank(n, a) < 2 || node_rank(n, b) < 2) node_unsupported(n, "vectors");
  MlirValue sum = emit_cast(n, emit_binary(n, WAFER_OP_matmul, a, b), WAFER_DTYPE_f32);
  return MUL(sum,
             MUL(emit_cast(n, a_scale, WAFER_DTYPE_f32), emit_cast(n, b_scale, WAFER_DTYPE_f32)));
}

/* a, b, a_scale, b_scale, a_zero, b_zero, bias */
void import_matmul_integer_to_float(import_node *n) {
  MlirValue a = emit_centered(n, node_input(n, 0), one_for_all(n, 4), false);
  MlirValue b = emit_centered(n, node_input(n, 1), per_column(n, 5), false);
  MlirValue y = product(n, a, b, one_for_all(n, 2), per_column(n, 3));
  y = emit_cast(n, y, node_dtype(n, node_input(n, 3)));
  n->outputs[0] = node_has_input(n, 6) ? ADD(y, node_input(n, 6)) : y;
}

/* a (floats), b, b_scale, b_zero, bias */
void import_dynamic_quantize_matmul(import_node *n) {
  quantized_numbers q = emit_dynamically_quantized(n, node_input(n, 0));
  MlirValue a = emit_centered(n, q.y, q.zero, false);
  MlirValue b = emit_centered(n, node_input(n, 1), per_column(n, 3), false);
  MlirValue y = product(n, a, b, q.scale, per_column(n, 2));
  n->outputs[0] = node_has_input(n, 4) ? ADD(y, node_input(n, 4)) : y;
}

/* a, a_scale, a_zero, b, b_scale, b_zero, c (i32), y_scale, y_zero: without a y_scale floats. The
 * bias has the scale of the product. */
void import_qgemm(import_node *n) {
  MlirValue a = emit_centered(n, node_input(n, 0), one_for_all(n, 2), false);
  MlirValue b = node_input(n, 3), scale, sum;
  if (node_rank(n, a) != 2 || node_rank(n, b) != 2)
    node_bad(n, "operands 0 and 3 must be matrices");
  bool across = attr_int(n, "transB", 0) != 0;
  if (across) b = emit_swap_last(n, b); /* as it lies: a column is a row of what was given */
  b = emit_centered(n, b, per_column(n, 5), false);
  if (attr_int(n, "transA", 0)) a = emit_swap_last(n, a);
  sum = emit_binary(n, WAFER_OP_matmul, a, b);
  if (node_has_input(n, 6)) sum = ADD(sum, node_input(n, 6));
  scale = MUL(one_for_all(n, 1), per_column(n, 4));
  scale = MUL(scale, emit_scalar_like(n, scale, attr_float(n, "alpha", 1)));
  MlirValue y = MUL(emit_cast(n, sum, WAFER_DTYPE_f32), scale);
  n->outputs[0] = node_has_input(n, 7) ? stored(n, y, 7, 0) : y;
}

/* ---- Weights of a few bits, in blocks along k with a scale and a zero point each ---- */

/* `count` numbers of `bits` from each line of packed bytes, as f32: (lines, count). */
static MlirValue unpacked(import_node *n, const wafer_view *packed, int64_t lines, int64_t width,
                          int64_t count, int64_t bits) {
  wafer_view numbers = node_new_tensor(n, WAFER_DTYPE_f32, 2, (int64_t[]){lines, count});
  if (!numbers.data) return none;
  const uint8_t *from = packed->data;
  float *to = numbers.data;
  for (int64_t i = 0; i < lines; i++)
    for (int64_t j = 0; j < count; j++) {
      unsigned byte = from[i * width + j * bits / 8];
      to[i * count + j] = (float)(byte >> (j * bits % 8) & ((1u << bits) - 1));
    }
  return emit_constant(n, &numbers);
}

typedef struct few_bits {
  int64_t n, k, block, blocks, bits;
} few_bits;

static bool check_few_bits(import_node *n, few_bits *w) {
  *w = (few_bits){.n = attr_int(n, "N", 0),
                  .k = attr_int(n, "K", 0),
                  .block = attr_int(n, "block_size", 0),
                  .bits = attr_int(n, "bits", 4)};
  attr_int(n, "accuracy_level", 0); /* at least: f32 is more than any */
  if (attr_int(n, "weight_prepacked", 0) || node_has_input(n, 4))
    node_problem(n, WAFER_PROBLEM_attribute, "weight_prepacked, or g_idx");
  if (w->bits != 2 && w->bits != 4 && w->bits != 8)
    node_bad(n, "bits is %lld, must be 2, 4 or 8", (long long)w->bits);
  if (w->n < 1 || w->n > INT32_MAX || w->k < 1 || w->k > INT32_MAX || w->block < 8 ||
      w->block > INT32_MAX || w->block & (w->block - 1))
    node_bad(n, "N %lld, K %lld, block_size %lld", (long long)w->n, (long long)w->k,
             (long long)w->block);
  if (n->status == WAFER_OK) w->blocks = (w->k + w->block - 1) / w->block;
  return n->status == WAFER_OK;
}

static bool holds(import_node *n, uint32_t index, const wafer_view *view, int64_t bytes) {
  int64_t count;
  if (view->dtype == WAFER_DTYPE_u8 && wafer_shape_elements(&view->shape, &count) && count == bytes)
    return true;
  node_bad(n, "input %u must be %lld bytes", index, (long long)bytes);
  return false;
}

/* (N, blocks, 1): packed as the weights are, floats, or the middle of the range. */
static MlirValue block_zeros(import_node *n, const few_bits *w) {
  wafer_view view;
  int64_t width = (w->blocks * w->bits + 7) / 8, dims[] = {w->n, w->blocks, 1};
  wafer_dtype dtype = node_dtype(n, node_input(n, 3));
  if (!node_has_input(n, 3))
    return emit_scalar_like(n, emit_cast(n, node_input(n, 2), WAFER_DTYPE_f32),
                            (double)(1 << (w->bits - 1)));
  if (wafer_dtype_is_float(dtype))
    return emit_reshape(n, emit_cast(n, node_input(n, 3), WAFER_DTYPE_f32), 3, dims);
  if (!node_constant(n, 3, "zero_points", &view) || !holds(n, 3, &view, w->n * width)) return none;
  return emit_reshape(n, unpacked(n, &view, w->n, width, w->blocks, w->bits), 3, dims);
}

/* a, b (N, blocks, bytes of a block), scales (N, blocks), zero_points, g_idx, bias: a times the
 * transpose of (b - zero) * scale */
void import_matmul_nbits(import_node *n) {
  few_bits w;
  wafer_view packed;
  if (!check_few_bits(n, &w) || !node_constant(n, 1, "B", &packed)) return;
  int64_t width = w.block * w.bits / 8, full = w.blocks * w.block;
  int64_t blocks[] = {w.n, w.blocks, w.block}, one[] = {w.n, w.blocks, 1};
  if (!holds(n, 1, &packed, w.n * w.blocks * width)) return;
  MlirValue b = unpacked(n, &packed, w.n, w.blocks * width, full, w.bits);
  b = SUB(emit_reshape(n, b, 3, blocks), block_zeros(n, &w));
  MlirValue scale = emit_reshape(n, emit_cast(n, node_input(n, 2), WAFER_DTYPE_f32), 3, one);
  b = emit_reshape(n, MUL(b, scale), 2, (int64_t[]){w.n, full});
  b = emit_swap_last(n, emit_part(n, b, 1, 0, w.k));
  b = emit_cast(n, b, node_dtype(n, node_input(n, 0)));
  MlirValue y = emit_matmul(n, node_input(n, 0), b);
  n->outputs[0] = node_has_input(n, 5) ? ADD(y, node_input(n, 5)) : y;
}

/* com.microsoft: sums and embeddings that onnxruntime fuses with the normalization behind them. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

static uint32_t last_dim(import_node *n, MlirValue x) {
  uint32_t rank = node_rank(n, x);
  if (n->status == WAFER_OK && rank == 0) node_bad(n, "the operand has no dims");
  return n->status == WAFER_OK ? 1u << (rank - 1) : 0;
}

static MlirValue plus(import_node *n, MlirValue sum, uint32_t index) {
  return node_has_input(n, index) ? ADD(sum, node_input(n, index)) : sum;
}

/* Output `index` where the node names it: the others are what training would keep. */
static void give(import_node *n, uint32_t index, MlirValue value) {
  if (index < n->output_count) n->outputs[index] = value;
}

/* input, skip, gamma, beta, bias */
void import_skip_layer_norm(import_node *n) {
  MlirValue sum = plus(n, ADD(node_input(n, 0), node_input(n, 1)), 4);
  normalized r = emit_normalized(n, sum, last_dim(n, sum), attr_float(n, "epsilon", 1e-12));
  n->outputs[0] = plus(n, MUL(r.y, node_input(n, 2)), 3);
  give(n, 3, sum);
}

/* input, skip, gamma, bias */
void import_skip_rms_norm(import_node *n) {
  MlirValue sum = plus(n, ADD(node_input(n, 0), node_input(n, 1)), 3);
  MlirValue y = emit_rms_normalized(n, sum, last_dim(n, sum), attr_float(n, "epsilon", 1e-12));
  n->outputs[0] = MUL(y, node_input(n, 2));
  give(n, 3, sum);
}

/* Rows of an embedding, (batch, positions, hidden). */
static MlirValue embedded(import_node *n, uint32_t table, MlirValue ids) {
  if (node_rank(n, node_input(n, table)) != 2)
    node_bad(n, "input %u has %u dims, needs 2", table, node_rank(n, node_input(n, table)));
  return emit_rows(n, node_input(n, table), ids);
}

/* What the first output of a mask is: how many of its entries are 1, of each sample. */
static MlirValue mask_index(import_node *n, int64_t batch) {
  if (!node_has_input(n, 7)) {
    wafer_view zeros = node_new_tensor(n, WAFER_DTYPE_i32, 1, &batch);
    return emit_constant(n, &zeros);
  }
  MlirValue mask = node_input(n, 7);
  MlirValue ones = emit_binary(n, WAFER_OP_equal, mask, emit_scalar_like(n, mask, 1));
  return emit_reduce(n, WAFER_OP_reduce_sum, emit_cast(n, ones, WAFER_DTYPE_i32), 1u << 1, false);
}

/* input_ids, segment_ids, word_embedding, position_embedding, segment_embedding, gamma, beta, mask,
 * position_ids */
void import_embed_layer_norm(import_node *n) {
  MlirValue ids = node_input(n, 0), positions = none;
  wafer_shape s = node_type(n, ids).shape;
  if (n->status == WAFER_OK && s.rank != 2) node_bad(n, "input_ids has %u dims, needs 2", s.rank);
  if (node_has_input(n, 1) != node_has_input(n, 4))
    node_bad(n, "segment_ids and segment_embedding come together");
  if (n->status != WAFER_OK) return;
  if (node_has_input(n, 8))
    positions = embedded(n, 3, node_input(n, 8));
  else
    positions = emit_part(n, node_input(n, 3), 0, 0, s.dims[1]);
  MlirValue sum = ADD(embedded(n, 2, ids), positions);
  if (node_has_input(n, 1)) sum = ADD(sum, embedded(n, 4, node_input(n, 1)));
  normalized r = emit_normalized(n, sum, last_dim(n, sum), attr_float(n, "epsilon", 1e-12));
  n->outputs[0] = ADD(MUL(r.y, node_input(n, 5)), node_input(n, 6));
  if (n->output_count > 1 && *n->node->output.at[1]) give(n, 1, mask_index(n, s.dims[0]));
  give(n, 2, sum);
  attr_int(n, "mask_index_type", 0); /* the shape of an output that onnxruntime infers */
}

/* ---- Group normalizations of diffusion models: channels last, with an activation ---- */

static MlirValue moved_channels(import_node *n, MlirValue x, bool first) {
  static const int64_t to_first[] = {0, 3, 1, 2}, to_last[] = {0, 2, 3, 1};
  return emit_transpose(n, x, 4, first ? to_first : to_last);
}

static void group_norm(import_node *n, MlirValue x) {
  bool last = attr_int(n, "channels_last", 1) != 0;
  int64_t groups = attr_int(n, "groups", 0), activation = attr_int(n, "activation", 0);
  if (node_rank(n, x) != 4) node_bad(n, "the operand has %u dims, needs 4", node_rank(n, x));
  if (activation != 0 && activation != 1)
    node_bad(n, "activation is %lld, must be 0 or 1", (long long)activation);
  if (n->status != WAFER_OK) return;
  if (last) x = moved_channels(n, x, true);
  int64_t channels = node_type(n, x).shape.dims[1];
  if (groups < 1 || channels % groups)
    node_bad(n, "groups %lld does not divide the channels", (long long)groups);
  if (n->status != WAFER_OK) return;
  MlirValue y = emit_group_normalized(n, x, groups, attr_float(n, "epsilon", 1e-5));
  int64_t line[] = {channels, 1, 1};
  y = MUL(y, emit_reshape(n, emit_cast(n, node_input(n, 1), node_dtype(n, y)), 3, line));
  y = ADD(y, emit_reshape(n, emit_cast(n, node_input(n, 2), node_dtype(n, y)), 3, line));
  if (activation) y = MUL(y, emit_unary(n, WAFER_OP_sigmoid, y));
  n->outputs[0] = last ? moved_channels(n, y, false) : y;
}

void import_group_norm_fused(import_node *n) {
  group_norm(n, node_input(n, 0));
}

/* x, gamma, beta, skip, bias */
void import_skip_group_norm(import_node *n) {
  MlirValue x = node_input(n, 0), skip = node_input(n, 3);
  wafer_shape s = node_type(n, skip).shape;
  bool last = attr_int(n, "channels_last", 1) != 0;
  if (!last) node_problem(n, WAFER_PROBLEM_attribute, "channels_last = 0");
  if (s.rank == 2) skip = emit_reshape(n, skip, 4, (int64_t[]){s.dims[0], 1, 1, s.dims[1]});
  MlirValue sum = plus(n, ADD(x, skip), 4);
  group_norm(n, sum);
  give(n, 1, sum);
}

/* x + bias + skip */
void import_bias_add(import_node *n) {
  n->outputs[0] = ADD(ADD(node_input(n, 0), node_input(n, 1)), node_input(n, 2));
}

/* Scale and no bias; of the default domain, where onnxruntime has put it. */
void import_simplified_layer_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t rank = node_rank(n, x), axis = node_axis(n, attr_int(n, "axis", -1), rank);
  uint32_t dims = ((1u << rank) - 1) & ~((1u << axis) - 1);
  MlirValue y = emit_rms_normalized(n, x, dims, attr_float(n, "epsilon", 1e-5));
  n->outputs[0] = MUL(emit_cast(n, y, node_dtype(n, node_input(n, 1))), node_input(n, 1));
}

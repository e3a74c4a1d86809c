/* com.microsoft: the attentions of onnxruntime, whose projections, masks, caches and rotary
 * positions are part of the operator. */
#include <math.h>
#include <string.h>

#include "operators.h"

static const MlirValue none;

static MlirValue plus(import_node *n, MlirValue a, MlirValue b) {
  return a.ptr ? ADD(a, b) : b;
}

/* Features of this node that nobody computes: inputs, or attributes other than 0. */
static void refuse_input(import_node *n, uint32_t index, const char *what) {
  if (node_has_input(n, index)) node_problem(n, WAFER_PROBLEM_attribute, "%s", what);
}

static void refuse_attr(import_node *n, const char *name, int64_t usual) {
  if (attr_int(n, name, usual) != usual)
    node_problem(n, WAFER_PROBLEM_attribute, "attribute %s", name);
}

/* 1/sqrt(size) where attribute `scale` does not say otherwise */
static double scale_of(import_node *n, const attention *a) {
  double given = attr_float(n, "scale", 0);
  return given != 0 ? given : 1 / sqrt((double)node_type(n, a->q).shape.dims[3]);
}

/* ---- Masks ---- */

/* start <= column < end of each sample, from a vector of ends, or of ends and then starts. */
static MlirValue spans(import_node *n, const attention *a, MlirValue ends) {
  int64_t count = node_type(n, ends).shape.dims[0], line[] = {a->batch, 1, 1, 1};
  MlirValue column = emit_iota(n, node_dtype(n, ends), a->columns);
  MlirValue end = emit_reshape(n, emit_part(n, ends, 0, 0, a->batch), 4, line);
  MlirValue inside = emit_binary(n, WAFER_OP_less, column, end);
  if (count == a->batch) return inside;
  MlirValue start = emit_reshape(n, emit_part(n, ends, 0, a->batch, a->batch), 4, line);
  return emit_binary(n, WAFER_OP_and, inside, emit_binary(n, WAFER_OP_less_equal, start, column));
}

/* Input `index`: columns to look at, as ends, (batch, columns) or (batch, rows, columns). */
static MlirValue mask_bias(import_node *n, const attention *a, uint32_t index, MlirValue like) {
  MlirValue mask = node_input(n, index);
  wafer_shape s = node_type(n, mask).shape;
  double filter = attr_float(n, "mask_filter_value", -10000);
  bool ends = s.rank == 1 && (s.dims[0] == a->batch || s.dims[0] == 2 * a->batch);
  bool flat = s.rank == 2 && s.dims[0] == a->batch && s.dims[1] == a->columns;
  bool whole =
      s.rank == 3 && s.dims[0] == a->batch && s.dims[1] == a->rows && s.dims[2] == a->columns;
  if (n->status == WAFER_OK && !ends && !flat && !whole)
    node_unsupported(n, "a mask of this shape beside %lld rows and %lld columns",
                     (long long)a->rows, (long long)a->columns);
  if (n->status != WAFER_OK) return none;
  if (ends) return emit_bias_of(n, spans(n, a, mask), like, filter);
  int64_t dims[] = {a->batch, 1, whole ? a->rows : 1, a->columns};
  MlirValue seen = emit_binary(n, WAFER_OP_less, emit_scalar_like(n, mask, 0), mask);
  return emit_bias_of(n, emit_reshape(n, seen, 4, dims), like, filter);
}

/* softmax(scale q k^T + what masks and causality add) v, heads joined. */
static MlirValue attended(import_node *n, const attention *a, uint32_t mask, uint32_t added) {
  MlirValue scores = emit_scores(n, a, scale_of(n, a)), bias = none;
  if (node_has_input(n, mask)) bias = mask_bias(n, a, mask, scores);
  if (node_has_input(n, added)) bias = plus(n, bias, node_input(n, added));
  if (attr_int(n, "unidirectional", 0)) {
    MlirValue allowed = emit_causal(n, a->rows, a->columns, a->columns - a->rows);
    bias = plus(n, bias, emit_bias_of(n, allowed, scores, -INFINITY));
  }
  if (bias.ptr) scores = ADD(scores, bias);
  return emit_join_heads(n, emit_weighted(n, a, emit_softmax(n, scores, 3), a->v));
}

/* ---- Attention: the projection is inside ---- */

/* The parts of x's last dim, each with its heads apart. */
static attention projected_parts(import_node *n, MlirValue x) {
  wafer_shape s = node_type(n, x).shape;
  int64_t heads = attr_int(n, "num_heads", 0);
  int_list sizes = attr_ints(n, "qkv_hidden_sizes");
  if (n->status == WAFER_OK && s.rank != 3) node_bad(n, "the input has %u dims, needs 3", s.rank);
  if (n->status != WAFER_OK) return (attention){0};
  int64_t third = s.dims[2] / 3, part[] = {third, third, third};
  if (sizes.count == 3) memcpy(part, sizes.at, sizeof part);
  for (uint32_t i = 0; i < 3; i++)
    if (part[i] < 1 || part[i] > s.dims[2])
      node_bad(n, "the weights have %lld columns", (long long)s.dims[2]);
  if (n->status == WAFER_OK && (part[0] != part[1] || part[0] + part[1] + part[2] != s.dims[2]))
    node_bad(n, "the weights have %lld columns, which are not those of queries, keys and values",
             (long long)s.dims[2]);
  if (n->status != WAFER_OK) return (attention){0};
  return (attention){
      .q = emit_split_heads(n, emit_part(n, x, 2, 0, part[0]), heads),
      .k = emit_split_heads(n, emit_part(n, x, 2, part[0], part[1]), heads),
      .v = emit_split_heads(n, emit_part(n, x, 2, part[0] + part[1], part[2]), heads)};
}

/* Half `which` of (2, batch, heads, positions, size). */
static MlirValue half_of(import_node *n, MlirValue both, int64_t which) {
  wafer_shape s = node_type(n, both).shape;
  if (n->status == WAFER_OK && (s.rank != 5 || s.dims[0] != 2))
    node_bad(n, "the past has %u dims, needs 5, the first of 2", s.rank);
  if (n->status != WAFER_OK) return none;
  return emit_reshape(n, emit_part(n, both, 0, which, 1), 4, s.dims + 1);
}

/* From the projected queries, keys and values, with the masks and the past of inputs. */
static void self_attention(import_node *n, MlirValue x, uint32_t mask, uint32_t past,
                           uint32_t added) {
  attention a = projected_parts(n, x);
  refuse_attr(n, "do_rotary", 0);
  refuse_attr(n, "past_present_share_buffer", 0);
  if (node_has_input(n, past)) {
    a.k = emit_concat(n, half_of(n, node_input(n, past), 0), a.k, 2);
    a.v = emit_concat(n, half_of(n, node_input(n, past), 1), a.v, 2);
  }
  attention_measure(n, &a);
  if (n->status != WAFER_OK) return;
  n->outputs[0] = attended(n, &a, mask, added);
  if (n->output_count < 2 || !*n->node->output.at[1]) return;
  wafer_shape k = node_type(n, a.k).shape;
  int64_t one[] = {1, k.dims[0], k.dims[1], k.dims[2], k.dims[3]};
  n->outputs[1] = emit_concat(n, emit_reshape(n, a.k, 5, one), emit_reshape(n, a.v, 5, one), 0);
}

/* input, weights, bias, mask_index, past, attention_bias, past_sequence_length */
void import_projected_attention(import_node *n) {
  refuse_input(n, 6, "past_sequence_length");
  MlirValue x = emit_binary(n, WAFER_OP_matmul, node_input(n, 0), node_input(n, 1));
  if (node_has_input(n, 2)) x = ADD(x, node_input(n, 2));
  self_attention(n, x, 3, 4, 5);
}

/* input, weight, bias, input_scale, weight_scale, mask_index, input_zero, weight_zero, past */
void import_qattention(import_node *n) {
  MlirValue numbers = emit_centered(n, node_input(n, 0), node_input(n, 6), false);
  MlirValue w = emit_centered(n, node_input(n, 1), node_input(n, 7), false);
  MlirValue x = emit_cast(n, emit_binary(n, WAFER_OP_matmul, numbers, w), WAFER_DTYPE_f32);
  x = ADD(MUL(x, MUL(node_input(n, 3), node_input(n, 4))), node_input(n, 2));
  self_attention(n, x, 5, 8, 9);
}

/* ---- MultiHeadAttention: queries, keys and values are given, apart or packed ---- */

/* Part `which` of (batch, positions, heads, parts, size) as (batch, heads, positions, size). */
static MlirValue packed_part(import_node *n, MlirValue x, int64_t which) {
  wafer_shape s = node_type(n, x).shape;
  int64_t dims[] = {s.dims[0], s.dims[1], s.dims[2], s.dims[4]};
  x = emit_reshape(n, emit_part(n, x, 3, which, 1), 4, dims);
  return emit_transpose(n, x, 4, (int64_t[]){0, 2, 1, 3});
}

static MlirValue flat_part(import_node *n, MlirValue x, uint32_t bias, int64_t from,
                           int64_t heads) {
  if (node_has_input(n, bias))
    x = ADD(x, emit_part(n, node_input(n, bias), 0, from, node_type(n, x).shape.dims[2]));
  return emit_split_heads(n, x, heads);
}

static attention given_parts(import_node *n, int64_t heads) {
  MlirValue q = node_input(n, 0), k = node_input(n, 1), v = node_input(n, 2);
  uint32_t q_rank = node_rank(n, q), k_rank = node_rank(n, k), v_rank = node_rank(n, v);
  attention a = {.q = none};
  if (q_rank == 5 && !k.ptr && !v.ptr && node_type(n, q).shape.dims[3] == 3) {
    refuse_input(n, 3, "a bias beside packed queries, keys and values");
    a = (attention){
        .q = packed_part(n, q, 0), .k = packed_part(n, q, 1), .v = packed_part(n, q, 2)};
  } else if (q_rank == 3 && k_rank == 5 && !v.ptr && node_type(n, k).shape.dims[3] == 2) {
    refuse_input(n, 3, "a bias beside packed keys and values");
    a = (attention){
        .q = emit_split_heads(n, q, heads), .k = packed_part(n, k, 0), .v = packed_part(n, k, 1)};
  } else if (q_rank == 3 && (k_rank == 3 || k_rank == 4) && k_rank == v_rank) {
    int64_t hidden = node_type(n, q).shape.dims[2];
    a.q = flat_part(n, q, 3, 0, heads);
    a.k = k_rank == 3 ? flat_part(n, k, 3, hidden, heads) : k;
    a.v = k_rank == 3 ? flat_part(n, v, 3, 2 * hidden, heads) : v;
  } else {
    node_bad(n, "queries of %u dims, keys of %u, values of %u", q_rank, k_rank, v_rank);
  }
  return a;
}

/* query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value,
 * past_sequence_length, cache_indirection */
void import_multi_head_attention(import_node *n) {
  attention a = given_parts(n, attr_int(n, "num_heads", 0));
  refuse_input(n, 8, "past_sequence_length");
  refuse_input(n, 9, "cache_indirection");
  if (node_has_input(n, 6) != node_has_input(n, 7))
    node_bad(n, "past_key and past_value come together");
  if (node_has_input(n, 6)) {
    a.k = emit_concat(n, node_input(n, 6), a.k, 2);
    a.v = emit_concat(n, node_input(n, 7), a.v, 2);
  }
  attention_measure(n, &a);
  if (n->status != WAFER_OK) return;
  n->outputs[0] = attended(n, &a, 4, 5);
  if (n->output_count > 1) n->outputs[1] = a.k;
  if (n->output_count > 2) n->outputs[2] = a.v;
}

/* ---- RotaryEmbedding ---- */

/* Rows of a cache (positions, half) for (batch or 1, count) positions, beside (batch, heads,
 * positions, size). */
static MlirValue angles(import_node *n, MlirValue cache, MlirValue positions) {
  if (node_rank(n, cache) != 2) node_bad(n, "a cache of %u dims, needs 2", node_rank(n, cache));
  MlirValue rows = emit_rows(n, cache, positions);
  wafer_shape s = node_type(n, rows).shape;
  return emit_reshape(n, rows, 4, (int64_t[]){s.dims[0], 1, s.dims[1], s.dims[2]});
}

/* One position counts up from there; else each has its own. */
static MlirValue positions_of(import_node *n, MlirValue given, int64_t count) {
  wafer_shape s = node_type(n, given).shape;
  if (s.rank == 2) return given;
  if (n->status == WAFER_OK && (s.rank != 1 || s.dims[0] != 1))
    node_bad(n, "position_ids must be one number or (batch, positions)");
  MlirValue up = ADD(given, emit_iota(n, node_dtype(n, given), count));
  return emit_reshape(n, up, 2, (int64_t[]){1, count});
}

/* x of four dims, turned by caches of half as many columns as elements turn. */
static MlirValue turned_by(import_node *n, MlirValue x, MlirValue cosines, MlirValue sines,
                           MlirValue positions, bool interleaved) {
  int64_t size = node_type(n, x).shape.dims[3], half = node_type(n, cosines).shape.dims[1];
  if (n->status == WAFER_OK && (node_rank(n, cosines) != 2 || 2 * half > size))
    node_bad(n, "caches of %lld columns for heads of %lld elements", (long long)half,
             (long long)size);
  if (n->status != WAFER_OK) return none;
  return emit_rotated(n, x, angles(n, cosines, positions), angles(n, sines, positions), 2 * half,
                      interleaved);
}

/* input, position_ids, cos_cache, sin_cache */
void import_rotary_embedding_fused(import_node *n) {
  MlirValue x = node_input(n, 0), cosines = node_input(n, 2);
  wafer_shape given = node_type(n, x).shape, cache = node_type(n, cosines).shape;
  int64_t heads = attr_int(n, "num_heads", 0), part = attr_int(n, "rotary_embedding_dim", 0);
  refuse_attr(n, "is_packed_batching", 0);
  if (attr_float(n, "scale", 1) != 1) node_problem(n, WAFER_PROBLEM_attribute, "attribute scale");
  if (part > 0 && heads < 1) node_bad(n, "rotary_embedding_dim without num_heads");
  if (n->status != WAFER_OK) return;
  if (given.rank == 3 && heads < 1 && cache.rank == 2 && cache.dims[1] > 0)
    heads = given.dims[2] / (2 * cache.dims[1]);
  if (given.rank == 3)
    x = emit_split_heads(n, x, heads);
  else if (given.rank != 4)
    node_bad(n, "the input has %u dims, needs 3 or 4", given.rank);
  MlirValue positions = positions_of(n, node_input(n, 1), node_type(n, x).shape.dims[2]);
  x = turned_by(n, x, cosines, node_input(n, 3), positions, attr_int(n, "interleaved", 0) != 0);
  n->outputs[0] = given.rank == 3 ? emit_join_heads(n, x) : x;
}

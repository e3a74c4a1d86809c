/* com.microsoft GroupQueryAttention: causal attention of a decoder, whose cache of keys and values
 * grows, or is a buffer that fills up. How much of it is filled may be known only when it runs. */
#include <math.h>
#include <string.h>

#include "operators.h"

static const MlirValue none;

enum {
  QUERY,
  KEY,
  VALUE,
  PAST_KEY,
  PAST_VALUE,
  LENGTHS,
  TOTAL,
  COSINES,
  SINES,
  POSITIONS,
  BIAS,
  SINK,
  KEY_SCALE,
  VALUE_SCALE,
  QUERY_NORM,
  KEY_NORM
};

typedef struct decoder {
  attention a;      /* keys and values of these positions alone, until they are in the cache */
  int64_t room;     /* positions of the caches that are given */
  int64_t total;    /* positions that are attended to, at most */
  int64_t past;     /* positions before these; -1: `filled` */
  MlirValue filled; /* (batch), integers: of each sample */
} decoder;

static void refuse_extras(import_node *n) {
  static const struct {
    const char *name;
    int64_t usual;
  } attrs[] = {{"kv_cache_bit_width", 0}, {"sliding_window_cache", 0}, {"qk_output", 0}};
  for (size_t i = 0; i < WAFER_COUNT(attrs); i++)
    if (attr_int(n, attrs[i].name, attrs[i].usual) != attrs[i].usual)
      node_problem(n, WAFER_PROBLEM_attribute, "attribute %s", attrs[i].name);
  if (attr_int(n, "smooth_softmax", -1) > 0 || node_has_input(n, SINK))
    node_problem(n, WAFER_PROBLEM_attribute, "a sink of the softmax");
  if (node_has_input(n, KEY_SCALE) || node_has_input(n, VALUE_SCALE))
    node_problem(n, WAFER_PROBLEM_attribute, "quantized caches");
  attr_text(n, "k_quant_type", ""), attr_text(n, "v_quant_type", "");
}

/* Queries, keys and values: apart, or one behind the other in the last dim. */
static void open_heads(import_node *n, decoder *d) {
  int64_t heads = attr_int(n, "num_heads", 0), kv = attr_int(n, "kv_num_heads", 0);
  MlirValue q = node_input(n, QUERY), k = node_input(n, KEY), v = node_input(n, VALUE);
  wafer_shape s = node_type(n, q).shape;
  if (n->status == WAFER_OK && (s.rank != 3 || heads < 1 || kv < 1 || heads % kv))
    node_bad(n, "a query of %u dims, %lld heads of queries, %lld of keys", s.rank, (long long)heads,
             (long long)kv);
  if (node_has_input(n, KEY) != node_has_input(n, VALUE))
    node_bad(n, "key and value come together");
  if (n->status != WAFER_OK) return;
  if (!node_has_input(n, KEY)) {
    int64_t all = heads + 2 * kv, size = s.dims[2] / all;
    if (s.dims[2] % all)
      node_bad(n, "%lld elements for %lld heads", (long long)s.dims[2], (long long)all);
    k = emit_part(n, q, 2, heads * size, kv * size);
    v = emit_part(n, q, 2, (heads + kv) * size, kv * size);
    q = emit_part(n, q, 2, 0, heads * size);
  }
  d->a.q = emit_split_heads(n, q, heads);
  d->a.k = emit_split_heads(n, k, kv);
  d->a.v = emit_split_heads(n, v, kv);
  attention_measure(n, &d->a);
}

/* Whether it is known that every sample is as long as the longest one. */
static bool lengths_are_total(import_node *n, const decoder *d) {
  wafer_view view;
  int64_t count;
  if (!wafer_ir_constant(n->im->ctx, n->im->ir, node_input(n, LENGTHS), &view)) return false;
  wafer_shape_elements(&view.shape, &count);
  for (int64_t i = 0; i < count; i++)
    if (wafer_element_i64(view.dtype, view.data, i) + 1 != d->total) return false;
  return true;
}

/* How many positions are before these: as many for all samples, or what the run says of each. */
static void open_past(import_node *n, decoder *d) {
  d->total = (int64_t)node_float(n, TOTAL, "total_sequence_length", 0);
  if (node_has_input(n, PAST_KEY)) {
    wafer_shape past = node_type(n, node_input(n, PAST_KEY)).shape;
    if (n->status == WAFER_OK && (past.rank != 4 || !node_has_input(n, PAST_VALUE)))
      node_bad(n, "the past must be two caches of 4 dims");
    d->room = past.dims[2];
  }
  if (n->status == WAFER_OK && (d->total < d->a.rows || d->total > d->room + d->a.rows))
    node_bad(n, "total_sequence_length %lld, %lld positions and %lld of the past",
             (long long)d->total, (long long)d->a.rows, (long long)d->room);
  if (n->status != WAFER_OK || d->total == d->a.rows) return; /* the first ones: all are new */
  d->past = d->total - d->a.rows;
  if (lengths_are_total(n, d)) return;
  MlirValue lengths = emit_reshape(n, node_input(n, LENGTHS), 1, (int64_t[]){d->a.batch});
  d->filled = SUB(lengths, emit_scalar_like(n, lengths, (double)(d->a.rows - 1)));
  d->past = -1;
}

/* `filled`, beside what has `rank` dims, the first one that of samples; for one sample (1). */
static MlirValue of_samples(import_node *n, const decoder *d, uint32_t rank) {
  const int64_t dims[] = {d->a.batch, 1, 1, 1};
  return d->a.batch == 1 ? d->filled : emit_reshape(n, d->filled, rank, dims);
}

/* ---- Positions ---- */

static MlirValue normed(import_node *n, MlirValue x, uint32_t weight) {
  if (!node_has_input(n, weight)) return x;
  MlirValue y = emit_rms_normalized(n, x, 1u << 3, attr_float(n, "qk_norm_epsilon", 1e-6));
  return MUL(y, node_input(n, weight));
}

/* Rows of a cache for these positions, beside (batch, heads, positions, size). */
static MlirValue angles(import_node *n, const decoder *d, uint32_t index) {
  MlirValue cache = node_input(n, index), rows;
  if (!node_has_input(n, index) || node_rank(n, cache) != 2)
    node_bad(n, "do_rotary needs caches of cosines and sines, of 2 dims");
  if (n->status != WAFER_OK) return none;
  if (node_has_input(n, POSITIONS)) {
    rows = emit_rows(n, cache, node_input(n, POSITIONS));
  } else if (d->past >= 0) {
    rows = emit_part(n, cache, 0, d->past, d->a.rows);
  } else {
    MlirValue up = emit_iota(n, node_dtype(n, d->filled), d->a.rows);
    rows = emit_rows(n, cache, ADD(of_samples(n, d, 2), up));
  }
  wafer_shape s = node_type(n, rows).shape;
  int64_t batch = s.rank == 3 ? s.dims[0] : 1;
  return emit_reshape(n, rows, 4, (int64_t[]){batch, 1, d->a.rows, s.dims[s.rank - 1]});
}

static void turn(import_node *n, decoder *d) {
  if (!attr_int(n, "do_rotary", 0)) return;
  MlirValue cosine = angles(n, d, COSINES), sine = angles(n, d, SINES);
  bool interleaved = attr_int(n, "rotary_interleaved", 0) != 0;
  if (n->status != WAFER_OK) return;
  int64_t turned = 2 * node_type(n, cosine).shape.dims[3],
          size = node_type(n, d->a.q).shape.dims[3];
  if (turned > size)
    node_bad(n, "caches for %lld elements, heads have %lld", (long long)turned, (long long)size);
  if (n->status != WAFER_OK) return;
  d->a.q = emit_rotated(n, d->a.q, cosine, sine, turned, interleaved);
  d->a.k = emit_rotated(n, d->a.k, cosine, sine, turned, interleaved);
}

/* ---- Caches ---- */

/* The cache with `fresh` in its place: as long as the given one, or as the total. */
static MlirValue cached(import_node *n, const decoder *d, uint32_t index, MlirValue fresh) {
  if (!node_has_input(n, index)) return fresh;
  MlirValue past = node_input(n, index);
  int64_t rows = d->a.rows, length = d->room > d->total ? d->room : d->total;
  if (d->past >= 0) {
    int64_t behind = d->past + rows;
    MlirValue y = d->past ? emit_concat(n, emit_part(n, past, 2, 0, d->past), fresh, 2) : fresh;
    return behind < length ? emit_concat(n, y, emit_part(n, past, 2, behind, length - behind), 2)
                           : y;
  }
  /* Column t is one of the past, or of the new ones, which lie behind all of that. */
  MlirValue t = emit_iota(n, node_dtype(n, d->filled), length), of = SUB(t, of_samples(n, d, 2));
  MlirValue new_ones = emit_binary(
      n, WAFER_OP_and, emit_binary(n, WAFER_OP_less_equal, emit_scalar_like(n, of, 0), of),
      emit_binary(n, WAFER_OP_less, of, emit_scalar_like(n, of, (double)rows)));
  MlirValue from = emit_select(n, new_ones, ADD(of, emit_scalar_like(n, of, (double)d->room)), t);
  MlirValue all = emit_concat(n, past, fresh, 2);
  if (d->a.batch == 1) return emit_gather(n, all, from, 2);
  int64_t heads[] = {d->a.batch, d->a.kv_heads, length};
  from = emit_reshape(n, from, 3, (int64_t[]){d->a.batch, 1, length});
  return emit_gather_batched(n, all, emit_expand(n, from, 3, heads), 2);
}

/* Columns that row r sees: up to its own, and no further back than the window. */
static MlirValue seen(import_node *n, const decoder *d) {
  int64_t rows = d->a.rows, columns = d->total, window = attr_int(n, "local_window_size", -1);
  MlirValue r = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, rows), 2, (int64_t[]){rows, 1});
  MlirValue c = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, columns), 2, (int64_t[]){1, columns});
  MlirValue past = d->past >= 0 ? emit_scalar_like(n, r, (double)d->past)
                                : emit_cast(n, of_samples(n, d, 4), WAFER_DTYPE_i64);
  MlirValue back = SUB(ADD(r, past), c); /* how far back a column is */
  MlirValue allowed = emit_binary(n, WAFER_OP_less_equal, emit_scalar_like(n, back, 0), back);
  if (window < 0) return allowed;
  MlirValue near = emit_binary(n, WAFER_OP_less, back, emit_scalar_like(n, back, (double)window));
  return emit_binary(n, WAFER_OP_and, allowed, near);
}

/* query, key, value, past_key, past_value, seqlens_k, total_sequence_length, cos_cache, sin_cache,
 * position_ids, attention_bias, head_sink, k_scale, v_scale, q_norm_weight, k_norm_weight */
void import_group_query_attention(import_node *n) {
  decoder d = {.room = 0};
  refuse_extras(n);
  open_heads(n, &d);
  if (n->status == WAFER_OK) open_past(n, &d);
  if (n->status != WAFER_OK) return;
  d.a.q = normed(n, d.a.q, QUERY_NORM);
  d.a.k = normed(n, d.a.k, KEY_NORM);
  turn(n, &d);
  MlirValue keys = cached(n, &d, PAST_KEY, d.a.k), values = cached(n, &d, PAST_VALUE, d.a.v);
  d.a.k = emit_part(n, keys, 2, 0, d.total);
  d.a.v = emit_part(n, values, 2, 0, d.total);
  attention_measure(n, &d.a);
  if (n->status != WAFER_OK) return;
  double scale = attr_float(n, "scale", 0), cap = attr_float(n, "softcap", 0);
  if (scale == 0) scale = 1 / sqrt((double)node_type(n, d.a.q).shape.dims[3]);
  MlirValue scores = emit_scores(n, &d.a, scale);
  if (cap > 0) scores = emit_softcapped(n, scores, cap);
  if (node_has_input(n, BIAS)) scores = ADD(scores, node_input(n, BIAS));
  if (attr_int(n, "causal", 1))
    scores = ADD(scores, emit_bias_of(n, seen(n, &d), scores, -INFINITY));
  MlirValue y = emit_weighted(n, &d.a, emit_softmax(n, scores, 3), d.a.v);
  n->outputs[0] = emit_join_heads(n, y);
  if (n->output_count > 1) n->outputs[1] = keys;
  if (n->output_count > 2) n->outputs[2] = values;
}

/* Attention and its relatives: scaled products of queries and keys, rotary positions, recurrences
 * over a state. */
#include <math.h>
#include <string.h>

#include "operators.h"

static const MlirValue none;

MlirValue emit_split_heads(import_node *n, MlirValue x, int64_t heads) {
  wafer_shape shape = node_type(n, x).shape;
  if (n->status != WAFER_OK) return none;
  if (heads < 1 || shape.dims[2] % heads) {
    node_bad(n, "%lld heads do not divide %lld elements", (long long)heads,
             (long long)shape.dims[2]);
    return none;
  }
  int64_t apart[] = {shape.dims[0], shape.dims[1], heads, shape.dims[2] / heads};
  return emit_transpose(n, emit_reshape(n, x, 4, apart), 4, (int64_t[]){0, 2, 1, 3});
}

MlirValue emit_join_heads(import_node *n, MlirValue x) {
  wafer_shape shape = node_type(n, x).shape;
  x = emit_transpose(n, x, 4, (int64_t[]){0, 2, 1, 3});
  return emit_reshape(n, x, 3,
                      (int64_t[]){shape.dims[0], shape.dims[2], shape.dims[1] * shape.dims[3]});
}

MlirValue emit_causal(import_node *n, int64_t rows, int64_t columns, int64_t shift) {
  MlirValue row = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i32, rows), 2, (int64_t[]){rows, 1});
  MlirValue column =
      emit_reshape(n, emit_iota(n, WAFER_DTYPE_i32, columns), 2, (int64_t[]){1, columns});
  row = ADD(row, emit_scalar_like(n, row, (double)shift));
  return emit_binary(n, WAFER_OP_less_equal, column, row);
}

/* ---- Attention ---- */

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, FILLED };

static MlirValue with_past(import_node *n, MlirValue x, uint32_t past) {
  return node_has_input(n, past) ? emit_concat(n, node_input(n, past), x, 2) : x;
}

void attention_measure(import_node *n, attention *a) {
  wafer_shape q = node_type(n, a->q).shape, k = node_type(n, a->k).shape;
  if (n->status == WAFER_OK && (k.rank != 4 || k.dims[1] < 1 || q.dims[1] % k.dims[1]))
    node_bad(n, "%lld heads of queries, %lld of keys", (long long)q.dims[1], (long long)k.dims[1]);
  a->batch = q.dims[0], a->heads = q.dims[1], a->rows = q.dims[2];
  a->kv_heads = k.dims[1], a->columns = k.dims[2];
}

static attention attention_of(import_node *n) {
  attention a = {.q = node_input(n, QUERY), .k = node_input(n, KEY), .v = node_input(n, VALUE)};
  uint32_t rank = node_rank(n, a.q);
  if (rank == 3) {
    int64_t heads = attr_int(n, "q_num_heads", 0), kv = attr_int(n, "kv_num_heads", 0);
    a.q = emit_split_heads(n, a.q, heads);
    a.k = emit_split_heads(n, a.k, kv);
    a.v = emit_split_heads(n, a.v, kv);
  } else if (rank != 4) {
    node_bad(n, "queries have %u dims, need 3 or 4", rank);
  }
  if (node_has_input(n, PAST_KEY)) a.past = node_type(n, node_input(n, PAST_KEY)).shape.dims[2];
  a.k = with_past(n, a.k, PAST_KEY);
  a.v = with_past(n, a.v, PAST_VALUE);
  attention_measure(n, &a);
  return a;
}

/* Queries whose heads share keys lie one below the other: their product with these keys is one. */
static MlirValue shared_heads(import_node *n, const attention *a, MlirValue x) {
  wafer_shape shape = node_type(n, x).shape;
  int64_t dims[] = {a->batch, a->kv_heads, a->heads / a->kv_heads * a->rows, shape.dims[3]};
  return a->heads == a->kv_heads ? x : emit_reshape(n, x, 4, dims);
}

static MlirValue own_heads(import_node *n, const attention *a, MlirValue x) {
  int64_t dims[] = {a->batch, a->heads, a->rows, node_type(n, x).shape.dims[3]};
  return a->heads == a->kv_heads ? x : emit_reshape(n, x, 4, dims);
}

MlirValue emit_scores(import_node *n, const attention *a, double scale) {
  MlirValue q = shared_heads(n, a, MUL(a->q, emit_scalar_like(n, a->q, scale)));
  return own_heads(n, a, emit_binary(n, WAFER_OP_matmul, q, emit_swap_last(n, a->k)));
}

MlirValue emit_weighted(import_node *n, const attention *a, MlirValue chances, MlirValue v) {
  return own_heads(n, a, emit_binary(n, WAFER_OP_matmul, shared_heads(n, a, chances), v));
}

MlirValue emit_bias_of(import_node *n, MlirValue allowed, MlirValue like, double otherwise) {
  return emit_select(n, allowed, emit_scalar_like(n, like, 0),
                     emit_scalar_like(n, like, otherwise));
}

static MlirValue bias_of(import_node *n, MlirValue allowed, MlirValue like) {
  return emit_bias_of(n, allowed, like, -INFINITY);
}

static MlirValue plus(import_node *n, MlirValue a, MlirValue b) {
  return a.ptr ? ADD(a, b) : b;
}

/* The mask's columns that are missing count as masked. */
static MlirValue mask_bias(import_node *n, const attention *a, MlirValue like) {
  MlirValue mask = node_input(n, MASK);
  bool logical = node_dtype(n, mask) == WAFER_DTYPE_bool;
  if (logical) mask = bias_of(n, mask, like);
  wafer_shape shape = node_type(n, mask).shape;
  int64_t lacks = shape.rank ? a->columns - shape.dims[shape.rank - 1] : 0;
  if (lacks > 0 && shape.dims[shape.rank - 1] != 1) {
    int64_t pads[2 * WAFER_MAX_RANK] = {0};
    pads[2 * shape.rank - 1] = lacks;
    mask = emit_padded(n, mask, pads, -INFINITY);
  }
  return emit_cast(n, mask, node_dtype(n, like));
}

static MlirValue filled_counts(import_node *n, const attention *a) {
  MlirValue count = emit_cast(n, node_input(n, FILLED), WAFER_DTYPE_i64);
  return emit_reshape(n, count, 4, (int64_t[]){a->batch, 1, 1, 1});
}

/* Columns from each sample's count of keys on are masked. */
static MlirValue filled_bias(import_node *n, const attention *a, MlirValue like) {
  MlirValue column = emit_iota(n, WAFER_DTYPE_i64, a->columns);
  return bias_of(n, emit_binary(n, WAFER_OP_less, column, filled_counts(n, a)), like);
}

/* Where each query may look by its position, the keys before these counted: up to itself, not
 * further than a window reaches. Of a cache that fills up from outside the counts say how many. */
static MlirValue position_bias(import_node *n, const attention *a, MlirValue like) {
  int64_t left = attr_int(n, "left_window_size", -1), right = attr_int(n, "right_window_size", -1);
  bool causal = attr_int(n, "is_causal", 0) != 0;
  bool counted = node_has_input(n, FILLED) && !node_has_input(n, PAST_KEY);
  int64_t far = a->rows + a->columns; /* reaches everything */
  if (left < -1 || right < -1)
    node_bad(n, "a window of %lld and %lld, must be -1 and up", (long long)left, (long long)right);
  if (left > far) left = far;
  if (right > far) right = far;
  if (causal) right = 0;
  if ((left < 0 && right < 0) || n->status != WAFER_OK) return none;
  if (left < 0 && !counted)
    return bias_of(n, emit_causal(n, a->rows, a->columns, a->past + right), like);
  MlirValue row = emit_iota(n, WAFER_DTYPE_i64, a->rows), allowed = none;
  MlirValue column = emit_iota(n, WAFER_DTYPE_i64, a->columns);
  row = emit_reshape(n, row, 2, (int64_t[]){a->rows, 1});
  row = ADD(row, counted ? SUB(filled_counts(n, a), emit_scalar_like(n, row, (double)a->rows))
                         : emit_scalar_like(n, row, (double)a->past));
  if (right >= 0)
    allowed = emit_binary(n, WAFER_OP_less_equal, column,
                          right ? ADD(row, emit_scalar_like(n, row, (double)right)) : row);
  if (left >= 0) {
    MlirValue near = emit_binary(n, WAFER_OP_less_equal,
                                 SUB(row, emit_scalar_like(n, row, (double)left)), column);
    allowed = allowed.ptr ? emit_binary(n, WAFER_OP_and, allowed, near) : near;
  }
  return bias_of(n, allowed, like);
}

/* What is added to the scores, and which rows (batch or 1, ..., rows or 1, 1) it leaves nothing to
 * look at: their results are zeros, where softmax would give NaN. Null: there is none. */
typedef struct masking {
  MlirValue bias, hidden;
} masking;

/* Whether it is known that every row has something to look at. */
static bool rows_are_open(const import_node *n, MlirValue bias) {
  wafer_view view;
  int64_t count;
  if (n->status != WAFER_OK || !wafer_ir_constant(n->im->ctx, n->im->ir, bias, &view)) return false;
  wafer_shape_elements(&view.shape, &count);
  int64_t columns = view.shape.rank ? view.shape.dims[view.shape.rank - 1] : 1;
  for (int64_t i = 0, hidden = 0; i < count; i++) {
    double value = wafer_element_f64(view.dtype, view.data, i);
    hidden = (i % columns ? hidden : 0) + (value < 0 && isinf(value));
    if (hidden == columns) return false;
  }
  return true;
}

static masking attention_masking(import_node *n, const attention *a, MlirValue like) {
  masking m = {none, none};
  bool given = node_has_input(n, MASK), filled = node_has_input(n, FILLED);
  if (given) m.bias = mask_bias(n, a, like);
  MlirValue position = position_bias(n, a, like);
  if (position.ptr) m.bias = plus(n, m.bias, position);
  if (filled) m.bias = plus(n, m.bias, filled_bias(n, a, like));
  bool causal_alone = !given && !filled && attr_int(n, "left_window_size", -1) < 0;
  if (!m.bias.ptr || causal_alone || rows_are_open(n, m.bias)) return m;
  uint32_t rank = node_rank(n, m.bias);
  MlirValue most = m.bias;
  if (rank) most = emit_reduce(n, WAFER_OP_reduce_max, most, 1u << (rank - 1), true);
  m.hidden = emit_binary(n, WAFER_OP_equal, most, emit_scalar_like(n, most, -INFINITY));
  return m;
}

/* `x` but for rows that are hidden, which are zeros. */
static MlirValue unless_hidden(import_node *n, const masking *m, MlirValue x) {
  return m->hidden.ptr ? emit_select(n, m->hidden, emit_scalar_like(n, x, 0), x) : x;
}

MlirValue emit_softcapped(import_node *n, MlirValue scores, double cap) {
  MlirValue limit = emit_scalar_like(n, scores, cap);
  return MUL(emit_unary(n, WAFER_OP_tanh, DIV(scores, limit)), limit);
}

/* softmax(softcap(scale * q k^T) + bias) v */
void import_attention(import_node *n) {
  attention a = attention_of(n);
  double size = (double)node_type(n, a.q).shape.dims[3], cap = attr_float(n, "softcap", 0);
  double scale = attr_has(n, "scale") ? attr_float(n, "scale", 1) : 1 / sqrt(size);
  wafer_dtype dtype = node_dtype(n, a.q);
  int64_t precision = attr_int(n, "softmax_precision", 0);
  wafer_dtype wide = precision ? wafer_dtype_by_onnx((int32_t)precision) : dtype;
  int64_t mode = attr_int(n, "qk_matmul_output_mode", 0);
  if (!wafer_dtype_is_float(wide)) node_bad(n, "softmax_precision is no float type");
  if (mode < 0 || mode > 3) node_bad(n, "qk_matmul_output_mode is %lld", (long long)mode);
  if (n->status != WAFER_OK) return;
  MlirValue steps[4];
  steps[0] = emit_scores(n, &a, scale);
  steps[1] = cap > 0 ? emit_softcapped(n, steps[0], cap) : steps[0];
  masking m = attention_masking(n, &a, steps[1]);
  MlirValue open = m.bias.ptr ? unless_hidden(n, &m, m.bias) : none;
  MlirValue masked = open.ptr ? ADD(steps[1], open) : steps[1];
  steps[2] = m.hidden.ptr && n->output_count > 3 && mode == 2 ? ADD(steps[1], m.bias) : masked;
  MlirValue chances = emit_softmax(n, wide == dtype ? masked : emit_cast(n, masked, wide), 3);
  steps[3] = n->output_count > 3 && mode == 3 ? unless_hidden(n, &m, chances) : chances;
  MlirValue v = wide == dtype ? a.v : emit_cast(n, a.v, wide);
  MlirValue y = unless_hidden(n, &m, emit_weighted(n, &a, chances, v));
  if (wide != dtype) y = emit_cast(n, y, dtype);
  n->outputs[0] = node_rank(n, node_input(n, QUERY)) == 3 ? emit_join_heads(n, y) : y;
  if (n->output_count > 1) n->outputs[1] = a.k;
  if (n->output_count > 2) n->outputs[2] = a.v;
  if (n->output_count > 3) n->outputs[3] = emit_cast(n, steps[mode], dtype);
}

/* ---- FlexAttention: the model says how scores and probabilities are changed ---- */

/* What graph attribute `name` makes of x; x itself without the attribute. */
static MlirValue modified(import_node *n, const char *name, MlirValue x) {
  const onnx_attribute *a = attr_find(n, name);
  if (!a || n->status != WAFER_OK) return x;
  if (!a->g || a->g->input.count != 1 || a->g->output.count != 1)
    node_bad(n, "%s must be a graph of one input and one output", name);
  wafer_type type = node_type(n, x);
  const piece *open = n->im->fn->open;
  name_entry argument = {
      .state = NAME_KNOWN, .value = x, .fn = n->im->fn, .piece = n->im->fn->open};
  name_entry *result;
  MlirValue y = none;
  if (n->status == WAFER_OK)
    n->status = import_subgraph(n->im, n->scope, a->g, 1, &argument, 1, &result);
  if (n->status == WAFER_OK && n->im->fn->open != open)
    node_unsupported(n, "%s has a node that only the host computes", name);
  if (n->status == WAFER_OK) n->status = assembly_use(n->im, result, &y);
  if (n->status == WAFER_OK && mlirValueIsNull(y))
    node_unsupported(n, "%s gives no tensor of static shape", name);
  if (n->status != WAFER_OK) return x;
  wafer_type made = node_type(n, y);
  if (!wafer_shape_equal(&made.shape, &type.shape)) {
    char want[128], got[128];
    wafer_shape_format(&type.shape, want, sizeof want);
    wafer_shape_format(&made.shape, got, sizeof got);
    node_bad(n, "%s gives %s, must keep the shape %s", name, got, want);
  }
  return emit_cast(n, y, type.dtype);
}

/* Softmax in softmax_precision; without it in f32, or in the operand's type where that is wider. */
static wafer_dtype flex_precision(import_node *n, wafer_dtype dtype) {
  int64_t given = attr_int(n, "softmax_precision", 0);
  wafer_dtype wide = given                          ? wafer_dtype_by_onnx((int32_t)given)
                     : wafer_dtype_bytes(dtype) < 4 ? WAFER_DTYPE_f32
                                                    : dtype;
  if (!wafer_dtype_is_float(wide)) node_bad(n, "softmax_precision is no float type");
  return wide;
}

/* prob_mod(softmax(score_mod(scale * q k^T))) v */
void import_flex_attention(import_node *n) {
  for (uint32_t i = QUERY; i <= VALUE; i++)
    if (node_rank(n, node_input(n, i)) != 4)
      node_bad(n, "input %u has %u dims, needs 4", i, node_rank(n, node_input(n, i)));
  if (n->status != WAFER_OK) return;
  attention a = attention_of(n);
  double size = (double)node_type(n, a.q).shape.dims[3];
  double scale = attr_has(n, "scale") ? attr_float(n, "scale", 1) : 1 / sqrt(size);
  wafer_dtype dtype = node_dtype(n, a.q), wide = flex_precision(n, dtype);
  if (n->status != WAFER_OK) return;
  MlirValue scores = modified(n, "score_mod", emit_cast(n, emit_scores(n, &a, scale), wide));
  MlirValue chances = modified(n, "prob_mod", emit_softmax(n, scores, 3));
  MlirValue y = emit_weighted(n, &a, chances, emit_cast(n, a.v, wide));
  n->outputs[0] = emit_cast(n, y, dtype);
}

/* ---- Rotary positions ---- */

/* The cosines or sines of every position: (batch or 1, positions, half). */
static MlirValue angles(import_node *n, uint32_t index) {
  MlirValue cache = node_input(n, index);
  return node_has_input(n, 3) ? emit_gather(n, cache, node_input(n, 3), 0) : cache;
}

/* `heads_first`: x is (batch, heads, positions, size), else positions and heads change places. */
static MlirValue beside_heads(import_node *n, MlirValue angle, bool heads_first) {
  wafer_shape s = node_type(n, angle).shape;
  if (n->status == WAFER_OK && s.rank != 3) node_bad(n, "the caches have %u dims", s.rank);
  int64_t before[] = {s.dims[0], 1, s.dims[1], s.dims[2]},
          behind[] = {s.dims[0], s.dims[1], 1, s.dims[2]};
  return emit_reshape(n, angle, 4, heads_first ? before : behind);
}

static MlirValue rotated(import_node *n, MlirValue x, MlirValue cosine, MlirValue sine,
                         bool interleaved) {
  wafer_shape s = node_type(n, x).shape;
  int64_t half = s.dims[3] / 2;
  int64_t pairs[] = {s.dims[0], s.dims[1], s.dims[2], half, 2},
          single[] = {s.dims[0], s.dims[1], s.dims[2], half};
  MlirValue apart = interleaved ? emit_reshape(n, x, 5, pairs) : x;
  MlirValue a = emit_part(n, apart, interleaved ? 4 : 3, 0, interleaved ? 1 : half);
  MlirValue b =
      emit_part(n, apart, interleaved ? 4 : 3, interleaved ? 1 : half, interleaved ? 1 : half);
  a = emit_reshape(n, a, 4, single);
  b = emit_reshape(n, b, 4, single);
  MlirValue real = SUB(MUL(a, cosine), MUL(b, sine)), other = ADD(MUL(a, sine), MUL(b, cosine));
  if (!interleaved) return emit_concat(n, real, other, 3);
  pairs[4] = 1;
  real = emit_concat(n, emit_reshape(n, real, 5, pairs), emit_reshape(n, other, 5, pairs), 4);
  return emit_reshape(n, real, 4, s.dims);
}

MlirValue emit_rotated(import_node *n, MlirValue x, MlirValue cosine, MlirValue sine,
                       int64_t turned, bool interleaved) {
  int64_t size = node_type(n, x).shape.dims[3];
  MlirValue y = rotated(n, emit_part(n, x, 3, 0, turned), cosine, sine, interleaved);
  return turned < size ? emit_concat(n, y, emit_part(n, x, 3, turned, size - turned), 3) : y;
}

void import_rotary_embedding(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape given = node_type(n, x).shape, s = given;
  bool heads_first = given.rank == 4;
  int64_t heads = attr_int(n, "num_heads", 0), turned = attr_int(n, "rotary_embedding_dim", 0);
  if (given.rank == 3 && heads > 0 && given.dims[2] % heads == 0) {
    s = (wafer_shape){4, {given.dims[0], given.dims[1], heads, given.dims[2] / heads}};
    x = emit_reshape(n, x, 4, s.dims);
  } else if (given.rank != 4) {
    node_bad(n, "an operand of %u dims, num_heads %lld", given.rank, (long long)heads);
  }
  if (turned == 0) turned = s.dims[3];
  if (turned < 0 || turned > s.dims[3] || turned % 2)
    node_bad(n, "rotary_embedding_dim %lld of %lld", (long long)turned, (long long)s.dims[3]);
  if (n->status != WAFER_OK) return;
  MlirValue cosine = beside_heads(n, angles(n, 1), heads_first);
  MlirValue sine = beside_heads(n, angles(n, 2), heads_first);
  bool interleaved = attr_int(n, "interleaved", 0) != 0;
  MlirValue y = emit_rotated(n, x, cosine, sine, turned, interleaved);
  n->outputs[0] = emit_reshape(n, y, given.rank, given.dims);
}

/* ---- Linear attention: a matrix per head, updated position by position ---- */

typedef struct linear_attention {
  MlirValue q, k, v, decay, beta; /* (batch, heads, positions, ...), f32; null where absent */
  int64_t batch, heads, kv_heads, positions;
} linear_attention;

static MlirValue heads_f32(import_node *n, uint32_t index, int64_t heads) {
  if (!node_has_input(n, index)) return none;
  MlirValue x = node_input(n, index);
  if (node_rank(n, x) != 3) node_bad(n, "input %u has %u dims, needs 3", index, node_rank(n, x));
  return emit_split_heads(n, emit_cast(n, x, WAFER_DTYPE_f32), heads);
}

static MlirValue at_position(import_node *n, MlirValue x, int64_t t) {
  return emit_part(n, x, 2, t, 1);
}

static MlirValue linear_step(import_node *n, const linear_attention *a, int64_t t,
                             MlirValue *state) {
  MlirValue key = at_position(n, a->k, t), value = at_position(n, a->v, t);
  if (a->decay.ptr)
    *state =
        MUL(*state, emit_swap_last(n, emit_unary(n, WAFER_OP_exp, at_position(n, a->decay, t))));
  if (a->beta.ptr)
    value =
        MUL(at_position(n, a->beta, t), SUB(value, emit_binary(n, WAFER_OP_matmul, key, *state)));
  *state = ADD(*state, MUL(emit_swap_last(n, key), value));
  int64_t share = a->heads / a->kv_heads;
  MlirValue query = at_position(n, a->q, t);
  wafer_shape q = node_type(n, query).shape;
  query = emit_reshape(n, query, 4, (int64_t[]){a->batch, a->kv_heads, share, q.dims[3]});
  MlirValue y = emit_binary(n, WAFER_OP_matmul, query, *state);
  return emit_reshape(n, y, 4, (int64_t[]){a->batch, a->heads, 1, node_type(n, y).shape.dims[3]});
}

static void check_rule(import_node *n) {
  const char *rule = attr_text(n, "update_rule", "gated_delta");
  bool delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
  bool gated = !strcmp(rule, "gated") || !strcmp(rule, "gated_delta");
  if (!delta && !gated && strcmp(rule, "linear"))
    node_bad(n, "update_rule is '%s', must be linear, gated, delta or gated_delta", rule);
  if (gated != node_has_input(n, 4) || delta != node_has_input(n, 5))
    node_bad(n, "update_rule '%s' %s decay and %s beta", rule, gated ? "needs" : "has no",
             delta ? "needs" : "has no");
}

/* query, key, value, past_state, decay, beta: S = exp(decay) S + k^T v, y = scale q S, where delta
 * rules replace v by beta (v - k S). */
void import_linear_attention(import_node *n) {
  int64_t heads = attr_int(n, "q_num_heads", 0), kv = attr_int(n, "kv_num_heads", 0);
  if (heads < 1 || kv < 1 || heads % kv)
    node_bad(n, "%lld heads of queries, %lld of keys", (long long)heads, (long long)kv);
  check_rule(n);
  linear_attention a = {.q = heads_f32(n, 0, heads), .k = heads_f32(n, 1, kv)};
  a.v = heads_f32(n, 2, kv);
  a.decay = heads_f32(n, 4, kv);
  if (node_has_input(n, 5))
    a.beta = heads_f32(n, 5, node_type(n, node_input(n, 5)).shape.dims[2] == 1 ? 1 : kv);
  if (n->status != WAFER_OK) return;
  wafer_shape q = node_type(n, a.q).shape, v = node_type(n, a.v).shape;
  a.batch = q.dims[0], a.heads = heads, a.kv_heads = kv, a.positions = q.dims[2];
  double scale = attr_float(n, "scale", 0);
  if (scale == 0) scale = 1 / sqrt((double)q.dims[3]);
  a.q = MUL(a.q, emit_scalar_like(n, a.q, scale));
  MlirValue state, *y = WAFER_NEW(n->im->ctx->arena, MlirValue, a.positions);
  wafer_dtype dtype = node_dtype(n, node_input(n, 0)), kept = dtype;
  if (node_has_input(n, 3)) {
    kept = node_dtype(n, node_input(n, 3));
    state = emit_cast(n, node_input(n, 3), WAFER_DTYPE_f32);
  } else {
    int64_t dims[] = {a.batch, kv, q.dims[3], v.dims[3]};
    state = emit_expand(n, emit_scalar_like(n, a.q, 0), 4, dims);
  }
  if (!a.positions) node_unsupported(n, "no positions");
  for (int64_t t = 0; y && t < a.positions && n->status == WAFER_OK; t++)
    y[t] = linear_step(n, &a, t, &state);
  MlirValue all = emit_concat_all(n, (uint32_t)a.positions, y, 2);
  n->outputs[0] = emit_cast(n, emit_join_heads(n, all), dtype);
  if (n->output_count > 1) n->outputs[1] = emit_cast(n, state, kept);
}

/* A convolution per channel over what came before; the last positions are the next call's past. */
void import_causal_conv_with_state(import_node *n) {
  MlirValue x = node_input(n, 0), w = node_input(n, 1), bias = node_input(n, 2);
  wafer_shape s = node_type(n, x).shape, k = node_type(n, w).shape;
  const char *activation = attr_text(n, "activation", "none");
  bool swish = !strcmp(activation, "silu") || !strcmp(activation, "swish");
  if (!swish && strcmp(activation, "none")) node_bad(n, "activation is '%s'", activation);
  if (s.rank != 3 || k.rank != 3) node_bad(n, "operands of %u and %u dims", s.rank, k.rank);
  if (n->status != WAFER_OK) return;
  int64_t lead = k.dims[2] - 1, past[] = {s.dims[0], s.dims[1], lead};
  MlirValue before =
      node_has_input(n, 3) ? node_input(n, 3) : emit_expand(n, emit_scalar_like(n, x, 0), 3, past);
  if (lead) x = emit_concat(n, before, x, 2);
  MlirValue y = emit_conv_along(n, x, w, bias, s.dims[1], 1);
  n->outputs[0] = swish ? MUL(y, emit_unary(n, WAFER_OP_sigmoid, y)) : y;
  if (n->output_count > 1) n->outputs[1] = emit_part(n, x, 2, s.dims[2], lead);
}

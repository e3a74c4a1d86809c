/* Decoders (GPT and its relatives) and encoders (BERT). Nodes are named after what they compute in
 * their layer, weights after their node. */
#include <math.h>
#include <string.h>

#include "zoo.h"

#define DEVIATION 0.02

static bool has(const zoo *z, uint32_t flag) {
  return (z->spec->flags & flag) != 0;
}

/* x W (+ b); W is stored as (inputs, outputs). */
static const char *linear(zoo *z, const char *name, const char *x, int64_t inputs, int64_t outputs,
                          bool biased, double deviation) {
  const char *w = zoo_matrix(z, zoo_name(z, "%s.weight", name), deviation, inputs, outputs);
  if (!biased) return ZOO_OP(z, "MatMul", name, x, w);
  const char *y = ZOO_OP(z, "MatMul", zoo_name(z, "%s.product", name), x, w);
  return ZOO_OP(z, "Add", name, y, zoo_vector(z, zoo_name(z, "%s.bias", name), 0, outputs));
}

static const char *norm(zoo *z, const char *name, const char *x) {
  int64_t d = z->spec->d_model;
  const char *gain = zoo_vector(z, zoo_name(z, "%s.weight", name), 1, d);
  bool rms = z->spec->norm == WAFER_ZOO_rms;
  double epsilon = rms ? 1e-6 : z->spec->kind == WAFER_ZOO_bert ? 1e-12 : 1e-5;
  if (rms)
    ZOO_OP(z, "RMSNormalization", name, x, gain);
  else
    ZOO_OP(z, "LayerNormalization", name, x, gain,
           zoo_vector(z, zoo_name(z, "%s.bias", name), 0, d));
  wafer_onnx_attr_int(z->model, "axis", -1);
  wafer_onnx_attr_float(z->model, "epsilon", (float)epsilon);
  return name;
}

/* ---- Positions ---- */

/* cos or sin of position / 10000^(2 i / rotary): (sequence, rotary / 2). */
static const char *rotary_cache(zoo *z, const char *name, double (*of)(double)) {
  int64_t rows = z->spec->sequence, half = z->spec->rotary / 2;
  float *data = WAFER_NEW(z->arena, float, (size_t)(rows * half));
  z->failed |= !data;
  if (!data) return name;
  for (int64_t t = 0; t < rows; t++)
    for (int64_t i = 0; i < half; i++)
      data[t * half + i] = (float)of((double)t * pow(10000, -(double)i / (double)half));
  wafer_onnx_node_add(z->model, "Constant", name, (const char *const[]){NULL},
                      (const char *const[]){name, NULL});
  wafer_onnx_attr_tensor(z->model, "value", &(wafer_shape){2, {rows, half}}, data);
  return name;
}

/* Cosines and sines of every token, (batch, sequence, rotary / 2), once for all layers. Each sample
 * has the same positions, 0, 1, 2 ... */
static void rotary_caches(zoo *z, const char *tokens) {
  int64_t *numbers = WAFER_NEW(z->arena, int64_t, (size_t)z->spec->sequence);
  z->failed |= !numbers;
  if (!numbers) return;
  for (int64_t t = 0; t < z->spec->sequence; t++) numbers[t] = t;
  rotary_cache(z, "rotary.table.cos", cos);
  rotary_cache(z, "rotary.table.sin", sin);
  zoo_ints(z, "rotary.order", (size_t)z->spec->sequence, numbers);
  ZOO_OP(z, "Shape", "rotary.shape", tokens);
  ZOO_OP(z, "Expand", "rotary.positions", "rotary.order", "rotary.shape");
  ZOO_OP(z, "Gather", "rotary.cos", "rotary.table.cos", "rotary.positions");
  ZOO_OP(z, "Gather", "rotary.sin", "rotary.table.sin", "rotary.positions");
}

static const char *turned(zoo *z, const char *name, const char *x, int64_t heads) {
  ZOO_OP(z, "RotaryEmbedding", name, x, "rotary.cos", "rotary.sin");
  wafer_onnx_attr_int(z->model, "interleaved", has(z, WAFER_ZOO_INTERLEAVED));
  wafer_onnx_attr_int(z->model, "num_heads", heads);
  wafer_onnx_attr_int(z->model, "rotary_embedding_dim", z->spec->rotary);
  return name;
}

/* ---- A layer ---- */

/* The output's bias is the first part's: parts are summed. */
static const char *attention_part(zoo *z, const char *at, const char *x, bool last_bias) {
  const wafer_zoo_model *m = z->spec;
  int64_t heads = m->heads / m->parts, width = m->d_model / m->parts;
  bool biased = has(z, WAFER_ZOO_ATTENTION_BIAS), causal = m->kind == WAFER_ZOO_gpt;
  const char *q = linear(z, zoo_name(z, "%s.query", at), x, m->d_model, width, biased, DEVIATION);
  const char *k = linear(z, zoo_name(z, "%s.key", at), x, m->d_model, width, biased, DEVIATION);
  const char *v = linear(z, zoo_name(z, "%s.value", at), x, m->d_model, width, biased, DEVIATION);
  if (m->position == WAFER_ZOO_rotary) {
    q = turned(z, zoo_name(z, "%s.query.turned", at), q, heads);
    k = turned(z, zoo_name(z, "%s.key.turned", at), k, heads);
  }
  const char *name = zoo_name(z, "%s.heads", at);
  zoo_op(z, "Attention", name, (const char *const[]){q, k, v, causal ? NULL : "mask.heads", NULL});
  wafer_onnx_attr_int(z->model, "is_causal", causal);
  wafer_onnx_attr_int(z->model, "q_num_heads", heads);
  wafer_onnx_attr_int(z->model, "kv_num_heads", heads);
  return linear(z, zoo_name(z, "%s.output", at), name, width, m->d_model, biased && last_bias,
                z->residual);
}

static const char *activated(zoo *z, const char *at, const char *x, int64_t width) {
  const wafer_zoo_model *m = z->spec;
  const char *name = zoo_name(z, "%s.active", at);
  if (m->activation == WAFER_ZOO_swiglu) {
    const char *gate = linear(z, zoo_name(z, "%s.gate", at), x, m->d_model, width,
                              has(z, WAFER_ZOO_MLP_BIAS), DEVIATION);
    const char *up = linear(z, zoo_name(z, "%s.up", at), x, m->d_model, width,
                            has(z, WAFER_ZOO_MLP_BIAS), DEVIATION);
    const char *sigmoid = ZOO_OP(z, "Sigmoid", zoo_name(z, "%s.sigmoid", at), gate);
    const char *swish = ZOO_OP(z, "Mul", zoo_name(z, "%s.swish", at), gate, sigmoid);
    return ZOO_OP(z, "Mul", name, swish, up);
  }
  const char *up = linear(z, zoo_name(z, "%s.up", at), x, m->d_model, width,
                          has(z, WAFER_ZOO_MLP_BIAS), DEVIATION);
  if (m->activation == WAFER_ZOO_relu) return ZOO_OP(z, "Relu", name, up);
  ZOO_OP(z, "Gelu", name, up);
  if (m->activation == WAFER_ZOO_gelu_tanh) wafer_onnx_attr_text(z->model, "approximate", "tanh");
  return name;
}

static const char *mlp_part(zoo *z, const char *at, const char *x, bool last_bias) {
  int64_t width = z->spec->d_ff / z->spec->parts;
  const char *active = activated(z, at, x, width);
  return linear(z, zoo_name(z, "%s.down", at), active, width, z->spec->d_model,
                has(z, WAFER_ZOO_MLP_BIAS) && last_bias, z->residual);
}

/* x + the sum of the branch's parts. */
static const char *branch(zoo *z, const char *name, const char *onto, const char *x,
                          const char *(*part)(zoo *z, const char *at, const char *x, bool first)) {
  for (int64_t p = 0; p < z->spec->parts; p++) {
    const char *at = z->spec->parts > 1 ? zoo_name(z, "%s.part.%lld", name, (long long)p) : name;
    onto = ZOO_OP(z, "Add", zoo_name(z, "%s.sum", at), onto, part(z, at, x, p == 0));
  }
  return onto;
}

static const char *decoder_layer(zoo *z, int64_t index, const char *x) {
  const char *at = zoo_name(z, "layer.%lld", (long long)index);
  const char *h = norm(z, zoo_name(z, "%s.norm", at), x);
  const char *sum = branch(z, zoo_name(z, "%s.attention", at), x, h, attention_part);
  if (!has(z, WAFER_ZOO_ONE_NORM)) {
    const char *from = has(z, WAFER_ZOO_PARALLEL) ? x : sum;
    h = norm(z, zoo_name(z, "%s.mlp.norm", at), from);
  }
  return branch(z, zoo_name(z, "%s.mlp", at), sum, h, mlp_part);
}

/* ---- The table of tokens, in parts by its rows ---- */

static const char *of_part(zoo *z, int64_t p, const char *what) {
  return z->spec->parts > 1 ? zoo_name(z, "tokens.part.%lld.%s", (long long)p, what)
                            : zoo_name(z, "tokens.%s", what);
}

/* Tokens in a part; the last one may have fewer. */
static int64_t rows_of_part(const zoo *z, int64_t p) {
  int64_t all = z->spec->vocabulary, rows = (all + z->spec->parts - 1) / z->spec->parts;
  int64_t left = all - p * rows;
  return left < rows ? left : rows;
}

/* Rows of part p, those of other parts' tokens are zero. */
static const char *embedding_part(zoo *z, int64_t p) {
  int64_t rows = rows_of_part(z, p), first = p * rows_of_part(z, 0), last = rows - 1;
  const char *table = zoo_matrix(z, of_part(z, p, "weight"), DEVIATION, rows, z->spec->d_model);
  zoo_ints(z, of_part(z, p, "first"), 1, &first);
  zoo_ints(z, of_part(z, p, "last"), 1, &last);
  const char *number = ZOO_OP(z, "Sub", of_part(z, p, "number"), "tokens", of_part(z, p, "first"));
  ZOO_OP(z, "Min", of_part(z, p, "below"), number, of_part(z, p, "last"));
  const char *row = ZOO_OP(z, "Max", of_part(z, p, "row"), of_part(z, p, "below"), "tokens.zero");
  ZOO_OP(z, "Equal", of_part(z, p, "has"), number, row);
  ZOO_OP(z, "Cast", of_part(z, p, "counts"), of_part(z, p, "has"));
  wafer_onnx_attr_int(z->model, "to", 1);
  ZOO_OP(z, "Unsqueeze", of_part(z, p, "mask"), of_part(z, p, "counts"), "tokens.axis");
  ZOO_OP(z, "Gather", of_part(z, p, "found"), table, row);
  return ZOO_OP(z, "Mul", of_part(z, p, "embedding"), of_part(z, p, "found"),
                of_part(z, p, "mask"));
}

static const char *embedding(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  if (m->parts == 1) {
    const char *table = zoo_matrix(z, "tokens.weight", DEVIATION, m->vocabulary, m->d_model);
    return ZOO_OP(z, "Gather", "embedding", table, "tokens");
  }
  zoo_ints(z, "tokens.zero", 1, (int64_t[]){0});
  zoo_ints(z, "tokens.axis", 1, (int64_t[]){-1});
  const char *sum = embedding_part(z, 0);
  for (int64_t p = 1; p < m->parts; p++)
    sum = ZOO_OP(z, "Add", of_part(z, p, "sum"), sum, embedding_part(z, p));
  return sum;
}

/* Logits by the table of the embedding: of a part after the other. */
static void product_by_tokens(zoo *z, const char *name, const char *x) {
  int64_t parts = z->spec->parts;
  const char *all = NULL;
  for (int64_t p = 0; p < parts; p++) {
    const char *table = parts > 1 ? of_part(z, p, "head") : "head.table";
    ZOO_OP(z, "Transpose", table, of_part(z, p, "weight"));
    wafer_onnx_attr_ints(z->model, "perm", (int64_t[]){1, 0}, 2);
    const char *product = ZOO_OP(z, "MatMul", parts > 1 ? of_part(z, p, "logits") : name, x, table);
    if (p) {
      product = ZOO_OP(z, "Concat", p + 1 < parts ? of_part(z, p, "joined") : name, all, product);
      wafer_onnx_attr_int(z->model, "axis", -1);
    }
    all = product;
  }
}

/* ---- GPT ---- */

/* Rows of a table of learned positions, those of the sequence. */
static const char *positions(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  int64_t rows = m->positions ? m->positions : m->sequence;
  const char *table = zoo_matrix(z, "positions.weight", DEVIATION, rows, m->d_model);
  if (rows == m->sequence) return table;
  zoo_ints(z, "positions.first", 1, (int64_t[]){0});
  zoo_ints(z, "positions.end", 1, &m->sequence);
  return ZOO_OP(z, "Slice", "positions", table, "positions.first", "positions.end",
                "positions.first");
}

/* Logits over the vocabulary, by the embedding's table where that is shared. */
static void head(zoo *z, const char *x) {
  const wafer_zoo_model *m = z->spec;
  bool biased = has(z, WAFER_ZOO_HEAD_BIAS);
  const char *product = biased ? "head.product" : "logits";
  if (has(z, WAFER_ZOO_TIED))
    product_by_tokens(z, product, x);
  else
    ZOO_OP(z, "MatMul", product, x,
           zoo_matrix(z, "head.weight", DEVIATION, m->d_model, m->vocabulary));
  if (biased)
    ZOO_OP(z, "Add", "logits", "head.product", zoo_vector(z, "head.bias", 0, m->vocabulary));
  wafer_onnx_dim dims[] = {zoo_batch(z), {m->sequence, NULL}, {m->vocabulary, NULL}};
  wafer_onnx_output(z->model, "logits", WAFER_DTYPE_f32, 3, dims);
}

void zoo_gpt(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  wafer_onnx_dim dims[] = {zoo_batch(z), {m->sequence, NULL}};
  wafer_onnx_input(z->model, "tokens", WAFER_DTYPE_i64, 2, dims);
  const char *x = embedding(z);
  if (m->position == WAFER_ZOO_learned) x = ZOO_OP(z, "Add", "embedded", x, positions(z));
  if (m->position == WAFER_ZOO_rotary) rotary_caches(z, "tokens");
  for (int64_t i = 0; i < m->layers; i++) x = decoder_layer(z, i, x);
  head(z, norm(z, "norm", x));
}

/* ---- BERT ---- */

static const char *encoder_layer(zoo *z, int64_t index, const char *x) {
  const char *at = zoo_name(z, "layer.%lld", (long long)index);
  const char *sum = branch(z, zoo_name(z, "%s.attention", at), x, x, attention_part);
  x = norm(z, zoo_name(z, "%s.attention.norm", at), sum);
  sum = branch(z, zoo_name(z, "%s.mlp", at), x, x, mlp_part);
  return norm(z, zoo_name(z, "%s.norm", at), sum);
}

static void bert_inputs(zoo *z) {
  wafer_onnx_dim dims[] = {zoo_batch(z), {z->spec->sequence, NULL}};
  wafer_onnx_input(z->model, "tokens", WAFER_DTYPE_i64, 2, dims);
  wafer_onnx_input(z->model, "segments", WAFER_DTYPE_i64, 2, dims);
  wafer_onnx_input(z->model, "mask", WAFER_DTYPE_i64, 2, dims);
  zoo_ints(z, "mask.axes", 2, (int64_t[]){1, 2});
  ZOO_OP(z, "Cast", "mask.bool", "mask");
  wafer_onnx_attr_int(z->model, "to", 9);
  ZOO_OP(z, "Unsqueeze", "mask.row", "mask.bool", "mask.axes");
  zoo_ints(z, "mask.shape", 4, (int64_t[]){1, 1, z->spec->sequence, 1});
  ZOO_OP(z, "Expand", "mask.heads", "mask.row", "mask.shape");
}

/* The first token through a dense layer and tanh. */
static void pooler(zoo *z, const char *x) {
  int64_t d = z->spec->d_model;
  wafer_onnx_dim hidden[] = {zoo_batch(z), {z->spec->sequence, NULL}, {d, NULL}};
  wafer_onnx_dim pooled[] = {zoo_batch(z), {d, NULL}};
  zoo_ints(z, "pooler.first", 1, (int64_t[]){0});
  zoo_ints(z, "pooler.end", 1, (int64_t[]){1});
  zoo_ints(z, "pooler.axis", 1, (int64_t[]){1});
  ZOO_OP(z, "Identity", "hidden", x);
  ZOO_OP(z, "Slice", "pooler.slice", x, "pooler.first", "pooler.end", "pooler.axis");
  ZOO_OP(z, "Squeeze", "pooler.token", "pooler.slice", "pooler.axis");
  ZOO_OP(z, "Tanh", "pooled", linear(z, "pooler", "pooler.token", d, d, true, DEVIATION));
  wafer_onnx_output(z->model, "hidden", WAFER_DTYPE_f32, 3, hidden);
  wafer_onnx_output(z->model, "pooled", WAFER_DTYPE_f32, 2, pooled);
}

/* Dense, activation, norm, then the embedding's table and a bias. */
static void masked_head(zoo *z, const char *x) {
  const char *y = linear(z, "transform", x, z->spec->d_model, z->spec->d_model, true, DEVIATION);
  head(z, norm(z, "transform.norm", ZOO_OP(z, "Gelu", "transform.active", y)));
}

void zoo_bert(zoo *z) {
  const wafer_zoo_model *m = z->spec;
  bert_inputs(z);
  const char *x = embedding(z);
  const char *segments = zoo_matrix(z, "segments.weight", DEVIATION, 2, m->d_model);
  if (m->position == WAFER_ZOO_learned) x = ZOO_OP(z, "Add", "placed", x, positions(z));
  if (m->position == WAFER_ZOO_rotary) rotary_caches(z, "tokens");
  x = ZOO_OP(z, "Add", "embedded", x, ZOO_OP(z, "Gather", "segment", segments, "segments"));
  x = norm(z, "embedding.norm", x);
  for (int64_t i = 0; i < m->layers; i++) x = encoder_layer(z, i, x);
  if (has(z, WAFER_ZOO_MASKED_HEAD))
    masked_head(z, x);
  else
    pooler(z, x);
}

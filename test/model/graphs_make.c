/* Random graphs: a row per kind of node, each of which picks operands that are legal for it; those
 * that compute. */
#include <stdarg.h>
#include <string.h>

#include "graphs_maker.h"

uint64_t graph_random(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

int64_t any(maker *m, int64_t least, int64_t most) {
  return least + (int64_t)(graph_random(&m->state) % (uint64_t)(most - least + 1));
}

int64_t elements_of(const wafer_shape *shape) {
  int64_t count = 1;
  for (uint32_t d = 0; d < shape->rank; d++) count *= shape->dims[d];
  return count;
}

graph_value *value_at(maker *m, uint32_t value) {
  return &m->g->values[value];
}

/* ---- Values ---- */

static uint32_t add_value(maker *m, graph_value value) {
  m->g->values[m->g->value_count] = value;
  return m->g->value_count++;
}

uint32_t add_random(maker *m, graph_source source, wafer_dtype dtype, wafer_shape shape, double low,
                    double high) {
  return add_value(
      m, (graph_value){.source = source, .dtype = dtype, .shape = shape, .low = low, .high = high});
}

uint32_t add_ints(maker *m, uint32_t rank, uint32_t count, const int64_t *ints) {
  graph_value v = {.source = GRAPH_CONSTANT, .dtype = WAFER_DTYPE_i64, .given = true};
  v.shape = (wafer_shape){.rank = rank, .dims = {count}};
  memcpy(v.ints, ints, count * sizeof *ints);
  return add_value(m, v);
}

static wafer_shape shape_of(uint32_t rank, const int64_t *dims) {
  wafer_shape shape = {.rank = rank};
  memcpy(shape.dims, dims, rank * sizeof *dims);
  return shape;
}

uint32_t pick(maker *m, uint32_t types, uint32_t least, uint32_t most) {
  for (int tries = 0; tries < 24; tries++) {
    uint32_t count = m->g->value_count;
    uint32_t v = (uint32_t)any(m, tries < 12 && count > 4 ? count - 4 : 0, count - 1);
    const graph_value *at = value_at(m, v);
    if (at->source != GRAPH_CONSTANT && types >> at->dtype & 1 && at->shape.rank >= least &&
        at->shape.rank <= most)
      return v;
  }
  return NOBODY;
}

/* ---- Nodes ---- */

void add_node(maker *m, uint32_t count, const uint32_t *inputs, const char *format, ...) {
  graph_node *node = &m->g->nodes[m->g->node_count++];
  va_list list;
  *node = (graph_node){.input_count = count};
  memcpy(node->inputs, inputs, count * sizeof *inputs);
  va_start(list, format);
  vsnprintf(node->call, sizeof node->call, format, list);
  va_end(list);
}

bool add_output(maker *m, wafer_dtype dtype, wafer_shape shape) {
  graph_node *node = &m->g->nodes[m->g->node_count - 1];
  node->outputs[node->output_count++] = add_value(m, (graph_value){.source = GRAPH_NODE,
                                                                   .dtype = dtype,
                                                                   .shape = shape,
                                                                   .low = -2,
                                                                   .high = 2,
                                                                   .node = m->g->node_count - 1});
  return true;
}

static bool make_unary(maker *m) {
  static const char *const calls[] = {
      "Relu",      "Sigmoid",     "Tanh",           "Abs",
      "Neg",       "Softplus",    "Softsign",       "LeakyRelu(alpha=0.1)",
      "HardSwish", "HardSigmoid", "Elu(alpha=0.5)", "Erf",
      "Mish",      "Gelu",        "Selu",           "Sin",
      "Cos",       "Atan",        "Identity"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 0, 5);
  if (x == NOBODY) return false;
  add_node(m, 1, &x, "%s", ONE_OF(m, calls));
  return add_output(m, value_at(m, x)->dtype, value_at(m, x)->shape);
}

static bool make_plain(maker *m) { /* of other types */
  static const char *const calls[] = {"Abs", "Neg", "Identity"};
  uint32_t x = pick(m, INTS | BOOLS | 1u << WAFER_DTYPE_f64, 0, 5);
  if (x == NOBODY) return false;
  add_node(m, 1, &x, "%s", value_at(m, x)->dtype == WAFER_DTYPE_bool ? "Not" : ONE_OF(m, calls));
  return add_output(m, value_at(m, x)->dtype, value_at(m, x)->shape);
}

static bool broadcast(const wafer_shape *a, const wafer_shape *b, wafer_shape *out) {
  out->rank = a->rank > b->rank ? a->rank : b->rank;
  for (uint32_t d = 0; d < out->rank; d++) {
    int64_t x = d + a->rank < out->rank ? 1 : a->dims[d + a->rank - out->rank];
    int64_t y = d + b->rank < out->rank ? 1 : b->dims[d + b->rank - out->rank];
    if (x != y && x != 1 && y != 1) return false;
    out->dims[d] = x > y ? x : y;
  }
  return elements_of(out) <= MOST_ELEMENTS;
}

/* A second operand for `x`: another value, or a constant that is broadcast to or over it. */
static uint32_t partner(maker *m, uint32_t x, double low, double high, wafer_shape *out) {
  wafer_dtype dtype = value_at(m, x)->dtype;
  wafer_shape shape = value_at(m, x)->shape;
  for (int tries = 0; tries < 8 && low < 0; tries++) {
    uint32_t y = pick(m, 1u << dtype, 0, 5);
    if (y != NOBODY && broadcast(&shape, &value_at(m, y)->shape, out)) return y;
  }
  wafer_shape small = {.rank = (uint32_t)any(m, 0, shape.rank)};
  for (uint32_t d = 0; d < small.rank; d++)
    small.dims[d] = any(m, 0, 2) ? shape.dims[d + shape.rank - small.rank] : 1;
  broadcast(&shape, &small, out);
  return add_random(m, GRAPH_CONSTANT, dtype, small, low, high);
}

static bool make_binary(maker *m) {
  static const char *const floats[] = {"Add", "Sub", "Mul", "Max", "Min", "Div", "Add", "Mul"};
  static const char *const ints[] = {"Add", "Sub", "Max", "Min"};
  static const char *const bools[] = {"And", "Or", "Xor"};
  wafer_shape shape;
  uint32_t x = pick(m, ALL, 0, 5);
  if (x == NOBODY) return false;
  wafer_dtype dtype = value_at(m, x)->dtype;
  const char *call = FLOATS >> dtype & 1 ? ONE_OF(m, floats)
                     : INTS >> dtype & 1 ? ONE_OF(m, ints)
                                         : ONE_OF(m, bools);
  bool divides = !strcmp(call, "Div");
  uint32_t in[] = {x, partner(m, x, divides ? 0.5 : -2, 2, &shape)};
  bool swap = !divides && any(m, 0, 1);
  add_node(m, 2, swap ? (uint32_t[]){in[1], in[0]} : in, "%s", call);
  return add_output(m, dtype, shape);
}

static bool make_compare(maker *m) {
  static const char *const calls[] = {"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"};
  wafer_shape shape;
  uint32_t x = pick(m, INTS, 0, 5);
  if (x == NOBODY) return false;
  uint32_t in[] = {x, partner(m, x, -2, 2, &shape)};
  add_node(m, 2, in, "%s", ONE_OF(m, calls));
  return add_output(m, WAFER_DTYPE_bool, shape);
}

static bool make_where(maker *m) {
  wafer_shape both, shape;
  uint32_t c = pick(m, BOOLS, 0, 5), x = pick(m, ALL & ~BOOLS, 0, 5);
  if (c == NOBODY || x == NOBODY) return false;
  uint32_t y = partner(m, x, -2, 2, &both);
  if (!broadcast(&value_at(m, c)->shape, &both, &shape)) return false;
  add_node(m, 3, (uint32_t[]){c, x, y}, "Where");
  return add_output(m, value_at(m, x)->dtype, shape);
}

static bool make_cast(maker *m) {
  static const wafer_dtype floats[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f64};
  static const wafer_dtype ints[] = {WAFER_DTYPE_i32, WAFER_DTYPE_i64, WAFER_DTYPE_f32};
  uint32_t x = pick(m, ALL, 0, 5);
  if (x == NOBODY) return false;
  bool is_float = FLOATS >> value_at(m, x)->dtype & 1;
  wafer_dtype to = is_float ? ONE_OF(m, floats) : ONE_OF(m, ints);
  int code = to == WAFER_DTYPE_f32 ? 1 : to == WAFER_DTYPE_f64 ? 11 : to == WAFER_DTYPE_i32 ? 6 : 7;
  add_node(m, 1, &x, "Cast(to=%d)", code);
  return add_output(m, to, value_at(m, x)->shape);
}

/* ---- Products ---- */

static bool make_matmul(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 2, 4);
  if (x == NOBODY) return false;
  wafer_shape shape = value_at(m, x)->shape;
  int64_t inner = shape.dims[shape.rank - 1], columns = any(m, 1, 9);
  uint32_t w = add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32,
                          shape_of(2, (int64_t[]){inner, columns}), -1, 1);
  add_node(m, 2, (uint32_t[]){x, w}, "MatMul");
  shape.dims[shape.rank - 1] = columns;
  return elements_of(&shape) <= MOST_ELEMENTS && add_output(m, WAFER_DTYPE_f32, shape);
}

/* x times its transpose: both operands are activations. */
static bool make_self_product(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 2, 4);
  if (x == NOBODY) return false;
  wafer_shape shape = value_at(m, x)->shape;
  uint32_t r = shape.rank;
  int64_t rows = shape.dims[r - 2], columns = shape.dims[r - 1];
  static const char *const perms[] = {"1,0", "0,2,1", "0,1,3,2"};
  add_node(m, 1, &x, "Transpose(perm=[%s])", perms[r - 2]);
  shape.dims[r - 2] = columns;
  shape.dims[r - 1] = rows;
  add_output(m, WAFER_DTYPE_f32, shape);
  add_node(m, 2, (uint32_t[]){x, m->g->value_count - 1}, "MatMul");
  shape.dims[r - 2] = rows;
  return add_output(m, WAFER_DTYPE_f32, shape);
}

static bool make_gemm(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 2, 2);
  if (x == NOBODY) return false;
  wafer_shape shape = value_at(m, x)->shape;
  int64_t columns = any(m, 1, 9), rows = shape.dims[0], inner = shape.dims[1];
  uint32_t w = add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32,
                          shape_of(2, (int64_t[]){columns, inner}), -1, 1);
  uint32_t c = add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32, shape_of(1, &columns), -1, 1);
  add_node(m, 3, (uint32_t[]){x, w, c}, "Gemm(transB=1,alpha=0.5)");
  return add_output(m, WAFER_DTYPE_f32, shape_of(2, (int64_t[]){rows, columns}));
}

/* ---- Windows ---- */

static int64_t windows(int64_t in, int64_t kernel, int64_t stride, int64_t pad) {
  return (in + 2 * pad - kernel) / stride + 1;
}

static bool make_conv(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 4, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  int64_t kernel = any(m, 1, 3), stride = any(m, 1, 2), pad = any(m, 0, kernel / 2);
  bool depthwise = any(m, 0, 2) == 0;
  int64_t out = depthwise ? s.dims[1] : any(m, 1, 6), group = depthwise ? s.dims[1] : 1;
  if (s.dims[2] + 2 * pad < kernel || s.dims[3] + 2 * pad < kernel) return false;
  const int64_t w[] = {out, s.dims[1] / group, kernel, kernel};
  uint32_t in[] = {x, add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32, shape_of(4, w), -1, 1),
                   add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32, shape_of(1, &out), -1, 1)};
  add_node(m, any(m, 0, 1) ? 3 : 2, in, "Conv(group=%d,strides=[%d,%d],pads=[%d,%d,%d,%d])",
           (int)group, (int)stride, (int)stride, (int)pad, (int)pad, (int)pad, (int)pad);
  const int64_t y[] = {s.dims[0], out, windows(s.dims[2], kernel, stride, pad),
                       windows(s.dims[3], kernel, stride, pad)};
  return add_output(m, WAFER_DTYPE_f32, shape_of(4, y));
}

static bool make_pool(maker *m) {
  static const char *const calls[] = {"MaxPool", "AveragePool"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 4, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  int64_t kernel = any(m, 1, 3), stride = any(m, 1, 3), pad = any(m, 0, kernel / 2);
  if (s.dims[2] + 2 * pad < kernel || s.dims[3] + 2 * pad < kernel) return false;
  add_node(m, 1, &x, "%s(kernel_shape=[%d,%d],strides=[%d,%d],pads=[%d,%d,%d,%d])",
           ONE_OF(m, calls), (int)kernel, (int)kernel, (int)stride, (int)stride, (int)pad, (int)pad,
           (int)pad, (int)pad);
  s.dims[2] = windows(s.dims[2], kernel, stride, pad);
  s.dims[3] = windows(s.dims[3], kernel, stride, pad);
  return add_output(m, WAFER_DTYPE_f32, s);
}

static bool make_global_pool(maker *m) {
  static const char *const calls[] = {"GlobalAveragePool", "GlobalMaxPool"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 4, 4);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  add_node(m, 1, &x, "%s", ONE_OF(m, calls));
  s.dims[2] = s.dims[3] = 1;
  return add_output(m, WAFER_DTYPE_f32, s);
}

static bool make_batch_norm(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 2, 4), in[5] = {x};
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, channels = shape_of(1, &s.dims[1]);
  for (int i = 1; i < 5; i++)
    in[i] = add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32, channels, i == 4 ? 0.5 : -1, 1.5);
  add_node(m, 5, in, "BatchNormalization");
  return add_output(m, WAFER_DTYPE_f32, s);
}

/* ---- Along an axis ---- */

static bool make_layer_norm(maker *m) {
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 1, 5), in[3] = {x};
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, last = shape_of(1, &s.dims[s.rank - 1]);
  for (int i = 1; i < 3; i++) in[i] = add_random(m, GRAPH_CONSTANT, WAFER_DTYPE_f32, last, -1, 1);
  add_node(m, 3, in, "LayerNormalization(epsilon=0.01)");
  return add_output(m, WAFER_DTYPE_f32, s);
}

static bool make_softmax(maker *m) {
  static const char *const calls[] = {"Softmax", "LogSoftmax"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 1, 5);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape;
  add_node(m, 1, &x, "%s(axis=%d)", ONE_OF(m, calls), (int)any(m, -(int64_t)s.rank, s.rank - 1));
  return add_output(m, WAFER_DTYPE_f32, s);
}

static bool make_reduce(maker *m) {
  static const char *const calls[] = {"ReduceSum", "ReduceMean",      "ReduceMax",
                                      "ReduceMin", "ReduceSumSquare", "ReduceL1"};
  uint32_t x = pick(m, 1u << WAFER_DTYPE_f32, 1, 5);
  if (x == NOBODY) return false;
  wafer_shape s = value_at(m, x)->shape, out = {0};
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0;
  bool keep = any(m, 0, 1);
  for (uint32_t d = 0; d < s.rank; d++) {
    bool gone = any(m, 0, 1) || (d + 1 == s.rank && !count);
    if (gone) axes[count++] = any(m, 0, 1) ? d : (int64_t)d - s.rank;
    if (!gone || keep) out.dims[out.rank++] = gone ? 1 : s.dims[d];
  }
  uint32_t in[] = {x, add_ints(m, 1, count, axes)};
  add_node(m, 2, in, "%s(keepdims=%d)", ONE_OF(m, calls), keep);
  return add_output(m, WAFER_DTYPE_f32, out);
}

static bool (*const kinds[])(maker *) = {
    make_unary,      make_unary,   make_unary,  make_plain,     make_binary,      make_binary,
    make_binary,     make_compare, make_where,  make_cast,      make_matmul,      make_self_product,
    make_gemm,       make_conv,    make_conv,   make_pool,      make_global_pool, make_batch_norm,
    make_layer_norm, make_softmax, make_reduce, make_transpose, make_reshape,     make_unsqueeze,
    make_concat,     make_slice,   make_split,  make_expand,    make_pad,         make_gather,
    make_cumsum};

static void add_input(maker *m) {
  static const wafer_dtype types[] = {WAFER_DTYPE_f32, WAFER_DTYPE_f32, WAFER_DTYPE_f32,
                                      WAFER_DTYPE_f64, WAFER_DTYPE_i32, WAFER_DTYPE_i64,
                                      WAFER_DTYPE_bool};
  wafer_shape shape = {.rank = (uint32_t)any(m, 0, 4)};
  bool image = any(m, 0, 2) == 0; /* what convolutions can do something with */
  if (image) shape.rank = 4;
  for (uint32_t d = 0; d < shape.rank; d++) shape.dims[d] = any(m, 1, 7);
  if (image) shape.dims[0] = any(m, 1, 2);
  for (uint32_t d = 2; image && d < 4; d++) shape.dims[d] = any(m, 4, 9);
  add_random(m, GRAPH_INPUT, image ? WAFER_DTYPE_f32 : ONE_OF(m, types), shape, -2, 2);
}

void graph_make(graph *g, uint64_t seed) {
  maker m = {g, seed};
  *g = (graph){.seed = seed, .only = UINT32_MAX};
  int64_t inputs = any(&m, 1, 3), nodes = any(&m, 1, 16);
  for (int64_t i = 0; i < inputs; i++) add_input(&m);
  for (int tries = 0; tries < 100 && g->node_count < nodes; tries++) {
    uint32_t nodes_before = g->node_count, values_before = g->value_count;
    if (g->value_count + 12 > MOST_VALUES) break;
    if (ONE_OF(&m, kinds)(&m)) continue;
    g->node_count = nodes_before; /* it changed its mind */
    g->value_count = values_before;
  }
}

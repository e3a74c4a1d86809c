/* What models do only while they are trained: Dropout, and the steps of optimizers. */
#include <math.h>
#include <string.h>

#include "operators.h"

static const MlirValue none;

static MlirValue number(import_node *n, MlirValue like, double value) {
  return emit_scalar_like(n, like, value);
}

static MlirValue scalar_of(import_node *n, uint32_t index) {
  wafer_shape s = node_type(n, node_input(n, index)).shape;
  int64_t count = 1;
  if (n->status == WAFER_OK && (!wafer_shape_elements(&s, &count) || count != 1))
    node_bad(n, "input %u has %lld elements, needs 1", index, (long long)count);
  return emit_reshape(n, node_input(n, index), 0, NULL);
}

/* ---- Dropout ---- */

/* While a model is trained the draws are an input, without it they follow from the node's seed.
 * Where elements stay: u >= ratio, or everywhere while `trains` (null: known to) is false. */
static MlirValue kept(import_node *n, MlirValue x, MlirValue ratio, MlirValue trains) {
  wafer_shape shape = node_type(n, x).shape;
  bool learns = n->im->training.options != NULL;
  MlirValue u = learns ? emit_noise(n, &shape) : emit_uniform(n, &shape, 0);
  ratio = emit_cast(n, ratio, learns ? WAFER_DTYPE_f32 : WAFER_DTYPE_f64);
  MlirValue stays = emit_binary(n, WAFER_OP_less_equal, ratio, u);
  if (!trains.ptr) return stays;
  return emit_binary(n, WAFER_OP_or, stays, emit_unary(n, WAFER_OP_not, trains));
}

static void drop(import_node *n, MlirValue ratio, MlirValue trains) {
  MlirValue x = node_input(n, 0), mask = kept(n, x, ratio, trains);
  ratio = emit_cast(n, ratio, node_dtype(n, x));
  MlirValue one = number(n, x, 1), scale = DIV(one, SUB(one, ratio));
  if (trains.ptr) scale = emit_select(n, trains, scale, one);
  n->outputs[0] = emit_select(n, mask, MUL(x, scale), number(n, x, 0));
  if (n->output_count > 1)
    n->outputs[1] = n->opset < 10 ? emit_cast(n, mask, node_dtype(n, x)) : mask;
}

static void pass_on(import_node *n) {
  wafer_type type = node_type(n, node_input(n, 0));
  n->outputs[0] = node_input(n, 0);
  if (n->output_count < 2 || n->status != WAFER_OK) return;
  type.dtype = n->opset < 10 ? type.dtype : WAFER_DTYPE_bool;
  n->status = wafer_build_splat(&n->im->b, &type, 1, &n->outputs[1]);
}

/* The mode is an attribute up to opset 6, "inference" in 7 to 11, an input since. */
void import_dropout(import_node *n) {
  bool given = n->opset >= 12 && node_has_input(n, 2);
  bool known = !given || wafer_ir_is_constant(node_input(n, 2));
  bool trains = n->opset < 7 ? !attr_int(n, "is_test", 0)
                             : given && known && node_float(n, 2, "training_mode", 0) != 0;
  const wafer_training_options *options = n->im->training.options;
  if ((known && !trains) || (options && options->evaluate)) {
    pass_on(n);
    return;
  }
  MlirValue ratio = n->opset >= 12 && node_has_input(n, 1)
                        ? scalar_of(n, 1)
                        : number(n, node_input(n, 0), attr_float(n, "ratio", 0.5));
  drop(n, ratio, known ? none : scalar_of(n, 2));
}

/* ---- Optimizers: r (rate), t (steps so far), then every tensor's x, g, and states ---- */

typedef struct step_state {
  MlirValue rate, count, begun; /* begun: t > 0 */
  MlirValue x, g, first, second;
} step_state;

typedef void step_fn(import_node *n, step_state *s);

/* The gradient of the regularized loss. */
static MlirValue regularized(import_node *n, const step_state *s) {
  double norm = attr_float(n, "norm_coefficient", 0);
  return norm == 0 ? s->g : ADD(MUL(s->x, number(n, s->x, norm)), s->g);
}

/* a * x + b * y */
static MlirValue blend(import_node *n, double a, MlirValue x, double b, MlirValue y) {
  return ADD(MUL(x, number(n, x, a)), MUL(y, number(n, y, b)));
}

static void each_tensor(import_node *n, uint32_t states, step_fn *step) {
  uint32_t group = 2 + states, count = (n->input_count - 2) / group;
  if (n->input_count < 2 + group || (n->input_count - 2) % group)
    node_bad(n, "%u inputs are not 2 and %u for each tensor", n->input_count, group);
  step_state s = {.rate = scalar_of(n, 0), .count = scalar_of(n, 1)};
  s.begun = emit_binary(n, WAFER_OP_less, number(n, s.count, 0), s.count);
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
    s.x = node_input(n, 2 + i);
    s.g = node_input(n, 2 + count + i);
    s.first = node_input(n, 2 + 2 * count + i);
    s.second = states > 1 ? node_input(n, 2 + 3 * count + i) : none;
    step(n, &s);
    if (i < n->output_count) n->outputs[i] = s.x;
    if (count + i < n->output_count) n->outputs[count + i] = s.first;
    if (states > 1 && 2 * count + i < n->output_count) n->outputs[2 * count + i] = s.second;
  }
}

static void adagrad(import_node *n, step_state *s) {
  MlirValue t = emit_cast(n, s->count, node_dtype(n, s->x));
  MlirValue slower = MUL(t, number(n, t, attr_float(n, "decay_factor", 0)));
  MlirValue rate = DIV(s->rate, ADD(slower, number(n, slower, 1))), g = regularized(n, s);
  s->first = ADD(s->first, MUL(g, g));
  MlirValue size = ADD(emit_unary(n, WAFER_OP_sqrt, s->first),
                       number(n, s->first, attr_float(n, "epsilon", 1e-6)));
  s->x = SUB(s->x, DIV(MUL(rate, g), size));
}

void import_adagrad(import_node *n) {
  each_tensor(n, 1, adagrad);
}

/* 1 - factor ^ t */
static MlirValue left_of(import_node *n, double factor, MlirValue t) {
  return SUB(number(n, t, 1), emit_binary(n, WAFER_OP_pow, number(n, t, factor), t));
}

static void adam(import_node *n, step_state *s) {
  double alpha = attr_float(n, "alpha", 0.9), beta = attr_float(n, "beta", 0.999);
  double norm = attr_float(n, "norm_coefficient_post", 0);
  MlirValue t = emit_cast(n, s->count, node_dtype(n, s->x)), g = regularized(n, s);
  s->first = blend(n, alpha, s->first, 1 - alpha, g);
  s->second = blend(n, beta, s->second, 1 - beta, MUL(g, g));
  MlirValue size =
      ADD(emit_unary(n, WAFER_OP_sqrt, s->second), number(n, g, attr_float(n, "epsilon", 1e-6)));
  MlirValue unbiased =
      DIV(MUL(s->rate, emit_unary(n, WAFER_OP_sqrt, left_of(n, beta, t))), left_of(n, alpha, t));
  MlirValue rate = emit_select(n, s->begun, unbiased, s->rate);
  s->x = SUB(s->x, MUL(rate, DIV(s->first, size)));
  if (norm != 0) s->x = MUL(s->x, number(n, s->x, 1 - norm));
}

void import_adam(import_node *n) {
  each_tensor(n, 2, adam);
}

static void momentum(import_node *n, step_state *s) {
  double alpha = attr_float(n, "alpha", 0), beta = attr_float(n, "beta", 0);
  bool nesterov = !strcmp(attr_text(n, "mode", "standard"), "nesterov");
  MlirValue g = regularized(n, s);
  MlirValue weight = emit_select(n, s->begun, number(n, g, beta), number(n, g, 1));
  s->first = ADD(MUL(s->first, number(n, g, alpha)), MUL(g, weight));
  MlirValue way = nesterov ? ADD(g, MUL(s->first, number(n, g, alpha))) : s->first;
  s->x = SUB(s->x, MUL(s->rate, way));
}

void import_momentum(import_node *n) {
  const char *mode = attr_text(n, "mode", "standard");
  if (strcmp(mode, "standard") && strcmp(mode, "nesterov"))
    node_bad(n, "mode is '%s', must be standard or nesterov", mode);
  each_tensor(n, 1, momentum);
}

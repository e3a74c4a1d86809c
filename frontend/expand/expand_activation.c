/* Activations that a node names in an attribute: of recurrences, and of operators that an optimizer
 * has fused with what follows them. */
#include <string.h>
#include <strings.h>

#include "operators.h"

/* ---- By name ---- */

typedef MlirValue bend_fn(import_node *n, MlirValue x, double alpha, double beta);

static MlirValue bend_affine(import_node *n, MlirValue x, double alpha, double beta) {
  return ADD(MUL(x, emit_scalar_like(n, x, alpha)), emit_scalar_like(n, x, beta));
}

/* alpha tanh(beta x) */
static MlirValue bend_scaled_tanh(import_node *n, MlirValue x, double alpha, double beta) {
  MlirValue bent = emit_unary(n, WAFER_OP_tanh, MUL(x, emit_scalar_like(n, x, beta)));
  return MUL(bent, emit_scalar_like(n, x, alpha));
}

static MlirValue bend_leaky_relu(import_node *n, MlirValue x, double alpha, double beta) {
  (void)beta;
  return emit_leaky_relu(n, x, alpha);
}

static MlirValue bend_thresholded_relu(import_node *n, MlirValue x, double alpha, double beta) {
  (void)beta;
  return emit_thresholded_relu(n, x, alpha);
}

static MlirValue bend_elu(import_node *n, MlirValue x, double alpha, double beta) {
  (void)beta;
  return emit_elu(n, x, alpha);
}

static MlirValue bend_softsign(import_node *n, MlirValue x, double alpha, double beta) {
  (void)alpha, (void)beta;
  return emit_softsign(n, x);
}

/* Defaults are those of the operators of these names; where there is none, those with which
 * nothing is scaled. */
typedef struct nonlinearity_kind {
  const char *name;
  uint32_t parameters;
  wafer_op op; /* NO_OP: */
  bend_fn *bend;
  double alpha, beta;
} nonlinearity_kind;

static const nonlinearity_kind kinds[] = {
    {"Sigmoid", 0, WAFER_OP_sigmoid, NULL, 0, 0},
    {"Tanh", 0, WAFER_OP_tanh, NULL, 0, 0},
    {"Relu", 0, WAFER_OP_relu, NULL, 0, 0},
    {"Softplus", 0, WAFER_OP_softplus, NULL, 0, 0},
    {"Softsign", 0, NO_OP, bend_softsign, 0, 0},
    {"LeakyRelu", 1, NO_OP, bend_leaky_relu, 0.01, 0},
    {"ThresholdedRelu", 1, NO_OP, bend_thresholded_relu, 1, 0},
    {"Elu", 1, NO_OP, bend_elu, 1, 0},
    {"Affine", 2, NO_OP, bend_affine, 1, 0},
    {"ScaledTanh", 2, NO_OP, bend_scaled_tanh, 1, 1},
    {"HardSigmoid", 2, NO_OP, emit_hard_sigmoid, 0.2, 0.5},
};

nonlinearity nonlinearity_by_name(import_node *n, const char *name, size_t length) {
  for (size_t i = 0; i < WAFER_COUNT(kinds); i++)
    if (strlen(kinds[i].name) == length && !strncasecmp(kinds[i].name, name, length))
      return (nonlinearity){&kinds[i], kinds[i].alpha, kinds[i].beta};
  node_problem(n, WAFER_PROBLEM_attribute, "activation %.*s", (int)(length < 64 ? length : 64),
               name);
  return (nonlinearity){&kinds[0], 0, 0};
}

uint32_t nonlinearity_parameters(const nonlinearity *a) {
  return a->kind->parameters;
}

MlirValue emit_nonlinearity(import_node *n, const nonlinearity *a, MlirValue x) {
  if (a->kind->op != NO_OP) return emit_unary(n, a->kind->op, x);
  return a->kind->bend(n, x, a->alpha, a->beta);
}

/* ---- com.microsoft: what onnxruntime fuses with an activation ---- */

void import_bias_gelu(import_node *n) {
  n->outputs[0] = emit_gelu(n, ADD(node_input(n, 0), node_input(n, 1)));
}

void import_fast_gelu(import_node *n) {
  MlirValue x = node_input(n, 0);
  n->outputs[0] = emit_gelu_tanh(n, node_has_input(n, 1) ? ADD(x, node_input(n, 1)) : x);
}

void import_quick_gelu(import_node *n) {
  MlirValue x = node_input(n, 0);
  MlirValue steep = MUL(x, emit_scalar_like(n, x, attr_float(n, "alpha", 1.702)));
  n->outputs[0] = MUL(x, emit_unary(n, WAFER_OP_sigmoid, steep));
}

/* One half of the last dim, times gelu of the other. */
void import_bias_split_gelu(import_node *n) {
  MlirValue x = ADD(node_input(n, 0), node_input(n, 1));
  wafer_shape s = node_type(n, x).shape;
  if (n->status == WAFER_OK && (s.rank < 1 || s.dims[s.rank - 1] % 2))
    node_bad(n, "the last dim has no halves");
  if (n->status != WAFER_OK) return;
  uint32_t last = s.rank - 1;
  int64_t half = s.dims[last] / 2;
  MlirValue gate = emit_gelu(n, emit_part(n, x, last, half, half));
  n->outputs[0] = MUL(emit_part(n, x, last, 0, half), gate);
}

/* The activation that attribute `activation` names; x itself without it. */
static MlirValue activated(import_node *n, MlirValue x) {
  const char *name = attr_text(n, "activation", "");
  if (!*name) return x;
  float_list params = attr_floats(n, "activation_params");
  if (!strcmp(name, "Clip")) {
    if (params.count != 2)
      node_bad(n, "activation_params has %u entries, Clip takes two", params.count);
    return n->status == WAFER_OK ? emit_clip(n, x, params.at[0], params.at[1]) : x;
  }
  nonlinearity a = nonlinearity_by_name(n, name, strlen(name));
  a.alpha = params.count > 0 ? params.at[0] : attr_float(n, "activation_alpha", a.alpha);
  a.beta = params.count > 1 ? params.at[1] : attr_float(n, "activation_beta", a.beta);
  return emit_nonlinearity(n, &a, x);
}

/* activation(conv(x, w) + bias + z) */
void import_fused_conv(import_node *n) {
  MlirValue y = emit_conv(n, node_input(n, 0), node_input(n, 1), node_input(n, 2));
  n->outputs[0] = activated(n, node_has_input(n, 3) ? ADD(y, node_input(n, 3)) : y);
}

void import_fused_gemm(import_node *n) {
  n->outputs[0] = activated(n, emit_gemm(n, node_input(n, 0), node_input(n, 1), node_input(n, 2)));
}

/* `batches`: the dims before the last one move, the first behind the others: (a, b, ..., m, k) is
 * read as (b, ..., m, a, k). */
static MlirValue turned(import_node *n, MlirValue x, bool batches, bool last) {
  uint32_t rank = node_rank(n, x);
  int64_t perm[WAFER_MAX_RANK];
  if (n->status != WAFER_OK || rank < 2) return x;
  for (uint32_t d = 0; d + 1 < rank; d++) perm[d] = batches ? (d + 1) % (rank - 1) : d;
  perm[rank - 1] = rank - 1;
  if (last) {
    int64_t row = perm[rank - 2];
    perm[rank - 2] = perm[rank - 1], perm[rank - 1] = row;
  }
  return batches || last ? emit_transpose(n, x, rank, perm) : x;
}

/* alpha * A' * B' */
void import_fused_matmul(import_node *n) {
  MlirValue a = turned(n, node_input(n, 0), attr_int(n, "transBatchA", 0) != 0,
                       attr_int(n, "transA", 0) != 0);
  MlirValue b = turned(n, node_input(n, 1), attr_int(n, "transBatchB", 0) != 0,
                       attr_int(n, "transB", 0) != 0);
  double alpha = attr_float(n, "alpha", 1);
  MlirValue y = emit_matmul(n, a, b);
  n->outputs[0] = alpha == 1 ? y : MUL(y, emit_scalar_like(n, y, alpha));
}

/* Linear models of ai.onnx.ml, and what scales and normalizes their features. As onnxruntime has
 * them, they compute and give f32, whatever numbers they are given. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

/* An attribute's numbers as an f32 tensor. */
static MlirValue numbers(import_node *n, const char *name, uint32_t rank, const int64_t *dims) {
  float_list list = attr_floats(n, name);
  int64_t count = 1;
  for (uint32_t d = 0; d < rank; d++) count *= dims[d];
  if (n->status == WAFER_OK && list.count != count)
    node_bad(n, "attribute %s has %u entries, needs %lld", name, list.count, (long long)count);
  wafer_view view = node_new_tensor(n, WAFER_DTYPE_f32, rank, dims);
  for (uint32_t i = 0; n->status == WAFER_OK && i < list.count; i++)
    ((float *)view.data)[i] = (float)list.at[i];
  return n->status == WAFER_OK ? emit_constant(n, &view) : none;
}

/* (samples, features); a vector is one sample. */
static MlirValue features(import_node *n) {
  MlirValue x = emit_cast(n, node_input(n, 0), WAFER_DTYPE_f32);
  wafer_shape s = node_type(n, x).shape;
  if (s.rank == 1) return emit_reshape(n, x, 2, (int64_t[]){1, s.dims[0]});
  if (s.rank != 2) node_bad(n, "the operand has %u dims, needs 1 or 2", s.rank);
  return x;
}

/* (x - offset) * scale, one of each for all features, or one per feature */
void import_scaler(import_node *n) {
  MlirValue x = emit_cast(n, node_input(n, 0), WAFER_DTYPE_f32);
  wafer_shape s = node_type(n, x).shape;
  uint32_t offsets = attr_floats(n, "offset").count, scales = attr_floats(n, "scale").count;
  if (n->status == WAFER_OK && s.rank == 0) node_bad(n, "the operand is a scalar");
  if (n->status != WAFER_OK) return;
  int64_t all = s.dims[s.rank - 1], one = 1;
  if (offsets) x = SUB(x, numbers(n, "offset", 1, offsets == 1 ? &one : &all));
  if (scales) x = MUL(x, numbers(n, "scale", 1, scales == 1 ? &one : &all));
  n->outputs[0] = x;
}

/* Every sample by its largest feature (MAX, which may be negative), the sum of their sizes (L1), or
 * its length (L2). By 0 nothing is divided. */
void import_normalizer(import_node *n) {
  const char *norm = attr_text(n, "norm", "MAX");
  MlirValue x = emit_cast(n, node_input(n, 0), WAFER_DTYPE_f32), by = none;
  uint32_t rank = node_rank(n, x), last = rank ? 1u << (rank - 1) : 0;
  if (n->status == WAFER_OK && rank != 1 && rank != 2)
    node_bad(n, "the operand has %u dims, needs 1 or 2", rank);
  if (!strcmp(norm, "MAX"))
    by = emit_reduce(n, WAFER_OP_reduce_max, x, last, true);
  else if (!strcmp(norm, "L1"))
    by = emit_reduce(n, WAFER_OP_reduce_sum, emit_unary(n, WAFER_OP_abs, x), last, true);
  else if (!strcmp(norm, "L2"))
    by = emit_unary(n, WAFER_OP_sqrt, emit_reduce(n, WAFER_OP_reduce_sum, MUL(x, x), last, true));
  else
    node_bad(n, "norm is '%s', must be MAX, L1 or L2", norm);
  MlirValue nought = emit_scalar_like(n, x, 0), one = emit_scalar_like(n, x, 1);
  n->outputs[0] = DIV(x, emit_select(n, emit_binary(n, WAFER_OP_equal, by, nought), one, by));
}

/* x w' + intercepts: (samples, results) */
static MlirValue linear(import_node *n, int64_t results) {
  MlirValue x = features(n);
  int64_t size = node_type(n, x).shape.dims[1];
  MlirValue w = numbers(n, "coefficients", 2, (int64_t[]){results, size});
  MlirValue y = emit_binary(n, WAFER_OP_matmul, x, emit_swap_last(n, w));
  return attr_floats(n, "intercepts").count ? ADD(y, numbers(n, "intercepts", 1, &results)) : y;
}

static MlirValue transformed(import_node *n, MlirValue y) {
  const char *how = attr_text(n, "post_transform", "NONE");
  if (!strcmp(how, "LOGISTIC")) return emit_unary(n, WAFER_OP_sigmoid, y);
  if (!strcmp(how, "SOFTMAX")) return emit_softmax(n, y, 1);
  if (strcmp(how, "NONE")) node_problem(n, WAFER_PROBLEM_attribute, "post_transform %s", how);
  return y;
}

void import_linear_regressor(import_node *n) {
  int64_t targets = attr_int(n, "targets", 1);
  if (targets < 1 || targets > INT32_MAX) node_bad(n, "targets is %lld", (long long)targets);
  if (n->status == WAFER_OK) n->outputs[0] = transformed(n, linear(n, targets));
}

/* The label that each place in the list stands for. */
static MlirValue labels_at(import_node *n, int_list labels, MlirValue place) {
  wafer_view view = node_new_tensor(n, WAFER_DTYPE_i64, 1, (int64_t[]){labels.count});
  if (!view.data) return none;
  memcpy(view.data, labels.at, labels.count * sizeof *labels.at);
  return emit_gather(n, emit_constant(n, &view), place, 0);
}

/* Labels and scores. One score decides between two labels, by its sign; the other class then has
 * what it lacks of 1. */
void import_linear_classifier(import_node *n) {
  int_list labels = attr_ints(n, "classlabels_ints");
  int64_t scores = attr_floats(n, "intercepts").count;
  attr_int(n, "multi_class", 0);
  if (attr_has(n, "classlabels_strings"))
    node_problem(n, WAFER_PROBLEM_attribute, "classlabels_strings: labels that are strings");
  if (!scores) scores = labels.count;
  if (n->status == WAFER_OK && (!labels.count || (scores != labels.count && scores != 1)))
    node_bad(n, "%lld scores for %u labels", (long long)scores, labels.count);
  if (n->status == WAFER_OK && scores == 1 && labels.count != 2)
    node_bad(n, "one score for %u labels, needs 2", labels.count);
  if (n->status != WAFER_OK) return;
  MlirValue y = linear(n, scores), nought = emit_scalar_like(n, y, 0), place;
  if (scores == 1) {
    place = emit_cast(n, emit_binary(n, WAFER_OP_less, nought, y), WAFER_DTYPE_i64);
    place = emit_reshape(n, place, 1, node_type(n, y).shape.dims);
    bool softmax = !strcmp(attr_text(n, "post_transform", "NONE"), "SOFTMAX");
    if (!softmax) y = transformed(n, y); /* of one score it is nothing */
    y = emit_concat(n, SUB(emit_scalar_like(n, y, 1), y), y, 1);
  } else {
    wafer_attr attrs[] = {INT_ATTR(axis, 1), INT_ATTR(keepdims, 0), INT_ATTR(last, 0)};
    place = emit_op(n, WAFER_OP_arg_max, 1, &y, attrs, WAFER_COUNT(attrs));
    y = transformed(n, y);
  }
  n->outputs[0] = labels_at(n, labels, place);
  if (n->output_count > 1) n->outputs[1] = y;
}

/* Linear models of ai.onnx.ml, and what scales and normalizes their features. As onnxruntime has
 * them, they compute and give f32, whatever numbers they are given. */
#include <string.h>

#include "host_node.h"
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

MlirValue emit_post_transformed(import_node *n, MlirValue y) {
  const char *how = attr_text(n, "post_transform", "NONE");
  if (!strcmp(how, "LOGISTIC")) return emit_unary(n, WAFER_OP_sigmoid, y);
  if (!strcmp(how, "SOFTMAX")) return emit_softmax(n, y, 1);
  if (strcmp(how, "NONE")) node_problem(n, WAFER_PROBLEM_attribute, "post_transform %s", how);
  return y;
}

void import_linear_regressor(import_node *n) {
  int64_t targets = attr_int(n, "targets", 1);
  if (targets < 1 || targets > INT32_MAX) node_bad(n, "targets is %lld", (long long)targets);
  if (n->status == WAFER_OK) n->outputs[0] = emit_post_transformed(n, linear(n, targets));
}

static int_list labels_of(import_node *n) {
  int_list labels = attr_ints(n, "classlabels_ints");
  return labels.count ? labels : attr_ints(n, "classlabels_int64s");
}

int64_t classifier_labels(import_node *n) {
  const onnx_attribute *texts = attr_find(n, "classlabels_strings");
  int64_t count = labels_of(n).count;
  if (!count && texts) count = (int64_t)texts->strings.count;
  if (n->status == WAFER_OK && !count) node_bad(n, "there are no labels");
  return count;
}

void emit_classified(import_node *n, MlirValue by, MlirValue scores) {
  wafer_attr attrs[] = {INT_ATTR(axis, 1), INT_ATTR(keepdims, 0), INT_ATTR(last, 0)};
  MlirValue place = emit_op(n, WAFER_OP_arg_max, 1, &by, attrs, WAFER_COUNT(attrs));
  int_list labels = labels_of(n);
  if (n->output_count > 1)
    n->results[1] = (name_entry){.value = scores, .fn = n->im->fn, .piece = n->im->fn->open};
  if (labels.count)
    n->outputs[0] = emit_gather(n, emit_constant_i64(n, 1, labels.count, labels.at), place, 0);
  else if (n->status == WAFER_OK)
    n->status = host_texts_at(n, "classlabels_strings", place);
}

MlirValue emit_two_scores(import_node *n, MlirValue y, double whole) {
  return emit_concat(n, SUB(emit_scalar_like(n, y, whole), y), y, 1);
}

void import_linear_classifier(import_node *n) {
  int64_t labels = classifier_labels(n), scores = attr_floats(n, "intercepts").count;
  attr_int(n, "multi_class", 0);
  if (!scores) scores = labels;
  if (n->status == WAFER_OK && scores != labels && scores != 1)
    node_bad(n, "%lld scores for %lld labels", (long long)scores, (long long)labels);
  if (n->status == WAFER_OK && scores == 1 && labels != 2)
    node_bad(n, "one score for %lld labels, needs 2", (long long)labels);
  if (n->status != WAFER_OK) return;
  MlirValue y = linear(n, scores);
  if (scores > 1) {
    emit_classified(n, y, emit_post_transformed(n, y));
    return;
  }
  bool softmax = !strcmp(attr_text(n, "post_transform", "NONE"), "SOFTMAX");
  MlirValue share = softmax ? y : emit_post_transformed(n, y); /* of one score it is nothing */
  emit_classified(n, emit_two_scores(n, y, 0), emit_two_scores(n, share, 1));
}

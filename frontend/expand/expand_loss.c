/* Losses. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

/* The weight of each label, 0 for those to ignore; null when all weigh 1. */
static MlirValue label_weights(import_node *n, MlirValue like, MlirValue label, MlirValue ignored) {
  MlirValue weight = none;
  if (node_has_input(n, 2)) weight = emit_gather(n, node_input(n, 2), label, 0);
  if (!ignored.ptr) return weight;
  MlirValue one = weight.ptr ? weight : emit_scalar_like(n, like, 1);
  return emit_select(n, ignored, emit_scalar_like(n, like, 0), one);
}

static MlirValue reduced(import_node *n, MlirValue loss, MlirValue weight) {
  const char *reduction = attr_text(n, "reduction", "mean");
  uint32_t all = (1u << node_rank(n, loss)) - 1;
  if (!strcmp(reduction, "none")) return loss;
  if (!strcmp(reduction, "sum")) return emit_reduce(n, WAFER_OP_reduce_sum, loss, all, false);
  if (strcmp(reduction, "mean"))
    node_bad(n, "reduction is '%s', must be none, sum or mean", reduction);
  if (!weight.ptr) return emit_reduce(n, WAFER_OP_reduce_mean, loss, all, false);
  return DIV(emit_reduce(n, WAFER_OP_reduce_sum, loss, all, false),
             emit_reduce(n, WAFER_OP_reduce_sum, weight, all, false));
}

/* -log p of each label's class, dim 1. */
static MlirValue loss_of(import_node *n, MlirValue logs) {
  MlirValue label = emit_cast(n, node_input(n, 1), WAFER_DTYPE_i64), ignored = none;
  wafer_shape shape = node_type(n, logs).shape, places = node_type(n, label).shape;
  if (n->status == WAFER_OK && (shape.rank < 2 || places.rank + 1 != shape.rank))
    node_bad(n, "labels of %u dims for numbers of %u", places.rank, shape.rank);
  if (n->status != WAFER_OK) return none;
  if (attr_has(n, "ignore_index")) {
    MlirValue index = emit_scalar_like(n, label, (double)attr_int(n, "ignore_index", 0));
    ignored = emit_binary(n, WAFER_OP_equal, label, index);
    label = emit_select(n, ignored, emit_scalar_like(n, label, 0), label);
  }
  wafer_shape wide = shape;
  wide.dims[1] = 1;
  MlirValue index = emit_reshape(n, label, wide.rank, wide.dims);
  MlirValue loss = emit_unary(n, WAFER_OP_neg, emit_gather_elements(n, logs, index, 1));
  loss = emit_reshape(n, loss, places.rank, places.dims);
  MlirValue weight = label_weights(n, logs, label, ignored);
  if (weight.ptr) loss = MUL(loss, weight);
  return reduced(n, loss, weight);
}

void import_nll_loss(import_node *n) {
  n->outputs[0] = loss_of(n, node_input(n, 0));
}

void import_softmax_cross_entropy(import_node *n) {
  MlirValue logs = emit_log_softmax(n, node_input(n, 0), 1);
  n->outputs[0] = loss_of(n, logs);
  if (n->output_count > 1) n->outputs[1] = logs;
}

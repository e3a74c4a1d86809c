/* What an ONNX file says of itself, without compiling it, and tensors from TensorProto files. */
#ifndef WAFER_ONNX_H
#define WAFER_ONNX_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/item.h"
#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An input or output of the model's graph. */
typedef struct wafer_onnx_port {
  const char *name;
  wafer_item_kind kind; /* of the value itself: an optional sequence is an optional */
  wafer_dtype dtype;    /* none: no tensor of numbers, or of a type that we have not */
  bool open;            /* the rank or a dim is not a number */
  wafer_shape
      shape; /* of an open port dims that are no numbers are 0, and all is when the rank is */
} wafer_onnx_port;

/* A node, of the graph, of a graph inside it, or of a model-local function. */
typedef struct wafer_onnx_node {
  const char *label;         /* its name, or its first output where it has none */
  const char *domain, *type; /* "ai.onnx" for the default domain */
  int64_t opset;             /* of its domain; 0: the model imports none */
} wafer_onnx_node;

/* Inputs are those that are no initializers. Nodes come in the file's order, a node before those of
 * its graphs, functions behind the graph. */
typedef struct wafer_onnx_info {
  size_t input_count, output_count, node_count;
  const wafer_onnx_port *inputs, *outputs;
  const wafer_onnx_node *nodes;
} wafer_onnx_info;

/* Everything lives in the arena. BAD_INPUT for a file that is no ONNX model. */
wafer_status wafer_onnx_inspect(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                const wafer_onnx_info **out);

/* The tensor of a TensorProto file, dense, not necessarily aligned, read only, for as long as the
 * arena lives. UNSUPPORTED for an element type that we have not. */
wafer_status wafer_onnx_tensor_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                    wafer_view *out);

/* What a file of a port holds (TensorProto, SequenceProto, OptionalProto) as an item with one
 * reference. */
wafer_status wafer_onnx_item_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                  wafer_item_kind kind, wafer_item **out);

/* Writes the model at `path` again with other values of some weights, found by the names that they
 * have in plans: initializers, and outputs of Constant nodes. Everything else is copied byte by
 * byte; replaced weights are in the file, others stay where they were, so a model with external
 * data wants to be written into its own folder. BAD_INPUT: the model has no such weight, or not of
 * that type and shape. */
wafer_status wafer_onnx_export(const wafer_diag *diag, const char *path,
                               const wafer_weights *weights, const char *output);

/* An operator that wafer_import knows. */
typedef struct wafer_onnx_operator {
  const char *domain, *type; /* "ai.onnx" for the default domain */
  int64_t since;             /* the first opset that this row is for */
} wafer_onnx_operator;

/* An entry of a model's metadata: external data may be missing, their weights are then absent. */
#define WAFER_ONNX_WEIGHTS_KEY "wafer.weights"
#define WAFER_ONNX_WEIGHTS_ABSENT "absent"

#define WAFER_ONNX_NEWEST_OPSET 27 /* of the default domain */

/* Rows in the order of their names; an operator may have several. False behind the last. */
bool wafer_onnx_operator_at(size_t index, wafer_onnx_operator *out);

#ifdef __cplusplus
}
#endif
#endif

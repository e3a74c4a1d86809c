/* Inside the importer: what the function of an ONNX operator gets, and what it builds with.
 *
 * A failure sticks to the node: after the first one every helper returns at once (a null value, a
 * default), so expansions are written as plain expressions and end without checks. */
#ifndef FRONTEND_IMPORT_H
#define FRONTEND_IMPORT_H

#include "assembly.h"
#include "onnx/data.h"
#include "scope.h"
#include "training.h"
#include "wafer/ir.h"
#include "wafer/onnx.h"

#define OLDEST_OPSET 1
#define NEWEST_OPSET WAFER_ONNX_NEWEST_OPSET

typedef struct importer {
  const wafer_ctx *ctx;
  const char *file;
  wafer_ir *root; /* of the first piece */
  wafer_ir *ir;   /* of the open piece */
  wafer_builder b;
  data_store store;
  const onnx_model *model;
  uint32_t unsupported; /* reported as such: nodes, and tensors */
  uint32_t refused;     /* of these, nodes of the model's graph */
  program_state program;
  training_state training;
  assembly *fn; /* the function being imported */
} importer;

typedef struct import_node {
  importer *im;
  scope *scope;
  const onnx_node *node;
  const struct onnx_op *op; /* the operator's row */
  int64_t opset;            /* of the node's domain */
  int64_t index;            /* in its graph */
  const char *label;        /* the node's name, or its first output where it has none */
  uint32_t input_count, output_count;
  const MlirValue *inputs;    /* null where the node leaves one out, and for what the host has */
  name_entry *const *entries; /* the same as names; NULL where one is left out */
  MlirValue *outputs;         /* to be set, or */
  name_entry *results;        /* where `fn` is set: results that need not be of the open piece */
  wafer_status status;
} import_node;

typedef void import_fn(import_node *n);

/* A row of onnx.def. */
typedef struct onnx_op {
  const char *domain, *type; /* domain "": ai.onnx */
  int64_t since;
  uint32_t least, most; /* inputs */
  import_fn *import;
  wafer_op op;
} onnx_op;
#define NO_OP WAFER_OP_COUNT
#define ANY UINT32_MAX

/* The row for an operator; NULL: none. */
const onnx_op *onnx_op_find(const char *domain, const char *type, int64_t opset);
/* The newest opset of a domain that has rows of its own; 0: no row is of that domain. */
int64_t onnx_newest(const char *domain);
/* The rows in their order, NULL behind the last one. */
const onnx_op *onnx_op_row(size_t index);

/* ---- Failures ---- */

/* Something that keeps the model from compiling, after which the walk goes on to list others: to
 * the options' `problem`, or as an error. `remedy` is said with it; NULL: that of the kind. Returns
 * `status`. */
wafer_status import_problem(const wafer_ctx *ctx, wafer_loc loc, wafer_status status,
                            wafer_problem_kind kind, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* The model is malformed. */
void node_bad(import_node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The model is valid, this compiler cannot do it; the walk goes on without the node's results. */
void node_unsupported(import_node *n, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, of a kind other than `operator`. */
void node_problem(import_node *n, wafer_problem_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Attributes that nobody has read are said to be ignored. */
void node_unread(import_node *n);

/* ---- Inputs ---- */

bool node_has_input(const import_node *n, uint32_t index);
MlirValue node_input(const import_node *n, uint32_t index); /* null when absent */
wafer_type node_type(const import_node *n, MlirValue value);
uint32_t node_rank(const import_node *n, MlirValue value);
wafer_dtype node_dtype(const import_node *n, MlirValue value);
/* A value known now; otherwise the node fails and says that it must be. `what` names it in the
 * message. */
bool node_constant(import_node *n, uint32_t index, const char *what, wafer_view *view);
/* The inputs of the model that a value is computed from: "input 'a', 'b'; give --bind a=FILE.npy".
 */
const char *node_inputs_behind(const import_node *n, MlirValue value);
/* Whether inputs of the model alone determine it: --bind would make it known. */
bool node_given_by_inputs(const import_node *n, MlirValue value);
/* A constant vector (or scalar) of integers; count 0 after a failure. */
typedef struct int_list {
  uint32_t count;
  const int64_t *at;
} int_list;
int_list node_ints(import_node *n, uint32_t index, const char *what);
double node_float(import_node *n, uint32_t index, const char *what, double absent);

/* ---- Attributes ---- */

const onnx_attribute *attr_find(import_node *n, const char *name);
bool attr_has(import_node *n, const char *name);
int64_t attr_int(import_node *n, const char *name, int64_t absent);
double attr_float(import_node *n, const char *name, double absent);
const char *attr_text(import_node *n, const char *name, const char *absent);
int_list attr_ints(import_node *n, const char *name);
typedef struct float_list {
  uint32_t count;
  const double *at;
} float_list;
float_list attr_floats(import_node *n, const char *name);
/* Fills in the `count` entries of an attribute, each from `least` to INT32_MAX, or `absent` for
 * each when it is left out. False: the node has failed. */
bool attr_ints_of(import_node *n, const char *name, uint32_t count, int64_t absent, int64_t least,
                  int64_t *out);
/* From an attribute up to opset `until` - 1, from input `index` on. */
int_list attr_ints_moved(import_node *n, const char *name, int64_t until, uint32_t index);
/* 0 <= axis < rank, counting from the end when negative; fails otherwise. */
uint32_t node_axis(import_node *n, int64_t axis, uint32_t rank);
/* Bit set of dims. */
uint32_t node_axes(import_node *n, int_list axes, uint32_t rank);
/* A dense tensor of zeros in the arena, to be filled; its data are NULL after a failure. */
wafer_view node_new_tensor(import_node *n, wafer_dtype dtype, uint32_t rank, const int64_t *dims);
/* The element type that attribute `name` (a TensorProto.DataType) gives; `absent` without it. */
wafer_dtype attr_dtype(import_node *n, const char *name, wafer_dtype absent);
int64_t *node_new_ints(import_node *n, int64_t count);

/* ---- Building ---- */

MlirValue emit_op(import_node *n, wafer_op op, uint32_t count, const MlirValue *operands,
                  const wafer_attr *attrs, uint32_t attr_count);
MlirValue emit_unary(import_node *n, wafer_op op, MlirValue a);
MlirValue emit_binary(import_node *n, wafer_op op, MlirValue a, MlirValue b);
#define ADD(a, b) emit_binary(n, WAFER_OP_add, a, b)
#define SUB(a, b) emit_binary(n, WAFER_OP_sub, a, b)
#define MUL(a, b) emit_binary(n, WAFER_OP_mul, a, b)
#define DIV(a, b) emit_binary(n, WAFER_OP_div, a, b)
MlirValue emit_scalar_like(import_node *n, MlirValue x,
                           double value);                        /* a scalar of x's element type */
MlirValue emit_constant(import_node *n, const wafer_view *view); /* of data in the arena */
MlirValue emit_constant_i64(import_node *n, uint32_t rank, int64_t count, const int64_t *values);
MlirValue emit_iota(import_node *n, wafer_dtype dtype, int64_t count);
MlirValue emit_select(import_node *n, MlirValue condition, MlirValue yes, MlirValue no);
MlirValue emit_cast(import_node *n, MlirValue x, wafer_dtype dtype);
/* As emit_cast, but numbers beyond those of a type of 8 bits and less become its last ones. */
MlirValue emit_cast_saturated(import_node *n, MlirValue x, wafer_dtype dtype);
MlirValue emit_clip(import_node *n, MlirValue x, double least, double most);
MlirValue emit_reshape(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims);
MlirValue emit_expand(import_node *n, MlirValue x, uint32_t rank, const int64_t *dims);
MlirValue emit_transpose(import_node *n, MlirValue x, uint32_t rank, const int64_t *perm);
MlirValue emit_swap_last(import_node *n, MlirValue x); /* transposes the last two dims */
MlirValue emit_concat(import_node *n, MlirValue a, MlirValue b, uint32_t axis);
/* Values that come together as they are made: two parts of as many become one, so that of n no more
 * than log n parts wait for others. `backwards`: each stands before those so far. */
typedef struct concat_tree {
  uint32_t axis;
  bool backwards;
  uint32_t parts, count;
  MlirValue part[33]; /* of so many values as `count` can tell */
} concat_tree;
void emit_concat_next(import_node *n, concat_tree *tree, MlirValue value);
MlirValue emit_concat_end(import_node *n, concat_tree *tree);
/* Of all `count` values; NULL: there was no memory for them. */
MlirValue emit_concat_all(import_node *n, uint32_t count, const MlirValue *values, uint32_t axis);
/* As ONNX's Gather. */
MlirValue emit_gather(import_node *n, MlirValue x, MlirValue index, uint32_t axis);
/* The same for data and indices that have the dims before the axis in common. */
MlirValue emit_gather_batched(import_node *n, MlirValue x, MlirValue index, uint32_t axis);
/* As ONNX's Pad in mode constant: of each dim the elements before, then those behind; less than 0:
 * so many are cropped. */
MlirValue emit_padded(import_node *n, MlirValue x, const int64_t *pads, double fill);
/* `count` elements of dim `axis` from `start`. */
MlirValue emit_part(import_node *n, MlirValue x, uint32_t axis, int64_t start, int64_t count);
/* Over the dims of a bit set. */
MlirValue emit_reduce(import_node *n, wafer_op op, MlirValue x, uint32_t dims, bool keep);
/* Numbers drawn from 0 .. 1, as f64, by attribute `seed`, behind the first `skip` ones. */
MlirValue emit_uniform(import_node *n, const wafer_shape *shape, int64_t skip);
/* The node's convolution (its attributes, the weight's kernel) of other operands. */
MlirValue emit_conv(import_node *n, MlirValue x, MlirValue w, MlirValue bias);
/* Along the one dim behind (batch, channels), without pads; a null bias: none. */
MlirValue emit_conv_along(import_node *n, MlirValue x, MlirValue w, MlirValue bias, int64_t group,
                          int64_t stride);
/* MaxPool of the node's operand: for each element of the result its position in the operand, as
 * i64; sizes, steps and first pads of the spatial dims. */
typedef struct pool_geometry {
  uint32_t spatial;
  int64_t in[3], out[3], kernel[3], strides[3], dilations[3], pads[3];
} pool_geometry;
MlirValue emit_pool_places(import_node *n, const pool_geometry *g);
MlirValue emit_softmax(import_node *n, MlirValue x, uint32_t axis);
MlirValue emit_log_softmax(import_node *n, MlirValue x, uint32_t axis);
/* As ONNX's GatherElements. */
MlirValue emit_gather_elements(import_node *n, MlirValue data, MlirValue index, uint32_t axis);
/* Rows of a matrix (or elements of a vector) by number, 0 and up. */
MlirValue emit_rows(import_node *n, MlirValue rows, MlirValue index);

#define INT_ATTR(key, value) ((wafer_attr){.id = WAFER_ATTR_##key, .i = (value)})
#define FLOAT_ATTR(key, value) ((wafer_attr){.id = WAFER_ATTR_##key, .f = (value)})
#define TEXT_ATTR(key, value) ((wafer_attr){.id = WAFER_ATTR_##key, .s = (value)})
#define INTS_ATTR(key, n, values) ((wafer_attr){.id = WAFER_ATTR_##key, .ints = {(n), (values)}})
#define FLOATS_ATTR(key, n, values)                                                                \
  ((wafer_attr){.id = WAFER_ATTR_##key, .floats = {(n), (values)}})

/* ---- Graphs ---- */

wafer_status import_no_memory(const importer *im);
/* The opset of a domain; 0: the model uses none. Domains beside ONNX's own need no import: they are
 * at their newest then, as for onnxruntime, whose optimizers leave such imports out. */
int64_t import_opset(const frame *f, const char *domain);
/* Names of `graph` inside `outer` (or none), empty yet. */
wafer_status import_begin_graph(const importer *im, scope *s, const scope *outer, const frame *f,
                                const onnx_graph *graph);
wafer_status import_define(const importer *im, scope *s, const char *name, name_entry entry);
wafer_status import_initializers(importer *im, scope *s, const onnx_graph *graph);
/* In their order, or in the one that order.h finds. */
wafer_status import_nodes(importer *im, scope *s, const onnx_nodes *nodes);
/* A result of a graph, as the function being imported sees it. */
wafer_status import_result(importer *im, scope *s, const char *name, name_entry **out);
/* The nodes of a graph inside another, in the function being imported: `arguments` are what its
 * inputs stand for. Its results' entries, which may be unknown. */
wafer_status import_subgraph(importer *im, const scope *outer, const onnx_graph *graph,
                             uint32_t argument_count, const name_entry *arguments, uint32_t count,
                             name_entry **results);
/* The element type and value of a tensor attribute or initializer. */
wafer_status import_tensor(importer *im, const onnx_tensor *tensor, const char *name,
                           MlirValue *out);

/* The model with every dim known (import.c); wafer_import takes ranges apart (range.c). */
wafer_status import_one(const wafer_ctx *ctx, const char *path, wafer_ir **out);

/* ---- Inputs of the model (bind.c) ---- */

typedef struct model_input {
  const onnx_value *info;
  wafer_type type;
  const wafer_view *bound; /* --bind: the input is this constant */
  bool unknown;            /* its type or a dim; that has been reported */
  bool host;               /* no tensor of numbers: a host value */
} model_input;

/* The inputs that `initializers` has not, with static types by the options of ctx; those that are
 * unknown stay so. *problem: WAFER_OK when there are none, else the first one's status. */
wafer_status bind_inputs(const wafer_ctx *ctx, const char *file, const onnx_graph *graph,
                         const scope *initializers, model_input **out, uint32_t *count,
                         wafer_status *problem);
/* The leading dim that the model declares for its inputs; 0: it leaves it open. */
int64_t bind_declared_batch(const model_input *inputs, uint32_t count);
/* Whether a declared type contradicts; dims without a number agree with anything. */
bool bind_contradicts(const onnx_type *declared, const wafer_type *type);

#endif

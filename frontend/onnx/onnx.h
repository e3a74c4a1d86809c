/* ONNX files as C structs: onnx.proto up to IR version 13 as far as a compiler needs it. Everything
 * lives in the arena or in the mapped file. Member names are those of onnx.proto; absent text is
 * NULL. */
#ifndef FRONTEND_ONNX_H
#define FRONTEND_ONNX_H

#include "wafer/tensor.h"
#include "wire.h"

#define ONNX_HAS(message, field) (((message)->has >> (field)) & 1)

typedef struct onnx_entry { /* StringStringEntryProto */
  uint64_t has;
  const char *key, *value;
} onnx_entry;

typedef struct onnx_entries {
  const onnx_entry *at;
  size_t count;
} onnx_entries;

typedef enum onnx_data_type {
  ONNX_STRING = 8
} onnx_data_type; /* the others: wafer_dtype_by_onnx */

typedef struct onnx_tensor { /* TensorProto */
  uint64_t has;
  wire_ints dims;
  int64_t data_type;
  const char *name;
  wire_bytes raw_data;
  wire_bytes float_data, double_data;             /* little-endian elements */
  wire_bytes int32_data, int64_data, uint64_data; /* varints */
  wire_blobs string_data;
  onnx_entries external_data;
  int64_t data_location; /* 1: external */
} onnx_tensor;
enum { ONNX_TENSOR_RAW_DATA = 9 };

typedef struct onnx_sparse { /* SparseTensorProto */
  uint64_t has;
  const onnx_tensor *values, *indices;
  wire_ints dims;
} onnx_sparse;

typedef struct onnx_dim { /* TensorShapeProto.Dimension */
  uint64_t has;
  int64_t value;
  const char *param;
} onnx_dim;
enum { ONNX_DIM_VALUE = 1, ONNX_DIM_PARAM = 2 };

typedef struct onnx_shape { /* TensorShapeProto */
  uint64_t has;
  struct {
    const onnx_dim *at;
    size_t count;
  } dim;
} onnx_shape;

typedef struct onnx_type onnx_type;

typedef struct onnx_tensor_type { /* TypeProto.Tensor, TypeProto.SparseTensor */
  uint64_t has;
  int64_t elem_type;
  const onnx_shape *shape; /* NULL: unknown rank */
} onnx_tensor_type;

typedef struct onnx_nested_type { /* TypeProto.Sequence, .Optional, .Map (key_type is Map's) */
  uint64_t has;
  int64_t key_type;
  const onnx_type *elem_type;
} onnx_nested_type;

struct onnx_type { /* TypeProto: one member is set */
  uint64_t has;
  const onnx_tensor_type *tensor, *sparse;
  const onnx_nested_type *sequence, *optional, *map;
};

typedef struct onnx_value { /* ValueInfoProto */
  uint64_t has;
  const char *name;
  const onnx_type *type;
  onnx_entries metadata;
} onnx_value;

typedef struct onnx_values {
  const onnx_value *at;
  size_t count;
} onnx_values;

typedef struct onnx_tensors {
  const onnx_tensor *at;
  size_t count;
} onnx_tensors;

typedef struct onnx_sequence { /* SequenceProto of tensors */
  uint64_t has;
  onnx_tensors tensors;
} onnx_sequence;

typedef struct onnx_optional { /* OptionalProto: one member or none is set */
  uint64_t has;
  const onnx_tensor *tensor;
  const onnx_sequence *sequence;
} onnx_optional;

typedef struct onnx_graph onnx_graph;

typedef enum onnx_attribute_type {
  ONNX_FLOAT = 1,
  ONNX_INT,
  ONNX_TEXT,
  ONNX_TENSOR,
  ONNX_GRAPH,
  ONNX_FLOATS,
  ONNX_INTS,
  ONNX_TEXTS,
  ONNX_TENSORS,
  ONNX_GRAPHS,
  ONNX_SPARSE,
  ONNX_SPARSES,
  ONNX_TYPE,
  ONNX_TYPES,
} onnx_attribute_type;

typedef struct onnx_attribute { /* AttributeProto */
  uint64_t has;
  const char *name, *ref_attr_name;
  int64_t type; /* onnx_attribute_type; set from the members present when the file leaves it out */
  float f;
  int64_t i;
  wire_bytes s;
  const onnx_tensor *t;
  const onnx_graph *g;
  const onnx_sparse *sparse_tensor;
  const onnx_type *tp;
  wire_floats floats;
  wire_ints ints;
  wire_blobs strings;
  onnx_tensors tensors;
  struct {
    const onnx_graph *at;
    size_t count;
  } graphs;
} onnx_attribute;

typedef struct onnx_node { /* NodeProto */
  uint64_t has;
  wire_texts input, output;
  const char *name, *op_type, *domain, *overload;
  struct {
    onnx_attribute *at;
    size_t count;
  } attribute;
} onnx_node;

typedef struct onnx_nodes {
  const onnx_node *at;
  size_t count;
} onnx_nodes;

struct onnx_graph { /* GraphProto */
  uint64_t has;
  onnx_nodes node;
  const char *name;
  onnx_tensors initializer;
  struct {
    const onnx_sparse *at;
    size_t count;
  } sparse_initializer;
  onnx_values input, output, value_info;
  onnx_entries metadata;
};

typedef struct onnx_opset { /* OperatorSetIdProto */
  uint64_t has;
  const char *domain;
  int64_t version;
} onnx_opset;

typedef struct onnx_opsets {
  const onnx_opset *at;
  size_t count;
} onnx_opsets;

typedef struct onnx_function { /* FunctionProto */
  uint64_t has;
  const char *name, *domain, *overload;
  wire_texts input, output, attribute;
  struct {
    const onnx_attribute *at;
    size_t count;
  } attribute_proto;
  onnx_nodes node;
  onnx_opsets opset_import;
} onnx_function;

typedef struct onnx_model { /* ModelProto */
  uint64_t has;
  int64_t ir_version;
  const char *producer_name, *producer_version;
  onnx_opsets opset_import;
  const onnx_graph *graph;
  struct {
    const onnx_function *at;
    size_t count;
  } functions;
  onnx_entries metadata;
} onnx_model;

/* Reads the bytes of an ONNX file, which must outlive the model. BAD_INPUT names file and byte
 * offset. */
WAFER_MUST_USE wafer_status onnx_read(const wire_source *source, const onnx_model **out);

/* A single tensor: the bytes of a TensorProto. */
WAFER_MUST_USE wafer_status onnx_read_tensor(const wire_source *source, const onnx_tensor **out);
WAFER_MUST_USE wafer_status onnx_read_sparse(const wire_source *source, const onnx_sparse **out);
WAFER_MUST_USE wafer_status onnx_read_sequence(const wire_source *source,
                                               const onnx_sequence **out);
WAFER_MUST_USE wafer_status onnx_read_optional(const wire_source *source,
                                               const onnx_optional **out);

/* The node's name, or its first output where it has none. */
const char *onnx_node_label(const onnx_node *node);

/* What text a message should print for a data type: "f32", "string", "complex64". */
const char *onnx_data_type_name(int64_t data_type);

/* The attribute's type, inferred from its members when the file leaves `type` out (IR version 1).
 */
onnx_attribute_type onnx_attribute_type_of(const onnx_attribute *attribute);

#endif

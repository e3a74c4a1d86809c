#include "onnx.h"

#include <stddef.h>

/* The schema: field number -> member. */
#define AT(type, kind, member) {WIRE_##kind, 0, offsetof(type, member), NULL}
#define SUB(type, kind, member, sub) {WIRE_##kind, 0, offsetof(type, member), &sub}
#define PACKED(type, wire_type, member) {WIRE_PACKED, wire_type, offsetof(type, member), NULL}
#define MESSAGE(type, text, fields) {text, sizeof(type), WAFER_COUNT(fields), fields}

static const wire_field entry_fields[] = {
    [1] = AT(onnx_entry, TEXT, key),
    [2] = AT(onnx_entry, TEXT, value),
};
static const wire_message entry_message =
    MESSAGE(onnx_entry, "StringStringEntryProto", entry_fields);

static const wire_field tensor_fields[] = {
    [1] = AT(onnx_tensor, INTS, dims),
    [2] = AT(onnx_tensor, INT, data_type),
    [4] = PACKED(onnx_tensor, 5, float_data),
    [5] = PACKED(onnx_tensor, 0, int32_data),
    [6] = AT(onnx_tensor, BLOBS, string_data),
    [7] = PACKED(onnx_tensor, 0, int64_data),
    [8] = AT(onnx_tensor, TEXT, name),
    [ONNX_TENSOR_RAW_DATA] = AT(onnx_tensor, BYTES, raw_data),
    [10] = PACKED(onnx_tensor, 1, double_data),
    [11] = PACKED(onnx_tensor, 0, uint64_data),
    [13] = SUB(onnx_tensor, MESSAGES, external_data, entry_message),
    [14] = AT(onnx_tensor, INT, data_location),
};
static const wire_message tensor_message = MESSAGE(onnx_tensor, "TensorProto", tensor_fields);

static const wire_field sequence_fields[] = {
    [3] = SUB(onnx_sequence, MESSAGES, tensors, tensor_message)};
static const wire_message sequence_message =
    MESSAGE(onnx_sequence, "SequenceProto", sequence_fields);

static const wire_field optional_fields[] = {
    [3] = SUB(onnx_optional, MESSAGE, tensor, tensor_message),
    [5] = SUB(onnx_optional, MESSAGE, sequence, sequence_message),
};
static const wire_message optional_message =
    MESSAGE(onnx_optional, "OptionalProto", optional_fields);

static const wire_field sparse_fields[] = {
    [1] = SUB(onnx_sparse, MESSAGE, values, tensor_message),
    [2] = SUB(onnx_sparse, MESSAGE, indices, tensor_message),
    [3] = AT(onnx_sparse, INTS, dims),
};
static const wire_message sparse_message = MESSAGE(onnx_sparse, "SparseTensorProto", sparse_fields);

static const wire_field dim_fields[] = {
    [ONNX_DIM_VALUE] = AT(onnx_dim, INT, value),
    [ONNX_DIM_PARAM] = AT(onnx_dim, TEXT, param),
};
static const wire_message dim_message = MESSAGE(onnx_dim, "Dimension", dim_fields);

static const wire_field shape_fields[] = {[1] = SUB(onnx_shape, MESSAGES, dim, dim_message)};
static const wire_message shape_message = MESSAGE(onnx_shape, "TensorShapeProto", shape_fields);

static const wire_message type_message;

static const wire_field tensor_type_fields[] = {
    [1] = AT(onnx_tensor_type, INT, elem_type),
    [2] = SUB(onnx_tensor_type, MESSAGE, shape, shape_message),
};
static const wire_message tensor_type_message =
    MESSAGE(onnx_tensor_type, "TypeProto.Tensor", tensor_type_fields);

static const wire_field nested_fields[] = {
    [1] = SUB(onnx_nested_type, MESSAGE, elem_type, type_message)};
static const wire_message nested_message =
    MESSAGE(onnx_nested_type, "TypeProto.Sequence", nested_fields);

static const wire_field map_fields[] = {
    [1] = AT(onnx_nested_type, INT, key_type),
    [2] = SUB(onnx_nested_type, MESSAGE, elem_type, type_message),
};
static const wire_message map_message = MESSAGE(onnx_nested_type, "TypeProto.Map", map_fields);

static const wire_field type_fields[] = {
    [1] = SUB(onnx_type, MESSAGE, tensor, tensor_type_message),
    [4] = SUB(onnx_type, MESSAGE, sequence, nested_message),
    [5] = SUB(onnx_type, MESSAGE, map, map_message),
    [8] = SUB(onnx_type, MESSAGE, sparse, tensor_type_message),
    [9] = SUB(onnx_type, MESSAGE, optional, nested_message),
};
static const wire_message type_message = MESSAGE(onnx_type, "TypeProto", type_fields);

static const wire_field value_fields[] = {
    [1] = AT(onnx_value, TEXT, name),
    [2] = SUB(onnx_value, MESSAGE, type, type_message),
    [4] = SUB(onnx_value, MESSAGES, metadata, entry_message),
};
static const wire_message value_message = MESSAGE(onnx_value, "ValueInfoProto", value_fields);

static const wire_message graph_message;

static const wire_field attribute_fields[] = {
    [1] = AT(onnx_attribute, TEXT, name),
    [2] = AT(onnx_attribute, FLOAT, f),
    [3] = AT(onnx_attribute, INT, i),
    [4] = AT(onnx_attribute, BYTES, s),
    [5] = SUB(onnx_attribute, MESSAGE, t, tensor_message),
    [6] = SUB(onnx_attribute, MESSAGE, g, graph_message),
    [7] = AT(onnx_attribute, FLOATS, floats),
    [8] = AT(onnx_attribute, INTS, ints),
    [9] = AT(onnx_attribute, BLOBS, strings),
    [10] = SUB(onnx_attribute, MESSAGES, tensors, tensor_message),
    [11] = SUB(onnx_attribute, MESSAGES, graphs, graph_message),
    [14] = SUB(onnx_attribute, MESSAGE, tp, type_message),
    [20] = AT(onnx_attribute, INT, type),
    [21] = AT(onnx_attribute, TEXT, ref_attr_name),
    [22] = SUB(onnx_attribute, MESSAGE, sparse_tensor, sparse_message),
};
static const wire_message attribute_message =
    MESSAGE(onnx_attribute, "AttributeProto", attribute_fields);

static const wire_field node_fields[] = {
    [1] = AT(onnx_node, TEXTS, input),
    [2] = AT(onnx_node, TEXTS, output),
    [3] = AT(onnx_node, TEXT, name),
    [4] = AT(onnx_node, TEXT, op_type),
    [5] = SUB(onnx_node, MESSAGES, attribute, attribute_message),
    [7] = AT(onnx_node, TEXT, domain),
    [8] = AT(onnx_node, TEXT, overload),
};
static const wire_message node_message = MESSAGE(onnx_node, "NodeProto", node_fields);

static const wire_field graph_fields[] = {
    [1] = SUB(onnx_graph, MESSAGES, node, node_message),
    [2] = AT(onnx_graph, TEXT, name),
    [5] = SUB(onnx_graph, MESSAGES, initializer, tensor_message),
    [11] = SUB(onnx_graph, MESSAGES, input, value_message),
    [12] = SUB(onnx_graph, MESSAGES, output, value_message),
    [13] = SUB(onnx_graph, MESSAGES, value_info, value_message),
    [15] = SUB(onnx_graph, MESSAGES, sparse_initializer, sparse_message),
    [16] = SUB(onnx_graph, MESSAGES, metadata, entry_message),
};
static const wire_message graph_message = MESSAGE(onnx_graph, "GraphProto", graph_fields);

static const wire_field opset_fields[] = {
    [1] = AT(onnx_opset, TEXT, domain),
    [2] = AT(onnx_opset, INT, version),
};
static const wire_message opset_message = MESSAGE(onnx_opset, "OperatorSetIdProto", opset_fields);

static const wire_field function_fields[] = {
    [1] = AT(onnx_function, TEXT, name),
    [4] = AT(onnx_function, TEXTS, input),
    [5] = AT(onnx_function, TEXTS, output),
    [6] = AT(onnx_function, TEXTS, attribute),
    [7] = SUB(onnx_function, MESSAGES, node, node_message),
    [9] = SUB(onnx_function, MESSAGES, opset_import, opset_message),
    [10] = AT(onnx_function, TEXT, domain),
    [11] = SUB(onnx_function, MESSAGES, attribute_proto, attribute_message),
    [13] = AT(onnx_function, TEXT, overload),
};
static const wire_message function_message =
    MESSAGE(onnx_function, "FunctionProto", function_fields);

static const wire_field model_fields[] = {
    [1] = AT(onnx_model, INT, ir_version),
    [2] = AT(onnx_model, TEXT, producer_name),
    [3] = AT(onnx_model, TEXT, producer_version),
    [7] = SUB(onnx_model, MESSAGE, graph, graph_message),
    [8] = SUB(onnx_model, MESSAGES, opset_import, opset_message),
    [14] = SUB(onnx_model, MESSAGES, metadata, entry_message),
    [25] = SUB(onnx_model, MESSAGES, functions, function_message),
};
static const wire_message model_message = MESSAGE(onnx_model, "ModelProto", model_fields);

wafer_status onnx_read(const wire_source *source, const onnx_model **out) {
  *out = NULL;
  wafer_loc loc = wafer_at_file(source->file);
  if (!source->input.count)
    return wafer_fail(source->diag, loc, WAFER_BAD_INPUT, "not a readable ONNX file: it is empty");
  void *message;
  WAFER_TRY(wire_decode(source, &model_message, &message));
  const onnx_model *model = message;
  if (!model->graph)
    return wafer_fail(source->diag, loc, WAFER_BAD_INPUT, "not an ONNX model: it holds no graph");
  *out = model;
  return WAFER_OK;
}

wafer_status onnx_read_tensor(const wire_source *source, const onnx_tensor **out) {
  *out = NULL;
  void *message;
  WAFER_TRY(wire_decode(source, &tensor_message, &message));
  *out = message;
  return WAFER_OK;
}

wafer_status onnx_read_sparse(const wire_source *source, const onnx_sparse **out) {
  *out = NULL;
  void *message;
  WAFER_TRY(wire_decode(source, &sparse_message, &message));
  *out = message;
  return WAFER_OK;
}

wafer_status onnx_read_sequence(const wire_source *source, const onnx_sequence **out) {
  *out = NULL;
  void *message;
  WAFER_TRY(wire_decode(source, &sequence_message, &message));
  *out = message;
  return WAFER_OK;
}

wafer_status onnx_read_optional(const wire_source *source, const onnx_optional **out) {
  *out = NULL;
  void *message;
  WAFER_TRY(wire_decode(source, &optional_message, &message));
  *out = message;
  return WAFER_OK;
}

const char *onnx_node_label(const onnx_node *node) {
  if (node->name && *node->name) return node->name;
  for (size_t i = 0; i < node->output.count; i++)
    if (*node->output.at[i]) return node->output.at[i];
  return node->op_type ? node->op_type : "";
}

const char *onnx_data_type_name(int64_t data_type) {
  static const char *const others[] = {
      [8] = "string",
      [14] = "complex64",
      [15] = "complex128",
  };
  if (data_type < 0 || data_type > INT32_MAX) return "unknown";
  wafer_dtype dtype = wafer_dtype_by_onnx((int32_t)data_type);
  if (dtype != WAFER_DTYPE_none) return wafer_dtype_name(dtype);
  if (data_type < (int64_t)WAFER_COUNT(others) && others[data_type]) return others[data_type];
  return "unknown";
}

onnx_attribute_type onnx_attribute_type_of(const onnx_attribute *attribute) {
  static const struct {
    uint32_t field;
    onnx_attribute_type type;
  } rows[] = {{2, ONNX_FLOAT},    {3, ONNX_INT},     {4, ONNX_TEXT},  {5, ONNX_TENSOR},
              {6, ONNX_GRAPH},    {7, ONNX_FLOATS},  {8, ONNX_INTS},  {9, ONNX_TEXTS},
              {10, ONNX_TENSORS}, {11, ONNX_GRAPHS}, {14, ONNX_TYPE}, {22, ONNX_SPARSE}};
  if (attribute->type) return (onnx_attribute_type)attribute->type;
  for (size_t i = 0; i < WAFER_COUNT(rows); i++)
    if (ONNX_HAS(attribute, rows[i].field)) return rows[i].type;
  return (onnx_attribute_type)0;
}

/* A model's graph -> an ONNX file. Nodes and ports are kept as finished bytes; weights as a list,
 * whose data are asked for, piece by piece, while the file is written. */
#include "wafer/onnx_write.h"

#include <stdio.h>
#include <string.h>

#include "wafer/file.h"
#include "wafer/wafer.h"

/* Field numbers of onnx.proto. */
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8 };
enum { MODEL_METADATA = 14, OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_T = 5, ATTR_INTS = 8 };
enum { ATTR_TYPE = 20, IS_FLOAT = 1, IS_INT = 2, IS_STRING = 3, IS_TENSOR = 4, IS_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9, TENSOR_EXTERNAL = 13 };
enum { TENSOR_LOCATION = 14, EXTERNAL = 1 };
enum { PORT_NAME = 1, PORT_TYPE = 2, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE = 2 };
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_PARAM = 2 };

#define PIECE_BYTES ((size_t)1 << 20) /* of weights made while writing */
#define ALIGNMENT 64                  /* of a weight in the file beside the model */

struct wafer_onnx_model {
  wafer_arena *arena;
  const char *graph;
  int64_t opset;
  wafer_message nodes, node, ports, notes; /* `node`: the latest, without its key */
  uint32_t weight_count, weight_room;
  wafer_onnx_weight *weights;
  bool failed;
};

wafer_onnx_model *wafer_onnx_model_create(wafer_arena *arena, const char *graph, int64_t opset) {
  wafer_onnx_model *model = WAFER_NEW(arena, wafer_onnx_model, 1);
  if (!model) return NULL;
  wafer_message empty = {.arena = arena};
  *model = (wafer_onnx_model){.arena = arena,
                              .graph = wafer_arena_strdup(arena, graph),
                              .opset = opset,
                              .nodes = empty,
                              .node = empty,
                              .ports = empty,
                              .notes = empty};
  return model->graph ? model : NULL;
}

void wafer_onnx_model_note(wafer_onnx_model *model, const char *key, const char *value) {
  wafer_message entry = {.arena = model->arena};
  wafer_message_text(&entry, ENTRY_KEY, key);
  wafer_message_text(&entry, ENTRY_VALUE, value);
  wafer_message_add(&model->notes, MODEL_METADATA, &entry);
}

/* ---- Ports ---- */

static int32_t onnx_type(wafer_dtype dtype) {
  for (int32_t code = 1; code < 64; code++)
    if (wafer_dtype_by_onnx(code) == dtype) return code;
  return 0;
}

static void add_port(wafer_onnx_model *model, uint32_t field, const char *name, wafer_dtype dtype,
                     uint32_t rank, const wafer_onnx_dim *dims) {
  wafer_message shape = {.arena = model->arena}, tensor = shape, type = shape, port = shape;
  for (uint32_t i = 0; i < rank; i++) {
    wafer_message dim = {.arena = model->arena};
    if (dims[i].symbol)
      wafer_message_text(&dim, DIM_PARAM, dims[i].symbol);
    else
      wafer_message_int(&dim, DIM_VALUE, dims[i].size);
    wafer_message_add(&shape, SHAPE_DIM, &dim);
  }
  wafer_message_int(&tensor, TENSOR_ELEMENT, onnx_type(dtype));
  wafer_message_add(&tensor, TENSOR_SHAPE, &shape);
  wafer_message_add(&type, TYPE_TENSOR, &tensor);
  wafer_message_text(&port, PORT_NAME, name);
  wafer_message_add(&port, PORT_TYPE, &type);
  wafer_message_add(&model->ports, field, &port);
}

void wafer_onnx_input(wafer_onnx_model *model, const char *name, wafer_dtype dtype, uint32_t rank,
                      const wafer_onnx_dim *dims) {
  add_port(model, GRAPH_INPUT, name, dtype, rank, dims);
}

void wafer_onnx_output(wafer_onnx_model *model, const char *name, wafer_dtype dtype, uint32_t rank,
                       const wafer_onnx_dim *dims) {
  add_port(model, GRAPH_OUTPUT, name, dtype, rank, dims);
}

/* ---- Nodes ---- */

static void end_node(wafer_onnx_model *model) {
  if (model->node.count) wafer_message_add(&model->nodes, GRAPH_NODE, &model->node);
  model->node.count = 0;
}

void wafer_onnx_node_add(wafer_onnx_model *model, const char *type, const char *name,
                         const char *const *inputs, const char *const *outputs) {
  end_node(model);
  for (; *inputs; inputs++) wafer_message_text(&model->node, NODE_INPUT, *inputs);
  for (; *outputs; outputs++) wafer_message_text(&model->node, NODE_OUTPUT, *outputs);
  wafer_message_text(&model->node, NODE_NAME, name);
  wafer_message_text(&model->node, NODE_TYPE, type);
}

static wafer_message attribute(const wafer_onnx_model *model, const char *name, int64_t type) {
  wafer_message attr = {.arena = model->arena};
  wafer_message_text(&attr, ATTR_NAME, name);
  wafer_message_int(&attr, ATTR_TYPE, type);
  return attr;
}

void wafer_onnx_attr_int(wafer_onnx_model *model, const char *name, int64_t value) {
  wafer_message attr = attribute(model, name, IS_INT);
  wafer_message_int(&attr, ATTR_I, value);
  wafer_message_add(&model->node, NODE_ATTRIBUTE, &attr);
}

void wafer_onnx_attr_float(wafer_onnx_model *model, const char *name, float value) {
  wafer_message attr = attribute(model, name, IS_FLOAT);
  wafer_message_float(&attr, ATTR_F, value);
  wafer_message_add(&model->node, NODE_ATTRIBUTE, &attr);
}

void wafer_onnx_attr_text(wafer_onnx_model *model, const char *name, const char *value) {
  wafer_message attr = attribute(model, name, IS_STRING);
  wafer_message_text(&attr, ATTR_S, value);
  wafer_message_add(&model->node, NODE_ATTRIBUTE, &attr);
}

/* One by one: lists of attributes are not packed in onnx.proto. */
void wafer_onnx_attr_ints(wafer_onnx_model *model, const char *name, const int64_t *values,
                          size_t count) {
  wafer_message attr = attribute(model, name, IS_INTS);
  for (size_t i = 0; i < count; i++) wafer_message_int(&attr, ATTR_INTS, values[i]);
  wafer_message_add(&model->node, NODE_ATTRIBUTE, &attr);
}

void wafer_onnx_attr_tensor(wafer_onnx_model *model, const char *name, const wafer_shape *shape,
                            const float *data) {
  wafer_message attr = attribute(model, name, IS_TENSOR), tensor = {.arena = model->arena};
  wafer_message_ints(&tensor, TENSOR_DIMS, shape->dims, shape->rank);
  wafer_message_int(&tensor, TENSOR_TYPE, onnx_type(WAFER_DTYPE_f32));
  wafer_message_bytes(&tensor, TENSOR_RAW, data, wafer_tensor_bytes(WAFER_DTYPE_f32, shape));
  wafer_message_add(&attr, ATTR_T, &tensor);
  wafer_message_add(&model->node, NODE_ATTRIBUTE, &attr);
}

/* ---- Weights ---- */

void wafer_onnx_weight_add(wafer_onnx_model *model, const wafer_onnx_weight *weight) {
  if (!WAFER_GROW(model->arena, model->weights, model->weight_count, model->weight_room, 64)) {
    model->failed = true;
    return;
  }
  wafer_onnx_weight *added = &model->weights[model->weight_count++];
  *added = *weight;
  added->name = wafer_arena_strdup(model->arena, weight->name);
  if (weight->location) added->location = wafer_arena_strdup(model->arena, weight->location);
  model->failed |= !added->name || (weight->location && !added->location);
}

static bool has_data(const wafer_onnx_weight *w) {
  return w->data || w->fill;
}

static void add_entry(wafer_message *tensor, const char *key, const char *value) {
  wafer_message entry = {.arena = tensor->arena};
  wafer_message_text(&entry, ENTRY_KEY, key);
  wafer_message_text(&entry, ENTRY_VALUE, value);
  wafer_message_add(tensor, TENSOR_EXTERNAL, &entry);
}

static void add_location(wafer_message *tensor, const wafer_onnx_weight *w, const char *location,
                         uint64_t offset) {
  char number[24];
  add_entry(tensor, "location", location);
  snprintf(number, sizeof number, "%llu", (unsigned long long)offset);
  add_entry(tensor, "offset", number);
  snprintf(number, sizeof number, "%zu", wafer_tensor_bytes(w->dtype, &w->shape));
  add_entry(tensor, "length", number);
  wafer_message_int(tensor, TENSOR_LOCATION, EXTERNAL);
}

/* A TensorProto up to its data, which follow when they are inline. */
static wafer_message tensor_of(const wafer_onnx_model *model, const wafer_onnx_weight *w,
                               const char *beside, uint64_t offset) {
  wafer_message tensor = {.arena = model->arena};
  wafer_message_ints(&tensor, TENSOR_DIMS, w->shape.dims, w->shape.rank);
  wafer_message_int(&tensor, TENSOR_TYPE, onnx_type(w->dtype));
  wafer_message_text(&tensor, TENSOR_NAME, w->name);
  if (!has_data(w))
    add_location(&tensor, w, w->location ? w->location : "absent", w->offset);
  else if (beside)
    add_location(&tensor, w, beside, offset);
  else
    wafer_message_head(&tensor, TENSOR_RAW, wafer_tensor_bytes(w->dtype, &w->shape));
  return tensor;
}

static wafer_status write_data(wafer_file *file, const wafer_onnx_weight *w, void *piece) {
  size_t bytes = wafer_tensor_bytes(w->dtype, &w->shape), each = wafer_dtype_bytes(w->dtype);
  if (w->data) return wafer_file_write(file, w->data, bytes);
  for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
    size_t count = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
    w->fill(w->self, (int64_t)(at / each), (int64_t)(count / each), piece);
    WAFER_TRY(wafer_file_write(file, piece, count));
  }
  return WAFER_OK;
}

/* ---- The file ---- */

typedef struct output {
  const wafer_diag *diag;
  wafer_onnx_model *model;
  const char *path, *beside; /* beside: the name of the file of weights, NULL: there is none */
  wafer_message *tensors;    /* per weight: up to its data */
  void *piece;
} output;

static wafer_status no_memory(const output *o) {
  return wafer_fail(o->diag, wafer_at_file(o->path), WAFER_NO_MEMORY, "no memory to write it");
}

static uint64_t aligned(uint64_t offset) {
  return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t inline_bytes(const output *o, const wafer_onnx_weight *w) {
  return has_data(w) && !o->beside ? wafer_tensor_bytes(w->dtype, &w->shape) : 0;
}

static wafer_status plan_weights(output *o) {
  const wafer_onnx_model *model = o->model;
  uint64_t all = 0, offset = 0;
  for (size_t i = 0; i < model->weight_count; i++) all += inline_bytes(o, &model->weights[i]);
  const char *slash = strrchr(o->path, '/');
  if (all > WAFER_ONNX_INLINE_BYTES &&
      !(o->beside = wafer_arena_printf(model->arena, "%s.data", slash ? slash + 1 : o->path)))
    return no_memory(o);
  o->tensors = WAFER_NEW(model->arena, wafer_message, model->weight_count);
  o->piece = wafer_arena_alloc(model->arena, PIECE_BYTES, 1);
  if (!o->tensors || !o->piece) return no_memory(o);
  for (size_t i = 0; i < model->weight_count; i++) {
    const wafer_onnx_weight *w = &model->weights[i];
    o->tensors[i] = tensor_of(model, w, o->beside, offset);
    if (o->tensors[i].failed) return no_memory(o);
    if (has_data(w)) offset = aligned(offset + wafer_tensor_bytes(w->dtype, &w->shape));
  }
  return WAFER_OK;
}

static wafer_status write_beside(const output *o, wafer_file *file) {
  static const uint8_t zeros[ALIGNMENT];
  uint64_t offset = 0;
  for (size_t i = 0; i < o->model->weight_count; i++) {
    const wafer_onnx_weight *w = &o->model->weights[i];
    if (!has_data(w)) continue;
    WAFER_TRY(write_data(file, w, o->piece));
    uint64_t end = offset + wafer_tensor_bytes(w->dtype, &w->shape);
    offset = aligned(end);
    WAFER_TRY(wafer_file_write(file, zeros, offset - end));
  }
  return WAFER_OK;
}

/* Every length of the model is known before its first byte is written. */
static wafer_status write_model(const output *o, wafer_file *file) {
  wafer_onnx_model *model = o->model;
  wafer_message head = {.arena = model->arena}, opset = head, name = head;
  wafer_message_int(&opset, OPSET_VERSION, model->opset);
  wafer_message_int(&head, MODEL_IR, model->opset > 20 ? 11 : 8);
  wafer_message_text(&head, MODEL_PRODUCER, "wafer");
  wafer_message_text(&head, MODEL_VERSION, WAFER_VERSION);
  wafer_message_add(&head, MODEL_OPSET, &opset);
  wafer_message_text(&name, GRAPH_NAME, model->graph);
  uint64_t graph = model->nodes.count + name.count + model->ports.count;
  for (size_t i = 0; i < model->weight_count; i++) {
    wafer_message key = {.arena = model->arena};
    uint64_t bytes = o->tensors[i].count + inline_bytes(o, &model->weights[i]);
    wafer_message_head(&key, GRAPH_INITIALIZER, bytes);
    graph += key.count + bytes;
    name.failed |= key.failed;
  }
  wafer_message_head(&head, MODEL_GRAPH, graph);
  if (head.failed || name.failed) return no_memory(o);
  WAFER_TRY(wafer_file_write(file, head.bytes, head.count));
  WAFER_TRY(wafer_file_write(file, model->nodes.bytes, model->nodes.count));
  WAFER_TRY(wafer_file_write(file, name.bytes, name.count));
  for (size_t i = 0; i < model->weight_count; i++) {
    const wafer_onnx_weight *w = &model->weights[i];
    wafer_message key = {.arena = model->arena};
    wafer_message_head(&key, GRAPH_INITIALIZER, o->tensors[i].count + inline_bytes(o, w));
    if (key.failed) return no_memory(o);
    WAFER_TRY(wafer_file_write(file, key.bytes, key.count));
    WAFER_TRY(wafer_file_write(file, o->tensors[i].bytes, o->tensors[i].count));
    if (inline_bytes(o, w)) WAFER_TRY(write_data(file, w, o->piece));
  }
  WAFER_TRY(wafer_file_write(file, model->ports.bytes, model->ports.count));
  return wafer_file_write(file, model->notes.bytes, model->notes.count);
}

static wafer_status save(const output *o, const char *path,
                         wafer_status (*write)(const output *o, wafer_file *file)) {
  wafer_file *file;
  WAFER_TRY(wafer_file_begin(o->diag, path, &file));
  wafer_status status = write(o, file);
  if (status == WAFER_OK) return wafer_file_commit(file);
  wafer_file_abort(file);
  return status;
}

wafer_status wafer_onnx_model_write(const wafer_diag *diag, wafer_onnx_model *model,
                                    const char *path) {
  output o = {.diag = diag, .model = model, .path = path};
  end_node(model);
  if (model->failed || model->nodes.failed || model->ports.failed || model->notes.failed)
    return no_memory(&o);
  WAFER_TRY(plan_weights(&o));
  if (o.beside) {
    const char *data = wafer_arena_printf(model->arena, "%s.data", path);
    if (!data) return no_memory(&o);
    WAFER_TRY(save(&o, data, write_beside));
  }
  return save(&o, path, write_model);
}

/* A model with other weights: protobuf fields copied, those of replaced tensors written anew. The
 * reader (onnx_read) has accepted the file before: the walk below meets no malformed field. */
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"
#include "wafer/file.h"
#include "wafer/onnx.h"
#include "wafer/onnx_write.h"

/* Numbers of onnx.proto. */
enum {
  MODEL_GRAPH = 7,
  GRAPH_NODE = 1,
  GRAPH_INITIALIZER = 5,
  GRAPH_SPARSE = 15,
  SPARSE_VALUES = 1,
  TENSOR_DIMS = 1,
  TENSOR_DATA_TYPE = 2,
  TENSOR_NAME = 8,
  TENSOR_RAW_DATA = 9,
  NODE_OUTPUT = 2,
  NODE_OP_TYPE = 4,
  NODE_ATTRIBUTE = 5,
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_T = 5
};

typedef struct copier {
  const wafer_diag *diag;
  const char *path;
  wafer_arena *arena;
  const wafer_weights *weights;
  bool *done; /* per weight */
} copier;

/* ---- walking ---- */

typedef struct wire_item {
  uint32_t number, type;
  wire_bytes whole, payload; /* payload of length-delimited ones */
} wire_item;

static uint64_t varint(wire_bytes *from) {
  uint64_t value = 0;
  for (uint32_t shift = 0; from->count; shift += 7) {
    uint8_t byte = *from->at++;
    from->count--;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) break;
  }
  return value;
}

static bool next_item(wire_bytes *rest, wire_item *item) {
  if (!rest->count) return false;
  const uint8_t *start = rest->at;
  uint64_t key = varint(rest);
  size_t skip = 0;
  *item = (wire_item){.number = (uint32_t)(key >> 3), .type = key & 7};
  if (item->type == 0) (void)varint(rest);
  if (item->type == 1) skip = 8;
  if (item->type == 5) skip = 4;
  if (item->type == 2) {
    uint64_t count = varint(rest);
    skip = count < rest->count ? (size_t)count : rest->count;
    item->payload = (wire_bytes){rest->at, skip};
  }
  if (skip > rest->count) skip = rest->count;
  rest->at += skip;
  rest->count -= skip;
  item->whole = (wire_bytes){start, (size_t)(rest->at - start)};
  return true;
}

/* The first length-delimited field of a number; false: none. */
static bool field(wire_bytes message, uint32_t number, wire_bytes *out) {
  wire_item item;
  while (next_item(&message, &item))
    if (item.number == number && item.type == 2) return *out = item.payload, true;
  return false;
}

static bool is_text(wire_bytes text, const char *want) {
  return text.count == strlen(want) && !memcmp(text.at, want, text.count);
}

static void copy(wafer_message *to, wire_bytes bytes) {
  wafer_message raw = {
      .arena = to->arena, .bytes = (uint8_t *)(uintptr_t)bytes.at, .count = bytes.count};
  wafer_message_append(to, &raw);
}

/* ---- replacing ---- */

/* The weight of that name that has no place yet. */
static const wafer_weight *weight_of(copier *c, wire_bytes name) {
  for (size_t i = 0; i < wafer_weights_count(c->weights); i++) {
    const wafer_weight *w = wafer_weights_at(c->weights, i);
    if (!is_text(name, w->name)) continue;
    c->done[i] = true;
    return w;
  }
  return NULL;
}

static wafer_status check_type(const copier *c, int64_t data_type, const wire_ints *dims,
                               const wafer_weight *w) {
  bool same = wafer_dtype_by_onnx((int32_t)data_type) == w->dtype && dims->count == w->shape.rank;
  for (size_t i = 0; same && i < dims->count; i++) same = dims->at[i] == w->shape.dims[i];
  if (same) return WAFER_OK;
  return wafer_fail(c->diag, wafer_at_file(c->path), WAFER_BAD_INPUT,
                    "weight '%s' is of another type or shape than in the checkpoint", w->name);
}

static wafer_status check_tensor(const copier *c, wire_bytes message, const wafer_weight *w) {
  const wire_source source = {c->diag, c->arena, c->path, message};
  const onnx_tensor *tensor;
  WAFER_TRY(onnx_read_tensor(&source, &tensor));
  return check_type(c, tensor->data_type, &tensor->dims, w);
}

/* Name, type and dims as they are, the data raw. */
static wafer_status put_tensor(const copier *c, wafer_message *to, uint32_t number,
                               wire_bytes message, const wafer_weight *w) {
  wafer_message tensor = {.arena = c->arena};
  wire_item item;
  WAFER_TRY(check_tensor(c, message, w));
  for (wire_bytes rest = message; next_item(&rest, &item);)
    if (item.number == TENSOR_DIMS || item.number == TENSOR_DATA_TYPE || item.number == TENSOR_NAME)
      copy(&tensor, item.whole);
  wafer_message_bytes(&tensor, TENSOR_RAW_DATA, w->data, w->bytes);
  wafer_message_add(to, number, &tensor);
  return WAFER_OK;
}

/* A Constant node with attribute `value`. */
static wafer_status put_constant(copier *c, wafer_message *to, wire_bytes message,
                                 const wafer_weight *w) {
  wafer_message node = {.arena = c->arena};
  wire_item item;
  for (wire_bytes rest = message; next_item(&rest, &item);) {
    wire_bytes name = {0}, tensor;
    bool value = item.number == NODE_ATTRIBUTE && field(item.payload, ATTRIBUTE_NAME, &name) &&
                 is_text(name, "value") && field(item.payload, ATTRIBUTE_T, &tensor);
    if (!value) {
      copy(&node, item.whole);
      continue;
    }
    wafer_message attribute = {.arena = c->arena};
    wire_item part;
    for (wire_bytes parts = item.payload; next_item(&parts, &part);)
      if (part.number != ATTRIBUTE_T) copy(&attribute, part.whole);
    WAFER_TRY(put_tensor(c, &attribute, ATTRIBUTE_T, tensor, w));
    wafer_message_add(&node, NODE_ATTRIBUTE, &attribute);
  }
  wafer_message_add(to, GRAPH_NODE, &node);
  return WAFER_OK;
}

static wafer_status check_sparse(const copier *c, wire_bytes message, const wafer_weight *w) {
  const wire_source source = {c->diag, c->arena, c->path, message};
  const onnx_sparse *sparse;
  WAFER_TRY(onnx_read_sparse(&source, &sparse));
  return check_type(c, sparse->values->data_type, &sparse->dims, w);
}

/* A sparse tensor becomes a dense one. */
static wafer_status put_sparse(const copier *c, wafer_message *to, wire_bytes message,
                               const wafer_weight *w) {
  wafer_message tensor = {.arena = c->arena};
  wire_bytes values = {0};
  wire_item item;
  WAFER_TRY(check_sparse(c, message, w));
  wafer_message_ints(&tensor, TENSOR_DIMS, w->shape.dims, w->shape.rank);
  field(message, SPARSE_VALUES, &values);
  for (wire_bytes rest = values; next_item(&rest, &item);)
    if (item.number == TENSOR_DATA_TYPE || item.number == TENSOR_NAME) copy(&tensor, item.whole);
  wafer_message_bytes(&tensor, TENSOR_RAW_DATA, w->data, w->bytes);
  wafer_message_add(to, GRAPH_INITIALIZER, &tensor);
  return WAFER_OK;
}

static wafer_status put_graph(copier *c, wafer_message *to, wire_bytes message) {
  wafer_message graph = {.arena = c->arena};
  wire_item item;
  for (wire_bytes rest = message; next_item(&rest, &item);) {
    wire_bytes name = {0}, type = {0}, values;
    const wafer_weight *w = NULL;
    if (item.number == GRAPH_INITIALIZER && field(item.payload, TENSOR_NAME, &name))
      w = weight_of(c, name);
    if (w) {
      WAFER_TRY(put_tensor(c, &graph, GRAPH_INITIALIZER, item.payload, w));
      continue;
    }
    if (item.number == GRAPH_SPARSE && field(item.payload, SPARSE_VALUES, &values) &&
        field(values, TENSOR_NAME, &name))
      w = weight_of(c, name);
    if (w) {
      WAFER_TRY(put_sparse(c, &graph, item.payload, w));
      continue;
    }
    if (item.number == GRAPH_NODE && field(item.payload, NODE_OP_TYPE, &type) &&
        is_text(type, "Constant") && field(item.payload, NODE_OUTPUT, &name))
      w = weight_of(c, name);
    if (w)
      WAFER_TRY(put_constant(c, &graph, item.payload, w));
    else
      copy(&graph, item.whole);
  }
  wafer_message_add(to, MODEL_GRAPH, &graph);
  return WAFER_OK;
}

static wafer_status put_model(copier *c, wafer_message *to, wire_bytes message) {
  wire_item item;
  while (next_item(&message, &item)) {
    if (item.number == MODEL_GRAPH)
      WAFER_TRY(put_graph(c, to, item.payload));
    else
      copy(to, item.whole);
  }
  for (size_t i = 0; i < wafer_weights_count(c->weights); i++)
    if (!c->done[i])
      return wafer_fail(c->diag, wafer_at_file(c->path), WAFER_BAD_INPUT,
                        "the model has no weight '%s', which the checkpoint has",
                        wafer_weights_at(c->weights, i)->name);
  return WAFER_OK;
}

static wafer_status export(copier *c, const char *output) {
  wafer_bytes file;
  const onnx_model *model;
  WAFER_TRY(wafer_file_map(c->diag, c->arena, c->path, &file));
  const wire_source source = {c->diag, c->arena, c->path, {file.data, file.size}};
  WAFER_TRY(onnx_read(&source, &model));
  wafer_message to = {.arena = c->arena};
  c->done = WAFER_NEW(c->arena, bool, wafer_weights_count(c->weights));
  if (c->done) WAFER_TRY(put_model(c, &to, source.input));
  if (!c->done || to.failed)
    return wafer_fail(c->diag, wafer_at_file(output), WAFER_NO_MEMORY, "out of memory");
  return wafer_file_save(c->diag, output, to.bytes, to.count);
}

wafer_status wafer_onnx_export(const wafer_diag *diag, const char *path,
                               const wafer_weights *weights, const char *output) {
  copier c = {.diag = diag, .path = path, .arena = wafer_arena_create(), .weights = weights};
  if (!c.arena) return wafer_fail(diag, wafer_at_file(output), WAFER_NO_MEMORY, "out of memory");
  wafer_status status = export(&c, output);
  wafer_arena_destroy(c.arena);
  return status;
}

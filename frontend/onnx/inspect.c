/* ONNX files looked at from outside: ports, nodes, single tensors. */
#include <string.h>

#include "data.h"
#include "scope.h"
#include "wafer/onnx.h"

typedef struct walk {
  wafer_onnx_node *nodes; /* NULL while counting */
  size_t count;
} walk;

static const char *text_of(const char *text) {
  return text ? text : "";
}

static const char *domain_of(const char *domain) {
  return domain && *domain ? domain : "ai.onnx";
}

static int64_t opset_of(const onnx_opsets *opsets, const char *domain) {
  for (size_t i = 0; i < opsets->count; i++)
    if (!strcmp(domain_of(opsets->at[i].domain), domain_of(domain))) return opsets->at[i].version;
  return 0;
}

static void walk_nodes(walk *w, const onnx_opsets *opsets, const onnx_nodes *nodes) {
  for (size_t i = 0; i < nodes->count; i++) {
    const onnx_node *node = &nodes->at[i];
    if (w->nodes)
      w->nodes[w->count] = (wafer_onnx_node){.label = onnx_node_label(node),
                                             .domain = domain_of(node->domain),
                                             .type = text_of(node->op_type),
                                             .opset = opset_of(opsets, node->domain)};
    w->count++;
    for (size_t a = 0; a < node->attribute.count; a++) {
      const onnx_attribute *attribute = &node->attribute.at[a];
      if (attribute->g) walk_nodes(w, opsets, &attribute->g->node);
      for (size_t g = 0; g < attribute->graphs.count; g++)
        walk_nodes(w, opsets, &attribute->graphs.at[g].node);
    }
  }
}

static void walk_model(walk *w, const onnx_model *model) {
  walk_nodes(w, &model->opset_import, &model->graph->node);
  for (size_t i = 0; i < model->functions.count; i++)
    walk_nodes(w, &model->functions.at[i].opset_import, &model->functions.at[i].node);
}

static wafer_onnx_port port_of(const onnx_value *value) {
  wafer_onnx_port port = {.name = text_of(value->name), .open = true};
  const onnx_tensor_type *tensor = value->type ? value->type->tensor : NULL;
  if (value->type && value->type->sequence) port.kind = WAFER_ITEM_sequence;
  if (value->type && value->type->optional) port.kind = WAFER_ITEM_optional;
  if (tensor && tensor->elem_type > 0 && tensor->elem_type < INT32_MAX)
    port.dtype = wafer_dtype_by_onnx((int32_t)tensor->elem_type);
  if (!tensor || !tensor->shape || tensor->shape->dim.count > WAFER_MAX_RANK) return port;
  port.open = false;
  port.shape.rank = (uint32_t)tensor->shape->dim.count;
  for (uint32_t d = 0; d < port.shape.rank; d++) {
    const onnx_dim *dim = &tensor->shape->dim.at[d];
    port.open |= !ONNX_HAS(dim, ONNX_DIM_VALUE) || dim->value < 0;
    port.shape.dims[d] = dim->value;
  }
  return port;
}

static wafer_status read_file(const wafer_diag *diag, wafer_arena *arena, const char *path,
                              wire_source *source) {
  wafer_bytes bytes;
  WAFER_TRY(wafer_file_map(diag, arena, path, &bytes));
  *source = (wire_source){diag, arena, path, {bytes.data, bytes.size}};
  return WAFER_OK;
}

wafer_status wafer_onnx_inspect(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                const wafer_onnx_info **out) {
  *out = NULL;
  wire_source source;
  const onnx_model *model;
  WAFER_TRY(read_file(diag, arena, path, &source));
  WAFER_TRY(onnx_read(&source, &model));
  const onnx_graph *graph = model->graph;
  walk w = {0};
  scope initializers;
  walk_model(&w, model);
  wafer_onnx_info *info = WAFER_NEW(arena, wafer_onnx_info, 1);
  wafer_onnx_port *inputs = WAFER_NEW(arena, wafer_onnx_port, graph->input.count);
  wafer_onnx_port *outputs = WAFER_NEW(arena, wafer_onnx_port, graph->output.count);
  w.nodes = WAFER_NEW(arena, wafer_onnx_node, w.count);
  bool room = scope_init(&initializers, arena, NULL, NULL,
                         graph->initializer.count + graph->sparse_initializer.count);
  if (!info || !inputs || !outputs || !w.nodes || !room)
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to read the model");
  w.count = 0;
  walk_model(&w, model);
  *info = (wafer_onnx_info){
      .inputs = inputs, .outputs = outputs, .nodes = w.nodes, .node_count = w.count};
  for (size_t i = 0; i < graph->initializer.count; i++)
    scope_add(&initializers, text_of(graph->initializer.at[i].name));
  for (size_t i = 0; i < graph->sparse_initializer.count; i++)
    if (graph->sparse_initializer.at[i].values)
      scope_add(&initializers, text_of(graph->sparse_initializer.at[i].values->name));
  for (size_t i = 0; i < graph->input.count; i++)
    if (!scope_find(&initializers, text_of(graph->input.at[i].name)))
      inputs[info->input_count++] = port_of(&graph->input.at[i]);
  for (size_t i = 0; i < graph->output.count; i++)
    outputs[info->output_count++] = port_of(&graph->output.at[i]);
  *out = info;
  return WAFER_OK;
}

wafer_status wafer_onnx_tensor_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                    wafer_view *out) {
  *out = (wafer_view){0};
  wire_source source;
  const onnx_tensor *tensor;
  WAFER_TRY(read_file(diag, arena, path, &source));
  WAFER_TRY(onnx_read_tensor(&source, &tensor));
  data_store store = {.diag = diag, .arena = arena, .file = path};
  return data_view(&store, tensor, out);
}

/* ---- items ---- */

static wafer_status no_item(const data_store *store) {
  return wafer_fail(store->diag, wafer_at_file(store->file), WAFER_NO_MEMORY,
                    "no memory for its value");
}

static wafer_status strings_item(const data_store *store, const onnx_tensor *tensor,
                                 wafer_item **out) {
  wafer_shape shape = {.rank = (uint32_t)tensor->dims.count};
  int64_t elements;
  if (tensor->dims.count > WAFER_MAX_RANK)
    return wafer_fail(store->diag, wafer_at_file(store->file), WAFER_UNSUPPORTED,
                      "a tensor of %zu dims", tensor->dims.count);
  for (uint32_t d = 0; d < shape.rank; d++) shape.dims[d] = tensor->dims.at[d];
  if (!wafer_shape_elements(&shape, &elements) || (uint64_t)elements != tensor->string_data.count)
    return wafer_fail(store->diag, wafer_at_file(store->file), WAFER_BAD_INPUT,
                      "holds %zu strings, which is not what its shape asks for",
                      tensor->string_data.count);
  const char **texts = WAFER_NEW(store->arena, const char *, (size_t)elements);
  if (!texts) return no_item(store);
  for (size_t i = 0; i < (size_t)elements; i++) {
    const wire_bytes *text = &tensor->string_data.at[i];
    texts[i] =
        wafer_arena_strndup(store->arena, text->count ? (const char *)text->at : "", text->count);
    if (!texts[i]) return no_item(store);
  }
  wafer_view view = wafer_view_of(WAFER_DTYPE_string, &shape, texts);
  *out = wafer_item_copy(&view);
  return *out ? WAFER_OK : no_item(store);
}

static wafer_status tensor_item(data_store *store, const onnx_tensor *tensor, wafer_item **out) {
  wafer_view view;
  if (tensor->data_type == ONNX_STRING) return strings_item(store, tensor, out);
  WAFER_TRY(data_view(store, tensor, &view));
  *out = wafer_item_copy(&view);
  return *out ? WAFER_OK : no_item(store);
}

static wafer_status sequence_item(data_store *store, const onnx_sequence *sequence,
                                  wafer_item **out) {
  uint32_t count = (uint32_t)sequence->tensors.count, made = 0;
  wafer_item **items = WAFER_NEW(store->arena, wafer_item *, count);
  wafer_status status = items ? WAFER_OK : no_item(store);
  for (; made < count && status == WAFER_OK; made += status == WAFER_OK)
    status = tensor_item(store, &sequence->tensors.at[made], &items[made]);
  if (status == WAFER_OK) *out = wafer_item_list(WAFER_ITEM_sequence, count, items);
  if (status == WAFER_OK && !*out) status = no_item(store);
  for (uint32_t i = 0; i < made; i++) wafer_item_release(items[i]);
  return status;
}

static wafer_status optional_item(data_store *store, const onnx_optional *optional,
                                  wafer_item **out) {
  wafer_item *item = NULL;
  if (optional->tensor) WAFER_TRY(tensor_item(store, optional->tensor, &item));
  if (optional->sequence) WAFER_TRY(sequence_item(store, optional->sequence, &item));
  *out = wafer_item_list(WAFER_ITEM_optional, item ? 1 : 0, &item);
  wafer_item_release(item);
  return *out ? WAFER_OK : no_item(store);
}

wafer_status wafer_onnx_item_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                  wafer_item_kind kind, wafer_item **out) {
  *out = NULL;
  wire_source source;
  data_store store = {.diag = diag, .arena = arena, .file = path};
  const onnx_tensor *tensor;
  const onnx_sequence *sequence;
  const onnx_optional *optional;
  WAFER_TRY(read_file(diag, arena, path, &source));
  switch (kind) {
  case WAFER_ITEM_sequence:
    WAFER_TRY(onnx_read_sequence(&source, &sequence));
    return sequence_item(&store, sequence, out);
  case WAFER_ITEM_optional:
    WAFER_TRY(onnx_read_optional(&source, &optional));
    return optional_item(&store, optional, out);
  default: WAFER_TRY(onnx_read_tensor(&source, &tensor)); return tensor_item(&store, tensor, out);
  }
}

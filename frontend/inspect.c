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
  bool room = scope_init(&initializers, arena, NULL, NULL, graph->initializer.count);
  if (!info || !inputs || !outputs || !w.nodes || !room)
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to read the model");
  w.count = 0;
  walk_model(&w, model);
  *info = (wafer_onnx_info){
      .inputs = inputs, .outputs = outputs, .nodes = w.nodes, .node_count = w.count};
  for (size_t i = 0; i < graph->initializer.count; i++)
    scope_add(&initializers, text_of(graph->initializer.at[i].name));
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

/* Graphs inside a node: what is in them, their values, and functions of the host made of them. */
#include "body.h"

#include <string.h>

#include "operators.h"

const onnx_graph *body_graph(import_node *n, const char *name) {
  const onnx_attribute *a = attr_find(n, name);
  if (!a || !a->g) node_bad(n, "no %s", name);
  return n->status == WAFER_OK ? a->g : NULL;
}

bool body_is_known(const import_node *n, uint32_t input, wafer_view *view) {
  return node_has_input(n, input) &&
         wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[input], view);
}

size_t body_count_nodes(const onnx_graph *graph, bool *plain) {
  size_t count = graph->node.count;
  for (size_t i = 0; i < graph->node.count; i++) {
    const onnx_node *node = &graph->node.at[i];
    wafer_host_op op = node->op_type ? wafer_host_by_name(node->op_type) : WAFER_HOST_none;
    *plain = *plain && !(wafer_host_get(op)->when & WAFER_HOST_ALWAYS);
    for (size_t a = 0; a < node->attribute.count; a++)
      if (node->attribute.at[a].g) {
        *plain = false;
        count += body_count_nodes(node->attribute.at[a].g, plain);
      }
  }
  return count;
}

name_entry **body_new_entries(import_node *n, uint32_t count) {
  name_entry **entries = WAFER_NEW(n->im->ctx->arena, name_entry *, count + 1);
  if (!entries) n->status = import_no_memory(n->im);
  return entries;
}

MlirValue body_use(import_node *n, name_entry *entry) {
  MlirValue value = {NULL};
  if (n->status == WAFER_OK) n->status = assembly_use(n->im, entry, &value);
  return value;
}

name_entry body_constant(import_node *n, wafer_dtype dtype, int64_t value) {
  name_entry entry = {.state = NAME_KNOWN, .fn = n->im->fn};
  int64_t *data = node_new_ints(n, 1);
  if (n->status != WAFER_OK) return entry;
  n->status = assembly_open(n->im);
  wafer_element_set_i64(dtype, data, 0, value);
  wafer_view view = wafer_view_of(dtype, &(wafer_shape){0}, data);
  entry.value = emit_constant(n, &view);
  entry.piece = n->im->fn->open;
  return entry;
}

name_entry body_value(import_node *n, MlirValue value) {
  return (name_entry){
      .state = NAME_KNOWN, .value = value, .fn = n->im->fn, .piece = n->im->fn->open};
}

bool body_shape(import_node *n, loop *l) {
  uint32_t first = l->lead ? 1 : 0, arguments = l->lead + l->carried + l->sliced;
  if (n->status == WAFER_OK && l->body->input.count != arguments)
    node_bad(n, "the body takes %zu values, the operator gives it %u", l->body->input.count,
             arguments);
  if (n->status == WAFER_OK && l->body->output.count < first + l->carried)
    node_bad(n, "the body gives %zu results, needs %u", l->body->output.count, first + l->carried);
  if (n->status != WAFER_OK) return false;
  l->slices = (uint32_t)l->body->output.count - first - l->carried;
  if (n->output_count > l->carried + l->slices)
    node_bad(n, "has %u outputs, the body gives %u", n->output_count, l->carried + l->slices);
  return n->status == WAFER_OK;
}

name_entry body_argument(const import_node *n, uint32_t input) {
  return n->entries[input] ? *n->entries[input]
                           : (name_entry){.state = NAME_KNOWN, .fn = n->im->fn};
}

void body_stack(import_node *n, uint32_t output, uint32_t count, name_entry *const *slices,
                int64_t axis, bool backwards) {
  MlirValue *all = WAFER_NEW(n->im->ctx->arena, MlirValue, count);
  uint32_t place = 0;
  for (uint32_t i = 0; all && i < count && n->status == WAFER_OK; i++) {
    MlirValue x = body_use(n, slices[backwards ? count - 1 - i : i]);
    if (n->status != WAFER_OK) return;
    if (mlirValueIsNull(x)) {
      node_unsupported(n, "result %u is stacked of values that are no tensors of static type",
                       output);
      return;
    }
    wafer_shape shape = node_type(n, x).shape;
    if (shape.rank == WAFER_MAX_RANK) node_unsupported(n, "a result of %u dims", shape.rank + 1);
    place = node_axis(n, axis, shape.rank + 1);
    if (n->status != WAFER_OK) return;
    memmove(&shape.dims[place + 1], &shape.dims[place],
            (shape.rank - place) * sizeof shape.dims[0]);
    shape.dims[place] = 1;
    all[i] = emit_reshape(n, x, shape.rank + 1, shape.dims);
  }
  n->outputs[output] = emit_concat_all(n, count, all, place);
}

void body_import(import_node *n, loop *l, const name_entry *arguments, assembly *fn) {
  importer *im = n->im;
  uint32_t count = (uint32_t)l->body->input.count, results = (uint32_t)l->body->output.count;
  uint32_t first = l->lead ? 1 : 0;
  const char *name = wafer_arena_printf(im->ctx->arena, "%s.body", n->label);
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, count + 1);
  bool *open = WAFER_NEW(im->ctx->arena, bool, count + 1);
  name_entry **made = body_new_entries(n, results);
  if (!name || !args || !open) n->status = import_no_memory(im);
  for (bool again = true; again && n->status == WAFER_OK;) {
    again = false;
    n->status = assembly_begin(im, name, fn);
    for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
      const name_entry *from = &arguments[i];
      wafer_type type = {0};
      if (!from->host && from->numbered) type = im->program.values[from->number].type;
      if (!from->host && !from->numbered && !mlirValueIsNull(from->value))
        type = wafer_ir_value_type(from->value);
      if (from->host && i >= l->lead + l->carried)
        type = host_static_type(l->body->input.at[i].type);
      if (open[i]) type = (wafer_type){0};
      args[i] = (name_entry){.name = l->body->input.at[i].name};
      n->status = assembly_input(
          im, args[i].name, type.dtype ? WAFER_VALUE_tensor : WAFER_VALUE_host, &type, &args[i]);
    }
    if (n->status == WAFER_OK)
      n->status = import_subgraph(im, n->scope, l->body, count, args, results, made);
    for (uint32_t i = 0; i < results && n->status == WAFER_OK; i++)
      if (made[i]->state == NAME_UNKNOWN) n->status = WAFER_UNSUPPORTED;
    for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) {
      const name_entry *in = &args[l->lead + i], *out = made[first + i];
      if (in->host) continue;
      wafer_type want = im->program.values[in->number].type, got = {0};
      if (!out->host && out->numbered) got = im->program.values[out->number].type;
      if (!out->host && !out->numbered && out->state == NAME_KNOWN && !mlirValueIsNull(out->value))
        got = wafer_ir_value_type(out->value);
      if (out->state == NAME_TENSOR) continue;
      if (got.dtype == want.dtype && wafer_shape_equal(&got.shape, &want.shape)) continue;
      open[l->lead + i] = again = true;
    }
    if (again || n->status != WAFER_OK)
      assembly_abandon(im);
    else
      n->status = assembly_end(im, results, made);
  }
}

void body_step(import_node *n, loop *l, wafer_step *step, assembly *fn) {
  importer *im = n->im;
  number_list captures, inputs = {0};
  uint32_t *body = WAFER_NEW(im->ctx->arena, uint32_t, 1);
  wafer_type *types = WAFER_NEW(im->ctx->arena, wafer_type, l->carried + l->slices + 1);
  if (!body || !types) n->status = import_no_memory(im);
  if (n->status == WAFER_OK) n->status = assembly_unify(im, fn, NULL, &captures);
  if (n->status == WAFER_OK) n->status = host_inputs(n, 0, &inputs);
  if (n->status != WAFER_OK) return;
  while (inputs.count < l->body->input.count && n->status == WAFER_OK)
    if (!number_add(im->ctx->arena, &inputs, WAFER_NONE)) n->status = import_no_memory(im);
  for (uint32_t i = 0; i < captures.count && n->status == WAFER_OK; i++)
    if (!number_add(im->ctx->arena, &inputs, captures.at[i])) n->status = import_no_memory(im);
  for (uint32_t i = 0; i < l->carried && step->kind != WAFER_STEP_map; i++) {
    const wafer_value *in = &im->program.values[fn->inputs.at[l->lead + i]];
    if (in->kind == WAFER_VALUE_tensor) types[i] = in->type;
  }
  *body = fn->function;
  step->inputs = inputs.at;
  step->input_count = inputs.count;
  step->bodies = body;
  step->body_count = 1;
  if (step->kind != WAFER_STEP_map) step->carried = l->carried;
  if (n->status == WAFER_OK) n->status = host_step(n, step, l->carried + l->slices, types);
}

/* ONNX -> IR: a model's inputs, its graph (frontend/graph.c), its outputs. */
#include <string.h>

#include "host_node.h"
#include "wafer/onnx.h"

wafer_status import_no_memory(const importer *im) {
  wafer_loc loc = im->b.loc.file ? im->b.loc : wafer_at_file(im->file);
  return wafer_fail(im->ctx->diag, loc, WAFER_NO_MEMORY, "no memory to import the model");
}

/* A model says of itself that its weights need not be there (docs/zoo.md). */
static bool says_absent(const onnx_model *model) {
  for (size_t i = 0; i < model->metadata.count; i++) {
    const onnx_entry *entry = &model->metadata.at[i];
    if (entry->key && entry->value && !strcmp(entry->key, WAFER_ONNX_WEIGHTS_KEY) &&
        !strcmp(entry->value, WAFER_ONNX_WEIGHTS_ABSENT))
      return true;
  }
  return false;
}

/* The value that the user gave for an input; any strides. */
static wafer_status import_bound(importer *im, const model_input *in, MlirValue *out) {
  wafer_view view = *in->bound;
  if (!wafer_view_is_dense(&view)) {
    size_t bytes = wafer_tensor_bytes(view.dtype, &view.shape);
    void *dense = wafer_arena_alloc(im->ctx->arena, bytes, 1);
    if (!dense) return import_no_memory(im);
    wafer_view_pack(&view, dense);
    view = wafer_view_of(view.dtype, &view.shape, dense);
  }
  return wafer_build_constant(&im->b, in->info->name, &view, out);
}

/* The first piece, whose arguments are the inputs of static type that are not bound, in their
 * order. */
static wafer_status begin_piece(importer *im, const model_input *inputs, uint32_t count,
                                piece *first, MlirValue *values) {
  wafer_arena *arena = im->ctx->arena;
  const char **names = WAFER_NEW(arena, const char *, count);
  wafer_type *types = WAFER_NEW(arena, wafer_type, count);
  uint32_t open = 0;
  if (!names || !types) return import_no_memory(im);
  for (uint32_t i = 0; i < count; i++) {
    if (inputs[i].bound || inputs[i].unknown || inputs[i].host) continue;
    names[open] = inputs[i].info->name;
    types[open++] = inputs[i].type;
  }
  first->ir = im->root;
  im->fn->open = first;
  WAFER_TRY(assembly_first_piece(im));
  WAFER_TRY(wafer_ir_begin_main(im->ctx, im->root, open, names, types, &first->b, values));
  im->b = first->b;
  return WAFER_OK;
}

/* Inputs that are not bound are those of the function. */
static wafer_status begin_main(importer *im, scope *s, const model_input *inputs, uint32_t count,
                               piece *first) {
  MlirValue *values = WAFER_NEW(im->ctx->arena, MlirValue, count);
  uint32_t open = 0;
  if (!values) return import_no_memory(im);
  WAFER_TRY(begin_piece(im, inputs, count, first, values));
  for (uint32_t i = 0; i < count; i++) {
    name_entry entry = {.state = NAME_KNOWN};
    const char *name = inputs[i].info->name;
    if (inputs[i].unknown) {
      entry.state = NAME_UNKNOWN;
      WAFER_TRY(import_define(im, s, name, entry));
      continue;
    }
    if (inputs[i].bound) {
      WAFER_TRY(import_bound(im, &inputs[i], &entry.value));
      WAFER_TRY(import_define(im, s, name, entry));
      continue;
    }
    WAFER_TRY(assembly_input(im, name, inputs[i].host ? WAFER_VALUE_host : WAFER_VALUE_tensor,
                             &inputs[i].type, &entry));
    im->program.values[entry.number].owner = WAFER_OWNER_input;
    im->program.host |= inputs[i].host;
    if (!inputs[i].host) {
      entry.value = values[open++];
      entry.piece = first;
      if (!number_add(im->ctx->arena, &first->inputs, entry.number)) return import_no_memory(im);
    }
    WAFER_TRY(import_define(im, s, name, entry));
  }
  return WAFER_OK;
}

static wafer_status check_output(const importer *im, const onnx_value *declared, MlirValue value) {
  if (mlirValueIsNull(value))
    return wafer_fail(im->ctx->diag, wafer_at_file(im->file), WAFER_BAD_INPUT,
                      "output '%s' is left out by the nodes that make it", declared->name);
  wafer_type type = wafer_ir_value_type(value);
  char shape[128];
  wafer_shape_format(&type.shape, shape, sizeof shape);
  if (!bind_contradicts(declared->type, &type)) return WAFER_OK;
  const wafer_options *o = im->ctx->options;
  if (o && o->training && o->training->micro_batch) return WAFER_OK;
  bool adapted = o && (o->dim_count || o->shape_count || o->value_count);
  if (!adapted)
    return wafer_fail(im->ctx->diag, wafer_at_file(im->file), WAFER_BAD_INPUT,
                      "output '%s' is %s %s, which contradicts what the model declares",
                      declared->name, wafer_dtype_name(type.dtype), shape);
  wafer_warn(im->ctx->diag, wafer_at_file(im->file),
             "output '%s' is %s %s with the given shapes, the model declares another",
             declared->name, wafer_dtype_name(type.dtype), shape);
  return WAFER_OK;
}

/* Everything was of static type: the model is one function of the wafer. */
static wafer_status finish_plain(importer *im, const onnx_graph *graph, name_entry **entries) {
  uint32_t count = (uint32_t)graph->output.count;
  const char **names = WAFER_NEW(im->ctx->arena, const char *, count);
  MlirValue *values = WAFER_NEW(im->ctx->arena, MlirValue, count);
  if (!names || !values) return import_no_memory(im);
  for (uint32_t i = 0; i < count; i++) {
    names[i] = graph->output.at[i].name;
    WAFER_TRY(assembly_use(im, entries[i], &values[i]));
    WAFER_TRY(check_output(im, &graph->output.at[i], values[i]));
  }
  WAFER_TRY(wafer_ir_finish_main(&im->b, count, names, values));
  return im->training.options ? training_finish(im) : WAFER_OK;
}

/* Functions of the host and pieces. A result that has a name already gets a value of its own. */
static wafer_status finish_program(importer *im, const onnx_graph *graph, name_entry **entries) {
  uint32_t count = (uint32_t)graph->output.count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t number;
    MlirValue value;
    if (!entries[i]->host) {
      WAFER_TRY(assembly_use(im, entries[i], &value));
      WAFER_TRY(check_output(im, &graph->output.at[i], value));
    }
    WAFER_TRY(assembly_value(im, entries[i], &number));
    wafer_owner owner = im->program.values[number].owner;
    if (owner != WAFER_OWNER_activation) {
      name_entry *copy = WAFER_NEW(im->ctx->arena, name_entry, 1);
      if (!copy) return import_no_memory(im);
      *copy = *entries[i];
      WAFER_TRY(copy_step(im, copy));
      entries[i] = copy;
      number = copy->number;
    }
    im->program.values[number].name = graph->output.at[i].name;
    im->program.values[number].owner = WAFER_OWNER_output;
  }
  WAFER_TRY(assembly_end(im, count, entries));
  return assembly_finish(im, &im->root->program);
}

static wafer_status finish_main(importer *im, scope *s, const onnx_graph *graph) {
  uint32_t count = (uint32_t)graph->output.count;
  name_entry **entries = WAFER_NEW(im->ctx->arena, name_entry *, count + 1);
  if (!entries) return import_no_memory(im);
  im->b.location = wafer_ir_location(im->ir, NULL, -1);
  im->b.loc = wafer_at_file(im->file);
  if (!count)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "the model's graph has no outputs");
  for (uint32_t i = 0; i < count; i++)
    WAFER_TRY(import_result(im, s, graph->output.at[i].name, &entries[i]));
  const wafer_options *o = im->ctx->options;
  if (im->unsupported && o && o->problem) return WAFER_UNSUPPORTED; /* its user counts them */
  if (im->unsupported && im->unsupported == im->refused)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_UNSUPPORTED,
                      "cannot compile %u of %zu nodes, listed above", im->unsupported,
                      graph->node.count);
  if (im->unsupported)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_UNSUPPORTED,
                      "cannot compile the model for %u reason%s, listed above", im->unsupported,
                      im->unsupported == 1 ? "" : "s");
  WAFER_TRY(training_check(im));
  return im->program.host ? finish_program(im, graph, entries) : finish_plain(im, graph, entries);
}

static wafer_status check_opset(const importer *im, const frame *f) {
  int64_t opset = import_opset(f, "");
  wafer_loc loc = wafer_at_file(im->file);
  if (!im->model->opset_import.count)
    return wafer_fail(im->ctx->diag, loc, WAFER_BAD_INPUT,
                      "the model does not say which opset it uses");
  if (!opset) return WAFER_OK; /* every node is of another domain */
  if (opset < OLDEST_OPSET || opset > NEWEST_OPSET)
    return import_problem(im->ctx, loc, WAFER_UNSUPPORTED, WAFER_PROBLEM_opset,
                          "convert it with onnx.version_converter",
                          "the model uses opset %lld, %d to %d are supported", (long long)opset,
                          OLDEST_OPSET, NEWEST_OPSET);
  return WAFER_OK;
}

static wafer_status import_model(importer *im) {
  const onnx_graph *graph = im->model->graph;
  const frame f = {.opsets = &im->model->opset_import};
  model_input *inputs;
  uint32_t count;
  wafer_status problem;
  scope s;
  assembly main;
  piece first = {0};
  im->b = (wafer_builder){.ctx = im->ctx, .ir = im->ir, .loc = wafer_at_file(im->file)};
  WAFER_TRY(check_opset(im, &f));
  WAFER_TRY(import_begin_graph(im, &s, NULL, &f, graph));
  WAFER_TRY(assembly_begin(im, "main", &main));
  WAFER_TRY(import_initializers(im, &s, graph));
  WAFER_TRY(bind_inputs(im->ctx, im->file, graph, &s, &inputs, &count, &problem));
  im->training.declared = bind_declared_batch(inputs, count);
  WAFER_TRY(begin_main(im, &s, inputs, count, &first));
  WAFER_TRY(import_nodes(im, &s, &graph->node));
  im->root->node_count = (uint32_t)graph->node.count;
  if (problem != WAFER_OK && !im->unsupported) return problem;
  return finish_main(im, &s, graph);
}

static wafer_status take_masks(importer *im) {
  const wafer_options *o = im->ctx->options;
  if (!o || !o->mask_count) return WAFER_OK;
  im->store.masks = o->masks;
  im->store.mask_count = o->mask_count;
  im->store.mask_used = WAFER_NEW(im->ctx->arena, bool, o->mask_count);
  return im->store.mask_used ? WAFER_OK : import_no_memory(im);
}

static wafer_status check_masks(const importer *im) {
  for (size_t i = 0; i < im->store.mask_count; i++)
    if (!im->store.mask_used[i])
      return wafer_fail(im->ctx->diag, wafer_at_file(im->file), WAFER_BAD_INPUT,
                        "no weight that the model uses is named '%s', which has a mask",
                        im->store.masks[i].input);
  return WAFER_OK;
}

wafer_status import_one(const wafer_ctx *ctx, const char *path, wafer_ir **out) {
  *out = NULL;
  wafer_bytes bytes;
  WAFER_TRY(wafer_file_map(ctx->diag, ctx->arena, path, &bytes));
  importer im = {
      .ctx = ctx, .file = path, .store = {.diag = ctx->diag, .arena = ctx->arena, .file = path}};
  wire_source source = {ctx->diag, ctx->arena, path, {bytes.data, bytes.size}};
  WAFER_TRY(take_masks(&im));
  WAFER_TRY(training_start(&im, ctx->options ? ctx->options->training : NULL));
  WAFER_TRY(onnx_read(&source, &im.model));
  im.store.may_lack = says_absent(im.model);
  WAFER_TRY(training_read(&im));
  WAFER_TRY(wafer_ir_create(ctx, path, &im.root));
  im.ir = im.root;
  wafer_status status = import_model(&im);
  if (status == WAFER_OK) status = check_masks(&im);
  if (status != WAFER_OK) {
    assembly_discard(&im);
    wafer_ir_destroy(im.root);
    return status;
  }
  *out = im.root;
  return WAFER_OK;
}

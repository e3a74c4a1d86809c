/* ONNX -> IR: walks the nodes in their order and builds core ops, so that every shape is known at
 * once and shape arithmetic folds away. Nodes that cannot be compiled are reported and passed over,
 * with everything that depends on them, so that one run lists them all. */
#include "host_node.h"
#include "operators.h"
#include "wafer/onnx.h"

#include <stdio.h>
#include <string.h>

#define MOST_CALLS 64 /* functions inside one another */

static wafer_status no_memory(const importer *im) {
  return wafer_fail(im->ctx->diag, wafer_at_file(im->file), WAFER_NO_MEMORY,
                    "no memory to import the model");
}

/* ---- Names ---- */

static wafer_status define(const importer *im, scope *s, const char *name, name_entry entry) {
  name_entry *made = scope_add(s, name);
  if (!made)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT, "'%s' is defined twice", name);
  entry.name = name;
  if (!entry.fn) entry.fn = im->fn;
  if (!entry.piece && !mlirValueIsNull(entry.value)) entry.piece = im->fn->open;
  *made = entry;
  return WAFER_OK;
}

wafer_status import_tensor(importer *im, const onnx_tensor *tensor, const char *name,
                           MlirValue *out) {
  wafer_view view;
  const char *expected;
  WAFER_TRY(data_find(&im->store, tensor, &view, &expected));
  WAFER_TRY(wafer_build_constant(&im->b, name, &view, out));
  if (!expected) return WAFER_OK;
  const wafer_weights *table = im->ir->weights;
  wafer_weights_at(table, wafer_weights_count(table) - 1)->expected = expected;
  return WAFER_OK;
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

/* Who makes which name; for messages. */
static bool index_makers(const importer *im, const onnx_nodes *nodes, scope *makers) {
  size_t names = 0;
  for (size_t i = 0; i < nodes->count; i++) names += nodes->at[i].output.count;
  if (!scope_init(makers, im->ctx->arena, NULL, NULL, names)) return false;
  for (size_t i = 0; i < nodes->count; i++)
    for (size_t j = 0; j < nodes->at[i].output.count; j++) {
      name_entry *entry = scope_add(makers, nodes->at[i].output.at[j]);
      if (entry) entry->maker = i;
    }
  return true;
}

/* Whether node `target` is needed, directly or not, to compute node `start`. */
static bool depends_on(const importer *im, const onnx_nodes *nodes, const scope *makers,
                       size_t start, size_t target) {
  bool *seen = WAFER_NEW(im->ctx->arena, bool, nodes->count);
  size_t *work = WAFER_NEW(im->ctx->arena, size_t, nodes->count), left = 1;
  if (!seen || !work) return false;
  work[0] = start;
  seen[start] = true;
  while (left) {
    const onnx_node *node = &nodes->at[work[--left]];
    for (size_t i = 0; i < node->input.count; i++) {
      const name_entry *entry = *node->input.at[i] ? scope_find(makers, node->input.at[i]) : NULL;
      if (entry && entry->maker == target) return true;
      if (!entry || seen[entry->maker]) continue;
      seen[entry->maker] = true;
      work[left++] = entry->maker;
    }
  }
  return false;
}

static wafer_status undefined(const importer *im, const onnx_nodes *nodes, size_t index,
                              const char *name) {
  scope makers;
  const name_entry *entry = index_makers(im, nodes, &makers) ? scope_find(&makers, name) : NULL;
  if (!entry)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "uses '%s', which no node, input or initializer defines", name);
  size_t maker = entry->maker;
  const char *other = onnx_node_label(&nodes->at[maker]);
  if (maker == index || depends_on(im, nodes, &makers, maker, index))
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "is part of a cycle: uses '%s' of node '%s', which depends on this node",
                      name, other);
  return wafer_fail(
      im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
      "uses '%s' before node '%s' (#%zu) defines it; nodes must be in topological order", name,
      other, maker);
}

/* The value of a local entry in the open piece; null: the host has it. Initializers become ops at
 * their first use in a piece. */
static wafer_status value_of(importer *im, name_entry *entry, MlirValue *out) {
  if (entry->state == NAME_TENSOR && entry->tensor->data_type == ONNX_STRING)
    return strings_step(im, entry->tensor, entry);
  wafer_status status = assembly_use(im, entry, out);
  if (status != WAFER_UNSUPPORTED) return status;
  entry->state = NAME_UNKNOWN;
  im->unsupported++;
  return WAFER_OK;
}

/* ---- Nodes ---- */

typedef struct operands {
  MlirValue *values;
  name_entry **entries;
  bool unknown; /* one of them is made by a node that cannot be compiled */
} operands;

static wafer_status find_operands(importer *im, scope *s, const onnx_nodes *nodes, size_t index,
                                  operands *out) {
  const wire_texts *names = &nodes->at[index].input;
  *out = (operands){.values = WAFER_NEW(im->ctx->arena, MlirValue, names->count),
                    .entries = WAFER_NEW(im->ctx->arena, name_entry *, names->count)};
  if (!out->values || !out->entries) return no_memory(im);
  WAFER_TRY(assembly_open(im));
  for (size_t i = 0; i < names->count; i++) {
    if (!*names->at[i]) continue;
    name_entry *entry = scope_find(s, names->at[i]);
    if (!entry) return undefined(im, nodes, index, names->at[i]);
    WAFER_TRY(assembly_local(im, entry, &entry));
    WAFER_TRY(value_of(im, entry, &out->values[i]));
    out->unknown |= entry->state == NAME_UNKNOWN;
    bool absent = entry->state == NAME_KNOWN && !entry->host && mlirValueIsNull(out->values[i]);
    out->entries[i] = absent ? NULL : entry; /* the caller of a function has left it out */
  }
  return WAFER_OK;
}

static bool is_default(const char *domain) {
  return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

static bool same_text(const char *a, const char *b) {
  return !strcmp(a ? a : "", b ? b : "");
}

static int64_t opset_of(const frame *f, const char *domain) {
  for (size_t i = 0; i < f->opsets->count; i++) {
    const char *imported = f->opsets->at[i].domain;
    if (is_default(domain) ? is_default(imported) : same_text(domain, imported))
      return f->opsets->at[i].version;
  }
  return 0;
}

static const onnx_function *find_function(const onnx_model *model, const onnx_node *node) {
  for (size_t i = 0; i < model->functions.count; i++) {
    const onnx_function *f = &model->functions.at[i];
    if (same_text(f->name, node->op_type) && same_text(f->domain, node->domain) &&
        same_text(f->overload, node->overload))
      return f;
  }
  return NULL;
}

/* The body takes the operator's place; its names are its own, its attributes those of the node. */
static wafer_status import_nodes(importer *im, scope *s, const onnx_nodes *nodes);
static wafer_status collect(importer *im, scope *s, const char *name, name_entry **out);

static void import_function(import_node *n, const onnx_function *f) {
  frame body = {.opsets = &f->opset_import,
                .function = f,
                .call = n->node,
                .caller = n->scope->frame,
                .label = n->label,
                .depth = n->scope->frame->depth + 1};
  scope inner;
  if (body.depth > MOST_CALLS) {
    node_bad(n, "functions call one another deeper than %d times", MOST_CALLS);
    return;
  }
  size_t names = f->input.count;
  for (size_t i = 0; i < f->node.count; i++) names += f->node.at[i].output.count;
  if (!scope_init(&inner, n->im->ctx->arena, NULL, &body, names)) {
    n->status = no_memory(n->im);
    return;
  }
  for (uint32_t i = 0; i < f->input.count && n->status == WAFER_OK; i++) {
    name_entry entry = {.state = NAME_KNOWN, .fn = n->im->fn};
    if (i < n->input_count && n->entries[i]) entry = *n->entries[i];
    n->status = define(n->im, &inner, f->input.at[i], entry);
  }
  if (n->status == WAFER_OK) n->status = import_nodes(n->im, &inner, &f->node);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++) {
    name_entry *made;
    if (i >= f->output.count) break;
    n->status = collect(n->im, &inner, f->output.at[i], &made);
    if (n->status == WAFER_OK) n->results[i] = *made;
  }
}

/* What takes graphs deals with values of the host itself. */
static bool is_control(const onnx_op *op) {
  return op->import == import_if || op->import == import_loop || op->import == import_scan ||
         op->import == import_sequence_map;
}

/* The operator's row, or a report that there is none. */
static void find_operator(import_node *n) {
  const onnx_node *node = n->node;
  const char *domain = is_default(node->domain) ? "" : node->domain;
  n->op = onnx_op_find(domain, node->op_type, n->opset);
  if (!n->op && onnx_op_find(domain, node->op_type, INT64_MAX))
    node_problem(n, WAFER_PROBLEM_opset, "this opset does not have it yet");
  if (!n->op) node_unsupported(n, "no such operator is known");
}

static void import_operator(import_node *n) {
  find_operator(n);
  if (n->status != WAFER_OK) return;
  if (!is_control(n->op) && host_takes(n)) {
    import_host(n);
    return;
  }
  if (n->input_count < n->op->least)
    node_bad(n, "has %u inputs, needs %u", n->input_count, n->op->least);
  if (n->input_count > n->op->most) {
    for (uint32_t i = n->op->most; i < n->input_count; i++)
      if (node_has_input(n, i))
        node_bad(n, "has %u inputs, takes at most %u", n->input_count, n->op->most);
    n->input_count = n->op->most;
  }
  for (uint32_t i = 0; i < n->op->least; i++)
    if (!n->entries[i]) node_bad(n, "input %u is missing", i);
  if (n->status == WAFER_OK) training_rebatch_operands(n);
  if (n->status == WAFER_OK) n->op->import(n);
}

/* Outputs that the node names and its operator's function has not made. Those of graphs may be
 * unknown. */
static void check_outputs(import_node *n) {
  if (!n->op) return;
  for (uint32_t i = 0; i < n->output_count; i++)
    if (*n->node->output.at[i] && !n->results[i].fn && mlirValueIsNull(n->outputs[i]))
      node_unsupported(n, "output %u ('%s') is not supported", i, n->node->output.at[i]);
}

static wafer_status define_outputs(importer *im, scope *s, const onnx_node *node,
                                   const import_node *made) {
  for (size_t i = 0; i < node->output.count; i++) {
    if (!*node->output.at[i]) continue;
    name_entry entry = {.state = NAME_UNKNOWN};
    if (made && made->results[i].fn)
      entry = made->results[i];
    else if (made && !mlirValueIsNull(made->outputs[i]))
      entry = (name_entry){.state = NAME_KNOWN, .value = made->outputs[i]};
    WAFER_TRY(define(im, s, node->output.at[i], entry));
  }
  return WAFER_OK;
}

static wafer_status run_node(importer *im, scope *s, const onnx_nodes *nodes, size_t index,
                             const char *label) {
  const onnx_node *node = &nodes->at[index];
  operands in;
  WAFER_TRY(find_operands(im, s, nodes, index, &in));
  import_node n = {.im = im,
                   .scope = s,
                   .node = node,
                   .opset = opset_of(s->frame, node->domain),
                   .index = (int64_t)index,
                   .label = label,
                   .inputs = in.values,
                   .entries = in.entries,
                   .input_count = (uint32_t)node->input.count,
                   .output_count = (uint32_t)node->output.count};
  n.outputs = WAFER_NEW(im->ctx->arena, MlirValue, node->output.count + 1);
  n.results = WAFER_NEW(im->ctx->arena, name_entry, node->output.count + 1);
  if (!n.outputs || !n.results) return no_memory(im);
  const onnx_function *function = find_function(im->model, node);
  if (in.unknown && !function)
    find_operator(&n);
  else if (in.unknown)
    ;
  else if (function)
    import_function(&n, function);
  else
    import_operator(&n);
  if (n.status == WAFER_OK && !in.unknown) check_outputs(&n);
  if (n.status == WAFER_OK && !in.unknown) node_unread(&n);
  if (n.status == WAFER_UNSUPPORTED) im->unsupported++;
  if (n.status == WAFER_BAD_INPUT) training_hint(&n);
  if (n.status != WAFER_OK && n.status != WAFER_UNSUPPORTED) return n.status;
  bool known = n.status == WAFER_OK && !in.unknown;
  return define_outputs(im, s, node, known ? &n : NULL);
}

/* Everything that a node builds carries its name; in a function's body behind that of the call. */
static wafer_status enter_node(importer *im, const scope *s, const onnx_node *node, size_t index,
                               const char **label) {
  *label = onnx_node_label(node);
  if (!node->op_type)
    return wafer_fail(im->ctx->diag, wafer_at_node(im->file, *label, (int64_t)index),
                      WAFER_BAD_INPUT, "the node names no operator");
  if (s->frame->label)
    *label = wafer_arena_printf(im->ctx->arena, "%s/%s", s->frame->label, *label);
  if (!*label) return no_memory(im);
  im->b.location = wafer_ir_location(im->ir, *label, (int64_t)index);
  im->b.loc = wafer_at_node(im->file, *label, (int64_t)index);
  return WAFER_OK;
}

static wafer_status import_nodes(importer *im, scope *s, const onnx_nodes *nodes) {
  MlirLocation location = im->b.location;
  wafer_loc loc = im->b.loc;
  bool top = !s->outer && !s->frame->function;
  for (size_t i = 0; i < nodes->count; i++) {
    const char *label;
    if (top && i % 256 == 0) wafer_progress(im->ctx->diag, "import", i, nodes->count);
    if (i % 256 == 0 && wafer_cancelled(im->ctx->diag)) return WAFER_USAGE;
    WAFER_TRY(enter_node(im, s, &nodes->at[i], i, &label));
    WAFER_TRY(run_node(im, s, nodes, i, label));
  }
  im->b.location = location;
  im->b.loc = loc;
  return WAFER_OK;
}

/* ---- Graphs ---- */

static size_t count_names(const onnx_graph *graph) {
  size_t names = graph->initializer.count + graph->input.count;
  for (size_t i = 0; i < graph->node.count; i++) names += graph->node.at[i].output.count;
  return names;
}

static wafer_status define_initializers(importer *im, scope *s, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->initializer.count; i++) {
    const onnx_tensor *tensor = &graph->initializer.at[i];
    if (!tensor->name || !*tensor->name)
      return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT, "an initializer has no name");
    WAFER_TRY(define(im, s, tensor->name, (name_entry){.state = NAME_TENSOR, .tensor = tensor}));
  }
  for (size_t i = 0; i < graph->sparse_initializer.count; i++) {
    const onnx_tensor *values = graph->sparse_initializer.at[i].values;
    const char *name = values && values->name ? values->name : "";
    im->unsupported++;
    (void)import_problem(im->ctx, im->b.loc, WAFER_UNSUPPORTED, WAFER_PROBLEM_type, NULL,
                         "initializer '%s' is a sparse tensor", name);
    WAFER_TRY(define(im, s, name, (name_entry){.state = NAME_UNKNOWN}));
  }
  return WAFER_OK;
}

/* A result of a graph, as the function being imported sees it. */
static wafer_status collect(importer *im, scope *s, const char *name, name_entry **out) {
  name_entry *entry = name ? scope_find(s, name) : NULL;
  MlirValue ignored;
  if (!entry)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "output '%s' is not defined by any node", name ? name : "");
  WAFER_TRY(assembly_local(im, entry, out));
  return value_of(im, *out, &ignored);
}

wafer_status import_subgraph(importer *im, const scope *outer, const onnx_graph *graph,
                             uint32_t argument_count, const name_entry *arguments, uint32_t count,
                             name_entry **results) {
  scope s;
  if (graph->output.count != count)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "the graph has %zu outputs, %u are wanted of it", graph->output.count, count);
  if (!scope_init(&s, im->ctx->arena, outer, outer->frame,
                  count_names(graph) + graph->sparse_initializer.count))
    return no_memory(im);
  s.graph = graph;
  for (uint32_t i = 0; i < argument_count; i++) {
    const char *name = graph->input.at[i].name;
    if (!name || !*name)
      return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                        "an input of the graph has no name");
    WAFER_TRY(define(im, &s, name, arguments[i]));
  }
  WAFER_TRY(define_initializers(im, &s, graph));
  WAFER_TRY(import_nodes(im, &s, &graph->node));
  for (uint32_t i = 0; i < count; i++)
    WAFER_TRY(collect(im, &s, graph->output.at[i].name, &results[i]));
  return WAFER_OK;
}

/* ---- The model ---- */

/* The value that the user gave for an input; any strides. */
static wafer_status import_bound(importer *im, const model_input *in, MlirValue *out) {
  wafer_view view = *in->bound;
  if (!wafer_view_is_dense(&view)) {
    size_t bytes = wafer_tensor_bytes(view.dtype, &view.shape);
    void *dense = wafer_arena_alloc(im->ctx->arena, bytes, 1);
    if (!dense) return no_memory(im);
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
  if (!names || !types) return no_memory(im);
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
  if (!values) return no_memory(im);
  WAFER_TRY(begin_piece(im, inputs, count, first, values));
  for (uint32_t i = 0; i < count; i++) {
    name_entry entry = {.state = NAME_KNOWN};
    const char *name = inputs[i].info->name;
    if (inputs[i].unknown) {
      entry.state = NAME_UNKNOWN;
      WAFER_TRY(define(im, s, name, entry));
      continue;
    }
    if (inputs[i].bound) {
      WAFER_TRY(import_bound(im, &inputs[i], &entry.value));
      WAFER_TRY(define(im, s, name, entry));
      continue;
    }
    WAFER_TRY(assembly_input(im, name, inputs[i].host ? WAFER_VALUE_host : WAFER_VALUE_tensor,
                             &inputs[i].type, &entry));
    im->program.values[entry.number].owner = WAFER_OWNER_input;
    im->program.host |= inputs[i].host;
    if (!inputs[i].host) {
      entry.value = values[open++];
      entry.piece = first;
      if (!number_add(im->ctx->arena, &first->inputs, entry.number)) return no_memory(im);
    }
    WAFER_TRY(define(im, s, name, entry));
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
  if (!names || !values) return no_memory(im);
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
      if (!copy) return no_memory(im);
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
  if (!entries) return no_memory(im);
  im->b.location = wafer_ir_location(im->ir, NULL, -1);
  im->b.loc = wafer_at_file(im->file);
  if (!count)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                      "the model's graph has no outputs");
  for (uint32_t i = 0; i < count; i++)
    WAFER_TRY(collect(im, s, graph->output.at[i].name, &entries[i]));
  const wafer_options *o = im->ctx->options;
  if (im->unsupported && o && o->problem) return WAFER_UNSUPPORTED; /* its user counts them */
  if (im->unsupported)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_UNSUPPORTED,
                      "cannot compile %u of %zu nodes, listed above", im->unsupported,
                      graph->node.count);
  WAFER_TRY(training_check(im));
  return im->program.host ? finish_program(im, graph, entries) : finish_plain(im, graph, entries);
}

static wafer_status check_opset(const importer *im, const frame *f) {
  int64_t opset = opset_of(f, "");
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
  if (!scope_init(&s, im->ctx->arena, NULL, &f,
                  count_names(graph) + graph->sparse_initializer.count))
    return no_memory(im);
  s.graph = graph;
  WAFER_TRY(assembly_begin(im, "main", &main));
  WAFER_TRY(define_initializers(im, &s, graph));
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
  return im->store.mask_used ? WAFER_OK : no_memory(im);
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
  im.training.options = ctx->options ? ctx->options->training : NULL;
  wire_source source = {ctx->diag, ctx->arena, path, {bytes.data, bytes.size}};
  WAFER_TRY(take_masks(&im));
  WAFER_TRY(onnx_read(&source, &im.model));
  im.store.may_lack = says_absent(im.model);
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

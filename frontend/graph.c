/* A graph's nodes, each behind those that it uses: core ops are built, so that every shape is known
 * at once and shape arithmetic folds away. Nodes that cannot be compiled are reported and passed
 * over, with everything that depends on them, so that one run lists them all. */
#include <stdio.h>
#include <string.h>

#include "host_node.h"
#include "operators.h"
#include "order.h"

#define MOST_CALLS 64 /* functions inside one another */

/* ---- Names ---- */

wafer_status import_define(const importer *im, scope *s, const char *name, name_entry entry) {
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

static wafer_status find_operands(importer *im, scope *s, const onnx_node *node, operands *out) {
  const wire_texts *names = &node->input;
  *out = (operands){.values = WAFER_NEW(im->ctx->arena, MlirValue, names->count),
                    .entries = WAFER_NEW(im->ctx->arena, name_entry *, names->count)};
  if (!out->values || !out->entries) return import_no_memory(im);
  WAFER_TRY(assembly_open(im));
  for (size_t i = 0; i < names->count; i++) {
    if (!*names->at[i]) continue;
    name_entry *entry = scope_find(s, names->at[i]);
    if (!entry)
      return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                        "uses '%s', which no node, input or initializer defines", names->at[i]);
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

int64_t import_opset(const frame *f, const char *domain) {
  for (size_t i = 0; i < f->opsets->count; i++) {
    const char *imported = f->opsets->at[i].domain;
    if (is_default(domain) ? is_default(imported) : same_text(domain, imported))
      return f->opsets->at[i].version;
  }
  return is_default(domain) ? 0 : onnx_newest(domain);
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
    n->status = import_no_memory(n->im);
    return;
  }
  for (uint32_t i = 0; i < f->input.count && n->status == WAFER_OK; i++) {
    name_entry entry = {.state = NAME_KNOWN, .fn = n->im->fn};
    if (i < n->input_count && n->entries[i]) entry = *n->entries[i];
    n->status = import_define(n->im, &inner, f->input.at[i], entry);
  }
  if (n->status == WAFER_OK) n->status = import_nodes(n->im, &inner, &f->node);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++) {
    name_entry *made;
    if (i >= f->output.count) break;
    n->status = import_result(n->im, &inner, f->output.at[i], &made);
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
    WAFER_TRY(import_define(im, s, node->output.at[i], entry));
  }
  return WAFER_OK;
}

static wafer_status run_node(importer *im, scope *s, const onnx_node *node, size_t index,
                             const char *label) {
  operands in;
  WAFER_TRY(find_operands(im, s, node, &in));
  import_node n = {.im = im,
                   .scope = s,
                   .node = node,
                   .opset = import_opset(s->frame, node->domain),
                   .index = (int64_t)index,
                   .label = label,
                   .inputs = in.values,
                   .entries = in.entries,
                   .input_count = (uint32_t)node->input.count,
                   .output_count = (uint32_t)node->output.count};
  n.outputs = WAFER_NEW(im->ctx->arena, MlirValue, node->output.count + 1);
  n.results = WAFER_NEW(im->ctx->arena, name_entry, node->output.count + 1);
  if (!n.outputs || !n.results) return import_no_memory(im);
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
  if (n.status == WAFER_UNSUPPORTED) {
    im->unsupported++;
    im->refused += !s->outer && !s->frame->function;
  }
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
  if (!*label) return import_no_memory(im);
  im->b.location = wafer_ir_location(im->ir, *label, (int64_t)index);
  im->b.loc = wafer_at_node(im->file, *label, (int64_t)index);
  return WAFER_OK;
}

wafer_status import_nodes(importer *im, scope *s, const onnx_nodes *nodes) {
  MlirLocation location = im->b.location;
  wafer_loc loc = im->b.loc;
  bool top = !s->outer && !s->frame->function;
  const node_order all = {im->ctx->diag, im->file, im->ctx->arena, s, nodes};
  const size_t *order;
  WAFER_TRY(order_nodes(&all, &order));
  for (size_t i = 0; i < nodes->count; i++) {
    const char *label;
    size_t index = order ? order[i] : i;
    if (top && i % 256 == 0) wafer_progress(im->ctx->diag, "import", i, nodes->count);
    if (i % 256 == 0 && wafer_cancelled(im->ctx->diag)) return WAFER_USAGE;
    WAFER_TRY(enter_node(im, s, &nodes->at[index], index, &label));
    WAFER_TRY(run_node(im, s, &nodes->at[index], index, label));
  }
  im->b.location = location;
  im->b.loc = loc;
  return WAFER_OK;
}

/* ---- Graphs ---- */

wafer_status import_begin_graph(const importer *im, scope *s, const scope *outer, const frame *f,
                                const onnx_graph *graph) {
  size_t names = graph->initializer.count + graph->sparse_initializer.count + graph->input.count;
  for (size_t i = 0; i < graph->node.count; i++) names += graph->node.at[i].output.count;
  if (!scope_init(s, im->ctx->arena, outer, f, names)) return import_no_memory(im);
  s->graph = graph;
  return WAFER_OK;
}

static wafer_status define_initializer(importer *im, scope *s, const onnx_tensor *tensor) {
  if (!tensor->name || !*tensor->name)
    return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT, "an initializer has no name");
  return import_define(im, s, tensor->name, (name_entry){.state = NAME_TENSOR, .tensor = tensor});
}

wafer_status import_initializers(importer *im, scope *s, const onnx_graph *graph) {
  for (size_t i = 0; i < graph->initializer.count; i++)
    WAFER_TRY(define_initializer(im, s, &graph->initializer.at[i]));
  for (size_t i = 0; i < graph->sparse_initializer.count; i++) {
    const onnx_tensor *dense;
    WAFER_TRY(data_dense(&im->store, &graph->sparse_initializer.at[i], &dense));
    WAFER_TRY(define_initializer(im, s, dense));
  }
  return WAFER_OK;
}

wafer_status import_result(importer *im, scope *s, const char *name, name_entry **out) {
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
  WAFER_TRY(import_begin_graph(im, &s, outer, outer->frame, graph));
  for (uint32_t i = 0; i < argument_count; i++) {
    const char *name = graph->input.at[i].name;
    if (!name || !*name)
      return wafer_fail(im->ctx->diag, im->b.loc, WAFER_BAD_INPUT,
                        "an input of the graph has no name");
    WAFER_TRY(import_define(im, &s, name, arguments[i]));
  }
  WAFER_TRY(import_initializers(im, &s, graph));
  WAFER_TRY(import_nodes(im, &s, &graph->node));
  for (uint32_t i = 0; i < count; i++)
    WAFER_TRY(import_result(im, &s, graph->output.at[i].name, &results[i]));
  return WAFER_OK;
}

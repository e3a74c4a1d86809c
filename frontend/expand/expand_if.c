/* If: folded where its condition is known when compiling, both branches computed where they are
 * short, else a step of the host over functions of their own. */
#include <string.h>

#include "body.h"
#include "operators.h"

#define MOST_SELECTED 16 /* nodes of branches that are both computed */

static void copy_results(import_node *n, name_entry *const *entries) {
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++)
    n->results[i] = *entries[i];
}

static void inline_branch(import_node *n, const char *name) {
  const onnx_graph *graph = body_graph(n, name);
  name_entry **made = body_new_entries(n, n->output_count);
  if (n->status != WAFER_OK) return;
  n->status = import_subgraph(n->im, n->scope, graph, 0, NULL, n->output_count, made);
  copy_results(n, made);
}

/* Core ops have no side effects: where both branches are short, both are computed and one is
 * selected. False: they give results of unlike types. */
static bool select_branch(import_node *n, const onnx_graph *yes, const onnx_graph *no) {
  name_entry **a = body_new_entries(n, n->output_count), **b = body_new_entries(n, n->output_count);
  if (n->status == WAFER_OK)
    n->status = import_subgraph(n->im, n->scope, yes, 0, NULL, n->output_count, a);
  if (n->status == WAFER_OK)
    n->status = import_subgraph(n->im, n->scope, no, 0, NULL, n->output_count, b);
  MlirValue condition = body_use(n, n->entries[0]);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++) {
    MlirValue x = body_use(n, a[i]), y = body_use(n, b[i]);
    if (mlirValueIsNull(x) || mlirValueIsNull(y)) return false;
    wafer_type s = node_type(n, x), t = node_type(n, y);
    if (s.dtype != t.dtype || !wafer_shape_equal(&s.shape, &t.shape)) return false;
  }
  condition = emit_reshape(n, condition, 0, NULL);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++)
    n->outputs[i] = emit_select(n, condition, body_use(n, a[i]), body_use(n, b[i]));
  if (n->status == WAFER_OK)
    wafer_note(n->im->ctx->diag, n->im->b.loc,
               "the condition is not known when compiling: both branches are computed; it depends "
               "on the model's %s",
               node_inputs_behind(n, node_input(n, 0)));
  return true;
}

/* A graph as a function: its captures, its results. */
static void branch_function(import_node *n, const onnx_graph *graph, const char *what,
                            assembly *fn) {
  importer *im = n->im;
  const char *name = wafer_arena_printf(im->ctx->arena, "%s.%s", n->label, what);
  name_entry **made = body_new_entries(n, n->output_count);
  if (!name) n->status = import_no_memory(im);
  if (n->status != WAFER_OK) return;
  n->status = assembly_begin(im, name, fn);
  if (n->status == WAFER_OK)
    n->status = import_subgraph(im, n->scope, graph, 0, NULL, n->output_count, made);
  bool known = n->status == WAFER_OK;
  for (uint32_t i = 0; known && i < n->output_count; i++)
    if (made[i]->state == NAME_UNKNOWN) known = false;
  if (!known) {
    if (n->status == WAFER_OK) n->status = WAFER_UNSUPPORTED;
    assembly_abandon(im);
    return;
  }
  n->status = assembly_end(im, n->output_count, made);
}

/* The type of result `i` when both functions give the same static one. */
static wafer_type common_type(const import_node *n, const assembly *a, const assembly *b,
                              uint32_t i) {
  const wafer_value *x = &n->im->program.values[a->outputs.at[i]];
  const wafer_value *y = &n->im->program.values[b->outputs.at[i]];
  bool same = x->kind == WAFER_VALUE_tensor && y->kind == WAFER_VALUE_tensor &&
              x->type.dtype == y->type.dtype && wafer_shape_equal(&x->type.shape, &y->type.shape);
  return same ? x->type : (wafer_type){0};
}

static void step_if(import_node *n, const onnx_graph *yes, const onnx_graph *no) {
  importer *im = n->im;
  assembly branches[2];
  number_list inputs = {0}, captures;
  uint32_t *bodies = WAFER_NEW(im->ctx->arena, uint32_t, 2);
  wafer_type *types = WAFER_NEW(im->ctx->arena, wafer_type, n->output_count + 1);
  if (!bodies || !types) n->status = import_no_memory(im);
  branch_function(n, yes, "then", &branches[0]);
  branch_function(n, no, "else", &branches[1]);
  if (n->status == WAFER_OK) n->status = assembly_unify(im, &branches[0], &branches[1], &captures);
  if (n->status == WAFER_OK) n->status = host_inputs(n, 0, &inputs);
  if (n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < captures.count; i++)
    if (!number_add(im->ctx->arena, &inputs, captures.at[i])) n->status = import_no_memory(im);
  for (uint32_t i = 0; i < n->output_count; i++)
    types[i] = common_type(n, &branches[0], &branches[1], i);
  bodies[0] = branches[0].function, bodies[1] = branches[1].function;
  wafer_step step = {.kind = WAFER_STEP_if,
                     .inputs = inputs.at,
                     .input_count = inputs.count,
                     .bodies = bodies,
                     .body_count = 2};
  if (n->status == WAFER_OK) n->status = host_step(n, &step, n->output_count, types);
}

void import_if(import_node *n) {
  wafer_view condition;
  int64_t count = 0;
  if (body_is_known(n, 0, &condition)) {
    if (!wafer_shape_elements(&condition.shape, &count) || count != 1)
      node_bad(n, "the condition has %lld elements, needs 1", (long long)count);
    if (n->status != WAFER_OK) return;
    bool taken = wafer_element_i64(condition.dtype, condition.data, 0) != 0;
    inline_branch(n, taken ? "then_branch" : "else_branch");
    return;
  }
  const onnx_graph *yes = body_graph(n, "then_branch"), *no = body_graph(n, "else_branch");
  if (n->status != WAFER_OK) return;
  bool plain = !n->entries[0]->host;
  size_t nodes = body_count_nodes(yes, &plain) + body_count_nodes(no, &plain);
  if (plain && nodes <= MOST_SELECTED && select_branch(n, yes, no)) return;
  if (n->status == WAFER_OK) step_if(n, yes, no);
}

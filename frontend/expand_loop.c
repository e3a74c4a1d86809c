/* Loop and SequenceMap: unrolled where the trips are known when compiling, else a step of the host
 * over a function. */
#include <string.h>

#include "body.h"
#include "operators.h"

static const onnx_node *maker_of(const onnx_graph *graph, const char *name) {
  for (size_t i = 0; i < graph->node.count; i++)
    for (size_t k = 0; k < graph->node.at[i].output.count; k++)
      if (!strcmp(graph->node.at[i].output.at[k], name)) return &graph->node.at[i];
  return NULL;
}

/* The body hands its condition on as it is. */
static bool keeps_condition(const onnx_graph *body) {
  if (body->input.count < 2 || !body->output.count || !body->input.at[1].name) return false;
  const char *name = body->output.at[0].name, *in = body->input.at[1].name;
  for (size_t hops = 0; name && hops <= body->node.count; hops++) {
    if (!strcmp(name, in)) return true;
    const onnx_node *node = maker_of(body, name);
    if (!node || !node->op_type || strcmp(node->op_type, "Identity") || node->input.count != 1)
      return false;
    name = node->input.at[0];
  }
  return false;
}

static void unroll_loop(import_node *n, loop *l, int64_t trips) {
  importer *im = n->im;
  uint32_t results = (uint32_t)l->body->output.count;
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, 2 + l->carried);
  name_entry **made = body_new_entries(n, results);
  name_entry **slices = body_new_entries(n, (uint32_t)trips * l->slices);
  if (!args || n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < l->carried; i++) args[2 + i] = body_argument(n, 2 + i);
  for (int64_t trip = 0; trip < trips && n->status == WAFER_OK; trip++) {
    args[0] = body_constant(n, WAFER_DTYPE_i64, trip);
    args[1] = body_constant(n, WAFER_DTYPE_bool, 1);
    if (n->status == WAFER_OK)
      n->status = import_subgraph(im, n->scope, l->body, 2 + l->carried, args, results, made);
    for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[2 + i] = *made[1 + i];
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++)
      slices[i * (uint32_t)trips + (uint32_t)trip] = made[1 + l->carried + i];
  }
  for (uint32_t i = 0; i < l->carried && i < n->output_count; i++) n->results[i] = args[2 + i];
  for (uint32_t i = 0; i < l->slices && l->carried + i < n->output_count; i++)
    body_stack(n, l->carried + i, (uint32_t)trips, slices + i * (uint32_t)trips, 0, false);
}

/* Trips that are known now: none after a false condition. -1: they are not. */
static int64_t known_trips(const import_node *n, const loop *l) {
  wafer_view trips, condition;
  bool given = n->entries[0] && (n->entries[0]->host || node_has_input(n, 0));
  bool asked = n->input_count > 1 && n->entries[1] && (n->entries[1]->host || node_has_input(n, 1));
  if (asked && !body_is_known(n, 1, &condition)) return -1;
  if (asked && !wafer_element_i64(condition.dtype, condition.data, 0)) return 0;
  if (!given || !body_is_known(n, 0, &trips) || !keeps_condition(l->body)) return -1;
  int64_t count = wafer_element_i64(trips.dtype, trips.data, 0);
  return count < 0 ? 0 : count;
}

void import_loop(import_node *n) {
  loop l = {.lead = 2, .carried = n->input_count > 2 ? n->input_count - 2 : 0};
  bool plain = true;
  assembly fn;
  wafer_step step = {.kind = WAFER_STEP_loop};
  l.body = body_graph(n, "body");
  if (n->status != WAFER_OK || !body_shape(n, &l)) return;
  int64_t trips = known_trips(n, &l);
  size_t nodes = body_count_nodes(l.body, &plain) + 1;
  if (trips >= 0 && (trips > 0 || !l.slices) && (uint64_t)trips <= MOST_UNROLLED / nodes) {
    unroll_loop(n, &l, trips);
    return;
  }
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, 2 + l.carried);
  if (!args) n->status = import_no_memory(n->im);
  if (n->status != WAFER_OK) return;
  args[0] = body_constant(n, WAFER_DTYPE_i64, 0);
  args[1] = body_constant(n, WAFER_DTYPE_bool, 1);
  for (uint32_t i = 0; i < l.carried; i++) args[2 + i] = body_argument(n, 2 + i);
  body_import(n, &l, args, &fn);
  body_step(n, &l, &step, &fn);
}

void import_sequence_map(import_node *n) {
  loop l = {.sliced = n->input_count};
  assembly fn;
  wafer_step step = {.kind = WAFER_STEP_map, .carried = n->input_count};
  l.body = body_graph(n, "body");
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, n->input_count + 1);
  if (!args) n->status = import_no_memory(n->im);
  if (n->status != WAFER_OK || !body_shape(n, &l)) return;
  for (uint32_t i = 0; i < n->input_count; i++) args[i] = body_argument(n, i);
  body_import(n, &l, args, &fn);
  body_step(n, &l, &step, &fn);
}

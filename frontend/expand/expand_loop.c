/* Loop and SequenceMap: unrolled where it is known when compiling how often the body runs, else a
 * step of the host over a function. */
#include <string.h>

#include "body.h"
#include "operators.h"
#include "order.h"

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

/* ---- Conditions that follow from the trip ---- */

/* What is known of the body's values when compiling. */
typedef struct decided {
  import_node *n;
  const onnx_graph *body;
  const size_t *order;  /* of its nodes; NULL: as they stand */
  bool *node, *carried; /* every result of a node, a carried value in every trip */
} decided;

static bool is_decided(const decided *d, const char *name) {
  wafer_view view;
  if (!*name) return true;
  for (size_t i = 0; i < d->body->input.count; i++)
    if (d->body->input.at[i].name && !strcmp(d->body->input.at[i].name, name))
      return i < 2 || d->carried[i - 2];
  const onnx_node *node = maker_of(d->body, name);
  if (node) return d->node[node - d->body->node.at];
  for (size_t i = 0; i < d->body->initializer.count; i++)
    if (d->body->initializer.at[i].name && !strcmp(d->body->initializer.at[i].name, name))
      return true;
  const name_entry *outer = scope_find(d->n->scope, name);
  if (!outer || outer->host) return false;
  if (outer->state == NAME_TENSOR) return true;
  return outer->state == NAME_KNOWN && !mlirValueIsNull(outer->value) &&
         wafer_ir_constant(d->n->im->ctx, d->n->im->ir, outer->value, &view);
}

static void decide_nodes(const decided *d) {
  for (size_t k = 0; k < d->body->node.count; k++) {
    size_t i = d->order ? d->order[k] : k;
    const onnx_node *node = &d->body->node.at[i];
    d->node[i] = node->op_type && strncmp(node->op_type, "Random", 6);
    for (size_t j = 0; j < node->input.count && d->node[i]; j++)
      d->node[i] = is_decided(d, node->input.at[j]);
    for (size_t j = 0; j < node->attribute.count; j++)
      if (node->attribute.at[j].g) d->node[i] = false;
  }
}

/* The condition that the body gives follows from what is known: constants, the trip, carried values
 * that are known before the loop and follow likewise. A loop over a counter is of this kind. */
static bool condition_is_decided(import_node *n, const loop *l) {
  decided d = {.n = n,
               .body = l->body,
               .node = WAFER_NEW(n->im->ctx->arena, bool, l->body->node.count + 1),
               .carried = WAFER_NEW(n->im->ctx->arena, bool, l->carried + 1)};
  wafer_view view;
  const node_order all = {n->im->ctx->diag, n->im->file, n->im->ctx->arena, n->scope,
                          &l->body->node};
  if (!d.node || !d.carried) n->status = import_no_memory(n->im);
  if (n->status == WAFER_OK) n->status = order_nodes(&all, &d.order);
  if (n->status != WAFER_OK) return false;
  for (uint32_t i = 0; i < l->carried; i++)
    d.carried[i] = n->entries[2 + i] && !n->entries[2 + i]->host && body_is_known(n, 2 + i, &view);
  for (bool again = true; again;) {
    again = false;
    memset(d.node, 0, l->body->node.count * sizeof *d.node);
    decide_nodes(&d);
    for (uint32_t i = 0; i < l->carried; i++) {
      const char *name = l->body->output.at[1 + i].name;
      if (!d.carried[i] || (name && is_decided(&d, name))) continue;
      d.carried[i] = false, again = true;
    }
  }
  return l->body->output.at[0].name && is_decided(&d, l->body->output.at[0].name);
}

/* ---- Unrolling ---- */

/* How far a loop is unrolled. */
typedef struct unrolling {
  int64_t most; /* trips */
  bool asks;    /* it may end sooner, by the condition of the body; else after `most` */
  bool cut;     /* `most` is what unrolling may make, not what the loop says */
} unrolling;

/* False: how often the body runs is known by the run alone, or it is too often. */
static bool unrolling_of(import_node *n, const loop *l, unrolling *u) {
  bool plain = true;
  int64_t limit = MOST_UNROLLED / (int64_t)(body_count_nodes(l->body, &plain) + 1);
  wafer_view trips, condition;
  bool given = n->input_count > 0 && n->entries[0] && (n->entries[0]->host || node_has_input(n, 0));
  bool asked = n->input_count > 1 && n->entries[1] && (n->entries[1]->host || node_has_input(n, 1));
  *u = (unrolling){.most = INT64_MAX, .asks = !keeps_condition(l->body)};
  if (asked && !body_is_known(n, 1, &condition)) return false;
  if (given && !body_is_known(n, 0, &trips)) return false;
  if (given) u->most = wafer_element_i64(trips.dtype, trips.data, 0);
  if (u->most < 0 || (asked && !wafer_element_i64(condition.dtype, condition.data, 0))) u->most = 0;
  if (!u->most) return !l->slices; /* of none the dims are not known */
  if (!u->asks) return u->most <= limit;
  u->cut = u->most > limit;
  if (u->cut) u->most = limit;
  return u->most && condition_is_decided(n, l);
}

/* The condition that a trip has given: 1, 0, or -1 where it is not known. */
static int condition_of(import_node *n, name_entry *entry) {
  wafer_view view;
  MlirValue value = body_use(n, entry);
  if (n->status != WAFER_OK || mlirValueIsNull(value) ||
      !wafer_ir_constant(n->im->ctx, n->im->ir, value, &view))
    return -1;
  return wafer_element_i64(view.dtype, view.data, 0) != 0;
}

/* False: it does not end within `u->most` trips; what it has made so far nobody uses. */
static bool unroll_loop(import_node *n, loop *l, const unrolling *u) {
  importer *im = n->im;
  uint32_t results = (uint32_t)l->body->output.count;
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, 2 + l->carried);
  name_entry **made = body_new_entries(n, results);
  name_entry **slices = body_new_entries(n, (uint32_t)u->most * l->slices);
  int64_t trip = 0;
  int goes_on = 1;
  if (!args) n->status = import_no_memory(im);
  if (n->status != WAFER_OK) return true;
  for (uint32_t i = 0; i < l->carried; i++) args[2 + i] = body_argument(n, 2 + i);
  for (; trip < u->most && goes_on == 1 && n->status == WAFER_OK; trip++) {
    args[0] = body_constant(n, WAFER_DTYPE_i64, trip);
    args[1] = body_constant(n, WAFER_DTYPE_bool, 1);
    if (n->status == WAFER_OK)
      n->status = import_subgraph(im, n->scope, l->body, 2 + l->carried, args, results, made);
    for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[2 + i] = *made[1 + i];
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++)
      slices[i * (uint32_t)u->most + (uint32_t)trip] = made[1 + l->carried + i];
    if (u->asks && n->status == WAFER_OK) goes_on = condition_of(n, made[0]);
  }
  if (n->status == WAFER_OK && (goes_on < 0 || (goes_on && u->cut))) return false;
  for (uint32_t i = 0; i < l->carried && i < n->output_count; i++) n->results[i] = args[2 + i];
  for (uint32_t i = 0; i < l->slices && l->carried + i < n->output_count; i++)
    body_stack(n, l->carried + i, (uint32_t)trip, slices + i * (uint32_t)u->most, 0, false);
  return true;
}

void import_loop(import_node *n) {
  loop l = {.lead = 2, .carried = n->input_count > 2 ? n->input_count - 2 : 0};
  unrolling unrolled;
  assembly fn;
  wafer_step step = {.kind = WAFER_STEP_loop};
  l.body = body_graph(n, "body");
  if (n->status != WAFER_OK || !body_shape(n, &l)) return;
  if (unrolling_of(n, &l, &unrolled) && unroll_loop(n, &l, &unrolled)) return;
  if (n->status != WAFER_OK) return;
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

/* Sequences of tensors whose parts are known when compiling: SplitToSequence of which only single
 * parts are taken is what Split is, and the wafer has it. All other sequences are the host's. */
#include <string.h>

#include "host_node.h"
#include "operators.h"

/* ---- who takes a sequence ---- */

static bool is_name(const char *a, const char *b) {
  return a && !strcmp(a, b);
}

static const onnx_nodes *nodes_of(const scope *s) {
  return s->graph ? &s->graph->node : s->frame->function ? &s->frame->function->node : NULL;
}

/* An initializer, or what a Constant makes. */
static bool is_constant(const scope *s, const char *name) {
  const onnx_nodes *nodes = nodes_of(s);
  for (size_t i = 0; s->graph && i < s->graph->initializer.count; i++)
    if (is_name(s->graph->initializer.at[i].name, name)) return true;
  for (size_t i = 0; i < nodes->count; i++)
    if (is_name(nodes->at[i].op_type, "Constant") && nodes->at[i].output.count &&
        is_name(nodes->at[i].output.at[0], name))
      return true;
  return false;
}

static bool takes_graphs(const onnx_node *node) {
  for (size_t i = 0; i < node->attribute.count; i++)
    if (node->attribute.at[i].g || node->attribute.at[i].graphs.count) return true;
  return false;
}

/* Does the node take one part of the sequence, of a place that is known, or nothing of it? A graph
 * in it may take anything. */
static bool takes_a_part(const scope *s, const onnx_node *node, const char *name) {
  if (takes_graphs(node)) return false;
  for (size_t i = 0; i < node->input.count; i++)
    if (is_name(node->input.at[i], name) &&
        (i || !is_name(node->op_type, "SequenceAt") || node->input.count < 2 ||
         !is_constant(s, node->input.at[1])))
      return false;
  return true;
}

static bool is_result(const scope *s, const char *name) {
  for (size_t i = 0; s->graph && i < s->graph->output.count; i++)
    if (is_name(s->graph->output.at[i].name, name)) return true;
  for (size_t i = 0; !s->graph && i < s->frame->function->output.count; i++)
    if (is_name(s->frame->function->output.at[i], name)) return true;
  return false;
}

static bool only_parts_are_taken(const scope *s, const char *name) {
  const onnx_nodes *nodes = nodes_of(s);
  if (!nodes || is_result(s, name)) return false;
  for (size_t i = 0; i < nodes->count; i++)
    if (!takes_a_part(s, &nodes->at[i], name)) return false;
  return true;
}

bool sequence_is_known(const import_node *n) {
  wafer_view view;
  const name_entry *from = n->input_count ? n->entries[0] : NULL;
  if (!from) return false;
  if (n->op->import == import_sequence_at) return from->parts;
  bool known = n->op->import == import_split_to_sequence && !from->host && n->output_count == 1;
  if (known && node_has_input(n, 1))
    known = wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[1], &view);
  return known && only_parts_are_taken(n->scope, n->node->output.at[0]);
}

/* ---- parts ---- */

/* A scalar is the length of all but the last. */
static int64_t length_at(import_node *n, const int_list *split, bool same, uint32_t i,
                         int64_t left) {
  int64_t length = !split->count ? 1 : same ? split->at[0] : i < split->count ? split->at[i] : 0;
  if (same && length > left) length = left;
  if (length < (same ? 1 : 0) || length > left)
    node_bad(n, "part %u has %lld elements, %lld are left", i, (long long)length, (long long)left);
  return length;
}

/* Without its axis, which has one element. */
static MlirValue squeezed(import_node *n, MlirValue x, uint32_t axis) {
  wafer_shape shape = node_type(n, x).shape;
  if (n->status != WAFER_OK) return x;
  for (uint32_t d = axis; d + 1 < shape.rank; d++) shape.dims[d] = shape.dims[d + 1];
  return emit_reshape(n, x, shape.rank - 1, shape.dims);
}

void import_split_to_sequence(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), shape.rank), count = 0;
  bool given = node_has_input(n, 1), keeps = attr_int(n, "keepdims", 1) || given;
  int_list split = given ? node_ints(n, 1, "split") : (int_list){0};
  bool same = !given || node_rank(n, node_input(n, 1)) == 0;
  if (n->status != WAFER_OK) return;
  int64_t extent = shape.dims[axis], at = 0;
  name_entry *parts = WAFER_NEW(n->im->ctx->arena, name_entry, (size_t)extent + split.count + 1);
  if (!parts) n->status = import_no_memory(n->im);
  while (n->status == WAFER_OK && (same ? at < extent : count < split.count)) {
    int64_t length = length_at(n, &split, same, count, extent - at);
    MlirValue part = emit_part(n, x, axis, at, length);
    parts[count++] = (name_entry){.state = NAME_KNOWN,
                                  .value = keeps ? part : squeezed(n, part, axis),
                                  .fn = n->im->fn,
                                  .piece = n->im->fn->open};
    at += length;
  }
  if (n->status == WAFER_OK && at != extent)
    node_bad(n, "the parts hold %lld of %lld elements", (long long)at, (long long)extent);
  n->results[0] = (name_entry){
      .state = NAME_KNOWN, .host = true, .fn = n->im->fn, .parts = parts, .part_count = count};
}

void import_sequence_at(import_node *n) {
  const name_entry *from = n->entries[0];
  int_list place = node_ints(n, 1, "position");
  int64_t at = place.count ? place.at[0] : 0, count = from->part_count;
  if (n->status == WAFER_OK && (place.count != 1 || at < -count || at >= count))
    node_bad(n, "position %lld, the sequence has %lld parts", (long long)at, (long long)count);
  if (n->status == WAFER_OK) n->results[0] = from->parts[at < 0 ? at + count : at];
}

/* Scan: unrolled where the length is known when compiling, else a step of the host over a function.
 */
#include <string.h>

#include "body.h"
#include "operators.h"

typedef struct scan {
  loop l;
  uint32_t first; /* input of the node that is the first carried value */
  int_list axes, directions, out_axes, out_directions;
  int64_t length;
} scan;

static int64_t entry_of(int_list list, uint32_t i) {
  return i < list.count ? list.at[i] : 0;
}

/* `x` without dim `axis`, at `index` of it. */
static MlirValue slice_at(import_node *n, MlirValue x, uint32_t axis, int64_t index) {
  MlirValue part = emit_part(n, x, axis, index, 1);
  wafer_shape shape = node_type(n, part).shape;
  if (n->status != WAFER_OK) return part;
  memmove(&shape.dims[axis], &shape.dims[axis + 1], (shape.rank - axis - 1) * sizeof shape.dims[0]);
  return emit_reshape(n, part, shape.rank - 1, shape.dims);
}

/* One pass over a sequence; `args` are the carried values before and behind it. */
static void unroll_scan(import_node *n, const scan *s, name_entry *args, MlirValue *cut,
                        name_entry **slices) {
  importer *im = n->im;
  const loop *l = &s->l;
  uint32_t results = (uint32_t)l->body->output.count;
  name_entry **made = body_new_entries(n, results);
  for (int64_t trip = 0; trip < s->length && n->status == WAFER_OK; trip++) {
    for (uint32_t i = 0; i < l->sliced && n->status == WAFER_OK; i++) {
      uint32_t axis = node_axis(n, entry_of(s->axes, i), node_rank(n, cut[i]));
      int64_t at = entry_of(s->directions, i) ? s->length - 1 - trip : trip;
      args[l->carried + i] = body_value(n, slice_at(n, cut[i], axis, at));
    }
    if (n->status == WAFER_OK)
      n->status =
          import_subgraph(im, n->scope, l->body, l->carried + l->sliced, args, results, made);
    for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[i] = *made[i];
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++)
      slices[i * s->length + trip] = made[l->carried + i];
  }
}

static void unroll_whole(import_node *n, const scan *s) {
  const loop *l = &s->l;
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, l->carried + l->sliced + 1);
  name_entry **slices = body_new_entries(n, (uint32_t)s->length * l->slices);
  MlirValue *cut = WAFER_NEW(n->im->ctx->arena, MlirValue, l->sliced + 1);
  if (!args || !cut) n->status = import_no_memory(n->im);
  if (n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < l->carried; i++) args[i] = body_argument(n, s->first + i);
  for (uint32_t i = 0; i < l->sliced; i++) cut[i] = node_input(n, s->first + l->carried + i);
  unroll_scan(n, s, args, cut, slices);
  for (uint32_t i = 0; i < l->carried && i < n->output_count; i++) n->results[i] = args[i];
  for (uint32_t i = 0; i < l->slices && l->carried + i < n->output_count; i++)
    body_stack(n, l->carried + i, (uint32_t)s->length, slices + i * s->length,
               entry_of(s->out_axes, i), entry_of(s->out_directions, i) != 0);
}

/* Before opset 9 every tensor has a batch first, and the sequence is the dim behind it. */
static void unroll_batch(import_node *n, scan *s) {
  const loop *l = &s->l;
  int64_t batch = node_type(n, node_input(n, s->first + l->carried)).shape.dims[0];
  uint32_t results = l->carried + l->slices;
  MlirValue *all = WAFER_NEW(n->im->ctx->arena, MlirValue, results + l->sliced + 1);
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, l->carried + l->sliced + 1);
  if (!all || !args) n->status = import_no_memory(n->im);
  for (int64_t b = 0; b < batch && n->status == WAFER_OK; b++) {
    name_entry **slices = body_new_entries(n, (uint32_t)s->length * l->slices);
    for (uint32_t i = 0; i < l->carried; i++)
      args[i] = body_value(n, slice_at(n, node_input(n, s->first + i), 0, b));
    for (uint32_t i = 0; i < l->sliced; i++)
      all[results + i] = slice_at(n, node_input(n, s->first + l->carried + i), 0, b);
    unroll_scan(n, s, args, all + results, slices);
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++) {
      if (l->carried + i >= n->output_count) continue;
      body_stack(n, l->carried + i, (uint32_t)s->length, slices + i * s->length, 0,
                 entry_of(s->out_directions, i) != 0);
    }
    for (uint32_t i = 0; i < results && i < n->output_count && n->status == WAFER_OK; i++) {
      MlirValue x = i < l->carried ? body_use(n, &args[i]) : n->outputs[i];
      wafer_shape shape = node_type(n, x).shape;
      if (shape.rank == WAFER_MAX_RANK) node_unsupported(n, "a result of %u dims", shape.rank + 1);
      if (n->status != WAFER_OK) return;
      memmove(&shape.dims[1], &shape.dims[0], shape.rank * sizeof shape.dims[0]);
      shape.dims[0] = 1;
      x = emit_reshape(n, x, shape.rank + 1, shape.dims);
      all[i] = b ? emit_concat(n, all[i], x, 0) : x;
    }
  }
  for (uint32_t i = 0; i < results && i < n->output_count; i++) n->outputs[i] = all[i];
}

static bool measure_scan(import_node *n, scan *s) {
  const loop *l = &s->l;
  bool batched = n->opset < 9;
  for (uint32_t i = 0; i < l->sliced && n->status == WAFER_OK; i++) {
    MlirValue x = node_input(n, s->first + l->carried + i);
    if (mlirValueIsNull(x)) return false;
    wafer_shape shape = node_type(n, x).shape;
    if (shape.rank <= batched) node_bad(n, "input %u has no dim to cut", s->first + l->carried + i);
    uint32_t axis = batched ? 1 : node_axis(n, entry_of(s->axes, i), shape.rank);
    if (n->status != WAFER_OK) return false;
    if (i && shape.dims[axis] != s->length) node_bad(n, "the tensors to cut are of unlike lengths");
    s->length = shape.dims[axis];
  }
  for (uint32_t i = 0; i < l->carried; i++)
    if (mlirValueIsNull(node_input(n, s->first + i))) return false;
  return n->status == WAFER_OK;
}

static void step_scan(import_node *n, scan *s) {
  importer *im = n->im;
  loop *l = &s->l;
  assembly fn;
  static const char *const names[] = {"scan_input_axes", "scan_input_directions",
                                      "scan_output_axes", "scan_output_directions"};
  const int_list lists[] = {s->axes, s->directions, s->out_axes, s->out_directions};
  const uint32_t lengths[] = {l->sliced, l->sliced, l->slices, l->slices};
  wafer_host_attr *attrs = WAFER_NEW(im->ctx->arena, wafer_host_attr, 4);
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, l->carried + l->sliced + 1);
  wafer_step step = {.kind = WAFER_STEP_scan, .attrs = attrs, .attr_count = 4};
  if (!attrs || !args) n->status = import_no_memory(im);
  for (uint32_t k = 0; k < 4 && n->status == WAFER_OK; k++) {
    int64_t *at = node_new_ints(n, lengths[k]);
    for (uint32_t i = 0; at && i < lengths[k]; i++) at[i] = entry_of(lists[k], i);
    attrs[k] = (wafer_host_attr){
        .name = names[k], .kind = WAFER_HOST_ATTR_ints, .count = lengths[k], .ints = at};
  }
  for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[i] = body_argument(n, i);
  for (uint32_t i = 0; i < l->sliced && n->status == WAFER_OK; i++) {
    name_entry *arg = &args[l->carried + i];
    MlirValue x = node_input(n, l->carried + i);
    *arg = (name_entry){.state = NAME_KNOWN, .host = true, .fn = im->fn};
    if (mlirValueIsNull(x)) continue;
    uint32_t axis = node_axis(n, entry_of(s->axes, i), node_rank(n, x));
    if (n->status == WAFER_OK) *arg = body_value(n, slice_at(n, x, axis, 0));
  }
  if (n->status == WAFER_OK) body_import(n, l, args, &fn);
  body_step(n, l, &step, &fn);
}

void import_scan(import_node *n) {
  scan s = {.first = n->opset < 9 ? 1 : 0};
  bool plain = true;
  int64_t cut = attr_int(n, "num_scan_inputs", 0);
  s.l.body = body_graph(n, "body");
  if (cut < 1 || cut + s.first > n->input_count)
    node_bad(n, "num_scan_inputs is %lld", (long long)cut);
  if (n->status != WAFER_OK) return;
  s.l.sliced = (uint32_t)cut;
  s.l.carried = n->input_count - s.first - s.l.sliced;
  bool old = n->opset < 9;
  s.axes = old ? (int_list){0} : attr_ints(n, "scan_input_axes");
  s.directions = attr_ints(n, old ? "directions" : "scan_input_directions");
  s.out_axes = old ? (int_list){0} : attr_ints(n, "scan_output_axes");
  s.out_directions = old ? (int_list){0} : attr_ints(n, "scan_output_directions");
  if (!body_shape(n, &s.l)) return;
  bool known = measure_scan(n, &s);
  if (n->status != WAFER_OK) return;
  size_t nodes = body_count_nodes(s.l.body, &plain) + 1;
  bool few = known && s.length > 0 && (uint64_t)s.length <= MOST_UNROLLED / nodes;
  if (old && (!few || node_has_input(n, 0))) {
    node_unsupported(n, "sequence_lens, or a sequence too long to unroll, before opset 9");
    return;
  }
  if (old)
    unroll_batch(n, &s);
  else if (few)
    unroll_whole(n, &s);
  else
    step_scan(n, &s);
}

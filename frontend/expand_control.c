/* If, Loop, Scan, SequenceMap: unrolled or folded where their control is known when compiling, else
 * steps of the host over functions of their own. */
#include <string.h>

#include "host_node.h"
#include "operators.h"

#define MOST_UNROLLED 4096 /* nodes that unrolling may make */
#define MOST_SELECTED 16   /* nodes of branches that are both computed */

static wafer_status no_memory(const importer *im) {
  return wafer_fail(im->ctx->diag, im->b.loc, WAFER_NO_MEMORY, "no memory to import this node");
}

static const onnx_graph *graph_of(import_node *n, const char *name) {
  const onnx_attribute *a = attr_find(n, name);
  if (!a || !a->g) node_bad(n, "no %s", name);
  return n->status == WAFER_OK ? a->g : NULL;
}

static bool is_known(const import_node *n, uint32_t input, wafer_view *view) {
  return node_has_input(n, input) &&
         wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[input], view);
}

/* ---- What is in a graph ---- */

/* Nodes, those of graphs inside it too; `plain` is cleared by what is not a core's alone. */
static size_t count_nodes(const onnx_graph *graph, bool *plain) {
  size_t count = graph->node.count;
  for (size_t i = 0; i < graph->node.count; i++) {
    const onnx_node *node = &graph->node.at[i];
    wafer_host_op op = node->op_type ? wafer_host_by_name(node->op_type) : WAFER_HOST_none;
    *plain = *plain && !(wafer_host_get(op)->when & WAFER_HOST_ALWAYS);
    for (size_t a = 0; a < node->attribute.count; a++)
      if (node->attribute.at[a].g) {
        *plain = false;
        count += count_nodes(node->attribute.at[a].g, plain);
      }
  }
  return count;
}

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

/* ---- If ---- */

static void copy_results(import_node *n, name_entry *const *entries) {
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++)
    n->results[i] = *entries[i];
}

static name_entry **new_entries(import_node *n, uint32_t count) {
  name_entry **entries = WAFER_NEW(n->im->ctx->arena, name_entry *, count + 1);
  if (!entries) n->status = no_memory(n->im);
  return entries;
}

static void inline_branch(import_node *n, const char *name) {
  const onnx_graph *graph = graph_of(n, name);
  name_entry **made = new_entries(n, n->output_count);
  if (n->status != WAFER_OK) return;
  n->status = import_subgraph(n->im, n->scope, graph, 0, NULL, n->output_count, made);
  copy_results(n, made);
}

/* The value of a branch's result in the open piece; null when it is none of static type. */
static MlirValue use_entry(import_node *n, name_entry *entry) {
  MlirValue value = {NULL};
  if (n->status == WAFER_OK) n->status = assembly_use(n->im, entry, &value);
  return value;
}

/* Core ops have no side effects: where both branches are short, both are computed and one is
 * selected. False: they give results of unlike types. */
static bool select_branch(import_node *n, const onnx_graph *yes, const onnx_graph *no) {
  name_entry **a = new_entries(n, n->output_count), **b = new_entries(n, n->output_count);
  if (n->status == WAFER_OK)
    n->status = import_subgraph(n->im, n->scope, yes, 0, NULL, n->output_count, a);
  if (n->status == WAFER_OK)
    n->status = import_subgraph(n->im, n->scope, no, 0, NULL, n->output_count, b);
  MlirValue condition = use_entry(n, n->entries[0]);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++) {
    MlirValue x = use_entry(n, a[i]), y = use_entry(n, b[i]);
    if (mlirValueIsNull(x) || mlirValueIsNull(y)) return false;
    wafer_type s = node_type(n, x), t = node_type(n, y);
    if (s.dtype != t.dtype || !wafer_shape_equal(&s.shape, &t.shape)) return false;
  }
  condition = emit_reshape(n, condition, 0, NULL);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++)
    n->outputs[i] = emit_select(n, condition, use_entry(n, a[i]), use_entry(n, b[i]));
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
  name_entry **made = new_entries(n, n->output_count);
  if (!name) n->status = no_memory(im);
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
  if (!bodies || !types) n->status = no_memory(im);
  branch_function(n, yes, "then", &branches[0]);
  branch_function(n, no, "else", &branches[1]);
  if (n->status == WAFER_OK) n->status = assembly_unify(im, &branches[0], &branches[1], &captures);
  if (n->status == WAFER_OK) n->status = host_inputs(n, 0, &inputs);
  if (n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < captures.count; i++)
    if (!number_add(im->ctx->arena, &inputs, captures.at[i])) n->status = no_memory(im);
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
  if (is_known(n, 0, &condition)) {
    if (!wafer_shape_elements(&condition.shape, &count) || count != 1)
      node_bad(n, "the condition has %lld elements, needs 1", (long long)count);
    if (n->status != WAFER_OK) return;
    bool taken = wafer_element_i64(condition.dtype, condition.data, 0) != 0;
    inline_branch(n, taken ? "then_branch" : "else_branch");
    return;
  }
  const onnx_graph *yes = graph_of(n, "then_branch"), *no = graph_of(n, "else_branch");
  if (n->status != WAFER_OK) return;
  bool plain = !n->entries[0]->host;
  size_t nodes = count_nodes(yes, &plain) + count_nodes(no, &plain);
  if (plain && nodes <= MOST_SELECTED && select_branch(n, yes, no)) return;
  if (n->status == WAFER_OK) step_if(n, yes, no);
}

/* ---- Bodies ---- */

static name_entry constant_entry(import_node *n, wafer_dtype dtype, int64_t value) {
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

/* What a loop hands from trip to trip, and where its slices collect. */
typedef struct loop {
  const onnx_graph *body;
  uint32_t lead;    /* arguments before the carried values; results: lead ? 1 : 0 */
  uint32_t carried; /* values */
  uint32_t sliced;  /* arguments that are slices of tensors */
  uint32_t slices;  /* results that are stacked */
} loop;

static bool shape_loop(import_node *n, loop *l) {
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

/* An entry of the node as an argument of a body in the same function. */
static name_entry hand_on(const import_node *n, uint32_t input) {
  return n->entries[input] ? *n->entries[input]
                           : (name_entry){.state = NAME_KNOWN, .fn = n->im->fn};
}

/* The trips' slices, each with one dim more at `axis`, along it. */
static void stack_slices(import_node *n, uint32_t output, uint32_t count, name_entry *const *slices,
                         int64_t axis, bool backwards) {
  MlirValue all = {NULL};
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
    MlirValue x = use_entry(n, slices[backwards ? count - 1 - i : i]);
    if (n->status != WAFER_OK) return;
    if (mlirValueIsNull(x)) {
      node_unsupported(n, "result %u is stacked of values that are no tensors of static type",
                       output);
      return;
    }
    wafer_shape shape = node_type(n, x).shape;
    if (shape.rank == WAFER_MAX_RANK) node_unsupported(n, "a result of %u dims", shape.rank + 1);
    uint32_t place = node_axis(n, axis, shape.rank + 1);
    if (n->status != WAFER_OK) return;
    memmove(&shape.dims[place + 1], &shape.dims[place],
            (shape.rank - place) * sizeof shape.dims[0]);
    shape.dims[place] = 1;
    x = emit_reshape(n, x, shape.rank + 1, shape.dims);
    all = i ? emit_concat(n, all, x, place) : x;
  }
  n->outputs[output] = all;
}

/* A body as a function of the host. `arguments`: the first ones, as the caller has them; carried
 * values of static type whose results are of another become host values, and it is done again. */
static void body_function(import_node *n, loop *l, const name_entry *arguments, assembly *fn) {
  importer *im = n->im;
  uint32_t count = (uint32_t)l->body->input.count, results = (uint32_t)l->body->output.count;
  uint32_t first = l->lead ? 1 : 0;
  const char *name = wafer_arena_printf(im->ctx->arena, "%s.body", n->label);
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, count + 1);
  bool *open = WAFER_NEW(im->ctx->arena, bool, count + 1);
  name_entry **made = new_entries(n, results);
  if (!name || !args || !open) n->status = no_memory(im);
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

/* Inputs of the step: those of the node, then what the body captures. */
static void body_step(import_node *n, loop *l, wafer_step *step, assembly *fn) {
  importer *im = n->im;
  number_list captures, inputs = {0};
  uint32_t *body = WAFER_NEW(im->ctx->arena, uint32_t, 1);
  wafer_type *types = WAFER_NEW(im->ctx->arena, wafer_type, l->carried + l->slices + 1);
  if (!body || !types) n->status = no_memory(im);
  if (n->status == WAFER_OK) n->status = assembly_unify(im, fn, NULL, &captures);
  if (n->status == WAFER_OK) n->status = host_inputs(n, 0, &inputs);
  if (n->status != WAFER_OK) return;
  while (inputs.count < l->body->input.count && n->status == WAFER_OK)
    if (!number_add(im->ctx->arena, &inputs, WAFER_NONE)) n->status = no_memory(im);
  for (uint32_t i = 0; i < captures.count && n->status == WAFER_OK; i++)
    if (!number_add(im->ctx->arena, &inputs, captures.at[i])) n->status = no_memory(im);
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

/* ---- Loop ---- */

static void unroll_loop(import_node *n, loop *l, int64_t trips) {
  importer *im = n->im;
  uint32_t results = (uint32_t)l->body->output.count;
  name_entry *args = WAFER_NEW(im->ctx->arena, name_entry, 2 + l->carried);
  name_entry **made = new_entries(n, results);
  name_entry **slices = new_entries(n, (uint32_t)trips * l->slices);
  if (!args || n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < l->carried; i++) args[2 + i] = hand_on(n, 2 + i);
  for (int64_t trip = 0; trip < trips && n->status == WAFER_OK; trip++) {
    args[0] = constant_entry(n, WAFER_DTYPE_i64, trip);
    args[1] = constant_entry(n, WAFER_DTYPE_bool, 1);
    if (n->status == WAFER_OK)
      n->status = import_subgraph(im, n->scope, l->body, 2 + l->carried, args, results, made);
    for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[2 + i] = *made[1 + i];
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++)
      slices[i * (uint32_t)trips + (uint32_t)trip] = made[1 + l->carried + i];
  }
  for (uint32_t i = 0; i < l->carried && i < n->output_count; i++) n->results[i] = args[2 + i];
  for (uint32_t i = 0; i < l->slices && l->carried + i < n->output_count; i++)
    stack_slices(n, l->carried + i, (uint32_t)trips, slices + i * (uint32_t)trips, 0, false);
}

/* Trips that are known now: none after a false condition. -1: they are not. */
static int64_t known_trips(const import_node *n, const loop *l) {
  wafer_view trips, condition;
  bool given = n->entries[0] && (n->entries[0]->host || node_has_input(n, 0));
  bool asked = n->input_count > 1 && n->entries[1] && (n->entries[1]->host || node_has_input(n, 1));
  if (asked && !is_known(n, 1, &condition)) return -1;
  if (asked && !wafer_element_i64(condition.dtype, condition.data, 0)) return 0;
  if (!given || !is_known(n, 0, &trips) || !keeps_condition(l->body)) return -1;
  int64_t count = wafer_element_i64(trips.dtype, trips.data, 0);
  return count < 0 ? 0 : count;
}

void import_loop(import_node *n) {
  loop l = {.lead = 2, .carried = n->input_count > 2 ? n->input_count - 2 : 0};
  bool plain = true;
  assembly fn;
  wafer_step step = {.kind = WAFER_STEP_loop};
  l.body = graph_of(n, "body");
  if (n->status != WAFER_OK || !shape_loop(n, &l)) return;
  int64_t trips = known_trips(n, &l);
  size_t nodes = count_nodes(l.body, &plain) + 1;
  if (trips >= 0 && (trips > 0 || !l.slices) && (uint64_t)trips <= MOST_UNROLLED / nodes) {
    unroll_loop(n, &l, trips);
    return;
  }
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, 2 + l.carried);
  if (!args) n->status = no_memory(n->im);
  if (n->status != WAFER_OK) return;
  args[0] = constant_entry(n, WAFER_DTYPE_i64, 0);
  args[1] = constant_entry(n, WAFER_DTYPE_bool, 1);
  for (uint32_t i = 0; i < l.carried; i++) args[2 + i] = hand_on(n, 2 + i);
  body_function(n, &l, args, &fn);
  body_step(n, &l, &step, &fn);
}

/* ---- Scan ---- */

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

static name_entry value_entry(import_node *n, MlirValue value) {
  return (name_entry){
      .state = NAME_KNOWN, .value = value, .fn = n->im->fn, .piece = n->im->fn->open};
}

/* One pass over a sequence; `args` are the carried values before and behind it. */
static void unroll_scan(import_node *n, const scan *s, name_entry *args, MlirValue *cut,
                        name_entry **slices) {
  importer *im = n->im;
  const loop *l = &s->l;
  uint32_t results = (uint32_t)l->body->output.count;
  name_entry **made = new_entries(n, results);
  for (int64_t trip = 0; trip < s->length && n->status == WAFER_OK; trip++) {
    for (uint32_t i = 0; i < l->sliced && n->status == WAFER_OK; i++) {
      uint32_t axis = node_axis(n, entry_of(s->axes, i), node_rank(n, cut[i]));
      int64_t at = entry_of(s->directions, i) ? s->length - 1 - trip : trip;
      args[l->carried + i] = value_entry(n, slice_at(n, cut[i], axis, at));
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
  name_entry **slices = new_entries(n, (uint32_t)s->length * l->slices);
  MlirValue *cut = WAFER_NEW(n->im->ctx->arena, MlirValue, l->sliced + 1);
  if (!args || !cut) n->status = no_memory(n->im);
  if (n->status != WAFER_OK) return;
  for (uint32_t i = 0; i < l->carried; i++) args[i] = hand_on(n, s->first + i);
  for (uint32_t i = 0; i < l->sliced; i++) cut[i] = node_input(n, s->first + l->carried + i);
  unroll_scan(n, s, args, cut, slices);
  for (uint32_t i = 0; i < l->carried && i < n->output_count; i++) n->results[i] = args[i];
  for (uint32_t i = 0; i < l->slices && l->carried + i < n->output_count; i++)
    stack_slices(n, l->carried + i, (uint32_t)s->length, slices + i * s->length,
                 entry_of(s->out_axes, i), entry_of(s->out_directions, i) != 0);
}

/* Before opset 9 every tensor has a batch first, and the sequence is the dim behind it. */
static void unroll_batch(import_node *n, scan *s) {
  const loop *l = &s->l;
  int64_t batch = node_type(n, node_input(n, s->first + l->carried)).shape.dims[0];
  uint32_t results = l->carried + l->slices;
  MlirValue *all = WAFER_NEW(n->im->ctx->arena, MlirValue, results + l->sliced + 1);
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, l->carried + l->sliced + 1);
  if (!all || !args) n->status = no_memory(n->im);
  for (int64_t b = 0; b < batch && n->status == WAFER_OK; b++) {
    name_entry **slices = new_entries(n, (uint32_t)s->length * l->slices);
    for (uint32_t i = 0; i < l->carried; i++)
      args[i] = value_entry(n, slice_at(n, node_input(n, s->first + i), 0, b));
    for (uint32_t i = 0; i < l->sliced; i++)
      all[results + i] = slice_at(n, node_input(n, s->first + l->carried + i), 0, b);
    unroll_scan(n, s, args, all + results, slices);
    for (uint32_t i = 0; i < l->slices && n->status == WAFER_OK; i++) {
      if (l->carried + i >= n->output_count) continue;
      stack_slices(n, l->carried + i, (uint32_t)s->length, slices + i * s->length, 0,
                   entry_of(s->out_directions, i) != 0);
    }
    for (uint32_t i = 0; i < results && i < n->output_count && n->status == WAFER_OK; i++) {
      MlirValue x = i < l->carried ? use_entry(n, &args[i]) : n->outputs[i];
      wafer_shape shape = node_type(n, x).shape;
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
  if (!attrs || !args) n->status = no_memory(im);
  for (uint32_t k = 0; k < 4 && n->status == WAFER_OK; k++) {
    int64_t *at = node_new_ints(n, lengths[k]);
    for (uint32_t i = 0; at && i < lengths[k]; i++) at[i] = entry_of(lists[k], i);
    attrs[k] = (wafer_host_attr){
        .name = names[k], .kind = WAFER_HOST_ATTR_ints, .count = lengths[k], .ints = at};
  }
  for (uint32_t i = 0; i < l->carried && n->status == WAFER_OK; i++) args[i] = hand_on(n, i);
  for (uint32_t i = 0; i < l->sliced && n->status == WAFER_OK; i++) {
    name_entry *arg = &args[l->carried + i];
    MlirValue x = node_input(n, l->carried + i);
    *arg = (name_entry){.state = NAME_KNOWN, .host = true, .fn = im->fn};
    if (mlirValueIsNull(x)) continue;
    uint32_t axis = node_axis(n, entry_of(s->axes, i), node_rank(n, x));
    if (n->status == WAFER_OK) *arg = value_entry(n, slice_at(n, x, axis, 0));
  }
  if (n->status == WAFER_OK) body_function(n, l, args, &fn);
  body_step(n, l, &step, &fn);
}

void import_scan(import_node *n) {
  scan s = {.first = n->opset < 9 ? 1 : 0};
  bool plain = true;
  int64_t cut = attr_int(n, "num_scan_inputs", 0);
  s.l.body = graph_of(n, "body");
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
  if (!shape_loop(n, &s.l)) return;
  bool known = measure_scan(n, &s);
  if (n->status != WAFER_OK) return;
  size_t nodes = count_nodes(s.l.body, &plain) + 1;
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

/* ---- SequenceMap ---- */

void import_sequence_map(import_node *n) {
  loop l = {.sliced = n->input_count};
  assembly fn;
  wafer_step step = {.kind = WAFER_STEP_map, .carried = n->input_count};
  l.body = graph_of(n, "body");
  name_entry *args = WAFER_NEW(n->im->ctx->arena, name_entry, n->input_count + 1);
  if (!args) n->status = no_memory(n->im);
  if (n->status != WAFER_OK || !shape_loop(n, &l)) return;
  for (uint32_t i = 0; i < n->input_count; i++) args[i] = hand_on(n, i);
  body_function(n, &l, args, &fn);
  body_step(n, &l, &step, &fn);
}

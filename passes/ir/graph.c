/* The fused IR as plain structs. */
#include "wafer/graph.h"

#include "sparsity.h"

typedef struct reader {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  wafer_graph graph;
  wafer_graph_value *values;
  wafer_graph_kernel *kernels;
  wafer_graph_stream *streams;
  wafer_graph_action *actions;
  wafer_ir_map *numbers; /* MLIR value -> value; results of streams too */
} reader;

static wafer_status no_memory(const reader *r) {
  return wafer_fail(r->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory for the graph of kernels");
}

/* Room for everything: an upper bound from one walk. */
static wafer_status allocate(reader *r, MlirOperation main) {
  wafer_graph *g = &r->graph;
  g->block = wafer_ir_body(main);
  g->terminator = mlirBlockGetTerminator(g->block);
  g->input_count = (uint32_t)mlirBlockGetNumArguments(g->block);
  g->output_count = (uint32_t)mlirOperationGetNumOperands(g->terminator);
  uint32_t ops = 0, values = g->input_count;
  for (MlirOperation op = mlirBlockGetFirstOperation(g->block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op), ops++)
    values += (uint32_t)mlirOperationGetNumResults(op);
  wafer_arena *arena = r->ctx->arena;
  g->values = r->values = WAFER_NEW(arena, wafer_graph_value, values);
  g->kernels = r->kernels = WAFER_NEW(arena, wafer_graph_kernel, ops);
  g->streams = r->streams = WAFER_NEW(arena, wafer_graph_stream, ops);
  g->actions = r->actions = WAFER_NEW(arena, wafer_graph_action, ops);
  r->numbers = wafer_ir_map_create(arena);
  return r->values && r->kernels && r->streams && r->actions && r->numbers ? WAFER_OK
                                                                           : no_memory(r);
}

static wafer_status add_value(reader *r, MlirValue value, wafer_graph_value from,
                              MlirOperation at) {
  if (!wafer_ir_type_get(mlirValueGetType(value), &from.type))
    return wafer_fail(r->ctx->diag, wafer_ir_loc(r->ir, at), WAFER_BAD_INPUT,
                      "a value of @main is not a ranked tensor of static shape");
  from.value = value;
  if (!wafer_ir_map_put(r->numbers, value.ptr, r->graph.value_count)) return no_memory(r);
  r->values[r->graph.value_count++] = from;
  return WAFER_OK;
}

static wafer_status add_inputs(reader *r, MlirOperation main) {
  for (uint32_t i = 0; i < r->graph.input_count; i++) {
    wafer_graph_value value = {.name = wafer_ir_argument_name(main, i),
                               .node = "",
                               .owner = WAFER_OWNER_input,
                               .producer = WAFER_NONE};
    WAFER_TRY(add_value(r, mlirBlockGetArgument(r->graph.block, i), value, main));
  }
  return WAFER_OK;
}

static wafer_status add_weight(reader *r, MlirOperation op) {
  wafer_attrs attrs;
  WAFER_TRY(wafer_ir_attrs(r->ctx, op, &attrs));
  wafer_graph_value value = {.name = wafer_attr_string(&attrs, WAFER_ATTR_name),
                             .node = "",
                             .owner = WAFER_OWNER_weight,
                             .producer = WAFER_NONE};
  const wafer_weight *weight = wafer_weights_find(r->ir->weights, value.name);
  if (weight && weight->sparse) value.sparse = true, value.nonzeros = weight->nonzeros;
  if (weight) value.digest = weight->digest;
  return add_value(r, mlirOperationGetResult(op, 0), value, op);
}

static void add_action(reader *r, wafer_graph_kind kind, uint32_t index, MlirOperation op) {
  r->actions[r->graph.action_count++] = (wafer_graph_action){kind, index, op};
}

/* The value behind operand `i` of op. */
static wafer_status operand(reader *r, MlirOperation op, uint32_t i, uint32_t *value) {
  *value = wafer_ir_map_get(r->numbers, mlirOperationGetOperand(op, i).ptr);
  if (*value != WAFER_NONE) return WAFER_OK;
  return wafer_fail(r->ctx->diag, wafer_ir_loc(r->ir, op), WAFER_BAD_INPUT,
                    "operand %u is neither an input, a weight nor a kernel's result", i);
}

static void read_decisions(wafer_graph_kernel *k) {
  k->sized = wafer_ir_get_split(k->func, &k->split) && wafer_ir_get_slabs(k->func, &k->slabs);
  if (!wafer_ir_get_replicas(k->func, &k->replicas)) k->replicas = 1;
  if (!wafer_ir_get_ahead(k->func, &k->ahead)) k->ahead = 1;
  if (!wafer_ir_get_stays(k->func, &k->stays)) k->stays = 0;
  k->placed = wafer_ir_get_phase(k->func, &k->phase) && wafer_ir_get_rect(k->func, &k->rect);
}

static wafer_status add_results(reader *r, wafer_graph_kernel *k, uint32_t *outputs) {
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    uint32_t number = k->body.outputs[i];
    bool node = number >= k->body.input_count;
    const char *name = node ? k->body.nodes[number - k->body.input_count].name : k->node;
    wafer_graph_value value = {.name = name && *name ? name : k->name,
                               .node = k->node,
                               .owner = WAFER_OWNER_activation,
                               .producer = r->graph.kernel_count,
                               .output = i};
    outputs[i] = r->graph.value_count;
    WAFER_TRY(add_value(r, mlirOperationGetResult(k->call, i), value, k->call));
  }
  return WAFER_OK;
}

static wafer_status add_kernel(reader *r, MlirOperation call) {
  wafer_graph_kernel *k = &r->kernels[r->graph.kernel_count];
  *k = (wafer_graph_kernel){
      .call = call, .func = wafer_ir_callee(r->ir, call), .loc = wafer_ir_loc(r->ir, call)};
  if (mlirOperationIsNull(k->func) || !wafer_ir_is_kernel(k->func))
    return wafer_fail(r->ctx->diag, k->loc, WAFER_BAD_INPUT, "@main calls what is not a kernel");
  k->name = wafer_ir_func_name(k->func);
  k->node = wafer_ir_node_name(k->func);
  WAFER_TRY(wafer_ir_kernel_body(r->ctx, r->ir, k->func, &k->body));
  read_decisions(k);
  uint32_t *inputs = WAFER_NEW(r->ctx->arena, uint32_t, k->body.input_count);
  uint32_t *outputs = WAFER_NEW(r->ctx->arena, uint32_t, k->body.output_count);
  if (!inputs || !outputs) return no_memory(r);
  k->constant = true;
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    WAFER_TRY(operand(r, call, i, &inputs[i]));
    uint32_t from = r->values[inputs[i]].producer;
    k->constant &= k->body.input_is_weight[i] || (from != WAFER_NONE && r->kernels[from].constant);
  }
  WAFER_TRY(add_results(r, k, outputs));
  WAFER_TRY(sparsity_of(r->ctx, r->ir, r->values, inputs, k));
  k->inputs = inputs;
  k->outputs = outputs;
  add_action(r, WAFER_GRAPH_kernel, r->graph.kernel_count++, call);
  return WAFER_OK;
}

static wafer_status add_stream(reader *r, MlirOperation op) {
  wafer_graph_stream *s = &r->streams[r->graph.stream_count];
  s->op = op;
  WAFER_TRY(operand(r, op, 0, &s->value));
  WAFER_TRY(wafer_ir_stream_get(r->ctx, r->ir, op, &s->is));
  if (!wafer_ir_map_put(r->numbers, mlirOperationGetResult(op, 0).ptr, s->value))
    return no_memory(r);
  add_action(r, WAFER_GRAPH_stream, r->graph.stream_count++, op);
  return WAFER_OK;
}

static wafer_status malformed(const reader *r, MlirOperation op) {
  return wafer_fail(
      r->ctx->diag, wafer_ir_loc(r->ir, op), WAFER_BAD_INPUT,
      "@main holds an op that is neither a call, a weight nor of dialect wafer, run pass fuse");
}

static wafer_status add_other(reader *r, MlirOperation op) {
  uint32_t index;
  const char *name;
  switch (wafer_ir_action_of(op)) {
  case WAFER_IR_stream: return add_stream(r, op);
  case WAFER_IR_load:
    if (!wafer_ir_load_get(op, &index)) return malformed(r, op);
    add_action(r, WAFER_GRAPH_load, index, op);
    return WAFER_OK;
  case WAFER_IR_phase:
    if (!wafer_ir_phase_get(op, &index, &name)) return malformed(r, op);
    add_action(r, WAFER_GRAPH_phase, index, op);
    return WAFER_OK;
  case WAFER_IR_free:
    WAFER_TRY(operand(r, op, 0, &index));
    add_action(r, WAFER_GRAPH_free, index, op);
    return WAFER_OK;
  default: return malformed(r, op);
  }
}

/* The gradient is added up where it is made. */
static wafer_status sum_output(reader *r, wafer_graph_value *value, wafer_optimizer_kind kind) {
  wafer_kernel_body *body = &r->kernels[value->producer].body;
  bool *summed = (bool *)(uintptr_t)body->output_is_summed; /* made here */
  if (!summed) summed = WAFER_NEW(r->ctx->arena, bool, body->output_count);
  if (!summed) return no_memory(r);
  body->output_is_summed = summed;
  body->state = 1 + wafer_optimizer_slots(kind);
  summed[value->output] = value->summed = true;
  return WAFER_OK;
}

static wafer_status add_outputs(reader *r, MlirOperation main) {
  wafer_optimizer_kind optimizer;
  bool updates = wafer_ir_get_optimizer(r->ir, &optimizer);
  uint32_t *outputs = WAFER_NEW(r->ctx->arena, uint32_t, r->graph.output_count);
  if (!outputs) return no_memory(r);
  for (uint32_t i = 0; i < r->graph.output_count; i++) {
    WAFER_TRY(operand(r, r->graph.terminator, i, &outputs[i]));
    wafer_graph_value *value = &r->values[outputs[i]];
    if (value->producer == WAFER_NONE || value->owner != WAFER_OWNER_activation)
      return wafer_fail(r->ctx->diag, wafer_ir_loc(r->ir, main), WAFER_BAD_INPUT,
                        "output %u is not a value of its own", i);
    wafer_ir_port port = wafer_ir_result(main, i);
    bool statistic = port.role == WAFER_ROLE_statistic;
    bool gradient = statistic || port.role == WAFER_ROLE_gradient;
    const wafer_weight *of = gradient ? wafer_weights_find(r->ir->weights, port.of) : NULL;
    if (of && of->sparse) value->sparse = true, value->nonzeros = of->nonzeros;
    value->owner = gradient ? WAFER_OWNER_gradient : WAFER_OWNER_output;
    if (gradient && updates) WAFER_TRY(sum_output(r, value, optimizer));
    value->name = wafer_ir_result_name(main, i);
  }
  r->graph.outputs = outputs;
  return WAFER_OK;
}

/* Lists for every value the kernels that use it. */
static wafer_status add_uses(reader *r) {
  uint32_t total = 0, at = 0;
  for (uint32_t k = 0; k < r->graph.kernel_count; k++) {
    total += r->kernels[k].body.input_count;
    for (uint32_t i = 0; i < r->kernels[k].body.input_count; i++)
      r->values[r->kernels[k].inputs[i]].use_count++;
  }
  wafer_graph_use *uses = WAFER_NEW(r->ctx->arena, wafer_graph_use, total);
  wafer_graph_use **next = WAFER_NEW(r->ctx->arena, wafer_graph_use *, r->graph.value_count);
  if (!uses || !next) return no_memory(r);
  for (uint32_t v = 0; v < r->graph.value_count; v++) {
    r->values[v].uses = next[v] = uses + at;
    at += r->values[v].use_count;
  }
  for (uint32_t k = 0; k < r->graph.kernel_count; k++)
    for (uint32_t i = 0; i < r->kernels[k].body.input_count; i++)
      *next[r->kernels[k].inputs[i]]++ = (wafer_graph_use){k, i};
  return WAFER_OK;
}

wafer_status wafer_graph_read(const wafer_ctx *ctx, const wafer_ir *ir, wafer_graph *out) {
  *out = (wafer_graph){0};
  reader r = {.ctx = ctx, .ir = ir};
  MlirOperation main = wafer_ir_main(ir);
  if (mlirOperationIsNull(main))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "there is no function @main");
  WAFER_TRY(allocate(&r, main));
  WAFER_TRY(add_inputs(&r, main));
  for (MlirOperation op = mlirBlockGetFirstOperation(r.graph.block);
       !mlirOperationEqual(op, r.graph.terminator); op = mlirOperationGetNextInBlock(op)) {
    if (wafer_ir_is_call(op))
      WAFER_TRY(add_kernel(&r, op));
    else if (wafer_ir_op(op) == WAFER_OP_weight)
      WAFER_TRY(add_weight(&r, op));
    else
      WAFER_TRY(add_other(&r, op));
  }
  WAFER_TRY(add_outputs(&r, main));
  WAFER_TRY(add_uses(&r));
  r.graph.piece = ir->owner || ir->program || ir->sized;
  r.graph.peers = ir->peers;
  *out = r.graph;
  return WAFER_OK;
}

uint32_t wafer_graph_turn(const wafer_graph *graph, uint32_t first, uint32_t k,
                          const uint32_t *turn) {
  const wafer_graph_kernel *kernel = &graph->kernels[k];
  uint32_t latest = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t producer = graph->values[kernel->inputs[i]].producer;
    if (producer == WAFER_NONE || producer < first) continue;
    uint32_t behind = turn[producer - first] + 1;
    if (behind > latest) latest = behind;
  }
  return latest;
}

bool wafer_graph_stays(const wafer_graph *graph, uint32_t value, uint32_t last) {
  const wafer_graph_value *weight = &graph->values[value];
  for (uint32_t u = 0; u < weight->use_count; u++) {
    const wafer_graph_use *use = &weight->uses[u];
    if (use->kernel > last)
      return use->input < WAFER_STAYING_INPUTS &&
             graph->kernels[use->kernel].stays >> use->input & 1;
  }
  return false;
}

/* The stage of the first kernel that takes what k makes; WAFER_NONE: there is none. */
static uint32_t first_use(const wafer_graph *graph, uint32_t k, const uint32_t *stage) {
  const wafer_graph_kernel *kernel = &graph->kernels[k];
  uint32_t first = WAFER_NONE;
  for (uint32_t o = 0; o < kernel->body.output_count; o++) {
    const wafer_graph_value *v = &graph->values[kernel->outputs[o]];
    for (uint32_t u = 0; u < v->use_count; u++)
      if (stage[v->uses[u].kernel] < first) first = stage[v->uses[u].kernel];
  }
  return first;
}

void wafer_graph_stages(const wafer_graph *graph, uint32_t *stage) {
  for (uint32_t k = 0; k < graph->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &graph->kernels[k];
    stage[k] = 0;
    for (uint32_t i = 0; i < kernel->body.input_count; i++) {
      uint32_t producer = graph->values[kernel->inputs[i]].producer;
      if (producer != WAFER_NONE && stage[k] <= stage[producer]) stage[k] = stage[producer] + 1;
    }
  }
  for (uint32_t k = graph->kernel_count; k-- > 0;) {
    uint32_t first = graph->kernels[k].constant ? first_use(graph, k, stage) : WAFER_NONE;
    if (first != WAFER_NONE) stage[k] = first - 1;
  }
}

/* Placed IR -> plan. The graph numbers values, kernels and streams; the plan keeps its numbers. */
#include "lower.h"
#include "launch/launch.h"

wafer_status lower_no_memory(const lowering *l) {
  return wafer_fail(l->ctx->diag, wafer_at_file(l->ir->file), WAFER_NO_MEMORY,
                    "no memory for the plan");
}

wafer_status lower_keep(const lowering *l, const char **text) {
  if (!*text) return WAFER_OK;
  *text = wafer_arena_strdup(l->ctx->arena, *text);
  return *text ? WAFER_OK : lower_no_memory(l);
}

/* ---- Values and weights ---- */

/* The plan's own table: the weights that are still used, in the order of first use. */
static wafer_status lower_weight(lowering *l, wafer_weights *table, wafer_ir_map *numbers,
                                 wafer_value *value) {
  const wafer_weight *from = wafer_weights_find(l->ir->weights, value->name);
  if (!from)
    return wafer_fail(l->ctx->diag, wafer_at_file(l->ir->file), WAFER_BAD_INPUT,
                      "weight '%s' is not in the table of weights", value->name);
  value->weight = wafer_ir_map_get(numbers, from);
  if (value->weight != WAFER_NONE) return WAFER_OK;
  value->weight = (uint32_t)wafer_weights_count(table);
  wafer_weight *added = wafer_weights_add(table, from->name, from->dtype, &from->shape, from->data);
  if (added) {
    added->trained = from->trained;
    added->expected = from->expected;
    added->sparse = from->sparse;
    added->nonzeros = from->nonzeros;
  }
  return added && wafer_ir_map_put(numbers, from, value->weight) ? WAFER_OK : lower_no_memory(l);
}

static wafer_status lower_values(lowering *l) {
  wafer_weights *table = wafer_weights_create(l->ctx->arena);
  wafer_ir_map *numbers = wafer_ir_map_create(l->ctx->arena);
  l->values = WAFER_NEW(l->ctx->arena, wafer_value, l->graph.value_count);
  if (!table || !numbers || !l->values) return lower_no_memory(l);
  for (uint32_t v = 0; v < l->graph.value_count; v++) {
    const wafer_graph_value *from = &l->graph.values[v];
    l->values[v] = (wafer_value){.name = from->name,
                                 .node = from->node,
                                 .owner = from->owner,
                                 .type = from->type,
                                 .weight = WAFER_NONE};
    WAFER_TRY(lower_keep(l, &l->values[v].name));
    WAFER_TRY(lower_keep(l, &l->values[v].node));
    if (from->owner == WAFER_OWNER_weight)
      WAFER_TRY(lower_weight(l, table, numbers, &l->values[v]));
  }
  l->plan->value_count = l->graph.value_count;
  l->plan->values = l->values;
  l->plan->weights = table;
  return WAFER_OK;
}

/* ---- Kernels ---- */

static wafer_status lower_kernels(lowering *l) {
  l->kernels = WAFER_NEW(l->ctx->arena, wafer_kernel, l->graph.kernel_count);
  if (!l->kernels) return lower_no_memory(l);
  for (uint32_t k = 0; k < l->graph.kernel_count; k++) {
    const wafer_graph_kernel *from = &l->graph.kernels[k];
    if (!from->sized || !from->placed)
      return wafer_fail(l->ctx->diag, from->loc, WAFER_BAD_INPUT,
                        "kernel '%s' has no split or rectangle, run all passes before lowering",
                        from->name);
    wafer_kernel *to = &l->kernels[k];
    *to = (wafer_kernel){.name = from->name,
                         .body = from->body,
                         .inputs = from->inputs,
                         .outputs = from->outputs,
                         .split = from->split,
                         .rect = from->rect,
                         .replicas = from->replicas,
                         .slabs = from->slabs};
    WAFER_TRY(lower_keep(l, &to->name));
    wafer_kernel_cost(l->ctx->machine, &to->body, &to->split, &to->cost);
    WAFER_TRY(lower_memory(l, to));
  }
  l->plan->kernel_count = l->graph.kernel_count;
  l->plan->kernels = l->kernels;
  return WAFER_OK;
}

/* ---- Streams ---- */

/* The kernel of this phase that uses the stream's result; WAFER_NONE when it goes to the edge. */
static uint32_t consumer(const lowering *l, const wafer_ir_map *calls, MlirOperation stream,
                         uint32_t phase) {
  MlirOpOperand use = mlirValueGetFirstUse(mlirOperationGetResult(stream, 0));
  uint32_t first = WAFER_NONE;
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    uint32_t kernel = wafer_ir_map_get(calls, mlirOpOperandGetOwner(use).ptr);
    if (kernel != WAFER_NONE && l->graph.kernels[kernel].phase == phase && kernel < first)
      first = kernel;
  }
  return first;
}

/* The kernel that made what the stream carries, when it is of the same phase. */
static uint32_t producer(const lowering *l, const wafer_graph_stream *s, uint32_t phase) {
  uint32_t kernel = l->graph.values[s->value].producer;
  bool here = s->is.from.where == WAFER_AT_wafer && kernel != WAFER_NONE &&
              l->graph.kernels[kernel].phase == phase;
  return here ? kernel : WAFER_NONE;
}

static wafer_status lower_streams(lowering *l) {
  wafer_ir_map *calls = wafer_ir_map_create(l->ctx->arena);
  l->streams = WAFER_NEW(l->ctx->arena, wafer_stream, l->graph.stream_count);
  if (!calls || !l->streams) return lower_no_memory(l);
  for (uint32_t k = 0; k < l->graph.kernel_count; k++)
    if (!wafer_ir_map_put(calls, l->graph.kernels[k].call.ptr, k)) return lower_no_memory(l);
  uint32_t phase = WAFER_NONE;
  for (uint32_t a = 0; a < l->graph.action_count; a++) {
    const wafer_graph_action *action = &l->graph.actions[a];
    if (action->kind == WAFER_GRAPH_phase) phase = action->index;
    if (action->kind != WAFER_GRAPH_stream) continue;
    const wafer_graph_stream *s = &l->graph.streams[action->index];
    l->streams[action->index] = (wafer_stream){.value = s->value,
                                               .from = s->is.from,
                                               .to = s->is.to,
                                               .from_kernel = producer(l, s, phase),
                                               .to_kernel = consumer(l, calls, s->op, phase),
                                               .color = s->is.color,
                                               .route_count = s->is.route_count,
                                               .route = s->is.route,
                                               .words = s->is.words,
                                               .cycles = s->is.cycles,
                                               .latency = s->is.latency,
                                               .depth = s->is.depth};
  }
  l->plan->stream_count = l->graph.stream_count;
  l->plan->streams = l->streams;
  return WAFER_OK;
}

/* ---- Functions ---- */

static wafer_status lower_function(lowering *l) {
  wafer_arena *arena = l->ctx->arena;
  wafer_function *main = WAFER_NEW(arena, wafer_function, 1);
  wafer_step *steps = WAFER_NEW(arena, wafer_step, l->graph.action_count);
  uint32_t *inputs = WAFER_NEW(arena, uint32_t, l->graph.input_count);
  if (!main || !steps || !inputs) return lower_no_memory(l);
  uint32_t count = 0;
  for (uint32_t i = 0; i < l->graph.input_count; i++) inputs[i] = i;
  for (uint32_t a = 0; a < l->graph.action_count; a++) {
    const wafer_graph_action *action = &l->graph.actions[a];
    if (action->kind == WAFER_GRAPH_load)
      steps[count++] = (wafer_step){.kind = WAFER_STEP_load, .phase = action->index};
    if (action->kind == WAFER_GRAPH_phase)
      steps[count++] = (wafer_step){.kind = WAFER_STEP_phase, .phase = action->index};
  }
  *main = (wafer_function){.name = "main",
                           .input_count = l->graph.input_count,
                           .inputs = inputs,
                           .output_count = l->graph.output_count,
                           .outputs = l->graph.outputs,
                           .step_count = count,
                           .steps = steps};
  l->plan->function_count = 1;
  l->plan->functions = main;
  return WAFER_OK;
}

/* ---- The plan ---- */

#define LEAST_TRAIN 16
#define MOST_TRAIN 64

/* The chosen mode's estimate gives way to the timeline of the plan itself. */
static wafer_status measure(lowering *l) {
  wafer_plan *plan = l->plan;
  wafer_mode_cost *cost = plan->mode == WAFER_MODE_pipelined ? &plan->pipelined : &plan->streaming;
  uint64_t train = plan->mode == WAFER_MODE_streaming ? 2 * (uint64_t)plan->batch
                                                      : 2 * (uint64_t)plan->kernel_count;
  if (plan->mode == WAFER_MODE_pipelined)
    train = train < LEAST_TRAIN ? LEAST_TRAIN : train > MOST_TRAIN ? MOST_TRAIN : train;
  for (uint32_t k = 0; k < plan->kernel_count; k++) /* every replica has several samples */
    if (train < 4 * (uint64_t)plan->kernels[k].replicas)
      train = 4 * (uint64_t)plan->kernels[k].replicas;
  train *= wafer_machine_bands(plan->machine);
  wafer_timeline timeline = {0};
  WAFER_TRY(wafer_timeline_run(l->ctx->diag, plan, 0, train, &timeline));
  cost->latency_cycles = timeline.latency_cycles;
  cost->interval_cycles = timeline.interval_cycles;
  return WAFER_OK;
}

wafer_status lower_check(const wafer_ctx *ctx, const char *file, wafer_plan *plan,
                         wafer_phase *phases) {
  wafer_mode_cost *cost = plan->mode == WAFER_MODE_pipelined ? &plan->pipelined : &plan->streaming;
  uint64_t *peaks = WAFER_NEW(ctx->arena, uint64_t, plan->phase_count);
  if (!peaks)
    return wafer_fail(ctx->diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory for the plan");
  WAFER_TRY(wafer_plan_check_peaks(ctx->diag, file, plan, peaks));
  cost->peak_core_bytes = 0;
  for (uint32_t p = 0; p < plan->phase_count; p++) {
    phases[p].peak_core_bytes = peaks[p];
    if (peaks[p] > cost->peak_core_bytes) cost->peak_core_bytes = peaks[p];
  }
  return WAFER_OK;
}

static wafer_status lower_head(lowering *l) {
  wafer_plan *plan = l->plan;
  *plan = (wafer_plan){.model = l->ir->model,
                       .producer = "wafer " WAFER_VERSION,
                       .machine = l->ctx->machine,
                       .stripes = 1,
                       .node_count = l->ir->node_count};
  (void)wafer_ir_get_stripes(l->ir, &plan->stripes, &plan->stripe_columns);
  bool there = wafer_ir_get_mode(l->ir, &plan->mode) && wafer_ir_get_batch(l->ir, &plan->batch) &&
               wafer_ir_get_storage(l->ir, &plan->storage) &&
               wafer_ir_get_flip_batch(l->ir, &plan->flip_batch) &&
               wafer_ir_get_mode_cost(l->ir, WAFER_MODE_pipelined, &plan->pipelined) &&
               wafer_ir_get_mode_cost(l->ir, WAFER_MODE_streaming, &plan->streaming);
  if (!there)
    return wafer_fail(l->ctx->diag, wafer_at_file(l->ir->file), WAFER_BAD_INPUT,
                      "the module lacks what pass mode writes, run all passes before lowering");
  WAFER_TRY(lower_keep(l, &plan->pipelined.why_not));
  return lower_keep(l, &plan->streaming.why_not);
}

static wafer_status lower(lowering *l) {
  WAFER_TRY(lower_head(l));
  WAFER_TRY(wafer_graph_read(l->ctx, l->ir, &l->graph));
  WAFER_TRY(lower_values(l));
  WAFER_TRY(lower_kernels(l));
  WAFER_TRY(lower_streams(l));
  WAFER_TRY(lower_phases(l));
  WAFER_TRY(lower_function(l));
  WAFER_TRY(lower_training(l));
  WAFER_TRY(lower_bounds(l));
  l->plan->no_programs = "";
  return WAFER_OK;
}

wafer_status lower_piece(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out) {
  lowering l = {.ctx = ctx, .ir = ir, .plan = WAFER_NEW(ctx->arena, wafer_plan, 1)};
  if (!l.plan) return lower_no_memory(&l);
  *out = l.plan;
  return lower(&l);
}

wafer_status lower_text(const wafer_ctx *ctx, const wafer_ir *ir, wafer_plan *plan) {
  if (ctx->options && ctx->options->no_mlir) return WAFER_OK;
  return wafer_ir_print(ctx, ir, &plan->mlir, &plan->mlir_bytes);
}

wafer_status wafer_lower(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out) {
  *out = NULL;
  if (ir->program) return link_program(ctx, ir, out);
  wafer_ctx with = *ctx;
  lowering l = {.ctx = &with, .ir = ir, .plan = WAFER_NEW(ctx->arena, wafer_plan, 1)};
  if (!l.plan) return lower_no_memory(&l);
  WAFER_TRY(wafer_machine_band(ctx->diag, ctx->arena, ctx->machine, wafer_ir_get_cut(ir),
                               &with.machine));
  WAFER_TRY(lower(&l));
  WAFER_TRY(lower_text(ctx, ir, l.plan));
  WAFER_TRY(lower_check(ctx, ir->file, l.plan, l.phases));
  WAFER_TRY(launch_plan(ctx, l.plan, ctx->options ? ctx->options->programs : WAFER_PROGRAMS_auto));
  WAFER_TRY(measure(&l));
  *out = l.plan;
  return WAFER_OK;
}

/* Plans of pieces and functions of the host -> one plan: everything of a piece keeps its order and
 * is numbered behind that of the pieces before it. Weights that several pieces share are one. */
#include <string.h>

#include "lower.h"
#include "wafer/program.h"

typedef struct linking {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  const wafer_program *program;
  const wafer_plan **pieces; /* per function, NULL for one of the host */
  wafer_plan *plan;
  wafer_weights *weights;
  wafer_ir_map *numbers; /* weight -> its number */
  wafer_value *values;
  wafer_kernel *kernels;
  wafer_stream *streams;
  wafer_phase *phases;
  wafer_function *functions;
} linking;

static wafer_status no_memory(const linking *l) {
  return wafer_fail(l->ctx->diag, wafer_at_file(l->ir->file), WAFER_NO_MEMORY,
                    "no memory for the plan");
}

/* `count` numbers, each `by` more. */
static const uint32_t *shifted(const linking *l, uint32_t count, const uint32_t *at, uint32_t by) {
  uint32_t *made = WAFER_NEW(l->ctx->arena, uint32_t, count);
  for (uint32_t i = 0; made && i < count; i++)
    made[i] = at[i] == WAFER_NONE ? WAFER_NONE : at[i] + by;
  return made;
}

static uint32_t shift(uint32_t index, uint32_t by) {
  return index == WAFER_NONE ? WAFER_NONE : index + by;
}

/* ---- Weights ---- */

static bool same_weight(const wafer_weight *a, const wafer_weight *b) {
  return a->sparse == b->sparse && a->dtype == b->dtype &&
         wafer_shape_equal(&a->shape, &b->shape) && a->data && b->data &&
         (a->data == b->data || !memcmp(a->data, b->data, a->bytes));
}

/* The weight of the plan with this name and these bytes, or of another name, such as pieces give to
 * what they compute of their own; or a new one. */
static uint32_t link_weight(linking *l, const wafer_weight *from) {
  wafer_weight *found = wafer_weights_find(l->weights, from->name);
  if (found && same_weight(found, from)) return wafer_ir_map_get(l->numbers, found);
  const uint32_t number = (uint32_t)wafer_weights_count(l->weights);
  if (from->data)
    found = wafer_weights_share(l->weights, from->name, from->dtype, &from->shape, from->data);
  const bool known = wafer_weights_count(l->weights) == number;
  if (known && found && same_weight(found, from)) return wafer_ir_map_get(l->numbers, found);
  if (known)
    found = wafer_weights_add(l->weights, from->name, from->dtype, &from->shape, from->data);
  if (!found) return WAFER_NONE;
  wafer_weight *added = wafer_weights_at(l->weights, number);
  added->expected = from->expected;
  added->sparse = from->sparse, added->nonzeros = from->nonzeros;
  return wafer_ir_map_put(l->numbers, found, number) ? number : WAFER_NONE;
}

static wafer_status link_values(linking *l, const wafer_weights *weights, uint32_t count,
                                const wafer_value *from) {
  for (uint32_t i = 0; i < count; i++) {
    wafer_value *v = &l->values[l->plan->value_count++];
    *v = from[i];
    if (v->weight == WAFER_NONE) continue;
    v->weight = link_weight(l, wafer_weights_at(weights, v->weight));
    if (v->weight == WAFER_NONE) return no_memory(l);
    v->name = wafer_weights_at(l->weights, v->weight)->name;
  }
  return WAFER_OK;
}

/* ---- Pieces ---- */

static wafer_status link_phase(linking *l, const wafer_phase *from, uint32_t values,
                               uint32_t kernels, uint32_t streams) {
  wafer_phase *phase = &l->phases[l->plan->phase_count++];
  wafer_action *actions = WAFER_NEW(l->ctx->arena, wafer_action, from->action_count);
  *phase = *from;
  phase->frees = shifted(l, from->free_count, from->frees, values);
  if (!actions || !phase->frees) return no_memory(l);
  for (uint32_t a = 0; a < from->action_count; a++) {
    actions[a] = from->actions[a];
    actions[a].index += actions[a].kind == WAFER_ACTION_kernel ? kernels : streams;
  }
  phase->actions = actions;
  return WAFER_OK;
}

static wafer_status link_function(linking *l, uint32_t function, uint32_t values, uint32_t phases) {
  const wafer_function *from = &l->pieces[function]->functions[0];
  wafer_function *to = &l->functions[function];
  wafer_step *steps = WAFER_NEW(l->ctx->arena, wafer_step, from->step_count);
  *to = *from;
  to->name = l->program->functions[function].name;
  to->inputs = shifted(l, from->input_count, from->inputs, values);
  to->outputs = shifted(l, from->output_count, from->outputs, values);
  if (!steps || !to->inputs || !to->outputs) return no_memory(l);
  for (uint32_t s = 0; s < from->step_count; s++) {
    steps[s] = from->steps[s];
    steps[s].phase += phases;
  }
  to->steps = steps;
  return WAFER_OK;
}

static void add_cost(wafer_mode_cost *to, const wafer_mode_cost *from) {
  to->fits = to->fits && from->fits;
  if (!from->fits && !*to->why_not) to->why_not = from->why_not;
  if (from->cores > to->cores) to->cores = from->cores;
  if (from->peak_core_bytes > to->peak_core_bytes) to->peak_core_bytes = from->peak_core_bytes;
}

static wafer_status link_piece(linking *l, uint32_t function) {
  const wafer_plan *from = l->pieces[function];
  wafer_plan *to = l->plan;
  uint32_t values = to->value_count, kernels = to->kernel_count, streams = to->stream_count,
           phases = to->phase_count;
  WAFER_TRY(link_values(l, from->weights, from->value_count, from->values));
  for (uint32_t k = 0; k < from->kernel_count; k++) {
    wafer_kernel *kernel = &l->kernels[to->kernel_count++];
    *kernel = from->kernels[k];
    kernel->inputs = shifted(l, kernel->body.input_count, kernel->inputs, values);
    kernel->outputs = shifted(l, kernel->body.output_count, kernel->outputs, values);
    if (!kernel->inputs || !kernel->outputs) return no_memory(l);
  }
  for (uint32_t s = 0; s < from->stream_count; s++) {
    wafer_stream *stream = &l->streams[to->stream_count++];
    *stream = from->streams[s];
    stream->value += values;
    stream->from_kernel = shift(stream->from_kernel, kernels);
    stream->to_kernel = shift(stream->to_kernel, kernels);
  }
  for (uint32_t p = 0; p < from->phase_count; p++)
    WAFER_TRY(link_phase(l, &from->phases[p], values, kernels, streams));
  add_cost(&to->pipelined, &from->pipelined);
  add_cost(&to->streaming, &from->streaming);
  return link_function(l, function, values, phases);
}

/* ---- The plan ---- */

static bool allocate(linking *l) {
  wafer_arena *arena = l->ctx->arena;
  size_t values = l->program->value_count, kernels = 0, streams = 0, phases = 0;
  for (uint32_t i = 0; i < l->program->function_count; i++) {
    const wafer_plan *piece = l->pieces[i];
    if (!piece) continue;
    values += piece->value_count, kernels += piece->kernel_count;
    streams += piece->stream_count, phases += piece->phase_count;
  }
  l->values = WAFER_NEW(arena, wafer_value, values);
  l->kernels = WAFER_NEW(arena, wafer_kernel, kernels);
  l->streams = WAFER_NEW(arena, wafer_stream, streams);
  l->phases = WAFER_NEW(arena, wafer_phase, phases);
  l->functions = WAFER_NEW(arena, wafer_function, l->program->function_count);
  l->weights = wafer_weights_create(arena);
  l->numbers = wafer_ir_map_create(arena);
  return l->values && l->kernels && l->streams && l->phases && l->functions && l->weights &&
         l->numbers;
}

static wafer_status lower_pieces(linking *l) {
  l->pieces = WAFER_NEW(l->ctx->arena, const wafer_plan *, l->program->function_count);
  if (!l->pieces) return no_memory(l);
  for (uint32_t i = 0; i < l->program->function_count; i++)
    if (l->program->pieces[i]) WAFER_TRY(lower_piece(l->ctx, l->program->pieces[i], &l->pieces[i]));
  return WAFER_OK;
}

/* What a plan without any piece says of itself. */
static void start(linking *l) {
  const wafer_options *o = l->ctx->options;
  *l->plan = (wafer_plan){.model = l->ir->model,
                          .producer = "wafer " WAFER_VERSION,
                          .machine = l->ctx->machine,
                          .mode = o && o->mode == WAFER_MODE_pipelined ? WAFER_MODE_pipelined
                                                                       : WAFER_MODE_streaming,
                          .storage = o && o->storage ? o->storage : WAFER_DTYPE_f32,
                          .batch = 1,
                          .stripes = 1,
                          .pipelined = {.fits = true, .why_not = ""},
                          .streaming = {.fits = true, .why_not = ""},
                          .no_programs = "the model has steps of the host",
                          .node_count = l->ir->node_count,
                          .values = l->values,
                          .kernels = l->kernels,
                          .streams = l->streams,
                          .phases = l->phases,
                          .functions = l->functions,
                          .weights = l->weights};
  for (uint32_t i = 0; i < l->program->function_count; i++)
    if (l->pieces[i]) l->plan->mode = l->pieces[i]->mode;
}

/* Until the weights of a piece are there: a pipeline waits for them where another ran on its cores
 * last. */
static uint64_t arrival(const linking *l, uint32_t function) {
  const wafer_plan *piece = l->pieces[function];
  const wafer_machine *m = l->ctx->machine;
  uint64_t words = 0;
  for (uint32_t s = 0; s < piece->stream_count; s++)
    if (piece->streams[s].from.where == WAFER_AT_memoryx) words += piece->streams[s].words;
  return wafer_machine_transfer_cycles(m, words * WAFER_WAVELET_BYTES, m->memoryx_bytes_per_second);
}

/* A call in the mode that was not taken, as its piece was sized. */
static wafer_call estimate(const linking *l, uint32_t function, bool pipelined) {
  const wafer_plan *piece = l->pieces[function];
  if (!piece) return (wafer_call){0};
  if (!pipelined) return (wafer_call){.cycles = piece->streaming.latency_cycles};
  return (wafer_call){.cycles = piece->pipelined.latency_cycles, .load = arrival(l, function)};
}

/* Samples go one by one, each of them the way that takes longest. */
static wafer_status measure(linking *l) {
  wafer_plan *plan = l->plan;
  const bool pipelined = plan->mode == WAFER_MODE_pipelined;
  wafer_mode_cost *cost = pipelined ? &plan->pipelined : &plan->streaming,
                  *other = pipelined ? &plan->streaming : &plan->pipelined;
  wafer_call *calls = WAFER_NEW(l->ctx->arena, wafer_call, plan->function_count);
  wafer_timeline timeline = {0};
  if (!calls) return no_memory(l);
  WAFER_TRY(wafer_timeline_run(l->ctx->diag, plan, 0, 1, &timeline));
  cost->latency_cycles = timeline.latency_cycles;
  cost->interval_cycles = timeline.interval_cycles;
  for (uint32_t i = 0; i < plan->function_count; i++) calls[i] = estimate(l, i, !pipelined);
  wafer_plan_longest_way(plan, 0, NULL, calls);
  other->latency_cycles = wafer_call_latency(&calls[0]);
  other->interval_cycles = wafer_call_interval(&calls[0]);
  return WAFER_OK;
}

wafer_status link_program(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out) {
  linking l = {.ctx = ctx, .ir = ir, .program = ir->program};
  WAFER_TRY(lower_pieces(&l));
  l.plan = WAFER_NEW(ctx->arena, wafer_plan, 1);
  if (!l.plan || !allocate(&l)) return no_memory(&l);
  start(&l);
  WAFER_TRY(link_values(&l, l.program->weights, l.program->value_count, l.program->values));
  for (uint32_t i = 0; i < l.program->function_count; i++) {
    l.functions[i] = l.program->functions[i];
    if (l.pieces[i]) WAFER_TRY(link_piece(&l, i));
  }
  l.plan->function_count = l.program->function_count;
  WAFER_TRY(lower_text(ctx, ir, l.plan));
  WAFER_TRY(lower_check(ctx, ir->file, l.plan, l.phases));
  WAFER_TRY(measure(&l));
  *out = l.plan;
  return WAFER_OK;
}

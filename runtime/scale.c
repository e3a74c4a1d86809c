/* The cost of a training step on many systems: see wafer/scale.h for the law. */
#include "wafer/scale.h"

#include <math.h>
#include <stdlib.h>

static uint64_t depth_of(uint64_t systems, uint64_t fanout) {
  uint64_t depth = 0;
  for (uint64_t reach = 1; reach < systems; reach *= fanout) depth++;
  return depth;
}

uint64_t wafer_scale_parameters(const wafer_plan *plan) {
  uint64_t elements = 0;
  for (uint32_t i = 0; plan->training && i < plan->training->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, plan->training->trained[i].weight);
    elements += w->bytes / wafer_dtype_bytes(w->dtype);
  }
  return elements;
}

/* Gradients travel as f32. */
static uint64_t gradient_bytes(const wafer_plan *plan) {
  return 4 * wafer_scale_parameters(plan);
}

/* ---- One micro-batch ---- */

static bool multiplies_weights(const wafer_plan *plan, const wafer_phase *phase) {
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel_body *body = &plan->kernels[phase->actions[a].index].body;
    if (body->family != WAFER_FAMILY_gemm && body->family != WAFER_FAMILY_conv) continue;
    for (uint32_t i = 0; i < body->input_count; i++)
      if (body->input_is_weight[i]) return true;
  }
  return false;
}

/* Of dense time: a non-zero's wavelet is an index and a value of 16 bits, twice a dense f16. */
static double sparse_share(const wafer_plan *plan, double density) {
  double words = density * (plan->storage == WAFER_DTYPE_f16 ? 2 : 1);
  return words < 1 ? words : 1;
}

wafer_status wafer_scale_micro_batch(const wafer_diag *diag, const wafer_plan *plan, double density,
                                     uint64_t *cycles) {
  if (!plan->training)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_USAGE,
                      "the plan does not train: compile it with --train");
  uint64_t *phases = calloc(plan->phase_count + 1, sizeof *phases);
  if (!phases)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for the timeline");
  wafer_timeline timeline = {.phase_cycles = phases};
  wafer_status status = wafer_timeline_run(diag, plan, 0, 1, &timeline);
  double saved = 0, share = density > 0 && density < 1 ? sparse_share(plan, density) : 1;
  for (uint32_t p = 0; status == WAFER_OK && p < plan->phase_count; p++)
    if (share < 1 && multiplies_weights(plan, &plan->phases[p]))
      saved += (1 - share) * (double)phases[p];
  *cycles = timeline.total_cycles - (uint64_t)saved;
  free(phases);
  return status;
}

/* ---- A step ---- */

void wafer_scale_of(const wafer_plan *plan, const wafer_scale_options *options,
                    uint64_t micro_batch, wafer_scale_step *out) {
  const wafer_machine *m = plan->machine;
  uint64_t gradients = gradient_bytes(plan), servers = options->servers ? options->servers : 1;
  uint64_t state = wafer_scale_parameters(plan) * options->state_bytes;
  *out = (wafer_scale_step){.depth = depth_of(options->systems, m->swarmx_fanout)};
  out->rounds = (options->micro_batches + options->systems - 1) / options->systems;
  out->micro_batch = micro_batch;
  out->system = out->rounds * micro_batch;
  out->sum = 2 * out->depth * m->swarmx_hop_cycles +
             wafer_machine_transfer_cycles(m, gradients, m->swarmx_bytes_per_second);
  out->update = m->memoryx_latency_cycles +
                wafer_machine_transfer_cycles(m, (2 * state + gradients) / servers,
                                              m->memoryx_bytes_per_second);
  out->step = out->system + out->sum + out->update;
  out->seconds = (double)out->step / (double)m->clock_hz;
}

wafer_status wafer_scale_predict(const wafer_diag *diag, const wafer_plan *plan,
                                 const wafer_scale_options *options, wafer_scale_step *out) {
  uint64_t cycles;
  *out = (wafer_scale_step){0};
  WAFER_TRY(wafer_scale_micro_batch(diag, plan, options->density, &cycles));
  wafer_scale_of(plan, options, cycles, out);
  return WAFER_OK;
}

/* ---- The edge, and a core ---- */

static bool is_gradient(const wafer_plan *plan, uint32_t value) {
  return plan->values[value].owner == WAFER_OWNER_gradient;
}

wafer_scale_traffic wafer_scale_edge(const wafer_plan *plan) {
  wafer_scale_traffic t = {0};
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    uint64_t bytes = s->words * WAFER_WAVELET_BYTES;
    if (s->from.where == WAFER_AT_memoryx)
      t.weights += bytes;
    else if (s->from.where == WAFER_AT_edge)
      t.inputs += bytes;
    else if (s->to.where == WAFER_AT_edge && is_gradient(plan, s->value))
      t.gradients += bytes;
    else if (s->to.where == WAFER_AT_edge)
      t.outputs += bytes;
  }
  return t;
}

wafer_scale_core wafer_scale_memory(const wafer_plan *plan) {
  wafer_scale_core c = {.phase = ""};
  for (uint32_t p = 0; p < plan->phase_count; p++) {
    const wafer_phase *phase = &plan->phases[p];
    if (phase->peak_core_bytes <= c.all) continue;
    c = (wafer_scale_core){.phase = phase->name, .all = phase->peak_core_bytes};
    for (uint32_t a = 0; a < phase->action_count; a++) {
      if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
      const wafer_cost *cost = &plan->kernels[phase->actions[a].index].cost;
      if (wafer_cost_bytes(cost) > c.all) continue;
      c.code = cost->code_bytes, c.weights = cost->weight_bytes, c.inputs = cost->input_bytes;
      c.outputs = cost->output_bytes, c.scratch = cost->scratch_bytes;
      c.held = c.all - wafer_cost_bytes(cost);
    }
  }
  return c;
}

uint64_t wafer_scale_held(const wafer_plan *plan) {
  uint64_t most = 0;
  for (uint32_t p = 0; p < plan->phase_count; p++) {
    const wafer_phase *phase = &plan->phases[p];
    uint64_t own = 0;
    for (uint32_t a = 0; a < phase->action_count; a++)
      if (phase->actions[a].kind == WAFER_ACTION_kernel)
        own += wafer_cost_bytes(&plan->kernels[phase->actions[a].index].cost);
    if (own < phase->peak_core_bytes && phase->peak_core_bytes - own > most)
      most = phase->peak_core_bytes - own;
  }
  return most;
}

/* ---- A cluster of processors ---- */

/* A parameter: weight and gradient of 2 bytes, master copy and two moments of 4. */
#define STATE_BYTES 16.0
#define VALUE_BYTES 2.0

wafer_scale_gpu wafer_scale_cluster(double parameters, double activations_per_sample, double layers,
                                    double batch, uint64_t processors, double memory) {
  double n = (double)processors, p = parameters, lt = activations_per_sample, b = batch;
  double t = layers > 0 ? lt / layers : lt, left = n > 1 ? (n - 1) / n : 0;
  double micro_batches = n > 1 ? n : 1; /* as many as stages: half of the pipe is filled */
  wafer_scale_gpu g = {.processors = processors};
  g.data_memory = STATE_BYTES * p + VALUE_BYTES * lt * b / n;
  g.pipeline_memory = STATE_BYTES * p / n + VALUE_BYTES * (lt / n) * (b / micro_batches) * n;
  g.tensor_memory = STATE_BYTES * p / n + VALUE_BYTES * lt * b / n;
  g.data_bytes = VALUE_BYTES * 2 * p * left;
  g.pipeline_bytes = VALUE_BYTES * 2 * t * b;
  g.tensor_bytes = VALUE_BYTES * 8 * lt * b * left;
  g.data_fits = g.data_memory <= memory;
  g.pipeline_fits = g.pipeline_memory <= memory;
  g.tensor_fits = processors <= 8 && g.tensor_memory <= memory;
  return g;
}

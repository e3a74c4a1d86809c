/* The cost of a training step on many systems: see wafer/scale.h for the law. */
#include "wafer/scale.h"

#include <stdlib.h>
#include <string.h>

#include "wafer/step_clock.h"

static uint64_t elements_of(const wafer_weight *w) {
  return w->bytes / wafer_dtype_bytes(w->dtype);
}

uint64_t wafer_scale_parameters(const wafer_plan *plan) {
  uint64_t elements = 0;
  for (uint32_t i = 0; plan->training && i < plan->training->trained_count; i++)
    if (!plan->training->trained[i].statistic)
      elements += elements_of(wafer_weights_at(plan->weights, plan->training->trained[i].weight));
  return elements;
}

bool wafer_scale_recomputes(const wafer_plan *plan) {
  static const char again[] = ".again"; /* passes/grad/grad_recompute.c */
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t i = 0; i < plan->kernels[k].body.node_count; i++) {
      const char *name = plan->kernels[k].body.nodes[i].name;
      size_t length = strlen(name), tail = strlen(again);
      if (length > tail && !strcmp(name + length - tail, again)) return true;
    }
  return false;
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

/* Gradients travel as f32. */
static uint64_t sum_bytes(const wafer_weight *w) {
  const wafer_type type = {WAFER_DTYPE_f32, w->shape};
  if (!w->sparse) return 4 * elements_of(w);
  return wafer_sparse_words(&type, WAFER_DTYPE_f32, w->nonzeros) * WAFER_WAVELET_BYTES;
}

static int by_left(const void *a, const void *b) {
  const wafer_scale_gradient *x = a, *y = b;
  return (x->left > y->left) - (x->left < y->left);
}

static uint64_t output_of(const wafer_plan *plan, const uint64_t *cycles, uint32_t value) {
  const wafer_function *f = &plan->functions[0];
  for (uint32_t i = 0; i < f->output_count; i++)
    if (f->outputs[i] == value) return cycles[i];
  return 0;
}

/* Moments shrink with the whole where sparsity makes it shorter. */
static wafer_status list_gradients(const wafer_diag *diag, wafer_arena *arena,
                                   const wafer_plan *plan, const wafer_timeline *t,
                                   wafer_scale_pass *out) {
  const wafer_training *training = plan->training;
  double share = t->total_cycles ? (double)out->cycles / (double)t->total_cycles : 1;
  wafer_scale_gradient *made = WAFER_NEW(arena, wafer_scale_gradient, training->trained_count);
  if (!made) return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "out of memory");
  for (uint32_t i = 0; i < training->trained_count; i++) {
    const wafer_trained *one = &training->trained[i];
    const wafer_weight *w = wafer_weights_at(plan->weights, one->weight);
    uint64_t left = output_of(plan, t->output_cycles, one->gradient);
    made[i] = (wafer_scale_gradient){(uint64_t)(share * (double)left),
                                     (uint64_t)(share * (double)t->weight_cycles[one->weight]),
                                     elements_of(w), sum_bytes(w)};
  }
  qsort(made, training->trained_count, sizeof *made, by_left);
  out->count = training->trained_count;
  out->gradients = made;
  return WAFER_OK;
}

wafer_status wafer_scale_micro_batch(const wafer_diag *diag, wafer_arena *arena,
                                     const wafer_plan *plan, double density,
                                     wafer_scale_pass *out) {
  if (!plan->training)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_USAGE,
                      "the plan does not train: compile it with --train");
  wafer_timeline t = {.phase_cycles = WAFER_NEW(arena, uint64_t, plan->phase_count),
                      .output_cycles = WAFER_NEW(arena, uint64_t, plan->functions[0].output_count),
                      .weight_cycles =
                          WAFER_NEW(arena, uint64_t, wafer_weights_count(plan->weights))};
  if (!t.phase_cycles || !t.output_cycles || !t.weight_cycles)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for the timeline");
  WAFER_TRY(wafer_timeline_run(diag, plan, 0, 1, &t));
  double saved = 0, share = density > 0 && density < 1 ? sparse_share(plan, density) : 1;
  for (uint32_t p = 0; p < plan->phase_count; p++)
    if (share < 1 && multiplies_weights(plan, &plan->phases[p]))
      saved += (1 - share) * (double)t.phase_cycles[p];
  *out = (wafer_scale_pass){.cycles = t.total_cycles - (uint64_t)saved};
  return list_gradients(diag, arena, plan, &t, out);
}

/* ---- A step ---- */

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* When the last sum is in MemoryX, and when the last update is done, from the beginning of the last
 * micro-batch. */
static void tail(const wafer_machine *m, const wafer_scale_options *o, const wafer_scale_pass *pass,
                 uint64_t hops, uint64_t *summed, uint64_t *updated, wafer_scale_step *out) {
  uint64_t servers = o->servers ? o->servers : 1, latency = m->memoryx_latency_cycles;
  uint64_t sum = 0, end = 0;
  for (uint32_t i = 0; i < pass->count; i++) {
    const wafer_scale_gradient *g = &pass->gradients[i];
    uint64_t on_link = wafer_machine_transfer_cycles(m, g->bytes, m->swarmx_bytes_per_second);
    uint64_t bytes = (2 * g->elements * o->state_bytes + g->bytes) / servers;
    uint64_t on_server = wafer_machine_transfer_cycles(m, bytes, m->memoryx_bytes_per_second);
    sum = later(sum, g->left) + on_link;
    end = later(end, later(sum + hops + latency, g->read)) + on_server;
    out->sum_work += on_link;
    out->update_work += on_server;
  }
  *summed = later(pass->count ? sum + hops : 0, pass->cycles);
  *updated = o->waits ? *summed + 3 * latency + out->update_work : later(end, *summed);
}

void wafer_scale_of(const wafer_machine *m, const wafer_scale_options *options,
                    const wafer_scale_pass *pass, wafer_scale_step *out) {
  uint64_t summed, updated;
  *out = (wafer_scale_step){.depth = wafer_swarmx_depth(m, options->systems),
                            .micro_batch = pass->cycles};
  uint64_t hops = out->depth * m->swarmx_hop_cycles;
  out->rounds = (options->micro_batches + options->systems - 1) / options->systems;
  tail(m, options, pass, hops, &summed, &updated, out);
  out->system = hops + out->rounds * pass->cycles;
  out->sum = summed - pass->cycles;
  out->update = updated - summed;
  out->step = out->system + out->sum + out->update;
  out->seconds = (double)out->step / (double)m->clock_hz;
}

wafer_status wafer_scale_predict(const wafer_diag *diag, const wafer_plan *plan,
                                 const wafer_scale_options *options, wafer_scale_step *out) {
  wafer_scale_pass pass;
  wafer_arena *arena = wafer_arena_create();
  *out = (wafer_scale_step){0};
  wafer_status status =
      arena ? wafer_scale_micro_batch(diag, arena, plan, options->density, &pass)
            : wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "out of memory");
  if (status == WAFER_OK) wafer_scale_of(plan->machine, options, &pass, out);
  wafer_arena_destroy(arena);
  return status;
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

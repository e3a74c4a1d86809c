/* The timeline of a plan: of its first function, or of functions of the host that call those of the
 * wafer. */
#include <stdlib.h>
#include <string.h>

#include "timeline.h"

/* Cycles until the weights of a pipeline's `load` steps are there: each call brings them anew,
 * since other functions ran on the same cores in between. */
static uint64_t load_cycles(const wafer_plan *plan, const wafer_function *f) {
  uint64_t bytes = 0;
  if (plan->mode != WAFER_MODE_pipelined) return 0;
  for (uint32_t i = 0; i < f->step_count; i++) {
    if (f->steps[i].kind != WAFER_STEP_load) continue;
    const wafer_phase *phase = &plan->phases[f->steps[i].phase];
    for (uint32_t a = 0; a < phase->action_count; a++) {
      const wafer_stream *s = &plan->streams[phase->actions[a].index];
      if (phase->actions[a].kind == WAFER_ACTION_stream && s->from.where == WAFER_AT_memoryx)
        bytes += s->words * WAFER_WAVELET_BYTES;
    }
  }
  return wafer_machine_transfer_cycles(plan->machine, bytes,
                                       plan->machine->memoryx_bytes_per_second);
}

static uint64_t step_cycles(const wafer_step *s, const uint64_t *of) {
  uint64_t cycles = 0;
  for (uint32_t i = 0; i < s->body_count; i++)
    cycles = of[s->bodies[i]] > cycles ? of[s->bodies[i]] : cycles;
  return cycles;
}

/* From the last function to the first, since calls go to larger indices. */
static wafer_status time_functions(const wafer_diag *diag, const wafer_plan *plan,
                                   uint32_t function, wafer_timeline *out, uint64_t *of) {
  for (uint32_t i = plan->function_count; i-- > function;) {
    const wafer_function *f = &plan->functions[i];
    wafer_timeline one = {.kernel_busy = out->kernel_busy, .phase_cycles = out->phase_cycles};
    if (f->step_count && !wafer_function_on_host(f)) {
      WAFER_TRY(timeline_unit(diag, plan, i, 1, &one));
      of[i] = one.total_cycles + load_cycles(plan, f);
      continue;
    }
    for (uint32_t s = 0; s < f->step_count; s++)
      if (__builtin_add_overflow(of[i], step_cycles(&f->steps[s], of), &of[i])) of[i] = UINT64_MAX;
  }
  return WAFER_OK;
}

static wafer_status run_host(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                             uint64_t samples, wafer_timeline *out) {
  uint64_t *of = calloc(plan->function_count, sizeof *of);
  if (!of)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for the timeline");
  wafer_status status = time_functions(diag, plan, function, out, of);
  out->latency_cycles = out->interval_cycles = of[function];
  if (__builtin_mul_overflow(of[function], samples, &out->total_cycles))
    out->total_cycles = UINT64_MAX;
  for (uint64_t s = 0; out->finish && s < samples; s++) out->finish[s] = of[function] * (s + 1);
  free(of);
  return status;
}

static void clear(const wafer_plan *plan, const wafer_function *f, uint64_t samples,
                  wafer_timeline *t) {
  t->latency_cycles = t->interval_cycles = t->total_cycles = 0;
  if (t->kernel_busy) memset(t->kernel_busy, 0, plan->kernel_count * sizeof *t->kernel_busy);
  if (t->phase_cycles) memset(t->phase_cycles, 0, plan->phase_count * sizeof *t->phase_cycles);
  if (t->finish) memset(t->finish, 0, samples * sizeof *t->finish);
  if (t->output_cycles) memset(t->output_cycles, 0, f->output_count * sizeof *t->output_cycles);
  if (t->weight_cycles)
    memset(t->weight_cycles, 0, wafer_weights_count(plan->weights) * sizeof *t->weight_cycles);
}

wafer_status wafer_timeline_run(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                                uint64_t samples, wafer_timeline *timeline) {
  clear(plan, &plan->functions[function], samples, timeline);
  if (wafer_function_on_host(&plan->functions[function]))
    return run_host(diag, plan, function, samples, timeline);
  return timeline_bands(diag, plan, function, samples, timeline);
}

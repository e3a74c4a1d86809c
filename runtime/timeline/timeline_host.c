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

/* Of what a step may call the one that takes longest, the first of equals; WAFER_NONE: it calls
 * nothing. */
static uint32_t longest_of(const wafer_step *s, const uint64_t *cycles) {
  uint32_t longest = s->body_count ? s->bodies[0] : WAFER_NONE;
  for (uint32_t i = 1; i < s->body_count; i++)
    if (cycles[s->bodies[i]] > cycles[longest]) longest = s->bodies[i];
  return longest;
}

static void add(uint64_t *to, uint64_t more) {
  if (__builtin_add_overflow(*to, more, to)) *to = UINT64_MAX;
}

/* Calls go to larger indices. */
void wafer_plan_longest_way(const wafer_plan *plan, uint32_t function, uint64_t *cycles,
                            uint64_t *calls) {
  for (uint32_t i = plan->function_count; i-- > function;) {
    const wafer_function *f = &plan->functions[i];
    if (f->step_count && !wafer_function_on_host(f)) continue;
    cycles[i] = 0;
    for (uint32_t s = 0; s < f->step_count; s++) {
      uint32_t body = longest_of(&f->steps[s], cycles);
      if (body != WAFER_NONE) add(&cycles[i], cycles[body]);
    }
  }
  if (!calls) return;
  memset(calls, 0, plan->function_count * sizeof *calls);
  calls[function] = 1;
  for (uint32_t i = function; i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    for (uint32_t s = 0; calls[i] && wafer_function_on_host(f) && s < f->step_count; s++) {
      uint32_t body = longest_of(&f->steps[s], cycles);
      if (body != WAFER_NONE) add(&calls[body], calls[i]);
    }
  }
}

static wafer_status time_functions(const wafer_diag *diag, const wafer_plan *plan,
                                   uint32_t function, wafer_timeline *out, uint64_t *of) {
  for (uint32_t i = function; i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    wafer_timeline one = {.kernel_busy = out->kernel_busy, .phase_cycles = out->phase_cycles};
    if (!f->step_count || wafer_function_on_host(f)) continue;
    WAFER_TRY(timeline_unit(diag, plan, i, 1, &one));
    of[i] = one.total_cycles + load_cycles(plan, f);
  }
  wafer_plan_longest_way(plan, function, of, NULL);
  return WAFER_OK;
}

wafer_status wafer_plan_function_cycles(const wafer_diag *diag, const wafer_plan *plan,
                                        uint64_t *cycles, uint64_t *calls) {
  wafer_timeline none = {0};
  WAFER_TRY(time_functions(diag, plan, 0, &none, cycles));
  wafer_plan_longest_way(plan, 0, cycles, calls);
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

/* The timeline of a plan: of its first function, or of functions of the host that call those of the
 * wafer. */
#include <stdlib.h>
#include <string.h>

#include "timeline.h"

uint64_t wafer_plan_load_cycles(const wafer_plan *plan, const wafer_function *f) {
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

static void add(uint64_t *to, uint64_t more) {
  if (__builtin_add_overflow(*to, more, to)) *to = UINT64_MAX;
}

static uint64_t times(uint64_t a, uint64_t b) {
  uint64_t all;
  return __builtin_mul_overflow(a, b, &all) ? UINT64_MAX : all;
}

uint64_t wafer_call_latency(const wafer_call *call) {
  uint64_t all = call->cycles;
  add(&all, call->load);
  return all;
}

uint64_t wafer_call_interval(const wafer_call *call) {
  return call->first == call->last ? call->cycles : wafer_call_latency(call);
}

/* Of what a step may call the one that takes longest, the first of equals; WAFER_NONE: it calls
 * nothing. */
static uint32_t longest_of(const wafer_step *s, const wafer_call *calls) {
  uint32_t longest = s->body_count ? s->bodies[0] : WAFER_NONE;
  for (uint32_t i = 1; i < s->body_count; i++)
    if (wafer_call_latency(&calls[s->bodies[i]]) > wafer_call_latency(&calls[longest]))
      longest = s->bodies[i];
  return longest;
}

/* What a function of the host takes, those that it calls being known. */
static wafer_call join(const wafer_function *f, const wafer_call *calls) {
  wafer_call all = {.first = WAFER_NONE, .last = WAFER_NONE};
  for (uint32_t s = 0; s < f->step_count; s++) {
    uint32_t body = longest_of(&f->steps[s], calls);
    const wafer_call *c = body == WAFER_NONE ? NULL : &calls[body];
    if (!c || c->first == WAFER_NONE) continue;
    add(&all.cycles, c->cycles);
    if (all.first == WAFER_NONE) {
      all.first = c->first;
      all.load = c->load;
    } else if (all.last != c->first) {
      add(&all.cycles, c->load);
    }
    all.last = c->last;
  }
  return all;
}

/* Adds the calls of a function of the host, itself called so often, and of these the loads but for
 * that of the first, which its caller knows of. */
static void count(const wafer_function *f, uint64_t called, wafer_call *calls) {
  uint32_t last = WAFER_NONE;
  for (uint32_t s = 0; called && s < f->step_count; s++) {
    uint32_t body = longest_of(&f->steps[s], calls);
    if (body == WAFER_NONE) continue;
    add(&calls[body].calls, called);
    if (calls[body].first == WAFER_NONE) continue;
    if (last != WAFER_NONE && last != calls[body].first)
      add(&calls[calls[body].first].loads, called);
    last = calls[body].last;
  }
}

/* Calls go to larger indices. */
void wafer_plan_longest_way(const wafer_plan *plan, uint32_t function, wafer_call *calls) {
  for (uint32_t i = plan->function_count; i-- > function;) {
    if (wafer_function_on_wafer(&plan->functions[i]))
      calls[i] =
          (wafer_call){.cycles = calls[i].cycles, .load = calls[i].load, .first = i, .last = i};
    else
      calls[i] = join(&plan->functions[i], calls);
  }
  const wafer_call *whole = &calls[function];
  calls[function].calls = 1;
  if (whole->first != whole->last) calls[whole->first].loads = 1;
  for (uint32_t i = function; i < plan->function_count; i++)
    if (!wafer_function_on_wafer(&plan->functions[i]))
      count(&plan->functions[i], calls[i].calls, calls);
}

static wafer_status time_functions(const wafer_diag *diag, const wafer_plan *plan,
                                   uint32_t function, wafer_timeline *out, wafer_call *calls) {
  for (uint32_t i = function; i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    wafer_timeline one = {.kernel_busy = out->kernel_busy, .phase_cycles = out->phase_cycles};
    if (!wafer_function_on_wafer(f)) continue;
    WAFER_TRY(timeline_unit(diag, plan, i, 1, &one));
    calls[i] = (wafer_call){.cycles = one.total_cycles, .load = wafer_plan_load_cycles(plan, f)};
  }
  wafer_plan_longest_way(plan, function, calls);
  return WAFER_OK;
}

wafer_status wafer_plan_calls(const wafer_diag *diag, const wafer_plan *plan, wafer_call *calls) {
  wafer_timeline none = {0};
  return time_functions(diag, plan, 0, &none, calls);
}

/* The first sample waits for its weights, later ones where others' are there. */
static void follow_samples(const wafer_call *one, uint64_t samples, wafer_timeline *out) {
  out->latency_cycles = wafer_call_latency(one);
  out->interval_cycles = wafer_call_interval(one);
  out->total_cycles = samples ? times(samples - 1, out->interval_cycles) : 0;
  if (samples) add(&out->total_cycles, out->latency_cycles);
  for (uint64_t s = 0; out->finish && s < samples; s++) {
    out->finish[s] = times(s, out->interval_cycles);
    add(&out->finish[s], out->latency_cycles);
  }
}

static wafer_status run_host(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                             uint64_t samples, wafer_timeline *out) {
  wafer_call *calls = calloc(plan->function_count, sizeof *calls);
  if (!calls)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for the timeline");
  wafer_status status = time_functions(diag, plan, function, out, calls);
  if (status == WAFER_OK) follow_samples(&calls[function], samples, out);
  free(calls);
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

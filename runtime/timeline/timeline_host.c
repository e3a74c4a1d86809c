/* The timeline of a plan: of its first function, or of functions of the host that call those of the
 * wafer. */
#include <string.h>

#include "timeline.h"

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
  uint64_t all = call->cycles;
  add(&all, call->again);
  return all;
}

/* ---- The way that takes longest ---- */

typedef struct way {
  const wafer_plan *plan;
  const wafer_loads *loads;
  wafer_call *calls;
} way;

/* What a function of the wafer waits for behind another, or behind itself. */
static uint64_t load_behind(const way *w, uint32_t function, uint32_t last) {
  if (w->loads) return wafer_loads_cycles(w->loads, function, last);
  return function == last ? 0 : w->calls[function].load;
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
static wafer_call join(const way *w, const wafer_function *f) {
  wafer_call all = {.first = WAFER_NONE, .last = WAFER_NONE};
  for (uint32_t s = 0; s < f->step_count; s++) {
    uint32_t body = longest_of(&f->steps[s], w->calls);
    const wafer_call *c = body == WAFER_NONE ? NULL : &w->calls[body];
    if (!c || c->first == WAFER_NONE) continue;
    add(&all.cycles, c->cycles);
    if (all.first == WAFER_NONE) {
      all.first = c->first;
      all.load = c->load;
    } else {
      add(&all.cycles, load_behind(w, c->first, all.last));
    }
    all.last = c->last;
  }
  if (all.first != WAFER_NONE) all.again = load_behind(w, all.first, all.last);
  return all;
}

static void wait_for_weights(const way *w, uint32_t function, uint32_t last, uint64_t called) {
  const uint64_t load = load_behind(w, function, last);
  wafer_call *c = &w->calls[function];
  if (load) add(&c->loads, called);
  add(&c->waits, times(load, called));
}

/* Adds the calls of a function of the host, itself called so often, and what these wait for but for
 * the first, which its caller knows of. */
static void count(const way *w, const wafer_function *f, uint64_t called) {
  uint32_t last = WAFER_NONE;
  for (uint32_t s = 0; called && s < f->step_count; s++) {
    uint32_t body = longest_of(&f->steps[s], w->calls);
    if (body == WAFER_NONE) continue;
    wafer_call *c = &w->calls[body];
    add(&c->calls, called);
    if (c->first == WAFER_NONE) continue;
    if (last != WAFER_NONE) wait_for_weights(w, c->first, last, called);
    last = c->last;
  }
}

/* Calls go to larger indices. */
void wafer_plan_longest_way(const wafer_plan *plan, uint32_t function, const wafer_loads *loads,
                            wafer_call *calls) {
  const way w = {plan, loads, calls};
  for (uint32_t i = plan->function_count; i-- > function;) {
    if (wafer_function_on_wafer(&plan->functions[i]))
      calls[i] = (wafer_call){.cycles = calls[i].cycles,
                              .load = calls[i].load,
                              .again = load_behind(&w, i, i),
                              .first = i,
                              .last = i};
    else
      calls[i] = join(&w, &plan->functions[i]);
  }
  const wafer_call *whole = &calls[function];
  calls[function].calls = 1;
  if (whole->first != WAFER_NONE) wait_for_weights(&w, whole->first, whole->last, 1);
  for (uint32_t i = function; i < plan->function_count; i++)
    if (!wafer_function_on_wafer(&plan->functions[i]))
      count(&w, &plan->functions[i], calls[i].calls);
}

static wafer_status time_functions(const wafer_diag *diag, const wafer_plan *plan,
                                   uint32_t function, const wafer_loads *loads, wafer_timeline *out,
                                   wafer_call *calls) {
  for (uint32_t i = function; i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    wafer_timeline one = {.kernel_busy = out->kernel_busy, .phase_cycles = out->phase_cycles};
    if (!wafer_function_on_wafer(f)) continue;
    WAFER_TRY(timeline_unit(diag, plan, i, 1, &one));
    calls[i] =
        (wafer_call){.cycles = one.total_cycles, .load = wafer_loads_cycles(loads, i, WAFER_NONE)};
  }
  wafer_plan_longest_way(plan, function, loads, calls);
  return WAFER_OK;
}

wafer_status wafer_plan_calls(const wafer_diag *diag, const wafer_plan *plan,
                              const wafer_loads *loads, wafer_call *calls) {
  wafer_timeline none = {0};
  return time_functions(diag, plan, 0, loads, &none, calls);
}

/* The first sample waits for all weights, later ones for those that are not there any more. */
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
  wafer_arena *arena = wafer_arena_create();
  wafer_call *calls = arena ? WAFER_NEW(arena, wafer_call, plan->function_count) : NULL;
  const wafer_loads *loads = calls ? wafer_loads_of(arena, plan) : NULL;
  wafer_status status = loads ? time_functions(diag, plan, function, loads, out, calls)
                              : wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                                           "no memory left for the timeline");
  if (status == WAFER_OK) follow_samples(&calls[function], samples, out);
  wafer_arena_destroy(arena);
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

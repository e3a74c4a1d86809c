/* Where a plan has functions of the host, a sample goes through some of those of the wafer: figures
 * are of the way that takes longest, through one size of a dim and one branch of each `if`, with a
 * loop's body once. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

static void own_action(const wafer_plan *plan, const wafer_action *a, uint32_t function,
                       report_way *w) {
  if (a->kind == WAFER_ACTION_kernel)
    w->of_kernel[a->index] = function;
  else if (plan->streams[a->index].from.where == WAFER_AT_memoryx)
    w->of_weight[plan->streams[a->index].value] = function;
}

/* Functions of the wafer share nothing. */
static void find_owners(const wafer_plan *plan, report_way *w) {
  for (uint32_t i = 0; i < plan->value_count; i++) w->of_weight[i] = WAFER_NONE;
  for (uint32_t i = 0; i < plan->kernel_count; i++) w->of_kernel[i] = WAFER_NONE;
  for (uint32_t i = 0; i < plan->function_count; i++) {
    const wafer_function *f = &plan->functions[i];
    for (uint32_t s = 0; wafer_function_on_wafer(f) && s < f->step_count; s++) {
      const wafer_phase *phase = &plan->phases[f->steps[s].phase];
      for (uint32_t a = 0; a < phase->action_count; a++) own_action(plan, &phase->actions[a], i, w);
    }
  }
}

static void find_behind(const wafer_plan *plan, const wafer_loads *loads, report_way *w) {
  for (uint32_t i = 0; i < plan->function_count; i++)
    for (uint32_t last = 0; last < plan->function_count; last++) {
      if (i == last || !wafer_function_on_wafer(&plan->functions[last])) continue;
      const uint64_t cycles = wafer_loads_cycles(loads, i, last);
      if (w->behind[i] < cycles) w->behind[i] = cycles;
    }
}

static wafer_status find_calls(const wafer_diag *diag, const wafer_plan *plan, report_way *w) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_loads *loads = arena ? wafer_loads_of(arena, plan) : NULL;
  wafer_status status = loads ? wafer_plan_calls(diag, plan, loads, w->calls)
                              : wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                                           "no memory for a report");
  if (loads) find_behind(plan, loads, w);
  wafer_arena_destroy(arena);
  return status;
}

wafer_status report_way_find(const wafer_diag *diag, const wafer_plan *plan, report_way *out) {
  const uint32_t functions = plan->function_count;
  *out = (report_way){.several = wafer_function_on_host(&plan->functions[0]),
                      .calls = calloc(functions, sizeof *out->calls),
                      .behind = calloc(functions, sizeof *out->behind),
                      .of_kernel = calloc((size_t)plan->kernel_count + 1, sizeof *out->of_kernel),
                      .of_weight = calloc((size_t)plan->value_count + 1, sizeof *out->of_weight)};
  if (!out->calls || !out->behind || !out->of_kernel || !out->of_weight) {
    report_way_drop(out);
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "no memory for a report");
  }
  out->calls[0].calls = 1;
  if (!out->several) return WAFER_OK;
  find_owners(plan, out);
  wafer_status status = find_calls(diag, plan, out);
  for (uint32_t i = 0; i < functions; i++) /* those of the host take nothing by themselves */
    if (!wafer_function_on_wafer(&plan->functions[i])) out->calls[i].calls = 0;
  if (status != WAFER_OK) report_way_drop(out);
  return status;
}

void report_way_drop(report_way *w) {
  free(w->calls);
  free(w->behind);
  free(w->of_kernel);
  free(w->of_weight);
  *w = (report_way){0};
}

uint64_t report_way_kernel(const report_way *w, uint32_t kernel) {
  return w->of_kernel[kernel] == WAFER_NONE ? 0 : w->calls[w->of_kernel[kernel]].calls;
}

uint64_t report_way_spent(const report_way *w, uint32_t function) {
  const wafer_call *c = &w->calls[function];
  return c->calls * c->cycles + c->waits;
}

uint32_t report_way_longest(const report_way *w, uint32_t functions) {
  uint32_t longest = 0;
  for (uint32_t i = 1; i < functions; i++)
    if (report_way_spent(w, i) > report_way_spent(w, longest)) longest = i;
  return longest;
}

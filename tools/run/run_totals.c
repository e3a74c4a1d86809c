/* What the steps of a run have taken together. */
#include <string.h>

#include "run.h"

wafer_status run_totals_begin(const wafer_plan *plan, wafer_arena *arena, uint64_t steps,
                              run_totals *out) {
  *out = (run_totals){.plan = plan,
                      .kernel_busy = WAFER_NEW(arena, uint64_t, plan->kernel_count),
                      .phase_cycles = WAFER_NEW(arena, uint64_t, plan->phase_count),
                      .kernel_load = WAFER_NEW(arena, wafer_load, plan->kernel_count),
                      .phase_load = WAFER_NEW(arena, wafer_load, plan->phase_count),
                      .step_cycles = WAFER_NEW(arena, uint64_t, steps)};
  bool made = out->kernel_busy && out->phase_cycles && out->kernel_load && out->phase_load &&
              out->step_cycles;
  return made ? WAFER_OK : cli_no_memory();
}

static void add_cycles(uint64_t *to, const uint64_t *from, uint32_t count) {
  for (uint32_t i = 0; from && i < count; i++) to[i] += from[i];
}

static void add_load(wafer_load *to, const wafer_load *from, uint32_t count) {
  for (uint32_t i = 0; from && i < count; i++) {
    to[i].core_cycles += from[i].core_cycles;
    to[i].wavelets += from[i].wavelets;
  }
}

/* Sums; of all else the first step tells, as of a train the first sample does. */
void run_totals_add(run_totals *t, const wafer_run_stats *step) {
  wafer_run_stats *sum = &t->stats;
  t->step_cycles[t->steps] = step->total_cycles;
  if (t->steps++ == 0) {
    *sum = *step;
    sum->samples = sum->total_cycles = 0;
    sum->all = (wafer_load){0};
  }
  sum->samples += step->samples;
  sum->total_cycles += step->total_cycles;
  sum->interval_cycles = sum->total_cycles / (sum->samples ? sum->samples : 1);
  if (step->peak_bytes > sum->peak_bytes) sum->peak_bytes = step->peak_bytes;
  add_load(&sum->all, &step->all, 1);
  add_cycles(t->kernel_busy, step->kernel_busy, t->plan->kernel_count);
  add_cycles(t->phase_cycles, step->phase_cycles, t->plan->phase_count);
  add_load(t->kernel_load, step->kernel_load, t->plan->kernel_count);
  add_load(t->phase_load, step->phase_load, t->plan->phase_count);
  sum->kernel_busy = step->kernel_busy ? t->kernel_busy : NULL;
  sum->phase_cycles = step->phase_cycles ? t->phase_cycles : NULL;
  sum->kernel_load = step->kernel_load ? t->kernel_load : NULL;
  sum->phase_load = step->phase_load ? t->phase_load : NULL;
}

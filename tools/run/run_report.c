/* The JSON report of `wafer run`: docs/report.schema.json, version 1. */
#include <cjson/cJSON.h>

#include "run.h"

double run_median(const double *ms, size_t count) {
  return count % 2 ? ms[count / 2] : (ms[count / 2 - 1] + ms[count / 2]) / 2;
}

static void add_times(cJSON *root, const double *ms, size_t count) {
  if (!count) return;
  cJSON_AddNumberToObject(root, "median_ms", run_median(ms, count));
  cJSON_AddNumberToObject(root, "least_ms", ms[0]);
  cJSON_AddNumberToObject(root, "most_ms", ms[count - 1]);
  cJSON_AddNumberToObject(root, "repeats", (double)count);
}

/* What cores and links did of what so many of them could in so many cycles. */
static void add_load(cJSON *to, const wafer_load *load, double cores, double cycles) {
  double could = cores * cycles > 0 ? cores * cycles : 1;
  cJSON_AddNumberToObject(to, "core_cycles", (double)load->core_cycles);
  cJSON_AddNumberToObject(to, "core_utilization_fraction", (double)load->core_cycles / could);
  cJSON_AddNumberToObject(to, "link_wavelets", (double)load->wavelets);
  cJSON_AddNumberToObject(to, "link_utilization_fraction",
                          (double)load->wavelets / (WAFER_LINKS * could));
}

/* Cycles in which a kernel's cores of one stripe are at work: in streaming a round of bands and
 * stripes that is not full, as that of a step is, is filled up, with what is no sample. */
static double busy_of(const wafer_plan *plan, const run_totals *totals, uint32_t kernel) {
  const wafer_run_stats *stats = &totals->stats;
  uint64_t copies = (uint64_t)wafer_machine_bands(plan->machine) * plan->stripes;
  uint64_t filled = (stats->samples + copies - 1) / copies * copies;
  if (totals->steps) filled = totals->steps * copies;
  return (double)stats->kernel_busy[kernel] * (double)filled /
         (double)(stats->samples ? stats->samples : 1);
}

static void add_kernels(cJSON *root, const wafer_plan *plan, const run_totals *totals) {
  const wafer_run_stats *stats = &totals->stats;
  cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
  bool pipelined = plan->mode == WAFER_MODE_pipelined; /* cores have their kernel all the time */
  for (uint32_t i = 0; stats->kernel_busy && i < plan->kernel_count; i++) {
    const wafer_kernel *kernel = &plan->kernels[i];
    double cycles = pipelined ? (double)stats->total_cycles : busy_of(plan, totals, i);
    cJSON *k = cJSON_CreateObject();
    cJSON_AddItemToArray(kernels, k);
    cJSON_AddStringToObject(k, "name", kernel->name);
    cJSON_AddNumberToObject(k, "cycles", (double)wafer_kernel_cycles(kernel));
    cJSON_AddNumberToObject(k, "busy_cycles", (double)stats->kernel_busy[i]);
    if (stats->kernel_load)
      add_load(k, &stats->kernel_load[i], (double)wafer_rect_area(kernel->rect), cycles);
  }
}

static double usable_cores(const wafer_machine *m) {
  return (double)wafer_rect_area(m->usable) - m->dead_count;
}

/* Of steps one after the other: how many, and what each took. */
static void add_steps(cJSON *root, const run_totals *totals) {
  if (!totals->steps) return;
  cJSON_AddNumberToObject(root, "steps", (double)totals->steps);
  cJSON *list = cJSON_AddArrayToObject(root, "step_cycles");
  for (uint64_t i = 0; i < totals->steps; i++)
    cJSON_AddItemToArray(list, cJSON_CreateNumber((double)totals->step_cycles[i]));
}

static void add_cycles(cJSON *root, const wafer_plan *plan, const run_totals *totals) {
  const wafer_run_stats *stats = &totals->stats;
  double cores = usable_cores(wafer_machine_whole(plan->machine));
  cJSON_AddNumberToObject(root, "latency_cycles", (double)stats->latency_cycles);
  cJSON_AddNumberToObject(root, "interval_cycles", (double)stats->interval_cycles);
  cJSON_AddNumberToObject(root, "total_cycles", (double)stats->total_cycles);
  double interval = stats->interval_cycles ? (double)stats->interval_cycles : 1;
  cJSON_AddNumberToObject(root, "samples_per_s", (double)plan->machine->clock_hz / interval);
  if (stats->kernel_load) add_load(root, &stats->all, cores, (double)stats->total_cycles);
  add_kernels(root, plan, totals);
  cJSON *phases = cJSON_AddArrayToObject(root, "phases");
  for (uint32_t i = 0; stats->phase_cycles && i < plan->phase_count; i++) {
    cJSON *p = cJSON_CreateObject();
    cJSON_AddItemToArray(phases, p);
    cJSON_AddStringToObject(p, "name", plan->phases[i].name);
    cJSON_AddNumberToObject(p, "cycles", (double)stats->phase_cycles[i]);
    if (stats->phase_load)
      add_load(p, &stats->phase_load[i], cores, (double)stats->phase_cycles[i]);
  }
}

static void add_differences(cJSON *root, const wafer_plan *plan,
                            const run_difference *differences) {
  cJSON *list = cJSON_AddArrayToObject(root, "differences");
  for (uint32_t i = 0; i < plan->functions[0].output_count; i++) {
    const run_difference *d = &differences[i];
    if (!d->name) continue;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(list, o);
    cJSON_AddStringToObject(o, "output", d->name);
    cJSON_AddBoolToObject(o, "within", d->within);
    cJSON_AddNumberToObject(o, "largest_difference", d->largest);
    cJSON_AddNumberToObject(o, "largest_reference", d->largest_reference);
  }
}

char *run_report_json(const run_arguments *a, const wafer_plan *plan, const run_totals *totals,
                      const double *ms, size_t ms_count, const run_difference *differences) {
  const wafer_run_stats *stats = &totals->stats;
  cJSON *root = cJSON_CreateObject();
  if (!root) return NULL;
  cJSON_AddStringToObject(root, "schema", "wafer-report-1");
  cJSON_AddStringToObject(root, "command", "run");
  cJSON_AddStringToObject(root, "plan", a->plan);
  cJSON_AddStringToObject(root, "model", plan->model);
  cJSON_AddStringToObject(root, "machine", plan->machine->name);
  cJSON_AddStringToObject(root, "mode", wafer_mode_name(plan->mode));
  cJSON_AddStringToObject(root, "fidelity",
                          a->fidelity == WAFER_FIDELITY_fabric ? "fabric" : "kernel");
  cJSON_AddStringToObject(root, "instruction_set", stats->instruction_set);
  cJSON_AddNumberToObject(root, "clock_hz", (double)plan->machine->clock_hz);
  cJSON_AddNumberToObject(root, "samples", (double)stats->samples);
  cJSON_AddNumberToObject(root, "session_bytes", (double)stats->peak_bytes);
  add_times(root, ms, ms_count);
  add_cycles(root, plan, totals);
  add_steps(root, totals);
  if (a->expect) add_differences(root, plan, differences);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  return text;
}

/* The JSON report of `wafer run`: docs/report.schema.json, version 1. */
#include <cjson/cJSON.h>

#include "run.h"

static void add_times(cJSON *root, const double *ms, size_t count) {
  if (!count) return;
  double median = count % 2 ? ms[count / 2] : (ms[count / 2 - 1] + ms[count / 2]) / 2;
  cJSON_AddNumberToObject(root, "median_ms", median);
  cJSON_AddNumberToObject(root, "least_ms", ms[0]);
  cJSON_AddNumberToObject(root, "most_ms", ms[count - 1]);
  cJSON_AddNumberToObject(root, "repeats", (double)count);
}

static void add_cycles(cJSON *root, const wafer_plan *plan, const wafer_run_stats *stats) {
  cJSON_AddNumberToObject(root, "latency_cycles", (double)stats->latency_cycles);
  cJSON_AddNumberToObject(root, "interval_cycles", (double)stats->interval_cycles);
  cJSON_AddNumberToObject(root, "total_cycles", (double)stats->total_cycles);
  double interval = stats->interval_cycles ? (double)stats->interval_cycles : 1;
  cJSON_AddNumberToObject(root, "samples_per_s", (double)plan->machine->clock_hz / interval);
  cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
  for (uint32_t i = 0; stats->kernel_busy && i < plan->kernel_count; i++) {
    cJSON *k = cJSON_CreateObject();
    cJSON_AddItemToArray(kernels, k);
    cJSON_AddStringToObject(k, "name", plan->kernels[i].name);
    cJSON_AddNumberToObject(k, "cycles", (double)plan->kernels[i].cost.cycles);
    cJSON_AddNumberToObject(k, "busy_cycles", (double)stats->kernel_busy[i]);
  }
  cJSON *phases = cJSON_AddArrayToObject(root, "phases");
  for (uint32_t i = 0; stats->phase_cycles && i < plan->phase_count; i++) {
    cJSON *p = cJSON_CreateObject();
    cJSON_AddItemToArray(phases, p);
    cJSON_AddStringToObject(p, "name", plan->phases[i].name);
    cJSON_AddNumberToObject(p, "cycles", (double)stats->phase_cycles[i]);
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

char *run_report_json(const run_arguments *a, const wafer_plan *plan, const wafer_run_stats *stats,
                      const double *ms, size_t ms_count, const run_difference *differences) {
  cJSON *root = cJSON_CreateObject();
  if (!root) return NULL;
  cJSON_AddStringToObject(root, "schema", "wafer-report-1");
  cJSON_AddStringToObject(root, "command", "run");
  cJSON_AddStringToObject(root, "plan", a->plan);
  cJSON_AddStringToObject(root, "model", plan->model);
  cJSON_AddStringToObject(root, "machine", plan->machine->name);
  cJSON_AddStringToObject(root, "mode", wafer_mode_name(plan->mode));
  cJSON_AddStringToObject(root, "fidelity", "kernel");
  cJSON_AddStringToObject(root, "instruction_set", stats->instruction_set);
  cJSON_AddNumberToObject(root, "clock_hz", (double)plan->machine->clock_hz);
  cJSON_AddNumberToObject(root, "samples", (double)stats->samples);
  cJSON_AddNumberToObject(root, "session_bytes", (double)stats->peak_bytes);
  add_times(root, ms, ms_count);
  add_cycles(root, plan, stats);
  if (a->expect) add_differences(root, plan, differences);
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  return text;
}

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "fidelity.h"

typedef unsigned long long ull;

/* Predicted against counted, in percent of what was counted. */
static double error_of(uint64_t predicted, uint64_t counted) {
  if (predicted == counted) return 0;
  return 100 * ((double)predicted - (double)counted) / (double)(counted ? counted : 1);
}

typedef struct tally {
  uint32_t count;
  double sum, worst;
  const char *where;
  uint64_t predicted, counted;
} tally;

static void add(tally *t, const char *name, uint64_t predicted, uint64_t counted) {
  double error = fabs(error_of(predicted, counted));
  if (error > t->worst || !t->where) {
    t->worst = error;
    t->where = name;
  }
  t->count++;
  t->sum += error;
  t->predicted += predicted;
  t->counted += counted;
}

static double mean_of(const tally *t) {
  return t->count ? t->sum / t->count : 0;
}

static void print_row(const check_arguments *a, cJSON *rows, const char *kind, const char *name,
                      size_t skip, uint64_t predicted, uint64_t counted) {
  if (!a->run.quiet)
    printf("%-8s %-44.44s %10llu %10llu %+8.1f %%\n", kind, name + skip, (ull)predicted,
           (ull)counted, error_of(predicted, counted));
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "kind", kind);
  cJSON_AddStringToObject(row, "name", name);
  cJSON_AddNumberToObject(row, "predicted_cycles", (double)predicted);
  cJSON_AddNumberToObject(row, "counted_cycles", (double)counted);
  cJSON_AddItemToArray(rows, row);
}

/* Largest difference of an output, relative to its largest element at kernel fidelity. */
static double difference(const wafer_view *got, const wafer_view *wanted) {
  int64_t count = 0;
  double largest = 0, apart = 0;
  (void)wafer_shape_elements(&wanted->shape, &count);
  for (int64_t i = 0; i < count; i++) {
    double x = wafer_element_f64(got->dtype, got->data, i);
    double y = wafer_element_f64(wanted->dtype, wanted->data, i);
    double d = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y);
    if (isnan(d)) d = INFINITY;
    if (isfinite(y) && fabs(y) > largest) largest = fabs(y);
    if (d > apart) apart = d;
  }
  return apart == 0 ? 0 : apart / (largest > 0 ? largest : 1);
}

static bool outputs_agree(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                          const check_run *fabric, cJSON *rows) {
  const wafer_function *f = &plan->functions[0];
  double tol = !isnan(a->run.tol) ? a->run.tol : plan->storage == WAFER_DTYPE_f16 ? 2e-3 : 1e-5;
  bool agree = true;
  for (uint32_t i = 0; i < f->output_count; i++) {
    const char *name = plan->values[f->outputs[i]].name;
    double d = difference(&fabric->outputs[i], &kernel->outputs[i]);
    printf("output %s: differs by %.3g of its largest, %.3g allowed%s\n", name, d, tol,
           d <= tol ? "" : ": too much");
    agree &= d <= tol;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddNumberToObject(row, "difference_of_largest", d);
    cJSON_AddItemToArray(rows, row);
  }
  return agree;
}

wafer_status check_report(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                          const check_run *fabric) {
  size_t skip = cli_shared_prefix(plan);
  tally kernels = {0}, streams = {0};
  cJSON *report = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(report, "actions"),
        *outputs = cJSON_AddArrayToObject(report, "outputs");
  if (!a->run.quiet) printf("%-8s %-44s %10s %10s %10s\n", "", "", "predicted", "counted", "error");
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const char *name = plan->kernels[k].name;
    uint64_t predicted = plan->kernels[k].cost.cycles, counted = fabric->kernel_busy[k];
    print_row(a, rows, "kernel", name, skip, predicted, counted);
    add(&kernels, name, predicted, counted);
  }
  for (uint32_t s = 0; s < plan->stream_count; s++) {
    const char *name = plan->values[plan->streams[s].value].name;
    uint64_t counted = fabric->stream_busy ? fabric->stream_busy[s] : 0;
    if (!counted) continue;
    uint64_t predicted = plan->streams[s].cycles + plan->streams[s].latency;
    if (a->streams)
      print_row(a, rows, "stream", name, strlen(name) > skip ? skip : 0, predicted, counted);
    add(&streams, name, predicted, counted);
  }
  uint64_t predicted = kernel->stats.latency_cycles, counted = fabric->stats.latency_cycles;
  printf("kernels: mean error %.1f %%, worst %.1f %% (%s); %llu cycles predicted, %llu counted "
         "(%+.1f %%)\n",
         mean_of(&kernels), kernels.worst, kernels.where ? kernels.where : "",
         (ull)kernels.predicted, (ull)kernels.counted,
         error_of(kernels.predicted, kernels.counted));
  if (streams.count)
    printf("streams: mean error %.1f %%, worst %.1f %% (%s)\n", mean_of(&streams), streams.worst,
           streams.where);
  printf("total: %llu cycles predicted, %llu counted (%+.1f %%)\n", (ull)predicted, (ull)counted,
         error_of(predicted, counted));
  bool agree = outputs_agree(a, plan, kernel, fabric, outputs);
  agree &= mean_of(&kernels) <= a->most_mean;
  agree &= fabs(error_of(predicted, counted)) <= a->most_total;
  cJSON_AddNumberToObject(report, "mean_error_percent", mean_of(&kernels));
  cJSON_AddNumberToObject(report, "predicted_cycles", (double)predicted);
  cJSON_AddNumberToObject(report, "counted_cycles", (double)counted);
  cJSON_AddBoolToObject(report, "within", agree);
  char *text = a->run.report ? cJSON_Print(report) : NULL;
  cJSON_Delete(report);
  if (a->run.report) WAFER_TRY(cli_write_json(a->run.report, text));
  return agree ? WAFER_OK : WAFER_DIFFER;
}

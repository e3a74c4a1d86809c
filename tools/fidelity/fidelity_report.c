#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fidelity.h"

typedef unsigned long long ull;

/* Squares are f32 on cores, in f16 plans too. */
#define NORM_TOLERANCE 1e-5

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

/* `values`: the difference, NAN: not known. */
static void print_row(const check_arguments *a, cJSON *rows, const char *kind, const char *name,
                      size_t skip, uint64_t predicted, uint64_t counted, double values) {
  if (!a->run.quiet) {
    printf("%-8s %-44.44s %10llu %10llu %+8.1f %%", kind, name + skip, (ull)predicted, (ull)counted,
           error_of(predicted, counted));
    if (!isnan(values)) printf(" %9.2g", values);
    putchar('\n');
  }
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "kind", kind);
  cJSON_AddStringToObject(row, "name", name);
  cJSON_AddNumberToObject(row, "predicted_cycles", (double)predicted);
  cJSON_AddNumberToObject(row, "counted_cycles", (double)counted);
  if (!isnan(values)) cJSON_AddNumberToObject(row, "difference_of_largest", values);
  cJSON_AddItemToArray(rows, row);
}

double check_difference(const wafer_view *got, const wafer_view *wanted, double least) {
  int64_t count = 0;
  double largest = least, apart = 0;
  if (got->dtype != wanted->dtype || !wafer_shape_equal(&got->shape, &wanted->shape))
    return INFINITY;
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

static bool makes(const wafer_plan *plan, wafer_dtype dtype) {
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t n = 0; n < plan->kernels[k].body.node_count; n++)
      if (plan->kernels[k].body.nodes[n].type.dtype == dtype) return true;
  return false;
}

/* What is rounded to a narrow type is a step of it apart where sums differ in their last bit. */
static double tolerance(const check_arguments *a, const wafer_plan *plan) {
  if (!isnan(a->run.tol)) return a->run.tol;
  if (makes(plan, WAFER_DTYPE_bf16)) return 1.6e-2;
  return plan->storage == WAFER_DTYPE_f16 || makes(plan, WAFER_DTYPE_f16) ? 2e-3 : 1e-5;
}

/* What the differences of an output are relative to, if its largest element is less. */
static double terms_of(const check_values *v, const check_run *run, uint32_t value) {
  uint32_t maker = v->maker[value];
  bool summed = false; /* over the samples of a train */
  for (uint32_t o = 0; maker != WAFER_NONE && o < v->plan->kernels[maker].body.output_count; o++)
    if (v->plan->kernels[maker].outputs[o] == value)
      summed = wafer_body_sums(&v->plan->kernels[maker].body, o);
  return check_terms(v, value) * (summed ? (double)run->stats.samples : 1);
}

/* `when`: said behind "output". */
static bool outputs_agree(const check_arguments *a, const wafer_plan *plan, const char *when,
                          const check_run *kernel, const wafer_view *wanted, const wafer_view *got,
                          const check_values *values, cJSON *rows) {
  const wafer_function *f = &plan->functions[0];
  double tol = tolerance(a, plan);
  bool agree = true;
  for (uint32_t i = 0; i < f->output_count; i++) {
    const char *name = plan->values[f->outputs[i]].name;
    double d = check_difference(&got[i], &wanted[i], terms_of(values, kernel, f->outputs[i]));
    if (!a->json)
      printf("output %s%s: differs by %.3g of its largest, %.3g allowed%s\n", name, when, d, tol,
             d <= tol ? "" : ": too much");
    agree &= d <= tol;
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddNumberToObject(row, "difference_of_largest", d);
    cJSON_AddItemToArray(rows, row);
  }
  return agree;
}

/* What ends a step: cycles part by part, and the weights. */
static bool step_agrees(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                        const check_values *values, const check_step *step, cJSON *report) {
  const wafer_step_cycles *p = &step->predicted, *c = &step->counted, *f = &step->formula;
  cJSON *rows = cJSON_AddArrayToObject(report, "step");
  double tol = tolerance(a, plan);
  if (c->gather) print_row(a, rows, "step", "gather", 0, p->gather, c->gather, NAN);
  print_row(a, rows, "step", "norm", 0, p->norm, c->norm, step->norm_difference);
  print_row(a, rows, "step", "control", 0, p->control, c->control, NAN);
  print_row(a, rows, "step", "update", 0, p->update, c->update, step->difference);
  print_row(a, rows, "step", "send", 0, p->send, c->send, NAN);
  bool norm = step->norm_difference <= NORM_TOLERANCE;
  if (!a->json)
    printf("update: %llu cycles predicted, %llu counted (%+.1f %%); weights differ by %.3g of the "
           "largest%s; norm %.6g differs by %.3g%s\n",
           (ull)p->step, (ull)c->step, error_of(p->step, c->step), step->difference,
           step->difference <= tol ? "" : ": too much", step->norm, step->norm_difference,
           norm ? "" : ": too much");
  if (!a->json && !a->run.quiet)
    printf("formulas of plans without programs: gather %llu, norm %llu, control %llu, update "
           "%llu, send %llu\n",
           (ull)f->gather, (ull)f->norm, (ull)f->control, (ull)f->update, (ull)f->send);
  cJSON_AddNumberToObject(report, "update_predicted_cycles", (double)p->step);
  cJSON_AddNumberToObject(report, "update_counted_cycles", (double)c->step);
  cJSON_AddNumberToObject(report, "weights_difference_of_largest", step->difference);
  cJSON_AddNumberToObject(report, "norm_difference", step->norm_difference);
  rows = cJSON_AddArrayToObject(report, "outputs_after_update");
  return outputs_agree(a, plan, " after the update", kernel, step->kernel, step->fabric, values,
                       rows) &&
         step->difference <= tol && norm;
}

static void add_values(tally *t, const char *name, double difference) {
  if (isnan(difference)) return;
  if (difference > t->worst || !t->where) {
    t->worst = difference;
    t->where = name;
  }
  t->count++;
  t->sum += difference;
}

static void print_sums(const tally *kernels, const tally *streams, const tally *values,
                       uint64_t predicted, uint64_t counted) {
  printf("kernels: mean error %.1f %%, worst %.1f %% (%s); %llu cycles predicted, %llu counted "
         "(%+.1f %%)\n",
         mean_of(kernels), kernels->worst, kernels->where ? kernels->where : "",
         (ull)kernels->predicted, (ull)kernels->counted,
         error_of(kernels->predicted, kernels->counted));
  if (streams->count)
    printf("streams: mean error %.1f %%, worst %.1f %% (%s)\n", mean_of(streams), streams->worst,
           streams->where);
  if (values->count)
    printf("values: mean difference %.2g of a kernel's largest, worst %.2g (%s)\n", mean_of(values),
           values->worst, values->where);
  printf("total: %llu cycles predicted, %llu counted (%+.1f %%)\n", (ull)predicted, (ull)counted,
         error_of(predicted, counted));
}

/* How often a kernel or stream was at work. */
static uint64_t runs_of(const wafer_plan *plan, const check_run *run, wafer_action_kind kind,
                        uint32_t index) {
  if (!run->phase_runs) return run->stats.samples;
  for (uint32_t p = 0; p < plan->phase_count; p++)
    for (uint32_t i = 0; i < plan->phases[p].action_count; i++) {
      const wafer_action *a = &plan->phases[p].actions[i];
      if (a->kind == kind && a->index == index) return run->phase_runs[p];
    }
  return 0;
}

wafer_status check_report(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                          const check_run *fabric, const check_values *values,
                          const check_step *step) {
  size_t skip = cli_shared_prefix(plan);
  tally kernels = {0}, streams = {0}, apart = {0};
  cJSON *report = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(report, "actions"),
        *outputs = cJSON_AddArrayToObject(report, "outputs");
  if (!a->run.quiet)
    printf("%-8s %-44s %10s %10s %10s %9s\n", "", "", "predicted", "counted", "error", "values");
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const char *name = plan->kernels[k].name;
    uint64_t runs = runs_of(plan, fabric, WAFER_ACTION_kernel, k);
    if (!runs) continue; /* a branch that was not taken */
    uint64_t predicted = wafer_kernel_cycles(&plan->kernels[k]),
             counted = fabric->kernel_busy[k] / runs;
    print_row(a, rows, "kernel", name, skip, predicted, counted, values->difference[k]);
    add_values(&apart, name, values->difference[k]);
    add(&kernels, name, predicted, counted);
  }
  for (uint32_t s = 0; s < plan->stream_count; s++) {
    const char *name = plan->values[plan->streams[s].value].name;
    uint64_t runs = runs_of(plan, fabric, WAFER_ACTION_stream, s);
    uint64_t counted = fabric->stream_busy && runs ? fabric->stream_busy[s] / runs : 0;
    if (!counted) continue;
    uint64_t predicted = plan->streams[s].cycles + plan->streams[s].latency;
    if (a->streams)
      print_row(a, rows, "stream", name, strlen(name) > skip ? skip : 0, predicted, counted, NAN);
    add(&streams, name, predicted, counted);
  }
  bool one = fabric->stats.samples == 1;
  uint64_t predicted = one ? kernel->stats.latency_cycles : kernel->stats.total_cycles;
  uint64_t counted = one ? fabric->stats.latency_cycles : fabric->stats.total_cycles;
  if (!a->json) print_sums(&kernels, &streams, &apart, predicted, counted);
  bool agree =
      outputs_agree(a, plan, "", kernel, kernel->outputs, fabric->outputs, values, outputs);
  if (step) agree &= step_agrees(a, plan, kernel, values, step, report);
  agree &= !apart.count || apart.worst <= tolerance(a, plan);
  agree &= mean_of(&kernels) <= a->most_mean;
  agree &= fabs(error_of(predicted, counted)) <= a->most_total;
  cJSON_AddNumberToObject(report, "mean_error_percent", mean_of(&kernels));
  cJSON_AddNumberToObject(report, "worst_error_percent", kernels.worst);
  if (apart.count) {
    cJSON_AddNumberToObject(report, "mean_difference_of_largest", mean_of(&apart));
    cJSON_AddNumberToObject(report, "worst_difference_of_largest", apart.worst);
  }
  cJSON_AddNumberToObject(report, "predicted_cycles", (double)predicted);
  cJSON_AddNumberToObject(report, "counted_cycles", (double)counted);
  cJSON_AddBoolToObject(report, "within", agree);
  char *text = a->run.report || a->json ? cJSON_Print(report) : NULL;
  cJSON_Delete(report);
  if (a->json && !text) return cli_no_memory();
  if (a->json) puts(text);
  if (!a->run.report) free(text);
  if (a->run.report) WAFER_TRY(cli_write_json(a->run.report, text));
  return agree ? WAFER_OK : WAFER_DIFFER;
}

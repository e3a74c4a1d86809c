/* Outputs of `wafer run` against references. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

wafer_status run_check_tols(const run_arguments *a, const wafer_plan *plan) {
  const wafer_function *f = &plan->functions[0];
  for (size_t i = 0; i < a->own_count; i++) {
    bool known = false;
    for (uint32_t j = 0; j < f->output_count; j++)
      known |= !strcmp(a->own_names[i], plan->values[f->outputs[j]].name);
    if (known) continue;
    wafer_fail(cli_diag(), wafer_at_file(a->plan), WAFER_USAGE,
               "--tol %s=%g: there is no output '%s'", a->own_names[i], a->own_tols[i],
               a->own_names[i]);
    for (uint32_t j = 0; j < f->output_count; j++)
      wafer_note(cli_diag(), wafer_at_file(a->plan), "output '%s'",
                 plan->values[f->outputs[j]].name);
    return WAFER_USAGE;
  }
  return WAFER_OK;
}

static wafer_status find_reference(const run_arguments *a, const char *output, char *path,
                                   size_t bytes) {
  char name[256];
  run_file_name(output, name, sizeof name);
  for (int i = 0; i < 2; i++) {
    int length = i ? snprintf(path, bytes, "%s/out_%s.npy", a->expect, name)
                   : snprintf(path, bytes, "%s/%s.npy", a->expect, name);
    if (length < (int)bytes && access(path, R_OK) == 0) return WAFER_OK;
  }
  return wafer_fail(cli_diag(), wafer_at_file(a->expect), WAFER_IO,
                    "holds no reference of output '%s': neither %s.npy nor out_%s.npy", output,
                    name, name);
}

static bool equal(double got, double wanted) {
  return got == wanted || (isnan(got) && isnan(wanted));
}

/* A NaN or infinity on one side alone is an infinite difference. */
static double distance(double got, double wanted) {
  if (equal(got, wanted)) return 0;
  double d = fabs(got - wanted);
  return isnan(d) ? INFINITY : d;
}

static void measure(const run_arguments *a, const wafer_view *got, const wafer_view *wanted,
                    run_difference *d) {
  int64_t count = 0;
  wafer_shape_elements(&got->shape, &count);
  double over = 0;
  d->within = true;
  for (int64_t i = 0; i < count; i++) {
    double x = wafer_element_f64(got->dtype, got->data, i),
           y = wafer_element_f64(wanted->dtype, wanted->data, i);
    double distance_here = distance(x, y);
    if (isfinite(y) && fabs(y) > d->largest_reference) d->largest_reference = fabs(y);
    if (!a->by_largest && distance_here > a->atol + a->rtol * fabs(y)) d->within = false;
    if (distance_here > over || i == 0) {
      over = d->largest = distance_here;
      d->at = i;
      d->got = x;
      d->wanted = y;
    }
  }
  if (a->by_largest) d->within = d->largest <= d->tol * d->largest_reference;
}

/* Strings differ or they do not. */
static wafer_status compare_texts(const run_arguments *a, const wafer_value *value,
                                  const char *path, const wafer_view *got, const wafer_view *wanted,
                                  run_difference *d) {
  const char *const *ours = got->data, *const *theirs = wanted->data;
  int64_t count = 0;
  wafer_shape_elements(&got->shape, &count);
  while (d->at < count && !strcmp(ours[d->at], theirs[d->at])) d->at++;
  d->within = d->at == count;
  if (!d->within)
    return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_DIFFER,
                      "output '%s': string %lld is '%.80s', the reference '%.80s'", value->name,
                      (long long)d->at, ours[d->at], theirs[d->at]);
  d->at = 0;
  if (!a->quiet)
    printf("%-24s %lld strings are as the reference has them: ok\n", value->name, (long long)count);
  return WAFER_OK;
}

static wafer_status compare_one(const run_arguments *a, const wafer_value *value,
                                wafer_arena *arena, const wafer_view *got, run_difference *d) {
  char path[4096];
  wafer_view wanted;
  *d = (run_difference){.name = value->name, .tol = a->tol};
  for (size_t i = 0; i < a->own_count; i++)
    if (!strcmp(a->own_names[i], value->name)) d->tol = a->own_tols[i];
  WAFER_TRY(find_reference(a, value->name, path, sizeof path));
  WAFER_TRY(wafer_npy_read(cli_diag(), arena, path, &wanted));
  wafer_npy_adopt(&wanted, got->dtype);
  if (!wafer_shape_equal(&got->shape, &wanted.shape) || got->dtype != wanted.dtype) {
    char ours[128], theirs[128];
    wafer_shape_format(&got->shape, ours, sizeof ours);
    wafer_shape_format(&wanted.shape, theirs, sizeof theirs);
    return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_DIFFER,
                      "output '%s' is %s %s, the reference %s %s", value->name,
                      wafer_dtype_name(got->dtype), ours, wafer_dtype_name(wanted.dtype), theirs);
  }
  if (got->dtype == WAFER_DTYPE_string) return compare_texts(a, value, path, got, &wanted, d);
  measure(a, got, &wanted, d);
  if (!a->quiet)
    printf("%-24s largest difference %.3g at element %lld (%.8g, reference %.8g); largest "
           "reference %.3g: %s\n",
           value->name, d->largest, (long long)d->at, d->got, d->wanted, d->largest_reference,
           d->within ? "ok" : "DIFFERS");
  if (d->within) return WAFER_OK;
  if (a->by_largest)
    return wafer_fail(
        cli_diag(), wafer_at_file(path), WAFER_DIFFER,
        "output '%s' differs by %.3g, allowed %.3g (%g of the largest reference %.3g)", value->name,
        d->largest, d->tol * d->largest_reference, d->tol, d->largest_reference);
  return wafer_fail(cli_diag(), wafer_at_file(path), WAFER_DIFFER,
                    "output '%s' differs by up to %.3g, allowed %g + %g of the reference",
                    value->name, d->largest, a->atol, a->rtol);
}

wafer_status run_compare(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                         const wafer_view *outputs, run_difference *differences) {
  const wafer_function *f = &plan->functions[0];
  wafer_status first = WAFER_OK;
  for (uint32_t i = 0; i < f->output_count; i++) {
    wafer_status status =
        compare_one(a, &plan->values[f->outputs[i]], arena, &outputs[i], &differences[i]);
    if (status != WAFER_OK && status != WAFER_DIFFER) return status;
    if (first == WAFER_OK) first = status;
  }
  return first;
}

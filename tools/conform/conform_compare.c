/* Outputs of a conformance test against what the test expects. */
#include <math.h>
#include <string.h>

#include "conform.h"

/* The size of the last place at a magnitude, by the type's precision and smallest exponent. */
static double last_place(wafer_dtype dtype, double value) {
  static const struct {
    wafer_dtype dtype;
    int digits, least; /* of the significand; exponent of the smallest number */
  } rows[] = {{WAFER_DTYPE_f64, 53, -1074},  {WAFER_DTYPE_f32, 24, -149},
              {WAFER_DTYPE_f16, 11, -24},    {WAFER_DTYPE_bf16, 8, -133},
              {WAFER_DTYPE_f8e4m3fn, 4, -9}, {WAFER_DTYPE_f8e4m3fnuz, 4, -10},
              {WAFER_DTYPE_f8e5m2, 3, -16},  {WAFER_DTYPE_f8e5m2fnuz, 3, -17},
              {WAFER_DTYPE_f8e8m0, 1, -127}, {WAFER_DTYPE_f4e2m1, 2, -1}};
  size_t row = 0;
  while (row + 1 < WAFER_COUNT(rows) && rows[row].dtype != dtype) row++;
  int exponent = value == 0 ? rows[row].least : ilogb(value) - rows[row].digits + 1;
  return ldexp(1, exponent < rows[row].least ? rows[row].least : exponent);
}

static bool same(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

/* Returns whether the element holds; a NaN or infinity on one side alone never does. */
static bool compare_float(const conform_rule *rule, wafer_dtype dtype, double got, double wanted,
                          conform_difference *d) {
  if (same(got, wanted)) return true;
  double distance = fabs(got - wanted);
  if (!isfinite(distance)) {
    d->ulp = d->relative = INFINITY;
    return false;
  }
  double ulp = distance / last_place(dtype, wanted);
  double relative = wanted == 0 ? INFINITY : distance / fabs(wanted);
  if (ulp > d->ulp) d->ulp = ulp;
  if (wanted != 0 && relative > d->relative) d->relative = relative;
  return distance <= rule->atol + rule->rtol * fabs(wanted);
}

static bool compare_exact(const wafer_view *got, const wafer_view *wanted, int64_t i) {
  return wafer_element_i64(got->dtype, got->data, i) ==
         wafer_element_i64(wanted->dtype, wanted->data, i);
}

/* All finite elements are between the least and the largest of those expected. */
static bool in_range(const wafer_view *got, const wafer_view *wanted, int64_t count) {
  double least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; i++) {
    double x = wafer_element_f64(wanted->dtype, wanted->data, i);
    least = fmin(least, x), most = fmax(most, x);
  }
  for (int64_t i = 0; i < count; i++) {
    double x = wafer_element_f64(got->dtype, got->data, i);
    if (!(x >= least && x <= most)) return false;
  }
  return true;
}

static wafer_status unlike(const wafer_diag *diag, const char *output, const wafer_view *got,
                           const wafer_view *wanted) {
  char ours[128], theirs[128];
  wafer_shape_format(&got->shape, ours, sizeof ours);
  wafer_shape_format(&wanted->shape, theirs, sizeof theirs);
  return wafer_fail(diag, (wafer_loc){0}, WAFER_DIFFER, "output '%s' is %s %s, expected %s %s",
                    output, wafer_dtype_name(got->dtype), ours, wafer_dtype_name(wanted->dtype),
                    theirs);
}

wafer_status conform_compare(const wafer_diag *diag, const conform_rule *rule, const char *output,
                             const wafer_view *got, const wafer_view *wanted,
                             conform_difference *d) {
  if (got->dtype != wanted->dtype || !wafer_shape_equal(&got->shape, &wanted->shape))
    return unlike(diag, output, got, wanted);
  int64_t count = 0, wrong = 0, first = 0;
  wafer_shape_elements(&got->shape, &count);
  bool is_float = wafer_dtype_is_float(got->dtype);
  const conform_difference before = *d;
  for (int64_t i = 0; i < count; i++) {
    bool holds = is_float
                     ? compare_float(rule, got->dtype, wafer_element_f64(got->dtype, got->data, i),
                                     wafer_element_f64(wanted->dtype, wanted->data, i), d)
                     : compare_exact(got, wanted, i);
    if (holds) continue;
    if (!wrong++) first = i;
  }
  if (!wrong) return WAFER_OK;
  if (rule->drawn && in_range(got, wanted, count)) {
    *d = before;
    d->drawn = true;
    return WAFER_OK;
  }
  return wafer_fail(diag, (wafer_loc){0}, WAFER_DIFFER,
                    "output '%s': %lld of %lld elements differ, the first is %lld: %.9g, expected "
                    "%.9g",
                    output, (long long)wrong, (long long)count, (long long)first,
                    wafer_element_f64(got->dtype, got->data, first),
                    wafer_element_f64(wanted->dtype, wanted->data, first));
}

static wafer_status compare_strings(const wafer_diag *diag, const char *output,
                                    const wafer_view *got, const wafer_view *wanted) {
  if (got->dtype != wanted->dtype || !wafer_shape_equal(&got->shape, &wanted->shape))
    return unlike(diag, output, got, wanted);
  const char *const *a = got->data, *const *b = wanted->data;
  int64_t count = 0;
  wafer_shape_elements(&got->shape, &count);
  for (int64_t i = 0; i < count; i++)
    if (strcmp(a[i], b[i]))
      return wafer_fail(diag, (wafer_loc){0}, WAFER_DIFFER,
                        "output '%s': string %lld is '%.80s', expected '%.80s'", output,
                        (long long)i, a[i], b[i]);
  return WAFER_OK;
}

wafer_status conform_compare_item(const wafer_diag *diag, const conform_rule *rule,
                                  const char *output, const wafer_item *got,
                                  const wafer_item *wanted, conform_difference *d) {
  if (got->kind != wanted->kind)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_DIFFER, "output '%s' is of kind %s, expected %s",
                      output, wafer_item_kind_name(got->kind), wafer_item_kind_name(wanted->kind));
  if (got->kind == WAFER_ITEM_tensor && wanted->tensor.dtype == WAFER_DTYPE_string)
    return compare_strings(diag, output, &got->tensor, &wanted->tensor);
  if (got->kind == WAFER_ITEM_tensor)
    return conform_compare(diag, rule, output, &got->tensor, &wanted->tensor, d);
  if (got->count != wanted->count)
    return wafer_fail(diag, (wafer_loc){0}, WAFER_DIFFER,
                      "output '%s' holds %u values, expected %u", output, got->count,
                      wanted->count);
  for (uint32_t i = 0; i < got->count; i++)
    WAFER_TRY(conform_compare_item(diag, rule, output, got->items[i], wanted->items[i], d));
  return WAFER_OK;
}

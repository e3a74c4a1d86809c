/* Reductions, arg_max, arg_min, softmax and normalize. */
#include <math.h>

#include "reference.h"

#define BLOCK 512

static bool is_real(const reference_site *site) {
  return wafer_dtype_is_float(site->in[0].dtype);
}

/* ---- reductions: one accumulator per result element, the operand in its order ---- */

/* Folds n elements at x into accumulators acc, acc + step, ... */
typedef void fold(reference_cell *acc, int64_t step, const reference_cell *x, int64_t n, bool huge);

#define FOLD(kind, name, member, type, expr)                                                       \
  static void kind##_##name(reference_cell *acc, int64_t step, const reference_cell *x, int64_t n, \
                            bool huge) {                                                           \
    (void)huge;                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
      type a = acc[i * step].member, b = x[i].member;                                              \
      acc[i * step].member = expr;                                                                 \
    }                                                                                              \
  }
FOLD(real, sum, f, double, a + b)
FOLD(whole, sum, i, int64_t, wrap_add(a, b))
FOLD(real, prod, f, double, a *b)
FOLD(whole, prod, i, int64_t, wrap_mul(a, b))
FOLD(real, max, f, double, b > a || isnan(b) ? b : a)
FOLD(whole, max, i, int64_t, int_less(a, b, huge) ? b : a)
FOLD(real, min, f, double, b < a || isnan(b) ? b : a)
FOLD(whole, min, i, int64_t, int_less(b, a, huge) ? b : a)

/* Strides of the result along the operand's dims: 0 along those that are reduced. */
static void result_strides(const reference_site *site, int64_t *strides) {
  const wafer_shape *x = &site->in[0].shape;
  uint32_t count, kept = site->out->shape.rank;
  const int64_t *axes = wafer_attr_ints(site->attrs, WAFER_ATTR_axes, &count);
  bool keep = wafer_attr_int(site->attrs, WAFER_ATTR_keepdims) != 0;
  for (uint32_t d = x->rank; d-- > 0;) {
    bool gone = count && axes[count - 1] == d;
    strides[d] = gone ? 0 : site->out->strides[kept - 1];
    if (!gone || keep) kept--;
    if (gone) count--;
  }
}

static wafer_status accumulate(reference_site *site, fold *step, reference_cell start,
                               reference_cell **acc) {
  const wafer_view *x = &site->in[0];
  reference_cell block[BLOCK];
  int64_t count = reference_elements(site->out);
  walk w = {.rank = x->shape.rank, .tensors = 2};
  WAFER_TRY(reference_alloc(site, count, sizeof **acc, acc));
  for (int64_t i = 0; i < count; i++) (*acc)[i] = start;
  result_strides(site, w.strides[1]);
  for (uint32_t d = 0; d < w.rank; d++) {
    w.dims[d] = x->shape.dims[d];
    w.strides[0][d] = x->strides[d];
  }
  for (walk_begin(&w); w.more; walk_next(&w)) {
    for (int64_t j = 0; j < w.n; j += BLOCK) {
      int64_t n = w.n - j < BLOCK ? w.n - j : BLOCK;
      reference_load(x, w.at[0] + j, n, block);
      step(*acc + w.at[1] + j * w.step[1], w.step[1], block, n, x->dtype == WAFER_DTYPE_u64);
    }
  }
  return WAFER_OK;
}

/* `start`: the accumulators' first value, a double for floats. */
static wafer_status reduce(reference_site *site, fold *real, fold *whole, reference_cell start) {
  reference_cell *acc;
  WAFER_TRY(accumulate(site, is_real(site) ? real : whole, start, &acc));
  reference_store(site->out, 0, reference_elements(site->out), acc);
  return WAFER_OK;
}

wafer_status reference_reduce_sum(reference_site *site) {
  return reduce(site, real_sum, whole_sum, (reference_cell){0});
}

wafer_status reference_reduce_prod(reference_site *site) {
  reference_cell one = is_real(site) ? (reference_cell){.f = 1} : (reference_cell){.i = 1};
  return reduce(site, real_prod, whole_prod, one);
}

/* Integers truncate; the mean of nothing is NaN, or 0. */
wafer_status reference_reduce_mean(reference_site *site) {
  reference_cell *acc;
  const wafer_view *x = &site->in[0];
  int64_t results = reference_elements(site->out), each = reference_elements(x) / results;
  WAFER_TRY(accumulate(site, is_real(site) ? real_sum : whole_sum, (reference_cell){0}, &acc));
  for (int64_t i = 0; i < results; i++) {
    if (is_real(site))
      acc[i].f /= (double)each;
    else
      acc[i].i = int_div(acc[i].i, each, x->dtype == WAFER_DTYPE_u64);
  }
  reference_store(site->out, 0, results, acc);
  return WAFER_OK;
}

wafer_status reference_reduce_max(reference_site *site) {
  return reduce(site, real_max, whole_max, reference_least(site->in[0].dtype));
}

wafer_status reference_reduce_min(reference_site *site) {
  return reduce(site, real_min, whole_min, reference_greatest(site->in[0].dtype));
}

/* ---- along one axis ---- */

typedef struct axis_runs {
  int64_t outer, n, inner; /* element j of run (o, i) is at (o * n + j) * inner + i */
} axis_runs;

static axis_runs runs_of(const reference_site *site) {
  const wafer_shape *x = &site->in[0].shape;
  int64_t axis = wafer_attr_int(site->attrs, WAFER_ATTR_axis);
  axis_runs runs = {1, x->dims[axis], 1};
  for (uint32_t d = 0; d < x->rank; d++) {
    if (d < axis) runs.outer *= x->dims[d];
    if (d > axis) runs.inner *= x->dims[d];
  }
  return runs;
}

/* `a` beats `b`; a NaN beats all but NaNs. */
static bool real_beats(double a, double b, bool max) {
  if (isnan(b)) return false;
  return isnan(a) || (max ? a > b : a < b);
}

static int64_t best_of(const wafer_view *x, int64_t at, int64_t step, int64_t n, bool max,
                       bool last) {
  bool real = wafer_dtype_is_float(x->dtype), huge = x->dtype == WAFER_DTYPE_u64;
  reference_cell best = {0}, cell;
  int64_t index = -1;
  for (int64_t j = 0; j < n; j++) {
    bool beats, loses;
    reference_load(x, at + j * step, 1, &cell);
    if (real) {
      beats = real_beats(cell.f, best.f, max);
      loses = real_beats(best.f, cell.f, max);
    } else {
      beats = max ? int_less(best.i, cell.i, huge) : int_less(cell.i, best.i, huge);
      loses = max ? int_less(cell.i, best.i, huge) : int_less(best.i, cell.i, huge);
    }
    if (index < 0 || beats || (last && !loses)) index = j, best = cell;
  }
  return index;
}

static wafer_status arg(reference_site *site, bool max) {
  const wafer_view *x = &site->in[0];
  axis_runs runs = runs_of(site);
  bool last = wafer_attr_int(site->attrs, WAFER_ATTR_last) != 0;
  for (int64_t o = 0; o < runs.outer; o++)
    for (int64_t i = 0; i < runs.inner; i++) {
      int64_t best = best_of(x, o * runs.n * runs.inner + i, runs.inner, runs.n, max, last);
      reference_store_i64(site->out, o * runs.inner + i, 1, &best);
    }
  return WAFER_OK;
}

wafer_status reference_arg_max(reference_site *site) {
  return arg(site, true);
}

wafer_status reference_arg_min(reference_site *site) {
  return arg(site, false);
}

static void softmax_run(double *x, int64_t n) {
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < n; j++) most = x[j] > most || isnan(x[j]) ? x[j] : most;
  for (int64_t j = 0; j < n; j++) sum += x[j] = exp(x[j] - most);
  for (int64_t j = 0; j < n; j++) x[j] /= sum;
}

wafer_status reference_softmax(reference_site *site) {
  axis_runs runs = runs_of(site);
  double *x;
  WAFER_TRY(reference_alloc(site, runs.n, sizeof *x, &x));
  for (int64_t o = 0; o < runs.outer; o++)
    for (int64_t i = 0; i < runs.inner; i++) {
      int64_t at = o * runs.n * runs.inner + i;
      reference_load_f64(&site->in[0], at, runs.inner, runs.n, x);
      softmax_run(x, runs.n);
      for (int64_t j = 0; j < runs.n; j++)
        reference_store_f64(site->out, at + j * runs.inner, 1, &x[j]);
    }
  return WAFER_OK;
}

/* ---- normalize ---- */

/* Strides of a number per row, along the dims of the tensor: 0 along those of `axes`. Sets how many
 * rows there are, and elements in each. */
static void row_strides(const reference_site *site, int64_t *strides, int64_t *rows, int64_t *n) {
  const wafer_shape *x = &site->in[0].shape;
  uint32_t axes = wafer_attr_dims(site->attrs, WAFER_ATTR_axes);
  *rows = *n = 1;
  for (uint32_t d = x->rank; d-- > 0;) {
    bool gone = axes >> d & 1;
    strides[d] = gone ? 0 : *rows;
    *(gone ? n : rows) *= x->dims[d];
  }
}

/* Adds to each row's number (x - its mean) ^ power. */
static void add_powers(const reference_site *site, walk w, const double *mean, bool square,
                       double *sums) {
  double x[BLOCK];
  for (walk_begin(&w); w.more; walk_next(&w))
    for (int64_t j = 0; j < w.n; j += BLOCK) {
      int64_t n = w.n - j < BLOCK ? w.n - j : BLOCK, at = w.at[1] + j * w.step[1];
      reference_load_f64(&site->in[0], w.at[0] + j * w.step[0], w.step[0], n, x);
      for (int64_t i = 0; i < n; i++, at += w.step[1]) {
        double y = x[i] - mean[at];
        sums[at] += square ? y * y : y;
      }
    }
}

wafer_status reference_normalize(reference_site *site) {
  walk w = {.rank = site->in[0].shape.rank, .tensors = 3};
  int64_t rows, n;
  double *mean, *by, x, epsilon = wafer_attr_float(site->attrs, WAFER_ATTR_epsilon);
  for (uint32_t d = 0; d < w.rank; d++) {
    w.dims[d] = site->in[0].shape.dims[d];
    w.strides[0][d] = site->in[0].strides[d];
    w.strides[2][d] = site->out->strides[d];
  }
  row_strides(site, w.strides[1], &rows, &n);
  WAFER_TRY(reference_alloc(site, rows, sizeof *mean, &mean));
  WAFER_TRY(reference_alloc(site, rows, sizeof *by, &by));
  for (int64_t r = 0; r < rows; r++) mean[r] = by[r] = 0;
  if (wafer_attr_int(site->attrs, WAFER_ATTR_center)) {
    add_powers(site, w, by, false, mean);
    for (int64_t r = 0; r < rows; r++) mean[r] /= (double)n;
  }
  add_powers(site, w, mean, true, by);
  for (int64_t r = 0; r < rows; r++) by[r] = 1 / sqrt(by[r] / (double)n + epsilon);
  for (walk_begin(&w); w.more; walk_next(&w))
    for (int64_t j = 0; j < w.n; j++) {
      int64_t at = w.at[1] + j * w.step[1];
      reference_load_f64(&site->in[0], w.at[0] + j * w.step[0], 1, 1, &x);
      x = (x - mean[at]) * by[at];
      reference_store_f64(site->out, w.at[2] + j * w.step[2], 1, &x);
    }
  return WAFER_OK;
}

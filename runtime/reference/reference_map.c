/* Elementwise ops: blocks of each operand are widened to doubles (floats) or int64 (the rest), one
 * loop computes, and storing rounds or wraps to the result's type. */
#include <math.h>

#include "reference.h"

#define BLOCK 512

typedef union lane {
  double *f;
  int64_t *i;
} lane;

typedef struct map_block {
  int64_t n;
  lane in[3], out;
  bool huge; /* operands are u64: i holds their bits */
  const wafer_attrs *attrs;
} map_block;

typedef void map_loop(const map_block *block);

/* How to run a loop: whether it reads and writes doubles. bool operands are int64 always. */
typedef struct map_run {
  map_loop *loop;
  bool real_in, real_out;
} map_run;

static void load_block(const wafer_view *view, bool real, int64_t at, int64_t step, int64_t n,
                       lane to) {
  if (real && view->dtype != WAFER_DTYPE_bool)
    reference_load_f64(view, at, step, n, to.f);
  else
    reference_load_i64(view, at, step, n, to.i);
}

static wafer_status run_blocks(const reference_site *site, map_run run) {
  reference_cell buffer[4][BLOCK];
  map_block block = {
      .out = {&buffer[3][0].f}, .huge = site->in[0].dtype == WAFER_DTYPE_u64, .attrs = site->attrs};
  walk w = {.rank = site->out->shape.rank, .tensors = site->count + 1};
  for (uint32_t d = 0; d < w.rank; d++) w.dims[d] = site->out->shape.dims[d];
  for (uint32_t t = 0; t < site->count; t++) {
    block.in[t].f = &buffer[t][0].f;
    walk_broadcast(&site->in[t], &site->out->shape, w.strides[t]);
  }
  walk_broadcast(site->out, &site->out->shape, w.strides[site->count]);
  for (walk_begin(&w); w.more; walk_next(&w)) {
    for (int64_t j = 0; j < w.n; j += BLOCK) {
      block.n = w.n - j < BLOCK ? w.n - j : BLOCK;
      for (uint32_t t = 0; t < site->count; t++)
        load_block(&site->in[t], run.real_in, w.at[t] + j * w.step[t], w.step[t], block.n,
                   block.in[t]);
      run.loop(&block);
      if (run.real_out)
        reference_store_f64(site->out, w.at[site->count] + j, block.n, block.out.f);
      else
        reference_store_i64(site->out, w.at[site->count] + j, block.n, block.out.i);
    }
  }
  return WAFER_OK;
}

/* The loop for floats or for the rest, as the last operand is (the first may be a condition). */
static wafer_status run_map(const reference_site *site, map_loop *real, map_loop *whole) {
  bool is_real = wafer_dtype_is_float(site->in[site->count - 1].dtype);
  return run_blocks(
      site, (map_run){is_real ? real : whole, is_real, wafer_dtype_is_float(site->out->dtype)});
}

/* ---- loops: x, y are the elements of the operands ---- */

#define LOOP(kind, name, member, type, out_member, expr)                                           \
  static void kind##_##name(const map_block *b) {                                                  \
    for (int64_t i = 0; i < b->n; i++) {                                                           \
      type x = b->in[0].member[i];                                                                 \
      b->out.out_member[i] = expr;                                                                 \
    }                                                                                              \
  }
#define LOOP_2(kind, name, member, type, out_member, expr)                                         \
  static void kind##_##name(const map_block *b) {                                                  \
    for (int64_t i = 0; i < b->n; i++) {                                                           \
      type x = b->in[0].member[i], y = b->in[1].member[i];                                         \
      b->out.out_member[i] = expr;                                                                 \
    }                                                                                              \
  }
#define RULE(name, real, whole)                                                                    \
  wafer_status reference_##name(reference_site *site) {                                            \
    return run_map(site, real, whole);                                                             \
  }
/* One operand: floats alone; floats and integers; floats to bool. Two: numbers; numbers to bool;
 * bools. */
#define REAL(name, expr)                                                                           \
  LOOP(real, name, f, double, f, expr)                                                             \
  RULE(name, real_##name, NULL)
#define NUMBER(name, real_expr, whole_expr)                                                        \
  LOOP(real, name, f, double, f, real_expr)                                                        \
  LOOP(whole, name, i, int64_t, i, whole_expr)                                                     \
  RULE(name, real_##name, whole_##name)
#define NUMBER_2(name, real_expr, whole_expr)                                                      \
  LOOP_2(real, name, f, double, f, real_expr)                                                      \
  LOOP_2(whole, name, i, int64_t, i, whole_expr)                                                   \
  RULE(name, real_##name, whole_##name)
#define COMPARE(name, real_expr, whole_expr)                                                       \
  LOOP_2(real, name, f, double, i, real_expr)                                                      \
  LOOP_2(whole, name, i, int64_t, i, whole_expr)                                                   \
  RULE(name, real_##name, whole_##name)
/* bool is 0 or 1 here, so bits serve both. */
#define LOGICAL(name, expr)                                                                        \
  LOOP_2(whole, name, i, int64_t, i, expr)                                                         \
  RULE(name, NULL, whole_##name)

/* NaN wins, as in numpy. */
static double real_greater(double x, double y) {
  return x > y || isnan(x) ? x : y;
}
static double real_lesser(double x, double y) {
  return x < y || isnan(x) ? x : y;
}

NUMBER(abs, fabs(x), x < 0 && !b->huge ? wrap_sub(0, x) : x)
NUMBER(neg, -x, wrap_sub(0, x))
NUMBER(sign, isnan(x) ? x : (x > 0) - (x < 0), x == 0 ? 0 : x > 0 || b->huge ? 1 : -1)
NUMBER(relu, x > 0 || isnan(x) ? x : 0, x < 0 && !b->huge ? 0 : x)
REAL(floor, floor(x))
REAL(ceil, ceil(x))
REAL(round, rint(x)) /* half to even */
REAL(sqrt, sqrt(x))
REAL(reciprocal, 1 / x)
REAL(exp, exp(x))
REAL(log, log(x))
REAL(sin, sin(x))
REAL(cos, cos(x))
REAL(tan, tan(x))
REAL(asin, asin(x))
REAL(acos, acos(x))
REAL(atan, atan(x))
REAL(sinh, sinh(x))
REAL(cosh, cosh(x))
REAL(asinh, asinh(x))
REAL(acosh, acosh(x))
REAL(atanh, atanh(x))
REAL(tanh, tanh(x))
REAL(erf, erf(x))
REAL(sigmoid, x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)))
REAL(softplus, (x > 0 ? x : 0) + log1p(exp(-fabs(x))))

LOOP(whole, not, i, int64_t, i, !x)
RULE(not, NULL, whole_not)
LOOP(real, isnan, f, double, i, isnan(x) != 0)
RULE(isnan, real_isnan, NULL)

static void real_isinf(const map_block *b) {
  bool negative = wafer_attr_int(b->attrs, WAFER_ATTR_negative) != 0;
  bool positive = wafer_attr_int(b->attrs, WAFER_ATTR_positive) != 0;
  for (int64_t i = 0; i < b->n; i++) {
    double x = b->in[0].f[i];
    b->out.i[i] = isinf(x) && (x < 0 ? negative : positive);
  }
}
RULE(isinf, real_isinf, NULL)

NUMBER_2(add, x + y, wrap_add(x, y))
NUMBER_2(sub, x - y, wrap_sub(x, y))
NUMBER_2(mul, x *y, wrap_mul(x, y))
NUMBER_2(div, x / y, int_div(x, y, b->huge))
NUMBER_2(max, real_greater(x, y), int_less(x, y, b->huge) ? y : x)
NUMBER_2(min, real_lesser(x, y), int_less(y, x, b->huge) ? y : x)
COMPARE(equal, x == y, x == y)
COMPARE(less, x < y, int_less(x, y, b->huge))
COMPARE(less_equal, x <= y, !int_less(y, x, b->huge))
LOGICAL(and, x &y)
LOGICAL(or, x | y)
LOGICAL(xor, x ^ y)

/* ---- those with laws of their own ---- */

static void real_clip(const map_block *b) {
  double least = wafer_attr_float(b->attrs, WAFER_ATTR_min);
  double most = wafer_attr_float(b->attrs, WAFER_ATTR_max);
  for (int64_t i = 0; i < b->n; i++) {
    double x = b->in[0].f[i];
    x = x < least ? least : x;
    b->out.f[i] = x > most ? most : x;
  }
}

/* A bound as an integer of int64's or u64's range. */
static int64_t whole_bound(double bound, bool huge) {
  if (huge) return bound <= 0 ? 0 : bound >= 0x1p64 ? -1 : (int64_t)(uint64_t)bound;
  return bound <= -0x1p63 ? INT64_MIN : bound >= 0x1p63 ? INT64_MAX : (int64_t)bound;
}

static void whole_clip(const map_block *b) {
  double min = wafer_attr_float(b->attrs, WAFER_ATTR_min);
  double max = wafer_attr_float(b->attrs, WAFER_ATTR_max);
  int64_t least = whole_bound(isnan(min) ? -INFINITY : ceil(min), b->huge);
  int64_t most = whole_bound(isnan(max) ? INFINITY : floor(max), b->huge);
  for (int64_t i = 0; i < b->n; i++) {
    int64_t x = b->in[0].i[i];
    x = int_less(x, least, b->huge) ? least : x;
    b->out.i[i] = int_less(most, x, b->huge) ? most : x;
  }
}
RULE(clip, real_clip, whole_clip)

/* truncate: the sign of x, as C; else the sign of y, as Python. x mod 0 of integers is 0. */
static double real_rest(double x, double y, bool truncate) {
  double rest = fmod(x, y);
  if (truncate) return rest;
  if (rest == 0) return copysign(0, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

static int64_t whole_rest(int64_t x, int64_t y, bool truncate, bool huge) {
  int64_t rest = wrap_sub(x, wrap_mul(int_div(x, y, huge), y));
  if (y == 0) return 0;
  return !truncate && !huge && rest && (rest < 0) != (y < 0) ? rest + y : rest;
}

static void real_mod(const map_block *b) {
  bool truncate = wafer_attr_int(b->attrs, WAFER_ATTR_truncate) != 0;
  for (int64_t i = 0; i < b->n; i++)
    b->out.f[i] = real_rest(b->in[0].f[i], b->in[1].f[i], truncate);
}

static void whole_mod(const map_block *b) {
  bool truncate = wafer_attr_int(b->attrs, WAFER_ATTR_truncate) != 0;
  for (int64_t i = 0; i < b->n; i++)
    b->out.i[i] = whole_rest(b->in[0].i[i], b->in[1].i[i], truncate, b->huge);
}
RULE(mod, real_mod, whole_mod)

static void real_pow(const map_block *b) {
  for (int64_t i = 0; i < b->n; i++) b->out.f[i] = pow(b->in[0].f[i], b->in[1].f[i]);
}

/* A power below 1 truncates to 0, as does 0 to a negative exponent. */
static int64_t whole_power(int64_t x, int64_t y) {
  int64_t power = 1;
  if (y < 0) return x == 1 || (x == -1 && y % 2 == 0) ? 1 : x == -1 ? -1 : 0;
  for (; y; y >>= 1, x = wrap_mul(x, x))
    if (y & 1) power = wrap_mul(power, x);
  return power;
}

static void whole_pow(const map_block *b) {
  for (int64_t i = 0; i < b->n; i++) b->out.i[i] = whole_power(b->in[0].i[i], b->in[1].i[i]);
}

wafer_status reference_pow(reference_site *site) {
  bool real = wafer_dtype_is_float(site->in[0].dtype) || wafer_dtype_is_float(site->in[1].dtype);
  return run_blocks(site, (map_run){real ? real_pow : whole_pow, real, real});
}

LOOP(real, cast, f, double, f, x)
LOOP(whole, cast, i, int64_t, i, x)

wafer_status reference_cast(reference_site *site) {
  wafer_dtype from = site->in[0].dtype;
  bool real = wafer_dtype_is_float(from) ||
              (from == WAFER_DTYPE_u64 && wafer_dtype_is_float(site->out->dtype));
  return run_blocks(site, (map_run){real ? real_cast : whole_cast, real, real});
}

#define SELECT(kind, member)                                                                       \
  static void kind##_select(const map_block *b) {                                                  \
    for (int64_t i = 0; i < b->n; i++) b->out.member[i] = b->in[b->in[0].i[i] ? 1 : 2].member[i];  \
  }
SELECT(real, f)
SELECT(whole, i)
RULE(select, real_select, whole_select)

#include "exec_map_ops.h"

#include <math.h>
#include <stdbool.h>

#include "tensor/vmath.h"

/* Every loop has map_loop's signature; expressions name the operands' elements x and y. Integers
 * wrap around; a division by zero gives 0, for cores do not trap on it. */
/* clang-format off: rows and loops are aligned by hand */
#define LOOP_HEAD(name)                                                                            \
  static void name(void *out, const void *a, const void *b, const void *c, size_t n,               \
                   const map_attrs *q)
#define UNUSED (void)a, (void)b, (void)c, (void)n, (void)q
#define LOOP1(clones, name, R, T, expr)                                                            \
  clones LOOP_HEAD(name) {                                                                         \
    UNUSED;                                                                                        \
    R *o = out;                                                                                    \
    const T *p = a;                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = p[i];                                                                                  \
      o[i] = (R)(expr);                                                                            \
    }                                                                                              \
  }
#define LOOP2(clones, name, R, T, left, right, expr)                                               \
  clones LOOP_HEAD(name) {                                                                         \
    UNUSED;                                                                                        \
    R *o = out;                                                                                    \
    const T *p = a, *r = b;                                                                        \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = left, y = right;                                                                       \
      o[i] = (R)(expr);                                                                            \
    }                                                                                              \
  }

typedef uint8_t u8, boolean;
typedef int8_t i8;
typedef uint16_t u16;
typedef int16_t i16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef float f32;
typedef double f64;

/* --- floats: the same expressions for both types; S is the suffix of the C library's functions. */
static float real_power_f32(float x, float y) {
  return powf(x, y);
}
static double real_power_f64(double x, double y) {
  return pow(x, y);
}
static float floored_f32(float x, float y) {
  float r = fmodf(x, y);
  return r != 0.0f && (r < 0.0f) != (y < 0.0f) ? r + y : r;
}
static double floored_f64(double x, double y) {
  double r = fmod(x, y);
  return r != 0.0 && (r < 0.0) != (y < 0.0) ? r + y : r;
}

/* X(op, expression): vectorised. */
#define FLOAT_UNARY_MAP(X, T, S)                                                                   \
  X(T, abs, fabs##S(x))                                                                            \
  X(T, neg, -x)                                                                                    \
  X(T, sign, x > 0 ? (T)1 : x < 0 ? (T) - 1 : x)                                                   \
  X(T, relu, x < 0 ? (T)0 : x)                                                                     \
  X(T, floor, floor##S(x))                                                                         \
  X(T, ceil, ceil##S(x))                                                                           \
  X(T, round, rint##S(x))
#define FLOAT_BINARY_MAP(X, T, S)                                                                  \
  X(T, add, x + y)                                                                                 \
  X(T, sub, x - y)                                                                                 \
  X(T, mul, x *y)                                                                                  \
  X(T, div, x / y)                                                                                 \
  X(T, max, x > y || x != x ? x : y)                                                               \
  X(T, min, x < y || x != x ? x : y)
#define FLOAT_UNARY(T, op, expr) LOOP1(WAFER_CLONES, op##_##T, T, T, expr)
#define FLOAT_BINARY(T, op, expr)                                                                  \
  LOOP2(WAFER_CLONES, op##_##T, T, T, p[i], r[i], expr)                                            \
  LOOP2(WAFER_CLONES, op##_right_##T, T, T, p[i], *r, expr)                                        \
  LOOP2(WAFER_CLONES, op##_left_##T, T, T, *p, r[i], expr)
FLOAT_UNARY_MAP(FLOAT_UNARY, f32, f)
FLOAT_UNARY_MAP(FLOAT_UNARY, f64, )
FLOAT_BINARY_MAP(FLOAT_BINARY, f32, f)
FLOAT_BINARY_MAP(FLOAT_BINARY, f64, )

#define FLOAT_REST(T, S)                                                                           \
  LOOP2(, pow_##T, T, T, p[i], r[i], real_power_##T(x, y))                                         \
  LOOP2(, mod_##T, T, T, p[i], r[i], q->flags ? fmod##S(x, y) : floored_##T(x, y))                 \
  LOOP1(WAFER_CLONES, isnan_##T, boolean, T, x != x)                                               \
  LOOP1(WAFER_CLONES, isinf_##T, boolean, T,                                                       \
        ((q->flags & 1) && x == -(T)INFINITY) || ((q->flags & 2) && x == (T)INFINITY))             \
  WAFER_CLONES LOOP_HEAD(clip_##T) {                                                               \
    UNUSED;                                                                                        \
    T *o = out, low = (T)q->low, high = (T)q->high;                                                \
    const T *p = a;                                                                                \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = p[i] < low ? low : p[i];                                                               \
      o[i] = x > high ? high : x;                                                                  \
    }                                                                                              \
  }
FLOAT_REST(f32, f)
FLOAT_REST(f64, )

#define TRANSCENDENTAL(op)                                                                         \
  LOOP_HEAD(op##_f32) {                                                                            \
    (void)b, (void)c, (void)q;                                                                     \
    vmath_##op(out, a, n);                                                                         \
  }                                                                                                \
  LOOP1(, op##_f64, f64, f64, vmath_f64_##op(x))
VMATH_UNARY_MAP(TRANSCENDENTAL)

/* pow with one exponent for all: the powers that models use need no logarithm. */
LOOP_HEAD(pow_right_f32) {
  UNUSED;
  const f32 *p = a;
  f32 *o = out, y = *(const f32 *)b;
  if (y == 2.0f)
    for (size_t i = 0; i < n; i++) o[i] = p[i] * p[i];
  else if (y == 0.5f)
    vmath_sqrt(out, a, n);
  else if (y == -1.0f)
    vmath_reciprocal(out, a, n);
  else
    for (size_t i = 0; i < n; i++) o[i] = powf(p[i], y);
}

/* --- integers */
static i64 divided_i64(i64 x, i64 y) {
  return y == 0 ? 0 : y == -1 ? (i64)(0 - (u64)x) : x / y;
}
static u64 divided_u64(u64 x, u64 y) {
  return y == 0 ? 0 : x / y;
}
static i64 modulo_i64(i64 x, i64 y, bool truncate) {
  if (y == 0 || y == -1) return 0;
  i64 r = x % y;
  return !truncate && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static u64 modulo_u64(u64 x, u64 y, bool truncate) {
  (void)truncate;
  return y == 0 ? 0 : x % y;
}
static u64 power_u64(u64 x, u64 y) {
  u64 result = 1;
  for (; y; y >>= 1, x *= x)
    if (y & 1) result *= x;
  return result;
}
static i64 power_i64(i64 x, i64 y) {
  if (y >= 0) return (i64)power_u64((u64)x, (u64)y);
  return x == 1 ? 1 : x == -1 ? ((y & 1) ? -1 : 1) : 0;
}

#define INTEGER_UNARY_MAP(X, T)                                                                    \
  X(T, abs, x < 0 ? (T)(0 - (u64)x) : x)                                                           \
  X(T, neg, 0 - (u64)x)                                                                            \
  X(T, sign, (x > 0) - (x < 0))                                                                    \
  X(T, relu, x < 0 ? 0 : x)                                                                        \
  X(T, floor, x)                                                                                   \
  X(T, ceil, x)                                                                                    \
  X(T, round, x)                                                                                   \
  X(T, clip, (f64)x<q->low ? (T)q->low : (f64)x> q->high ? (T)q->high : x)
#define INTEGER_BINARY_MAP(X, T, W)                                                                \
  X(T, add, (u64)x + (u64)y)                                                                       \
  X(T, sub, (u64)x - (u64)y)                                                                       \
  X(T, mul, (u64)x *(u64)y)                                                                        \
  X(T, div, divided_##W(x, y))                                                                     \
  X(T, mod, modulo_##W(x, y, q->flags))                                                            \
  X(T, pow, power_##W(x, y))                                                                       \
  X(T, and, x &y)                                                                                  \
  X(T, or, x | y)                                                                                  \
  X(T, xor, x ^ y)                                                                                 \
  X(T, max, x > y ? x : y)                                                                         \
  X(T, min, x < y ? x : y)
#define INTEGER_UNARY(T, op, expr) LOOP1(, op##_##T, T, T, expr)
#define INTEGER_BINARY(T, op, expr) LOOP2(, op##_##T, T, T, p[i], r[i], expr)
#define SIGNED_MAP(X) X(i8, i64) X(i16, i64) X(i32, i64) X(i64, i64)
#define UNSIGNED_MAP(X) X(u8, u64) X(u16, u64) X(u32, u64) X(u64, u64)
#define INTEGER(T, W) INTEGER_UNARY_MAP(INTEGER_UNARY, T) INTEGER_BINARY_MAP(INTEGER_BINARY, T, W)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* x < 0 of unsigned types, from the shared rows */
SIGNED_MAP(INTEGER)
UNSIGNED_MAP(INTEGER)
#pragma GCC diagnostic pop

/* --- every type */
#define COMPARE(T)                                                                                 \
  LOOP2(WAFER_CLONES, equal_##T, boolean, T, p[i], r[i], x == y)                                   \
  LOOP2(WAFER_CLONES, less_##T, boolean, T, p[i], r[i], x < y)                                     \
  LOOP2(WAFER_CLONES, less_equal_##T, boolean, T, p[i], r[i], x <= y)                              \
  WAFER_CLONES LOOP_HEAD(select_##T) {                                                             \
    UNUSED;                                                                                        \
    T *o = out;                                                                                    \
    const boolean *p = a;                                                                          \
    const T *r = b, *s = c;                                                                        \
    for (size_t i = 0; i < n; i++) o[i] = p[i] ? r[i] : s[i];                                      \
  }
#define ALL_MAP(X) X(f32) X(f64) X(i8) X(i16) X(i32) X(i64) X(u8) X(u16) X(u32) X(u64) X(boolean)
ALL_MAP(COMPARE)

LOOP1(WAFER_CLONES, not_boolean, boolean, boolean, !x)
LOOP2(WAFER_CLONES, and_boolean, boolean, boolean, p[i], r[i], x &y)
LOOP2(WAFER_CLONES, or_boolean, boolean, boolean, p[i], r[i], x | y)
LOOP2(WAFER_CLONES, xor_boolean, boolean, boolean, p[i], r[i], x ^ y)

/* CASTS(from): a loop from one type to every type; to bool is "is not zero". */
#define CAST(F, T) LOOP1(, cast_##F##_##T, T, F, x)
#define CASTS(F)                                                                                   \
  CAST(F, f32)                                                                                     \
  CAST(F, f64) CAST(F, i8) CAST(F, i16) CAST(F, i32) CAST(F, i64) CAST(F, u8) CAST(F, u16)         \
      CAST(F, u32) CAST(F, u64) LOOP1(, cast_##F##_boolean, boolean, F, x != 0)
ALL_MAP(CASTS)

#define boolean_id WAFER_DTYPE_bool
#define f32_id WAFER_DTYPE_f32
#define f64_id WAFER_DTYPE_f64
#define i8_id WAFER_DTYPE_i8
#define i16_id WAFER_DTYPE_i16
#define i32_id WAFER_DTYPE_i32
#define i64_id WAFER_DTYPE_i64
#define u8_id WAFER_DTYPE_u8
#define u16_id WAFER_DTYPE_u16
#define u32_id WAFER_DTYPE_u32
#define u64_id WAFER_DTYPE_u64

static map_loop *const loops[WAFER_OP_COUNT][WAFER_DTYPE_COUNT] = {
#define ROW(T, op, expr) [WAFER_OP_##op][T##_id] = op##_##T,
#define FLOAT_ROWS(T)                                                                              \
  FLOAT_UNARY_MAP(ROW, T, )                                                                        \
  FLOAT_BINARY_MAP(ROW, T, ) ROW(T, pow, ) ROW(T, mod, ) ROW(T, isnan, ) ROW(T, isinf, )           \
      ROW(T, clip, )
    FLOAT_ROWS(f32) FLOAT_ROWS(f64)
#define INTEGER_ROWS(T, W) INTEGER_UNARY_MAP(ROW, T) INTEGER_BINARY_MAP(ROW, T, W)
        SIGNED_MAP(INTEGER_ROWS) UNSIGNED_MAP(INTEGER_ROWS)
#define COMPARE_ROWS(T) ROW(T, equal, ) ROW(T, less, ) ROW(T, less_equal, ) ROW(T, select, )
            ALL_MAP(COMPARE_ROWS) ROW(boolean, not, ) ROW(boolean, and, ) ROW(boolean, or, )
                ROW(boolean, xor, )
#define TRANSCENDENTAL_ROWS(op) ROW(f32, op, ) ROW(f64, op, )
                    VMATH_UNARY_MAP(TRANSCENDENTAL_ROWS)};

static map_loop *const right_scalar[WAFER_OP_COUNT][WAFER_DTYPE_COUNT] = {
#define RIGHT_ROW(T, op, expr) [WAFER_OP_##op][T##_id] = op##_right_##T,
    FLOAT_BINARY_MAP(RIGHT_ROW, f32, ) FLOAT_BINARY_MAP(RIGHT_ROW, f64, ) RIGHT_ROW(f32, pow, )};

static map_loop *const left_scalar[WAFER_OP_COUNT][WAFER_DTYPE_COUNT] = {
#define LEFT_ROW(T, op, expr) [WAFER_OP_##op][T##_id] = op##_left_##T,
    FLOAT_BINARY_MAP(LEFT_ROW, f32, ) FLOAT_BINARY_MAP(LEFT_ROW, f64, )};

static map_loop *const casts[WAFER_DTYPE_COUNT][WAFER_DTYPE_COUNT] = {
#define CAST_ROW(F, T) [F##_id][T##_id] = cast_##F##_##T,
#define CAST_ROWS(F)                                                                               \
  CAST_ROW(F, f32)                                                                                 \
  CAST_ROW(F, f64) CAST_ROW(F, i8) CAST_ROW(F, i16) CAST_ROW(F, i32) CAST_ROW(F, i64)              \
      CAST_ROW(F, u8) CAST_ROW(F, u16) CAST_ROW(F, u32) CAST_ROW(F, u64) CAST_ROW(F, boolean)
    ALL_MAP(CAST_ROWS)};

map_loop *map_loop_get(wafer_op op, wafer_dtype type, map_form form) {
  if (form == MAP_RIGHT_SCALAR) return right_scalar[op][type];
  if (form == MAP_LEFT_SCALAR) return left_scalar[op][type];
  return loops[op][type];
}

map_loop *map_loop_cast(wafer_dtype from, wafer_dtype to) {
  return casts[from][to];
}

map_attrs map_attrs_of(wafer_op op, const wafer_attrs *a) {
  if (op == WAFER_OP_clip)
    return (map_attrs){.low = wafer_attr_float(a, WAFER_ATTR_min),
                       .high = wafer_attr_float(a, WAFER_ATTR_max)};
  if (op == WAFER_OP_mod) return (map_attrs){.flags = wafer_attr_int(a, WAFER_ATTR_truncate)};
  if (op == WAFER_OP_isinf)
    return (map_attrs){.flags = (wafer_attr_int(a, WAFER_ATTR_negative) ? 1 : 0) |
                                (wafer_attr_int(a, WAFER_ATTR_positive) ? 2 : 0)};
  return (map_attrs){0};
}

#include "vmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Built with -O3 -fno-math-errno -fno-trapping-math: every loop below becomes vector code without
 * branches. The scalar helpers compute both sides of a condition and select, so none may trap or
 * depend on order. */

static inline float of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float magnitude(float x) {
  return of_bits(bits_of(x) & 0x7fffffffu);
}
static inline float with_sign_of(float x, float sign) {
  return of_bits((bits_of(x) & 0x7fffffffu) | (bits_of(sign) & 0x80000000u));
}

/* e^x = 2^n e^r, |r| <= ln2 / 2. ln2 is split so that n * high is exact without a fused
 * multiply-add; 2^n is applied in two halves, so that results may be denormal. */
static inline float exp_one(float x) {
  float bounded = x < -104.0f ? -104.0f : x;
  bounded = bounded > 89.0f ? 89.0f : bounded;
  float n = (bounded * 1.44269504f + 12582912.0f) - 12582912.0f;
  float r = bounded - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t k = (int32_t)n, half = k >> 1;
  float y = p * of_bits((uint32_t)(half + 127) << 23) * of_bits((uint32_t)(k - half + 127) << 23);
  return x != x ? x : y;
}

/* log x = n ln2 + log(m), sqrt(1/2) <= m < sqrt(2). */
static inline float log_one(float x) {
  int tiny = x < 1.17549435e-38f;
  float scaled = tiny ? x * 8388608.0f : x;
  uint32_t bits = bits_of(scaled);
  float m = of_bits((bits & 0x007fffffu) | 0x3f000000u); /* in [0.5, 1) */
  float n = (float)((int32_t)(bits >> 23) - 126 - (tiny ? 23 : 0));
  int low = m < 0.707106781f;
  n = low ? n - 1.0f : n;
  float f = (low ? m + m : m) - 1.0f;
  float z = f * f, p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  float y = f * z * p + n * -2.12194440e-4f - 0.5f * z;
  y = f + y + n * 0.693359375f;
  y = x == INFINITY ? x : y;
  y = x == 0.0f ? -INFINITY : y;
  return x >= 0.0f ? y : NAN;
}

static inline float log1p_of_small(float e) { /* 0 <= e <= 1 */
  float u = 1.0f + e;
  return log_one(u) + (e - (u - 1.0f)) / u;
}

static inline float tanh_one(float x) {
  float a = magnitude(x), z = x * x, p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float near = p * z * a + a;
  float far = 1.0f - 2.0f / (exp_one(a + a) + 1.0f);
  float y = with_sign_of(a < 0.625f ? near : far, x);
  return x != x ? x : y;
}

/* The rounding error of 1 + e is put right to first order. */
static inline float sigmoid_one(float x) {
  float e = exp_one(-magnitude(x)), u = 1.0f + e, lost = e - (u - 1.0f);
  float y = (x < 0.0f ? e : 1.0f) / u;
  y = y - y * (lost * (x < 0.0f ? 1.0f - y : y));
  return x != x ? x : y;
}

static inline float softplus_one(float x) {
  float y = (x > 0.0f ? x : 0.0f) + log1p_of_small(exp_one(-magnitude(x)));
  return x != x ? x : y;
}

/* Two minimax polynomials: of erf near zero, of log(1 - erf) beyond. */
static inline float erf_one(float x) {
  float t = magnitude(x), s = x * x;
  float r = (1.72948930e-5f * t - 3.83208680e-4f) * s + (3.88393435e-3f * t - 2.42545605e-2f);
  r = r * t + 1.06777847e-1f;
  r = r * t + 6.34846687e-1f;
  r = r * t + 1.28717512e-1f;
  r = r * t + t;
  float far = with_sign_of(1.0f - exp_one(t > 4.0f ? -INFINITY : -r), x);
  float p = -5.99104969e-4f;
  p = p * s + 4.99339588e-3f;
  p = p * s - 2.67667342e-2f;
  p = p * s + 1.12818025e-1f;
  p = p * s - 3.76124859e-1f;
  p = p * s + 1.28379151e-1f;
  float near = p * x + x;
  float y = t > 0.921875f ? far : near;
  return x != x ? x : y;
}

static inline float reciprocal_one(float x) {
  return 1.0f / x;
}
static inline float sqrt_one(float x) {
  return sqrtf(x);
}

#define VECTOR(name)                                                                               \
  WAFER_CLONES void vmath_##name(float *out, const float *in, size_t n) {                          \
    for (size_t i = 0; i < n; i++) out[i] = name##_one(in[i]);                                     \
  }
VECTOR(exp)
VECTOR(log)
VECTOR(tanh)
VECTOR(erf)
VECTOR(sigmoid)
VECTOR(softplus)
VECTOR(reciprocal)
VECTOR(sqrt)

#define LIBRARY(name)                                                                              \
  void vmath_##name(float *out, const float *in, size_t n) {                                       \
    for (size_t i = 0; i < n; i++) out[i] = name##f(in[i]);                                        \
  }                                                                                                \
  double vmath_f64_##name(double x) {                                                              \
    return name(x);                                                                                \
  }
LIBRARY(sin)
LIBRARY(cos)
LIBRARY(tan)
LIBRARY(asin)
LIBRARY(acos)
LIBRARY(atan)
LIBRARY(sinh)
LIBRARY(cosh)
LIBRARY(asinh)
LIBRARY(acosh)
LIBRARY(atanh)

double vmath_f64_exp(double x) {
  return exp(x);
}
double vmath_f64_log(double x) {
  return log(x);
}
double vmath_f64_tanh(double x) {
  return tanh(x);
}
double vmath_f64_erf(double x) {
  return erf(x);
}
double vmath_f64_reciprocal(double x) {
  return 1.0 / x;
}
double vmath_f64_sqrt(double x) {
  return sqrt(x);
}
double vmath_f64_sigmoid(double x) {
  double e = exp(-fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
double vmath_f64_softplus(double x) {
  return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

const char *vmath_instruction_set(void) {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
#endif
  return "base";
}

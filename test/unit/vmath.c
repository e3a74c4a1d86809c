/* Our f32 functions against the C library in double, over every binary exponent. */
#include "runtime/tensor/vmath.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "wafer/status.h"

typedef void vector_function(float *out, const float *in, size_t n);
typedef double scalar_function(double x);

static float of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Distance in units of the last place of the exact value (of a denormal below the smallest normal).
 */
static double ulps(float got, double exact) {
  if (isnan(exact)) return isnan(got) ? 0.0 : INFINITY;
  float nearest = (float)exact;
  if (isinf(nearest) || isinf(got)) {
    if (got == nearest) return 0.0;
    if (fabs(exact) < 3.40282357e38 * 1.0000002 && isfinite(exact)) return 1.0; /* at the rim */
    return INFINITY;
  }
  int exponent;
  frexp(exact, &exponent);
  double unit = ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
  return fabs((double)got - exact) / unit;
}

static double worst(const char *name, vector_function *function, scalar_function *exact,
                    float *at) {
  enum { BLOCK = 509 };
  float in[BLOCK], out[BLOCK];
  double most = 0.0;
  uint32_t bits = 0, stride = 4057; /* a prime: every exponent, a million points */
  for (uint64_t next = 0; next <= UINT32_MAX;) {
    size_t n = 0;
    for (; n < BLOCK && next <= UINT32_MAX; n++, next += stride) {
      bits = (uint32_t)next;
      in[n] = of_bits(bits);
    }
    function(out, in, n);
    for (size_t i = 0; i < n; i++) {
      double error = ulps(out[i], exact(in[i]));
      if (error > most) most = error, *at = in[i];
    }
  }
  if (most > 2.0) printf("\n  %s(%a): %g ulp\n", name, *at, most);
  return most;
}

static void is_close_everywhere(void) {
#define X(name) {#name, vmath_##name, vmath_f64_##name},
  static const struct {
    const char *name;
    vector_function *function;
    scalar_function *exact;
  } cases[] = {VMATH_UNARY_MAP(X)};
#undef X
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    float at = 0.0f;
    CU_ASSERT(worst(cases[i].name, cases[i].function, cases[i].exact, &at) <= 2.0);
  }
}

static void keeps_special_values(void) {
  const float in[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  float out[5];
  vmath_exp(out, in, 5);
  CU_ASSERT(out[0] == 1.0f && out[1] == 1.0f && out[2] == INFINITY && out[3] == 0.0f &&
            isnan(out[4]));
  vmath_log(out, in, 5);
  CU_ASSERT(out[0] == -INFINITY && out[2] == INFINITY && isnan(out[3]) && isnan(out[4]));
  vmath_tanh(out, in, 5);
  CU_ASSERT(out[0] == 0.0f && signbit(out[1]) && out[2] == 1.0f && out[3] == -1.0f &&
            isnan(out[4]));
  vmath_erf(out, in, 5);
  CU_ASSERT(out[0] == 0.0f && signbit(out[1]) && out[2] == 1.0f && out[3] == -1.0f &&
            isnan(out[4]));
  vmath_sigmoid(out, in, 5);
  CU_ASSERT(out[0] == 0.5f && out[2] == 1.0f && out[3] == 0.0f && isnan(out[4]));
}

static void does_not_depend_on_position(void) {
  enum { N = 67 };
  float in[N], whole[N], one;
  for (int i = 0; i < N; i++) in[i] = -4.0f + 0.121f * (float)i;
  vmath_sigmoid(whole, in, N);
  for (int i = 0; i < N; i++) {
    vmath_sigmoid(&one, &in[i], 1);
    CU_ASSERT(one == whole[i]);
  }
  vmath_sigmoid(in, in, N); /* in place */
  CU_ASSERT(memcmp(in, whole, sizeof in) == 0);
}

CU_TestInfo tests_vmath[] = {
    {"is within 2 ulp of the C library", is_close_everywhere},
    {"keeps infinities, zeros and NaN", keeps_special_values},
    {"gives the same bits at any position and length", does_not_depend_on_position},
    CU_TEST_INFO_NULL,
};

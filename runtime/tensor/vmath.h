/* The transcendental functions of the emulated cores, on f32 arrays. One routine each, called by
 * every fidelity: what a kernel computes for exp does not depend on who runs it. `out` may be `in`.
 *
 * exp, log, tanh, erf, sigmoid, softplus: at most 2 ulp, infinities, NaN, zeros and denormals as
 * IEEE 754 and C define them. reciprocal, sqrt: correctly rounded. The rest is the C library's f32
 * function. Results depend on the instruction set (fused multiply-add or not), never on position or
 * length. */
#ifndef RUNTIME_VMATH_H
#define RUNTIME_VMATH_H

#include <stddef.h>

#include "wafer/clones.h"

/* X(name): void vmath_<name>(float *out, const float *in, size_t n), and double
 * vmath_f64_<name>(double). */
#define VMATH_UNARY_MAP(X)                                                                         \
  X(exp)                                                                                           \
  X(log)                                                                                           \
  X(tanh)                                                                                          \
  X(erf)                                                                                           \
  X(sigmoid) X(softplus) X(reciprocal) X(sqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan)        \
      X(sinh) X(cosh) X(asinh) X(acosh) X(atanh)

#define X(name)                                                                                    \
  void vmath_##name(float *out, const float *in, size_t n);                                        \
  double vmath_f64_##name(double x);
VMATH_UNARY_MAP(X)
#undef X

/* "avx512", "avx2" or "base": what the clones resolve to on this machine. */
const char *vmath_instruction_set(void);

#endif

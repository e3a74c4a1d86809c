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

/* One build runs well everywhere: the loops exist for AVX-512, AVX2 and the base set, and the
 * loader picks. Sanitizers cannot run in the loader, so they get the base set alone. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VMATH_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define VMATH_HAS_CLONES 1
#else
#define VMATH_CLONES
#define VMATH_HAS_CLONES 0
#endif

/* "avx512", "avx2" or "base": what the clones resolve to on this machine. */
const char *vmath_instruction_set(void);

#endif

/* Floats of 8 and 4 bits: OCP's E4M3, E5M2, E2M1 and E8M0, and the FNUZ kinds (one zero, one NaN,
 * no infinity). */
#ifndef RUNTIME_NARROW_H
#define RUNTIME_NARROW_H

#include <stdint.h>

typedef enum narrow_kind {
  NARROW_f8e4m3fn,
  NARROW_f8e4m3fnuz,
  NARROW_f8e5m2,
  NARROW_f8e5m2fnuz,
  NARROW_f4e2m1,
  NARROW_f8e8m0,
} narrow_kind;

double narrow_decode(narrow_kind kind, uint8_t code);
/* Rounds once, to nearest even. Beyond the largest number: infinity where the kind has one, else
 * NaN, else (E2M1, whose NaN is -0) the largest number. E8M0 has powers of two alone and takes the
 * next one below. */
uint8_t narrow_encode(narrow_kind kind, double value);

#endif

#include "narrow.h"

#include <math.h>
#include <stdbool.h>

/* Codes without the sign bit; `beyond` stands for what is too large. */
typedef struct narrow_format {
  int mantissa, bias;
  uint8_t sign, largest, beyond, nan;
  bool fnuz;
} narrow_format;

static const narrow_format formats[] = {
    [NARROW_f8e4m3fn] = {3, 7, 0x80, 0x7e, 0x7f, 0x7f, false},
    [NARROW_f8e4m3fnuz] = {3, 8, 0x80, 0x7f, 0x80, 0x80, true},
    [NARROW_f8e5m2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e, false},
    [NARROW_f8e5m2fnuz] = {2, 16, 0x80, 0x7f, 0x80, 0x80, true},
    [NARROW_f4e2m1] = {1, 1, 0x08, 0x07, 0x07, 0x08,
                       false}, /* no NaN: -0 stands for it, as ml_dtypes has it */
};

#define E8M0_BIAS 127
#define E8M0_NAN 255

static uint8_t encode_e8m0(double value) {
  int exponent;
  if (!isfinite(value)) return E8M0_NAN;
  frexp(value, &exponent); /* value = 0.5 .. 1 times its power */
  int code = value == 0 ? 0 : exponent - 1 + E8M0_BIAS;
  return (uint8_t)(code < 0 ? 0 : code > E8M0_NAN ? E8M0_NAN : code);
}

double narrow_decode(narrow_kind kind, uint8_t code) {
  if (kind == NARROW_f8e8m0) return code == E8M0_NAN ? NAN : ldexp(1, code - E8M0_BIAS);
  const narrow_format *f = &formats[kind];
  if (f->fnuz && code == f->nan) return NAN;
  uint8_t magnitude = (uint8_t)(code & (f->sign - 1));
  int exponent = magnitude >> f->mantissa, one = 1 << f->mantissa;
  int mantissa = magnitude & (one - 1);
  double value = exponent ? ldexp(one + mantissa, exponent - f->bias - f->mantissa)
                          : ldexp(mantissa, 1 - f->bias - f->mantissa);
  if (magnitude > f->largest)
    value = magnitude == f->beyond && f->beyond != f->nan ? INFINITY : NAN;
  return code & f->sign ? -value : value;
}

uint8_t narrow_encode(narrow_kind kind, double value) {
  if (kind == NARROW_f8e8m0) return encode_e8m0(value);
  const narrow_format *f = &formats[kind];
  uint8_t sign = signbit(value) ? f->sign : 0;
  double magnitude = fabs(value);
  if (isnan(value)) return f->fnuz ? f->nan : (uint8_t)(f->nan | sign);
  int least = 1 - f->bias, one = 1 << f->mantissa;
  double limit = narrow_decode(kind, f->largest);
  if (magnitude > 2 * limit) return f->fnuz ? f->beyond : (uint8_t)(f->beyond | sign);
  int exponent = magnitude == 0 ? least : ilogb(magnitude);
  if (exponent < least) exponent = least;
  int steps = (int)rint(ldexp(magnitude, f->mantissa - exponent)); /* one .. 2 one, or subnormal */
  int code = steps < one ? steps : ((exponent + f->bias) << f->mantissa) + steps - one;
  if (code > f->largest) return f->fnuz ? f->beyond : (uint8_t)(f->beyond | sign);
  return f->fnuz && code == 0 ? 0 : (uint8_t)(code | sign);
}

/* Between the types of elements and those that compute. */
#include <string.h>

#include "core_value.h"

static int64_t integer_of(double x) {
  return x >= 0x1p62 ? INT64_MAX : x > -0x1p62 ? (int64_t)x : INT64_MIN;
}

#define INTEGERS(X)                                                                                \
  X(i8, int8_t)                                                                                    \
  X(u8, uint8_t)                                                                                   \
  X(i16, int16_t)                                                                                  \
  X(u16, uint16_t)                                                                                 \
  X(i32, int32_t)                                                                                  \
  X(u32, uint32_t)                                                                                 \
  X(i64, int64_t)                                                                                  \
  X(u64, uint64_t)

#define EACH(expr)                                                                                 \
  for (uint32_t i = 0; i < n; i++) (expr)

static void floats_to(core_class to, const float *p, uint32_t n, core_lanes *out) {
  if (to == CORE_F32)
    memmove(out->f, p, n * sizeof *p);
  else if (to == CORE_F64)
    EACH(out->d[i] = (double)p[i]);
  else
    EACH(out->i[i] = integer_of((double)p[i]));
}

void core_widen(core_class to, wafer_dtype dtype, const void *raw, uint32_t n, core_lanes *out) {
  float wide[CORE_CHUNK];
  switch (dtype) {
  case WAFER_DTYPE_f32: floats_to(to, raw, n, out); return;
  case WAFER_DTYPE_f16:
    EACH(wide[i] = wafer_f32_of_f16(((const uint16_t *)raw)[i]));
    floats_to(to, wide, n, out);
    return;
  case WAFER_DTYPE_bf16:
    EACH(wide[i] = wafer_f32_of_bf16(((const uint16_t *)raw)[i]));
    floats_to(to, wide, n, out);
    return;
  case WAFER_DTYPE_f64: {
    const double *p = raw;
    if (to == CORE_F32)
      EACH(out->f[i] = (float)p[i]);
    else if (to == CORE_F64)
      memcpy(out->d, p, n * sizeof *p);
    else
      EACH(out->i[i] = integer_of(p[i]));
    return;
  }
#define X(name, T)                                                                                 \
  case WAFER_DTYPE_##name: {                                                                       \
    const T *p = raw;                                                                              \
    if (to == CORE_F32)                                                                            \
      EACH(out->f[i] = (float)p[i]);                                                               \
    else if (to == CORE_F64)                                                                       \
      EACH(out->d[i] = (double)p[i]);                                                              \
    else                                                                                           \
      EACH(out->i[i] = (int64_t)p[i]);                                                             \
    return;                                                                                        \
  }
    INTEGERS(X)
    X(bool, uint8_t)
#undef X
  default: /* smaller ones, a byte each */
    if (to == CORE_F32)
      EACH(out->f[i] = (float)wafer_element_f64(dtype, raw, i));
    else if (to == CORE_F64)
      EACH(out->d[i] = wafer_element_f64(dtype, raw, i));
    else
      EACH(out->i[i] = wafer_element_i64(dtype, raw, i));
  }
}

static void to_floats(core_class from, const core_lanes *in, uint32_t n, float *p) {
  if (from == CORE_F32)
    memcpy(p, in->f, n * sizeof *p);
  else if (from == CORE_F64)
    EACH(p[i] = (float)in->d[i]);
  else if (from == CORE_U64)
    EACH(p[i] = (float)(uint64_t)in->i[i]);
  else
    EACH(p[i] = (float)in->i[i]);
}

void core_narrow(core_class from, const core_lanes *in, uint32_t n, wafer_dtype dtype, void *raw) {
  float wide[CORE_CHUNK];
  switch (dtype) {
  case WAFER_DTYPE_f32: to_floats(from, in, n, raw); return;
  case WAFER_DTYPE_f16:
    to_floats(from, in, n, wide);
    EACH(((uint16_t *)raw)[i] = wafer_f16_of_f32(wide[i]));
    return;
  case WAFER_DTYPE_bf16:
    to_floats(from, in, n, wide);
    EACH(((uint16_t *)raw)[i] = wafer_bf16_of_f32(wide[i]));
    return;
  case WAFER_DTYPE_f64: {
    double *p = raw;
    if (from == CORE_F32)
      EACH(p[i] = (double)in->f[i]);
    else if (from == CORE_F64)
      memcpy(p, in->d, n * sizeof *p);
    else if (from == CORE_U64)
      EACH(p[i] = (double)(uint64_t)in->i[i]);
    else
      EACH(p[i] = (double)in->i[i]);
    return;
  }
  case WAFER_DTYPE_bool:
    EACH(((uint8_t *)raw)[i] = from == CORE_F32   ? in->f[i] != 0
                               : from == CORE_F64 ? in->d[i] != 0
                                                  : in->i[i] != 0);
    return;
#define X(name, T)                                                                                 \
  case WAFER_DTYPE_##name: {                                                                       \
    T *p = raw;                                                                                    \
    if (from == CORE_F32)                                                                          \
      EACH(p[i] = (T)integer_of((double)in->f[i]));                                                \
    else if (from == CORE_F64)                                                                     \
      EACH(p[i] = (T)integer_of(in->d[i]));                                                        \
    else                                                                                           \
      EACH(p[i] = (T)in->i[i]);                                                                    \
    return;                                                                                        \
  }
    INTEGERS(X)
#undef X
  default:
    if (from == CORE_F32)
      EACH(wafer_element_set_f64(dtype, raw, i, (double)in->f[i]));
    else if (from == CORE_F64)
      EACH(wafer_element_set_f64(dtype, raw, i, in->d[i]));
    else
      EACH(wafer_element_set_i64(dtype, raw, i, in->i[i]));
  }
}

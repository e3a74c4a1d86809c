#include "wafer/tensor.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "narrow.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* ---- narrow floats ---- */

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Written with selects instead of branches, so that loops over it vectorise. A NaN keeps the top of
 * its payload and becomes quiet, as F16C does. */
static inline uint16_t narrow_f16(float value) {
  uint32_t bits = bits_of(value), sign = bits & 0x80000000u, magnitude = bits ^ sign;
  uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? nan : half;
  return (uint16_t)(half | sign >> 16);
}

static inline float widen_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  uint32_t normal = (magnitude << 13) + 0x38000000u;
  uint32_t subnormal = bits_of((float)magnitude * 0x1p-24f);
  uint32_t special = 0x7f800000u | magnitude << 13 | (magnitude > 0x7c00u ? 0x400000u : 0);
  uint32_t bits = magnitude < 0x400u ? subnormal : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  return float_of(bits | sign);
}

uint16_t wafer_f16_of_f32(float value) {
  return narrow_f16(value);
}
float wafer_f32_of_f16(uint16_t bits) {
  return widen_f16(bits);
}

uint16_t wafer_bf16_of_f32(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float wafer_f32_of_bf16(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

static void round_f16_plain(float *values, size_t count) {
  for (size_t i = 0; i < count; i++) values[i] = widen_f16(narrow_f16(values[i]));
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static void round_f16_f16c(float *values, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(values + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(half));
  }
  round_f16_plain(values + i, count - i);
}

/* Every CPU with AVX2 has F16C, whose own name not every compiler knows here. */
void wafer_round_f16(float *values, size_t count) {
  (__builtin_cpu_supports("avx2") ? round_f16_f16c : round_f16_plain)(values, count);
}
#else
void wafer_round_f16(float *values, size_t count) {
  round_f16_plain(values, count);
}
#endif

/* To f32 so that a second rounding, to f16 or bf16, gives what one rounding would: round to odd. */
static float f32_to_odd(double value) {
  float near = (float)value;
  uint32_t bits = bits_of(near);
  if ((double)near == value || value != value || (bits & 0x7f800000u) == 0x7f800000u) return near;
  if ((near > 0 ? (double)near > value : (double)near < value)) bits -= 1;
  return float_of(bits | 1);
}

/* ---- elements ---- */

/* Out of int64's range, and NaN: the least integer, as x86 does. */
static int64_t i64_of_f64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
}

static uint64_t u64_of_f64(double value) {
  return value >= 0x1p63 && value < 0x1p64 ? (uint64_t)value : (uint64_t)i64_of_f64(value);
}

typedef struct accessors {
  double (*f64)(const void *at);
  int64_t (*i64)(const void *at);
  void (*set_f64)(void *at, double value);
  void (*set_i64)(void *at, int64_t value);
} accessors;

/* ACCESS(name, type, to_f64, to_i64, of_f64, of_i64): the four conversions, v being the value at
 * hand */
#define ACCESS(name, type, to_f64, to_i64, of_f64, of_i64)                                         \
  static double f64_##name(const void *at) {                                                       \
    type v;                                                                                        \
    memcpy(&v, at, sizeof v);                                                                      \
    return to_f64;                                                                                 \
  }                                                                                                \
  static int64_t i64_##name(const void *at) {                                                      \
    type v;                                                                                        \
    memcpy(&v, at, sizeof v);                                                                      \
    return to_i64;                                                                                 \
  }                                                                                                \
  static void set_f64_##name(void *at, double v) {                                                 \
    type narrow = of_f64;                                                                          \
    memcpy(at, &narrow, sizeof narrow);                                                            \
  }                                                                                                \
  static void set_i64_##name(void *at, int64_t v) {                                                \
    type narrow = of_i64;                                                                          \
    memcpy(at, &narrow, sizeof narrow);                                                            \
  }
#define INTEGER(name, type) ACCESS(name, type, (double)v, (int64_t)v, (type)i64_of_f64(v), (type)v)
#define NARROW_FLOAT(name)                                                                         \
  ACCESS(name, uint16_t, (double)wafer_f32_of_##name(v), i64_of_f64(wafer_f32_of_##name(v)),       \
         wafer_##name##_of_f32(f32_to_odd(v)), wafer_##name##_of_f32(f32_to_odd((double)v)))

ACCESS(f64, double, v, i64_of_f64(v), v, (double)v)
ACCESS(f32, float, (double)v, i64_of_f64((double)v), (float)v, (float)v)
NARROW_FLOAT(f16)
NARROW_FLOAT(bf16)
INTEGER(i8, int8_t)
INTEGER(u8, uint8_t)
INTEGER(i16, int16_t)
INTEGER(u16, uint16_t)
INTEGER(i32, int32_t)
INTEGER(u32, uint32_t)
INTEGER(i64, int64_t)
/* In the low bits of a byte, sign-extended when signed. */
#define TINY_INTEGER(name, type, spare)                                                            \
  ACCESS(name, type, (double)v, (int64_t)v,                                                        \
         (type)((type)((uint64_t)i64_of_f64(v) << (spare)) >> (spare)),                            \
         (type)((type)((uint64_t)v << (spare)) >> (spare)))
#define TINY_FLOAT(name)                                                                           \
  ACCESS(name, uint8_t, narrow_decode(NARROW_##name, v),                                           \
         i64_of_f64(narrow_decode(NARROW_##name, v)), narrow_encode(NARROW_##name, v),             \
         narrow_encode(NARROW_##name, (double)v))

TINY_INTEGER(i4, int8_t, 4)
TINY_INTEGER(u4, uint8_t, 4)
TINY_INTEGER(i2, int8_t, 6)
TINY_INTEGER(u2, uint8_t, 6)
TINY_FLOAT(f8e4m3fn)
TINY_FLOAT(f8e4m3fnuz)
TINY_FLOAT(f8e5m2)
TINY_FLOAT(f8e5m2fnuz)
TINY_FLOAT(f4e2m1)
TINY_FLOAT(f8e8m0)
ACCESS(u64, uint64_t, (double)v, (int64_t)v, u64_of_f64(v), (uint64_t)v)
ACCESS(bool, uint8_t, v ? 1.0 : 0.0, v ? 1 : 0, v != 0, v != 0)

/* ---- element types ---- */

typedef struct dtype_row {
  const char *name;
  int32_t onnx;
  uint32_t bits;
  const char *npy, *safetensors, *mlir;
  accessors access;
} dtype_row;

static const dtype_row rows[WAFER_DTYPE_COUNT + 1] = {
    [WAFER_DTYPE_string] = {.name = "string",
                            .onnx = 8,
                            .bits = 8 * sizeof(char *),
                            .npy = "",
                            .safetensors = "",
                            .mlir = ""},
    [WAFER_DTYPE_none] = {.name = "none", .npy = "", .safetensors = "", .mlir = ""},
#define DTYPE(name, onnx, bits, npy, safetensors, mlir)                                            \
  [WAFER_DTYPE_##name] = {#name,                                                                   \
                          onnx,                                                                    \
                          bits,                                                                    \
                          npy,                                                                     \
                          safetensors,                                                             \
                          mlir,                                                                    \
                          {f64_##name, i64_##name, set_f64_##name, set_i64_##name}},
#include "wafer/dtypes.def"
};

static const dtype_row *row_of(wafer_dtype dtype) {
  assert((unsigned)dtype <= WAFER_DTYPE_string);
  return &rows[dtype];
}

const char *wafer_dtype_name(wafer_dtype dtype) {
  return row_of(dtype)->name;
}
uint32_t wafer_dtype_bits(wafer_dtype dtype) {
  return row_of(dtype)->bits;
}
size_t wafer_dtype_bytes(wafer_dtype dtype) {
  return (row_of(dtype)->bits + 7) / 8;
}

wafer_dtype wafer_stored_dtype(wafer_dtype dtype, wafer_dtype storage) {
  bool narrows =
      storage == WAFER_DTYPE_f16 && wafer_dtype_is_float(dtype) && wafer_dtype_bits(dtype) >= 16;
  return narrows ? WAFER_DTYPE_f16 : dtype;
}

wafer_dtype wafer_sum_dtype(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_f16 || dtype == WAFER_DTYPE_bf16 ? WAFER_DTYPE_f32 : dtype;
}

size_t wafer_stored_bytes(wafer_dtype dtype, wafer_dtype storage) {
  return wafer_dtype_bytes(wafer_stored_dtype(dtype, storage));
}
const char *wafer_dtype_npy(wafer_dtype dtype) {
  return row_of(dtype)->npy;
}
const char *wafer_dtype_safetensors(wafer_dtype dtype) {
  return row_of(dtype)->safetensors;
}
const char *wafer_dtype_mlir(wafer_dtype dtype) {
  return row_of(dtype)->mlir;
}

static wafer_dtype find_by(size_t column, const char *text) {
  for (int i = 1; text && *text && i < WAFER_DTYPE_COUNT; i++) {
    const char *cell;
    memcpy(&cell, (const char *)&rows[i] + column, sizeof cell);
    if (strcmp(cell, text) == 0) return (wafer_dtype)i;
  }
  return WAFER_DTYPE_none;
}

wafer_dtype wafer_dtype_by_name(const char *name) {
  return find_by(offsetof(dtype_row, name), name);
}
wafer_dtype wafer_dtype_by_npy(const char *descr) {
  return find_by(offsetof(dtype_row, npy), descr);
}
wafer_dtype wafer_dtype_by_safetensors(const char *name) {
  return find_by(offsetof(dtype_row, safetensors), name);
}

wafer_dtype wafer_dtype_by_onnx(int32_t onnx) {
  for (int i = 1; i < WAFER_DTYPE_COUNT; i++)
    if (rows[i].onnx == onnx) return (wafer_dtype)i;
  return WAFER_DTYPE_none;
}

bool wafer_dtype_is_float(wafer_dtype dtype) {
  return row_of(dtype)->name[0] == 'f' || dtype == WAFER_DTYPE_bf16;
}

bool wafer_dtype_is_signed(wafer_dtype dtype) {
  return wafer_dtype_is_float(dtype) || row_of(dtype)->name[0] == 'i';
}

static double greatest_float(wafer_dtype dtype) {
  switch (dtype) {
  case WAFER_DTYPE_f64: return DBL_MAX;
  case WAFER_DTYPE_f32: return (double)FLT_MAX;
  case WAFER_DTYPE_bf16: return 0x1.fep127;
  case WAFER_DTYPE_f16: return 65504;
  case WAFER_DTYPE_f8e4m3fn: return 448;
  case WAFER_DTYPE_f8e4m3fnuz: return 240;
  case WAFER_DTYPE_f4e2m1: return 6;
  case WAFER_DTYPE_f8e8m0: return 0x1p127;
  default: /* E5M2, both kinds */ return 57344;
  }
}

void wafer_dtype_range(wafer_dtype dtype, double *least, double *most) {
  uint32_t bits = dtype == WAFER_DTYPE_bool ? 1 : wafer_dtype_bits(dtype);
  if (wafer_dtype_is_float(dtype)) {
    *most = greatest_float(dtype);
    *least = dtype == WAFER_DTYPE_f8e8m0 ? 0x1p-127 : -*most;
  } else if (wafer_dtype_is_signed(dtype)) {
    *least = -ldexp(1, (int)bits - 1);
    *most = ldexp(1, (int)bits - 1) - 1;
  } else {
    *least = 0;
    *most = ldexp(1, (int)bits) - 1;
  }
}

static const char *at_const(wafer_dtype dtype, const void *data, int64_t index) {
  return (const char *)data + index * (int64_t)wafer_dtype_bytes(dtype);
}

static char *at(wafer_dtype dtype, void *data, int64_t index) {
  return (char *)data + index * (int64_t)wafer_dtype_bytes(dtype);
}

double wafer_element_f64(wafer_dtype dtype, const void *data, int64_t index) {
  return row_of(dtype)->access.f64(at_const(dtype, data, index));
}

int64_t wafer_element_i64(wafer_dtype dtype, const void *data, int64_t index) {
  return row_of(dtype)->access.i64(at_const(dtype, data, index));
}

void wafer_element_set_f64(wafer_dtype dtype, void *data, int64_t index, double value) {
  row_of(dtype)->access.set_f64(at(dtype, data, index), value);
}

void wafer_element_set_i64(wafer_dtype dtype, void *data, int64_t index, int64_t value) {
  row_of(dtype)->access.set_i64(at(dtype, data, index), value);
}

/* ---- shapes and views ---- */

bool wafer_shape_equal(const wafer_shape *a, const wafer_shape *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool wafer_shape_alike(const wafer_shape *a, const wafer_shape *b) {
  uint32_t i = 0, j = 0;
  for (;;) {
    while (i < a->rank && a->dims[i] == 1) i++;
    while (j < b->rank && b->dims[j] == 1) j++;
    if (i == a->rank || j == b->rank) return i == a->rank && j == b->rank;
    if (a->dims[i++] != b->dims[j++]) return false;
  }
}

/* Dims of 0 do not excuse the others: strides, too, must fit. */
bool wafer_shape_elements(const wafer_shape *shape, int64_t *elements) {
  int64_t product = 8;
  bool empty = false;
  *elements = 0;
  if (shape->rank > WAFER_MAX_RANK) return false;
  for (uint32_t i = 0; i < shape->rank; i++) {
    int64_t dim = shape->dims[i];
    if (dim < 0) return false;
    if (dim == 0) empty = true;
    if (dim && __builtin_mul_overflow(product, dim, &product)) return false;
  }
  *elements = empty ? 0 : product / 8;
  return true;
}

void wafer_shape_format(const wafer_shape *shape, char *buffer, size_t bytes) {
  if (bytes == 0) return;
  snprintf(buffer, bytes, "%s", shape->rank ? "" : "scalar");
  for (uint32_t i = 0; i < shape->rank; i++) {
    size_t used = strlen(buffer);
    snprintf(buffer + used, bytes - used, "%s%" PRId64, i ? "x" : "", shape->dims[i]);
  }
}

wafer_view wafer_view_of(wafer_dtype dtype, const wafer_shape *shape, void *data) {
  wafer_view view = {.dtype = dtype, .shape = *shape, .data = data};
  int64_t stride = 1;
  for (uint32_t i = shape->rank; i-- > 0; stride *= shape->dims[i]) view.strides[i] = stride;
  return view;
}

bool wafer_view_is_dense(const wafer_view *view) {
  int64_t stride = 1;
  for (uint32_t i = 0; i < view->shape.rank; i++)
    if (view->shape.dims[i] == 0) return true;
  for (uint32_t i = view->shape.rank; i-- > 0; stride *= view->shape.dims[i])
    if (view->shape.dims[i] != 1 && view->strides[i] != stride) return false;
  return true;
}

/* Inlined with a constant `bytes`, so that the copies become single moves. */
static inline void copy_strided(char *to, const char *from, int64_t count, int64_t stride,
                                size_t bytes) {
  for (int64_t i = 0; i < count; i++) memcpy(to + i * (int64_t)bytes, from + i * stride, bytes);
}

/* `stride` in bytes. */
static void copy_row(char *to, const char *from, int64_t count, int64_t stride, size_t bytes) {
  if (stride == (int64_t)bytes)
    memcpy(to, from, (size_t)count * bytes);
  else if (bytes == 1)
    copy_strided(to, from, count, stride, 1);
  else if (bytes == 2)
    copy_strided(to, from, count, stride, 2);
  else if (bytes == 4)
    copy_strided(to, from, count, stride, 4);
  else
    copy_strided(to, from, count, stride, 8);
}

/* The next index of all dims but the last, as an odometer; moves `offset` (in elements) along. */
static void step_rows(const wafer_view *view, int64_t *index, int64_t *offset) {
  for (uint32_t i = view->shape.rank - 1; i-- > 0;) {
    *offset += view->strides[i];
    if (++index[i] < view->shape.dims[i]) return;
    *offset -= view->shape.dims[i] * view->strides[i];
    index[i] = 0;
  }
}

void wafer_view_pack(const wafer_view *view, void *dense) {
  int64_t elements, index[WAFER_MAX_RANK] = {0}, offset = 0;
  if (!wafer_shape_elements(&view->shape, &elements) || elements == 0) return;
  size_t bytes = wafer_dtype_bytes(view->dtype);
  uint32_t last = view->shape.rank - 1;
  int64_t row = view->shape.rank ? view->shape.dims[last] : 1;
  int64_t stride = (view->shape.rank ? view->strides[last] : 1) * (int64_t)bytes;
  char *to = dense;
  for (int64_t done = 0; done < elements; done += row, to += row * (int64_t)bytes) {
    copy_row(to, (const char *)view->data + offset * (int64_t)bytes, row, stride, bytes);
    if (view->shape.rank) step_rows(view, index, &offset);
  }
}

size_t wafer_tensor_bytes(wafer_dtype dtype, const wafer_shape *shape) {
  int64_t elements;
  bool fits = wafer_shape_elements(shape, &elements);
  assert(fits);
  return fits ? (size_t)elements * wafer_dtype_bytes(dtype) : 0;
}

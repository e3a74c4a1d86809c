/* Element types, shapes and views of tensors in host memory. */
#ifndef WAFER_TENSOR_H
#define WAFER_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wafer/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_dtype {
  WAFER_DTYPE_none = 0, /* no type: also ONNX's UNDEFINED */
#define DTYPE(name, ...) WAFER_DTYPE_##name,
#include "wafer/dtypes.def"
  WAFER_DTYPE_COUNT,
  WAFER_DTYPE_string = WAFER_DTYPE_COUNT /* const char *: items of the host alone, never a core's */
} wafer_dtype;

const char *wafer_dtype_name(wafer_dtype dtype); /* "f32"; "none" */
uint32_t wafer_dtype_bits(wafer_dtype dtype);    /* 0 for none */
size_t wafer_dtype_bytes(wafer_dtype dtype);     /* bytes of one element in host memory */
/* How a type lies on a core, where floats of 16 bits and more are stored as f32 or f16, and its
 * bytes. */
wafer_dtype wafer_stored_dtype(wafer_dtype dtype, wafer_dtype storage);
size_t wafer_stored_bytes(wafer_dtype dtype, wafer_dtype storage);
wafer_dtype wafer_sum_dtype(wafer_dtype dtype); /* of sums and steps between: f32 for f16, bf16 */
const char *wafer_dtype_npy(wafer_dtype dtype);           /* "<f4", "" */
const char *wafer_dtype_safetensors(wafer_dtype dtype);   /* "F32", "" */
const char *wafer_dtype_mlir(wafer_dtype dtype);          /* "f32", "" */
wafer_dtype wafer_dtype_by_name(const char *name);        /* none when unknown */
wafer_dtype wafer_dtype_by_onnx(int32_t onnx);            /* none when unknown */
wafer_dtype wafer_dtype_by_npy(const char *descr);        /* none when unknown */
wafer_dtype wafer_dtype_by_safetensors(const char *name); /* none when unknown */
bool wafer_dtype_is_float(wafer_dtype dtype);             /* those of 8 and 4 bits, too */
bool wafer_dtype_is_signed(wafer_dtype dtype);            /* floats and signed integers */

/* The least and the greatest finite number of a type, rounded to doubles. */
void wafer_dtype_range(wafer_dtype dtype, double *least, double *most);

#define WAFER_MAX_RANK 8

/* Row-major dims, outermost first; rank 0 is a scalar. */
typedef struct wafer_shape {
  uint32_t rank;
  int64_t dims[WAFER_MAX_RANK];
} wafer_shape;

bool wafer_shape_equal(const wafer_shape *a, const wafer_shape *b);
/* But for dims of 1: elements of [n] and [n, 1] are the same. */
bool wafer_shape_alike(const wafer_shape *a, const wafer_shape *b);
/* Elements; false on a negative dim or when bytes of 8-byte elements would overflow int64. */
bool wafer_shape_elements(const wafer_shape *shape, int64_t *elements);
/* "1x3x48x320"; "scalar". */
void wafer_shape_format(const wafer_shape *shape, char *buffer, size_t bytes);

/* A tensor somewhere in host memory. Strides are in elements; wafer_view fills in row-major ones.
 */
typedef struct wafer_view {
  wafer_dtype dtype;
  wafer_shape shape;
  int64_t strides[WAFER_MAX_RANK];
  void *data; /* borrowed */
} wafer_view;

wafer_view wafer_view_of(wafer_dtype dtype, const wafer_shape *shape, void *data);
bool wafer_view_is_dense(const wafer_view *view); /* row-major without gaps */
/* Copies a view's elements, row-major and without gaps, to `dense`. Any strides, also 0 and
 * negative. */
void wafer_view_pack(const wafer_view *view, void *dense);
/* Bytes of a dense tensor; the shape must have passed wafer_shape_elements. */
size_t wafer_tensor_bytes(wafer_dtype dtype, const wafer_shape *shape);

/* One element as a double or an int64, whatever the type (f16 and bf16 widened, conversions as C
 * casts). */
double wafer_element_f64(wafer_dtype dtype, const void *data, int64_t index);
int64_t wafer_element_i64(wafer_dtype dtype, const void *data, int64_t index);
void wafer_element_set_f64(wafer_dtype dtype, void *data, int64_t index, double value);
void wafer_element_set_i64(wafer_dtype dtype, void *data, int64_t index, int64_t value);

/* Narrowing by round to nearest even, overflow to infinity; the one place where storage rounds. */
uint16_t wafer_f16_of_f32(float value);
float wafer_f32_of_f16(uint16_t bits);
uint16_t wafer_bf16_of_f32(float value);
float wafer_f32_of_bf16(uint16_t bits);
/* In place: values[i] = f32(f16(values[i])): what storing as f16 does to them. */
void wafer_round_f16(float *values, size_t count);

#ifdef __cplusplus
}
#endif
#endif

#include "resize.h"

#include <math.h>

#include "wafer/ops.h"

/* The resized length is scale * in, not rounded, as ONNX's own reference has it; a scale that was
 * made of two lengths gives back the second. */
static double length_of(double scale, int64_t in, int64_t out) {
  double length = scale * (double)in;
  return fabs(length - (double)out) <= 1e-6 * length ? (double)out : length;
}

/* Where output element j lies in the input. */
static double coordinate_of(const resize_axis *axis, int64_t j) {
  double in = (double)axis->in, resized = length_of(axis->scale, axis->in, axis->out),
         x = (double)j;
  if (axis->in == axis->out && axis->scale == 1) return x;
  switch (axis->coordinates) {
  case COORDINATES_align_corners: return resized == 1 ? 0 : x * (in - 1) / (resized - 1);
  case COORDINATES_asymmetric: return x / axis->scale;
  case COORDINATES_tf_half_pixel_for_nn: return (x + 0.5) / axis->scale;
  case COORDINATES_pytorch_half_pixel: return resized == 1 ? 0 : (x + 0.5) / axis->scale - 0.5;
  case COORDINATES_half_pixel_symmetric:
    return in / 2 * (1 - (double)axis->out / resized) + (x + 0.5) / axis->scale - 0.5;
  default: return (x + 0.5) / axis->scale - 0.5;
  }
}

static int64_t clamp(double x, int64_t in) {
  if (!(x > 0)) return 0; /* a NaN, too */
  return x >= (double)in ? in - 1 : (int64_t)x;
}

static double nearest(double x, rounding how) {
  switch (how) {
  case ROUNDING_round_prefer_floor: return ceil(x - 0.5);
  case ROUNDING_round_prefer_ceil: return floor(x + 0.5);
  case ROUNDING_floor: return floor(x);
  default: return ceil(x);
  }
}

/* Keys' cubic convolution at distance |x| < 2. */
static double cubic(double x, double a) {
  x = fabs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

void resize_taps_of(const resize_axis *axis, int64_t j, resize_taps *taps) {
  double x = coordinate_of(axis, j), left = floor(x), sum = 0;
  *taps = (resize_taps){.weight = {1}};
  if (axis->mode == RESIZE_nearest) {
    taps->index[0] = clamp(nearest(x, axis->rounding), axis->in);
    return;
  }
  int count = axis->mode == RESIZE_cubic ? 4 : 2;
  double first = count == 4 ? left - 1 : left;
  for (int k = 0; k < count; k++) {
    double at = first + k, distance = fabs(x - at);
    bool outside = at < 0 || at > (double)(axis->in - 1);
    taps->index[k] = clamp(at, axis->in);
    taps->weight[k] = count == 4 ? cubic(distance, axis->cubic_a) : 1 - distance;
    if (axis->exclude_outside && outside) taps->weight[k] = 0;
    sum += taps->weight[k];
  }
  if (axis->exclude_outside && sum != 0)
    for (int k = 0; k < count; k++) taps->weight[k] /= sum;
}

void wafer_resize_taps_of(const wafer_attrs *attrs, uint32_t d, int64_t in, int64_t out, int64_t j,
                          wafer_resize_taps *taps) {
  uint32_t count;
  const resize_axis axis = {
      .in = in,
      .out = out,
      .scale = wafer_attr_floats(attrs, WAFER_ATTR_scales, &count)[d],
      .mode = (resize_mode)mode_find(resize_modes, RESIZE_MODE_COUNT,
                                     wafer_attr_string(attrs, WAFER_ATTR_mode)),
      .coordinates = (coordinates)mode_find(coordinate_modes, COORDINATES_COUNT,
                                            wafer_attr_string(attrs, WAFER_ATTR_coordinates)),
      .rounding = (rounding)mode_find(rounding_modes, ROUNDING_COUNT,
                                      wafer_attr_string(attrs, WAFER_ATTR_rounding)),
      .cubic_a = wafer_attr_float(attrs, WAFER_ATTR_cubic_a),
      .exclude_outside = wafer_attr_int(attrs, WAFER_ATTR_exclude_outside) != 0,
  };
  resize_taps own;
  resize_taps_of(&axis, j, &own);
  for (uint32_t k = 0; k < 4; k++) {
    taps->index[k] = own.index[k];
    taps->weight[k] = own.weight[k];
  }
}

#define SCANNED 65536 /* longer results: from anywhere in the operand */

void wafer_resize_window(const wafer_attrs *attrs, uint32_t d, int64_t in, int64_t out,
                         int64_t *before, int64_t *after) {
  *before = *after = INT64_MIN;
  for (int64_t j = 0; j < out && out <= SCANNED; j++) {
    wafer_resize_taps taps;
    wafer_resize_taps_of(attrs, d, in, out, j, &taps);
    for (uint32_t k = 0; k < 4; k++) {
      if (taps.weight[k] == 0) continue;
      int64_t left = j * in - (taps.index[k] + 1) * out + 1, right = taps.index[k] * out - j * in;
      if (left > *before) *before = left;
      if (right > *after) *after = right;
    }
  }
  if (*before == INT64_MIN) *before = *after = in * out;
}

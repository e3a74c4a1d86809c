#include "window.h"

windows windows_of(const wafer_attrs *attrs, const wafer_shape *in, const wafer_shape *out,
                   const int64_t *kernel) {
  uint32_t spatial;
  const int64_t *strides = wafer_attr_ints(attrs, WAFER_ATTR_strides, &spatial);
  const int64_t *dilations = wafer_attr_ints(attrs, WAFER_ATTR_dilations, &spatial);
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &spatial);
  windows all;
  spatial /= 2;
  for (uint32_t i = 0; i < 3; i++) {
    if (i + spatial < 3) {
      all.dim[i] = (window_dim){1, 1, 1, 1, 1, 0, 0};
      continue;
    }
    uint32_t s = i + spatial - 3;
    all.dim[i] = (window_dim){in->dims[2 + s], out->dims[2 + s], kernel[s],        strides[s],
                              dilations[s],    pads[s],          pads[s + spatial]};
  }
  return all;
}

static int64_t ceil_div(int64_t a, int64_t b) { /* b > 0 */
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}

/* Numbers k in 0 .. n - 1 with 0 <= start + k * step < limit. */
static window_taps inside(int64_t start, int64_t step, int64_t n, int64_t limit) {
  int64_t first = ceil_div(-start, step), last = ceil_div(limit - start, step);
  if (first < 0) first = 0;
  if (last > n) last = n;
  return (window_taps){first, last < first ? first : last};
}

window_taps window_taps_of(const window_dim *dim, int64_t at) {
  return inside(at * dim->stride - dim->begin, dim->dilation, dim->kernel, dim->in);
}

window_taps window_positions_of(const window_dim *dim, int64_t tap) {
  return inside(tap * dim->dilation - dim->begin, dim->stride, dim->out, dim->in);
}

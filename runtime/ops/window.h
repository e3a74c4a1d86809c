/* The spatial dims of convolutions and pools, as three: missing ones lead and are 1 long. */
#ifndef RUNTIME_WINDOW_H
#define RUNTIME_WINDOW_H

#include "wafer/ops.h"

typedef struct window_dim {
  int64_t in, out, kernel, stride, dilation, begin, end;
} window_dim;

typedef struct windows {
  window_dim dim[3];
} windows;

/* From attributes and types that wafer_op_infer has accepted. `kernel`: the weight's spatial dims,
 * or the attribute's. */
windows windows_of(const wafer_attrs *attrs, const wafer_shape *in, const wafer_shape *out,
                   const int64_t *kernel);

/* Taps first .. last - 1 of output position `at` that fall inside the input. */
typedef struct window_taps {
  int64_t first, last;
} window_taps;
window_taps window_taps_of(const window_dim *dim, int64_t at);

/* Output positions first .. last - 1 whose tap `tap` falls inside the input. */
window_taps window_positions_of(const window_dim *dim, int64_t tap);

#endif

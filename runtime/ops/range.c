/* ONNX's Range: integers are counted as such, for not all of them are doubles. */
#include <math.h>

#include "wafer/ops.h"

static bool counts_integers(const wafer_view of[3]) {
  return !wafer_dtype_is_float(of[0].dtype) && of[0].dtype != WAFER_DTYPE_u64;
}

static double real(const wafer_view *v) {
  return wafer_element_f64(v->dtype, v->data, 0);
}

static int64_t whole(const wafer_view *v) {
  return wafer_element_i64(v->dtype, v->data, 0);
}

/* Steps that begin before the limit, which may be more than 64 bits hold. */
static double integers_between(const wafer_view of[3]) {
  __int128 way = (__int128)whole(&of[1]) - whole(&of[0]), step = whole(&of[2]);
  __int128 count = way / step + (way % step != 0 && (way > 0) == (step > 0));
  return (double)count;
}

bool wafer_range_count(const wafer_view of[3], int64_t most, int64_t *count) {
  double steps = real(&of[2]) == 0     ? NAN
                 : counts_integers(of) ? integers_between(of)
                                       : ceil((real(&of[1]) - real(&of[0])) / real(&of[2]));
  *count = steps > 0 && steps <= (double)most ? (int64_t)steps : 0;
  return steps <= (double)most;
}

void wafer_range_fill(const wafer_view of[3], int64_t count, void *data) {
  for (int64_t i = 0; i < count; i++)
    if (counts_integers(of))
      wafer_element_set_i64(
          of[0].dtype, data, i,
          (int64_t)((uint64_t)whole(&of[0]) + (uint64_t)i * (uint64_t)whole(&of[2])));
    else
      wafer_element_set_f64(of[0].dtype, data, i, real(&of[0]) + (double)i * real(&of[2]));
}

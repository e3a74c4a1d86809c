/* Constants that have one value per channel. */
#include "simplify_channel.h"

#include <math.h>

wafer_status channel_no_memory(const simplifier *s, MlirOperation op) {
  return wafer_fail(s->ctx->diag, wafer_ir_loc(s->ir, op), WAFER_NO_MEMORY,
                    "no memory to fold weights");
}

bool channel_dtype(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_f32 || dtype == WAFER_DTYPE_f64;
}

bool channel_values(const simplifier *s, MlirValue value, const wafer_type *type, double *out) {
  wafer_type own;
  wafer_view view;
  int64_t channels = type->shape.dims[1];
  if (!wafer_ir_is_constant(value)) return false;
  own = wafer_ir_value_type(value);
  if (own.shape.rank > type->shape.rank || !channel_dtype(own.dtype)) return false;
  for (uint32_t d = 0; d < own.shape.rank; d++) {
    bool channel = d + type->shape.rank - own.shape.rank == 1;
    if (own.shape.dims[d] != 1 && !(channel && own.shape.dims[d] == channels)) return false;
  }
  if (!wafer_ir_constant(s->ctx, s->ir, value, &view)) return false;
  int64_t count;
  if (!wafer_shape_elements(&own.shape, &count)) return false;
  for (int64_t k = 0; k < channels; k++)
    out[k] = wafer_element_f64(own.dtype, view.data, count == 1 ? 0 : k);
  return true;
}

bool channel_all(const double *values, int64_t count, double value) {
  for (int64_t i = 0; i < count; i++)
    if (values[i] != value) return false;
  return true;
}

bool channel_finite(const double *values, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

bool channel_readable(const simplifier *s, MlirOperation op, uint32_t operand) {
  wafer_view view;
  MlirValue value = mlirOperationGetOperand(op, operand);
  return wafer_ir_is_constant(value) && wafer_ir_constant(s->ctx, s->ir, value, &view);
}

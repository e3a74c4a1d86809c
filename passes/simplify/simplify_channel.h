/* Constants that have one value per channel, for the rewrites that move them into a convolution. */
#ifndef PASSES_SIMPLIFY_CHANNEL_H
#define PASSES_SIMPLIFY_CHANNEL_H

#include "simplify.h"

/* A constant that is the same along all dims of `type` but the channels (dim 1), as one value per
 * channel; false when it is not one. */
bool channel_values(const simplifier *s, MlirValue value, const wafer_type *type, double *out);
bool channel_all(const double *values, int64_t count, double value);
bool channel_finite(const double *values, int64_t count);
/* Weights of this type may change: rounding a narrower one twice is not the model. */
bool channel_dtype(wafer_dtype dtype);
bool channel_readable(const simplifier *s, MlirOperation op,
                      uint32_t operand); /* a constant whose bytes are there */
wafer_status channel_no_memory(const simplifier *s, MlirOperation op);

#endif

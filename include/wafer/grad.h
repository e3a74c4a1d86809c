/* Reverse-mode differentiation of core ops: what pass `grad` and ONNX's Gradient stand on. The rule
 * of an op is the gradient column of ops.def. */
#ifndef WAFER_GRAD_H
#define WAFER_GRAD_H

#include "wafer/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dy/dx for several x: the sum over the elements of y of `seed` times their derivatives. */
typedef struct wafer_grad {
  MlirValue y;
  MlirValue seed;          /* of y's type: the gradient that y gets; null: ones */
  uint32_t variable_count; /* the first ones of `fixed` */
  uint32_t fixed_count;
  const MlirValue *fixed; /* variables, then other values that nothing behind counts of */
} wafer_grad;

/* Appends the ops that compute the gradients to what the block holds before the builder's place.
 * gradients[i] is of the type of fixed[i]; null: y does not depend on it. Parts of a gradient are
 * added in the order of the walk back from y, which is the same in every run. UNSUPPORTED names an
 * op on the way that has no derivative. */
wafer_status wafer_grad_build(wafer_builder *b, const wafer_grad *what, MlirValue *gradients);

/* Whether each variable would get a gradient, without building it. */
wafer_status wafer_grad_reaches(const wafer_builder *b, const wafer_grad *what, bool *reached);

#ifdef __cplusplus
}
#endif
#endif

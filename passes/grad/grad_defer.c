/* Products that wait to be added to another part of the same gradient.
 *
 * A parameter with several uses gets a sum of parts, and the first part is there long before the
 * last: of a table shared by head and embedding, throughout the backward pass of all layers. Its
 * product needs much memory while it is computed, beside all activations that still wait. It moves,
 * with what turns and reshapes it, to right before the sum, when most of them are gone. */
#include "grad.h"

/* The op that makes a value which nothing else uses; null: there is none. */
static MlirOperation sole_maker(MlirValue value) {
  MlirOperation nothing = {NULL};
  if (mlirValueIsNull(value) || !mlirValueIsAOpResult(value)) return nothing;
  MlirOpOperand use = mlirValueGetFirstUse(value);
  bool once = !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
  return once ? mlirOpResultGetOwner(value) : nothing;
}

static bool is_op(MlirOperation op, wafer_op id) {
  return !mlirOperationIsNull(op) && wafer_ir_op(op) == id;
}

static bool turns(MlirOperation op) {
  return is_op(op, WAFER_OP_reshape) || is_op(op, WAFER_OP_transpose) || is_op(op, WAFER_OP_cast);
}

static int64_t elements(MlirValue value) {
  wafer_type type = wafer_ir_value_type(value);
  int64_t count = 0;
  return wafer_shape_elements(&type.shape, &count) ? count : INT64_MAX / 4;
}

/* Whether the product's factors are at most a quarter larger than what it makes. */
static bool is_light(MlirOperation product) {
  int64_t factors =
      elements(mlirOperationGetOperand(product, 0)) + elements(mlirOperationGetOperand(product, 1));
  return factors / 5 * 4 <= elements(mlirOperationGetResult(product, 0));
}

/* Moves a light product and what turns its result to right before `sum`. */
static void defer(MlirValue part, MlirOperation sum) {
  MlirOperation product = sole_maker(part), before = sum;
  while (turns(product)) product = sole_maker(mlirOperationGetOperand(product, 0));
  if (!is_op(product, WAFER_OP_matmul) || !is_light(product)) return;
  for (MlirOperation op = sole_maker(part); turns(op);
       before = op, op = sole_maker(mlirOperationGetOperand(op, 0)))
    mlirOperationMoveBefore(op, before);
  mlirOperationMoveBefore(product, before);
}

void grad_defer(MlirOperation end) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(end); i++) {
    MlirOperation op = sole_maker(mlirOperationGetOperand(end, i));
    while (turns(op)) op = sole_maker(mlirOperationGetOperand(op, 0));
    for (MlirOperation inner; is_op(op, WAFER_OP_add); op = inner) {
      inner = sole_maker(mlirOperationGetOperand(op, 0)); /* earlier parts are summed there */
      for (intptr_t part = 0; part < 2; part++) defer(mlirOperationGetOperand(op, part), op);
    }
  }
}

/* Evaluates ops whose operands are constants, in the order of the program, so that chains fold in
 * one walk. Needs types; gives a program in which only work that depends on an input is left, or
 * whose result is much larger than its operands: an expanded constant is cheaper to keep as an op,
 * and a mask of all pairs of many tokens to compute where it is wanted. Where the options
 * say so, weights that are quantized become what their products take: in a pipeline these have them
 * on their cores at that width either way, and computed by another kernel they would come anew with
 * every sample. */
#include "ir/ir_fold.h"

typedef struct folder {
  const wafer_ctx *ctx;
  wafer_ir *ir;
} folder;

#define MOST_STEPS 8 /* from a quantized weight to its product */

/* Whether products in floating point take it, and nothing else, at once or behind ops that compute
 * element by element or move. */
static bool meets_products(MlirValue value, uint32_t steps) {
  MlirOpOperand use = mlirValueGetFirstUse(value);
  if (mlirOpOperandIsNull(use)) return false;
  for (; !mlirOpOperandIsNull(use); use = mlirOpOperandGetNextUse(use)) {
    MlirOperation user = mlirOpOperandGetOwner(use);
    wafer_op op = wafer_ir_op(user);
    if (op == WAFER_OP_COUNT) return false;
    if (wafer_op_is(op, WAFER_TRAIT_PRODUCT)) {
      if (!wafer_dtype_is_float(wafer_ir_value_type(value).dtype)) return false;
    } else if (!steps || !(wafer_op_is(op, WAFER_TRAIT_MAP) || wafer_op_is(op, WAFER_TRAIT_VIEW)) ||
               !meets_products(mlirOperationGetResult(user, 0), steps - 1)) {
      return false;
    }
  }
  return true;
}

static bool gather(const folder *f, MlirOperation op, fold_call *call, MlirValue *operands,
                   wafer_type *types) {
  wafer_ir *ir = f->ir;
  call->op = wafer_ir_op(op);
  call->count = (uint32_t)mlirOperationGetNumOperands(op);
  call->operands = operands;
  if (call->op == WAFER_OP_COUNT || call->count == 0) return false;
  for (uint32_t i = 0; i < call->count; i++) operands[i] = mlirOperationGetOperand(op, i);
  if (!fold_may(call->op, call->count, operands)) return false;
  for (uint32_t i = 0; i < call->count; i++) types[i] = wafer_ir_value_type(operands[i]);
  call->type = wafer_ir_value_type(mlirOperationGetResult(op, 0));
  return fold_pays(ir, call->op, call->count, types, &call->type) ||
         (f->ctx->options && f->ctx->options->wide_weights &&
          meets_products(mlirOperationGetResult(op, 0), MOST_STEPS) &&
          fold_widens(ir, call->count, types, &call->type));
}

/* The op, then what only it used, which is constant or made of constants. All lie before the next
 * op of the walk. */
static void erase(MlirOperation op, uint32_t count, const MlirValue *operands) {
  mlirOperationDestroy(op);
  for (uint32_t i = 0; i < count; i++) {
    bool again = false;
    for (uint32_t j = 0; j < i; j++) again |= mlirValueEqual(operands[i], operands[j]);
    if (!again && mlirOpOperandIsNull(mlirValueGetFirstUse(operands[i])))
      mlirOperationDestroy(mlirOpResultGetOwner(operands[i]));
  }
}

static wafer_status fold_op(const folder *f, MlirOperation op) {
  MlirValue operands[WAFER_OP_MAX_OPERANDS], constant;
  wafer_type types[WAFER_OP_MAX_OPERANDS];
  wafer_attrs attrs;
  fold_call call = {.attrs = &attrs, .loc = wafer_ir_loc(f->ir, op)};
  wafer_view value;
  if (!gather(f, op, &call, operands, types)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(f->ctx, op, &attrs));
  wafer_status status = fold_run(f->ctx, f->ir, &call, &value);
  if (status == WAFER_NO_MEMORY) return status;
  if (status != WAFER_OK)
    return WAFER_OK; /* stays an op: absent weight, or a type the oracle lacks */
  wafer_builder b = {.ctx = f->ctx,
                     .ir = f->ir,
                     .block = mlirOperationGetBlock(op),
                     .before = op,
                     .location = mlirOperationGetLocation(op),
                     .loc = call.loc};
  const char *name = fold_name(f->ctx->arena, wafer_ir_node_name(op), call.op);
  WAFER_TRY(wafer_build_computed(&b, name, &value, &constant));
  mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0), constant);
  erase(op, call.count, operands);
  return WAFER_OK;
}

wafer_status wafer_pass_fold(const wafer_ctx *ctx, wafer_ir *ir) {
  folder f = {.ctx = ctx, .ir = ir};
  MlirOperation next;
  for (MlirOperation op = mlirBlockGetFirstOperation(wafer_ir_body(wafer_ir_main(ir)));
       !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    WAFER_TRY(fold_op(&f, op));
  }
  return WAFER_OK;
}

/* Infers the type of every value from its op's operands and attributes, and checks what the IR
 * already says. Needs nothing; gives static ranked tensor types everywhere. A dynamic dim (`?`) in
 * the IR is refined, a contradiction is an error. Kernels come first: their results are the types
 * of the calls. */
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <stdio.h>
#include <string.h>

#include "wafer/ir.h"

typedef struct shaper {
  const wafer_ctx *ctx;
  wafer_ir *ir;
} shaper;

static const char *type_text(char *buffer, size_t bytes, const wafer_type *type) {
  char dims[128];
  wafer_shape_format(&type->shape, dims, sizeof dims);
  snprintf(buffer, bytes, "%s of %s", dims, wafer_dtype_name(type->dtype));
  return buffer;
}

/* Whether a type that may have dynamic dims can stand for an inferred one. */
static bool admits(MlirType said, MlirType inferred) {
  if (!mlirTypeIsARankedTensor(said)) return false;
  if (!mlirTypeEqual(mlirShapedTypeGetElementType(said), mlirShapedTypeGetElementType(inferred)))
    return false;
  if (mlirShapedTypeGetRank(said) != mlirShapedTypeGetRank(inferred)) return false;
  for (int64_t d = 0; d < mlirShapedTypeGetRank(said); d++)
    if (!mlirShapedTypeIsDynamicDim(said, d) &&
        mlirShapedTypeGetDimSize(said, d) != mlirShapedTypeGetDimSize(inferred, d))
      return false;
  return true;
}

static void add_text(MlirStringRef part, void *self) {
  char *text = self;
  strncat(text, part.data, part.length < 127 - strlen(text) ? part.length : 127 - strlen(text));
}

static wafer_status contradiction(const shaper *s, MlirOperation op, MlirType said,
                                  const wafer_type *inferred) {
  char ours[160], theirs[128] = "";
  mlirTypePrint(said, add_text, theirs);
  return wafer_fail(s->ctx->diag, wafer_ir_loc(s->ir, op), WAFER_BAD_INPUT,
                    "the result is %s by the operands, but %s in the module",
                    type_text(ours, sizeof ours, inferred), theirs);
}

static wafer_status refine(const shaper *s, MlirOperation op, MlirValue result,
                           const wafer_type *inferred) {
  MlirType said = mlirValueGetType(result), type = wafer_ir_type(s->ir->context, inferred);
  if (mlirTypeEqual(said, type)) return WAFER_OK;
  if (!admits(said, type)) return contradiction(s, op, said, inferred);
  mlirValueSetType(result, type);
  return WAFER_OK;
}

static wafer_status not_static(const shaper *s, MlirOperation op, const char *what) {
  return wafer_fail(
      s->ctx->diag, wafer_ir_loc(s->ir, op), WAFER_BAD_INPUT,
      "%s needs a static shape of at most %d dims; bind its dims with --dim or --shape", what,
      WAFER_MAX_RANK);
}

static wafer_status shape_nn(const shaper *s, MlirOperation op, wafer_op id) {
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  const wafer_op_info *info = wafer_op_get(id);
  wafer_type operands[WAFER_OP_MAX_OPERANDS], result;
  wafer_attrs attrs;
  MlirValue value = mlirOperationGetResult(op, 0);
  if (count < info->least || count > info->most)
    return wafer_fail(s->ctx->diag, wafer_ir_loc(s->ir, op), WAFER_BAD_INPUT,
                      "nn.%s has %u operands, not %u to %u", info->name, count, info->least,
                      info->most);
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  if (info->traits & WAFER_TRAIT_SOURCE)
    return wafer_ir_type_get(mlirValueGetType(value), &result) ? WAFER_OK
                                                               : not_static(s, op, "a constant");
  for (uint32_t i = 0; i < count; i++)
    if (!wafer_ir_type_get(mlirValueGetType(mlirOperationGetOperand(op, i)), &operands[i]))
      return not_static(s, op, "an operand");
  WAFER_TRY(
      wafer_op_infer(s->ctx->diag, wafer_ir_loc(s->ir, op), id, &attrs, count, operands, &result));
  return refine(s, op, value, &result);
}

static MlirType function_type(MlirOperation func) {
  MlirStringRef name = mlirStringRefCreateFromCString("function_type");
  return mlirTypeAttrGetValue(mlirOperationGetAttributeByName(func, name));
}

static wafer_status shape_call(const shaper *s, MlirOperation op) {
  MlirOperation func = wafer_ir_callee(s->ir, op);
  if (mlirOperationIsNull(func)) return WAFER_OK; /* MLIR's verifier has its say */
  MlirType type = function_type(func);
  for (intptr_t i = 0; i < mlirOperationGetNumResults(op); i++) {
    wafer_type result;
    if (!wafer_ir_type_get(mlirFunctionTypeGetResult(type, i), &result))
      return not_static(s, op, "a result");
    WAFER_TRY(refine(s, op, mlirOperationGetResult(op, i), &result));
  }
  return WAFER_OK;
}

static wafer_status shape_stream(const shaper *s, MlirOperation op) {
  wafer_type type;
  if (!wafer_ir_type_get(mlirValueGetType(mlirOperationGetOperand(op, 0)), &type))
    return not_static(s, op, "a stream");
  return refine(s, op, mlirOperationGetResult(op, 0), &type);
}

static wafer_status shape_op(const shaper *s, MlirOperation op) {
  wafer_op id = wafer_ir_op(op);
  if (id != WAFER_OP_COUNT) return shape_nn(s, op, id);
  if (wafer_ir_is_call(op)) return shape_call(s, op);
  return wafer_ir_action_of(op) == WAFER_IR_stream ? shape_stream(s, op) : WAFER_OK;
}

/* The function's type follows from its arguments and what it returns. */
static wafer_status retype(const shaper *s, MlirOperation func, MlirBlock block) {
  MlirOperation last = mlirBlockGetTerminator(block);
  intptr_t results = mlirOperationGetNumOperands(last), arguments = mlirBlockGetNumArguments(block);
  MlirType *types = WAFER_NEW(s->ctx->arena, MlirType, (size_t)(arguments + results));
  if (!types)
    return wafer_fail(s->ctx->diag, wafer_ir_loc(s->ir, func), WAFER_NO_MEMORY,
                      "no memory for a function type");
  for (intptr_t i = 0; i < arguments; i++)
    types[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
  for (intptr_t i = 0; i < results; i++)
    types[arguments + i] = mlirValueGetType(mlirOperationGetOperand(last, i));
  MlirType type = mlirFunctionTypeGet(s->ir->context, arguments, types, results, types + arguments);
  if (!mlirTypeEqual(type, function_type(func)))
    mlirOperationSetAttributeByName(func, mlirStringRefCreateFromCString("function_type"),
                                    mlirTypeAttrGet(type));
  return WAFER_OK;
}

static wafer_status shape_function(const shaper *s, MlirOperation func) {
  MlirBlock block = wafer_ir_body(func);
  wafer_type type;
  if (mlirBlockIsNull(block)) return WAFER_OK;
  for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
    if (!wafer_ir_type_get(mlirValueGetType(mlirBlockGetArgument(block, i)), &type)) {
      char what[160];
      snprintf(what, sizeof what, "argument '%.100s' (#%d)",
               wafer_ir_argument_name(func, (uint32_t)i), (int)i);
      return not_static(s, func, what);
    }
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    WAFER_TRY(shape_op(s, op));
  return retype(s, func, block);
}

wafer_status wafer_pass_shape(const wafer_ctx *ctx, wafer_ir *ir) {
  shaper s = {.ctx = ctx, .ir = ir};
  MlirOperation entry = wafer_ir_main(ir);
  if (mlirOperationIsNull(entry) || !wafer_ir_is_func(entry) ||
      mlirBlockIsNull(wafer_ir_body(entry)))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "the module has no function @main with a body");
  for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(ir->module));
       !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (wafer_ir_is_func(op) && !mlirOperationEqual(op, entry)) WAFER_TRY(shape_function(&s, op));
  return shape_function(&s, entry);
}

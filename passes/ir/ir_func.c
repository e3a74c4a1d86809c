/* Functions: @main, kernels, calls. */
#include <assert.h>
#include <mlir-c/Dialect/Func.h>

#include "ir_names.h"

MlirOperation wafer_ir_main(const wafer_ir *ir) {
  return mlirSymbolTableLookup(ir->symbols, ref("main"));
}

MlirBlock wafer_ir_body(MlirOperation func) {
  return mlirRegionGetFirstBlock(mlirOperationGetRegion(func, 0));
}

const char *wafer_ir_func_name(MlirOperation func) {
  const char *name;
  return get_string(func, "sym_name", &name) ? name : "";
}

static MlirAttribute dict_entry(MlirOperation func, const char *dicts, uint32_t index,
                                const char *name) {
  MlirAttribute array = mlirOperationGetAttributeByName(func, ref(dicts));
  if (mlirAttributeIsNull(array) || !mlirAttributeIsAArray(array)) return mlirAttributeGetNull();
  if (index >= mlirArrayAttrGetNumElements(array)) return mlirAttributeGetNull();
  return mlirDictionaryAttrGetElementByName(mlirArrayAttrGetElement(array, index), ref(name));
}

static const char *dict_name(MlirOperation func, const char *dicts, uint32_t index) {
  MlirAttribute name = dict_entry(func, dicts, index, NAME_NAME);
  return mlirAttributeIsNull(name) || !mlirAttributeIsAString(name)
             ? ""
             : mlirStringAttrGetValue(name).data;
}

const char *wafer_ir_argument_name(MlirOperation func, uint32_t index) {
  return dict_name(func, "arg_attrs", index);
}

const char *wafer_ir_result_name(MlirOperation func, uint32_t index) {
  return dict_name(func, "res_attrs", index);
}

bool wafer_ir_argument_is_weight(MlirOperation func, uint32_t index) {
  return !mlirAttributeIsNull(dict_entry(func, "arg_attrs", index, NAME_WEIGHT));
}

/* ---- Roles ---- */

static const char *const roles[] = {
#define X(name) #name,
    WAFER_ROLE_MAP(X)
#undef X
};

static const char *dict_text(MlirOperation func, const char *dicts, uint32_t index,
                             const char *name) {
  MlirAttribute text = dict_entry(func, dicts, index, name);
  return mlirAttributeIsNull(text) || !mlirAttributeIsAString(text)
             ? NULL
             : mlirStringAttrGetValue(text).data;
}

static wafer_ir_port port_of(MlirOperation func, const char *dicts, uint32_t index) {
  wafer_ir_port port = {.name = dict_name(func, dicts, index),
                        .of = dict_text(func, dicts, index, NAME_OF)};
  const char *role = dict_text(func, dicts, index, NAME_ROLE);
  for (uint32_t i = 0; role && i < WAFER_ROLE_COUNT; i++)
    if (!strcmp(roles[i], role)) port.role = (wafer_role)i;
  return port;
}

wafer_ir_port wafer_ir_argument(MlirOperation func, uint32_t index) {
  return port_of(func, "arg_attrs", index);
}

wafer_ir_port wafer_ir_result(MlirOperation func, uint32_t index) {
  return port_of(func, "res_attrs", index);
}

/* ---- Making functions ---- */

typedef struct new_function {
  const char *name;
  bool is_private;
  MlirLocation location;
  uint32_t count;
  const wafer_type *types;
} new_function;

static wafer_status argument_types(const wafer_ctx *ctx, const wafer_ir *ir, const new_function *f,
                                   MlirType *types, MlirLocation *locations) {
  if (!types || !locations)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory for a function");
  for (uint32_t i = 0; i < f->count; i++) {
    types[i] = wafer_ir_type(ir->context, &f->types[i]);
    locations[i] = f->location;
  }
  return WAFER_OK;
}

static wafer_status begin(const wafer_ctx *ctx, wafer_ir *ir, const new_function *f,
                          wafer_builder *b, MlirValue *arguments) {
  MlirContext context = ir->context;
  MlirType *types = WAFER_NEW(ctx->arena, MlirType, f->count);
  MlirLocation *locations = WAFER_NEW(ctx->arena, MlirLocation, f->count);
  WAFER_TRY(argument_types(ctx, ir, f, types, locations));
  MlirType type = mlirFunctionTypeGet(context, f->count, types, 0, NULL);
  MlirNamedAttribute attrs[] = {
      named(context, "sym_name", mlirStringAttrGet(context, ref(f->name))),
      named(context, "function_type", mlirTypeAttrGet(type)),
      named(context, "sym_visibility", mlirStringAttrGet(context, ref("private"))),
  };
  MlirBlock block = mlirBlockCreate(f->count, types, locations);
  MlirRegion region = mlirRegionCreate();
  mlirRegionAppendOwnedBlock(region, block);
  MlirOperationState state = mlirOperationStateGet(ref("func.func"), f->location);
  mlirOperationStateAddAttributes(&state, f->is_private ? 3 : 2, attrs);
  mlirOperationStateAddOwnedRegions(&state, 1, &region);
  mlirSymbolTableInsert(ir->symbols, mlirOperationCreate(&state));
  for (uint32_t i = 0; i < f->count; i++) arguments[i] = mlirBlockGetArgument(block, i);
  *b = (wafer_builder){.ctx = ctx, .ir = ir, .block = block, .location = f->location};
  b->loc = wafer_ir_loc(ir, mlirBlockGetParentOperation(block));
  return WAFER_OK;
}

static wafer_status finish(wafer_builder *b, uint32_t count, const MlirValue *results) {
  MlirContext context = b->ir->context;
  intptr_t arguments = mlirBlockGetNumArguments(b->block);
  MlirType *types = WAFER_NEW(b->ctx->arena, MlirType, (size_t)arguments + count);
  if (!types) return wafer_fail(b->ctx->diag, b->loc, WAFER_NO_MEMORY, "no memory for a function");
  for (intptr_t i = 0; i < arguments; i++)
    types[i] = mlirValueGetType(mlirBlockGetArgument(b->block, i));
  for (uint32_t i = 0; i < count; i++) types[arguments + i] = mlirValueGetType(results[i]);
  MlirOperationState state = mlirOperationStateGet(ref("func.return"), b->location);
  mlirOperationStateAddOperands(&state, count, results);
  b->before = (MlirOperation){NULL};
  WAFER_TRY(insert_op(b, &state, NULL));
  MlirType type = mlirFunctionTypeGet(context, arguments, types, count, types + arguments);
  MlirOperation func = mlirBlockGetParentOperation(b->block);
  mlirOperationSetAttributeByName(func, ref("function_type"), mlirTypeAttrGet(type));
  return WAFER_OK;
}

static MlirAttribute text_attr(const wafer_ir *ir, const char *text) {
  return mlirStringAttrGet(ir->context, ref(text));
}

/* {NAME_NAME = names[i]} for every argument or result, at once: setting them one by one leaves an
 * array of all behind for each. */
static wafer_status set_names(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation func,
                              const char *attribute, uint32_t count, const char *const *names) {
  MlirAttribute *all = WAFER_NEW(ctx->arena, MlirAttribute, count);
  if (!all)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory for a function");
  for (uint32_t i = 0; i < count; i++) {
    MlirNamedAttribute name = named(ir->context, NAME_NAME, text_attr(ir, names[i]));
    all[i] = mlirDictionaryAttrGet(ir->context, 1, &name);
  }
  if (count)
    mlirOperationSetAttributeByName(func, ref(attribute),
                                    mlirArrayAttrGet(ir->context, count, all));
  return WAFER_OK;
}

wafer_status wafer_ir_begin_main(const wafer_ctx *ctx, wafer_ir *ir, uint32_t count,
                                 const char *const *names, const wafer_type *types,
                                 wafer_builder *b, MlirValue *arguments) {
  new_function f = {
      .name = "main", .location = wafer_ir_location(ir, NULL, -1), .count = count, .types = types};
  WAFER_TRY(begin(ctx, ir, &f, b, arguments));
  MlirOperation func = mlirBlockGetParentOperation(b->block);
  return set_names(ctx, ir, func, "arg_attrs", count, names);
}

static wafer_status set_dicts(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation func,
                              const char *attribute, uint32_t count, const wafer_ir_port *ports) {
  MlirAttribute *all = WAFER_NEW(ctx->arena, MlirAttribute, count + 1);
  if (!all)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory for a function");
  for (uint32_t i = 0; i < count; i++) {
    MlirNamedAttribute pairs[3];
    uint32_t n = 0;
    pairs[n++] = named(ir->context, NAME_NAME, text_attr(ir, ports[i].name));
    if (ports[i].of) pairs[n++] = named(ir->context, NAME_OF, text_attr(ir, ports[i].of));
    if (ports[i].role)
      pairs[n++] = named(ir->context, NAME_ROLE, text_attr(ir, roles[ports[i].role]));
    all[i] = mlirDictionaryAttrGet(ir->context, n, pairs);
  }
  mlirOperationRemoveAttributeByName(func, ref(attribute));
  if (count)
    mlirOperationSetAttributeByName(func, ref(attribute),
                                    mlirArrayAttrGet(ir->context, count, all));
  return WAFER_OK;
}

wafer_status wafer_ir_set_ports(const wafer_ctx *ctx, wafer_ir *ir, const wafer_ir_port *arguments,
                                const wafer_ir_port *results) {
  MlirOperation func = wafer_ir_main(ir);
  MlirBlock block = wafer_ir_body(func);
  MlirOperation end = mlirBlockGetTerminator(block);
  intptr_t in = mlirBlockGetNumArguments(block), out = mlirOperationGetNumOperands(end);
  MlirType *types = WAFER_NEW(ctx->arena, MlirType, (size_t)(in + out) + 1);
  if (!types)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory for a function");
  for (intptr_t i = 0; i < in; i++) types[i] = mlirValueGetType(mlirBlockGetArgument(block, i));
  for (intptr_t i = 0; i < out; i++)
    types[in + i] = mlirValueGetType(mlirOperationGetOperand(end, i));
  MlirType type = mlirFunctionTypeGet(ir->context, in, types, out, types + in);
  mlirOperationSetAttributeByName(func, ref("function_type"), mlirTypeAttrGet(type));
  WAFER_TRY(set_dicts(ctx, ir, func, "arg_attrs", (uint32_t)in, arguments));
  return set_dicts(ctx, ir, func, "res_attrs", (uint32_t)out, results);
}

MlirValue wafer_ir_add_argument(wafer_builder *b, const wafer_type *type) {
  return mlirBlockAddArgument(b->block, wafer_ir_type(b->ir->context, type), b->location);
}

uint32_t wafer_ir_prune_arguments(wafer_builder *b, uint32_t *kept) {
  uint32_t count = (uint32_t)mlirBlockGetNumArguments(b->block), left = 0;
  for (uint32_t i = 0; i < count; i++) {
    MlirValue argument = mlirBlockGetArgument(b->block, left);
    if (mlirOpOperandIsNull(mlirValueGetFirstUse(argument)))
      mlirBlockEraseArgument(b->block, left);
    else
      kept[left++] = i;
  }
  return left;
}

wafer_status wafer_ir_name_arguments(wafer_builder *b, uint32_t count, const char *const *names) {
  MlirOperation func = mlirBlockGetParentOperation(b->block);
  mlirOperationRemoveAttributeByName(func, ref("arg_attrs"));
  return set_names(b->ctx, b->ir, func, "arg_attrs", count, names);
}

wafer_status wafer_ir_finish_main(wafer_builder *b, uint32_t count, const char *const *names,
                                  const MlirValue *results) {
  WAFER_TRY(finish(b, count, results));
  MlirOperation func = mlirBlockGetParentOperation(b->block);
  return set_names(b->ctx, b->ir, func, "res_attrs", count, names);
}

wafer_status wafer_ir_begin_kernel(const wafer_ctx *ctx, wafer_ir *ir, const char *name,
                                   MlirLocation location, uint32_t count, const wafer_type *types,
                                   const bool *is_weight, wafer_builder *b, MlirValue *arguments) {
  new_function f = {
      .name = name, .is_private = true, .location = location, .count = count, .types = types};
  WAFER_TRY(begin(ctx, ir, &f, b, arguments));
  MlirOperation func = mlirBlockGetParentOperation(b->block);
  for (uint32_t i = 0; i < count; i++)
    if (is_weight[i]) mlirFuncSetArgAttr(func, i, ref(NAME_WEIGHT), mlirUnitAttrGet(ir->context));
  return WAFER_OK;
}

wafer_status wafer_ir_finish_kernel(wafer_builder *b, wafer_family family, uint32_t anchor,
                                    uint32_t count, const MlirValue *results, MlirOperation *func) {
  WAFER_TRY(finish(b, count, results));
  *func = mlirBlockGetParentOperation(b->block);
  wafer_ir_set_anchor(*func, family, anchor);
  return WAFER_OK;
}

MlirValue wafer_ir_clone(wafer_builder *b, MlirOperation op, const MlirValue *operands) {
  MlirOperation copy = mlirOperationClone(op);
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(copy); i++)
    mlirOperationSetOperand(copy, i, operands[i]);
  if (mlirOperationIsNull(b->before))
    mlirBlockAppendOwnedOperation(b->block, copy);
  else
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, copy);
  return mlirOperationGetResult(copy, 0);
}

/* ---- Calls ---- */

static MlirType function_type(MlirOperation func) {
  return mlirTypeAttrGetValue(mlirOperationGetAttributeByName(func, ref("function_type")));
}

wafer_status wafer_ir_call(wafer_builder *b, MlirOperation func, const MlirValue *operands,
                           MlirValue *results) {
  MlirContext context = b->ir->context;
  MlirType type = function_type(func);
  intptr_t count = mlirFunctionTypeGetNumResults(type);
  MlirOperationState state =
      mlirOperationStateGet(ref("func.call"), mlirOperationGetLocation(func));
  MlirAttribute symbol = mlirFlatSymbolRefAttrGet(context, ref(wafer_ir_func_name(func)));
  MlirNamedAttribute callee = named(context, "callee", symbol);
  mlirOperationStateAddAttributes(&state, 1, &callee);
  mlirOperationStateAddOperands(&state, mlirFunctionTypeGetNumInputs(type), operands);
  for (intptr_t i = 0; i < count; i++) {
    MlirType result = mlirFunctionTypeGetResult(type, i);
    mlirOperationStateAddResults(&state, 1, &result);
  }
  MlirOperation call;
  WAFER_TRY(insert_op(b, &state, &call));
  for (intptr_t i = 0; i < count; i++) results[i] = mlirOperationGetResult(call, i);
  return WAFER_OK;
}

bool wafer_ir_is_func(MlirOperation op) {
  return !strcmp(mlirIdentifierStr(mlirOperationGetName(op)).data, "func.func");
}

bool wafer_ir_is_call(MlirOperation op) {
  return !strcmp(mlirIdentifierStr(mlirOperationGetName(op)).data, "func.call");
}

MlirOperation wafer_ir_callee(const wafer_ir *ir, MlirOperation call) {
  MlirAttribute callee = mlirOperationGetAttributeByName(call, ref("callee"));
  if (mlirAttributeIsNull(callee) || !mlirAttributeIsAFlatSymbolRef(callee))
    return (MlirOperation){NULL};
  return mlirSymbolTableLookup(ir->symbols, mlirFlatSymbolRefAttrGetValue(callee));
}

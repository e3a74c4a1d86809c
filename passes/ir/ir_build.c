/* The builder: infers, folds what is constant, drops what does nothing. */
#include <assert.h>

#include "ir_attrs.h"
#include "ir_fold.h"

wafer_status insert_op(const wafer_builder *b, MlirOperationState *state, MlirOperation *out) {
  MlirOperation op = mlirOperationCreate(state);
  if (mlirOperationIsNull(op))
    return wafer_fail(b->ctx->diag, b->loc, WAFER_INTERNAL, "MLIR refuses an op of the compiler");
  if (mlirOperationIsNull(b->before))
    mlirBlockAppendOwnedOperation(b->block, op);
  else
    mlirBlockInsertOwnedOperationBefore(b->block, b->before, op);
  if (out) *out = op;
  return WAFER_OK;
}

/* ---- Constants ---- */

bool wafer_ir_is_constant(MlirValue value) {
  if (!mlirValueIsAOpResult(value)) return false;
  wafer_op op = wafer_ir_op(mlirOpResultGetOwner(value));
  return op == WAFER_OP_constant || op == WAFER_OP_weight;
}

static MlirAttribute constant_elements(MlirValue value) {
  MlirOperation op = mlirOpResultGetOwner(value);
  MlirAttribute attr = mlirOperationGetAttributeByName(op, ref("value"));
  bool dense = !mlirAttributeIsNull(attr) && mlirAttributeIsADenseElements(attr) &&
               mlirTypeEqual(mlirAttributeGetType(attr), mlirValueGetType(value));
  return dense ? attr : mlirAttributeGetNull();
}

static bool weight_view(const wafer_ir *ir, MlirOperation op, const wafer_type *type,
                        wafer_view *out) {
  const char *name;
  if (!get_string(op, "name", &name)) return false;
  const wafer_weight *weight = wafer_weights_find(ir->weights, name);
  if (!weight || !weight->data || weight->dtype != type->dtype) return false;
  if (!wafer_shape_equal(&weight->shape, &type->shape)) return false;
  *out = wafer_weight_view(weight);
  return true;
}

bool wafer_ir_constant(const wafer_ctx *ctx, const wafer_ir *ir, MlirValue value, wafer_view *out) {
  wafer_type type;
  if (!wafer_ir_is_constant(value) || !wafer_ir_type_get(mlirValueGetType(value), &type))
    return false;
  MlirOperation op = mlirOpResultGetOwner(value);
  if (wafer_ir_op(op) == WAFER_OP_weight) return weight_view(ir, op, &type, out);
  MlirAttribute attr = constant_elements(value);
  wafer_attr elements;
  if (mlirAttributeIsNull(attr) || !elements_get(ctx->arena, attr, &type, true, &elements))
    return false;
  *out = wafer_view_of(type.dtype, &type.shape, (void *)elements.data.bytes);
  return true;
}

bool wafer_ir_splat(MlirValue value, double *element) {
  wafer_type type;
  if (!wafer_ir_is_constant(value) || !wafer_ir_type_get(mlirValueGetType(value), &type))
    return false;
  if (wafer_ir_op(mlirOpResultGetOwner(value)) != WAFER_OP_constant) return false;
  MlirAttribute attr = constant_elements(value);
  if (mlirAttributeIsNull(attr) || !mlirDenseElementsAttrIsSplat(attr)) return false;
  if (type.dtype == WAFER_DTYPE_bool)
    *element = mlirDenseElementsAttrGetBoolValue(attr, 0);
  else
    *element = wafer_element_f64(type.dtype, mlirDenseElementsAttrGetRawData(attr), 0);
  return true;
}

/* All elements have the same bytes. */
static bool is_splat(const wafer_view *view, int64_t count) {
  size_t size = wafer_dtype_bytes(view->dtype);
  const char *bytes = view->data;
  return count > 0 && (count == 1 || !memcmp(bytes, bytes + size, (size_t)(count - 1) * size));
}

static wafer_status build_source(wafer_builder *b, const char *op, const wafer_type *type,
                                 const char *name, MlirAttribute attr, MlirValue *result) {
  MlirContext context = b->ir->context;
  MlirType mlir_type = wafer_ir_type(context, type);
  MlirOperationState state = mlirOperationStateGet(ref(op), b->location);
  MlirNamedAttribute only = named(context, name, attr);
  mlirOperationStateAddAttributes(&state, 1, &only);
  mlirOperationStateAddResults(&state, 1, &mlir_type);
  MlirOperation made;
  WAFER_TRY(insert_op(b, &state, &made));
  *result = mlirOperationGetResult(made, 0);
  return WAFER_OK;
}

static wafer_status build_data(wafer_builder *b, const char *name, const wafer_view *value,
                               bool computed, MlirValue *result) {
  int64_t count;
  wafer_type type = {.dtype = value->dtype, .shape = value->shape};
  assert(wafer_view_is_dense(value));
  if (!wafer_shape_elements(&value->shape, &count))
    return wafer_fail(b->ctx->diag, b->loc, WAFER_BAD_INPUT, "constant '%s' has too many elements",
                      name);
  bool splat = value->data && is_splat(value, count);
  bool small = (size_t)count * wafer_dtype_bytes(value->dtype) <= WAFER_INLINE_BYTES;
  if (splat || (value->data && small)) {
    MlirType mlir_type = wafer_ir_type(b->ir->context, &type);
    MlirAttribute elements = elements_attr(mlir_type, value->dtype, splat ? 1 : count, value->data);
    return build_source(b, "nn.constant", &type, "value", elements, result);
  }
  wafer_weight *weight = (computed ? wafer_weights_share : wafer_weights_add)(
      b->ir->weights, name, value->dtype, &value->shape, value->data);
  if (!weight)
    return wafer_fail(b->ctx->diag, b->loc, WAFER_NO_MEMORY, "no memory for weight '%s'", name);
  return wafer_build_weight(b, weight, result);
}

wafer_status wafer_build_constant(wafer_builder *b, const char *name, const wafer_view *value,
                                  MlirValue *result) {
  return build_data(b, name, value, false, result);
}

wafer_status wafer_build_computed(wafer_builder *b, const char *name, const wafer_view *value,
                                  MlirValue *result) {
  return build_data(b, name, value, value->data != NULL, result);
}

wafer_status wafer_build_weight(wafer_builder *b, const wafer_weight *weight, MlirValue *result) {
  wafer_type type = {.dtype = weight->dtype, .shape = weight->shape};
  MlirAttribute name = mlirStringAttrGet(b->ir->context, ref(weight->name));
  return build_source(b, "nn.weight", &type, "name", name, result);
}

wafer_status wafer_build_splat(wafer_builder *b, const wafer_type *type, double value,
                               MlirValue *result) {
  uint64_t element = 0;
  wafer_element_set_f64(type->dtype, &element, 0, value);
  return wafer_build_splat_of(b, type, &element, result);
}

wafer_status wafer_build_splat_of(wafer_builder *b, const wafer_type *type, const void *element,
                                  MlirValue *result) {
  int64_t count;
  if (!wafer_shape_elements(&type->shape, &count))
    return wafer_fail(b->ctx->diag, b->loc, WAFER_BAD_INPUT, "a constant has too many elements");
  MlirType mlir_type = wafer_ir_type(b->ir->context, type);
  MlirAttribute elements = elements_attr(mlir_type, type->dtype, count ? 1 : 0, element);
  return build_source(b, "nn.constant", type, "value", elements, result);
}

/* ---- Folding ---- */

#define MOST_SPREADS 32 /* that are read to fold one op */

static int64_t bytes_of(const wafer_type *type) {
  return (int64_t)wafer_tensor_bytes(type->dtype, &type->shape);
}

/* Of all operands; none where one is too large to be read. */
static bool operand_bytes(uint32_t count, const wafer_type *operands, int64_t *all) {
  *all = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (bytes_of(&operands[i]) > FOLD_OPERAND_BYTES) return false;
    *all += bytes_of(&operands[i]);
  }
  return true;
}

bool fold_is_small(uint32_t count, const wafer_type *operands, const wafer_type *result) {
  int64_t limit;
  if (!operand_bytes(count, operands, &limit)) return false;
  return bytes_of(result) <= (limit > WAFER_FOLD_BYTES ? limit : WAFER_FOLD_BYTES);
}

bool fold_pays(wafer_ir *ir, wafer_op op, uint32_t count, const wafer_type *operands,
               const wafer_type *result) {
  int64_t growth = bytes_of(result), word = (int64_t)sizeof(float), taken;
  int64_t element = (int64_t)wafer_dtype_bytes(result->dtype);
  if (fold_is_small(count, operands, result)) return true;
  if (wafer_op_is(op, WAFER_TRAIT_VIEW) || !operand_bytes(count, operands, &taken)) return false;
  if (element < word) growth *= word / element; /* a mask selects words */
  growth -= taken;
  if (growth > FOLD_GROWTH || ir->fold_growth + growth > FOLD_GROWTH_OF_ALL) return false;
  ir->fold_growth += growth;
  return true;
}

bool fold_widens(wafer_ir *ir, uint32_t count, const wafer_type *operands,
                 const wafer_type *result) {
  int64_t elements, of_operand, most = 0, growth = bytes_of(result), taken;
  if (!operand_bytes(count, operands, &taken)) return false;
  for (uint32_t i = 0; i < count; i++)
    if (wafer_shape_elements(&operands[i].shape, &of_operand) && of_operand > most)
      most = of_operand;
  if (!wafer_shape_elements(&result->shape, &elements) || elements > most) return false;
  growth -= taken;
  if (ir->widened + growth > FOLD_WIDENED_OF_ALL) return false;
  ir->widened += growth;
  return true;
}

/* The op that repeats or moves elements, few enough to read; null: the value is of no such. */
static MlirOperation spread_of(MlirValue value) {
  MlirOperation none = {NULL};
  if (!mlirValueIsAOpResult(value) || wafer_ir_is_constant(value)) return none;
  MlirOperation op = mlirOpResultGetOwner(value);
  wafer_op is = wafer_ir_op(op);
  const wafer_type type = wafer_ir_value_type(value);
  bool spreads = is != WAFER_OP_COUNT && wafer_op_is(is, WAFER_TRAIT_VIEW);
  return spreads && bytes_of(&type) <= FOLD_OPERAND_BYTES ? op : none;
}

/* `left`: how many may still be read on the way to constants. */
static bool is_known(MlirValue value, uint32_t *left) {
  MlirOperation op = spread_of(value);
  if (mlirOperationIsNull(op)) return wafer_ir_is_constant(value);
  if (!*left) return false;
  --*left;
  bool known = true;
  for (intptr_t i = 0; known && i < mlirOperationGetNumOperands(op); i++)
    known = is_known(mlirOperationGetOperand(op, i), left);
  return known;
}

bool fold_may(wafer_op op, uint32_t count, const MlirValue *operands) {
  uint32_t left = wafer_op_is(op, WAFER_TRAIT_VIEW) ? 0 : MOST_SPREADS;
  for (uint32_t i = 0; i < count; i++)
    if (!is_known(operands[i], &left)) return false;
  return count > 0;
}

static wafer_status value_of(const wafer_ctx *ctx, const wafer_ir *ir, MlirValue value,
                             wafer_view *out) {
  MlirValue operands[WAFER_OP_MAX_OPERANDS];
  wafer_attrs attrs;
  MlirOperation op = spread_of(value);
  if (mlirOperationIsNull(op))
    return wafer_ir_constant(ctx, ir, value, out) ? WAFER_OK : WAFER_UNSUPPORTED;
  const fold_call call = {.op = wafer_ir_op(op),
                          .attrs = &attrs,
                          .count = (uint32_t)mlirOperationGetNumOperands(op),
                          .operands = operands,
                          .type = wafer_ir_value_type(value),
                          .loc = wafer_ir_loc(ir, op)};
  for (uint32_t i = 0; i < call.count; i++) operands[i] = mlirOperationGetOperand(op, i);
  WAFER_TRY(wafer_ir_attrs(ctx, op, &attrs));
  return fold_run(ctx, ir, &call, out);
}

/* Operands in the arena of `with`, the result in the compilation's. */
static wafer_status run_op(const wafer_ctx *ctx, const wafer_ctx *with, const wafer_ir *ir,
                           const fold_call *call, wafer_view *result) {
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  size_t bytes = wafer_tensor_bytes(call->type.dtype, &call->type.shape);
  for (uint32_t i = 0; i < call->count; i++)
    WAFER_TRY(value_of(with, ir, call->operands[i], &views[i]));
  void *data = wafer_arena_alloc(ctx->arena, bytes, 1);
  if (!data)
    return wafer_fail(ctx->diag, call->loc, WAFER_NO_MEMORY, "no memory to fold %zu bytes", bytes);
  *result = wafer_view_of(call->type.dtype, &call->type.shape, data);
  return wafer_reference_run(NULL, call->loc, call->op, call->attrs, call->count, views, result);
}

wafer_status fold_run(const wafer_ctx *ctx, const wafer_ir *ir, const fold_call *call,
                      wafer_view *result) {
  wafer_ctx with = *ctx;
  if (call->op == WAFER_OP_reshape) { /* the same elements */
    wafer_view all;
    WAFER_TRY(value_of(ctx, ir, call->operands[0], &all));
    *result = wafer_view_of(call->type.dtype, &call->type.shape, all.data);
    return all.data ? WAFER_OK : WAFER_UNSUPPORTED;
  }
  if (!(with.arena = wafer_arena_create()))
    return wafer_fail(ctx->diag, call->loc, WAFER_NO_MEMORY, "no memory to fold");
  wafer_status status = run_op(ctx, &with, ir, call, result);
  wafer_arena_destroy(with.arena);
  return status;
}

/* The name of a weight that folding makes: its node's, so that people find it. */
const char *fold_name(wafer_arena *arena, const char *node, wafer_op op) {
  const char *name =
      wafer_arena_printf(arena, "%s.%s", node && *node ? node : "folded", wafer_op_get(op)->name);
  return name ? name : "folded";
}

/* ---- Ops ---- */

static bool is_iota(const wafer_attr *attr) {
  for (uint32_t i = 0; i < attr->ints.count; i++)
    if (attr->ints.at[i] != i) return false;
  return true;
}

/* Of a slice whose result has its operand's shape: a dim that is walked backwards is not the same.
 */
static bool is_forward(const wafer_attrs *attrs, const wafer_shape *shape) {
  uint32_t count;
  const int64_t *steps = wafer_attr_ints(attrs, WAFER_ATTR_steps, &count);
  for (uint32_t i = 0; i < count && i < shape->rank; i++)
    if (steps[i] < 0 && shape->dims[i] > 1) return false;
  return true;
}

bool op_is_identity(wafer_op op, const wafer_attrs *attrs, uint32_t count,
                    const wafer_type *operands, const wafer_type *result) {
  if (count != 1 || operands[0].dtype != result->dtype) return false;
  if (!wafer_shape_equal(&operands[0].shape, &result->shape)) return false;
  switch (op) {
  case WAFER_OP_reshape:
  case WAFER_OP_expand:
  case WAFER_OP_cast: return true;
  case WAFER_OP_transpose: return is_iota(wafer_attr_find(attrs, WAFER_ATTR_perm));
  case WAFER_OP_slice: return is_forward(attrs, &result->shape);
  default: return false;
  }
}

static wafer_status build_op(wafer_builder *b, const fold_call *call, MlirValue *result) {
  MlirContext context = b->ir->context;
  char name[64] = "nn.";
  strncat(name, wafer_op_get(call->op)->name, sizeof name - 4);
  MlirOperationState state = mlirOperationStateGet(ref(name), b->location);
  MlirNamedAttribute attrs[WAFER_OP_MAX_ATTRS];
  for (uint32_t i = 0; i < call->attrs->count; i++)
    attrs[i] = named(context, wafer_attr_name(call->attrs->at[i].id),
                     attr_write(context, &call->attrs->at[i]));
  MlirType type = wafer_ir_type(context, &call->type);
  mlirOperationStateAddAttributes(&state, call->attrs->count, attrs);
  mlirOperationStateAddOperands(&state, call->count, call->operands);
  mlirOperationStateAddResults(&state, 1, &type);
  MlirOperation op;
  WAFER_TRY(insert_op(b, &state, &op));
  *result = mlirOperationGetResult(op, 0);
  return WAFER_OK;
}

wafer_status wafer_build(wafer_builder *b, wafer_op op, uint32_t count, const MlirValue *operands,
                         const wafer_attr *attrs, uint32_t attr_count, MlirValue *result) {
  wafer_attrs list = {.count = attr_count, .at = attrs};
  fold_call call = {.op = op, .attrs = &list, .count = count, .operands = operands, .loc = b->loc};
  wafer_type types[WAFER_OP_MAX_OPERANDS];
  assert(count <= WAFER_OP_MAX_OPERANDS && !wafer_op_is(op, WAFER_TRAIT_SOURCE));
  for (uint32_t i = 0; i < count; i++) types[i] = wafer_ir_value_type(operands[i]);
  WAFER_TRY(wafer_op_infer(b->ctx->diag, b->loc, op, &list, count, types, &call.type));
  if (op_is_identity(op, &list, count, types, &call.type)) {
    *result = operands[0];
    return WAFER_OK;
  }
  if (!fold_may(op, count, operands) || !fold_pays(b->ir, op, count, types, &call.type))
    return build_op(b, &call, result);
  wafer_view folded;
  wafer_status status = fold_run(b->ctx, b->ir, &call, &folded);
  if (status == WAFER_NO_MEMORY) return status;
  if (status != WAFER_OK)
    return build_op(b, &call, result); /* an op the oracle cannot do, an absent weight */
  return wafer_build_computed(b, fold_name(b->ctx->arena, b->loc.name, op), &folded, result);
}

wafer_status wafer_build_copy(wafer_builder *b, MlirValue value, MlirValue *result) {
  wafer_type type = wafer_ir_value_type(value);
  wafer_attr shape = {.id = WAFER_ATTR_shape, .ints = {type.shape.rank, type.shape.dims}};
  wafer_attrs list = {.count = 1, .at = &shape};
  fold_call call = {.op = WAFER_OP_reshape,
                    .attrs = &list,
                    .count = 1,
                    .operands = &value,
                    .loc = b->loc,
                    .type = type};
  return build_op(b, &call, result);
}

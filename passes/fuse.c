/* Replaces the ops of @main by calls of kernels: an anchor with its elementwise tail, a run of
 * elementwise ops, a tree of views. group.c decides which ops go together; here they move into
 * functions.
 *
 *   %1 = nn.conv %x, %w        func.func private @conv1(%x, %w {wafer.weight}) {nn.conv, nn.relu}
 *   %2 = nn.relu %1       =>   %2 = call @conv1(%x, %w)                                          */
#include <mlir-c/BuiltinAttributes.h>

#include "fuse/group.h"
#include "wafer/ir.h"

typedef struct fusion {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  MlirBlock block;
  MlirOperation terminator;
  uint32_t count, argument_count;
  MlirOperation *ops;
  group_op *nodes;
  wafer_ir_map *numbers; /* of values of @main: results, then arguments */
  MlirValue *now;        /* value -> where it is found after fusion */
  bool *escapes;         /* op -> its result is used outside its group */
  grouping groups;
  uint32_t *first;   /* group -> its first op in `members` */
  uint32_t *members; /* ops by group, each in program order */
} fusion;

/* What emitting one kernel needs; arrays are as large as the largest group demands. */
typedef struct body {
  uint32_t input_count, output_count;
  uint32_t *inputs, *outputs; /* values of @main */
  wafer_type *types;
  bool *is_weight;
  MlirValue *arguments, *operands, *results;
  MlirValue *inside; /* value of @main -> its copy in the kernel being built */
  uint32_t *stamp;   /* value -> group that last touched `inside` */
} body;

static wafer_status no_memory(const wafer_ctx *ctx) {
  return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to fuse ops");
}

/* ---- Constants that kernels take as arguments ---- */

/* nn.constant -> nn.weight: operands that a kernel's loops run over live in the weight table. */
static wafer_status promote(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation user,
                            intptr_t operand) {
  MlirValue value = mlirOperationGetOperand(user, operand);
  if (!mlirValueIsAOpResult(value)) return WAFER_OK;
  MlirOperation op = mlirOpResultGetOwner(value);
  if (wafer_ir_op(op) != WAFER_OP_constant) return WAFER_OK;
  wafer_view view;
  const char *node = wafer_ir_node_name(op);
  if (!wafer_ir_constant(ctx, ir, value, &view)) return no_memory(ctx);
  const wafer_weight *weight = wafer_weights_share(ir->weights, *node ? node : "constant",
                                                   view.dtype, &view.shape, view.data);
  if (!weight) return no_memory(ctx);
  wafer_builder b = {.ctx = ctx,
                     .ir = ir,
                     .block = mlirOperationGetBlock(op),
                     .before = op,
                     .location = mlirOperationGetLocation(op),
                     .loc = wafer_ir_loc(ir, op)};
  MlirValue made;
  WAFER_TRY(wafer_build_weight(&b, weight, &made));
  mlirValueReplaceAllUsesOfWith(value, made);
  return WAFER_OK;
}

static wafer_status promote_constants(const wafer_ctx *ctx, wafer_ir *ir, MlirBlock block) {
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op)) {
    wafer_op id = wafer_ir_op(op);
    if (id == WAFER_OP_COUNT || !wafer_op_is(id, WAFER_TRAIT_PRODUCT)) continue;
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      WAFER_TRY(promote(ctx, ir, op, i));
  }
  return WAFER_OK;
}

/* ---- Outputs that nothing computes ---- */

static wafer_status build_copy(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation before,
                               MlirValue *value) {
  bool made = mlirValueIsAOpResult(*value);
  MlirOperation op = made ? mlirOpResultGetOwner(*value) : before;
  wafer_builder b = {
      .ctx = ctx,
      .ir = ir,
      .block = mlirOperationGetBlock(before),
      .before = before,
      .location = made ? mlirOperationGetLocation(op) : wafer_ir_location(ir, "output", -1),
      .loc = wafer_ir_loc(ir, op)};
  return wafer_build_copy(&b, *value, value);
}

/* Every output becomes a value of its own: not an input, a constant or another output. */
static wafer_status separate_outputs(const wafer_ctx *ctx, wafer_ir *ir, MlirOperation ret) {
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(ret);
  wafer_ir_map *seen = wafer_ir_map_create(ctx->arena);
  if (!seen) return no_memory(ctx);
  for (uint32_t i = 0; i < count; i++) {
    WAFER_TRY(promote(ctx, ir, ret, i));
    MlirValue value = mlirOperationGetOperand(ret, i);
    bool computed = mlirValueIsAOpResult(value) && !wafer_ir_is_constant(value);
    if (!computed || wafer_ir_map_get(seen, value.ptr) != WAFER_NONE) {
      MlirValue copy = value;
      WAFER_TRY(build_copy(ctx, ir, ret, &copy));
      mlirOperationSetOperand(ret, i, copy);
    }
    if (!wafer_ir_map_put(seen, value.ptr, i)) return no_memory(ctx);
  }
  return WAFER_OK;
}

/* ---- Reading @main ---- */

static uint32_t count_ops(MlirBlock block) {
  uint32_t n = 0;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    n++;
  return n - 1; /* the return */
}

static wafer_status allocate(fusion *f) {
  wafer_arena *arena = f->ctx->arena;
  uint32_t values = f->count + f->argument_count;
  f->ops = WAFER_NEW(arena, MlirOperation, f->count);
  f->nodes = WAFER_NEW(arena, group_op, f->count);
  f->now = WAFER_NEW(arena, MlirValue, values);
  f->escapes = WAFER_NEW(arena, bool, f->count);
  f->members = WAFER_NEW(arena, uint32_t, f->count);
  f->numbers = wafer_ir_map_create(arena);
  bool ok = f->ops && f->nodes && f->now && f->escapes && f->members && f->numbers;
  return ok ? WAFER_OK : no_memory(f->ctx);
}

static uint32_t number_of(const fusion *f, MlirValue value) {
  return wafer_ir_map_get(f->numbers, value.ptr);
}

static int64_t elements_of(MlirValue value) {
  wafer_type type;
  int64_t elements;
  bool known = wafer_ir_type_get(mlirValueGetType(value), &type) &&
               wafer_shape_elements(&type.shape, &elements);
  return known ? elements : 0;
}

static wafer_status read_reduction(const fusion *f, MlirOperation op, group_op *node) {
  const wafer_options *o = f->ctx->options;
  wafer_attrs attrs;
  wafer_type type;
  if (wafer_op_is(node->op, WAFER_TRAIT_INDEX)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(f->ctx, op, &attrs));
  if (wafer_ir_type_get(mlirValueGetType(mlirOperationGetOperand(op, 0)), &type))
    node->keeps = wafer_reduction_keeps(&attrs, type.shape.rank);
  node->behind = o && o->reductions == WAFER_REDUCTIONS_behind;
  return WAFER_OK;
}

/* Each group of a convolution has channels of its own. */
static wafer_status read_product(const fusion *f, MlirOperation op, group_op *node) {
  wafer_attrs attrs;
  WAFER_TRY(wafer_ir_attrs(f->ctx, op, &attrs));
  node->mixes =
      !wafer_op_is(node->op, WAFER_TRAIT_WINDOW) || wafer_attr_int(&attrs, WAFER_ATTR_group) == 1;
  return WAFER_OK;
}

/* Concatenations and slices have results of another length along what they join or take a part of.
 */
static uint32_t moved_dims(MlirOperation op) {
  wafer_type x, y;
  uint32_t moved = 0;
  bool known = wafer_ir_type_get(mlirValueGetType(mlirOperationGetOperand(op, 0)), &x) &&
               wafer_ir_type_get(mlirValueGetType(mlirOperationGetResult(op, 0)), &y);
  for (uint32_t d = 0; known && d < y.shape.rank; d++)
    if (x.shape.dims[d] != y.shape.dims[d]) moved |= 1u << d;
  return moved;
}

static wafer_status read_op(fusion *f, uint32_t i, MlirOperation op) {
  wafer_op kind = wafer_ir_op(op);
  if (kind == WAFER_OP_COUNT)
    return wafer_fail(
        f->ctx->diag, wafer_ir_loc(f->ir, op), WAFER_BAD_INPUT,
        "@main holds an op that is not of dialect nn: it is fused already, or not a model");
  const wafer_op_info *info = wafer_op_get(kind);
  if (info->family == WAFER_FAMILY_none)
    return wafer_fail(f->ctx->diag, wafer_ir_loc(f->ir, op), WAFER_UNSUPPORTED,
                      "no kernel computes nn.%s, run pass simplify before fuse", info->name);
  group_op *node = &f->nodes[i];
  *node = (group_op){.op = kind, .operand_count = (uint32_t)mlirOperationGetNumOperands(op)};
  for (uint32_t k = 0; k < node->operand_count; k++) {
    node->operands[k] = number_of(f, mlirOperationGetOperand(op, k));
    node->taken += elements_of(mlirOperationGetOperand(op, k));
  }
  MlirValue result = mlirOperationGetResult(op, 0);
  wafer_type type;
  if (!wafer_ir_type_get(mlirValueGetType(result), &type))
    return wafer_fail(f->ctx->diag, wafer_ir_loc(f->ir, op), WAFER_BAD_INPUT,
                      "nn.%s has no static shape, run pass shape before fuse", info->name);
  node->shape = type.shape;
  if (info->family == WAFER_FAMILY_reduce) WAFER_TRY(read_reduction(f, op, node));
  if (wafer_op_is(kind, WAFER_TRAIT_PRODUCT)) WAFER_TRY(read_product(f, op, node));
  if (kind == WAFER_OP_concat || kind == WAFER_OP_slice) node->moved = moved_dims(op);
  f->ops[i] = op;
  f->now[i] = result;
  return wafer_ir_map_put(f->numbers, result.ptr, i) ? WAFER_OK : no_memory(f->ctx);
}

static wafer_status read_main(fusion *f) {
  f->count = count_ops(f->block);
  f->argument_count = (uint32_t)mlirBlockGetNumArguments(f->block);
  WAFER_TRY(allocate(f));
  for (uint32_t i = 0; i < f->argument_count; i++) {
    f->now[f->count + i] = mlirBlockGetArgument(f->block, i);
    if (!wafer_ir_map_put(f->numbers, f->now[f->count + i].ptr, f->count + i))
      return no_memory(f->ctx);
  }
  MlirOperation op = mlirBlockGetFirstOperation(f->block);
  for (uint32_t i = 0; i < f->count; i++, op = mlirOperationGetNextInBlock(op))
    WAFER_TRY(read_op(f, i, op));
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(f->terminator); i++)
    f->nodes[number_of(f, mlirOperationGetOperand(f->terminator, i))].returned = true;
  return WAFER_OK;
}

/* ---- From groups to kernels ---- */

/* Sorts the ops by group and marks the results that leave theirs. */
static wafer_status arrange(fusion *f) {
  uint32_t *at = WAFER_NEW(f->ctx->arena, uint32_t, f->groups.count + 2);
  if (!at) return no_memory(f->ctx);
  f->first = at;
  const uint32_t *of = f->groups.of;
  for (uint32_t i = 0; i < f->count; i++)
    if (of[i] != UINT32_MAX) at[of[i] + 2]++;
  for (uint32_t g = 0; g < f->groups.count; g++) at[g + 2] += at[g + 1];
  for (uint32_t i = 0; i < f->count; i++) {
    if (of[i] != UINT32_MAX) f->members[at[of[i] + 1]++] = i;
    f->escapes[i] |= f->nodes[i].returned;
    for (uint32_t k = 0; k < f->nodes[i].operand_count; k++) {
      uint32_t value = f->nodes[i].operands[k];
      if (value < f->count) f->escapes[value] |= of[value] != of[i];
    }
  }
  return WAFER_OK;
}

static wafer_status reserve(fusion *f, body *k) {
  uint32_t most = 1, values = f->count + f->argument_count;
  for (uint32_t g = 0; g < f->groups.count; g++) {
    uint32_t operands = 0;
    for (uint32_t i = f->first[g]; i < f->first[g + 1]; i++)
      operands += 1 + f->nodes[f->members[i]].operand_count;
    most = operands > most ? operands : most;
  }
  wafer_arena *arena = f->ctx->arena;
  *k = (body){.inputs = WAFER_NEW(arena, uint32_t, most),
              .outputs = WAFER_NEW(arena, uint32_t, most),
              .types = WAFER_NEW(arena, wafer_type, most),
              .is_weight = WAFER_NEW(arena, bool, most),
              .arguments = WAFER_NEW(arena, MlirValue, most),
              .operands = WAFER_NEW(arena, MlirValue, most),
              .results = WAFER_NEW(arena, MlirValue, most),
              .inside = WAFER_NEW(arena, MlirValue, values),
              .stamp = WAFER_NEW(arena, uint32_t, values)};
  bool ok = k->inputs && k->outputs && k->types && k->is_weight && k->arguments && k->operands &&
            k->results && k->inside && k->stamp;
  return ok ? WAFER_OK : no_memory(f->ctx);
}

static bool is_constant(const fusion *f, uint32_t value) {
  return value < f->count && f->nodes[value].op == WAFER_OP_constant;
}

static bool is_weight(const fusion *f, uint32_t value) {
  return value < f->count && f->nodes[value].op == WAFER_OP_weight;
}

/* The interface of group g: what it uses and what leaves it, in program order. */
static void collect(const fusion *f, uint32_t g, body *k) {
  k->input_count = k->output_count = 0;
  for (uint32_t i = f->first[g]; i < f->first[g + 1]; i++) {
    uint32_t op = f->members[i];
    for (uint32_t o = 0; o < f->nodes[op].operand_count; o++) {
      uint32_t value = f->nodes[op].operands[o];
      bool inner = value < f->count && f->groups.of[value] == g;
      if (inner || is_constant(f, value) || k->stamp[value] == g + 1) continue;
      k->stamp[value] = g + 1;
      k->types[k->input_count] = wafer_ir_value_type(f->now[value]);
      k->is_weight[k->input_count] = is_weight(f, value);
      k->inputs[k->input_count++] = value;
    }
    if (f->escapes[op]) k->outputs[k->output_count++] = op;
  }
}

static MlirValue operand_inside(const fusion *f, wafer_builder *b, body *k, uint32_t g,
                                uint32_t value, uint32_t *nodes) {
  if (is_constant(f, value) && k->stamp[value] != g + 1) {
    k->inside[value] = wafer_ir_clone(b, f->ops[value], NULL);
    k->stamp[value] = g + 1;
    ++*nodes;
  }
  return k->inside[value];
}

/* Copies the ops of group g into the function; returns the anchor's node number. */
static uint32_t fill(const fusion *f, wafer_builder *b, body *k, uint32_t g) {
  uint32_t nodes = 0, anchor = 0;
  for (uint32_t i = 0; i < k->input_count; i++) k->inside[k->inputs[i]] = k->arguments[i];
  for (uint32_t i = f->first[g]; i < f->first[g + 1]; i++) {
    uint32_t op = f->members[i];
    MlirValue operands[WAFER_OP_MAX_OPERANDS];
    for (uint32_t o = 0; o < f->nodes[op].operand_count; o++)
      operands[o] = operand_inside(f, b, k, g, f->nodes[op].operands[o], &nodes);
    if (op == f->groups.at[g].anchor) anchor = nodes;
    k->inside[op] = wafer_ir_clone(b, f->ops[op], operands);
    nodes++;
  }
  for (uint32_t i = 0; i < k->output_count; i++) k->results[i] = k->inside[k->outputs[i]];
  return anchor;
}

/* The function of group g and its call before the return of @main. */
static wafer_status emit(fusion *f, body *k, uint32_t g) {
  const group *from = &f->groups.at[g];
  MlirOperation anchor = f->ops[from->anchor];
  const char *node = wafer_ir_node_name(anchor);
  const char *name = *node ? node : wafer_op_get(f->nodes[from->anchor].op)->name;
  MlirLocation location = mlirOperationGetLocation(anchor);
  MlirOperation func;
  wafer_builder b;
  collect(f, g, k);
  WAFER_TRY(wafer_ir_begin_kernel(f->ctx, f->ir, name, location, k->input_count, k->types,
                                  k->is_weight, &b, k->arguments));
  uint32_t at = fill(f, &b, k, g);
  WAFER_TRY(wafer_ir_finish_kernel(&b, from->family, at, k->output_count, k->results, &func));
  for (uint32_t i = 0; i < k->input_count; i++) k->operands[i] = f->now[k->inputs[i]];
  wafer_builder caller = {.ctx = f->ctx,
                          .ir = f->ir,
                          .block = f->block,
                          .before = f->terminator,
                          .location = location,
                          .loc = wafer_ir_loc(f->ir, anchor)};
  WAFER_TRY(wafer_ir_call(&caller, func, k->operands, k->results));
  for (uint32_t i = 0; i < k->output_count; i++) f->now[k->outputs[i]] = k->results[i];
  return WAFER_OK;
}

/* Hands the outputs over to the calls and drops the ops. Weights that nothing uses go too. */
static void replace(fusion *f) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(f->terminator); i++) {
    uint32_t value = number_of(f, mlirOperationGetOperand(f->terminator, i));
    mlirOperationSetOperand(f->terminator, i, f->now[value]);
  }
  for (uint32_t i = f->count; i-- > 0;) {
    MlirValue result = mlirOperationGetResult(f->ops[i], 0);
    if (mlirOpOperandIsNull(mlirValueGetFirstUse(result))) mlirOperationDestroy(f->ops[i]);
  }
}

wafer_status wafer_pass_fuse(const wafer_ctx *ctx, wafer_ir *ir) {
  MlirOperation main = wafer_ir_main(ir);
  if (mlirOperationIsNull(main))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "there is no function @main");
  fusion f = {.ctx = ctx, .ir = ir, .block = wafer_ir_body(main)};
  f.terminator = mlirBlockGetTerminator(f.block);
  WAFER_TRY(fuse_swap_weights(ctx, ir, f.block));
  WAFER_TRY(promote_constants(ctx, ir, f.block));
  WAFER_TRY(separate_outputs(ctx, ir, f.terminator));
  WAFER_TRY(read_main(&f));
  const bool whole = ctx->options && ctx->options->whole_concats;
  WAFER_TRY(group_ops(ctx->diag, ctx->arena, f.count, f.nodes, whole, &f.groups));
  ir->scattered = f.groups.scattered;
  WAFER_TRY(arrange(&f));
  body k;
  WAFER_TRY(reserve(&f, &k));
  for (uint32_t g = 0; g < f.groups.count; g++) WAFER_TRY(emit(&f, &k, g));
  replace(&f);
  return WAFER_OK;
}

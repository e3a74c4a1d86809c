/* Rewrites the program into fewer and simpler ops: one walk in program order, each rewrite looking
 * back.
 *
 *   batch_norm(conv(x, w, b))  -> conv(x, w', b')         also mul, add, sub, div by a constant
 *                                                         per channel
 *   conv(pad(x))               -> conv(x) with larger pads
 *   transpose(transpose(x))    -> transpose(x) or x       also reshapes, expands, clips
 *   slice(concat(a, b))        -> slice(a)                where nothing of b is wanted
 *   matmul(x, transpose(w))    -> transpose(matmul(w, transpose(x)))   for w too large to fold
 *   conv(x * c), conv(x + c)   -> conv(x, w', b')         for c per input channel, + without pads
 *   matmul(x, w - zero), conv  -> matmul(x, w')           of integers, w' in 8 or 16 bits
 *   x * a * b, x / a, x ^ 2    -> x * (a b), x * (1 / a), x * x
 *   concat(x, zeros)           -> pad(x)
 *   x * 1, x + 0, cast to own type, select of a constant ...      -> x
 *
 * Needs types; gives no batch_norm, no identity, no dead op and one op per constant. Weights that
 * change are computed in f64 and go into the weight table under a new name; f16 and bf16 stay as
 * they are, since rounding a weight twice is not the model. Every op keeps the ONNX node of what it
 * came from. */
#include "simplify/simplify.h"

#include <mlir-c/BuiltinAttributes.h>
#include <string.h>

#include "ir/ir_fold.h"

/* ---- Looking back, building ---- */

MlirOperation maker(MlirValue value) {
  return mlirValueIsAOpResult(value) ? mlirOpResultGetOwner(value) : (MlirOperation){NULL};
}

bool made_by(MlirOperation op, uint32_t index, wafer_op id, MlirOperation *found) {
  *found = maker(mlirOperationGetOperand(op, index));
  return !mlirOperationIsNull(*found) && wafer_ir_op(*found) == id;
}

bool used_once(MlirOperation op) {
  MlirOpOperand use = mlirValueGetFirstUse(result_of(op));
  return !mlirOpOperandIsNull(use) && mlirOpOperandIsNull(mlirOpOperandGetNextUse(use));
}

MlirValue result_of(MlirOperation op) {
  return mlirOperationGetResult(op, 0);
}
wafer_type result_type(MlirOperation op) {
  return wafer_ir_value_type(result_of(op));
}
wafer_type operand_type(MlirOperation op, uint32_t index) {
  return wafer_ir_value_type(mlirOperationGetOperand(op, index));
}

wafer_builder build_before(const simplifier *s, MlirOperation at, MlirOperation anchor) {
  return (wafer_builder){.ctx = s->ctx,
                         .ir = s->ir,
                         .block = mlirOperationGetBlock(at),
                         .before = at,
                         .location = mlirOperationGetLocation(anchor),
                         .loc = wafer_ir_loc(s->ir, anchor)};
}

wafer_status build_reshape(const simplifier *s, MlirOperation at, MlirValue x,
                           const wafer_shape *shape, MlirValue *value) {
  wafer_builder b = build_before(s, at, at);
  wafer_attr attr = {.id = WAFER_ATTR_shape, .ints = {shape->rank, shape->dims}};
  return wafer_build(&b, WAFER_OP_reshape, 1, &x, &attr, 1, value);
}

/* ---- Rewrites of any op ---- */

static wafer_status rewrite_identity(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  if (mlirOperationGetNumOperands(op) != 1) return WAFER_OK;
  wafer_type from = operand_type(op, 0), to = result_type(op);
  if (from.dtype != to.dtype || !wafer_shape_equal(&from.shape, &to.shape)) return WAFER_OK;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  if (op_is_identity(wafer_ir_op(op), &attrs, 1, &from, &to))
    *value = mlirOperationGetOperand(op, 0);
  return WAFER_OK;
}

static wafer_status no_memory(const simplifier *s) {
  return wafer_fail(s->ctx->diag, wafer_at_file(s->ir->file), WAFER_NO_MEMORY,
                    "no memory to simplify");
}

/* Attributes are unique in a context, so equal constants have the same one. */
static wafer_status rewrite_source(simplifier *s, MlirOperation op, MlirValue *value) {
  bool weight = wafer_ir_op(op) == WAFER_OP_weight;
  MlirStringRef name = mlirStringRefCreateFromCString(weight ? "name" : "value");
  const void *key = mlirOperationGetAttributeByName(op, name).ptr;
  uint32_t first = wafer_ir_map_get(s->sources, key);
  if (first != WAFER_NONE) {
    MlirValue known = s->source[first], own = result_of(op);
    if (!mlirValueEqual(known, own) &&
        mlirTypeEqual(mlirValueGetType(known), mlirValueGetType(own)))
      *value = known;
    return WAFER_OK;
  }
  if (s->source_count == s->source_room) {
    uint32_t room = 2 * s->source_room + 64;
    MlirValue *grown = WAFER_NEW(s->ctx->arena, MlirValue, room);
    if (!grown) return no_memory(s);
    for (uint32_t i = 0; i < s->source_count; i++) grown[i] = s->source[i];
    s->source = grown;
    s->source_room = room;
  }
  s->source[s->source_count] = result_of(op);
  return wafer_ir_map_put(s->sources, key, s->source_count++) ? WAFER_OK : no_memory(s);
}

/* ---- The table ---- */

static const struct {
  wafer_op op;
  rewrite *apply;
} rewrites[] = {
    {WAFER_OP_constant, rewrite_source},
    {WAFER_OP_weight, rewrite_source},
    {WAFER_OP_batch_norm, rewrite_batch_norm},
    {WAFER_OP_mul, rewrite_neutral},
    {WAFER_OP_mul, rewrite_scale},
    {WAFER_OP_mul, rewrite_chain},
    {WAFER_OP_add, rewrite_neutral},
    {WAFER_OP_add, rewrite_scale},
    {WAFER_OP_add, rewrite_chain},
    {WAFER_OP_sub, rewrite_neutral},
    {WAFER_OP_sub, rewrite_scale},
    {WAFER_OP_div, rewrite_neutral},
    {WAFER_OP_div, rewrite_scale},
    {WAFER_OP_div, rewrite_divide},
    {WAFER_OP_pow, rewrite_neutral},
    {WAFER_OP_pow, rewrite_power},
    {WAFER_OP_conv, rewrite_wide_factor},
    {WAFER_OP_conv, rewrite_padded_conv},
    {WAFER_OP_conv, rewrite_scaled_input},
    {WAFER_OP_conv, rewrite_idle_taps},
    {WAFER_OP_conv, rewrite_sparse_window},
    {WAFER_OP_max_pool, rewrite_sparse_window},
    {WAFER_OP_average_pool, rewrite_sparse_window},
    {WAFER_OP_relu, rewrite_clip},
    {WAFER_OP_clip, rewrite_clip},
    {WAFER_OP_select, rewrite_select},
    {WAFER_OP_reshape, rewrite_reshape},
    {WAFER_OP_transpose, rewrite_transpose},
    {WAFER_OP_matmul, rewrite_product},
    {WAFER_OP_matmul, rewrite_wide_factor},
    {WAFER_OP_expand, rewrite_expand},
    {WAFER_OP_slice, rewrite_slice},
    {WAFER_OP_pad, rewrite_pad},
    {WAFER_OP_gather, rewrite_gather},
    {WAFER_OP_concat, rewrite_concat},
    {WAFER_OP_reduce_sum, rewrite_reduce},
    {WAFER_OP_reduce_mean, rewrite_reduce},
    {WAFER_OP_reduce_max, rewrite_reduce},
    {WAFER_OP_reduce_min, rewrite_reduce},
    {WAFER_OP_reduce_prod, rewrite_reduce},
};

static wafer_status rewrite_op(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_op id = wafer_ir_op(op);
  *value = (MlirValue){NULL};
  WAFER_TRY(rewrite_identity(s, op, value));
  for (size_t i = 0; i < WAFER_COUNT(rewrites) && mlirValueIsNull(*value); i++)
    if (rewrites[i].op == id) WAFER_TRY(rewrites[i].apply(s, op, value));
  if (mlirValueIsNull(*value) && wafer_op_is(id, WAFER_TRAIT_MAP))
    WAFER_TRY(rewrite_broadcast(s, op, value));
  return WAFER_OK;
}

/* ---- The walk ---- */

/* The ops behind an op, each once, in the order in which they stand. */
static uint32_t makers_of(MlirOperation op, MlirOperation *makers) {
  uint32_t count = 0;
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation behind = maker(mlirOperationGetOperand(op, i));
    uint32_t at = count;
    if (mlirOperationIsNull(behind)) continue;
    while (at && mlirOperationIsBeforeInBlock(behind, makers[at - 1])) at--;
    if (at && mlirOperationEqual(behind, makers[at - 1])) continue;
    memmove(makers + at + 1, makers + at, (count++ - at) * sizeof *makers);
    makers[at] = behind;
  }
  return count;
}

void erase_dead(MlirOperation op) {
  wafer_op id = wafer_ir_op(op);
  if (id == WAFER_OP_COUNT || wafer_op_is(id, WAFER_TRAIT_SOURCE)) return;
  if (!mlirOpOperandIsNull(mlirValueGetFirstUse(result_of(op)))) return;
  MlirOperation makers[WAFER_OP_MAX_OPERANDS];
  uint32_t count = makers_of(op, makers);
  mlirOperationDestroy(op);
  /* one that also stands behind a later one goes with that */
  for (uint32_t i = 0; i < count; i++) erase_dead(makers[i]);
}

static wafer_status settle(simplifier *s, MlirOperation op);

/* What a rewrite made is at most the value's op and those behind its operands. */
static wafer_status settle_operands(simplifier *s, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++) {
    MlirOperation behind = maker(mlirOperationGetOperand(op, i));
    if (!mlirOperationIsNull(behind)) WAFER_TRY(settle(s, behind));
  }
  return WAFER_OK;
}

/* Rewrites an op, then what stands for it, until nothing applies. */
static wafer_status settle(simplifier *s, MlirOperation op) {
  MlirValue value;
  while (!mlirOperationIsNull(op) && wafer_ir_op(op) != WAFER_OP_COUNT) {
    WAFER_TRY(rewrite_op(s, op, &value));
    if (mlirValueIsNull(value)) return WAFER_OK;
    mlirValueReplaceAllUsesOfWith(result_of(op), value);
    if (wafer_op_is(wafer_ir_op(op), WAFER_TRAIT_SOURCE))
      mlirOperationDestroy(op);
    else
      erase_dead(op);
    op = maker(value);
    if (!mlirOperationIsNull(op)) WAFER_TRY(settle_operands(s, op));
  }
  return WAFER_OK;
}

static wafer_status sweep(const simplifier *s, MlirBlock block) {
  size_t count = 0;
  MlirOperation op;
  for (op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    count++;
  MlirOperation *ops = WAFER_NEW(s->ctx->arena, MlirOperation, count);
  if (!ops) return no_memory(s);
  count = 0;
  for (op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    ops[count++] = op;
  while (count--)
    if (wafer_ir_op(ops[count]) != WAFER_OP_COUNT &&
        mlirOpOperandIsNull(mlirValueGetFirstUse(result_of(ops[count]))))
      mlirOperationDestroy(ops[count]);
  return WAFER_OK;
}

wafer_status wafer_pass_simplify(const wafer_ctx *ctx, wafer_ir *ir) {
  simplifier s = {.ctx = ctx, .ir = ir, .sources = wafer_ir_map_create(ctx->arena)};
  if (!s.sources) return no_memory(&s);
  MlirBlock block = wafer_ir_body(wafer_ir_main(ir));
  WAFER_TRY(sweep(&s, block));
  MlirOperation next;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    WAFER_TRY(settle(&s, op));
  }
  return sweep(&s, block);
}

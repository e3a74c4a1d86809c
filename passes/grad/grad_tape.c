/* The walk back: the ops between the variables and y, in reverse, each handing its result's
 * gradient to its operands by the rule of its row in ops.def. */
#include <string.h>

#include "grad.h"

static const MlirValue none;

void grad_rule_none(grad *d) {
  (void)d;
}

void grad_rule_refused(grad *d) {
  grad_unsupported(d, "the derivative of nn.%s is not known",
                   wafer_op_get(wafer_ir_op(d->op))->name);
}

static grad_rule *const rules[WAFER_OP_COUNT] = {
#define OP(name, least, most, traits, shape, gradient, ...)                                        \
  [WAFER_OP_##name] = grad_rule_##gradient,
#include "wafer/ops.def"
};

typedef struct tape {
  wafer_ir_map *slots; /* value -> slot, of values that depend on a variable */
  wafer_ir_map *fixed; /* values that nothing is handed back from */
  MlirOperation *ops;  /* whose results do, in their order */
  MlirValue *gradient; /* per slot; null: none yet */
  bool *reached;       /* per slot, from y */
  uint32_t op_count, slot_count;
} tape;

static wafer_status no_memory(const wafer_builder *b) {
  return wafer_fail(b->ctx->diag, b->loc, WAFER_NO_MEMORY, "no memory for the gradient");
}

static bool is_real(MlirValue value) {
  wafer_type type;
  return wafer_ir_type_get(mlirValueGetType(value), &type) && wafer_dtype_is_float(type.dtype);
}

static uint32_t slot_of(const tape *t, MlirValue value) {
  return wafer_ir_map_get(t->slots, value.ptr);
}

static bool depends(const tape *t, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (slot_of(t, mlirOperationGetOperand(op, i)) != WAFER_NONE) return true;
  return false;
}

/* An op through which a gradient passes: its result is a real tensor that depends on a variable. */
static bool is_on_the_way(const tape *t, MlirOperation op) {
  wafer_op id = wafer_ir_op(op);
  if (id == WAFER_OP_COUNT || rules[id] == grad_rule_none || !depends(t, op)) return false;
  MlirValue result = mlirOperationGetResult(op, 0);
  return is_real(result) && wafer_ir_map_get(t->fixed, result.ptr) == WAFER_NONE;
}

static wafer_status allocate(const wafer_builder *b, const wafer_grad *what, tape *t) {
  wafer_arena *arena = b->ctx->arena;
  uint32_t most = what->variable_count + 1;
  for (MlirOperation op = mlirBlockGetFirstOperation(b->block); !mlirOperationIsNull(op);
       op = mlirOperationGetNextInBlock(op))
    most++;
  *t = (tape){.slots = wafer_ir_map_create(arena),
              .fixed = wafer_ir_map_create(arena),
              .ops = WAFER_NEW(arena, MlirOperation, most),
              .gradient = WAFER_NEW(arena, MlirValue, most),
              .reached = WAFER_NEW(arena, bool, most)};
  return t->slots && t->fixed && t->ops && t->gradient && t->reached ? WAFER_OK : no_memory(b);
}

/* Fills the tape with what depends on the variables, before the builder's place. */
static wafer_status record(const wafer_builder *b, const wafer_grad *what, tape *t) {
  WAFER_TRY(allocate(b, what, t));
  for (uint32_t i = 0; i < what->fixed_count; i++)
    if (!wafer_ir_map_put(t->fixed, what->fixed[i].ptr, i)) return no_memory(b);
  for (uint32_t i = 0; i < what->variable_count; i++)
    if (is_real(what->fixed[i]) && !wafer_ir_map_put(t->slots, what->fixed[i].ptr, t->slot_count++))
      return no_memory(b);
  for (MlirOperation op = mlirBlockGetFirstOperation(b->block);
       !mlirOperationIsNull(op) && !mlirOperationEqual(op, b->before);
       op = mlirOperationGetNextInBlock(op)) {
    if (!is_on_the_way(t, op)) continue;
    t->ops[t->op_count++] = op;
    if (!wafer_ir_map_put(t->slots, mlirOperationGetResult(op, 0).ptr, t->slot_count++))
      return no_memory(b);
  }
  return WAFER_OK;
}

/* ---- What y reaches ---- */

static void mark(const tape *t, const wafer_grad *what) {
  uint32_t slot = slot_of(t, what->y);
  if (slot != WAFER_NONE) t->reached[slot] = true;
  for (uint32_t i = t->op_count; i-- > 0;) {
    if (!t->reached[slot_of(t, mlirOperationGetResult(t->ops[i], 0))]) continue;
    for (intptr_t k = 0; k < mlirOperationGetNumOperands(t->ops[i]); k++) {
      slot = slot_of(t, mlirOperationGetOperand(t->ops[i], k));
      if (slot != WAFER_NONE) t->reached[slot] = true;
    }
  }
}

wafer_status wafer_grad_reaches(const wafer_builder *b, const wafer_grad *what, bool *reached) {
  tape t;
  WAFER_TRY(record(b, what, &t));
  mark(&t, what);
  for (uint32_t i = 0; i < what->variable_count; i++) {
    uint32_t slot = slot_of(&t, what->fixed[i]);
    reached[i] = slot != WAFER_NONE && t.reached[slot];
  }
  return WAFER_OK;
}

/* ---- The walk ---- */

/* What the rule builds carries the name of the op's node. */
static wafer_status enter(grad *d, const tape *t, MlirOperation op) {
  const wafer_ctx *ctx = d->b->ctx;
  const char *node = wafer_ir_node_name(op);
  const char *name = wafer_arena_printf(ctx->arena, "%s.backward", node);
  if (!name) return no_memory(d->b);
  d->op = op;
  d->count = (uint32_t)mlirOperationGetNumOperands(op);
  d->y = mlirOperationGetResult(op, 0);
  d->g = t->gradient[slot_of(t, d->y)];
  for (uint32_t i = 0; i < d->count; i++) {
    d->x[i] = mlirOperationGetOperand(op, i);
    d->wanted[i] = slot_of(t, d->x[i]) != WAFER_NONE;
    d->part[i] = none;
  }
  d->b->location = *node ? wafer_ir_location(d->b->ir, name, -1) : mlirOperationGetLocation(op);
  d->b->loc = wafer_ir_loc(d->b->ir, op);
  return wafer_ir_attrs(ctx, op, &d->attrs);
}

static void hand_back(grad *d, const tape *t) {
  rules[wafer_ir_op(d->op)](d);
  for (uint32_t i = 0; i < d->count && d->status == WAFER_OK; i++) {
    if (!d->wanted[i] || mlirValueIsNull(d->part[i])) continue;
    MlirValue part = grad_summed_to(d, d->part[i], d->x[i]);
    MlirValue *sum = &t->gradient[slot_of(t, d->x[i])];
    *sum = mlirValueIsNull(*sum) ? part : ADD(*sum, part);
  }
}

static MlirValue seed_of(grad *d, const wafer_grad *what) {
  wafer_type type = grad_type(d, what->y);
  return mlirValueIsNull(what->seed) ? grad_splat(d, &type, 1) : what->seed;
}

wafer_status wafer_grad_build(wafer_builder *b, const wafer_grad *what, MlirValue *gradients) {
  tape t;
  grad d = {.b = b};
  MlirLocation location = b->location;
  wafer_loc loc = b->loc;
  WAFER_TRY(record(b, what, &t));
  uint32_t first = slot_of(&t, what->y);
  if (first != WAFER_NONE) t.gradient[first] = seed_of(&d, what);
  for (uint32_t i = t.op_count; i-- > 0 && d.status == WAFER_OK;) {
    if (mlirValueIsNull(t.gradient[slot_of(&t, mlirOperationGetResult(t.ops[i], 0))])) continue;
    d.status = enter(&d, &t, t.ops[i]);
    if (d.status == WAFER_OK) hand_back(&d, &t);
  }
  for (uint32_t i = 0; i < what->variable_count; i++) {
    uint32_t slot = slot_of(&t, what->fixed[i]);
    gradients[i] = slot == WAFER_NONE ? none : t.gradient[slot];
  }
  b->location = location;
  b->loc = loc;
  return d.status;
}

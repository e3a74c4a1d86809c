/* A matrix that is absent, transposed: MemoryX sends it in the other order, and no core turns it.
 * The transpose becomes a weight of its own, NAME.swapped, as absent as NAME. Weights that are
 * there keep their transpose: folding has dealt with constants, and what is trained is bound row by
 * row. */
#include <string.h>

#include "group.h"
#include "wafer/ir.h"

#define SUFFIX ".swapped"

static bool swaps_two(const wafer_ctx *ctx, MlirOperation op) {
  wafer_attrs attrs;
  uint32_t rank;
  if (wafer_ir_op(op) != WAFER_OP_transpose || wafer_ir_attrs(ctx, op, &attrs) != WAFER_OK)
    return false;
  const int64_t *perm = wafer_attr_ints(&attrs, WAFER_ATTR_perm, &rank);
  return rank == 2 && perm[0] == 1;
}

/* The table's entry of an nn.weight; NULL: it is something else. */
static wafer_weight *weight_of(const wafer_ctx *ctx, const wafer_ir *ir, MlirValue value) {
  wafer_attrs attrs;
  if (!mlirValueIsAOpResult(value)) return NULL;
  MlirOperation op = mlirOpResultGetOwner(value);
  if (wafer_ir_op(op) != WAFER_OP_weight || wafer_ir_attrs(ctx, op, &attrs) != WAFER_OK)
    return NULL;
  return wafer_weights_find(ir->weights, wafer_attr_string(&attrs, WAFER_ATTR_name));
}

/* NAME.swapped of NAME, NAME of NAME.swapped. */
static wafer_weight *swapped(const wafer_ctx *ctx, wafer_ir *ir, const wafer_weight *of) {
  size_t length = strlen(of->name), tail = strlen(SUFFIX);
  bool back = length > tail && !strcmp(of->name + length - tail, SUFFIX);
  const char *name = back ? wafer_arena_strndup(ctx->arena, of->name, length - tail)
                          : wafer_arena_printf(ctx->arena, "%s" SUFFIX, of->name);
  wafer_shape shape = {2, {of->shape.dims[1], of->shape.dims[0]}};
  wafer_weight *found = name ? wafer_weights_find(ir->weights, name) : NULL;
  if (found && wafer_shape_equal(&found->shape, &shape) && !found->data) return found;
  found = name ? wafer_weights_add(ir->weights, name, of->dtype, &shape, NULL) : NULL;
  if (found) found->expected = of->expected;
  return found;
}

wafer_status fuse_swap_weights(const wafer_ctx *ctx, wafer_ir *ir, MlirBlock block) {
  MlirOperation next;
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationIsNull(op); op = next) {
    next = mlirOperationGetNextInBlock(op);
    if (!swaps_two(ctx, op)) continue;
    const wafer_weight *weight = weight_of(ctx, ir, mlirOperationGetOperand(op, 0));
    if (!weight || weight->data) continue;
    const wafer_weight *other = swapped(ctx, ir, weight);
    if (!other)
      return wafer_fail(ctx->diag, wafer_ir_loc(ir, op), WAFER_NO_MEMORY, "no memory to fuse ops");
    wafer_builder b = {.ctx = ctx,
                       .ir = ir,
                       .block = block,
                       .before = op,
                       .location = mlirOperationGetLocation(op),
                       .loc = wafer_ir_loc(ir, op)};
    MlirValue made;
    WAFER_TRY(wafer_build_weight(&b, other, &made));
    mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(op, 0), made);
    mlirOperationDestroy(op);
  }
  return WAFER_OK;
}

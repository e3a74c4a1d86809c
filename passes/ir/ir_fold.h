/* Evaluation of an op whose operands are constants, and identities: the builder, fold and simplify
 * share them. */
#ifndef PASSES_IR_FOLD_H
#define PASSES_IR_FOLD_H

#include "wafer/ir.h"

#define FOLD_OPERAND_BYTES (64 << 20) /* larger constants are not read to compute another */

typedef struct fold_call {
  wafer_op op;
  const wafer_attrs *attrs;
  uint32_t count;
  const MlirValue *operands;
  wafer_type type; /* of the result */
  wafer_loc loc;
} fold_call;

/* A constant, or what repeats or moves elements of such: that stays an op where its result is
 * large, for it is cheaper to keep so. */
bool fold_is_known(MlirValue value);
/* The result is no larger than the operands together, or than WAFER_FOLD_BYTES, and the operands
 * are small enough to read. */
bool fold_is_small(uint32_t count, const wafer_type *operands, const wafer_type *result);
/* It is, and the operands are known, or constants if the op itself repeats or moves elements. */
bool fold_may(wafer_op op, uint32_t count, const MlirValue *operands, const wafer_type *types,
              const wafer_type *result);
/* Runs the oracle into the arena; UNSUPPORTED without a word when it cannot, or when a weight is
 * absent. */
wafer_status fold_run(const wafer_ctx *ctx, const wafer_ir *ir, const fold_call *call,
                      wafer_view *result);
/* A name for a weight that folding made. */
const char *fold_name(wafer_arena *arena, const char *node, wafer_op op);
/* The op returns its only operand. */
bool op_is_identity(wafer_op op, const wafer_attrs *attrs, uint32_t count,
                    const wafer_type *operands, const wafer_type *result);

#endif

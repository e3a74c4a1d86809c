/* Evaluation of an op whose operands are constants, and identities: the builder, fold and simplify
 * share them. */
#ifndef PASSES_IR_FOLD_H
#define PASSES_IR_FOLD_H

#include "wafer/ir.h"

#define FOLD_OPERAND_BYTES (64 << 20) /* larger constants are not read to compute another */
/* What a result may be larger than its operands, and all of a model's together. */
#define FOLD_GROWTH (512 << 10)
#define FOLD_GROWTH_OF_ALL (32 << 20)
#define FOLD_WIDENED_OF_ALL (96 << 20) /* weights that were quantized */

typedef struct fold_call {
  wafer_op op;
  const wafer_attrs *attrs;
  uint32_t count;
  const MlirValue *operands;
  wafer_type type; /* of the result */
  wafer_loc loc;
} fold_call;

/* The operands are constants or, but for an op that itself repeats or moves elements, what such ops
 * make of constants: these stay ops where their results are large, for that is cheaper to keep. */
bool fold_may(wafer_op op, uint32_t count, const MlirValue *operands);
/* The result is no larger than the operands together, or than WAFER_FOLD_BYTES, and the operands
 * are small enough to read. */
bool fold_is_small(uint32_t count, const wafer_type *operands, const wafer_type *result);
/* Whether that is so, or the result of an op that computes is larger by no more than a core's
 * reader of it would rather have at once than from another kernel for every sample: tables of
 * positions, masks. What they grow by counts as folded. */
bool fold_pays(wafer_ir *ir, wafer_op op, uint32_t count, const wafer_type *operands,
               const wafer_type *result);
/* Whether the result has no more elements than an operand, though they are wider, and all such of a
 * model are no larger than that allows. Counts it in. */
bool fold_widens(wafer_ir *ir, uint32_t count, const wafer_type *operands,
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

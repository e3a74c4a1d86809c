/* The rewrites of pass `simplify`, and what pass `normalize` shares with them. */
#ifndef PASSES_SIMPLIFY_H
#define PASSES_SIMPLIFY_H

#include "wafer/ir.h"

typedef struct simplifier {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  wafer_ir_map *sources; /* the attribute of a constant or weight -> its first op */
  uint32_t source_count, source_room;
  MlirValue *source;
} simplifier;

/* Sets *value to what stands for the op's result, and leaves it null when the rewrite does not
 * apply. Looks at the op and back at its producers only; new ops go before it. The driver replaces
 * and erases. */
typedef wafer_status rewrite(simplifier *s, MlirOperation op, MlirValue *value);

/* simplify_conv.c */
rewrite rewrite_batch_norm, rewrite_scale;
/* simplify_input.c */
rewrite rewrite_padded_conv, rewrite_scaled_input;
/* simplify_window.c */
rewrite rewrite_sparse_window, rewrite_idle_taps;
/* simplify_narrow.c */
rewrite rewrite_wide_factor;
/* simplify_view.c */
rewrite rewrite_reshape, rewrite_transpose, rewrite_expand, rewrite_pad, rewrite_reduce,
    rewrite_concat, rewrite_product;
/* simplify_slice.c */
rewrite rewrite_slice, rewrite_gather;
/* simplify_map.c */
rewrite rewrite_neutral, rewrite_divide, rewrite_power, rewrite_chain, rewrite_clip, rewrite_select,
    rewrite_broadcast;

/* ---- Looking back ---- */

/* The op that makes a value; null for an argument. */
MlirOperation maker(MlirValue value);
/* The op that makes operand `index`, when it is an `id`. */
bool made_by(MlirOperation op, uint32_t index, wafer_op id, MlirOperation *found);
bool used_once(MlirOperation op); /* its result */
wafer_type result_type(MlirOperation op);
wafer_type operand_type(MlirOperation op, uint32_t index);
MlirValue result_of(MlirOperation op);

/* Erases an op without uses, then what only it used. Sources stay for those that may still share
 * them. */
void erase_dead(MlirOperation op);

/* ---- Building ---- */

/* A builder before `at` whose ops carry the location of `anchor`. */
wafer_builder build_before(const simplifier *s, MlirOperation at, MlirOperation anchor);
wafer_status build_reshape(const simplifier *s, MlirOperation at, MlirValue x,
                           const wafer_shape *shape, MlirValue *value);
wafer_status build_transpose(const simplifier *s, MlirOperation at, MlirValue x, uint32_t rank,
                             const int64_t *perm, MlirValue *value);

#endif

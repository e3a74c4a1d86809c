/* A pass whose plain data dies with it: what it decides is in the IR. */
#ifndef WAFER_PASSES_SCRATCH_H
#define WAFER_PASSES_SCRATCH_H

#include "wafer/ir.h"

static inline wafer_status in_scratch(const wafer_ctx *ctx, wafer_ir *ir, wafer_pass_fn *run) {
  wafer_ctx with = *ctx;
  with.arena = wafer_arena_create();
  if (!with.arena)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY, "no memory for a pass");
  wafer_status status = run(&with, ir);
  wafer_arena_destroy(with.arena);
  return status;
}

#endif

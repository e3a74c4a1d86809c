/* Whether a training step fits the wafer as it is: a copy of it is fused and sized. The shape
 * curves that this makes are those of pass `mode`. */
#include "grad.h"
#include "size.h"

static wafer_status copy_of(const wafer_ctx *ctx, wafer_ir *ir, wafer_ir **out) {
  WAFER_TRY(wafer_ir_create_piece(ctx, ir, out));
  wafer_ir *copy = *out;
  for (size_t i = 0; i < wafer_weights_count(ir->weights); i++) {
    const wafer_weight *w = wafer_weights_at(ir->weights, i);
    if (!wafer_weights_add(copy->weights, w->name, w->dtype, &w->shape, w->data)) {
      wafer_ir_destroy(copy);
      return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                        "no memory for a copy of the training step");
    }
  }
  mlirSymbolTableInsert(copy->symbols, mlirOperationClone(wafer_ir_main(ir)));
  copy->curves = curve_set_of(ctx, ir);
  return WAFER_OK;
}

static wafer_status size(const wafer_ctx *ctx, wafer_ir *copy, bool *fits) {
  wafer_graph graph;
  sizing sized;
  wafer_dtype storage =
      ctx->options && ctx->options->storage ? ctx->options->storage : WAFER_DTYPE_f32;
  WAFER_TRY(wafer_pass_fuse(ctx, copy));
  wafer_ir_set_storage(copy, storage);
  WAFER_TRY(wafer_graph_read(ctx, copy, &graph));
  if (!copy->curves)
    return wafer_fail(ctx->diag, wafer_at_file(copy->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  WAFER_TRY(size_streaming(ctx, copy->curves, &graph, 1, 1, &sized));
  *fits = sized.cost.fits;
  return WAFER_OK;
}

wafer_status grad_fits(const wafer_ctx *ctx, wafer_ir *ir, bool *fits) {
  wafer_ctx scratch = *ctx;
  wafer_ir *copy;
  scratch.arena = wafer_arena_create();
  if (!scratch.arena)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY, "no memory for a pass");
  wafer_status status = copy_of(&scratch, ir, &copy);
  if (status == WAFER_OK) {
    status = size(&scratch, copy, fits);
    copy->curves = NULL;
    wafer_ir_destroy(copy);
  }
  wafer_arena_destroy(scratch.arena);
  return status;
}

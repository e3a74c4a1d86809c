/* Whether a training step fits the wafer as it is: a copy of it is fused and sized. The shape
 * curves that this makes are those of pass `mode`. */
#include "grad.h"
#include "size/size.h"

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

static wafer_status no_memory(const wafer_ctx *ctx) {
  return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory to see whether a training step fits");
}

/* Whether what some kernel leaves for later ones is more than all cores hold, however it is laid
 * out: values that an earlier kernel makes, a later one needs and this one does not. A step that
 * keeps all its activations is mostly far from fitting, and sizing takes many tries to say so. */
static wafer_status is_hopeless(const wafer_ctx *ctx, const wafer_graph *graph, bool *hopeless) {
  uint64_t *change = WAFER_NEW(ctx->arena, uint64_t, graph->kernel_count + 1); /* modulo 2^64 */
  wafer_rect whole;
  if (!change || !size_whole_wafer(ctx->machine, &whole)) return no_memory(ctx);
  for (uint32_t v = 0; v < graph->value_count; v++) {
    const wafer_graph_value *value = &graph->values[v];
    if (value->producer == WAFER_NONE || value->use_count == 0) continue;
    const wafer_dtype storage = graph->kernels[value->producer].body.storage;
    int64_t elements = 0;
    (void)wafer_shape_elements(&value->type.shape, &elements);
    uint64_t bytes = (uint64_t)elements * wafer_stored_bytes(value->type.dtype, storage);
    uint32_t after = value->producer + 1;
    for (uint32_t u = 0; u < value->use_count; u++) {
      uint32_t user = value->uses[u].kernel;
      if (user > after) change[after] += bytes, change[user] -= bytes;
      if (user >= after) after = user + 1;
    }
  }
  uint64_t cores = (uint64_t)whole.width * whole.height, live = 0;
  *hopeless = false;
  for (uint32_t k = 0; k < graph->kernel_count && !*hopeless; k++) {
    live += change[k];
    *hopeless = live / cores > wafer_machine_core_budget(ctx->machine);
  }
  return WAFER_OK;
}

static wafer_status size(const wafer_ctx *ctx, wafer_ir *copy, bool *fits) {
  wafer_graph graph;
  sizing sized;
  bool hopeless;
  wafer_dtype storage =
      ctx->options && ctx->options->storage ? ctx->options->storage : WAFER_DTYPE_f32;
  *fits = false;
  WAFER_TRY(wafer_pass_fuse(ctx, copy));
  wafer_ir_set_storage(copy, storage);
  WAFER_TRY(wafer_graph_read(ctx, copy, &graph));
  if (!copy->curves) return no_memory(ctx);
  WAFER_TRY(is_hopeless(ctx, &graph, &hopeless));
  if (hopeless) return WAFER_OK;
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

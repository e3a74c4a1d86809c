/* Plans of training, and the micro-batch. */
#include <string.h>

#include "train.h"

/* Cross-entropy's classes are dim 1 of the output, or the last where labels say so: tokens. */
static wafer_status compile_axis(const train_arguments *a, const wafer_ctx *ctx,
                                 const wafer_plan **out) {
  wafer_ir *ir;
  WAFER_TRY(wafer_import(ctx, a->model, &ir));
  wafer_status status = wafer_transform(ctx, ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(ctx, ir, out);
  wafer_ir_destroy(ir);
  return status;
}

wafer_status train_compile(const train_arguments *a, wafer_arena *arena,
                           const wafer_machine *machine, const wafer_diag *diag,
                           uint32_t micro_batch, bool evaluate, const wafer_plan **out) {
  wafer_training_options *loss = WAFER_NEW(arena, wafer_training_options, 1);
  wafer_options *options = WAFER_NEW(arena, wafer_options, 1);
  if (!loss || !options) return cli_no_memory();
  *loss = a->loss;
  loss->micro_batch = micro_batch;
  loss->evaluate = evaluate;
  *options = a->compile;
  options->training = loss;
  wafer_ctx ctx = {.machine = machine, .arena = arena, .diag = diag, .options = options};
  return compile_axis(a, &ctx, out);
}

wafer_status train_choose(const train_arguments *a, wafer_arena *arena,
                          const wafer_machine *machine, uint32_t *micro_batch,
                          const wafer_plan **out) {
  uint64_t batch = a->train.batch, size = a->micro_batch ? a->micro_batch : 1;
  if (!a->micro_batch)
    for (uint64_t d = 1; d * d <= batch; d++)
      if (batch % d == 0) size = d;
  static const wafer_diag silent = {0};
  for (;; size--) {
    if (batch % size) continue;
    bool last = size == 1 || a->micro_batch;
    const wafer_diag *diag = last ? cli_diag() : &silent;
    wafer_status status =
        train_compile(a, arena, machine, diag, (uint32_t)size, a->mode == EVALUATE, out);
    *micro_batch = (uint32_t)size;
    if (status == WAFER_OK || last) return status;
    if (status != WAFER_NO_FIT) /* say why */
      return train_compile(a, arena, machine, cli_diag(), (uint32_t)size, a->mode == EVALUATE, out);
  }
}

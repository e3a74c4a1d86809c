/* Plans of training, and the micro-batch. */
#include <string.h>

#include "train.h"
#include "training.h"

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

/* The search looks for a short interval, and a step is more: the pipe fills, sums of replicas come
 * together, all get new weights. Shelves stay where a step is shorter on them. */
static wafer_status keep_shorter(const train_arguments *a, const wafer_ctx *ctx,
                                 const wafer_plan **plan) {
  wafer_ctx with = *ctx;
  wafer_options own = *ctx->options;
  const wafer_diag silent = {0};
  const wafer_plan *shelves;
  bool keeps, by_programs;
  uint64_t cycles[2];
  if (own.placer != WAFER_PLACER_best || own.replicas > 1 || !wafer_plan_updates(*plan))
    return WAFER_OK;
  own.placer = WAFER_PLACER_shelf;
  with.options = &own;
  with.diag = &silent;
  wafer_status status = compile_axis(a, &with, &shelves);
  if (status == WAFER_NO_MEMORY) return cli_no_memory();
  if (status != WAFER_OK) return WAFER_OK; /* they hold nothing */
  const wafer_plan *plans[] = {shelves, *plan};
  uint64_t micro_batches = a->train.batch / own.training->micro_batch;
  WAFER_TRY(training_no_slower(plans, micro_batches, &keeps, &by_programs, cycles));
  if (keeps) return WAFER_OK;
  *plan = shelves;
  wafer_note(cli_diag(), (wafer_loc){0}, "shelves: a step is shorter on them%s",
             by_programs ? ", by core programs" : "");
  return WAFER_OK;
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
  loss->optimizer = a->train.optimizer.kind;
  *options = a->compile;
  if (evaluate) options->mode = WAFER_MODE_streaming;
  options->training = loss;
  options->mode_option = "--execution";
  wafer_ctx ctx = {.machine = machine, .arena = arena, .diag = diag, .options = options};
  WAFER_TRY(compile_axis(a, &ctx, out));
  return keep_shorter(a, &ctx, out);
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

/* Whether the weights of both passes, their sums and state can lie on the wafer at all: what a
 * compile would find out, at length. */
static bool may_fit(const wafer_plan *plan, wafer_optimizer_kind optimizer) {
  const wafer_machine *m = plan->machine;
  uint64_t bytes = 0, room = wafer_rect_area(m->usable) * wafer_machine_core_budget(m);
  for (uint32_t i = 0; i < plan->training->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, plan->training->trained[i].weight);
    int64_t elements = 0;
    (void)wafer_shape_elements(&w->shape, &elements);
    bytes += (uint64_t)elements * (wafer_stored_bytes(w->dtype, plan->storage) +
                                   4 * (2 + (uint64_t)wafer_optimizer_slots(optimizer)));
    if (bytes > room) return false;
  }
  return true;
}

wafer_status train_faster(const train_arguments *a, wafer_arena *arena, uint64_t micro_batches,
                          uint64_t step, const wafer_plan **plan, wafer_step_cycles *out) {
  static const wafer_diag silent = {0};
  train_arguments pipelined = *a;
  const wafer_plan *other;
  wafer_step_cycles cost;
  if (a->compile.mode != WAFER_MODE_auto || a->mode == EVALUATE || a->systems > 1 ||
      !wafer_optimizer_on_wafer(a->train.optimizer.kind) ||
      !may_fit(*plan, a->train.optimizer.kind))
    return WAFER_OK;
  pipelined.compile.mode = WAFER_MODE_pipelined;
  wafer_status status = train_compile(&pipelined, arena, (*plan)->machine, &silent,
                                      (*plan)->training->micro_batch, false, &other);
  if (status == WAFER_NO_MEMORY) return cli_no_memory();
  if (status != WAFER_OK) return WAFER_OK; /* it does not fit, or has no routes */
  WAFER_TRY(wafer_plan_step_cycles(cli_diag(), other, micro_batches, &cost));
  if (cost.step >= step) return WAFER_OK;
  *plan = other;
  *out = cost;
  return WAFER_OK;
}

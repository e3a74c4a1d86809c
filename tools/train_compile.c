/* Plans of training, the micro-batch, and what a step costs. */
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

/* Nodes of the SwarmX tree between a wafer and MemoryX. */
static uint64_t depth_of(uint64_t systems, uint64_t fanout) {
  uint64_t depth = 0;
  for (uint64_t reach = 1; reach < systems; reach *= fanout) depth++;
  return depth;
}

wafer_status train_cost(const wafer_plan *plan, uint64_t micro_batches, uint64_t systems,
                        uint64_t servers, uint64_t state_bytes, train_cycles *out) {
  const wafer_machine *m = plan->machine;
  wafer_timeline timeline = {0};
  uint64_t weight_bytes = 0;
  WAFER_TRY(wafer_timeline_run(cli_diag(), plan, 0, 1, &timeline));
  for (uint32_t i = 0; i < plan->training->trained_count; i++)
    weight_bytes += wafer_weights_at(plan->weights, plan->training->trained[i].weight)->bytes;
  out->micro_batch = timeline.total_cycles;
  out->system = (micro_batches + systems - 1) / systems * timeline.total_cycles;
  out->sum = 2 * depth_of(systems, m->swarmx_fanout) * m->swarmx_hop_cycles +
             wafer_machine_transfer_cycles(m, weight_bytes, m->swarmx_bytes_per_second);
  uint64_t moved = (2 * state_bytes + weight_bytes) / servers; /* read and written; gradients read */
  out->update = m->memoryx_latency_cycles +
                wafer_machine_transfer_cycles(m, moved, m->memoryx_bytes_per_second);
  out->step = out->system + out->sum + out->update;
  return WAFER_OK;
}

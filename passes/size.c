/* Writes a split, depths and slabs to every kernel, from the sizing of the mode that was chosen. */
#include <stdio.h>

#include "size/size.h"
#include "scratch.h"
#include "sparsity.h"

/* Work of a kernel as the host feels it: operations, and an element stored costs as much as many of
 * them. */
#define WORK_OF_ELEMENT 32

/* Tiles the host cuts a kernel into: a function of the kernel alone, since it shows in the result's
 * bits. Powers of two, so that they spread evenly over as many threads; two as soon as a second
 * thread pays. */
static uint32_t slabs_of(const wafer_kernel_body *body, uint64_t operations) {
  wafer_loops loops;
  wafer_kernel_loops(body, &loops);
  bool spatial = body->family == WAFER_FAMILY_conv || body->family == WAFER_FAMILY_conv_transpose ||
                 body->family == WAFER_FAMILY_pool;
  uint32_t loop = spatial && loops.parallel > 2 ? 2 : 0;
  while (loop + 1 < loops.parallel && loops.extent[loop] == 1) loop++;
  uint64_t most = loops.parallel ? (uint64_t)loops.extent[loop] : 1, elements = 1;
  for (uint32_t i = 0; i < loops.parallel; i++) elements *= (uint64_t)loops.extent[i];
  uint64_t work = operations + WORK_OF_ELEMENT * elements;
  uint32_t slabs = work < 1000000 ? 1 : work < 16000000 ? 2 : work < 64000000 ? 4 : 8;
  while (slabs > most) slabs /= 2;
  return slabs < 2 ? 1 : slabs;
}

static void write_size(const wafer_ctx *ctx, const wafer_graph_kernel *kernel,
                       const sized_kernel *sized, uint32_t ahead) {
  wafer_loops loops;
  wafer_cost cost;
  wafer_kernel_loops(&kernel->body, &loops);
  wafer_kernel_cost(ctx->machine, &kernel->body, &sized->point->split, &cost);
  wafer_ir_set_split(kernel->func, loops.count, &sized->point->split);
  wafer_ir_set_depths(kernel->func, kernel->body.input_count + 1, sized->depths);
  wafer_ir_set_slabs(kernel->func, slabs_of(&kernel->body, cost.operations));
  wafer_ir_set_replicas(kernel->func, sized->replicas ? sized->replicas : 1);
  if (ahead > 1) wafer_ir_set_ahead(kernel->func, ahead);
  if (sized->stays) wafer_ir_set_stays(kernel->func, sized->stays);
  if (!sized->rect) return;
  wafer_ir_set_phase(kernel->func, sized->phase);
  wafer_ir_set_rect(kernel->func, sized->rect);
}

static wafer_status size_all(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                             wafer_mode mode, uint32_t batch, uint32_t stripes, sizing *chosen) {
  WAFER_TRY(mode == WAFER_MODE_pipelined
                ? size_pipelined(ctx, curves, graph, false, chosen)
                : size_streaming(ctx, curves, graph, batch / stripes, stripes, chosen));
  if (chosen->cost.fits) return WAFER_OK;
  return wafer_fail(ctx->diag, graph->kernels[chosen->refusal.kernel].loc, WAFER_NO_FIT,
                    "%s does not fit %s: %s", wafer_mode_name(mode), ctx->machine->name,
                    chosen->refusal.why);
}

static void tell_kept(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_graph *graph,
                      const sizing *chosen) {
  uint32_t pinned = 0;
  char others[48] = "";
  for (uint32_t i = 0; i < ctx->options->pin_count; i++) pinned += !ctx->options->pins[i].kept;
  if (pinned) snprintf(others, sizeof others, "; %u %s pinned", pinned, pinned == 1 ? "is" : "are");
  wafer_note(ctx->diag, wafer_at_file(ir->file),
             "%u of %u kernels stay where the earlier plan had its %u%s", chosen->kept,
             graph->kernel_count, chosen->wanted, others);
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  wafer_graph graph;
  wafer_mode mode;
  uint32_t batch, stripes = 1, columns;
  bool again = true;
  sizing chosen;
  if (!wafer_ir_get_mode(ir, &mode) || !wafer_ir_get_batch(ir, &batch) || batch == 0)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "the module has no wafer.mode and wafer.batch, run pass mode before size");
  (void)wafer_ir_get_stripes(ir, &stripes, &columns);
  curve_set *curves = curve_set_of(ctx, ir);
  if (!curves)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory to size kernels");
  while (again) {
    WAFER_TRY(wafer_graph_read(ctx, ir, &graph));
    WAFER_TRY(size_all(ctx, curves, &graph, mode, batch, stripes, &chosen));
    WAFER_TRY(size_recount(ctx, ir, &graph, &chosen, &again));
  }
  if (chosen.wanted) tell_kept(ctx, ir, &graph, &chosen);
  for (uint32_t k = 0; k < graph.kernel_count; k++) {
    const sized_kernel *sized = &chosen.kernels[k];
    write_size(ctx, &graph.kernels[k], sized,
               mode == WAFER_MODE_streaming ? chosen.phases[sized->phase].ahead : 1);
  }
  return WAFER_OK;
}

wafer_status wafer_pass_size(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}

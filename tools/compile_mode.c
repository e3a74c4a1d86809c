/* Second thoughts about the mode. `mode` chooses by streams that flow while cores compute; core
 * programs receive, compute and send in turn, and how fast a pipeline of them is, only its plan
 * tells. */
#include "compile.h"

/* Whether streaming may be faster than the programs, and nothing was said that wants a pipeline. */
static bool may_stream(const wafer_options *o, const wafer_plan *plan) {
  bool open = o->mode == WAFER_MODE_auto && !o->pin_count && o->bands < 2 && !o->training;
  return open && plan->mode == WAFER_MODE_pipelined && plan->launch_count && plan->streaming.fits;
}

static wafer_status stream(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                           const wafer_plan **out) {
  wafer_options own = *ctx->options;
  own.mode = WAFER_MODE_streaming;
  own.print_after = NULL;
  own.refused = NULL; /* the pipeline stands */
  wafer_ctx with = *ctx;
  with.options = &own;
  with.diag = NULL;
  WAFER_TRY(wafer_import(&with, model, ir));
  WAFER_TRY(wafer_transform(&with, *ir, WAFER_DEFAULT_PASSES));
  return wafer_lower(&with, *ir, out);
}

wafer_status compile_reconsider(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                                const wafer_plan **plan) {
  report pipelined, streaming;
  const wafer_plan *other;
  if (!may_stream(ctx->options, *plan)) return WAFER_OK;
  WAFER_TRY(report_make(cli_diag(), *plan, &pipelined));
  if ((*plan)->streaming.interval_cycles >= pipelined.interval_cycles) return WAFER_OK;
  wafer_status status = stream(ctx, model, ir, &other);
  if (status == WAFER_OK) status = report_make(NULL, other, &streaming);
  if (status == WAFER_NO_MEMORY) return cli_no_memory();
  if (status != WAFER_OK || streaming.interval_cycles >= pipelined.interval_cycles) return WAFER_OK;
  wafer_plan *chosen = wafer_arena_copy(ctx->arena, other, sizeof *other);
  if (!chosen) return cli_no_memory();
  chosen->pipelined.interval_cycles = pipelined.interval_cycles;
  chosen->pipelined.latency_cycles = pipelined.latency_cycles;
  *plan = chosen;
  return WAFER_OK;
}

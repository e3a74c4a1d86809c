/* Second thoughts. `mode` chooses by streams that flow while cores compute, and relays by
 * estimates; core programs receive, compute and send in turn, and how fast a pipeline of them is,
 * only its plan tells. */
#include "compile.h"

#define RELAY_GAIN 8 /* relays have to shorten the interval by one part in these */

typedef struct candidate {
  const wafer_plan *plan;
  uint64_t interval, latency; /* cycles of a sample */
  uint64_t flow;              /* interval, were cores to receive and send while they compute */
} candidate;

static wafer_status measure(const wafer_diag *diag, const wafer_plan *plan, candidate *out) {
  report r;
  WAFER_TRY(report_make(diag, plan, &r));
  uint64_t most = r.compute_cycles;
  if (most < r.edge_cycles) most = r.edge_cycles;
  *out = (candidate){plan, r.interval_cycles, r.latency_cycles, most};
  return WAFER_OK;
}

/* Another plan of the model, without a word; it not being possible is no failure. */
static wafer_status try_other(const wafer_ctx *ctx, const char *model, wafer_options *options,
                              wafer_ir **ir, candidate *out) {
  const wafer_plan *plan;
  wafer_ctx with = *ctx;
  options->print_after = NULL;
  options->refused = NULL; /* the plan at hand stands */
  with.options = options;
  with.diag = NULL;
  wafer_status status = wafer_import(&with, model, ir);
  if (status == WAFER_OK) status = wafer_transform(&with, *ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&with, *ir, &plan);
  if (status == WAFER_OK) status = measure(NULL, plan, out);
  return status == WAFER_NO_MEMORY ? cli_no_memory() : WAFER_OK;
}

static bool has_programs(const wafer_plan *plan) {
  return plan->mode == WAFER_MODE_pipelined && plan->launch_count;
}

/* Whether core programs are slower than their streams, and nothing was said that leaves no room for
 * relays. */
static bool may_relay(const wafer_options *o, const candidate *now) {
  bool open = !o->pin_count && !o->training && o->objective != WAFER_OBJECTIVE_latency;
  return open && now->interval - now->interval / RELAY_GAIN > now->flow;
}

/* Whether streaming may be faster than the programs, and nothing was said that wants a pipeline. */
static bool may_stream(const wafer_options *o, const candidate *now) {
  bool open = o->mode == WAFER_MODE_auto && !o->pin_count && o->bands < 2 && !o->training;
  return open && has_programs(now->plan) && now->plan->streaming.fits &&
         now->plan->streaming.interval_cycles < now->interval;
}

/* Takes the streaming plan, and says in it what programs make of the pipeline. */
static wafer_status take_streaming(const wafer_ctx *ctx, const wafer_plan *plan, candidate *now) {
  wafer_plan *chosen = wafer_arena_copy(ctx->arena, plan, sizeof *plan);
  if (!chosen) return cli_no_memory();
  chosen->pipelined.interval_cycles = now->interval;
  chosen->pipelined.latency_cycles = now->latency;
  now->plan = chosen;
  return WAFER_OK;
}

wafer_status compile_reconsider(const wafer_ctx *ctx, const char *model, bool relays,
                                wafer_ir *irs[COMPILE_OTHERS], const wafer_plan **plan) {
  candidate now, relayed = {0}, streaming = {0};
  wafer_options own = *ctx->options;
  if (!has_programs(*plan)) return WAFER_OK;
  WAFER_TRY(measure(cli_diag(), *plan, &now));
  if (relays && may_relay(ctx->options, &now)) {
    own.mode = WAFER_MODE_pipelined;
    own.relays = WAFER_RELAYS_auto;
    WAFER_TRY(try_other(ctx, model, &own, &irs[0], &relayed));
    if (relayed.plan && relayed.interval <= now.interval - now.interval / RELAY_GAIN) now = relayed;
  }
  if (may_stream(ctx->options, &now)) {
    own.mode = WAFER_MODE_streaming;
    WAFER_TRY(try_other(ctx, model, &own, &irs[1], &streaming));
    if (streaming.plan && streaming.interval < now.interval)
      WAFER_TRY(take_streaming(ctx, streaming.plan, &now));
  }
  *plan = now.plan;
  return WAFER_OK;
}

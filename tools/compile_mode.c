/* Second thoughts. `mode` chooses by streams that flow while cores compute, and relays by
 * estimates; core programs receive, compute and send in turn, and how fast a pipeline of them is,
 * only its plan tells. */
#include "compile.h"

typedef struct candidate {
  const wafer_plan *plan;
  uint64_t interval, latency; /* cycles of a sample */
  uint64_t flow;              /* interval, were cores to receive and send while they compute */
} candidate;

static candidate candidate_of(const wafer_plan *plan, const report *r) {
  uint64_t most = r->compute_cycles > r->edge_cycles ? r->compute_cycles : r->edge_cycles;
  return (candidate){plan, r->interval_cycles, r->latency_cycles, most};
}

wafer_status compile_other(const wafer_ctx *ctx, const char *model, wafer_options *options,
                           wafer_ir **ir, const wafer_plan **plan, report *told) {
  const wafer_plan *made;
  wafer_ctx with = *ctx;
  options->print_after = NULL;
  options->refused = NULL; /* the plan at hand stands */
  with.options = options;
  with.diag = NULL;
  *ir = NULL;
  *plan = NULL;
  wafer_status status = wafer_import(&with, model, ir);
  if (status == WAFER_OK) status = wafer_transform(&with, *ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&with, *ir, &made);
  if (status == WAFER_OK) status = report_make(NULL, made, told);
  if (status == WAFER_OK) *plan = made;
  return status == WAFER_NO_MEMORY ? cli_no_memory() : WAFER_OK;
}

static bool has_programs(const wafer_plan *plan) {
  return plan->mode == WAFER_MODE_pipelined && plan->launch_count;
}

/* Whether core programs are slower than their streams, and nothing was said that leaves no room for
 * relays. */
static bool may_relay(const wafer_options *o, const candidate *now) {
  bool open = !o->pin_count && !o->training && o->objective != WAFER_OBJECTIVE_latency;
  return open && now->interval - now->interval / WAFER_RELAY_GAIN > now->flow;
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
  const wafer_plan *other;
  wafer_options own = *ctx->options;
  report r;
  if (!has_programs(*plan)) return WAFER_OK;
  WAFER_TRY(report_make(cli_diag(), *plan, &r));
  candidate now = candidate_of(*plan, &r);
  if (relays && may_relay(ctx->options, &now)) {
    own.mode = WAFER_MODE_pipelined;
    own.relays = WAFER_RELAYS_auto;
    WAFER_TRY(compile_other(ctx, model, &own, &irs[0], &other, &r));
    if (other && r.interval_cycles <= now.interval - now.interval / WAFER_RELAY_GAIN)
      now = candidate_of(other, &r);
  }
  if (may_stream(ctx->options, &now)) {
    own.mode = WAFER_MODE_streaming;
    WAFER_TRY(compile_other(ctx, model, &own, &irs[1], &other, &r));
    if (other && r.interval_cycles < now.interval) WAFER_TRY(take_streaming(ctx, other, &now));
  }
  *plan = now.plan;
  return WAFER_OK;
}

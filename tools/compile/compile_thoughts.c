/* Plans that second thoughts compare: made, timed, counted, chosen. */
#include <string.h>

#include "compile_thoughts.h"
#include "wafer/ir.h"

/* Looks, as wafer_plan.effort counts them. */
#define MOST_SPENT ((uint64_t)256 << 20)    /* for shelves: some seconds */
#define SOON_SPENT ((uint64_t)12 << 20)     /* a fraction of one */
#define MOST_MISSED ((uint64_t)96 << 20)    /* for plans in a row that are no faster */
#define SEARCH_TIMES 24u                    /* as much is a search's: minutes */
#define KERNEL_EFFORT ((uint64_t)160 << 10) /* to size and to link a kernel, and no more than */
#define SPLIT_EFFORT 64u                    /* for each core that it may be split over */
#define CORE_EFFORT (4u << 10) /* of a core of a band that is far wider than those at hand */

static candidate candidate_of(wafer_ir *ir, const wafer_options *options, const wafer_plan *plan,
                              const report *r) {
  uint64_t most = r->compute_cycles > r->edge_cycles ? r->compute_cycles : r->edge_cycles;
  uint64_t turn = r->one_band_interval_cycles ? r->one_band_interval_cycles : r->interval_cycles;
  return (candidate){ir,   plan,           *options, r->interval_cycles, r->latency_cycles, turn,
                     most, r->edge_cycles, 0};
}

wafer_status compile_other(const wafer_ctx *ctx, const char *model, wafer_options *options,
                           wafer_programs programs, bool aloud, wafer_ir **ir,
                           const wafer_plan **plan, report *told) {
  compile_held aside = {.to = ctx->diag, .arena = ctx->arena, .aside = "another plan"};
  compile_held told_of = {.to = ctx->diag, .arena = ctx->arena}; /* its errors are nobody's */
  const wafer_diag quiet = compile_hold(&aside), notes = compile_hold(&told_of);
  const wafer_plan *made;
  options->print_after = NULL;
  options->refused = NULL; /* the plan at hand stands */
  wafer_options lowering = *options;
  lowering.programs = programs;
  wafer_ctx import = *ctx;
  import.arena = wafer_arena_create();
  import.options = options;
  import.diag = &quiet;
  wafer_ctx passes = import, lower = import;
  if (aloud) passes.diag = &notes;
  lower.options = &lowering;
  *ir = NULL;
  *plan = NULL;
  if (!import.arena) return cli_no_memory();
  wafer_status status = wafer_import(&import, model, ir);
  if (status == WAFER_OK) status = wafer_transform(&passes, *ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&lower, *ir, &made);
  if (status == WAFER_OK) status = report_make(NULL, made, told);
  if (status == WAFER_OK) *plan = made;
  if (!*ir) wafer_arena_destroy(import.arena);
  return status == WAFER_NO_MEMORY ? cli_no_memory() : WAFER_OK;
}

void compile_drop(wafer_ir *other) {
  wafer_arena *arena = other ? other->arena : NULL;
  wafer_ir_destroy(other);
  wafer_arena_destroy(arena);
}

bool thoughts_has_programs(const candidate *c) {
  return c->plan && c->plan->mode == WAFER_MODE_pipelined && c->plan->launch_count;
}

bool thoughts_has_relays(const wafer_plan *plan) {
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    if (wafer_is_relay(plan->kernels[k].name)) return true;
  return false;
}

/* There are none yet, and none were tried. */
static bool has_them_later(const wafer_plan *plan) {
  const size_t later = sizeof WAFER_PROGRAMS_LATER - 1;
  return !plan->launch_count && strncmp(plan->no_programs, WAFER_PROGRAMS_LATER, later) == 0;
}

bool thoughts_lacks_programs(const wafer_plan *plan) {
  return !plan->launch_count && plan->function_count < 2 && !has_them_later(plan);
}

bool compile_lacks_programs(const wafer_plan *plan) {
  return plan->mode == WAFER_MODE_pipelined && thoughts_lacks_programs(plan);
}

static uint64_t sized(const wafer_plan *plan) {
  uint64_t each = SPLIT_EFFORT * wafer_rect_area(plan->machine->usable);
  return plan->kernel_count * (each < KERNEL_EFFORT ? each : KERNEL_EFFORT);
}

/* Most of it is the trains of core programs, if there are some. */
static uint64_t taken_by(const wafer_plan *plan) {
  return plan->effort + sized(plan);
}

/* `flows`: for streams that flow while cores compute. */
static wafer_status make_for(const thoughts *t, wafer_options options, bool flows, candidate *out) {
  const wafer_programs programs = options.programs;
  const uint64_t without = t->now.plan ? sized(t->now.plan) : 0; /* `out` may be the one at hand */
  const wafer_plan *plan;
  wafer_ir *ir;
  report r = {0};
  if (flows) options.programs = WAFER_PROGRAMS_never;
  wafer_status status = compile_other(t->ctx, t->model, &options, programs, flows, &ir, &plan, &r);
  options.programs = programs;
  if (status != WAFER_OK) {
    compile_drop(ir);
    return status;
  }
  *out = candidate_of(ir, &options, plan, &r);
  *t->spent += plan ? taken_by(plan) : without;
  if (plan) out->made = *t->spent;
  return WAFER_OK;
}

static bool searches(const thoughts *t) {
  return t->ctx->options->placer == WAFER_PLACER_best;
}

bool thoughts_have_time(const thoughts *t) {
  const uint64_t times = searches(t) ? SEARCH_TIMES : 1;
  const uint64_t spent = *t->spent, next = spent + taken_by(t->now.plan);
  return next <= MOST_SPENT * times && spent - t->gained <= MOST_MISSED * times;
}

bool thoughts_are_soon_done(const thoughts *t, uint32_t times) {
  return searches(t) || *t->spent + taken_by(t->now.plan) * times <= SOON_SPENT;
}

/* Its kernels may take all of a band. */
bool thoughts_have_time_for(const thoughts *t, uint32_t bands) {
  uint64_t cores = wafer_rect_area(t->ctx->machine->usable) / bands;
  return searches(t) || *t->spent + CORE_EFFORT * cores <= MOST_SPENT;
}

wafer_status thoughts_make(const thoughts *t, wafer_options options, candidate *out) {
  return make_for(t, options, false, out);
}

wafer_status thoughts_make_flow(const thoughts *t, wafer_options options, candidate *out) {
  return make_for(t, options, true, out);
}

bool thoughts_choose(candidate *now, candidate *other, bool better) {
  compile_drop(better ? now->ir : other->ir);
  if (better) *now = *other;
  return better;
}

wafer_plan *thoughts_change(thoughts *t) {
  wafer_plan *plan = wafer_arena_copy(t->ctx->arena, t->now.plan, sizeof *plan);
  if (plan) t->now.plan = plan;
  return plan;
}

uint64_t thoughts_worth(const candidate *c) {
  return thoughts_count_one(&c->options) ? c->latency : c->interval;
}

uint64_t thoughts_most(const candidate *now, uint32_t gain) {
  uint64_t most = thoughts_worth(now) - thoughts_worth(now) / gain;
  uint64_t flow = now->flow + now->flow / SLOW_PART;
  return thoughts_may_change(now) && flow > most ? flow : most;
}

void thoughts_leave_open(thoughts *t) {
  thoughts_ask_for(&t->now.options,
                   (wafer_cut){t->ctx->options->bands, t->ctx->options->sides, false});
}

wafer_status thoughts_try_pipeline(thoughts *t, wafer_options options, uint32_t gain, bool *taken) {
  candidate other;
  *taken = false;
  if (!thoughts_have_time(t)) return WAFER_OK;
  options.mode = WAFER_MODE_pipelined;
  const uint64_t most = thoughts_most(&t->now, gain), worth = thoughts_worth(&t->now);
  if (options.objective == WAFER_OBJECTIVE_throughput) options.programs_within = most;
  WAFER_TRY(thoughts_make(t, options, &other));
  other.options.programs_within = 0;
  *taken = thoughts_choose(&t->now, &other,
                           thoughts_has_programs(&other) && thoughts_worth(&other) <= most);
  if (thoughts_worth(&t->now) < worth) t->gained = *t->spent;
  return WAFER_OK;
}

bool thoughts_is_open(const wafer_options *o) {
  return !o->pin_count && !o->training && !thoughts_count_one(o);
}

bool thoughts_may_change(const candidate *now) {
  return thoughts_is_open(&now->options) && now->interval > now->flow + now->flow / SLOW_PART;
}

bool thoughts_may_relay(const thoughts *t) {
  return t->ctx->options->relays != WAFER_RELAYS_none;
}

wafer_status thoughts_begin(const wafer_ctx *ctx, const char *model, const wafer_plan *plan,
                            uint64_t *spent, thoughts *out) {
  report r;
  WAFER_TRY(report_make(cli_diag(), plan, &r));
  *spent = taken_by(plan);
  *out = (thoughts){ctx, model, candidate_of(NULL, ctx->options, plan, &r), spent, *spent};
  return WAFER_OK;
}

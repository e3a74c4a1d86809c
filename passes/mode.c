/* Chooses between one pipeline on the whole wafer and one layer after the other with streamed
 * weights. Both are sized, whichever is asked for: the report shows both, and a refusal names the
 * one that works. */
#include "mode/mode_bands.h"
#include "mode/mode_refuse.h"
#include "mode/mode_relay.h"
#include "mode/mode_stripes.h"
#include "scratch.h"
#include "size/size.h"

typedef struct choice {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  wafer_graph graph;
  wafer_mode asked;
  uint32_t batch;
  wafer_cut cut, together; /* of the pipeline, and of streaming */
  sizing pipelined, streaming;
} choice;

static wafer_dtype storage_of(const wafer_ctx *ctx) {
  return ctx->options && ctx->options->storage != WAFER_DTYPE_none ? ctx->options->storage
                                                                   : WAFER_DTYPE_f32;
}

/* ---- The batch at which the choice flips ---- */

/* Streaming gains from every sample that shares a phase's weights, so one bisection finds the least
 * number of samples with which it beats the pipeline. 0: it always does, or never. */
static uint32_t flip_batch(const choice *c) {
  const wafer_machine *m = c->ctx->machine;
  if (!c->pipelined.cost.fits || !c->streaming.cost.fits) return 0;
  uint64_t target = c->pipelined.cost.interval_cycles * c->together.bands;
  uint32_t low = 0, high = 1, over = UINT32_MAX / 4; /* too few, tried, too many */
  uint64_t interval;
  while ((interval = size_streaming_interval(m, &c->streaming, high)) >= target) {
    *(interval == UINT64_MAX ? &over : &low) = high;
    if (over - low <= 1) return 0;
    high = low < over / 2 ? 2 * low : low + (over - low) / 2;
  }
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (size_streaming_interval(m, &c->streaming, middle) < target)
      high = middle;
    else
      low = middle;
  }
  return high > 1 ? high * c->streaming.stripes * c->together.bands : 0;
}

static wafer_status refuse(const choice *c, const sizing *failed, wafer_mode mode) {
  refusing refusal = {c->ctx,   c->ir,  &c->graph,     c->asked,     mode,
                      c->batch, c->cut, &c->pipelined, &c->streaming};
  return mode_refuse(&refusal, &failed->refusal);
}

/* ---- Relays ---- */

#define MOST_SPACING 4u /* kernels to a relay, at most */

static bool may_relay(const choice *c) {
  const wafer_options *o = c->ctx->options;
  uint32_t samples;
  bool alone = (o && o->objective == WAFER_OBJECTIVE_latency) || c->graph.piece ||
               wafer_ir_get_micro_batch(c->ir, &samples);
  return !alone && o && o->relays != WAFER_RELAYS_none && c->asked != WAFER_MODE_streaming &&
         c->pipelined.cost.fits;
}

static bool has_programs(const choice *c) {
  return size_gets_train(c->ctx, &c->graph);
}

/* Cycles between samples as they will be told: of programs, or where there are none of streams. */
static uint64_t interval_of(const choice *c, const sizing *s, wafer_cut cut) {
  return has_programs(c) ? mode_pace(s, cut.bands) : s->cost.interval_cycles;
}

/* Whether programs may be held up by what skips kernels, so that others wait. */
static bool waits_for_skips(const choice *c) {
  uint64_t pace = mode_pace(&c->pipelined, c->cut.bands);
  return has_programs(c) && pace - pace / WAFER_RELAY_GAIN > c->pipelined.cost.interval_cycles;
}

/* Whether the pipeline may be held up by what crosses the edge several times. */
static bool waits_for_inputs(const choice *c) {
  return c->pipelined.cost.interval_cycles <= c->pipelined.edge && mode_shares_inputs(&c->graph);
}

/* Whether relays pay: programs, or where there are none streams, are faster by enough; or streams
 * are, and programs, of which it is not known yet whether they will be made, about as fast. */
static bool relays_pay(const choice *c, const sizing *with, wafer_cut cut) {
  uint64_t now = interval_of(c, &c->pipelined, c->cut), then = interval_of(c, with, cut);
  uint64_t flow = c->pipelined.cost.interval_cycles;
  if (!with->cost.fits) return false;
  if (then <= now - now / WAFER_RELAY_GAIN) return true;
  return then <= now + now / WAFER_RELAY_GAIN &&
         with->cost.interval_cycles <= flow - flow / WAFER_RELAY_GAIN;
}

/* The pipeline with such relays; *out NULL: it is no better, and without them again. */
static wafer_status try_relays(choice *c, mode_relayed what, mode_relays **out) {
  wafer_graph graph;
  wafer_cut cut;
  sizing with = {0};
  WAFER_TRY(mode_add_relays(c->ctx, c->ir, &c->graph, what, out));
  if (!*out) return WAFER_OK;
  WAFER_TRY(wafer_graph_read(c->ctx, c->ir, &graph));
  WAFER_TRY(mode_size_bands(c->ctx, c->ir, &graph, &cut, &with));
  if (relays_pay(c, &with, cut)) {
    c->pipelined = with;
    c->cut = cut;
    return WAFER_OK;
  }
  mode_drop_relays(c->ir, *out);
  *out = NULL;
  return WAFER_OK;
}

/* Whether the graph has all relays that pins mean, with such ones. */
static wafer_status try_pinned(choice *c, mode_relayed what, mode_relays **out) {
  wafer_graph graph;
  WAFER_TRY(mode_add_relays(c->ctx, c->ir, &c->graph, what, out));
  if (!*out) return WAFER_OK;
  WAFER_TRY(wafer_graph_read(c->ctx, c->ir, &graph));
  if (mode_has_pinned_relays(c->ctx->options, &graph)) {
    c->graph = graph;
    return WAFER_OK;
  }
  mode_drop_relays(c->ir, *out);
  *out = NULL;
  return WAFER_OK;
}

/* Those that pins mean: the fewest that have them all. */
static wafer_status add_pinned_relays(choice *c, mode_relays **out) {
  *out = NULL;
  if (!mode_pins_relays(c->ctx->options)) return WAFER_OK;
  for (int inputs = 0; inputs < 2 && !*out; inputs++) {
    if (inputs) WAFER_TRY(try_pinned(c, (mode_relayed){0, true}, out));
    for (uint32_t spacing = MOST_SPACING; spacing && !*out; spacing /= 2)
      WAFER_TRY(try_pinned(c, (mode_relayed){spacing, inputs}, out));
  }
  return WAFER_OK;
}

static wafer_status settle_relays(choice *c, mode_relays **out) {
  if (*out || !may_relay(c)) return WAFER_OK;
  const wafer_options *o = c->ctx->options;
  bool all = o->relays == WAFER_RELAYS_auto, open = all || !o->pin_count;
  bool inputs = open && waits_for_inputs(c), skips = all && waits_for_skips(c);
  if (inputs && !skips) return try_relays(c, (mode_relayed){0, true}, out);
  for (uint32_t spacing = 1; skips && !*out && spacing <= MOST_SPACING; spacing *= 2)
    WAFER_TRY(try_relays(c, (mode_relayed){spacing, inputs}, out));
  return WAFER_OK;
}

/* What was tried at once, as well as can be. */
static wafer_status settle_bands(choice *c, const mode_relays *relays) {
  wafer_graph graph = c->graph;
  if (!c->pipelined.cost.fits) return WAFER_OK;
  if (relays) WAFER_TRY(wafer_graph_read(c->ctx, c->ir, &graph));
  return mode_settle_bands(c->ctx, c->ir, &graph, c->cut, &c->pipelined);
}

static wafer_status settle_pipeline(choice *c, bool trains, mode_relays **relays) {
  WAFER_TRY(add_pinned_relays(c, relays));
  if (!trains || c->asked == WAFER_MODE_pipelined)
    WAFER_TRY(mode_size_bands(c->ctx, c->ir, &c->graph, &c->cut, &c->pipelined));
  WAFER_TRY(settle_relays(c, relays));
  return settle_bands(c, *relays);
}

/* ---- The pass ---- */

static wafer_status choose(const choice *c, wafer_mode *mode) {
  bool pipelined = c->pipelined.cost.fits, streaming = c->streaming.cost.fits;
  *mode = c->asked;
  if (c->asked == WAFER_MODE_auto && pipelined && streaming)
    *mode = c->streaming.cost.interval_cycles < c->pipelined.cost.interval_cycles
                ? WAFER_MODE_streaming
                : WAFER_MODE_pipelined;
  else if (c->asked == WAFER_MODE_auto)
    *mode = pipelined ? WAFER_MODE_pipelined : WAFER_MODE_streaming;
  if (*mode == WAFER_MODE_pipelined && !pipelined) return refuse(c, &c->pipelined, *mode);
  if (*mode == WAFER_MODE_streaming && !streaming) return refuse(c, &c->streaming, *mode);
  return WAFER_OK;
}

static void write_choice(choice *c, wafer_mode mode) {
  wafer_ir_set_mode(c->ir, mode);
  wafer_ir_set_batch(c->ir, mode == WAFER_MODE_streaming ? c->batch : 1);
  wafer_ir_set_cut(c->ir, mode == WAFER_MODE_pipelined ? c->cut : c->together);
  if (mode == WAFER_MODE_streaming && c->streaming.stripes > 1)
    wafer_ir_set_stripes(c->ir, c->streaming.stripes, c->streaming.stripe_columns);
  wafer_ir_set_mode_cost(c->ir, WAFER_MODE_pipelined, &c->pipelined.cost);
  wafer_ir_set_mode_cost(c->ir, WAFER_MODE_streaming, &c->streaming.cost);
  uint32_t samples; /* a training plan's batch is 1 */
  wafer_ir_set_flip_batch(c->ir, wafer_ir_get_micro_batch(c->ir, &samples) ? 0 : flip_batch(c));
}

/* Whose update a pipeline's cores can do. */
static const char *optimizers_on_wafer(const choice *c) {
  const char *text = "";
  for (int i = 0; i < WAFER_OPTIMIZER_COUNT && text; i++)
    if (wafer_optimizer_on_wafer((wafer_optimizer_kind)i))
      text = wafer_arena_printf(c->ctx->arena, "%s%s%s", text, *text ? ", " : "",
                                wafer_optimizer_name((wafer_optimizer_kind)i));
  return text ? text : "";
}

static wafer_status set_optimizer(const choice *c) {
  const wafer_training_options *training = c->ctx->options ? c->ctx->options->training : NULL;
  wafer_optimizer_kind kind = training ? training->optimizer : WAFER_OPTIMIZER_sgd;
  if (training && training->evaluate) return WAFER_OK;
  if (!wafer_optimizer_on_wafer(kind))
    return wafer_fail(
        c->ctx->diag, wafer_at_file(c->ir->file), WAFER_UNSUPPORTED,
        "%s is none of the optimizers whose update a pipeline does on the wafer, which "
        "are %s; take one of them, or stream the weights",
        wafer_optimizer_name(kind), optimizers_on_wafer(c));
  wafer_ir_set_optimizer(c->ir, kind);
  return WAFER_OK;
}

/* A training plan streams its weights unless a pipeline is asked for. */
static wafer_status choose_training(choice *c) {
  wafer_loc loc = wafer_at_file(c->ir->file);
  if (c->batch > 1)
    return wafer_fail(c->ctx->diag, loc, WAFER_USAGE,
                      "--batch %u: a training plan holds one micro-batch; give its samples with "
                      "--micro-batch",
                      c->batch);
  if (c->asked == WAFER_MODE_pipelined) return set_optimizer(c);
  c->asked = WAFER_MODE_streaming;
  c->pipelined.cost =
      (wafer_mode_cost){.why_not = "a training plan is a pipeline only with --mode pipelined"};
  return WAFER_OK;
}

/* Bands want a pipeline unless streaming is asked for; pinned kernels want one. */
static wafer_status heed_wishes(choice *c) {
  const wafer_options *o = c->ctx->options;
  bool pinned = false, banded = o && o->bands > 1;
  for (uint32_t i = 0; o && i < o->pin_count; i++) pinned |= !o->pins[i].kept;
  if (banded && c->asked != WAFER_MODE_streaming) c->asked = WAFER_MODE_pipelined;
  if (!pinned) return WAFER_OK;
  if (c->asked == WAFER_MODE_streaming)
    return wafer_fail(c->ctx->diag, wafer_at_file(c->ir->file), WAFER_USAGE,
                      "kernels can be pinned in a pipeline alone: in streaming each has the whole "
                      "wafer in turn; take --mode pipelined");
  c->asked = WAFER_MODE_pipelined;
  return WAFER_OK;
}

static wafer_status check_room(const choice *c) {
  const wafer_machine *m = c->ctx->machine;
  wafer_loc loc = wafer_at_file(c->ir->file);
  wafer_rect whole;
  if (!size_whole_wafer(m, &whole))
    return wafer_fail(c->ctx->diag, loc, WAFER_NO_MEMORY, "no memory to look for free cores");
  if (wafer_rect_area(whole)) return WAFER_OK;
  return wafer_fail(c->ctx->diag, loc, WAFER_NO_FIT,
                    "none of the %llu usable cores of %s is free: reserved rectangles (%u) and "
                    "dead cores (%u) take them all; reserve less",
                    (unsigned long long)wafer_rect_area(m->usable), m->name, m->reserved_count,
                    m->dead_count);
}

/* Whether the tiles of sparse weights that a pipeline, or a phase, of the mode has want more room
 * than was expected: then all is to be decided again. */
static wafer_status recount(const choice *c, const mode_relays *relays, wafer_mode mode,
                            bool *again) {
  wafer_graph graph = c->graph;
  if (relays) WAFER_TRY(wafer_graph_read(c->ctx, c->ir, &graph));
  const sizing *chosen = mode == WAFER_MODE_pipelined ? &c->pipelined : &c->streaming;
  return size_recount(c->ctx, c->ir, &graph, chosen, again);
}

static wafer_status decide(choice *c, wafer_mode *mode, bool *again) {
  const wafer_ctx *ctx = c->ctx;
  uint32_t samples;
  bool trains = wafer_ir_get_micro_batch(c->ir, &samples);
  c->batch = ctx->options && ctx->options->batch ? ctx->options->batch : 1;
  WAFER_TRY(wafer_graph_read(ctx, c->ir, &c->graph));
  WAFER_TRY(mode_size_stripes(ctx, c->ir, &c->graph, &c->batch, &c->together, &c->streaming));
  if (trains) WAFER_TRY(choose_training(c));
  if (trains) /* with sums, if a pipeline updates */
    WAFER_TRY(wafer_graph_read(ctx, c->ir, &c->graph));
  mode_relays *relays = NULL;
  if (ctx->options && ctx->options->pipelined)
    c->pipelined.cost = *ctx->options->pipelined;
  else
    WAFER_TRY(settle_pipeline(c, trains, &relays));
  WAFER_TRY(choose(c, mode));
  WAFER_TRY(recount(c, relays, *mode, again));
  if (relays && (*again || *mode != WAFER_MODE_pipelined)) mode_drop_relays(c->ir, relays);
  return WAFER_OK;
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  choice c = {.ctx = ctx, .ir = ir};
  if (ctx->options) c.asked = ctx->options->mode;
  WAFER_TRY(heed_wishes(&c));
  WAFER_TRY(check_room(&c));
  wafer_ir_set_storage(ir, storage_of(ctx));
  wafer_mode mode;
  bool again = true;
  while (again) WAFER_TRY(decide(&c, &mode, &again));
  write_choice(&c, mode);
  return WAFER_OK;
}

wafer_status wafer_pass_mode(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}

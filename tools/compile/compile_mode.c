/* Second thoughts. `mode` chooses by streams that flow while cores compute, relays and bands by
 * estimates, and --placer best looks for shapes one by one; core programs receive, compute and send
 * in turn, and how fast a pipeline of them is, only its plan tells. */
#include "compile_thoughts.h"

#define MOST_SLOWER 6 /* parts of WAFER_SLOWER_PARTS */

static wafer_status try_relays(thoughts *t) {
  wafer_options own = t->now.options;
  bool taken;
  if (!thoughts_may_relay(t) || !thoughts_may_change(&t->now)) return WAFER_OK;
  own.relays = WAFER_RELAYS_auto;
  if (own.placer == WAFER_PLACER_best) thoughts_ask_for(&own, thoughts_cut_of(&t->now));
  return thoughts_try_pipeline(t, own, PLAN_GAIN, &taken);
}

bool thoughts_may_reduce(const candidate *now, wafer_options *own) {
  bool some = false;
  for (uint32_t k = 0; k < now->plan->kernel_count; k++)
    some |= now->plan->kernels[k].body.family == WAFER_FAMILY_reduce;
  *own = now->options;
  own->reductions = WAFER_REDUCTIONS_behind;
  return some && thoughts_is_open(&now->options) &&
         now->options.reductions == WAFER_REDUCTIONS_auto;
}

/* Values then need not leave their kernels to be reduced; on large rectangles sums take longer to
 * go together. */
static wafer_status try_reductions(thoughts *t) {
  wafer_options own;
  bool taken;
  if (!thoughts_may_change(&t->now) || !thoughts_may_reduce(&t->now, &own)) return WAFER_OK;
  thoughts_ask_for(&own, thoughts_cut_of(&t->now));
  own.relays = thoughts_has_relays(t->now.plan) ? WAFER_RELAYS_auto : WAFER_RELAYS_none;
  WAFER_TRY(thoughts_try_pipeline(t, own, SMALL_GAIN, &taken));
  if (taken) thoughts_leave_open(t);
  return WAFER_OK;
}

/* Reductions that were faster behind what they reduce may not be on bands of another height. */
static wafer_status try_apart(thoughts *t) {
  wafer_options own = t->now.options;
  bool taken, behind = own.reductions == WAFER_REDUCTIONS_behind;
  if (!behind || t->ctx->options->reductions != WAFER_REDUCTIONS_auto ||
      !thoughts_may_change(&t->now))
    return WAFER_OK;
  own.reductions = WAFER_REDUCTIONS_auto;
  thoughts_ask_for(&own, thoughts_cut_of(&t->now));
  return thoughts_try_pipeline(t, own, SMALL_GAIN, &taken);
}

/* Whether a search has one band without relays. Two bands may be there for want of programs on
 * one. */
static bool is_alone(const thoughts *t) {
  uint32_t bands = thoughts_cut_of(&t->now).bands;
  bool open = bands == 1 || (bands == 2 && !t->ctx->options->bands);
  return open && t->now.options.placer == WAFER_PLACER_best && !thoughts_has_relays(t->now.plan);
}

static wafer_options slowed(const thoughts *t, uint32_t slower) {
  wafer_options own = t->now.options;
  own.slower = slower;
  thoughts_ask_for(&own, (wafer_cut){1, 1, false});
  own.relays = WAFER_RELAYS_none;
  return own;
}

/* A wafer that is full has no cores for relays and no room for wider kernels, and what each holds
 * up there no prediction tells. Kernels that may take a little longer are squarer; whether their
 * programs are faster, their plans tell. */
static wafer_status try_slower(thoughts *t) {
  bool taken, alone = is_alone(t);
  for (uint32_t s = t->now.options.slower + 1;
       alone && s <= MOST_SLOWER && thoughts_may_change(&t->now); s++)
    WAFER_TRY(thoughts_try_pipeline(t, slowed(t, s), SMALL_GAIN, &taken));
  return WAFER_OK;
}

/* Where a sample counts by itself: it takes long to exchange what the fastest kernels, which are
 * the widest, make. Whether it is done sooner with slower ones, or with such as are cheapest at a
 * price of cores, their plans tell; without programs these are soon made. */
static wafer_status try_late(thoughts *t) {
  static const uint32_t slower[] = {16, WAFER_SLOWER_PRICED, WAFER_SLOWER_PACE, 12, 64};
  const wafer_options *o = &t->now.options;
  const size_t count = thoughts_has_programs(&t->now) ? 3 : WAFER_COUNT(slower);
  if (!thoughts_count_one(o) || o->pin_count || o->training) return WAFER_OK;
  for (size_t i = 0; i < count && (i == 0 || thoughts_have_time(t)); i++) { /* one at least */
    wafer_options own = t->now.options;
    candidate other;
    own.slower = slower[i];
    own.mode = WAFER_MODE_pipelined;
    WAFER_TRY(thoughts_make(t, own, &other));
    const bool told = thoughts_has_programs(&other) || !thoughts_has_programs(&t->now);
    const bool sooner = other.plan && told && other.latency < t->now.latency;
    if (thoughts_choose(&t->now, &other, sooner)) t->gained = *t->spent;
  }
  return WAFER_OK;
}

/* A pipeline with these options, if it has programs. */
static wafer_status take_programs(thoughts *t, wafer_options options) {
  candidate other;
  if (!thoughts_have_time(t)) return WAFER_OK;
  options.mode = WAFER_MODE_pipelined;
  WAFER_TRY(thoughts_make(t, options, &other));
  thoughts_choose(&t->now, &other, thoughts_has_programs(&other));
  return WAFER_OK;
}

/* All is reached that was asked for. */
static bool is_paced(const candidate *now) {
  return now->options.objective == WAFER_OBJECTIVE_throughput && now->interval <= now->edge;
}

/* A search's kernels that may take a little longer, where a core has no room for what comes of the
 * fastest. */
static wafer_status find_slower(thoughts *t) {
  for (uint32_t s = 1; s <= MOST_SLOWER && is_alone(t) && !thoughts_has_programs(&t->now); s++)
    WAFER_TRY(take_programs(t, slowed(t, s)));
  return WAFER_OK;
}

/* Where programs cannot be made: fewer values are on their way if reductions are behind what they
 * reduce; then those of half as many bands, and again, or as long as they are soon made where they
 * are not faster than the streams. */
static wafer_status find_programs(thoughts *t) {
  wafer_options own = t->now.options, reducing;
  wafer_cut cut = thoughts_cut_of(&t->now);
  if (!compile_lacks_programs(t->now.plan)) return WAFER_OK;
  if (thoughts_may_reduce(&t->now, &reducing)) WAFER_TRY(take_programs(t, reducing));
  if (!thoughts_has_programs(&t->now)) WAFER_TRY(find_slower(t));
  for (uint32_t each = cut.bands / cut.sides / 2;
       !own.bands && each && !thoughts_has_programs(&t->now); each /= 2) {
    if (is_paced(&t->now) && !thoughts_are_soon_done(t, 1)) break;
    wafer_options fewer = own;
    wafer_cut half = {each * cut.sides, cut.sides, false};
    thoughts_ask_for(&fewer, wafer_machine_fill(t->ctx->machine, half));
    WAFER_TRY(take_programs(t, fewer));
  }
  thoughts_leave_open(t);
  return WAFER_OK;
}

/* Where there can be no programs streams tell how fast a plan is. It was laid out for programs, in
 * bands and without copies of kernels: one for streams alone may be faster, unless the edge's pace
 * is all that was asked for. */
static wafer_status try_flow(thoughts *t) {
  wafer_options own = t->now.options;
  candidate other;
  if (!compile_lacks_programs(t->now.plan) || is_paced(&t->now)) return WAFER_OK;
  own.bands = t->ctx->options->bands;
  own.sides = t->ctx->options->sides;
  own.mode = WAFER_MODE_pipelined;
  WAFER_TRY(thoughts_make_flow(t, own, &other));
  bool faster = other.plan && thoughts_worth(&other) < thoughts_worth(&t->now);
  thoughts_choose(&t->now, &other, thoughts_has_programs(&other) || faster);
  return WAFER_OK;
}

/* Whether an input of the model crosses the edge for several kernels, and the edge takes about as
 * long for all that comes in as a sample does, so that others may wait for it. */
static bool waits_for_shared(const candidate *c) {
  const wafer_plan *plan = c->plan;
  const wafer_machine *m = wafer_machine_whole(plan->machine);
  uint64_t words = 0;
  bool shares = false;
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    if (s->from.where != WAFER_AT_edge) continue;
    words += s->words;
    for (uint32_t j = 0; j < i && !shares; j++)
      shares = plan->streams[j].from.where == WAFER_AT_edge && plan->streams[j].value == s->value;
  }
  const uint64_t bytes = words * WAFER_WAVELET_BYTES, rate = m->edge_in_bytes_per_second;
  return shares &&
         wafer_machine_transfer_cycles(m, bytes, rate) >= c->interval - c->interval / SLOW_PART;
}

/* Where streams tell, and may wait for what crosses the edge several times: a relay takes it once.
 * Kernels are as slow as that lets them be. */
static wafer_status try_shared(thoughts *t) {
  wafer_options own = t->now.options;
  candidate other;
  bool late = t->now.interval > t->now.edge + t->now.edge / SLOW_PART;
  bool open = thoughts_may_relay(t) && thoughts_is_open(&own) && !thoughts_has_relays(t->now.plan);
  if (!late || !open || t->now.plan->mode != WAFER_MODE_pipelined || !waits_for_shared(&t->now))
    return WAFER_OK;
  own.relays = WAFER_RELAYS_auto;
  own.mode = WAFER_MODE_pipelined;
  WAFER_TRY(thoughts_make(t, own, &other));
  thoughts_choose(&t->now, &other,
                  other.plan && thoughts_worth(&other) <= thoughts_most(&t->now, PLAN_GAIN));
  return WAFER_OK;
}

/* Bands that suit the network, with reductions as is faster on those. */
static wafer_status try_suited(thoughts *t, bool *taken) {
  WAFER_TRY(thoughts_try_suited(t, taken));
  return *taken ? try_apart(t) : WAFER_OK;
}

/* What suits shelves, the most first: their time is limited. */
static wafer_status change_shelves(thoughts *t) {
  bool suited;
  WAFER_TRY(try_reductions(t));
  WAFER_TRY(try_suited(t, &suited));
  WAFER_TRY(try_relays(t));
  if (suited)
    thoughts_leave_open(t);
  else
    WAFER_TRY(thoughts_try_sides(t));
  WAFER_TRY(thoughts_try_bands(t));
  return thoughts_try_heights(t);
}

/* What suits a search. Where reductions are, kernels that take longer may tell, and where they and
 * bands are, relays. */
static wafer_status change_search(thoughts *t) {
  WAFER_TRY(try_reductions(t));
  const uint64_t tried = t->now.made;
  bool suited;
  WAFER_TRY(try_relays(t));
  WAFER_TRY(thoughts_try_sides(t));
  WAFER_TRY(thoughts_try_near_bands(t));
  WAFER_TRY(thoughts_try_heights(t));
  WAFER_TRY(try_slower(t));
  if (t->now.made != tried) {
    WAFER_TRY(try_reductions(t));
    if (!thoughts_has_relays(t->now.plan)) WAFER_TRY(try_relays(t));
  }
  return try_suited(t, &suited);
}

/* What was laid out in haste is slow: again, without. */
static wafer_status take_care(thoughts *t) {
  wafer_options own = t->now.options;
  bool taken;
  if (!own.hasty) return WAFER_OK;
  own.hasty = false;
  WAFER_TRY(thoughts_try_pipeline(t, own, UINT32_MAX, &taken));
  t->now.options.hasty = false;
  return WAFER_OK;
}

wafer_status thoughts_suit(thoughts *t) {
  WAFER_TRY(find_programs(t));
  if (!thoughts_has_programs(&t->now)) return WAFER_OK;
  WAFER_TRY(try_late(t));
  if (thoughts_may_change(&t->now)) WAFER_TRY(take_care(t));
  if (!thoughts_may_change(&t->now)) return thoughts_keep_pace(t);
  bool search = t->now.options.placer == WAFER_PLACER_best;
  WAFER_TRY(search ? change_search(t) : change_shelves(t));
  bool near = !thoughts_may_change(&t->now) && t->now.interval > t->now.edge;
  return near ? thoughts_keep_pace(t) : WAFER_OK;
}

/* Whether pins were all kept from an earlier plan, and no kernel has heeded one. */
static bool keeps_nothing(const candidate *now) {
  const wafer_options *o = &now->options;
  for (uint32_t i = 0; i < o->pin_count; i++) {
    if (!o->pins[i].kept) return false;
    for (uint32_t k = 0; k < now->plan->kernel_count; k++)
      if (wafer_rect_equal(now->plan->kernels[k].rect, o->pins[i].rect)) return false;
  }
  return o->pin_count > 0;
}

/* As if nothing was to be kept: pins leave no room for bands, relays and the search. */
static wafer_status start_anew(thoughts *t) {
  wafer_options own = t->now.options;
  candidate other;
  own.pin_count = 0;
  WAFER_TRY(thoughts_make(t, own, &other));
  thoughts_choose(&t->now, &other, other.plan);
  return WAFER_OK;
}

static wafer_status suit_pipeline(thoughts *t, const char **told) {
  WAFER_TRY(thoughts_compare_placers(t, told));
  if (t->ctx->options->training) WAFER_TRY(thoughts_compare_training(t, told));
  if (!thoughts_may_compare(t->ctx->options)) WAFER_TRY(thoughts_suit(t));
  if (thoughts_has_programs(&t->now)) return WAFER_OK;
  WAFER_TRY(try_flow(t));
  if (thoughts_has_programs(&t->now)) return WAFER_OK;
  WAFER_TRY(try_late(t));
  return try_shared(t);
}

/* The best pipeline. How late one sample is, only what suits it tells. */
static wafer_status reconsider(thoughts *t, const char **told) {
  const bool one = thoughts_count_one(&t->now.options);
  if (keeps_nothing(&t->now)) WAFER_TRY(start_anew(t));
  if (!one) WAFER_TRY(thoughts_try_wide(t, told));
  WAFER_TRY(suit_pipeline(t, told));
  return one ? thoughts_try_wide(t, told) : WAFER_OK;
}

/* Streaming was chosen by what sizing promised of both: the best pipeline may be faster, and stays
 * if it is and does not lack the programs that streaming has. */
static wafer_status compare_modes(thoughts *t, const char **told) {
  const wafer_options *o = t->ctx->options;
  candidate streaming = t->now;
  wafer_options own = *o;
  if (o->mode != WAFER_MODE_auto || o->training || t->now.plan->function_count > 1 ||
      !t->now.plan->pipelined.fits)
    return WAFER_OK;
  own.mode = WAFER_MODE_pipelined;
  WAFER_TRY(thoughts_make(t, own, &t->now));
  if (t->now.plan) WAFER_TRY(reconsider(t, told));
  const candidate pipeline = t->now;
  bool lacks = pipeline.plan && thoughts_lacks_programs(pipeline.plan) &&
               !thoughts_lacks_programs(streaming.plan);
  bool slower = !pipeline.plan || lacks || thoughts_worth(&streaming) <= thoughts_worth(&pipeline);
  if (!thoughts_choose(&t->now, &streaming, slower)) return WAFER_OK;
  *told = NULL;
  return pipeline.plan ? thoughts_tell_pipeline(t, &pipeline) : WAFER_OK;
}

#define MOST_WRONG 8 /* one part in these of what is promised of the other mode */

/* Pieces between steps of the host, and sizes of a dim, take turns on the wafer sample by sample. A
 * pipeline waits for its weights where another ran last, streaming between its layers: which is
 * faster their plans tell, on the way through them that takes longest. */
static wafer_status compare_pieces(thoughts *t, const char **told) {
  const wafer_plan *plan = t->now.plan;
  const bool pipelined = plan->mode == WAFER_MODE_pipelined;
  const wafer_mode_cost *cost = pipelined ? &plan->streaming : &plan->pipelined;
  wafer_options own = *t->ctx->options;
  const uint64_t promised = thoughts_count_one(&own) ? cost->latency_cycles : cost->interval_cycles;
  if (plan->function_count < 2 || own.mode != WAFER_MODE_auto || own.pin_count || !cost->fits ||
      promised - promised / MOST_WRONG >= thoughts_worth(&t->now))
    return WAFER_OK;
  own.mode = pipelined ? WAFER_MODE_streaming : WAFER_MODE_pipelined;
  candidate first = t->now;
  WAFER_TRY(thoughts_make(t, own, &t->now));
  if (t->now.plan && !pipelined) WAFER_TRY(thoughts_try_wide(t, told));
  bool slower = !t->now.plan || thoughts_worth(&first) <= thoughts_worth(&t->now);
  if (thoughts_choose(&t->now, &first, slower)) *told = NULL;
  return WAFER_OK;
}

wafer_status compile_reconsider(const wafer_ctx *ctx, const char *model, wafer_ir **ir,
                                const wafer_plan **plan, const char **told) {
  uint64_t spent;
  thoughts t;
  *told = NULL;
  WAFER_TRY(thoughts_begin(ctx, model, *plan, &spent, &t));
  bool pipelined = (*plan)->mode == WAFER_MODE_pipelined;
  wafer_status status = pipelined ? reconsider(&t, told) : thoughts_settle_samples(&t, &t.now);
  if (status == WAFER_OK) status = pipelined ? thoughts_try_streaming(&t) : compare_modes(&t, told);
  if (status == WAFER_OK) status = compare_pieces(&t, told);
  *plan = t.now.plan;
  *ir = t.now.ir;
  return status;
}

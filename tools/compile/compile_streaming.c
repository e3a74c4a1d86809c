/* Second thoughts about weight streaming: whether it is faster than the programs of a pipeline, and
 * with how many samples. */
#include "compile_thoughts.h"

#define SAMPLE_TRIES 6 /* of fewer and fewer samples */
#define TOLD_GAIN 8    /* more samples have to shorten the interval by one part in these */

/* Where cores have no room for what programs need besides the samples that are resident together:
 * fewer of them, as far as their number was left open. */
static wafer_status try_fewer(const thoughts *t, candidate *now) {
  bool open =
      now->plan && now->options.batch == WAFER_BATCH_auto && thoughts_lacks_programs(now->plan);
  uint64_t most = open ? wafer_plan_together(now->plan) : 1;
  for (int tries = 0; tries < SAMPLE_TRIES && most > 1; tries++) {
    wafer_options own = now->options;
    candidate other;
    own.batch_most = (uint32_t)most - 1;
    own.mode = WAFER_MODE_streaming;
    WAFER_TRY(thoughts_make(t, own, &other));
    most = other.plan ? wafer_plan_together(other.plan) : 1;
    if (thoughts_choose(now, &other, other.plan && !thoughts_lacks_programs(other.plan)))
      return WAFER_OK;
  }
  return WAFER_OK;
}

/* How bands suit core programs only their plan tells: one band, if it is faster. */
static wafer_status try_one_band(const thoughts *t, candidate *now) {
  wafer_options own = now->options;
  candidate other;
  if (!now->plan || !now->plan->launch_count || own.bands || thoughts_cut_of(now).bands == 1)
    return WAFER_OK;
  own.bands = 1;
  own.mode = WAFER_MODE_streaming;
  WAFER_TRY(thoughts_make(t, own, &other));
  WAFER_TRY(try_fewer(t, &other));
  bool runs = other.plan && other.plan->launch_count;
  thoughts_choose(now, &other, runs && thoughts_worth(&other) < thoughts_worth(now));
  return WAFER_OK;
}

wafer_status thoughts_settle_samples(const thoughts *t, candidate *now) {
  WAFER_TRY(try_fewer(t, now));
  return try_one_band(t, now);
}

/* Nothing was said that wants a pipeline, which was chosen by intervals of streams. */
static bool may_stream(const thoughts *t) {
  const wafer_options *o = t->ctx->options;
  bool open = o->mode == WAFER_MODE_auto && !o->pin_count && o->bands < 2 && !o->training;
  bool other = thoughts_count_one(o) && t->now.plan->function_count < 2;
  return open && (other || thoughts_has_programs(&t->now));
}

wafer_status thoughts_tell_pipeline(thoughts *t, const candidate *pipeline) {
  wafer_plan *plan = thoughts_change(t);
  if (!plan) return cli_no_memory();
  plan->pipelined.interval_cycles = pipeline->interval;
  plan->pipelined.latency_cycles = pipeline->latency;
  return WAFER_OK;
}

/* Takes the streaming plan if it is faster, and says in it what programs make of the pipeline. */
static wafer_status take_streaming(thoughts *t) {
  wafer_options own = *t->ctx->options;
  const candidate pipeline = t->now;
  const wafer_mode_cost *cost = &pipeline.plan->streaming;
  const uint64_t promised = thoughts_count_one(&own) ? cost->latency_cycles : cost->interval_cycles;
  candidate other;
  if (!cost->fits || promised >= thoughts_worth(&pipeline)) return WAFER_OK;
  own.mode = WAFER_MODE_streaming;
  WAFER_TRY(thoughts_make(t, own, &other));
  WAFER_TRY(thoughts_settle_samples(t, &other));
  bool faster = other.plan && thoughts_worth(&other) < thoughts_worth(&t->now);
  return thoughts_choose(&t->now, &other, faster) ? thoughts_tell_pipeline(t, &pipeline) : WAFER_OK;
}

/* Where nobody said how many samples may be resident, there is one, and streaming is slow: whether
 * it would be faster than slow programs with more of them is said. */
static wafer_status tell_samples(thoughts *t) {
  wafer_options own = *t->ctx->options;
  candidate other;
  if (own.batch || own.objective != WAFER_OBJECTIVE_throughput || !thoughts_may_change(&t->now) ||
      !thoughts_have_time(t))
    return WAFER_OK;
  own.mode = WAFER_MODE_streaming;
  own.batch = WAFER_BATCH_auto;
  own.programs = WAFER_PROGRAMS_never;
  WAFER_TRY(thoughts_make(t, own, &other));
  bool faster = other.plan && other.interval <= t->now.interval - t->now.interval / TOLD_GAIN;
  uint64_t together = faster ? wafer_plan_together(other.plan) : 0;
  const uint64_t interval = other.interval;
  thoughts_choose(&t->now, &other, false);
  if (!faster) return WAFER_OK;
  wafer_plan *chosen = thoughts_change(t);
  if (!chosen) return cli_no_memory();
  chosen->flip_batch = (uint32_t)together;
  wafer_note(
      t->ctx->diag, wafer_at_file(chosen->model),
      "weight streaming takes about %llu cycles a sample, the pipeline's programs %llu, where "
      "%llu samples may be resident together: --batch auto",
      (unsigned long long)interval, (unsigned long long)t->now.interval,
      (unsigned long long)together);
  return WAFER_OK;
}

wafer_status thoughts_try_streaming(thoughts *t) {
  if (!may_stream(t)) return WAFER_OK;
  WAFER_TRY(take_streaming(t));
  return thoughts_has_programs(&t->now) ? tell_samples(t) : WAFER_OK;
}

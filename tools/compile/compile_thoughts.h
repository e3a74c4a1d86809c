/* What second thoughts have at hand (compile_thoughts.c), all of them (compile_mode.c), and those
 * about placers (compile_placers.c), bands (compile_bands.c) and weight streaming
 * (compile_streaming.c). */
#ifndef COMPILE_THOUGHTS_H
#define COMPILE_THOUGHTS_H

#include "compile.h"

#define SLOW_PART 20 /* of what streams take: programs that take no more beyond it are as fast */
#define PLAN_GAIN 16  /* relays and more bands have to shorten the interval by one part in these */
#define SMALL_GAIN 64 /* other ways to have the same on as many */

/* A plan, and what a sample of it takes. */
typedef struct candidate {
  wafer_ir *ir; /* NULL: the caller's */
  const wafer_plan *plan;
  wafer_options options;
  uint64_t interval, latency; /* cycles of a sample */
  uint64_t turn;              /* interval of a band by itself */
  uint64_t flow;              /* interval, were cores to receive and send while they compute */
  uint64_t edge;              /* cycles of a sample across the wafer's edge */
  uint64_t made;              /* what had been spent then, which tells it from others; 0: first */
} candidate;

typedef struct thoughts {
  const wafer_ctx *ctx;
  const char *model;
  candidate now;
  uint64_t *spent; /* what the plans made so far have taken, in looks: wafer_plan.effort */
  uint64_t gained; /* what had been spent when one was faster than those before it */
} thoughts;

static inline wafer_cut thoughts_cut_of(const candidate *c) {
  return wafer_machine_cut(c->plan->machine);
}

static inline void thoughts_ask_for(wafer_options *o, wafer_cut cut) {
  o->bands = cut.bands;
  o->sides = cut.sides;
}

/* With the plan at hand. `spent`: the caller's, for as long as there are thoughts. */
wafer_status thoughts_begin(const wafer_ctx *ctx, const char *model, const wafer_plan *plan,
                            uint64_t *spent, thoughts *out);
/* Whether another plan may be made for a shorter interval, or, soon, for one that is as short: a
 * search takes its time, shelves are to be had in a second where nothing is wrong with them. The
 * same on every host. */
bool thoughts_have_time(const thoughts *t);
bool thoughts_are_soon_done(const thoughts *t, uint32_t times); /* that take so often as long */
/* Whether one of so few bands may be made, which takes longer the wider they are. */
bool thoughts_have_time_for(const thoughts *t, uint32_t bands);
/* Another plan, laid out for programs; out->plan is NULL where there is none. */
wafer_status thoughts_make(const thoughts *t, wafer_options options, candidate *out);
/* The same, laid out for streams that flow while cores compute: the last try, for which a search
 * says what it found. */
wafer_status thoughts_make_flow(const thoughts *t, wafer_options options, candidate *out);
/* `other` in place of the one at hand where it is better; the worse one goes. */
bool thoughts_choose(candidate *now, candidate *other, bool better);
/* The plan at hand, to be changed: a copy. NULL: no memory. */
wafer_plan *thoughts_change(thoughts *t);
/* Weights that are quantized may become wide, to stay on the cores of a pipeline that takes them.
 * *told: what a search said that was not kept. */
wafer_status thoughts_try_wide(thoughts *t, const char **told);
/* Of a pipeline; false where there is no plan. */
bool thoughts_has_programs(const candidate *c);
/* Whether there can be none; else they are there, or made later. */
bool thoughts_lacks_programs(const wafer_plan *plan);
bool thoughts_has_relays(const wafer_plan *plan);
bool thoughts_may_relay(const thoughts *t); /* nobody said that there are none */
/* What is tried next may be cut otherwise, where nobody said how. */
void thoughts_leave_open(thoughts *t);
/* A pipeline with these options in place of the one at hand, if its programs are faster by one part
 * in `gain`. */
wafer_status thoughts_try_pipeline(thoughts *t, wafer_options options, uint32_t gain, bool *taken);
/* Whether nothing was said that leaves no room for relays and bands. */
bool thoughts_is_open(const wafer_options *o);
/* And core programs are slower than their streams. */
bool thoughts_may_change(const candidate *now);
/* Whether some reductions may be behind what they reduce and are not; options with which they are.
 */
bool thoughts_may_reduce(const candidate *now, wafer_options *own);

wafer_status thoughts_try_streaming(thoughts *t);
/* A plan of streaming that has programs, and is no slower than that on one band, as far as samples
 * and bands were left open. */
wafer_status thoughts_settle_samples(const thoughts *t, candidate *now);
/* In the plan of streaming at hand: what the best pipeline takes, which may be gone. */
wafer_status thoughts_tell_pipeline(thoughts *t, const candidate *pipeline);
/* Cycles that are looked for: between samples, or of one, which then counts by itself. */
static inline bool thoughts_count_one(const wafer_options *o) {
  return o->objective == WAFER_OBJECTIVE_latency;
}
uint64_t thoughts_worth(const candidate *c);
/* Of what is taken in place of the one at hand: what is faster by one part in `gain`, or about as
 * fast as streams. */
uint64_t thoughts_most(const candidate *now, uint32_t gain);

/* The plan at hand with what suits it: relays, bands and the like, as far as they were left open.
 */
wafer_status thoughts_suit(thoughts *t);
/* A search's plan by small changes of its layout (compile_wander.c). */
wafer_status thoughts_wander(thoughts *t);
/* Whether the search's plan is one of core programs, as far as nothing asked for something else. */
bool thoughts_may_compare(const wafer_options *o);
/* Keeps the faster of shelves' plan and the search's; *told, in the arena: what was compared. */
wafer_status thoughts_compare_placers(thoughts *t, const char **told);
wafer_status thoughts_compare_training(thoughts *t, const char **told);

/* With options, but cut so, and relays if these seem worth it. */
wafer_status thoughts_try_cut(thoughts *t, wafer_options own, wafer_cut cut, bool relays,
                              bool *taken);
/* Bands of heights that suit the network's values (compile_heights.c); *taken: some are faster. */
wafer_status thoughts_try_suited(thoughts *t, bool *taken);
wafer_status thoughts_try_sides(thoughts *t);
wafer_status thoughts_try_bands(thoughts *t);
/* Of programs about as fast as the edge: as few bands as keep its pace, and as many as do. */
wafer_status thoughts_keep_pace(thoughts *t);
wafer_status thoughts_try_heights(thoughts *t);
wafer_status thoughts_try_near_bands(thoughts *t);

#endif

/* Layouts near the one at hand, as long as core programs of some are faster. Of layouts whose turns
 * are predicted alike one has a train half as long again as another: who waits for whom, nothing
 * but a train tells. So a few kernels are cut otherwise, or a shelf ends elsewhere, and what comes
 * of it is gone on from if its programs take no longer. */
#include "compile_thoughts.h"
#include "wafer/placement.h"

#define MOST_TRIES 200u
#define MOVES_EACH 1000u                 /* of a search of so many moves as many tries */
#define WANDER_SPENT ((uint64_t)2 << 30) /* looks, in all tries */
#define PATIENT 64u                      /* so many tries have to gain */
#define LEAST_GAIN 256u                  /* one part in these */

/* Kernels stand on shelves, one copy of each, and nobody said where. */
static bool may_wander(const thoughts *t) {
  const wafer_options *o = t->ctx->options;
  const wafer_plan *plan = t->now.plan;
  if (!thoughts_may_compare(o) || o->objective != WAFER_OBJECTIVE_throughput ||
      plan->function_count > 1 || plan->machine->dead_count || plan->machine->reserved_count)
    return false;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    if (plan->kernels[k].replicas > 1) return false;
  return thoughts_has_programs(&t->now) && thoughts_may_change(&t->now);
}

/* The kernels of the plan at hand as pins, NULL: out of memory. */
static const wafer_pin *pin_all(const thoughts *t) {
  wafer_pins all;
  if (wafer_pins_of(t->ctx->diag, t->ctx->arena, t->now.plan, &all) != WAFER_OK) return NULL;
  wafer_pin *pins = wafer_arena_copy(t->ctx->arena, all.pins, all.pin_count * sizeof *pins);
  for (uint32_t k = 0; pins && k < all.pin_count; k++) pins[k].kept = false;
  return pins;
}

/* One more layout; in bands an interval is counted by the train of one. */
static wafer_status try_near(thoughts *t, uint32_t nth) {
  const wafer_options before = t->now.options;
  wafer_options own = before;
  candidate other;
  own.placer = WAFER_PLACER_best;
  own.pin_count = t->now.plan->kernel_count;
  own.pins = pin_all(t);
  own.wander = nth;
  own.relays = WAFER_RELAYS_none; /* but those that are pinned */
  own.mode = WAFER_MODE_pipelined;
  own.programs_within = t->now.interval;
  thoughts_ask_for(&own, thoughts_cut_of(&t->now));
  if (!own.pins) return cli_no_memory();
  WAFER_TRY(thoughts_make(t, own, &other));
  other.options = before;
  bool taken = thoughts_has_programs(&other) && other.turn <= t->now.turn;
  if (taken && other.turn < t->now.turn) t->gained = *t->spent;
  thoughts_choose(&t->now, &other, taken);
  return WAFER_OK;
}

wafer_status thoughts_wander(thoughts *t) {
  const wafer_options *o = t->ctx->options;
  const uint64_t from = *t->spent, asked = o->place_moves / MOVES_EACH;
  const uint32_t tries = o->place_moves && asked < MOST_TRIES ? (uint32_t)asked : MOST_TRIES;
  const double until = o->place_seconds > 0 ? cli_seconds() + o->place_seconds : 0;
  uint64_t turn = UINT64_MAX;
  for (uint32_t i = 0; i < tries && *t->spent - from < WANDER_SPENT && may_wander(t); i++) {
    if (until > 0 && cli_seconds() > until) break;
    if (i % PATIENT == 0) {
      if (t->now.turn > turn - turn / LEAST_GAIN) break;
      turn = t->now.turn;
    }
    wafer_progress(t->ctx->diag, "layouts nearby", i, tries);
    WAFER_TRY(try_near(t, i + 1));
  }
  return WAFER_OK;
}

/* Second thoughts about the placer: what shelves would give in place of what the search has found,
 * by the figures that tell how fast either is. */
#include "compile_thoughts.h"
#include "training.h"

#define MICRO_BATCHES 8u /* of a step, as far as a compilation knows */

/* Whether both have the same kernels on the same wafer. */
static bool alike(const wafer_plan *a, const wafer_plan *b) {
  wafer_cut x = wafer_machine_cut(a->machine), y = wafer_machine_cut(b->machine);
  return x.bands == y.bands && x.sides == y.sides && a->kernel_count == b->kernel_count;
}

/* Keeps the better one, of equals the search's where it looks for short wires, and goes on from it
 * in small steps. `told`: says what was compared. */
static wafer_status keep_better(thoughts *t, candidate *found, const char **told) {
  const bool has = thoughts_has_programs(found), latency = thoughts_count_one(&t->now.options);
  const uint64_t shelves = thoughts_worth(&t->now), search = has ? thoughts_worth(found) : 0;
  bool wire = t->now.options.objective == WAFER_OBJECTIVE_wire;
  bool better = has && (wire ? search <= shelves : search < shelves);
  thoughts_choose(&t->now, found, better);
  WAFER_TRY(thoughts_wander(t));
  const uint64_t kept = thoughts_worth(&t->now);
  better |= kept < shelves;
  if (!has && !better) return WAFER_OK;
  *told = wafer_arena_printf(t->ctx->arena, "%s: %llu cycles %s by core programs, %llu with %s",
                             better ? "placer best" : "shelves", (unsigned long long)kept,
                             latency ? "of a sample" : "between samples",
                             (unsigned long long)(better ? shelves : search),
                             better ? "shelves" : "placer best");
  return *told ? WAFER_OK : cli_no_memory();
}

/* Whether the search's plan is one of core programs, as far as nothing asked for something else. */
bool thoughts_may_compare(const wafer_options *o) {
  return o->placer == WAFER_PLACER_best && o->mode != WAFER_MODE_streaming && !o->training &&
         o->replicas < 2 && o->programs != WAFER_PROGRAMS_never;
}

/* Whether it is as fast as the edge lets any be, and nothing else is looked for. */
static bool keeps_pace(const candidate *c) {
  return c->options.objective == WAFER_OBJECTIVE_throughput && c->interval <= c->edge;
}

/* A plan of the search that has lost to the shelves at hand, or has none, gets their bands and
 * relays: it must not lose to them. */
static wafer_status search_again(const thoughts *t, candidate *first) {
  bool has = thoughts_has_programs(first),
       loses = !has || thoughts_worth(first) > thoughts_worth(&t->now);
  wafer_options own = t->now.options;
  candidate again;
  own.placer = WAFER_PLACER_best;
  thoughts_ask_for(&own, thoughts_cut_of(&t->now));
  if (!loses || (has && alike(first->plan, t->now.plan))) return WAFER_OK;
  WAFER_TRY(thoughts_make(t, own, &again));
  thoughts_choose(first, &again,
                  thoughts_has_programs(&again) &&
                      (!has || thoughts_worth(&again) <= thoughts_worth(first)));
  return WAFER_OK;
}

/* Shelves have no programs, and what the search has found does. How fast a plan is streams tell
 * then, as they do of shelves, unless its programs are about as fast or asked for: a search must
 * not seem to lose. */
static wafer_status compare_streams(thoughts *t, candidate *shelves, const char **told) {
  bool tells = shelves->plan && compile_lacks_programs(shelves->plan) &&
               thoughts_has_programs(&t->now) && t->now.options.programs == WAFER_PROGRAMS_auto;
  uint64_t worth = tells ? thoughts_worth(shelves) : 0, programs = thoughts_worth(&t->now);
  bool slower = tells && programs > worth + worth / SLOW_PART;
  if (slower) {
    *told = wafer_arena_printf(t->ctx->arena,
                               "streams tell: shelves have no core programs, and take %llu cycles; "
                               "the search's programs take %llu (--programs always)",
                               (unsigned long long)worth, (unsigned long long)programs);
    if (!*told) return cli_no_memory();
  }
  thoughts_choose(&t->now, shelves, slower);
  t->now.options.placer = WAFER_PLACER_best;
  return WAFER_OK;
}

/* Shelves, and what the search has found, each with the bands and relays that suit it. Where
 * shelves are as fast as the edge, nothing more is looked for. */
wafer_status thoughts_compare_placers(thoughts *t, const char **told) {
  candidate first = t->now, shelves = {0};
  wafer_options own = first.options;
  if (!thoughts_may_compare(&own) ||
      !(thoughts_has_programs(&first) || compile_lacks_programs(first.plan)))
    return WAFER_OK;
  own.placer = WAFER_PLACER_shelf;
  own.slower = 0;
  own.mode = WAFER_MODE_pipelined;
  WAFER_TRY(thoughts_make(t, own, &t->now));
  if (t->now.plan) WAFER_TRY(thoughts_suit(t));
  bool has = thoughts_has_programs(&t->now);
  if (has && keeps_pace(&t->now)) {
    *told = wafer_arena_printf(t->ctx->arena,
                               "shelves: %llu cycles between samples by core programs, "
                               "the edge's: no layout has less",
                               (unsigned long long)t->now.interval);
    compile_drop(first.ir);
    return *told ? WAFER_OK : cli_no_memory();
  }
  shelves = t->now;
  t->now = first;
  WAFER_TRY(thoughts_suit(t));
  if (!has) return compare_streams(t, &shelves, told);
  first = t->now;
  t->now = shelves;
  WAFER_TRY(search_again(t, &first));
  return keep_better(t, &first, told);
}

static const char *tell_training(const thoughts *t, bool best, bool by_programs,
                                 const uint64_t cycles[2]) {
  typedef unsigned long long ull;
  const char *by = by_programs ? " by core programs" : "";
  if (cycles[1] == UINT64_MAX)
    return wafer_arena_printf(
        t->ctx->arena,
        "shelves: %llu cycles for %u micro-batches by core programs, of which "
        "placer best leaves no way to make some",
        (ull)cycles[0], MICRO_BATCHES);
  return wafer_arena_printf(t->ctx->arena, "%s: %llu cycles for %u micro-batches%s, %llu with %s",
                            best ? "placer best" : "shelves", (ull)cycles[best], MICRO_BATCHES, by,
                            (ull)cycles[!best], best ? "shelves" : "placer best");
}

/* A pipeline that trains has its programs made when they are needed, and what a search finds may
 * have none, or slower ones: shelves are compared with it. */
wafer_status thoughts_compare_training(thoughts *t, const char **told) {
  wafer_options own = t->now.options;
  candidate other;
  bool keeps, by_programs;
  uint64_t cycles[2];
  if (own.placer != WAFER_PLACER_best || own.objective != WAFER_OBJECTIVE_throughput ||
      own.replicas > 1 || !wafer_plan_updates(t->now.plan))
    return WAFER_OK;
  own.placer = WAFER_PLACER_shelf;
  WAFER_TRY(thoughts_make(t, own, &other));
  if (!other.plan) return WAFER_OK;
  const wafer_plan *plans[] = {other.plan, t->now.plan};
  wafer_status status = training_no_slower(plans, MICRO_BATCHES, &keeps, &by_programs, cycles);
  if (status == WAFER_OK) *told = tell_training(t, keeps, by_programs, cycles);
  thoughts_choose(&t->now, &other, status == WAFER_OK && !keeps);
  return status != WAFER_OK ? status : *told ? WAFER_OK : cli_no_memory();
}

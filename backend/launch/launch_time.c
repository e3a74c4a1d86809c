/* The time of a stream that has the wafer to itself, and of a train: cores go through their pieces
 * in the order of the steps, again and again. */
#include <stdlib.h>
#include <string.h>

#include "fragment/fragment_clock.h"
#include "launch_state.h"

#define TRAIN_SAMPLES 16 /* at least; the second half tells the interval, */
#define DEEPEST_HALF 32  /* before which samples that go ahead fill the pipeline, if no deeper */
#define FAST_PART 8      /* of the interval: half of a train tells that it is so much shorter */

/* A kernel's part in a piece. */
static void note_busy(const launcher *l, uint64_t **busy, uint32_t kernel, uint32_t turn,
                      uint64_t cycles, uint64_t *most, wafer_launch *launch) {
  if (kernel == WAFER_NONE) return;
  uint64_t *own = &busy[kernel][launch_replica(l, kernel, turn)];
  *own += cycles;
  if (*own <= *most) return;
  *most = *own;
  launch->slowest = kernel;
}

/* Cycles of a kernel's pieces and of the streams at its ends, for a sample of a replica. */
static wafer_status find_slowest(launcher *l, const launch_pieces *p, wafer_launch *launch) {
  const wafer_phase *phase = &l->plan->phases[launch->phase];
  const wafer_plan *plan = l->plan;
  uint64_t most = 0;
  uint32_t turn = 0;
  uint64_t **busy = WAFER_NEW(l->arena, uint64_t *, plan->kernel_count);
  for (uint32_t k = 0; busy && k < plan->kernel_count; k++)
    if (!(busy[k] = WAFER_NEW(l->arena, uint64_t, plan->kernels[k].replicas))) busy = NULL;
  if (!busy) return launch_no_memory(l);
  launch->slowest = WAFER_NONE;
  for (uint32_t i = p->once; i < p->step_count; i++) {
    if (p->steps[i] == FRAGMENT_ENDS) {
      turn++;
      continue;
    }
    const wafer_action *a = &phase->actions[p->parts[p->steps[i]]];
    const wafer_stream *t = a->kind == WAFER_ACTION_stream ? &plan->streams[a->index] : NULL;
    uint64_t cycles = p->at[p->steps[i]]->cycles;
    note_busy(l, busy, t ? t->from_kernel : a->index, turn, cycles, &most, launch);
    if (!t) continue;
    note_busy(l, busy, t->to_kernel, turn, cycles, &most, launch);
    for (uint32_t k = 0; p->with && k < plan->stream_count; k++)
      if (p->with[k] == a->index && k != a->index)
        note_busy(l, busy, plan->streams[k].to_kernel, turn, cycles, &most, launch);
  }
  return WAFER_OK;
}

static bool pass(fragment_clock *c, const launch_pieces *p, uint32_t step, fragment_past **past) {
  return fragment_clock_pass(c, p->at[p->steps[step]], &past[p->steps[step]]);
}

/* What cores come to one after the other: a step of sample 0, `late` samples later than others. */
typedef struct turn_step {
  uint32_t step, sample; /* of those after which programs begin anew */
  int64_t due;
  uint64_t late;
  uint64_t beyond; /* samples of which it comes when there are none any more: it makes room */
} turn_step;

static int by_due(const void *a, const void *b) {
  const turn_step *x = a, *y = b;
  if (x->due != y->due) return x->due < y->due ? -1 : 1;
  return x->step < y->step ? -1 : x->step > y->step;
}

/* Has one of these cores code of the fragment? */
static bool runs_on(const fragment *f, wafer_rect cores) {
  const wafer_rect *r = &f->rect;
  if (!wafer_rect_overlaps(*r, cores)) return false;
  for (uint64_t i = 0; i < wafer_rect_area(*r); i++) {
    uint32_t x = r->x + (uint32_t)(i % r->width), y = r->y + (uint32_t)(i / r->width);
    if (f->variant[i] != FRAGMENT_IDLE && wafer_rect_overlaps((wafer_rect){x, y, 1, 1}, cores))
      return true;
  }
  return false;
}

/* How many samples cores that make room are ahead with that of what they do last: as often they
 * make room behind the last sample, too. */
static uint64_t samples_ahead(const launch_pieces *p, uint32_t piece) {
  int64_t last = p->due[piece];
  if (!p->at[piece]->makes_room) return 0;
  for (uint32_t i = p->once; i < p->step_count; i++) {
    uint32_t other = p->steps[i];
    if (other == FRAGMENT_ENDS || p->due[other] <= last) continue;
    if (runs_on(p->at[other], p->at[piece]->rect)) last = p->due[other];
  }
  return (uint64_t)((last - p->due[piece]) / p->period);
}

/* The steps that come again and again, in the order in which they are due. NULL: out of memory. */
static turn_step *order_steps(wafer_arena *arena, const launch_pieces *p) {
  uint32_t count = p->step_count - p->once, sample = 0;
  turn_step *turn = WAFER_NEW(arena, turn_step, count);
  for (uint32_t i = 0; turn && i < count; i++) {
    uint32_t step = p->once + i, piece = p->steps[step];
    int64_t due = !p->period || piece == FRAGMENT_ENDS ? 0 : p->due[piece];
    uint64_t late = p->period ? (uint64_t)(due / p->period) : 0;
    if (piece == FRAGMENT_ENDS && p->period) late = p->last_due / (uint64_t)p->period + 1;
    turn[i] = (turn_step){step, sample, due - (int64_t)late * p->period, late, 0};
    if (p->period && piece != FRAGMENT_ENDS) turn[i].beyond = samples_ahead(p, piece);
    if (piece == FRAGMENT_ENDS && p->period) turn[i].due = -1;
    sample += piece == FRAGMENT_ENDS;
  }
  if (turn && p->period) qsort(turn, count, sizeof *turn, by_due);
  return turn;
}

/* What the host sends: of the samples after which programs begin anew; and when each of `samples`
 * has begun to come in, INT64_MIN: it has not. */
typedef struct feeding {
  fragment_round *rounds;
  int64_t *starts;
} feeding;

static bool begin_feeding(fragment_clock *c, const launch_pieces *p, const turn_step *turn,
                          uint32_t turns, uint32_t samples, feeding *f) {
  f->rounds = WAFER_NEW(c->arena, fragment_round, turns);
  f->starts = WAFER_NEW(c->arena, int64_t, samples);
  if (!f->rounds || !f->starts || !turn) return false;
  for (uint32_t s = 0; s < samples; s++) f->starts[s] = INT64_MIN;
  for (uint32_t i = 0; i < p->step_count - p->once; i++) {
    uint32_t piece = p->steps[turn[i].step];
    if (piece != FRAGMENT_ENDS &&
        !fragment_round_add(&f->rounds[turn[i].sample], c->arena, p->at[piece]))
      return false;
  }
  return true;
}

/* A fragment of the sample is next. `turn`: its place among those that the rounds are of. */
static void feed(fragment_clock *c, const feeding *f, const fragment *next, uint64_t sample,
                 uint32_t turn) {
  fragment_round *round = &f->rounds[turn];
  if (f->starts[sample] == INT64_MIN && fragment_is_fed(next)) f->starts[sample] = c->edge;
  round->start = f->starts[sample];
  c->round = round;
}

/* What is noted of the samples after which programs begin anew, the first ones of the train. Of
 * kernels: from when the last core is at its first piece to when the last one is done, added up. Of
 * the action at hand when it has begun, and ended. */
typedef struct first_samples {
  const wafer_phase *phase;
  uint64_t *cycles;
  uint32_t action, entered; /* LAUNCH_ONCE: none; actions so far */
  uint64_t begun, ended;
  uint64_t *leaving; /* as a launch has it */
  uint32_t leaving_count;
} first_samples;

/* The action of a piece is next, LAUNCH_ONCE: none. */
static void enter_action(fragment_clock *c, first_samples *t, uint32_t action) {
  if (!t || action == t->action) return;
  if (t->action != LAUNCH_ONCE && t->phase->actions[t->action].kind == WAFER_ACTION_kernel) {
    uint32_t k = t->phase->actions[t->action].index;
    t->cycles[k] += t->ended > t->begun ? t->ended - t->begun : 0;
  }
  t->action = action;
  t->begun = t->ended = 0;
  fragment_clock_enter(c, ++t->entered);
}

static void note_action(const fragment_clock *c, const fragment *f, bool first, first_samples *t) {
  if (!t) return;
  if (c->begun > t->begun) t->begun = c->begun;
  if (c->last > t->ended) t->ended = c->last;
  if (!first || c->leaves == INT64_MAX) return;
  t->leaving[t->leaving_count++] = c->leaves > 0 ? (uint64_t)c->leaves : 0;
  t->leaving[t->leaving_count++] = f->border;
}

/* Of a train of so many samples: its interval is told by those behind the first so many. */
static uint32_t told_from(const launch_pieces *p, uint32_t samples) {
  return p->period ? 0 : samples / 2 - 1;
}

/* When no more of a train's samples need be looked at: it is so late with one that its interval is
 * not `below`, whatever comes, or that takes too long to tell; or half of them tell that it is well
 * within what is `wanted`, which is told of trains in which none goes ahead. */
typedef struct train_limits {
  launch_wish wish;
  bool late;
  uint32_t samples; /* that have been looked at */
} train_limits;

static bool is_told(const launch_pieces *p, const uint64_t *ends, uint64_t s, uint32_t samples,
                    train_limits *t) {
  uint32_t from = told_from(p, samples), half = samples / 2, early = told_from(p, half);
  t->late = s > from && (ends[s] - ends[from]) / (samples - 1 - from) >= t->wish.below;
  t->late |= fragment_is_spent(t->wish.effort);
  if (t->late) return true;
  if (p->period || half < 4 || s + 1 != half) return false;
  uint64_t interval = (ends[s] - ends[early]) / (half - 1 - early);
  if (interval + interval / FAST_PART >= t->wish.wanted) return false;
  t->samples = half;
  return true;
}

/* `ends`: of as many samples, a multiple of `turns`; the first round of steps is rehearsed.
 * `limits`: NULL, of all of them. What the clock notes of fragments is in its arena. */
static bool pass_all(launcher *l, const launch_pieces *p, first_samples *times, uint64_t *ends,
                     uint32_t turns, uint32_t samples, train_limits *limits) {
  fragment_clock *c = &l->clock;
  fragment_past **past = WAFER_NEW(c->arena, fragment_past *, p->count);
  turn_step *turn = order_steps(c->arena, p);
  uint32_t count = p->step_count - p->once;
  uint64_t done = 0, latest = 0;
  feeding fed;
  if (!past || !begin_feeding(c, p, turn, turns, samples, &fed)) return false;
  c->round = NULL;
  for (uint32_t i = 0; i < p->step_count; i++)
    if (p->steps[i] != FRAGMENT_ENDS && !pass(c, p, i, past)) return false;
  fragment_clock_restart(c, past, p->count);
  c->once = true;
  for (uint32_t i = 0; i < p->once; i++)
    if (!pass(c, p, i, past)) return false;
  c->once = false;
  for (uint64_t round = 0; done < samples; round++) {
    wafer_progress(l->ctx->diag, "a train of core programs: samples", done, samples);
    for (uint32_t i = 0; i < count; i++) {
      if (turn[i].late > round) continue;
      uint64_t own = round - turn[i].late, last = samples / turns;
      if (own >= last) {
        if (own < last + turn[i].beyond && !pass(c, p, turn[i].step, past)) return false;
        continue;
      }
      uint64_t *end = &ends[own * turns + turn[i].sample];
      first_samples *first = end < ends + turns ? times : NULL;
      if (p->steps[turn[i].step] == FRAGMENT_ENDS) {
        enter_action(c, first, LAUNCH_ONCE);
        if (*end < latest) *end = latest;
        if (c->left > (int64_t)*end) *end = (uint64_t)c->left;
        latest = *end;
        done++;
        if (limits && is_told(p, ends, (uint64_t)(end - ends), samples, limits)) goto told;
        continue;
      }
      c->last = 0;
      enter_action(c, first, p->parts[p->steps[turn[i].step]]);
      feed(c, &fed, p->at[p->steps[turn[i].step]], (uint64_t)(end - ends), turn[i].sample);
      if (!pass(c, p, turn[i].step, past)) return false;
      if (c->last > *end) *end = c->last;
      note_action(c, p->at[p->steps[turn[i].step]], end == ends, first);
    }
  }
told:
  c->round = NULL;
  return true;
}

/* The clock is at cycle 0 behind it. */
static bool pass_samples(launcher *l, const launch_pieces *p, first_samples *times, uint64_t *ends,
                         uint32_t turns, uint32_t samples, train_limits *limits) {
  wafer_arena *own = l->clock.arena;
  l->clock.train = true; /* what was timed by itself before was none */
  l->clock.arena = wafer_arena_create();
  bool made = l->clock.arena && pass_all(l, p, times, ends, turns, samples, limits);
  wafer_arena_destroy(l->clock.arena);
  l->clock.arena = own;
  fragment_clock_restart(&l->clock, NULL, 0);
  return made;
}

/* The launcher's clock; NULL: out of memory. */
static fragment_clock *clock_of(launcher *l) {
  fragment_clock *c = &l->clock;
  if (!c->cores && !fragment_clock_init(c, l->map.arena, l->plan->machine)) return NULL;
  c->arena = l->arena;
  c->effort = &l->effort;
  return c;
}

wafer_status launch_time_stream(launcher *l, const fragment *f, uint32_t opening, uint64_t *cycles,
                                uint64_t *crossed) {
  fragment_clock *c = clock_of(l);
  return c && fragment_clock_alone(c, &f, 1, opening, cycles, crossed) ? WAFER_OK
                                                                       : launch_no_memory(l);
}

wafer_status launch_time_kernel(launcher *l, const fragment *const *f, uint32_t count,
                                uint64_t *cycles) {
  fragment_clock *c = clock_of(l);
  uint64_t crossed;
  return c && fragment_clock_alone(c, f, count, 0, cycles, &crossed) ? WAFER_OK
                                                                     : launch_no_memory(l);
}

/* A train of so many samples, which come again after `turns`. */
typedef struct train_times {
  uint32_t turns, samples;
  uint64_t *ends, *alone; /* of its samples; of the first ones, where no others go ahead of them */
  first_samples first;
} train_times;

/* NULL: out of memory. */
static train_times *begin_train(launcher *l, const launch_pieces *p, uint32_t phase) {
  train_times *t = WAFER_NEW(l->arena, train_times, 1);
  uint32_t half = TRAIN_SAMPLES / 2, turns = 0;
  for (uint32_t i = 0; i < p->step_count; i++) turns += p->steps[i] == FRAGMENT_ENDS;
  uint64_t deep = p->period ? p->last_due / (uint64_t)p->period + 1 : 0;
  if (2 * deep > half) half = 2 * deep < DEEPEST_HALF ? 2 * (uint32_t)deep : DEEPEST_HALF;
  if (!t) return NULL;
  t->turns = turns;
  t->samples = 2 * ((half + turns - 1) / turns * turns);
  t->ends = WAFER_NEW(l->arena, uint64_t, t->samples);
  t->alone = p->period ? WAFER_NEW(l->arena, uint64_t, turns) : t->ends;
  t->first = (first_samples){.phase = &l->plan->phases[phase],
                             .cycles = p->cycles,
                             .action = LAUNCH_ONCE,
                             .leaving = WAFER_NEW(l->arena, uint64_t, 2 * p->step_count)};
  memset(p->cycles, 0, l->plan->kernel_count * sizeof *p->cycles);
  return t->ends && t->alone && t->first.leaving ? t : NULL;
}

/* Samples draw apart while those ahead fill the pipeline: then all of them tell, else the second
 * half, which may catch up with what the edge brought meanwhile. */
static uint64_t interval_of(const launcher *l, const launch_pieces *p, const train_times *t) {
  uint32_t from = told_from(p, t->samples), count = t->samples - 1 - from;
  uint64_t told = (t->ends[t->samples - 1] - t->ends[from] + count - 1) / count;
  uint64_t edge = launch_edge_cycles(l);
  return told > edge ? told : edge;
}

wafer_status launch_time(launcher *l, launch_pieces *p, uint32_t phase, launch_wish wish,
                         uint64_t *interval) {
  train_times *t = clock_of(l) ? begin_train(l, p, phase) : NULL;
  if (!t) return launch_no_memory(l);
  train_limits limits = {.wish = wish, .samples = t->samples};
  if (!pass_samples(l, p, p->period ? NULL : &t->first, t->ends, t->turns, t->samples, &limits))
    return launch_no_memory(l);
  t->samples = limits.samples;
  *interval = limits.late ? UINT64_MAX : interval_of(l, p, t);
  if (*interval >= wish.below) *interval = UINT64_MAX;
  p->times = t;
  return WAFER_OK;
}

/* What trains of 2, 4, 8 ... samples take, no more than `most`. Samples that go ahead wait for each
 * other, but in a shorter train for fewer: such trains are gone through one by one. */
static bool time_short(launcher *l, const launch_pieces *p, wafer_launch *launch) {
  const train_times *t = p->times;
  uint64_t *cycles = WAFER_NEW(l->arena, uint64_t, 32);
  uint64_t *own = p->period ? WAFER_NEW(l->arena, uint64_t, t->samples) : NULL;
  if (!cycles || (p->period && !own)) return false;
  launch->short_trains = cycles;
  launch->short_train_count = 0;
  for (uint32_t samples = 2; samples <= t->samples; samples *= 2) {
    uint64_t *end = &cycles[launch->short_train_count++];
    *end = t->ends[samples - 1];
    if (!p->period || samples == t->samples) continue;
    memset(own, 0, samples * sizeof *own);
    if (!pass_samples(l, p, NULL, own, t->turns, samples, NULL)) return false;
    *end = own[samples - 1];
  }
  return true;
}

static bool keep_list(wafer_arena *arena, const uint64_t **list, size_t count) {
  if (count) *list = wafer_arena_copy(arena, *list, count * sizeof **list);
  return !count || *list;
}

/* Lists of a train, made with it, live as long as the plan. False: out of memory. */
static bool keep_times(wafer_arena *arena, wafer_launch *launch) {
  return keep_list(arena, &launch->short_trains, launch->short_train_count) &&
         keep_list(arena, &launch->leaving, launch->leaving_count);
}

wafer_status launch_tell(launcher *l, launch_pieces *p, uint64_t wanted, wafer_launch *launch) {
  const launch_wish any = {UINT64_MAX, wanted, NULL};
  if (!p->times) WAFER_TRY(launch_time(l, p, launch->phase, any, &launch->interval));
  train_times *t = p->times;
  /* in a train the first one waits for others that go ahead */
  if (p->period && !pass_samples(l, p, &t->first, t->alone, t->turns, t->turns, NULL))
    return launch_no_memory(l);
  for (uint32_t k = 0; k < l->plan->kernel_count; k++)
    if (p->cycles[k] >= t->turns) l->kernels[k].program_cycles = p->cycles[k] / t->turns;
  launch->predicted = t->alone[0];
  launch->leaving = t->first.leaving;
  launch->leaving_count = t->first.leaving_count;
  if (!time_short(l, p, launch)) return launch_no_memory(l);
  uint64_t left = t->ends[t->samples - 1], steady = t->samples * launch->interval;
  launch->fill = left > steady ? left - steady : 0;
  WAFER_TRY(find_slowest(l, p, launch));
  return keep_times(l->ctx->arena, launch) ? WAFER_OK : launch_no_memory(l);
}

/* The time of a stream that has the wafer to itself, and of a train: cores go through their pieces
 * in the order of the steps, again and again. */
#include "fragment_clock.h"
#include "launch_state.h"

#define TRAIN_SAMPLES 16 /* at least; the second half tells the interval */

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
    uint32_t ends[2] = {t ? t->from_kernel : a->index, t ? t->to_kernel : WAFER_NONE};
    for (int e = 0; e < 2; e++) {
      if (ends[e] == WAFER_NONE) continue;
      uint64_t *own = &busy[ends[e]][launch_replica(l, ends[e], turn)];
      *own += p->at[p->steps[i]]->cycles;
      if (*own <= most) continue;
      most = *own;
      launch->slowest = ends[e];
    }
  }
  return WAFER_OK;
}

static bool pass(fragment_clock *c, const launch_pieces *p, uint32_t step, fragment_past **past) {
  return fragment_clock_pass(c, p->at[p->steps[step]], &past[p->steps[step]]);
}

/* When the cores are done, and the border has let their words out. */
static uint64_t end_of(const fragment_clock *c) {
  return c->edge[1] > (int64_t)c->last ? (uint64_t)c->edge[1] : c->last;
}

/* `ends`: of as many samples; the first round of steps is rehearsed. */
static bool pass_samples(fragment_clock *c, const launch_pieces *p, uint64_t *ends,
                         uint32_t samples) {
  fragment_past **past = WAFER_NEW(c->arena, fragment_past *, p->count);
  if (!past) return false;
  for (uint32_t i = 0; i < p->step_count; i++)
    if (p->steps[i] != FRAGMENT_ENDS && !pass(c, p, i, past)) return false;
  fragment_clock_restart(c, past, p->count);
  for (uint32_t sample = 0, i = 0; sample < samples; i = i + 1 < p->step_count ? i + 1 : p->once)
    if (p->steps[i] == FRAGMENT_ENDS)
      ends[sample++] = end_of(c);
    else if (!pass(c, p, i, past))
      return false;
  return true;
}

/* The launcher's clock; NULL: out of memory. */
static fragment_clock *clock_of(launcher *l) {
  fragment_clock *c = &l->clock;
  if (!c->cores && !fragment_clock_init(c, l->map.arena, l->plan->machine)) return NULL;
  c->arena = l->arena;
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

wafer_status launch_time(launcher *l, const launch_pieces *p, wafer_launch *launch) {
  uint32_t turns = 0, half = TRAIN_SAMPLES / 2;
  for (uint32_t i = 0; i < p->step_count; i++) turns += p->steps[i] == FRAGMENT_ENDS;
  half = (half + turns - 1) / turns * turns;
  fragment_clock *c = clock_of(l);
  uint64_t *ends = WAFER_NEW(l->arena, uint64_t, 2 * half);
  if (!ends || !c) return launch_no_memory(l);
  c->train = true; /* what was timed by itself before was none */
  if (!pass_samples(c, p, ends, 2 * half)) return launch_no_memory(l);
  fragment_clock_restart(c, NULL, 0);
  launch->predicted = ends[0];
  launch->interval = (ends[2 * half - 1] - ends[half - 1] + half - 1) / half;
  uint64_t left = ends[2 * half - 1], steady = 2 * half * launch->interval;
  launch->fill = left > steady ? left - steady : 0;
  return find_slowest(l, p, launch);
}

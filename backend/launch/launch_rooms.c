/* Values that skip kernels: how many samples of one their readers have room for, and by how many
 * samples its producer may be ahead of them. With one room a producer waits until its sample has
 * passed all kernels in between.
 *
 * Kernel k is due at due[k] of sample 0, a period later of each further one, the period being the
 * longest turn of a kernel. Its values are due to leave with it, or when it has made them: cores of
 * others that pass them on do what they are to do by then first, and do not wait. A reader that is
 * due less than r periods later, and not less than one fewer, holds r samples of them. Along the
 * longest path due times follow from the cycles of kernels and streams, less than a period each, so
 * that neighbours need one room; where that asks a reader for more rooms than the plan has given
 * its input, kernels before it are due later. These are constraints on differences of two times
 * (Cormen et al., Introduction to Algorithms, section 24.4), which one room everywhere fulfils. */
#include <string.h>

#include "launch_state.h"

/* Cycles of the pieces of each action. NULL: out of memory. */
static uint64_t *cycles_of(launcher *l, const wafer_phase *phase, const launch_pieces *p) {
  uint64_t *cycles = WAFER_NEW(l->arena, uint64_t, phase->action_count);
  for (uint32_t i = 0; cycles && i < p->count; i++)
    if (p->parts[i] != LAUNCH_ONCE) cycles[p->parts[i]] += p->at[i]->cycles;
  return cycles;
}

/* The stream of an action between kernels; NULL: it is another. */
static const wafer_stream *passed_by(const launcher *l, const wafer_action *a) {
  if (a->kind != WAFER_ACTION_stream) return NULL;
  const wafer_stream *t = &l->plan->streams[a->index];
  return t->from_kernel != WAFER_NONE && t->to_kernel != WAFER_NONE ? t : NULL;
}

/* What the busiest kernel takes of a sample: it computes, and receives while it sends. What another
 * stream brings is sent with that. */
static wafer_status longest_turn(launcher *l, const wafer_phase *phase, const uint64_t *cycles,
                                 const uint32_t *with, uint64_t *longest) {
  uint32_t kernels = l->plan->kernel_count;
  uint64_t *takes = WAFER_NEW(l->arena, uint64_t, kernels);
  uint64_t *sends = WAFER_NEW(l->arena, uint64_t, kernels);
  if (!takes || !sends) return launch_no_memory(l);
  *longest = 1;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_action *action = &phase->actions[a];
    const wafer_stream *t =
        action->kind == WAFER_ACTION_stream ? &l->plan->streams[action->index] : NULL;
    bool own = !with || with[action->index] == action->index;
    if (t && own && t->from_kernel != WAFER_NONE) sends[t->from_kernel] += cycles[a];
    if (t && t->to_kernel != WAFER_NONE) takes[t->to_kernel] += cycles[a];
  }
  for (uint32_t a = 0; a < phase->action_count; a++) {
    uint32_t k = phase->actions[a].index;
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    uint64_t turn = cycles[a] + (takes[k] > sends[k] ? takes[k] : sends[k]);
    *longest = turn > *longest ? turn : *longest;
  }
  return WAFER_OK;
}

/* Rooms that there may be at the end of a stream: those of the kernel's input, if no other stream
 * ends there. */
static uint32_t most_rooms(const launcher *l, const wafer_phase *phase, const wafer_stream *t) {
  uint32_t ends = 0;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_stream *other = passed_by(l, &phase->actions[a]);
    ends += other && other->value == t->value && wafer_holding_equal(&other->to, &t->to);
  }
  return ends == 1 ? t->depth : 1;
}

static bool raise(int64_t *time, int64_t least) {
  if (*time >= least) return false;
  *time = least;
  return true;
}

/* Until no difference is beyond what rooms allow. */
static void settle(const launcher *l, const wafer_phase *phase, const uint32_t *most,
                   launch_rooms *r) {
  for (bool again = true; again;) {
    again = false;
    for (uint32_t a = 0; a < phase->action_count; a++) {
      const wafer_stream *t = passed_by(l, &phase->actions[a]);
      if (t) again |= raise(&r->due[t->to_kernel], r->due[t->from_kernel] + 1);
    }
    for (uint32_t a = phase->action_count; a-- > 0;) {
      const wafer_stream *t = passed_by(l, &phase->actions[a]);
      if (t)
        again |=
            raise(&r->due[t->from_kernel], r->due[t->to_kernel] + 1 - (int64_t)most[a] * r->period);
    }
  }
}

/* What goes together leaves at once: before the first kernel that takes it is due. */
static void leave_together(const launcher *l, const wafer_phase *phase, launch_rooms *r) {
  for (int pass = 0; r->with && pass < 2; pass++)
    for (uint32_t a = 0; a < phase->action_count; a++) {
      uint32_t i = phase->actions[a].index;
      if (!passed_by(l, &phase->actions[a])) continue;
      int64_t *from = &r->leaves[pass ? r->with[i] : i], *to = &r->leaves[pass ? i : r->with[i]];
      if (*from < *to) *to = *from;
    }
}

/* When streams are due, and rooms for what they bring. `made`: of each kernel, from when it begins
 * to when its values leave. */
static void find_leaving(const launcher *l, const wafer_phase *phase, const uint64_t *made,
                         launch_rooms *r) {
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_stream) continue;
    const wafer_stream *t = &l->plan->streams[phase->actions[a].index];
    int64_t *leaves = &r->leaves[phase->actions[a].index];
    if (t->from_kernel == WAFER_NONE) {
      *leaves = t->to_kernel == WAFER_NONE ? 0 : r->due[t->to_kernel];
      continue;
    }
    *leaves = r->due[t->from_kernel] + (int64_t)made[t->from_kernel];
    if (t->to_kernel == WAFER_NONE) continue;
    if (*leaves >= r->due[t->to_kernel]) *leaves = r->due[t->to_kernel] - 1;
  }
  leave_together(l, phase, r);
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_stream *t = passed_by(l, &phase->actions[a]);
    const int64_t *leaves = &r->leaves[phase->actions[a].index];
    if (!t) continue;
    uint32_t rooms = (uint32_t)((r->due[t->to_kernel] - *leaves) / r->period) + 1;
    r->of[phase->actions[a].index] = rooms;
    r->any |= rooms > 1;
  }
}

wafer_status launch_find_rooms(launcher *l, const wafer_phase *phase, const launch_pieces *p,
                               bool early, const uint32_t *with, launch_rooms *out) {
  const uint64_t *cycles = cycles_of(l, phase, p);
  uint32_t *most = WAFER_NEW(l->arena, uint32_t, phase->action_count);
  uint64_t *made = WAFER_NEW(l->arena, uint64_t, l->plan->kernel_count), turn = 1;
  *out = (launch_rooms){.of = WAFER_NEW(l->map.arena, uint32_t, l->plan->stream_count),
                        .due = WAFER_NEW(l->map.arena, int64_t, l->plan->kernel_count),
                        .leaves = WAFER_NEW(l->map.arena, int64_t, l->plan->stream_count),
                        .with = with};
  if (!cycles || !most || !made || !out->of || !out->due || !out->leaves)
    return launch_no_memory(l);
  WAFER_TRY(longest_turn(l, phase, cycles, with, &turn));
  out->period = (int64_t)turn;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_stream *t = passed_by(l, &phase->actions[a]);
    if (phase->actions[a].kind == WAFER_ACTION_kernel) made[phase->actions[a].index] = cycles[a];
    if (!t) continue;
    uint64_t way = made[t->from_kernel] + cycles[a];
    way = way < turn ? way : turn - 1;
    raise(&out->due[t->to_kernel], out->due[t->from_kernel] + (int64_t)(way ? way : 1));
    most[a] = most_rooms(l, phase, t);
  }
  settle(l, phase, most, out);
  if (early) memset(made, 0, l->plan->kernel_count * sizeof *made);
  find_leaving(l, phase, made, out);
  return WAFER_OK;
}

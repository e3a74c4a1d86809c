/* The launch of a pipeline: sums are cleared; then every kernel and stream, sample after sample,
 * until all kernels are at their first replicas again. Cores do their share of each in that order:
 * sends and receives meet in the same order everywhere, so none waits for ever. With rooms that is
 * the order in which kernels are due. */
#include <string.h>

#include "launch_state.h"

/* Fragments of an action between replicas, which come again with them. */
typedef struct train_piece {
  uint32_t from, to; /* replicas of a stream's ends; of a kernel both the same */
  bool made;
  uint32_t first, count;    /* pieces */
  struct train_piece *next; /* of the same action */
} train_piece;

typedef struct train {
  launcher *l;
  const wafer_phase *phase;
  launch_pieces *p;
  train_piece **known; /* of each action */
} train;

/* Programs go through as many samples before they begin anew; UINT32_MAX: more. */
static uint32_t turns_of(const wafer_plan *plan, const wafer_phase *phase) {
  uint64_t turns = 1;
  for (uint32_t a = 0; a < phase->action_count && turns <= UINT32_MAX; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    uint64_t x = turns, y = plan->kernels[phase->actions[a].index].replicas, replicas = y;
    while (y) {
      uint64_t rest = x % y;
      x = y;
      y = rest;
    }
    turns *= replicas / x;
  }
  return turns < UINT32_MAX ? (uint32_t)turns : UINT32_MAX;
}

static bool add_step(train *t, uint32_t step) {
  launch_pieces *p = t->p;
  if (p->step_count == p->step_room) {
    uint32_t room = p->step_room ? 2 * p->step_room : 64;
    uint32_t *steps = WAFER_NEW(t->l->arena, uint32_t, room);
    if (!steps) return false;
    if (p->step_count) memcpy(steps, p->steps, p->step_count * sizeof *steps);
    p->steps = steps;
    p->step_room = room;
  }
  p->steps[p->step_count++] = step;
  return true;
}

/* NULL: out of memory. */
static train_piece *find_piece(train *t, uint32_t action, uint32_t from, uint32_t to) {
  train_piece **first = &t->known[action];
  for (train_piece *at = *first; at; at = at->next)
    if (at->from == from && at->to == to) return at;
  train_piece *piece = WAFER_NEW(t->l->arena, train_piece, 1);
  if (!piece) return NULL;
  *piece = (train_piece){.from = from, .to = to, .next = *first};
  return *first = piece;
}

/* What crosses the border does so at the samples of the replica. */
static wafer_status add_stream(train *t, const wafer_stream *stream) {
  uint32_t first = t->p->count;
  uint32_t kernel = stream->to_kernel != WAFER_NONE ? stream->to_kernel : stream->from_kernel;
  WAFER_TRY(launch_add_stream(t->l, stream, t->p));
  for (uint32_t i = first; i < t->p->count && kernel != WAFER_NONE; i++)
    for (uint32_t k = 0; k < t->p->at[i]->port_count; k++) {
      t->p->at[i]->ports[k].first = launch_replica(t->l, kernel, t->l->turn);
      t->p->at[i]->ports[k].every = t->l->plan->kernels[kernel].replicas;
    }
  return WAFER_OK;
}

static wafer_status add_action(train *t, uint32_t a) {
  const launcher *l = t->l;
  const wafer_action *action = &t->phase->actions[a];
  const wafer_stream *stream =
      action->kind == WAFER_ACTION_stream ? &l->plan->streams[action->index] : NULL;
  uint32_t from = stream ? stream->from_kernel : action->index;
  uint32_t to = stream ? stream->to_kernel : action->index;
  train_piece *piece =
      find_piece(t, a, launch_replica(l, from, l->turn), launch_replica(l, to, l->turn));
  if (!piece) return launch_no_memory(l);
  if (!piece->made) {
    piece->made = true;
    piece->first = t->p->count;
    t->p->action = a;
    WAFER_TRY(stream ? add_stream(t, stream)
                     : launch_add_kernel(t->l, &l->plan->kernels[action->index], t->p));
    piece->count = t->p->count - piece->first;
  }
  for (uint32_t i = piece->first; i < piece->first + piece->count; i++)
    if (t->p->parts[i] != LAUNCH_ONCE && !add_step(t, i)) return launch_no_memory(l);
  return WAFER_OK;
}

/* What comes once comes first. */
static wafer_status add_beginning(train *t) {
  launch_pieces *p = t->p;
  for (uint32_t i = 0; i < p->count; i++) p->once += p->parts[i] == LAUNCH_ONCE;
  uint32_t *steps = WAFER_NEW(t->l->arena, uint32_t, p->once + p->step_count), count = 0;
  if (!steps) return launch_no_memory(t->l);
  for (uint32_t i = 0; i < p->count; i++)
    if (p->parts[i] == LAUNCH_ONCE) steps[count++] = i;
  memcpy(steps + count, p->steps, p->step_count * sizeof *steps);
  p->steps = steps;
  p->step_room = p->step_count += count;
  return WAFER_OK;
}

/* Cores of other kernels, all replicas. */
static wafer_status find_others(launcher *l, const wafer_phase *phase) {
  l->others = WAFER_NEW(l->arena, wafer_rect, phase->action_count);
  if (!l->others) return launch_no_memory(l);
  l->other_count = 0;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &l->plan->kernels[phase->actions[a].index];
    l->others[l->other_count] = k->rect;
    l->others[l->other_count++].width *= k->replicas;
  }
  return WAFER_OK;
}

/* What leaves a kernel follows it at once, to the nearest kernel first, although others
 * compute in between: who takes a value that skips kernels then has it before what these make, and
 * its producer goes on. Actions from `a` on that follow `kernel`. */
static wafer_status add_leaving(train *t, uint32_t kernel, uint32_t a) {
  const launcher *l = t->l;
  for (; a < t->phase->action_count; a++) {
    const wafer_action *action = &t->phase->actions[a];
    if (action->kind != WAFER_ACTION_stream || launch_is_load(l, action)) continue;
    if (l->plan->streams[action->index].from_kernel == kernel) WAFER_TRY(add_action(t, a));
  }
  return WAFER_OK;
}

/* The actions of a sample: what the host sends as late as it is wanted. */
static wafer_status add_sample(train *t) {
  const launcher *l = t->l;
  for (uint32_t a = 0; a < t->phase->action_count; a++) {
    const wafer_action *action = &t->phase->actions[a];
    bool kernel = action->kind == WAFER_ACTION_kernel;
    if (launch_is_load(l, action)) continue;
    if (!kernel && l->plan->streams[action->index].from_kernel != WAFER_NONE) continue;
    WAFER_TRY(add_action(t, a));
    if (kernel) WAFER_TRY(add_leaving(t, action->index, a + 1));
  }
  return WAFER_OK;
}

/* Longer programs than any core has room for; a sample takes two instructions at least. */
#define MOST_TURNS 4096

static int64_t due_of(const train *t, const launch_rooms *rooms, uint32_t piece) {
  const wafer_action *a = &t->phase->actions[t->p->parts[piece]];
  return a->kind == WAFER_ACTION_kernel ? rooms->due[a->index] : rooms->leaves[a->index];
}

/* Steps by when they are due; those that are so at once stay as they are. */
static wafer_status order_steps(train *t, const launch_rooms *rooms) {
  launch_pieces *p = t->p;
  p->due = WAFER_NEW(t->l->arena, int64_t, p->count);
  if (!p->due) return launch_no_memory(t->l);
  p->period = rooms->period;
  for (uint32_t i = 0; i < p->count; i++) {
    if (p->parts[i] == LAUNCH_ONCE) continue;
    p->due[i] = due_of(t, rooms, i);
    if ((uint64_t)p->due[i] > p->last_due) p->last_due = (uint64_t)p->due[i];
  }
  for (uint32_t i = 1; i < p->step_count && p->steps[i] != FRAGMENT_ENDS; i++)
    for (uint32_t k = i; k > 0 && p->due[p->steps[k]] < p->due[p->steps[k - 1]]; k--) {
      uint32_t other = p->steps[k];
      p->steps[k] = p->steps[k - 1];
      p->steps[k - 1] = other;
    }
  return WAFER_OK;
}

bool launch_may_have_rooms(const launcher *l, const wafer_phase *phase) {
  return turns_of(l->plan, phase) == 1 && !wafer_plan_updates(l->plan);
}

wafer_status launch_add_train(launcher *l, const wafer_phase *phase, const launch_rooms *rooms,
                              launch_pieces *p) {
  train t = {.l = l,
             .phase = phase,
             .p = p,
             .known = WAFER_NEW(l->arena, train_piece *, phase->action_count)};
  uint32_t turns = turns_of(l->plan, phase);
  if (turns > MOST_TURNS)
    return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_NO_FIT,
                      "its kernels have so many different numbers of replicas that programs would "
                      "repeat after more than %u samples; compile with --replicas 2",
                      MOST_TURNS);
  p->cycles = WAFER_NEW(l->arena, uint64_t, l->plan->kernel_count);
  if (!t.known || !p->cycles) return launch_no_memory(l);
  WAFER_TRY(find_others(l, phase));
  l->rooms = rooms ? rooms->of : NULL;
  p->with = l->with = rooms ? rooms->with : NULL;
  if (rooms) WAFER_TRY(launch_take_rooms(l, phase));
  for (l->turn = 0; l->turn < turns; l->turn++) {
    WAFER_TRY(add_sample(&t));
    if (!add_step(&t, FRAGMENT_ENDS)) return launch_no_memory(l);
  }
  l->turn = 0;
  if (rooms) WAFER_TRY(order_steps(&t, rooms));
  return add_beginning(&t);
}

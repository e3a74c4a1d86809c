/* Links that a train shares with other colours: may one of them come before the train has gone?
 *
 * A colour reaches a link no earlier than its sender can push, and the way takes. A sender that
 * waits for words can push when those can have come, from a sender of their own: so the bound
 * follows who waits for whom, as far as that is plain, and ends at a core that could go on now, at
 * one that does nothing any more, or at one of the train, whose time is known. */
#include <stdlib.h>

#include "core_value.h"
#include "fabric_islands.h"

#define LONGEST_WAIT 4096 /* cores that wait for each other */
#define LONGEST_WAY 64    /* queues that are looked into */

bool fabric_only_waits(const fabric_core *core, const core_thread *t) {
  if (core->stuck || core->running != 1u << t->code->thread) return false;
  if (core->state == CORE_JOIN) return core->joined == t->code->thread;
  if (core->state != CORE_IDLE || core->activated & ~core->blocked) return false;
  return !fabric_woken_by_words(core);
}

bool fabric_woken_by_words(const fabric_core *core) {
  for (uint32_t i = 0; i < core->program->task_count; i++) {
    uint8_t kind = core->program->tasks[i].kind;
    if (kind == WAFER_TASK_data || kind == WAFER_TASK_control) return true;
  }
  return false;
}

uint32_t fabric_from_now(const wafer_fabric *f, uint64_t cycle) {
  if (cycle <= f->now) return 0;
  return cycle - f->now < FABRIC_TRAIN ? (uint32_t)(cycle - f->now) : FABRIC_TRAIN;
}

void fabric_find_roots(wafer_fabric *f, uint32_t *stack) {
  for (uint32_t i = 0; i < f->node_count; i++) f->sites[i].root = FABRIC_NONE;
  for (uint32_t i = 0; i < f->node_count; i++) {
    if (f->nodes[i].gone || f->sites[i].from != FABRIC_NONE) continue;
    uint32_t count = 0;
    f->sites[i].root = i;
    f->sites[i].reach = 1u + f->machine->ramp_cycles + f->sites[i].late;
    for (stack[count++] = i; count;) {
      uint32_t at = stack[--count];
      const fabric_node *q = &f->nodes[at];
      for (uint32_t k = 0; !q->switched && k < q->outs; k++) {
        const fabric_out *out = &f->outs[f->sites[at].first_out + k];
        f->sites[out->node].root = i;
        f->sites[out->node].reach = f->sites[at].reach + out->latency;
        stack[count++] = out->node;
      }
    }
  }
}

/* No word is in the queue or on its way there. */
static bool way_is_empty(wafer_fabric *f, uint32_t node) {
  uint32_t root = f->sites[node].root;
  if (root == FABRIC_NONE || fabric_is_aside(f, root)) return false;
  if (!f->sites[root].used) return true;
  for (uint32_t i = 0; i < LONGEST_WAY; i++, node = f->sites[node].from) {
    if (fabric_is_aside(f, node) || f->nodes[node].count || fabric_fan_holds(f, node)) return false;
    if (node == root) return true;
  }
  return false;
}

/* The one queue that the microthread takes words from; FABRIC_NONE: none, or several. */
uint32_t fabric_taken(const core_thread *t) {
  uint32_t taken = FABRIC_NONE, count = 0;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++)
    if (core_operand(t->code, k)->kind == WAFER_OPERAND_fabric) {
      taken = t->queue[k];
      count++;
    }
  return count == 1 ? taken : FABRIC_NONE;
}

/* A core in the chain of waits: it pushes into `target`, the root of what the one before takes. */
typedef struct fabric_wait_link {
  uint32_t core, target;
} wait_link;

/* What `one` waits for, if it is a core that only waits for words which are not there. */
static bool waits_for(wafer_fabric *f, wait_link one, wait_link *next) {
  const fabric_core *core = &f->cores[one.core];
  core_catch_up(f, one.core);
  if (__builtin_popcount(core->running) != 1) return false;
  const core_thread *t = &core->threads[__builtin_ctz(core->running)];
  uint32_t taken = fabric_only_waits(core, t) ? fabric_taken(t) : FABRIC_NONE;
  if (taken == FABRIC_NONE || !way_is_empty(f, taken)) return false;
  next->target = f->sites[taken].root;
  next->core = f->sites[next->target].writer;
  return f->nodes[next->target].from_core && next->core != FABRIC_NONE &&
         !fabric_is_abroad(f, next->core);
}

/* The first push of a core into its target, when no word comes to it before `arrival`. */
static uint32_t push_after(wafer_fabric *f, wait_link one, uint32_t arrival) {
  core_catch_up(f, one.core);
  const fabric_core *core = &f->cores[one.core];
  uint32_t stage = f->stage_of[one.core];
  if (stage < f->stage_count && f->stages[stage].core == one.core) {
    const fabric_stage *s = &f->stages[stage];
    return s->thread->queue[0] == one.target && s->thread->code->out.kind == WAFER_OPERAND_fabric
               ? s->start
               : s->start + f->train_length;
  }
  if (core->fanned) return 0;
  uint32_t busy = core->sending ? 0 : fabric_from_now(f, core->busy[CORE_COMPUTES]);
  if (!core->running) {
    bool over = core->state == CORE_IDLE && !core->awake && core->wake == FABRIC_NEVER &&
                !(core->activated & ~core->blocked) && !fabric_woken_by_words(core);
    return over ? FABRIC_TRAIN : busy;
  }
  const core_thread *t = &core->threads[__builtin_ctz(core->running)];
  if (!fabric_only_waits(core, t)) return busy;
  uint32_t start = fabric_from_now(f, t->ready);
  if (start < busy) start = busy;
  if (start < arrival) start = arrival;
  bool sends = t->code->out.kind == WAFER_OPERAND_fabric && t->queue[0] == one.target;
  return sends ? start : start + (t->count - t->done) / (t->step ? t->step : 1);
}

/* A cycle, from now, before which the core pushes nothing into the root. */
static uint32_t earliest_push(wafer_fabric *f, uint32_t core, uint32_t root) {
  static _Thread_local wait_link chain[LONGEST_WAIT];
  uint32_t count = 0, push = 0, arrival = 0;
  chain[count++] = (wait_link){core, root};
  for (bool on = true; on && count < LONGEST_WAIT;) {
    wait_link last = chain[count - 1];
    uint32_t stage = f->stage_of[last.core];
    bool rides = stage < f->stage_count && f->stages[stage].core == last.core;
    on = !rides && waits_for(f, last, &chain[count]);
    count += on;
  }
  f->train_budget -= count;
  while (count) {
    wait_link one = chain[--count];
    push = push_after(f, one, arrival);
    if (!count) break;
    const fabric_core *next = &f->cores[chain[count - 1].core];
    uint32_t taken = fabric_taken(&next->threads[__builtin_ctz(next->running)]);
    arrival = push + f->sites[taken].reach;
    if (arrival > FABRIC_TRAIN) arrival = FABRIC_TRAIN;
  }
  return push;
}

/* Does no word ask for a link out of this queue before `until`? */
static bool comes_later(wafer_fabric *f, uint32_t node, uint32_t until) {
  uint32_t root = f->sites[node].root;
  if (!way_is_empty(f, node)) return false;
  if (!f->nodes[root].from_core) return !f->edge_count;
  uint32_t core = f->sites[root].writer;
  if (core == FABRIC_NONE) return true;
  if (fabric_is_abroad(f, core)) /* it sends nothing here until the islands are one again */
    return fabric_from_now(f, f->islands->here.limit) + f->sites[node].reach >= until;
  if (f->asked_core != core || f->asked_root != root) {
    f->asked_core = core;
    f->asked_root = root;
    f->asked_push = earliest_push(f, core, root);
  }
  return f->asked_push + f->sites[node].reach >= until;
}

bool fabric_link_is_quiet(wafer_fabric *f, const fabric_out *out, uint32_t until) {
  const fabric_link *link = &f->links[out->link];
  for (uint32_t i = 0; i < link->candidates; i++) {
    if (i == out->rank) continue;
    if (--f->train_budget < 0) return false;
    if (!comes_later(f, f->candidates[link->first + i].node, until)) return false;
  }
  return true;
}

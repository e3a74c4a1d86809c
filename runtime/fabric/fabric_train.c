/* Trains: a message that goes from core to core, each of which takes it and keeps it or passes it
 * on, changed or not, at once; on the way it may branch to any number of cores that keep it.
 *
 * A queue of capacity Q, or the core that reads it, gives one wavelet a cycle at most; nobody else
 * writes or reads it. With d(h, i) the cycle in which wavelet i leaves queue h for h+1, h+2, ...:
 *   d(h, i) = max(d(h-1, i) + latency, d(h, i-1) + 1, ready(h), d(h+1, i - Q) + credit).
 * When all begin at rest, every step costs a cycle and nobody else asks for the links in that time
 * (fabric_quiet.c), the first three make d(h, i) = d(h, 0) + i, and the last never decides if
 * d(h+1, 0) - d(h, 0) + credit <= Q for each of the next: else there is no train. Nothing else can
 * happen on such a core before its last step: control waits for this instruction, and no other
 * runs. So every core is brought to the cycle after its last step, where it goes on by itself, and
 * slots of queues say from when on they are free. */
#include <stdlib.h>
#include <string.h>

#include "core_value.h"

#define LEAST 4 /* wavelets of a train */

typedef fabric_stage stage;
typedef fabric_passage passage;

static core_unit unit_of(const fabric_core *core, const core_thread *t) {
  return core->sending >> t->code->thread & 1 ? CORE_SENDS : CORE_COMPUTES;
}

/* Every step costs a cycle, no value depends on one of the same instruction, no access traps. */
static bool goes_evenly(const wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t words) {
  const wafer_throughput *rate = core_rate(f->machine, t->code);
  if (!t->plain || t->waits || t->fraction || rate->cycles > rate->elements) return false;
  if (t->inner != t->count || t->count - t->done < words || t->code->control) return false;
  for (uint32_t k = 0; k <= core_inputs(t->code); k++)
    if (core_operand(t->code, k)->kind == WAFER_OPERAND_memory &&
        (!core_run_there(f, at, t, k, words) || !core_runs_apart(t, k, words)))
      return false;
  return true;
}

/* Does each slot of an empty queue become free before the word that takes it, of words that come in
 * one cycle after the other from `at` on? */
static bool frees_in_time(const wafer_fabric *f, const fabric_node *q, uint32_t at) {
  for (uint32_t i = 0; i < q->capacity; i++)
    if (fabric_until(fabric_slot(q, i)->ready, (uint32_t)f->now) > at + i) return false;
  return true;
}

static bool more(void **list, uint32_t count, uint32_t *room, size_t size) {
  if (count < *room) return true;
  uint32_t next = *room ? 2 * *room : 64;
  void *at = realloc(*list, next * size);
  if (!at) return false; /* wavelet by wavelet, then */
  *list = at;
  *room = next;
  return true;
}

static bool add_stage(wafer_fabric *f, stage one) {
  if (!more((void **)&f->stages, f->stage_count, &f->stage_room, sizeof one)) return false;
  f->stage_of[one.core] = f->stage_count;
  f->stages[f->stage_count++] = one;
  return true;
}

/* The train enters a queue: at rest, and long enough where routers empty it. */
static bool enter(wafer_fabric *f, uint32_t node, uint32_t at, uint32_t delay, uint16_t hops) {
  const fabric_node *q = &f->nodes[node];
  if (fabric_is_aside(f, node)) return false;
  if (q->to_core) core_catch_up(f, f->sites[node].core);
  if (fabric_fan_holds(f, node)) return false;
  if (q->count || q->filtered || q->switched || q->by_switch || q->at_edge) return false;
  if (!q->to_core && (!q->outs || delay + q->credit > q->capacity)) return false;
  if (!frees_in_time(f, q, at) || at + delay + f->train_length >= FABRIC_TRAIN) return false;
  if (!more((void **)&f->passages, f->passage_count, &f->passage_room, sizeof *f->passages))
    return false;
  f->passages[f->passage_count++] =
      (passage){.node = node, .enter = at, .leave = at + delay, .hops = hops};
  return true;
}

/* The core that reads the queue; false: it does not keep the pace. */
static bool next_stage(wafer_fabric *f, passage *p, stage *to) {
  const fabric_node *q = &f->nodes[p->node];
  uint32_t at = f->sites[p->node].core;
  if (at == FABRIC_NONE) return false;
  const fabric_core *core = &f->cores[at];
  if (!core->running) core_issue_ahead(f, at);
  if (__builtin_popcount(core->running) != 1) return false;
  core_thread *t = &core->threads[__builtin_ctz(core->running)];
  if (fabric_taken(t) != p->node || !fabric_only_waits(core, t) ||
      !goes_evenly(f, at, t, f->train_length))
    return false;
  uint32_t ready = fabric_from_now(f, t->ready);
  uint32_t busy = fabric_from_now(f, core->busy[unit_of(core, t)]);
  if (ready > p->leave) p->leave = ready;
  if (busy > p->leave) p->leave = busy;
  *to = (stage){.core = at, .thread = t, .start = p->leave};
  return p->leave + f->train_length < FABRIC_TRAIN &&
         p->leave - p->enter + q->credit <= q->capacity;
}

static bool passes_on(const stage *s) {
  return s->thread->code->out.kind == WAFER_OPERAND_fabric;
}

/* Everybody who gets what a core sends: those who keep it are stages, `*on` is the one who passes
 * it on, if any. */
static bool spread(wafer_fabric *f, const stage *from, stage *on, bool *goes_on) {
  uint32_t node = from->thread->queue[0], next = f->passage_count;
  const fabric_site *site = &f->sites[node];
  *goes_on = false;
  if (!enter(f, node, from->start, 1 + f->machine->ramp_cycles + site->late, site->far))
    return false;
  for (; next < f->passage_count; next++) {
    passage p = f->passages[next];
    const fabric_node *q = &f->nodes[p.node];
    if (!q->to_core) {
      for (uint32_t k = 0; k < q->outs; k++) {
        const fabric_out *out = &f->outs[fabric_site_of(f, q)->first_out + k];
        if (!enter(f, out->node, p.leave, out->latency, out->hops)) return false;
      }
      continue;
    }
    stage one;
    if (!next_stage(f, &f->passages[next], &one)) return false;
    if (!passes_on(&one)) {
      if (!add_stage(f, one)) return false;
    } else if (*goes_on) {
      return false; /* two messages then, which differ */
    } else {
      *on = one;
      *goes_on = true;
    }
  }
  return true;
}

/* Nobody else asks for the links in that time. */
static bool has_the_way(wafer_fabric *f) {
  f->asked_core = FABRIC_NONE;
  f->train_budget = (int64_t)f->passage_count * f->train_length;
  for (uint32_t i = 0; i < f->passage_count; i++) {
    const passage *p = &f->passages[i];
    const fabric_node *q = &f->nodes[p->node];
    for (uint32_t k = 0; !q->to_core && k < q->outs; k++) {
      const fabric_out *out = &f->outs[fabric_site_of(f, q)->first_out + k];
      if (!out->alone && !fabric_link_is_quiet(f, out, p->leave + f->train_length)) return false;
    }
  }
  return true;
}

static bool find_stages(wafer_fabric *f, uint32_t at, core_thread *t) {
  stage one = {.core = at, .thread = t, .first = true}, on;
  f->stage_count = f->passage_count = 0;
  if (f->train_length < LEAST || t->code->op != WAFER_CORE_move || !passes_on(&one) ||
      t->code->in[0].kind != WAFER_OPERAND_memory || !fabric_only_waits(&f->cores[at], t) ||
      !goes_evenly(f, at, t, f->train_length))
    return false;
  for (bool goes_on = true; goes_on; one = on)
    if (!add_stage(f, one) || !spread(f, &one, &on, &goes_on)) return false;
  return has_the_way(f);
}

/* All words have gone through the queue: its slots are free after the last that were in them. */
static void empty_queue(wafer_fabric *f, const passage *p) {
  fabric_node *q = &f->nodes[p->node];
  uint32_t words = f->train_length, first = words > q->capacity ? words - q->capacity : 0;
  for (uint32_t i = first; i < words; i++)
    fabric_entry_at(q, (q->head + i) % q->capacity)->ready =
        fabric_stamp(f->now + p->leave + i + q->credit);
  q->head = (uint16_t)((q->head + words) % q->capacity);
  f->stats.hops += (uint64_t)words * p->hops;
  f->sites[p->node].used = true;
  if (f->entered) f->entered[p->node] += words;
  for (uint32_t k = 0; !q->to_core && k < q->outs; k++) {
    const fabric_out *out = &f->outs[fabric_site_of(f, q)->first_out + k];
    if (!out->alone) f->gates[out->link].turns = out->rank;
  }
}

static void add(float *sum, const float *a, const float *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) sum[i] = a[i] + b[i];
}

/* What a stage makes of those words that come in: into its memory, or in their place. */
static wafer_status pass_values(wafer_fabric *f, const stage *s, uint32_t words, float *data,
                                float *own) {
  core_thread *t = s->thread;
  float *result = passes_on(s) ? data : own, *sum = data;
  if (s->first) WAFER_TRY(core_gather(f, s->core, t, 1, words, data));
  for (uint32_t k = 1; k <= core_inputs(t->code) && !s->first; k++) {
    const void *there;
    if (core_operand(t->code, k)->kind != WAFER_OPERAND_memory) continue;
    WAFER_TRY(core_view(f, s->core, t, k, words, own, &there));
    add(result, k == 1 ? there : data, k == 1 ? data : there, words);
    sum = result;
  }
  if (!passes_on(s)) WAFER_TRY(core_scatter(f, s->core, t, words, sum));
  core_advance(t, words);
  return WAFER_OK;
}

/* To the cycle after the last step. */
static void arrive(wafer_fabric *f, const stage *s, uint32_t words) {
  fabric_core *core = &f->cores[s->core];
  core_thread *t = s->thread;
  core_unit unit = unit_of(core, t);
  uint64_t start = f->now + s->start, end = start + words;
  t->done += words;
  t->ready = end;
  f->stats.elements += words;
  core->busy[unit] = end;
  core->turn[unit] = (uint8_t)(t->code->thread + 1);
  if (core->finish < end) core->finish = end;
  if (core->worked_to < end) {
    core->worked += end - (core->worked_to > start ? core->worked_to : start);
    core->worked_to = end;
  }
  if (t->done == t->count) core_end_instruction(core, t, end);
  if (core->wake < end) core->wake = FABRIC_NEVER; /* it would find nothing to do */
  fabric_wake(f, s->core, end);
}

wafer_status fabric_train(wafer_fabric *f, uint32_t at, core_thread *t, bool *went) {
  uint32_t words = t->count - t->done;
  f->train_length = words;
  *went = !f->single && !f->faults && !t->done && find_stages(f, at, t);
  if (!*went) return WAFER_OK;
  if (f->train_words < words) {
    free(f->train);
    f->train_words = 0;
    f->train = malloc((size_t)words * 2 * sizeof *f->train);
    *went = f->train != NULL;
    if (!*went) return WAFER_OK;
    f->train_words = words;
  }
  for (uint32_t i = 0; i < f->passage_count; i++) empty_queue(f, &f->passages[i]);
  for (uint32_t i = 0; i < f->stage_count; i++) {
    const stage *s = &f->stages[i];
    WAFER_TRY(pass_values(f, s, words, f->train, f->train + words));
    arrive(f, s, words);
  }
  return WAFER_OK;
}

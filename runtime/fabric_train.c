/* Trains: a message that goes from core to core, each of which takes it from one queue and
 * passes it on, changed or not, or keeps it, at once.
 *
 * Core h takes a wavelet a cycle at most; its queue of capacity Q has no other writer or reader:
 *   d(h, i) = max(d(h-1, i) + latency, d(h, i-1) + 1, ready(h), d(h+1, i - Q) + credit).
 * When all begin at rest and every step costs a cycle, the first three make d(h, i) = d(h, 0) + i,
 * and the last never decides if d(h+1, 0) - d(h, 0) + credit <= Q: else there is no train. Nothing
 * else can happen on such a core before its last step: control waits for this instruction, and no
 * other runs. So every core is brought to the cycle after its last step, where it goes on by
 * itself, and slots of queues say from when on they are free. */
#include <stdlib.h>
#include <string.h>

#include "core_value.h"

#define LEAST 4         /* wavelets of a train */
#define LONGEST 0x40000 /* cycles until its end: stamps tell them from the past */

typedef struct fabric_stage {
  uint32_t core, in; /* in: its queue; FABRIC_NONE: the first */
  core_thread *thread;
  uint32_t start; /* cycles from now to the first step */
} stage;

static core_unit unit_of(const fabric_core *core, const core_thread *t) {
  return core->sending >> t->code->thread & 1 ? CORE_SENDS : CORE_COMPUTES;
}

/* Nothing but the end of its one instruction lets the core do something. */
static bool only_waits(const fabric_core *core, const core_thread *t) {
  if (core->stuck || core->running != 1u << t->code->thread) return false;
  if (core->state == CORE_JOIN) return core->joined == t->code->thread;
  if (core->state != CORE_IDLE || core->activated & ~core->blocked) return false;
  for (uint32_t i = 0; i < core->program->task_count; i++) {
    uint8_t kind = core->program->tasks[i].kind;
    if (kind == WAFER_TASK_data || kind == WAFER_TASK_control) return false;
  }
  return true;
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

static uint32_t from_now(const wafer_fabric *f, uint64_t cycle) {
  if (cycle <= f->now) return 0;
  return cycle - f->now < LONGEST ? (uint32_t)(cycle - f->now) : LONGEST;
}

/* Cycles until all slots of an empty queue are free. */
static uint32_t all_free(const wafer_fabric *f, const fabric_node *q) {
  uint32_t last = q->head ? q->head - 1u : q->capacity - 1u;
  uint32_t wait = (q->entries[last].ready - fabric_stamp(f->now)) & FABRIC_STAMP_MASK;
  return wait >> (FABRIC_STAMP_BITS - 1) ? 0 : wait;
}

/* The stage that takes what `from` sends; false: there is none that keeps the pace. */
static bool next_stage(const wafer_fabric *f, const stage *from, uint32_t words, stage *to) {
  uint32_t node = from->thread->queue[0];
  const fabric_node *q = &f->nodes[node];
  const fabric_site *site = &f->sites[node];
  if (!q->from_core || !q->to_core || q->filtered || q->count || site->core == FABRIC_NONE)
    return false;
  const fabric_core *core = &f->cores[site->core];
  if (__builtin_popcount(core->running) != 1) return false;
  core_thread *t = &core->threads[__builtin_ctz(core->running)];
  if (!only_waits(core, t) || !goes_evenly(f, site->core, t, words)) return false;
  uint32_t fabric_inputs = 0, taken = FABRIC_NONE;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++)
    if (core_operand(t->code, k)->kind == WAFER_OPERAND_fabric) {
      fabric_inputs++;
      taken = t->queue[k];
    }
  if (fabric_inputs != 1 || taken != node) return false;
  uint32_t start = from->start + 1 + f->machine->ramp_cycles + site->late;
  uint32_t ready = from_now(f, t->ready), busy = from_now(f, core->busy[unit_of(core, t)]);
  if (ready > start) start = ready;
  if (busy > start) start = busy;
  *to = (stage){.core = site->core, .in = node, .thread = t, .start = start};
  return start + words < LONGEST && start - from->start + q->credit <= q->capacity &&
         all_free(f, q) <= from->start;
}

static bool add_stage(wafer_fabric *f, stage one) {
  if (f->stage_count == f->stage_room) {
    uint32_t room = f->stage_room ? 2 * f->stage_room : 64;
    stage *more = realloc(f->stages, room * sizeof *more);
    if (!more) return false; /* wavelet by wavelet, then */
    f->stages = more;
    f->stage_room = room;
  }
  f->stages[f->stage_count++] = one;
  return true;
}

static bool find_stages(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t words) {
  stage one = {.core = at, .in = FABRIC_NONE, .thread = t};
  f->stage_count = 0;
  if (words < LEAST || t->code->op != WAFER_CORE_move ||
      t->code->out.kind != WAFER_OPERAND_fabric ||
      t->code->in[0].kind != WAFER_OPERAND_memory || !only_waits(&f->cores[at], t) ||
      !goes_evenly(f, at, t, words))
    return false;
  for (stage next; add_stage(f, one); one = next) {
    if (one.thread->code->out.kind != WAFER_OPERAND_fabric) return true;
    if (!next_stage(f, &one, words, &next)) return false;
  }
  return false;
}

/* All words have gone through the queue: its slots are free after the last that were in them. */
static void empty_queue(wafer_fabric *f, const stage *s, uint32_t words) {
  fabric_node *q = &f->nodes[s->in];
  uint32_t first = words > q->capacity ? words - q->capacity : 0;
  for (uint32_t i = first; i < words; i++)
    q->entries[(q->head + i) % q->capacity].ready = fabric_stamp(f->now + s->start + i + q->credit);
  q->head = (uint16_t)((q->head + words) % q->capacity);
  f->stats.hops += (uint64_t)words * f->sites[s->in].far;
  if (f->entered) f->entered[s->in] += words;
}

/* The values of a stage, in place of those that came in. */
static wafer_status pass_values(wafer_fabric *f, const stage *s, uint32_t words, float *data,
                                float *own) {
  core_thread *t = s->thread;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++) {
    if (core_operand(t->code, k)->kind != WAFER_OPERAND_memory) continue;
    WAFER_TRY(core_gather(f, s->core, t, k, words, s->in == FABRIC_NONE ? data : own));
    if (s->in == FABRIC_NONE) continue;
    for (uint32_t i = 0; i < words; i++) data[i] = k == 1 ? own[i] + data[i] : data[i] + own[i];
  }
  if (t->code->out.kind == WAFER_OPERAND_memory)
    WAFER_TRY(core_scatter(f, s->core, t, words, data));
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
  *went = !f->single && !f->faults && !t->done && find_stages(f, at, t, words);
  if (!*went) return WAFER_OK;
  if (f->train_words < words) {
    free(f->train);
    f->train_words = 0;
    f->train = malloc((size_t)words * 2 * sizeof *f->train);
    *went = f->train != NULL;
    if (!*went) return WAFER_OK;
    f->train_words = words;
  }
  for (uint32_t i = 0; i < f->stage_count; i++) {
    const stage *s = &f->stages[i];
    WAFER_TRY(pass_values(f, s, words, f->train, f->train + words));
    if (i) empty_queue(f, s, words);
    arrive(f, s, words);
  }
  return WAFER_OK;
}

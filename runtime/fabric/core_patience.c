/* Patience: a core whose one microthread takes words from a queue into its memory, a cycle each,
 * is not woken by every word. As long as the queue has room for what may still come before a visit,
 * nobody can tell when a word was taken: the slots that it leaves say from when on they are free.
 * So words are taken when the core is visited for something else, when the queue could become full,
 * or when the instruction has all of its words; each as of the cycle in which it would have been.
 */
#include <string.h>

#include "core_value.h"
#include "fabric_islands.h"
#include "router.h"

/* The one input that is on the fabric. */
static uint32_t source_of(const core_thread *t) {
  return t->queue[__builtin_ctz(t->there)];
}

bool core_keeps(const wafer_fabric *f, uint32_t at, const core_thread *t) {
  bool from_one = t->there && !(t->there & 1) && !(t->there & (t->there - 1));
  if (f->plain || f->faults || !t->quick || !from_one || !core_box_inside(f, at, t, 0))
    return false;
  for (uint32_t k = 1; k <= t->inputs; k++)
    if (!(t->there >> k & 1) && (t->inner != t->count || !core_run_there(f, at, t, k, t->inner)))
      return false;
  return f->sites[source_of(t)].patience > 0;
}

/* The cycle in which the front of the queue is taken, if nothing comes in between. */
static uint64_t taken_at(const wafer_fabric *f, const fabric_core *core, const core_thread *t,
                         const fabric_node *q) {
  uint64_t at = f->now + (uint64_t)fabric_ahead(fabric_front(q)->stamp, (uint32_t)f->now);
  if (at < t->ready) at = t->ready;
  return at < core->busy[CORE_COMPUTES] ? core->busy[CORE_COMPUTES] : at;
}

/* The next visit, as far as the words in the queue say, and how many more bring it about. */
static uint64_t due(wafer_fabric *f, const fabric_core *core, const core_thread *t) {
  fabric_node *q = &f->nodes[core->source];
  uint32_t left = t->count - t->done, most = core->most;
  if (q->awaited && most > q->capacity) most = q->capacity; /* who waits does not ask again */
  q->patience = left < most ? left : most;
  if (q->count < q->patience) return FABRIC_NEVER;
  uint64_t cycle = left ? taken_at(f, core, t, q) : t->ready;
  return cycle > f->now ? cycle : f->now + 1;
}

/* A word that has been taken. */
static void keep(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t word) {
  const fabric_image *image = &f->images[f->cores[at].router];
  float value, other;
  memcpy(&value, &word, sizeof value);
  if (t->adds) {
    bool second = t->there >> 2;
    int64_t from = t->address[second ? 1 : 2];
    if ((uint64_t)from + 4 <= image->bytes)
      memcpy(&other, image->data + from, sizeof other);
    else
      f->failed |= core_gather(f, at, t, second ? 1 : 2, 1, &other) != WAFER_OK;
    value = second ? other + value : value + other;
  }
  uint64_t mask, *bits = core_bits_at(image, (uint64_t)t->address[0], &mask);
  if (bits) {
    memcpy(image->data + t->address[0], &value, sizeof value);
    *bits |= mask;
  } else {
    f->failed |= core_scatter(f, at, t, 1, &value) != WAFER_OK;
  }
  core_go_on(t);
}

/* Several, in their order. Sums of words in one place are made beside it. */
static void keep_all(wafer_fabric *f, uint32_t at, core_thread *t, const uint32_t *word,
                     uint32_t n) {
  const fabric_image *image = &f->images[f->cores[at].router];
  bool second = t->there >> 2, sums = t->adds && !t->stride[0] && !t->stride[second ? 1 : 2];
  uint64_t mask, *bits = core_bits_at(image, (uint64_t)t->address[0], &mask);
  if (!sums || !bits || t->address[0] != t->address[second ? 1 : 2] || n >= core_run_left(t)) {
    for (uint32_t i = 0; i < n; i++) keep(f, at, t, word[i]);
    return;
  }
  float sum, value;
  memcpy(&sum, image->data + t->address[0], sizeof sum);
  for (uint32_t i = 0; i < n; i++) {
    memcpy(&value, &word[i], sizeof value);
    sum = second ? sum + value : value + sum;
  }
  memcpy(image->data + t->address[0], &sum, sizeof sum);
  *bits |= mask;
  t->index[3] += n;
}

#define RUN 32 /* words that are taken before they are kept */

/* The words of cycles of the past that come no later than control's next instruction, which has to
 * wait while they are taken: its cycle then. At most so many; *n: how many. */
static uint64_t take(wafer_fabric *f, uint32_t at, core_thread *t, fabric_node *q, uint64_t control,
                     uint32_t *n) {
  fabric_core *core = &f->cores[at];
  uint32_t word[RUN], taken = 0, head = q->head, most = t->count - t->done;
  fabric_entry *entries = fabric_entry_at(q, 0);
  uint64_t busy = core->busy[CORE_COMPUTES];
  if (busy < t->ready) busy = t->ready;
  if (most > q->count) most = q->count;
  if (most > RUN) most = RUN;
  while (taken < most) {
    fabric_entry *slot = &entries[head];
    uint64_t cycle = f->now + (uint64_t)fabric_ahead(slot->stamp, (uint32_t)f->now);
    if (cycle < busy) cycle = busy;
    if (cycle >= f->now || cycle > control) break;
    word[taken++] = slot->word;
    slot->stamp = fabric_stamp(cycle + q->credit);
    if (++head == q->capacity) head = 0;
    busy = cycle + 1;
    core_works(core, cycle, busy);
    if (control < busy) control = busy;
  }
  *n = taken;
  if (!taken) return control;
  q->head = (uint16_t)head;
  q->count = (uint16_t)(q->count - taken);
  f->stats.elements += taken;
  core->busy[CORE_COMPUTES] = busy;
  core->turn[CORE_COMPUTES] = core->patient;
  keep_all(f, at, t, word, taken);
  t->done += taken;
  if (t->done == t->count) core_end_instruction(core, t, busy);
  if (q->awaited) router_tell_of_pop(f, core->source, q);
  return control;
}

void core_catch_up(wafer_fabric *f, uint32_t at) {
  fabric_core *core = &f->cores[at];
  uint64_t control = core->lags ? core_lags_at(core) : FABRIC_NEVER;
  core_thread *t = core->patient ? &core->threads[core->patient - 1] : NULL;
  fabric_node *q = t ? &f->nodes[core->source] : NULL;
  uint32_t done = t ? t->done : 0;
  for (;;) {
    uint32_t n = 0;
    if (t && t->state == THREAD_BUSY) control = take(f, at, t, q, control, &n);
    if (n == RUN) continue;
    if (control >= f->now) break;
    uint64_t word = t && t->state == THREAD_BUSY && q->count ? taken_at(f, core, t, q) : f->now;
    control = core_control_late(core, control, word < f->now ? word : f->now);
  }
  if (t && t->done != done) fabric_wake(f, at, due(f, core, t));
}

uint64_t core_takes_at(const wafer_fabric *f, uint32_t node) {
  const fabric_core *core = &f->cores[f->sites[node].core];
  const core_thread *t = core->patient ? &core->threads[core->patient - 1] : NULL;
  if (!t || core->source != node || t->state != THREAD_BUSY) return FABRIC_NEVER;
  return taken_at(f, core, t, &f->nodes[node]);
}

uint64_t core_patience_due(wafer_fabric *f, const fabric_core *core) {
  return due(f, core, &core->threads[core->patient - 1]);
}

uint64_t core_free_until(const wafer_fabric *f, const fabric_core *core) {
  if (core->pairs) return f->now;
  if (!core->running) return FABRIC_NEVER;
  if (!core->patient || core->fanned || core->running != 1u << (core->patient - 1)) return f->now;
  const core_thread *t = &core->threads[core->patient - 1];
  const fabric_node *q = &f->nodes[core->source];
  uint64_t comes = f->now + f->machine->ramp_cycles;
  uint64_t taken = q->count ? taken_at(f, core, t, q) : comes;
  return taken < comes ? taken : comes;
}

bool core_control_waits(const wafer_fabric *f, const fabric_core *core, uint64_t *next) {
  uint64_t until = core->resume;
  if (core->state == CORE_IDLE)
    return !(core->activated & ~core->blocked) && !fabric_woken_by_words(core);
  if (core->state == CORE_JOIN) {
    const core_thread *t = &core->threads[core->joined];
    if (t->state == THREAD_BUSY) return true;
    until = t->ready;
  }
  if (until <= f->now) return false;
  if (until < *next) *next = until;
  return true;
}

/* The microthread that can wait from here on: nobody else computes beside it. */
static core_thread *who_waits(const wafer_fabric *f, const fabric_core *core) {
  uint32_t set = core->running & ~core->sending;
  if (!set || set & (set - 1) || f->ends) return NULL;
  core_thread *t = &core->threads[__builtin_ctz(set)];
  return t->keeps && !t->waits && t->done < t->count ? t : NULL;
}

void core_wait_patiently(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  core_thread *t = who_waits(f, core);
  bool goes_on = t && core->patient == t->code->thread + 1 && core->source == source_of(t);
  if (core->patient && !goes_on) { /* the visit that follows sees what else there is to do */
    f->nodes[core->source].patience = 0;
    core->patient = 0;
    *next = f->now + 1;
    return;
  }
  if (!t) return;
  if (!goes_on) {
    core->patient = (uint8_t)(t->code->thread + 1);
    core->source = source_of(t);
    core->most = f->sites[core->source].patience;
  }
  if (!goes_on || !t->done) core_box(t, 0, core->kept);
  core->still &= (uint8_t)~(1u << t->code->thread);
  uint64_t cycle = due(f, core, t);
  if (cycle < *next) *next = cycle;
}

wafer_status core_compute_patiently(wafer_fabric *f, uint32_t at, bool *stepped, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  core_thread *t = &core->threads[core->patient - 1];
  uint64_t word = FABRIC_NEVER; /* core_wait_patiently knows when it matters */
  *stepped = false;
  if (!f->nodes[core->source].count || fabric_wait(f, &f->nodes[core->source])) return WAFER_OK;
  if (t->state == THREAD_BUSY) WAFER_TRY(core_step(f, at, t, CORE_COMPUTES, stepped, &word));
  if (!*stepped) return WAFER_OK;
  core->turn[CORE_COMPUTES] = core->patient;
  core_works(core, f->now, f->now + 1);
  if (!core_control_waits(f, core, next)) *next = f->now + 1;
  return WAFER_OK;
}

bool core_end_patience(wafer_fabric *f) {
  const fabric_island *here = f->islands ? &f->islands->here : NULL;
  bool any = false;
  for (uint32_t i = 0; i < f->strip_count; i++) f->strips[i]->ends = true;
  for (uint32_t i = 0; i < (here ? here->core_count : f->core_count); i++) {
    uint32_t at = here ? here->cores[i] : i;
    fabric_core *core = &f->cores[at];
    if (!core->patient || !f->nodes[core->source].count) continue;
    fabric_wake(f, at, f->now);
    any = true;
  }
  return any;
}

/* Moves and sums of f32 between memory and fabric, an element a cycle: most steps of most programs
 * are these, so they know all they need without a look at the instruction. */
#include <string.h>

#include "core_value.h"
#include "router.h"

void core_quicken(const wafer_machine *m, core_thread *t) {
  const wafer_throughput *rate = core_rate(m, t->code);
  uint32_t reads = 0;
  t->adds = t->code->op == WAFER_CORE_add;
  for (uint32_t k = 0; t->plain && k <= t->inputs; k++) {
    const wafer_operand *o = core_operand(t->code, k);
    t->stride[k] = o->stride[3];
    reads += k && o->kind == WAFER_OPERAND_memory; /* two of them may be in one bank */
  }
  t->quick = t->plain && t->there && t->step == 1 && rate->cycles <= rate->elements && reads < 2;
}

bool core_quick_ready(wafer_fabric *f, fabric_core *core, const core_thread *t, uint64_t *next) {
  for (uint32_t left = t->there; left; left &= left - 1) {
    uint32_t k = (uint32_t)__builtin_ctz(left);
    fabric_node *q = &f->nodes[t->queue[k]];
    if (k ? !q->count : q->count == q->capacity) {
      q->awaited |= !k;
      core->still |= (uint8_t)(1u << (t - core->threads));
      return false;
    }
    uint32_t wait = k ? fabric_wait(f, q) : fabric_wait_for(f, q, q->count);
    if (!wait) continue;
    if (f->now + wait < *next) *next = f->now + wait;
    return false;
  }
  return true;
}

/* The written bits of a word at any address; NULL: not as simple as that. */
static inline uint64_t *bits_of(const fabric_core *core, const fabric_image *image, int64_t address,
                                uint64_t *mask) {
  if (address < 0 || address + 4 > core->limit || address & 1) return NULL;
  return core_bits_at(image, (uint64_t)address, mask);
}

static inline wafer_status load(const wafer_fabric *f, uint32_t at, const core_thread *t,
                                uint32_t k, float *value) {
  const fabric_image *image = &f->images[f->cores[at].router];
  uint64_t mask, *bits = bits_of(&f->cores[at], image, t->address[k], &mask);
  if (!bits || ~*bits & mask) return core_gather(f, at, t, k, 1, value);
  memcpy(value, image->data + t->address[k], sizeof *value);
  return WAFER_OK;
}

static inline wafer_status store(wafer_fabric *f, uint32_t at, const core_thread *t, float value) {
  const fabric_image *image = &f->images[f->cores[at].router];
  uint64_t mask, *bits = bits_of(&f->cores[at], image, t->address[0], &mask);
  if (!bits) return core_scatter(f, at, t, 1, &value);
  memcpy(image->data + t->address[0], &value, sizeof value);
  *bits |= mask;
  return WAFER_OK;
}

/* The element, of which the words have come. */
static inline wafer_status compute(wafer_fabric *f, uint32_t at, core_thread *t, float in[2]) {
  for (uint32_t k = 1; k <= t->inputs; k++)
    if (!(t->there >> k & 1)) WAFER_TRY(load(f, at, t, k, &in[k - 1]));
  float result = t->adds ? in[0] + in[1] : in[0];
  if (t->there & 1) {
    uint32_t word;
    memcpy(&word, &result, sizeof word);
    fabric_push(f, t->queue[0], word,
                t->done + 1 == t->count ? t->code->control : WAFER_CONTROL_none,
                1 + f->machine->ramp_cycles);
  } else {
    WAFER_TRY(store(f, at, t, result));
  }
  core_go_on(t);
  return WAFER_OK;
}

wafer_status core_quick_element(wafer_fabric *f, uint32_t at, core_thread *t) {
  float in[2] = {0};
  for (uint32_t left = t->there & ~1u; left; left &= left - 1) {
    uint32_t k = (uint32_t)__builtin_ctz(left);
    fabric_node *q = &f->nodes[t->queue[k]];
    memcpy(&in[k - 1], &fabric_front(q)->word, sizeof in[0]);
    fabric_pop(f, q);
  }
  return compute(f, at, t, in);
}

/* Nothing that happens on the core before the send has ended writes what it reads: control waits
 * for it, and at most a patient microthread runs beside it. */
static bool reads_alone(const fabric_core *core, const core_thread *t, uint32_t n) {
  uint32_t self = 1u << t->code->thread, others = core->running & ~self;
  if (core->state != CORE_JOIN || core->joined != t->code->thread || core->sending != self)
    return false;
  if (!others) return true;
  if (!core->patient || others != 1u << (core->patient - 1)) return false;
  int64_t first = t->address[1], last = first + (int64_t)(n - 1) * t->stride[1];
  return (first < last ? last : first) + 4 <= core->kept[0] ||
         (first < last ? first : last) >= core->kept[1];
}

uint32_t core_burst(wafer_fabric *f, uint32_t at, const core_thread *t) {
  const fabric_node *q = &f->nodes[t->queue[0]];
  uint32_t n = core_run_left(t), room = q->capacity - q->count;
  if (f->faults || q->flags & FABRIC_PUSH_FLAGS) return 1;
  if (n > room) n = room;
  if (n <= 1 || !reads_alone(&f->cores[at], t, n)) return 1;
  for (uint32_t i = 1; i < n; i++)
    if (fabric_wait_for(f, q, q->count + i) > i) n = i;
  return core_run_there(f, at, t, 1, n) ? n : 1;
}

void core_quick_burst(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t n) {
  const fabric_burst burst = {.from = f->images[f->cores[at].router].data + t->address[1],
                              .stride = t->stride[1],
                              .words = n,
                              .delay = 1 + f->machine->ramp_cycles,
                              .control =
                                  t->done + n == t->count ? t->code->control : WAFER_CONTROL_none};
  fabric_push_burst(f, t->queue[0], &burst);
  core_advance(t, n);
}

/* The words of a send that reads alone, all of them, if each has room in its cycle, `ahead` and
 * more cycles from now. */
static bool push_all(wafer_fabric *f, uint32_t at, const core_thread *t, uint32_t ahead) {
  fabric_node *q = &f->nodes[t->queue[0]];
  fabric_site *site = &f->sites[t->queue[0]];
  const fabric_image *image = &f->images[f->cores[at].router];
  uint32_t n = t->count, before = q->count, first = q->head + before;
  uint64_t from = (uint64_t)t->address[1], mask = n < 16 ? (1ull << 4 * n) - 1 : UINT64_MAX;
  if (n > q->capacity - before) return false;
  bool in_line = n <= 16 && t->stride[1] == 4 && from % 64 + 4 * n <= 64 && !(from & 1) &&
                 from < image->bytes && 4 * n <= image->bytes - from;
  const uint64_t *written = (const uint64_t *)(image->data + image->bytes) + from / 64;
  if (!(in_line && !(~*written >> from % 64 & mask)) && !core_run_there(f, at, t, 1, n))
    return false;
  if (first >= q->capacity) first -= q->capacity;
  fabric_entry *entries = fabric_entry_at(q, 0), *slot = NULL;
  for (uint32_t i = 0, k = first; i < n; i++, k = k + 1 == q->capacity ? 0 : k + 1)
    if (fabric_until(entries[k].stamp, (uint32_t)f->now) > ahead + i) return false;
  uint32_t delay = 1 + f->machine->ramp_cycles + ahead + site->late;
  const unsigned char *word = image->data + from;
  for (uint32_t i = 0, k = first; i < n; i++, k = k + 1 == q->capacity ? 0 : k + 1) {
    slot = &entries[k];
    memcpy(&slot->word, word, sizeof slot->word);
    slot->stamp = fabric_stamp(f->now + delay + i);
    word += t->stride[1];
  }
  slot->control = t->code->control & 3;
  site->used = true;
  f->stats.hops += (uint64_t)n * site->far;
  q->count = (uint16_t)(before + n);
  if (!before) router_ask(f, q, delay);
  return true;
}

void core_send_ahead(wafer_fabric *f, uint32_t at, core_thread *t) {
  fabric_core *core = &f->cores[at];
  uint64_t start = t->ready, end = start + t->count;
  bool sends = t->quick && t->there == 1 && !t->adds && t->count && t->inner == t->count;
  if (!f->single || f->plain || f->faults || f->entered || !sends || t->waits) return;
  if (f->nodes[t->queue[0]].flags & FABRIC_PUSH_FLAGS || core->busy[CORE_SENDS] > start) return;
  if (!reads_alone(core, t, t->count) || !push_all(f, at, t, (uint32_t)(start - f->now))) return;
  t->done = t->count;
  f->stats.elements += t->count;
  if (core->ahead) core_count_ahead(core);
  core->ahead_from = start;
  core->ahead = t->count;
  core->busy[CORE_SENDS] = end;
  if (core->finish < end) core->finish = end;
  core->turn[CORE_SENDS] = (uint8_t)(t->code->thread + 1);
  core_end_instruction(core, t, end);
}

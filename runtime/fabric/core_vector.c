/* Vector instructions: set-up, and the timing of a step: as many elements as the rate gives in a
 * cycle, or one element in several; with operands on the fabric, those of a wavelet. */
#include "core_value.h"

const uint8_t core_op_inputs[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = inputs,
#include "wafer/core_ops.def"
};

static const uint8_t op_rate[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = WAFER_RATE_##rate,
#include "wafer/core_ops.def"
};

/* The operand whose width the rate follows: the first input, of a selection the first that may be
 * its result. */
static uint32_t timed_bits(const wafer_instruction *code) {
  bool selects = code->op == WAFER_CORE_select ||
                 (code->op == WAFER_CORE_apply && code->function == WAFER_OP_select);
  return wafer_dtype_bits(code->in[selects].dtype);
}

const wafer_throughput *core_rate(const wafer_machine *machine, const wafer_instruction *code) {
  uint32_t rate = code->op == WAFER_CORE_apply ? wafer_op_get((wafer_op)code->function)->rate
                                               : op_rate[code->op];
  return &machine->rate[rate][timed_bits(code) <= 16];
}

/* Of the same direction: on a way of a core to itself the queue out and the queue in may be one
 * (fabric_merge.c), and who takes from it does not wait for who sends. */
static bool shares_queue(const core_thread *a, const core_thread *b) {
  if (a->there & b->there & 1u && a->queue[0] == b->queue[0]) return true;
  for (uint32_t i = a->there & ~1u; i; i &= i - 1)
    for (uint32_t k = b->there & ~1u; k; k &= k - 1)
      if (a->queue[__builtin_ctz(i)] == b->queue[__builtin_ctz(k)]) return true;
  return false;
}

/* Who must end first: the one it names, and whoever uses a queue of its own: those keep the order
 * of issue. */
static uint32_t to_wait_for(const fabric_core *core, const core_thread *t) {
  uint32_t waits = t->code->after ? core->running & 1u << (t->code->after - 1) : 0;
  for (uint32_t left = core->running; left && t->there; left &= left - 1) {
    uint32_t other = (uint32_t)__builtin_ctz(left);
    if (shares_queue(t, &core->threads[other])) waits |= 1u << other;
  }
  return waits;
}

static wafer_status count_elements(const wafer_fabric *f, uint32_t at, core_thread *t) {
  const wafer_instruction *code = t->code;
  t->inner = code->count_reg == WAFER_NO_REGISTER ? code->shape[3]
                                                  : (uint32_t)f->cores[at].r[code->count_reg];
  uint64_t count = t->inner;
  for (uint32_t level = 0; level < 3 && count <= INT32_MAX; level++) count *= code->shape[level];
  if (count > INT32_MAX)
    return fabric_trap(f, f->cores[at].router,
                       "a vector instruction over %llu elements or more; %d at most",
                       (unsigned long long)count, INT32_MAX);
  t->count = (uint32_t)count;
  return WAFER_OK;
}

static uint32_t double_cost(const wafer_instruction *code) {
  return timed_bits(code) == 64 ? 2 : 1;
}

/* Elements of a step: the rate's, or a wavelet's. */
static uint32_t step_elements(const wafer_machine *m, const core_thread *t) {
  const wafer_throughput *rate = core_rate(m, t->code);
  uint32_t cycles = rate->cycles * double_cost(t->code), most = 0;
  for (uint32_t k = 0; !core_takes_pairs(t->code->op) && k <= core_inputs(t->code); k++)
    if (core_operand(t->code, k)->kind == WAFER_OPERAND_fabric) {
      uint32_t per_wavelet = t->bytes[k] < 4 ? 4u / t->bytes[k] : 1;
      if (per_wavelet > most) most = per_wavelet;
    }
  return most ? most : (rate->elements + cycles - 1) / cycles;
}

/* One f32 at a time, of what costs a core least to emulate. */
static bool is_plain(const wafer_instruction *code) {
  bool plain = code->op == WAFER_CORE_move || code->op == WAFER_CORE_add;
  for (uint32_t k = 0; k <= core_inputs(code); k++) {
    const wafer_operand *o = core_operand(code, k);
    plain &= o->dtype == WAFER_DTYPE_f32 &&
             (o->kind == WAFER_OPERAND_memory || o->kind == WAFER_OPERAND_fabric);
  }
  return plain;
}

void core_decode(const wafer_machine *m, const wafer_core_program *program,
                 const wafer_instruction *code, core_thread *t) {
  uint64_t setup = m->vector_setup_cycles;
  if (code->load_descriptors) setup += m->descriptor_load_cycles;
  *t = (core_thread){.code = code,
                     .ready = setup > 1 ? setup - 1 : 1,
                     .inputs = (uint8_t)core_inputs(code),
                     .state = THREAD_BUSY};
  for (uint32_t k = 0; k <= t->inputs; k++) {
    const wafer_operand *o = core_operand(code, k);
    if (o->kind == WAFER_OPERAND_fabric) {
      t->queue[k] = core_binding(program, o->color, k == 0);
      t->there |= (uint8_t)(1u << k);
    }
    if (o->reg != WAFER_NO_REGISTER) t->moves |= (uint8_t)(1u << k);
    t->bytes[k] = (uint8_t)wafer_dtype_bytes(o->dtype);
    t->address[k] = o->address;
  }
  t->type = (uint8_t)core_class_of(code);
  t->step = step_elements(m, t);
  t->plain = is_plain(code);
  core_quicken(m, t);
}

wafer_status core_issue(wafer_fabric *f, uint32_t at, const wafer_instruction *code) {
  fabric_core *core = &f->cores[at];
  core_thread *t = &core->threads[code->thread];
  *t = core->decoded[code - core->program->code];
  t->ready += f->now;
  WAFER_TRY(count_elements(f, at, t));
  for (uint32_t left = t->there; left; left &= left - 1) {
    uint32_t k = (uint32_t)__builtin_ctz(left);
    t->queue[k] = core->queue[t->queue[k]];
  }
  for (uint32_t left = t->moves; left; left &= left - 1) {
    uint32_t k = (uint32_t)__builtin_ctz(left);
    t->address[k] += core->r[core_operand(code, k)->reg];
  }
  if (t->type == CORE_PAIRS) WAFER_TRY(core_begin_pairs(f, at, t));
  t->keeps = !(t->there & 1) && core_keeps(f, at, t);
  t->waits = to_wait_for(core, t);
  core->running |= 1u << code->thread;
  core->still &= (uint8_t)~(1u << code->thread);
  if (code->op == WAFER_CORE_move && t->there & 1) core->sending |= 1u << code->thread;
  f->moved = true;
  return WAFER_OK;
}

void core_advance(core_thread *t, uint32_t n) {
  const wafer_instruction *code = t->code;
  uint32_t inputs = core_inputs(code);
  t->index[3] += n;
  for (uint32_t k = 0; k <= inputs; k++)
    t->address[k] += (int64_t)n * core_operand(code, k)->stride[3];
  for (uint32_t level = 3, extent = t->inner; level > 0 && t->index[level] == extent; level--) {
    for (uint32_t k = 0; k <= inputs; k++) {
      const int32_t *stride = core_operand(code, k)->stride;
      t->address[k] += stride[level - 1] - (int64_t)extent * stride[level];
    }
    t->index[level] = 0;
    t->index[level - 1]++;
    extent = code->shape[level - 1];
  }
}

/* Reads of memory whose banks collide: banks are 2 bytes wide, half of them answer in a cycle. */
static uint32_t bank_cycles(const wafer_machine *m, const core_thread *t) {
  uint32_t half = m->banks > 1 ? m->banks / 2 : 1, reads = 0;
  uint32_t bank[3];
  bool conflict = false;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++) {
    const wafer_operand *o = core_operand(t->code, k);
    if (o->kind != WAFER_OPERAND_memory || !o->stride[3]) continue;
    bank[reads] = (uint32_t)(t->address[k] >> 1) % half;
    for (uint32_t i = 0; i < reads; i++) conflict |= bank[i] == bank[reads];
    reads++;
  }
  return reads > 2 || conflict;
}

/* Cycles of the rate for a step, what is owed carried over; a wavelet a cycle and operand. */
static uint32_t rate_cycles(const wafer_throughput *rate, core_thread *t, uint32_t elements) {
  uint64_t owed = (uint64_t)elements * rate->cycles * double_cost(t->code) + t->fraction;
  uint64_t cycles = owed / rate->elements, least = 1;
  t->fraction = cycles ? (uint32_t)(owed % rate->elements) : 0;
  for (uint32_t k = 0; t->there && k <= core_inputs(t->code); k++) {
    if (core_operand(t->code, k)->kind != WAFER_OPERAND_fabric) continue;
    uint32_t words = (elements * t->bytes[k] + 3) / 4;
    if (words > least) least = words;
  }
  return (uint32_t)(cycles > least ? cycles : least);
}

uint32_t core_step_cycles(const wafer_machine *m, core_thread *t, uint32_t elements) {
  const wafer_throughput *rate = core_rate(m, t->code);
  uint64_t owed = (uint64_t)elements * rate->cycles + t->fraction, cycles = owed / rate->elements;
  t->fraction = cycles ? (uint32_t)(owed % rate->elements) : 0;
  return (uint32_t)(cycles ? cycles : 1) + bank_cycles(m, t);
}

/* Are there all wavelets of operand k that the step needs? */
static bool words_there(const wafer_fabric *f, const fabric_node *q, uint32_t words,
                        uint64_t *next) {
  if (q->count < words) return false;
  uint32_t wait = fabric_wait_for(f, q, words - 1);
  if (!wait) return true;
  if (f->now + wait < *next) *next = f->now + wait;
  return false;
}

/* Do all wavelets and all room that the step needs exist? */
static bool fabric_ready(const wafer_fabric *f, const core_thread *t, uint32_t elements,
                         uint64_t *next) {
  for (uint32_t k = 0; k <= core_inputs(t->code); k++) {
    if (core_operand(t->code, k)->kind != WAFER_OPERAND_fabric) continue;
    fabric_node *q = &f->nodes[t->queue[k]];
    uint32_t words = (elements * t->bytes[k] + 3) / 4;
    if (k && !words_there(f, q, words, next)) return false;
    if (k) continue;
    uint32_t wait = fabric_room_in(f, q, words);
    if (!wait) continue;
    if (wait == FABRIC_NONE)
      q->awaited = true;
    else if (*next > f->now + wait)
      *next = f->now + wait;
    return false;
  }
  return true;
}

/* Those that wait for it may start `at` the cycle after. */
void core_end_instruction(fabric_core *core, core_thread *t, uint64_t at) {
  t->state = THREAD_FREE;
  t->ready = at;
  for (uint32_t left = core->running; left; left &= left - 1) {
    core_thread *other = &core->threads[__builtin_ctz(left)];
    if (!(other->waits >> t->code->thread & 1)) continue;
    other->waits &= ~(1u << t->code->thread);
    if (other->ready < at) other->ready = at;
  }
  core->running &= ~(1u << t->code->thread);
  core->sending &= core->running;
  if (!t->code->then) return;
  core->activated |= 1u << (t->code->then - 1);
  core->due |= 1u << (t->code->then - 1);
  if (core->due_at < at) core->due_at = at;
}

/* ---- the fast path ---- */

/* Every element is in the data and, of inputs, written before: nothing can trap on the way. */
static bool all_there(const wafer_fabric *f, uint32_t at, const core_thread *t) {
  core_thread look = *t;
  for (uint32_t n; look.done < look.count; look.done += n) {
    n = core_run_left(&look);
    for (uint32_t k = 0; k <= core_inputs(t->code); k++)
      if (core_operand(t->code, k)->kind == WAFER_OPERAND_memory &&
          !core_run_there(f, at, &look, k, n))
        return false;
    core_advance(&look, n);
  }
  return true;
}

/* The banks that two inputs read from are as far apart at every element. */
static bool steady_banks(const core_thread *t) {
  const wafer_operand *first = NULL;
  uint32_t reads = 0;
  for (uint32_t k = 1; k <= core_inputs(t->code); k++) {
    const wafer_operand *o = core_operand(t->code, k);
    if (o->kind != WAFER_OPERAND_memory || !o->stride[3]) continue;
    reads++;
    for (uint32_t level = 0; first && level < WAFER_LEVELS; level++)
      if (t->code->shape[level] > 1 && o->stride[level] != first->stride[level]) return reads > 2;
    first = o;
  }
  return true;
}

/* Cycles of the steps that are left: as one after another would count them. */
static uint64_t all_cycles(const wafer_fabric *f, const core_thread *t) {
  const wafer_throughput *rate = core_rate(f->machine, t->code);
  core_thread look = *t;
  uint64_t cycles = 0;
  uint32_t left = t->count - t->done;
  bool whole = rate->elements == 1 || rate->cycles * double_cost(t->code) == 1;
  if (whole && !t->fraction && steady_banks(t)) {
    uint64_t steps = left / t->step;
    cycles = steps * (rate_cycles(rate, &look, t->step) + bank_cycles(f->machine, t));
    left %= t->step;
    return left ? cycles + rate_cycles(rate, &look, left) + bank_cycles(f->machine, t) : cycles;
  }
  for (uint32_t n; left; left -= n) {
    n = left < t->step ? left : t->step;
    cycles += rate_cycles(rate, &look, n) + bank_cycles(f->machine, &look);
    for (uint32_t done = 0, run; done < n; done += run) {
      run = n - done < core_run_left(&look) ? n - done : core_run_left(&look);
      core_advance(&look, run);
    }
  }
  return cycles;
}

/* Alone on its core, over memory: each of its steps follows the one before, for control waits for
 * the arithmetic; so all of them are one. */
static bool goes_at_once(const wafer_fabric *f, uint32_t at, const core_thread *t) {
  return !t->there && f->cores[at].running == 1u << t->code->thread &&
         t->count - t->done > t->step && all_there(f, at, t);
}

#define LONG_SEND 64 /* words that are worth a try always */

/* A send as a train. Where the links are busy most tries are in vain: short sends try less often
 * the more of them were, up to one of 64. */
static wafer_status try_train(wafer_fabric *f, uint32_t at, core_thread *t, bool *went) {
  fabric_core *core = &f->cores[at];
  bool is_send = t->there == 1 && !t->adds, is_short = t->count < LONG_SEND;
  if (f->single || t->done || !is_send) return WAFER_OK;
  if (is_short && core->pause) {
    core->pause--;
    return WAFER_OK;
  }
  WAFER_TRY(fabric_train(f, at, t, went));
  if (f->deferred) return WAFER_OK;
  core->refused = *went ? 0 : core->refused < 6 ? core->refused + 1 : 6;
  core->pause = (uint8_t)((1u << core->refused) - 1);
  return WAFER_OK;
}

/* One element, of a microthread that is quick; of a send as many as can go at once. */
static wafer_status quick_step(wafer_fabric *f, uint32_t at, core_thread *t, core_unit unit,
                               bool *stepped, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  if (!core_quick_ready(f, core, t, next)) return WAFER_OK;
  WAFER_TRY(try_train(f, at, t, stepped));
  if (*stepped || f->deferred) return WAFER_OK;
  uint32_t n = t->there == 1 && !t->adds && !f->plain ? core_burst(f, at, t) : 1;
  if (n > 1)
    core_quick_burst(f, at, t, n);
  else
    WAFER_TRY(core_quick_element(f, at, t));
  t->done += n;
  f->stats.elements += n;
  *stepped = true;
  core->busy[unit] = f->now + n;
  if (core->finish < f->now + n) core->finish = f->now + n;
  if (t->done == t->count) core_end_instruction(core, t, f->now + n);
  return WAFER_OK;
}

static wafer_status step_pairs(wafer_fabric *f, uint32_t at, core_thread *t, core_unit unit,
                               bool *stepped, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  bool over;
  uint32_t cost;
  WAFER_TRY(core_step_pairs(f, at, t, stepped, &over, &cost, next));
  uint64_t end = f->now + cost;
  if (*stepped) core->busy[unit] = end;
  if ((*stepped || over) && core->finish < end) core->finish = end;
  if (!over) return WAFER_OK;
  core_end_instruction(core, t, end);
  if (end < *next) *next = end;
  return WAFER_OK;
}

wafer_status core_step(wafer_fabric *f, uint32_t at, core_thread *t, core_unit unit, bool *stepped,
                       uint64_t *next) {
  fabric_core *core = &f->cores[at];
  *stepped = false;
  if (t->waits) return WAFER_OK;
  if (t->ready > f->now) {
    if (t->ready < *next) *next = t->ready;
    return WAFER_OK;
  }
  if (t->type == CORE_PAIRS) return step_pairs(f, at, t, unit, stepped, next);
  if (t->quick && t->count) return quick_step(f, at, t, unit, stepped, next);
  uint64_t cost = 1;
  if (t->count) {
    uint32_t left = t->count - t->done, elements = t->step < left ? t->step : left;
    if (t->there && !fabric_ready(f, t, elements, next)) return WAFER_OK;
    if (goes_at_once(f, at, t)) {
      cost = all_cycles(f, t);
      elements = left;
    } else {
      cost = rate_cycles(core_rate(f->machine, t->code), t, elements) + bank_cycles(f->machine, t);
    }
    WAFER_TRY(core_compute(f, at, t, elements, (uint32_t)cost));
    t->done += elements;
    f->stats.elements += elements;
  }
  *stepped = true;
  core->busy[unit] = f->now + cost;
  if (core->finish < core->busy[unit]) core->finish = core->busy[unit];
  if (t->done == t->count) core_end_instruction(core, t, core->busy[unit]);
  return WAFER_OK;
}

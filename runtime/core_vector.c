/* Vector instructions: set-up, and the timing of a step: as many elements as the rate gives in a
 * cycle, or one element in several; operands on the fabric allow 32 bits a cycle. */
#include "fabric_state.h"

static const uint8_t op_inputs[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = inputs,
#include "wafer/core_ops.def"
};

static const uint8_t op_rate[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = WAFER_RATE_##rate,
#include "wafer/core_ops.def"
};

static const wafer_operand *operand(const wafer_instruction *code, uint32_t k) {
  return k ? &code->in[k - 1] : &code->out;
}

static bool shares_queue(const core_thread *a, const core_thread *b) {
  for (uint32_t i = 0; i <= op_inputs[a->code->op]; i++)
    for (uint32_t k = 0; k <= op_inputs[b->code->op]; k++)
      if (operand(a->code, i)->kind == WAFER_OPERAND_fabric &&
          operand(b->code, k)->kind == WAFER_OPERAND_fabric && a->queue[i] == b->queue[k])
        return true;
  return false;
}

/* Who must end first: the one it names, and whoever uses a queue of its own: those keep the order
 * of issue. */
static uint32_t to_wait_for(const fabric_core *core, const core_thread *t) {
  uint32_t waits = t->code->after ? core->running & 1u << (t->code->after - 1) : 0;
  for (uint32_t left = core->running; left; left &= left - 1) {
    uint32_t other = (uint32_t)__builtin_ctz(left);
    if (shares_queue(t, &core->threads[other])) waits |= 1u << other;
  }
  return waits;
}

wafer_status core_issue(wafer_fabric *f, uint32_t at, const wafer_instruction *code) {
  fabric_core *core = &f->cores[at];
  core_thread *t = &core->threads[code->thread];
  uint64_t setup = f->machine->vector_setup_cycles;
  if (code->load_descriptors) setup += f->machine->descriptor_load_cycles;
  t->code = code;
  t->done = t->fraction = 0;
  t->ready = f->now + (setup > 1 ? setup - 1 : 1);
  t->inner =
      code->count_reg == WAFER_NO_REGISTER ? code->shape[3] : (uint32_t)core->r[code->count_reg];
  uint64_t count = t->inner;
  for (uint32_t level = 0; level < 3 && count <= INT32_MAX; level++) count *= code->shape[level];
  if (count > INT32_MAX)
    return fabric_trap(f, at, "a vector instruction over %llu elements or more; %d at most",
                       (unsigned long long)count, INT32_MAX);
  t->count = (uint32_t)count;
  for (uint32_t k = 0; k <= op_inputs[code->op]; k++) {
    const wafer_operand *o = operand(code, k);
    if (o->kind == WAFER_OPERAND_fabric) t->queue[k] = core_queue(core, o->color, k == 0);
    t->address[k] = o->address + (int64_t)(o->reg == WAFER_NO_REGISTER ? 0 : core->r[o->reg]);
  }
  t->waits = to_wait_for(core, t);
  t->state = THREAD_BUSY;
  core->running |= 1u << code->thread;
  if (code->op == WAFER_CORE_move && code->out.kind == WAFER_OPERAND_fabric)
    core->sending |= 1u << code->thread;
  f->moved = true;
  return WAFER_OK;
}

/* 16-bit types, and what the rate's table calls them. */
static bool narrow(const wafer_instruction *code) {
  return wafer_dtype_bits(code->in[0].dtype) <= 16;
}

/* Elements of the next step: the rate's, fewer on the fabric and at the end. */
static uint32_t step_elements(const wafer_throughput *rate, const core_thread *t) {
  uint32_t elements = (rate->elements + rate->cycles - 1) / rate->cycles;
  for (uint32_t k = 0; k <= op_inputs[t->code->op]; k++) {
    const wafer_operand *o = operand(t->code, k);
    uint32_t per_wavelet = 32 / wafer_dtype_bits(o->dtype);
    if (o->kind == WAFER_OPERAND_fabric && per_wavelet != elements)
      elements = per_wavelet == 2 && elements > 2 ? 2
                 : elements < per_wavelet         ? elements
                                                  : per_wavelet;
  }
  uint32_t left = t->count - t->done;
  return elements < left ? elements : left;
}

/* Reads of memory whose banks collide: banks are 2 bytes wide, half of them answer in a cycle. */
static uint32_t bank_cycles(const wafer_machine *m, const core_thread *t) {
  uint32_t half = m->banks > 1 ? m->banks / 2 : 1, reads = 0;
  uint32_t bank[3];
  bool conflict = false;
  for (uint32_t k = 1; k <= op_inputs[t->code->op]; k++) {
    const wafer_operand *o = operand(t->code, k);
    if (o->kind != WAFER_OPERAND_memory || !o->stride[3]) continue;
    bank[reads] = (uint32_t)(t->address[k] >> 1) % half;
    for (uint32_t i = 0; i < reads; i++) conflict |= bank[i] == bank[reads];
    reads++;
  }
  return reads > 2 || conflict;
}

static uint32_t step_cycles(const wafer_fabric *f, const wafer_throughput *rate, core_thread *t,
                            uint32_t elements) {
  uint64_t owed = (uint64_t)elements * rate->cycles + t->fraction;
  uint64_t cycles = owed / rate->elements;
  t->fraction = cycles ? (uint32_t)(owed % rate->elements) : 0;
  return (uint32_t)(cycles ? cycles : 1) + bank_cycles(f->machine, t);
}

/* Do all wavelets and all room that the step needs exist? */
static bool fabric_ready(const wafer_fabric *f, const core_thread *t, uint64_t *next) {
  for (uint32_t k = 0; k <= op_inputs[t->code->op]; k++) {
    if (operand(t->code, k)->kind != WAFER_OPERAND_fabric) continue;
    const fabric_node *q = &f->nodes[t->queue[k]];
    if (k == 0) {
      if (!fabric_has_room(f, q)) {
        if (q->count<q->capacity && * next> f->now + 1) *next = f->now + 1;
        return false;
      }
      continue;
    }
    if (!q->count) return false;
    uint32_t wait = fabric_wait(f, q);
    if (!wait) continue;
    if (f->now + wait < *next) *next = f->now + wait;
    return false;
  }
  return true;
}

/* Those that wait for it may start `at` the cycle after. */
static void end_instruction(fabric_core *core, core_thread *t, uint64_t at) {
  t->state = THREAD_FREE;
  for (uint32_t left = core->running; left; left &= left - 1) {
    core_thread *other = &core->threads[__builtin_ctz(left)];
    if (!(other->waits >> t->code->thread & 1)) continue;
    other->waits &= ~(1u << t->code->thread);
    if (other->ready < at) other->ready = at;
  }
  core->running &= ~(1u << t->code->thread);
  core->sending &= core->running;
  if (t->code->then) core->activated |= 1u << (t->code->then - 1);
}

wafer_status core_step(wafer_fabric *f, uint32_t at, core_thread *t, core_unit unit, bool *stepped,
                       uint64_t *next) {
  fabric_core *core = &f->cores[at];
  *stepped = false;
  const wafer_instruction *code = t->code;
  if (t->waits) return WAFER_OK;
  if (t->ready > f->now) {
    if (t->ready < *next) *next = t->ready;
    return WAFER_OK;
  }
  uint32_t cost = 1;
  if (t->count) {
    if (!fabric_ready(f, t, next)) return WAFER_OK;
    const wafer_throughput *rate = &f->machine->rate[op_rate[code->op]][narrow(code)];
    uint32_t elements = step_elements(rate, t);
    cost = step_cycles(f, rate, t, elements);
    WAFER_TRY(core_compute(f, at, t, elements, cost));
    t->done += elements;
    f->stats.elements += elements;
  }
  *stepped = true;
  core->busy[unit] = f->now + cost;
  if (core->finish < core->busy[unit]) core->finish = core->busy[unit];
  if (t->done == t->count) end_instruction(core, t, core->busy[unit]);
  return WAFER_OK;
}

/* Sparse wavelets: `compress` sends the elements of a vector that are not zero, each as a pair of
 * its 16-bit index and its value; `axpy` multiplies with each pair that comes runs of memory and
 * adds them to others. A value of 16 bits shares the wavelet with its index, one of 32 bits has a
 * second. Index 65535 ends the pairs, so that nobody has to know how many there are.
 *
 * Zeros cost their sender the cycle in which it sees them, and nobody else anything. A pair is set
 * up as an instruction of its own would be, its descriptors being in registers; meanwhile other
 * microthreads compute. Its runs, once begun, go to their end: a task that a wavelet starts is not
 * interrupted. */
#include <string.h>

#include "core_value.h"

#define END_OF_PAIRS 0xffffu

/* Of a microthread that executes one of these. */
enum { AWAITS_INDEX, AWAITS_VALUE, RUNS };
#define PHASE index[0]
#define PAIR_INDEX index[1]
#define PAIR_VALUE index[2]

bool core_takes_pairs(uint8_t op) {
  return op == WAFER_CORE_compress || op == WAFER_CORE_axpy;
}

static bool is_narrow(const core_thread *t, uint32_t k) {
  return wafer_dtype_bits((wafer_dtype)core_operand(t->code, k)->dtype) == 16;
}

wafer_status core_begin_pairs(wafer_fabric *f, uint32_t at, core_thread *t) {
  if (t->code->op == WAFER_CORE_compress && t->count >= END_OF_PAIRS)
    return fabric_trap(f, f->cores[at].router,
                       "compress has %u elements; a sparse wavelet counts to 65534", t->count);
  if (t->code->op != WAFER_CORE_axpy) return WAFER_OK;
  t->count = 0; /* the pairs say how many */
  f->cores[at].pairs |= (uint8_t)(1u << t->code->thread);
  return WAFER_OK;
}

/* Room for a wavelet in the queue out; if not yet, when to look again. */
static bool has_room(wafer_fabric *f, const core_thread *t, uint64_t *next) {
  fabric_node *q = &f->nodes[t->queue[0]];
  uint32_t wait = fabric_room_in(f, q, 1);
  if (!wait) return true;
  q->awaited |= wait == FABRIC_NONE;
  if (wait != FABRIC_NONE && f->now + wait < *next) *next = f->now + wait;
  return false;
}

static bool take_word(wafer_fabric *f, const core_thread *t, uint32_t *word, uint64_t *next) {
  fabric_node *q = &f->nodes[t->queue[1]];
  uint32_t wait = q->count ? fabric_wait_for(f, q, 0) : 0;
  if (!q->count) return false;
  if (wait) {
    if (f->now + wait < *next) *next = f->now + wait;
    return false;
  }
  *word = fabric_front(q)->word;
  fabric_pop(f, q);
  return true;
}

/* ---- compress ---- */

static void push(wafer_fabric *f, const core_thread *t, uint32_t word, uint32_t control) {
  fabric_push(f, t->queue[0], word, control, 1 + f->machine->ramp_cycles);
}

/* A wavelet, or the zeros up to the next: their cycles in *cost. */
static wafer_status compress(wafer_fabric *f, uint32_t at, core_thread *t, bool *stepped,
                             bool *over, uint32_t *cost, uint64_t *next) {
  uint32_t bits = 0, zeros = 0, narrow = is_narrow(t, 1);
  if (t->PHASE == AWAITS_VALUE) {
    if (!(*stepped = has_room(f, t, next))) return WAFER_OK;
    push(f, t, t->PAIR_VALUE, WAFER_CONTROL_none);
    t->PHASE = AWAITS_INDEX;
    return WAFER_OK;
  }
  for (; t->done < t->count; t->done++, zeros++) {
    core_thread look = *t;
    look.address[1] += (int64_t)t->done * t->code->in[0].stride[3];
    WAFER_TRY(core_gather(f, at, &look, 1, 1, &bits));
    if (narrow ? (bits & 0x7fffu) : (bits & 0x7fffffffu)) break;
  }
  if (zeros) {
    *stepped = true;
    *cost = zeros;
    return WAFER_OK;
  }
  if (!(*stepped = has_room(f, t, next))) return WAFER_OK;
  *over = t->done == t->count;
  uint32_t index = *over ? END_OF_PAIRS : t->done++;
  push(f, t, narrow ? index << 16 | (*over ? 0 : bits) : index,
       *over ? t->code->control : WAFER_CONTROL_none);
  f->stats.elements += !*over;
  if (*over || narrow) return WAFER_OK;
  t->PHASE = AWAITS_VALUE;
  t->PAIR_VALUE = bits;
  return WAFER_OK;
}

/* ---- axpy ---- */

/* The next pair, or the end of them; its set-up keeps nobody else from computing. */
static wafer_status take_pair(wafer_fabric *f, uint32_t at, core_thread *t, uint64_t *next) {
  uint32_t word, setup = f->machine->vector_setup_cycles;
  fabric_core *core = &f->cores[at];
  if (!take_word(f, t, &word, next)) return WAFER_OK;
  f->moved = true;
  bool has_index = t->PHASE == AWAITS_INDEX, narrow = is_narrow(t, 1);
  t->ready = f->now + 1;
  if (has_index) t->PAIR_INDEX = narrow ? word >> 16 : word & 0xffffu;
  if (has_index && t->PAIR_INDEX == END_OF_PAIRS) {
    core->pairs &= (uint8_t)~(1u << t->code->thread);
    if (core->finish < t->ready) core->finish = t->ready;
    core_end_instruction(core, t, t->ready);
  } else if (has_index && !narrow) {
    t->PHASE = AWAITS_VALUE;
  } else {
    t->PAIR_VALUE = narrow ? word & 0xffffu : word;
    t->PHASE = RUNS;
    if (setup > 2) t->ready = f->now + setup - 1;
  }
  if (t->ready < *next) *next = t->ready;
  return WAFER_OK;
}

wafer_status core_take_pairs(wafer_fabric *f, uint32_t at, uint64_t *next) {
  fabric_core *core = &f->cores[at];
  for (uint32_t left = core->pairs; left; left &= left - 1) {
    core_thread *t = &core->threads[__builtin_ctz(left)];
    if (t->waits || t->PHASE == RUNS) continue;
    if (t->ready > f->now) {
      if (t->ready < *next) *next = t->ready;
      continue;
    }
    WAFER_TRY(take_pair(f, at, t, next));
  }
  return WAFER_OK;
}

static float value_of(const core_thread *t) {
  core_lanes wide;
  uint32_t raw = t->PAIR_VALUE;
  core_widen(CORE_F32, (wafer_dtype)t->code->in[0].dtype, &raw, 1, &wide);
  return wide.f[0];
}

/* `n` steps of a level. */
static void advance(core_thread *t, uint32_t level, uint32_t n) {
  for (uint32_t k = 0; k <= 3; k++)
    if (k != 1) t->address[k] += (int64_t)n * core_operand(t->code, k)->stride[level];
}

static wafer_status multiply(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t n) {
  const wafer_instruction *code = t->code;
  core_lanes raw, x, y;
  float a = value_of(t);
  WAFER_TRY(core_gather(f, at, t, 2, n, &raw));
  core_widen(CORE_F32, (wafer_dtype)code->in[1].dtype, &raw, n, &x);
  if (code->in[2].kind == WAFER_OPERAND_memory) {
    WAFER_TRY(core_gather(f, at, t, 3, n, &raw));
    core_widen(CORE_F32, (wafer_dtype)code->in[2].dtype, &raw, n, &y);
  } else {
    for (uint32_t i = 0; i < n; i++) y.f[i] = (float)code->in[2].value;
  }
  for (uint32_t i = 0; i < n; i++) y.f[i] = __builtin_fmaf(a, x.f[i], y.f[i]);
  core_narrow(CORE_F32, &y, n, (wafer_dtype)code->out.dtype, &raw);
  WAFER_TRY(core_scatter(f, at, t, n, &raw));
  advance(t, 3, n);
  f->stats.elements += n;
  return WAFER_OK;
}

/* Where the runs begin that a pair means: its low bits, as many as shape[2] takes, count steps of
 * level 2, the others those of level 1, from the addresses that stood at issue. */
static wafer_status aim(const wafer_fabric *f, uint32_t at, core_thread *t, core_thread *pair) {
  const wafer_instruction *code = t->code;
  uint32_t bits = 0;
  while (bits < 16 && (code->shape[2] - 1) >> bits) bits++;
  uint32_t low = t->PAIR_INDEX & ((1u << bits) - 1), high = t->PAIR_INDEX >> bits;
  if (low >= code->shape[2] || high >= code->shape[1])
    return fabric_trap(f, f->cores[at].router, "axpy takes index %u, outside of its %ux%u runs",
                       t->PAIR_INDEX, code->shape[1], code->shape[2]);
  *pair = *t;
  for (uint32_t k = 0; k <= 3; k++) {
    const int32_t *stride = core_operand(code, k)->stride;
    if (k != 1) pair->address[k] += (int64_t)low * stride[2] + (int64_t)high * stride[1];
  }
  return WAFER_OK;
}

/* All runs of a pair: level 0 counts them, level 3 is one of them. */
static wafer_status run(wafer_fabric *f, uint32_t at, core_thread *t, uint32_t *cost) {
  core_thread pair;
  *cost = 0;
  WAFER_TRY(aim(f, at, t, &pair));
  for (uint32_t r = 0; r < t->code->shape[0]; r++) {
    core_thread line = pair;
    for (uint32_t done = 0, n; done < t->inner; done += n) {
      n = t->step < t->inner - done ? t->step : t->inner - done;
      *cost += core_step_cycles(f->machine, &line, n);
      WAFER_TRY(multiply(f, at, &line, n));
    }
    advance(&pair, 0, 1);
  }
  if (*cost == 0) *cost = 1;
  t->PHASE = AWAITS_INDEX;
  t->ready = f->now + *cost;
  return WAFER_OK;
}

wafer_status core_step_pairs(wafer_fabric *f, uint32_t at, core_thread *t, bool *stepped,
                             bool *over, uint32_t *cost, uint64_t *next) {
  *stepped = *over = false;
  *cost = 1;
  if (t->code->op == WAFER_CORE_compress) return compress(f, at, t, stepped, over, cost, next);
  if (t->PHASE != RUNS) return WAFER_OK;
  *stepped = true;
  return run(f, at, t, cost);
}

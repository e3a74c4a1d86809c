/* Loop nests to instructions.
 *
 * Loops that every operand runs through as one are merged; the four longest become the levels of
 * the descriptors, the others loops of the program around it, whose registers the descriptors add
 * to their addresses. Innermost is the level with the fewest conflicts of memory banks: two reads
 * of one step collide when their addresses are equal modulo half of the banks, and an operand that
 * does not move is not read again. */
#include "program_nest.h"

#include <string.h>

#define FIRST_REGISTER 2 /* 0 and 1 are the core's position */
#define UNROLLED 2       /* iterations: fewer are written out */
#define SCALARS_PER_LOOP 2
#define BANK_BYTES 2

uint32_t nest_loop(nest *n, int64_t extent) {
  n->extent[n->loops] = (uint32_t)extent;
  return n->loops++;
}

static uint32_t last_of(const nest *n) {
  return n->inputs + n->along;
}

static bool moves(const nest_operand *o, uint32_t loop) {
  return o->kind == WAFER_OPERAND_memory && o->stride[loop] != 0;
}

/* ---- Fewer loops ---- */

static void drop(nest *n, uint32_t loop) {
  n->loops--;
  for (uint32_t l = loop; l < n->loops; l++) {
    n->extent[l] = n->extent[l + 1];
    for (uint32_t k = 0; k <= last_of(n); k++) n->at[k].stride[l] = n->at[k].stride[l + 1];
  }
}

/* All operands run through `outer` and `inner` as through one loop. */
static bool joins(const nest *n, uint32_t outer, uint32_t inner) {
  for (uint32_t k = 0; k <= last_of(n); k++) {
    const nest_operand *o = &n->at[k];
    if (o->kind == WAFER_OPERAND_memory &&
        o->stride[outer] != (int64_t)o->stride[inner] * n->extent[inner])
      return false;
  }
  return true;
}

static bool join_one(nest *n) {
  for (uint32_t a = 0; a < n->loops; a++)
    for (uint32_t b = 0; b < n->loops; b++) {
      if (a == b || !joins(n, a, b)) continue;
      n->extent[b] *= n->extent[a];
      drop(n, a);
      return true;
    }
  return false;
}

static void simplify(nest *n) {
  for (uint32_t l = n->loops; l-- > 0;)
    if (n->extent[l] == 1) drop(n, l);
  while (join_one(n)) continue;
}

/* ---- Conflicts ---- */

/* The loops outside the descriptors. */
static uint32_t outside(const nest *n) {
  return n->loops > WAFER_LEVELS ? n->loops - WAFER_LEVELS : 0;
}

static const uint8_t op_rate[WAFER_CORE_VECTORS] = {
#define VECTOR(name, inputs, rate) [WAFER_CORE_##name] = WAFER_RATE_##rate,
#include "wafer/core_ops.def"
};

static wafer_rate rate_of(const nest *n) {
  return n->op == WAFER_CORE_apply ? wafer_op_get(n->function)->rate : (wafer_rate)op_rate[n->op];
}

static const wafer_throughput *throughput(const wafer_machine *m, const nest *n) {
  return &m->rate[rate_of(n)][wafer_dtype_bits((wafer_dtype)n->at[1].dtype) <= 16];
}

/* Elements of a step. */
static uint32_t per_step(const wafer_machine *m, const nest *n) {
  const wafer_throughput *rate = throughput(m, n);
  return (rate->elements + rate->cycles - 1) / rate->cycles;
}

static uint32_t divisor(uint32_t a, uint32_t b) {
  return b ? divisor(b, a % b) : a;
}

/* Of a loop's indices, those with which a step of `*step` elements begins: every how many; `*step`:
 * of the loop around it. Only the first element of a step decides. */
static uint32_t begun_every(uint32_t extent, uint32_t *step) {
  if (*step == 1 || extent < 2) return 1;
  if (*step % extent == 0) {
    *step /= extent;
    return extent;
  }
  uint32_t every = divisor(*step, extent);
  *step = 1;
  return every;
}

/* Of the steps of the nest in 1/4096, those whose reads by a and b fall on the same banks, with
 * `inner` the innermost level and `step` elements in each. */
static uint32_t colliding(const wafer_machine *m, const nest *n, const nest_operand *a,
                          const nest_operand *b, uint32_t inner, uint32_t step) {
  uint32_t around = (m->banks > 1 ? m->banks / 2 : 1) * BANK_BYTES;
  double share[64] = {0}, next[64];
  if (around > WAFER_COUNT(share)) return 0;
  share[(uint32_t)(a->address - b->address) % around] = 1;
  for (uint32_t k = n->loops; k-- > 0;) { /* from the innermost out */
    uint32_t l = k + 1 == n->loops ? inner : k < inner ? k : k + 1;
    if (k < outside(n)) step = 1;
    uint32_t every = begun_every(n->extent[l], &step), turn = n->extent[l] / every;
    uint32_t by = (uint32_t)(a->stride[l] - b->stride[l]) * every % around;
    if (by == 0) continue;
    if (turn > around) turn = around; /* a whole turn visits alike */
    memset(next, 0, sizeof next);
    for (uint32_t i = 0; i < turn; i++)
      for (uint32_t r = 0; r < around; r++) next[(r + i * by) % around] += share[r] / turn;
    memcpy(share, next, sizeof share);
  }
  double all = 0;
  for (uint32_t r = 0; r < BANK_BYTES; r++) all += share[r];
  return (uint32_t)(all * 4096 + 0.5);
}

uint32_t nest_collisions(const wafer_machine *machine, const nest *n) {
  return machine->banks > 1 && n->loops
             ? colliding(machine, n, &n->at[1], &n->at[2], n->loops - 1, 1)
             : 0;
}

/* Cycles more per 4096 steps when `inner` is the innermost level. */
static uint32_t conflicts(const wafer_machine *m, const nest *n, uint32_t inner) {
  const nest_operand *reads[NEST_OPERANDS];
  uint32_t count = 0;
  for (uint32_t k = 1; k <= n->inputs; k++)
    if (moves(&n->at[k], inner)) reads[count++] = &n->at[k];
  if (count > 2) return 4096;
  return count < 2 ? 0 : colliding(m, n, reads[0], reads[1], inner, per_step(m, n));
}

static void swap(nest *n, uint32_t a, uint32_t b) {
  uint32_t extent = n->extent[a];
  n->extent[a] = n->extent[b];
  n->extent[b] = extent;
  for (uint32_t k = 0; k <= last_of(n); k++) {
    int32_t stride = n->at[k].stride[a];
    n->at[k].stride[a] = n->at[k].stride[b];
    n->at[k].stride[b] = stride;
  }
}

static bool is_wired(const nest *n) {
  bool any = false;
  for (uint32_t k = 0; k <= n->inputs; k++) any |= n->at[k].kind == WAFER_OPERAND_fabric;
  return any;
}

static bool reads_its_result(const nest *n) {
  bool any = false;
  for (uint32_t k = 1; k <= n->inputs; k++)
    any |= n->at[0].kind == WAFER_OPERAND_memory && n->at[k].kind == WAFER_OPERAND_memory &&
           n->at[k].address == n->at[0].address &&
           memcmp(n->at[k].stride, n->at[0].stride, n->loops * sizeof n->at[0].stride[0]) == 0;
  return any;
}

/* Goes over terms of one sum. Such loops keep their order: a sum's value shall not depend on how
 * many results a core has. */
static bool adds_up(const nest *n, uint32_t loop) {
  return n->at[0].stride[loop] == 0 && reads_its_result(n);
}

static bool is_last_sum(const nest *n, uint32_t loop) {
  for (uint32_t l = loop + 1; l < n->loops; l++)
    if (adds_up(n, l)) return false;
  return true;
}

/* Longest loops last, but those of a sum among themselves as they were. */
static void sort(nest *n) {
  const nest own = *n;
  uint32_t from[NEST_LOOPS], sums[NEST_LOOPS], count = 0;
  for (uint32_t l = 0; l < n->loops; l++) {
    uint32_t i = l;
    for (; i > 0 && own.extent[from[i - 1]] > own.extent[l]; i--) from[i] = from[i - 1];
    from[i] = l;
    if (adds_up(&own, l)) sums[count++] = l;
  }
  for (uint32_t l = 0, next = 0; l < n->loops && count; l++)
    if (adds_up(&own, from[l])) from[l] = sums[next++];
  for (uint32_t l = 0; l < n->loops; l++) {
    n->extent[l] = own.extent[from[l]];
    for (uint32_t k = 0; k <= last_of(n); k++) n->at[k].stride[l] = own.at[k].stride[from[l]];
  }
}

/* Of the last four loops the one with the fewest conflicts innermost. Returns those conflicts. */
static uint32_t arrange(const wafer_machine *m, nest *n) {
  sort(n);
  if (n->loops == 0) return 0;
  uint32_t inner = n->loops - 1, first = n->loops > WAFER_LEVELS ? n->loops - WAFER_LEVELS : 0;
  uint32_t least = conflicts(m, n, inner);
  if (is_wired(n)) return least; /* sender and receiver keep to one order */
  for (uint32_t l = n->loops - 1; l-- > first;) {
    uint32_t here = conflicts(m, n, l);
    if (here >= least || (adds_up(n, l) && !is_last_sum(n, l))) continue;
    least = here;
    inner = l;
  }
  for (uint32_t l = inner; l + 1 < n->loops; l++) swap(n, l, l + 1);
  return least;
}

/* ---- Cycles ---- */

static uint64_t elements_of(const nest *n, uint32_t from) {
  uint64_t elements = 1;
  for (uint32_t l = from; l < n->loops; l++) elements *= n->extent[l];
  return elements;
}

static bool is_written_out(const nest *n) {
  uint64_t iterations = 1;
  for (uint32_t l = 0; l < outside(n); l++) iterations *= n->extent[l];
  return iterations <= UNROLLED;
}

/* Registers that move bases in the loops outside; an operand that lies as the output does shares
 * the output's. */
static bool lies_alike(const nest *n, uint32_t k) {
  return k > 0 && n->at[k].kind == WAFER_OPERAND_memory &&
         memcmp(n->at[k].stride, n->at[0].stride, n->loops * sizeof n->at[k].stride[0]) == 0;
}

static uint32_t bases_of(const nest *n) {
  uint32_t bases = 0;
  for (uint32_t k = 0; k <= n->inputs; k++) {
    bool any = false;
    for (uint32_t l = 0; l < outside(n); l++) any |= moves(&n->at[k], l);
    bases += any && !lies_alike(n, k);
  }
  return bases;
}

static uint64_t arranged_cycles(const wafer_machine *m, const nest *n, uint32_t conflict) {
  uint64_t elements = elements_of(n, 0), iterations = 1, scalars = 0;
  if (elements == 0) return 0;
  uint64_t cycles = wafer_machine_cycles(m, rate_of(n), (wafer_dtype)n->at[1].dtype, elements) +
                    (elements / per_step(m, n) * conflict + 4095) / 4096;
  for (uint32_t l = 0; l < outside(n); l++) {
    iterations *= n->extent[l];
    scalars += iterations * (bases_of(n) + SCALARS_PER_LOOP);
  }
  uint64_t one = m->vector_setup_cycles - 1;
  if (is_written_out(n)) return cycles + iterations * (one + m->descriptor_load_cycles);
  return cycles + scalars + iterations * one + m->vector_setup_cycles + m->descriptor_load_cycles +
         bases_of(n) + outside(n);
}

uint64_t nest_cycles(const wafer_machine *machine, const nest *n) {
  nest own = *n;
  simplify(&own);
  return arranged_cycles(machine, &own, arrange(machine, &own));
}

/* ---- Instructions ---- */

void program_put(program_code *code, wafer_instruction instruction) {
  if (!WAFER_GROW(code->arena, code->at, code->count, code->room, 32)) {
    code->failed = true;
    return;
  }
  code->at[code->count++] = instruction;
}

static wafer_operand operand_of(const nest *n, uint32_t k, uint8_t base) {
  const nest_operand *from = &n->at[k];
  wafer_operand o = {
      .kind = from->kind, .dtype = from->dtype, .reg = base, .address = from->address};
  o.value = from->value;
  o.color = from->color;
  uint32_t levels = n->loops - outside(n);
  for (uint32_t l = 0; l < levels && from->kind == WAFER_OPERAND_memory; l++)
    o.stride[WAFER_LEVELS - levels + l] = from->stride[outside(n) + l];
  return o;
}

static wafer_instruction vector_of(const nest *n, const uint8_t *base) {
  wafer_instruction code = {.op = (uint8_t)n->op,
                            .load_descriptors = true,
                            .count_reg = WAFER_NO_REGISTER,
                            .function = (uint16_t)n->function,
                            .attrs = n->attrs};
  uint32_t levels = n->loops - outside(n);
  for (uint32_t l = 0; l < WAFER_LEVELS; l++) code.shape[l] = 1;
  for (uint32_t l = 0; l < levels; l++)
    code.shape[WAFER_LEVELS - levels + l] = n->extent[outside(n) + l];
  code.out = operand_of(n, 0, base[0]);
  for (uint32_t k = 1; k <= n->inputs; k++) code.in[k - 1] = operand_of(n, k, base[k]);
  return code;
}

void program_set(program_code *code, uint8_t reg, int32_t value) {
  program_put(code, (wafer_instruction){.op = WAFER_CORE_set, .a = reg, .value = value});
}

void program_plus(program_code *code, uint8_t a, uint8_t b, int32_t value) {
  program_put(code,
              (wafer_instruction){
                  .op = WAFER_CORE_plus, .a = a, .b = b, .c = WAFER_NO_REGISTER, .value = value});
}

uint32_t program_branch(program_code *code, uint8_t a, uint8_t b, uint32_t target) {
  program_put(code, (wafer_instruction){
                        .op = WAFER_CORE_branch, .a = a, .b = b, .target = (uint16_t)target});
  return code->count - 1;
}

/* Every iteration of the loops outside as an instruction of its own. */
static void emit_written_out(program_code *code, const nest *n, uint32_t loop) {
  static const uint8_t none[NEST_OPERANDS] = {WAFER_NO_REGISTER, WAFER_NO_REGISTER,
                                              WAFER_NO_REGISTER, WAFER_NO_REGISTER};
  if (loop == outside(n)) {
    program_put(code, vector_of(n, none));
    return;
  }
  nest here = *n;
  for (uint32_t i = 0; i < n->extent[loop]; i++) {
    emit_written_out(code, &here, loop + 1);
    for (uint32_t k = 0; k <= n->inputs; k++) here.at[k].address += here.at[k].stride[loop];
  }
}

/* An operand's base moves by `stride` with the loop, and back what the loop inside has moved it. */
static void emit_steps(program_code *code, const nest *n, const uint8_t *base, uint32_t loop) {
  for (uint32_t k = 0; k <= n->inputs; k++) {
    if (base[k] == WAFER_NO_REGISTER || lies_alike(n, k)) continue;
    int64_t step = n->at[k].stride[loop];
    if (loop + 1 < outside(n)) step -= (int64_t)n->at[k].stride[loop + 1] * n->extent[loop + 1];
    if (step) program_plus(code, base[k], base[k], (int32_t)step);
  }
}

static void emit_loops(program_code *code, const nest *n, const uint8_t *base, uint32_t counter,
                       uint32_t loop) {
  if (loop == outside(n)) {
    wafer_instruction vector = vector_of(n, base);
    vector.load_descriptors = false;
    program_put(code, vector);
    return;
  }
  uint8_t count = (uint8_t)(counter + 2 * loop);
  program_set(code, count, 0);
  uint32_t top = code->count;
  emit_loops(code, n, base, counter, loop + 1);
  emit_steps(code, n, base, loop);
  program_plus(code, count, count, 1);
  program_branch(code, count, (uint8_t)(count + 1), top);
}

/* Loads the descriptors once, then loops. */
static void emit_looped(program_code *code, const nest *n) {
  uint8_t base[NEST_OPERANDS];
  uint32_t next = FIRST_REGISTER;
  for (uint32_t k = 0; k <= n->inputs && k < NEST_OPERANDS; k++) {
    base[k] = WAFER_NO_REGISTER;
    bool any = false;
    for (uint32_t l = 0; l < outside(n); l++) any |= moves(&n->at[k], l);
    if (any) base[k] = lies_alike(n, k) ? base[0] : (uint8_t)next++;
    if (any && !lies_alike(n, k)) program_set(code, base[k], 0);
  }
  for (uint32_t l = 0; l < outside(n); l++)
    program_set(code, (uint8_t)(next + 2 * l + 1), (int32_t)n->extent[l]);
  wafer_instruction load = vector_of(n, base);
  load.shape[WAFER_LEVELS - 1] = 0;
  program_put(code, load);
  emit_loops(code, n, base, next, 0);
}

void nest_emit(program_code *code, const nest *n) {
  nest own = *n;
  simplify(&own);
  uint32_t conflict = arrange(code->machine, &own);
  if (elements_of(&own, 0) == 0) return;
  while (outside(&own) > 4) { /* more than there are registers for */
    nest part = own;
    drop(&part, 0);
    for (uint32_t i = 0; i < own.extent[0]; i++) {
      nest_emit(code, &part);
      for (uint32_t k = 0; k <= own.inputs; k++) part.at[k].address += own.at[k].stride[0];
    }
    return;
  }
  code->cycles += arranged_cycles(code->machine, &own, conflict);
  if (is_written_out(&own))
    emit_written_out(code, &own, 0);
  else
    emit_looped(code, &own);
}

/* ---- Instructions for loops of others ---- */

uint32_t nest_outside(const wafer_machine *machine, nest *n) {
  simplify(n);
  (void)arrange(machine, n);
  return outside(n);
}

nest nest_inside(const nest *n, uint32_t i) {
  nest part = *n;
  for (uint32_t k = 0; k <= last_of(n); k++) part.at[k].address += (int32_t)i * n->at[k].stride[0];
  drop(&part, 0);
  return part;
}

uint64_t nest_instruction(const wafer_machine *machine, const nest *n,
                          const uint8_t base[NEST_OPERANDS], wafer_instruction *out) {
  uint8_t own[NEST_OPERANDS];
  for (uint32_t k = 0; k < NEST_OPERANDS; k++) {
    bool moved = k <= n->inputs && n->at[k].kind == WAFER_OPERAND_memory && base[k];
    own[k] = moved ? base[k] : WAFER_NO_REGISTER;
  }
  *out = vector_of(n, own);
  out->load_descriptors = false;
  uint32_t conflict = n->loops ? conflicts(machine, n, n->loops - 1) : 0;
  return arranged_cycles(machine, n, conflict) - machine->descriptor_load_cycles;
}

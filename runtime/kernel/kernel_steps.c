/* A multiply-accumulate over a tile, with where its operands lie: which loops are levels of a
 * descriptor, which of them is innermost, and how often two reads of a step fall on one bank. As
 * programs have it (backend/program/program_nest.c, which says what decides): loops that all
 * operands run through as one are merged; the four longest are levels, those of a sum in their
 * order; innermost is the one with the fewest reads that collide, and an operand that does not move
 * is not read again. */
#include <string.h>

#include "kernel_family.h"

#define BANK_BYTES 2
#define PARTS 4096         /* conflicts are counted in these of all steps */
#define SCALARS_PER_LOOP 2 /* counter, branch */
#define ITERATIONS_WRITTEN_OUT 2
#define AROUND_MOST 64

enum { SUM = KERNEL_STEPS_SUM, LEFT = KERNEL_STEPS_LEFT, RIGHT = KERNEL_STEPS_RIGHT };

static void drop(kernel_steps *s, uint32_t loop) {
  s->count--;
  for (uint32_t l = loop; l < s->count; l++) {
    s->extent[l] = s->extent[l + 1];
    for (uint32_t o = 0; o < KERNEL_STEPS_OPERANDS; o++) s->stride[o][l] = s->stride[o][l + 1];
  }
}

static bool joins(const kernel_steps *s, uint32_t outer, uint32_t inner) {
  for (uint32_t o = 0; o < KERNEL_STEPS_OPERANDS; o++)
    if (s->stride[o][outer] != s->stride[o][inner] * s->extent[inner]) return false;
  return true;
}

static bool join_one(kernel_steps *s) {
  for (uint32_t a = 0; a < s->count; a++)
    for (uint32_t b = 0; b < s->count; b++) {
      if (a == b || !joins(s, a, b)) continue;
      s->extent[b] = s->extent[b] * s->extent[a];
      drop(s, a);
      return true;
    }
  return false;
}

/* ---- Conflicts ---- */

static uint32_t outside(const kernel_steps *s) {
  return s->count > KERNEL_LEVELS ? s->count - KERNEL_LEVELS : 0;
}

static int64_t divisor(int64_t a, int64_t b) {
  return b ? divisor(b, a % b) : a;
}

/* Every how many of a loop's indices a step of `*step` elements begins: only its first element
 * decides. */
static int64_t begun_every(int64_t extent, int64_t *step) {
  if (*step == 1) return 1;
  if (*step % extent == 0) {
    *step /= extent;
    return extent;
  }
  int64_t every = divisor(*step, extent);
  *step = 1;
  return every;
}

/* Of the steps, those whose reads by a and b fall on the same banks, with `inner` the innermost
 * level. */
static uint32_t colliding(const wafer_machine *m, const kernel_steps *s, uint32_t a, uint32_t b,
                          uint32_t inner) {
  int64_t elements = s->per_step;
  uint32_t around = (m->banks > 1 ? m->banks / 2 : 1) * BANK_BYTES;
  double share[AROUND_MOST], next[AROUND_MOST], all = 0;
  if (around > AROUND_MOST) return 0;
  memset(share, 0, around * sizeof *share);
  share[(uint32_t)(s->address[a] - s->address[b]) % around] = 1;
  for (uint32_t k = s->count; k-- > 0;) { /* from the innermost out */
    uint32_t l = k + 1 == s->count ? inner : k < inner ? k : k + 1;
    if (k < outside(s)) elements = 1;
    int64_t every = begun_every(s->extent[l], &elements), turns = s->extent[l] / every;
    uint32_t step = (uint32_t)((s->stride[a][l] - s->stride[b][l]) * every) % around;
    uint32_t turn = turns < around ? (uint32_t)turns : around;
    if (step == 0) continue;
    memset(next, 0, around * sizeof *next);
    for (uint32_t r = 0; r < around; r++)
      for (uint32_t i = 0; share[r] > 0 && i < turn; i++)
        next[(r + i * step) % around] += share[r] / turn;
    memcpy(share, next, around * sizeof *share);
  }
  for (uint32_t r = 0; r < BANK_BYTES; r++) all += share[r];
  return (uint32_t)(all * PARTS + 0.5);
}

static uint32_t conflicts(const wafer_machine *m, const kernel_steps *s, uint32_t inner) {
  static const uint32_t order[KERNEL_STEPS_OPERANDS] = {LEFT, RIGHT, SUM};
  uint32_t reads[KERNEL_STEPS_OPERANDS], count = 0;
  for (uint32_t o = 0; o < KERNEL_STEPS_OPERANDS; o++)
    if (s->stride[order[o]][inner]) reads[count++] = order[o];
  if (count > 2) return PARTS;
  return count < 2 ? 0 : colliding(m, s, reads[0], reads[1], inner);
}

/* ---- Order ---- */

static bool adds_up(const kernel_steps *s, uint32_t loop) {
  return s->stride[SUM][loop] == 0;
}

static bool is_last_sum(const kernel_steps *s, uint32_t loop) {
  for (uint32_t l = loop + 1; l < s->count; l++)
    if (adds_up(s, l)) return false;
  return true;
}

/* Longest loops last, but those of a sum among themselves as they were. */
static void sort(kernel_steps *s) {
  const kernel_steps own = *s;
  uint32_t from[KERNEL_NEST_LOOPS], sums[KERNEL_NEST_LOOPS], count = 0;
  for (uint32_t l = 0; l < own.count; l++) {
    uint32_t i = l;
    for (; i > 0 && own.extent[from[i - 1]] > own.extent[l]; i--) from[i] = from[i - 1];
    from[i] = l;
    if (adds_up(&own, l)) sums[count++] = l;
  }
  for (uint32_t l = 0, next = 0; l < own.count && count; l++)
    if (adds_up(&own, from[l])) from[l] = sums[next++];
  for (uint32_t l = 0; l < own.count; l++) {
    s->extent[l] = own.extent[from[l]];
    for (uint32_t o = 0; o < KERNEL_STEPS_OPERANDS; o++) s->stride[o][l] = own.stride[o][from[l]];
  }
}

/* The fewest conflicts of any of the levels as the innermost. */
static uint32_t fewest(const wafer_machine *m, const kernel_steps *s) {
  if (s->count == 0) return 0;
  uint32_t least = conflicts(m, s, s->count - 1);
  for (uint32_t l = s->count - 1; least && l-- > outside(s);) {
    if (adds_up(s, l) && !is_last_sum(s, l)) continue;
    uint32_t here = conflicts(m, s, l);
    if (here < least) least = here;
  }
  return least;
}

/* ---- Cycles ---- */

/* Registers that the loops outside move. */
static uint32_t bases_of(const kernel_steps *s) {
  uint32_t bases = 0;
  for (uint32_t o = 0; o < KERNEL_STEPS_OPERANDS; o++) {
    bool any = false;
    for (uint32_t l = 0; l < outside(s); l++) any |= s->stride[o][l] != 0;
    bases += any;
  }
  return bases;
}

/* Loops outside the descriptors, and what every instruction costs besides its elements. */
static uint64_t overhead(const wafer_machine *m, const kernel_steps *s) {
  uint64_t iterations = 1, scalars = 0, one = m->vector_setup_cycles - 1;
  for (uint32_t l = 0; l < outside(s); l++) {
    iterations = kernel_mul(iterations, (uint64_t)s->extent[l]);
    scalars = kernel_add(scalars, kernel_mul(iterations, bases_of(s) + SCALARS_PER_LOOP));
  }
  if (iterations <= ITERATIONS_WRITTEN_OUT) return iterations * (one + m->descriptor_load_cycles);
  uint64_t before = m->vector_setup_cycles + m->descriptor_load_cycles + bases_of(s) + outside(s);
  return kernel_add(kernel_add(scalars, kernel_mul(iterations, one)), before);
}

void kernel_steps_add(kernel_steps *s, int64_t extent, int64_t sum, int64_t left, int64_t right) {
  if (extent == 1 || s->count == KERNEL_NEST_LOOPS) return;
  s->stride[SUM][s->count] = sum;
  s->stride[LEFT][s->count] = left;
  s->stride[RIGHT][s->count] = right;
  s->extent[s->count++] = extent;
}

uint64_t kernel_steps_cycles(const wafer_machine *m, wafer_dtype dtype, const kernel_steps *steps) {
  kernel_steps s = *steps;
  uint64_t elements = 1;
  while (join_one(&s)) continue;
  sort(&s);
  for (uint32_t l = 0; l < s.count; l++) elements = kernel_mul(elements, (uint64_t)s.extent[l]);
  if (elements == 0) return 0;
  const wafer_throughput *rate = &m->rate[WAFER_RATE_fma][wafer_dtype_bits(dtype) <= 16];
  s.per_step = (rate->elements + rate->cycles - 1) / rate->cycles;
  uint64_t steps_in_all = elements / (uint64_t)s.per_step;
  uint64_t cycles = wafer_machine_cycles(m, WAFER_RATE_fma, dtype, elements);
  cycles = kernel_add(cycles, kernel_mul(steps_in_all, fewest(m, &s)) / PARTS);
  return kernel_add(cycles, overhead(m, &s));
}

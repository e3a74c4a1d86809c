/* Vector work on a core, in cycles.
 *
 * - Vector work: a loop nest is one instruction over up to four levels, further loops are the
 *   program's. descriptor_load + setup - 1 + elements / rate each, in a loop the descriptors once;
 *   from timings of one core: 5124 elements take 5130 cycles with descriptors in registers, 5158
 * when they are loaded. Half a cycle more per element where banks collide every other time, a cycle
 * where they always do. */
#include "kernel_family.h"

uint64_t kernel_vector(const kernel_view *k, wafer_rate rate, wafer_dtype dtype, uint64_t elements,
                       uint64_t run) {
  const wafer_machine *m = k->machine;
  if (elements == 0) return 0;
  if (run == 0) run = 1;
  uint64_t instructions = elements / run + (elements % run != 0);
  uint64_t one = m->vector_setup_cycles + wafer_machine_cycles(m, rate, dtype, run);
  return kernel_add(m->descriptor_load_cycles, kernel_mul(instructions, one));
}

void kernel_nest_tile(kernel_nest *n, const kernel_view *k, uint32_t value, uint32_t from,
                      uint32_t to) {
  for (uint32_t d = from; d < to; d++) kernel_nest_add(n, k->tile[value][d]);
}

#define SCALARS_PER_PASS 4   /* of a loop of the program: two or three bases, counter, branch */
#define SCALARS_PER_LOOP 4   /* before it: the same registers' first values */
#define PASSES_WRITTEN_OUT 2 /* instead of a loop */

/* What instructions cost besides their elements, when `passes` of them are in `loops` loops. */
static uint64_t overhead(const wafer_machine *m, uint64_t passes, uint64_t loops) {
  uint64_t setup = m->vector_setup_cycles > 0 ? m->vector_setup_cycles - 1 : 0;
  if (passes <= PASSES_WRITTEN_OUT) return passes * (setup + m->descriptor_load_cycles);
  uint64_t each = setup + SCALARS_PER_PASS + 1;
  return kernel_add(kernel_mul(passes, each),
                    loops * SCALARS_PER_LOOP + setup + 1 + m->descriptor_load_cycles);
}

uint64_t kernel_nest_cycles(const kernel_view *k, wafer_rate rate, wafer_dtype dtype,
                            const kernel_nest *n) {
  int64_t level[KERNEL_LEVELS] = {1, 1, 1, 1}; /* the longest, in descending order */
  uint64_t elements = 1, passes = 1, loops = 0;
  for (uint32_t i = 0; i < n->count; i++) {
    int64_t extent = n->extent[i];
    elements = kernel_mul(elements, (uint64_t)extent);
    for (uint32_t l = 0; l < KERNEL_LEVELS; l++) {
      if (extent <= level[l]) continue;
      int64_t shorter = level[l];
      level[l] = extent;
      extent = shorter;
    }
    passes = kernel_mul(passes, (uint64_t)extent);
    loops += extent > 1;
  }
  if (elements == 0) return 0;
  uint64_t cycles = wafer_machine_cycles(k->machine, rate, dtype, elements);
  if (k->calm) return kernel_add(cycles, overhead(k->machine, 1, 0));
  const wafer_throughput *step = &k->machine->rate[rate][wafer_dtype_bits(dtype) <= 16];
  uint32_t per_step = (step->elements + step->cycles - 1) / step->cycles;
  if (n->conflicts) cycles = kernel_add(cycles, elements / per_step / 2);
  if (n->squares) cycles = kernel_add(cycles, elements / per_step);
  return kernel_add(cycles, overhead(k->machine, passes, loops));
}

uint64_t kernel_over_tile(const kernel_view *k, wafer_rate rate, wafer_dtype dtype,
                          uint32_t value) {
  kernel_nest n = {0};
  kernel_nest_add(&n, (int64_t)(k->elements[value] < INT64_MAX ? k->elements[value] : INT64_MAX));
  return kernel_nest_cycles(k, rate, dtype, &n);
}

uint64_t kernel_accumulators(const kernel_view *k, uint32_t node) {
  bool pairs = k->sparse != UINT32_MAX && kernel_is_anchor(k, node);
  return kernel_sums_cycles(k, node, pairs ? k->weighed.pairs.kinds : 1);
}

uint64_t kernel_sums_cycles(const kernel_view *k, uint32_t node, uint32_t kinds) {
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_sums(k, result);
  uint64_t cycles = kinds > 1 ? 0 : kernel_over_tile(k, WAFER_RATE_move, dtype, result);
  if (kernel_dtype(k, result) == dtype || kinds == 4 || kernel_bias(k, node)) return cycles;
  return kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_convert, dtype, result));
}

uint64_t kernel_bias(const kernel_view *k, uint32_t node) {
  uint32_t result = kernel_result(k, node);
  if (kernel_node(k, node)->operand_count < 3) return 0;
  if (kernel_is_anchor(k, node) && kernel_reduce_loops(k, 1)) return 0;
  return kernel_over_tile(k, WAFER_RATE_add, kernel_sums(k, result), result);
}

static uint64_t fill_cycles(const kernel_view *k, uint32_t dim, int64_t pad) {
  int64_t others = 1; /* the buffer's: halos and other pads too */
  kernel_nest n = {0};
  if (pad <= 0) return 0;
  for (uint32_t e = 0; e < kernel_type(k, k->windowed)->shape.rank; e++)
    if (e != dim) others = (int64_t)kernel_mul((uint64_t)others, (uint64_t)k->halo[e].reach);
  kernel_nest_add(&n, pad);
  kernel_nest_add(&n, others);
  return kernel_nest_cycles(k, WAFER_RATE_move, kernel_dtype(k, k->windowed), &n);
}

/* Both sides of dims that are whole; of each other one the core in the corner, on one side, before
 * it takes part in the exchange of halos. */
uint64_t kernel_pads(const kernel_view *k) {
  uint32_t value = k->windowed;
  uint64_t all = 0, corner = 0;
  if (value == UINT32_MAX) return 0;
  const wafer_shape *shape = &kernel_type(k, value)->shape;
  for (uint32_t d = 0; d < shape->rank; d++) {
    const kernel_window *w = &k->window[d];
    int loop = k->map[value].loop[d];
    if (w->den != 1 || loop < 0) continue;
    int64_t parts = (int64_t)k->split->rows[loop] * k->split->cols[loop];
    int64_t before = w->before, after = (k->loops.extent[loop] - 1) * w->num + w->after + 1;
    after -= shape->dims[d];
    if (parts > 1)
      corner = kernel_add(corner, fill_cycles(k, d, kernel_most(before, after)));
    else
      all = kernel_add(all, kernel_add(fill_cycles(k, d, before), fill_cycles(k, d, after)));
  }
  return kernel_add(all, kernel_halo_late(k, corner));
}

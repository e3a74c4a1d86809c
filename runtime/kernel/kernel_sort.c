/* Family sort: the order of the elements along one dim.
 *
 * The program makes keys, merges places in log2(n) passes, a place at a time, and makes indices of
 * them; elements of 64 bits are sorted twice, by either word. The dim is never cut, so nothing is
 * exchanged. */
#include "kernel_family.h"

static int64_t axis_of(const wafer_node *node) {
  return wafer_attr_int(&node->attrs, WAFER_ATTR_axis);
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  out->divisible[axis_of(&body->nodes[body->anchor])] = false;
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  (void)i;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (axis_of(n) != (int64_t)d) kernel_map_set(map, d, result, d);
}

/* Instructions of the program: of a pass, of a pair of runs, of two keys that are compared; and
 * what two keys save that are left when the other run has ended. */
enum { PER_PASS = 8, PER_PAIR = 16, PER_TWO = 13, LEFT_TWO = 7 };

uint64_t wafer_sort_cycles(const wafer_machine *m, uint64_t count) {
  uint64_t cycles = 0, run = 1;
  do {
    uint64_t pairs = (count + 2 * run - 1) / (2 * run);
    uint64_t keys = kernel_mul(count, 2ull * m->vector_setup_cycles + PER_TWO) / 2;
    cycles = kernel_add(cycles, kernel_add(keys, PER_PASS));
    cycles += pairs * PER_PAIR - pairs * LEFT_TWO * run / (run + 1);
    run *= 2;
  } while (run < count);
  return cycles;
}

/* What becomes a key, and back: elements of a result. */
static uint64_t keys(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  wafer_dtype x = kernel_dtype(k, n->operands[0]);
  bool real = wafer_dtype_is_float(x), down = wafer_attr_int(&n->attrs, WAFER_ATTR_descending) != 0;
  wafer_dtype word = wafer_dtype_bits(x) == 64 ? WAFER_DTYPE_i64 : WAFER_DTYPE_i32;
  uint64_t steps = (real ? 4 : 0) + down;
  uint64_t cycles = kernel_mul(steps, kernel_over_tile(k, WAFER_RATE_add, word, result));
  if (real) cycles = kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_add, x, result));
  if (!real || wafer_dtype_bits(x) == 16)
    cycles = kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_convert, x, result));
  uint64_t back = kernel_mul(3, kernel_over_tile(k, WAFER_RATE_convert, WAFER_DTYPE_i32, result));
  return kernel_add(cycles, back);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t run = (uint64_t)n->type.shape.dims[axis_of(n)];
  uint64_t rows = kernel_tile_elements(k, kernel_result(k, node)) / (run ? run : 1);
  uint64_t words = wafer_dtype_bits(kernel_dtype(k, n->operands[0])) == 64 ? 2 : 1;
  uint64_t line = kernel_vector(k, WAFER_RATE_move, WAFER_DTYPE_i32, run, run);
  uint64_t row = kernel_add(kernel_mul(words, wafer_sort_cycles(k->machine, run)),
                            kernel_mul(words + 2, line));
  const wafer_machine *m = k->machine;
  uint64_t descriptors = 2 * ((uint64_t)m->vector_setup_cycles + m->descriptor_load_cycles);
  return kernel_add(kernel_add(keys(k, node), descriptors), kernel_mul(rows, row));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t passes = 0;
  for (int64_t run = 1; run < n->type.shape.dims[axis_of(n)]; run *= 2) passes++;
  return passes;
}

/* Keys; of a row: its keys, two lists of places, and the first of them. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t word = wafer_dtype_bytes(WAFER_DTYPE_i32);
  uint64_t key = wafer_dtype_bits(kernel_dtype(k, n->operands[0])) == 64 ? 2 * word : word;
  return kernel_add(kernel_mul(kernel_tile_elements(k, kernel_result(k, node)), key),
                    kernel_mul(4 * word, (uint64_t)n->type.shape.dims[axis_of(n)]));
}

const kernel_family kernel_family_sort = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .operations = operations,
                                          .scratch = scratch};

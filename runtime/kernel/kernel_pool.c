/* Family pool: max and average pooling in any number of spatial dims.
 *
 * The program: the result begins as a copy of the first tap; a vector instruction (max or add) per
 * spatial dim goes over the further taps; an average is scaled by one multiplication per element at
 * the end. What lies outside is filled in, and a cut of a spatial dim exchanges the halo, first.
 * Averages sum in f32. */
#include "kernel_family.h"

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  uint32_t cut = kernel_is_anchor(k, node) ? kernel_node(k, node)->type.shape.rank : 2;
  (void)i;
  for (uint32_t d = 0; d < cut; d++) kernel_map_set(map, d, result, d);
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  const int64_t *strides = wafer_node_ints(n, WAFER_ATTR_strides),
                *pads = wafer_node_ints(n, WAFER_ATTR_pads);
  const int64_t *taps = wafer_node_ints(n, WAFER_ATTR_kernel),
                *dilations = wafer_node_ints(n, WAFER_ATTR_dilations);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    int64_t span = (taps[d - 2] - 1) * dilations[d - 2];
    window[d] = (kernel_window){strides[d - 2], 1, pads[d - 2], span - pads[d - 2]};
  }
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t taps = 1;
  for (uint32_t d = 2; d < n->type.shape.rank; d++)
    taps = kernel_mul(taps, (uint64_t)wafer_node_ints(n, WAFER_ATTR_kernel)[d - 2]);
  return taps;
}

/* Taps of index 0 in the dims before d, and 1 or more in d. Where a loop over taps is one of the
 * longest, which are a descriptor's, it is innermost: then the result does not move. Else both do,
 * and an odd number of channels makes half of the steps meet one bank. */
static uint64_t rest_cycles(const kernel_view *k, uint32_t node, uint32_t d) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), longer = 0;
  const int64_t *taps = wafer_node_ints(n, WAFER_ATTR_kernel);
  kernel_nest nest = {.count = 0};
  kernel_nest_tile(&nest, k, result, 0, n->type.shape.rank);
  int64_t most = taps[d - 2] - 1;
  for (uint32_t e = d + 1; e < n->type.shape.rank; e++) most = kernel_most(most, taps[e - 2]);
  for (uint32_t l = 0; l < nest.count; l++) longer += nest.extent[l] > most;
  nest.conflicts = k->tile[result][1] % 2 && (most < 2 || longer >= KERNEL_LEVELS);
  kernel_nest_add(&nest, taps[d - 2] - 1);
  for (uint32_t e = d + 1; e < n->type.shape.rank; e++) kernel_nest_add(&nest, taps[e - 2]);
  return kernel_nest_cycles(k, WAFER_RATE_add, kernel_dtype(k, n->operands[0]), &nest);
}

/* Windows of dim d that count alike, one behind the other: each that reaches farther outside counts
 * fewer taps. Of a cut dim the core at the border that more windows cross. */
static uint64_t regions_of(const kernel_view *k, uint32_t node, uint32_t d) {
  const wafer_node *n = kernel_node(k, node);
  const kernel_window *w = &k->window[d];
  int64_t extent = kernel_type(k, n->operands[0])->shape.dims[d], all = n->type.shape.dims[d];
  int64_t step = kernel_most(w->num, wafer_node_ints(n, WAFER_ATTR_dilations)[d - 2]);
  int64_t tile = k->tile[kernel_result(k, node)][d];
  int64_t before = kernel_most(w->before, 0);
  int64_t after = kernel_most((all - 1) * w->num + w->after + 1 - extent, 0);
  before = kernel_ceil(before, step), after = kernel_ceil(after, step);
  if (tile < all) before = kernel_most(before, after), after = 0;
  return (uint64_t)kernel_most(kernel_least(before + after + 1, tile), 1);
}

/* Places whose windows count alike are scaled together: those at a border on their own. */
static uint64_t scale_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  uint64_t cycles = kernel_over_tile(k, WAFER_RATE_mul, kernel_sums(k, result), result);
  uint64_t regions = 1;
  if (wafer_attr_int(&n->attrs, WAFER_ATTR_count_include_pad)) return cycles;
  for (uint32_t d = 2; d < n->type.shape.rank && kernel_is_anchor(k, node); d++)
    regions = kernel_mul(regions, regions_of(k, node, d));
  return kernel_add(cycles, kernel_mul(regions - 1, k->machine->vector_setup_cycles +
                                                        k->machine->descriptor_load_cycles));
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_dtype(k, n->operands[0]);
  bool average = n->op == WAFER_OP_average_pool;
  bool widens = average && dtype != kernel_sums(k, result);
  uint64_t cycles =
      kernel_over_tile(k, widens ? WAFER_RATE_convert : WAFER_RATE_move, dtype, result);
  for (uint32_t d = 2; d < n->type.shape.rank; d++)
    if (wafer_node_ints(n, WAFER_ATTR_kernel)[d - 2] > 1)
      cycles = kernel_add(cycles, rest_cycles(k, node, d));
  if (kernel_is_anchor(k, node)) cycles = kernel_add(cycles, kernel_pads(k));
  return average ? kernel_add(cycles, scale_cycles(k, node)) : cycles;
}

const kernel_family kernel_family_pool = {.operand = operand,
                                          .compute = compute,
                                          .fabric = kernel_halo,
                                          .windows = windows,
                                          .operations = operations};

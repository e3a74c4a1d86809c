/* Family pool: max and average pooling in any number of spatial dims.
 *
 * The program: the result begins as a copy of the first tap; for each further tap, and each index
 * but one of the result's tile, one vector instruction (max or add) over its longest local dim; an
 * average is scaled by one multiplication per element at the end. A cut of a spatial dim exchanges
 * the halo first. Averages sum in f32. */
#include "kernel_family.h"

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  uint32_t cut = kernel_is_anchor(k, node) ? kernel_node(k, node)->type.shape.rank : 2;
  (void)i;
  for (uint32_t d = 0; d < cut; d++) kernel_map_set(map, d, result, d);
}

static const int64_t *ints(const wafer_node *node, wafer_attr_id id) {
  uint32_t count;
  return wafer_attr_ints(&node->attrs, id, &count);
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  const int64_t *strides = ints(n, WAFER_ATTR_strides), *pads = ints(n, WAFER_ATTR_pads);
  const int64_t *taps = ints(n, WAFER_ATTR_kernel), *dilations = ints(n, WAFER_ATTR_dilations);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    int64_t span = (taps[d - 2] - 1) * dilations[d - 2];
    window[d] = (kernel_window){strides[d - 2], 1, pads[d - 2], span - pads[d - 2]};
  }
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t taps = 1;
  for (uint32_t d = 2; d < n->type.shape.rank; d++)
    taps = kernel_mul(taps, (uint64_t)ints(n, WAFER_ATTR_kernel)[d - 2]);
  return taps;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_dtype(k, n->operands[0]);
  uint64_t elements = kernel_tile_elements(k, result), taps = operations(k, node);
  uint64_t run = (uint64_t)kernel_longest(k, result, 0, n->type.shape.rank);
  uint64_t cycles =
      kernel_vector(k, WAFER_RATE_add, dtype, kernel_mul(elements, taps - (taps > 1)), run);
  if (n->op != WAFER_OP_average_pool)
    return kernel_add(cycles, kernel_vector(k, WAFER_RATE_move, dtype, elements, run));
  cycles = kernel_add(
      cycles, kernel_vector(k, WAFER_RATE_mul, kernel_type(k, result)->dtype, elements, run));
  return kernel_add(cycles, kernel_accumulators(k, node));
}

const kernel_family kernel_family_pool = {.operand = operand,
                                          .compute = compute,
                                          .fabric = kernel_halo,
                                          .windows = windows,
                                          .operations = operations};

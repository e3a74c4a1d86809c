/* Family sort: the order of the elements along one dim.
 *
 * The program merges: log2(n) passes over the tile, each comparing, and moving values and indices
 * (two words). The dim is never cut, so nothing is exchanged. */
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

static uint64_t passes_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t passes = 0;
  for (int64_t run = 1; run < n->type.shape.dims[axis_of(n)]; run *= 2) passes++;
  return passes;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t elements = kernel_tile_elements(k, kernel_result(k, node));
  uint64_t run = (uint64_t)n->type.shape.dims[axis_of(n)];
  uint64_t pass =
      kernel_add(kernel_vector(k, WAFER_RATE_add, kernel_dtype(k, n->operands[0]), elements, run),
                 kernel_vector(k, WAFER_RATE_move, n->type.dtype, kernel_mul(elements, 2), run));
  return kernel_mul(pass, passes_of(k, node));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  return passes_of(k, node);
}

const kernel_family kernel_family_sort = {
    .loops = loops, .operand = operand, .compute = compute, .operations = operations};

/* Family gemm: matrix products, batched by broadcast.
 *
 * The program is a sum of scaled rows: for each k, and each index but one of the result's tile, one
 * vector multiply-accumulate over the longest local dim of the result (along n: a scalar of A times
 * a row of B; along m: a scalar of B times a column of A; along a batch dim: two vectors). Sums
 * stay in f32. When k is cut, partial sums go down a chain, the tail works at its end, and what it
 * stores is broadcast. */
#include "kernel_family.h"

static int64_t depth_of(const wafer_kernel_body *body, const wafer_node *node) {
  const wafer_shape *a = &wafer_body_type(body, node->operands[0])->shape;
  return a->dims[a->rank - 1];
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  kernel_loop_append(out, depth_of(body, &body->nodes[body->anchor]), true);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *shape = &kernel_type(k, n->operands[i])->shape, *all = &n->type.shape;
  uint32_t summed = i == 0 ? shape->rank - 1 : shape->rank - 2,
           kept = i == 0 ? shape->rank - 2 : shape->rank - 1;
  kernel_map_broadcast(shape, all, result, map);
  map->loop[summed] = -1;
  map->even[summed] = 0;
  if (kernel_is_anchor(k, node)) kernel_map_loop(map, summed, k->loops.parallel);
  kernel_map_set(map, kept, result, i == 0 ? all->rank - 2 : all->rank - 1);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), a = n->operands[0];
  uint64_t summed = (uint64_t)k->tile[a][kernel_type(k, a)->shape.rank - 1];
  uint64_t elements = kernel_mul(kernel_tile_elements(k, result), summed);
  uint64_t run = (uint64_t)kernel_longest(k, result, 0, n->type.shape.rank);
  uint64_t cycles = kernel_vector(k, WAFER_RATE_fma, kernel_dtype(k, a), elements, run);
  return kernel_add(cycles, kernel_accumulators(k, node));
}

static uint64_t fabric(const kernel_view *k) {
  return kernel_reduce_loops(k, kernel_tile_elements(k, kernel_result(k, k->body->anchor)));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  return kernel_mul(2, (uint64_t)depth_of(k->body, kernel_node(k, node)));
}

const kernel_family kernel_family_gemm = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .operations = operations,
                                          .accumulates = true};

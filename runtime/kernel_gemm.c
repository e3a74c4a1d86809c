/* Family gemm: matrix products, batched by broadcast.
 *
 * The program: sums begin at zero, one vector multiply-accumulate goes over the result's tile and
 * what is summed. Sums stay in f32. When k is cut, partial sums go down a chain, the tail works at
 * its end, and what it stores is broadcast. */
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

/* Sums that follow each other in memory change their bank from step to step; where a row of them is
 * odd, rows do, too. */
static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), a = n->operands[0], rank = n->type.shape.rank;
  int64_t columns = k->tile[result][rank - 1];
  kernel_nest nest = {.conflicts = columns > 1 && columns % 2};
  kernel_nest_tile(&nest, k, result, 0, rank);
  kernel_nest_add(&nest, k->tile[a][kernel_type(k, a)->shape.rank - 1]);
  return kernel_add(kernel_nest_cycles(k, WAFER_RATE_fma, kernel_dtype(k, a), &nest),
                    kernel_accumulators(k, node));
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

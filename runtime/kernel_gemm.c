/* Family gemm: matrix products, batched by broadcast.
 *
 * The program: sums begin at zero, one vector multiply-accumulate goes over the result's tile and
 * what is summed. A sparse weight's tile lies as pairs of position and value, in the room of a
 * dense one; each pair is one vector multiply-accumulate of its activations onto its sums (an
 * AXPY), for which both lie with the rows inside. Where that takes longer, the tile is made dense
 * first: short rows do not pay for a pair's set-up. The core with most pairs decides. Sums stay in
 * f32. When k is cut, partial sums go down a chain, the tail works at its end, and what it stores
 * is broadcast. */
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

/* ---- sparse weights ---- */

#define SCALARS_PER_PAIR 6 /* load, end of the row?, bases of activations and sums, count, branch  \
                            */
#define SCALARS_TO_PLACE 3 /* a pair in a dense tile: load, store, branch */

static uint64_t root_of(uint64_t n) { /* rounded up */
  uint64_t low = 0, high = (uint64_t)1 << 32;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (middle * middle >= n)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Pairs of the fullest tile. Before they are counted: the mean and, as the largest of n Poisson
 * numbers, sqrt(2 ln n) deviations. */
static uint64_t pairs_of(const kernel_view *k, uint32_t value) {
  const wafer_sparsity *is = &k->body->sparsity[value];
  uint64_t tile = kernel_tile_elements(k, value), bits = 0;
  int64_t all = 0;
  (void)wafer_shape_elements(&kernel_type(k, value)->shape, &all);
  if (is->fullest || all < 1) return is->fullest;
  for (uint64_t tiles = (uint64_t)all / (tile ? tile : 1); tiles > 1; tiles /= 2) bits++;
  uint64_t mean = (uint64_t)((double)is->nonzeros / (double)all * (double)tile) + 1;
  uint64_t pairs = mean + root_of(mean * 1386 / 1000 * bits);
  if (pairs > tile) pairs = tile;
  return pairs < is->nonzeros ? pairs : is->nonzeros;
}

static bool is_sparse(const kernel_view *k, uint32_t value) {
  return value < k->body->input_count && k->body->sparsity && k->body->sparsity[value].sparse;
}

/* One operand's pairs, each over the result's rows (columns, where it is the left one); at most
 * what the dense product takes with the zeros put in place. */
static uint64_t sparse_cycles(const kernel_view *k, uint32_t node, uint32_t i, uint64_t dense) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t weight = n->operands[i], result = kernel_result(k, node), rank = n->type.shape.rank;
  int64_t kept = k->tile[result][i == 0 ? rank - 2 : rank - 1];
  uint64_t rows = kept > 0 ? kernel_tile_elements(k, result) / (uint64_t)kept : 0;
  uint64_t pairs = pairs_of(k, weight), setup = k->machine->vector_setup_cycles;
  uint64_t axpy = wafer_machine_cycles(k->machine, WAFER_RATE_fma, kernel_dtype(k, weight), rows);
  uint64_t each = kernel_add(axpy, setup + SCALARS_PER_PAIR);
  uint64_t sparse = kernel_add(kernel_mul(pairs, each), k->machine->descriptor_load_cycles);
  uint64_t cleared = kernel_over_tile(k, WAFER_RATE_move, kernel_dtype(k, weight), weight);
  uint64_t placed = kernel_add(cleared, kernel_mul(pairs, SCALARS_TO_PLACE));
  dense = kernel_add(dense, placed);
  return sparse < dense ? sparse : dense;
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
  uint64_t cycles = kernel_nest_cycles(k, WAFER_RATE_fma, kernel_dtype(k, a), &nest);
  for (uint32_t i = 2; i-- > 0;)
    if (is_sparse(k, n->operands[i])) {
      cycles = sparse_cycles(k, node, i, cycles);
      break;
    }
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

/* Family gemm: matrix products, batched by broadcast.
 *
 * The program: sums begin at zero, one vector multiply-accumulate goes over the result's tile and
 * what is summed; or each pair of a sparse weight is one (an AXPY) of its activations onto its
 * sums, for which both lie with the rows inside. Sums stay in f32. When k is cut, partial sums go
 * down a chain, the tail works at its end, and what it stores is broadcast. */
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

#define BANK_TURN 8 /* bytes */

/* Of WAFER_STEPS, those that read twice from one bank where one read moves so many bytes more than
 * the other from run to run. */
static uint32_t collisions_of(uint64_t bytes) {
  bytes %= BANK_TURN;
  return bytes == 0 ? 0 : bytes == BANK_TURN / 2 ? WAFER_STEPS / 2 : WAFER_STEPS / 4;
}

/* Rows of a core are one run of memory, which begins at a whole turn of the banks
 * (wafer_pairs_stride), but where it is one element. */
static wafer_run run_of(const kernel_view *k, uint32_t weight, uint64_t length) {
  uint64_t bytes = wafer_dtype_bytes(kernel_dtype(k, weight));
  return (wafer_run){1, 1, length, length > 1 ? 0 : collisions_of(bytes)};
}

/* Sums of shorter runs, so many elements apart, move by other bytes than what is narrower. */
static wafer_run runs_of(const kernel_view *k, uint32_t weight, uint32_t result, uint64_t rows,
                         uint64_t length, uint64_t apart) {
  uint64_t bytes = wafer_dtype_bytes(kernel_dtype(k, weight));
  uint64_t sum = wafer_dtype_bytes(kernel_sums(k, result));
  return (wafer_run){1, rows, length, collisions_of(apart * (sum > bytes ? sum - bytes : 0))};
}

/* Where a dim does not divide by its parts, those of the last part are a shorter run for each index
 * of the dims around it. */
static uint64_t border_cycles(const kernel_view *k, uint32_t weight, uint32_t result, uint32_t kept,
                              const wafer_pairs *pairs) {
  const wafer_shape *shape = &kernel_type(k, result)->shape;
  uint64_t around = 1, most = 0, all = kernel_tile_elements(k, result);
  all /= (uint64_t)kernel_most(k->tile[result][kept], 1);
  for (uint32_t d = 0; d < shape->rank; d++) {
    int64_t tile = k->tile[result][d];
    if (d == kept || tile < 1) continue;
    uint64_t last = (uint64_t)(shape->dims[d] % tile), inside = all / around / (uint64_t)tile;
    wafer_run run = runs_of(k, weight, result, around, last * inside, (uint64_t)tile * inside);
    uint64_t cycles = wafer_pairs_cycles(k->machine, pairs, kernel_dtype(k, weight), &run);
    if (last && around > 1 && cycles > most) most = cycles;
    around = kernel_mul(around, (uint64_t)tile);
  }
  return most;
}

/* One operand's pairs, each over the result's rows (columns, where it is the left one). Sums are
 * cleared while the descriptors of the first pairs load. */
static uint64_t sparse(const kernel_view *k, uint32_t node, uint32_t i, const wafer_pairs *pairs) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t weight = n->operands[i], result = kernel_result(k, node), rank = n->type.shape.rank;
  uint32_t kept = i == 0 ? rank - 2 : rank - 1;
  uint64_t columns = (uint64_t)kernel_most(k->tile[result][kept], 1);
  wafer_run run = run_of(k, weight, kernel_tile_elements(k, result) / columns);
  uint64_t inside = wafer_pairs_cycles(k->machine, pairs, kernel_dtype(k, weight), &run);
  uint64_t border = border_cycles(k, weight, result, kept, pairs);
  return inside > border ? inside : border;
}

/* Sums that follow each other in memory change their bank from step to step; where a row of them is
 * odd, rows do, too. */
static uint64_t dense(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), a = n->operands[0], rank = n->type.shape.rank;
  int64_t columns = k->tile[result][rank - 1];
  kernel_nest nest = {.conflicts = columns > 1 && columns % 2};
  kernel_nest_tile(&nest, k, result, 0, rank);
  kernel_nest_add(&nest, k->tile[a][kernel_type(k, a)->shape.rank - 1]);
  return kernel_nest_cycles(k, WAFER_RATE_fma, kernel_dtype(k, a), &nest);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  return kernel_add(kernel_multiply(k, node), kernel_accumulators(k, node));
}

static uint64_t fabric(const kernel_view *k) {
  return kernel_reduce_loops(k, kernel_tile_elements(k, kernel_result(k, k->body->anchor)));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  return kernel_mul(2, (uint64_t)depth_of(k->body, kernel_node(k, node)));
}

static bool passes(const wafer_node *anchor, uint32_t operand) {
  (void)anchor;
  (void)operand;
  return true;
}

const kernel_family kernel_family_gemm = {.loops = loops,
                                          .operand = operand,
                                          .dense = dense,
                                          .sparse = sparse,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .passes = passes,
                                          .operations = operations,
                                          .accumulates = true};

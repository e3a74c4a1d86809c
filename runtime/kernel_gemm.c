/* Family gemm: matrix products, batched by broadcast.
 *
 * The program: sums begin at zero, one vector multiply-accumulate goes over the result's tile and
 * what is summed. A sparse weight's tile lies as pairs of position and value, in the room of a
 * dense one; each pair is one vector multiply-accumulate of its activations onto its sums (an
 * AXPY), for which both lie with the rows inside: an element a step, and between two pairs what an
 * instruction of its own would take for its set-up. Where that takes longer, the tile is made dense
 * first: short rows do not pay for a pair's set-up. The core with most pairs decides; rows and
 * columns are dealt so that it has few more than others (wafer/deal.h). Sums stay in
 * f32. When k is cut, partial sums go down a chain, the tail works at its end, and what it stores
 * is broadcast. */
#include <math.h>

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

#define DEVIATIONS 3.5 /* of the largest of some thousand Poisson numbers from their mean */
#define SKEW 1.6       /* of the least f of them: their mean is 1.6 (1 - f) deviations less */

static uint64_t parts_of(const kernel_view *k, uint32_t value, uint32_t d) {
  int loop = k->map[value].loop[d];
  return loop < 0 ? 1 : (uint64_t)k->split->rows[loop] * k->split->cols[loop];
}

/* Non-zeros of the fullest part when the lines of dim d are dealt. Parts with one line more than
 * others get the emptiest. */
static double fullest_part(const kernel_view *k, uint32_t value, uint32_t d) {
  double lines = (double)kernel_type(k, value)->shape.dims[d],
         parts = (double)parts_of(k, value, d);
  double nonzeros = (double)k->body->sparsity[value].nonzeros, line = nonzeros / lines;
  double most = (double)k->tile[value][d], full = lines - parts * (most - 1); /* parts with most */
  double even = nonzeros / parts, deviation = sqrt(line);
  if (most <= 1) return line + DEVIATIONS * deviation;
  double crowded = most * (line - SKEW * deviation * (1 - most * full / lines));
  return crowded > even ? crowded : even;
}

/* What is expected of the fullest tile before its pairs are counted. Dealt both ways it has a
 * deviation more than the mean; not dealt, as the largest of n Poisson numbers, sqrt(2 ln n). */
static double expected_pairs(const kernel_view *k, uint32_t value, double tiles) {
  const wafer_sparsity *is = &k->body->sparsity[value];
  double mean = (double)is->nonzeros / tiles;
  if (!is->order) return mean + sqrt(mean * 2 * log(tiles > 1 ? tiles : 1)) + 1;
  uint64_t rows = parts_of(k, value, 0), cols = parts_of(k, value, 1);
  double by_row = fullest_part(k, value, 0) / (double)cols,
         by_col = fullest_part(k, value, 1) / (double)rows;
  double most = rows == 1 ? by_col : cols == 1 ? by_row : by_row > by_col ? by_row : by_col;
  return most + (rows > 1 && cols > 1 ? sqrt(mean) : 0) + 1;
}

/* Pairs of the fullest tile. */
static uint64_t pairs_of(const kernel_view *k, uint32_t value) {
  const wafer_sparsity *is = &k->body->sparsity[value];
  uint64_t tile = kernel_tile_elements(k, value);
  int64_t all = 0;
  (void)wafer_shape_elements(&kernel_type(k, value)->shape, &all);
  if (is->fullest || all < 1 || tile < 1) return is->fullest;
  double pairs = expected_pairs(k, value, (double)all / (double)tile);
  uint64_t most = tile < is->nonzeros ? tile : is->nonzeros;
  return pairs < (double)most ? (uint64_t)pairs : most;
}

static bool is_sparse(const kernel_view *k, uint32_t value) {
  return value < k->body->input_count && k->body->sparsity && k->body->sparsity[value].sparse;
}

/* Microthreads that share the pairs: one sets up while the other multiplies. */
#define PAIR_THREADS 2

/* One operand's pairs, each over the result's rows (columns, where it is the left one), which begin
 * in other banks where their number is odd; at most what the dense product takes with the values
 * put in place, each by an instruction over one element. */
static uint64_t sparse_cycles(const kernel_view *k, uint32_t node, uint32_t i, uint64_t dense) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t weight = n->operands[i], result = kernel_result(k, node), rank = n->type.shape.rank;
  int64_t kept = k->tile[result][i == 0 ? rank - 2 : rank - 1];
  uint64_t rows = kept > 0 ? kernel_tile_elements(k, result) / (uint64_t)kept : 0;
  uint64_t pairs = pairs_of(k, weight), setup = k->machine->vector_setup_cycles;
  uint64_t axpy = wafer_machine_cycles(k->machine, WAFER_RATE_fma, kernel_dtype(k, weight), rows);
  uint64_t between = setup > 0 ? setup - 1 : 0;
  axpy += rows > 1 && rows % 2 ? rows / 2 : 0;
  uint64_t waits = (kernel_add(axpy, between) + PAIR_THREADS - 1) / PAIR_THREADS;
  uint64_t sparse = kernel_add(kernel_mul(pairs, axpy > waits ? axpy : waits),
                               setup + k->machine->descriptor_load_cycles + PAIR_THREADS - 1);
  uint64_t cleared = kernel_over_tile(k, WAFER_RATE_move, kernel_dtype(k, weight), weight);
  uint64_t placed = kernel_add(cleared, kernel_mul(pairs, between + 1));
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

static bool passes(const wafer_node *anchor, uint32_t operand) {
  (void)anchor;
  (void)operand;
  return true;
}

const kernel_family kernel_family_gemm = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .passes = passes,
                                          .operations = operations,
                                          .accumulates = true};

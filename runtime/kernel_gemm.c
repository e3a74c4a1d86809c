/* Family gemm: matrix products, batched by broadcast.
 *
 * The program: sums begin at zero, one vector multiply-accumulate goes over the result's tile and
 * what is summed. A sparse weight's tile lies as pairs of position and value (wafer/pairs.h), in
 * the room of a dense one; each pair is one vector multiply-accumulate of its activations onto its
 * sums (an AXPY), for which both lie with the rows inside. A tile whose pairs need more room lies
 * dense. The core with most pairs decides; rows and columns are dealt so that it has few more than
 * others (wafer/deal.h). Sums stay in f32. When k is cut, partial sums go down a chain, the tail
 * works at its end, and what it stores is broadcast. */
#include <math.h>

#include "kernel_family.h"
#include "wafer/pairs.h"

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

static uint64_t parts_of(const kernel_view *k, uint32_t value, uint32_t d) {
  int loop = k->map[value].loop[d];
  return loop < 0 ? 1 : (uint64_t)k->split->rows[loop] * k->split->cols[loop];
}

/* Non-zeros of the fullest part when the lines of dim d are dealt: its share of the lines. */
static double fullest_part(const kernel_view *k, uint32_t value, uint32_t d) {
  double lines = (double)kernel_type(k, value)->shape.dims[d], most = (double)k->tile[value][d];
  double line = (double)k->body->sparsity[value].nonzeros / lines;
  return most > 1 ? most * line : line + DEVIATIONS * sqrt(line);
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
  return value < k->body->input_count && wafer_body_multiplies(k->body, value);
}

/* Rows of a core are one run of memory. Where a dim does not divide by its parts, those of the last
 * part are a shorter one for each index of the dims around it, which begin anew. */
static uint64_t border_cycles(const kernel_view *k, uint32_t result, uint32_t kept,
                              const wafer_pairs *pairs, wafer_dtype stored) {
  const wafer_shape *shape = &kernel_type(k, result)->shape;
  const wafer_machine *m = k->machine;
  uint64_t around = 1, cycles = 0;
  for (uint32_t d = 0; d < shape->rank; d++) {
    int64_t tile = k->tile[result][d];
    if (d == kept || tile < 1) continue;
    uint64_t last = (uint64_t)(shape->dims[d] % tile), begins = around - 1;
    if (last && around > 1)
      cycles = kernel_add(
          kernel_mul(around, wafer_pairs_cycles(m, pairs, stored, last)),
          kernel_mul(begins, m->vector_setup_cycles + (uint64_t)m->descriptor_load_cycles));
    around = kernel_mul(around, (uint64_t)tile);
  }
  return cycles;
}

/* One operand's pairs, each over the result's rows (columns, where it is the left one). Sums are
 * cleared while the descriptors of the first pairs load. */
static uint64_t sparse_cycles(const kernel_view *k, uint32_t node, uint32_t i, uint64_t dense) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t weight = n->operands[i], result = kernel_result(k, node), rank = n->type.shape.rank;
  uint32_t kept = i == 0 ? rank - 2 : rank - 1;
  uint64_t columns = (uint64_t)kernel_most(k->tile[result][kept], 1);
  wafer_dtype stored = kernel_dtype(k, weight);
  wafer_pairs pairs = wafer_pairs_of(stored, pairs_of(k, weight), kernel_tile_elements(k, weight));
  if (!pairs.lists) return dense;
  uint64_t inside =
      wafer_pairs_cycles(k->machine, &pairs, stored, kernel_tile_elements(k, result) / columns);
  uint64_t border = border_cycles(k, result, kept, &pairs, stored);
  return inside > border ? inside : border;
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
    if (node == k->body->anchor && is_sparse(k, n->operands[i])) {
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

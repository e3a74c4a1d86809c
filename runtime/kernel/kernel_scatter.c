/* Family scatter: rows put in place, or added to what is there, by their indices.
 *
 * What a scatter puts somewhere comes to every part of dim 0, as a whole or in slices along its own
 * rows, a loop that is never cut: a core keeps what falls into its part, row by row. */
#include <string.h>

#include "kernel_rows.h"

/* Along which the indices, and the updates with them, can pass in slices. */
static uint32_t scattered_dim(const wafer_shape *indices) {
  uint32_t longest = 0;
  for (uint32_t d = 1; d < indices->rank; d++)
    if (indices->dims[d] > indices->dims[longest]) longest = d;
  return longest;
}

static bool passes(const wafer_node *anchor, uint32_t operand) {
  (void)anchor;
  return operand > 0;
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *n = &body->nodes[body->anchor];
  const wafer_shape *indices = &wafer_body_type(body, n->operands[1])->shape;
  if (indices->rank) kernel_loop_append(out, indices->dims[scattered_dim(indices)], false);
}

/* Behind the indices' dims the updates' dims are those of the result behind dim 0. */
static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *all = kernel_move_shape(k, n->operands[1]);
  uint32_t indices = all->rank;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (i == 0)
      kernel_map_set(map, d, result, d);
    else if (i == 2 && d > 0)
      kernel_map_set(map, d - 1 + indices, result, d);
  if (i > 0 && indices && kernel_is_anchor(k, node) && k->loops.count > k->loops.parallel)
    kernel_map_loop(map, scattered_dim(all), k->loops.parallel);
}

static wafer_rate joining(const wafer_node *n) {
  const char *mode = wafer_attr_string(&n->attrs, WAFER_ATTR_mode);
  return !strcmp(mode, "mul")    ? WAFER_RATE_mul
         : !strcmp(mode, "none") ? WAFER_RATE_move
                                 : WAFER_RATE_add;
}

/* Sums and products round once, where they are stored. */
static wafer_dtype rows_dtype(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node);
  const char *mode = wafer_attr_string(&kernel_node(k, node)->attrs, WAFER_ATTR_mode);
  bool adds = !strcmp(mode, "add") || !strcmp(mode, "mul");
  return adds ? kernel_sums(k, y) : kernel_type(k, y)->dtype;
}

#define SCALARS_PER_UPDATE 6 /* load the index, is it this part's?, its address, count, branch */

/* Of updates that pass: every index is looked at, as if all were of this part. */
static uint64_t update_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t updates = n->operands[2], at = n->operands[1];
  uint64_t rows = k->elements[at], run = k->elements[updates] / (rows ? rows : 1);
  uint64_t cycles = kernel_mul(rows, SCALARS_PER_UPDATE);
  cycles = kernel_add(cycles, kernel_vector(k, WAFER_RATE_add, kernel_dtype(k, updates),
                                            k->elements[updates], run));
  return kernel_add(kernel_move_copy(k, node), cycles);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node), updates = n->operands[2];
  if (updates < k->body->input_count && k->passes[updates]) return update_cycles(k, node);
  const wafer_shape *indices = kernel_move_shape(k, n->operands[1]);
  uint64_t tile = (uint64_t)k->tile[y][0];
  kernel_rows rows = {.rate = joining(n),
                      .dtype = rows_dtype(k, node),
                      .indices = 1,
                      .parts = 1,
                      .elements = tile ? kernel_tile_elements(k, y) / tile : 0,
                      .begins = true};
  for (uint32_t d = 0; d < indices->rank; d++)
    rows.indices = kernel_mul(rows.indices, (uint64_t)indices->dims[d]);
  if (tile) rows.parts = ((uint64_t)kernel_type(k, y)->shape.dims[0] + tile - 1) / tile;
  return kernel_rows_cycles(k, node, &rows);
}

static uint64_t fabric(const kernel_view *k) {
  uint32_t y = kernel_result(k, k->body->anchor);
  return kernel_reduce_loops(k, kernel_words(kernel_type(k, y)->dtype, kernel_tile_elements(k, y)));
}

static uint64_t scratch(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node);
  wafer_dtype rows = rows_dtype(k, node);
  return kernel_dtype(k, y) != rows
             ? kernel_mul(wafer_dtype_bytes(rows), kernel_tile_elements(k, y))
             : 0;
}

const kernel_family kernel_family_scatter = {.loops = loops,
                                             .operand = operand,
                                             .compute = compute,
                                             .fabric = fabric,
                                             .passes = passes,
                                             .scratch = scratch};

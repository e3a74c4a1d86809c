/* Family normalize: (x - mean) / sqrt(variance + epsilon) over dims, or without the mean.
 *
 * The program makes four passes over the tile: sum, subtract, squares added up, multiply by the
 * reciprocal of the root, of which there is one per row; without the mean the last two alone. Sums
 * stay in f32. When the dims are cut, sums are chained and broadcast, one word per row each. Dims
 * that are normalized are cut only if none that is not comes behind them, for chains of other rows
 * would lie between their parts. */
#include "kernel_family.h"

static bool centers(const wafer_node *node) {
  return wafer_attr_int(&node->attrs, WAFER_ATTR_center) != 0;
}

/* A bit set. */
static uint32_t axes_of(const wafer_node *node) {
  return wafer_attr_dims(&node->attrs, WAFER_ATTR_axes);
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *node = &body->nodes[body->anchor];
  uint32_t axes = axes_of(node);
  bool last = true;
  for (uint32_t d = node->type.shape.rank; d-- > 0;) {
    last &= axes >> d & 1 || node->type.shape.dims[d] == 1;
    if (axes >> d & 1 && !last) out->divisible[d] = false;
  }
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  uint32_t axes = axes_of(kernel_node(k, node));
  (void)i;
  for (uint32_t d = 0; d < kernel_node(k, node)->type.shape.rank; d++)
    if (kernel_is_anchor(k, node) || !(axes >> d & 1)) kernel_map_set(map, d, result, d);
}

static uint64_t rows_of(const kernel_view *k, uint32_t node) {
  uint32_t axes = axes_of(kernel_node(k, node));
  uint64_t rows = 1;
  for (uint32_t d = 0; d < kernel_node(k, node)->type.shape.rank; d++)
    if (!(axes >> d & 1)) rows = kernel_mul(rows, (uint64_t)k->tile[kernel_result(k, node)][d]);
  return rows;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  wafer_dtype sums = kernel_sums(k, result), from = kernel_dtype(k, n->operands[0]);
  kernel_nest tile = {0}, rows = {0};
  kernel_nest_tile(&tile, k, result, 0, n->type.shape.rank);
  kernel_nest_add(&rows, (int64_t)rows_of(k, node));
  kernel_nest squares = tile;
  squares.squares = true;
  uint64_t cycles = kernel_nest_cycles(k, WAFER_RATE_move, sums, &rows);
  cycles =
      kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_fma, centers(n) ? sums : from, &squares));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_fma, sums, &rows));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_sqrt, sums, &rows));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_divide, sums, &rows));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_mul, sums, &tile));
  if (!centers(n)) return cycles;
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_move, sums, &rows));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_add, from, &tile));
  cycles = kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_mul, sums, &rows));
  return kernel_add(cycles, kernel_nest_cycles(k, WAFER_RATE_add, sums, &tile));
}

static uint64_t fabric(const kernel_view *k) {
  uint32_t node = k->body->anchor, axes = axes_of(kernel_node(k, node));
  uint64_t rows = rows_of(k, node), once = 0;
  for (uint32_t d = 0; d < kernel_node(k, node)->type.shape.rank; d++)
    if (axes >> d & 1)
      once = kernel_add(once, kernel_add(kernel_chain(k, d, rows), kernel_broadcast(k, d, rows)));
  return centers(kernel_node(k, node)) ? kernel_mul(2, once) : once;
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  return centers(kernel_node(k, node)) ? 5 : 3;
}

/* A number per row. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  return kernel_mul(rows_of(k, node), wafer_dtype_bytes(kernel_sums(k, kernel_result(k, node))));
}

const kernel_family kernel_family_normalize = {.loops = loops,
                                               .operand = operand,
                                               .compute = compute,
                                               .fabric = fabric,
                                               .operations = operations,
                                               .scratch = scratch,
                                               .accumulates = true};

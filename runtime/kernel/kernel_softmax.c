/* Family softmax: exp(x - max) / sum along one dim.
 *
 * The program makes five passes over the tile along its longest local dim: max, subtract, exp, sum,
 * multiply by the reciprocal of the sum, of which there is one per row. When the dim is cut, max
 * and sum are chained as f32 and broadcast, one word per row each. */
#include "kernel_family.h"

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  int64_t axis = wafer_attr_int(&kernel_node(k, node)->attrs, WAFER_ATTR_axis);
  (void)i;
  for (uint32_t d = 0; d < kernel_node(k, node)->type.shape.rank; d++)
    if (kernel_is_anchor(k, node) || d != (uint32_t)axis) kernel_map_set(map, d, result, d);
}

static uint64_t rows_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t rows = 1;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (d != (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis))
      rows = kernel_mul(rows, (uint64_t)k->tile[kernel_result(k, node)][d]);
  return rows;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  static const wafer_rate passes[] = {WAFER_RATE_add, WAFER_RATE_add, WAFER_RATE_exp,
                                      WAFER_RATE_add, WAFER_RATE_mul};
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_sums(k, result); /* between the passes it is not narrowed */
  kernel_nest tile = {0}, rows = {0};
  uint64_t cycles = 0;
  kernel_nest_tile(&tile, k, result, 0, kernel_node(k, node)->type.shape.rank);
  kernel_nest_add(&rows, (int64_t)rows_of(k, node));
  for (size_t i = 0; i < WAFER_COUNT(passes); i++)
    cycles = kernel_add(cycles, kernel_nest_cycles(k, passes[i], dtype, &tile));
  uint64_t begin = kernel_nest_cycles(k, WAFER_RATE_move, dtype, &rows);
  return kernel_add(kernel_add(cycles, kernel_mul(2, begin)),
                    kernel_nest_cycles(k, WAFER_RATE_divide, dtype, &rows));
}

static uint64_t fabric(const kernel_view *k) {
  uint32_t axis =
      (uint32_t)wafer_attr_int(&kernel_node(k, k->body->anchor)->attrs, WAFER_ATTR_axis);
  uint64_t rows = rows_of(k, k->body->anchor);
  uint64_t once = kernel_add(kernel_chain(k, axis, rows), kernel_broadcast(k, axis, rows));
  return kernel_mul(2, once);
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  (void)k, (void)node;
  return 5;
}

/* A number per row. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  return kernel_mul(rows_of(k, node), wafer_dtype_bytes(kernel_sums(k, kernel_result(k, node))));
}

const kernel_family kernel_family_softmax = {.operand = operand,
                                             .compute = compute,
                                             .fabric = fabric,
                                             .operations = operations,
                                             .scratch = scratch,
                                             .accumulates = true};

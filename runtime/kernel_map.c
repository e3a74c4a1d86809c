/* Family map: elementwise chains with broadcast; also the elementwise tail of every other family.
 *
 * One vector instruction runs over a row of elements that is dense in the result and, in each
 * operand, either dense too or one element repeated: trailing dims merge as long as that holds.
 * Cycles as in kernel_cost.c; the rate's element type is the widest among operands and result. */
#include "kernel_family.h"

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  kernel_map_broadcast(&kernel_type(k, n->operands[i])->shape, &n->type.shape, result, map);
}

/* Whether dim d of the result (tile extent above 1) moves along the operand. */
static bool moves(const kernel_view *k, uint32_t value, const wafer_shape *result, uint32_t d) {
  const wafer_shape *shape = &kernel_type(k, value)->shape;
  return d + shape->rank >= result->rank && shape->dims[d + shape->rank - result->rank] > 1;
}

static uint64_t run_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  uint64_t run = 1;
  bool begun = false, inner[WAFER_OP_MAX_OPERANDS] = {false};
  for (uint32_t d = n->type.shape.rank; d-- > 0;) {
    if (k->tile[result][d] <= 1) continue;
    for (uint32_t i = 0; i < n->operand_count; i++) {
      bool here = moves(k, n->operands[i], &n->type.shape, d);
      if (begun && here != inner[i]) return run;
      inner[i] = here;
    }
    begun = true;
    run = kernel_mul(run, (uint64_t)k->tile[result][d]);
  }
  return run;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  wafer_dtype dtype = kernel_dtype(k, result);
  if (wafer_op_is(n->op, WAFER_TRAIT_SOURCE)) return 0;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    wafer_dtype other = kernel_dtype(k, n->operands[i]);
    if (wafer_dtype_bits(other) > wafer_dtype_bits(dtype)) dtype = other;
  }
  return kernel_vector(k, wafer_op_get(n->op)->rate, dtype, kernel_tile_elements(k, result),
                       run_of(k, node));
}

const kernel_family kernel_family_map = {.operand = operand, .compute = compute};

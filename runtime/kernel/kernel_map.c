/* Family map: elementwise chains with broadcast; also the elementwise tail of every other family.
 *
 * One vector instruction goes over the result's tile; what is broadcast has stride 0. The rate is
 * that of the first operand's element type. */
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

/* Trailing dims are one as long as each operand moves along all of them, or along none. */
static kernel_nest nest_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  kernel_nest nest = {0};
  int64_t run = 1;
  bool begun = false, inner[WAFER_OP_MAX_OPERANDS] = {false};
  for (uint32_t d = n->type.shape.rank; d-- > 0;) {
    bool alike = true;
    if (k->tile[result][d] == 1) continue;
    for (uint32_t i = 0; i < n->operand_count; i++) {
      bool here = moves(k, n->operands[i], &n->type.shape, d);
      alike &= !begun || here == inner[i];
      inner[i] = here;
    }
    if (!alike) {
      kernel_nest_add(&nest, run);
      run = 1;
    }
    begun = true;
    run *= k->tile[result][d];
  }
  kernel_nest_add(&nest, run);
  return nest;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  if (wafer_op_is(n->op, WAFER_TRAIT_SOURCE)) return 0;
  kernel_nest nest = nest_of(k, node);
  nest.squares = n->operand_count == 2 && n->operands[0] == n->operands[1];
  return kernel_nest_cycles(k, wafer_op_get(n->op)->rate, kernel_dtype(k, n->operands[0]), &nest);
}

const kernel_family kernel_family_map = {.operand = operand, .compute = compute};

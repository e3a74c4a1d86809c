/* Family reduce: sums, means, extremes, products and arg_* over dims.
 *
 * The program begins with what changes nothing and goes over the operand's tile once, by one vector
 * instruction (arg_*: four times: extreme, equal to it, index, the least of those). A mean is
 * scaled at the end. A cut of a reduced dim chains the partial results (arg_*: extremes, which all
 * parts get back, then indices) and broadcasts what is stored. Sums stay in f32. A reduction behind
 * another anchor (wafer_body_reduces) does so over the parts in which that one's results lie.
 */
#include "kernel_family.h"

static bool is_arg(const wafer_node *node) {
  return wafer_op_is(node->op, WAFER_TRAIT_INDEX);
}

/* Whether dim d of the operand is reduced. */
static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *node = &body->nodes[body->anchor];
  const wafer_shape *shape = &wafer_body_type(body, node->operands[0])->shape;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (wafer_node_reduces(node, d)) kernel_loop_append(out, shape->dims[d], true);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  bool keep = wafer_attr_int(&n->attrs, WAFER_ATTR_keepdims) != 0;
  uint32_t rank = kernel_type(k, n->operands[i])->shape.rank, loop = k->loops.parallel, at = 0;
  uint32_t first;
  bool behind = wafer_body_reduces(k->body, node, &first);
  for (uint32_t d = 0; d < rank; d++) {
    bool gone = wafer_node_reduces(n, d);
    if (!gone)
      kernel_map_set(map, d, result, at);
    else if (behind)
      kernel_map_loop(map, d, d);
    else if (kernel_is_anchor(k, node) && loop < k->loops.count)
      kernel_map_loop(map, d, loop++);
    at += !gone || keep;
  }
}

/* arg_*: the extremes, what is equal to them, its index, the least of those. */
static uint64_t arg_cycles(const kernel_view *k, const kernel_nest *nest, uint32_t x,
                           uint32_t result) {
  uint64_t cycles = kernel_nest_cycles(k, WAFER_RATE_add, kernel_dtype(k, x), nest);
  uint64_t again = kernel_nest_cycles(k, WAFER_RATE_add, WAFER_DTYPE_i32, nest);
  cycles = kernel_add(kernel_mul(2, cycles), kernel_mul(2, again));
  cycles = kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_move, WAFER_DTYPE_i32, result));
  return kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_convert, WAFER_DTYPE_i32, result));
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t x = n->operands[0], result = kernel_result(k, node);
  kernel_nest nest = {0};
  kernel_nest_tile(&nest, k, x, 0, kernel_type(k, x)->shape.rank);
  uint64_t cycles = kernel_over_tile(k, WAFER_RATE_move, kernel_sums(k, result), result);
  if (is_arg(n)) return kernel_add(cycles, arg_cycles(k, &nest, x, result));
  cycles = kernel_add(cycles,
                      kernel_nest_cycles(k, wafer_op_get(n->op)->rate, kernel_dtype(k, x), &nest));
  bool narrows = kernel_dtype(k, result) != kernel_sums(k, result);
  if (n->op == WAFER_OP_reduce_mean || narrows)
    cycles = kernel_add(
        cycles,
        kernel_over_tile(k, n->op == WAFER_OP_reduce_mean ? WAFER_RATE_mul : WAFER_RATE_convert,
                         kernel_sums(k, result), result));
  return cycles;
}

/* arg_*: the extremes go over the parts before, and back to all of them. */
static uint64_t fabric(const kernel_view *k) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  uint64_t partial = kernel_tile_elements(k, kernel_result(k, k->body->anchor));
  uint64_t cycles = kernel_reduce_loops(k, partial);
  if (!is_arg(n)) return cycles;
  uint64_t words = kernel_words(kernel_dtype(k, n->operands[0]), partial);
  for (uint32_t loop = k->loops.count; loop-- > k->loops.parallel;)
    cycles = kernel_add(cycles,
                        kernel_add(kernel_chain(k, loop, words), kernel_broadcast(k, loop, words)));
  return cycles;
}

/* Behind another anchor: what every part has folded goes to the first, and to all of them. */
static uint64_t moves(const kernel_view *k, uint32_t node) {
  uint32_t first, result = kernel_result(k, node);
  uint64_t partial = kernel_tile_elements(k, result);
  if (!wafer_body_reduces(k->body, node, &first)) return 0;
  return kernel_reduce_dims(k, first, kernel_words(kernel_sums(k, result), partial),
                            kernel_words(kernel_dtype(k, result), partial));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *shape = &kernel_type(k, n->operands[0])->shape;
  uint64_t all = 1;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (wafer_node_reduces(n, d)) all = kernel_mul(all, (uint64_t)shape->dims[d]);
  return all;
}

/* Sums that are stored as another type; those of the anchor are counted with all anchors'. */
static uint64_t narrower(const kernel_view *k, uint32_t result) {
  wafer_dtype sums = kernel_sums(k, result);
  if (kernel_dtype(k, result) == sums) return 0;
  return kernel_mul(kernel_tile_elements(k, result), wafer_dtype_bytes(sums));
}

/* arg_*: extremes and their indices, what is equal to them, and the indices of the core's part of
 * the axis. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t x = n->operands[0], result = kernel_result(k, node);
  if (!is_arg(n)) return kernel_is_anchor(k, node) ? 0 : narrower(k, result);
  int64_t axis = k->tile[x][wafer_attr_int(&n->attrs, WAFER_ATTR_axis)];
  uint64_t each = wafer_dtype_bytes(WAFER_DTYPE_i32);
  uint64_t per_result = each + wafer_dtype_bytes(kernel_dtype(k, x));
  return kernel_add(kernel_mul(kernel_tile_elements(k, result), per_result),
                    kernel_mul(kernel_add(kernel_tile_elements(k, x), (uint64_t)axis), each));
}

const kernel_family kernel_family_reduce = {.loops = loops,
                                            .operand = operand,
                                            .compute = compute,
                                            .fabric = fabric,
                                            .moves = moves,
                                            .operations = operations,
                                            .scratch = scratch,
                                            .accumulates = true};

/* Family conv_transpose: transposed convolution, as a gather.
 *
 * The program: accumulators begin at zero; for each tap one vector multiply-accumulate goes over
 * the places that the tap reaches, every stride-th; the bias is added last. Sums stay in f32; halo,
 * chain and broadcast are as in conv.
 *
 * Loops: n, k, spatial dims, then the input channels of a group, which are cut only without groups.
 * With groups, cutting k cuts the channels of x when every part has whole groups, or every group
 * whole parts. */
#include "kernel_family.h"

static int64_t group_of(const wafer_node *node) {
  return wafer_attr_int(&node->attrs, WAFER_ATTR_group);
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *node = &body->nodes[body->anchor];
  int64_t channels = wafer_body_type(body, node->operands[1])->shape.dims[0];
  kernel_loop_append(out, channels / group_of(node), group_of(node) == 1);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  bool anchor = kernel_is_anchor(k, node), groups = group_of(n) > 1;
  int64_t filters = n->type.shape.dims[1] / group_of(n);
  if (i == 2) kernel_map_set(map, 0, result, 1);
  if (i == 1 && groups) kernel_map_even(map, 0, result, 1, group_of(n), filters);
  if (i == 1 && !groups) kernel_map_set(map, 1, result, 1);
  if (i == 1 && !groups && anchor) kernel_map_loop(map, 0, k->loops.parallel);
  if (i != 0) return;
  kernel_map_set(map, 0, result, 0);
  if (groups) kernel_map_even(map, 1, result, 1, group_of(n), filters);
  if (!groups && anchor) kernel_map_loop(map, 1, k->loops.parallel);
  for (uint32_t d = 2; d < n->type.shape.rank && anchor; d++) kernel_map_set(map, d, result, d);
}

/* Element i of the input reaches results i * stride - pad + tap * dilation. */
static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    int64_t stride = wafer_node_ints(n, WAFER_ATTR_strides)[d - 2],
            pad = wafer_node_ints(n, WAFER_ATTR_pads)[d - 2];
    int64_t taps = kernel_type(k, n->operands[1])->shape.dims[d];
    int64_t span = (taps - 1) * wafer_node_ints(n, WAFER_ATTR_dilations)[d - 2];
    window[d] = (kernel_window){1, stride, span - pad - (stride - 1), pad};
  }
}

/* A tap reaches every stride-th place of a dim, where the tile is that long. */
static uint64_t tap_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node);
  const wafer_shape *w = &kernel_type(k, n->operands[1])->shape;
  int64_t channels = k->tile[n->operands[0]][1];
  int64_t stride = wafer_node_ints(n, WAFER_ATTR_strides)[w->rank - 3];
  bool even = channels % 2 == 0 && (k->tile[result][1] == 1 || stride % 2 == 0);
  kernel_nest nest = {.conflicts = k->tile[result][1] % 2 && !even};
  kernel_nest_tile(&nest, k, result, 0, 2);
  kernel_nest_add(&nest, group_of(n) > 1 ? w->dims[0] / group_of(n) : k->tile[n->operands[1]][0]);
  for (uint32_t d = 2; d < w->rank; d++)
    kernel_nest_add(&nest,
                    kernel_ceil(k->tile[result][d], wafer_node_ints(n, WAFER_ATTR_strides)[d - 2]));
  return kernel_nest_cycles(k, WAFER_RATE_fma, kernel_dtype(k, n->operands[0]), &nest);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *w = &kernel_type(k, n->operands[1])->shape;
  uint64_t taps = 1; /* of those, where the tile is shorter than the stride, not all reach it */
  for (uint32_t d = 2; d < w->rank; d++) {
    int64_t stride = wafer_node_ints(n, WAFER_ATTR_strides)[d - 2],
            tile = k->tile[kernel_result(k, node)][d];
    int64_t reach = tile < stride ? kernel_ceil(w->dims[d] * tile, stride) : w->dims[d];
    taps = kernel_mul(taps, (uint64_t)reach);
  }
  uint64_t sums = kernel_add(kernel_accumulators(k, node), kernel_bias(k, node));
  return kernel_add(kernel_mul(taps, tap_cycles(k, node)), sums);
}

static uint64_t fabric(const kernel_view *k) {
  uint64_t partial = kernel_tile_elements(k, kernel_result(k, k->body->anchor));
  return kernel_add(kernel_halo(k), kernel_reduce_loops(k, partial));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *w = &kernel_type(k, n->operands[1])->shape;
  uint64_t all = kernel_mul(2, (uint64_t)(w->dims[0] / group_of(n)));
  for (uint32_t d = 2; d < w->rank; d++)
    all = kernel_mul(
        all, (uint64_t)kernel_ceil(w->dims[d], wafer_node_ints(n, WAFER_ATTR_strides)[d - 2]));
  return all;
}

const kernel_family kernel_family_conv_transpose = {.loops = loops,
                                                    .operand = operand,
                                                    .compute = compute,
                                                    .fabric = fabric,
                                                    .windows = windows,
                                                    .operations = operations,
                                                    .accumulates = true};

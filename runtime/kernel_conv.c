/* Family conv: convolution with groups, strides, dilations and pads, in any number of spatial dims.
 *
 * The program: accumulators begin as the bias (or zero); for each input channel, each tap of the
 * window, and each index but one of the result's tile, one vector multiply-accumulate over the
 * longest local dim of the result: a strided run of the input times one weight, or, along k, a run
 * of weights times one input element (within a group). A window of one element at stride 1 without
 * pads runs over all spatial dims at once. Sums stay in f32. A cut of a spatial dim exchanges the
 * halo first; a cut of the input channels chains the partial sums, the tail works at the chain's
 * end, and what it stores is broadcast.
 *
 * Loops: n, k, spatial dims, then the input channels of a group. Those are cut only without groups;
 * with groups, cutting k cuts the channels of x alike when every part has whole groups. */
#include "kernel_family.h"

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *node = &body->nodes[body->anchor];
  const wafer_shape *w = &wafer_body_type(body, node->operands[1])->shape;
  kernel_loop_append(out, w->dims[1], wafer_attr_int(&node->attrs, WAFER_ATTR_group) == 1);
}

static void map_input(const kernel_view *k, uint32_t node, const kernel_map *result,
                      kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  int64_t group = wafer_attr_int(&n->attrs, WAFER_ATTR_group);
  int64_t channels = kernel_type(k, n->operands[0])->shape.dims[1];
  bool anchor = kernel_is_anchor(k, node),
       depthwise = group == channels && group == n->type.shape.dims[1];
  kernel_map_set(map, 0, result, 0);
  if (group == 1 && anchor) kernel_map_loop(map, 1, k->loops.parallel);
  if (group > 1 && depthwise) kernel_map_set(map, 1, result, 1);
  if (group > 1 && !depthwise) kernel_map_even(map, 1, result, 1, group);
  for (uint32_t d = 2; d < n->type.shape.rank && anchor; d++) kernel_map_set(map, d, result, d);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  if (i == 0) {
    map_input(k, node, result, map);
    return;
  }
  kernel_map_set(map, 0, result, 1);
  bool whole = wafer_attr_int(&kernel_node(k, node)->attrs, WAFER_ATTR_group) != 1;
  if (i == 1 && kernel_is_anchor(k, node) && !whole) kernel_map_loop(map, 1, k->loops.parallel);
}

static const int64_t *ints(const wafer_node *node, wafer_attr_id id) {
  uint32_t count;
  return wafer_attr_ints(&node->attrs, id, &count);
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  const int64_t *strides = ints(n, WAFER_ATTR_strides), *pads = ints(n, WAFER_ATTR_pads);
  const int64_t *dilations = ints(n, WAFER_ATTR_dilations);
  for (uint32_t d = 2; d < n->type.shape.rank; d++) {
    int64_t span = (kernel_type(k, n->operands[1])->shape.dims[d] - 1) * dilations[d - 2];
    window[d] = (kernel_window){strides[d - 2], 1, pads[d - 2], span - pads[d - 2]};
  }
}

/* One element, stride 1, no pads: the input's tile is as dense as the result's. Asked of an anchor
 * alone. */
static bool pointwise(const kernel_view *k, uint32_t node) {
  for (uint32_t d = 2; d < kernel_node(k, node)->type.shape.rank; d++) {
    const kernel_window *w = &k->window[d];
    if (w->num != 1 || w->before != 0 || w->after != 0 ||
        kernel_node(k, node)->type.shape.dims[d] != kernel_type(k, k->windowed)->shape.dims[d])
      return false;
  }
  return kernel_is_anchor(k, node);
}

static int64_t groups(const kernel_view *k, const wafer_node *n) {
  int64_t channels = kernel_type(k, n->operands[0])->shape.dims[1];
  int64_t in_group = kernel_type(k, n->operands[1])->shape.dims[1];
  return in_group > 0 && channels > in_group ? channels / in_group : 1;
}

static uint64_t run_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), rank = n->type.shape.rank;
  int64_t group = groups(k, n), run = kernel_longest(k, result, 2, rank);
  int64_t filters = k->tile[result][1], in_group = n->type.shape.dims[1] / group;
  if (in_group > 1 && filters > in_group) filters = in_group;
  if (k->tile[result][0] > run) run = k->tile[result][0];
  uint64_t dense = 1;
  for (uint32_t d = 2; d < rank; d++) dense = kernel_mul(dense, (uint64_t)k->tile[result][d]);
  if (filters > run) run = filters;
  return pointwise(k, node) && dense > (uint64_t)run ? dense : (uint64_t)run;
}

/* Input channels of one group on one core, times the taps. */
static uint64_t taps_of(const kernel_view *k, uint32_t weights) {
  uint64_t taps = 1;
  for (uint32_t d = 1; d < kernel_type(k, weights)->shape.rank; d++)
    taps = kernel_mul(taps, (uint64_t)k->tile[weights][d]);
  return taps;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t work =
      kernel_mul(kernel_tile_elements(k, kernel_result(k, node)), taps_of(k, n->operands[1]));
  uint64_t cycles =
      kernel_vector(k, WAFER_RATE_fma, kernel_dtype(k, n->operands[0]), work, run_of(k, node));
  return kernel_add(cycles, kernel_accumulators(k, node));
}

static uint64_t fabric(const kernel_view *k) {
  uint64_t partial = kernel_tile_elements(k, kernel_result(k, k->body->anchor));
  return kernel_add(kernel_halo(k), kernel_reduce_loops(k, partial));
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_shape *w = &kernel_type(k, kernel_node(k, node)->operands[1])->shape;
  uint64_t all = 2;
  for (uint32_t d = 1; d < w->rank; d++) all = kernel_mul(all, (uint64_t)w->dims[d]);
  return all;
}

const kernel_family kernel_family_conv = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .windows = windows,
                                          .operations = operations,
                                          .accumulates = true};

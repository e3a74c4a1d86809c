/* Family conv: convolution with groups, strides, dilations and pads, in any number of spatial dims.
 *
 * The program: accumulators begin at zero; one vector multiply-accumulate goes over the four
 * longest of batch, filters, places, channels and taps, inside loops over the others; filters of
 * several groups are taken group by group; the bias is added last. Sums stay in f32. Pads are
 * filled in, and a cut of a spatial dim exchanges the halo, first; a cut of the input channels
 * chains the partial sums, the tail works at the chain's end, and what it stores is broadcast. With
 * sparse filters the loop is over taps, and each pair of a tap is one multiply-accumulate over all
 * places of a filter.
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

static int64_t groups(const kernel_view *k, const wafer_node *n) {
  int64_t channels = kernel_type(k, n->operands[0])->shape.dims[1];
  int64_t in_group = kernel_type(k, n->operands[1])->shape.dims[1];
  return in_group > 0 && channels > in_group ? channels / in_group : 1;
}

/* Filters are innermost where a core has several, else channels: an odd number of them makes half
 * of the steps meet another's bank. */
static bool conflicts(int64_t filters, int64_t channels, bool depthwise) {
  if (filters % 2 == 0) return false;
  return depthwise || filters > 1 || channels % 2;
}

/* Along the last dim, taps and channels are one loop when the taps are neighbours. */
static uint64_t nest_cycles(const kernel_view *k, uint32_t node, int64_t groups, int64_t filters) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), w = n->operands[1], rank = n->type.shape.rank;
  int64_t channels = k->tile[w][1];
  bool depthwise = kernel_type(k, w)->shape.dims[1] == 1 && groups > 1;
  kernel_nest nest = {.conflicts = conflicts(k->tile[result][1], channels, depthwise)};
  kernel_nest_add(&nest, k->tile[result][0]);
  kernel_nest_add(&nest, groups);
  kernel_nest_add(&nest, filters);
  kernel_nest_tile(&nest, k, result, 2, rank);
  kernel_nest_tile(&nest, k, w, 2, rank - 1);
  bool joins = ints(n, WAFER_ATTR_dilations)[rank - 3] == 1;
  kernel_nest_add(&nest, joins ? channels * k->tile[w][rank - 1] : channels);
  if (!joins) kernel_nest_add(&nest, k->tile[w][rank - 1]);
  return kernel_nest_cycles(k, WAFER_RATE_fma, kernel_dtype(k, n->operands[0]), &nest);
}

static uint64_t dense(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  int64_t group = groups(k, n), filters = k->tile[kernel_result(k, node)][1];
  int64_t in_group = n->type.shape.dims[1] / group;
  if (in_group < 1) in_group = 1;
  int64_t whole = filters / in_group;
  uint64_t cycles = 0;
  if (whole > 0) cycles = kernel_add(cycles, nest_cycles(k, node, whole, in_group));
  if (filters % in_group) cycles = kernel_add(cycles, nest_cycles(k, node, 1, filters % in_group));
  return cycles;
}

/* ---- sparse filters ---- */

/* Of the reads of a pair's run. Sums lie 4 bytes off the windows' first element, in rows of whole
 * pairs of banks where the results of a row are even and the buffer's rows 8 bytes each: then the
 * tap decides. */
static uint32_t collisions(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t d = n->type.shape.rank - 1, w = n->operands[1], count = 0;
  int64_t around = 8 / (int64_t)wafer_dtype_bytes(kernel_dtype(k, n->operands[0]));
  int64_t taps = k->tile[w][d], step = ints(n, WAFER_ATTR_dilations)[d - 2];
  bool even = k->tile[kernel_result(k, node)][d] % 2 == 0 && k->halo[d].reach % around == 0 &&
              ints(n, WAFER_ATTR_strides)[d - 2] == 1;
  if (!even || taps < 1) return (uint32_t)(WAFER_STEPS / around);
  for (int64_t tap = 0; tap < taps; tap++) count += tap * step % around == around / 2;
  return count * WAFER_STEPS / (uint32_t)taps;
}

/* The two longest levels are a pair's, the others times that lists pass. */
static void add_level(wafer_run *run, uint64_t extent) {
  uint64_t *least = run->rows < run->length ? &run->rows : &run->length;
  if (extent > *least) {
    uint64_t shorter = *least;
    *least = extent;
    extent = shorter;
  }
  run->times = kernel_mul(run->times, extent);
}

/* The results of a filter on a core. Dims along which they and the windows' first elements are one
 * run of memory are one level. */
static wafer_run run_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  const int64_t *tile = k->tile[kernel_result(k, node)], *strides = ints(n, WAFER_ATTR_strides);
  wafer_run run = {1, 1, 1, collisions(k, node)};
  int64_t pitch = 1, first = 0, level = 1; /* of the buffer; of a level its step and its length */
  for (uint32_t d = n->type.shape.rank; d-- > 0;) {
    int64_t step = d > 1 ? pitch * strides[d - 2] : pitch;
    if (d == 1) continue;
    pitch *= k->halo[d].reach;
    if (tile[d] < 2) continue;
    if (step != first * level) {
      add_level(&run, (uint64_t)level);
      first = step;
      level = 1;
    }
    level *= tile[d];
  }
  add_level(&run, (uint64_t)level);
  return run;
}

static uint64_t sparse(const kernel_view *k, uint32_t node, uint32_t operand,
                       const wafer_pairs *pairs) {
  wafer_run run = run_of(k, node);
  wafer_dtype stored = kernel_dtype(k, kernel_node(k, node)->operands[operand]);
  return wafer_pairs_cycles(k->machine, pairs, stored, &run);
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  uint64_t sums = kernel_add(kernel_accumulators(k, node), kernel_bias(k, node));
  uint64_t cycles = kernel_add(kernel_multiply(k, node), sums);
  return kernel_is_anchor(k, node) ? kernel_add(cycles, kernel_pads(k)) : cycles;
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
                                          .dense = dense,
                                          .sparse = sparse,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .windows = windows,
                                          .operations = operations,
                                          .accumulates = true};

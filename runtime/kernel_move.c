/* Family move: reshape, transpose, expand, slice, concat, pad, resize, gather.
 *
 * Every core makes its tile of the result from what it holds. A dim of the operand that keeps its
 * place and extent is cut as the result's; any other arrives whole, multicast by the stream, so
 * that nothing crosses cores inside the rectangle but the halo of a resize. A reshape keeps the
 * leading dim of each group of dims that it merges or divides, when the parts divide it on both
 * sides.
 *
 * Each op copies its tile once, a vector instruction per run along the longest local dim of the
 * result (gather: of a dim that is not looked up). A linear or cubic resize is 2 or 4
 * multiply-accumulates per element and resized dim, multiplied. */
#include <string.h>

#include "kernel_family.h"

static const wafer_shape *shape_of(const kernel_view *k, uint32_t value) {
  return &kernel_type(k, value)->shape;
}

static void transpose(const wafer_node *n, const kernel_map *result, kernel_map *map) {
  uint32_t count;
  const int64_t *perm = wafer_attr_ints(&n->attrs, WAFER_ATTR_perm, &count);
  for (uint32_t d = 0; d < count; d++) kernel_map_set(map, (uint32_t)perm[d], result, d);
}

/* The least groups of dims on either side with equal products; dims of 1 belong to none. */
static void reshape(const wafer_shape *x, const wafer_shape *y, const kernel_map *result,
                    kernel_map *map) {
  uint32_t i = 0, j = 0;
  while (i < x->rank && j < y->rank) {
    if (x->dims[i] <= 1 || y->dims[j] <= 1) {
      if (x->dims[i] <= 1)
        i++;
      else
        j++;
      continue;
    }
    uint32_t lead = i, onto = j;
    int64_t left = x->dims[i++], right = y->dims[j++];
    while (left != right) {
      if (left < right && i < x->rank)
        left *= x->dims[i++];
      else if (left > right && j < y->rank)
        right *= y->dims[j++];
      else
        return;
    }
    if (i == lead + 1 && j == onto + 1)
      kernel_map_set(map, lead, result, onto);
    else {
      kernel_map_even(map, lead, result, onto, x->dims[lead]);
      kernel_map_even(map, lead,
                      &(kernel_map){.loop = {map->loop[lead]}, .even = {map->even[lead]}}, 0,
                      y->dims[onto]);
    }
  }
}

static void slice(const kernel_view *k, const wafer_node *n, const kernel_map *result,
                  kernel_map *map) {
  uint32_t count;
  const int64_t *starts = wafer_attr_ints(&n->attrs, WAFER_ATTR_starts, &count);
  const int64_t *steps = wafer_attr_ints(&n->attrs, WAFER_ATTR_steps, &count);
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (starts[d] == 0 && steps[d] == 1 &&
        n->type.shape.dims[d] == shape_of(k, n->operands[0])->dims[d])
      kernel_map_set(map, d, result, d);
}

static void pad(const wafer_node *n, const kernel_map *result, kernel_map *map) {
  uint32_t count, rank = n->type.shape.rank;
  const int64_t *pads = wafer_attr_ints(&n->attrs, WAFER_ATTR_pads, &count);
  for (uint32_t d = 0; d < rank; d++)
    if (pads[d] == 0 && pads[d + rank] == 0) kernel_map_set(map, d, result, d);
}

/* data: the looked-up dim is whole; indices stand in its place. */
static void gather(const kernel_view *k, const wafer_node *n, uint32_t operand,
                   const kernel_map *result, kernel_map *map) {
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  uint32_t rank = shape_of(k, n->operands[operand])->rank,
           indices = shape_of(k, n->operands[1])->rank;
  for (uint32_t d = 0; d < rank; d++) {
    if (operand == 1)
      kernel_map_set(map, d, result, axis + d);
    else if (d != axis)
      kernel_map_set(map, d, result, d < axis ? d : d - 1 + indices);
  }
}

static void alike(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                  kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  bool window = n->op == WAFER_OP_resize && kernel_is_anchor(k, node);
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (window || shape_of(k, n->operands[i])->dims[d] == n->type.shape.dims[d])
      kernel_map_set(map, d, result, d);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *shape = shape_of(k, n->operands[i]);
  switch (n->op) {
  case WAFER_OP_reshape:
    reshape(shape, &n->type.shape, result, map);
    break;
  case WAFER_OP_transpose:
    transpose(n, result, map);
    break;
  case WAFER_OP_expand:
    kernel_map_broadcast(shape, &n->type.shape, result, map);
    break;
  case WAFER_OP_slice:
    slice(k, n, result, map);
    break;
  case WAFER_OP_pad:
    pad(n, result, map);
    break;
  case WAFER_OP_gather:
    gather(k, n, i, result, map);
    break;
  default:
    alike(k, node, i, result, map);
    break; /* concat along its other dims, resize */
  }
}

/* Elements on either side of the nearest one that a resized element is made of, less itself. */
static int64_t support(const wafer_node *n) {
  const char *mode = wafer_attr_string(&n->attrs, WAFER_ATTR_mode);
  return strcmp(mode, "cubic") == 0 ? 2 : strcmp(mode, "linear") == 0 ? 1 : 0;
}

static void windows(const kernel_view *k, kernel_window *window) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  if (n->op != WAFER_OP_resize) return;
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    int64_t in = shape_of(k, n->operands[0])->dims[d], out = n->type.shape.dims[d];
    if (in != out) window[d] = (kernel_window){in, out, support(n) * out, support(n) * out};
  }
}

static uint64_t resize_taps(const kernel_view *k, const wafer_node *n) {
  uint64_t taps = 1;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (n->type.shape.dims[d] != shape_of(k, n->operands[0])->dims[d] && support(n) > 0)
      taps *= 2 * (uint64_t)support(n);
  return taps;
}

static uint64_t run_of(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t result = kernel_result(k, node), rank = n->type.shape.rank;
  if (n->op != WAFER_OP_gather) return (uint64_t)kernel_longest(k, result, 0, rank);
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  int64_t before = kernel_longest(k, result, 0, axis);
  int64_t after = kernel_longest(k, result, axis + shape_of(k, n->operands[1])->rank, rank);
  return (uint64_t)(before > after ? before : after);
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  return n->op == WAFER_OP_resize && support(n) > 0 ? 2 * resize_taps(k, n) : 1;
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  bool sums = n->op == WAFER_OP_resize && support(n) > 0;
  uint64_t elements = kernel_tile_elements(k, kernel_result(k, node));
  return kernel_vector(k, sums ? WAFER_RATE_fma : WAFER_RATE_move, kernel_dtype(k, n->operands[0]),
                       kernel_mul(elements, sums ? resize_taps(k, n) : 1), run_of(k, node));
}

static uint64_t fabric(const kernel_view *k) {
  return kernel_node(k, k->body->anchor)->op == WAFER_OP_resize ? kernel_halo(k) : 0;
}

const kernel_family kernel_family_move = {.operand = operand,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .windows = windows,
                                          .operations = operations};

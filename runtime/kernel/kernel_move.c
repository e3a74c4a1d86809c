/* Family move: reshape, transpose, expand, slice, concat, pad.
 *
 * Every core makes its tile of the result from what the rectangle holds. A dim of the operand is
 * cut as the dim of the result that its elements go to; a reshape does so with the leading dims
 * (or, where one of their indices is too much for a core, or no split leaves it room for all, the
 * largest) of the groups of dims that it merges or divides. Where such parts do not begin at the
 * same elements (a slice, a pad, a concatenation, an uneven reshape) elements move along the loop
 * to the core that keeps them: no link carries more of them than cross it. What a slice takes a
 * small part of is cut along a reduction loop: the core that has an element sends it. Any other dim
 * arrives whole, multicast by the stream.
 *
 * Each op copies its tile once, a vector instruction per run along the longest local dim of the
 * result. */
#include "kernel_move.h"

static void transpose(const wafer_node *n, const kernel_map *result, kernel_map *map) {
  uint32_t count;
  const int64_t *perm = wafer_attr_ints(&n->attrs, WAFER_ATTR_perm, &count);
  for (uint32_t d = 0; d < count; d++) kernel_map_set(map, (uint32_t)perm[d], result, d);
}

/* Where one index of the first dim has more than `most` elements. */
static bool pick_largest(const wafer_shape *shape, uint32_t end, int64_t elements, int64_t most,
                         uint32_t *dim) {
  uint32_t first = *dim;
  if (elements / shape->dims[first] <= most) return false;
  for (uint32_t d = first + 1; d < end; d++)
    if (shape->dims[d] > shape->dims[*dim]) *dim = d;
  return *dim != first;
}

/* Where there are two dims of more than 1 from the first one on: the other. */
static uint32_t second_of(const wafer_shape *shape, uint32_t first, uint32_t end) {
  uint32_t second = 0;
  for (uint32_t d = first + 1; d < end; d++) {
    if (shape->dims[d] == 1) continue;
    if (second) return 0;
    second = d;
  }
  return second;
}

bool kernel_move_group(const kernel_view *k, const wafer_shape *x, const wafer_shape *y,
                       uint32_t *i, uint32_t *j, dim_group *g) {
  while (*i < x->rank && x->dims[*i] <= 1) ++*i; /* dims of 1 belong to none */
  while (*j < y->rank && y->dims[*j] <= 1) ++*j;
  if (*i == x->rank || *j == y->rank) return false;
  *g = (dim_group){.lead = *i, .onto = *j};
  int64_t left = x->dims[(*i)++], right = y->dims[(*j)++];
  while (left != right) {
    if (left < right && *i < x->rank)
      left *= x->dims[(*i)++];
    else if (left > right && *j < y->rank)
      right *= y->dims[(*j)++];
    else
      return false;
  }
  g->elements = left;
  g->first = g->lead;
  g->inside = *j == g->onto + 1 ? second_of(x, g->lead, *i) : 0;
  g->scattered = pick_largest(x, *i, left, k->most_of_index, &g->lead);
  g->scattered |= pick_largest(y, *j, left, k->most_of_index, &g->onto);
  g->inner = left / x->dims[g->lead];
  g->beside = left / y->dims[g->onto];
  return true;
}

/* The most elements of an operand along dims a and b of which what makes the value in the body
 * takes a part along both, 0: there is none. They arrive whole where the two are one loop
 * (`follow`). */
static int64_t part_taken(const kernel_view *k, uint32_t value, uint32_t a, uint32_t b) {
  const wafer_kernel_body *body = k->body;
  if (value < body->input_count) return 0;
  const wafer_node *n = &body->nodes[value - body->input_count];
  const int64_t *y = n->type.shape.dims;
  int64_t most = 0;
  uint32_t rank;
  if (n->op == WAFER_OP_transpose) {
    const int64_t *perm = wafer_attr_ints(&n->attrs, WAFER_ATTR_perm, &rank);
    return part_taken(k, n->operands[0], (uint32_t)perm[a], (uint32_t)perm[b]);
  }
  if (n->op != WAFER_OP_slice && n->op != WAFER_OP_pad && n->op != WAFER_OP_concat) return 0;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const int64_t *x = kernel_move_shape(k, n->operands[i])->dims;
    int64_t own = x[a] != y[a] && x[b] != y[b] ? x[a] * x[b] : 0;
    int64_t before = part_taken(k, n->operands[i], a, b);
    most = own > most ? own : most;
    most = before > most ? before : most;
  }
  return most;
}

/* Elements of the smallest part of x along the dims that are not of the group. */
static int64_t least_beside(const kernel_view *k, const wafer_shape *x, const kernel_map *map,
                            const dim_group *g) {
  int64_t elements = 1;
  for (uint32_t d = 0; d < x->rank; d++) {
    int64_t parts = map->loop[d] < 0 ? 1 : k->loops.extent[map->loop[d]];
    if (d != g->first && d != g->inside && parts > 0) elements *= (x->dims[d] + parts - 1) / parts;
  }
  return elements;
}

static void reshape(const kernel_view *k, const wafer_node *n, const kernel_map *result,
                    kernel_map *map) {
  const wafer_shape *x = kernel_move_shape(k, n->operands[0]), *y = &n->type.shape;
  uint32_t i = 0, j = 0;
  dim_group g;
  while (kernel_move_group(k, x, y, &i, &j, &g)) kernel_map_set(map, g.lead, result, g.onto);
  i = j = 0;
  while (kernel_move_group(k, x, y, &i, &j, &g)) {
    if (!g.inside || result->nested[g.onto] || result->even[g.onto]) continue;
    int64_t taken = part_taken(k, n->operands[0], g.first, g.inside);
    if (taken <= KERNEL_ROOMY_PART / least_beside(k, x, map, &g))
      kernel_map_nest(map, g.first, g.inside, x->dims, result, g.onto);
  }
}

/* Dim d is cut as the result's. Of dims that are one loop the parts of the one begin where the
 * other's length says: one that is longer or shorter than the result's arrives whole. */
static void follow(const wafer_shape *x, const wafer_node *n, uint32_t d, const kernel_map *result,
                   kernel_map *map) {
  if (!result->nested[d] || x->dims[d] == n->type.shape.dims[d]) kernel_map_set(map, d, result, d);
}

/* A slice of a small part of a dim: its operand is cut along a loop of its own. */
static bool picks(const wafer_kernel_body *body, const wafer_node *n, uint32_t d) {
  return n->op == WAFER_OP_slice &&
         n->type.shape.dims[d] <= wafer_body_type(body, n->operands[0])->shape.dims[d] / 4;
}

static void slice(const kernel_view *k, uint32_t node, const kernel_map *result, kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *x = kernel_move_shape(k, n->operands[0]);
  uint32_t loop = k->loops.parallel;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (!kernel_is_anchor(k, node) || !picks(k->body, n, d))
      follow(x, n, d, result, map);
    else if (loop < k->loops.count)
      kernel_map_loop(map, d, loop++);
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *n = &body->nodes[body->anchor];
  const wafer_shape *shape = &wafer_body_type(body, n->operands[0])->shape;
  for (uint32_t d = 0; d < shape->rank && n->op == WAFER_OP_slice; d++)
    if (picks(body, n, d)) kernel_loop_append(out, shape->dims[d], true);
}

void kernel_move_follow(const kernel_view *k, uint32_t node, uint32_t operand,
                        const kernel_map *result, kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *x = kernel_move_shape(k, n->operands[operand]);
  for (uint32_t d = 0; d < n->type.shape.rank; d++) follow(x, n, d, result, map);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *shape = kernel_move_shape(k, n->operands[i]);
  switch (n->op) {
  case WAFER_OP_reshape: reshape(k, n, result, map); break;
  case WAFER_OP_transpose: transpose(n, result, map); break;
  case WAFER_OP_expand: kernel_map_broadcast(shape, &n->type.shape, result, map); break;
  case WAFER_OP_slice: slice(k, node, result, map); break;
  default: kernel_move_follow(k, node, i, result, map); break; /* concat, pad */
  }
}

/* A copy of each operand's part; a pad fills the result first. Nothing takes none. */
static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t cycles = kernel_move_copy(k, node);
  uint64_t again = k->machine->vector_setup_cycles + k->machine->descriptor_load_cycles;
  if (n->op == WAFER_OP_pad || !cycles) return kernel_mul(2, cycles);
  return kernel_add(cycles, (n->operand_count - 1) * again);
}

/* Fabric work of a node, wherever it stands in the body: copies run beside it. */
static uint64_t moves(const kernel_view *k, uint32_t node) {
  uint64_t copy = kernel_move_copy(k, node), fabric = kernel_move_crossing(k, node);
  return fabric > copy ? fabric - copy : 0;
}

uint64_t kernel_move_picked(const kernel_view *k) {
  uint32_t result = kernel_result(k, k->body->anchor);
  uint64_t words = kernel_words(kernel_dtype(k, result), kernel_tile_elements(k, result));
  uint64_t cycles = 0;
  for (uint32_t loop = k->loops.parallel; loop < k->loops.count; loop++)
    cycles = kernel_add(cycles, kernel_broadcast(k, loop, words));
  return cycles;
}

uint64_t kernel_move_scratch(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node), x = kernel_node(k, node)->operands[0];
  bool slices =
      x < k->body->input_count && k->body->input_is_weight[x] && k->body->input_depth[x] == 0;
  bool picked = k->loops.count > k->loops.parallel;
  uint64_t elements = slices || kernel_tile_elements(k, x) < kernel_tile_elements(k, y)
                          ? kernel_tile_elements(k, y)
                          : kernel_tile_elements(k, x);
  return picked || kernel_move_crossing(k, node)
             ? kernel_mul(wafer_dtype_bytes(kernel_dtype(k, y)), elements)
             : 0;
}

const kernel_family kernel_family_move = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .fabric = kernel_move_picked,
                                          .moves = moves,
                                          .scratch = kernel_move_scratch};

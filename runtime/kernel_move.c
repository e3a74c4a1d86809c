/* Family move: reshape, transpose, expand, slice, concat, pad, resize, gather, scatter.
 *
 * Every core makes its tile of the result from what the rectangle holds. A dim of the operand is
 * cut as the dim of the result that its elements go to; a reshape does so with the leading dims
 * (or, where one of their indices is too much for a core, the largest) of the groups of dims that
 * it merges or divides. Where such parts do not begin at the same elements (a slice, a pad, a
 * concatenation, an uneven reshape) elements move along the loop to the core that keeps them: no
 * link carries more of them than cross it. What a gather looks up, and what a slice takes a small
 * part of, is cut along a reduction loop: the core that has an element sends it, as a partial sum.
 * Any other dim arrives whole, multicast by the stream.
 *
 * Each op copies its tile once, a vector instruction per run along the longest local dim of the
 * result (gather: of a dim that is not looked up). A linear or cubic resize is 2 or 4
 * multiply-accumulates per element and resized dim, multiplied. What a scatter puts somewhere
 * comes to every part of dim 0, as a whole or in slices along its own rows, a loop that is never
 * cut: a core keeps what falls into its part. By indices that only the run knows, gather and
 * scatter go row by row, an instruction each. */
#include <string.h>

#include "kernel_move.h"

static void transpose(const wafer_node *n, const kernel_map *result, kernel_map *map) {
  uint32_t count;
  const int64_t *perm = wafer_attr_ints(&n->attrs, WAFER_ATTR_perm, &count);
  for (uint32_t d = 0; d < count; d++) kernel_map_set(map, (uint32_t)perm[d], result, d);
}

static bool pick_largest(const wafer_shape *shape, uint32_t end, int64_t elements, uint32_t *dim) {
  uint32_t first = *dim;
  if (elements / shape->dims[first] <= KERNEL_LARGE_PART) return false;
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

bool kernel_move_group(const wafer_shape *x, const wafer_shape *y, uint32_t *i, uint32_t *j,
                       dim_group *g) {
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
  g->scattered = pick_largest(x, *i, left, &g->lead);
  g->scattered |= pick_largest(y, *j, left, &g->onto);
  g->inner = left / x->dims[g->lead];
  g->beside = left / y->dims[g->onto];
  return true;
}

static void reshape(const wafer_shape *x, const wafer_shape *y, const kernel_map *result,
                    kernel_map *map) {
  uint32_t i = 0, j = 0;
  dim_group g;
  while (kernel_move_group(x, y, &i, &j, &g)) {
    if (g.inside && !result->nested[g.onto] && !result->even[g.onto])
      kernel_map_nest(map, g.first, g.inside, x->dims, result, g.onto);
    else
      kernel_map_set(map, g.lead, result, g.onto);
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

/* Along which the indices of a scatter, and the updates with them, can pass in slices. */
static uint32_t scattered_dim(const wafer_shape *indices) {
  uint32_t longest = 0;
  for (uint32_t d = 1; d < indices->rank; d++)
    if (indices->dims[d] > indices->dims[longest]) longest = d;
  return longest;
}

static bool passes(const wafer_node *anchor, uint32_t operand) {
  return anchor->op == WAFER_OP_scatter && operand > 0;
}

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *n = &body->nodes[body->anchor];
  if (n->op == WAFER_OP_scatter) {
    const wafer_shape *indices = &wafer_body_type(body, n->operands[1])->shape;
    if (indices->rank) kernel_loop_append(out, indices->dims[scattered_dim(indices)], false);
  }
  if (n->op != WAFER_OP_gather && n->op != WAFER_OP_slice) return;
  const wafer_shape *shape = &wafer_body_type(body, n->operands[0])->shape;
  bool gathers = n->op == WAFER_OP_gather;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (gathers ? wafer_attr_int(&n->attrs, WAFER_ATTR_axis) == (int64_t)d : picks(body, n, d))
      kernel_loop_append(out, shape->dims[d], true);
}

/* data: the looked-up dim is a loop of its own; indices stand in its place. */
static void gather(const kernel_view *k, const wafer_node *n, uint32_t operand,
                   const kernel_map *result, kernel_map *map) {
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  uint32_t rank = kernel_move_shape(k, n->operands[operand])->rank,
           indices = kernel_move_shape(k, n->operands[1])->rank;
  for (uint32_t d = 0; d < rank; d++) {
    if (operand == 1)
      kernel_map_set(map, d, result, axis + d);
    else if (d != axis)
      kernel_map_set(map, d, result, d < axis ? d : d - 1 + indices);
    else if (k->body->nodes[k->body->anchor].op == WAFER_OP_gather)
      kernel_map_loop(map, d, k->loops.parallel);
  }
}

/* Behind the indices' dims the updates' dims are those of the result behind dim 0. */
static void scatter(const kernel_view *k, uint32_t node, uint32_t operand, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *all = kernel_move_shape(k, n->operands[1]);
  uint32_t indices = all->rank;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (operand == 0)
      kernel_map_set(map, d, result, d);
    else if (operand == 2 && d > 0)
      kernel_map_set(map, d - 1 + indices, result, d);
  if (operand > 0 && indices && kernel_is_anchor(k, node) && k->loops.count > k->loops.parallel)
    kernel_map_loop(map, scattered_dim(all), k->loops.parallel);
}

static void alike(const wafer_shape *x, const wafer_node *n, const kernel_map *result,
                  kernel_map *map) {
  for (uint32_t d = 0; d < n->type.shape.rank; d++) follow(x, n, d, result, map);
}

static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  const wafer_shape *shape = kernel_move_shape(k, n->operands[i]);
  switch (n->op) {
  case WAFER_OP_reshape: reshape(shape, &n->type.shape, result, map); break;
  case WAFER_OP_transpose: transpose(n, result, map); break;
  case WAFER_OP_expand: kernel_map_broadcast(shape, &n->type.shape, result, map); break;
  case WAFER_OP_slice: slice(k, node, result, map); break;
  case WAFER_OP_gather: gather(k, n, i, result, map); break;
  case WAFER_OP_scatter: scatter(k, node, i, result, map); break;
  default: alike(shape, n, result, map); break; /* concat, pad, resize */
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
    int64_t in = kernel_move_shape(k, n->operands[0])->dims[d], out = n->type.shape.dims[d];
    if (in == out) continue;
    window[d] = (kernel_window){.num = in, .den = out};
    wafer_resize_window(&n->attrs, d, in, out, &window[d].before, &window[d].after);
  }
}

static uint64_t resize_taps(const kernel_view *k, const wafer_node *n) {
  uint64_t taps = 1;
  for (uint32_t d = 0; d < n->type.shape.rank; d++)
    if (n->type.shape.dims[d] != kernel_move_shape(k, n->operands[0])->dims[d] && support(n) > 0)
      taps *= 2 * (uint64_t)support(n);
  return taps;
}

static uint64_t operations(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  return n->op == WAFER_OP_resize && support(n) > 0 ? 2 * resize_taps(k, n) : 1;
}

static int64_t divisor(int64_t a, int64_t b) {
  return b ? divisor(b, a % b) : a > 0 ? a : 1;
}

/* Instructions of a resize along dim d; 0: it keeps its length. */
static uint64_t resize_passes(const kernel_view *k, uint32_t node, uint32_t d) {
  const wafer_node *n = kernel_node(k, node);
  const char *how = wafer_attr_string(&n->attrs, WAFER_ATTR_coordinates);
  int64_t in = kernel_move_shape(k, n->operands[0])->dims[d], out = n->type.shape.dims[d];
  int64_t period = strcmp(how, "align_corners") == 0 ? out : out / divisor(in, out);
  int64_t tile = k->tile[kernel_result(k, node)][d], taps = support(n) ? 2 * support(n) : 1;
  return in == out ? 0 : kernel_mul((uint64_t)(tile < period ? tile : period), (uint64_t)taps);
}

/* Dim by dim: every index of the result a sum of indices of the operand, those that repeat the same
 * weights together. */
static uint64_t resize_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t x = n->operands[0], y = kernel_result(k, node);
  uint64_t elements = k->elements[x], cycles = 0, taps = support(n) ? 2 * (uint64_t)support(n) : 1;
  uint64_t one = k->machine->vector_setup_cycles + k->machine->descriptor_load_cycles;
  wafer_rate rate = support(n) ? WAFER_RATE_fma : WAFER_RATE_move;
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    uint64_t passes = resize_passes(k, node, d);
    if (passes == 0) continue;
    elements = elements / (uint64_t)(k->tile[x][d] > 0 ? k->tile[x][d] : 1);
    elements = kernel_mul(elements, (uint64_t)k->tile[y][d]);
    cycles = kernel_add(cycles, kernel_mul(passes, one));
    cycles = kernel_add(cycles, wafer_machine_cycles(k->machine, rate, kernel_sums(k, y),
                                                     kernel_mul(elements, taps)));
  }
  return cycles;
}

/* A gather or scatter by indices that only the run knows: row by row. */
static bool looks_up(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  if (n->op != WAFER_OP_gather) return n->op == WAFER_OP_scatter;
  uint32_t v = n->operands[1];
  return v < k->body->input_count ||
         kernel_node(k, v - k->body->input_count)->op != WAFER_OP_constant;
}

/* Control of an index: loading and checking it, the bytes to its row, the loop around it; whether
 * the row is this core's. */
#define ROW_CONTROL 10
#define ROW_CHOICE 4
#define ROWS_BEFORE 8

/* In which rows are put together: sums and products round once, where they are stored. */
static wafer_dtype rows_dtype(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node);
  const char *mode =
      n->op == WAFER_OP_scatter ? wafer_attr_string(&n->attrs, WAFER_ATTR_mode) : "none";
  bool adds = !strcmp(mode, "add") || !strcmp(mode, "mul");
  return adds ? kernel_sums(k, y) : kernel_type(k, y)->dtype;
}

/* `rows` of those that the indices name are the core's, out of `parts`; the result or the sums are
 * begun first where a row may be missing. */
static uint64_t row_cycles_of(const kernel_view *k, uint32_t node, uint64_t indices,
                              uint64_t elements, uint64_t parts, bool begins) {
  const wafer_machine *m = k->machine;
  uint32_t y = kernel_result(k, node);
  const wafer_node *n = kernel_node(k, node);
  const char *mode =
      n->op == WAFER_OP_scatter ? wafer_attr_string(&n->attrs, WAFER_ATTR_mode) : "none";
  wafer_rate rate = !strcmp(mode, "mul")    ? WAFER_RATE_mul
                    : !strcmp(mode, "none") ? WAFER_RATE_move
                                            : WAFER_RATE_add;
  wafer_dtype dtype = rows_dtype(k, node);
  uint64_t rows = (indices + parts - 1) / parts;
  uint64_t cycles =
      begins ? kernel_over_tile(k, WAFER_RATE_move, dtype, y) : (uint64_t)m->vector_setup_cycles;
  cycles = kernel_add(cycles, m->vector_setup_cycles + m->descriptor_load_cycles + ROWS_BEFORE);
  cycles = kernel_add(cycles, kernel_mul(indices, ROW_CONTROL + (parts > 1 ? ROW_CHOICE : 0)));
  uint64_t one = m->vector_setup_cycles - 1 + wafer_machine_cycles(m, rate, dtype, elements);
  return kernel_add(cycles, kernel_mul(rows, one));
}

static uint64_t lookup_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node), x = n->operands[0];
  const wafer_shape *shape = kernel_move_shape(k, n->operands[1]);
  bool gathers = n->op == WAFER_OP_gather;
  uint64_t indices = 1, tile = kernel_tile_elements(k, y), parts = 1;
  if (gathers) {
    uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
    for (uint32_t d = 0; d < shape->rank; d++)
      indices = kernel_mul(indices, (uint64_t)k->tile[y][axis + d]);
    for (uint32_t l = k->loops.parallel; l < k->loops.count && kernel_is_anchor(k, node); l++)
      parts *= (uint64_t)k->split->rows[l] * k->split->cols[l];
    return row_cycles_of(k, node, indices, indices ? tile / indices : 0, parts, parts > 1);
  }
  uint64_t rows = (uint64_t)k->tile[y][0];
  for (uint32_t d = 0; d < shape->rank; d++)
    indices = kernel_mul(indices, (uint64_t)shape->dims[d]);
  if (rows) parts = ((uint64_t)kernel_move_shape(k, x)->dims[0] + rows - 1) / rows;
  return row_cycles_of(k, node, indices, rows ? tile / rows : 0, parts, true);
}

#define SCALARS_PER_UPDATE 6 /* load the index, is it this part's?, its address, count, branch */

/* Of a scatter whose updates pass: every index is looked at, as if all were of this part. */
static uint64_t update_cycles(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t updates = n->operands[2], at = n->operands[1];
  if (updates >= k->body->input_count || !k->passes[updates]) return 0;
  uint64_t rows = k->elements[at], run = k->elements[updates] / (rows ? rows : 1);
  uint64_t cycles = kernel_mul(rows, SCALARS_PER_UPDATE);
  return kernel_add(cycles, kernel_vector(k, WAFER_RATE_add, kernel_dtype(k, updates),
                                          k->elements[updates], run));
}

/* A copy of each operand's part; a pad fills the result first. */
static uint64_t compute(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node);
  wafer_dtype dtype = kernel_dtype(k, y);
  if (n->op == WAFER_OP_resize) return resize_cycles(k, node);
  uint64_t cycles = kernel_over_tile(k, WAFER_RATE_move, dtype, y);
  uint64_t updates = n->op == WAFER_OP_scatter ? update_cycles(k, node) : 0;
  if (updates) return kernel_add(cycles, updates);
  if (looks_up(k, node)) return lookup_cycles(k, node);
  if (n->op == WAFER_OP_pad) return kernel_mul(2, cycles);
  uint64_t again = k->machine->vector_setup_cycles + k->machine->descriptor_load_cycles;
  return n->op == WAFER_OP_concat ? kernel_add(cycles, (n->operand_count - 1) * again) : cycles;
}

/* Fabric work of a node, wherever it stands in the body: copies run beside it. */
static uint64_t moves(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node);
  uint64_t copy = kernel_over_tile(k, WAFER_RATE_move, kernel_dtype(k, y), y);
  uint64_t fabric = kernel_move_crossing(k, node);
  return fabric > copy ? fabric - copy : 0;
}

static uint64_t fabric(const kernel_view *k) {
  const wafer_node *n = kernel_node(k, k->body->anchor);
  uint32_t result = kernel_result(k, k->body->anchor);
  if (n->op == WAFER_OP_resize) return kernel_halo(k);
  uint64_t words = kernel_words(kernel_dtype(k, result), kernel_tile_elements(k, result));
  uint64_t cycles = 0;
  if (looks_up(k, k->body->anchor))
    return kernel_reduce_loops(
        k, kernel_words(kernel_type(k, result)->dtype, kernel_tile_elements(k, result)));
  for (uint32_t loop = k->loops.parallel; loop < k->loops.count; loop++)
    cycles = kernel_add(cycles, kernel_broadcast(k, loop, words));
  return cycles;
}

/* What changes cores may wait between two passes; a resize keeps what it has made of all dims but
 * the last. */
static uint64_t scratch(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node), x = n->operands[0];
  if (n->op == WAFER_OP_resize) {
    uint64_t bytes = wafer_dtype_bytes(kernel_sums(k, y));
    for (uint32_t d = 0; d < n->type.shape.rank; d++) {
      int64_t from = x == k->windowed ? k->halo[d].reach : k->tile[x][d], to = k->tile[y][d];
      bytes = kernel_mul(bytes, (uint64_t)(from > to ? from : to));
    }
    bool narrows = kernel_dtype(k, y) != kernel_sums(k, y);
    return narrows ? kernel_mul(2, bytes) : bytes;
  }
  if (looks_up(k, node)) {
    bool sums = kernel_dtype(k, y) != rows_dtype(k, node);
    uint64_t bytes = wafer_dtype_bytes(rows_dtype(k, node));
    return sums || (n->op == WAFER_OP_gather && k->loops.count > k->loops.parallel)
               ? kernel_mul(bytes, kernel_tile_elements(k, y))
               : 0;
  }
  bool slices =
      x < k->body->input_count && k->body->input_is_weight[x] && k->body->input_depth[x] == 0;
  uint64_t elements = slices || kernel_tile_elements(k, x) < kernel_tile_elements(k, y)
                          ? kernel_tile_elements(k, y)
                          : kernel_tile_elements(k, x);
  bool looks_up = n->op != WAFER_OP_scatter && k->loops.count > k->loops.parallel;
  return kernel_move_crossing(k, node) || looks_up
             ? kernel_mul(wafer_dtype_bytes(kernel_dtype(k, y)), elements)
             : 0;
}

#define RESIZE_CODE_BYTES 40 /* an instruction, and four descriptors */

static uint64_t code(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  uint64_t instructions = 0;
  for (uint32_t d = 0; d < n->type.shape.rank && n->op == WAFER_OP_resize; d++)
    instructions = kernel_add(instructions, resize_passes(k, node, d));
  return kernel_mul(instructions, RESIZE_CODE_BYTES);
}

const kernel_family kernel_family_move = {.loops = loops,
                                          .operand = operand,
                                          .compute = compute,
                                          .fabric = fabric,
                                          .moves = moves,
                                          .windows = windows,
                                          .passes = passes,
                                          .operations = operations,
                                          .scratch = scratch,
                                          .code = code};

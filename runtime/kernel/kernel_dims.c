/* Which loops the dims of a body's values follow.
 *
 * The body is walked backwards: the outputs lie as the loops say, and each op says how its operands
 * lie when its result lies so (kernel_family.operand). What corresponds to no loop is whole on
 * every core. */
#include <string.h>

#include "kernel_family.h"

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

void kernel_map_even(kernel_map *map, uint32_t to, const kernel_map *result, uint32_t d,
                     int64_t even, int64_t each) {
  kernel_map_set(map, to, result, d);
  map->even[to] = gcd(result->even[d], even);
  map->each[to] = result->even[d] ? 0 : each;
}

void kernel_map_nest(kernel_map *map, uint32_t outer, uint32_t inner, const int64_t *dims,
                     const kernel_map *result, uint32_t d) {
  kernel_map_set(map, outer, result, d);
  kernel_map_set(map, inner, result, d);
  map->nested[outer] = dims[inner];
  map->nested[inner] = -dims[outer];
  map->own[outer] = dims[outer];
  map->own[inner] = dims[inner];
}

/* Parts of a loop that goes over two dims are whole runs of both when there is the same number of
 * them for every index of the outer one. Else one dim takes them all, and elements change cores:
 * the outer one, unless a single index of it is too much for a core. */
static kernel_cut nested_cut(int64_t nested, int64_t own, uint32_t rows, uint32_t cols) {
  int64_t outer = nested > 0 ? own : -nested, inner = nested > 0 ? nested : own;
  int64_t parts = (int64_t)rows * cols, within = outer > 0 ? parts / outer : 0;
  bool inside = nested < 0;
  bool inner_leads = inner > KERNEL_LARGE_PART && inner > outer;
  if ((rows > 1 && cols > 1) || within < 2 || parts % outer || inner % within)
    return inside == (inner_leads && within > 0) ? (kernel_cut){rows, cols, 1, 1}
                                                 : (kernel_cut){1, 1, 1, 1};
  uint32_t count = (uint32_t)(inside ? within : outer), stride = inside ? 1 : (uint32_t)within;
  return rows > 1 ? (kernel_cut){count, 1, stride, 1} : (kernel_cut){1, count, 1, stride};
}

/* More parts of the loop than groups, as many to each: those of a group have its part alone. They
 * are whole columns of a row, or whole rows. */
static kernel_cut even_cut(int64_t even, int64_t each, uint32_t rows, uint32_t cols) {
  const kernel_cut whole = {1, 1, 1, 1};
  int64_t parts = (int64_t)rows * cols;
  if (even % parts == 0) return (kernel_cut){rows, cols, 1, 1};
  if (!each || parts % even || each % (parts / even)) return whole;
  uint32_t within = (uint32_t)(parts / even);
  if (cols % within == 0) return (kernel_cut){rows, cols / within, 1, within};
  if (within % cols) return whole;
  within /= cols;
  return (kernel_cut){rows / within, 1, within, 1};
}

kernel_cut kernel_cut_of(const kernel_map *map, uint32_t d, uint32_t rows, uint32_t cols) {
  int64_t even = map->even[d], nested = map->nested[d];
  if (even && !nested) return even_cut(even, map->each[d], rows, cols);
  if (even && even % ((int64_t)rows * cols)) return (kernel_cut){1, 1, 1, 1};
  if (nested) return nested_cut(nested, map->own[d], rows, cols);
  return (kernel_cut){rows, cols, 1, 1};
}

void kernel_map_broadcast(const wafer_shape *operand, const wafer_shape *shape,
                          const kernel_map *result, kernel_map *map) {
  for (uint32_t d = 0; d < operand->rank; d++) {
    uint32_t at = d + shape->rank - operand->rank;
    if (operand->dims[d] == shape->dims[at]) kernel_map_set(map, d, result, at);
  }
}

static kernel_map whole(void) {
  kernel_map map = {.even = {0}};
  memset(map.loop, -1, sizeof map.loop);
  return map;
}

kernel_map kernel_operand_map(const kernel_view *k, uint32_t node, uint32_t i) {
  kernel_map map = whole();
  k->family[node]->operand(k, node, i, &k->map[kernel_result(k, node)], &map);
  return map;
}

/* Two uses of one value: a dim stays cut where both want the same. */
static void merge(kernel_map *map, const kernel_map *other) {
  for (uint32_t d = 0; d < WAFER_MAX_RANK; d++) {
    bool alike = map->nested[d] == other->nested[d] && map->own[d] == other->own[d];
    if (map->loop[d] != other->loop[d] || !alike) map->loop[d] = -1;
    if (map->even[d] != other->even[d] || map->each[d] != other->each[d]) map->each[d] = 0;
    map->even[d] = gcd(map->even[d], other->even[d]);
  }
}

/* What a reduction behind the anchor makes: the dims that it keeps come first. */
static bool map_reduced(const kernel_view *k, uint32_t value, kernel_map *map) {
  uint32_t first;
  if (!wafer_body_reduces(k->body, value - k->body->input_count, &first)) return false;
  for (uint32_t d = 0; d < first; d++) map->loop[d] = (int8_t)d;
  return true;
}

static void map_outputs(kernel_view *k) {
  for (uint32_t i = 0; i < k->body->output_count; i++) {
    uint32_t value = k->body->outputs[i];
    const wafer_shape *shape = &kernel_type(k, value)->shape;
    k->map[value] = whole();
    k->stored[value] = true;
    if (map_reduced(k, value, &k->map[value]) || shape->rank != k->loops.parallel) continue;
    for (uint32_t d = 0; d < shape->rank && d < WAFER_MAX_RANK; d++)
      if (shape->dims[d] == k->loops.extent[d]) k->map[value].loop[d] = (int8_t)d;
  }
}

/* Walks the body backwards; what is stored for others keeps the layout of an output. */
static void map_operands(kernel_view *k) {
  bool seen[WAFER_MAX_KERNEL_VALUES] = {false};
  for (uint32_t node = k->body->node_count; node-- > 0;) {
    const wafer_node *n = kernel_node(k, node);
    for (uint32_t i = 0; i < n->operand_count; i++) {
      uint32_t value = n->operands[i];
      if (k->stored[value] && value >= k->body->input_count) continue;
      const kernel_map map = kernel_operand_map(k, node, i);
      if (seen[value])
        merge(&k->map[value], &map);
      else
        k->map[value] = map;
      seen[value] = true;
    }
  }
}

/* ---- reshapes ---- */

static bool has_reshape(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->node_count; i++)
    if (body->nodes[i].op == WAFER_OP_reshape) return true;
  return false;
}

/* Elements of a core's part of the value in the split of the most parts; of two dims that are one
 * loop the outer one counts for both. */
static int64_t least_part(const kernel_view *k, uint32_t value) {
  const wafer_shape *shape = &kernel_type(k, value)->shape;
  const kernel_map *map = &k->map[value];
  int64_t part = 1;
  for (uint32_t d = 0; d < shape->rank; d++) {
    int64_t parts = map->loop[d] < 0 ? 1 : k->loops.extent[map->loop[d]];
    int64_t within = map->nested[d] > 0 ? map->nested[d] : 1;
    if (map->nested[d] >= 0) part *= kernel_ceil(shape->dims[d] * within, parts > 0 ? parts : 1);
  }
  return part;
}

static bool is_crowded(const kernel_view *k) {
  for (uint32_t i = 0; i < k->body->input_count; i++)
    if (least_part(k, i) > KERNEL_ROOMY_PART) return true;
  return false;
}

static void map_all(kernel_view *k, int64_t most_of_index) {
  k->most_of_index = most_of_index;
  for (uint32_t v = 0; v < k->values; v++) k->map[v] = whole();
  map_outputs(k);
  map_operands(k);
}

/* Where no split leaves a core an input's part that it has room for, reshapes cut their largest
 * dims. Elements then go anywhere, so they do not where that does not help. */
void kernel_map_values(kernel_view *k) {
  int64_t most = KERNEL_LARGE_PART;
  map_all(k, most);
  if (!has_reshape(k->body)) return;
  while (most > 1 && is_crowded(k)) map_all(k, most /= 4);
  if (is_crowded(k)) map_all(k, KERNEL_LARGE_PART);
}

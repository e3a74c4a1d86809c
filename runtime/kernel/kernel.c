/* Kernels seen from outside: the loops, layouts and signature of a body. Costs are in
 * kernel_cost.c, shape curves in kernel_curve.c, what a family adds in kernel_<family>.c.
 *
 * A value's layout follows from the split and from which loops its dims follow (kernel_dims.c). */
#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "kernel_family.h"
#include "wafer/pairs.h"

static const kernel_family *const families[WAFER_FAMILY_COUNT] = {
#define FAMILY(name, ...) [WAFER_FAMILY_##name] = &kernel_family_##name,
#include "wafer/kernels.def"
};

const kernel_family *kernel_family_of(const wafer_kernel_body *body, uint32_t node) {
  wafer_family family = wafer_op_get(body->nodes[node].op)->family;
  return families[family < WAFER_FAMILY_COUNT ? family : WAFER_FAMILY_map];
}

bool wafer_body_reduces(const wafer_kernel_body *body, uint32_t node, uint32_t *first) {
  const wafer_node *n = &body->nodes[node];
  const wafer_shape *dims = &body->nodes[body->anchor].type.shape;
  if (node <= body->anchor || wafer_op_get(n->op)->family != WAFER_FAMILY_reduce ||
      wafer_op_is(n->op, WAFER_TRAIT_INDEX) || n->operands[0] < body->input_count ||
      !wafer_shape_equal(&wafer_body_type(body, n->operands[0])->shape, dims))
    return false;
  *first = wafer_reduction_keeps(&n->attrs, dims->rank);
  return *first > 0;
}

void wafer_kernel_loops(const wafer_kernel_body *body, wafer_loops *loops) {
  uint32_t value =
      body->family == WAFER_FAMILY_move ? body->outputs[0] : body->input_count + body->anchor;
  const wafer_shape *shape = &wafer_body_type(body, value)->shape;
  memset(loops, 0, sizeof *loops);
  loops->count = loops->parallel = shape->rank;
  for (uint32_t d = 0; d < shape->rank; d++) {
    loops->extent[d] = shape->dims[d];
    loops->divisible[d] = shape->dims[d] > 1;
  }
  const kernel_family *family = kernel_family_of(body, body->anchor);
  if (family->loops) family->loops(body, loops);
}

void kernel_loop_append(wafer_loops *loops, int64_t extent, bool divisible) {
  if (loops->count == WAFER_MAX_LOOPS) return;
  loops->extent[loops->count] = extent;
  loops->divisible[loops->count++] = divisible && extent > 1;
}

static uint32_t product(const uint32_t *parts) {
  uint64_t all = 1;
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++) {
    all *= parts[i];
    if (all > UINT32_MAX) return UINT32_MAX;
  }
  return (uint32_t)all;
}

uint32_t wafer_split_height(const wafer_split *split) {
  return product(split->rows);
}
uint32_t wafer_split_width(const wafer_split *split) {
  return product(split->cols);
}

/* ---- how values lie ---- */

/* Constants have the elements that the plan gives them. */
static bool keeps_type(const wafer_kernel_body *body, uint32_t value) {
  const wafer_node *made = &body->nodes[value - body->input_count];
  bool keeps = made->op == WAFER_OP_cast || made->op == WAFER_OP_bitcast ||
               wafer_op_is(made->op, WAFER_TRAIT_SOURCE);
  for (uint32_t i = 0; i < body->node_count; i++)
    keeps |= body->nodes[i].op == WAFER_OP_bitcast && body->nodes[i].operands[0] == value;
  return keeps;
}

static bool is_stored(const wafer_kernel_body *body, uint32_t value) {
  bool stored = value < body->input_count;
  for (uint32_t i = 0; i < body->output_count; i++) stored |= body->outputs[i] == value;
  return stored;
}

/* The value whose elements these are, in another order or place. */
static uint32_t moved_from(const wafer_kernel_body *body, uint32_t value) {
  while (!is_stored(body, value)) {
    const wafer_node *n = &body->nodes[value - body->input_count];
    if (!wafer_op_is(n->op, WAFER_TRAIT_VIEW) || n->operand_count != 1) break;
    value = n->operands[0];
  }
  return value;
}

wafer_dtype wafer_body_dtype(const wafer_kernel_body *body, uint32_t value) {
  wafer_dtype dtype = wafer_body_type(body, value)->dtype;
  if (!is_stored(body, value)) {
    if (keeps_type(body, value)) return dtype;
    value = moved_from(body, value);
  }
  if (is_stored(body, value)) return wafer_stored_dtype(dtype, body->storage);
  return keeps_type(body, value) ? dtype : wafer_sum_dtype(dtype);
}

static void note_types(kernel_view *k) {
  for (uint32_t v = 0; v < k->values; v++) {
    const wafer_type *type = kernel_type(k, v);
    k->dtype[v] = (uint8_t)wafer_body_dtype(k->body, v);
    k->bytes[v] = (uint8_t)wafer_dtype_bytes((wafer_dtype)k->dtype[v]);
    k->plain[v] = true;
    for (uint32_t d = 0; d < type->shape.rank; d++) {
      int loop = k->map[v].loop[d];
      if (loop >= 0 && type->shape.dims[d] != k->loops.extent[loop]) k->plain[v] = false;
    }
  }
}

static bool lie_alike(const kernel_view *k, uint32_t a, uint32_t b) {
  return k->bytes[a] == k->bytes[b] &&
         wafer_shape_equal(&kernel_type(k, a)->shape, &kernel_type(k, b)->shape) &&
         memcmp(&k->map[a], &k->map[b], sizeof k->map[a]) == 0;
}

/* An elementwise node may write over an operand of its size that nobody reads later. */
static void note_lives(kernel_view *k) {
  for (uint32_t node = 0; node < k->body->node_count; node++) {
    const wafer_node *n = kernel_node(k, node);
    uint32_t result = kernel_result(k, node);
    k->between[result] = !k->stored[result] && !wafer_op_is(n->op, WAFER_TRAIT_SOURCE);
    for (uint32_t i = 0; i < n->operand_count; i++) k->last[n->operands[i]] = node;
  }
  for (uint32_t node = k->body->node_count; node-- > 0;) {
    const wafer_node *n = kernel_node(k, node);
    uint32_t result = kernel_result(k, node);
    if (!wafer_op_is(n->op, WAFER_TRAIT_MAP)) continue;
    for (uint32_t i = 0; i < n->operand_count; i++) {
      uint32_t v = n->operands[i];
      if (!k->between[v] || k->last[v] != node || !lie_alike(k, v, result)) continue;
      k->in_place[result] = k->between[result];
      k->in_output[v] = k->stored[result] || k->in_output[result];
      break;
    }
  }
}

/* Loops that go over the rows or columns of a weight that is dealt. */
static void note_orders(kernel_view *k) {
  memset(k->order, 0, sizeof k->order);
  for (uint32_t i = 0; k->body->sparsity && i < k->body->input_count; i++)
    for (uint32_t d = 0; k->body->sparsity[i].order && d < 2; d++)
      if (k->map[i].loop[d] >= 0) k->order[k->map[i].loop[d]] = 2 * k->body->sparsity[i].order + d;
}

void kernel_view_open(kernel_view *k, const wafer_machine *machine, const wafer_kernel_body *body) {
  assert(body->input_count + body->node_count <= WAFER_MAX_KERNEL_VALUES);
  const wafer_node *anchor = &body->nodes[body->anchor];
  k->body = body;
  k->machine = machine;
  k->split = NULL;
  k->calm = false;
  k->values = body->input_count + body->node_count;
  k->windowed = UINT32_MAX;
  wafer_kernel_loops(body, &k->loops);
  for (uint32_t v = 0; v < k->values; v++) {
    k->stored[v] = v < body->input_count;
    k->between[v] = k->in_place[v] = k->in_output[v] = false;
  }
  for (uint32_t node = 0; node < body->node_count; node++)
    k->family[node] = kernel_family_of(body, node);
  kernel_map_values(k);
  note_types(k);
  note_lives(k);
  note_orders(k);
  kernel_slices_open(k);
  memset(k->window, 0, sizeof k->window);
  if (!k->family[body->anchor]->windows || anchor->operand_count == 0) return;
  k->family[body->anchor]->windows(k, k->window);
  for (uint32_t d = 0; d < WAFER_MAX_RANK; d++)
    if (k->window[d].den) k->windowed = anchor->operands[0];
  if (k->windowed != UINT32_MAX) k->windowed_map = kernel_operand_map(k, body->anchor, 0);
}

static wafer_layout layout_of(const kernel_view *k, const wafer_split *split, uint32_t value) {
  const kernel_map *map = &k->map[value];
  wafer_layout layout = {.rank = kernel_type(k, value)->shape.rank};
  for (uint32_t d = 0; d < WAFER_MAX_RANK; d++) {
    layout.rows[d] = layout.cols[d] = layout.row_stride[d] = layout.col_stride[d] = 1;
    if (d >= layout.rank || map->loop[d] < 0) continue;
    uint32_t loop = (uint32_t)map->loop[d];
    kernel_cut cut = kernel_cut_of(map, d, split->rows[loop], split->cols[loop]);
    layout.rows[d] = cut.rows;
    layout.cols[d] = cut.cols;
    if (cut.rows > 1 || cut.cols > 1) layout.order[d] = k->order[loop];
    if (cut.rows > 1)
      layout.row_stride[d] = cut.row_stride * kernel_stride_of(k, split->rows, loop);
    if (cut.cols > 1)
      layout.col_stride[d] = cut.col_stride * kernel_stride_of(k, split->cols, loop);
  }
  kernel_share(k, split, value, &layout);
  return layout;
}

wafer_layout wafer_kernel_value_layout(const wafer_kernel_body *body, const wafer_split *split,
                                       uint32_t value) {
  kernel_view k;
  kernel_view_open(&k, NULL, body);
  return layout_of(&k, split, value);
}

wafer_layout wafer_kernel_input_layout(const wafer_kernel_body *body, const wafer_split *split,
                                       uint32_t input) {
  return wafer_kernel_value_layout(body, split, input);
}

wafer_layout wafer_kernel_output_layout(const wafer_kernel_body *body, const wafer_split *split,
                                        uint32_t output) {
  return wafer_kernel_value_layout(body, split, body->outputs[output]);
}

void wafer_kernel_layouts(const wafer_kernel_body *body, const wafer_split *split,
                          wafer_layout *inputs, wafer_layout *outputs) {
  kernel_view k;
  kernel_view_open(&k, NULL, body);
  for (uint32_t i = 0; i < body->input_count; i++) inputs[i] = layout_of(&k, split, i);
  for (uint32_t i = 0; i < body->output_count; i++)
    outputs[i] = layout_of(&k, split, body->outputs[i]);
}

wafer_opened_body *wafer_opened_body_create(wafer_arena *arena) {
  return WAFER_NEW(arena, wafer_opened_body, 1);
}

void wafer_opened_body_open(wafer_opened_body *opened, const wafer_machine *machine,
                            const wafer_kernel_body *body) {
  kernel_view_open(&opened->view, machine, body);
}

wafer_layout wafer_opened_body_layout(const wafer_opened_body *opened, const wafer_split *split,
                                      uint32_t value) {
  return layout_of(&opened->view, split, value);
}

/* Whether everything that a node takes lies as the node goes over it, as far as loops of the weight
 * are concerned. A dim that two uses want cut by different loops is whole, in the tensor's order:
 * cores would take their parts of it where those of a weight that is not dealt begin. */
static bool lies_as_taken(const kernel_view *k, uint32_t node, const int8_t loops[2]) {
  const wafer_node *n = kernel_node(k, node);
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const wafer_shape *shape = &kernel_type(k, n->operands[i])->shape;
    const kernel_map taken = kernel_operand_map(k, node, i), *lies = &k->map[n->operands[i]];
    for (uint32_t d = 0; d < shape->rank; d++) {
      int8_t a = taken.loop[d], b = lies->loop[d];
      bool follows = (a >= 0 && (a == loops[0] || a == loops[1])) ||
                     (b >= 0 && (b == loops[0] || b == loops[1]));
      if (a != b && follows && shape->dims[d] > 1) return false;
    }
  }
  return true;
}

bool wafer_kernel_may_deal(const wafer_kernel_body *body, uint32_t input) {
  kernel_view k;
  if (!wafer_body_factor(body, input)) return false;
  kernel_view_open(&k, NULL, body);
  const int8_t *loops = k.map[input].loop;
  for (uint32_t v = 0; v < k.values; v++)
    for (uint32_t d = 0; d < kernel_type(&k, v)->shape.rank; d++) {
      int loop = k.map[v].loop[d];
      if (loop < 0 || (loop != loops[0] && loop != loops[1])) continue;
      if (k.map[v].even[d] || kernel_type(&k, v)->shape.dims[d] != k.loops.extent[loop])
        return false;
    }
  for (uint32_t node = 0; node < body->node_count; node++)
    if (!lies_as_taken(&k, node, loops)) return false;
  return true;
}

bool wafer_layout_equal(const wafer_layout *a, const wafer_layout *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t d = 0; d < a->rank; d++)
    if (a->order[d] != b->order[d] || a->rows[d] != b->rows[d] || a->cols[d] != b->cols[d] ||
        (a->rows[d] > 1 && a->row_stride[d] != b->row_stride[d]) ||
        (a->cols[d] > 1 && a->col_stride[d] != b->col_stride[d]))
      return false;
  return true;
}

uint64_t wafer_layout_tile(const wafer_layout *layout, const wafer_shape *shape) {
  uint64_t elements = 1;
  for (uint32_t d = 0; d < shape->rank && d < layout->rank; d++) {
    int64_t parts = (int64_t)layout->rows[d] * layout->cols[d];
    elements = kernel_mul(elements, (uint64_t)kernel_ceil(shape->dims[d], parts));
  }
  return elements;
}

const char *wafer_bound_name(wafer_bound bound) {
  static const char *const names[] = {"compute", "memory", "streams", "edge"};
  return names[bound];
}

/* ---- signature ---- */

static void put(XXH3_state_t *hash, int64_t number) {
  XXH3_64bits_update(hash, &number, sizeof number);
}

static void put_type(XXH3_state_t *hash, const wafer_type *type) {
  put(hash, type->dtype);
  put(hash, type->shape.rank);
  for (uint32_t d = 0; d < type->shape.rank; d++) put(hash, type->shape.dims[d]);
}

/* Names and real numbers decide neither cycles nor bytes. */
static void put_attr(XXH3_state_t *hash, const wafer_attr *attr) {
  wafer_attr_kind kind = wafer_attr_kind_of(attr->id);
  put(hash, attr->id);
  if (kind == WAFER_ATTR_KIND_int) put(hash, attr->i);
  if (kind == WAFER_ATTR_KIND_data) put(hash, attr->data.splat);
  if (kind == WAFER_ATTR_KIND_string && attr->id != WAFER_ATTR_name)
    XXH3_64bits_update(hash, attr->s, strlen(attr->s) + 1);
  if (kind != WAFER_ATTR_KIND_ints) return;
  put(hash, attr->ints.count);
  for (uint32_t i = 0; i < attr->ints.count; i++) put(hash, attr->ints.at[i]);
}

static void put_node(XXH3_state_t *hash, const wafer_node *node) {
  put(hash, node->op);
  put(hash, node->operand_count);
  for (uint32_t i = 0; i < node->operand_count; i++) put(hash, node->operands[i]);
  for (uint32_t i = 0; i < node->attrs.count; i++) put_attr(hash, &node->attrs.at[i]);
  put_type(hash, &node->type);
}

uint64_t wafer_kernel_signature(const wafer_kernel_body *body) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  put(&hash, body->family);
  put(&hash, body->input_count);
  for (uint32_t i = 0; i < body->input_count; i++) {
    put_type(&hash, &body->inputs[i]);
    put(&hash, body->input_is_weight[i]);
    put(&hash, body->input_depth[i]);
    if (!body->sparsity || !body->sparsity[i].sparse) continue;
    put(&hash, (int64_t)body->sparsity[i].nonzeros);
    put(&hash, (int64_t)body->sparsity[i].fullest);
    put(&hash, (int64_t)body->sparsity[i].filled);
    put(&hash, body->sparsity[i].uneven);
    put(&hash, body->sparsity[i].late_list);
  }
  put(&hash, body->output_depth);
  put(&hash, body->node_count);
  for (uint32_t i = 0; i < body->node_count; i++) put_node(&hash, &body->nodes[i]);
  put(&hash, body->anchor);
  put(&hash, body->output_count);
  for (uint32_t i = 0; i < body->output_count; i++) {
    put(&hash, body->outputs[i]);
    put(&hash, wafer_body_sums(body, i));
  }
  put(&hash, body->state);
  put(&hash, body->storage);
  return XXH3_64bits_digest(&hash);
}

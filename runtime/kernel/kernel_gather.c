/* Family gather: rows of a dim by their indices.
 *
 * The dim that is looked up is a reduction loop: the core that has a row sends it, as a partial
 * sum; all others are cut as the result's, those before it that the indices share among them.
 * Constant indices that share none are one copy, a vector instruction per run along the longest
 * local dim of the result that is not looked up; by others it goes row by row, an instruction each.
 */
#include "kernel_rows.h"

static void loops(const wafer_kernel_body *body, wafer_loops *out) {
  const wafer_node *n = &body->nodes[body->anchor];
  int64_t axis = wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  const wafer_shape *shape = &wafer_body_type(body, n->operands[0])->shape;
  if (axis >= 0 && axis < shape->rank) kernel_loop_append(out, shape->dims[axis], true);
}

/* Of the data the looked-up dim is a loop of its own; indices stand in its place, behind those of
 * their dims that they share with the data. */
static void operand(const kernel_view *k, uint32_t node, uint32_t i, const kernel_map *result,
                    kernel_map *map) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  uint32_t rank = kernel_move_shape(k, n->operands[i])->rank, shared = wafer_node_shares(n),
           indices = kernel_move_shape(k, n->operands[1])->rank - shared;
  const wafer_node *anchor = kernel_node(k, k->body->anchor);
  for (uint32_t d = 0; d < rank; d++) {
    if (i == 1)
      kernel_map_set(map, d, result, axis + d - shared);
    else if (d != axis)
      kernel_map_set(map, d, result, d < axis ? d : d - 1 + indices);
    else if (anchor->op == n->op)
      kernel_map_loop(map, d, k->loops.parallel);
  }
}

static bool looks_up(const kernel_view *k, uint32_t node) {
  uint32_t v = kernel_node(k, node)->operands[1];
  return wafer_node_shares(kernel_node(k, node)) || v < k->body->input_count ||
         !wafer_op_is(kernel_node(k, v - k->body->input_count)->op, WAFER_TRAIT_SOURCE);
}

/* Control of an index: loading and checking it, the bytes to its row; those to its table; whether
 * the row is this core's; the loop around several of them (backend/program/program_rows.c,
 * emit_rows). */
#define ROW_CONTROL 6
#define ROW_TABLE 1
#define ROW_CHOICE 4
#define ROW_LOOP 4
#define ROWS_BEFORE 5
#define ROWS_LOOP 2

uint64_t kernel_rows_cycles(const kernel_view *k, uint32_t node, const kernel_rows *r) {
  const wafer_machine *m = k->machine;
  uint64_t rows = (r->indices + r->parts - 1) / r->parts;
  bool several = r->indices > 1;
  uint64_t control = ROW_CONTROL + (r->tables ? ROW_TABLE : 0) + (r->parts > 1 ? ROW_CHOICE : 0) +
                     (several ? ROW_LOOP : 0);
  uint64_t cycles =
      m->vector_setup_cycles + m->descriptor_load_cycles + ROWS_BEFORE + (several ? ROWS_LOOP : 0);
  if (r->begins)
    cycles =
        kernel_add(cycles, kernel_over_tile(k, WAFER_RATE_move, r->dtype, kernel_result(k, node)));
  cycles = kernel_add(cycles, kernel_mul(r->indices, control));
  uint64_t one =
      m->vector_setup_cycles - 1 + wafer_machine_cycles(m, r->rate, r->dtype, r->elements);
  return kernel_add(cycles, kernel_mul(rows, one));
}

static uint64_t compute(const kernel_view *k, uint32_t node) {
  if (!looks_up(k, node)) return kernel_move_copy(k, node);
  const wafer_node *n = kernel_node(k, node);
  uint32_t y = kernel_result(k, node), axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  uint32_t shared = wafer_node_shares(n);
  kernel_rows rows = {
      .rate = WAFER_RATE_move, .dtype = kernel_type(k, y)->dtype, .indices = 1, .parts = 1};
  for (uint32_t d = 0; d < kernel_move_shape(k, n->operands[1])->rank; d++)
    rows.indices = kernel_mul(rows.indices, (uint64_t)k->tile[y][axis + d - shared]);
  for (uint32_t d = 0; d < shared; d++) rows.tables |= k->tile[y][d] > 1;
  for (uint32_t l = k->loops.parallel; l < k->loops.count && kernel_is_anchor(k, node); l++)
    rows.parts *= (uint64_t)k->split->rows[l] * k->split->cols[l];
  rows.elements = rows.indices ? kernel_tile_elements(k, y) / rows.indices : 0;
  rows.begins = rows.parts > 1;
  return kernel_rows_cycles(k, node, &rows);
}

static uint64_t fabric(const kernel_view *k) {
  uint32_t y = kernel_result(k, k->body->anchor);
  if (!looks_up(k, k->body->anchor)) return kernel_move_picked(k);
  return kernel_reduce_loops(k, kernel_words(kernel_type(k, y)->dtype, kernel_tile_elements(k, y)));
}

static uint64_t scratch(const kernel_view *k, uint32_t node) {
  if (!looks_up(k, node)) return kernel_move_scratch(k, node);
  uint32_t y = kernel_result(k, node);
  wafer_dtype rows = kernel_type(k, y)->dtype;
  bool waits = kernel_dtype(k, y) != rows || k->loops.count > k->loops.parallel;
  return waits ? kernel_mul(wafer_dtype_bytes(rows), kernel_tile_elements(k, y)) : 0;
}

const kernel_family kernel_family_gather = {
    .loops = loops, .operand = operand, .compute = compute, .fabric = fabric, .scratch = scratch};

/* Family move: elements that a reshape, slice, pad or concatenation takes to other cores. */
#include "kernel_move.h"

/* `count` elements in a row: element e comes from position from_start + e * step of the operand and
 * goes to position to_start + e of the result; a core has `from` and `to` positions of them.
 * Without a positive step they go anywhere. */
typedef struct shift {
  int64_t count, from, from_start, step, to, to_start;
} shift;

static int64_t within(int64_t at, int64_t count) {
  return at < 0 ? 0 : at > count ? count : at;
}

/* Elements that cross from the first p parts to the others, or back. */
static int64_t crossing(const shift *s, int64_t p) {
  int64_t behind = kernel_most(p * s->from - s->from_start, 0);
  int64_t made = within(s->step == 1 ? behind : kernel_ceil(behind, s->step), s->count);
  int64_t kept = within(p * s->to - s->to_start, s->count);
  return made > kept ? made - kept : kept - made;
}

/* The most elements between two neighbouring parts: both sides grow evenly between the parts where
 * the row begins and ends. */
static int64_t most_crossing(const shift *s, int64_t parts) {
  if (s->step < 1 || s->from < 1 || s->to < 1) return s->count;
  if (s->step == 1 && s->from == s->to && s->from_start == s->to_start) return 0;
  const int64_t rims[] = {1,
                          parts - 1,
                          s->from_start / s->from,
                          (s->from_start + s->count * s->step) / s->from,
                          s->to_start / s->to,
                          (s->to_start + s->count) / s->to};
  int64_t most = 0;
  for (size_t i = 0; i < WAFER_COUNT(rims); i++)
    for (int64_t p = rims[i]; p <= rims[i] + 1; p++)
      if (p > 0 && p < parts) most = kernel_most(most, crossing(s, p));
  return most;
}

/* Cycles to move a row of dim d, `inner` positions behind each of its indices. */
static uint64_t row_cycles(const kernel_view *k, uint32_t value, uint32_t d, int64_t inner,
                           const shift *s) {
  int loop = k->map[value].loop[d];
  if (loop < 0 || (uint32_t)loop >= k->loops.parallel) return 0;
  int64_t parts = (int64_t)k->split->rows[loop] * k->split->cols[loop];
  int64_t crossing = parts > 1 ? most_crossing(s, parts) : 0;
  uint64_t row = (uint64_t)(k->tile[value][d] * inner);
  if (crossing == 0 || row == 0) return 0;
  uint64_t elements = kernel_mul(k->elements[value] / row, (uint64_t)crossing);
  return kernel_broadcast(k, (uint32_t)loop, kernel_words(kernel_dtype(k, value), elements));
}

/* Parts of two dims that become one are whole runs of it. */
static bool aligned(const kernel_view *k, uint32_t x, const dim_group *g) {
  const kernel_map *map = &k->map[x];
  if (!map->nested[g->inside] || map->loop[g->inside] < 0) return false;
  uint32_t loop = (uint32_t)map->loop[g->inside];
  kernel_cut outer = kernel_cut_of(map, g->first, k->split->rows[loop], k->split->cols[loop]);
  kernel_cut inner = kernel_cut_of(map, g->inside, k->split->rows[loop], k->split->cols[loop]);
  return (uint64_t)outer.rows * outer.cols > 1 && (uint64_t)inner.rows * inner.cols > 1;
}

/* Elements of the group that a line of cores takes: what the others of its dims are cut into lies
 * in other lines. */
static int64_t of_a_line(const kernel_view *k, uint32_t y, const dim_group *g, uint32_t begin,
                         uint32_t end) {
  int64_t elements = g->elements;
  for (uint32_t d = begin; d < end; d++)
    if (d != g->onto)
      elements = kernel_ceil(elements * k->tile[y][d], kernel_move_shape(k, y)->dims[d]);
  return elements;
}

static uint64_t reshape_cycles(const kernel_view *k, uint32_t node) {
  uint32_t x = kernel_node(k, node)->operands[0], y = kernel_result(k, node), i = 0, j = 0;
  uint64_t cycles = 0;
  dim_group g;
  for (uint32_t begin = 0;
       kernel_move_group(k, kernel_move_shape(k, x), kernel_move_shape(k, y), &i, &j, &g);
       begin = j) {
    if (g.inside && aligned(k, x, &g)) continue;
    const shift s = {.count = g.scattered ? of_a_line(k, y, &g, begin, j) : g.elements,
                     .from = k->tile[x][g.lead] * g.inner,
                     .step = !g.scattered,
                     .to = k->tile[y][g.onto] * g.beside};
    cycles = kernel_add(cycles, row_cycles(k, x, g.lead, g.inner, &s));
  }
  return cycles;
}

/* Of operand `i` of a slice, pad or concat. `offset`: where it begins in a concat's result. */
static uint64_t shift_cycles(const kernel_view *k, uint32_t node, uint32_t i, int64_t offset) {
  const wafer_node *n = kernel_node(k, node);
  uint32_t count, x = n->operands[i], y = kernel_result(k, node);
  const int64_t *starts = NULL, *steps = NULL, *pads = NULL;
  int64_t axis = n->op == WAFER_OP_concat ? wafer_attr_int(&n->attrs, WAFER_ATTR_axis) : -1;
  if (n->op == WAFER_OP_slice) starts = wafer_attr_ints(&n->attrs, WAFER_ATTR_starts, &count);
  if (n->op == WAFER_OP_slice) steps = wafer_attr_ints(&n->attrs, WAFER_ATTR_steps, &count);
  if (n->op == WAFER_OP_pad) pads = wafer_attr_ints(&n->attrs, WAFER_ATTR_pads, &count);
  uint64_t cycles = 0;
  for (uint32_t d = 0; d < n->type.shape.rank; d++) {
    const shift s = {.count = starts ? n->type.shape.dims[d] : kernel_move_shape(k, x)->dims[d],
                     .from = k->tile[x][d],
                     .from_start = starts ? starts[d] : 0,
                     .step = steps ? steps[d] : 1,
                     .to = k->tile[y][d],
                     .to_start = pads                 ? pads[d]
                                 : axis == (int64_t)d ? offset
                                                      : 0};
    cycles = kernel_add(cycles, row_cycles(k, x, d, 1, &s));
  }
  return cycles;
}

uint64_t kernel_move_crossing(const kernel_view *k, uint32_t node) {
  const wafer_node *n = kernel_node(k, node);
  if (n->op == WAFER_OP_reshape) return reshape_cycles(k, node);
  if (n->op != WAFER_OP_slice && n->op != WAFER_OP_pad && n->op != WAFER_OP_concat) return 0;
  uint64_t cycles = 0;
  int64_t offset = 0;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    cycles = kernel_add(cycles, shift_cycles(k, node, i, offset));
    if (n->op == WAFER_OP_concat)
      offset +=
          kernel_move_shape(k, n->operands[i])->dims[wafer_attr_int(&n->attrs, WAFER_ATTR_axis)];
  }
  return cycles;
}

/* Data movement. Transposes, and reshapes that keep neighbours neighbours, are new views of the
 * same buffer. The rest is pieces: boxes of the result, each copied from a box of some tensor. */
#include <string.h>

#include "exec.h"

/* One box, cut to one slab. Offsets in elements. */
typedef struct piece {
  const exec_tensor *from;
  int64_t from_offset, to_offset;
  exec_copy copy;
} piece;

typedef struct move_stage {
  exec_stage stage;
  exec_tensor *y;
  uint32_t room, *count; /* per slab */
  piece **pieces;        /* per slab */
} move_stage;

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const move_stage *s = (const move_stage *)stage;
  char *y = exec_data(frame, s->y);
  (void)thread;
  for (uint32_t i = 0; i < s->count[slab]; i++) {
    const piece *t = &s->pieces[slab][i];
    int64_t element = (int64_t)t->copy.element;
    exec_copy_run(&t->copy, (char *)exec_data(frame, t->from) + t->from_offset * element,
                  y + t->to_offset * element);
  }
  return WAFER_OK;
}

static move_stage *stage_for(exec_program *p, exec_tensor *y, uint32_t room) {
  move_stage *s = WAFER_NEW(p->arena, move_stage, 1);
  if (!s) return NULL;
  *s = (move_stage){.stage = {.run = run, .loc = p->loc}, .y = y, .room = room};
  exec_slabs(p, &s->stage, y, UINT32_MAX);
  s->count = WAFER_NEW(p->arena, uint32_t, s->stage.slabs);
  s->pieces = WAFER_NEW(p->arena, piece *, s->stage.slabs);
  for (uint32_t i = 0; s->pieces && i < s->stage.slabs; i++)
    if (!(s->pieces[i] = WAFER_NEW(p->arena, piece, room))) return NULL;
  return s->count && s->pieces ? s : NULL;
}

/* The box of the result that begins at `start`; its first element comes from `offset` of `from`,
 * one step along dim d is `stride[d]` there. */
static void add_box(move_stage *s, const exec_tensor *from, int64_t offset, const int64_t *stride,
                    const int64_t *start, const int64_t *extent) {
  const exec_tensor *y = s->y;
  uint32_t outer = exec_outer_dim(y);
  for (uint32_t slab = 0; slab < s->stage.slabs; slab++) {
    piece t = {.from = from, .from_offset = offset};
    t.copy = (exec_copy){.rank = y->shape.rank, .element = wafer_dtype_bytes(y->host)};
    bool empty = false;
    for (uint32_t d = 0; d < y->shape.rank; d++) {
      int64_t low = start[d], high = start[d] + extent[d], from_row, to_row;
      exec_slab(&s->stage, slab, &from_row, &to_row);
      if (d == outer && low < from_row) low = from_row;
      if (d == outer && high > to_row) high = to_row;
      t.from_offset += (low - start[d]) * stride[d];
      t.to_offset += low * y->strides[d];
      t.copy.extent[d] = high - low;
      t.copy.from[d] = stride[d];
      t.copy.to[d] = y->strides[d];
      empty = empty || high <= low;
    }
    if (empty) continue;
    exec_copy_simplify(&t.copy);
    s->pieces[slab][s->count[slab]++] = t;
  }
}

static wafer_status add_stage(exec_program *p, move_stage *s, exec_op *op) {
  op->result = s->y;
  return exec_stage_add(p, &s->stage, op, UINT32_MAX);
}

/* The whole result from one tensor. */
static wafer_status copy_whole(exec_program *p, exec_op *op, const exec_tensor *from,
                               int64_t offset, const int64_t *stride, const exec_order *order) {
  static const int64_t zeros[WAFER_MAX_RANK];
  exec_tensor *y = exec_tensor_create(p, &op->node->type, order);
  move_stage *s = y ? stage_for(p, y, 1) : NULL;
  if (!s) return exec_no_memory(p);
  add_box(s, from, offset, stride, zeros, y->shape.dims);
  return add_stage(p, s, op);
}

static wafer_status copy_known(exec_program *p, const exec_tensor *t, exec_tensor *copy) {
  exec_copy box = {.rank = t->shape.rank, .element = wafer_dtype_bytes(t->host)};
  memcpy(box.extent, t->shape.dims, sizeof box.extent);
  memcpy(box.from, t->strides, sizeof box.from);
  memcpy(box.to, copy->strides, sizeof box.to);
  void *data = exec_alloc(p, p->buffers[copy->buffer].bytes);
  if (!data) return exec_no_memory(p);
  exec_copy_simplify(&box);
  exec_copy_run(&box, exec_tensor_known(p, t), data);
  p->buffers[copy->buffer].constant = data;
  return WAFER_OK;
}

wafer_status exec_reordered(exec_program *p, exec_tensor *t, const exec_order *order,
                            exec_tensor **out) {
  wafer_type type = {t->type, t->shape};
  if (exec_same_order(&t->shape, &t->order, order)) {
    bool named = memcmp(&t->order, order, sizeof *order) == 0; /* dims of 1 stand anywhere */
    *out = named ? t : exec_tensor_view(p, t, &type, order);
    return *out ? WAFER_OK : exec_no_memory(p);
  }
  wafer_node node = {.operand_count = 1, .type = type};
  exec_op op = {.node = &node, .operands = {t}};
  if (!exec_tensor_known(p, t)) {
    WAFER_TRY(copy_whole(p, &op, t, 0, t->strides, order));
    *out = op.result;
    return WAFER_OK;
  }
  exec_tensor *copy = exec_tensor_create(p, &type, order);
  if (!copy) return exec_no_memory(p);
  *out = copy;
  return copy_known(p, t, copy);
}

static wafer_status view_as(exec_program *p, exec_op *op, const exec_tensor *t,
                            const exec_order *order) {
  op->result = exec_tensor_view(p, t, &op->node->type, order);
  return op->result ? WAFER_OK : exec_no_memory(p);
}

static wafer_status build_transpose(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  uint32_t count;
  const int64_t *perm = wafer_attr_ints(&op->node->attrs, WAFER_ATTR_perm, &count);
  if (count != x->shape.rank) return WAFER_OK;
  exec_order order = exec_row_major();
  for (uint32_t i = 0; i < count; i++)
    for (uint8_t j = 0; j < count; j++)
      if (perm[j] == x->order.dim[i]) order.dim[i] = j;
  return view_as(p, op, x, &order);
}

/* The order of a reshaped view: dims are matched in groups of equal products; each group of more
 * than one dim must lie together and in order. False when the elements have to move. */
static bool reshaped_order(const exec_tensor *x, const wafer_shape *y, exec_order *order) {
  uint8_t first[WAFER_MAX_RANK],
      end[WAFER_MAX_RANK]; /* per dim of x that leads a group: dims of y */
  bool leads[WAFER_MAX_RANK] = {false}, used[WAFER_MAX_RANK] = {false};
  uint8_t at = 0, position[WAFER_MAX_RANK];
  for (uint8_t i = 0; i < x->shape.rank; i++) position[x->order.dim[i]] = i;
  for (uint8_t i = 0, j = 0; i < x->shape.rank || j < y->rank;) {
    int64_t a = 1, b = 1;
    uint8_t lead = i, from = j, last = WAFER_MAX_RANK;
    do {
      bool more_x = i < x->shape.rank && (a <= b || j >= y->rank);
      if (!more_x && j >= y->rank) return false;
      if (!more_x)
        b *= y->dims[j++];
      else {
        if (x->shape.dims[i] != 1) {
          for (uint8_t k = last < WAFER_MAX_RANK ? position[last] + 1 : position[i];
               k < position[i]; k++)
            if (x->shape.dims[x->order.dim[k]] != 1) return false;
          if (last < WAFER_MAX_RANK && position[i] < position[last]) return false;
          if (last == WAFER_MAX_RANK) lead = i;
          last = i;
        }
        a *= x->shape.dims[i++];
      }
    } while (a != b || (a == 1 && i < x->shape.rank && j < y->rank));
    if (lead < x->shape.rank) leads[lead] = true, first[lead] = from, end[lead] = j;
  }
  for (uint32_t i = 0; i < x->shape.rank; i++) {
    uint8_t d = x->order.dim[i];
    for (uint8_t j = leads[d] ? first[d] : 0; leads[d] && j < end[d]; j++)
      order->dim[at++] = j, used[j] = true;
  }
  for (uint8_t j = 0; j < y->rank; j++)
    if (!used[j]) order->dim[at++] = j;
  return at == y->rank;
}

static bool has_elements(const wafer_shape *s) {
  for (uint32_t i = 0; i < s->rank; i++)
    if (s->dims[i] == 0) return false;
  return true;
}

static wafer_status build_reshape(exec_program *p, exec_op *op) {
  exec_order order = exec_row_major(), row_major = exec_row_major();
  exec_tensor *x = op->operands[0];
  if (has_elements(&x->shape) && reshaped_order(x, &op->node->type.shape, &order))
    return view_as(p, op, x, &order);
  WAFER_TRY(exec_reordered(p, x, &row_major, &x));
  return view_as(p, op, x, &row_major);
}

static wafer_status build_expand(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  const wafer_shape *y = &op->node->type.shape;
  int64_t stride[WAFER_MAX_RANK];
  uint32_t missing = y->rank - x->shape.rank;
  for (uint32_t d = 0; d < y->rank; d++)
    stride[d] = d < missing || x->shape.dims[d - missing] == 1 ? 0 : x->strides[d - missing];
  exec_order order = missing ? exec_row_major() : x->order;
  return copy_whole(p, op, x, 0, stride, &order);
}

static wafer_status build_slice(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  uint32_t n[2];
  const int64_t *starts = wafer_attr_ints(&op->node->attrs, WAFER_ATTR_starts, &n[0]);
  const int64_t *steps = wafer_attr_ints(&op->node->attrs, WAFER_ATTR_steps, &n[1]);
  if (n[0] != x->shape.rank || n[1] != x->shape.rank) return WAFER_OK;
  int64_t stride[WAFER_MAX_RANK], offset = 0;
  for (uint32_t d = 0; d < x->shape.rank; d++) {
    stride[d] = x->strides[d] * steps[d];
    offset += x->strides[d] * starts[d];
  }
  return copy_whole(p, op, x, has_elements(&op->node->type.shape) ? offset : 0, stride, &x->order);
}

static wafer_status build_concat(exec_program *p, exec_op *op) {
  int64_t axis = wafer_attr_int(&op->node->attrs, WAFER_ATTR_axis);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &op->operands[0]->order);
  move_stage *s = y ? stage_for(p, y, op->node->operand_count) : NULL;
  int64_t start[WAFER_MAX_RANK] = {0};
  if (!s) return exec_no_memory(p);
  if (axis < 0 || axis >= y->shape.rank) return WAFER_OK;
  for (uint32_t i = 0; i < op->node->operand_count; i++) {
    const exec_tensor *x = op->operands[i];
    add_box(s, x, 0, x->strides, start, x->shape.dims);
    start[axis] += x->shape.dims[axis];
  }
  return add_stage(p, s, op);
}

/* A constant rim around a copy: along each dim in turn the rim before and after, then the middle.
 */
static void add_rim(move_stage *s, const exec_tensor *x, const exec_tensor *fill,
                    const int64_t *before) {
  static const int64_t zeros[WAFER_MAX_RANK];
  const wafer_shape *y = &s->y->shape;
  int64_t start[WAFER_MAX_RANK] = {0}, extent[WAFER_MAX_RANK], offset = 0;
  memcpy(extent, y->dims, sizeof extent);
  for (uint32_t d = 0; d < y->rank; d++) {
    int64_t low = before[d] > 0 ? before[d] : 0, high = before[d] + x->shape.dims[d];
    if (high > y->dims[d]) high = y->dims[d];
    start[d] = 0, extent[d] = low;
    add_box(s, fill, 0, zeros, start, extent);
    start[d] = high, extent[d] = y->dims[d] - high;
    add_box(s, fill, 0, zeros, start, extent);
    start[d] = low, extent[d] = high - low;
    offset += (low - before[d]) * x->strides[d];
  }
  add_box(s, x, offset, x->strides, start, extent);
}

static wafer_status build_pad(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  const wafer_attrs *a = &op->node->attrs;
  uint32_t count;
  const int64_t *pads = wafer_attr_ints(a, WAFER_ATTR_pads, &count);
  if (strcmp(wafer_attr_string(a, WAFER_ATTR_mode), "constant") != 0 ||
      count != 2 * x->shape.rank || !has_elements(&x->shape) ||
      !has_elements(&op->node->type.shape))
    return WAFER_OK;
  double value = wafer_attr_float(a, WAFER_ATTR_fill);
  char element[8] = {0};
  wafer_type type = {x->host, {.rank = 0}};
  if (wafer_dtype_is_float(x->host))
    wafer_element_set_f64(x->host, element, 0, value);
  else
    wafer_element_set_i64(x->host, element, 0, (int64_t)value);
  exec_tensor *fill = exec_tensor_constant(p, &type, element, true, p->storage);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &x->order);
  move_stage *s = fill && y ? stage_for(p, y, 2 * x->shape.rank + 1) : NULL;
  if (!s) return exec_no_memory(p);
  add_rim(s, x, fill, pads);
  return add_stage(p, s, op);
}

wafer_status exec_build_move(exec_program *p, exec_op *op) {
  switch (op->node->op) {
  case WAFER_OP_reshape: return build_reshape(p, op);
  case WAFER_OP_transpose: return build_transpose(p, op);
  case WAFER_OP_expand: return build_expand(p, op);
  case WAFER_OP_slice: return build_slice(p, op);
  case WAFER_OP_concat: return build_concat(p, op);
  case WAFER_OP_pad: return build_pad(p, op);
  default: return WAFER_OK;
  }
}

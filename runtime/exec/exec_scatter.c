/* Scatter of rows. A slab owns a range of the result's rows and looks through all places for its
 * own, in their order: a row that takes in several has the same sum for any number of slabs. */
#include <string.h>

#include "exec.h"
#include "ops/modes.h"
#include "tensor/vmath.h"

typedef struct scatter_stage {
  exec_stage stage;
  const exec_tensor *x, *index, *updates, *y;
  scatter_mode mode;
  int64_t rows, row, places; /* elements of a row */
  size_t element;
} scatter_stage;

#define TAKE(name, expr)                                                                           \
  WAFER_CLONES static void take_##name(float *to, const float *from, int64_t n) {                  \
    for (int64_t i = 0; i < n; i++) {                                                              \
      float x = from[i], y = to[i];                                                                \
      to[i] = expr;                                                                                \
    }                                                                                              \
  }
TAKE(add, y + x)
TAKE(mul, y *x)
TAKE(max, y != y || !(x > y || x != x) ? y : x)
TAKE(min, y != y || !(x < y || x != x) ? y : x)

static void take(const scatter_stage *s, char *to, const char *from) {
  float *y = (float *)(void *)to;
  const float *x = (const float *)(const void *)from;
  if (s->mode == SCATTER_none)
    memcpy(to, from, (size_t)s->row * s->element);
  else if (s->mode == SCATTER_add)
    take_add(y, x, s->row);
  else if (s->mode == SCATTER_mul)
    take_mul(y, x, s->row);
  else
    (s->mode == SCATTER_max ? take_max : take_min)(y, x, s->row);
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const scatter_stage *s = (const scatter_stage *)stage;
  const void *index = exec_data(frame, s->index);
  const char *x = exec_data(frame, s->x), *updates = exec_data(frame, s->updates);
  char *y = exec_data(frame, s->y);
  int64_t from = 0, to = s->rows;
  size_t bytes = (size_t)s->row * s->element;
  (void)thread;
  if (stage->slabs > 1) exec_slab(stage, slab, &from, &to);
  memcpy(y + (size_t)from * bytes, x + (size_t)from * bytes, (size_t)(to - from) * bytes);
  for (int64_t i = 0; i < s->places; i++) {
    int64_t at = wafer_element_i64(s->index->host, index, i);
    if (at < 0) at += s->rows;
    if (at < 0 || at >= s->rows) return WAFER_TRAP;
    if (at >= from && at < to) take(s, y + (size_t)at * bytes, updates + (size_t)i * bytes);
  }
  return WAFER_OK;
}

static void tell(const exec_stage *stage, const exec_frame *frame, char *text, size_t room) {
  const scatter_stage *s = (const scatter_stage *)stage;
  exec_tell_index(frame, s->index, s->places, s->rows, text, room);
}

static int64_t elements(const exec_tensor *t) {
  int64_t n = 1;
  for (uint32_t i = 0; i < t->shape.rank; i++) n *= t->shape.dims[i];
  return n;
}

wafer_status exec_build_scatter(exec_program *p, exec_op *op) {
  const char *word = wafer_attr_string(&op->node->attrs, WAFER_ATTR_mode);
  size_t mode = mode_find(scatter_modes, SCATTER_MODE_COUNT, word);
  exec_order order = exec_row_major();
  bool moves = mode == SCATTER_none, known = op->operands[0]->host == WAFER_DTYPE_f32;
  if (mode == SCATTER_MODE_COUNT || !(moves || known) || !elements(op->operands[0]))
    return WAFER_OK;
  for (int i = 0; i < 3; i++)
    WAFER_TRY(exec_reordered(p, op->operands[i], &order, &op->operands[i]));
  scatter_stage *s = WAFER_NEW(p->arena, scatter_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!s || !y) return exec_no_memory(p);
  *s = (scatter_stage){.stage = {.run = run, .loc = p->loc, .tell = tell},
                       .x = op->operands[0],
                       .index = op->operands[1],
                       .updates = op->operands[2],
                       .y = y,
                       .mode = (scatter_mode)mode,
                       .rows = y->shape.dims[0],
                       .places = elements(op->operands[1]),
                       .element = wafer_dtype_bytes(y->host)};
  s->row = elements(y) / s->rows;
  op->result = y;
  return exec_stage_add(p, &s->stage, op, exec_outer_dim(y) == 0 ? UINT32_MAX : 1);
}

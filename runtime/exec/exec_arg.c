/* arg_max and arg_min of f32: many lines at a time, each with the best that it has seen. */
#include <math.h>

#include "exec.h"
#include "tensor/vmath.h"

enum { CHUNK = 256 };

typedef struct arg_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  int64_t n, inner; /* length of the axis, its stride */
  float sign;       /* -1: the least */
  bool last;        /* of equal ones */
} arg_stage;

/* Neighbouring lines, `line` apart; element j of a line lies j * step after its first. A NaN beats
 * all but NaNs. */
WAFER_CLONES static void first_of(const arg_stage *s, const float *x, int64_t line, int64_t step,
                                  int64_t width, int64_t *out) {
  float best[CHUNK];
  int32_t at[CHUNK];
  for (int64_t i = 0; i < width; i++) best[i] = s->sign * x[i * line], at[i] = 0;
  for (int64_t j = 1; j < s->n; j++)
    for (int64_t i = 0; i < width; i++) {
      float v = s->sign * x[i * line + j * step], b = best[i];
      bool beats = v > b || (v != v && b == b);
      best[i] = beats ? v : b;
      at[i] = beats ? (int32_t)j : at[i];
    }
  for (int64_t i = 0; i < width; i++) out[i] = at[i];
}

WAFER_CLONES static void last_of(const arg_stage *s, const float *x, int64_t line, int64_t step,
                                 int64_t width, int64_t *out) {
  float best[CHUNK];
  int32_t at[CHUNK];
  for (int64_t i = 0; i < width; i++) best[i] = s->sign * x[i * line], at[i] = 0;
  for (int64_t j = 1; j < s->n; j++)
    for (int64_t i = 0; i < width; i++) {
      float v = s->sign * x[i * line + j * step], b = best[i];
      bool stays = v != v || v >= b;
      best[i] = stays ? v : b;
      at[i] = stays ? (int32_t)j : at[i];
    }
  for (int64_t i = 0; i < width; i++) out[i] = at[i];
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const arg_stage *s = (const arg_stage *)stage;
  const float *x = exec_data(frame, s->x);
  int64_t *y = exec_data(frame, s->y), from, to;
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  from *= stage->row, to *= stage->row;
  while (from < to) {
    int64_t column = from % s->inner, width = s->inner == 1 ? to - from : s->inner - column;
    if (width > to - from) width = to - from;
    if (width > CHUNK) width = CHUNK;
    (s->last ? last_of : first_of)(s, x + from / s->inner * s->n * s->inner + column,
                                   s->inner == 1 ? s->n : 1, s->inner, width, y + from);
    from += width;
  }
  return WAFER_OK;
}

wafer_status exec_build_arg(exec_program *p, exec_op *op) {
  const wafer_attrs *attrs = &op->node->attrs;
  exec_order order = exec_row_major();
  const wafer_shape *shape = &op->operands[0]->shape;
  int64_t axis = wafer_attr_int(attrs, WAFER_ATTR_axis), inner = 1;
  if (op->operands[0]->host != WAFER_DTYPE_f32 || axis < 0 || axis >= shape->rank ||
      shape->dims[axis] < 1 || shape->dims[axis] > INT32_MAX)
    return WAFER_OK;
  for (uint32_t d = (uint32_t)axis + 1; d < shape->rank; d++) inner *= shape->dims[d];
  if (inner == 0) return WAFER_OK;
  WAFER_TRY(exec_reordered(p, op->operands[0], &order, &op->operands[0]));
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  arg_stage *s = WAFER_NEW(p->arena, arg_stage, 1);
  if (!s || !y) return exec_no_memory(p);
  *s = (arg_stage){.stage = {.run = run, .loc = p->loc},
                   .x = op->operands[0],
                   .y = y,
                   .n = shape->dims[axis],
                   .inner = inner,
                   .sign = op->node->op == WAFER_OP_arg_min ? -1.0f : 1.0f,
                   .last = wafer_attr_int(attrs, WAFER_ATTR_last) != 0};
  op->result = y;
  return exec_stage_add(p, &s->stage, op, UINT32_MAX);
}

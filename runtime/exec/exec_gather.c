/* Gathers along one dim: whole runs of neighbours at a time. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec.h"

typedef struct gather_stage {
  exec_stage stage;
  const exec_tensor *x, *index, *y;
  int64_t dim, picks; /* length of x's dim; runs that are picked of each of its rows */
  int64_t indices;    /* all; what is behind them begins again, if rows share them */
  size_t run;         /* bytes of neighbours inside the dim */
} gather_stage;

void exec_tell_index(const exec_frame *frame, const exec_tensor *index, int64_t count, int64_t dim,
                     char *text, size_t room) {
  const void *data = exec_data(frame, index);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = wafer_element_i64(index->host, data, i);
    if (at >= -dim && at < dim) continue;
    snprintf(text, room,
             "index %" PRId64 " (element %" PRId64 ") lies outside the dimension of %" PRId64
             " that it picks from",
             at, i, dim);
    return;
  }
}

/* Runs number [from, to) of the result. */
static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const gather_stage *s = (const gather_stage *)stage;
  const char *x = exec_data(frame, s->x);
  const void *index = exec_data(frame, s->index);
  char *y = exec_data(frame, s->y);
  int64_t from, to, element = (int64_t)wafer_dtype_bytes(s->y->host);
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  if (s->run == 0) return WAFER_OK;
  from = from * stage->row * element / (int64_t)s->run;
  to = to * stage->row * element / (int64_t)s->run;
  for (int64_t i = from; i < to; i++) {
    int64_t at = wafer_element_i64(s->index->host, index, i % s->indices);
    if (at < 0) at += s->dim;
    if (at < 0 || at >= s->dim) return WAFER_TRAP;
    memcpy(y + (size_t)i * s->run, x + (size_t)(i / s->picks * s->dim + at) * s->run, s->run);
  }
  return WAFER_OK;
}

static void tell(const exec_stage *stage, const exec_frame *frame, char *text, size_t room) {
  const gather_stage *s = (const gather_stage *)stage;
  exec_tell_index(frame, s->index, s->indices, s->dim, text, room);
}

wafer_status exec_build_gather(exec_program *p, exec_op *op) {
  int64_t axis = wafer_attr_int(&op->node->attrs, WAFER_ATTR_axis);
  exec_order order = exec_row_major();
  if (axis < 0 || axis >= op->operands[0]->shape.rank) return WAFER_OK;
  for (int i = 0; i < 2; i++)
    WAFER_TRY(exec_reordered(p, op->operands[i], &order, &op->operands[i]));
  const exec_tensor *x = op->operands[0], *index = op->operands[1];
  gather_stage *s = WAFER_NEW(p->arena, gather_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!s || !y) return exec_no_memory(p);
  *s = (gather_stage){.stage = {.run = run, .loc = p->loc, .tell = tell},
                      .x = x,
                      .index = index,
                      .y = y,
                      .dim = x->shape.dims[axis],
                      .picks = 1,
                      .indices = 1,
                      .run = wafer_dtype_bytes(x->host)};
  uint32_t shared = wafer_node_shares(op->node);
  for (uint32_t d = shared; d < index->shape.rank; d++) s->picks *= index->shape.dims[d];
  for (uint32_t d = 0; d < index->shape.rank; d++) s->indices *= index->shape.dims[d];
  for (uint32_t d = (uint32_t)axis + 1; d < x->shape.rank; d++) s->run *= (size_t)x->shape.dims[d];
  op->result = y;
  /* A slab is whole runs, unless its dim lies inside a run. */
  bool inside = exec_outer_dim(y) >= (uint32_t)axis + index->shape.rank - shared;
  return exec_stage_add(p, &s->stage, op, inside ? 1 : UINT32_MAX);
}

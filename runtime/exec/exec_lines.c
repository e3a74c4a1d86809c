/* Lines of a tensor, one after the other or neighbours at once. */
#include "exec_lines.h"

#include "tensor/vmath.h"

enum { LANES = 16 };

WAFER_CLONES float exec_lines_total(const float *x, int64_t n) {
  float lanes[LANES] = {0}, sum = 0.0f;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] += x[k + i];
  for (int i = 0; i < LANES; i++) sum += lanes[i];
  for (; k < n; k++) sum += x[k];
  return sum;
}

WAFER_CLONES void exec_lines_subtract(float *out, const float *x, float y, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] - y;
}

WAFER_CLONES void exec_lines_scale(float *out, const float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * by;
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const exec_lines *l = (const exec_lines *)stage;
  const float *x = exec_data(frame, l->x);
  float *y = exec_data(frame, l->y);
  int64_t from, to, group = l->n * l->inner;
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  for (int64_t at = from * stage->row; at < to * stage->row; at += group) {
    if (l->inner == 1) l->line(l, y + at, x + at);
    for (int64_t j = 0; l->inner > 1 && j < l->inner; j += EXEC_LINES)
      l->neighbours(l, y + at + j, x + at + j,
                    l->inner - j < EXEC_LINES ? l->inner - j : EXEC_LINES);
  }
  return WAFER_OK;
}

/* The dims of a bit set as one line; false: others lie between them, or there is no element. */
static bool find_line(const exec_tensor *x, uint32_t dims, int64_t *n, int64_t *inner) {
  bool begun = false;
  *n = *inner = 1;
  for (uint32_t i = x->shape.rank; i-- > 0;) {
    uint32_t d = x->order.dim[i];
    if (x->shape.dims[d] == 0) return false;
    if (x->shape.dims[d] == 1 || !(dims >> d & 1)) continue;
    if (begun && x->strides[d] != *n * *inner) return false;
    if (!begun) *inner = x->strides[d];
    begun = true;
    *n *= x->shape.dims[d];
  }
  return true;
}

wafer_status exec_lines_build(exec_program *p, exec_op *op, uint32_t dims, exec_lines *l) {
  const exec_tensor *x = op->operands[0];
  if (x->host != WAFER_DTYPE_f32 || !find_line(x, dims, &l->n, &l->inner)) return WAFER_OK;
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &x->order);
  if (!y) return exec_no_memory(p);
  l->stage = (exec_stage){.run = run, .loc = p->loc};
  l->x = x;
  l->y = y;
  op->result = y;
  return exec_stage_add(p, &l->stage, op, dims >> exec_outer_dim(y) & 1 ? 1 : UINT32_MAX);
}

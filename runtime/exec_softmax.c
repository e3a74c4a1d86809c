/* Softmax of f32 tensors in any order: exp and reciprocal are the cores' own routines. */
#include <math.h>

#include "exec.h"
#include "vmath.h"

enum { CHUNK = 256, LANES = 16 }; /* neighbours that a strided axis handles at once */

typedef struct softmax_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  int64_t n, inner; /* length of the axis, its stride */
} softmax_stage;

VMATH_CLONES static float largest(const float *x, int64_t n) {
  float lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = -INFINITY;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] = x[k + i] > lanes[i] ? x[k + i] : lanes[i];
  float most = -INFINITY;
  for (int i = 0; i < LANES; i++) most = lanes[i] > most ? lanes[i] : most;
  for (; k < n; k++) most = x[k] > most ? x[k] : most;
  return most;
}

VMATH_CLONES static float total(const float *x, int64_t n) {
  float lanes[LANES] = {0}, sum = 0.0f;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] += x[k + i];
  for (int i = 0; i < LANES; i++) sum += lanes[i];
  for (; k < n; k++) sum += x[k];
  return sum;
}

VMATH_CLONES static void subtract(float *out, const float *x, float y, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] - y;
}

VMATH_CLONES static void scale(float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] *= by;
}

static void softmax_line(float *y, const float *x, int64_t n) {
  float sum, by;
  subtract(y, x, largest(x, n), n);
  vmath_exp(y, y, (size_t)n);
  sum = total(y, n);
  vmath_reciprocal(&by, &sum, 1);
  scale(y, by, n);
}

/* `width` neighbouring lines whose elements lie `stride` apart. */
static void softmax_lines(float *y, const float *x, int64_t n, int64_t stride, int64_t width) {
  float most[CHUNK], sum[CHUNK];
  for (int64_t j = 0; j < width; j++) most[j] = x[j], sum[j] = 0.0f;
  for (int64_t k = 1; k < n; k++)
    for (int64_t j = 0; j < width; j++)
      if (x[k * stride + j] > most[j]) most[j] = x[k * stride + j];
  for (int64_t k = 0; k < n; k++) {
    float *line = y + k * stride;
    for (int64_t j = 0; j < width; j++) line[j] = x[k * stride + j] - most[j];
    vmath_exp(line, line, (size_t)width);
    for (int64_t j = 0; j < width; j++) sum[j] += line[j];
  }
  vmath_reciprocal(sum, sum, (size_t)width);
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) y[k * stride + j] *= sum[j];
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const softmax_stage *s = (const softmax_stage *)stage;
  const float *x = exec_data(frame, s->x);
  float *y = exec_data(frame, s->y);
  int64_t from, to, group = s->n * s->inner;
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  for (int64_t at = from * stage->row; at < to * stage->row; at += group) {
    if (s->inner == 1) softmax_line(y + at, x + at, s->n);
    for (int64_t j = 0; s->inner > 1 && j < s->inner; j += CHUNK)
      softmax_lines(y + at + j, x + at + j, s->n, s->inner,
                    s->inner - j < CHUNK ? s->inner - j : CHUNK);
  }
  return WAFER_OK;
}

wafer_status exec_build_softmax(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  int64_t axis = wafer_attr_int(&op->node->attrs, WAFER_ATTR_axis);
  if (x->host != WAFER_DTYPE_f32 || axis < 0 || axis >= x->shape.rank) return WAFER_OK;
  for (uint32_t i = 0; i < x->shape.rank; i++)
    if (x->shape.dims[i] == 0) return WAFER_OK;
  softmax_stage *s = WAFER_NEW(p->arena, softmax_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &x->order);
  if (!s || !y) return exec_no_memory(p);
  bool single = x->shape.dims[axis] == 1;
  *s = (softmax_stage){.stage = {.run = run, .loc = p->loc},
                       .x = x,
                       .y = y,
                       .n = x->shape.dims[axis],
                       .inner = single ? 1 : x->strides[axis]};
  op->result = y;
  return exec_stage_add(p, &s->stage, op, exec_outer_dim(y) == (uint32_t)axis ? 1 : UINT32_MAX);
}

/* Softmax of f32 tensors in any order: exp and reciprocal are the cores' own routines. */
#include <math.h>

#include "exec_lines.h"
#include "tensor/vmath.h"

enum { LANES = 16 };

WAFER_CLONES static float largest(const float *x, int64_t n) {
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

static void softmax_line(const exec_lines *l, float *y, const float *x) {
  float sum, by;
  exec_lines_subtract(y, x, largest(x, l->n), l->n);
  vmath_exp(y, y, (size_t)l->n);
  sum = exec_lines_total(y, l->n);
  vmath_reciprocal(&by, &sum, 1);
  exec_lines_scale(y, y, by, l->n);
}

static void softmax_neighbours(const exec_lines *l, float *y, const float *x, int64_t width) {
  float most[EXEC_LINES], sum[EXEC_LINES];
  int64_t n = l->n, stride = l->inner;
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

wafer_status exec_build_softmax(exec_program *p, exec_op *op) {
  exec_lines *l = WAFER_NEW(p->arena, exec_lines, 1);
  if (!l) return exec_no_memory(p);
  *l = (exec_lines){.line = softmax_line, .neighbours = softmax_neighbours};
  return exec_lines_build(p, op, 1u << wafer_attr_int(&op->node->attrs, WAFER_ATTR_axis), l);
}

/* Normalization of f32 tensors whose dims, as they lie, have those that are normalized together:
 * means, squares and roots in f32, as cores have them. */
#include <math.h>

#include "exec_lines.h"
#include "tensor/vmath.h"

enum { LANES = 16 };

typedef struct normalize_stage {
  exec_lines lines;
  float share, epsilon; /* share: 1 / elements of a line */
  bool center;
} normalize_stage;

WAFER_CLONES static float squares(const float *x, int64_t n) {
  float lanes[LANES] = {0}, sum = 0.0f;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] += x[k + i] * x[k + i];
  for (int i = 0; i < LANES; i++) sum += lanes[i];
  for (; k < n; k++) sum += x[k] * x[k];
  return sum;
}

/* Sums of squares become what results are multiplied with. */
static void invert(const normalize_stage *s, float *sums, int64_t count) {
  for (int64_t i = 0; i < count; i++) sums[i] = fmaf(sums[i], s->share, s->epsilon);
  vmath_sqrt(sums, sums, (size_t)count);
  vmath_reciprocal(sums, sums, (size_t)count);
}

static void normalize_line(const exec_lines *l, float *y, const float *x) {
  const normalize_stage *s = (const normalize_stage *)l;
  if (s->center) {
    exec_lines_subtract(y, x, exec_lines_total(x, l->n) * s->share, l->n);
    x = y;
  }
  float by = squares(x, l->n);
  invert(s, &by, 1);
  exec_lines_scale(y, x, by, l->n);
}

WAFER_CLONES static void add_lines(float *sums, const float *x, int64_t n, int64_t stride,
                                   int64_t width) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) sums[j] += x[k * stride + j];
}

WAFER_CLONES static void add_squares(float *sums, const float *x, int64_t n, int64_t stride,
                                     int64_t width) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) sums[j] += x[k * stride + j] * x[k * stride + j];
}

static void normalize_neighbours(const exec_lines *l, float *y, const float *x, int64_t width) {
  const normalize_stage *s = (const normalize_stage *)l;
  float sums[EXEC_LINES] = {0};
  int64_t n = l->n, stride = l->inner;
  if (s->center) {
    add_lines(sums, x, n, stride, width);
    for (int64_t j = 0; j < width; j++) sums[j] *= s->share;
    for (int64_t k = 0; k < n; k++)
      for (int64_t j = 0; j < width; j++) y[k * stride + j] = x[k * stride + j] - sums[j];
    for (int64_t j = 0; j < width; j++) sums[j] = 0;
    x = y;
  }
  add_squares(sums, x, n, stride, width);
  invert(s, sums, width);
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) y[k * stride + j] = x[k * stride + j] * sums[j];
}

wafer_status exec_build_normalize(exec_program *p, exec_op *op) {
  const wafer_attrs *attrs = &op->node->attrs;
  uint32_t axes = wafer_attr_dims(attrs, WAFER_ATTR_axes);
  const wafer_shape *shape = &op->node->type.shape;
  normalize_stage *s = WAFER_NEW(p->arena, normalize_stage, 1);
  double n = 1;
  if (!s) return exec_no_memory(p);
  for (uint32_t d = 0; d < shape->rank; d++)
    if (axes >> d & 1) n *= (double)shape->dims[d];
  *s = (normalize_stage){.lines = {.line = normalize_line, .neighbours = normalize_neighbours},
                         .share = (float)(1.0 / n),
                         .epsilon = (float)wafer_attr_float(attrs, WAFER_ATTR_epsilon),
                         .center = wafer_attr_int(attrs, WAFER_ATTR_center) != 0};
  return exec_lines_build(p, op, axes, &s->lines);
}

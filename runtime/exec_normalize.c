/* Normalization of f32 tensors whose dims, as they lie, have those that are normalized together:
 * means, squares and roots in f32, as cores have them. */
#include <math.h>

#include "exec.h"
#include "vmath.h"

enum { CHUNK = 256, LANES = 16 }; /* neighbours that a strided run handles at once */

typedef struct normalize_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  int64_t n, inner;     /* length of a run, stride of its elements */
  float share, epsilon; /* share: 1 / n */
  bool center;
} normalize_stage;

VMATH_CLONES static float total(const float *x, int64_t n) {
  float lanes[LANES] = {0}, sum = 0.0f;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] += x[k + i];
  for (int i = 0; i < LANES; i++) sum += lanes[i];
  for (; k < n; k++) sum += x[k];
  return sum;
}

VMATH_CLONES static float squares(const float *x, int64_t n) {
  float lanes[LANES] = {0}, sum = 0.0f;
  int64_t k = 0;
  for (; k + LANES <= n; k += LANES)
    for (int i = 0; i < LANES; i++) lanes[i] += x[k + i] * x[k + i];
  for (int i = 0; i < LANES; i++) sum += lanes[i];
  for (; k < n; k++) sum += x[k] * x[k];
  return sum;
}

VMATH_CLONES static void subtract(float *out, const float *x, float y, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] - y;
}

VMATH_CLONES static void scale(float *out, const float *x, float by, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * by;
}

/* Sums of squares become what results are multiplied with. */
static void invert(const normalize_stage *s, float *sums, int64_t count) {
  for (int64_t i = 0; i < count; i++) sums[i] = fmaf(sums[i], s->share, s->epsilon);
  vmath_sqrt(sums, sums, (size_t)count);
  vmath_reciprocal(sums, sums, (size_t)count);
}

static void normalize_line(const normalize_stage *s, float *y, const float *x) {
  if (s->center) {
    subtract(y, x, total(x, s->n) * s->share, s->n);
    x = y;
  }
  float by = squares(x, s->n);
  invert(s, &by, 1);
  scale(y, x, by, s->n);
}

VMATH_CLONES static void add_lines(float *sums, const float *x, int64_t n, int64_t stride,
                                   int64_t width) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) sums[j] += x[k * stride + j];
}

VMATH_CLONES static void add_squares(float *sums, const float *x, int64_t n, int64_t stride,
                                     int64_t width) {
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0; j < width; j++) sums[j] += x[k * stride + j] * x[k * stride + j];
}

/* `width` neighbouring runs. */
static void normalize_lines(const normalize_stage *s, float *y, const float *x, int64_t width) {
  float sums[CHUNK] = {0};
  int64_t stride = s->inner;
  if (s->center) {
    add_lines(sums, x, s->n, stride, width);
    for (int64_t j = 0; j < width; j++) sums[j] *= s->share;
    for (int64_t k = 0; k < s->n; k++)
      for (int64_t j = 0; j < width; j++) y[k * stride + j] = x[k * stride + j] - sums[j];
    for (int64_t j = 0; j < width; j++) sums[j] = 0;
    x = y;
  }
  add_squares(sums, x, s->n, stride, width);
  invert(s, sums, width);
  for (int64_t k = 0; k < s->n; k++)
    for (int64_t j = 0; j < width; j++) y[k * stride + j] = x[k * stride + j] * sums[j];
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const normalize_stage *s = (const normalize_stage *)stage;
  const float *x = exec_data(frame, s->x);
  float *y = exec_data(frame, s->y);
  int64_t from, to, group = s->n * s->inner;
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  for (int64_t at = from * stage->row; at < to * stage->row; at += group) {
    if (s->inner == 1) normalize_line(s, y + at, x + at);
    for (int64_t j = 0; s->inner > 1 && j < s->inner; j += CHUNK)
      normalize_lines(s, y + at + j, x + at + j, s->inner - j < CHUNK ? s->inner - j : CHUNK);
  }
  return WAFER_OK;
}

/* The dims of a bit set as one run; false: others lie between them. */
static bool find_run(const exec_tensor *x, uint32_t dims, int64_t *n, int64_t *inner) {
  *n = *inner = 1;
  bool begun = false;
  for (uint32_t i = x->shape.rank; i-- > 0;) {
    uint32_t d = x->order.dim[i];
    if (x->shape.dims[d] == 1 || !(dims >> d & 1)) continue;
    if (begun && x->strides[d] != *n * *inner) return false;
    if (!begun) *inner = x->strides[d];
    begun = true;
    *n *= x->shape.dims[d];
  }
  return true;
}

wafer_status exec_build_normalize(exec_program *p, exec_op *op) {
  const exec_tensor *x = op->operands[0];
  const wafer_attrs *attrs = &op->node->attrs;
  uint32_t dims = wafer_attr_dims(attrs, WAFER_ATTR_axes);
  int64_t n, inner;
  if (x->host != WAFER_DTYPE_f32) return WAFER_OK;
  for (uint32_t i = 0; i < x->shape.rank; i++)
    if (x->shape.dims[i] == 0) return WAFER_OK;
  if (!find_run(x, dims, &n, &inner)) return WAFER_OK;
  normalize_stage *s = WAFER_NEW(p->arena, normalize_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &x->order);
  if (!s || !y) return exec_no_memory(p);
  *s = (normalize_stage){.stage = {.run = run, .loc = p->loc},
                         .x = x,
                         .y = y,
                         .n = n,
                         .inner = inner,
                         .share = (float)(1.0 / (double)n),
                         .epsilon = (float)wafer_attr_float(attrs, WAFER_ATTR_epsilon),
                         .center = wafer_attr_int(attrs, WAFER_ATTR_center) != 0};
  op->result = y;
  return exec_stage_add(p, &s->stage, op, dims >> exec_outer_dim(y) & 1 ? 1 : UINT32_MAX);
}

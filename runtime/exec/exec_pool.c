/* Pooling, channels last. A line of the result is one row of its last spatial dim. With a stride of
 * 1 along the line a tap of the window is one vector operation over columns and channels together,
 * so few channels are as fast as many; else each window is a vector operation over channels. */
#include <math.h>
#include <string.h>

#include "exec.h"
#include "tensor/vmath.h"

enum { DEPTH, ROW, COLUMN, AXES }; /* spatial dims, padded with leading 1s */

typedef struct pool_axis {
  int64_t in, out, kernel, stride, dilation, before;
  int64_t *count; /* per output position: taps that a mean divides by */
} pool_axis;

typedef struct pool_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  bool mean;
  int64_t channels;
  int64_t lines, all_lines; /* of one row of the result's outermost dim; of the result */
  pool_axis axis[AXES];
} pool_stage;

WAFER_CLONES static void max_into(float *out, const float *in, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = in[i] > out[i] || in[i] != in[i] ? in[i] : out[i];
}

WAFER_CLONES static void add_into(float *out, const float *in, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] += in[i];
}

WAFER_CLONES static void times(float *out, float by, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] *= by;
}

/* Output positions [*from, *to) for which tap k lies inside the input. */
static void valid_outputs(const pool_axis *a, int64_t k, int64_t *from, int64_t *to) {
  int64_t shift = k * a->dilation - a->before; /* input = output * stride + shift */
  *from = shift >= 0 ? 0 : (-shift + a->stride - 1) / a->stride;
  *to = shift >= a->in ? 0 : (a->in - 1 - shift) / a->stride + 1;
  if (*to > a->out) *to = a->out;
}

static void take(const pool_stage *s, float *out, const float *in, int64_t n) {
  (s->mean ? add_into : max_into)(out, in, (size_t)n);
}

/* All taps of the window's last dim over one input row. */
static void take_row(const pool_stage *s, float *out, const float *in) {
  const pool_axis *a = &s->axis[COLUMN];
  for (int64_t k = 0; k < a->kernel; k++) {
    int64_t from, to, c = s->channels;
    valid_outputs(a, k, &from, &to);
    const float *at = in + (from * a->stride + k * a->dilation - a->before) * c;
    if (a->stride == 1 && to > from) take(s, out + from * c, at, (to - from) * c);
    if (a->stride == 1) continue;
    for (int64_t o = from; o < to; o++, at += a->stride * c) take(s, out + o * c, at, c);
  }
}

static void finish_line(const pool_stage *s, float *out, int64_t depth, int64_t row) {
  const pool_axis *a = s->axis;
  for (int64_t o = 0; o < a[COLUMN].out; o++) {
    int64_t taps = a[DEPTH].count[depth] * a[ROW].count[row] * a[COLUMN].count[o];
    float share = (float)(1.0 / (double)(taps < 1 ? 1 : taps)); /* as cores have it */
    times(out + o * s->channels, share, (size_t)s->channels);
  }
}

static void run_line(const pool_stage *s, const float *x, float *y, int64_t line) {
  const pool_axis *d = &s->axis[DEPTH], *r = &s->axis[ROW], *w = &s->axis[COLUMN];
  int64_t row = line % r->out, depth = line / r->out % d->out, n = line / (r->out * d->out);
  int64_t width = w->out * s->channels;
  float *out = y + line * width;
  for (int64_t i = 0; i < width; i++) out[i] = s->mean ? 0.0f : -INFINITY;
  for (int64_t kd = 0; kd < d->kernel; kd++) {
    int64_t id = depth * d->stride + kd * d->dilation - d->before;
    if (id < 0 || id >= d->in) continue;
    for (int64_t kr = 0; kr < r->kernel; kr++) {
      int64_t ir = row * r->stride + kr * r->dilation - r->before;
      if (ir >= 0 && ir < r->in)
        take_row(s, out, x + ((n * d->in + id) * r->in + ir) * w->in * s->channels);
    }
  }
  if (s->mean) finish_line(s, out, depth, row);
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const pool_stage *s = (const pool_stage *)stage;
  int64_t from, to;
  (void)thread;
  exec_slab(stage, slab, &from, &to);
  if (stage->slabs == 1) from = 0, to = 1;
  int64_t lines = stage->slabs == 1 ? s->all_lines : s->lines;
  for (int64_t line = from * lines; line < to * lines; line++)
    run_line(s, exec_data(frame, s->x), exec_data(frame, s->y), line);
  return WAFER_OK;
}

/* Taps inside the input, or inside the padded input. */
static void count_taps(pool_axis *a, int64_t after, bool include_pads) {
  int64_t low = include_pads ? -a->before : 0, high = a->in + (include_pads ? after : 0);
  for (int64_t o = 0; o < a->out; o++)
    for (int64_t k = 0; k < a->kernel; k++) {
      int64_t i = o * a->stride + k * a->dilation - a->before;
      a->count[o] += i >= low && i < high;
    }
}

static wafer_status init_axes(exec_program *p, pool_stage *s, const exec_op *op, uint32_t spatial,
                              bool *known) {
  const wafer_attrs *attrs = &op->node->attrs;
  uint32_t n[4];
  const int64_t *kernel = wafer_attr_ints(attrs, WAFER_ATTR_kernel, &n[0]);
  const int64_t *strides = wafer_attr_ints(attrs, WAFER_ATTR_strides, &n[1]);
  const int64_t *dilations = wafer_attr_ints(attrs, WAFER_ATTR_dilations, &n[2]);
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &n[3]);
  *known = n[0] == spatial && n[1] == spatial && n[2] == spatial && n[3] == 2 * spatial;
  bool include = s->mean && wafer_attr_int(attrs, WAFER_ATTR_count_include_pad);
  for (uint32_t i = 0; *known && i < AXES; i++) {
    pool_axis *a = &s->axis[i];
    int64_t after = 0;
    *a = (pool_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (i + spatial >= AXES) {
      uint32_t d = i + spatial - AXES;
      *a = (pool_axis){.in = op->operands[0]->shape.dims[2 + d],
                       .out = op->node->type.shape.dims[2 + d],
                       .kernel = kernel[d],
                       .stride = strides[d],
                       .dilation = dilations[d],
                       .before = pads[d]};
      after = pads[spatial + d];
    }
    a->count = WAFER_NEW(p->arena, int64_t, (size_t)a->out);
    if (!a->count) return exec_no_memory(p);
    count_taps(a, after, include);
  }
  return WAFER_OK;
}

wafer_status exec_build_pool(exec_program *p, exec_op *op) {
  uint32_t rank = op->node->type.shape.rank;
  if (op->operands[0]->host != WAFER_DTYPE_f32 || rank < 3 || rank > 2 + AXES) return WAFER_OK;
  pool_stage *s = WAFER_NEW(p->arena, pool_stage, 1);
  bool known;
  if (!s) return exec_no_memory(p);
  *s = (pool_stage){.stage = {.run = run, .loc = p->loc},
                    .mean = op->node->op == WAFER_OP_average_pool,
                    .channels = op->node->type.shape.dims[1]};
  WAFER_TRY(init_axes(p, s, op, rank - 2, &known));
  if (!known) return WAFER_OK;
  exec_order order = exec_channels_last(rank);
  WAFER_TRY(exec_reordered(p, op->operands[0], &order, &op->operands[0]));
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!y) return exec_no_memory(p);
  s->x = op->operands[0];
  s->y = op->result = y;
  uint32_t outer = exec_outer_dim(y);
  bool cut = outer != 1 && outer != rank - 1;
  s->all_lines = y->shape.dims[0] * s->axis[DEPTH].out * s->axis[ROW].out;
  s->lines = cut && y->shape.dims[outer] ? s->all_lines / y->shape.dims[outer] : 0;
  return exec_stage_add(p, &s->stage, op, cut ? UINT32_MAX : 1);
}

/* Nearest and linear resizing of f32 tensors, separable and over vectors of the innermost dim.
 * Cubic is the oracle's. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "ops/resize.h"
#include "tensor/vmath.h"

/* For output position o along a dim: weight[0] * x[at[0]] + weight[1] * x[at[1]]. */
typedef struct tap {
  int64_t at[2]; /* times the dim's stride */
  float weight[2];
} tap;

typedef struct resize_stage {
  exec_stage stage;
  const exec_tensor *x, *y;
  uint32_t outer_count;
  int64_t outer_extent[WAFER_MAX_RANK]; /* of the result, physical order, without lines */
  tap *outer_tap[WAFER_MAX_RANK];
  int64_t columns, channels; /* a line: the last resized dim and everything inside it */
  tap *column_tap;
} resize_stage;

WAFER_CLONES static void blend(float *out, const float *a, float wa, const float *b, float wb,
                               size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = wa * a[i] + wb * b[i];
}

WAFER_CLONES static void accumulate(float *out, const float *a, float w, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] += w * a[i];
}

/* One line of the result: input lines are blended first (2^k of them for k outer dims that blend),
 * into `line`, then columns. */
static void run_line(const resize_stage *s, const float *x, float *out, int64_t index,
                     int64_t width, float *line) {
  const tap *taps[WAFER_MAX_RANK];
  uint32_t blends = 0;
  int64_t offset = 0;
  for (uint32_t i = s->outer_count; i-- > 0; index /= s->outer_extent[i]) {
    const tap *t = &s->outer_tap[i][index % s->outer_extent[i]];
    if (t->weight[1] == 0.0f)
      offset += t->at[0];
    else
      taps[blends++] = t;
  }
  const float *from = x + offset;
  if (blends) memset(line, 0, (size_t)width * sizeof *line);
  for (uint32_t corner = 0; blends && corner < 1u << blends; corner++) {
    float weight = 1.0f;
    int64_t at = offset;
    for (uint32_t i = 0; i < blends; i++) {
      uint32_t side = corner >> i & 1;
      weight *= taps[i]->weight[side];
      at += taps[i]->at[side];
    }
    accumulate(line, x + at, weight, (size_t)width);
    from = line;
  }
  for (int64_t c = 0; c < s->columns; c++, out += s->channels) {
    const tap *t = &s->column_tap[c];
    if (t->weight[1] == 0.0f)
      memcpy(out, from + t->at[0], (size_t)s->channels * sizeof *out);
    else
      blend(out, from + t->at[0], t->weight[0], from + t->at[1], t->weight[1], (size_t)s->channels);
  }
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const resize_stage *s = (const resize_stage *)stage;
  int64_t from, to, line = s->columns * s->channels;
  exec_slab(stage, slab, &from, &to);
  from = from * stage->row / line, to = to * stage->row / line;
  float *y = exec_data(frame, s->y);
  for (int64_t i = from; i < to; i++)
    run_line(s, exec_data(frame, s->x), y + i * line, i, (int64_t)(stage->scratch / sizeof(float)),
             frame->scratch[thread]);
  return WAFER_OK;
}

static bool words_of(const wafer_attrs *a, resize_axis *axis) {
  size_t mode = mode_find(resize_modes, RESIZE_MODE_COUNT, wafer_attr_string(a, WAFER_ATTR_mode));
  size_t where =
      mode_find(coordinate_modes, COORDINATES_COUNT, wafer_attr_string(a, WAFER_ATTR_coordinates));
  size_t rounds =
      mode_find(rounding_modes, ROUNDING_COUNT, wafer_attr_string(a, WAFER_ATTR_rounding));
  *axis = (resize_axis){.mode = (resize_mode)mode,
                        .coordinates = (coordinates)where,
                        .rounding = (rounding)rounds,
                        .exclude_outside = wafer_attr_int(a, WAFER_ATTR_exclude_outside) != 0};
  return mode < RESIZE_MODE_COUNT && where < COORDINATES_COUNT && rounds < ROUNDING_COUNT;
}

static void make_tap(const resize_axis *axis, int64_t o, int64_t stride, tap *t) {
  resize_taps taps;
  resize_taps_of(axis, o, &taps);
  *t = (tap){.at = {taps.index[0] * stride, taps.index[1] * stride},
             .weight = {(float)taps.weight[0], (float)taps.weight[1]}};
  if (axis->mode == RESIZE_nearest || t->at[0] == t->at[1])
    t->weight[0] = 1.0f, t->weight[1] = 0.0f;
}

static bool can_do(const exec_op *op) {
  const wafer_attrs *a = &op->node->attrs;
  resize_axis axis;
  uint32_t count;
  const double *scales = wafer_attr_floats(a, WAFER_ATTR_scales, &count);
  const wafer_shape *x = &op->operands[0]->shape, *y = &op->node->type.shape;
  if (!words_of(a, &axis) || count != x->rank || x->rank == 0 ||
      op->operands[0]->host != WAFER_DTYPE_f32)
    return false;
  for (uint32_t d = 0; d < x->rank; d++)
    if (x->dims[d] == 0 || y->dims[d] == 0 || (x->dims[d] == y->dims[d] && scales[d] != 1.0))
      return false;
  return axis.mode == RESIZE_nearest || axis.mode == RESIZE_linear;
}

static tap *make_taps(exec_program *p, const exec_op *op, uint32_t d) {
  const exec_tensor *x = op->operands[0];
  uint32_t count;
  resize_axis axis;
  (void)words_of(&op->node->attrs, &axis);
  axis.scale = wafer_attr_floats(&op->node->attrs, WAFER_ATTR_scales, &count)[d];
  axis.in = x->shape.dims[d];
  axis.out = op->node->type.shape.dims[d];
  tap *taps = WAFER_NEW(p->arena, tap, (size_t)axis.out);
  for (int64_t o = 0; taps && o < axis.out; o++) make_tap(&axis, o, x->strides[d], &taps[o]);
  return taps;
}

/* Splits the physical dims into outer ones, the last resized one (columns), and channels inside it.
 */
static wafer_status plan(exec_program *p, resize_stage *s, const exec_op *op) {
  const exec_tensor *x = s->x, *y = s->y;
  uint32_t rank = x->shape.rank, last = 0;
  for (uint32_t i = 0; i < rank; i++)
    if (x->shape.dims[x->order.dim[i]] != y->shape.dims[x->order.dim[i]]) last = i;
  s->channels = 1;
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t d = x->order.dim[i];
    if (i > last) {
      s->channels *= y->shape.dims[d];
      continue;
    }
    tap *taps = make_taps(p, op, d);
    if (!taps) return exec_no_memory(p);
    if (i == last)
      s->columns = y->shape.dims[d], s->column_tap = taps;
    else
      s->outer_extent[s->outer_count] = y->shape.dims[d], s->outer_tap[s->outer_count++] = taps;
  }
  s->stage.scratch = (size_t)(x->shape.dims[x->order.dim[last]] * s->channels) * sizeof(float);
  return WAFER_OK;
}

wafer_status exec_build_resize(exec_program *p, exec_op *op) {
  if (!can_do(op)) return WAFER_OK;
  uint32_t rank = op->node->type.shape.rank;
  exec_order order = exec_channels_last(rank);
  WAFER_TRY(exec_reordered(p, op->operands[0], &order, &op->operands[0]));
  resize_stage *s = WAFER_NEW(p->arena, resize_stage, 1);
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &order);
  if (!s || !y) return exec_no_memory(p);
  *s = (resize_stage){.stage = {.run = run, .loc = p->loc}, .x = op->operands[0], .y = y};
  WAFER_TRY(plan(p, s, op));
  op->result = y;
  /* A slab is whole lines. */
  bool inside = y->strides[exec_outer_dim(y)] < s->columns * s->channels;
  return exec_stage_add(p, &s->stage, op, inside ? 1 : UINT32_MAX);
}

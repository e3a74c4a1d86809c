/* A convolution summed in the order in which cores do it: each part of the channels from zero, taps
 * first and channels innermost, the bias on the first part; then, where input channels are cut over
 * cores, parts along chains (wafer_sum_order), from the last to the first. A library has an order
 * of its own where they are cut, and on some hosts always, and a network may multiply what that
 * leaves in f32 (docs/validation.md).
 *
 * Weights lie in the order in which tiles meet them (exec_conv_tile.h), those of a tile's filters
 * side by side, the last ones filled up with zeros. Where windows reach into pads, a slab first
 * copies what it reads of the operand, with its pads. Everything lies channels last. */
#include <string.h>

#include "exec.h"
#include "exec_conv_tile.h"
#include "tensor/vmath.h"

enum { AXES = 3 };
#define MOST_PADDED ((int64_t)1 << 40) /* elements */

/* A spatial dim; those that are missing stand before the others, one long. */
typedef struct sums_axis {
  int64_t in, out, kernel, stride, dilation, before;
} sums_axis;

typedef struct sums_stage {
  exec_stage stage;
  const exec_tensor *x, *w, *b, *y;
  const exec_tensor *packed; /* the weights as tiles meet them */
  int64_t channels, filters, terms; /* a sum's */
  tile_sum sum;
  sums_axis axis[AXES];
  bool pads;
  int outer; /* axis that slabs cut; -1: the batch; AXES: nothing is cut */
} sums_stage;

/* ---- a slab ---- */

/* Results [from, to) of each axis, and where the operand's sample lies that they read. */
typedef struct sums_box {
  int64_t from[AXES], to[AXES];
  int64_t step[AXES]; /* elements from an element of x to the next along the axis */
  const float *x;     /* the first window of `from` begins here */
  const int64_t *term;
} sums_box;

/* Of x, with its pads, what `count` results in a row read. */
static int64_t read_by(const sums_axis *a, int64_t count) {
  return (count - 1) * a->stride + (a->kernel - 1) * a->dilation + 1;
}

/* In the order of the weights. */
static void fill_terms(const sums_stage *s, const int64_t *step, int64_t *term) {
  const sums_axis *a = s->axis;
  for (uint32_t p = 0; p < s->sum.part_count; p++)
    for (int64_t i = 0; i < a[0].kernel; i++)
      for (int64_t j = 0; j < a[1].kernel; j++)
        for (int64_t k = 0; k < a[2].kernel; k++)
          for (int64_t c = s->sum.part[p].from; c < s->sum.part[p].to; c++)
            *term++ = i * a[0].dilation * step[0] + j * a[1].dilation * step[1] +
                      k * a[2].dilation * step[2] + c;
}

/* One line of the copy: pads, elements, pads. */
static void copy_line(const sums_stage *s, const float *x, int64_t first, int64_t count,
                      float *to) {
  const sums_axis *a = &s->axis[AXES - 1];
  int64_t from = first < 0 ? 0 : first, end = first + count < a->in ? first + count : a->in;
  size_t size = (size_t)s->channels * sizeof *to;
  memset(to, 0, (size_t)count * size);
  if (end > from)
    memcpy(to + (from - first) * s->channels, x + from * s->channels, (size_t)(end - from) * size);
}

/* What the box reads of a sample, with its pads. */
static void copy_padded(const sums_stage *s, const float *x, const sums_box *box, float *to) {
  int64_t first[AXES], count[AXES];
  for (uint32_t d = 0; d < AXES; d++) {
    first[d] = box->from[d] * s->axis[d].stride - s->axis[d].before;
    count[d] = read_by(&s->axis[d], box->to[d] - box->from[d]);
  }
  int64_t line = count[2] * s->channels, width = s->axis[2].in * s->channels;
  for (int64_t i = first[0]; i < first[0] + count[0]; i++)
    for (int64_t j = first[1]; j < first[1] + count[1]; j++, to += line) {
      bool inside = i >= 0 && i < s->axis[0].in && j >= 0 && j < s->axis[1].in;
      if (inside)
        copy_line(s, x + (i * s->axis[1].in + j) * width, first[2], count[2], to);
      else
        memset(to, 0, (size_t)line * sizeof *to);
    }
}

/* Where a sample's windows lie, and its terms. */
static void lay_out(const sums_stage *s, const float *x, sums_box *box, int64_t *term) {
  const sums_axis *a = s->axis;
  float *copy = (float *)(term + s->terms);
  int64_t extent[AXES];
  for (uint32_t d = 0; d < AXES; d++)
    extent[d] = s->pads ? read_by(&a[d], box->to[d] - box->from[d]) : a[d].in;
  box->step[2] = s->channels;
  box->step[1] = extent[2] * box->step[2];
  box->step[0] = extent[1] * box->step[1];
  fill_terms(s, box->step, term);
  if (s->pads) copy_padded(s, x, box, copy);
  for (uint32_t d = 0; d < AXES && !s->pads; d++) x += box->from[d] * a[d].stride * box->step[d];
  box->x = s->pads ? copy : x;
  box->term = term;
}

/* A result of a box: its coordinates, its number in the sample, and its window. */
typedef struct sums_place {
  int64_t at[AXES], result;
  const float *x;
} sums_place;

static void find_place(const sums_stage *s, const sums_box *box, sums_place *p) {
  p->result = 0;
  p->x = box->x;
  for (uint32_t d = 0; d < AXES; d++) {
    p->result = p->result * s->axis[d].out + p->at[d];
    p->x += (p->at[d] - box->from[d]) * s->axis[d].stride * box->step[d];
  }
}

/* To the next one, or back to the first. */
static void next_place(const sums_stage *s, const sums_box *box, sums_place *p) {
  if (++p->at[AXES - 1] < box->to[AXES - 1]) {
    p->result++;
    p->x += s->axis[AXES - 1].stride * box->step[AXES - 1];
    return;
  }
  uint32_t d = AXES - 1;
  while (p->at[d] == box->to[d]) {
    p->at[d] = box->from[d];
    if (d-- == 0) break;
    p->at[d]++;
  }
  find_place(s, box, p);
}

/* The filters of a tile from `at` on, of all results of a box, `y` those of the sample. */
static void run_filters(const sums_stage *s, const sums_box *box, const conv_tile *tile,
                        const float *weights, const float *bias, int64_t at, float *y) {
  int64_t results = 1;
  int64_t filters = s->filters - at < tile->filters ? s->filters - at : tile->filters;
  tile_chains chains = {0};
  sums_place place;
  memcpy(place.at, box->from, sizeof place.at);
  find_place(s, box, &place);
  for (uint32_t d = 0; d < AXES; d++) results *= box->to[d] - box->from[d];
  for (int64_t r = 0; r < results; r += tile->places) {
    const float *x[TILE_PLACES];
    float *to[TILE_PLACES];
    for (uint32_t i = 0; i < tile->places; i++, next_place(s, box, &place)) {
      x[i] = place.x;
      to[i] = y + place.result * s->filters + at;
    }
    tile->add(&s->sum, x, box->term, weights, bias, &chains);
    int64_t left = results - r;
    conv_tile_store(tile, &s->sum, &chains, to, left < tile->places ? (uint32_t)left : tile->places,
                    (uint32_t)filters);
  }
}

static void run_sample(const sums_stage *s, const exec_frame *frame, int64_t n, sums_box *box,
                       void *scratch) {
  const float *bias = s->b ? exec_data(frame, s->b) : NULL;
  const float *weights = exec_data(frame, s->packed);
  const float *x = (const float *)exec_data(frame, s->x) + n * s->x->strides[0];
  lay_out(s, x, box, scratch);
  float *y = (float *)exec_data(frame, s->y) + n * s->y->strides[0];
  conv_tile tile;
  for (int64_t at = 0; at < s->filters; at += tile.filters) {
    float own[TILE_FILTERS] __attribute__((aligned(64))) = {0};
    tile = conv_tile_for(s->filters - at);
    int64_t count = s->filters - at < tile.filters ? s->filters - at : tile.filters;
    if (bias) memcpy(own, bias + at, (size_t)count * sizeof *own);
    run_filters(s, box, &tile, weights + at * s->terms, bias ? own : NULL, at, y);
  }
}

static wafer_status run(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                        uint32_t thread) {
  const sums_stage *s = (const sums_stage *)stage;
  int64_t from, to, samples = s->y->shape.dims[0], first = 0;
  sums_box box = {.from = {0}};
  for (uint32_t d = 0; d < AXES; d++) box.to[d] = s->axis[d].out;
  exec_slab(stage, slab, &from, &to);
  if (s->outer < 0) first = from, samples = to;
  if (s->outer >= 0 && s->outer < AXES) box.from[s->outer] = from, box.to[s->outer] = to;
  for (int64_t n = first; n < samples; n++) run_sample(s, frame, n, &box, frame->scratch[thread]);
  return WAFER_OK;
}

/* ---- weights ---- */

typedef struct pack_stage {
  exec_stage stage;
  const sums_stage *sums;
} pack_stage;

/* Of a filter, from its first tap on, in elements. */
static int64_t tap_offset(const exec_tensor *w, int64_t tap) {
  int64_t offset = 0;
  for (uint32_t d = w->shape.rank; d-- > 2; tap /= w->shape.dims[d])
    offset += tap % w->shape.dims[d] * w->strides[d];
  return offset;
}

/* Tile after tile of filters, part after part, taps, channels. */
static void pack(const sums_stage *s, const float *w, float *to) {
  const int64_t of_filter = s->w->strides[0], of_channel = s->w->strides[1];
  int64_t width;
  for (int64_t at = 0; at < s->filters; at += width) {
    width = conv_tile_for(s->filters - at).filters;
    int64_t filters = s->filters - at < width ? s->filters - at : width;
    for (uint32_t p = 0; p < s->sum.part_count; p++)
      for (int64_t k = 0; k < s->sum.taps; k++) {
        const float *tap = w + at * of_filter + tap_offset(s->w, k);
        for (int64_t c = s->sum.part[p].from; c < s->sum.part[p].to; c++, to += width) {
          for (int64_t f = 0; f < filters; f++) to[f] = tap[f * of_filter + c * of_channel];
          for (int64_t f = filters; f < width; f++) to[f] = 0;
        }
      }
  }
}

static wafer_status run_pack(const exec_stage *stage, const exec_frame *frame, uint32_t slab,
                             uint32_t thread) {
  const sums_stage *s = ((const pack_stage *)stage)->sums;
  (void)slab, (void)thread;
  pack(s, exec_data(frame, s->w), exec_data(frame, s->packed));
  return WAFER_OK;
}

/* Once where the weights are known, else in every run. */
static wafer_status pack_weights(exec_program *p, sums_stage *s) {
  int64_t filters = 0;
  while (filters < s->filters) filters += conv_tile_for(s->filters - filters).filters;
  wafer_type type = {WAFER_DTYPE_f32, {1, {filters * s->terms}}};
  exec_order order = exec_row_major();
  exec_tensor *packed = exec_tensor_create(p, &type, &order);
  const float *known = exec_tensor_known(p, s->w);
  if (!packed) return exec_no_memory(p);
  s->packed = packed;
  if (known) {
    float *data = exec_alloc(p, p->buffers[packed->buffer].bytes);
    if (!data) return exec_no_memory(p);
    pack(s, known, data);
    p->buffers[packed->buffer].constant = data;
    return WAFER_OK;
  }
  pack_stage *stage = WAFER_NEW(p->arena, pack_stage, 1);
  if (!stage) return exec_no_memory(p);
  *stage = (pack_stage){.stage = {.run = run_pack, .loc = p->loc}, .sums = s};
  exec_op op = {.result = packed};
  WAFER_TRY(exec_stage_add(p, &stage->stage, &op, 1));
  exec_use(p, s->w);
  return WAFER_OK;
}

/* ---- building ---- */

/* False where a sample with its pads is larger than any memory: a plan may say so. */
static bool take_axes(sums_stage *s, const exec_op *op) {
  uint32_t n[3], spatial = op->node->type.shape.rank - 2;
  const wafer_attrs *attrs = &op->node->attrs;
  const int64_t *strides = wafer_attr_ints(attrs, WAFER_ATTR_strides, &n[0]);
  const int64_t *dilations = wafer_attr_ints(attrs, WAFER_ATTR_dilations, &n[1]);
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &n[2]);
  if (n[0] != spatial || n[1] != spatial || n[2] != 2 * spatial) return false;
  int64_t padded = s->channels;
  s->sum.taps = 1;
  for (uint32_t i = 0; i < AXES; i++) {
    sums_axis *a = &s->axis[i];
    *a = (sums_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (i + spatial < AXES) continue;
    uint32_t d = i + spatial - AXES;
    *a = (sums_axis){.in = op->operands[0]->shape.dims[2 + d],
                     .out = op->node->type.shape.dims[2 + d],
                     .kernel = op->operands[1]->shape.dims[2 + d],
                     .stride = strides[d],
                     .dilation = dilations[d],
                     .before = pads[d]};
    s->sum.taps *= a->kernel;
    s->pads |= a->before != 0 || read_by(a, a->out) > a->in;
    if (__builtin_mul_overflow(padded, read_by(a, a->out), &padded) || padded > MOST_PADDED)
      return false;
  }
  s->terms = s->sum.taps * s->channels;
  return true;
}

/* From the last part to the first, row by row of the rectangle. */
static bool make_parts(exec_program *p, sums_stage *s, const wafer_sum_order *order) {
  uint32_t parts = order->rows * order->cols;
  int64_t length = (s->channels + parts - 1) / parts;
  tile_part *part = WAFER_NEW(p->arena, tile_part, parts);
  if (!part) return false;
  s->sum.part = part;
  s->sum.part_count = parts;
  for (uint32_t i = parts; i-- > 0;) {
    uint32_t row = i / order->cols, col = i % order->cols;
    int64_t from = i * length, to = from + length;
    const bool ends[TILE_CHAINS] = {order->cols > 1 && col % order->col_group == 0,
                                    order->cols > order->col_group && col == 0,
                                    order->rows > 1 && col == 0 && row % order->row_group == 0,
                                    order->rows > order->row_group && i == 0};
    uint32_t count = ends[0] + ends[1] + ends[2] + ends[3];
    if (i == 0) s->sum.chains = count;
    *part++ = (tile_part){.from = from < s->channels ? from : s->channels,
                          .to = to < s->channels ? to : s->channels,
                          .ends = count,
                          .first = i == 0};
  }
  return true;
}

/* Elements that a slab copies, at most. */
static size_t copied_by(const sums_stage *s, uint32_t slabs) {
  int64_t elements = s->channels;
  for (int d = 0; d < AXES; d++) {
    int64_t out = s->axis[d].out;
    if (d == s->outer) out = (out + slabs - 1) / slabs;
    elements *= read_by(&s->axis[d], out);
  }
  return s->pads ? (size_t)elements : 0;
}

static wafer_status add(exec_program *p, exec_op *op, sums_stage *s) {
  exec_order last = exec_channels_last(op->node->type.shape.rank);
  WAFER_TRY(exec_reordered(p, op->operands[0], &last, &op->operands[0]));
  exec_tensor *y = exec_tensor_create(p, &op->node->type, &last);
  if (!y) return exec_no_memory(p);
  s->x = op->operands[0];
  s->y = op->result = y;
  WAFER_TRY(pack_weights(p, s));
  uint32_t outer = exec_outer_dim(y), most = outer == 1 ? 1 : p->slabs;
  s->outer = outer == 1 ? AXES : outer == 0 ? -1 : (int)(outer + AXES - s->y->shape.rank);
  exec_stage probe = {0};
  exec_slabs(p, &probe, y, most);
  s->stage.scratch = (size_t)s->terms * sizeof(int64_t) + copied_by(s, probe.slabs) * sizeof(float);
  op->took_clip = op->clips;
  WAFER_TRY(exec_stage_add(p, &s->stage, op, most));
  exec_use(p, s->packed);
  return WAFER_OK;
}

/* Channels that are cut; and others where the library does not add up as cores do, as it does with
 * AVX-512 alone: with AVX2 it goes through channels block by block. Groups are never cut, and have
 * few channels. */
static bool is_wanted(const exec_op *op) {
  if (!op->sums) return false;
  if (op->sums->rows * op->sums->cols > 1) return true;
  return wafer_attr_int(&op->node->attrs, WAFER_ATTR_group) == 1 &&
         strcmp(vmath_instruction_set(), "avx512") != 0;
}

wafer_status exec_build_conv_sums(exec_program *p, exec_op *op) {
  const wafer_sum_order *order = op->sums;
  if (!is_wanted(op)) return WAFER_OK;
  sums_stage *s = WAFER_NEW(p->arena, sums_stage, 1);
  if (!s) return exec_no_memory(p);
  *s =
      (sums_stage){.stage = {.run = run, .loc = p->loc},
                   .w = op->operands[1],
                   .b = op->node->operand_count > 2 ? op->operands[2] : NULL,
                   .channels = op->operands[0]->shape.dims[1],
                   .filters = op->node->type.shape.dims[1],
                   .sum = {.clips = op->clips, .clip_min = op->clip_min, .clip_max = op->clip_max}};
  if (!take_axes(s, op)) return WAFER_OK;
  if (!make_parts(p, s, order)) return exec_no_memory(p);
  return add(p, op, s);
}

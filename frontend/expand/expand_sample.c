/* Reading images at places that are computed: GridSample, RoiAlign, DeformConv, AffineGrid. */
#include <math.h>
#include <string.h>

#include "operators.h"

#define MOST_TAPS 4
#define CUBIC_A (-0.75)

static const MlirValue none;

static MlirValue number(import_node *n, MlirValue like, double value) {
  return emit_scalar_like(n, like, value);
}

/* (batch, channels, places...) as (batch, places, channels). */
typedef struct image {
  MlirValue rows;
  int64_t batch, channels, places, dims[WAFER_MAX_RANK];
  uint32_t spatial;
} image;

static image image_of(import_node *n, MlirValue x) {
  wafer_shape s = node_type(n, x).shape;
  image im = {.places = 1};
  if (n->status == WAFER_OK && s.rank < 3) node_bad(n, "an image of %u dims", s.rank);
  if (n->status != WAFER_OK) return im;
  im.batch = s.dims[0], im.channels = s.dims[1], im.spatial = s.rank - 2;
  for (uint32_t i = 0; i < im.spatial; i++) {
    im.dims[i] = s.dims[i + 2];
    im.places *= s.dims[i + 2];
  }
  x = emit_reshape(n, x, 3, (int64_t[]){im.batch, im.channels, im.places});
  im.rows = emit_transpose(n, x, 3, (int64_t[]){0, 2, 1});
  return im;
}

/* Along one dim: whole coordinates of up to 4 neighbours and their weights (null: 1). */
typedef struct taps {
  uint32_t count;
  MlirValue at[MOST_TAPS], weight[MOST_TAPS];
} taps;

/* The rows of places whose first dim is the batch; or of whichever image has its first row at
 * `base` (i64) where all images are one matrix. */
static MlirValue rows_at(import_node *n, const image *im, MlirValue place, MlirValue base) {
  place = emit_cast(n, place, WAFER_DTYPE_i64);
  if (!base.ptr) return emit_gather_batched(n, im->rows, place, 1);
  int64_t all[] = {im->batch * im->places, im->channels};
  return emit_rows(n, emit_reshape(n, im->rows, 2, all), ADD(place, base));
}

/* Sum over all combinations of taps, of places as above. The result has the coordinates' shape and
 * one more dim, the channels. */
static MlirValue sampled(import_node *n, const image *im, const taps *t, MlirValue base) {
  uint32_t total = 1;
  MlirValue sum = none;
  wafer_dtype dtype = node_dtype(n, im->rows);
  for (uint32_t d = 0; d < im->spatial; d++) total *= t[d].count;
  for (uint32_t c = 0; c < total && n->status == WAFER_OK; c++) {
    MlirValue place = none, weight = none;
    for (uint32_t d = 0, rest = c; d < im->spatial; rest /= t[d++].count) {
      uint32_t tap = rest % t[d].count;
      MlirValue at = t[d].at[tap];
      place = place.ptr ? ADD(MUL(place, number(n, place, (double)im->dims[d])), at) : at;
      if (!t[d].weight[tap].ptr) continue;
      weight = weight.ptr ? MUL(weight, t[d].weight[tap]) : t[d].weight[tap];
    }
    MlirValue rows = rows_at(n, im, place, base);
    if (weight.ptr) {
      wafer_shape s = node_type(n, weight).shape;
      s.dims[s.rank++] = 1;
      rows = MUL(rows, emit_cast(n, emit_reshape(n, weight, s.rank, s.dims), dtype));
    }
    sum = sum.ptr ? ADD(sum, rows) : rows;
  }
  return sum;
}

/* Weight 0 for taps outside of 0 .. extent - 1, which then read the edge. */
static void drop_outside(import_node *n, taps *t, int64_t extent) {
  for (uint32_t k = 0; k < t->count; k++) {
    MlirValue x = t->at[k], inside = emit_clip(n, x, 0, (double)extent - 1);
    MlirValue hit = emit_cast(n, emit_binary(n, WAFER_OP_equal, x, inside), node_dtype(n, x));
    t->at[k] = inside;
    t->weight[k] = t->weight[k].ptr ? MUL(t->weight[k], hit) : hit;
  }
}

static taps linear_taps(import_node *n, MlirValue x) {
  MlirValue low = emit_unary(n, WAFER_OP_floor, x), rest = SUB(x, low), one = number(n, x, 1);
  return (taps){2, {low, ADD(low, one)}, {SUB(one, rest), rest}};
}

/* ((a t + b) t + c) t + d */
static MlirValue cubic(import_node *n, MlirValue t, const double *factors) {
  MlirValue sum = MUL(t, number(n, t, factors[0]));
  for (int i = 1; i < 4; i++) {
    if (i > 1) sum = MUL(sum, t);
    if (factors[i] != 0) sum = ADD(sum, number(n, t, factors[i]));
  }
  return sum;
}

/* Keys' convolution: of distances below 1, and below 2. */
static MlirValue cubic_weight(import_node *n, MlirValue distance, bool far) {
  const double a = CUBIC_A, near[] = {a + 2, -(a + 3), 0, 1}, wide[] = {a, -5 * a, 8 * a, -4 * a};
  return cubic(n, distance, far ? wide : near);
}

static taps cubic_taps(import_node *n, MlirValue x) {
  MlirValue low = emit_unary(n, WAFER_OP_floor, x), t = SUB(x, low), one = number(n, x, 1);
  MlirValue two = number(n, x, 2), rest = SUB(one, t);
  return (taps){4,
                {SUB(low, one), low, ADD(low, one), ADD(low, two)},
                {cubic_weight(n, ADD(t, one), true), cubic_weight(n, t, false),
                 cubic_weight(n, rest, false), cubic_weight(n, ADD(rest, one), true)}};
}

/* ---- GridSample ---- */

typedef struct grid_options {
  const char *mode, *padding;
  bool corners;
} grid_options;

/* Folded back and forth between `low` and `high`. */
static MlirValue reflected(import_node *n, MlirValue x, double low, double high) {
  double range = high - low;
  if (!(range > 0)) return MUL(x, number(n, x, 0));
  MlirValue away = emit_unary(n, WAFER_OP_abs, SUB(x, number(n, x, low)));
  wafer_attr truncate = INT_ATTR(truncate, 1);
  MlirValue rest =
      emit_op(n, WAFER_OP_mod, 2, (MlirValue[]){away, number(n, x, 2 * range)}, &truncate, 1);
  MlirValue back = SUB(number(n, x, 2 * range), rest);
  return ADD(emit_binary(n, WAFER_OP_min, rest, back), number(n, x, low));
}

static MlirValue padded(import_node *n, const grid_options *o, MlirValue x, int64_t extent) {
  double last = (double)extent - 1, rim = o->corners ? 0 : 0.5;
  if (!strcmp(o->padding, "border")) return emit_clip(n, x, 0, last);
  if (!strcmp(o->padding, "reflection")) return reflected(n, x, -rim, last + rim);
  return x;
}

/* From -1 .. 1, the outer edges (or the centres) of the first and last element. */
static MlirValue denormalized(import_node *n, const grid_options *o, MlirValue x, int64_t extent) {
  MlirValue up = ADD(x, number(n, x, 1));
  if (o->corners) return MUL(up, number(n, x, ((double)extent - 1) / 2));
  MlirValue wide = MUL(up, number(n, x, (double)extent));
  return MUL(SUB(wide, number(n, x, 1)), number(n, x, 0.5));
}

/* What is beyond the border is taken from it tap by tap; of one and two taps the place itself may
 * be brought inside before, of four their weights are those of where it was. */
static taps grid_taps(import_node *n, const grid_options *o, MlirValue x, int64_t extent) {
  bool nearest = !strcmp(o->mode, "nearest"), wide = !strcmp(o->mode, "cubic");
  x = denormalized(n, o, x, extent);
  if (nearest) x = emit_unary(n, WAFER_OP_round, x);
  if (!wide) x = padded(n, o, x, extent);
  taps t = {1, {x}, {none}};
  if (!nearest) t = wide ? cubic_taps(n, x) : linear_taps(n, x);
  if (!strcmp(o->padding, "zeros")) drop_outside(n, &t, extent);
  for (uint32_t k = 0; k < t.count; k++)
    t.at[k] = emit_clip(n, padded(n, o, t.at[k], extent), 0, (double)extent - 1);
  return t;
}

static grid_options grid_options_of(import_node *n) {
  grid_options o = {.mode = attr_text(n, "mode", "linear"),
                    .padding = attr_text(n, "padding_mode", "zeros"),
                    .corners = attr_int(n, "align_corners", 0) != 0};
  if (!strcmp(o.mode, "bilinear")) o.mode = "linear"; /* up to opset 19 */
  if (!strcmp(o.mode, "bicubic")) o.mode = "cubic";
  if (strcmp(o.mode, "linear") && strcmp(o.mode, "cubic") && strcmp(o.mode, "nearest"))
    node_bad(n, "mode is '%s', must be linear, cubic or nearest", o.mode);
  if (strcmp(o.padding, "zeros") && strcmp(o.padding, "border") && strcmp(o.padding, "reflection"))
    node_bad(n, "padding_mode is '%s', must be zeros, border or reflection", o.padding);
  return o;
}

/* (batch, places, channels) to (batch, channels, dims...) */
static MlirValue channels_first(import_node *n, MlirValue y, const wafer_shape *shape) {
  y = emit_transpose(n, y, 3, (int64_t[]){0, 2, 1});
  return emit_reshape(n, y, shape->rank, shape->dims);
}

/* The grid's last dim is the place, innermost dim first. */
void import_grid_sample(import_node *n) {
  grid_options o = grid_options_of(n);
  image im = image_of(n, node_input(n, 0));
  MlirValue grid = node_input(n, 1);
  wafer_shape g = node_type(n, grid).shape, y = {.rank = im.spatial + 2};
  if (n->status == WAFER_OK &&
      (g.rank != im.spatial + 2 || g.dims[g.rank - 1] != im.spatial || g.dims[0] != im.batch))
    node_bad(n, "the grid does not fit %u dims", im.spatial);
  if (n->status != WAFER_OK) return;
  taps t[WAFER_MAX_RANK];
  int64_t points = 1;
  y.dims[0] = im.batch, y.dims[1] = im.channels;
  for (uint32_t d = 0; d < im.spatial; d++) points *= y.dims[d + 2] = g.dims[d + 1];
  for (uint32_t d = 0; d < im.spatial; d++) {
    MlirValue x = emit_part(n, grid, g.rank - 1, im.spatial - 1 - d, 1);
    x = emit_reshape(n, x, 2, (int64_t[]){im.batch, points});
    t[d] = grid_taps(n, &o, x, im.dims[d]);
  }
  n->outputs[0] = channels_first(n, sampled(n, &im, t, none), &y);
}

/* ---- AffineGrid ---- */

/* Every place of the grid as (x, y, 1) or (x, y, z, 1). */
static MlirValue base_grid(import_node *n, wafer_dtype dtype, const int64_t *dims, uint32_t count,
                           int64_t points) {
  wafer_view view = node_new_tensor(n, dtype, 2, (int64_t[]){points, count + 1});
  bool corners = attr_int(n, "align_corners", 0) != 0;
  for (int64_t i = 0; view.data && i < points; i++) {
    int64_t rest = i;
    for (uint32_t k = 0; k < count; k++) {
      int64_t size = dims[count - 1 - k], at = rest % size;
      double place = corners ? (size > 1 ? 2.0 * (double)at / (double)(size - 1) - 1 : -1)
                             : (2.0 * (double)at + 1) / (double)size - 1;
      wafer_element_set_f64(dtype, view.data, i * (count + 1) + k, place);
      rest /= size;
    }
    wafer_element_set_f64(dtype, view.data, i * (count + 1) + count, 1);
  }
  return view.data ? emit_constant(n, &view) : none;
}

void import_affine_grid(import_node *n) {
  MlirValue theta = node_input(n, 0);
  int_list size = node_ints(n, 1, "size");
  wafer_shape t = node_type(n, theta).shape;
  int64_t dims[5], points = 1;
  uint32_t count = size.count - 2;
  if (n->status == WAFER_OK && (size.count < 4 || size.count > 5 || t.rank != 3 ||
                                t.dims[1] != count || t.dims[2] != count + 1))
    node_bad(n, "size has %u entries, theta %u dims", size.count, t.rank);
  for (uint32_t i = 2; n->status == WAFER_OK && i < size.count; i++)
    if (size.at[i] < 1 || __builtin_mul_overflow(points, size.at[i], &points) || points > 1 << 28)
      node_bad(n, "size[%u] is %lld", i, (long long)size.at[i]);
  if (n->status != WAFER_OK) return;
  MlirValue base = base_grid(n, node_dtype(n, theta), size.at + 2, count, points);
  MlirValue y = emit_binary(n, WAFER_OP_matmul, base, emit_swap_last(n, theta));
  dims[0] = t.dims[0];
  for (uint32_t i = 0; i < count; i++) dims[i + 1] = size.at[i + 2];
  dims[count + 1] = count;
  n->outputs[0] = emit_reshape(n, y, count + 2, dims);
}

/* ---- RoiAlign ---- */

typedef struct rois {
  MlirValue edges; /* (rois, 4): x1, y1, x2, y2, scaled */
  int64_t count, pooled[2], samples[2];
  bool half_pixel;
} rois;

static MlirValue edge_of(import_node *n, const rois *r, uint32_t which) {
  MlirValue edge = emit_part(n, r->edges, 1, which, 1);
  return emit_reshape(n, edge, 2, (int64_t[]){r->count, 1});
}

/* Coordinates of all samples along dim d: (rois, pooled * samples). */
static MlirValue roi_places(import_node *n, const rois *r, uint32_t d) {
  MlirValue first = edge_of(n, r, 1 - d), extent = SUB(edge_of(n, r, 3 - d), first);
  if (!r->half_pixel) extent = emit_binary(n, WAFER_OP_max, extent, number(n, extent, 1));
  int64_t count = r->pooled[d] * r->samples[d];
  wafer_view steps = node_new_tensor(n, node_dtype(n, extent), 1, &count);
  if (!steps.data) return none;
  for (int64_t i = 0; i < count; i++)
    wafer_element_set_f64(steps.dtype, steps.data, i, ((double)i + 0.5) / (double)count);
  return ADD(first, MUL(extent, emit_constant(n, &steps)));
}

/* Beyond one element outside: nothing; then clipped to the image. */
static taps roi_taps(import_node *n, MlirValue x, int64_t extent) {
  MlirValue near = emit_clip(n, x, -1, (double)extent);
  MlirValue hit = emit_cast(n, emit_binary(n, WAFER_OP_equal, x, near), node_dtype(n, x));
  taps t = linear_taps(n, emit_clip(n, x, 0, (double)extent - 1));
  for (uint32_t k = 0; k < 2; k++) {
    t.at[k] = emit_clip(n, t.at[k], 0, (double)extent - 1);
    t.weight[k] = MUL(t.weight[k], hit);
  }
  return t;
}

/* A dim of one element at `at` in front of dim 1 or behind it. */
static taps spread(import_node *n, const taps *t, bool rows) {
  taps wide = {.count = t->count};
  wafer_shape s = node_type(n, t->at[0]).shape;
  int64_t dims[] = {s.dims[0], rows ? s.dims[1] : 1, rows ? 1 : s.dims[1]};
  for (uint32_t k = 0; k < t->count; k++) {
    wide.at[k] = emit_reshape(n, t->at[k], 3, dims);
    wide.weight[k] = emit_reshape(n, t->weight[k], 3, dims);
  }
  return wide;
}

/* Samples per bin: fixed, or as many as the largest box has elements per bin. Boxes of different
 * sizes would have different numbers: these must be known. */
static void roi_samples(import_node *n, rois *r) {
  int64_t ratio = attr_int(n, "sampling_ratio", 0);
  double scale = attr_float(n, "spatial_scale", 1);
  wafer_view boxes;
  r->samples[0] = r->samples[1] = ratio;
  if (ratio > 0 || n->status != WAFER_OK) return;
  if (!node_constant(n, 1, "rois, as sampling_ratio is 0", &boxes)) return;
  for (uint32_t d = 0; d < 2; d++)
    for (int64_t i = 0; i < r->count; i++) {
      double size = scale * (wafer_element_f64(boxes.dtype, boxes.data, 4 * i + 3 - d) -
                             wafer_element_f64(boxes.dtype, boxes.data, 4 * i + 1 - d));
      if (!r->half_pixel && size < 1) size = 1;
      int64_t own = (int64_t)ceil(size / (double)r->pooled[d]);
      if (own < 1) own = 1;
      if (i && own != r->samples[d])
        node_unsupported(n, "sampling_ratio 0 with boxes of different sizes; set sampling_ratio");
      r->samples[d] = own;
    }
}

/* Of each bin's samples, (rois, ph * sh, pw * sw, channels), the mean. */
static MlirValue mean_of_bins(import_node *n, const rois *r, MlirValue x, int64_t channels) {
  int64_t six[] = {r->count, r->pooled[0], r->samples[0], r->pooled[1], r->samples[1], channels};
  x = emit_reduce(n, WAFER_OP_reduce_mean, emit_reshape(n, x, 6, six), 1u << 2 | 1u << 4, false);
  return emit_transpose(n, x, 4, (int64_t[]){0, 3, 1, 2});
}

/* Of each bin's weighted taps the largest: as the operator is defined, taps are not summed. */
static MlirValue largest_of_bins(import_node *n, const rois *r, const image *im, const taps *t,
                                 MlirValue base) {
  MlirValue most = none;
  for (uint32_t c = 0; c < 4; c++) {
    taps one[2];
    for (uint32_t d = 0; d < 2; d++) {
      uint32_t k = d ? c % 2 : c / 2;
      one[d] = (taps){1, {t[d].at[k]}, {t[d].weight[k]}};
    }
    MlirValue x = sampled(n, im, one, base);
    most = most.ptr ? emit_binary(n, WAFER_OP_max, most, x) : x;
  }
  int64_t six[] = {r->count,     r->pooled[0],  r->samples[0],
                   r->pooled[1], r->samples[1], im->channels};
  most =
      emit_reduce(n, WAFER_OP_reduce_max, emit_reshape(n, most, 6, six), 1u << 2 | 1u << 4, false);
  return emit_transpose(n, most, 4, (int64_t[]){0, 3, 1, 2});
}

static rois rois_of(import_node *n) {
  const char *mode = n->opset < 16 ? "output_half_pixel" : "half_pixel";
  mode = attr_text(n, "coordinate_transformation_mode", mode);
  rois r = {.pooled = {attr_int(n, "output_height", 1), attr_int(n, "output_width", 1)},
            .half_pixel = !strcmp(mode, "half_pixel")};
  wafer_shape s = node_type(n, node_input(n, 1)).shape;
  if (!r.half_pixel && strcmp(mode, "output_half_pixel"))
    node_bad(n, "coordinate_transformation_mode is '%s'", mode);
  if (n->status == WAFER_OK && (s.rank != 2 || s.dims[1] != 4)) node_bad(n, "rois must be N x 4");
  if (r.pooled[0] < 1 || r.pooled[1] < 1 || r.pooled[0] > 1 << 16 || r.pooled[1] > 1 << 16)
    node_bad(n, "an output of %lld x %lld", (long long)r.pooled[0], (long long)r.pooled[1]);
  r.count = s.dims[0];
  roi_samples(n, &r);
  if (n->status == WAFER_OK && (r.samples[0] > 1 << 10 || r.samples[1] > 1 << 10))
    node_unsupported(n, "%lld samples per bin", (long long)r.samples[0]);
  MlirValue edges = node_input(n, 1);
  edges = MUL(edges, number(n, edges, attr_float(n, "spatial_scale", 1)));
  r.edges = r.half_pixel ? SUB(edges, number(n, edges, 0.5)) : edges;
  return r;
}

void import_roi_align(import_node *n) {
  image im = image_of(n, node_input(n, 0));
  rois r = rois_of(n);
  const char *mode = attr_text(n, "mode", "avg");
  bool largest = !strcmp(mode, "max");
  if (!largest && strcmp(mode, "avg")) node_bad(n, "mode is '%s', must be avg or max", mode);
  if (n->status == WAFER_OK && im.spatial != 2) node_bad(n, "an image of %u dims", im.spatial);
  if (n->status != WAFER_OK) return;
  taps t[2];
  for (uint32_t d = 0; d < 2; d++) {
    taps flat = roi_taps(n, roi_places(n, &r, d), im.dims[d]);
    t[d] = spread(n, &flat, d == 0);
  }
  MlirValue base = emit_cast(n, node_input(n, 2), WAFER_DTYPE_i64);
  base = MUL(base, number(n, base, (double)im.places));
  base = emit_reshape(n, base, 3, (int64_t[]){r.count, 1, 1});
  n->outputs[0] = largest ? largest_of_bins(n, &r, &im, t, base)
                          : mean_of_bins(n, &r, sampled(n, &im, t, base), im.channels);
}

/* ---- DeformConv: a matrix product of samples ---- */

typedef struct deformed {
  int64_t groups, taps, out[2], kernel[2], strides[2], dilations[2], pads[4];
} deformed;

static deformed deformed_of(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape, w = node_type(n, node_input(n, 1)).shape,
              o = node_type(n, node_input(n, 2)).shape;
  deformed f = {.groups = attr_int(n, "offset_group", 1)};
  if (n->status == WAFER_OK && (x.rank != 4 || w.rank != 4 || o.rank != 4))
    node_unsupported(n, "operands of %u, %u and %u dims; images have 4", x.rank, w.rank, o.rank);
  if (!attr_ints_of(n, "strides", 2, 1, 0, f.strides) ||
      !attr_ints_of(n, "dilations", 2, 1, 0, f.dilations) ||
      !attr_ints_of(n, "pads", 4, 0, 0, f.pads))
    return f;
  f.taps = w.dims[2] * w.dims[3];
  for (uint32_t d = 0; d < 2; d++) f.kernel[d] = w.dims[d + 2], f.out[d] = o.dims[d + 2];
  if (f.groups < 1 || x.dims[1] % f.groups || o.dims[1] != f.groups * f.taps * 2)
    node_bad(n, "the offsets' %lld channels do not fit %lld groups of %lld taps",
             (long long)o.dims[1], (long long)f.groups, (long long)f.taps);
  return f;
}

/* Coordinates along dim d before the offsets: (1, taps, height, width). */
static MlirValue tap_grid(import_node *n, const deformed *f, wafer_dtype dtype, uint32_t d) {
  int64_t dims[] = {1, f->taps, f->out[0], f->out[1]}, plane = f->out[0] * f->out[1];
  wafer_view view = node_new_tensor(n, dtype, 4, dims);
  for (int64_t i = 0; view.data && i < f->taps * plane; i++) {
    int64_t tap = i / plane, at = i % plane;
    int64_t k = d ? tap % f->kernel[1] : tap / f->kernel[1];
    int64_t o = d ? at % f->out[1] : at / f->out[1];
    wafer_element_set_f64(dtype, view.data, i,
                          (double)(o * f->strides[d] + k * f->dilations[d] - f->pads[d]));
  }
  return view.data ? emit_constant(n, &view) : none;
}

/* (batch * groups, taps, places, channels of a group), outside 0, times the mask. */
static MlirValue deformed_samples(import_node *n, const deformed *f, const image *im) {
  int64_t rows = im->batch, plane = f->out[0] * f->out[1];
  int64_t six[] = {rows, f->taps, 2, f->out[0], f->out[1]},
          four[] = {rows, f->taps, f->out[0], f->out[1]};
  MlirValue offset = emit_reshape(n, node_input(n, 2), 5, six);
  taps t[2];
  for (uint32_t d = 0; d < 2; d++) {
    MlirValue x = emit_reshape(n, emit_part(n, offset, 2, d, 1), 4, four);
    t[d] = linear_taps(n, ADD(x, tap_grid(n, f, node_dtype(n, x), d)));
    drop_outside(n, &t[d], im->dims[d]);
  }
  MlirValue x = sampled(n, im, t, none);
  if (node_has_input(n, 4))
    x = MUL(x, emit_reshape(n, node_input(n, 4), 5,
                            (int64_t[]){rows, f->taps, f->out[0], f->out[1], 1}));
  return emit_reshape(n, x, 4, (int64_t[]){rows, f->taps, plane, im->channels});
}

/* x, w, offset, bias, mask */
void import_deform_conv(import_node *n) {
  deformed f = deformed_of(n);
  wafer_shape s = node_type(n, node_input(n, 0)).shape, w = node_type(n, node_input(n, 1)).shape;
  int64_t group = attr_int(n, "group", 1), plane = f.out[0] * f.out[1];
  if (n->status == WAFER_OK && (group < 1 || w.dims[0] % group || s.dims[1] != w.dims[1] * group))
    node_bad(n, "group %lld does not fit", (long long)group);
  if (n->status != WAFER_OK) return;
  int64_t parts[] = {s.dims[0] * f.groups, s.dims[1] / f.groups, s.dims[2], s.dims[3]};
  image im = image_of(n, emit_reshape(n, node_input(n, 0), 4, parts));
  MlirValue x = deformed_samples(n, &f, &im);
  /* to (batch, group, channels of a group * taps, places) */
  x = emit_transpose(n, x, 4, (int64_t[]){0, 3, 1, 2});
  x = emit_reshape(n, x, 4, (int64_t[]){s.dims[0], group, w.dims[1] * f.taps, plane});
  MlirValue weight = emit_reshape(n, node_input(n, 1), 3,
                                  (int64_t[]){group, w.dims[0] / group, w.dims[1] * f.taps});
  MlirValue y = emit_binary(n, WAFER_OP_matmul, weight, x);
  y = emit_reshape(n, y, 4, (int64_t[]){s.dims[0], w.dims[0], f.out[0], f.out[1]});
  if (node_has_input(n, 3))
    y = ADD(y, emit_reshape(n, node_input(n, 3), 3, (int64_t[]){w.dims[0], 1, 1}));
  n->outputs[0] = y;
}

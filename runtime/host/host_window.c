/* What cores compute over places of images, of which only the run knows how many there are:
 * convolutions, pools, resizing, and boxes cut out of images. */
#include <math.h>
#include <string.h>

#include "host_work.h"

/* ---- windows ---- */

/* An attribute's entries, or `absent` for each. */
static void entries(host_work *w, const char *name, uint32_t count, int64_t absent, int64_t *out) {
  const wafer_host_attr *attr = host_attr(w->site, name, WAFER_HOST_ATTR_ints);
  if (attr && attr->count != count)
    work_fail(w, "%s has %u entries, needs %u", name, attr->count, count);
  for (uint32_t i = 0; i < count; i++)
    out[i] = attr && attr->count == count ? attr->ints[i] : absent;
}

typedef struct window {
  uint32_t spatial;
  int64_t kernel[WAFER_MAX_RANK], strides[WAFER_MAX_RANK], dilations[WAFER_MAX_RANK],
      pads[2 * WAFER_MAX_RANK];
} window;

static bool is_same(const host_site *site) {
  return !strncmp(host_text(site, "auto_pad", "NOTSET"), "SAME_", 5);
}

/* SAME: ceil(in / stride) positions, the odd element of the padding at the end, or at the begin. */
static void pad_same(const wafer_view *x, bool lower, window *win) {
  for (uint32_t i = 0; i < win->spatial; i++) {
    int64_t in = x->shape.dims[i + 2], step = win->strides[i] > 0 ? win->strides[i] : 1;
    int64_t span = (win->kernel[i] - 1) * win->dilations[i] + 1;
    int64_t total = ((in + step - 1) / step - 1) * step + span - in;
    total = total > 0 ? total : 0;
    win->pads[i] = lower ? total - total / 2 : total / 2;
    win->pads[i + win->spatial] = total - win->pads[i];
  }
}

/* Over the dims behind the first two; the kernel's are those of a weight, or an attribute's. */
static window window_of(host_work *w, const wafer_view *x, const wafer_view *weight) {
  const char *mode = host_text(w->site, "auto_pad", "NOTSET");
  uint32_t rank = x->shape.rank;
  window win = {.spatial = rank > 2 ? rank - 2 : 0};
  if (rank < 3 || (weight && weight->shape.rank != rank))
    work_fail(w, "an operand of %u dims, a kernel of %u", rank, weight ? weight->shape.rank : rank);
  if (w->status != WAFER_OK) return win;
  entries(w, "kernel_shape", win.spatial, 1, win.kernel);
  if (weight) memcpy(win.kernel, weight->shape.dims + 2, win.spatial * sizeof *win.kernel);
  entries(w, "strides", win.spatial, 1, win.strides);
  entries(w, "dilations", win.spatial, 1, win.dilations);
  entries(w, "pads", 2 * win.spatial, 0, win.pads);
  if (is_same(w->site)) pad_same(x, !strcmp(mode, "SAME_LOWER"), &win);
  return win;
}

static wafer_status convolve(host_site *site, wafer_op op) {
  host_work w = {.site = site};
  wafer_view in[] = {work_input(&w, 0), work_input(&w, 1), {0}};
  bool transposed = op == WAFER_OP_conv_transpose, bias = host_has(site, 2);
  int64_t extra[WAFER_MAX_RANK];
  if (bias) in[2] = work_input(&w, 2);
  if (transposed && (is_same(site) || host_attr(site, "output_shape", WAFER_HOST_ATTR_ints)))
    work_fail(&w, "auto_pad SAME and output_shape take dims that are known when compiling");
  window win = window_of(&w, &in[0], &in[1]);
  entries(&w, "output_padding", win.spatial, 0, extra);
  const wafer_attr attrs[] = {
      HOST_INT(group, host_int(site, "group", 1)), HOST_INTS(strides, win.spatial, win.strides),
      HOST_INTS(dilations, win.spatial, win.dilations), HOST_INTS(pads, 2 * win.spatial, win.pads),
      HOST_INTS(output_padding, win.spatial, extra)};
  return work_end(&w, work_op(&w, op, WAFER_COUNT(attrs) - !transposed, attrs, bias ? 3 : 2, in));
}

wafer_status host_conv(host_site *site) {
  return convolve(site, WAFER_OP_conv);
}
wafer_status host_conv_transpose(host_site *site) {
  return convolve(site, WAFER_OP_conv_transpose);
}

static wafer_status pool(host_site *site, wafer_op op) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  window win = window_of(&w, &x, NULL);
  const wafer_attr attrs[] = {
      HOST_INTS(kernel, win.spatial, win.kernel),
      HOST_INTS(strides, win.spatial, win.strides),
      HOST_INTS(dilations, win.spatial, win.dilations),
      HOST_INTS(pads, 2 * win.spatial, win.pads),
      HOST_INT(ceil_mode, is_same(site) ? 0 : host_int(site, "ceil_mode", 0)),
      HOST_INT(count_include_pad, host_int(site, "count_include_pad", 0))};
  return work_end(&w,
                  work_op(&w, op, WAFER_COUNT(attrs) - (op == WAFER_OP_max_pool), attrs, 1, &x));
}

wafer_status host_max_pool(host_site *site) {
  return pool(site, WAFER_OP_max_pool);
}
wafer_status host_average_pool(host_site *site) {
  return pool(site, WAFER_OP_average_pool);
}

static wafer_status global_pool(host_site *site, wafer_op op) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  return work_end(&w, work_reduce(&w, op, x, ((1u << x.shape.rank) - 1) & ~3u));
}

wafer_status host_global_max_pool(host_site *site) {
  return global_pool(site, WAFER_OP_reduce_max);
}
wafer_status host_global_average_pool(host_site *site) {
  return global_pool(site, WAFER_OP_reduce_mean);
}

/* ---- Resize ---- */

/* Dims of the result and scales, from the operand that has sizes or scales of all dims, or of those
 * that attribute axes names. */
static void read_scales(host_work *w, const wafer_view *x, uint32_t input, bool sizes,
                        int64_t *dims, double *scales) {
  const wafer_host_attr *axes = host_attr(w->site, "axes", WAFER_HOST_ATTR_ints);
  wafer_view given = work_input(w, input);
  uint32_t count = axes ? axes->count : x->shape.rank, axis = 0;
  if (w->status == WAFER_OK && (given.shape.rank != 1 || given.shape.dims[0] != count))
    work_fail(w, "operand %u must be a number for each of %u dims", input, count);
  for (uint32_t i = 0; i < count && w->status == WAFER_OK; i++) {
    double value = wafer_element_f64(given.dtype, given.data, i);
    w->status = host_axis(w->site, axes ? axes->ints[i] : i, x->shape.rank, &axis);
    if (w->status != WAFER_OK) return;
    double dim = (double)x->shape.dims[axis], size = sizes ? value : floor(dim * value);
    if (!(value >= 0 && size < 0x1p40))
      work_fail(w, "operand %u is %g for dim %u", input, value, axis);
    dims[axis] = w->status == WAFER_OK ? (int64_t)size : 0;
    scales[axis] = !sizes ? value : dim > 0 ? size / dim : 1;
  }
}

/* Two operands: as opset 10 has it. */
wafer_status host_resize(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  uint32_t rank = x.shape.rank;
  bool old = site->input_count == 2, sizes = host_has(site, 3), shrinks = false;
  int64_t dims[WAFER_MAX_RANK];
  double scales[WAFER_MAX_RANK];
  const char *coordinates =
      host_text(site, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
  const char *rounding = host_text(site, "nearest_mode", old ? "floor" : "round_prefer_floor");
  for (uint32_t d = 0; d < rank; d++) {
    dims[d] = x.shape.dims[d];
    scales[d] = 1;
  }
  if (w.status == WAFER_OK) read_scales(&w, &x, sizes ? 3 : old ? 1 : 2, sizes, dims, scales);
  for (uint32_t d = 0; d < rank; d++) shrinks |= scales[d] < 1;
  if (strcmp(host_text(site, "keep_aspect_ratio_policy", "stretch"), "stretch") ||
      !strcmp(coordinates, "tf_crop_and_resize") || (shrinks && host_int(site, "antialias", 0)))
    work_fail(&w, "crops, antialiasing and keep_aspect_ratio_policy take dims that are known when "
                  "compiling");
  const wafer_attr attrs[] = {
      HOST_INTS(shape, rank, dims),
      {.id = WAFER_ATTR_scales, .floats = {rank, scales}},
      HOST_TEXT(mode, host_text(site, "mode", "nearest")),
      HOST_TEXT(coordinates, coordinates),
      HOST_TEXT(rounding, rounding),
      {.id = WAFER_ATTR_cubic_a, .f = host_float(site, "cubic_coeff_a", -0.75)},
      HOST_INT(exclude_outside, host_int(site, "exclude_outside", 0))};
  return work_end(&w, work_op(&w, WAFER_OP_resize, WAFER_COUNT(attrs), attrs, 1, &x));
}

/* ---- RoiAlign ---- */

/* What a sample reads along one dim: two neighbours and their weights, both 0 outside. */
typedef struct tap {
  int64_t at[2];
  double weight[2];
} tap;

static tap tap_at(double place, int64_t extent) {
  if (!(place >= -1 && place <= (double)extent)) return (tap){{0, 0}, {0, 0}};
  double last = (double)(extent - 1), clipped = fmin(fmax(place, 0), last), low = floor(clipped);
  return (tap){{(int64_t)low, (int64_t)fmin(low + 1, last)}, {1 - (clipped - low), clipped - low}};
}

typedef struct rois {
  int64_t pooled[2], ratio;
  double scale;
  bool half_pixel, largest;
} rois;

/* A box along one dim: where it begins, the size of a bin, samples per bin. */
typedef struct side {
  double first, bin;
  int64_t samples;
} side;

static side side_of(const rois *r, const wafer_view *boxes, int64_t i, uint32_t d) {
  double offset = r->half_pixel ? 0.5 : 0;
  double first = wafer_element_f64(boxes->dtype, boxes->data, 4 * i + 1 - d) * r->scale - offset;
  double last = wafer_element_f64(boxes->dtype, boxes->data, 4 * i + 3 - d) * r->scale - offset;
  double bin = (r->half_pixel ? last - first : fmax(last - first, 1)) / (double)r->pooled[d];
  double samples = r->ratio > 0 ? (double)r->ratio : fmin(fmax(ceil(bin), 0), 1 << 16);
  return (side){first, bin, (int64_t)samples};
}

static double place_of(const side *s, int64_t bin, int64_t sample) {
  double step = ((double)sample + 0.5) / (double)s->samples;
  return s->first + ((double)bin + step) * s->bin;
}

/* The mean of a bin's samples, or the largest of their weighted taps. */
static double bin_of(const rois *r, const wafer_view *x, int64_t plane, const side *sides,
                     const int64_t *bin) {
  int64_t rows = x->shape.dims[2], columns = x->shape.dims[3];
  double sum = 0, most = -INFINITY;
  for (int64_t sy = 0; sy < sides[0].samples; sy++) {
    tap v = tap_at(place_of(&sides[0], bin[0], sy), rows);
    for (int64_t sx = 0; sx < sides[1].samples; sx++) {
      tap h = tap_at(place_of(&sides[1], bin[1], sx), columns);
      for (int k = 0; k < 4; k++) {
        int64_t at = (plane * rows + v.at[k / 2]) * columns + h.at[k % 2];
        double part = v.weight[k / 2] * h.weight[k % 2] * wafer_element_f64(x->dtype, x->data, at);
        sum += part;
        most = fmax(most, part);
      }
    }
  }
  int64_t count = sides[0].samples * sides[1].samples;
  if (!count) return 0;
  return r->largest ? most : sum / (double)count;
}

static wafer_status align(host_site *site, const rois *r, const wafer_view *x,
                          const wafer_view *boxes, const wafer_view *images) {
  int64_t channels = x->shape.dims[1], count = boxes->shape.dims[0], next = 0;
  wafer_shape shape = {4, {count, channels, r->pooled[0], r->pooled[1]}};
  wafer_view *y;
  WAFER_TRY(host_new(site, 0, x->dtype, &shape, &y));
  for (int64_t i = 0; i < count; i++) {
    int64_t image = wafer_element_i64(images->dtype, images->data, i), bin[2];
    if (image < 0 || image >= x->shape.dims[0])
      return host_fail(site, "box %" PRId64 " is of image %" PRId64, i, image);
    const side sides[] = {side_of(r, boxes, i, 0), side_of(r, boxes, i, 1)};
    for (int64_t c = 0; c < channels; c++)
      for (bin[0] = 0; bin[0] < r->pooled[0]; bin[0]++)
        for (bin[1] = 0; bin[1] < r->pooled[1]; bin[1]++)
          wafer_element_set_f64(y->dtype, y->data, next++,
                                bin_of(r, x, image * channels + c, sides, bin));
  }
  return WAFER_OK;
}

wafer_status host_roi_align(host_site *site) {
  const wafer_view *x, *boxes, *images;
  const char *mode = host_text(site, "mode", "avg");
  const char *pixel = host_text(site, "coordinate_transformation_mode", "half_pixel");
  const rois r = {.pooled = {host_int(site, "output_height", 1), host_int(site, "output_width", 1)},
                  .ratio = host_int(site, "sampling_ratio", 0),
                  .scale = host_float(site, "spatial_scale", 1),
                  .half_pixel = !strcmp(pixel, "half_pixel"),
                  .largest = !strcmp(mode, "max")};
  WAFER_TRY(host_numbers(site, 0, &x));
  WAFER_TRY(host_numbers(site, 1, &boxes));
  WAFER_TRY(host_typed(site, 2, WAFER_DTYPE_i64, &images));
  if (x->shape.rank != 4 || boxes->shape.rank != 2 || boxes->shape.dims[1] != 4 ||
      images->shape.rank != 1 || images->shape.dims[0] != boxes->shape.dims[0])
    return host_fail(site, "an image of %u dims; boxes must be N x 4, their images N",
                     x->shape.rank);
  if (!x->shape.dims[2] || !x->shape.dims[3]) return host_fail(site, "an image without elements");
  for (uint32_t d = 0; d < 2; d++)
    if (r.pooled[d] < 1 || r.pooled[d] > 1 << 16 || r.ratio > 1 << 10)
      return host_fail(site, "an output of %" PRId64 " x %" PRId64 ", sampling_ratio %" PRId64,
                       r.pooled[0], r.pooled[1], r.ratio);
  if ((!r.half_pixel && strcmp(pixel, "output_half_pixel")) || (!r.largest && strcmp(mode, "avg")))
    return host_fail(site, "mode '%s', coordinate_transformation_mode '%s'", mode, pixel);
  return align(site, &r, x, boxes, images);
}

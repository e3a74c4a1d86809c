/* Resize and Upsample. */
#include <math.h>
#include <string.h>

#include "operators.h"
#include "resize_axis.h"

typedef struct resizing {
  wafer_shape in, out;
  double scales[WAFER_MAX_RANK];
  const char *mode, *coordinates, *rounding;
  double first[WAFER_MAX_RANK], last[WAFER_MAX_RANK]; /* the part of each dim, of 0 to 1 */
} resizing;

/* Entries of scales or sizes are for these dims; without the attribute for all of them. */
static uint32_t axes_of(import_node *n, uint32_t rank, uint32_t *axes) {
  int_list given = n->opset >= 18 ? attr_ints(n, "axes") : (int_list){0};
  node_axes(n, given, rank);
  uint32_t count = given.count ? given.count : rank;
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++)
    axes[i] = given.count ? node_axis(n, given.at[i], rank) : i;
  return n->status == WAFER_OK ? count : 0;
}

/* The result's dims: floor(dim * scale). */
static void by_scales(import_node *n, resizing *r, uint32_t count, const double *scales) {
  uint32_t axes[WAFER_MAX_RANK], wanted = axes_of(n, r->in.rank, axes);
  if (count != wanted) node_bad(n, "%u scales for %u dims", count, wanted);
  for (uint32_t i = 0; i < wanted && n->status == WAFER_OK; i++) {
    double size = floor((double)r->in.dims[axes[i]] * scales[i]);
    if (!(scales[i] > 0) || !(size < 0x1p40)) node_bad(n, "scales[%u] is %g", i, scales[i]);
    r->scales[axes[i]] = scales[i];
    r->out.dims[axes[i]] = n->status == WAFER_OK ? (int64_t)size : 0;
  }
}

/* One scale for all resized dims, as the policy says. */
static void keep_aspect(import_node *n, resizing *r, uint32_t count, const uint32_t *axes,
                        const char *policy) {
  bool larger = !strcmp(policy, "not_smaller");
  double scale = larger ? 0 : INFINITY;
  if (!strcmp(policy, "stretch")) return;
  if (!larger && strcmp(policy, "not_larger"))
    node_bad(n, "keep_aspect_ratio_policy is '%s'", policy);
  for (uint32_t i = 0; i < count; i++)
    scale = larger ? fmax(scale, r->scales[axes[i]]) : fmin(scale, r->scales[axes[i]]);
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
    r->scales[axes[i]] = scale;
    r->out.dims[axes[i]] = (int64_t)floor((double)r->in.dims[axes[i]] * scale + 0.5);
  }
}

static void by_sizes(import_node *n, resizing *r, int_list sizes) {
  uint32_t axes[WAFER_MAX_RANK], wanted = axes_of(n, r->in.rank, axes);
  if (sizes.count != wanted) node_bad(n, "%u sizes for %u dims", sizes.count, wanted);
  for (uint32_t i = 0; i < wanted && n->status == WAFER_OK; i++) {
    int64_t in = r->in.dims[axes[i]], size = training_length(n, &r->in, axes[i], sizes.at[i]);
    if (size < 1 || size > INT32_MAX || in < 1)
      node_bad(n, "sizes[%u] is %lld", i, (long long)size);
    r->scales[axes[i]] = in ? (double)size / (double)in : 1;
    r->out.dims[axes[i]] = size;
  }
  if (n->status == WAFER_OK)
    keep_aspect(n, r, wanted, axes, attr_text(n, "keep_aspect_ratio_policy", "stretch"));
}

/* The scales in input `index`. */
static void by_scale_input(import_node *n, resizing *r, uint32_t index) {
  wafer_view view;
  int64_t count;
  double scales[WAFER_MAX_RANK];
  if (!node_constant(n, index, "scales", &view)) return;
  wafer_shape_elements(&view.shape, &count);
  if (count > WAFER_MAX_RANK || !wafer_dtype_is_float(view.dtype)) {
    node_bad(n, "scales must be a float for each dim");
    return;
  }
  for (int64_t i = 0; i < count; i++) scales[i] = wafer_element_f64(view.dtype, view.data, i);
  by_scales(n, r, (uint32_t)count, scales);
}

static resizing begin_resize(import_node *n) {
  resizing r = {
      .in = node_type(n, node_input(n, 0)).shape, .coordinates = "asymmetric", .rounding = "floor"};
  r.out = r.in;
  for (uint32_t i = 0; i < WAFER_MAX_RANK; i++) r.scales[i] = r.last[i] = 1;
  r.mode = attr_text(n, "mode", "nearest");
  return r;
}

static void finish_resize(import_node *n, const resizing *r) {
  MlirValue x = node_input(n, 0);
  wafer_attr attrs[] = {INTS_ATTR(shape, r->in.rank, r->out.dims),
                        FLOATS_ATTR(scales, r->in.rank, r->scales),
                        TEXT_ATTR(mode, r->mode),
                        TEXT_ATTR(coordinates, r->coordinates),
                        TEXT_ATTR(rounding, r->rounding),
                        FLOAT_ATTR(cubic_a, attr_float(n, "cubic_coeff_a", -0.75)),
                        INT_ATTR(exclude_outside, attr_int(n, "exclude_outside", 0))};
  n->outputs[0] = emit_op(n, WAFER_OP_resize, 1, &x, attrs, WAFER_COUNT(attrs));
}

/* Attribute scales in opset 7 and 8, input 1 in 9. */
void import_upsample(import_node *n) {
  resizing r = begin_resize(n);
  if (n->opset >= 10) node_bad(n, "the operator ended with opset 9; use Resize");
  const double oldest[] = {1, 1, attr_float(n, "height_scale", 1), attr_float(n, "width_scale", 1)};
  float_list scales = n->opset < 7   ? (float_list){WAFER_COUNT(oldest), oldest}
                      : n->opset < 9 ? attr_floats(n, "scales")
                                     : (float_list){0};
  if (n->opset < 9)
    by_scales(n, &r, scales.count, scales.at);
  else
    by_scale_input(n, &r, 1);
  finish_resize(n, &r);
}

void import_resize_10(import_node *n) {
  resizing r = begin_resize(n);
  by_scale_input(n, &r, 1);
  finish_resize(n, &r);
}

static bool is_empty(const import_node *n, uint32_t index) {
  int64_t count;
  wafer_shape shape = node_type(n, node_input(n, index)).shape;
  return !node_has_input(n, index) || (wafer_shape_elements(&shape, &count) && !count);
}

/* Begins, then ends, of the dims that are resized. */
static void read_crop(import_node *n, resizing *r) {
  wafer_view roi;
  int64_t count;
  uint32_t axes[WAFER_MAX_RANK], wanted = axes_of(n, r->in.rank, axes);
  if (!node_has_input(n, 1)) node_bad(n, "tf_crop_and_resize needs operand roi");
  if (n->status != WAFER_OK || !node_constant(n, 1, "roi", &roi)) return;
  wafer_shape_elements(&roi.shape, &count);
  if (count != 2 * (int64_t)wanted || !wafer_dtype_is_float(roi.dtype))
    node_bad(n, "roi must be %u floats, a begin and an end for each dim", 2 * wanted);
  for (uint32_t i = 0; i < wanted && n->status == WAFER_OK; i++) {
    r->first[axes[i]] = wafer_element_f64(roi.dtype, roi.data, i);
    r->last[axes[i]] = wafer_element_f64(roi.dtype, roi.data, wanted + i);
    if (!(fabs(r->first[axes[i]]) < 0x1p20) || !(fabs(r->last[axes[i]]) < 0x1p20))
      node_bad(n, "roi of dim %u is %g to %g", axes[i], r->first[axes[i]], r->last[axes[i]]);
  }
}

/* Is it one of those words? */
static void check_word(import_node *n, const char *name, const char *word, const char *words) {
  size_t length = strlen(word);
  const char *at = length ? strstr(words, word) : NULL;
  while (at && ((at > words && at[-1] != ' ') || (at[length] && at[length] != ' ')))
    at = strstr(at + 1, word);
  if (!at) node_bad(n, "%s is '%s', must be one of: %s", name, word, words);
}

/* Dim by dim; integers by way of f32. */
static void resize_by_axes(import_node *n, const resizing *r, bool antialias) {
  bool nearest = !strcmp(r->mode, "nearest");
  check_word(n, "mode", r->mode, "nearest linear cubic");
  check_word(n, "coordinate_transformation_mode", r->coordinates,
             "half_pixel asymmetric align_corners pytorch_half_pixel half_pixel_symmetric "
             "tf_half_pixel_for_nn tf_crop_and_resize");
  check_word(n, "nearest_mode", r->rounding, "round_prefer_floor round_prefer_ceil floor ceil");
  if (nearest && antialias) node_bad(n, "antialias is for the modes linear and cubic");
  MlirValue x = node_input(n, 0);
  wafer_dtype dtype = node_dtype(n, x);
  if (!nearest && (wafer_dtype_bytes(dtype) < 4 || !wafer_dtype_is_float(dtype)))
    x = emit_cast(n, x, WAFER_DTYPE_f32);
  for (uint32_t d = 0; d < r->in.rank && n->status == WAFER_OK; d++)
    x = emit_resize_axis(n, x,
                         &(axis_resize){.axis = d,
                                        .in = r->in.dims[d],
                                        .out = r->out.dims[d],
                                        .scale = r->scales[d],
                                        .mode = r->mode,
                                        .coordinates = r->coordinates,
                                        .rounding = r->rounding,
                                        .antialias = antialias,
                                        .exclude_outside = attr_int(n, "exclude_outside", 0) != 0,
                                        .cubic_a = attr_float(n, "cubic_coeff_a", -0.75),
                                        .first = r->first[d],
                                        .last = r->last[d],
                                        .outside = attr_float(n, "extrapolation_value", 0)});
  n->outputs[0] = emit_cast(n, x, dtype);
}

void import_resize(import_node *n) {
  resizing r = begin_resize(n);
  bool sized = !is_empty(n, 3), shrinks = false, antialias = attr_int(n, "antialias", 0) != 0;
  r.coordinates = attr_text(n, "coordinate_transformation_mode", "half_pixel");
  r.rounding = attr_text(n, "nearest_mode", "round_prefer_floor");
  if (!sized && is_empty(n, 2)) node_bad(n, "neither scales nor sizes are given");
  if (sized)
    by_sizes(n, &r, node_ints(n, 3, "sizes"));
  else
    by_scale_input(n, &r, 2);
  for (uint32_t i = 0; i < r.in.rank; i++) shrinks |= r.scales[i] < 1;
  bool crop = !strcmp(r.coordinates, "tf_crop_and_resize");
  if (crop) read_crop(n, &r);
  if (n->status == WAFER_OK && (crop || (antialias && shrinks)))
    resize_by_axes(n, &r, antialias);
  else
    finish_resize(n, &r);
}

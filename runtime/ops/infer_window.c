/* Shape rules of matrix products, convolutions and pools. */
#include "infer.h"

/* Kernels, strides, dilations and pads; products of two of them, and a dim more, fit int64. */
#define MOST INT32_MAX
#define MOST_SPATIAL 3

/* Of one type; or the second factor of integers in i32 in fewer bits: weights of quantized models.
 */
static wafer_status check_factors(const infer_site *site) {
  wafer_dtype narrow = site->operands[1].dtype;
  bool narrows = narrow == WAFER_DTYPE_i8 || narrow == WAFER_DTYPE_u8 || narrow == WAFER_DTYPE_i16;
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  if (site->operands[0].dtype != WAFER_DTYPE_i32 || !narrows)
    WAFER_TRY(infer_same_dtype(site, 0, 2));
  if (site->operand_count > 2 && site->operands[2].dtype != site->operands[0].dtype)
    return infer_fail(site, "operand 2 is of type %s, operand 0 of type %s; they must agree",
                      wafer_dtype_name(site->operands[2].dtype),
                      wafer_dtype_name(site->operands[0].dtype));
  return WAFER_OK;
}

wafer_status infer_matmul(const infer_site *site, wafer_type *result) {
  const wafer_shape *a = &site->operands[0].shape, *b = &site->operands[1].shape;
  WAFER_TRY(check_factors(site));
  if (a->rank < 2 || b->rank < 2)
    return infer_fail(site, "operands have %u and %u dims, need at least 2", a->rank, b->rank);
  if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
    return infer_fail(site, "%s has %" PRId64 " columns, %s has %" PRId64 " rows", infer_text(a).at,
                      a->dims[a->rank - 1], infer_text(b).at, b->dims[b->rank - 2]);
  wafer_shape batch = *a, other = *b;
  batch.rank -= 2, other.rank -= 2;
  WAFER_TRY(infer_broadcast_into(site, &batch, &other));
  batch.dims[batch.rank++] = a->dims[a->rank - 2];
  batch.dims[batch.rank++] = b->dims[b->rank - 1];
  *result = (wafer_type){site->operands[0].dtype, batch};
  return WAFER_OK;
}

/* One spatial dim of a window op. */
typedef struct window {
  int64_t in, kernel, stride, dilation, begin, end;
} window;

static int64_t span(const window *w) {
  return (w->kernel - 1) * w->dilation + 1;
}

/* Attributes of all spatial dims, checked; `in` and `kernel` are the caller's to fill. */
static wafer_status windows_of(const infer_site *site, uint32_t spatial, window *windows) {
  const int64_t *strides, *dilations, *pads;
  WAFER_TRY(infer_ints(site, WAFER_ATTR_strides, spatial, 1, MOST, &strides));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_dilations, spatial, 1, MOST, &dilations));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_pads, 2 * spatial, 0, MOST, &pads));
  for (uint32_t i = 0; i < spatial; i++)
    windows[i] = (window){.in = site->operands[0].shape.dims[i + 2],
                          .stride = strides[i],
                          .dilation = dilations[i],
                          .begin = pads[i],
                          .end = pads[i + spatial]};
  return WAFER_OK;
}

static wafer_status check_spatial(const infer_site *site, uint32_t *spatial) {
  uint32_t rank = site->operands[0].shape.rank;
  if (rank < 3 || rank > 2 + MOST_SPATIAL)
    return infer_fail(site, "operand 0 has %u dims, must be 3 to %d: batch, channels, spatial dims",
                      rank, 2 + MOST_SPATIAL);
  *spatial = rank - 2;
  return WAFER_OK;
}

/* Windows that lie inside the padded input; with `ceil` also a last one that reaches over its end
 * but begins before the padding there (ONNX opset 22). */
static wafer_status positions(const infer_site *site, uint32_t dim, const window *w, bool ceil,
                              int64_t *out) {
  int64_t padded = w->in + w->begin + w->end, room = padded - span(w);
  if (room < 0 && !(ceil && room > -w->stride))
    return infer_fail(site,
                      "spatial dim %u: the kernel spans %" PRId64
                      " elements, the padded input has %" PRId64,
                      dim, span(w), padded);
  *out = room < 0 ? 0 : room / w->stride + 1;
  if (ceil && room % w->stride && *out * w->stride < w->in + w->begin) ++*out;
  return WAFER_OK;
}

/* x (N,C,...), w, optional bias (`outputs`): types, ranks, groups. */
static wafer_status check_conv(const infer_site *site, uint32_t spatial, int64_t inputs,
                               int64_t outputs) {
  const wafer_type *x = &site->operands[0], *w = &site->operands[1];
  int64_t group = wafer_attr_int(site->attrs, WAFER_ATTR_group);
  if (inputs != x->shape.dims[1])
    return infer_fail(site,
                      "operand 0 has %" PRId64 " channels, weight %s with %" PRId64
                      " groups takes %" PRId64,
                      x->shape.dims[1], infer_text(&w->shape).at, group, inputs);
  if (w->shape.dims[0] % group)
    return infer_fail(site, "weight dim 0, %" PRId64 ", is no multiple of %" PRId64 " groups",
                      w->shape.dims[0], group);
  for (uint32_t i = 0; i < spatial; i++)
    if (w->shape.dims[i + 2] < 1 || w->shape.dims[i + 2] > MOST)
      return infer_fail(site,
                        "the kernel has %" PRId64 " elements in spatial dim %u, must be 1 to %d",
                        w->shape.dims[i + 2], i, MOST);
  if (site->operand_count < 3) return WAFER_OK;
  const wafer_shape *bias = &site->operands[2].shape;
  if (bias->rank != 1 || bias->dims[0] != outputs)
    return infer_fail(site, "the bias is %s, must be %" PRId64 ", the output channels",
                      infer_text(bias).at, outputs);
  return WAFER_OK;
}

/* What stands before check_conv may look at dims: element types, ranks, a positive group. */
static wafer_status check_ranks(const infer_site *site, uint32_t *spatial, int64_t *group) {
  const wafer_shape *x = &site->operands[0].shape, *w = &site->operands[1].shape;
  WAFER_TRY(check_factors(site));
  WAFER_TRY(check_spatial(site, spatial));
  if (w->rank != x->rank)
    return infer_fail(site, "the weight has %u dims, the operand %u", w->rank, x->rank);
  *group = wafer_attr_int(site->attrs, WAFER_ATTR_group);
  if (*group < 1 || *group > MOST)
    return infer_fail(site, "group is %" PRId64 ", must be 1 to %d", *group, MOST);
  return WAFER_OK;
}

/* a * b, or -1 when it overflows (no dim is -1). */
static int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? -1 : result;
}

wafer_status infer_conv(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0], *w = &site->operands[1];
  window windows[MOST_SPATIAL];
  uint32_t spatial;
  int64_t group;
  WAFER_TRY(check_ranks(site, &spatial, &group));
  WAFER_TRY(check_conv(site, spatial, product(w->shape.dims[1], group), w->shape.dims[0]));
  WAFER_TRY(windows_of(site, spatial, windows));
  *result = *x;
  result->shape.dims[1] = w->shape.dims[0];
  for (uint32_t i = 0; i < spatial; i++) {
    windows[i].kernel = w->shape.dims[i + 2];
    WAFER_TRY(positions(site, i, &windows[i], false, &result->shape.dims[i + 2]));
  }
  return WAFER_OK;
}

wafer_status infer_conv_transpose(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0], *w = &site->operands[1];
  window windows[MOST_SPATIAL];
  const int64_t *extra;
  uint32_t spatial;
  int64_t group;
  WAFER_TRY(check_ranks(site, &spatial, &group));
  int64_t outputs = product(w->shape.dims[1], group);
  WAFER_TRY(check_conv(site, spatial, w->shape.dims[0], outputs));
  WAFER_TRY(windows_of(site, spatial, windows));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_output_padding, spatial, 0, MOST, &extra));
  *result = *x;
  result->shape.dims[1] = outputs;
  for (uint32_t i = 0; i < spatial; i++) {
    window *at = &windows[i];
    int64_t out = product(at->in - 1, at->stride);
    at->kernel = w->shape.dims[i + 2];
    if (at->in < 1 || out < 0)
      return infer_fail(
          site, "spatial dim %u: %" PRId64 " elements by stride %" PRId64 " is out of range", i,
          at->in, at->stride);
    if (__builtin_add_overflow(out, span(at) + extra[i] - at->begin - at->end, &out) || out < 1)
      return infer_fail(site,
                        "spatial dim %u: %" PRId64 " elements remain after pads %" PRId64
                        " and %" PRId64 ", at least 1 must",
                        i, out, at->begin, at->end);
    result->shape.dims[i + 2] = out;
  }
  return WAFER_OK;
}

wafer_status infer_pool(const infer_site *site, wafer_type *result) {
  window windows[MOST_SPATIAL];
  const int64_t *kernel;
  uint32_t spatial = 0;
  bool ceil = wafer_attr_int(site->attrs, WAFER_ATTR_ceil_mode) != 0;
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  WAFER_TRY(check_spatial(site, &spatial));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_kernel, spatial, 1, MOST, &kernel));
  WAFER_TRY(windows_of(site, spatial, windows));
  *result = site->operands[0];
  for (uint32_t i = 0; i < spatial; i++) {
    window *w = &windows[i];
    w->kernel = kernel[i];
    if (w->begin >= span(w) || w->end >= span(w))
      return infer_fail(site,
                        "spatial dim %u: pads %" PRId64 " and %" PRId64
                        " must be less than the kernel's span, %" PRId64,
                        i, w->begin, w->end, span(w));
    WAFER_TRY(positions(site, i, w, ceil, &result->shape.dims[i + 2]));
  }
  return WAFER_OK;
}

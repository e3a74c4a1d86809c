/* Shape rules of data movement, reductions and arg. */
#include "infer.h"

#include <math.h>
#include <string.h>

#include "modes.h"

#define MOST_PAD ((int64_t)1 << 60) /* as many as elements may be */

wafer_status infer_reshape(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0];
  int64_t have, want;
  WAFER_TRY(infer_shape_attr(site, &result->shape));
  if (!wafer_shape_elements(&result->shape, &want))
    return infer_fail(site, "%s has too many elements", infer_text(&result->shape).at);
  wafer_shape_elements(&x->shape, &have);
  if (have != want)
    return infer_fail(site, "%s has %" PRId64 " elements, %s has %" PRId64,
                      infer_text(&x->shape).at, have, infer_text(&result->shape).at, want);
  result->dtype = x->dtype;
  return WAFER_OK;
}

wafer_status infer_transpose(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0];
  const int64_t *perm;
  uint32_t seen = 0;
  WAFER_TRY(infer_ints(site, WAFER_ATTR_perm, x->shape.rank, 0, (int64_t)x->shape.rank - 1, &perm));
  *result = *x;
  for (uint32_t i = 0; i < x->shape.rank; i++) {
    if (seen & 1u << perm[i]) return infer_fail(site, "perm names dim %" PRId64 " twice", perm[i]);
    seen |= 1u << perm[i];
    result->shape.dims[i] = x->shape.dims[perm[i]];
  }
  return WAFER_OK;
}

wafer_status infer_expand(const infer_site *site, wafer_type *result) {
  wafer_shape target;
  WAFER_TRY(infer_shape_attr(site, &target));
  *result = site->operands[0];
  return infer_broadcast_into(site, &result->shape, &target);
}

wafer_status infer_slice(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0];
  const int64_t *starts, *steps;
  WAFER_TRY(infer_shape_attr(site, &result->shape));
  if (result->shape.rank != x->shape.rank)
    return infer_fail(site, "attribute shape has %u dims, the operand %u", result->shape.rank,
                      x->shape.rank);
  WAFER_TRY(infer_ints(site, WAFER_ATTR_starts, x->shape.rank, 0, INT64_MAX, &starts));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_steps, x->shape.rank, INT64_MIN, INT64_MAX, &steps));
  for (uint32_t i = 0; i < x->shape.rank; i++) {
    int64_t dim = x->shape.dims[i], n = result->shape.dims[i], last;
    if (steps[i] == 0) return infer_fail(site, "steps[%u] is 0", i);
    if (n == 0) continue;
    if (__builtin_mul_overflow(n - 1, steps[i], &last) ||
        __builtin_add_overflow(last, starts[i], &last) || last < 0 || last >= dim ||
        starts[i] >= dim)
      return infer_fail(
          site, "dim %u: %" PRId64 " elements from %" PRId64 " by %" PRId64 " leave 0 to %" PRId64,
          i, n, starts[i], steps[i], dim - 1);
  }
  result->dtype = x->dtype;
  return WAFER_OK;
}

wafer_status infer_concat(const infer_site *site, wafer_type *result) {
  const wafer_shape *a = &site->operands[0].shape;
  uint32_t axis;
  WAFER_TRY(infer_same_dtype(site, 0, site->operand_count));
  WAFER_TRY(infer_axis(site, a, &axis));
  *result = site->operands[0];
  for (uint32_t k = 1; k < site->operand_count; k++) {
    const wafer_shape *b = &site->operands[k].shape;
    if (a->rank != b->rank)
      return infer_fail(site, "operand %u has %u dims, operand 0 has %u", k, b->rank, a->rank);
    for (uint32_t i = 0; i < a->rank; i++)
      if (i != axis && a->dims[i] != b->dims[i])
        return infer_fail(site, "%s and %s differ in dim %u, may differ in dim %u alone",
                          infer_text(a).at, infer_text(b).at, i, axis);
    result->shape.dims[axis] += b->dims[axis]; /* eight of less than 2^60 each */
  }
  return WAFER_OK;
}

wafer_status infer_pad(const infer_site *site, wafer_type *result) {
  const wafer_shape *x = &site->operands[0].shape;
  const int64_t *pads;
  WAFER_TRY(infer_word(site, WAFER_ATTR_mode, pad_modes, PAD_MODE_COUNT));
  WAFER_TRY(infer_ints(site, WAFER_ATTR_pads, 2 * x->rank, -MOST_PAD, MOST_PAD, &pads));
  bool constant = strcmp(wafer_attr_string(site->attrs, WAFER_ATTR_mode), "constant") == 0;
  *result = site->operands[0];
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t begin = pads[i], end = pads[i + x->rank], n = x->dims[i] + begin + end;
    int64_t kept = x->dims[i] + (begin < 0 ? begin : 0) + (end < 0 ? end : 0);
    if (n < 0)
      return infer_fail(site,
                        "dim %u: %" PRId64 " elements cannot take pads %" PRId64 " and %" PRId64, i,
                        x->dims[i], begin, end);
    if (!constant && kept <= 0 && n > 0)
      return infer_fail(site,
                        "dim %u: %s has no element to repeat for pads %" PRId64 " and %" PRId64, i,
                        infer_text(x).at, begin, end);
    result->shape.dims[i] = n;
  }
  return WAFER_OK;
}

wafer_status infer_resize(const infer_site *site, wafer_type *result) {
  const wafer_shape *x = &site->operands[0].shape;
  uint32_t count;
  const double *scales = wafer_attr_floats(site->attrs, WAFER_ATTR_scales, &count);
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  WAFER_TRY(infer_word(site, WAFER_ATTR_mode, resize_modes, RESIZE_MODE_COUNT));
  WAFER_TRY(infer_word(site, WAFER_ATTR_coordinates, coordinate_modes, COORDINATES_COUNT));
  WAFER_TRY(infer_word(site, WAFER_ATTR_rounding, rounding_modes, ROUNDING_COUNT));
  WAFER_TRY(infer_shape_attr(site, &result->shape));
  if (result->shape.rank != x->rank || count != x->rank)
    return infer_fail(site, "shape has %u dims, scales %u, the operand %u", result->shape.rank,
                      count, x->rank);
  for (uint32_t i = 0; i < count; i++) {
    if (!isfinite(scales[i]) || scales[i] <= 0)
      return infer_fail(site, "scales[%u] is %g, must be more than 0", i, scales[i]);
    if (x->dims[i] == 0 && result->shape.dims[i] != 0)
      return infer_fail(site, "dim %u has no element to make %" PRId64 " from", i,
                        result->shape.dims[i]);
  }
  result->dtype = site->operands[0].dtype;
  return WAFER_OK;
}

/* The first `shared` dims of the indices are the data's. */
static wafer_status gathered(const infer_site *site, uint32_t axis, uint32_t shared,
                             wafer_type *result) {
  const wafer_type *data = &site->operands[0], *index = &site->operands[1];
  uint32_t all = data->shape.rank - 1 + index->shape.rank - shared, rank = axis;
  if (all > WAFER_MAX_RANK)
    return infer_fail(site, "the result has %u dims, at most %d are supported", all,
                      WAFER_MAX_RANK);
  *result = (wafer_type){.dtype = data->dtype};
  for (uint32_t i = 0; i < axis; i++) result->shape.dims[i] = data->shape.dims[i];
  for (uint32_t i = shared; i < index->shape.rank; i++)
    result->shape.dims[rank++] = index->shape.dims[i];
  for (uint32_t i = axis + 1; i < data->shape.rank; i++)
    result->shape.dims[rank++] = data->shape.dims[i];
  result->shape.rank = rank;
  return WAFER_OK;
}

wafer_status infer_gather(const infer_site *site, wafer_type *result) {
  uint32_t axis;
  WAFER_TRY(infer_class(site, 1, infer_is_integer, "an integer type"));
  WAFER_TRY(infer_axis(site, &site->operands[0].shape, &axis));
  return gathered(site, axis, 0, result);
}

wafer_status infer_gather_batched(const infer_site *site, wafer_type *result) {
  const wafer_shape *data = &site->operands[0].shape, *index = &site->operands[1].shape;
  uint32_t axis;
  WAFER_TRY(infer_class(site, 1, infer_is_integer, "an integer type"));
  WAFER_TRY(infer_axis(site, data, &axis));
  for (uint32_t i = 0; i < axis; i++)
    if (i >= index->rank || index->dims[i] != data->dims[i])
      return infer_fail(site, "the data, %s, and the indices, %s, differ before dim %u",
                        infer_text(data).at, infer_text(index).at, axis);
  return gathered(site, axis, axis, result);
}

wafer_status infer_scatter(const infer_site *site, wafer_type *result) {
  const wafer_shape *x = &site->operands[0].shape, *index = &site->operands[1].shape,
                    *updates = &site->operands[2].shape;
  WAFER_TRY(infer_word(site, WAFER_ATTR_mode, scatter_modes, SCATTER_MODE_COUNT));
  WAFER_TRY(infer_class(site, 1, infer_is_integer, "an integer type"));
  if (site->operands[0].dtype != site->operands[2].dtype)
    return infer_fail(site, "operand 0 is of type %s, operand 2 of type %s; they must agree",
                      wafer_dtype_name(site->operands[0].dtype),
                      wafer_dtype_name(site->operands[2].dtype));
  bool fits = x->rank > 0 && updates->rank == index->rank + x->rank - 1;
  for (uint32_t i = 0; fits && i < updates->rank; i++)
    fits = updates->dims[i] == (i < index->rank ? index->dims[i] : x->dims[i - index->rank + 1]);
  if (!fits)
    return infer_fail(site, "updates of %s do not fit %s places in %s", infer_text(updates).at,
                      infer_text(index).at, infer_text(x).at);
  *result = site->operands[0];
  return WAFER_OK;
}

wafer_status infer_arg_sort(const infer_site *site, wafer_type *result) {
  uint32_t axis;
  WAFER_TRY(infer_axis(site, &site->operands[0].shape, &axis));
  *result = (wafer_type){WAFER_DTYPE_i64, site->operands[0].shape};
  return WAFER_OK;
}

/* `x` without the dims of a bit set, or with 1 in their place. */
static wafer_shape reduced(const wafer_shape *x, uint32_t dims, bool keep) {
  wafer_shape shape = {0};
  for (uint32_t i = 0; i < x->rank; i++) {
    bool gone = dims >> i & 1;
    if (!gone || keep) shape.dims[shape.rank++] = gone ? 1 : x->dims[i];
  }
  return shape;
}

/* A bit set of the dims of operand 0 that `axes` names. */
static wafer_status axes_of(const infer_site *site, uint32_t *dims) {
  const wafer_type *x = &site->operands[0];
  uint32_t count;
  const int64_t *axes = wafer_attr_ints(site->attrs, WAFER_ATTR_axes, &count);
  for (uint32_t i = 0; i < count; i++) {
    if (axes[i] < 0 || axes[i] >= x->shape.rank || (i && axes[i] <= axes[i - 1]))
      return infer_fail(site,
                        "axes[%u] is %" PRId64 ", axes must rise from at least 0 to less than %u",
                        i, axes[i], x->shape.rank);
    *dims |= 1u << axes[i];
  }
  return WAFER_OK;
}

wafer_status infer_normalize(const infer_site *site, wafer_type *result) {
  uint32_t dims = 0;
  WAFER_TRY(axes_of(site, &dims));
  return infer_real(site, result);
}

wafer_status infer_reduce(const infer_site *site, wafer_type *result) {
  const wafer_type *x = &site->operands[0];
  uint32_t dims = 0;
  WAFER_TRY(axes_of(site, &dims));
  result->dtype = x->dtype;
  result->shape = reduced(&x->shape, dims, wafer_attr_int(site->attrs, WAFER_ATTR_keepdims) != 0);
  return WAFER_OK;
}

wafer_status infer_reduce_number(const infer_site *site, wafer_type *result) {
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  return infer_reduce(site, result);
}

wafer_status infer_arg(const infer_site *site, wafer_type *result) {
  const wafer_shape *x = &site->operands[0].shape;
  uint32_t axis;
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  WAFER_TRY(infer_axis(site, x, &axis));
  if (x->dims[axis] == 0)
    return infer_fail(site, "dim %u of %s has no element", axis, infer_text(x).at);
  result->dtype = WAFER_DTYPE_i64;
  result->shape = reduced(x, 1u << axis, wafer_attr_int(site->attrs, WAFER_ATTR_keepdims) != 0);
  return WAFER_OK;
}

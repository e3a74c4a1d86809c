/* What cores do over static dims, over dims that only the run knows: the same core ops by the same
 * shape rules and plain loops, their attributes made from operands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* ---- shared ---- */

wafer_status host_join(const host_site *site, uint32_t count, const wafer_view *views,
                       uint32_t axis, wafer_item **out) {
  wafer_shape shape = views[0].shape;
  for (uint32_t i = 0; i < count; i++) {
    wafer_shape other = views[i].shape;
    if (other.rank != shape.rank || views[i].dtype != views[0].dtype)
      return host_fail(site, "tensors of unlike ranks or types cannot be joined");
    if (i && __builtin_add_overflow(shape.dims[axis], other.dims[axis], &shape.dims[axis]))
      return host_fail(site, "the result has too many elements");
    other.dims[axis] = shape.dims[axis];
    if (!wafer_shape_equal(&other, &shape))
      return host_fail(site, "tensors whose other dims differ cannot be joined");
  }
  wafer_item *item = wafer_item_new(views[0].dtype, &shape);
  if (!item) return host_no_memory(site);
  size_t inner = wafer_dtype_bytes(views[0].dtype), outer = 1;
  for (uint32_t d = 0; d < axis; d++) outer *= (size_t)shape.dims[d];
  for (uint32_t d = axis + 1; d < shape.rank; d++) inner *= (size_t)shape.dims[d];
  char *to = item->tensor.data;
  for (size_t o = 0; o < outer && inner; o++)
    for (uint32_t i = 0; i < count; i++) {
      size_t bytes = (size_t)views[i].shape.dims[axis] * inner;
      if (bytes) memcpy(to, (const char *)views[i].data + o * bytes, bytes);
      to += bytes;
    }
  *out = item;
  if (views[0].dtype != WAFER_DTYPE_string) return WAFER_OK;
  *out = wafer_item_copy(&item->tensor);
  wafer_item_release(item);
  return *out ? WAFER_OK : host_no_memory(site);
}

wafer_status host_cut(const host_site *site, const wafer_view *view, uint32_t axis, int64_t start,
                      int64_t count, bool drop, wafer_item **out) {
  int64_t starts[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  wafer_shape shape = view->shape;
  for (uint32_t d = 0; d < shape.rank; d++) steps[d] = 1;
  starts[axis] = start;
  shape.dims[axis] = count;
  wafer_attr at[] = {HOST_INTS(starts, shape.rank, starts), HOST_INTS(steps, shape.rank, steps),
                     HOST_INTS(shape, shape.rank, shape.dims)};
  wafer_attrs attrs = {WAFER_COUNT(at), at};
  WAFER_TRY(host_core_item(site, WAFER_OP_slice, &attrs, 1, view, out));
  if (!drop || count != 1) return WAFER_OK;
  memmove(&shape.dims[axis], &shape.dims[axis + 1], (shape.rank - axis - 1) * sizeof shape.dims[0]);
  shape.rank--;
  (*out)->tensor = wafer_view_of(view->dtype, &shape, (*out)->tensor.data);
  return WAFER_OK;
}

static wafer_status reshape_to(host_site *site, const wafer_view *x, const wafer_shape *shape) {
  wafer_attr at[] = {HOST_INTS(shape, shape->rank, shape->dims)};
  return host_core_op(site, WAFER_OP_reshape, &(wafer_attrs){1, at}, 1, x);
}

static wafer_status plain(host_site *site, wafer_op op, uint32_t count, const wafer_attr *at,
                          uint32_t attr_count) {
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  for (uint32_t i = 0; i < count; i++) {
    const wafer_view *view;
    WAFER_TRY(host_tensor(site, i, &view));
    views[i] = *view;
  }
  return host_core_op(site, op, &(wafer_attrs){attr_count, at}, count, views);
}

/* ---- shapes ---- */

wafer_status host_shape(host_site *site) {
  const wafer_view *x;
  wafer_view *y;
  WAFER_TRY(host_tensor(site, 0, &x));
  int64_t rank = x->shape.rank, start = host_int(site, "start", 0),
          end = host_int(site, "end", rank);
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  wafer_shape shape = {.rank = 1, .dims = {end - start}};
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_i64, &shape, &y));
  for (int64_t d = start; d < end; d++) ((int64_t *)y->data)[d - start] = x->shape.dims[d];
  return WAFER_OK;
}

wafer_status host_size(host_site *site) {
  const wafer_view *x;
  wafer_view *y;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_new(site, 0, WAFER_DTYPE_i64, &(wafer_shape){0}, &y));
  *(int64_t *)y->data = host_elements(x);
  return WAFER_OK;
}

wafer_status host_reshape(host_site *site) {
  const wafer_view *x;
  wafer_shape shape = {0};
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_ints(site, 1, WAFER_MAX_RANK, shape.dims, &shape.rank));
  int64_t known = 1, *open = NULL, all = host_elements(x);
  for (uint32_t d = 0; d < shape.rank; d++) {
    if (shape.dims[d] == 0 && !host_int(site, "allowzero", 0) && d < x->shape.rank)
      shape.dims[d] = x->shape.dims[d];
    if (shape.dims[d] == -1 && !open)
      open = &shape.dims[d];
    else if (shape.dims[d] < 0 || __builtin_mul_overflow(known, shape.dims[d], &known))
      return host_fail(site, "dim %u of the shape is %" PRId64, d, shape.dims[d]);
  }
  if (open && (!known || all % known))
    return host_fail(site, "%" PRId64 " elements do not divide into the shape", all);
  if (open) *open = all / known;
  return reshape_to(site, x, &shape);
}

wafer_status host_flatten(host_site *site) {
  const wafer_view *x;
  uint32_t axis;
  WAFER_TRY(host_tensor(site, 0, &x));
  int64_t at = host_int(site, "axis", 1);
  if (at == x->shape.rank)
    axis = x->shape.rank;
  else
    WAFER_TRY(host_axis(site, at, x->shape.rank, &axis));
  wafer_shape shape = {.rank = 2, .dims = {1, 1}};
  for (uint32_t d = 0; d < x->shape.rank; d++) shape.dims[d >= axis] *= x->shape.dims[d];
  return reshape_to(site, x, &shape);
}

wafer_status host_expand(host_site *site) {
  const wafer_view *x;
  wafer_shape shape = {0};
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_ints(site, 1, WAFER_MAX_RANK, shape.dims, &shape.rank));
  for (; shape.rank < x->shape.rank; shape.rank++) {
    memmove(&shape.dims[1], &shape.dims[0], shape.rank * sizeof shape.dims[0]);
    shape.dims[0] = 1;
  }
  for (uint32_t d = 1; d <= x->shape.rank; d++)
    if (shape.dims[shape.rank - d] == 1)
      shape.dims[shape.rank - d] = x->shape.dims[x->shape.rank - d];
  wafer_attr at[] = {HOST_INTS(shape, shape.rank, shape.dims)};
  return host_core_op(site, WAFER_OP_expand, &(wafer_attrs){1, at}, 1, x);
}

/* `count` copies of a tensor along an axis. */
static wafer_status copies_along(const host_site *site, const wafer_view *x, uint32_t axis,
                                 int64_t count, wafer_item **out) {
  wafer_view none = *x;
  none.shape.dims[axis] = 0;
  if (count > INT32_MAX) return host_fail(site, "%" PRId64 " copies are too many", count);
  wafer_view *views = calloc((size_t)(count ? count : 1), sizeof *views);
  if (!views) return host_no_memory(site);
  views[0] = none;
  for (int64_t i = 0; i < count; i++) views[i] = *x;
  wafer_status status = host_join(site, count ? (uint32_t)count : 1, views, axis, out);
  free(views);
  return status;
}

wafer_status host_tile(host_site *site) {
  const wafer_view *x;
  int64_t repeats[WAFER_MAX_RANK];
  uint32_t count;
  wafer_item *made = NULL;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_ints(site, 1, WAFER_MAX_RANK, repeats, &count));
  if (count != x->shape.rank)
    return host_fail(site, "%u repeats for %u dims", count, x->shape.rank);
  for (uint32_t d = 0; d < count; d++)
    if (repeats[d] < 0)
      return host_fail(site, "dim %u is to be repeated %" PRId64 " times", d, repeats[d]);
  for (uint32_t d = count; d-- > 0;) {
    wafer_item *before = made;
    wafer_status status = copies_along(site, before ? &before->tensor : x, d, repeats[d], &made);
    if (before) wafer_item_release(before);
    WAFER_TRY(status);
  }
  if (!made && !(made = wafer_item_copy(x))) return host_no_memory(site);
  return host_give(site, 0, made);
}

/* A bit set of dims, from operand `input` or attribute axes; `none`: what their absence means. */
static wafer_status axes_of(const host_site *site, uint32_t input, uint32_t rank, uint32_t none,
                            uint32_t *set) {
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0, axis;
  const wafer_host_attr *attr = host_attr(site, "axes", WAFER_HOST_ATTR_ints);
  *set = 0;
  if (host_has(site, input))
    WAFER_TRY(host_ints(site, input, WAFER_MAX_RANK, axes, &count));
  else if (attr && attr->count <= WAFER_MAX_RANK)
    memcpy(axes, attr->ints, (count = attr->count) * sizeof *axes);
  for (uint32_t i = 0; i < count; i++) {
    WAFER_TRY(host_axis(site, axes[i], rank, &axis));
    *set |= 1u << axis;
  }
  if (!count) *set = none;
  return WAFER_OK;
}

wafer_status host_squeeze(host_site *site) {
  const wafer_view *x;
  wafer_shape shape = {0};
  uint32_t ones = 0, drop;
  WAFER_TRY(host_tensor(site, 0, &x));
  for (uint32_t d = 0; d < x->shape.rank; d++) ones |= (uint32_t)(x->shape.dims[d] == 1) << d;
  WAFER_TRY(axes_of(site, 1, x->shape.rank, ones, &drop));
  if (drop & ~ones) return host_fail(site, "a dim that is not 1 cannot be dropped");
  for (uint32_t d = 0; d < x->shape.rank; d++)
    if (!(drop >> d & 1)) shape.dims[shape.rank++] = x->shape.dims[d];
  return reshape_to(site, x, &shape);
}

wafer_status host_unsqueeze(host_site *site) {
  const wafer_view *x;
  wafer_shape shape = {0};
  const wafer_host_attr *attr = host_attr(site, "axes", WAFER_HOST_ATTR_ints);
  uint32_t more = 0, fresh, from = 0;
  WAFER_TRY(host_tensor(site, 0, &x));
  if (host_has(site, 1) && site->inputs[1]->kind == WAFER_ITEM_tensor)
    more = (uint32_t)host_elements(&site->inputs[1]->tensor);
  else if (attr)
    more = attr->count;
  if (more > WAFER_MAX_RANK || x->shape.rank + more > WAFER_MAX_RANK)
    return host_fail(site, "the result would have more than %d dims", WAFER_MAX_RANK);
  shape.rank = x->shape.rank + more;
  WAFER_TRY(axes_of(site, 1, shape.rank, 0, &fresh));
  if ((uint32_t)__builtin_popcount(fresh) != more) return host_fail(site, "a dim is named twice");
  for (uint32_t d = 0; d < shape.rank; d++)
    shape.dims[d] = fresh >> d & 1 ? 1 : x->shape.dims[from++];
  return reshape_to(site, x, &shape);
}

/* ---- moves ---- */

/* A bound of a slice as ONNX clamps it. */
static int64_t clamp(int64_t at, int64_t dim, int64_t least, int64_t most) {
  at = at < 0 ? at + dim : at;
  return at < least ? least : at > most ? most : at;
}

static wafer_status slice_dim(const host_site *site, int64_t start, int64_t end, int64_t step,
                              int64_t dim, int64_t *first, int64_t *count) {
  if (step == 0) return host_fail(site, "a step is 0");
  start = step > 0 ? clamp(start, dim, 0, dim) : clamp(start, dim, -1, dim - 1);
  end = step > 0 ? clamp(end, dim, 0, dim) : clamp(end, dim, -1, dim - 1);
  int64_t span = step > 0 ? end - start : start - end;
  uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
  *count = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
  *first = *count ? start : 0;
  return WAFER_OK;
}

wafer_status host_slice(host_site *site) {
  const wafer_view *x;
  int64_t list[4][WAFER_MAX_RANK], starts[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  uint32_t counts[4] = {0}, axis;
  WAFER_TRY(host_tensor(site, 0, &x));
  static const char *const names[] = {"starts", "ends", "axes"};
  for (uint32_t i = 0; i < 4; i++) {
    const wafer_host_attr *attr = i < 3 ? host_attr(site, names[i], WAFER_HOST_ATTR_ints) : NULL;
    if (host_has(site, i + 1))
      WAFER_TRY(host_ints(site, i + 1, WAFER_MAX_RANK, list[i], &counts[i]));
    else if (attr && attr->count <= WAFER_MAX_RANK)
      memcpy(list[i], attr->ints, (counts[i] = attr->count) * sizeof list[i][0]);
  }
  if (counts[1] != counts[0] || (counts[2] && counts[2] != counts[0]) ||
      (counts[3] && counts[3] != counts[0]))
    return host_fail(site, "starts, ends, axes and steps are of unlike lengths");
  wafer_shape shape = x->shape;
  for (uint32_t d = 0; d < shape.rank; d++) steps[d] = 1;
  for (uint32_t i = 0; i < counts[0]; i++) {
    WAFER_TRY(host_axis(site, counts[2] ? list[2][i] : i, shape.rank, &axis));
    if (counts[3]) steps[axis] = list[3][i];
    WAFER_TRY(slice_dim(site, list[0][i], list[1][i], steps[axis], x->shape.dims[axis],
                        &starts[axis], &shape.dims[axis]));
  }
  for (uint32_t d = 0; d < shape.rank; d++)
    if (shape.dims[d] < 2) steps[d] = 1;
  wafer_attr at[] = {HOST_INTS(starts, shape.rank, starts), HOST_INTS(steps, shape.rank, steps),
                     HOST_INTS(shape, shape.rank, shape.dims)};
  return host_core_op(site, WAFER_OP_slice, &(wafer_attrs){WAFER_COUNT(at), at}, 1, x);
}

wafer_status host_concat(host_site *site) {
  const wafer_view *x;
  uint32_t axis;
  wafer_item *joined = NULL;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  wafer_view *views = calloc(site->input_count, sizeof *views);
  if (!views) return host_no_memory(site);
  wafer_status status = WAFER_OK;
  for (uint32_t i = 0; i < site->input_count && status == WAFER_OK; i++) {
    status = host_tensor(site, i, &x);
    if (status == WAFER_OK) views[i] = *x;
  }
  if (status == WAFER_OK) status = host_join(site, site->input_count, views, axis, &joined);
  free(views);
  return status == WAFER_OK ? host_give(site, 0, joined) : status;
}

wafer_status host_gather(host_site *site) {
  const wafer_view *x, *i;
  uint32_t axis;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_tensor(site, 1, &i));
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  return plain(site, WAFER_OP_gather, 2, (wafer_attr[]){HOST_INT(axis, axis)}, 1);
}

/* The last dim of the indices names the first dims of x; batch_dims are walked in step. */
wafer_status host_gather_nd(host_site *site) {
  const wafer_view *x, *index;
  wafer_view *y;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_typed(site, 1, WAFER_DTYPE_i64, &index));
  int64_t batch = host_int(site, "batch_dims", 0);
  uint32_t q = index->shape.rank, r = x->shape.rank;
  if (x->dtype == WAFER_DTYPE_string) return host_fail(site, "operand 0 is of strings");
  if (q < 1 || batch < 0 || batch >= q || batch >= r || index->shape.dims[q - 1] < 1 ||
      index->shape.dims[q - 1] > r - batch)
    return host_fail(site, "the indices do not fit the tensor");
  uint32_t b = (uint32_t)batch, depth = (uint32_t)index->shape.dims[q - 1];
  wafer_shape shape = {.rank = q - 1 + r - b - depth};
  if (shape.rank > WAFER_MAX_RANK) return host_fail(site, "the result has too many dims");
  int64_t batches = 1, tuples = 1, inner = 1;
  for (uint32_t d = 0; d + 1 < q; d++) {
    shape.dims[d] = index->shape.dims[d];
    if (d < b && index->shape.dims[d] != x->shape.dims[d])
      return host_fail(site, "batch dim %u differs", d);
    *(d < b ? &batches : &tuples) *= shape.dims[d];
  }
  for (uint32_t d = b + depth; d < r; d++)
    inner *= shape.dims[q - 1 + d - b - depth] = x->shape.dims[d];
  WAFER_TRY(host_new(site, 0, x->dtype, &shape, &y));
  size_t bytes = (size_t)inner * wafer_dtype_bytes(x->dtype);
  int64_t slab = host_elements(x) / (batches ? batches : 1);
  const int64_t *at = index->data;
  for (int64_t i = 0; i < batches * tuples; i++) {
    int64_t offset = 0;
    for (uint32_t k = 0; k < depth; k++) {
      int64_t dim = x->shape.dims[b + k], value = at[i * depth + k];
      value = value < 0 ? value + dim : value;
      if (value < 0 || value >= dim)
        return host_fail(site, "index %" PRId64 " is out of range", at[i * depth + k]);
      offset = offset * dim + value;
    }
    size_t from = (size_t)(i / tuples * slab + offset * inner) * wafer_dtype_bytes(x->dtype);
    memcpy((char *)y->data + (size_t)i * bytes, (const char *)x->data + from, bytes);
  }
  return WAFER_OK;
}

wafer_status host_transpose(host_site *site) {
  const wafer_view *x;
  int64_t perm[WAFER_MAX_RANK];
  WAFER_TRY(host_tensor(site, 0, &x));
  const wafer_host_attr *attr = host_attr(site, "perm", WAFER_HOST_ATTR_ints);
  for (uint32_t d = 0; d < x->shape.rank; d++) perm[d] = x->shape.rank - 1 - d;
  if (attr && attr->count == x->shape.rank) memcpy(perm, attr->ints, attr->count * sizeof *perm);
  return plain(site, WAFER_OP_transpose, 1, (wafer_attr[]){HOST_INTS(perm, x->shape.rank, perm)},
               1);
}

/* ---- values ---- */

wafer_status host_range(host_site *site) {
  const wafer_view *x;
  wafer_view of[3], *y;
  wafer_shape shape = {.rank = 1};
  for (uint32_t i = 0; i < 3; i++) {
    WAFER_TRY(host_numbers(site, i, &x));
    of[i] = *x;
    if (host_elements(x) != 1 || x->dtype != of[0].dtype)
      return host_fail(site, "operand %u must be one number", i);
  }
  if (!wafer_range_count(of, INT32_MAX, &shape.dims[0]))
    return host_fail(site, "from %g to %g by %g is no range",
                     wafer_element_f64(of[0].dtype, of[0].data, 0),
                     wafer_element_f64(of[1].dtype, of[1].data, 0),
                     wafer_element_f64(of[2].dtype, of[2].data, 0));
  WAFER_TRY(host_new(site, 0, of[0].dtype, &shape, &y));
  wafer_range_fill(of, shape.dims[0], y->data);
  return WAFER_OK;
}

/* Attribute `value` of one element, its type in value.dtype. */
wafer_status host_constant_of_shape(host_site *site) {
  wafer_shape shape = {0};
  wafer_view *y;
  WAFER_TRY(host_ints(site, 0, WAFER_MAX_RANK, shape.dims, &shape.rank));
  wafer_dtype dtype = wafer_dtype_by_name(host_text(site, "value.dtype", "f32"));
  const wafer_host_attr *whole = host_attr(site, "value", WAFER_HOST_ATTR_ints);
  int64_t elements;
  if (!dtype || !wafer_shape_elements(&shape, &elements))
    return host_fail(site, "the shape or the element type is none");
  WAFER_TRY(host_new(site, 0, dtype, &shape, &y));
  for (int64_t i = 0; i < elements; i++)
    if (whole)
      wafer_element_set_i64(dtype, y->data, i, whole->count ? whole->ints[0] : 0);
    else
      wafer_element_set_f64(dtype, y->data, i, host_float(site, "value", 0));
  return WAFER_OK;
}

wafer_status host_cast(host_site *site) {
  wafer_dtype to = wafer_dtype_by_onnx((int32_t)host_int(site, "to", 1));
  if (!to) return host_fail(site, "element type %" PRId64 " is not known", host_int(site, "to", 1));
  return plain(site, WAFER_OP_cast, 1, (wafer_attr[]){HOST_TEXT(to, wafer_dtype_name(to))}, 1);
}

wafer_status host_where(host_site *site) {
  return plain(site, WAFER_OP_select, 3, NULL, 0);
}

static wafer_status swapped(host_site *site, wafer_op op) {
  const wafer_view *a, *b;
  WAFER_TRY(host_tensor(site, 0, &a));
  WAFER_TRY(host_tensor(site, 1, &b));
  return host_core_op(site, op, &(wafer_attrs){0}, 2, (wafer_view[]){*b, *a});
}
wafer_status host_greater(host_site *site) {
  return swapped(site, WAFER_OP_less);
}
wafer_status host_greater_or_equal(host_site *site) {
  return swapped(site, WAFER_OP_less_equal);
}

static wafer_status reduce(host_site *site, wafer_op op) {
  const wafer_view *x;
  int64_t axes[WAFER_MAX_RANK];
  uint32_t set, count = 0;
  WAFER_TRY(host_tensor(site, 0, &x));
  uint32_t all = host_int(site, "noop_with_empty_axes", 0) ? 0 : (1u << x->shape.rank) - 1;
  WAFER_TRY(axes_of(site, 1, x->shape.rank, all, &set));
  for (uint32_t d = 0; d < x->shape.rank; d++)
    if (set >> d & 1) axes[count++] = d;
  wafer_attr at[] = {HOST_INTS(axes, count, axes),
                     HOST_INT(keepdims, host_int(site, "keepdims", 1) != 0)};
  return plain(site, op, 1, at, WAFER_COUNT(at));
}
wafer_status host_reduce_sum(host_site *site) {
  return reduce(site, WAFER_OP_reduce_sum);
}
wafer_status host_reduce_mean(host_site *site) {
  return reduce(site, WAFER_OP_reduce_mean);
}
wafer_status host_reduce_max(host_site *site) {
  return reduce(site, WAFER_OP_reduce_max);
}
wafer_status host_reduce_min(host_site *site) {
  return reduce(site, WAFER_OP_reduce_min);
}
wafer_status host_reduce_prod(host_site *site) {
  return reduce(site, WAFER_OP_reduce_prod);
}

/* A core op without attributes, by its name. */
wafer_status host_core(host_site *site) {
  wafer_op op = wafer_op_by_name(host_text(site, "op", ""));
  if (op == WAFER_OP_COUNT || wafer_op_is(op, WAFER_TRAIT_SOURCE) || wafer_op_get(op)->attr_count)
    return host_fail(site, "'%.40s' is no core op without attributes", host_text(site, "op", ""));
  return plain(site, op, site->input_count, NULL, 0);
}

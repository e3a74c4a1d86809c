/* Data movement: bytes of elements are copied, whatever their type. */
#include <string.h>

#include "ops/modes.h"
#include "ops/resize.h"
#include "reference.h"

static size_t element_bytes(const reference_site *site) {
  return wafer_dtype_bytes(site->out->dtype);
}

wafer_status reference_constant(reference_site *site) {
  const wafer_attr *value = wafer_attr_find(site->attrs, WAFER_ATTR_value);
  reference_copy(element_bytes(site), site->out->data, 1, value->data.bytes,
                 value->data.splat ? 0 : 1, reference_elements(site->out));
  return WAFER_OK;
}

wafer_status reference_weight(reference_site *site) {
  return wafer_fail(site->diag, site->loc, WAFER_UNSUPPORTED,
                    "weight '%s' is looked up in the table of weights, it is not computed",
                    wafer_attr_string(site->attrs, WAFER_ATTR_name));
}

wafer_status reference_reshape(reference_site *site) {
  memcpy(site->out->data, site->in[0].data,
         wafer_tensor_bytes(site->out->dtype, &site->out->shape));
  return WAFER_OK;
}

/* Elements of `out_dims` that lie at from + i . from_strides, to at + i . out's own strides. */
static void copy_strided(const reference_site *site, const wafer_shape *dims, int64_t to,
                         int64_t from, const wafer_view *source, const int64_t *from_strides) {
  size_t size = element_bytes(site);
  walk w = {.rank = dims->rank, .tensors = 2};
  for (uint32_t d = 0; d < w.rank; d++) {
    w.dims[d] = dims->dims[d];
    w.strides[0][d] = from_strides[d];
    w.strides[1][d] = site->out->strides[d];
  }
  for (walk_begin(&w); w.more; walk_next(&w))
    reference_copy(size, (char *)site->out->data + (to + w.at[1]) * (int64_t)size, w.step[1],
                   (const char *)source->data + (from + w.at[0]) * (int64_t)size, w.step[0], w.n);
}

wafer_status reference_transpose(reference_site *site) {
  int64_t strides[WAFER_MAX_RANK];
  uint32_t rank;
  const int64_t *perm = wafer_attr_ints(site->attrs, WAFER_ATTR_perm, &rank);
  for (uint32_t d = 0; d < rank; d++) strides[d] = site->in[0].strides[perm[d]];
  copy_strided(site, &site->out->shape, 0, 0, &site->in[0], strides);
  return WAFER_OK;
}

wafer_status reference_expand(reference_site *site) {
  int64_t strides[WAFER_MAX_RANK];
  walk_broadcast(&site->in[0], &site->out->shape, strides);
  copy_strided(site, &site->out->shape, 0, 0, &site->in[0], strides);
  return WAFER_OK;
}

wafer_status reference_slice(reference_site *site) {
  int64_t strides[WAFER_MAX_RANK], from = 0;
  uint32_t rank;
  const int64_t *starts = wafer_attr_ints(site->attrs, WAFER_ATTR_starts, &rank);
  const int64_t *steps = wafer_attr_ints(site->attrs, WAFER_ATTR_steps, &rank);
  for (uint32_t d = 0; d < rank; d++) {
    from += starts[d] * site->in[0].strides[d];
    strides[d] = site->out->shape.dims[d] > 1 ? steps[d] * site->in[0].strides[d] : 0;
  }
  copy_strided(site, &site->out->shape, 0, from, &site->in[0], strides);
  return WAFER_OK;
}

wafer_status reference_concat(reference_site *site) {
  int64_t axis = wafer_attr_int(site->attrs, WAFER_ATTR_axis), to = 0;
  for (uint32_t i = 0; i < site->count; i++) {
    const wafer_view *from = &site->in[i];
    copy_strided(site, &from->shape, to, 0, from, from->strides);
    to += from->shape.dims[axis] * site->out->strides[axis];
  }
  return WAFER_OK;
}

/* `batched`: each row of the dims before the axis has indices of its own. */
static wafer_status gather(reference_site *site, bool batched) {
  const wafer_view *data = &site->in[0], *indices = &site->in[1];
  int64_t axis = wafer_attr_int(site->attrs, WAFER_ATTR_axis), dim = data->shape.dims[axis];
  int64_t row = data->strides[axis], count = reference_elements(indices), outer = 1;
  for (int64_t d = 0; d < axis; d++) outer *= data->shape.dims[d];
  if (batched) count /= outer;
  size_t bytes = (size_t)row * element_bytes(site);
  char *to = site->out->data;
  for (int64_t o = 0; o < outer; o++) {
    const char *from = (const char *)data->data + (size_t)(o * dim) * bytes;
    for (int64_t j = 0; j < count; j++, to += bytes) {
      int64_t index = wafer_element_i64(indices->dtype, indices->data, batched ? o * count + j : j);
      if (index < -dim || index >= dim)
        return wafer_fail(site->diag, site->loc, WAFER_BAD_INPUT,
                          "gather: index %" PRId64 " is out of range, dim %" PRId64 " has %" PRId64
                          " elements",
                          index, axis, dim);
      memcpy(to, from + (size_t)(index < 0 ? index + dim : index) * bytes, bytes);
    }
  }
  return WAFER_OK;
}

wafer_status reference_gather(reference_site *site) {
  return gather(site, false);
}

wafer_status reference_gather_batched(reference_site *site) {
  return gather(site, true);
}

/* ---- by tables: element i of the result is element (table[0][i0], table[1][i1], ...) of operand
 * 0, or the fill where a table holds -1 ---- */

static wafer_status make_tables(reference_site *site, int64_t **tables) {
  for (uint32_t d = 0; d < site->out->shape.rank; d++)
    WAFER_TRY(reference_alloc(site, site->out->shape.dims[d], sizeof **tables, &tables[d]));
  return WAFER_OK;
}

/* A row of the result along its last dim; `from` < 0: all fill. */
static void copy_row(const reference_site *site, char *to, int64_t from, const int64_t *table,
                     const reference_cell *fill) {
  size_t size = element_bytes(site);
  const char *source = site->in[0].data;
  int64_t n = site->out->shape.dims[site->out->shape.rank - 1];
  for (int64_t j = 0; j < n; j++, to += size)
    memcpy(to,
           from < 0 || table[j] < 0 ? (const char *)fill
                                    : source + (size_t)(from + table[j]) * size,
           size);
}

static void copy_by_tables(const reference_site *site, int64_t **tables,
                           const reference_cell *fill) {
  const wafer_shape *shape = &site->out->shape;
  uint32_t rank = shape->rank;
  int64_t rows = reference_elements(site->out) / shape->dims[rank - 1];
  size_t row_bytes = (size_t)shape->dims[rank - 1] * element_bytes(site);
  int64_t index[WAFER_MAX_RANK] = {0};
  for (int64_t row = 0; row < rows; row++) {
    int64_t from = 0;
    for (uint32_t d = 0; d + 1 < rank && from >= 0; d++) {
      int64_t at = tables[d][index[d]];
      from = at < 0 ? -1 : from + at * site->in[0].strides[d];
    }
    copy_row(site, (char *)site->out->data + (size_t)row * row_bytes, from, tables[rank - 1], fill);
    for (uint32_t d = rank - 1; d-- > 0;) {
      if (++index[d] < shape->dims[d]) break;
      index[d] = 0;
    }
  }
}

/* Where position `at` of a run of `n` elements continued by `mode` lies in the run. */
static int64_t continued(pad_mode mode, int64_t at, int64_t n) {
  if (at >= 0 && at < n) return at;
  if (mode == PAD_constant) return -1;
  if (mode == PAD_edge || n == 1) return at < 0 ? 0 : n - 1;
  int64_t period = mode == PAD_wrap ? n : 2 * (n - 1), rest = at % period;
  if (rest < 0) rest += period;
  return rest < n ? rest : period - rest;
}

wafer_status reference_pad(reference_site *site) {
  const wafer_view *x = &site->in[0];
  reference_cell fill = {0};
  int64_t *tables[WAFER_MAX_RANK];
  uint32_t rank = x->shape.rank, count;
  const int64_t *pads = wafer_attr_ints(site->attrs, WAFER_ATTR_pads, &count);
  pad_mode mode = (pad_mode)reference_word(site, WAFER_ATTR_mode, pad_modes, PAD_MODE_COUNT);
  if (rank == 0) return reference_reshape(site);
  wafer_element_set_f64(x->dtype, &fill, 0, wafer_attr_float(site->attrs, WAFER_ATTR_fill));
  WAFER_TRY(make_tables(site, tables));
  for (uint32_t d = 0; d < rank; d++) { /* what negative pads leave, then the positive ones */
    int64_t begin = pads[d], end = pads[d + rank];
    int64_t first = begin < 0 ? -begin : 0;
    int64_t kept = x->shape.dims[d] - first + (end < 0 ? end : 0);
    for (int64_t j = 0; j < site->out->shape.dims[d]; j++) {
      int64_t at = continued(mode, j - (begin > 0 ? begin : 0), kept);
      tables[d][j] = at < 0 ? -1 : first + at;
    }
  }
  copy_by_tables(site, tables, &fill);
  return WAFER_OK;
}

/* ---- resize ---- */

static resize_axis axis_of(const reference_site *site, uint32_t d) {
  uint32_t count;
  return (resize_axis){
      .in = site->in[0].shape.dims[d],
      .out = site->out->shape.dims[d],
      .scale = wafer_attr_floats(site->attrs, WAFER_ATTR_scales, &count)[d],
      .mode = (resize_mode)reference_word(site, WAFER_ATTR_mode, resize_modes, RESIZE_MODE_COUNT),
      .coordinates = (coordinates)reference_word(site, WAFER_ATTR_coordinates, coordinate_modes,
                                                 COORDINATES_COUNT),
      .rounding =
          (rounding)reference_word(site, WAFER_ATTR_rounding, rounding_modes, ROUNDING_COUNT),
      .cubic_a = wafer_attr_float(site->attrs, WAFER_ATTR_cubic_a),
      .exclude_outside = wafer_attr_int(site->attrs, WAFER_ATTR_exclude_outside) != 0,
  };
}

static wafer_status resize_nearest(reference_site *site) {
  int64_t *tables[WAFER_MAX_RANK];
  reference_cell unused = {0};
  WAFER_TRY(make_tables(site, tables));
  for (uint32_t d = 0; d < site->out->shape.rank; d++) {
    resize_axis axis = axis_of(site, d);
    for (int64_t j = 0; j < axis.out; j++) {
      resize_taps taps;
      resize_taps_of(&axis, j, &taps);
      tables[d][j] = taps.index[0];
    }
  }
  copy_by_tables(site, tables, &unused);
  return WAFER_OK;
}

/* (outer, axis.in, inner) to (outer, axis.out, inner). */
static void resize_dim(const resize_axis *axis, int64_t outer, int64_t inner, const double *from,
                       double *to) {
  for (int64_t j = 0; j < axis->out; j++) {
    resize_taps taps;
    resize_taps_of(axis, j, &taps);
    for (int64_t o = 0; o < outer; o++) {
      double *row = to + (o * axis->out + j) * inner;
      for (int64_t i = 0; i < inner; i++) row[i] = 0;
      for (int k = 0; k < 4; k++) {
        const double *source = from + (o * axis->in + taps.index[k]) * inner;
        if (taps.weight[k] == 0) continue;
        for (int64_t i = 0; i < inner; i++) row[i] += taps.weight[k] * source[i];
      }
    }
  }
}

/* Linear and cubic weights are products over the dims: one dim at a time, in doubles. */
wafer_status reference_resize(reference_site *site) {
  const wafer_view *x = &site->in[0];
  wafer_shape shape = x->shape;
  double *from, *to;
  if (shape.rank == 0) return reference_reshape(site);
  if (axis_of(site, 0).mode == RESIZE_nearest) return resize_nearest(site);
  WAFER_TRY(reference_alloc(site, reference_elements(x), sizeof *from, &from));
  reference_load_f64(x, 0, 1, reference_elements(x), from);
  for (uint32_t d = 0; d < shape.rank; d++) {
    resize_axis axis = axis_of(site, d);
    int64_t outer = 1, inner = 1;
    if (axis.in == axis.out && axis.scale == 1) continue;
    for (uint32_t i = 0; i < d; i++) outer *= shape.dims[i];
    for (uint32_t i = d + 1; i < shape.rank; i++) inner *= shape.dims[i];
    shape.dims[d] = axis.out;
    WAFER_TRY(reference_alloc(site, outer * axis.out * inner, sizeof *to, &to));
    resize_dim(&axis, outer, inner, from, to);
    from = to;
  }
  reference_store_f64(site->out, 0, reference_elements(site->out), from);
  return WAFER_OK;
}

/* What cores compute, over dims that only the run knows: maps, extremes, products, order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host_work.h"

/* ---- maps ---- */

/* Of any number of operands, one after the other. */
static wafer_view folded(host_work *w, wafer_op op) {
  wafer_view y = work_input(w, 0);
  for (uint32_t i = 1; i < w->site->input_count && w->status == WAFER_OK; i++) {
    wafer_item *before = w->count ? w->made[--w->count] : NULL;
    y = work_binary(w, op, y, work_input(w, i));
    wafer_item_release(before);
  }
  return y;
}

wafer_status host_max(host_site *site) {
  host_work w = {.site = site};
  return work_end(&w, folded(&w, WAFER_OP_max));
}
wafer_status host_min(host_site *site) {
  host_work w = {.site = site};
  return work_end(&w, folded(&w, WAFER_OP_min));
}
wafer_status host_sum(host_site *site) {
  host_work w = {.site = site};
  return work_end(&w, folded(&w, WAFER_OP_add));
}
wafer_status host_mean(host_site *site) {
  host_work w = {.site = site};
  wafer_view sum = folded(&w, WAFER_OP_add);
  return work_end(&w, work_binary(&w, WAFER_OP_div, sum, work_scalar(&w, sum, site->input_count)));
}

/* Bounds are operands, or attributes in older models; as the elements are, so that large integers
 * stay what they are. */
static wafer_view bounded(host_work *w, wafer_view x, uint32_t input, const char *name,
                          wafer_op op) {
  if (host_has(w->site, input)) {
    wafer_view bound = work_input(w, input);
    if (w->status == WAFER_OK && host_elements(&bound) != 1)
      work_fail(w, "operand %u must be one number", input);
    return work_binary(w, op, x, work_reshape(w, bound, 0, NULL));
  }
  if (!host_attr(w->site, name, WAFER_HOST_ATTR_floats)) return x;
  return work_binary(w, op, x, work_scalar(w, x, host_float(w->site, name, 0)));
}

wafer_status host_clip(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = bounded(&w, work_input(&w, 0), 1, "min", WAFER_OP_max);
  return work_end(&w, bounded(&w, x, 2, "max", WAFER_OP_min));
}

wafer_status host_mod(host_site *site) {
  host_work w = {.site = site};
  wafer_view both[] = {work_input(&w, 0), work_input(&w, 1)};
  wafer_attr attr = HOST_INT(truncate, host_int(site, "fmod", 0) != 0);
  return work_end(&w, work_op(&w, WAFER_OP_mod, 1, &attr, 2, both));
}

static wafer_view cast(host_work *w, wafer_view x, wafer_dtype to) {
  if (x.dtype == to) return x;
  return work_op(w, WAFER_OP_cast, 1, (wafer_attr[]){HOST_TEXT(to, wafer_dtype_name(to))}, 1, &x);
}

/* In the exponent's type where that alone is one of floats. */
wafer_status host_pow(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0), y = work_input(&w, 1);
  bool widens = !wafer_dtype_is_float(x.dtype) && wafer_dtype_is_float(y.dtype);
  wafer_dtype in = widens ? y.dtype : x.dtype;
  wafer_view power = work_binary(&w, WAFER_OP_pow, cast(&w, x, in), cast(&w, y, in));
  return work_end(&w, cast(&w, power, x.dtype));
}

/* x where it is at least 0, else x times a slope. */
static wafer_view sloped(host_work *w, wafer_view x, wafer_view slope) {
  wafer_view nought = work_scalar(w, x, 0);
  wafer_view parts[] = {work_binary(w, WAFER_OP_less, x, nought),
                        work_binary(w, WAFER_OP_mul, x, slope), x};
  return work_op(w, WAFER_OP_select, 0, NULL, 3, parts);
}

wafer_status host_leaky_relu(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  return work_end(&w, sloped(&w, x, work_scalar(&w, x, host_float(site, "alpha", (double)0.01F))));
}
wafer_status host_prelu(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  return work_end(&w, sloped(&w, x, work_input(&w, 1)));
}

/* max(0, min(1, alpha x + beta)) */
static wafer_view hard_sigmoid(host_work *w, wafer_view x, double alpha, double beta) {
  wafer_view y = work_binary(w, WAFER_OP_mul, x, work_scalar(w, x, alpha));
  y = work_binary(w, WAFER_OP_add, y, work_scalar(w, x, beta));
  y = work_binary(w, WAFER_OP_min, y, work_scalar(w, x, 1));
  return work_binary(w, WAFER_OP_max, y, work_scalar(w, x, 0));
}

wafer_status host_hard_sigmoid(host_site *site) {
  host_work w = {.site = site};
  double alpha = host_float(site, "alpha", (double)0.2F), beta = host_float(site, "beta", 0.5);
  return work_end(&w, hard_sigmoid(&w, work_input(&w, 0), alpha, beta));
}
wafer_status host_hard_swish(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  return work_end(&w, work_binary(&w, WAFER_OP_mul, x, hard_sigmoid(&w, x, 1.0 / 6, 0.5)));
}

/* x/2 (1 + erf(x / sqrt(2))), or x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
wafer_status host_gelu(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0), gate = x;
  bool exact = strcmp(host_text(site, "approximate", "none"), "tanh") != 0;
  if (!exact) {
    gate = work_binary(&w, WAFER_OP_mul, x, x);
    gate = work_binary(&w, WAFER_OP_mul, gate, work_scalar(&w, x, 0.044715));
    gate = work_binary(&w, WAFER_OP_mul, x,
                       work_binary(&w, WAFER_OP_add, gate, work_scalar(&w, x, 1)));
  }
  gate = work_binary(&w, WAFER_OP_mul, gate, work_scalar(&w, x, exact ? M_SQRT1_2 : sqrt(M_2_PI)));
  gate = work_unary(&w, exact ? WAFER_OP_erf : WAFER_OP_tanh, gate);
  gate = work_binary(&w, WAFER_OP_add, gate, work_scalar(&w, x, 1));
  wafer_view half = work_binary(&w, WAFER_OP_mul, x, work_scalar(&w, x, 0.5));
  return work_end(&w, work_binary(&w, WAFER_OP_mul, half, gate));
}

/* ---- normalizations ---- */

wafer_status host_batch_norm(host_site *site) {
  host_work w = {.site = site};
  wafer_view in[5];
  for (uint32_t i = 0; i < 5; i++) in[i] = work_input(&w, i);
  if (host_int(site, "training_mode", 0) || !host_int(site, "spatial", 1))
    work_fail(&w, "training_mode, and statistics per element");
  const wafer_attr attr = {.id = WAFER_ATTR_epsilon, .f = host_float(site, "epsilon", 1e-5)};
  return work_end(&w, work_op(&w, WAFER_OP_batch_norm, 1, &attr, 5, in));
}

/* Over the dims from `axis` on. */
wafer_status host_layer_norm(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  uint32_t axis = 0;
  if (w.status == WAFER_OK)
    w.status = host_axis(site, host_int(site, "axis", -1), x.shape.rank, &axis);
  uint32_t dims = ((1u << x.shape.rank) - 1) & ~((1u << axis) - 1);
  wafer_view y = work_binary(&w, WAFER_OP_sub, x, work_reduce(&w, WAFER_OP_reduce_mean, x, dims));
  wafer_view variance =
      work_reduce(&w, WAFER_OP_reduce_mean, work_binary(&w, WAFER_OP_mul, y, y), dims);
  variance = work_binary(&w, WAFER_OP_add, variance,
                         work_scalar(&w, x, host_float(site, "epsilon", 1e-5)));
  y = work_binary(&w, WAFER_OP_div, y, work_unary(&w, WAFER_OP_sqrt, variance));
  y = work_binary(&w, WAFER_OP_mul, y, work_input(&w, 1));
  if (host_has(site, 2)) y = work_binary(&w, WAFER_OP_add, y, work_input(&w, 2));
  return work_end(&w, y);
}

/* ---- softmax ---- */

/* The importer says `flat` of models before opset 13: the dims from `axis` on are one. */
static wafer_status soft(host_site *site, bool logarithm) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0), y;
  bool flat = host_int(site, "flat", 0) != 0;
  uint32_t axis = 0;
  if (w.status == WAFER_OK)
    w.status = host_axis(site, host_int(site, "axis", flat ? 1 : -1), x.shape.rank, &axis);
  int64_t two[] = {1, 1};
  for (uint32_t d = 0; d < x.shape.rank; d++) two[d >= axis] *= x.shape.dims[d];
  y = flat ? work_reshape(&w, x, 2, two) : x;
  axis = flat ? 1 : axis;
  if (logarithm) {
    y = work_binary(&w, WAFER_OP_sub, y, work_reduce(&w, WAFER_OP_reduce_max, y, 1u << axis));
    wafer_view sum =
        work_reduce(&w, WAFER_OP_reduce_sum, work_unary(&w, WAFER_OP_exp, y), 1u << axis);
    y = work_binary(&w, WAFER_OP_sub, y, work_unary(&w, WAFER_OP_log, sum));
  } else {
    y = work_op(&w, WAFER_OP_softmax, 1, (wafer_attr[]){HOST_INT(axis, axis)}, 1, &y);
  }
  return work_end(&w, flat ? work_reshape(&w, y, x.shape.rank, x.shape.dims) : y);
}

wafer_status host_softmax(host_site *site) {
  return soft(site, false);
}
wafer_status host_log_softmax(host_site *site) {
  return soft(site, true);
}

/* ---- products ---- */

/* A vector counts as a row on the left, as a column on the right; its dim of 1 goes again. */
wafer_status host_matmul(host_site *site) {
  host_work w = {.site = site};
  wafer_view a = work_input(&w, 0), b = work_input(&w, 1);
  bool row = a.shape.rank == 1, column = b.shape.rank == 1;
  if (row) a = work_reshape(&w, a, 2, (int64_t[]){1, a.shape.dims[0]});
  if (column) b = work_reshape(&w, b, 2, (int64_t[]){b.shape.dims[0], 1});
  wafer_view y = work_binary(&w, WAFER_OP_matmul, a, b);
  wafer_shape kept = {0};
  for (uint32_t d = 0; d < y.shape.rank; d++)
    if (!(row && d + 2 == y.shape.rank) && !(column && d + 1 == y.shape.rank))
      kept.dims[kept.rank++] = y.shape.dims[d];
  return work_end(&w, row || column ? work_reshape(&w, y, kept.rank, kept.dims) : y);
}

static wafer_view turned(host_work *w, wafer_view x, const char *name) {
  if (!host_int(w->site, name, 0)) return x;
  wafer_attr attr = HOST_INTS(perm, 2, ((int64_t[]){1, 0}));
  return work_op(w, WAFER_OP_transpose, 1, &attr, 1, &x);
}

static wafer_view scaled(host_work *w, wafer_view x, const char *name) {
  double factor = host_float(w->site, name, 1);
  return factor == 1 ? x : work_binary(w, WAFER_OP_mul, x, work_scalar(w, x, factor));
}

/* alpha A' B' + beta C */
wafer_status host_gemm(host_site *site) {
  host_work w = {.site = site};
  wafer_view a = work_input(&w, 0), b = work_input(&w, 1);
  if (a.shape.rank != 2 || b.shape.rank != 2) work_fail(&w, "operands 0 and 1 must be matrices");
  wafer_view y = work_binary(&w, WAFER_OP_matmul, turned(&w, a, "transA"), turned(&w, b, "transB"));
  y = scaled(&w, y, "alpha");
  if (host_has(site, 2) && host_float(site, "beta", 1) != 0)
    y = work_binary(&w, WAFER_OP_add, y, scaled(&w, work_input(&w, 2), "beta"));
  return work_end(&w, y);
}

/* ---- order ---- */

static wafer_status arg(host_site *site, wafer_op op) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  uint32_t axis = 0;
  if (w.status == WAFER_OK)
    w.status = host_axis(site, host_int(site, "axis", 0), x.shape.rank, &axis);
  wafer_attr attrs[] = {HOST_INT(axis, axis),
                        HOST_INT(keepdims, host_int(site, "keepdims", 1) != 0),
                        HOST_INT(last, host_int(site, "select_last_index", 0) != 0)};
  return work_end(&w, work_op(&w, op, WAFER_COUNT(attrs), attrs, 1, &x));
}

wafer_status host_arg_max(host_site *site) {
  return arg(site, WAFER_OP_arg_max);
}
wafer_status host_arg_min(host_site *site) {
  return arg(site, WAFER_OP_arg_min);
}

/* Elements of x as the indices say along an axis; their other dims are those of x, or less. */
static wafer_view along(host_work *w, wafer_view x, wafer_view index, uint32_t axis) {
  if (w->status != WAFER_OK) return x;
  wafer_view y = work_keep(w, wafer_item_new(x.dtype, &index.shape));
  size_t bytes = wafer_dtype_bytes(x.dtype);
  for (int64_t i = 0, count = host_elements(&index); i < count && w->status == WAFER_OK; i++) {
    int64_t rest = i, stride = 1, place = 0;
    for (uint32_t d = x.shape.rank; d-- > 0; stride *= x.shape.dims[d]) {
      int64_t dim = x.shape.dims[d], at = rest % index.shape.dims[d];
      if (d == axis) at = wafer_element_i64(index.dtype, index.data, i);
      if (at < -dim || at >= dim) work_fail(w, "index %" PRId64 " is out of range", at);
      place += (at < 0 ? at + dim : at) * stride;
      rest /= index.shape.dims[d];
    }
    if (w->status == WAFER_OK)
      memcpy((char *)y.data + (size_t)i * bytes, (char *)x.data + (size_t)place * bytes, bytes);
  }
  return y;
}

wafer_status host_gather_elements(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0), index = work_input(&w, 1);
  uint32_t axis = 0;
  if (w.status == WAFER_OK)
    w.status = host_axis(site, host_int(site, "axis", 0), x.shape.rank, &axis);
  if (index.shape.rank != x.shape.rank || wafer_dtype_is_float(index.dtype))
    work_fail(&w, "the indices must be integers of as many dims as the tensor");
  for (uint32_t d = 0; w.status == WAFER_OK && d < x.shape.rank; d++)
    if (d != axis && index.shape.dims[d] > x.shape.dims[d])
      work_fail(&w, "dim %u of the indices is larger than the tensor's", d);
  return work_end(&w, along(&w, x, index, axis));
}

/* Equal elements in the order of their places. */
wafer_status host_top_k(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0);
  int64_t k = host_int(site, "k", -1);
  uint32_t axis = 0;
  wafer_item *places = NULL;
  if (w.status == WAFER_OK && host_has(site, 1)) w.status = host_scalar(site, 1, &k);
  if (w.status == WAFER_OK)
    w.status = host_axis(site, host_int(site, "axis", -1), x.shape.rank, &axis);
  if (w.status == WAFER_OK && (k < 0 || k > x.shape.dims[axis]))
    work_fail(&w, "k is %" PRId64 ", dim %u has %" PRId64 " elements", k, axis, x.shape.dims[axis]);
  wafer_attr attrs[] = {HOST_INT(axis, axis),
                        HOST_INT(descending, host_int(site, "largest", 1) != 0)};
  wafer_view order = work_op(&w, WAFER_OP_arg_sort, WAFER_COUNT(attrs), attrs, 1, &x);
  if (w.status == WAFER_OK) w.status = host_cut(site, &order, axis, 0, k, false, &places);
  if (w.status != WAFER_OK) return work_end(&w, x);
  wafer_view y = along(&w, x, places->tensor, axis);
  wafer_status status = work_end(&w, y);
  if (status == WAFER_OK) return host_give(site, 1, places);
  wafer_item_release(places);
  return status;
}

/* ---- parts and pads ---- */

/* How many elements part `i` has: as operand or attribute `split` says, else alike, the last one
 * what is left where num_outputs says how many parts there are. */
static wafer_status part_of(const host_site *site, int64_t dim, uint32_t i, int64_t left,
                            int64_t *out) {
  const wafer_host_attr *attr = host_attr(site, "split", WAFER_HOST_ATTR_ints);
  int64_t count = site->output_count, parts = host_int(site, "num_outputs", 0);
  const wafer_view *split;
  if (host_has(site, 1)) {
    WAFER_TRY(host_tensor(site, 1, &split));
    if (host_elements(split) != count || split->dtype != WAFER_DTYPE_i64)
      return host_fail(site, "split must have %" PRId64 " entries, one per output", count);
    *out = wafer_element_i64(split->dtype, split->data, i);
  } else if (attr) {
    if (attr->count != count)
      return host_fail(site, "split has %u entries for %" PRId64 " outputs", attr->count, count);
    *out = attr->ints[i];
  } else {
    if (!parts && dim % count)
      return host_fail(site, "%" PRId64 " elements are no %" PRId64 " parts", dim, count);
    *out = (dim + count - 1) / count;
    if (*out > left) *out = left;
  }
  if (*out < 0 || *out > left)
    return host_fail(site, "part %u has %" PRId64 " elements, %" PRId64 " are left", i, *out, left);
  return WAFER_OK;
}

wafer_status host_split(host_site *site) {
  const wafer_view *x;
  uint32_t axis;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  int64_t dim = x->shape.dims[axis], at = 0, length = 0;
  for (uint32_t i = 0; i < site->output_count; i++, at += length) {
    wafer_item *part;
    WAFER_TRY(part_of(site, dim, i, dim - at, &length));
    WAFER_TRY(host_cut(site, x, axis, at, length, false, &part));
    WAFER_TRY(host_give(site, i, part));
  }
  if (at == dim) return WAFER_OK;
  return host_fail(site, "the parts hold %" PRId64 " of %" PRId64 " elements", at, dim);
}

/* Begins, then ends, of every dim. */
static wafer_status pads_of(const host_site *site, uint32_t rank, int64_t *out) {
  const wafer_host_attr *attr = host_attr(site, "pads", WAFER_HOST_ATTR_ints);
  int64_t pads[2 * WAFER_MAX_RANK], axes[WAFER_MAX_RANK];
  uint32_t count = 0, axis_count = rank, axis;
  for (uint32_t d = 0; d < rank; d++) axes[d] = d;
  memset(out, 0, 2 * rank * sizeof *out);
  if (host_has(site, 1))
    WAFER_TRY(host_ints(site, 1, 2 * WAFER_MAX_RANK, pads, &count));
  else if (attr && attr->count <= 2 * WAFER_MAX_RANK)
    memcpy(pads, attr->ints, (count = attr->count) * sizeof *pads);
  if (host_has(site, 3)) WAFER_TRY(host_ints(site, 3, WAFER_MAX_RANK, axes, &axis_count));
  if (count != 2 * axis_count)
    return host_fail(site, "pads has %u entries, needs %u", count, 2 * axis_count);
  for (uint32_t i = 0; i < axis_count; i++) {
    WAFER_TRY(host_axis(site, axes[i], rank, &axis));
    out[axis] = pads[i];
    out[axis + rank] = pads[i + axis_count];
  }
  return WAFER_OK;
}

/* What is padded is the elements' places: elements are copied, whatever they are. */
wafer_status host_pad(host_site *site) {
  host_work w = {.site = site};
  wafer_view x = work_input(&w, 0), fill = work_scalar(&w, x, host_float(site, "value", 0));
  int64_t pads[2 * WAFER_MAX_RANK], count = w.status == WAFER_OK ? host_elements(&x) : 0;
  if (w.status == WAFER_OK) w.status = pads_of(site, x.shape.rank, pads);
  if (host_has(site, 2)) fill = work_input(&w, 2);
  if (w.status == WAFER_OK && (fill.dtype != x.dtype || host_elements(&fill) != 1))
    work_fail(&w, "operand 2 must be one %s", wafer_dtype_name(x.dtype));
  wafer_view places =
      work_keep(&w, w.status == WAFER_OK ? wafer_item_new(WAFER_DTYPE_i64, &x.shape) : NULL);
  for (int64_t i = 0; i < count && w.status == WAFER_OK; i++) ((int64_t *)places.data)[i] = i;
  wafer_attr attrs[] = {HOST_INTS(pads, 2 * x.shape.rank, pads),
                        HOST_TEXT(mode, host_text(site, "mode", "constant")),
                        (wafer_attr){.id = WAFER_ATTR_fill, .f = -1}};
  places = work_op(&w, WAFER_OP_pad, WAFER_COUNT(attrs), attrs, 1, &places);
  if (w.status != WAFER_OK) return work_end(&w, x);
  wafer_view y = work_keep(&w, wafer_item_new(x.dtype, &places.shape));
  size_t bytes = wafer_dtype_bytes(x.dtype);
  for (int64_t i = 0, n = host_elements(&places); i < n && w.status == WAFER_OK; i++) {
    int64_t at = ((const int64_t *)places.data)[i];
    memcpy((char *)y.data + (size_t)i * bytes,
           at < 0 ? fill.data : (char *)x.data + (size_t)at * bytes, bytes);
  }
  return work_end(&w, y);
}

/* Data movement: shapes, slices, pads, gathers. */
#include <string.h>

#include <math.h>

#include "operators.h"

/* ---- Reshape and its relatives ---- */

/* 0 copies a dim of the operand (unless `zeros` are meant), -1 takes what is left. */
static void resolve_shape(import_node *n, const wafer_shape *x, int_list want, bool zeros,
                          int64_t *dims) {
  int64_t have, known = 1;
  uint32_t open = want.count;
  for (uint32_t i = 0; i < want.count; i++) {
    dims[i] = want.at[i];
    if (dims[i] == 0 && !zeros && i >= x->rank)
      node_bad(n, "shape[%u] is 0, the operand has %u dims", i, x->rank);
    if (dims[i] == 0 && !zeros && i < x->rank) dims[i] = x->dims[i];
    if (dims[i] == -1 && open < want.count) node_bad(n, "shape holds -1 twice");
    if (dims[i] < -1) node_bad(n, "shape[%u] is %lld", i, (long long)dims[i]);
    if (dims[i] == -1)
      open = i;
    else if (__builtin_mul_overflow(known, dims[i], &known))
      node_bad(n, "the shape has too many elements");
  }
  if (n->status != WAFER_OK || open == want.count || !wafer_shape_elements(x, &have)) return;
  char text[128];
  wafer_shape_format(x, text, sizeof text);
  if (!known || have % known)
    node_bad(n, "%lld elements of %s cannot fill a shape whose known dims hold %lld",
             (long long)have, text, (long long)known);
  else
    dims[open] = have / known;
}

static void reshape_to(import_node *n, int_list want) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int64_t dims[WAFER_MAX_RANK], asked[WAFER_MAX_RANK];
  if (want.count > WAFER_MAX_RANK)
    node_unsupported(n, "%u dims, at most %d are", want.count, WAFER_MAX_RANK);
  if (n->status != WAFER_OK) return;
  if (want.count) memcpy(asked, want.at, want.count * sizeof *asked);
  training_rebatch(n, &x, want.count, asked);
  want.at = asked;
  if (n->status == WAFER_OK) resolve_shape(n, &x, want, attr_int(n, "allowzero", 0) != 0, dims);
  n->outputs[0] = emit_reshape(n, node_input(n, 0), want.count, dims);
}

void import_reshape(import_node *n) {
  reshape_to(n, node_ints(n, 1, "shape"));
}

void import_reshape_1(import_node *n) {
  reshape_to(n, attr_ints(n, "shape"));
}

void import_flatten(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int64_t axis = attr_int(n, "axis", 1), two[] = {1, 1};
  axis = axis == (int64_t)x.rank ? axis : node_axis(n, axis, x.rank);
  for (uint32_t i = 0; i < x.rank; i++) two[i >= axis] *= x.dims[i];
  n->outputs[0] = emit_reshape(n, node_input(n, 0), 2, two);
}

void import_squeeze(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int_list axes = attr_ints_moved(n, "axes", 13, 1);
  uint32_t set = node_axes(n, axes, x.rank), kept = 0;
  int64_t dims[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < x.rank; i++) {
    bool gone = axes.count ? set >> i & 1 : x.dims[i] == 1;
    if (gone && x.dims[i] != 1)
      node_bad(n, "dim %u has %lld elements, only 1 can be squeezed", i, (long long)x.dims[i]);
    if (!gone) dims[kept++] = x.dims[i];
  }
  n->outputs[0] = emit_reshape(n, node_input(n, 0), kept, dims);
}

void import_unsqueeze(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int_list axes = attr_ints_moved(n, "axes", 13, 1);
  uint32_t rank = x.rank + axes.count;
  if (rank > WAFER_MAX_RANK || axes.count > WAFER_MAX_RANK) {
    node_unsupported(n, "a result of %u dims, at most %d are", rank, WAFER_MAX_RANK);
    return;
  }
  uint32_t set = node_axes(n, axes, rank), from = 0;
  int64_t dims[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < rank && n->status == WAFER_OK; i++)
    dims[i] = set >> i & 1 ? 1 : x.dims[from++];
  n->outputs[0] = emit_reshape(n, node_input(n, 0), rank, dims);
}

void import_transpose(import_node *n) {
  uint32_t rank = node_rank(n, node_input(n, 0));
  int_list perm = attr_ints(n, "perm");
  int64_t reversed[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) reversed[i] = rank - 1 - i;
  bool given = attr_has(n, "perm") && (perm.count || !rank);
  n->outputs[0] =
      emit_transpose(n, node_input(n, 0), given ? perm.count : rank, given ? perm.at : reversed);
}

void import_expand(import_node *n) {
  int_list shape = node_ints(n, 1, "shape");
  const training_state *t = &n->im->training;
  int64_t dims[WAFER_MAX_RANK];
  if (t->options && t->declared > 1 && t->options->micro_batch && shape.count &&
      shape.count <= WAFER_MAX_RANK && shape.at[0] == t->declared) {
    memcpy(dims, shape.at, shape.count * sizeof *dims);
    dims[0] = t->options->micro_batch;
    shape.at = dims;
  }
  MlirValue x = node_input(n, 0); /* a first state for instance, of zeros for the declared batch */
  for (uint32_t i = 0; n->status == WAFER_OK && t->options && i < shape.count; i++)
    if (shape.at[i] == t->options->micro_batch && node_rank(n, x) == shape.count)
      x = training_rebatch_along(n, x, i);
  n->outputs[0] = emit_expand(n, x, shape.count, shape.at);
}

/* x repeated along a dim, as three dims: before it, a new one, the rest. */
static MlirValue repeat(import_node *n, MlirValue x, wafer_shape *shape, uint32_t d,
                        int64_t times) {
  int64_t before = 1, rest = 1;
  for (uint32_t i = 0; i < shape->rank; i++) *(i < d ? &before : &rest) *= shape->dims[i];
  x = emit_reshape(n, x, 3, (int64_t[]){before, 1, rest});
  x = emit_expand(n, x, 3, (int64_t[]){before, times, rest});
  if (__builtin_mul_overflow(shape->dims[d], times, &shape->dims[d]))
    node_bad(n, "the result is too large");
  return emit_reshape(n, x, shape->rank, shape->dims);
}

#define MOST_JOINED 8 /* operands of one concatenation */

/* The same, joined with itself: of views in a row that repeat other dims no core has a part. */
static MlirValue joined(import_node *n, MlirValue x, wafer_shape *shape, uint32_t d,
                        uint32_t times) {
  MlirValue all[MOST_JOINED];
  for (uint32_t i = 0; i < times; i++) all[i] = x;
  if (__builtin_mul_overflow(shape->dims[d], times, &shape->dims[d]))
    node_bad(n, "the result is too large");
  return emit_concat_all(n, times, all, d);
}

void import_tile(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  int_list repeats = node_ints(n, 1, "repeats");
  if (n->status == WAFER_OK && repeats.count != shape.rank)
    node_bad(n, "repeats has %u entries, the operand %u dims", repeats.count, shape.rank);
  uint32_t several = 0;
  for (uint32_t i = 0; i < repeats.count; i++) several += repeats.at[i] > 1;
  for (uint32_t i = 0; i < shape.rank && n->status == WAFER_OK; i++) {
    int64_t times = repeats.at[i];
    bool joins = several > 1 && times > 1 && times <= MOST_JOINED;
    if (times < 0) node_bad(n, "repeats[%u] is %lld", i, (long long)times);
    if (joins)
      x = joined(n, x, &shape, i, (uint32_t)times);
    else if (times != 1)
      x = repeat(n, x, &shape, i, times);
  }
  n->outputs[0] = x;
}

/* Repeats along one axis. */
void import_tile_1(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  double repeats = node_float(n, 1, "tiles", 1), at = node_float(n, 2, "axis", 0);
  if (!(fabs(repeats) <= INT32_MAX && fabs(at) <= INT32_MAX && repeats >= 0))
    node_bad(n, "tiles is %g along axis %g", repeats, at);
  if (n->status != WAFER_OK) return;
  n->outputs[0] = repeat(n, x, &shape, node_axis(n, (int64_t)at, shape.rank), (int64_t)repeats);
}

/* ---- Shape and Size ---- */

void import_shape(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int64_t rank = x.rank, start = attr_int(n, "start", 0), end = attr_int(n, "end", rank);
  start = start < 0 ? start + rank : start;
  end = end < 0 ? end + rank : end;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < start ? start : end > rank ? rank : end;
  n->outputs[0] = emit_constant_i64(n, 1, end - start, x.dims + start);
}

void import_size(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int64_t elements = 0;
  wafer_shape_elements(&x, &elements);
  n->outputs[0] = emit_constant_i64(n, 0, 1, &elements);
}

/* ---- Slices ---- */

typedef struct range {
  int64_t start, step, count;
} range;

/* numpy's rules: bounds count from the end when negative and are clamped. */
static range slice_range(int64_t dim, int64_t start, int64_t end, int64_t step) {
  int64_t low = step < 0 ? -1 : 0, high = step < 0 ? dim - 1 : dim;
  if (start < 0) start = start < -dim ? low : start + dim;
  if (end < 0) end = end < -dim ? low : end + dim;
  start = start < low ? low : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  uint64_t distance = step > 0 ? (uint64_t)(end - start) : (uint64_t)(start - end);
  uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
  bool empty = step > 0 ? end <= start : end >= start;
  range r = {.step = step, .count = empty ? 0 : (int64_t)((distance - 1) / stride + 1)};
  r.start = empty ? 0 : start;
  return r;
}

void import_slice(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  int_list starts = attr_ints_moved(n, "starts", 10, 1), ends = attr_ints_moved(n, "ends", 10, 2);
  int_list axes = attr_ints_moved(n, "axes", 10, 3), strides = attr_ints_moved(n, "steps", 10, 4);
  int64_t from[WAFER_MAX_RANK] = {0}, steps[WAFER_MAX_RANK];
  for (uint32_t i = 0; i < shape.rank; i++) steps[i] = 1;
  bool agree = ends.count == starts.count && (!axes.count || axes.count == starts.count) &&
               (!strides.count || strides.count == starts.count) &&
               (axes.count || starts.count <= shape.rank);
  if (!agree) node_bad(n, "starts, ends, axes and steps differ in length");
  node_axes(n, axes, shape.rank);
  for (uint32_t i = 0; i < starts.count && n->status == WAFER_OK; i++) {
    uint32_t axis = axes.count ? node_axis(n, axes.at[i], shape.rank) : i;
    int64_t step = strides.count ? strides.at[i] : 1;
    if (step == 0) node_bad(n, "steps[%u] is 0", i);
    if (n->status != WAFER_OK) return;
    int64_t end = starts.at[i] == 0 ? training_length(n, &shape, axis, ends.at[i]) : ends.at[i];
    range r = slice_range(shape.dims[axis], starts.at[i], end, step);
    from[axis] = r.start;
    steps[axis] = r.step;
    shape.dims[axis] = r.count;
  }
  wafer_attr attrs[] = {INTS_ATTR(starts, shape.rank, from), INTS_ATTR(steps, shape.rank, steps),
                        INTS_ATTR(shape, shape.rank, shape.dims)};
  n->outputs[0] = emit_op(n, WAFER_OP_slice, 1, &x, attrs, WAFER_COUNT(attrs));
}

/* Lengths of the parts: given, or equal ones of which the last may be shorter. */
static int64_t part_length(import_node *n, int_list parts, int64_t dim, uint32_t index) {
  if (parts.count) return parts.at[index];
  int64_t count = n->opset >= 18 ? attr_int(n, "num_outputs", n->output_count) : n->output_count;
  if (count < 1 || (n->opset < 18 && dim % count)) {
    node_bad(n, "%lld elements cannot be split into %lld parts", (long long)dim, (long long)count);
    return 0;
  }
  int64_t length = dim / count + (dim % count != 0), left = dim - length * index;
  return left < 0 ? 0 : left < length ? left : length;
}

void import_split(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  bool given = n->opset < 2 && node_has_input(n, 1);
  int_list parts = given ? node_ints(n, 1, "split") : attr_ints_moved(n, "split", 13, 1);
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), x.rank);
  int64_t at = 0;
  if (parts.count && parts.count != n->output_count)
    node_bad(n, "split has %u entries for %u outputs", parts.count, n->output_count);
  for (uint32_t i = 0; i < n->output_count && n->status == WAFER_OK; i++) {
    int64_t length = part_length(n, parts, x.dims[axis], i);
    if (length < 0 || length > x.dims[axis] - at)
      node_bad(n, "part %u has %lld elements, %lld are left", i, (long long)length,
               (long long)(x.dims[axis] - at));
    n->outputs[i] = emit_part(n, node_input(n, 0), axis, at, length);
    at += length;
  }
  if (n->status == WAFER_OK && at != x.dims[axis])
    node_bad(n, "the parts hold %lld of %lld elements", (long long)at, (long long)x.dims[axis]);
}

void import_concat(import_node *n) {
  uint32_t axis = node_axis(n, attr_int(n, "axis", 1), node_rank(n, node_input(n, 0)));
  MlirValue *all = WAFER_NEW(n->im->ctx->arena, MlirValue, n->input_count);
  for (uint32_t i = 0; all && i < n->input_count; i++) all[i] = node_input(n, i);
  n->outputs[0] = emit_concat_all(n, n->input_count, all, axis);
  if (mlirValueIsNull(n->outputs[0])) node_bad(n, "an input is missing");
}

/* ---- Pad ---- */

static double pad_fill(import_node *n) {
  return n->opset < 11 ? attr_float(n, "value", 0) : node_float(n, 2, "constant_value", 0);
}

/* The op's fill is a double: an integer that none holds is taken off x before, as integers wrap
 * around, and added again behind. Null: it is one. */
static MlirValue large_fill(import_node *n, MlirValue x) {
  wafer_view fill;
  bool large = n->opset >= 11 && node_has_input(n, 2) &&
               (node_dtype(n, x) == WAFER_DTYPE_i64 || node_dtype(n, x) == WAFER_DTYPE_u64) &&
               node_dtype(n, node_input(n, 2)) == node_dtype(n, x);
  if (!large || !node_constant(n, 2, "constant_value", &fill)) return (MlirValue){NULL};
  int64_t value = wafer_element_i64(fill.dtype, fill.data, 0), most = INT64_C(1) << 53;
  bool holds = value <= most && value >= (fill.dtype == WAFER_DTYPE_u64 ? 0 : -most);
  return holds ? (MlirValue){NULL} : emit_reshape(n, node_input(n, 2), 0, NULL);
}

void import_pad(import_node *n) {
  MlirValue x = node_input(n, 0), large = large_fill(n, x);
  uint32_t rank = node_rank(n, x);
  int_list pads = n->opset < 2 ? attr_ints(n, "paddings") : attr_ints_moved(n, "pads", 11, 1);
  int_list axes = n->opset >= 18 && node_has_input(n, 3) ? node_ints(n, 3, "axes") : (int_list){0};
  uint32_t count = axes.count ? axes.count : rank;
  int64_t full[2 * WAFER_MAX_RANK] = {0};
  node_axes(n, axes, rank);
  if (pads.count != 2 * count) node_bad(n, "pads has %u entries, needs %u", pads.count, 2 * count);
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
    uint32_t axis = axes.count ? node_axis(n, axes.at[i], rank) : i;
    full[axis] = pads.at[i];
    full[axis + rank] = pads.at[i + count];
  }
  wafer_attr attrs[] = {INTS_ATTR(pads, 2 * rank, full),
                        TEXT_ATTR(mode, attr_text(n, "mode", "constant")),
                        FLOAT_ATTR(fill, large.ptr ? 0 : pad_fill(n))};
  if (large.ptr) x = SUB(x, large);
  x = emit_op(n, WAFER_OP_pad, 1, &x, attrs, WAFER_COUNT(attrs));
  n->outputs[0] = large.ptr ? ADD(x, large) : x;
}

/* ---- Gather ---- */

void import_gather(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), node_rank(n, x));
  MlirValue index = training_rebatch_index(n, x, node_input(n, 1), axis);
  n->outputs[0] = emit_gather(n, x, index, axis);
}

/* ---- Blocks of channels <-> blocks of pixels ---- */

/* x as (N, six dims, ...) transposed and put together again. */
static void rearrange(import_node *n, const int64_t *split, const int64_t *perm,
                      const int64_t *shape) {
  MlirValue moved = emit_transpose(n, emit_reshape(n, node_input(n, 0), 6, split), 6, perm);
  n->outputs[0] = emit_reshape(n, moved, 4, shape);
}

static int64_t block_of(import_node *n, wafer_shape *x) {
  int64_t block = attr_int(n, "blocksize", 0);
  *x = node_type(n, node_input(n, 0)).shape;
  if (x->rank != 4) node_bad(n, "the operand has %u dims, needs 4", x->rank);
  if (block < 1 || block > 1 << 20) node_bad(n, "blocksize is %lld", (long long)block);
  return n->status == WAFER_OK ? block : 0;
}

void import_depth_to_space(import_node *n) {
  wafer_shape x;
  int64_t b = block_of(n, &x);
  if (!b) return;
  const char *mode = attr_text(n, "mode", "DCR");
  bool columns_first = !strcmp(mode, "DCR");
  if (!columns_first && strcmp(mode, "CRD")) node_bad(n, "mode is '%s', must be DCR or CRD", mode);
  if (x.dims[1] % (b * b))
    node_bad(n, "%lld channels are no multiple of blocksize squared", (long long)x.dims[1]);
  int64_t c = x.dims[1] / (b * b), h = x.dims[2], w = x.dims[3];
  const int64_t dcr[] = {x.dims[0], b, b, c, h, w}, crd[] = {x.dims[0], c, b, b, h, w};
  static const int64_t dcr_perm[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
  rearrange(n, columns_first ? dcr : crd, columns_first ? dcr_perm : crd_perm,
            (int64_t[]){x.dims[0], c, h * b, w * b});
}

void import_space_to_depth(import_node *n) {
  wafer_shape x;
  int64_t b = block_of(n, &x);
  if (!b) return;
  if (x.dims[2] % b || x.dims[3] % b)
    node_bad(n, "blocksize %lld does not divide the image", (long long)b);
  int64_t c = x.dims[1], h = x.dims[2] / b, w = x.dims[3] / b;
  rearrange(n, (int64_t[]){x.dims[0], c, h, b, w, b}, (int64_t[]){0, 3, 5, 1, 2, 4},
            (int64_t[]){x.dims[0], c * b * b, h, w});
}

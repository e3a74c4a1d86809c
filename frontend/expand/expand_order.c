/* Order: TopK. Places among sequences: ReverseSequence, TensorScatter, MaxUnpool. */
#include <math.h>
#include <string.h>

#include "operators.h"

/* ---- TopK ---- */

/* A core sorts whole lines. Where one is long, or few cores had one, every element is compared with
 * all of its line instead: those before it are its rank, and what has rank r comes r-th. */
#define LONG_LINE 1024
#define LONG_FOR_LINES 128 /* times the number of lines */
#define MOST_PARTS 64

/* NaN is more than any number, as where lines are sorted; as much as infinity. */
static MlirValue comparable(import_node *n, MlirValue x) {
  if (n->status != WAFER_OK || !wafer_dtype_is_float(node_dtype(n, x))) return x;
  MlirValue nan = emit_unary(n, WAFER_OP_isnan, x);
  return emit_select(n, nan, emit_scalar_like(n, x, INFINITY), x);
}

/* Of each element of (lines, extent): how many of its line come before it; of equals the first. */
static MlirValue emit_ranks(import_node *n, MlirValue x, int64_t lines, int64_t extent, bool down) {
  int64_t one[] = {lines, extent, 1}, other[] = {lines, 1, extent};
  MlirValue places = emit_iota(n, WAFER_DTYPE_i32, extent);
  MlirValue earlier =
      emit_binary(n, WAFER_OP_less, emit_reshape(n, places, 3, (int64_t[]){1, 1, extent}),
                  emit_reshape(n, places, 3, (int64_t[]){1, extent, 1}));
  MlirValue a = emit_reshape(n, x, 3, one), b = emit_reshape(n, x, 3, other);
  MlirValue beats =
      down ? emit_binary(n, WAFER_OP_less, a, b) : emit_binary(n, WAFER_OP_less, b, a);
  MlirValue ties = emit_binary(n, WAFER_OP_and, emit_binary(n, WAFER_OP_equal, a, b), earlier);
  MlirValue before = emit_cast(n, emit_binary(n, WAFER_OP_or, beats, ties), WAFER_DTYPE_i32);
  return emit_reduce(n, WAFER_OP_reduce_sum, before, 1u << 2, false);
}

/* (lines, k): the places of the elements whose ranks are below k. */
static MlirValue emit_ranked(import_node *n, MlirValue ranks, int64_t lines, int64_t extent,
                             int64_t k) {
  MlirValue wanted = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i32, k), 2, (int64_t[]){k, 1});
  MlirValue places = emit_iota(n, WAFER_DTYPE_i32, extent);
  ranks = emit_reshape(n, ranks, 3, (int64_t[]){lines, 1, extent});
  MlirValue is = emit_binary(n, WAFER_OP_equal, ranks, wanted);
  MlirValue found = emit_select(n, is, places, emit_scalar_like(n, places, 0));
  return emit_reduce(n, WAFER_OP_reduce_sum, found, 1u << 2, false);
}

static int64_t lines_of(const wafer_shape *s, uint32_t axis) {
  int64_t lines = 1;
  for (uint32_t d = 0; d < s->rank; d++) lines *= d == axis ? 1 : s->dims[d];
  return lines;
}

/* Parts of a line of which the first k each are found first, and the order of these then; 1: all
 * are compared at once. Fewest elements are compared, each with those of its part, for its rank and
 * to be found by that. */
static int64_t parts_of(int64_t extent, int64_t k, bool pads) {
  double alone = (double)extent * (double)extent, least = alone / 2;
  int64_t best = 1;
  for (int64_t parts = 2; parts <= MOST_PARTS && extent / parts >= k; parts++) {
    double part = ceil((double)extent / (double)parts), left = (double)(parts * k);
    double compared = (double)extent * (part + (double)k) + left * left;
    if (compared >= least || (!pads && extent % parts)) continue;
    least = compared, best = parts;
  }
  return best;
}

static MlirValue first_of_lines(import_node *n, MlirValue x, int64_t lines, int64_t extent,
                                int64_t k, bool down);

/* What lies behind the line's end comes after all of it. */
static MlirValue first_of_parts(import_node *n, MlirValue x, int64_t lines, int64_t extent,
                                int64_t k, bool down, int64_t parts) {
  int64_t part = (extent + parts - 1) / parts, left = parts * k, rows = lines * parts;
  int64_t behind[] = {0, 0, 0, part * parts - extent};
  if (behind[3]) x = emit_padded(n, x, behind, down ? -INFINITY : INFINITY);
  x = emit_reshape(n, x, 2, (int64_t[]){rows, part});
  MlirValue order = emit_cast(n, first_of_lines(n, x, rows, part, k, down), WAFER_DTYPE_i64);
  MlirValue found = emit_gather_batched(n, x, order, 1);
  MlirValue begins = emit_iota(n, WAFER_DTYPE_i64, parts);
  begins = MUL(begins, emit_scalar_like(n, begins, (double)part));
  order = ADD(emit_reshape(n, order, 3, (int64_t[]){lines, parts, k}),
              emit_reshape(n, begins, 3, (int64_t[]){1, parts, 1}));
  found = emit_reshape(n, found, 2, (int64_t[]){lines, left});
  MlirValue of_found =
      emit_cast(n, first_of_lines(n, found, lines, left, k, down), WAFER_DTYPE_i64);
  order = emit_reshape(n, order, 2, (int64_t[]){lines, left});
  return emit_gather_batched(n, order, of_found, 1);
}

/* (lines, k): the places of the first k of each line of (lines, extent), in order. */
static MlirValue first_of_lines(import_node *n, MlirValue x, int64_t lines, int64_t extent,
                                int64_t k, bool down) {
  bool floats = n->status == WAFER_OK && wafer_dtype_is_float(node_dtype(n, x));
  int64_t parts = parts_of(extent, k, floats);
  if (parts > 1) return first_of_parts(n, x, lines, extent, k, down, parts);
  return emit_ranked(n, emit_ranks(n, x, lines, extent, down), lines, extent, k);
}

static MlirValue order_by_ranks(import_node *n, MlirValue x, uint32_t axis, int64_t k, bool down) {
  wafer_shape s = node_type(n, x).shape;
  int64_t perm[WAFER_MAX_RANK], lines = lines_of(&s, axis), extent = s.dims[axis];
  uint32_t last = s.rank - 1;
  for (uint32_t d = 0; d < s.rank; d++) perm[d] = d;
  perm[axis] = last, perm[last] = axis;
  x = comparable(n, emit_transpose(n, x, s.rank, perm));
  x = emit_reshape(n, x, 2, (int64_t[]){lines, extent});
  MlirValue order = first_of_lines(n, x, lines, extent, k, down);
  s.dims[axis] = s.dims[last], s.dims[last] = k;
  order = emit_cast(n, emit_reshape(n, order, s.rank, s.dims), WAFER_DTYPE_i64);
  return emit_transpose(n, order, s.rank, perm);
}

static bool is_long(const wafer_shape *s, uint32_t axis) {
  int64_t lines = lines_of(s, axis), extent = s->dims[axis];
  return lines > 0 && (extent > LONG_LINE || extent / LONG_FOR_LINES >= lines);
}

/* Indices of all elements in order along an axis, cut to the first k. */
static MlirValue order_by_sort(import_node *n, MlirValue x, uint32_t axis, int64_t k, bool down) {
  wafer_attr attrs[] = {INT_ATTR(axis, axis), INT_ATTR(descending, down)};
  MlirValue order = emit_op(n, WAFER_OP_arg_sort, 1, &x, attrs, WAFER_COUNT(attrs));
  return emit_part(n, order, axis, 0, k);
}

void import_top_k(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t axis = node_axis(n, attr_int(n, "axis", -1), node_rank(n, x));
  int64_t k = n->opset < 10 ? attr_int(n, "k", 0) : (int64_t)node_float(n, 1, "k", 0);
  if (n->status != WAFER_OK) return;
  wafer_shape s = node_type(n, x).shape;
  bool down = attr_int(n, "largest", 1) != 0;
  if (k < 0 || k > s.dims[axis])
    node_bad(n, "k is %lld, dim %u has %lld elements", (long long)k, axis, (long long)s.dims[axis]);
  if (n->status != WAFER_OK) return;
  MlirValue order = k > 0 && is_long(&s, axis) ? order_by_ranks(n, x, axis, k, down)
                                               : order_by_sort(n, x, axis, k, down);
  n->outputs[0] = emit_gather_elements(n, x, order, axis);
  if (n->output_count > 1) n->outputs[1] = order;
}

/* ---- Places among sequences ---- */

/* A vector along dim `dim` of a tensor of this rank. */
static MlirValue along(import_node *n, MlirValue x, uint32_t dim, uint32_t rank) {
  int64_t dims[WAFER_MAX_RANK];
  int64_t extent = node_type(n, x).shape.dims[0];
  for (uint32_t d = 0; d < rank; d++) dims[d] = d == dim ? extent : 1;
  return emit_reshape(n, x, rank, dims);
}

/* Position i of a sequence of length l takes position l - 1 - i, from l on itself. */
void import_reverse_sequence(import_node *n) {
  MlirValue x = node_input(n, 0), length = emit_cast(n, node_input(n, 1), WAFER_DTYPE_i64);
  wafer_shape s = node_type(n, x).shape;
  uint32_t batch = node_axis(n, attr_int(n, "batch_axis", 1), s.rank);
  uint32_t time = node_axis(n, attr_int(n, "time_axis", 0), s.rank);
  if (n->status == WAFER_OK && (batch == time || node_rank(n, length) != 1))
    node_bad(n, "the batch and the time are one axis, or lengths are no vector");
  if (n->status != WAFER_OK) return;
  length = along(n, length, batch, s.rank);
  MlirValue at = along(n, emit_iota(n, WAFER_DTYPE_i64, s.dims[time]), time, s.rank);
  MlirValue back = SUB(SUB(length, emit_scalar_like(n, length, 1)), at);
  MlirValue from = emit_select(n, emit_binary(n, WAFER_OP_less, at, length), back, at);
  n->outputs[0] = emit_gather_elements(n, x, emit_expand(n, from, s.rank, s.dims), time);
}

/* Every position of the cache takes what is written there, or stays: looked up, not scattered. */
void import_tensor_scatter(import_node *n) {
  MlirValue cache = node_input(n, 0), update = node_input(n, 1);
  wafer_shape s = node_type(n, cache).shape, u = node_type(n, update).shape;
  const char *mode = attr_text(n, "mode", "linear");
  bool circular = !strcmp(mode, "circular");
  uint32_t axis = node_axis(n, attr_int(n, "axis", -2), s.rank);
  if (!circular && strcmp(mode, "linear"))
    node_bad(n, "mode is '%s', must be linear or circular", mode);
  if (n->status == WAFER_OK &&
      (axis == 0 || u.rank != s.rank || u.dims[axis] > s.dims[axis] || u.dims[axis] == 0))
    node_bad(n, "the update does not fit the cache along axis %u", axis);
  if (n->status != WAFER_OK) return;
  MlirValue at = along(n, emit_iota(n, WAFER_DTYPE_i64, s.dims[axis]), axis, s.rank);
  if (node_has_input(n, 2)) {
    MlirValue first = emit_cast(n, node_input(n, 2), WAFER_DTYPE_i64);
    at = SUB(at, along(n, first, 0, s.rank));
  }
  wafer_attr floored = INT_ATTR(truncate, 0);
  MlirValue around[] = {at, emit_scalar_like(n, at, (double)s.dims[axis])};
  if (circular) at = emit_op(n, WAFER_OP_mod, 2, around, &floored, 1);
  MlirValue last = emit_scalar_like(n, at, (double)u.dims[axis] - 1);
  MlirValue index = emit_binary(n, WAFER_OP_min,
                                emit_binary(n, WAFER_OP_max, at, emit_scalar_like(n, at, 0)), last);
  MlirValue written = emit_binary(n, WAFER_OP_equal, index, at);
  wafer_shape wide = s;
  MlirValue found = emit_gather_elements(n, update, emit_expand(n, index, s.rank, wide.dims), axis);
  n->outputs[0] = emit_select(n, written, found, cache);
}

/* ---- MaxUnpool ---- */

/* The shape that was pooled, as far as strides tell. */
static wafer_shape unpooled(import_node *n, const wafer_shape *x) {
  int_list kernel = attr_ints(n, "kernel_shape"), strides = attr_ints(n, "strides"),
           pads = attr_ints(n, "pads");
  wafer_shape y = *x;
  int64_t count;
  uint32_t spatial = x->rank < 3 ? 0 : x->rank - 2;
  bool fits = spatial && kernel.count == spatial && (!strides.count || strides.count == spatial) &&
              (!pads.count || pads.count == 2 * spatial);
  if (!fits) node_bad(n, "the kernel has %u dims, the operand %u", kernel.count, x->rank);
  for (uint32_t i = 0; i < spatial && n->status == WAFER_OK; i++) {
    int64_t step = strides.count ? strides.at[i] : 1;
    int64_t rim = pads.count ? pads.at[i] + pads.at[i + spatial] : 0;
    if (step < 1 || step > INT32_MAX || kernel.at[i] < 1 || kernel.at[i] > INT32_MAX || rim < 0 ||
        rim > INT32_MAX || __builtin_mul_overflow(x->dims[i + 2] - 1, step, &count))
      node_bad(n, "kernel, stride or pads of spatial dim %u", i);
    else
      y.dims[i + 2] = count + kernel.at[i] - rim;
  }
  if (n->status == WAFER_OK && !wafer_shape_elements(&y, &count))
    node_bad(n, "the result is too large");
  return y;
}

/* With zeros behind what is there, to the shape that input 2 gives. */
static MlirValue grown(import_node *n, MlirValue x, const wafer_shape *have) {
  int_list want = node_ints(n, 2, "output_shape");
  int64_t rims[2 * WAFER_MAX_RANK] = {0};
  if (n->status == WAFER_OK && want.count != have->rank)
    node_bad(n, "output_shape has %u entries, needs %u", want.count, have->rank);
  for (uint32_t d = 0; n->status == WAFER_OK && d < have->rank; d++) {
    rims[d + have->rank] = want.at[d] - have->dims[d];
    if (want.at[d] < have->dims[d])
      node_bad(n, "output_shape[%u] is %lld, needs %lld", d, (long long)want.at[d],
               (long long)have->dims[d]);
  }
  return emit_padded(n, x, rims, 0);
}

/* Zeros, but where the pool found its elements. */
void import_max_unpool(import_node *n) {
  MlirValue x = node_input(n, 0), index = node_input(n, 1);
  wafer_shape s = node_type(n, x).shape, y = unpooled(n, &s);
  int64_t count, given;
  if (n->status != WAFER_OK) return;
  wafer_shape_elements(&y, &count);
  wafer_shape_elements(&s, &given);
  MlirValue zeros = emit_expand(n, emit_scalar_like(n, x, 0), 1, &count);
  MlirValue operands[] = {zeros, emit_reshape(n, index, 1, &given), emit_reshape(n, x, 1, &given)};
  wafer_attr mode = TEXT_ATTR(mode, "none");
  MlirValue filled = emit_op(n, WAFER_OP_scatter, 3, operands, &mode, 1);
  filled = emit_reshape(n, filled, y.rank, y.dims);
  n->outputs[0] = node_has_input(n, 2) ? grown(n, filled, &y) : filled;
}

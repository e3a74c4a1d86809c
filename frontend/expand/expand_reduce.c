/* Reductions, softmax and normalizations. */
#include <string.h>

#include "operators.h"

static MlirValue square(import_node *n, MlirValue x) {
  return MUL(x, x);
}

/* ---- Reduce* ---- */

typedef struct reduction {
  uint32_t dims; /* bit set */
  bool keep, nothing;
} reduction;

/* Axes are an attribute up to opset 12 (ReduceSum) or 17 (the others), an input since. */
static reduction reduction_of(import_node *n) {
  int64_t until =
      n->op->op == WAFER_OP_reduce_sum && !strcmp(n->node->op_type, "ReduceSum") ? 13 : 18;
  uint32_t rank = node_rank(n, node_input(n, 0));
  int_list axes = attr_ints_moved(n, "axes", until, 1);
  reduction r = {.keep = attr_int(n, "keepdims", 1) != 0};
  r.dims = axes.count ? node_axes(n, axes, rank) : (1u << rank) - 1;
  r.nothing = !axes.count && attr_int(n, "noop_with_empty_axes", 0);
  return r;
}

static MlirValue reduce_by(import_node *n, wafer_op op, MlirValue x, reduction r) {
  return r.nothing ? x : emit_reduce(n, op, x, r.dims, r.keep);
}

void import_reduce(import_node *n) {
  n->outputs[0] = reduce_by(n, n->op->op, node_input(n, 0), reduction_of(n));
}

void import_reduce_l1(import_node *n) {
  n->outputs[0] = reduce_by(n, WAFER_OP_reduce_sum, emit_unary(n, WAFER_OP_abs, node_input(n, 0)),
                            reduction_of(n));
}

void import_reduce_l2(import_node *n) {
  MlirValue sum = reduce_by(n, WAFER_OP_reduce_sum, square(n, node_input(n, 0)), reduction_of(n));
  n->outputs[0] = emit_unary(n, WAFER_OP_sqrt, sum);
}

void import_reduce_log_sum(import_node *n) {
  n->outputs[0] = emit_unary(n, WAFER_OP_log,
                             reduce_by(n, WAFER_OP_reduce_sum, node_input(n, 0), reduction_of(n)));
}

void import_reduce_sum_square(import_node *n) {
  n->outputs[0] = reduce_by(n, WAFER_OP_reduce_sum, square(n, node_input(n, 0)), reduction_of(n));
}

/* m + log(sum(exp(x - m))) with m the largest: nothing overflows. `bounded`: the largest number, so
 * that infinities are those of the result, too; else they have none. */
static MlirValue log_sum_exp(import_node *n, MlirValue x, uint32_t dims, bool bounded) {
  MlirValue largest = emit_reduce(n, WAFER_OP_reduce_max, x, dims, true);
  double least, most;
  wafer_dtype_range(node_dtype(n, x), &least, &most);
  if (bounded) largest = emit_clip(n, largest, least, most);
  MlirValue sum =
      emit_reduce(n, WAFER_OP_reduce_sum, emit_unary(n, WAFER_OP_exp, SUB(x, largest)), dims, true);
  return ADD(largest, emit_unary(n, WAFER_OP_log, sum));
}

void import_reduce_log_sum_exp(import_node *n) {
  reduction r = reduction_of(n);
  MlirValue x = node_input(n, 0);
  if (r.nothing) {
    n->outputs[0] = x;
    return;
  }
  MlirValue kept = log_sum_exp(n, x, r.dims, true);
  wafer_shape shape = {0}, full = node_type(n, kept).shape;
  for (uint32_t i = 0; i < full.rank; i++)
    if (!(r.dims >> i & 1)) shape.dims[shape.rank++] = full.dims[i];
  n->outputs[0] = r.keep ? kept : emit_reshape(n, kept, shape.rank, shape.dims);
}

static MlirValue arg_extreme(import_node *n, MlirValue x, uint32_t axis, bool keep) {
  wafer_attr attrs[] = {INT_ATTR(axis, axis), INT_ATTR(keepdims, keep),
                        INT_ATTR(last, attr_int(n, "select_last_index", 0))};
  return emit_op(n, n->op->op, 1, &x, attrs, WAFER_COUNT(attrs));
}

void import_arg(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t axis = node_axis(n, attr_int(n, "axis", 0), node_rank(n, x));
  n->outputs[0] = arg_extreme(n, x, axis, attr_int(n, "keepdims", 1) != 0);
}

/* ---- Softmax and its relatives ---- */

/* Up to opset 12 the dims from `axis` on are one; since then `axis` is the only one. */
typedef struct soft_site {
  MlirValue x; /* as two dims for the old meaning */
  uint32_t axis;
  wafer_shape shape; /* of the operand */
} soft_site;

static soft_site soft_site_of(import_node *n) {
  soft_site s = {.x = node_input(n, 0), .shape = node_type(n, node_input(n, 0)).shape};
  bool flat = n->opset < 13;
  if (flat && attr_int(n, "axis", 1) == (int64_t)s.shape.rank)
    node_bad(n, "axis %u has no dims behind it", s.shape.rank);
  s.axis = node_axis(n, attr_int(n, "axis", flat ? 1 : -1), s.shape.rank);
  if (!flat || s.axis + 1 == s.shape.rank) return s;
  int64_t two[] = {1, 1};
  for (uint32_t i = 0; i < s.shape.rank; i++) two[i >= s.axis] *= s.shape.dims[i];
  s.x = emit_reshape(n, s.x, 2, two);
  s.axis = 1;
  return s;
}

static void soft_done(import_node *n, const soft_site *s, MlirValue result) {
  n->outputs[0] = emit_reshape(n, result, s->shape.rank, s->shape.dims);
}

void import_softmax(import_node *n) {
  soft_site s = soft_site_of(n);
  soft_done(n, &s, emit_softmax(n, s.x, s.axis));
}

MlirValue emit_log_softmax(import_node *n, MlirValue x, uint32_t axis) {
  return SUB(x, log_sum_exp(n, x, 1u << axis, false));
}

void import_log_softmax(import_node *n) {
  soft_site s = soft_site_of(n);
  soft_done(n, &s, emit_log_softmax(n, s.x, s.axis));
}

/* 1 where the largest element stands, 0 elsewhere. */
void import_hardmax(import_node *n) {
  soft_site s = soft_site_of(n);
  wafer_shape shape = node_type(n, s.x).shape, line = {.rank = shape.rank};
  for (uint32_t i = 0; i < shape.rank; i++) line.dims[i] = i == s.axis ? shape.dims[i] : 1;
  MlirValue at = arg_extreme(n, s.x, s.axis, true);
  MlirValue index = emit_reshape(
      n, emit_iota(n, WAFER_DTYPE_i64, line.rank ? line.dims[s.axis] : 1), line.rank, line.dims);
  soft_done(n, &s, emit_cast(n, emit_binary(n, WAFER_OP_equal, at, index), node_dtype(n, s.x)));
}

/* ---- Normalizations ---- */

normalized emit_normalized(import_node *n, MlirValue x, uint32_t dims, double epsilon) {
  normalized r;
  r.mean = emit_reduce(n, WAFER_OP_reduce_mean, x, dims, true);
  MlirValue centered = SUB(x, r.mean);
  MlirValue variance = emit_reduce(n, WAFER_OP_reduce_mean, square(n, centered), dims, true);
  MlirValue deviation =
      emit_unary(n, WAFER_OP_sqrt, ADD(variance, emit_scalar_like(n, x, epsilon)));
  r.inverse = emit_unary(n, WAFER_OP_reciprocal, deviation);
  r.y = MUL(centered, r.inverse);
  return r;
}

/* A vector over dim 1 of a tensor of this rank. */
static MlirValue along_channels(import_node *n, MlirValue vector, uint32_t rank) {
  int64_t dims[WAFER_MAX_RANK];
  wafer_shape shape = node_type(n, vector).shape;
  if (shape.rank != 1) node_bad(n, "scale and bias must have one dim, not %u", shape.rank);
  for (uint32_t i = 0; i < rank; i++) dims[i] = i == 1 ? shape.dims[0] : 1;
  return emit_reshape(n, vector, rank, dims);
}

/* share * a + (1 - share) * b, in a's type */
static MlirValue running(import_node *n, MlirValue a, MlirValue b, double share) {
  b = emit_cast(n, b, node_dtype(n, a));
  return ADD(MUL(a, emit_scalar_like(n, a, share)), MUL(b, emit_scalar_like(n, a, 1 - share)));
}

/* By the mean and variance of the batch itself. The running ones of opset 14 and later follow. */
static void train_batch_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  double momentum = attr_float(n, "momentum", 0.9);
  if (n->status == WAFER_OK && s.rank < 2) node_bad(n, "the operand has %u dims", s.rank);
  if (n->status != WAFER_OK) return;
  uint32_t others = ((1u << s.rank) - 1) & ~2u;
  MlirValue mean = emit_reduce(n, WAFER_OP_reduce_mean, x, others, false);
  MlirValue centered = SUB(x, along_channels(n, mean, s.rank));
  MlirValue variance = emit_reduce(n, WAFER_OP_reduce_mean, square(n, centered), others, false);
  MlirValue operands[] = {x, node_input(n, 1), node_input(n, 2), mean, variance};
  wafer_attr attr = FLOAT_ATTR(epsilon, attr_float(n, "epsilon", 1e-5));
  n->outputs[0] = emit_op(n, WAFER_OP_batch_norm, 5, operands, &attr, 1);
  const MlirValue kept[] = {running(n, node_input(n, 3), mean, momentum),
                            running(n, node_input(n, 4), variance, momentum)};
  for (uint32_t i = 0; i < 2 && n->status == WAFER_OK; i++) {
    training_keeps(n->im, node_input(n, 3 + i), kept[i]);
    if (n->output_count > i + 1) n->outputs[i + 1] = kept[i];
  }
  if (n->opset >= 14) return;
  if (n->output_count > 3) n->outputs[3] = mean;
  if (n->output_count > 4) n->outputs[4] = variance;
}

void import_batch_norm(import_node *n) {
  bool trains = n->opset < 7 ? !attr_int(n, "is_test", 0) : attr_int(n, "training_mode", 0) != 0;
  const wafer_training_options *options = n->im->training.options;
  bool judged = trains && options && options->evaluate; /* by what training has kept */
  if (!attr_int(n, "spatial", 1))
    node_problem(n, WAFER_PROBLEM_attribute, "statistics per element (spatial = 0)");
  if (trains && !judged) {
    train_batch_norm(n);
    return;
  }
  wafer_view view; /* without training mode statistics are no parameters: they stay as they are */
  for (uint32_t i = 3; i < 5 && !judged; i++) training_known(n->im, node_input(n, i), true, &view);
  wafer_attr attr = FLOAT_ATTR(epsilon, attr_float(n, "epsilon", 1e-5));
  n->outputs[0] = emit_op(n, WAFER_OP_batch_norm, 5, n->inputs, &attr, 1);
  for (uint32_t i = 1; judged && i < 3; i++) {
    training_keeps(n->im, node_input(n, 2 + i), node_input(n, 2 + i));
    if (i < n->output_count) n->outputs[i] = node_input(n, 2 + i);
  }
}

/* All dims behind the channels, or groups of them. */
static uint32_t spatial_dims(uint32_t rank) {
  return ((1u << rank) - 1) & ~3u;
}

/* (N, C, ...) as (N, groups, C / groups, ...): no dim is merged with another, so that every core
 * normalizes what it has. Of too many dims those behind the groups become one. */
static MlirValue in_groups(import_node *n, MlirValue x, int64_t groups) {
  wafer_shape from = node_type(n, x).shape,
              to = {.rank = 3, .dims = {from.dims[0], groups, from.dims[1] / groups}};
  for (uint32_t i = 2; i < from.rank; i++)
    if (from.rank < WAFER_MAX_RANK)
      to.dims[to.rank++] = from.dims[i];
    else
      to.dims[2] *= from.dims[i];
  return emit_reshape(n, x, to.rank, to.dims);
}

/* x, or where it is a reshape of (N, C, ...) to (N, groups, ...), as exporters write a group
 * normalization, that in groups. */
static MlirValue unmerged(import_node *n, MlirValue x) {
  if (!mlirValueIsAOpResult(x)) return x;
  MlirOperation op = mlirOpResultGetOwner(x);
  if (wafer_ir_op(op) != WAFER_OP_reshape) return x;
  MlirValue before = mlirOperationGetOperand(op, 0);
  wafer_shape from = node_type(n, before).shape, to = node_type(n, x).shape;
  bool is_grouped = from.rank > 1 && to.rank > 2 && from.dims[0] == to.dims[0] && to.dims[1] > 0 &&
                    from.dims[1] % to.dims[1] == 0;
  return is_grouped ? in_groups(n, before, to.dims[1]) : x;
}

void import_instance_norm(import_node *n) {
  MlirValue x = node_input(n, 0), grouped = unmerged(n, x);
  wafer_shape shape = node_type(n, x).shape;
  uint32_t rank = node_rank(n, grouped);
  MlirValue y = emit_normalized(n, grouped, spatial_dims(rank), attr_float(n, "epsilon", 1e-5)).y;
  y = MUL(y, along_channels(n, node_input(n, 1), rank));
  y = ADD(y, along_channels(n, node_input(n, 2), rank));
  n->outputs[0] = grouped.ptr == x.ptr ? y : emit_reshape(n, y, shape.rank, shape.dims);
}

/* Scale and bias: one per group up to opset 20, one per channel since. */
static MlirValue per_channel(import_node *n, MlirValue vector, int64_t groups, int64_t channels) {
  wafer_shape shape = node_type(n, vector).shape;
  if (n->opset >= 21 || shape.rank != 1 || shape.dims[0] != groups) return vector;
  MlirValue wide = emit_expand(n, emit_reshape(n, vector, 2, (int64_t[]){groups, 1}), 2,
                               (int64_t[]){groups, channels / groups});
  return emit_reshape(n, wide, 1, &channels);
}

MlirValue emit_group_normalized(import_node *n, MlirValue x, int64_t groups, double epsilon) {
  wafer_shape shape = node_type(n, x).shape;
  MlirValue grouped = in_groups(n, x, groups);
  uint32_t dims = spatial_dims(node_rank(n, grouped));
  return emit_reshape(n, emit_normalized(n, grouped, dims, epsilon).y, shape.rank, shape.dims);
}

void import_group_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  int64_t groups = attr_int(n, "num_groups", 0);
  if (shape.rank < 2 || groups < 1 || shape.dims[1] % groups) {
    node_bad(n, "num_groups %lld does not divide the channels", (long long)groups);
    return;
  }
  int64_t channels = shape.dims[1];
  MlirValue y = emit_group_normalized(n, x, groups, attr_float(n, "epsilon", 1e-5));
  y = MUL(y, along_channels(n, per_channel(n, node_input(n, 1), groups, channels), shape.rank));
  n->outputs[0] =
      ADD(y, along_channels(n, per_channel(n, node_input(n, 2), groups, channels), shape.rank));
}

/* The dims from attribute `axis` on. */
static uint32_t dims_from_axis(import_node *n, uint32_t rank) {
  uint32_t axis = node_axis(n, attr_int(n, "axis", -1), rank);
  return ((1u << rank) - 1) & ~((1u << axis) - 1);
}

/* Mean and 1 / deviation are of type stash_type. */
void import_layer_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_dtype stash = attr_dtype(n, "stash_type", WAFER_DTYPE_f32);
  normalized r =
      emit_normalized(n, x, dims_from_axis(n, node_rank(n, x)), attr_float(n, "epsilon", 1e-5));
  MlirValue y = MUL(r.y, node_input(n, 1));
  n->outputs[0] = node_has_input(n, 2) ? ADD(y, node_input(n, 2)) : y;
  if (n->output_count > 1) n->outputs[1] = emit_cast(n, r.mean, stash);
  if (n->output_count > 2) n->outputs[2] = emit_cast(n, r.inverse, stash);
}

MlirValue emit_rms_normalized(import_node *n, MlirValue x, uint32_t dims, double epsilon) {
  MlirValue mean = emit_reduce(n, WAFER_OP_reduce_mean, square(n, x), dims, true);
  return DIV(x, emit_unary(n, WAFER_OP_sqrt, ADD(mean, emit_scalar_like(n, x, epsilon))));
}

void import_rms_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t dims = dims_from_axis(n, node_rank(n, x));
  MlirValue y = emit_rms_normalized(n, x, dims, attr_float(n, "epsilon", 1e-5));
  n->outputs[0] = MUL(y, node_input(n, 1));
}

void import_mean_variance_norm(import_node *n) {
  static const int64_t usual[] = {0, 2, 3};
  MlirValue x = node_input(n, 0);
  int_list axes = attr_ints(n, "axes");
  uint32_t dims = node_axes(n, axes.count ? axes : (int_list){3, usual}, node_rank(n, x));
  MlirValue centered = SUB(x, emit_reduce(n, WAFER_OP_reduce_mean, x, dims, true));
  MlirValue variance = emit_reduce(n, WAFER_OP_reduce_mean, square(n, centered), dims, true);
  n->outputs[0] =
      DIV(centered, ADD(emit_unary(n, WAFER_OP_sqrt, variance), emit_scalar_like(n, x, 1e-9)));
}

void import_lp_norm(import_node *n) {
  MlirValue x = node_input(n, 0);
  int64_t p = attr_int(n, "p", 2);
  uint32_t axis = node_axis(n, attr_int(n, "axis", -1), node_rank(n, x));
  if (p != 1 && p != 2) node_bad(n, "p is %lld, must be 1 or 2", (long long)p);
  MlirValue size = p == 1 ? emit_unary(n, WAFER_OP_abs, x) : square(n, x);
  MlirValue sum = emit_reduce(n, WAFER_OP_reduce_sum, size, 1u << axis, true);
  MlirValue length = p == 1 ? sum : emit_unary(n, WAFER_OP_sqrt, sum),
            zero = emit_scalar_like(n, x, 0);
  MlirValue empty = emit_binary(n, WAFER_OP_equal, length, zero); /* a zero vector stays one */
  n->outputs[0] = DIV(x, emit_select(n, empty, emit_scalar_like(n, x, 1), length));
}

/* x / (bias + alpha / size * (sum of squares of `size` neighbouring channels)) ^ beta */
void import_lrn(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape shape = node_type(n, x).shape;
  int64_t size = attr_int(n, "size", 1), rest = 1;
  if (shape.rank < 2 || size < 1 || size > INT32_MAX) {
    node_bad(n, "size %lld on %u dims", (long long)size, shape.rank);
    return;
  }
  for (uint32_t i = 2; i < shape.rank; i++) rest *= shape.dims[i];
  int64_t four[] = {shape.dims[0], 1, shape.dims[1], rest}, ones[] = {1, 1}, kernel[] = {size, 1};
  int64_t pads[] = {(size - 1) / 2, 0, size / 2, 0};
  wafer_attr attrs[] = {INTS_ATTR(kernel, 2, kernel),  INTS_ATTR(strides, 2, ones),
                        INTS_ATTR(dilations, 2, ones), INTS_ATTR(pads, 4, pads),
                        INT_ATTR(ceil_mode, 0),        INT_ATTR(count_include_pad, 1)};
  MlirValue squares = emit_reshape(n, square(n, x), 4, four);
  MlirValue mean = emit_op(n, WAFER_OP_average_pool, 1, &squares, attrs, WAFER_COUNT(attrs));
  mean = emit_reshape(n, mean, shape.rank, shape.dims);
  MlirValue scaled = MUL(mean, emit_scalar_like(n, x, attr_float(n, "alpha", 1e-4)));
  MlirValue base = ADD(scaled, emit_scalar_like(n, x, attr_float(n, "bias", 1)));
  n->outputs[0] = DIV(
      x, emit_binary(n, WAFER_OP_pow, base, emit_scalar_like(n, x, attr_float(n, "beta", 0.75))));
}

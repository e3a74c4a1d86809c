/* Convolutions, pools and matrix products. */
#include <string.h>

#include "operators.h"

#define MOST_SPATIAL (WAFER_MAX_RANK - 2)

/* Strides, dilations and pads (begins, then ends) of a sliding window. */
typedef struct window {
  uint32_t spatial;
  int64_t kernel[MOST_SPATIAL], strides[MOST_SPATIAL], dilations[MOST_SPATIAL],
      pads[2 * MOST_SPATIAL];
} window;

static void fill_ints(import_node *n, const char *name, uint32_t count, int64_t absent,
                      int64_t *out) {
  int_list list = attr_ints(n, name);
  if (list.count && list.count != count)
    node_bad(n, "attribute %s has %u entries, needs %u", name, list.count, count);
  for (uint32_t i = 0; i < count; i++) {
    out[i] = list.count == count ? list.at[i] : absent;
    if (out[i] >= INT32_MIN && out[i] <= INT32_MAX) continue;
    node_bad(n, "%s[%u] is %lld", name, i, (long long)out[i]);
    out[i] = absent;
  }
}

static void check_window(import_node *n, const window *w) {
  for (uint32_t i = 0; i < w->spatial; i++) {
    const int64_t all[] = {w->kernel[i], w->strides[i], w->dilations[i]};
    for (uint32_t j = 0; j < 3; j++)
      if (all[j] < 1 || all[j] > INT32_MAX)
        node_bad(n, "%s of spatial dim %u is %lld, must be at least 1",
                 (const char *[]){"the kernel", "the stride", "the dilation"}[j], i,
                 (long long)all[j]);
  }
}

/* Elements that the kernel spans. */
static int64_t span_of(const window *w, uint32_t i) {
  return (w->kernel[i] - 1) * w->dilations[i] + 1;
}

/* Puts `total` padding around dim i; the odd element at the end, or at the begin when `lower`. */
static void share_pads(window *w, uint32_t i, int64_t total, bool lower) {
  total = total > 0 ? total : 0;
  w->pads[i] = lower ? total - total / 2 : total / 2;
  w->pads[i + w->spatial] = total - w->pads[i];
}

/* SAME: ceil(in / stride) positions. */
static void pad_window(import_node *n, window *w, const wafer_shape *x) {
  const char *mode = attr_text(n, "auto_pad", "NOTSET");
  bool upper = !strcmp(mode, "SAME_UPPER"), lower = !strcmp(mode, "SAME_LOWER");
  if (!*mode || !strcmp(mode, "NOTSET")) {
    fill_ints(n, "pads", 2 * w->spatial, 0, w->pads);
  } else if (upper || lower) {
    for (uint32_t i = 0; i < w->spatial; i++) {
      int64_t in = x->dims[i + 2], out = in / w->strides[i] + (in % w->strides[i] != 0);
      share_pads(w, i, (out - 1) * w->strides[i] + span_of(w, i) - in, lower);
    }
  } else if (strcmp(mode, "VALID")) {
    node_bad(n, "auto_pad is '%s', must be NOTSET, SAME_UPPER, SAME_LOWER or VALID", mode);
  }
}

/* All but kernel and pads. */
static window begin_window(import_node *n, MlirValue x) {
  window w = {0};
  uint32_t rank = node_rank(n, x);
  if (n->status == WAFER_OK && (rank < 3 || rank > 5)) {
    if (rank < 3) node_bad(n, "the operand has %u dims, needs at least 3", rank);
    node_unsupported(n, "%u spatial dims; at most 3 are supported", rank - 2);
  }
  if (n->status != WAFER_OK) return w;
  w.spatial = rank - 2;
  fill_ints(n, "strides", w.spatial, 1, w.strides);
  fill_ints(n, "dilations", w.spatial, 1, w.dilations);
  return w;
}

/* The kernel of a convolution is its weight's shape; attribute kernel_shape must agree. */
static void kernel_of_weight(import_node *n, window *w, MlirValue of) {
  wafer_shape weight = node_type(n, of).shape;
  int64_t named[MOST_SPATIAL];
  if (n->status == WAFER_OK && weight.rank != w->spatial + 2)
    node_bad(n, "the weight has %u dims, the operand %u", weight.rank, w->spatial + 2);
  if (n->status != WAFER_OK) return;
  memcpy(w->kernel, weight.dims + 2, w->spatial * sizeof *w->kernel);
  for (uint32_t i = 0; i < w->spatial; i++) named[i] = w->kernel[i];
  if (attr_has(n, "kernel_shape")) fill_ints(n, "kernel_shape", w->spatial, 0, named);
  for (uint32_t i = 0; i < w->spatial; i++)
    if (named[i] != w->kernel[i])
      node_bad(n, "kernel_shape[%u] is %lld, the weight has %lld", i, (long long)named[i],
               (long long)w->kernel[i]);
}

MlirValue emit_channels_moved(import_node *n, MlirValue x, bool first) {
  uint32_t rank = node_rank(n, x);
  int64_t perm[WAFER_MAX_RANK] = {0};
  for (uint32_t d = 1; d < rank; d++)
    perm[d] = first ? (d == 1 ? rank - 1 : d - 1) : (d + 1 == rank ? 1 : d + 1);
  return emit_transpose(n, x, rank, perm);
}

/* ---- Convolutions ---- */

MlirValue emit_conv(import_node *n, MlirValue x, MlirValue weight, MlirValue bias) {
  window w = begin_window(n, x);
  wafer_shape shape = node_type(n, x).shape;
  kernel_of_weight(n, &w, weight);
  check_window(n, &w);
  if (n->status == WAFER_OK) pad_window(n, &w, &shape);
  wafer_attr attrs[] = {
      INT_ATTR(group, attr_int(n, "group", 1)), INTS_ATTR(strides, w.spatial, w.strides),
      INTS_ATTR(dilations, w.spatial, w.dilations), INTS_ATTR(pads, 2 * w.spatial, w.pads)};
  MlirValue operands[] = {x, weight, bias};
  return emit_op(n, WAFER_OP_conv, bias.ptr ? 3 : 2, operands, attrs, WAFER_COUNT(attrs));
}

MlirValue emit_conv_along(import_node *n, MlirValue x, MlirValue weight, MlirValue bias,
                          int64_t group, int64_t stride) {
  static const int64_t one = 1, no_pads[2];
  wafer_attr attrs[] = {INT_ATTR(group, group), INTS_ATTR(strides, 1, &stride),
                        INTS_ATTR(dilations, 1, &one), INTS_ATTR(pads, 2, no_pads)};
  MlirValue operands[] = {x, weight, bias};
  return emit_op(n, WAFER_OP_conv, bias.ptr ? 3 : 2, operands, attrs, WAFER_COUNT(attrs));
}

void import_conv(import_node *n) {
  n->outputs[0] = emit_conv(n, node_input(n, 0), node_input(n, 1), node_input(n, 2));
}

/* Pads from a wished output shape, or SAME: in * stride. */
static void pad_transposed(import_node *n, window *w, const wafer_shape *x, int64_t *extra) {
  int_list shape = attr_ints(n, "output_shape");
  const char *mode = attr_text(n, "auto_pad", "NOTSET");
  bool upper = !strcmp(mode, "SAME_UPPER"), same = upper || !strcmp(mode, "SAME_LOWER");
  if (!same && !shape.count) {
    pad_window(n, w, x);
    return;
  }
  if (shape.count && shape.count < w->spatial)
    node_bad(n, "output_shape has %u dims, needs %u", shape.count, w->spatial);
  for (uint32_t i = 0; i < w->spatial && n->status == WAFER_OK; i++) {
    int64_t in = x->dims[i + 2];
    if (in > INT64_MAX / 4 / w->strides[i]) {
      node_bad(n, "%lld elements of spatial dim %u are too many", (long long)in, i);
      return;
    }
    int64_t out = shape.count ? shape.at[shape.count - w->spatial + i] : in * w->strides[i];
    int64_t total = w->strides[i] * (in - 1) + extra[i] + span_of(w, i) - out;
    /* Beyond the kernel's reach a wished shape has nothing but the bias; SAME ends before it. */
    if (total < 0 && shape.count) extra[i] -= total;
    share_pads(w, i, total, !upper);
  }
}

void import_conv_transpose(import_node *n) {
  window w = begin_window(n, node_input(n, 0));
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int64_t extra[MOST_SPATIAL];
  kernel_of_weight(n, &w, node_input(n, 1));
  check_window(n, &w);
  fill_ints(n, "output_padding", w.spatial, 0, extra);
  if (n->status == WAFER_OK) pad_transposed(n, &w, &x, extra);
  wafer_attr attrs[] = {
      INT_ATTR(group, attr_int(n, "group", 1)), INTS_ATTR(strides, w.spatial, w.strides),
      INTS_ATTR(dilations, w.spatial, w.dilations), INTS_ATTR(pads, 2 * w.spatial, w.pads),
      INTS_ATTR(output_padding, w.spatial, extra)};
  uint32_t operands = node_has_input(n, 2) ? 3 : 2;
  n->outputs[0] =
      emit_op(n, WAFER_OP_conv_transpose, operands, n->inputs, attrs, WAFER_COUNT(attrs));
}

/* ---- Pools ---- */

static window pool_window(import_node *n, MlirValue operand) {
  window w = begin_window(n, operand);
  wafer_shape x = node_type(n, operand).shape;
  if (!attr_has(n, "kernel_shape")) node_bad(n, "attribute kernel_shape is missing");
  fill_ints(n, "kernel_shape", w.spatial, 1, w.kernel);
  check_window(n, &w);
  if (n->status == WAFER_OK) pad_window(n, &w, &x);
  return w;
}

/* One window that is the operand. */
static bool covers(const window *w, const wafer_shape *x) {
  bool whole = true;
  for (uint32_t i = 0; i < w->spatial; i++)
    whole &= w->kernel[i] == x->dims[i + 2] && (w->kernel[i] == 1 || w->dilations[i] == 1) &&
             !w->pads[i] && !w->pads[i + w->spatial];
  return whole;
}

static MlirValue pool(import_node *n, wafer_op op, MlirValue operand, const window *of) {
  const window w = *of;
  wafer_shape x = node_type(n, operand).shape;
  bool is_max = op == WAFER_OP_max_pool;
  if (n->status == WAFER_OK && covers(&w, &x))
    return emit_reduce(n, is_max ? WAFER_OP_reduce_max : WAFER_OP_reduce_mean, operand,
                       ((1u << x.rank) - 1) & ~3u, true);
  const char *mode = attr_text(n, "auto_pad", "NOTSET");
  bool same = !strncmp(mode, "SAME", 4);
  wafer_attr attrs[] = {INTS_ATTR(kernel, w.spatial, w.kernel),
                        INTS_ATTR(strides, w.spatial, w.strides),
                        INTS_ATTR(dilations, w.spatial, w.dilations),
                        INTS_ATTR(pads, 2 * w.spatial, w.pads),
                        INT_ATTR(ceil_mode, same ? 0 : attr_int(n, "ceil_mode", 0)),
                        INT_ATTR(count_include_pad, attr_int(n, "count_include_pad", 0))};
  return emit_op(n, op, 1, &operand, attrs, WAFER_COUNT(attrs) - is_max);
}

MlirValue emit_pool(import_node *n, wafer_op op, MlirValue x) {
  window w = pool_window(n, x);
  return pool(n, op, x, &w);
}

static void pool_places(import_node *n, const window *w) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape, y = node_type(n, n->outputs[0]).shape;
  pool_geometry g = {.spatial = w->spatial};
  for (uint32_t i = 0; i < w->spatial; i++) {
    g.in[i] = x.dims[i + 2], g.out[i] = y.dims[i + 2];
    g.kernel[i] = w->kernel[i], g.strides[i] = w->strides[i];
    g.dilations[i] = w->dilations[i], g.pads[i] = w->pads[i];
  }
  n->outputs[1] = n->status == WAFER_OK ? emit_pool_places(n, &g) : n->outputs[0];
}

void import_pool(import_node *n) {
  MlirValue x = node_input(n, 0);
  window w = pool_window(n, x);
  n->outputs[0] = pool(n, n->op->op, x, &w);
  if (n->output_count > 1 && *n->node->output.at[1] && n->op->op == WAFER_OP_max_pool)
    pool_places(n, &w);
}

/* com.microsoft NhwcMaxPool */
void import_pool_channels_last(import_node *n) {
  MlirValue x = emit_channels_moved(n, node_input(n, 0), true);
  n->outputs[0] = emit_channels_moved(n, emit_pool(n, n->op->op, x), false);
}

/* The padding at the end that makes ceil_mode's last window a whole one. */
static void pad_last(window *w, const wafer_shape *x) {
  for (uint32_t i = 0; i < w->spatial; i++) {
    int64_t room = x->dims[i + 2] + w->pads[i] + w->pads[i + w->spatial] - span_of(w, i);
    int64_t over = room > 0 ? room % w->strides[i] : 0;
    if (over && room - over + w->strides[i] < x->dims[i + 2] + w->pads[i])
      w->pads[i + w->spatial] += w->strides[i] - over;
  }
}

/* (sum of |x|^p) ^ (1/p): the sum is an average over windows that count their padding, times their
 * size. */
static double lp_order(import_node *n) {
  return n->opset < 2 ? attr_float(n, "p", 2) : (double)attr_int(n, "p", 2);
}

void import_lp_pool(import_node *n) {
  MlirValue x = node_input(n, 0);
  window w = pool_window(n, x);
  wafer_shape shape = node_type(n, x).shape;
  double p = lp_order(n), size = 1;
  if (n->status != WAFER_OK) return;
  if (attr_int(n, "ceil_mode", 0)) pad_last(&w, &shape);
  for (uint32_t i = 0; i < w.spatial; i++) size *= (double)w.kernel[i];
  wafer_attr attrs[] = {INTS_ATTR(kernel, w.spatial, w.kernel),
                        INTS_ATTR(strides, w.spatial, w.strides),
                        INTS_ATTR(dilations, w.spatial, w.dilations),
                        INTS_ATTR(pads, 2 * w.spatial, w.pads),
                        INT_ATTR(ceil_mode, 0),
                        INT_ATTR(count_include_pad, 1)};
  MlirValue power =
      emit_binary(n, WAFER_OP_pow, emit_unary(n, WAFER_OP_abs, x), emit_scalar_like(n, x, p));
  MlirValue mean = emit_op(n, WAFER_OP_average_pool, 1, &power, attrs, WAFER_COUNT(attrs));
  n->outputs[0] = emit_binary(n, WAFER_OP_pow, MUL(mean, emit_scalar_like(n, x, size)),
                              emit_scalar_like(n, x, 1 / p));
}

/* Over all spatial dims. */
void import_global_pool(import_node *n) {
  MlirValue x = node_input(n, 0);
  uint32_t rank = node_rank(n, x);
  n->outputs[0] = emit_reduce(n, n->op->op, x, ((1u << rank) - 1) & ~3u, true);
}

void import_global_lp_pool(import_node *n) {
  MlirValue x = node_input(n, 0), size = emit_unary(n, WAFER_OP_abs, x);
  double p = lp_order(n);
  uint32_t rank = node_rank(n, x);
  MlirValue power = emit_binary(n, WAFER_OP_pow, size, emit_scalar_like(n, x, p));
  MlirValue sum = emit_reduce(n, WAFER_OP_reduce_sum, power, ((1u << rank) - 1) & ~3u, true);
  n->outputs[0] = emit_binary(n, WAFER_OP_pow, sum, emit_scalar_like(n, x, 1 / p));
}

/* ---- Matrix products ---- */

/* A vector counts as a row on the left, as a column on the right; its dim of 1 goes again. */
MlirValue emit_matmul(import_node *n, MlirValue a, MlirValue b) {
  wafer_shape left = node_type(n, a).shape, right = node_type(n, b).shape;
  if (left.rank == 1) a = emit_reshape(n, a, 2, (int64_t[]){1, left.dims[0]});
  if (right.rank == 1) b = emit_reshape(n, b, 2, (int64_t[]){right.dims[0], 1});
  MlirValue product = emit_binary(n, WAFER_OP_matmul, a, b);
  wafer_shape full = node_type(n, product).shape, kept = {0};
  for (uint32_t i = 0; i < full.rank; i++) {
    bool dropped =
        (left.rank == 1 && i + 2 == full.rank) || (right.rank == 1 && i + 1 == full.rank);
    if (!dropped) kept.dims[kept.rank++] = full.dims[i];
  }
  return emit_reshape(n, product, kept.rank, kept.dims);
}

void import_matmul(import_node *n) {
  n->outputs[0] = emit_matmul(n, node_input(n, 0), node_input(n, 1));
}

static MlirValue scaled(import_node *n, MlirValue x, double factor) {
  return factor == 1 ? x : MUL(x, emit_scalar_like(n, x, factor));
}

/* alpha * A' * B' + beta * C */
MlirValue emit_gemm(import_node *n, MlirValue a, MlirValue b, MlirValue c) {
  if (node_rank(n, a) != 2 || node_rank(n, b) != 2)
    node_bad(n, "operands 0 and 1 must be matrices");
  if (attr_int(n, "transA", 0)) a = emit_swap_last(n, a);
  if (attr_int(n, "transB", 0)) b = emit_swap_last(n, b);
  MlirValue product = scaled(n, emit_binary(n, WAFER_OP_matmul, a, b), attr_float(n, "alpha", 1));
  double beta = attr_float(n, "beta", 1);
  return c.ptr && beta != 0 ? ADD(product, scaled(n, c, beta)) : product;
}

void import_gemm(import_node *n) {
  n->outputs[0] = emit_gemm(n, node_input(n, 0), node_input(n, 1), node_input(n, 2));
}

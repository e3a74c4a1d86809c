/* What windows do not read. */
#include "simplify_channel.h"

/* ---- Elements between ----
 *
 * Windows whose stride and dilation have a common divisor visit every g-th element only: those
 * alone are cut out, and the window slides over them with stride / g and dilation / g. A core then
 * holds what it reads and nothing between. */

/* A window along one dim; pads: before and behind. */
typedef struct visited {
  int64_t in, out, kernel, stride, dilation, before, behind;
  int64_t step, first; /* what it visits: first, first + step, ... */
} visited;

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Makes it a window over the visited elements. False: it visits all, or none. */
static bool thin(visited *v) {
  int64_t g = v->kernel > 1 ? gcd(v->stride, v->dilation) : 1;
  v->step = 1, v->first = 0;
  if (g == 1) return false;
  v->first = (g - v->before % g) % g;
  v->step = g;
  if (v->first >= v->in) return false;
  v->before = (v->before + v->first) / g;
  v->stride /= g;
  v->dilation /= g;
  int64_t have = (v->in - v->first - 1) / g + 1;
  int64_t reach = (v->out - 1) * v->stride + (v->kernel - 1) * v->dilation + 1 - v->before;
  if (reach < 1) return false;
  v->in = have < reach ? have : reach;
  v->behind = reach - v->in;
  return true;
}

typedef struct windows {
  uint32_t spatial;
  int64_t strides[WAFER_MAX_RANK], dilations[WAFER_MAX_RANK], pads[2 * WAFER_MAX_RANK];
  int64_t starts[WAFER_MAX_RANK], steps[WAFER_MAX_RANK];
  wafer_shape kept; /* the operand's elements that are visited */
} windows;

/* The kernel's dims: an attribute of pools, those of a convolution's weight. */
static void kernel_of(MlirOperation op, const wafer_attrs *attrs, uint32_t spatial, int64_t *out) {
  uint32_t count;
  bool conv = wafer_ir_op(op) == WAFER_OP_conv;
  wafer_shape weight = conv ? operand_type(op, 1).shape : (wafer_shape){0};
  const int64_t *kernel = conv ? NULL : wafer_attr_ints(attrs, WAFER_ATTR_kernel, &count);
  for (uint32_t i = 0; i < spatial; i++) out[i] = conv ? weight.dims[i + 2] : kernel[i];
}

static bool thin_all(MlirOperation op, const wafer_attrs *attrs, windows *w) {
  wafer_shape x = operand_type(op, 0).shape, y = result_type(op).shape;
  int64_t kernel[WAFER_MAX_RANK];
  uint32_t count;
  const int64_t *strides = wafer_attr_ints(attrs, WAFER_ATTR_strides, &count);
  const int64_t *dilations = wafer_attr_ints(attrs, WAFER_ATTR_dilations, &count);
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &count);
  bool any = false;
  *w = (windows){.spatial = x.rank - 2, .kept = x, .steps = {1, 1}};
  kernel_of(op, attrs, w->spatial, kernel);
  for (uint32_t i = 0; i < w->spatial; i++) {
    visited v = {.in = x.dims[i + 2],
                 .out = y.dims[i + 2],
                 .kernel = kernel[i],
                 .stride = strides[i],
                 .dilation = dilations[i],
                 .before = pads[i],
                 .behind = pads[w->spatial + i]};
    const visited whole = v;
    if (v.out < 1 || v.before < 0 || v.behind < 0) return false;
    if (thin(&v))
      any = true;
    else
      v = whole, v.step = 1;
    w->strides[i] = v.stride, w->dilations[i] = v.dilation;
    w->pads[i] = v.before, w->pads[w->spatial + i] = v.behind;
    w->starts[i + 2] = v.first, w->steps[i + 2] = v.step;
    w->kept.dims[i + 2] = v.in;
  }
  return any;
}

static wafer_status build_slice(wafer_builder *b, MlirValue x, const windows *w, MlirValue *value) {
  uint32_t rank = w->kept.rank;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_starts, .ints = {rank, w->starts}},
                        {.id = WAFER_ATTR_steps, .ints = {rank, w->steps}},
                        {.id = WAFER_ATTR_shape, .ints = {rank, w->kept.dims}}};
  return wafer_build(b, WAFER_OP_slice, 1, &x, attrs, WAFER_COUNT(attrs), value);
}

/* The op with these windows, and with what they keep of an operand in place of it. */
static wafer_status rebuild(const simplifier *s, MlirOperation op, const wafer_attrs *attrs,
                            uint32_t operand, const windows *w, MlirValue *value) {
  MlirValue operands[WAFER_OP_MAX_OPERANDS];
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  wafer_attr *own = wafer_arena_copy(s->ctx->arena, attrs->at, attrs->count * sizeof *attrs->at);
  if (!own) return channel_no_memory(s, op);
  for (uint32_t i = 0; i < attrs->count; i++) {
    if (own[i].id == WAFER_ATTR_strides) own[i].ints.at = w->strides;
    if (own[i].id == WAFER_ATTR_dilations) own[i].ints.at = w->dilations;
    if (own[i].id == WAFER_ATTR_pads) own[i].ints.at = w->pads;
  }
  for (uint32_t i = 0; i < count; i++) operands[i] = mlirOperationGetOperand(op, i);
  wafer_builder b = build_before(s, op, op);
  WAFER_TRY(build_slice(&b, operands[operand], w, &operands[operand]));
  return wafer_build(&b, wafer_ir_op(op), count, operands, own, attrs->count, value);
}

wafer_status rewrite_sparse_window(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  windows w;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  if (wafer_ir_op(op) != WAFER_OP_conv && wafer_attr_int(&attrs, WAFER_ATTR_ceil_mode))
    return WAFER_OK;
  return thin_all(op, &attrs, &w) ? rebuild(s, op, &attrs, 0, &w, value) : WAFER_OK;
}

/* ---- Taps that meet pads alone ----
 *
 * A dilation as large as the image leaves but some taps that any window lays on it; a core would
 * hold pads for the others. A constant loses them here; of a weight that changes cores have to move
 * what is left, which pays where many go. */

#define MANY_IDLE 2 /* one part in these is left */

typedef struct taps {
  int64_t first, count;
} taps;

/* Of one dim, in which windows begin at -before, stride - before ... Pads must not be left that are
 * less than nothing. */
static taps live_taps(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
                      int64_t before, int64_t behind) {
  int64_t first = 0, last = kernel - 1;
  while (first < last && (out - 1) * stride + first * dilation < before) first++;
  while (last > first && last * dilation - before >= in) last--;
  bool fine = before >= first * dilation && behind >= (kernel - 1 - last) * dilation;
  return fine ? (taps){first, last - first + 1} : (taps){0, kernel};
}

static bool cut_taps(MlirOperation op, const wafer_attrs *attrs, windows *w) {
  wafer_shape x = operand_type(op, 0).shape, y = result_type(op).shape,
              kernel = operand_type(op, 1).shape;
  uint32_t count, spatial = x.rank - 2;
  const int64_t *strides = wafer_attr_ints(attrs, WAFER_ATTR_strides, &count);
  const int64_t *dilations = wafer_attr_ints(attrs, WAFER_ATTR_dilations, &count);
  const int64_t *pads = wafer_attr_ints(attrs, WAFER_ATTR_pads, &count);
  int64_t taps_before = 1, taps_left = 1;
  *w = (windows){.spatial = spatial, .kept = kernel, .steps = {1, 1}};
  for (uint32_t i = 0; i < spatial; i++) {
    int64_t all = kernel.dims[i + 2], before = pads[i], behind = pads[spatial + i];
    taps t = live_taps(x.dims[i + 2], y.dims[i + 2], all, strides[i], dilations[i], before, behind);
    taps_before *= all, taps_left *= t.count;
    w->strides[i] = strides[i];
    w->dilations[i] = t.count < all && t.count == 1 ? 1 : dilations[i];
    w->pads[i] = before - t.first * dilations[i];
    w->pads[spatial + i] = behind - (all - t.first - t.count) * dilations[i];
    w->starts[i + 2] = t.first, w->steps[i + 2] = 1;
    w->kept.dims[i + 2] = t.count;
  }
  if (!wafer_ir_is_constant(mlirOperationGetOperand(op, 1)))
    return taps_left * MANY_IDLE <= taps_before;
  return taps_left < taps_before;
}

wafer_status rewrite_idle_taps(simplifier *s, MlirOperation op, MlirValue *value) {
  wafer_attrs attrs;
  windows w;
  WAFER_TRY(wafer_ir_attrs(s->ctx, op, &attrs));
  return cut_taps(op, &attrs, &w) ? rebuild(s, op, &attrs, 1, &w, value) : WAFER_OK;
}

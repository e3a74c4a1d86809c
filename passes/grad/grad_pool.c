/* Derivatives of pools. x is seen as planes (N * C, spatial dims...). */
#include <math.h>
#include <string.h>

#include "grad.h"

typedef struct pool {
  uint32_t spatial;
  const int64_t *kernel, *strides, *dilations, *pads;
  int64_t planes, in[3], out[3], taps; /* taps: elements of the kernel */
} pool;

static pool pool_of(const grad *d) {
  wafer_shape x = grad_shape(d, d->x[0]), y = grad_shape(d, d->y);
  pool p = {.planes = x.dims[0] * x.dims[1], .taps = 1};
  uint32_t pads;
  p.kernel = grad_ints(d, WAFER_ATTR_kernel, &p.spatial);
  p.strides = grad_ints(d, WAFER_ATTR_strides, &p.spatial);
  p.dilations = grad_ints(d, WAFER_ATTR_dilations, &p.spatial);
  p.pads = grad_ints(d, WAFER_ATTR_pads, &pads);
  for (uint32_t i = 0; i < p.spatial; i++) {
    p.in[i] = x.dims[i + 2], p.out[i] = y.dims[i + 2];
    p.taps *= p.kernel[i];
  }
  return p;
}

/* (planes, b...) */
static wafer_shape planes_of(const pool *p, const int64_t *b) {
  wafer_shape s = {.rank = p->spatial + 1, .dims = {p->planes}};
  for (uint32_t i = 0; i < p->spatial; i++) s.dims[i + 1] = b[i];
  return s;
}

/* The input, with pads, as far as windows reach. */
static int64_t reach(const pool *p, uint32_t i) {
  return (p->out[i] - 1) * p->strides[i] + (p->kernel[i] - 1) * p->dilations[i] + 1;
}

/* Windows lie side by side: none shares an element with another. */
static bool is_tiled(const pool *p) {
  bool tiled = true;
  for (uint32_t i = 0; i < p->spatial; i++)
    tiled = tiled && p->strides[i] == p->kernel[i] && p->dilations[i] == 1;
  return tiled;
}

/* Begins and ends that bring dim i of the input to what windows reach. */
static void pads_of(const pool *p, bool inverse, int64_t *pads) {
  memset(pads, 0, 2 * WAFER_MAX_RANK * sizeof *pads);
  for (uint32_t i = 0; i < p->spatial; i++) {
    int64_t begin = p->pads[i], end = reach(p, i) - p->in[i] - begin;
    pads[1 + i] = inverse ? -begin : begin;
    pads[2 + p->spatial + i] = inverse ? -end : end;
  }
}

/* The order of dims between (planes, out, kernel, out, kernel ...) and (planes, out..., kernel...).
 */
static void tile_order(const pool *p, int64_t *apart, int64_t *together) {
  apart[0] = 0;
  for (uint32_t i = 0; i < p->spatial; i++) {
    apart[1 + i] = 1 + 2 * i;
    apart[1 + p->spatial + i] = 2 + 2 * i;
  }
  for (uint32_t i = 0; i <= 2 * p->spatial; i++) together[apart[i]] = i;
}

static wafer_shape interleaved(const pool *p) {
  wafer_shape s = {.rank = 2 * p->spatial + 1, .dims = {p->planes}};
  for (uint32_t i = 0; i < p->spatial; i++)
    s.dims[1 + 2 * i] = p->out[i], s.dims[2 + 2 * i] = p->kernel[i];
  return s;
}

/* (planes, out..., taps) */
static wafer_shape window_shape(const pool *p) {
  wafer_shape s = planes_of(p, p->out);
  s.dims[s.rank++] = p->taps;
  return s;
}

/* Tap t of every window of the padded planes, with a last dim of 1. */
static MlirValue tap(grad *d, const pool *p, MlirValue x, int64_t t) {
  for (uint32_t i = p->spatial; i-- > 0; t /= p->kernel[i])
    x = grad_slice(d, x, 1 + i, t % p->kernel[i] * p->dilations[i], p->out[i], p->strides[i]);
  wafer_shape shape = window_shape(p);
  shape.dims[shape.rank - 1] = 1;
  return grad_reshape(d, x, &shape);
}

/* The windows of x, which `fill` surrounds. */
static MlirValue windows(grad *d, const pool *p, MlirValue x, double fill) {
  int64_t pads[2 * WAFER_MAX_RANK], apart[WAFER_MAX_RANK], together[WAFER_MAX_RANK];
  wafer_shape in = planes_of(p, p->in), mixed = interleaved(p), shape = window_shape(p);
  pads_of(p, false, pads);
  x = grad_pad(d, grad_reshape(d, x, &in), pads, fill);
  if (is_tiled(p)) {
    tile_order(p, apart, together);
    return grad_reshape(d, grad_transpose(d, grad_reshape(d, x, &mixed), apart), &shape);
  }
  MlirValue *taps = WAFER_NEW(d->b->ctx->arena, MlirValue, (size_t)p->taps);
  for (int64_t t = 0; taps && t < p->taps; t++) taps[t] = tap(d, p, x, t);
  return grad_concat_all(d, (uint32_t)p->taps, taps, shape.rank - 1);
}

/* Tap t of (taps, 1, kernel...) is 1 at its place in window t: what adds windows up. */
static MlirValue identity(grad *d, const pool *p) {
  int64_t dims[5] = {p->taps, 1};
  for (uint32_t i = 0; i < p->spatial; i++) dims[2 + i] = p->kernel[i];
  wafer_dtype dtype = grad_type(d, d->g).dtype;
  wafer_view view = grad_tensor(d, dtype, 2 + p->spatial, dims);
  for (int64_t i = 0; view.data && i < p->taps * p->taps; i++)
    wafer_element_set_f64(dtype, view.data, i, i % (p->taps + 1) == 0);
  return grad_constant(d, &view);
}

/* Sums the transposed convolution of `x` (planes, c, out...) with w over all windows: x's gradient
 * as (planes, reach...), without its pads. */
static MlirValue scattered(grad *d, const pool *p, MlirValue x, MlirValue w) {
  static const int64_t zero[6];
  wafer_attr attrs[] = {{.id = WAFER_ATTR_group, .i = 1},
                        {.id = WAFER_ATTR_strides, .ints = {p->spatial, p->strides}},
                        {.id = WAFER_ATTR_dilations, .ints = {p->spatial, p->dilations}},
                        {.id = WAFER_ATTR_pads, .ints = {2 * p->spatial, zero}},
                        {.id = WAFER_ATTR_output_padding, .ints = {p->spatial, zero}}};
  x = grad_op(d, WAFER_OP_conv_transpose, 2, (MlirValue[]){x, w}, WAFER_COUNT(attrs), attrs);
  int64_t whole[3];
  for (uint32_t i = 0; i < p->spatial; i++) whole[i] = reach(p, i);
  wafer_shape shape = planes_of(p, whole);
  return grad_reshape(d, x, &shape);
}

/* What `windows` took apart, added up where windows overlap, in x's shape. */
static MlirValue unwindows(grad *d, const pool *p, MlirValue taps) {
  int64_t pads[2 * WAFER_MAX_RANK], apart[WAFER_MAX_RANK], together[WAFER_MAX_RANK], whole[3];
  wafer_shape split = interleaved(p), x = grad_shape(d, d->x[0]), shape;
  if (is_tiled(p)) {
    wafer_shape ordered = split;
    tile_order(p, apart, together);
    for (uint32_t i = 0; i < split.rank; i++) ordered.dims[i] = split.dims[apart[i]];
    for (uint32_t i = 0; i < p->spatial; i++) whole[i] = reach(p, i);
    shape = planes_of(p, whole);
    taps = grad_reshape(d, grad_transpose(d, grad_reshape(d, taps, &ordered), together), &shape);
  } else {
    int64_t perm[WAFER_MAX_RANK] = {0, p->spatial + 1};
    for (uint32_t i = 0; i < p->spatial; i++) perm[2 + i] = 1 + i;
    taps = scattered(d, p, grad_transpose(d, taps, perm), identity(d, p));
  }
  pads_of(p, true, pads);
  return grad_reshape(d, grad_pad(d, taps, pads, 0), &x);
}

/* The first of equal maxima gets it, in the order of the kernel's taps. */
void grad_rule_max_pool(grad *d) {
  pool p = pool_of(d);
  if (d->status != WAFER_OK) return;
  wafer_shape per = window_shape(&p);
  uint32_t last = per.rank - 1;
  wafer_attr attrs[] = {{.id = WAFER_ATTR_axis, .i = last},
                        {.id = WAFER_ATTR_keepdims, .i = 1},
                        {.id = WAFER_ATTR_last, .i = 0}};
  per.dims[last] = 1;
  MlirValue all = windows(d, &p, d->x[0], -INFINITY);
  MlirValue first = grad_op(d, WAFER_OP_arg_max, 1, &all, WAFER_COUNT(attrs), attrs);
  MlirValue here = EQUAL(first, grad_iota(d, p.taps));
  MlirValue g = grad_select(d, here, grad_reshape(d, d->g, &per), grad_scalar(d, d->g, 0));
  d->part[0] = unwindows(d, &p, g);
}

/* ---- average_pool ---- */

/* Elements that window `at` of dim i counts: inside the input, or inside its pads too. */
static int64_t counted(const pool *p, uint32_t i, int64_t at, bool pads) {
  int64_t from = pads ? 0 : p->pads[i];
  int64_t to = p->pads[i] + p->in[i] + (pads ? p->pads[i + p->spatial] : 0), count = 0;
  for (int64_t t = 0; t < p->kernel[i]; t++) {
    int64_t place = at * p->strides[i] + t * p->dilations[i];
    count += place >= from && place < to;
  }
  return count;
}

/* 1 / the number of elements of each window, (out...). */
static MlirValue shares(grad *d, const pool *p) {
  bool pads = grad_int(d, WAFER_ATTR_count_include_pad) != 0;
  wafer_dtype dtype = grad_type(d, d->g).dtype;
  wafer_view view = grad_tensor(d, dtype, p->spatial, p->out);
  int64_t all = 1;
  for (uint32_t i = 0; i < p->spatial; i++) all *= p->out[i];
  for (int64_t n = 0; view.data && n < all; n++) {
    int64_t rest = n, count = 1;
    for (uint32_t i = p->spatial; i-- > 0; rest /= p->out[i])
      count *= counted(p, i, rest % p->out[i], pads);
    wafer_element_set_f64(dtype, view.data, n, count ? 1.0 / (double)count : 0);
  }
  return grad_constant(d, &view);
}

void grad_rule_average_pool(grad *d) {
  pool p = pool_of(d);
  if (d->status != WAFER_OK) return;
  wafer_shape out = planes_of(&p, p.out), windowed = window_shape(&p), x = grad_shape(d, d->x[0]);
  int64_t pads[2 * WAFER_MAX_RANK], dims[5] = {1, 1};
  MlirValue each = MUL(grad_reshape(d, d->g, &out), shares(d, &p));
  if (is_tiled(&p)) {
    windowed.dims[windowed.rank - 1] = 1;
    each = grad_reshape(d, each, &windowed);
    windowed.dims[windowed.rank - 1] = p.taps;
    d->part[0] = unwindows(d, &p, grad_expand(d, each, &windowed));
    return;
  }
  out.rank++;
  for (uint32_t i = 0; i < p.spatial; i++) out.dims[2 + i] = p.out[i], dims[2 + i] = p.kernel[i];
  out.dims[1] = 1;
  wafer_type ones = {grad_type(d, d->g).dtype, {.rank = 2 + p.spatial}};
  memcpy(ones.shape.dims, dims, sizeof dims);
  MlirValue sum = scattered(d, &p, grad_reshape(d, each, &out), grad_splat(d, &ones, 1));
  pads_of(&p, true, pads);
  d->part[0] = grad_reshape(d, grad_pad(d, sum, pads, 0), &x);
}

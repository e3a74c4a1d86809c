/* Matrix products and convolutions. Operands are widened to 8-byte cells once, every result row is
 * accumulated in f64 or wrapping int64 and stored once. */
#include <math.h>

#include "ops/window.h"
#include "reference.h"
#include "tensor/vmath.h"

/* acc[i * acc_step] += w * x[i * x_step] */
typedef void axpy(reference_cell *acc, int64_t acc_step, reference_cell w, const reference_cell *x,
                  int64_t x_step, int64_t n);

WAFER_CLONES static void axpy_dense(double *restrict acc, double w, const double *restrict x,
                                    int64_t n) {
  for (int64_t i = 0; i < n; i++) acc[i] += w * x[i];
}

static void axpy_real(reference_cell *acc, int64_t acc_step, reference_cell w,
                      const reference_cell *x, int64_t x_step, int64_t n) {
  if (acc_step == 1 && x_step == 1 && n >= 8) {
    axpy_dense(&acc->f, w.f, &x->f, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) acc[i * acc_step].f += w.f * x[i * x_step].f;
}

static void axpy_whole(reference_cell *acc, int64_t acc_step, reference_cell w,
                       const reference_cell *x, int64_t x_step, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    acc[i * acc_step].i = wrap_add(acc[i * acc_step].i, wrap_mul(w.i, x[i * x_step].i));
}

static axpy *axpy_for(wafer_dtype dtype) {
  return wafer_dtype_is_float(dtype) ? axpy_real : axpy_whole;
}

static wafer_status widen(reference_site *site, uint32_t operand, reference_cell **cells) {
  const wafer_view *view = &site->in[operand];
  int64_t n = reference_elements(view);
  WAFER_TRY(reference_alloc(site, n, sizeof **cells, cells));
  reference_load(view, 0, n, *cells);
  return WAFER_OK;
}

/* 0 is all zero bits as a double, too. */
static void fill(reference_cell *cells, reference_cell value, int64_t n) {
  for (int64_t i = 0; i < n; i++) cells[i] = value;
}

/* ---- matmul ---- */

wafer_status reference_matmul(reference_site *site) {
  const wafer_view *a = &site->in[0];
  uint32_t batch = site->out->shape.rank - 2;
  int64_t rows = site->out->shape.dims[batch], columns = site->out->shape.dims[batch + 1];
  int64_t depth = a->shape.dims[a->shape.rank - 1], to = 0;
  reference_cell *left, *right, *acc;
  axpy *add = axpy_for(a->dtype);
  walk w = {.rank = batch, .tensors = 2};
  int64_t strides[WAFER_MAX_RANK];
  WAFER_TRY(widen(site, 0, &left));
  WAFER_TRY(widen(site, 1, &right));
  WAFER_TRY(reference_alloc(site, columns, sizeof *acc, &acc));
  for (uint32_t t = 0; t < 2;
       t++) { /* broadcast over the batch: the matrix dims are not compared */
    wafer_shape shape = site->out->shape;
    const wafer_shape *own = &site->in[t].shape;
    shape.dims[batch] = own->dims[own->rank - 2], shape.dims[batch + 1] = own->dims[own->rank - 1];
    walk_broadcast(&site->in[t], &shape, strides);
    for (uint32_t d = 0; d < batch; d++) w.dims[d] = shape.dims[d], w.strides[t][d] = strides[d];
  }
  for (walk_begin(&w); w.more; walk_next(&w))
    for (int64_t j = 0; j < w.n; j++)
      for (int64_t r = 0; r < rows; r++, to += columns) {
        const reference_cell *x = left + w.at[0] + j * w.step[0] + r * depth;
        const reference_cell *y = right + w.at[1] + j * w.step[1];
        fill(acc, (reference_cell){0}, columns);
        for (int64_t k = 0; k < depth; k++) add(acc, 1, x[k], y + k * columns, 1, columns);
        reference_store(site->out, to, columns, acc);
      }
  return WAFER_OK;
}

/* ---- convolutions ---- */

typedef struct conv {
  reference_cell *x, *w, *bias, *acc;
  axpy *add;
  windows at;
  int64_t batch, group, inputs, outputs; /* channels of one group */
  int64_t in_plane, kernel_plane;        /* elements */
} conv;

static wafer_status conv_of(reference_site *site, bool transposed, conv *c) {
  const wafer_shape *x = &site->in[0].shape, *w = &site->in[1].shape, *out = &site->out->shape;
  *c = (conv){.add = axpy_for(site->in[0].dtype),
              .at = windows_of(site->attrs, x, out, w->dims + 2),
              .batch = x->dims[0],
              .group = wafer_attr_int(site->attrs, WAFER_ATTR_group)};
  c->inputs = x->dims[1] / c->group;
  c->outputs = out->dims[1] / c->group;
  c->in_plane = c->at.dim[0].in * c->at.dim[1].in * c->at.dim[2].in;
  c->kernel_plane = c->at.dim[0].kernel * c->at.dim[1].kernel * c->at.dim[2].kernel;
  int64_t row = c->at.dim[2].out;
  WAFER_TRY(widen(site, 0, &c->x));
  WAFER_TRY(widen(site, 1, &c->w));
  if (site->count == 3) WAFER_TRY(widen(site, 2, &c->bias));
  return reference_alloc(site, transposed ? row * c->at.dim[0].out * c->at.dim[1].out : row,
                         sizeof *c->acc, &c->acc);
}

static reference_cell bias_of(const conv *c, int64_t channel) {
  return c->bias ? c->bias[channel] : (reference_cell){0};
}

/* acc += the products of one input plane and one kernel plane for output row (z, y). */
static void conv_row(const conv *c, const reference_cell *x, const reference_cell *w, int64_t z,
                     int64_t y) {
  const window_dim *dz = &c->at.dim[0], *dy = &c->at.dim[1], *dx = &c->at.dim[2];
  window_taps tz = window_taps_of(dz, z), ty = window_taps_of(dy, y);
  for (int64_t kz = tz.first; kz < tz.last; kz++)
    for (int64_t ky = ty.first; ky < ty.last; ky++) {
      int64_t iz = z * dz->stride - dz->begin + kz * dz->dilation;
      int64_t iy = y * dy->stride - dy->begin + ky * dy->dilation;
      const reference_cell *row = x + (iz * dy->in + iy) * dx->in;
      const reference_cell *taps = w + (kz * dy->kernel + ky) * dx->kernel;
      for (int64_t kx = 0; kx < dx->kernel; kx++) {
        window_taps xs = window_positions_of(dx, kx);
        if (xs.first == xs.last) continue;
        int64_t ix = xs.first * dx->stride - dx->begin + kx * dx->dilation;
        c->add(c->acc + xs.first, 1, taps[kx], row + ix, dx->stride, xs.last - xs.first);
      }
    }
}

wafer_status reference_conv(reference_site *site) {
  conv c;
  int64_t to = 0;
  WAFER_TRY(conv_of(site, false, &c));
  const window_dim *dim = c.at.dim;
  for (int64_t n = 0; n < c.batch; n++)
    for (int64_t k = 0; k < c.group * c.outputs; k++) {
      const reference_cell *x = c.x + (n * c.group + k / c.outputs) * c.inputs * c.in_plane;
      const reference_cell *w = c.w + k * c.inputs * c.kernel_plane;
      for (int64_t z = 0; z < dim[0].out; z++)
        for (int64_t y = 0; y < dim[1].out; y++, to += dim[2].out) {
          fill(c.acc, bias_of(&c, k), dim[2].out);
          for (int64_t i = 0; i < c.inputs; i++)
            conv_row(&c, x + i * c.in_plane, w + i * c.kernel_plane, z, y);
          reference_store(site->out, to, dim[2].out, c.acc);
        }
    }
  return WAFER_OK;
}

/* A transposed convolution is the convolution's scatter: `positions` run over the input here, so
 * the window is seen with input and output exchanged. */
static windows exchanged(const windows *at) {
  windows back = *at;
  for (uint32_t i = 0; i < 3; i++) back.dim[i].in = at->dim[i].out, back.dim[i].out = at->dim[i].in;
  return back;
}

/* acc += what row (z, y) of an input plane scatters through one kernel plane. */
static void scatter_row(const conv *c, const windows *back, const reference_cell *x,
                        const reference_cell *w, int64_t z, int64_t y) {
  const window_dim *dz = &back->dim[0], *dy = &back->dim[1], *dx = &back->dim[2];
  window_taps tz = window_taps_of(dz, z), ty = window_taps_of(dy, y);
  for (int64_t kz = tz.first; kz < tz.last; kz++)
    for (int64_t ky = ty.first; ky < ty.last; ky++) {
      int64_t oz = z * dz->stride - dz->begin + kz * dz->dilation;
      int64_t oy = y * dy->stride - dy->begin + ky * dy->dilation;
      reference_cell *row = c->acc + (oz * dy->in + oy) * dx->in;
      const reference_cell *taps = w + (kz * dy->kernel + ky) * dx->kernel;
      for (int64_t kx = 0; kx < dx->kernel; kx++) {
        window_taps xs = window_positions_of(dx, kx);
        if (xs.first == xs.last) continue;
        int64_t ox = xs.first * dx->stride - dx->begin + kx * dx->dilation;
        c->add(row + ox, dx->stride, taps[kx], x + xs.first, 1, xs.last - xs.first);
      }
    }
}

wafer_status reference_conv_transpose(reference_site *site) {
  conv c;
  WAFER_TRY(conv_of(site, true, &c));
  windows back = exchanged(&c.at);
  const window_dim *dim = c.at.dim;
  int64_t out_plane = dim[0].out * dim[1].out * dim[2].out, to = 0;
  for (int64_t n = 0; n < c.batch; n++)
    for (int64_t k = 0; k < c.group * c.outputs; k++, to += out_plane) {
      int64_t first = k / c.outputs * c.inputs; /* input channel, and row of the weight */
      fill(c.acc, bias_of(&c, k), out_plane);
      for (int64_t i = first; i < first + c.inputs; i++) {
        const reference_cell *x = c.x + (n * c.group * c.inputs + i) * c.in_plane;
        const reference_cell *w = c.w + (i * c.outputs + k % c.outputs) * c.kernel_plane;
        for (int64_t z = 0; z < dim[0].in; z++)
          for (int64_t y = 0; y < dim[1].in; y++, x += dim[2].in)
            scatter_row(&c, &back, x, w, z, y);
      }
      reference_store(site->out, to, out_plane, c.acc);
    }
  return WAFER_OK;
}

/* ---- batch norm ---- */

wafer_status reference_batch_norm(reference_site *site) {
  const wafer_shape *x = &site->in[0].shape;
  double epsilon = wafer_attr_float(site->attrs, WAFER_ATTR_epsilon), *row;
  int64_t channels = x->dims[1], inner = reference_elements(site->out) / (x->dims[0] * channels);
  WAFER_TRY(reference_alloc(site, inner, sizeof *row, &row));
  for (int64_t i = 0; i < x->dims[0] * channels; i++) {
    double scale, bias, mean, variance;
    reference_load_f64(&site->in[1], i % channels, 1, 1, &scale);
    reference_load_f64(&site->in[2], i % channels, 1, 1, &bias);
    reference_load_f64(&site->in[3], i % channels, 1, 1, &mean);
    reference_load_f64(&site->in[4], i % channels, 1, 1, &variance);
    reference_load_f64(&site->in[0], i * inner, 1, inner, row);
    for (int64_t j = 0; j < inner; j++)
      row[j] = (row[j] - mean) / sqrt(variance + epsilon) * scale + bias;
    reference_store_f64(site->out, i * inner, inner, row);
  }
  return WAFER_OK;
}

/* Signals: Fourier transforms as matrix products, windows, filter banks. */
#include <math.h>
#include <string.h>

#include "operators.h"

/* Longer transforms are split where their length has factors. Inverse ones always are: they round
 * as those of the operator's reference do, whose results keep that rounding where terms cancel. */
#define MOST_DENSE 256
#define MOST_DENSE_INVERSE 7
/* Frames that overlap are taken by a convolution, which needs no copies of them, but of all their
 * taps on each of its cores. */
#define MOST_DENSE_FRAME 1024
#define TAU 6.28318530717958647692

static const MlirValue none;

/* ---- Fourier transforms of (rows, length, 2) ---- */

typedef struct spectrum {
  int64_t length;
  bool inverse; /* without the factor 1 / length */
} spectrum;

/* cos and sin of -tau * turns / length (inverse: +), turns reduced first; of quarters exactly. */
static void unit(const spectrum *s, int64_t a, int64_t b, double *re, double *im) {
  int64_t turns = (int64_t)(((__int128)a * b) % s->length);
  double angle = TAU * (double)turns / (double)s->length;
  bool quarter = 4 * turns % s->length == 0;
  double sine = quarter ? round(sin(angle)) : sin(angle);
  *re = quarter ? round(cos(angle)) : cos(angle);
  *im = s->inverse ? sine : -sine;
}

/* Where the matrix has the number of a position, its part, a bin and the part of that. */
typedef struct matrix_steps {
  int64_t position, part, bin, result;
} matrix_steps;

/* The real matrix of a transform: numbers lie as (real, imaginary). `parts` of the input: 1 or 2.
 */
static void fill_matrix(wafer_view *matrix, const spectrum *s, int64_t parts, int64_t bins,
                        const matrix_steps *at) {
  for (int64_t i = 0; i < s->length; i++)
    for (int64_t k = 0; k < bins; k++) {
      double re, im;
      unit(s, i, k, &re, &im);
      const double cells[2][2] = {{re, im}, {-im, re}};
      for (int64_t p = 0; p < parts * 2; p++)
        wafer_element_set_f64(matrix->dtype, matrix->data,
                              i * at->position + p / 2 * at->part + k * at->bin +
                                  p % 2 * at->result,
                              cells[p / 2][p % 2]);
    }
}

/* One product with the matrix. */
static MlirValue dense_transform(import_node *n, MlirValue x, const spectrum *s, int64_t parts,
                                 int64_t bins) {
  wafer_shape shape = node_type(n, x).shape;
  int64_t in = s->length * parts, out = bins * 2;
  wafer_view matrix = node_new_tensor(n, node_dtype(n, x), 2, (int64_t[]){in, out});
  if (!matrix.data) return none;
  fill_matrix(&matrix, s, parts, bins, &(matrix_steps){parts * out, out, 2, 1});
  x = emit_reshape(n, x, 2, (int64_t[]){shape.dims[0], in});
  x = emit_binary(n, WAFER_OP_matmul, x, emit_constant(n, &matrix));
  return emit_reshape(n, x, 3, (int64_t[]){shape.dims[0], bins, 2});
}

/* The factor nearest to the root; 1 for primes. */
static int64_t middle_factor(int64_t length) {
  int64_t best = 1;
  for (int64_t f = 2; f * f <= length; f++)
    if (length % f == 0) best = f;
  return best;
}

/* Complex products with the constants exp(-i tau a b / length), a < dims[1], b < dims[2]. */
static MlirValue twiddled(import_node *n, MlirValue x, const spectrum *s, const int64_t *dims) {
  wafer_view re = node_new_tensor(n, node_dtype(n, x), 3, (int64_t[]){dims[1], dims[2], 1});
  wafer_view im = node_new_tensor(n, node_dtype(n, x), 3, (int64_t[]){dims[1], dims[2], 1});
  if (!re.data || !im.data) return none;
  for (int64_t i = 0; i < dims[1] * dims[2]; i++) {
    double c, d;
    unit(s, i / dims[2], i % dims[2], &c, &d);
    wafer_element_set_f64(re.dtype, re.data, i, c);
    wafer_element_set_f64(im.dtype, im.data, i, d);
  }
  MlirValue a = emit_part(n, x, 3, 0, 1), b = emit_part(n, x, 3, 1, 1);
  MlirValue c = emit_constant(n, &re), d = emit_constant(n, &im);
  return emit_concat(n, SUB(MUL(a, c), MUL(b, d)), ADD(MUL(a, d), MUL(b, c)), 3);
}

/* Cooley and Tukey: columns of a matrix, factors, rows. */
static MlirValue transform(import_node *n, MlirValue x, const spectrum *s) {
  int64_t a = middle_factor(s->length), b = s->length / a;
  if (a == 1 || s->length <= (s->inverse ? MOST_DENSE_INVERSE : MOST_DENSE))
    return dense_transform(n, x, s, 2, s->length);
  static const int64_t swap[] = {0, 2, 1, 3};
  int64_t rows = node_type(n, x).shape.dims[0];
  int64_t flipped[] = {rows, b, a, 2}, straight[] = {rows, a, b, 2};
  x = emit_transpose(n, emit_reshape(n, x, 4, straight), 4, swap);
  x = transform(n, emit_reshape(n, x, 3, (int64_t[]){rows * b, a, 2}), &(spectrum){a, s->inverse});
  x = twiddled(n, emit_reshape(n, x, 4, flipped), s, flipped);
  x = emit_reshape(n, emit_transpose(n, x, 4, swap), 3, (int64_t[]){rows * a, b, 2});
  x = emit_reshape(n, transform(n, x, &(spectrum){b, s->inverse}), 4, straight);
  return emit_reshape(n, emit_transpose(n, x, 4, swap), 3, (int64_t[]){rows, s->length, 2});
}

/* (rows, length, 1 or 2) to (rows, bins, 2) */
static MlirValue forward(import_node *n, MlirValue x, int64_t length, bool onesided) {
  spectrum s = {length, false};
  int64_t bins = onesided ? length / 2 + 1 : length, parts = node_type(n, x).shape.dims[2];
  if (length <= MOST_DENSE || middle_factor(length) == 1)
    return dense_transform(n, x, &s, parts, bins);
  if (parts == 1) x = emit_concat(n, x, MUL(x, emit_scalar_like(n, x, 0)), 2);
  return emit_part(n, transform(n, x, &s), 1, 0, bins);
}

/* The bins that were left out are conjugates of those that are there. */
static MlirValue mirrored(import_node *n, MlirValue x, int64_t length) {
  int64_t more = length - length / 2 - 1, rows = node_type(n, x).shape.dims[0];
  if (more == 0) return x;
  int64_t starts[] = {0, more, 0}, steps[] = {1, -1, 1}, shape[] = {rows, more, 2};
  wafer_attr attrs[] = {INTS_ATTR(starts, 3, starts), INTS_ATTR(steps, 3, steps),
                        INTS_ATTR(shape, 3, shape)};
  MlirValue back = emit_op(n, WAFER_OP_slice, 1, &x, attrs, WAFER_COUNT(attrs));
  wafer_view signs = node_new_tensor(n, node_dtype(n, x), 1, (int64_t[]){2});
  if (!signs.data) return none;
  wafer_element_set_f64(signs.dtype, signs.data, 0, 1);
  wafer_element_set_f64(signs.dtype, signs.data, 1, -1);
  return emit_concat(n, x, MUL(back, emit_constant(n, &signs)), 1);
}

/* Cut or filled with zeros to `length` elements of dim 1. */
static MlirValue fitted(import_node *n, MlirValue x, int64_t length) {
  int64_t have = node_type(n, x).shape.dims[1], pads[6] = {0, 0, 0, 0, length - have, 0};
  return have == length ? x : emit_padded(n, x, pads, 0);
}

/* Dim `axis` in front of the last one, all others in one: (rows, dims[axis], parts). */
static MlirValue axis_last(import_node *n, MlirValue x, uint32_t axis, int64_t *perm) {
  wafer_shape s = node_type(n, x).shape;
  int64_t flat[] = {1, s.dims[axis], s.dims[s.rank - 1]};
  uint32_t at = 0;
  for (uint32_t d = 0; d + 1 < s.rank; d++)
    if (d != axis) perm[at++] = d, flat[0] *= s.dims[d];
  perm[at++] = axis;
  perm[at] = s.rank - 1;
  return emit_reshape(n, emit_transpose(n, x, s.rank, perm), 3, flat);
}

static MlirValue axis_back(import_node *n, MlirValue x, const wafer_shape *s, const int64_t *perm) {
  wafer_shape y = node_type(n, x).shape;
  int64_t dims[WAFER_MAX_RANK], inverse[WAFER_MAX_RANK];
  for (uint32_t d = 0; d < s->rank; d++) {
    dims[d] = s->dims[perm[d]];
    inverse[perm[d]] = d;
  }
  dims[s->rank - 2] = y.dims[1];
  dims[s->rank - 1] = y.dims[2];
  return emit_transpose(n, emit_reshape(n, x, s->rank, dims), s->rank, inverse);
}

static void check_signal(import_node *n, const wafer_shape *s, int64_t length) {
  int64_t parts = s->rank ? s->dims[s->rank - 1] : 0;
  if (s->rank < 2 || parts < 1 || parts > 2)
    node_bad(n, "the last dim of the signal must be 1 (real) or 2 (complex)");
  if (length < 1 || length > 1 << 24) node_bad(n, "a transform of %lld numbers", (long long)length);
}

static MlirValue inverse_transform(import_node *n, MlirValue x, int64_t length, bool onesided) {
  spectrum s = {length, true};
  x = fitted(n, x, onesided ? length / 2 + 1 : length);
  if (node_type(n, x).shape.dims[2] == 1)
    x = emit_concat(n, x, MUL(x, emit_scalar_like(n, x, 0)), 2);
  x = transform(n, onesided ? mirrored(n, x, length) : x, &s);
  x = DIV(x, emit_scalar_like(n, x, (double)length));
  return onesided ? emit_part(n, x, 2, 0, 1) : x;
}

/* The axis is an attribute up to opset 19, an input since. */
void import_dft(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  int64_t given = n->opset < 20 ? attr_int(n, "axis", 1) : (int64_t)node_float(n, 2, "axis", -2);
  uint32_t axis = node_axis(n, given, s.rank);
  bool inverse = attr_int(n, "inverse", 0), onesided = attr_int(n, "onesided", 0);
  int64_t absent = inverse && onesided ? 2 * (s.dims[axis] - 1) : s.dims[axis];
  int64_t length = (int64_t)node_float(n, 1, "dft_length", (double)absent), perm[WAFER_MAX_RANK];
  check_signal(n, &s, length);
  if (axis + 1 >= s.rank) node_bad(n, "axis %u holds the parts of the numbers", axis);
  if (n->status != WAFER_OK) return;
  x = axis_last(n, x, axis, perm);
  x = inverse ? inverse_transform(n, x, length, onesided)
              : forward(n, fitted(n, x, length), length, onesided);
  n->outputs[0] = axis_back(n, x, &s, perm);
}

/* Frames of a signal (batch, positions, parts), which overlap. */
typedef struct frames {
  int64_t length, step, count, bins;
} frames;

/* One convolution with the rows of the matrix, each times the window. */
static MlirValue dense_frames(import_node *n, MlirValue x, MlirValue window, const frames *f) {
  static const int64_t swap[] = {0, 2, 1}; /* positions and parts, then frames and bins */
  int64_t parts = node_type(n, x).shape.dims[2], batch = node_type(n, x).shape.dims[0];
  int64_t dims[] = {f->bins * 2, parts, f->length};
  wafer_view matrix = node_new_tensor(n, node_dtype(n, x), 3, dims);
  if (!matrix.data) return none;
  fill_matrix(&matrix, &(spectrum){f->length, false}, parts, f->bins,
              &(matrix_steps){1, f->length, 2 * parts * f->length, parts * f->length});
  MlirValue filters = emit_constant(n, &matrix);
  if (window.ptr) filters = MUL(filters, window);
  x = emit_conv_along(n, emit_transpose(n, x, 3, swap), filters, none, 1, f->step);
  x = emit_transpose(n, x, 3, swap);
  return emit_reshape(n, x, 4, (int64_t[]){batch, f->count, f->bins, 2});
}

/* Frames by themselves, looked up, each a transform, by factors where it has some. */
static MlirValue split_frames(import_node *n, MlirValue x, MlirValue window, const frames *f) {
  wafer_shape s = node_type(n, x).shape;
  wafer_view table = node_new_tensor(n, WAFER_DTYPE_i64, 2, (int64_t[]){f->count, f->length});
  if (!table.data) return none;
  for (int64_t i = 0; i < f->count * f->length; i++)
    ((int64_t *)table.data)[i] = i / f->length * f->step + i % f->length;
  x = emit_gather(n, x, emit_constant(n, &table), 1);
  x = emit_reshape(n, x, 3, (int64_t[]){s.dims[0] * f->count, f->length, s.dims[2]});
  if (window.ptr) x = MUL(x, emit_reshape(n, window, 2, (int64_t[]){f->length, 1}));
  x = forward(n, x, f->length, f->bins < f->length);
  return emit_reshape(n, x, 4, (int64_t[]){s.dims[0], f->count, f->bins, 2});
}

/* signal, frame_step, window, frame_length. PyTorch writes a real signal without the last dim, of
 * one part, that the operator asks for. */
void import_stft(import_node *n) {
  MlirValue x = node_input(n, 0), window = node_input(n, 2);
  wafer_shape s = node_type(n, x).shape;
  if (s.rank == 2) {
    s = (wafer_shape){.rank = 3, .dims = {s.dims[0], s.dims[1], 1}};
    x = emit_reshape(n, x, 3, s.dims);
  }
  int64_t step = (int64_t)node_float(n, 1, "frame_step", 0);
  int64_t absent = node_has_input(n, 2) ? node_type(n, window).shape.dims[0] : s.dims[1];
  int64_t length = (int64_t)node_float(n, 3, "frame_length", (double)absent);
  check_signal(n, &s, length);
  if (s.rank != 3 || step < 1 || length > s.dims[1])
    node_bad(n, "frames of %lld by steps of %lld from %lld numbers", (long long)length,
             (long long)step, (long long)s.dims[1]);
  if (node_has_input(n, 2) && node_type(n, window).shape.dims[0] != length)
    node_bad(n, "the window has not the frames' length");
  if (n->status != WAFER_OK) return;
  bool onesided = attr_int(n, "onesided", 1) != 0;
  frames f = {length, step, 1 + (s.dims[1] - length) / step, onesided ? length / 2 + 1 : length};
  n->outputs[0] = (length <= MOST_DENSE_FRAME ? dense_frames : split_frames)(n, x, window, &f);
}

/* ---- Windows: sums of cosines ---- */

static void cosine_window(import_node *n, const double *weights, uint32_t count) {
  int64_t size = (int64_t)node_float(n, 0, "size", 0);
  wafer_dtype dtype = attr_dtype(n, "output_datatype", WAFER_DTYPE_f32);
  double period = (double)(attr_int(n, "periodic", 1) ? size : size - 1);
  if (size < 0 || size > 1 << 28) node_bad(n, "a window of %lld numbers", (long long)size);
  wafer_view view = node_new_tensor(n, dtype, 1, &size);
  if (!view.data) return;
  for (int64_t i = 0; i < size; i++) {
    double sum = 0;
    for (uint32_t k = 0; k < count; k++)
      sum += weights[k] * cos(TAU * k * (double)i / (period > 0 ? period : 1));
    wafer_element_set_f64(dtype, view.data, i, sum);
  }
  n->outputs[0] = emit_constant(n, &view);
}

void import_hann_window(import_node *n) {
  cosine_window(n, (double[]){0.5, -0.5}, 2);
}

void import_hamming_window(import_node *n) {
  cosine_window(n, (double[]){25.0 / 46, -21.0 / 46}, 2);
}

void import_blackman_window(import_node *n) {
  cosine_window(n, (double[]){0.42, -0.5, 0.08}, 3);
}

/* ---- Triangles over the bins of a spectrum, evenly spaced in mels ---- */

static double mel_of(double hertz) {
  return 2595 * log10(1 + hertz / 700);
}

typedef struct mel_bank {
  int64_t bins, length, rows;
  double rate, low, step;
} mel_bank;

/* The spectrum's bin at the i-th of the evenly spaced points. */
static int64_t mel_point(const mel_bank *m, int64_t i) {
  double hertz = 700 * (pow(10, (m->low + (double)i * m->step) / 2595) - 1);
  return (int64_t)floor((double)(m->length + 1) * hertz / m->rate);
}

static double mel_weight(int64_t row, int64_t left, int64_t middle, int64_t right) {
  if (row < left || row >= (right > middle ? right : middle + 1)) return 0;
  if (row <= middle && left == middle) return row == middle ? 1 : 0;
  if (row > middle || (row == middle && right > middle))
    return (double)(right - row) / (double)(right - middle);
  return (double)(row - left) / (double)(middle - left);
}

void import_mel_weight_matrix(import_node *n) {
  mel_bank m = {.bins = (int64_t)node_float(n, 0, "num_mel_bins", 0),
                .length = (int64_t)node_float(n, 1, "dft_length", 0),
                .rate = node_float(n, 2, "sample_rate", 0)};
  double low = node_float(n, 3, "lower_edge_hertz", 0);
  double high = node_float(n, 4, "upper_edge_hertz", 0);
  wafer_dtype dtype = attr_dtype(n, "output_datatype", WAFER_DTYPE_f32);
  if (m.bins < 1 || m.bins > 1 << 20 || m.length < 1 || m.length > 1 << 20 || !(m.rate > 0) ||
      !(low >= 0 && high <= m.rate))
    node_bad(n, "%lld filters of %g to %g Hz over a spectrum of %lld numbers at %g Hz",
             (long long)m.bins, low, high, (long long)m.length, m.rate);
  if (n->status != WAFER_OK) return;
  m.rows = m.length / 2 + 1;
  m.low = mel_of(low);
  m.step = (mel_of(high) - m.low) / (double)(m.bins + 2);
  wafer_view view = node_new_tensor(n, dtype, 2, (int64_t[]){m.rows, m.bins});
  for (int64_t c = 0; view.data && c < m.bins; c++) {
    int64_t left = mel_point(&m, c), middle = mel_point(&m, c + 1), right = mel_point(&m, c + 2);
    for (int64_t r = 0; r < m.rows; r++)
      wafer_element_set_f64(dtype, view.data, r * m.bins + c, mel_weight(r, left, middle, right));
  }
  if (view.data) n->outputs[0] = emit_constant(n, &view);
}

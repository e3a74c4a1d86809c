/* A resized dim as a product with the matrix of its weights, or as a look-up of nearest elements.
 */
#include <math.h>
#include <string.h>

#include "resize_axis.h"

#define MOST_WEIGHTS ((int64_t)1 << 24)

static const MlirValue none;

static bool is_crop(const axis_resize *r) {
  return !strcmp(r->coordinates, "tf_crop_and_resize");
}

/* Where element j of the result lies in the operand. */
static double coordinate_of(const axis_resize *r, int64_t j) {
  double in = (double)r->in, length = r->scale * in, x = (double)j;
  bool one = fabs(length - 1) < 1e-6;
  if (is_crop(r)) {
    double size = (r->last - r->first) * (in - 1);
    return r->first * (in - 1) + (one ? size / 2 : x * size / (length - 1));
  }
  if (!strcmp(r->coordinates, "align_corners")) return one ? 0 : x * (in - 1) / (length - 1);
  if (!strcmp(r->coordinates, "asymmetric")) return x / r->scale;
  if (!strcmp(r->coordinates, "tf_half_pixel_for_nn")) return (x + 0.5) / r->scale;
  if (!strcmp(r->coordinates, "pytorch_half_pixel") && one) return 0;
  double half = (x + 0.5) / r->scale - 0.5;
  if (strcmp(r->coordinates, "half_pixel_symmetric") != 0) return half;
  return half + in / 2 * (1 - (double)r->out / length);
}

static int64_t clamped(double x, int64_t in) {
  if (!(x > 0)) return 0;
  return x >= (double)in ? in - 1 : (int64_t)x;
}

/* ---- Weights ---- */

/* A triangle, or Keys' cubic convolution. */
static double weight_at(const axis_resize *r, double x) {
  double a = r->cubic_a;
  x = fabs(x);
  if (strcmp(r->mode, "cubic") != 0) return x < 1 ? 1 - x : 0;
  if (x >= 2) return 0;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* Adds the weights of element j of the result to its column; those beyond the operand count for
 * its first or last element, or not at all. */
static void weigh(const axis_resize *r, int64_t j, double *column) {
  double shrink = r->antialias && r->scale < 1 ? r->scale : 1;
  double reach = (strcmp(r->mode, "cubic") ? 1 : 2) / shrink, x = coordinate_of(r, j), sum = 0;
  for (double i = floor(x - reach); i <= ceil(x + reach); i++) {
    bool inside = i >= 0 && i < (double)r->in;
    double weight = inside || !r->exclude_outside ? weight_at(r, (i - x) * shrink) : 0;
    column[clamped(i, r->in)] += weight;
    sum += weight;
  }
  for (int64_t i = 0; i < r->in && sum != 0; i++) column[i] /= sum;
}

/* (in, out) */
static MlirValue weights_of(import_node *n, const axis_resize *r, wafer_dtype dtype) {
  wafer_view matrix = node_new_tensor(n, dtype, 2, (int64_t[]){r->in, r->out});
  double *column = WAFER_NEW(n->im->ctx->arena, double, (size_t)r->in);
  if (!matrix.data || !column) return none;
  for (int64_t j = 0; j < r->out; j++) {
    memset(column, 0, (size_t)r->in * sizeof *column);
    weigh(r, j, column);
    for (int64_t i = 0; i < r->in; i++)
      wafer_element_set_f64(dtype, matrix.data, i * r->out + j, column[i]);
  }
  return emit_constant(n, &matrix);
}

static MlirValue weighted(import_node *n, MlirValue x, const axis_resize *r) {
  wafer_shape s = node_type(n, x).shape;
  int64_t perm[WAFER_MAX_RANK], rows = 1;
  for (uint32_t d = 0; d < s.rank; d++) {
    perm[d] = d;
    if (d != r->axis) rows *= s.dims[d];
  }
  perm[r->axis] = s.rank - 1;
  perm[s.rank - 1] = r->axis;
  wafer_shape turned = s;
  for (uint32_t d = 0; d < s.rank; d++) turned.dims[d] = s.dims[perm[d]];
  x = emit_reshape(n, emit_transpose(n, x, s.rank, perm), 2, (int64_t[]){rows, r->in});
  x = emit_binary(n, WAFER_OP_matmul, x, weights_of(n, r, node_dtype(n, x)));
  turned.dims[s.rank - 1] = r->out;
  return emit_transpose(n, emit_reshape(n, x, s.rank, turned.dims), s.rank, perm);
}

/* ---- Nearest elements ---- */

static double nearest(double x, const char *how) {
  if (!strcmp(how, "round_prefer_floor")) return ceil(x - 0.5);
  if (!strcmp(how, "round_prefer_ceil")) return floor(x + 0.5);
  return !strcmp(how, "floor") ? floor(x) : ceil(x);
}

static MlirValue looked_up(import_node *n, MlirValue x, const axis_resize *r) {
  int64_t *places = node_new_ints(n, r->out);
  if (!places) return none;
  for (int64_t j = 0; j < r->out; j++)
    places[j] = clamped(nearest(coordinate_of(r, j), r->rounding), r->in);
  MlirValue index = emit_constant_i64(n, 1, r->out, places);
  return emit_gather(n, x, index, r->axis);
}

/* Elements of a crop that lie beyond the operand. */
static MlirValue filled_outside(import_node *n, MlirValue x, const axis_resize *r) {
  int64_t dims[WAFER_MAX_RANK], beyond = 0;
  uint32_t rank = node_rank(n, x);
  for (uint32_t d = 0; d < rank; d++) dims[d] = d == r->axis ? r->out : 1;
  wafer_view mask = node_new_tensor(n, WAFER_DTYPE_bool, rank, dims);
  if (!mask.data) return none;
  for (int64_t j = 0; j < r->out; j++) {
    double at = coordinate_of(r, j);
    bool outside = at < 0 || at > (double)(r->in - 1);
    wafer_element_set_f64(WAFER_DTYPE_bool, mask.data, j, outside);
    beyond += outside;
  }
  if (!beyond) return x;
  return emit_select(n, emit_constant(n, &mask), emit_scalar_like(n, x, r->outside), x);
}

MlirValue emit_resize_axis(import_node *n, MlirValue x, const axis_resize *r) {
  bool whole = !is_crop(r) || (r->first == 0 && r->last == 1);
  if (n->status != WAFER_OK || (r->in == r->out && r->scale == 1 && whole)) return x;
  if (r->in < 1 || r->out < 1 || r->out > MOST_WEIGHTS / r->in) {
    node_unsupported(n, "dim %u of %lld elements resized to %lld by a matrix; at most %lld weights",
                     r->axis, (long long)r->in, (long long)r->out, (long long)MOST_WEIGHTS);
    return x;
  }
  x = strcmp(r->mode, "nearest") ? weighted(n, x, r) : looked_up(n, x, r);
  return is_crop(r) && n->status == WAFER_OK ? filled_outside(n, x, r) : x;
}

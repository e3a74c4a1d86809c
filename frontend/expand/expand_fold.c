/* Windows and matrices: Col2Im, CenterCropPad, DeformConv, MaxPool's places, Det. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

/* ---- Col2Im: a transposed convolution that puts each column's elements in their places ---- */

typedef struct blocks {
  uint32_t spatial;
  int64_t image[3], block[3], strides[3], dilations[3], pads[6], counts[3], extra[3], elements;
} blocks;

static blocks blocks_of(import_node *n) {
  blocks b = {.elements = 1};
  int_list image = node_ints(n, 1, "image_shape"), block = node_ints(n, 2, "block_shape");
  if (n->status == WAFER_OK && (image.count != block.count || !image.count || image.count > 3))
    node_unsupported(n, "images of %u dims in blocks of %u", image.count, block.count);
  if (n->status != WAFER_OK) return b;
  b.spatial = image.count;
  if (!attr_ints_of(n, "strides", b.spatial, 1, 1, b.strides) ||
      !attr_ints_of(n, "dilations", b.spatial, 1, 1, b.dilations) ||
      !attr_ints_of(n, "pads", 2 * b.spatial, 0, 0, b.pads))
    return b;
  for (uint32_t i = 0; i < b.spatial; i++) {
    b.image[i] = image.at[i], b.block[i] = block.at[i];
    if (b.image[i] < 1 || b.image[i] > INT32_MAX || b.block[i] < 1 || b.block[i] > 1 << 16) {
      node_bad(n, "image or block of %lld, %lld", (long long)b.image[i], (long long)b.block[i]);
      return b;
    }
    int64_t span = (b.block[i] - 1) * b.dilations[i] + 1;
    int64_t room = b.image[i] + b.pads[i] + b.pads[i + b.spatial] - span;
    b.counts[i] = room < 0 ? 0 : room / b.strides[i] + 1;
    b.extra[i] = room < 0 ? 0 : room % b.strides[i];
    b.elements *= b.block[i];
  }
  return b;
}

void import_col2im(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  blocks b = blocks_of(n);
  int64_t places = 1;
  bool fits = true;
  for (uint32_t i = 0; i < b.spatial; i++)
    fits &= !__builtin_mul_overflow(places, b.counts[i], &places);
  if (!fits) node_bad(n, "an image of so many places is too large");
  if (n->status == WAFER_OK && (s.rank != 3 || s.dims[1] % b.elements || s.dims[2] != places))
    node_bad(n, "the columns do not fit %lld places of %lld elements", (long long)places,
             (long long)b.elements);
  if (n->status != WAFER_OK) return;
  int64_t channels = s.dims[1] / b.elements, image[5] = {s.dims[0], s.dims[1]},
          kernel[5] = {s.dims[1], 1};
  for (uint32_t i = 0; i < b.spatial; i++) image[i + 2] = b.counts[i], kernel[i + 2] = b.block[i];
  wafer_view w = node_new_tensor(n, node_dtype(n, x), b.spatial + 2, kernel);
  if (!w.data) return;
  for (int64_t i = 0; i < s.dims[1]; i++)
    wafer_element_set_f64(w.dtype, w.data, i * b.elements + i % b.elements, 1);
  MlirValue operands[] = {emit_reshape(n, x, b.spatial + 2, image), emit_constant(n, &w)};
  wafer_attr attrs[] = {INT_ATTR(group, channels), INTS_ATTR(strides, b.spatial, b.strides),
                        INTS_ATTR(dilations, b.spatial, b.dilations),
                        INTS_ATTR(pads, 2 * b.spatial, b.pads),
                        INTS_ATTR(output_padding, b.spatial, b.extra)};
  n->outputs[0] = emit_op(n, WAFER_OP_conv_transpose, 2, operands, attrs, WAFER_COUNT(attrs));
}

/* ---- CenterCropPad ---- */

/* Negative pads crop; the odd element goes at the end, or is cropped there. */
void import_center_crop_pad(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  int_list want = node_ints(n, 1, "shape"), axes = attr_ints(n, "axes");
  int64_t pads[2 * WAFER_MAX_RANK] = {0};
  if (n->status == WAFER_OK && want.count != (axes.count ? axes.count : s.rank))
    node_bad(n, "shape has %u entries", want.count);
  node_axes(n, axes, s.rank);
  for (uint32_t i = 0; i < want.count && n->status == WAFER_OK; i++) {
    uint32_t d = axes.count ? node_axis(n, axes.at[i], s.rank) : i;
    int64_t more = want.at[i] - s.dims[d];
    if (want.at[i] < 0 || want.at[i] > INT32_MAX)
      node_bad(n, "shape[%u] is %lld", i, (long long)want.at[i]);
    pads[d] = more / 2; /* towards 0, so a crop leaves the odd element out at the end */
    pads[d + s.rank] = more - pads[d];
  }
  n->outputs[0] = emit_padded(n, x, pads, 0);
}

/* ---- Det: elimination, the largest element of the first column as pivot ---- */

/* Takes the first column and its pivot's row out of (batch, r, r); *det takes the pivot in. */
static MlirValue eliminated(import_node *n, MlirValue m, int64_t batch, int64_t r, MlirValue *det) {
  MlirValue column = emit_part(n, m, 2, 0, 1); /* (batch, r, 1) */
  MlirValue size = emit_unary(n, WAFER_OP_abs, column);
  wafer_attr first[] = {INT_ATTR(axis, 1), INT_ATTR(keepdims, 1), INT_ATTR(last, 0)};
  MlirValue at = emit_op(n, WAFER_OP_arg_max, 1, &size, first, WAFER_COUNT(first));
  MlirValue row = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, r), 2, (int64_t[]){r, 1});
  MlirValue zero = emit_scalar_like(n, m, 0), one = emit_scalar_like(n, m, 1);
  MlirValue own = emit_select(n, emit_binary(n, WAFER_OP_equal, row, at), m, zero);
  MlirValue pivot_row = emit_reduce(n, WAFER_OP_reduce_sum, own, 1u << 1, true);
  MlirValue pivot = emit_part(n, pivot_row, 2, 0, 1);
  wafer_attr floored = INT_ATTR(truncate, 0);
  MlirValue odd =
      emit_op(n, WAFER_OP_mod, 2, (MlirValue[]){at, emit_scalar_like(n, at, 2)}, &floored, 1);
  odd = emit_binary(n, WAFER_OP_equal, odd, emit_scalar_like(n, at, 1));
  MlirValue signed_pivot = emit_select(n, odd, emit_unary(n, WAFER_OP_neg, pivot), pivot);
  *det = MUL(*det, emit_reshape(n, signed_pivot, 1, &batch));
  if (r == 1) return none;
  MlirValue null = emit_binary(n, WAFER_OP_equal, pivot, zero); /* then the column is 0 */
  MlirValue factor = DIV(column, emit_select(n, null, one, pivot));
  m = SUB(m, MUL(factor, pivot_row));
  m = emit_part(n, m, 2, 1, r - 1);
  MlirValue above = emit_part(n, m, 1, 0, r - 1), below = emit_part(n, m, 1, 1, r - 1);
  MlirValue stays = emit_binary(n, WAFER_OP_less, emit_part(n, row, 0, 0, r - 1), at);
  return emit_select(n, stays, above, below);
}

void import_det(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  if (n->status == WAFER_OK && (s.rank < 2 || s.dims[s.rank - 1] != s.dims[s.rank - 2]))
    node_bad(n, "the operand is not square");
  if (n->status != WAFER_OK) return;
  int64_t size = s.dims[s.rank - 1], batch = 1;
  if (size < 1 || size > 256) node_unsupported(n, "a determinant of %lld rows", (long long)size);
  for (uint32_t d = 0; d + 2 < s.rank; d++) batch *= s.dims[d];
  MlirValue m = emit_reshape(n, x, 3, (int64_t[]){batch, size, size});
  MlirValue det = emit_expand(n, emit_scalar_like(n, x, 1), 1, &batch);
  for (int64_t r = size; r > 0 && n->status == WAFER_OK; r--) m = eliminated(n, m, batch, r, &det);
  n->outputs[0] = emit_reshape(n, det, s.rank - 2, s.dims);
}

/* ---- The places of MaxPool's elements ---- */

/* Position in the operand's plane of tap `tap` of window `out`; -1: outside. */
static int64_t tap_place(const pool_geometry *g, int64_t out, int64_t tap) {
  int64_t place = 0, stride = 1;
  for (uint32_t d = g->spatial; d-- > 0;) {
    int64_t at =
        out % g->out[d] * g->strides[d] + tap % g->kernel[d] * g->dilations[d] - g->pads[d];
    if (at < 0 || at >= g->in[d]) return -1;
    place += at * stride;
    stride *= g->in[d];
    out /= g->out[d];
    tap /= g->kernel[d];
  }
  return place;
}

/* The same place where the last dims change slowest (storage order 1). */
static int64_t column_major(const pool_geometry *g, int64_t place) {
  int64_t at = 0, stride = 1, index[3];
  for (uint32_t d = g->spatial; d-- > 0; place /= g->in[d]) index[d] = place % g->in[d];
  for (uint32_t d = 0; d < g->spatial; stride *= g->in[d++]) at += index[d] * stride;
  return at;
}

/* Windows laid out one beside the other; the place is that of the largest tap. */
MlirValue emit_pool_places(import_node *n, const pool_geometry *g) {
  MlirValue x = node_input(n, 0);
  wafer_shape s = node_type(n, x).shape;
  int64_t plane = 1, outs = 1, taps = 1, planes = s.dims[0] * s.dims[1];
  for (uint32_t d = 0; d < g->spatial; d++)
    plane *= g->in[d], outs *= g->out[d], taps *= g->kernel[d];
  bool columns = attr_int(n, "storage_order", 0) != 0;
  int64_t two[] = {outs, taps};
  wafer_view from = node_new_tensor(n, WAFER_DTYPE_i64, 2, two);
  wafer_view to = node_new_tensor(n, WAFER_DTYPE_i64, 2, two);
  wafer_view rim = node_new_tensor(n, WAFER_DTYPE_bool, 2, two);
  if (!from.data || !to.data || !rim.data) return none;
  for (int64_t i = 0; i < outs * taps; i++) {
    int64_t place = tap_place(g, i / taps, i % taps), inside = place < 0 ? 0 : place;
    ((int64_t *)from.data)[i] = inside;
    ((int64_t *)to.data)[i] = columns ? column_major(g, inside) : inside;
    ((uint8_t *)rim.data)[i] = place < 0;
  }
  double least, most;
  wafer_dtype_range(node_dtype(n, x), &least, &most);
  MlirValue all = emit_reshape(n, x, 2, (int64_t[]){planes, plane});
  all = emit_gather(n, all, emit_constant(n, &from), 1);
  all = emit_select(n, emit_constant(n, &rim), emit_scalar_like(n, x, least), all);
  wafer_attr arg[] = {INT_ATTR(axis, 2), INT_ATTR(keepdims, 1), INT_ATTR(last, 0)};
  MlirValue tap = emit_op(n, WAFER_OP_arg_max, 1, &all, arg, WAFER_COUNT(arg));
  MlirValue row = emit_iota(n, WAFER_DTYPE_i64, outs); /* place in the table of places */
  row = emit_reshape(n, MUL(row, emit_scalar_like(n, row, (double)taps)), 2, (int64_t[]){outs, 1});
  MlirValue table = emit_reshape(n, emit_constant(n, &to), 1, (int64_t[]){outs * taps});
  MlirValue place = emit_rows(n, table, ADD(tap, row)); /* (planes, outs, 1) */
  MlirValue base = emit_iota(n, WAFER_DTYPE_i64, planes);
  base = MUL(base, emit_scalar_like(n, base, (double)plane));
  place = ADD(place, emit_reshape(n, base, 3, (int64_t[]){planes, 1, 1}));
  for (uint32_t d = 0; d < g->spatial; d++) s.dims[d + 2] = g->out[d];
  return emit_reshape(n, place, s.rank, s.dims);
}

/* Constants and what is known once shapes are: Constant, ConstantOfShape, Range, EyeLike, Trilu,
 * OneHot. */
#include <math.h>
#include <string.h>

#include "operators.h"

/* A vector (or scalar) of an attribute's numbers. */
static MlirValue constant_numbers(import_node *n, wafer_dtype dtype, uint32_t rank, size_t count,
                                  const void *data) {
  wafer_shape shape = {.rank = rank, .dims = {(int64_t)count}};
  void *kept =
      wafer_arena_copy(n->im->ctx->arena, count ? data : &shape, count * wafer_dtype_bytes(dtype));
  if (!kept) {
    node_bad(n, "no memory for the constant");
    return (MlirValue){NULL};
  }
  wafer_view view = wafer_view_of(dtype, &shape, kept);
  return emit_constant(n, &view);
}

static wafer_status import_sparse(importer *im, const onnx_sparse *sparse, const char *name,
                                  MlirValue *out) {
  const onnx_tensor *dense;
  WAFER_TRY(data_dense(&im->store, sparse, &dense));
  return import_tensor(im, dense, name, out);
}

void import_constant(import_node *n) {
  const onnx_attribute *a;
  if ((a = attr_find(n, "value")) && a->t)
    n->status = import_tensor(n->im, a->t, n->label, n->outputs);
  else if ((a = attr_find(n, "value_float")))
    n->outputs[0] = constant_numbers(n, WAFER_DTYPE_f32, 0, 1, &a->f);
  else if ((a = attr_find(n, "value_floats")))
    n->outputs[0] = constant_numbers(n, WAFER_DTYPE_f32, 1, a->floats.count, a->floats.at);
  else if ((a = attr_find(n, "value_int")))
    n->outputs[0] = constant_numbers(n, WAFER_DTYPE_i64, 0, 1, &a->i);
  else if ((a = attr_find(n, "value_ints")))
    n->outputs[0] = constant_numbers(n, WAFER_DTYPE_i64, 1, a->ints.count, a->ints.at);
  else if (attr_has(n, "value_string") || attr_has(n, "value_strings"))
    node_problem(n, WAFER_PROBLEM_type, "strings");
  else if ((a = attr_find(n, "sparse_value")) && a->sparse_tensor)
    n->status = import_sparse(n->im, a->sparse_tensor, n->label, n->outputs);
  else
    node_bad(n, "no value");
}

void import_constant_of_shape(import_node *n) {
  int_list dims = node_ints(n, 0, "shape");
  const onnx_attribute *value = attr_find(n, "value");
  wafer_type type = {.dtype = WAFER_DTYPE_f32, .shape = {.rank = dims.count}};
  wafer_view view = {0};
  int64_t count = 1;
  if (dims.count > WAFER_MAX_RANK)
    node_unsupported(n, "%u dims, at most %d are", dims.count, WAFER_MAX_RANK);
  if (n->status == WAFER_OK && value && value->t)
    n->status = data_view(&n->im->store, value->t, &view);
  if (n->status != WAFER_OK) return;
  if (view.dtype && (!wafer_shape_elements(&view.shape, &count) || count != 1)) {
    node_bad(n, "attribute value has %lld elements, needs 1", (long long)count);
    return;
  }
  for (uint32_t i = 0; i < dims.count; i++) type.shape.dims[i] = dims.at[i];
  if (view.dtype) type.dtype = view.dtype;
  double zero = 0;
  n->status = wafer_build_splat_of(&n->im->b, &type, view.dtype ? view.data : &zero, n->outputs);
}

void import_range(import_node *n) {
  static const char *const names[] = {"start", "limit", "delta"};
  wafer_view of[3];
  int64_t count;
  for (uint32_t i = 0; i < 3; i++) {
    if (!node_constant(n, i, names[i], &of[i])) return;
    if (!wafer_shape_elements(&of[i].shape, &count) || count != 1)
      node_bad(n, "input %u (%s) must be one number", i, names[i]);
  }
  if (n->status != WAFER_OK) return;
  if (!wafer_range_count(of, 1 << 30, &count)) {
    node_bad(n, "from %g to %g by %g is no range", wafer_element_f64(of[0].dtype, of[0].data, 0),
             wafer_element_f64(of[1].dtype, of[1].data, 0),
             wafer_element_f64(of[2].dtype, of[2].data, 0));
    return;
  }
  wafer_view view = node_new_tensor(n, of[0].dtype, 1, &count);
  if (!view.data) return;
  wafer_range_fill(of, count, view.data);
  n->outputs[0] = emit_constant(n, &view);
}

/* A bool matrix: row + k compared to column by `op`. */
static MlirValue diagonal_mask(import_node *n, wafer_op op, int64_t rows, int64_t columns,
                               int64_t k) {
  MlirValue row = emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, rows), 2, (int64_t[]){rows, 1});
  MlirValue column =
      emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, columns), 2, (int64_t[]){1, columns});
  return emit_binary(n, op, ADD(row, emit_scalar_like(n, row, (double)k)), column);
}

void import_eye_like(import_node *n) {
  wafer_type x = node_type(n, node_input(n, 0));
  int64_t to = attr_int(n, "dtype", 0);
  wafer_dtype dtype = to > 0 && to < INT32_MAX ? wafer_dtype_by_onnx((int32_t)to) : x.dtype;
  if (x.shape.rank != 2) node_bad(n, "the operand has %u dims, needs 2", x.shape.rank);
  if (dtype == WAFER_DTYPE_none)
    node_problem(n, WAFER_PROBLEM_type, "element type %s", onnx_data_type_name(to));
  if (n->status != WAFER_OK) return;
  MlirValue mask =
      diagonal_mask(n, WAFER_OP_equal, x.shape.dims[0], x.shape.dims[1], attr_int(n, "k", 0));
  n->outputs[0] = emit_cast(n, mask, dtype);
}

void import_trilu(import_node *n) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape;
  int_list diagonal = node_has_input(n, 1) ? node_ints(n, 1, "k") : (int_list){0};
  if (x.rank < 2) node_bad(n, "the operand has %u dims, needs 2", x.rank);
  if (n->status != WAFER_OK) return;
  int64_t rows = x.dims[x.rank - 2], columns = x.dims[x.rank - 1];
  int64_t k = diagonal.count ? diagonal.at[0] : 0;
  k = k < -rows ? -rows : k > columns ? columns : k; /* none of it, or all, from there on */
  MlirValue zero = emit_scalar_like(n, node_input(n, 0), 0);
  if (attr_int(n, "upper", 1)) {
    MlirValue keep = diagonal_mask(n, WAFER_OP_less_equal, rows, columns, k);
    n->outputs[0] = emit_select(n, keep, node_input(n, 0), zero);
  } else {
    MlirValue drop = diagonal_mask(n, WAFER_OP_less, rows, columns, k);
    n->outputs[0] = emit_select(n, drop, zero, node_input(n, 0));
  }
}

/* A new dim at `axis` that compares the index with 0, 1, 2 ... depth - 1. */
void import_one_hot(import_node *n) {
  MlirValue index = node_input(n, 0), values = node_input(n, 2);
  wafer_shape x = node_type(n, index).shape, wide = {0}, line = {0};
  double depth = node_float(n, 1, "depth", 0);
  uint32_t axis = node_axis(n, attr_int(n, "axis", -1), x.rank + 1);
  if (x.rank >= WAFER_MAX_RANK) node_unsupported(n, "a result of %u dims", x.rank + 1);
  if (!(depth >= 1 && depth < 0x1p31)) node_bad(n, "depth is %g", depth);
  if (n->status != WAFER_OK) return;
  for (uint32_t i = 0, from = 0; i <= x.rank; i++) {
    wide.dims[i] = i == axis ? 1 : x.dims[from++];
    line.dims[i] = i == axis ? (int64_t)depth : 1;
  }
  index = emit_cast(n, index, WAFER_DTYPE_i64);
  MlirValue negative = emit_binary(n, WAFER_OP_less, index, emit_scalar_like(n, index, 0));
  index = emit_select(n, negative, ADD(index, emit_scalar_like(n, index, depth)), index);
  index = emit_reshape(n, index, x.rank + 1, wide.dims);
  MlirValue places =
      emit_reshape(n, emit_iota(n, WAFER_DTYPE_i64, (int64_t)depth), x.rank + 1, line.dims);
  MlirValue off = emit_reshape(n, emit_part(n, values, 0, 0, 1), 0, wide.dims);
  MlirValue on = emit_reshape(n, emit_part(n, values, 0, 1, 1), 0, wide.dims);
  n->outputs[0] = emit_select(n, emit_binary(n, WAFER_OP_equal, index, places), on, off);
}

/* Operators of ai.onnx.ml over numbers. */
#include <math.h>

#include "operators.h"

/* Columns of the last dim. */
void import_array_feature_extractor(import_node *n) {
  MlirValue x = node_input(n, 0), index = node_input(n, 1);
  wafer_shape s = node_type(n, x).shape, i = node_type(n, index).shape;
  int64_t count = 1;
  if (n->status == WAFER_OK && s.rank == 0) node_bad(n, "the operand is a scalar");
  if (n->status != WAFER_OK || !wafer_shape_elements(&i, &count)) return;
  index = emit_reshape(n, index, 1, &count);
  MlirValue y = emit_gather(n, x, index, s.rank - 1);
  n->outputs[0] = s.rank == 1 ? emit_reshape(n, y, 2, (int64_t[]){1, count}) : y;
}

void import_binarizer(import_node *n) {
  MlirValue x = node_input(n, 0);
  MlirValue limit = emit_scalar_like(n, x, attr_float(n, "threshold", 0));
  n->outputs[0] = emit_cast(n, emit_binary(n, WAFER_OP_less, limit, x), node_dtype(n, x));
}

/* Elements that stand for missing ones become one number, or one per feature, the last dim. */
void import_imputer(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_dtype dtype = node_dtype(n, x);
  bool real = wafer_dtype_is_float(dtype);
  const char *name = real ? "imputed_value_floats" : "imputed_value_int64s";
  double missing = real ? attr_float(n, "replaced_value_float", 0)
                        : (double)attr_int(n, "replaced_value_int64", 0);
  float_list floats = real ? attr_floats(n, name) : (float_list){0};
  int_list ints = real ? (int_list){0} : attr_ints(n, name);
  int64_t count = real ? floats.count : ints.count;
  if (n->status == WAFER_OK && !count) node_bad(n, "attribute %s is missing", name);
  if (n->status != WAFER_OK) return;
  wafer_view view = node_new_tensor(n, dtype, count > 1, &count);
  for (int64_t i = 0; view.data && i < count; i++)
    if (real)
      wafer_element_set_f64(dtype, view.data, i, floats.at[i]);
    else
      wafer_element_set_i64(dtype, view.data, i, ints.at[i]);
  if (!view.data) return;
  MlirValue is = isnan(missing)
                     ? emit_unary(n, WAFER_OP_isnan, x)
                     : emit_binary(n, WAFER_OP_equal, x, emit_scalar_like(n, x, missing));
  n->outputs[0] = emit_select(n, is, emit_constant(n, &view), x);
}

/* Maps are nothing that a plan has. */
void import_zip_map(import_node *n) {
  n->status = import_problem(
      n->im->ctx, n->im->b.loc, WAFER_UNSUPPORTED, WAFER_PROBLEM_operator,
      "convert the model without it, as skl2onnx does with options={'zipmap': False}",
      "operator ZipMap of ai.onnx.ml makes maps, of which its operand has the values");
}

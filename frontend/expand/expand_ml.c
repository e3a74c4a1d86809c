/* Operators of ai.onnx.ml over numbers. */
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

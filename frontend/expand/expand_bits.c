/* Integers as bits. */
#include <string.h>

#include "operators.h"

void import_bitwise_not(import_node *n) {
  MlirValue x = node_input(n, 0);
  n->outputs[0] = emit_binary(n, WAFER_OP_xor, x, emit_scalar_like(n, x, -1)); /* all bits set */
}

/* Times or through a power of 2, which wraps to 0 where no bit is left; and what is divided by 0
 * is 0. */
void import_bit_shift(import_node *n) {
  MlirValue x = node_input(n, 0);
  const char *direction = attr_text(n, "direction", "");
  bool left = !strcmp(direction, "LEFT");
  if (!left && strcmp(direction, "RIGHT"))
    node_bad(n, "direction is '%s', must be LEFT or RIGHT", direction);
  if (wafer_dtype_is_float(node_dtype(n, x))) node_bad(n, "floats cannot be shifted");
  MlirValue power = emit_binary(n, WAFER_OP_pow, emit_scalar_like(n, x, 2), node_input(n, 1));
  n->outputs[0] = left ? MUL(x, power) : DIV(x, power);
}

void import_bit_cast(import_node *n) {
  MlirValue x = node_input(n, 0);
  wafer_attr to = TEXT_ATTR(to, wafer_dtype_name(attr_dtype(n, "to", node_dtype(n, x))));
  n->outputs[0] = emit_op(n, WAFER_OP_bitcast, 1, &x, &to, 1);
}

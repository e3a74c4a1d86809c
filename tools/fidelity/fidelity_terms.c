/* wafer check: how large the terms of a sum are. Terms may cancel, as in the mean of what has been
 * normalized or the gradient of the bias of attention's keys: nothing is left but what rounding
 * leaves of the terms, so it is their size that a difference is relative to. Sizes are means of
 * magnitudes, as kernels told them. */
#include <math.h>

#include "fidelity.h"

double check_size(const wafer_view *x) {
  int64_t count = 0, finite = 0;
  double sum = 0;
  (void)wafer_shape_elements(&x->shape, &count);
  for (int64_t i = 0; i < count; i++) {
    double each = fabs(wafer_element_f64(x->dtype, x->data, i));
    if (!isfinite(each)) continue;
    sum += each;
    finite++;
  }
  return finite ? sum / (double)finite : 0;
}

static bool moves_alone(wafer_op op) {
  return wafer_op_is(op, WAFER_TRAIT_VIEW) || op == WAFER_OP_cast || op == WAFER_OP_neg;
}

/* Of a value of a kernel's body: what was told, or follows from its operands; 0: unknown. */
static double size_of(const check_values *v, const wafer_kernel *k, uint32_t value) {
  const wafer_kernel_body *b = &k->body;
  if (value < b->input_count) return v->size[k->inputs[value]];
  for (uint32_t o = 0; o < b->output_count; o++)
    if (b->outputs[o] == value) return v->size[k->outputs[o]];
  const wafer_node *n = &b->nodes[value - b->input_count];
  if (moves_alone(n->op)) return size_of(v, k, n->operands[0]);
  if (n->op != WAFER_OP_add && n->op != WAFER_OP_sub && n->op != WAFER_OP_mul) return 0;
  double x = size_of(v, k, n->operands[0]), y = size_of(v, k, n->operands[1]);
  if (x == 0 || y == 0) return 0;
  return n->op == WAFER_OP_mul ? x * y : x + y;
}

double check_body_terms(const check_values *v, const wafer_kernel *k, uint32_t value) {
  const wafer_kernel_body *b = &k->body;
  if (value < b->input_count) return check_terms(v, k->inputs[value]);
  const wafer_node *n = &b->nodes[value - b->input_count];
  if (moves_alone(n->op)) return check_body_terms(v, k, n->operands[0]);
  if (n->op == WAFER_OP_reduce_mean) return size_of(v, k, n->operands[0]);
  if (n->op != WAFER_OP_reduce_sum) return 0;
  int64_t terms = 0, sums = 0;
  (void)wafer_shape_elements(&wafer_body_type(b, n->operands[0])->shape, &terms);
  (void)wafer_shape_elements(&n->type.shape, &sums);
  return sums ? size_of(v, k, n->operands[0]) * (double)terms / (double)sums : 0;
}

double check_terms(const check_values *v, uint32_t value) {
  uint32_t maker = v->maker[value];
  if (maker == WAFER_NONE) return 0;
  const wafer_kernel *k = &v->plan->kernels[maker];
  for (uint32_t o = 0; o < k->body.output_count; o++)
    if (k->outputs[o] == value) return check_body_terms(v, k, k->body.outputs[o]);
  return 0;
}

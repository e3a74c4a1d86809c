/* A kernel's body: every number in range, every type what the op's shape rule gives. After this,
 * loops, layouts and costs may be computed. */
#include <stdio.h>

#include "plan_check.h"

static wafer_status check_counts(const plan_check *c, const wafer_kernel *k) {
  const wafer_kernel_body *b = &k->body;
  wafer_loc loc = wafer_at_kernel(c->file, k->name, NULL);
  if ((uint32_t)b->family >= WAFER_FAMILY_COUNT)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "there is no kernel family %u",
                      (unsigned)b->family);
  if (b->node_count < 1 || b->anchor >= b->node_count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "anchor %u is none of the %u nodes", b->anchor,
                      b->node_count);
  if ((uint64_t)b->input_count + b->node_count > WAFER_MAX_KERNEL_VALUES)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "%u inputs and %u nodes, at most %d are supported together", b->input_count,
                      b->node_count, WAFER_MAX_KERNEL_VALUES);
  if (b->storage != c->plan->storage)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "stores tensors in another type than the plan");
  if (b->output_count < 1 || b->output_count > b->node_count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%u outputs of %u nodes", b->output_count,
                      b->node_count);
  bool slices = c->plan->mode == WAFER_MODE_streaming && wafer_plan_resident(c->plan) == 1;
  if ((b->output_depth < 1 && !slices) || b->output_depth > WAFER_MAX_DEPTH)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "output depth is %u, must be 1 to %d",
                      b->output_depth, WAFER_MAX_DEPTH);
  return WAFER_OK;
}

static wafer_status check_inputs(const plan_check *c, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    char what[32];
    snprintf(what, sizeof what, "input %u", i);
    WAFER_TRY(
        plan_check_type(c, wafer_at_kernel(c->file, k->name, NULL), what, &k->body.inputs[i]));
    bool slices = c->plan->mode == WAFER_MODE_streaming &&
                  (k->body.input_is_weight[i] || wafer_plan_resident(c->plan) == 1);
    if (k->body.input_depth[i] < 1 && !slices)
      return wafer_fail(c->diag, wafer_at_kernel(c->file, k->name, NULL), WAFER_BAD_INPUT,
                        "depth of input %u is 0, must be at least 1 but in weight streaming", i);
  }
  return WAFER_OK;
}

/* Attributes the op's row does not name, and the bytes of constants, are nobody else's to check. */
static wafer_status check_attrs(const plan_check *c, wafer_loc loc, const wafer_node *node) {
  const wafer_op_info *info = wafer_op_get(node->op);
  if (info->family == WAFER_FAMILY_none || node->op == WAFER_OP_weight)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s cannot be inside a kernel", info->name);
  for (uint32_t i = 0; i < node->attrs.count; i++)
    if ((uint32_t)node->attrs.at[i].id >= WAFER_ATTR_COUNT)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s has an unknown attribute", info->name);
  const wafer_attr *value = wafer_attr_find(&node->attrs, WAFER_ATTR_value);
  if (node->op == WAFER_OP_constant && (!value || !value->data.bytes))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "constant without elements");
  return WAFER_OK;
}

static wafer_status check_node(const plan_check *c, const wafer_kernel *k, uint32_t n) {
  const wafer_node *node = &k->body.nodes[n];
  wafer_loc loc = wafer_at_kernel(c->file, k->name, node->name);
  wafer_type operands[WAFER_OP_MAX_OPERANDS], result = node->type;
  char what[32];
  snprintf(what, sizeof what, "the result of node %u", n);
  if ((uint32_t)node->op >= WAFER_OP_COUNT)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "there is no op %u", (unsigned)node->op);
  if (node->operand_count > WAFER_OP_MAX_OPERANDS)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%u operands, at most %d are supported",
                      node->operand_count, WAFER_OP_MAX_OPERANDS);
  WAFER_TRY(plan_check_type(c, loc, what, &node->type));
  for (uint32_t i = 0; i < node->operand_count; i++) {
    if (node->operands[i] >= k->body.input_count + n)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "operand %u is value %u, which is not made before", i, node->operands[i]);
    operands[i] = *wafer_body_type(&k->body, node->operands[i]);
  }
  WAFER_TRY(check_attrs(c, loc, node));
  WAFER_TRY(
      wafer_op_infer(c->diag, loc, node->op, &node->attrs, node->operand_count, operands, &result));
  if (!wafer_type_equal(&result, &node->type))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s makes another type than node %u says",
                      wafer_op_get(node->op)->name, n);
  return WAFER_OK;
}

static bool reduces(const wafer_kernel_body *b, uint32_t value) {
  uint32_t first;
  return wafer_body_reduces(b, value - b->input_count, &first);
}

/* What lies behind the anchor has its dims, but for what reductions make, which nothing else reads.
 */
static wafer_status check_reductions(const plan_check *c, const wafer_kernel *k) {
  const wafer_kernel_body *b = &k->body;
  for (uint32_t n = 0; n < b->node_count; n++) {
    const wafer_node *node = &b->nodes[n];
    wafer_loc loc = wafer_at_kernel(c->file, k->name, node->name);
    bool behind = reduces(b, b->input_count + n);
    if (n != b->anchor && wafer_op_get(node->op)->family == WAFER_FAMILY_reduce && !behind)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "%s of node %u is neither the anchor nor a reduction of what that makes",
                        wafer_op_get(node->op)->name, n);
    for (uint32_t i = 0; i < node->operand_count; i++)
      if (node->operands[i] >= b->input_count && reduces(b, node->operands[i]))
        return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                          "operand %u of node %u is a reduction behind the anchor", i, n);
  }
  return WAFER_OK;
}

static wafer_status check_outputs(const plan_check *c, const wafer_kernel *k) {
  const wafer_kernel_body *b = &k->body;
  const wafer_node *anchor = &b->nodes[b->anchor];
  wafer_loc loc = plan_check_at(c, k);
  if (wafer_op_get(anchor->op)->family != b->family)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "a kernel of family %s cannot be anchored on %s",
                      wafer_family_name(b->family), wafer_op_get(anchor->op)->name);
  for (uint32_t i = 0; i < b->output_count; i++) {
    if (b->outputs[i] < b->input_count || b->outputs[i] >= b->input_count + b->node_count)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "output %u is value %u, which no node makes",
                        i, b->outputs[i]);
    if (b->family != WAFER_FAMILY_move && !reduces(b, b->outputs[i]) &&
        !wafer_shape_equal(&wafer_body_type(b, b->outputs[i])->shape, &anchor->type.shape))
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "output %u has other dims than the anchor",
                        i);
  }
  return WAFER_OK;
}

wafer_status plan_check_body(const plan_check *c, const wafer_kernel *kernel) {
  WAFER_TRY(check_counts(c, kernel));
  WAFER_TRY(check_inputs(c, kernel));
  for (uint32_t n = 0; n < kernel->body.node_count; n++) WAFER_TRY(check_node(c, kernel, n));
  WAFER_TRY(check_reductions(c, kernel));
  return check_outputs(c, kernel);
}

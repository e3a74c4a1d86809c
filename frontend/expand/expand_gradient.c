/* Gradient: the way back from y to the variables, by the rules of pass `grad`. */
#include "operators.h"
#include "wafer/grad.h"

static const MlirValue none;

static MlirValue value_named(import_node *n, const char *name) {
  name_entry *entry = scope_find(n->scope, name), *local;
  MlirValue value = none;
  if (!entry) node_bad(n, "'%s' is not defined before this node", name);
  if (n->status == WAFER_OK) n->status = assembly_local(n->im, entry, &local);
  if (n->status == WAFER_OK) n->status = assembly_use(n->im, local, &value);
  if (n->status == WAFER_OK && mlirValueIsNull(value))
    node_unsupported(n, "'%s' is no tensor of static shape", name);
  return value;
}

/* Appends the values that a list of names stands for, which must be the node's next inputs. */
static void read_variables(import_node *n, const char *attribute, MlirValue *out, uint32_t *count) {
  const onnx_attribute *a = attr_find(n, attribute);
  for (size_t i = 0; a && i < a->strings.count && n->status == WAFER_OK; i++) {
    const char *name = wafer_arena_printf(n->im->ctx->arena, "%.*s", (int)a->strings.at[i].count,
                                          (const char *)a->strings.at[i].at);
    if (*count >= n->input_count) node_bad(n, "fewer inputs than names in xs and zs");
    if (n->status != WAFER_OK || !name) return;
    out[*count] = value_named(n, name);
    if (n->status == WAFER_OK && !mlirValueEqual(out[*count], node_input(n, *count)))
      node_unsupported(n, "input %u is not '%s': gradients at other values", *count, name);
    ++*count;
  }
}

void import_gradient(import_node *n) {
  MlirValue *fixed = WAFER_NEW(n->im->ctx->arena, MlirValue, n->input_count);
  MlirValue *gradients = WAFER_NEW(n->im->ctx->arena, MlirValue, n->input_count);
  const char *name = attr_text(n, "y", "");
  uint32_t variables = 0, all;
  if (!fixed || !gradients) {
    n->status =
        wafer_fail(n->im->ctx->diag, n->im->b.loc, WAFER_NO_MEMORY, "no memory for the gradient");
    return;
  }
  read_variables(n, "xs", fixed, &variables);
  all = variables;
  read_variables(n, "zs", fixed, &all);
  for (uint32_t i = 0; i < variables && n->status == WAFER_OK; i++)
    if (wafer_ir_is_constant(fixed[i]))
      node_unsupported(n, "variable %u is known when compiling: nothing is derived by it", i);
  MlirValue y = value_named(n, name);
  if (n->status != WAFER_OK) return;
  wafer_grad what = {.y = y, .variable_count = variables, .fixed_count = all, .fixed = fixed};
  n->status = wafer_grad_build(&n->im->b, &what, gradients);
  for (uint32_t i = 0; i < variables && i < n->output_count && n->status == WAFER_OK; i++) {
    wafer_type own = node_type(n, fixed[i]);
    n->outputs[i] = gradients[i];
    if (mlirValueIsNull(n->outputs[i]))
      n->status = wafer_build_splat(&n->im->b, &own, 0, &n->outputs[i]);
  }
}

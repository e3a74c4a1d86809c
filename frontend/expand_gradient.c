/* Gradient: the core ops between the variables and the result, gone through backwards. */
#include <string.h>

#include "operators.h"

static const MlirValue none;

typedef struct tape {
  wafer_ir_map *slots; /* value -> slot, of values that depend on a variable */
  MlirOperation *ops;  /* whose results do, in their order */
  MlirValue *gradient; /* per slot; null: none yet */
  uint32_t op_count, slot_count, room;
  const MlirValue *fixed; /* variables: nothing behind them counts */
  uint32_t fixed_count;
} tape;

/* ---- Derivatives: what operand `index` gets of gradient g of the op's result y ---- */

typedef struct derivative {
  MlirOperation op;
  MlirValue g, y, a, b; /* b: null for ops of one operand */
  uint32_t index;
} derivative;

typedef MlirValue derive_fn(import_node *n, const derivative *d);

static MlirValue negated(import_node *n, MlirValue x) {
  return emit_unary(n, WAFER_OP_neg, x);
}

static MlirValue derive_add(import_node *n, const derivative *d) {
  (void)n;
  return d->g;
}
static MlirValue derive_sub(import_node *n, const derivative *d) {
  return d->index ? negated(n, d->g) : d->g;
}
static MlirValue derive_mul(import_node *n, const derivative *d) {
  return MUL(d->g, d->index ? d->a : d->b);
}
static MlirValue derive_div(import_node *n, const derivative *d) {
  MlirValue share = DIV(d->g, d->b);
  return d->index ? negated(n, MUL(share, d->y)) : share;
}
static MlirValue derive_neg(import_node *n, const derivative *d) {
  return negated(n, d->g);
}
static MlirValue derive_exp(import_node *n, const derivative *d) {
  return MUL(d->g, d->y);
}
static MlirValue derive_log(import_node *n, const derivative *d) {
  return DIV(d->g, d->a);
}
static MlirValue derive_sqrt(import_node *n, const derivative *d) {
  return DIV(d->g, ADD(d->y, d->y));
}
static MlirValue derive_tanh(import_node *n, const derivative *d) {
  return MUL(d->g, SUB(emit_scalar_like(n, d->y, 1), MUL(d->y, d->y)));
}
static MlirValue derive_sigmoid(import_node *n, const derivative *d) {
  return MUL(d->g, MUL(d->y, SUB(emit_scalar_like(n, d->y, 1), d->y)));
}
static MlirValue derive_relu(import_node *n, const derivative *d) {
  MlirValue zero = emit_scalar_like(n, d->a, 0);
  return emit_select(n, emit_binary(n, WAFER_OP_less, zero, d->a), d->g, zero);
}
static MlirValue derive_matmul(import_node *n, const derivative *d) {
  return d->index ? emit_binary(n, WAFER_OP_matmul, emit_swap_last(n, d->a), d->g)
                  : emit_binary(n, WAFER_OP_matmul, d->g, emit_swap_last(n, d->b));
}
static MlirValue derive_reshape(import_node *n, const derivative *d) {
  wafer_shape shape = node_type(n, d->a).shape;
  return emit_reshape(n, d->g, shape.rank, shape.dims);
}

static MlirValue derive_transpose(import_node *n, const derivative *d) {
  wafer_attrs attrs;
  uint32_t rank;
  int64_t back[WAFER_MAX_RANK];
  n->status = wafer_ir_attrs(n->im->ctx, d->op, &attrs);
  if (n->status != WAFER_OK) return none;
  const int64_t *perm = wafer_attr_ints(&attrs, WAFER_ATTR_perm, &rank);
  for (uint32_t i = 0; i < rank; i++) back[perm[i]] = i;
  return emit_transpose(n, d->g, rank, back);
}

/* Every element of a sum gets the sum's gradient. */
static MlirValue derive_reduce_sum(import_node *n, const derivative *d) {
  wafer_attrs attrs;
  uint32_t count;
  wafer_shape x = node_type(n, d->a).shape, kept = x;
  n->status = wafer_ir_attrs(n->im->ctx, d->op, &attrs);
  if (n->status != WAFER_OK) return none;
  const int64_t *axes = wafer_attr_ints(&attrs, WAFER_ATTR_axes, &count);
  for (uint32_t i = 0; i < count; i++) kept.dims[axes[i]] = 1;
  return emit_expand(n, emit_reshape(n, d->g, kept.rank, kept.dims), x.rank, x.dims);
}

static MlirValue derive_reduce_mean(import_node *n, const derivative *d) {
  wafer_shape x = node_type(n, d->a).shape, y = node_type(n, d->y).shape;
  int64_t all = 1, left = 1;
  wafer_shape_elements(&x, &all);
  wafer_shape_elements(&y, &left);
  MlirValue each = derive_reduce_sum(n, d);
  return left ? DIV(each, emit_scalar_like(n, each, (double)all / (double)left)) : each;
}

static const struct {
  wafer_op op;
  derive_fn *derive;
} derivatives[] = {
#define ROW(name) {WAFER_OP_##name, derive_##name}
    ROW(add),     ROW(sub),       ROW(mul),  ROW(div),    ROW(neg),     ROW(exp),
    ROW(log),     ROW(sqrt),      ROW(tanh), ROW(relu),   ROW(sigmoid), ROW(matmul),
    ROW(reshape), ROW(transpose), ROW(reduce_sum), ROW(reduce_mean),
#undef ROW
    {WAFER_OP_expand, derive_add}, /* summed over what was repeated, as all broadcasts are */
};

static derive_fn *derive_of(import_node *n, MlirOperation op) {
  wafer_op id = wafer_ir_op(op);
  for (size_t i = 0; i < WAFER_COUNT(derivatives); i++)
    if (derivatives[i].op == id) return derivatives[i].derive;
  node_unsupported(n, "the derivative of %s (node '%s') is not known",
                   id == WAFER_OP_COUNT ? "an operation" : wafer_op_get(id)->name,
                   wafer_ir_node_name(op));
  return NULL;
}

/* ---- The way back ---- */

/* Sums over the dims along which x was broadcast to g's shape. */
static MlirValue summed_to(import_node *n, MlirValue g, MlirValue x) {
  wafer_shape have = node_type(n, g).shape, want = node_type(n, x).shape;
  uint32_t dims = 0, lead = have.rank - want.rank;
  if (n->status != WAFER_OK || wafer_shape_equal(&have, &want)) return g;
  if (have.rank < want.rank) return emit_expand(n, g, want.rank, want.dims);
  for (uint32_t d = 0; d < have.rank; d++)
    if (d < lead || (want.dims[d - lead] == 1 && have.dims[d] != 1)) dims |= 1u << d;
  if (dims) g = emit_reduce(n, WAFER_OP_reduce_sum, g, dims, true);
  g = emit_reshape(n, g, want.rank, node_type(n, g).shape.dims + lead);
  return emit_expand(n, g, want.rank, want.dims);
}

static bool is_fixed(const tape *t, MlirValue value) {
  for (uint32_t i = 0; i < t->fixed_count; i++)
    if (mlirValueEqual(t->fixed[i], value)) return true;
  return false;
}

static bool depends(const tape *t, MlirOperation op) {
  for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
    if (wafer_ir_map_get(t->slots, mlirOperationGetOperand(op, i).ptr) != WAFER_NONE) return true;
  return false;
}

static void new_slot(import_node *n, tape *t, MlirValue value) {
  if (n->status == WAFER_OK && !wafer_ir_map_put(t->slots, value.ptr, t->slot_count++))
    n->status = wafer_fail(n->im->ctx->diag, n->im->b.loc, WAFER_NO_MEMORY,
                           "no memory for the gradient");
}

/* The ops that depend on the first `count` fixed values, which are the variables. */
static void record(import_node *n, tape *t, uint32_t count) {
  MlirOperation first = mlirBlockGetFirstOperation(n->im->b.block), op;
  uint32_t most = count;
  for (op = first; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) most++;
  t->slots = wafer_ir_map_create(n->im->ctx->arena);
  t->ops = WAFER_NEW(n->im->ctx->arena, MlirOperation, most);
  t->gradient = WAFER_NEW(n->im->ctx->arena, MlirValue, most);
  if (!t->slots || !t->ops || !t->gradient) {
    n->status = wafer_fail(n->im->ctx->diag, n->im->b.loc, WAFER_NO_MEMORY,
                           "no memory for the gradient");
    return;
  }
  for (uint32_t i = 0; i < count; i++) new_slot(n, t, t->fixed[i]);
  for (op = first; !mlirOperationIsNull(op) && n->status == WAFER_OK;
       op = mlirOperationGetNextInBlock(op)) {
    if (mlirOperationGetNumResults(op) != 1 || !depends(t, op)) continue;
    MlirValue result = mlirOperationGetResult(op, 0);
    if (is_fixed(t, result)) continue;
    t->ops[t->op_count++] = op;
    new_slot(n, t, result);
  }
}

static MlirValue *gradient_of(const tape *t, MlirValue value) {
  uint32_t slot = wafer_ir_map_get(t->slots, value.ptr);
  return slot == WAFER_NONE ? NULL : &t->gradient[slot];
}

/* An op's operands get their parts of its result's gradient. */
static void hand_back(import_node *n, tape *t, MlirOperation op) {
  derivative d = {.op = op, .y = mlirOperationGetResult(op, 0)};
  d.g = *gradient_of(t, d.y);
  if (mlirValueIsNull(d.g)) return;
  derive_fn *derive = derive_of(n, op);
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  d.a = mlirOperationGetOperand(op, 0);
  if (count > 1) d.b = mlirOperationGetOperand(op, 1);
  for (d.index = 0; d.index < count && n->status == WAFER_OK; d.index++) {
    MlirValue x = mlirOperationGetOperand(op, d.index), *sum = gradient_of(t, x);
    if (!sum) continue;
    MlirValue part = summed_to(n, derive(n, &d), x);
    *sum = mlirValueIsNull(*sum) ? part : ADD(*sum, part);
  }
}

/* ---- The operator ---- */

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
  tape t = {.fixed = fixed};
  const char *name = attr_text(n, "y", "");
  uint32_t variables = 0;
  if (!fixed) return;
  read_variables(n, "xs", fixed, &variables);
  t.fixed_count = variables;
  read_variables(n, "zs", fixed, &t.fixed_count);
  for (uint32_t i = 0; i < variables && n->status == WAFER_OK; i++)
    if (wafer_ir_is_constant(fixed[i]))
      node_unsupported(n, "variable %u is known when compiling: nothing is derived by it", i);
  MlirValue y = value_named(n, name);
  if (n->status == WAFER_OK) record(n, &t, variables);
  if (n->status != WAFER_OK) return;
  wafer_type type = node_type(n, y);
  MlirValue *first = gradient_of(&t, y);
  if (first) n->status = wafer_build_splat(&n->im->b, &type, 1, first);
  for (uint32_t i = t.op_count; i-- > 0 && n->status == WAFER_OK;) hand_back(n, &t, t.ops[i]);
  for (uint32_t i = 0; i < variables && i < n->output_count && n->status == WAFER_OK; i++) {
    wafer_type own = node_type(n, fixed[i]);
    n->outputs[i] = *gradient_of(&t, fixed[i]);
    if (mlirValueIsNull(n->outputs[i]))
      n->status = wafer_build_splat(&n->im->b, &own, 0, &n->outputs[i]);
  }
}

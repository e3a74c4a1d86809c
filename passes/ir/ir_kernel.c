/* Kernels: their attributes, and their functions as plain data. */
#include <stdlib.h>
#include <string.h>

#include "ir_names.h"

/* ---- Accessors ---- */

bool wafer_ir_is_kernel(MlirOperation func) {
  wafer_family family;
  uint32_t anchor;
  return wafer_ir_is_func(func) && wafer_ir_get_anchor(func, &family, &anchor);
}

bool wafer_ir_get_anchor(MlirOperation func, wafer_family *family, uint32_t *anchor) {
  const char *name;
  if (!get_string(func, NAME_FAMILY, &name) || !get_u32(func, NAME_ANCHOR, anchor)) return false;
  *family = wafer_family_by_name(name);
  return *family != WAFER_FAMILY_none;
}

void wafer_ir_set_anchor(MlirOperation func, wafer_family family, uint32_t anchor) {
  set_string(func, NAME_FAMILY, wafer_family_name(family));
  set_int(func, NAME_ANCHOR, anchor);
}

/* As many as the attribute names, the rest 1. */
static bool get_parts(MlirOperation func, const char *name, uint32_t *parts) {
  MlirAttribute attr = mlirOperationGetAttributeByName(func, ref(name));
  if (mlirAttributeIsNull(attr) || !mlirAttributeIsADenseI64Array(attr)) return false;
  intptr_t count = mlirDenseArrayGetNumElements(attr);
  if (count > WAFER_MAX_LOOPS || !get_u32s(func, name, (uint32_t)count, parts)) return false;
  for (intptr_t i = count; i < WAFER_MAX_LOOPS; i++) parts[i] = 1;
  for (intptr_t i = 0; i < count; i++)
    if (!parts[i]) return false;
  return true;
}

bool wafer_ir_get_split(MlirOperation func, wafer_split *split) {
  return get_parts(func, NAME_ROWS, split->rows) && get_parts(func, NAME_COLS, split->cols);
}

void wafer_ir_set_split(MlirOperation func, uint32_t loops, const wafer_split *split) {
  set_u32s(func, NAME_ROWS, loops, split->rows);
  set_u32s(func, NAME_COLS, loops, split->cols);
}

bool wafer_ir_get_slabs(MlirOperation func, uint32_t *slabs) {
  return get_u32(func, NAME_SLABS, slabs);
}
void wafer_ir_set_slabs(MlirOperation func, uint32_t slabs) {
  set_int(func, NAME_SLABS, slabs);
}

bool wafer_ir_get_replicas(MlirOperation func, uint32_t *replicas) {
  return get_u32(func, NAME_REPLICAS, replicas);
}
void wafer_ir_set_replicas(MlirOperation func, uint32_t replicas) {
  set_int(func, NAME_REPLICAS, replicas);
}

bool wafer_ir_get_depths(MlirOperation func, uint32_t count, uint32_t *depths) {
  return get_u32s(func, NAME_DEPTHS, count, depths);
}
void wafer_ir_set_depths(MlirOperation func, uint32_t count, const uint32_t *depths) {
  set_u32s(func, NAME_DEPTHS, count, depths);
}

bool wafer_ir_get_ahead(MlirOperation func, uint32_t *ahead) {
  return get_u32(func, NAME_AHEAD, ahead);
}
void wafer_ir_set_ahead(MlirOperation func, uint32_t ahead) {
  set_int(func, NAME_AHEAD, ahead);
}

bool wafer_ir_get_stays(MlirOperation func, uint32_t *inputs) {
  return get_u32(func, NAME_STAYS, inputs);
}
void wafer_ir_set_stays(MlirOperation func, uint32_t inputs) {
  set_int(func, NAME_STAYS, inputs);
}

bool wafer_ir_get_phase(MlirOperation func, uint32_t *phase) {
  return get_u32(func, NAME_PHASE, phase);
}
void wafer_ir_set_phase(MlirOperation func, uint32_t phase) {
  set_int(func, NAME_PHASE, phase);
}

bool wafer_ir_get_rect(MlirOperation func, wafer_rect *rect) {
  uint32_t at[4];
  if (!get_u32s(func, NAME_RECT, 4, at)) return false;
  *rect = (wafer_rect){.x = at[0], .y = at[1], .width = at[2], .height = at[3]};
  return true;
}

void wafer_ir_set_rect(MlirOperation func, const wafer_rect *rect) {
  set_u32s(func, NAME_RECT, 4, (const uint32_t[]){rect->x, rect->y, rect->width, rect->height});
}

/* ---- The body as plain data ---- */

typedef struct reading {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  MlirOperation func;
  wafer_kernel_body *body;
  wafer_node *nodes;     /* of the body */
  uint32_t *outputs;     /* of the body */
  wafer_ir_map *numbers; /* value -> number */
} reading;

static wafer_status no_memory(const reading *r) {
  return wafer_fail(r->ctx->diag, wafer_ir_loc(r->ir, r->func), WAFER_NO_MEMORY,
                    "no memory for kernel '%s'", wafer_ir_func_name(r->func));
}

static wafer_status malformed(const reading *r, MlirOperation op, const char *what) {
  return wafer_fail(r->ctx->diag, wafer_ir_loc(r->ir, op), WAFER_BAD_INPUT, "kernel '%s' %s",
                    wafer_ir_func_name(r->func), what);
}

static wafer_status read_inputs(reading *r, MlirBlock block) {
  wafer_arena *arena = r->ctx->arena;
  uint32_t count = (uint32_t)mlirBlockGetNumArguments(block);
  wafer_type *types = WAFER_NEW(arena, wafer_type, count);
  bool *is_weight = WAFER_NEW(arena, bool, count);
  uint32_t *depths = WAFER_NEW(arena, uint32_t, count + 1);
  if (!types || !is_weight || !depths) return no_memory(r);
  if (!wafer_ir_get_depths(r->func, count + 1, depths))
    for (uint32_t i = 0; i <= count; i++) depths[i] = 1;
  for (uint32_t i = 0; i < count; i++) {
    MlirValue argument = mlirBlockGetArgument(block, i);
    if (!wafer_ir_type_get(mlirValueGetType(argument), &types[i]))
      return malformed(r, r->func, "has an argument without a static tensor type");
    is_weight[i] = wafer_ir_argument_is_weight(r->func, i);
    if (!wafer_ir_map_put(r->numbers, argument.ptr, i)) return no_memory(r);
  }
  r->body->input_count = count;
  r->body->inputs = types;
  r->body->input_is_weight = is_weight;
  r->body->input_depth = depths;
  r->body->output_depth = depths[count];
  return WAFER_OK;
}

static wafer_status read_node(reading *r, MlirOperation op, wafer_node *node, uint32_t number) {
  const char *name = wafer_ir_node_name(op);
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(op);
  *node = (wafer_node){.op = wafer_ir_op(op), .operand_count = count};
  node->name = wafer_arena_strdup(r->ctx->arena, name);
  if (!node->name) return no_memory(r);
  if (node->op == WAFER_OP_COUNT || node->op == WAFER_OP_weight)
    return malformed(r, op, "may hold nn ops other than nn.weight alone");
  for (uint32_t i = 0; i < count; i++) {
    node->operands[i] = wafer_ir_map_get(r->numbers, mlirOperationGetOperand(op, i).ptr);
    if (node->operands[i] == WAFER_NONE) return malformed(r, op, "uses a value from outside");
  }
  MlirValue result = mlirOperationGetResult(op, 0);
  if (!wafer_ir_type_get(mlirValueGetType(result), &node->type))
    return malformed(r, op, "has a value without a static tensor type");
  if (!wafer_ir_map_put(r->numbers, result.ptr, number)) return no_memory(r);
  return wafer_ir_attrs(r->ctx, op, &node->attrs);
}

static uint32_t count_nodes(MlirBlock block) {
  uint32_t count = 0;
  MlirOperation last = mlirBlockGetTerminator(block);
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationEqual(op, last);
       op = mlirOperationGetNextInBlock(op))
    count++;
  return count;
}

static wafer_status read_nodes(reading *r, MlirBlock block) {
  uint32_t count = count_nodes(block), i = 0;
  wafer_node *nodes = WAFER_NEW(r->ctx->arena, wafer_node, count);
  if (!nodes) return no_memory(r);
  r->body->node_count = count;
  r->body->nodes = r->nodes = nodes;
  MlirOperation last = mlirBlockGetTerminator(block);
  for (MlirOperation op = mlirBlockGetFirstOperation(block); !mlirOperationEqual(op, last);
       op = mlirOperationGetNextInBlock(op), i++)
    WAFER_TRY(read_node(r, op, &nodes[i], r->body->input_count + i));
  return WAFER_OK;
}

static wafer_status read_outputs(reading *r, MlirBlock block) {
  MlirOperation last = mlirBlockGetTerminator(block);
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(last);
  uint32_t *outputs = WAFER_NEW(r->ctx->arena, uint32_t, count);
  if (!outputs) return no_memory(r);
  for (uint32_t i = 0; i < count; i++)
    outputs[i] = wafer_ir_map_get(r->numbers, mlirOperationGetOperand(last, i).ptr);
  r->body->output_count = count;
  r->body->outputs = r->outputs = outputs;
  return count ? WAFER_OK : malformed(r, r->func, "returns nothing");
}

/* ---- Concatenations of concatenations ---- */

/* Whether operand i of a concatenation of `all` operands so far gives way to its own: nobody else
 * takes it, and one op can take them all. */
static bool gives_way(const wafer_kernel_body *body, const uint32_t *uses, const wafer_node *n,
                      uint32_t i, uint32_t all) {
  uint32_t value = n->operands[i];
  if (n->op != WAFER_OP_concat || value < body->input_count || uses[value] != 1) return false;
  const wafer_node *from = &body->nodes[value - body->input_count];
  return from->op == WAFER_OP_concat && value - body->input_count != body->anchor &&
         wafer_attr_int(&from->attrs, WAFER_ATTR_axis) ==
             wafer_attr_int(&n->attrs, WAFER_ATTR_axis) &&
         all + from->operand_count - 1 <= WAFER_OP_MAX_OPERANDS;
}

/* concat(concat(x, y), z) becomes concat(x, y, z), so that elements move once. Operands keep their
 * numbers; nodes that have given way have none. */
static void join_node(const reading *r, const uint32_t *uses, wafer_node *n) {
  uint32_t operands[WAFER_OP_MAX_OPERANDS], count = 0;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    uint32_t all = count + n->operand_count - i;
    if (!gives_way(r->body, uses, n, i, all)) {
      operands[count++] = n->operands[i];
      continue;
    }
    wafer_node *from = &r->nodes[n->operands[i] - r->body->input_count];
    for (uint32_t k = 0; k < from->operand_count; k++) operands[count++] = from->operands[k];
    from->operand_count = 0;
  }
  memcpy(n->operands, operands, count * sizeof *operands);
  n->operand_count = count;
}

/* Without the nodes that have given way. */
static void renumber(const reading *r, uint32_t *now) {
  wafer_kernel_body *body = r->body;
  uint32_t first = body->input_count, kept = 0, anchor = body->anchor;
  for (uint32_t v = 0; v < first; v++) now[v] = v;
  for (uint32_t n = 0; n < body->node_count; n++) {
    wafer_node *node = &r->nodes[n];
    if (node->op == WAFER_OP_concat && node->operand_count == 0) continue;
    for (uint32_t i = 0; i < node->operand_count; i++) node->operands[i] = now[node->operands[i]];
    if (n == anchor) body->anchor = kept;
    now[first + n] = first + kept;
    r->nodes[kept++] = *node;
  }
  for (uint32_t i = 0; i < body->output_count; i++) r->outputs[i] = now[r->outputs[i]];
  body->node_count = kept;
}

static wafer_status join_concats(const reading *r) {
  const wafer_kernel_body *body = r->body;
  uint32_t values = body->input_count + body->node_count;
  uint32_t *uses = WAFER_NEW(r->ctx->arena, uint32_t, values);
  uint32_t *now = WAFER_NEW(r->ctx->arena, uint32_t, values);
  if (!uses || !now) return no_memory(r);
  for (uint32_t n = 0; n < body->node_count; n++)
    for (uint32_t i = 0; i < body->nodes[n].operand_count; i++) uses[body->nodes[n].operands[i]]++;
  for (uint32_t i = 0; i < body->output_count; i++) uses[body->outputs[i]]++;
  for (uint32_t n = 0; n < body->node_count; n++) join_node(r, uses, &r->nodes[n]);
  renumber(r, now);
  return WAFER_OK;
}

wafer_status wafer_ir_kernel_body(const wafer_ctx *ctx, const wafer_ir *ir, MlirOperation func,
                                  wafer_kernel_body *body) {
  *body = (wafer_kernel_body){0};
  reading r = {
      .ctx = ctx, .ir = ir, .func = func, .body = body, .numbers = wafer_ir_map_create(ctx->arena)};
  if (!r.numbers) return no_memory(&r);
  if (!wafer_ir_is_func(func) || !wafer_ir_get_anchor(func, &body->family, &body->anchor))
    return malformed(&r, func, "has no family and anchor");
  if (!wafer_ir_get_storage(ir, &body->storage)) body->storage = WAFER_DTYPE_f32;
  MlirBlock block = wafer_ir_body(func);
  if (mlirBlockIsNull(block)) return malformed(&r, func, "has no body");
  WAFER_TRY(read_inputs(&r, block));
  WAFER_TRY(read_nodes(&r, block));
  WAFER_TRY(read_outputs(&r, block));
  if (body->anchor >= body->node_count)
    return malformed(&r, func, "has an anchor that is none of its nodes");
  return join_concats(&r);
}

/* From a kernel's body to stages. Nodes are taken in order: an elementwise node starts a chain of
 * all that follow it with the same shape; any other node becomes a stage, and the chain behind it
 * its tail. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"

typedef struct body {
  exec_program *program;
  const wafer_kernel_body *body;
  const wafer_sum_order *sums; /* of the anchor, or NULL */
  exec_tensor **value;         /* per value; NULL: not made */
  bool *stored;                /* per value: an output of the kernel */
  bool *done;                  /* per node: a stage computes it */
  uint32_t *last_use;          /* per value: the last node that reads it; UINT32_MAX: an output */
} body;

static uint32_t value_of(const body *b, uint32_t node) {
  return b->body->input_count + node;
}

static wafer_dtype operand_host(const body *b, uint32_t value) {
  return exec_host_dtype(wafer_body_type(b->body, value)->dtype);
}

/* --- chains */

typedef struct chain {
  uint32_t count, node[EXEC_MAP_MOST_NODES];
} chain;

static bool in_chain(const body *b, const chain *c, uint32_t value) {
  for (uint32_t i = 0; i < c->count; i++)
    if (value_of(b, c->node[i]) == value) return true;
  return false;
}

/* Whether node n may join: elementwise, of that shape, its operands made or in the chain. */
static bool joins(const body *b, const chain *c, const wafer_shape *shape, uint32_t n) {
  const wafer_node *node = &b->body->nodes[n];
  if (!wafer_op_is(node->op, WAFER_TRAIT_MAP) || !wafer_shape_equal(&node->type.shape, shape))
    return false;
  if (c->count == EXEC_MAP_MOST_NODES || node->operand_count > 3) return false;
  for (uint32_t i = 0; i < node->operand_count; i++)
    if (!b->value[node->operands[i]] && !in_chain(b, c, node->operands[i])) return false;
  wafer_dtype type = operand_host(b, node->operands[node->op == WAFER_OP_select ? 1 : 0]);
  return exec_map_knows(node->op, type, exec_host_dtype(node->type.dtype));
}

static void collect(const body *b, uint32_t from, const wafer_shape *shape, chain *c) {
  for (uint32_t n = from; n < b->body->node_count; n++) {
    if (b->done[n]) continue; /* a constant */
    if (!joins(b, c, shape, n)) return;
    c->node[c->count++] = n;
  }
}

static bool needed_after(const body *b, const chain *c, uint32_t value) {
  return b->last_use[value] == UINT32_MAX || b->last_use[value] > c->node[c->count - 1];
}

static wafer_status compile_chain(const body *b, const chain *c, exec_tensor *anchor,
                                  const exec_order *order, const exec_map **map) {
  const wafer_node *nodes[EXEC_MAP_MOST_NODES];
  uint32_t number[EXEC_MAP_MOST_NODES];
  bool escapes[EXEC_MAP_MOST_NODES], stored[EXEC_MAP_MOST_NODES];
  for (uint32_t i = 0; i < c->count; i++) {
    nodes[i] = &b->body->nodes[c->node[i]];
    number[i] = value_of(b, c->node[i]);
    stored[i] = b->stored[number[i]];
    escapes[i] = needed_after(b, c, number[i]) || i == c->count - 1;
    b->done[c->node[i]] = true;
  }
  exec_map_build build = {.nodes = nodes,
                          .count = c->count,
                          .value = b->value,
                          .number = number,
                          .escapes = escapes,
                          .stored = stored,
                          .anchor = anchor,
                          .order = order};
  return exec_map_compile(b->program, &build, map);
}

/* The order of the first operand that has the result's shape, else row-major. */
static exec_order chain_order(const body *b, const chain *c, const wafer_shape *shape) {
  exec_order row_major = exec_row_major();
  for (uint32_t i = 0; i < c->count; i++) {
    const wafer_node *node = &b->body->nodes[c->node[i]];
    for (uint32_t k = 0; k < node->operand_count; k++) {
      const exec_tensor *t = b->value[node->operands[k]];
      if (t && wafer_shape_equal(&t->shape, shape) && !exec_tensor_known(b->program, t))
        return t->order;
    }
  }
  return row_major;
}

static wafer_status build_chain(body *b, uint32_t from, bool *made) {
  const wafer_shape *shape = &b->body->nodes[from].type.shape;
  chain c = {0};
  const exec_map *map;
  collect(b, from, shape, &c);
  *made = c.count > 0;
  if (!*made) return WAFER_OK;
  exec_order order = chain_order(b, &c, shape);
  WAFER_TRY(compile_chain(b, &c, NULL, &order, &map));
  return exec_map_stage(b->program, map, b->value[value_of(b, c.node[c.count - 1])]);
}

/* --- other ops */

static exec_build *const builders[WAFER_FAMILY_COUNT] = {
    [WAFER_FAMILY_move] = exec_build_move,
    [WAFER_FAMILY_resize] = exec_build_resize,
    [WAFER_FAMILY_gather] = exec_build_gather,
    [WAFER_FAMILY_scatter] = exec_build_scatter,
    [WAFER_FAMILY_reduce] = exec_build_reduce,
    [WAFER_FAMILY_softmax] = exec_build_softmax,
    [WAFER_FAMILY_normalize] = exec_build_normalize,
    [WAFER_FAMILY_gemm] = exec_build_gemm,
    [WAFER_FAMILY_conv] = exec_build_conv,
    [WAFER_FAMILY_conv_transpose] = exec_build_conv_transpose,
    [WAFER_FAMILY_pool] = exec_build_pool,
};

/* The node right behind `n` when it only bounds n's result: a library can take it along. */
static const wafer_node *clip_behind(const body *b, uint32_t n, uint32_t *at) {
  uint32_t value = value_of(b, n), next = n + 1;
  while (next < b->body->node_count && b->done[next]) next++;
  if (next == b->body->node_count || b->last_use[value] != next) return NULL;
  const wafer_node *node = &b->body->nodes[next];
  *at = next;
  bool bounds = node->op == WAFER_OP_relu || node->op == WAFER_OP_clip;
  return bounds && node->operands[0] == value &&
                 wafer_shape_equal(&node->type.shape, &b->body->nodes[n].type.shape)
             ? node
             : NULL;
}

static void offer_clip(const body *b, exec_op *op, uint32_t n, uint32_t *at) {
  const wafer_node *clip = clip_behind(b, n, at);
  if (!clip || exec_host_dtype(clip->type.dtype) != WAFER_DTYPE_f32) return;
  op->clips = true;
  op->clip_max = INFINITY;
  if (clip->op == WAFER_OP_relu) return;
  op->clip_min = (float)wafer_attr_float(&clip->attrs, WAFER_ATTR_min);
  op->clip_max = (float)wafer_attr_float(&clip->attrs, WAFER_ATTR_max);
}

/* The chain behind the result of node n runs over each slab while it is in the cache. */
static wafer_status add_tail(body *b, exec_op *op, uint32_t value, uint32_t n) {
  exec_tensor *y = op->result;
  chain c = {0};
  const exec_map *map;
  if (!op->stage) return WAFER_OK;
  if (exec_rounds(y->type, b->program->storage) && b->stored[value]) op->stage->rounds = y;
  collect(b, n + 1, &y->shape, &c);
  if (c.count == 0 || b->last_use[value] == UINT32_MAX || op->stage->rounds) return WAFER_OK;
  exec_tensor *over = needed_after(b, &c, value) ? NULL : y;
  WAFER_TRY(compile_chain(b, &c, over, &y->order, &map));
  op->stage->tail = map;
  exec_map_use(b->program, map);
  return WAFER_OK;
}

static wafer_status build_op(body *b, uint32_t n) {
  const wafer_node *node = &b->body->nodes[n];
  exec_op op = {.node = node, .sums = n == b->body->anchor ? b->sums : NULL};
  uint32_t value = value_of(b, n), clip = n;
  for (uint32_t i = 0; i < node->operand_count; i++) op.operands[i] = b->value[node->operands[i]];
  exec_build *build = wafer_op_get(node->op)->family < WAFER_FAMILY_COUNT
                          ? builders[wafer_op_get(node->op)->family]
                          : NULL;
  offer_clip(b, &op, n, &clip);
  if (build) WAFER_TRY(build(b->program, &op));
  if (!op.result) WAFER_TRY(exec_build_oracle(b->program, &op));
  b->value[value] = op.result;
  b->done[n] = true;
  if (op.took_clip) {
    b->value[value = value_of(b, clip)] = op.result;
    b->done[clip] = true;
  }
  return add_tail(b, &op, value, op.took_clip ? clip : n);
}

/* --- the body */

/* Cores have all bits of a constant, in an instruction or in memory, unless it is an output. */
static wafer_dtype storage_of(const body *b, uint32_t n) {
  return b->stored[value_of(b, n)] ? b->program->storage : WAFER_DTYPE_f32;
}

static wafer_status make_constants(body *b) {
  for (uint32_t n = 0; n < b->body->node_count; n++) {
    const wafer_node *node = &b->body->nodes[n];
    if (node->op != WAFER_OP_constant) continue;
    const wafer_attr *data = wafer_attr_find(&node->attrs, WAFER_ATTR_value);
    exec_tensor *t = exec_tensor_constant(b->program, &node->type, data->data.bytes,
                                          data->data.splat, storage_of(b, n));
    if (!t) return exec_no_memory(b->program);
    b->value[value_of(b, n)] = t;
    b->done[n] = true;
  }
  return WAFER_OK;
}

static void count_uses(body *b) {
  for (uint32_t n = 0; n < b->body->node_count; n++)
    for (uint32_t i = 0; i < b->body->nodes[n].operand_count; i++)
      b->last_use[b->body->nodes[n].operands[i]] = n;
  for (uint32_t i = 0; i < b->body->output_count; i++) {
    b->last_use[b->body->outputs[i]] = UINT32_MAX;
    b->stored[b->body->outputs[i]] = true;
  }
}

static wafer_status build_nodes(body *b) {
  WAFER_TRY(make_constants(b));
  for (uint32_t n = 0; n < b->body->node_count; n++) {
    if (b->done[n]) continue;
    bool made = false;
    if (wafer_op_is(b->body->nodes[n].op, WAFER_TRAIT_MAP)) WAFER_TRY(build_chain(b, n, &made));
    if (!made) WAFER_TRY(build_op(b, n));
  }
  return WAFER_OK;
}

wafer_status exec_kernel_build(exec_program *p, const wafer_kernel_body *kernel, uint32_t slabs,
                               const wafer_sum_order *sums, wafer_loc loc,
                               exec_tensor *const *inputs, exec_tensor **outputs) {
  size_t values = (size_t)kernel->input_count + kernel->node_count;
  body b = {.program = p,
            .body = kernel,
            .sums = sums,
            .value = WAFER_NEW(p->arena, exec_tensor *, values),
            .stored = WAFER_NEW(p->arena, bool, values),
            .done = WAFER_NEW(p->arena, bool, kernel->node_count),
            .last_use = WAFER_NEW(p->arena, uint32_t, values)};
  if (!b.value || !b.stored || !b.done || !b.last_use) return exec_no_memory(p);
  if (kernel->input_count) memcpy(b.value, inputs, kernel->input_count * sizeof *inputs);
  p->slabs = slabs ? slabs : 1;
  p->storage = kernel->storage;
  p->loc = loc;
  count_uses(&b);
  WAFER_TRY(build_nodes(&b));
  for (uint32_t i = 0; i < kernel->output_count; i++) outputs[i] = b.value[kernel->outputs[i]];
  return WAFER_OK;
}

/* Channels last where a convolution, pool or resize reads it, directly or through elementwise
 * nodes. */
exec_order exec_wanted_order(const wafer_kernel_body *kernel, uint32_t input) {
  exec_order row_major = exec_row_major();
  uint32_t rank = kernel->inputs[input].shape.rank, value = input;
  for (uint32_t n = 0; n < kernel->node_count; n++) {
    const wafer_node *node = &kernel->nodes[n];
    if (node->operand_count == 0 || node->operands[0] != value) continue;
    if (wafer_op_is(node->op, WAFER_TRAIT_WINDOW)) return exec_channels_last(rank);
    if (!wafer_op_is(node->op, WAFER_TRAIT_MAP) || node->type.shape.rank != rank) return row_major;
    value = kernel->input_count + n;
  }
  return row_major;
}

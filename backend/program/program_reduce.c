/* Family reduce, and what every family that sums shares: where the sums go, and how they get into
 * the result.
 *
 * A reduction begins with what changes nothing and folds the operand's tile into it by one vector
 * instruction, in f32. arg_max takes the extreme first, then the least (or greatest) index of those
 * that are equal to it; each of the two goes over the parts where the axis is cut. */
#include <math.h>
#include <string.h>

#include "program_build.h"
#include "wafer/pairs.h"

/* ---- Sums ---- */

wafer_status program_sums(program *p, uint32_t node, spread *result, wafer_dtype dtype,
                          spread **sums) {
  *sums = result;
  if (result->dtype == dtype) return WAFER_OK;
  *sums = WAFER_NEW(p->arena, spread, 1);
  if (!*sums) return program_no_memory(p);
  spread like = *result;
  uint32_t weight = program_pairs_of(p, node), v = p->body->input_count + node;
  if (weight < 2) like.apart = (uint32_t)(wafer_pairs_sums_dim(p->body, weight, v) + 1);
  **sums = like;
  (*sums)->dtype = dtype;
  program_pack_like(*sums, &like);
  return program_reserve(p, *sums, 4, node);
}

/* Into the result: times a number, or as it is. */
static void emit_store(const program_site *s) {
  const program_step *step = s->step;
  nest n = program_nest_over(WAFER_CORE_convert, 1, step->out, &s->out);
  nest_place(&n, 1, step->in[0].at, &s->in[0]);
  if (step->fill != 1) {
    n.op = WAFER_CORE_mul;
    n.inputs = 2;
    nest_constant(&n, 2, step->in[0].dtype, step->fill);
  }
  nest_emit(s->code, &n);
}

/* The cut loops over which the sums of a node go; `done`: those over which its operand has gone. */
static uint32_t summed_over(const program *p, uint32_t node, uint32_t *done) {
  uint32_t first;
  *done = 0;
  if (node == p->body->anchor) return program_cut_reductions(p);
  if (!wafer_body_reduces(p->body, node, &first)) return 0;
  if (p->first_only[p->body->nodes[node].operands[0]]) *done = program_cut_reductions(p);
  return program_cut_loops(p, first, p->loops.parallel);
}

wafer_status program_settle(program *p, uint32_t node, const spread *sums, wafer_core_op op,
                            double scale, const spread *result) {
  uint32_t done, set = summed_over(p, node, &done);
  uint32_t v = p->body->input_count + node;
  program_operand from = program_own(sums);
  if (set) { /* steps that are waiting refer to `result` as it is */
    spread *first = WAFER_NEW(p->arena, spread, 1);
    if (!first) return program_no_memory(p);
    WAFER_TRY(program_chain(p, sums, set, done, op));
    WAFER_TRY(program_first(p, result, set, first));
    p->first_only[v] = true;
    p->value[v] = result = first;
  }
  if (sums->address == result->address && scale == 1) return WAFER_OK;
  program_step store = program_step_of(node, result, emit_store);
  store.fill = scale;
  store.in_count = 1;
  store.in[0] = from;
  return program_add(p, &store);
}

/* ---- Reductions ---- */

static bool is_arg(const wafer_node *node) {
  return wafer_op_is(node->op, WAFER_TRAIT_INDEX);
}

static wafer_core_op fold_of(wafer_op op) {
  switch (op) {
  case WAFER_OP_reduce_prod: return WAFER_CORE_mul;
  case WAFER_OP_reduce_max:
  case WAFER_OP_arg_max: return WAFER_CORE_max;
  case WAFER_OP_reduce_min:
  case WAFER_OP_arg_min: return WAFER_CORE_min;
  default: return WAFER_CORE_add;
  }
}

double program_neutral(wafer_core_op op, wafer_dtype dtype) {
  double most = wafer_dtype_is_float(dtype)
                    ? INFINITY
                    : ldexp(1, (int)wafer_dtype_bits(dtype) - wafer_dtype_is_signed(dtype)) - 1;
  double least = wafer_dtype_is_float(dtype)    ? -INFINITY
                 : wafer_dtype_is_signed(dtype) ? -most - 1
                                                : 0;
  if (wafer_dtype_bits(dtype) == 64 && !wafer_dtype_is_float(dtype)) { /* the nearest double */
    most = wafer_dtype_is_signed(dtype) ? 0x1.fffffffffffffp62 : 0x1.fffffffffffffp63;
    least = wafer_dtype_is_signed(dtype) ? -0x1p63 : 0;
  }
  return op == WAFER_CORE_max ? least : op == WAFER_CORE_min ? most : op == WAFER_CORE_mul ? 1 : 0;
}

/* Loops over the operand's tile; the result's strides are 0 along what is reduced. */
static nest over_operand(const program_site *s, wafer_core_op op, uint32_t inputs, uint32_t operand,
                         const spread *result, const program_tile *at) {
  const spread *x = s->step->in[operand].at;
  nest n = program_nest_over(op, inputs, x, &s->in[operand]);
  nest_operand from = n.at[0];
  bool keep = x->rank == result->rank;
  n.at[0] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)result->dtype, .address = at->address};
  for (uint32_t d = 0, to = 0; d < x->rank; d++) {
    bool gone = wafer_node_reduces(s->node, d);
    if (!gone) n.at[0].stride[d] = result->dim[to].stride;
    to += !gone || keep;
  }
  n.at[1] = from;
  n.at[2] = n.at[0];
  return n;
}

static void emit_fold(const program_site *s) {
  wafer_core_op op = fold_of(s->node->op);
  program_fill(s, s->step->out, &s->out, program_neutral(op, s->step->out->dtype));
  nest n = over_operand(s, op, 2, 0, s->step->out, &s->out);
  nest_emit(s->code, &n);
}

static wafer_status operand(program *p, uint32_t node, const spread *out, program_operand *o) {
  const wafer_node *n = &p->body->nodes[node];
  program_link link[WAFER_MAX_RANK] = {{0}};
  bool keep = wafer_attr_int(&n->attrs, WAFER_ATTR_keepdims) != 0;
  uint32_t rank = wafer_body_type(p->body, n->operands[0])->shape.rank, loop = p->loops.parallel;
  uint32_t first;
  bool behind = wafer_body_reduces(p->body, node, &first);
  for (uint32_t d = 0, at = 0; d < rank; d++) {
    bool gone = wafer_node_reduces(n, d);
    if (!gone)
      link[d] = program_like(&out->dim[at]);
    else if (behind)
      link[d] = program_like(&p->loop[d]);
    else if (node == p->body->anchor && loop < p->loops.count)
      link[d] = program_like(&p->loop[loop++]);
    at += !gone || keep;
  }
  if (p->constant[n->operands[0]]) return program_refuse(p, "its operand is one constant");
  return program_operand_of(p, node, 0, link, 0, o);
}

static double mean_scale(const program *p, const wafer_node *n) {
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[0])->shape;
  double elements = 1;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (wafer_node_reduces(n, d)) elements *= (double)shape->dims[d];
  return 1 / elements;
}

/* ---- arg_max, arg_min ---- */

wafer_status program_index_table(program *p, uint32_t node, int32_t step) {
  const wafer_node *n = &p->body->nodes[node];
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[0])->shape;
  int64_t extent = shape->dims[wafer_attr_int(&n->attrs, WAFER_ATTR_axis)];
  program_link link = {0};
  if (node == p->body->anchor && p->loops.parallel < p->loops.count) /* arg_*: the axis */
    link = program_like(&p->loop[p->loops.parallel]);
  spread *table = WAFER_NEW(p->arena, spread, 1);
  int32_t *numbers = WAFER_NEW(p->arena, int32_t, (size_t)extent);
  if (!table || !numbers) return program_no_memory(p);
  for (int64_t i = 0; i < extent; i++) numbers[i] = (int32_t)i * step;
  WAFER_TRY(program_wanted(p, 1, &extent, WAFER_DTYPE_i32, &link, table));
  table->dim[0].stride = 4;
  p->table[p->body->input_count + node] = table;
  return program_table(p, node, table, numbers);
}

/* in: the operand, the table, the extremes. Marks what is equal to its extreme, replaces the marks
 * by indices and folds those. */
static void emit_arg(const program_site *s) {
  const program_step *step = s->step;
  bool last = wafer_attr_int(&s->node->attrs, WAFER_ATTR_last) != 0;
  const spread *x = step->in[0].at, *marks = step->in[3].at;
  uint32_t axis = (uint32_t)wafer_attr_int(&s->node->attrs, WAFER_ATTR_axis);
  double none = last ? -1 : INT32_MAX;
  nest n = over_operand(s, WAFER_CORE_equal, 2, 0, step->in[2].at, &s->in[2]);
  nest_operand mark = n.at[1];
  mark.dtype = WAFER_DTYPE_i32;
  mark.address = s->in[3].address;
  for (uint32_t d = 0; d < x->rank; d++) mark.stride[d] = marks->dim[d].stride;
  n.at[0] = mark;
  nest_emit(s->code, &n);
  n.op = WAFER_CORE_select;
  n.inputs = 3;
  n.at[1] = mark;
  n.at[2] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = WAFER_DTYPE_i32, .address = s->in[1].address};
  n.at[2].stride[axis] = 4;
  nest_constant(&n, 3, WAFER_DTYPE_i32, none);
  nest_emit(s->code, &n);
  program_fill(s, step->out, &s->out, none);
  n = over_operand(s, last ? WAFER_CORE_max : WAFER_CORE_min, 2, 0, step->out, &s->out);
  n.at[1] = mark;
  nest_emit(s->code, &n);
}

static wafer_status own_buffer(program *p, const spread *like, wafer_dtype dtype, spread **out) {
  *out = WAFER_NEW(p->arena, spread, 1);
  if (!*out) return program_no_memory(p);
  **out = *like;
  (*out)->dtype = dtype;
  program_pack_like(*out, like);
  return program_reserve(p, *out, 4, p->node);
}

/* Where the axis is cut, every core has the extreme of all parts before it looks for what is equal
 * to it. */
static wafer_status share_extreme(program *p, const spread *extreme, wafer_op op) {
  uint32_t set = p->node == p->body->anchor ? program_cut_reductions(p) : 0;
  spread first;
  if (!set) return WAFER_OK;
  WAFER_TRY(program_chain(p, extreme, set, 0, fold_of(op)));
  WAFER_TRY(program_first(p, extreme, set, &first));
  return program_exchange(p, &first, extreme, NULL);
}

static wafer_status arg(program *p, uint32_t node, spread *out) {
  const wafer_node *n = &p->body->nodes[node];
  bool last = wafer_attr_int(&n->attrs, WAFER_ATTR_last) != 0;
  spread *extreme, *index, *marks;
  program_operand x;
  WAFER_TRY(operand(p, node, out, &x));
  WAFER_TRY(own_buffer(p, out, x.dtype, &extreme));
  WAFER_TRY(own_buffer(p, out, WAFER_DTYPE_i32, &index));
  WAFER_TRY(own_buffer(p, x.at, WAFER_DTYPE_i32, &marks));
  program_step fold = program_step_of(node, extreme, emit_fold);
  fold.in_count = 1;
  fold.in[0] = x;
  WAFER_TRY(program_add(p, &fold));
  WAFER_TRY(share_extreme(p, extreme, n->op));
  program_step find = program_step_of(node, index, emit_arg);
  find.in_count = 4;
  find.in[0] = x;
  find.in[1] = program_own(p->table[p->body->input_count + node]);
  find.in[2] = program_own(extreme);
  find.in[3] = x;
  find.in[3].at = marks;
  WAFER_TRY(program_add(p, &find));
  return program_settle(p, node, index, last ? WAFER_CORE_max : WAFER_CORE_min, 1, out);
}

wafer_status program_reduce(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  spread *out, *sums;
  WAFER_TRY(program_result(p, node, &out));
  if (is_arg(n)) return arg(p, node, out);
  bool mean = n->op == WAFER_OP_reduce_mean;
  if (mean && !wafer_dtype_is_float(n->type.dtype)) return program_refuse(p, "a mean of integers");
  WAFER_TRY(program_sums(p, node, out, wafer_sum_dtype(n->type.dtype), &sums));
  program_step fold = program_step_of(node, sums, emit_fold);
  fold.in_count = 1;
  WAFER_TRY(operand(p, node, out, &fold.in[0]));
  WAFER_TRY(program_add(p, &fold));
  return program_settle(p, node, sums, fold_of(n->op), mean ? mean_scale(p, n) : 1, out);
}

/* Family map: elementwise ops, one vector instruction each over the tile of the result; what is
 * broadcast has stride 0. Addition, multiplication and the like are instructions of their own, the
 * rest are routines (apply) at the rate of their row in ops.def. */
#include "program_build.h"

wafer_core_op program_instruction(wafer_op op, bool floats) {
  if (!floats) return WAFER_CORE_apply;
  switch (op) {
  case WAFER_OP_add: return WAFER_CORE_add;
  case WAFER_OP_sub: return WAFER_CORE_sub;
  case WAFER_OP_mul: return WAFER_CORE_mul;
  case WAFER_OP_max: return WAFER_CORE_max;
  case WAFER_OP_min: return WAFER_CORE_min;
  case WAFER_OP_exp: return WAFER_CORE_exp;
  case WAFER_OP_sqrt: return WAFER_CORE_sqrt;
  case WAFER_OP_reciprocal: return WAFER_CORE_reciprocal;
  default: return WAFER_CORE_apply;
  }
}

/* Strides of an operand along the dims of the result: dims align at the right, 1 against more
 * repeats. */
static void place_broadcast(nest *n, uint32_t k, const program_operand *o, const program_tile *tile,
                            uint32_t rank) {
  if (!o->at) {
    nest_constant(n, k, o->dtype, o->constant);
    return;
  }
  n->at[k] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)o->at->dtype, .address = tile->address};
  uint32_t lead = rank - o->at->rank;
  for (uint32_t d = 0; d < o->at->rank; d++)
    if (o->at->dim[d].extent > 1) n->at[k].stride[d + lead] = o->at->dim[d].stride;
}

static bool is_small(wafer_dtype dtype) {
  return wafer_dtype_bits(dtype) < 8 ||
         (wafer_dtype_is_float(dtype) && wafer_dtype_bits(dtype) < 16);
}

/* Types that no routine computes with are converted; the same bits as another type are moved. */
static void set_types(const program_site *s, nest *n) {
  const program_step *step = s->step;
  wafer_dtype from = step->in[0].dtype, to = step->out->dtype;
  if (s->node->op == WAFER_OP_bitcast) {
    n->op = WAFER_CORE_move;
    n->at[1].dtype = n->at[0].dtype;
  } else if (s->node->op == WAFER_OP_cast && (is_small(from) || is_small(to))) {
    n->op = WAFER_CORE_convert;
  }
}

static void emit(const program_site *s) {
  const program_step *step = s->step;
  const wafer_node *node = s->node;
  bool floats = wafer_dtype_is_float(step->in[step->in_count - 1].dtype);
  nest n =
      program_nest_over(program_instruction(node->op, floats), step->in_count, step->out, &s->out);
  n.function = node->op;
  n.attrs = &node->attrs;
  for (uint32_t i = 0; i < step->in_count; i++)
    place_broadcast(&n, i + 1, &step->in[i], &s->in[i], step->out->rank);
  set_types(s, &n);
  nest_emit(s->code, &n);
}

/* What of operand i the cores need that have parts of `out`. A scalar that only some of them have
 * has a dim that says so: what is made of it alone is made there. */
static void link_operand(const program *p, const wafer_node *n, uint32_t i, const spread *out,
                         program_link *link) {
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[i])->shape;
  const spread *have = p->value[n->operands[i]];
  uint32_t lead = n->type.shape.rank - shape->rank;
  for (uint32_t d = 0; d < shape->rank; d++)
    if (shape->dims[d] == n->type.shape.dims[d + lead]) link[d] = program_like(&out->dim[d + lead]);
  if (n->type.shape.rank == 0 && out->rank == 1 && have && have->rank == 1)
    link[0] = program_like(&out->dim[0]);
}

wafer_status program_map(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  spread *out;
  WAFER_TRY(program_result(p, node, &out));
  program_step step = program_step_of(node, out, emit);
  step.in_count = n->operand_count;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    program_link link[WAFER_MAX_RANK] = {{0}};
    link_operand(p, n, i, out, link);
    WAFER_TRY(program_operand_of(p, node, i, link, 0, &step.in[i]));
  }
  if (n->op == WAFER_OP_bitcast &&
      (!step.in[0].at || wafer_dtype_bytes(step.in[0].at->dtype) != wafer_dtype_bytes(out->dtype)))
    return program_refuse(p, "cores hold its operand in another width than its result");
  return program_add(p, &step);
}

/* ---- One value everywhere ---- */

static void emit_splat(const program_site *s) {
  program_fill(s, s->step->out, &s->out, s->step->fill);
}

wafer_status program_splat(program *p, uint32_t node, const spread *out) {
  program_step step = program_step_of(node, out, emit_splat);
  step.fill = p->splat[p->body->input_count + node];
  return program_add(p, &step);
}

/* Family gemm: matrix products, batched by broadcast.
 *
 * Sums begin at zero; one vector multiply-accumulate runs over batch dims, rows, columns and what
 * is summed, the sums in place. When the summed dim is cut, partial sums go down a chain. */
#include "program_build.h"

static void emit(const program_site *s) {
  const program_step *step = s->step;
  uint32_t rank = step->out->rank;
  program_fill(s, step->out, &s->out, 0);
  nest n = program_nest_over(WAFER_CORE_fma, 3, step->out, &s->out);
  n.at[3] = n.at[0];
  uint32_t sum = nest_loop(&n, s->in[0].len[step->in[0].at->rank - 1]);
  for (uint32_t i = 0; i < 2; i++) {
    const spread *x = step->in[i].at;
    nest_operand *o = &n.at[i + 1];
    *o = (nest_operand){
        .kind = WAFER_OPERAND_memory, .dtype = (uint8_t)x->dtype, .address = s->in[i].address};
    for (uint32_t d = 0; d + 2 < x->rank; d++)
      if (x->dim[d].extent > 1) o->stride[d + rank - x->rank] = x->dim[d].stride;
    o->stride[i == 0 ? rank - 2 : rank - 1] = x->dim[x->rank - (i == 0 ? 2 : 1)].stride;
    o->stride[sum] = x->dim[x->rank - (i == 0 ? 1 : 2)].stride;
  }
  nest_emit(s->code, &n);
}

static wafer_status operand(program *p, uint32_t node, uint32_t i, const spread *out,
                            program_operand *o) {
  const wafer_node *n = &p->body->nodes[node];
  const wafer_shape *shape = &wafer_body_type(p->body, n->operands[i])->shape;
  program_link link[WAFER_MAX_RANK] = {{0}};
  uint32_t lead = out->rank - shape->rank;
  for (uint32_t d = 0; d + 2 < shape->rank; d++)
    if (shape->dims[d] == n->type.shape.dims[d + lead]) link[d] = program_like(&out->dim[d + lead]);
  uint32_t summed = shape->rank - (i == 0 ? 1 : 2), kept = shape->rank - (i == 0 ? 2 : 1);
  link[kept] = program_like(&out->dim[out->rank - (i == 0 ? 2 : 1)]);
  if (node == p->body->anchor && p->loops.count > p->loops.parallel)
    link[summed] = program_like(&p->loop[p->loops.parallel]);
  if (p->constant[n->operands[i]]) return program_refuse(p, "an operand is one constant");
  return program_operand_of(p, node, i, link, 0, o);
}

wafer_status program_gemm(program *p, uint32_t node) {
  const wafer_type *type = &p->body->nodes[node].type;
  spread *out, *sums;
  WAFER_TRY(program_result(p, node, &out));
  WAFER_TRY(program_sums(p, node, out, type->dtype, &sums));
  program_step step = program_step_of(node, sums, emit);
  step.in_count = 2;
  for (uint32_t i = 0; i < 2; i++) WAFER_TRY(operand(p, node, i, out, &step.in[i]));
  WAFER_TRY(program_add(p, &step));
  return program_settle(p, node, sums, WAFER_CORE_add, 1, out);
}

/* Family gemm: matrix products, batched by broadcast.
 *
 * Sums begin at zero; one vector multiply-accumulate runs over batch dims, rows, columns and what
 * is summed, the sums in place. When the summed dim is cut, partial sums go down a chain. A sparse
 * weight lies as lists of pairs (wafer/pairs.h), which the core sends to itself, and of which some
 * may begin and end sums. */
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

/* Each pair goes over the dims of the result that the weight has not: sums, and activations. */
static void emit_sparse(const program_site *s) {
  const spread *sums = s->step->out, *x = s->step->in[0].at;
  uint32_t right = program_pairs_operand(s->step), rank = sums->rank, lead = rank - x->rank;
  uint32_t kept = right ? rank - 1 : rank - 2, summed = x->rank - (right ? 1 : 2);
  program_pairs_over over;
  uint32_t before = s->code->count;
  if (s->in[0].len[summed] < 1) {
    program_fill(s, sums, &s->out, 0);
    return;
  }
  const spread *result = program_pairs_result(s->step);
  program_pairs_clear(s);
  program_pairs_begin(s, &over);
  for (uint32_t d = 0; d < rank; d++) {
    if (d == kept) continue;
    uint32_t loop = nest_loop(&over.runs, s->out.len[d]);
    over.runs.at[0].stride[loop] = sums->dim[d].stride;
    over.runs.at[2].stride[loop] = result->dim[d].stride;
    /* the other operand's own dim is where the weight's would be */
    if (d >= lead && x->dim[d - lead].extent > 1)
      over.runs.at[1].stride[loop] = x->dim[d - lead].stride;
  }
  over.operand[right ? 0 : 1] = x->dim[summed].stride;
  over.sums[right ? 1 : 0] = sums->dim[kept].stride;
  over.results[right ? 1 : 0] = result->dim[kept].stride;
  program_pairs_emit(s, before, &over);
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
  WAFER_TRY(program_sums(p, node, out, wafer_sum_dtype(type->dtype), &sums));
  program_step step = program_step_of(node, sums, emit);
  uint32_t sparse = program_pairs_of(p, node);
  bool ends = false;
  step.in_count = 2;
  if (sparse < 2) {
    WAFER_TRY(operand(p, node, 1 - sparse, out, &step.in[0]));
    WAFER_TRY(program_pairs_set(p, node, sparse, out, &step, &ends));
    step.emit = emit_sparse;
  }
  for (uint32_t i = 0; i < 2 && sparse > 1; i++) WAFER_TRY(operand(p, node, i, out, &step.in[i]));
  WAFER_TRY(program_add(p, &step));
  if (ends) return WAFER_OK;
  return program_settle(p, node, sums, WAFER_CORE_add, 1, out);
}

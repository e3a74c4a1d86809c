/* Family softmax: exp(x - max) / sum along one dim.
 *
 * Passes over the tile: max, subtract, exp, sum, and a multiplication by the reciprocal of the sum.
 * When the dim is cut, maxima and sums are chained, and the first part sends them to the others. */
#include <string.h>

#include "program_build.h"

/* Loops over the tile of `big`, operand k of them a number per row. */
static void place_rows(nest *n, uint32_t k, const spread *rows, const program_tile *tile,
                       uint32_t axis) {
  nest_place(n, k, rows, tile);
  n->at[k].stride[axis] = 0;
}

static uint32_t axis_of(const program_site *s) {
  return (uint32_t)wafer_attr_int(&s->node->attrs, WAFER_ATTR_axis);
}

/* out: a number per row. */
static void emit_fold(const program_site *s) {
  wafer_core_op op = (wafer_core_op)s->step->constant[0];
  program_fill(s, s->step->out, &s->out, program_neutral(op, s->step->out->dtype));
  nest n = program_nest_over(op, 2, s->step->in[0].at, &s->in[0]);
  n.at[1] = n.at[0];
  place_rows(&n, 0, s->step->out, &s->out, axis_of(s));
  n.at[2] = n.at[0];
  nest_emit(s->code, &n);
}

static void emit_exp(const program_site *s) {
  nest n = program_nest_over(WAFER_CORE_sub, 2, s->step->out, &s->out);
  nest_place(&n, 1, s->step->in[0].at, &s->in[0]);
  place_rows(&n, 2, s->step->in[1].at, &s->in[1], axis_of(s));
  nest_emit(s->code, &n);
  n.op = WAFER_CORE_exp;
  n.inputs = 1;
  n.at[1] = n.at[0];
  nest_emit(s->code, &n);
}

static void emit_reciprocal(const program_site *s) {
  nest n = program_nest_over(WAFER_CORE_reciprocal, 1, s->step->out, &s->out);
  n.at[1] = n.at[0];
  nest_emit(s->code, &n);
}

static void emit_scale(const program_site *s) {
  nest n = program_nest_over(WAFER_CORE_mul, 2, s->step->out, &s->out);
  nest_place(&n, 1, s->step->in[0].at, &s->in[0]);
  place_rows(&n, 2, s->step->in[1].at, &s->in[1], axis_of(s));
  nest_emit(s->code, &n);
}

typedef struct softmax {
  program *p;
  uint32_t node, axis;
  uint32_t set; /* the loop that cuts the axis */
  spread *rows, *work, *out;
} softmax;

static program_step step_of(const softmax *x, const spread *out,
                            void (*emit)(const program_site *)) {
  return program_step_of(x->node, out, emit);
}

/* Folds `from` into the rows; afterwards every core of a row has the result. */
static wafer_status fold(const softmax *x, program_operand from, wafer_core_op op) {
  program_step step = step_of(x, x->rows, emit_fold);
  step.in_count = 1;
  step.in[0] = from;
  step.constant[0] = (int32_t)op;
  WAFER_TRY(program_add(x->p, &step));
  if (!x->set) return WAFER_OK;
  spread first;
  WAFER_TRY(program_chain(x->p, x->rows, x->set, 0, op));
  WAFER_TRY(program_first(x->p, x->rows, x->set, &first));
  return program_exchange(x->p, &first, x->rows, NULL);
}

/* Rows: the result without its axis. */
static wafer_status make_rows(softmax *x) {
  program_link link[WAFER_MAX_RANK] = {{0}};
  int64_t extent[WAFER_MAX_RANK];
  wafer_dtype dtype = wafer_sum_dtype(x->p->body->nodes[x->node].type.dtype);
  for (uint32_t d = 0; d < x->out->rank; d++) {
    extent[d] = d == x->axis ? 1 : x->out->dim[d].extent;
    if (d != x->axis) link[d] = program_like(&x->out->dim[d]);
  }
  x->rows = WAFER_NEW(x->p->arena, spread, 1);
  if (!x->rows) return program_no_memory(x->p);
  WAFER_TRY(program_wanted(x->p, x->out->rank, extent, dtype, link, x->rows));
  program_pack_like(x->rows, x->out);
  return program_reserve(x->p, x->rows, 4, x->node);
}

/* The rows as operand of a step over the result: all of the axis' one index. */
static program_operand rows_operand(const softmax *x) {
  program_operand o = program_own(x->rows);
  return o;
}

static wafer_status exponentials(const softmax *x, program_operand from) {
  program_step step = step_of(x, x->work, emit_exp);
  step.in_count = 2;
  step.in[0] = from;
  step.in[1] = rows_operand(x);
  return program_add(x->p, &step);
}

static wafer_status divide(const softmax *x) {
  program_step invert = step_of(x, x->rows, emit_reciprocal);
  program_step scale = step_of(x, x->out, emit_scale);
  scale.in_count = 2;
  scale.in[0] = program_own(x->work);
  scale.in[1] = rows_operand(x);
  WAFER_TRY(program_add(x->p, &invert));
  return program_add(x->p, &scale);
}

wafer_status program_softmax(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  softmax x = {.p = p, .node = node};
  program_operand from;
  program_link link[WAFER_MAX_RANK] = {{0}};
  x.axis = (uint32_t)wafer_attr_int(&n->attrs, WAFER_ATTR_axis);
  WAFER_TRY(program_result(p, node, &x.out));
  bool cut =
      node == p->body->anchor && (p->r->split->rows[x.axis] > 1 || p->r->split->cols[x.axis] > 1);
  if (cut) x.set = 1u << x.axis;
  for (uint32_t d = 0; d < x.out->rank; d++) link[d] = program_like(&x.out->dim[d]);
  if (p->constant[n->operands[0]]) return program_refuse(p, "its operand is one constant");
  WAFER_TRY(program_operand_of(p, node, 0, link, 0, &from));
  WAFER_TRY(make_rows(&x));
  WAFER_TRY(program_sums(p, node, x.out, wafer_sum_dtype(n->type.dtype), &x.work));
  WAFER_TRY(fold(&x, from, WAFER_CORE_max));
  WAFER_TRY(exponentials(&x, from));
  WAFER_TRY(fold(&x, program_own(x.work), WAFER_CORE_add));
  return divide(&x);
}

/* Family normalize: (x - mean) / sqrt(variance + epsilon) over dims, or without the mean.
 *
 * Passes over the tile: sum, subtract the mean, add up squares, multiply by the reciprocal of the
 * root. When the dims are cut, both sums are chained, and the first part sends them to the others.
 */
#include <string.h>

#include "program_build.h"

typedef struct normalize {
  program *p;
  uint32_t node, axes; /* axes: a bit set, as is */
  uint32_t set;        /* the loops that cut them */
  bool center;
  spread *rows, *work, *out; /* rows: the result without its axes */
} normalize;

static uint32_t axes_of(const wafer_node *node) {
  return wafer_attr_dims(&node->attrs, WAFER_ATTR_axes);
}

/* 1 / how many elements have a mean. */
static double share_of(const wafer_node *node) {
  uint32_t axes = axes_of(node);
  double elements = 1;
  for (uint32_t d = 0; d < node->type.shape.rank; d++)
    if (axes >> d & 1) elements *= (double)node->type.shape.dims[d];
  return 1 / elements;
}

/* ---- code ---- */

/* Loops over a tile that lies beside the rows, operand k of them a number per row. */
static void place_rows(const program_site *s, nest *n, uint32_t k, const spread *rows,
                       const program_tile *tile) {
  uint32_t axes = axes_of(s->node);
  nest_place(n, k, rows, tile);
  for (uint32_t d = 0; d < rows->rank; d++)
    if (axes >> d & 1) n->at[k].stride[d] = 0;
}

/* out: a number per row, the sum of the operand or of its squares. */
static void emit_sum(const program_site *s) {
  bool squares = s->step->constant[0];
  program_fill(s, s->step->out, &s->out, 0);
  nest n = program_nest_over(squares ? WAFER_CORE_fma : WAFER_CORE_add, squares ? 3 : 2,
                             s->step->in[0].at, &s->in[0]);
  n.at[1] = n.at[0];
  place_rows(s, &n, 0, s->step->out, &s->out);
  n.at[2] = squares ? n.at[1] : n.at[0];
  n.at[3] = n.at[0];
  nest_emit(s->code, &n);
}

static void emit_mean(const program_site *s) {
  nest n = program_nest_over(WAFER_CORE_mul, 2, s->step->out, &s->out);
  n.at[1] = n.at[0];
  nest_constant(&n, 2, s->step->out->dtype, share_of(s->node));
  nest_emit(s->code, &n);
}

/* Sums of squares become what results are multiplied with. */
static void emit_invert(const program_site *s) {
  wafer_dtype dtype = s->step->out->dtype;
  nest n = program_nest_over(WAFER_CORE_fma, 3, s->step->out, &s->out);
  n.at[1] = n.at[0];
  nest_constant(&n, 2, dtype, share_of(s->node));
  nest_constant(&n, 3, dtype, wafer_attr_float(&s->node->attrs, WAFER_ATTR_epsilon));
  nest_emit(s->code, &n);
  n.op = WAFER_CORE_sqrt;
  n.inputs = 1;
  nest_emit(s->code, &n);
  n.op = WAFER_CORE_reciprocal;
  nest_emit(s->code, &n);
}

/* out: the operand less, or times, its row's number. */
static void emit_apply(const program_site *s) {
  nest n = program_nest_over((wafer_core_op)s->step->constant[0], 2, s->step->out, &s->out);
  nest_place(&n, 1, s->step->in[0].at, &s->in[0]);
  place_rows(s, &n, 2, s->step->in[1].at, &s->in[1]);
  nest_emit(s->code, &n);
}

/* ---- steps ---- */

static wafer_status sum(const normalize *x, program_operand from, bool squares) {
  spread first;
  program_step step = program_step_of(x->node, x->rows, emit_sum);
  step.in_count = 1;
  step.in[0] = from;
  step.constant[0] = squares;
  WAFER_TRY(program_add(x->p, &step));
  if (!x->set) return WAFER_OK;
  WAFER_TRY(program_chain(x->p, x->rows, x->set, 0, WAFER_CORE_add));
  WAFER_TRY(program_first(x->p, x->rows, x->set, &first));
  return program_exchange(x->p, &first, x->rows, NULL);
}

static wafer_status apply(const normalize *x, program_operand from, wafer_core_op op,
                          const spread *to) {
  program_step step = program_step_of(x->node, to, emit_apply);
  step.in_count = 2;
  step.in[0] = from;
  step.in[1] = program_own(x->rows);
  step.constant[0] = (int32_t)op;
  return program_add(x->p, &step);
}

static wafer_status make_rows(normalize *x) {
  program_link link[WAFER_MAX_RANK] = {{0}};
  int64_t extent[WAFER_MAX_RANK];
  wafer_dtype dtype = wafer_sum_dtype(x->p->body->nodes[x->node].type.dtype);
  for (uint32_t d = 0; d < x->out->rank; d++) {
    bool gone = x->axes >> d & 1;
    extent[d] = gone ? 1 : x->out->dim[d].extent;
    if (!gone) link[d] = program_like(&x->out->dim[d]);
  }
  x->rows = WAFER_NEW(x->p->arena, spread, 1);
  if (!x->rows) return program_no_memory(x->p);
  WAFER_TRY(program_wanted(x->p, x->out->rank, extent, dtype, link, x->rows));
  program_pack_like(x->rows, x->out);
  return program_reserve(x->p, x->rows, 4, x->node);
}

static wafer_status steps(const normalize *x, program_operand from) {
  program_step mean = program_step_of(x->node, x->rows, emit_mean);
  program_step invert = program_step_of(x->node, x->rows, emit_invert);
  if (x->center) {
    WAFER_TRY(sum(x, from, false));
    WAFER_TRY(program_add(x->p, &mean));
    WAFER_TRY(apply(x, from, WAFER_CORE_sub, x->work));
    from = program_own(x->work);
  }
  WAFER_TRY(sum(x, from, true));
  WAFER_TRY(program_add(x->p, &invert));
  return apply(x, from, WAFER_CORE_mul, x->out);
}

wafer_status program_normalize(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  normalize x = {.p = p, .node = node, .axes = axes_of(n)};
  program_operand from;
  program_link link[WAFER_MAX_RANK] = {{0}};
  x.center = wafer_attr_int(&n->attrs, WAFER_ATTR_center) != 0;
  WAFER_TRY(program_result(p, node, &x.out));
  for (uint32_t d = 0; d < x.out->rank; d++) {
    link[d] = program_like(&x.out->dim[d]);
    bool cut = node == p->body->anchor && (p->r->split->rows[d] > 1 || p->r->split->cols[d] > 1);
    if (cut && x.axes >> d & 1) x.set |= 1u << d;
  }
  if (p->constant[n->operands[0]]) return program_refuse(p, "its operand is one constant");
  WAFER_TRY(program_operand_of(p, node, 0, link, 0, &from));
  WAFER_TRY(make_rows(&x));
  if (x.center) WAFER_TRY(program_sums(p, node, x.out, wafer_sum_dtype(n->type.dtype), &x.work));
  return steps(&x, from);
}

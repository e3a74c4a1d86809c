/* Family pool: max and average pooling in any number of spatial dims.
 *
 * The result begins as a copy of the first tap, further taps follow by max or add, the last dim's
 * first: as kernel fidelity adds them up, so that averages which are rounded to a few levels behind
 * the pool are the same ones. What lies outside of the input is the least value, or zero; an
 * average is scaled where its window counts alike. */
#include <string.h>

#include "program_build.h"

#define PAST_END 0 /* extra: elements of the window's reach that are beyond the padded input */

static bool averages(const wafer_node *n) {
  return n->op == WAFER_OP_average_pool;
}

static nest over_places(const program_site *s, wafer_core_op op, uint32_t inputs) {
  const spread *out = s->step->out, *x = s->step->in[0].at;
  nest n = program_nest_over(op, inputs, out, &s->out);
  nest_place(&n, 1, x, &s->in[0]);
  for (uint32_t d = 2; d < out->rank; d++)
    n.at[1].stride[d] *= (int32_t)wafer_node_ints(s->node, WAFER_ATTR_strides)[d - 2];
  n.at[2] = n.at[0];
  return n;
}

/* Taps after the first: those of index 0 in the dims before d and 1 or more in d. */
static void emit_rest(const program_site *s, uint32_t d) {
  const spread *x = s->step->in[0].at;
  nest n = over_places(s, averages(s->node) ? WAFER_CORE_add : WAFER_CORE_max, 2);
  for (uint32_t e = d; e < x->rank; e++) {
    int32_t step =
        (int32_t)wafer_node_ints(s->node, WAFER_ATTR_dilations)[e - 2] * x->dim[e].stride;
    uint32_t tap = nest_loop(&n, wafer_node_ints(s->node, WAFER_ATTR_kernel)[e - 2] - (e == d));
    n.at[1].stride[tap] = step;
    if (e == d) n.at[1].address += step;
  }
  nest_emit(s->code, &n);
}

static void emit_pool(const program_site *s) {
  const spread *x = s->step->in[0].at;
  nest n =
      over_places(s, s->step->out->dtype == x->dtype ? WAFER_CORE_move : WAFER_CORE_convert, 1);
  nest_emit(s->code, &n);
  for (uint32_t d = x->rank; d-- > 2;) emit_rest(s, d);
}

/* ---- Averages ---- */

/* Taps that count for position `at` of dim d. */
static int32_t counted(const program_site *s, uint32_t d, int32_t at) {
  const program_tile *in = &s->in[0];
  bool pads = wafer_attr_int(&s->node->attrs, WAFER_ATTR_count_include_pad) != 0;
  int32_t taps = 0, first = at * (int32_t)wafer_node_ints(s->node, WAFER_ATTR_strides)[d - 2];
  int32_t from = pads ? 0 : in->before[d];
  int32_t to = pads ? in->len[d] - s->extra[PAST_END + d - 2] : in->len[d] - in->after[d];
  for (int32_t t = 0; t < wafer_node_ints(s->node, WAFER_ATTR_kernel)[d - 2]; t++) {
    int32_t place = first + t * (int32_t)wafer_node_ints(s->node, WAFER_ATTR_dilations)[d - 2];
    taps += place >= from && place < to;
  }
  return taps;
}

/* Positions that count alike are scaled together. */
static void emit_scale(const program_site *s, program_tile *from, program_tile *to, uint32_t d,
                       double count) {
  const spread *sums = s->step->in[1].at, *out = s->step->out;
  if (d == out->rank) {
    nest n = program_nest_over(WAFER_CORE_mul, 2, out, to);
    nest_place(&n, 1, sums, from);
    nest_constant(&n, 2, sums->dtype, count > 0 ? 1 / count : 1);
    nest_emit(s->code, &n);
    return;
  }
  int32_t length = to->len[d], begin = 0;
  program_tile a = *from, b = *to;
  while (begin < length) {
    int32_t taps = counted(s, d, begin), end = begin + 1;
    while (end < length && counted(s, d, end) == taps) end++;
    a.len[d] = b.len[d] = end - begin;
    a.address = from->address + begin * sums->dim[d].stride;
    b.address = to->address + begin * out->dim[d].stride;
    emit_scale(s, &a, &b, d + 1, count * taps);
    begin = end;
  }
}

static void emit_average(const program_site *s) {
  program_tile from = s->in[1], to = s->out;
  emit_scale(s, &from, &to, 2, 1);
}

static void extra(const program *p, const program_step *step, uint32_t row, uint32_t col,
                  int32_t *out) {
  const wafer_node *n = &p->body->nodes[step->node];
  for (uint32_t d = 2; d < step->out->rank; d++) {
    int64_t from, to, extent = step->in[0].at->dim[d].extent;
    int64_t end = extent + wafer_node_ints(n, WAFER_ATTR_pads)[d - 2 + step->out->rank - 2];
    program_range(&step->in[0].link[d], extent, row, col, &from, &to);
    out[PAST_END + d - 2] = (int32_t)(to > end ? to - end : 0);
  }
}

wafer_status program_pool(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  spread *out, *sums;
  program_link link[WAFER_MAX_RANK] = {{0}};
  WAFER_TRY(program_result(p, node, &out));
  sums = out;
  if (averages(n) && !wafer_dtype_is_float(n->type.dtype))
    return program_refuse(p, "an average of integers");
  if (averages(n)) WAFER_TRY(program_sums(p, node, out, wafer_sum_dtype(n->type.dtype), &sums));
  program_step step = program_step_of(node, sums, emit_pool);
  for (uint32_t d = 0; d < out->rank; d++) {
    program_reach w;
    link[d] = program_window(n, p->body, d, &w) ? program_windowed(&out->dim[d], &w)
                                                : program_like(&out->dim[d]);
  }
  if (p->constant[n->operands[0]]) return program_refuse(p, "its operand is one constant");
  step.in_count = 1;
  double outside = averages(n) ? 0 : program_neutral(WAFER_CORE_max, n->type.dtype);
  WAFER_TRY(program_operand_of(p, node, 0, link, outside, &step.in[0]));
  WAFER_TRY(program_add(p, &step));
  if (!averages(n)) return WAFER_OK;
  program_step scale = program_step_of(node, out, emit_average);
  scale.extra = extra;
  scale.in_count = 2;
  scale.in[0] = step.in[0];
  scale.in[1] = program_own(sums);
  return program_add(p, &scale);
}

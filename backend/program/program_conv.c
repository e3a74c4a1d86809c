/* Families conv and conv_transpose, in any number of spatial dims.
 *
 * Sums begin at zero. A convolution is one nest over batch, filters, positions, channels and taps;
 * pads are zeros in the operand's buffer. A transposed convolution is a nest per tap, over the
 * positions that the tap reaches. Filters that belong to several groups are taken group by group.
 * Sparse filters lie as pairs (program_pairs.c), which may begin and end sums. The bias comes last
 * (on the first part of the input channels), as at kernel fidelity: where a core has all channels
 * of a filter both add in one order, and nothing is left for the layers behind to multiply. */
#include <string.h>

#include "program_build.h"
#include "wafer/pairs.h"

#define FIRST_PART 0 /* extra: the bias is added here */
#define IN_GROUP 1   /* extra: filters of its group before the first */
#define OFFSET 2     /* extra: where the operand's tile lies in the results, per spatial dim */
#define RESULT 3 /* operand of the step: where sums go with the bias, if not to their own place */

static bool transposed(const wafer_node *n) {
  return n->op == WAFER_OP_conv_transpose;
}

/* Filters and channels of a group. */
static int64_t filters_of(const wafer_node *n) {
  return n->type.shape.dims[1] / wafer_attr_int(&n->attrs, WAFER_ATTR_group);
}
static int64_t channels_of(const program *p, const wafer_node *n) {
  return wafer_body_type(p->body, n->operands[0])->shape.dims[1] /
         wafer_attr_int(&n->attrs, WAFER_ATTR_group);
}

static void extra(const program *p, const program_step *step, uint32_t row, uint32_t col,
                  int32_t *out) {
  const wafer_node *n = &p->body->nodes[step->node];
  bool first = true;
  for (uint32_t l = p->loops.parallel; l < p->loops.count && step->node == p->body->anchor; l++)
    first &= p->loop[l].row[row] == 0 && p->loop[l].col[col] == 0;
  out[FIRST_PART] = first;
  int32_t lo = spread_part_at(step->out, 1, row, col)->runs->lo;
  out[IN_GROUP] = (int32_t)(lo % filters_of(n));
  for (uint32_t d = 2; d < step->out->rank && transposed(n); d++) {
    int64_t from, to;
    program_range(&step->in[0].link[d], step->in[0].at->dim[d].extent, row, col, &from, &to);
    out[OFFSET + d - 2] = (int32_t)(from * wafer_node_ints(n, WAFER_ATTR_strides)[d - 2] -
                                    wafer_node_ints(n, WAFER_ATTR_pads)[d - 2] -
                                    spread_part_at(step->out, d, row, col)->runs->lo);
  }
}

static void add_bias(const program_site *s) {
  const program_step *step = s->step;
  if (s->node->operand_count < 3 || !s->extra[FIRST_PART]) return;
  nest n = program_nest_over(WAFER_CORE_add, 2, step->out, &s->out);
  const program_operand *bias = &step->in[2];
  n.at[1] = n.at[0];
  if (step->in_count > RESULT) nest_place(&n, 0, step->in[RESULT].at, &s->in[RESULT]);
  nest_constant(&n, 2, bias->dtype, bias->constant);
  if (bias->at) {
    n.at[2] = (nest_operand){.kind = WAFER_OPERAND_memory,
                             .dtype = (uint8_t)bias->at->dtype,
                             .address = s->in[2].address};
    n.at[2].stride[1] = bias->at->dim[0].stride;
  }
  nest_emit(s->code, &n);
}

/* Filters `at` .. of the tile, `groups` groups of `each`. */
typedef struct filter_run {
  int32_t at, groups, each;
} filter_run;

static filter_run next_run(const program_site *s, int32_t at) {
  int32_t per = (int32_t)filters_of(s->node), left = s->out.len[1] - at;
  int32_t inside = (s->extra[IN_GROUP] + at) % per;
  if (inside == 0 && left >= per) return (filter_run){at, left / per, per};
  return (filter_run){at, 1, per - inside < left ? per - inside : left};
}

/* Loops over batch, groups and filters of a run; spatial loops are the caller's. */
static nest nest_of_run(const program_site *s, const filter_run *run) {
  const spread *out = s->step->out, *x = s->step->in[0].at, *w = s->step->in[1].at;
  const program *p = s->p;
  bool back = transposed(s->node);
  int32_t per = (int32_t)filters_of(s->node), channels = (int32_t)channels_of(p, s->node);
  bool one = wafer_attr_int(&s->node->attrs, WAFER_ATTR_group) == 1;
  int32_t group = (s->extra[IN_GROUP] + run->at) / per,
          in_group = (s->extra[IN_GROUP] + run->at) % per;
  nest n = {.op = WAFER_CORE_fma, .inputs = 3};
  for (uint32_t k = 0; k < 3; k++) {
    const spread *t = k == 0 ? out : k == 1 ? x : w;
    n.at[k] = (nest_operand){.kind = WAFER_OPERAND_memory,
                             .dtype = (uint8_t)t->dtype,
                             .address = k == 0 ? s->out.address : s->in[k - 1].address};
  }
  uint32_t filters = back ? 1 : 0; /* the dim of w that they are */
  n.at[0].address += run->at * out->dim[1].stride;
  n.at[1].address += one ? 0 : group * channels * x->dim[1].stride;
  if (!back) n.at[2].address += run->at * w->dim[0].stride;
  if (back && one) n.at[2].address += run->at * w->dim[1].stride;
  if (back && !one)
    n.at[2].address += group * channels * w->dim[0].stride + in_group * w->dim[1].stride;
  uint32_t batch = nest_loop(&n, s->out.len[0]), groups = nest_loop(&n, run->groups);
  uint32_t each = nest_loop(&n, run->each);
  n.at[0].stride[batch] = out->dim[0].stride;
  n.at[1].stride[batch] = x->dim[0].stride;
  n.at[0].stride[groups] = run->each * out->dim[1].stride;
  n.at[1].stride[groups] = channels * x->dim[1].stride;
  n.at[2].stride[groups] = back ? channels * w->dim[0].stride : run->each * w->dim[0].stride;
  n.at[0].stride[each] = out->dim[1].stride;
  n.at[2].stride[each] = w->dim[filters].stride;
  return n;
}

/* The channels of a group are the last loop: taps first, as at kernel fidelity. */
static void loop_over_channels(const program_site *s, nest *n) {
  bool one = wafer_attr_int(&s->node->attrs, WAFER_ATTR_group) == 1;
  uint32_t sum = nest_loop(n, one ? s->in[0].len[1] : channels_of(s->p, s->node));
  n->at[1].stride[sum] = s->step->in[0].at->dim[1].stride;
  n->at[2].stride[sum] = s->step->in[1].at->dim[transposed(s->node) ? 0 : 1].stride;
}

static void close_sums(const program_site *s, nest *n) {
  n->at[3] = n->at[0];
  nest_emit(s->code, n);
}

static void emit_conv(const program_site *s) {
  const spread *out = s->step->out, *x = s->step->in[0].at, *w = s->step->in[1].at;
  filter_run run;
  program_fill(s, out, &s->out, 0);
  for (int32_t at = 0; at < s->out.len[1]; at += run.groups * run.each) {
    run = next_run(s, at);
    nest n = nest_of_run(s, &run);
    for (uint32_t d = 2; d < out->rank; d++) {
      uint32_t place = nest_loop(&n, s->out.len[d]), tap = nest_loop(&n, w->dim[d].extent);
      n.at[0].stride[place] = out->dim[d].stride;
      n.at[1].stride[place] =
          (int32_t)wafer_node_ints(s->node, WAFER_ATTR_strides)[d - 2] * x->dim[d].stride;
      n.at[1].stride[tap] =
          (int32_t)wafer_node_ints(s->node, WAFER_ATTR_dilations)[d - 2] * x->dim[d].stride;
      n.at[2].stride[tap] = w->dim[d].stride;
    }
    loop_over_channels(s, &n);
    close_sums(s, &n);
  }
  add_bias(s);
}

/* Each pair of a tap goes over all places of a filter. Filters count the rows of a tile of the
 * weight, the core's channels its columns; where each channel has a filter of its own, both follow
 * the row. */
static void multiply_pairs(const program_site *s, uint32_t before) {
  const spread *out = s->step->out, *x = s->step->in[0].at;
  const spread *result = program_pairs_result(s->step);
  const wafer_shape *w = &wafer_body_type(s->p->body, s->node->operands[1])->shape;
  program_pairs_over over;
  program_pairs_begin(s, &over);
  for (uint32_t d = 0; d < out->rank; d++) {
    if (d == 1) continue;
    int32_t stride = d ? (int32_t)wafer_node_ints(s->node, WAFER_ATTR_strides)[d - 2] : 1;
    uint32_t loop = nest_loop(&over.runs, s->out.len[d]);
    over.runs.at[0].stride[loop] = out->dim[d].stride;
    over.runs.at[2].stride[loop] = result->dim[d].stride;
    over.runs.at[1].stride[loop] = stride * x->dim[d].stride;
    if (d == 0 || w->dims[d] == 1) continue;
    over.taps[over.tap_loops] = (int32_t)w->dims[d];
    over.tap[over.tap_loops++] =
        (int32_t)wafer_node_ints(s->node, WAFER_ATTR_dilations)[d - 2] * x->dim[d].stride;
  }
  over.sums[0] = out->dim[1].stride;
  over.results[0] = result->dim[1].stride;
  over.group = wafer_body_group(s->p->body, s->node->operands[1]);
  over.channels = (uint32_t)w->dims[1];
  bool own = wafer_attr_int(&s->node->attrs, WAFER_ATTR_group) > 1 && !over.group;
  over.operand[own ? 0 : 1] = x->dim[1].stride;
  program_pairs_emit(s, before, &over);
}

static void emit_sparse(const program_site *s) {
  uint32_t before = s->code->count;
  bool any = s->in[0].len[1] > 0;
  if (any)
    program_pairs_clear(s);
  else
    program_fill(s, s->step->out, &s->out, 0);
  if (any) multiply_pairs(s, before);
  add_bias(s);
}

static int32_t ceil_div(int32_t a, int32_t b) {
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}
static int32_t floor_div(int32_t a, int32_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

/* Adds the loop over elements of the operand that the tap carries into the tile; false: none. */
static bool reach(const program_site *s, nest *n, uint32_t d, int32_t tap) {
  const spread *out = s->step->out, *x = s->step->in[0].at;
  const program_tile *in = &s->in[0];
  int32_t stride = (int32_t)wafer_node_ints(s->node, WAFER_ATTR_strides)[d - 2];
  int32_t at = s->extra[OFFSET + d - 2] +
               tap * (int32_t)wafer_node_ints(s->node, WAFER_ATTR_dilations)[d - 2];
  int32_t first = ceil_div(-at, stride), last = floor_div(s->out.len[d] - 1 - at, stride);
  if (first < in->before[d]) first = in->before[d];
  if (last >= in->len[d] - in->after[d]) last = in->len[d] - in->after[d] - 1;
  if (first > last) return false;
  uint32_t loop = nest_loop(n, last - first + 1);
  n->at[0].address += (at + first * stride) * out->dim[d].stride;
  n->at[0].stride[loop] = stride * out->dim[d].stride;
  n->at[1].address += first * x->dim[d].stride;
  n->at[1].stride[loop] = x->dim[d].stride;
  n->at[2].address += tap * s->step->in[1].at->dim[d].stride;
  return true;
}

static void emit_taps(const program_site *s, const nest *outer, uint32_t d) {
  const spread *w = s->step->in[1].at;
  if (d == s->step->out->rank) {
    nest n = *outer;
    close_sums(s, &n);
    return;
  }
  for (int32_t tap = 0; tap < w->dim[d].extent; tap++) {
    nest n = *outer;
    if (reach(s, &n, d, tap)) emit_taps(s, &n, d + 1);
  }
}

static void emit_transposed(const program_site *s) {
  filter_run run;
  program_fill(s, s->step->out, &s->out, 0);
  for (int32_t at = 0; at < s->out.len[1]; at += run.groups * run.each) {
    run = next_run(s, at);
    nest n = nest_of_run(s, &run);
    loop_over_channels(s, &n);
    emit_taps(s, &n, 2);
  }
  add_bias(s);
}

/* ---- Operands ---- */

static void link_input(program *p, uint32_t node, const spread *out, program_link *link) {
  const wafer_node *n = &p->body->nodes[node];
  int64_t filters = filters_of(n), channels = channels_of(p, n);
  link[0] = program_like(&out->dim[0]);
  if (wafer_attr_int(&n->attrs, WAFER_ATTR_group) > 1)
    link[1] = (program_link){.by = &out->dim[1], .num = channels, .den = filters, .each = channels};
  else if (node == p->body->anchor && p->loops.count > p->loops.parallel)
    link[1] = program_like(&p->loop[p->loops.parallel]);
  for (uint32_t d = 2; d < out->rank; d++) {
    program_reach w;
    if (program_window(n, p->body, d, &w)) link[d] = program_windowed(&out->dim[d], &w);
  }
}

static void link_weight(program *p, uint32_t node, const spread *out, program_link *link) {
  const wafer_node *n = &p->body->nodes[node];
  int64_t filters = filters_of(n), channels = channels_of(p, n);
  bool one = wafer_attr_int(&n->attrs, WAFER_ATTR_group) == 1;
  program_link summed = {0}, kept = program_like(&out->dim[1]);
  if (one && node == p->body->anchor && p->loops.count > p->loops.parallel)
    summed = program_like(&p->loop[p->loops.parallel]);
  link[transposed(n)] = kept;
  link[!transposed(n)] = summed;
  if (!transposed(n) || one) return;
  link[0] = (program_link){.by = &out->dim[1], .num = channels, .den = filters, .each = channels};
  link[1] = (program_link){0};
}

static wafer_status operands(program *p, uint32_t node, const spread *out, program_step *step,
                             bool *ends) {
  const wafer_node *n = &p->body->nodes[node];
  uint32_t sparse = program_pairs_of(p, node);
  step->in_count = n->operand_count;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    if (i == sparse) continue;
    program_link link[WAFER_MAX_RANK] = {{0}};
    if (i == 0) link_input(p, node, out, link);
    if (i == 1) link_weight(p, node, out, link);
    if (i == 2) link[0] = program_like(&out->dim[1]);
    if (i < 2 && p->constant[n->operands[i]])
      return program_refuse(p, "an operand is one constant");
    WAFER_TRY(program_operand_of(p, node, i, link, 0, &step->in[i]));
  }
  if (sparse > 1) return WAFER_OK;
  step->emit = emit_sparse;
  return program_pairs_set(p, node, sparse, out, step, ends);
}

/* Nothing is added behind the bias: it takes sums to where they are narrower. */
static bool narrows_with_bias(const program *p, uint32_t node, const spread *sums,
                              const spread *out) {
  bool cut = node == p->body->anchor && program_cut_reductions(p);
  return p->body->nodes[node].operand_count > 2 && sums->address != out->address && !cut;
}

wafer_status program_conv(program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  spread *out, *sums;
  WAFER_TRY(program_result(p, node, &out));
  WAFER_TRY(program_sums(p, node, out, wafer_sum_dtype(n->type.dtype), &sums));
  program_step step = program_step_of(node, sums, transposed(n) ? emit_transposed : emit_conv);
  step.extra = extra;
  bool ends = false;
  WAFER_TRY(operands(p, node, out, &step, &ends));
  if (narrows_with_bias(p, node, sums, out)) {
    step.in[RESULT] = program_own(out);
    step.in_count = RESULT + 1;
    ends = true;
  }
  WAFER_TRY(program_add(p, &step));
  if (ends) return WAFER_OK;
  return program_settle(p, node, sums, WAFER_CORE_add, 1, out);
}

wafer_status program_conv_transpose(program *p, uint32_t node) {
  return program_conv(p, node);
}

/* Resizes: dim by dim, every index of the result is a weighted sum of 1, 2 or 4 indices
 * of the operand. Indices that repeat the same weights at even distances are computed together. */
#include <string.h>

#include "program_build.h"

/* extra: what the code depends on, as a digest; hint: result and operand index per resized dim */
#define HINTS (PROGRAM_EXTRA / 2)

static int64_t gcd(int64_t a, int64_t b) {
  return b ? gcd(b, a % b) : a;
}

static bool resized(const program *p, const wafer_node *n, uint32_t d) {
  uint32_t count;
  return wafer_body_type(p->body, n->operands[0])->shape.dims[d] != n->type.shape.dims[d] ||
         wafer_attr_floats(&n->attrs, WAFER_ATTR_scales, &count)[d] != 1;
}

static void taps_of(const program *p, const wafer_node *n, uint32_t d, int64_t at,
                    wafer_resize_taps *taps) {
  int64_t in = wafer_body_type(p->body, n->operands[0])->shape.dims[d];
  wafer_resize_taps_of(&n->attrs, d, in, n->type.shape.dims[d], at, taps);
}

static void extra(const program *p, const program_step *step, uint32_t row, uint32_t col,
                  int32_t *out) {
  const wafer_node *n = &p->body->nodes[step->node];
  uint64_t digest = 0;
  for (uint32_t d = 0, i = 0; d < step->out->rank && i < HINTS; d++) {
    int64_t from, to;
    if (!resized(p, n, d)) continue;
    const spread_run *run = spread_part_at(step->out, d, row, col)->runs;
    program_range(&step->in[0].link[d], step->in[0].at->dim[d].extent, row, col, &from, &to);
    for (int64_t j = run->lo; j < run->hi; j++) {
      wafer_resize_taps taps;
      taps_of(p, n, d, j, &taps);
      for (uint32_t k = 0; k < 4; k++) {
        float weight = (float)taps.weight[k];
        uint32_t bits;
        memcpy(&bits, &weight, sizeof bits);
        digest = digest * 0x9e3779b97f4a7c15u + bits;
        digest = digest * 0x9e3779b97f4a7c15u + (uint64_t)(taps.index[k] - from);
        digest ^= digest >> 31;
      }
    }
    out[PROGRAM_EXTRA + 2 * i] = run->lo;
    out[PROGRAM_EXTRA + 2 * i + 1] = (int32_t)from;
    i++;
  }
  out[0] = (int32_t)digest;
  out[1] = (int32_t)(digest >> 32);
}

static bool repeats(const wafer_resize_taps *a, const wafer_resize_taps *b, int64_t by) {
  for (uint32_t k = 0; k < 4; k++)
    if ((float)a->weight[k] != (float)b->weight[k] ||
        (a->weight[k] != 0 && b->index[k] - a->index[k] != by))
      return false;
  return true;
}

/* One dim: `from` with its tile to `to`; both have the lengths of `over` in the other dims. */
typedef struct pass {
  const program_site *s;
  uint32_t d;
  int64_t result, operand; /* first index of the tiles */
  const spread *from, *to;
  int32_t from_address, to_address;
  program_tile over;
} pass;

/* Indices j, j + period ... of the result, `count` of them. */
static void emit_indices(const pass *x, int64_t j, int64_t period, int64_t in_period, int64_t count,
                         const wafer_resize_taps *taps) {
  bool begun = false;
  program_tile tile = x->over;
  tile.len[x->d] = (int32_t)count;
  tile.address = x->to_address + (int32_t)j * x->to->dim[x->d].stride;
  for (uint32_t k = 0; k < 4; k++) {
    if (taps->weight[k] == 0) continue;
    program_tile source = tile;
    source.address =
        x->from_address + (int32_t)(taps->index[k] - x->operand) * x->from->dim[x->d].stride;
    nest n =
        program_nest_over(begun ? WAFER_CORE_fma : WAFER_CORE_mul, begun ? 3 : 2, x->to, &tile);
    n.at[0].stride[x->d] *= (int32_t)period;
    nest_place(&n, 1, x->from, &source);
    n.at[1].stride[x->d] *= (int32_t)in_period;
    nest_constant(&n, 2, x->to->dtype, taps->weight[k]);
    n.at[3] = n.at[0];
    nest_emit(x->s->code, &n);
    begun = true;
  }
}

static void emit_pass(const pass *x) {
  const program *p = x->s->p;
  const wafer_node *n = x->s->node;
  int64_t in = wafer_body_type(p->body, n->operands[0])->shape.dims[x->d];
  int64_t out = n->type.shape.dims[x->d], period = out / gcd(in, out);
  int64_t length = x->s->out.len[x->d];
  for (int64_t j = 0; j < length; j++) {
    wafer_resize_taps first, next;
    int64_t count = 1;
    taps_of(p, n, x->d, x->result + j, &first);
    if (j >= period) { /* continues an earlier one? */
      taps_of(p, n, x->d, x->result + j - period, &next);
      if (repeats(&next, &first, in / gcd(in, out))) continue;
    }
    for (; j + count * period < length; count++) {
      taps_of(p, n, x->d, x->result + j + count * period, &next);
      if (!repeats(&first, &next, count * (in / gcd(in, out)))) break;
    }
    emit_indices(x, j, period, in / gcd(in, out), count, &first);
  }
}

/* in: the operand, then a buffer for all dims but the last that is resized. */
static void emit(const program_site *s) {
  const program_step *step = s->step;
  pass x = {.s = s, .from = step->in[0].at, .from_address = s->in[0].address};
  uint32_t buffer = 1, i = 0;
  x.over = s->in[0];
  for (uint32_t d = 0; d < step->out->rank; d++) {
    if (!resized(s->p, s->node, d)) continue;
    x.d = d;
    x.result = s->hint[2 * i];
    x.operand = s->hint[2 * i + 1];
    bool last = buffer == step->in_count;
    x.to = last ? step->out : step->in[buffer].at;
    x.to_address = last ? s->out.address : x.to->address;
    emit_pass(&x);
    x.over.len[d] = s->out.len[d];
    x.from = x.to;
    x.from_address = x.to_address;
    buffer++;
    i++;
  }
}

/* Does any dim change its length or its scale? */
static bool resizes(const program *p, uint32_t node) {
  const wafer_node *n = &p->body->nodes[node];
  bool any = false;
  for (uint32_t d = 0; d < n->type.shape.rank; d++) any |= resized(p, n, d);
  return any;
}

static wafer_status resize(program *p, uint32_t node, spread *out) {
  const wafer_node *n = &p->body->nodes[node];
  spread *sums;
  program_link link[WAFER_MAX_RANK] = {{0}};
  WAFER_TRY(program_sums(p, node, out, wafer_sum_dtype(n->type.dtype), &sums));
  bool nearest = strcmp(wafer_attr_string(&n->attrs, WAFER_ATTR_mode), "nearest") == 0;
  if (!nearest && !wafer_dtype_is_float(n->type.dtype))
    return program_refuse(p, "integers are interpolated");
  program_step step = program_step_of(node, sums, emit);
  step.extra = extra;
  step.in_count = 1;
  for (uint32_t d = 0; d < out->rank; d++) {
    program_reach w;
    link[d] = program_window(n, p->body, d, &w) ? program_windowed(&out->dim[d], &w)
                                                : program_like(&out->dim[d]);
    if (link[d].num != link[d].den || link[d].before) link[d].clipped = true;
  }
  WAFER_TRY(program_operand_of(p, node, 0, link, 0, &step.in[0]));
  uint32_t dims = 0;
  for (uint32_t d = 0; d < out->rank; d++) dims += resized(p, n, d);
  if (dims > HINTS) return program_refuse(p, "so many dims are resized at once");
  const spread *from = step.in[0].at;
  for (uint32_t d = 0; d < out->rank && step.in_count < dims; d++) {
    if (!resized(p, n, d)) continue;
    spread *work = WAFER_NEW(p->arena, spread, 1);
    if (!work) return program_no_memory(p);
    *work = *from;
    work->dtype = wafer_sum_dtype(n->type.dtype);
    work->dim[d] = out->dim[d];
    program_pack_like(work, from);
    WAFER_TRY(program_reserve(p, work, 4 * (int32_t)(step.in_count & 1), node));
    step.in[step.in_count] = (program_operand){.dtype = work->dtype, .at = work};
    for (uint32_t e = 0; e < work->rank; e++)
      step.in[step.in_count].link[e] = (program_link){.by = &work->dim[e], .num = 1, .den = 1};
    step.in_count++;
    from = work;
  }
  WAFER_TRY(program_add(p, &step));
  return program_settle(p, node, sums, WAFER_CORE_add, 1, out);
}

wafer_status program_resize(program *p, uint32_t node) {
  uint32_t x = p->body->nodes[node].operands[0];
  index_map same = index_identity();
  spread *out;
  if (p->constant[x]) return program_filled(p, node);
  WAFER_TRY(program_result(p, node, &out));
  return resizes(p, node) ? resize(p, node, out) : program_moved(p, p->value[x], out, &same, NULL);
}

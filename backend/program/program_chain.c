/* Chain reductions: every core of a line of parts adds what comes from the part behind to its own
 * and passes it on, a word per cycle; two colours alternate. Few words over many neighbours go in
 * two phases: a chain in each group, then one of the groups' first cores (wafer_reduce_group).
 * Where other parts lie between, words pass them by, lines that interleave on colours of their own.
 * Columns first, then the rows of the first columns. */
#include <string.h>

#include "program_build.h"

uint32_t program_cut_loops(const program *p, uint32_t first, uint32_t end) {
  uint32_t set = 0;
  for (uint32_t l = first; l < end; l++)
    if (p->r->split->rows[l] > 1 || p->r->split->cols[l] > 1) set |= 1u << l;
  return set;
}

uint32_t program_cut_reductions(const program *p) {
  return program_cut_loops(p, p->loops.parallel, p->loops.count);
}

/* ---- On the first parts alone ---- */

/* Have the loops of `set` their first part there? */
static bool *first_parts(const program *p, uint32_t set, bool of_rows) {
  uint32_t n = of_rows ? p->r->rect.height : p->r->rect.width;
  bool *first = WAFER_NEW(p->arena, bool, n);
  for (uint32_t i = 0; first && i < n; i++) {
    first[i] = true;
    for (uint32_t l = 0; l < p->loops.count; l++)
      first[i] &= !(set >> l & 1) || (of_rows ? p->loop[l].row : p->loop[l].col)[i] == 0;
  }
  return first;
}

wafer_status program_first(program *p, const spread *s, uint32_t set, spread *out) {
  const bool *rows = first_parts(p, set, true), *cols = first_parts(p, set, false);
  s = program_ranked(p, s);
  return s && rows && cols && spread_where(p->arena, s, rows, cols, out) ? WAFER_OK
                                                                         : program_no_memory(p);
}

/* ---- One line ---- */

enum {
  CHAIN_LOOP,
  CHAIN_VERTICAL,
  CHAIN_OP,
  CHAIN_COLORS,
  CHAIN_LANES,
  CHAIN_DONE_ROWS,
  CHAIN_DONE_COLS,
  CHAIN_STEP_AND_GROUP /* parts from a link to the next; links of a chain, in the upper half */
};
#define CHAIN_STEP(constant) ((uint32_t)(constant)[CHAIN_STEP_AND_GROUP] & 0xffffu)
#define CHAIN_GROUP(constant) ((uint32_t)(constant)[CHAIN_STEP_AND_GROUP] >> 16)
enum { LINK_none, LINK_first, LINK_middle, LINK_last };

/* Loops whose parts lie between two parts of `loop`: the product of their numbers. */
static uint32_t stride_of(const program *p, uint32_t loop, bool vertical) {
  const uint32_t *parts = vertical ? p->r->split->rows : p->r->split->cols;
  uint32_t stride = 1;
  for (uint32_t l = loop + 1; l < p->loops.count; l++) stride *= parts[l];
  return stride;
}

/* Has the core at `row` and `col` what the loops in the sets have been summed to? */
static bool takes_part(const program *p, uint32_t rows, uint32_t cols, uint32_t row, uint32_t col) {
  for (uint32_t l = 0; l < p->loops.count; l++) {
    if ((rows >> l & 1) && p->loop[l].row[row] > 0) return false;
    if ((cols >> l & 1) && p->loop[l].col[col] > 0) return false;
  }
  return true;
}

static void extra(const program *p, const program_step *step, uint32_t row, uint32_t col,
                  int32_t *out) {
  const int32_t *c = step->constant;
  const spread_dim *loop = &p->loop[c[CHAIN_LOOP]];
  spread_box box = spread_at(step->out, row, col);
  if (spread_box_empty(&box, step->out->rank)) return;
  if (!takes_part(p, (uint32_t)c[CHAIN_DONE_ROWS], (uint32_t)c[CHAIN_DONE_COLS], row, col)) return;
  uint32_t part = c[CHAIN_VERTICAL] ? loop->row[row] : loop->col[col];
  uint32_t parts = c[CHAIN_VERTICAL] ? loop->rows : loop->cols;
  uint32_t lane = (c[CHAIN_VERTICAL] ? row : col) % (uint32_t)c[CHAIN_LANES];
  uint32_t link = part / CHAIN_STEP(c), links = (parts + CHAIN_STEP(c) - 1) / CHAIN_STEP(c);
  bool first = link % CHAIN_GROUP(c) == 0;
  bool last = link + 1 == links || (link + 1) % CHAIN_GROUP(c) == 0;
  if (part % CHAIN_STEP(c) || (first && last)) return;
  out[0] = first ? LINK_first : last ? LINK_last : LINK_middle;
  out[1] = c[CHAIN_COLORS] + (int32_t)(2 * lane + (link & 1));       /* its own colour */
  out[2] = c[CHAIN_COLORS] + (int32_t)(2 * lane + ((link + 1) & 1)); /* of the link behind */
}

static void wire(nest *n, uint32_t k, wafer_dtype dtype, int32_t color) {
  n->at[k] = (nest_operand){
      .kind = WAFER_OPERAND_fabric, .dtype = (uint8_t)dtype, .color = (uint8_t)color};
}

static void emit(const program_site *s) {
  const spread *sums = s->step->out;
  int32_t role = s->extra[0];
  if (role == LINK_none) return;
  bool last = role == LINK_last;
  nest n = program_nest_over(last ? WAFER_CORE_move : (wafer_core_op)s->step->constant[CHAIN_OP],
                             last ? 1 : 2, sums, &s->out);
  n.at[last ? 1 : 2] = n.at[0];
  if (!last) wire(&n, 1, sums->dtype, s->extra[2]);
  if (role != LINK_first) wire(&n, 0, sums->dtype, s->extra[1]);
  nest_emit(s->code, &n);
}

static uint64_t words_of(const spread *s) {
  return (spread_bytes(s) + WAFER_WAVELET_BYTES - 1) / WAFER_WAVELET_BYTES;
}

static void route_one(const program *p, fragment *f, const program_step *step, uint32_t at,
                      uint32_t first, uint32_t count, uint32_t stride, uint8_t color) {
  bool vertical = step->constant[CHAIN_VERTICAL];
  wafer_rect rect = p->r->rect;
  wafer_rect cores = vertical ? (wafer_rect){rect.x + first, rect.y + at, count, 1}
                              : (wafer_rect){rect.x + at, rect.y + first, 1, count};
  fragment_chain_add(f, &(fragment_chain){.cores = cores,
                                          .columns = vertical,
                                          .distance = stride,
                                          .phase = f->phase_count - 1,
                                          .words = words_of(step->out)});
  for (uint32_t hop = 0; hop <= stride; hop++) {
    wafer_route r = {.color = color, .positions = 1, .cores = cores};
    *(vertical ? &r.cores.y : &r.cores.x) -= hop;
    r.at[0].from = hop == 0 ? WAFER_PORT_ramp : vertical ? WAFER_PORT_south : WAFER_PORT_east;
    r.at[0].to = hop == stride ? WAFER_TO(ramp) : vertical ? WAFER_TO(north) : WAFER_TO(west);
    fragment_route(f, &r);
  }
}

/* From every part to the one before, on all lines at once. */
static void routes(const program *p, fragment *f, const program_step *step, uint32_t stride) {
  bool vertical = step->constant[CHAIN_VERTICAL];
  uint32_t length = vertical ? p->r->rect.height : p->r->rect.width;
  uint32_t lines = vertical ? p->r->rect.width : p->r->rect.height;
  for (uint32_t at = stride; at < length; at++)
    for (uint32_t line = 0, end; line < lines; line = end + 1) {
      int32_t x[PROGRAM_EXTRA] = {0};
      for (end = line; end < lines; end++) { /* lines that take part, side by side */
        int32_t own[PROGRAM_EXTRA] = {0};
        extra(p, step, vertical ? at : end, vertical ? end : at, own);
        if (own[0] != LINK_middle && own[0] != LINK_last) break;
        memcpy(x, own, sizeof x);
      }
      if (end > line) route_one(p, f, step, at, line, end - line, stride, (uint8_t)x[1]);
    }
}

/* Chains that share links: as many as cores lie between two parts and take part. */
static uint32_t lanes_of(const program *p, uint32_t loop, bool vertical, uint32_t done) {
  const uint32_t *parts = vertical ? p->r->split->rows : p->r->split->cols;
  for (uint32_t l = loop + 1; l < p->loops.count; l++)
    if (parts[l] > 1 && !(done >> l & 1)) return stride_of(p, loop, vertical);
  return 1;
}

/* One phase over the columns, or rows, of one loop: `group` links to a chain, `step` parts from one
 * to the next. */
static wafer_status chain_phase(program *p, const spread *s, const int32_t *constant,
                                uint32_t stride, uint32_t step_parts, uint32_t group) {
  program_step step = program_step_of(p->node, s, emit);
  step.extra = extra;
  fragment *f = program_open(p);
  if (!f) return program_no_memory(p);
  memcpy(step.constant, constant, sizeof step.constant);
  step.constant[CHAIN_COLORS] = (int32_t)f->colors;
  step.constant[CHAIN_STEP_AND_GROUP] = (int32_t)(group << 16 | step_parts);
  step.chains = true;
  f->phase_count++;
  for (int32_t i = 0; i < 2 * constant[CHAIN_LANES]; i++) (void)fragment_color(f);
  routes(p, f, &step, stride * step_parts);
  const wafer_machine *m = p->r->machine;
  p->latency +=
      (uint64_t)(group - 1) * (2 * m->ramp_cycles + m->hop_cycles * stride * step_parts + 1);
  return program_add(p, &step);
}

/* Over the columns, or rows, of one loop; `done`: loops that have gone before. */
static wafer_status chain_line(program *p, const spread *s, uint32_t loop, bool vertical,
                               uint32_t rows_done, uint32_t cols_done, wafer_core_op op) {
  uint32_t parts = vertical ? p->r->split->rows[loop] : p->r->split->cols[loop];
  uint32_t stride = stride_of(p, loop, vertical);
  uint32_t lanes = lanes_of(p, loop, vertical, vertical ? rows_done : cols_done);
  if (parts < 2) return WAFER_OK;
  if (4 * lanes > p->r->machine->colors)
    return program_refuse(p, "it is summed over parts that lie too far apart");
  const int32_t constant[PROGRAM_EXTRA] = {[CHAIN_LOOP] = (int32_t)loop,
                                           [CHAIN_VERTICAL] = vertical,
                                           [CHAIN_OP] = (int32_t)op,
                                           [CHAIN_LANES] = (int32_t)lanes,
                                           [CHAIN_DONE_ROWS] = (int32_t)rows_done,
                                           [CHAIN_DONE_COLS] = (int32_t)cols_done};
  uint32_t group = stride == 1 ? wafer_reduce_group(p->r->machine, parts, words_of(s)) : parts;
  WAFER_TRY(chain_phase(p, s, constant, stride, 1, group));
  if (group == parts) return WAFER_OK;
  return chain_phase(p, s, constant, stride, group, (parts + group - 1) / group);
}

wafer_status program_chain(program *p, const spread *s, uint32_t set, uint32_t done,
                           wafer_core_op op) {
  uint32_t rows = done, cols = done;
  for (uint32_t l = p->loops.count; l-- > 0;) {
    if (!(set >> l & 1)) continue;
    WAFER_TRY(chain_line(p, s, l, false, 0, cols, op));
    cols |= 1u << l;
  }
  for (uint32_t l = p->loops.count; l-- > 0;) {
    if (!(set >> l & 1)) continue;
    WAFER_TRY(chain_line(p, s, l, true, rows, cols, op));
    rows |= 1u << l;
  }
  return WAFER_OK;
}

/* Family gemm: matrix products, batched by broadcast.
 *
 * Sums begin at zero; one vector multiply-accumulate runs over batch dims, rows, columns and what
 * is summed, the sums in place. When the summed dim is cut, partial sums go down a chain. A sparse
 * weight lies as lists of pairs (wafer/pairs.h), which the core sends to itself. */
#include "program_build.h"
#include "wafer/pairs.h"

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

/* ---- sparse weights ---- */

enum {
  PAIRS_COLORS, /* the first of the lists' */
  PAIRS_WEIGHT, /* which operand has the pairs */
  PAIRS_LISTS,
  PAIRS_LENGTH, /* pairs of a list */
  PAIRS_WORDS,  /* of all lists */
  PAIRS_ROWS,   /* of a full tile of the weight */
  PAIRS_COLS
};

/* The dims of the result that a pair's run goes through: sums, and activations. */
static nest rows_of(const program_site *s) {
  const spread *sums = s->step->out, *x = s->step->in[0].at;
  uint32_t rank = sums->rank, lead = rank - x->rank;
  uint32_t kept = s->step->constant[PAIRS_WEIGHT] ? rank - 1 : rank - 2;
  nest n = {.op = WAFER_CORE_move, .inputs = 1};
  n.at[0] = (nest_operand){.kind = WAFER_OPERAND_memory, .address = s->out.address};
  n.at[1] = (nest_operand){.kind = WAFER_OPERAND_memory, .address = s->in[0].address};
  for (uint32_t d = 0; d < rank; d++) {
    if (d == kept) continue;
    uint32_t loop = nest_loop(&n, s->out.len[d]);
    n.at[0].stride[loop] = sums->dim[d].stride;
    /* the other operand's own dim is where the weight's would be */
    if (d >= lead && x->dim[d - lead].extent > 1) n.at[1].stride[loop] = x->dim[d - lead].stride;
  }
  (void)nest_outside(s->p->r->machine, &n);
  return n;
}

static wafer_instruction begin(wafer_core_op op, uint32_t thread) {
  return (wafer_instruction){.op = (uint8_t)op,
                             .thread = (uint8_t)thread,
                             .async = true,
                             .load_descriptors = true,
                             .count_reg = WAFER_NO_REGISTER,
                             .shape = {1, 1, 1, 1}};
}

/* List `list` on its way, and the multiplications with it. */
static void emit_list(const program_site *s, const nest *rows, uint32_t list) {
  static const int32_t flat[WAFER_LEVELS] = {0, 0, 0, WAFER_WAVELET_BYTES};
  const int32_t *c = s->step->constant;
  const spread *sums = s->step->out, *x = s->step->in[0].at;
  uint32_t words = (uint32_t)(c[PAIRS_WORDS] / c[PAIRS_LISTS]), right = (uint32_t)c[PAIRS_WEIGHT];
  uint8_t color = (uint8_t)(c[PAIRS_COLORS] + (int32_t)list);
  wafer_instruction send = begin(WAFER_CORE_move, 1 + 2 * list);
  send.shape[3] = words;
  send.in[0] = fragment_memory(
      WAFER_DTYPE_u32, s->in[1].address + (int32_t)(list * words * WAFER_WAVELET_BYTES), flat);
  send.out = fragment_wire(WAFER_DTYPE_u32, color);
  program_put(s->code, send);
  wafer_instruction axpy = begin(WAFER_CORE_axpy, 2 + 2 * list);
  int32_t summed = x->dim[x->rank - (right ? 1 : 2)].stride;
  int32_t kept = sums->dim[sums->rank - (right ? 1 : 2)].stride;
  int32_t step[2] = {rows->loops ? rows->at[0].stride[0] : 0,
                     rows->loops ? rows->at[1].stride[0] : 0};
  axpy.after = 1;
  axpy.shape[1] = (uint32_t)c[PAIRS_ROWS];
  axpy.shape[2] = (uint32_t)c[PAIRS_COLS];
  axpy.shape[3] = rows->loops ? rows->extent[0] : 1;
  axpy.in[0] = fragment_wire(s->step->in[1].dtype, color);
  axpy.in[1] =
      fragment_memory(x->dtype, rows->at[1].address,
                      (int32_t[WAFER_LEVELS]){0, right ? summed : 0, right ? 0 : summed, step[1]});
  axpy.out = axpy.in[2] =
      fragment_memory(sums->dtype, rows->at[0].address,
                      (int32_t[WAFER_LEVELS]){0, right ? 0 : kept, right ? kept : 0, step[0]});
  program_put(s->code, axpy);
}

/* Rows that are no run take the lists again and again. */
static void emit_rows(const program_site *s, const nest *rows) {
  const int32_t *c = s->step->constant;
  if (rows->loops > 1) {
    for (uint32_t i = 0; i < rows->extent[0]; i++) {
      nest inside = nest_inside(rows, i);
      emit_rows(s, &inside);
    }
    return;
  }
  const wafer_pairs pairs = {(uint32_t)c[PAIRS_LISTS], (uint32_t)c[PAIRS_LENGTH],
                             (uint32_t)c[PAIRS_WORDS]};
  for (uint32_t i = 0; i < pairs.lists; i++) emit_list(s, rows, i);
  for (uint32_t i = 0; i < pairs.lists; i++) /* the last pair comes behind its sender's last word */
    program_put(s->code,
                (wafer_instruction){.op = WAFER_CORE_join, .thread = (uint8_t)(2 + 2 * i)});
  s->code->cycles += wafer_pairs_cycles(s->p->r->machine, &pairs, s->step->in[1].dtype,
                                        rows->loops ? rows->extent[0] : 1);
}

/* Sums are cleared while the first pairs are on their way. */
static void emit_pairs(const program_site *s) {
  uint32_t before = s->code->count;
  const spread *x = s->step->in[0].at;
  program_fill(s, s->step->out, &s->out, 0);
  if (s->in[0].len[x->rank - (s->step->constant[PAIRS_WEIGHT] ? 1 : 2)] < 1) return;
  if (s->code->count == before + 1) s->code->at[before].async = true;
  nest rows = rows_of(s);
  emit_rows(s, &rows);
}

/* A core's lists pass from its own ramp to its own ramp. */
static wafer_status open_colors(program *p, uint32_t lists, int32_t *first) {
  fragment *f = program_open(p);
  if (!f) return program_no_memory(p);
  *first = (int32_t)f->colors;
  for (uint32_t i = 0; i < lists; i++)
    fragment_route(f, &(wafer_route){.cores = p->r->rect,
                                     .color = fragment_color(f),
                                     .positions = 1,
                                     .at = {{WAFER_PORT_ramp, WAFER_TO(ramp)}}});
  return WAFER_OK;
}

static wafer_status set_pairs(program *p, uint32_t node, uint32_t i, const wafer_pairs *pairs,
                              program_step *step) {
  uint32_t weight = p->body->nodes[node].operands[i];
  wafer_layout layout = wafer_kernel_input_layout(p->body, p->r->split, weight);
  const wafer_shape *shape = &p->body->inputs[weight].shape;
  if (p->r->machine->microthreads < 2 * pairs->lists + 1)
    return program_refuse(p, "a core has too few microthreads to send itself pairs");
  int32_t *c = step->constant;
  WAFER_TRY(open_colors(p, pairs->lists, &c[PAIRS_COLORS]));
  c[PAIRS_WEIGHT] = (int32_t)i;
  c[PAIRS_LISTS] = (int32_t)pairs->lists;
  c[PAIRS_LENGTH] = (int32_t)pairs->length;
  c[PAIRS_WORDS] = (int32_t)pairs->words;
  for (uint32_t d = 0; d < 2; d++) {
    int64_t parts = (int64_t)layout.rows[d] * layout.cols[d];
    c[PAIRS_ROWS + d] = (int32_t)((shape->dims[d] + parts - 1) / parts);
  }
  step->emit = emit_pairs;
  step->in[1] = program_own(p->value[weight]);
  step->in[1].dtype = wafer_stored_dtype(p->body->inputs[weight].dtype, p->body->storage);
  return WAFER_OK;
}

/* The operand that lies as pairs; 2: none does. */
static uint32_t pairs_operand(const program *p, uint32_t node, wafer_pairs *pairs) {
  for (uint32_t i = 2; i-- > 0;) {
    uint32_t v = p->body->nodes[node].operands[i];
    if (node != p->body->anchor || v >= p->body->input_count) continue;
    *pairs = wafer_kernel_pairs(p->body, p->r->split, v);
    if (pairs->lists) return i;
  }
  return 2;
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
  wafer_pairs pairs;
  program_step step = program_step_of(node, sums, emit);
  uint32_t sparse = pairs_operand(p, node, &pairs);
  step.in_count = 2;
  if (sparse < 2) {
    WAFER_TRY(operand(p, node, 1 - sparse, out, &step.in[0]));
    WAFER_TRY(set_pairs(p, node, sparse, &pairs, &step));
  }
  for (uint32_t i = 0; i < 2 && sparse == 2; i++) WAFER_TRY(operand(p, node, i, out, &step.in[i]));
  WAFER_TRY(program_add(p, &step));
  return program_settle(p, node, sums, WAFER_CORE_add, 1, out);
}

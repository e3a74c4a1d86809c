/* Sparse weights that lie as lists of pairs (wafer/pairs.h): a core sends each list to itself, and
 * a microthread multiplies with what comes. */
#include "wafer/pairs.h"

#include "program_build.h"

enum {
  PAIRS_COLORS,  /* the first of the lists' */
  PAIRS_OPERAND, /* which operand of the node has the pairs */
  PAIRS_LISTS,
  PAIRS_LENGTH, /* pairs of a list */
  PAIRS_TAPS,
  PAIRS_WORDS, /* of all lists */
  PAIRS_KINDS,
  PAIRS_SUMS,
  PAIRS_ROWS, /* of a full tile of the weight, as positions count them */
  PAIRS_COLS
};

enum { BASE = 2, COUNTER }; /* registers: bytes of the tap; its number in a loop, and their end */

uint32_t program_pairs_operand(const program_step *step) {
  return (uint32_t)step->constant[PAIRS_OPERAND];
}

static wafer_pairs pairs_of(const program_step *step) {
  const int32_t *c = step->constant;
  return (wafer_pairs){.lists = (uint32_t)c[PAIRS_LISTS],
                       .length = (uint32_t)c[PAIRS_LENGTH],
                       .taps = (uint32_t)c[PAIRS_TAPS],
                       .words = (uint32_t)c[PAIRS_WORDS],
                       .kinds = (uint32_t)c[PAIRS_KINDS],
                       .sums = (uint32_t)c[PAIRS_SUMS]};
}

static bool ends_sums(const program_step *step) {
  return step->constant[PAIRS_KINDS] == 4;
}

const spread *program_pairs_result(const program_step *step) {
  return ends_sums(step) ? step->in[2].at : step->out;
}

void program_pairs_clear(const program_site *s) {
  if (s->step->constant[PAIRS_KINDS] == 1) program_fill(s, s->step->out, &s->out, 0);
}

void program_pairs_begin(const program_site *s, program_pairs_over *over) {
  const program_tile *result = ends_sums(s->step) ? &s->in[2] : &s->out;
  const int32_t address[] = {s->out.address, s->in[0].address, result->address};
  *over = (program_pairs_over){.runs = {.op = WAFER_CORE_move, .inputs = 1, .along = 1}};
  for (uint32_t k = 0; k < WAFER_COUNT(address); k++)
    over->runs.at[k] = (nest_operand){.kind = WAFER_OPERAND_memory, .address = address[k]};
}

/* ---- instructions ---- */

static wafer_instruction begin(wafer_core_op op, uint32_t thread, bool load) {
  return (wafer_instruction){.op = (uint8_t)op,
                             .thread = (uint8_t)thread,
                             .async = true,
                             .load_descriptors = load,
                             .count_reg = WAFER_NO_REGISTER,
                             .shape = {1, 1, 1, 1}};
}

static uint8_t color_of(const program_site *s, uint32_t list) {
  return (uint8_t)(s->step->constant[PAIRS_COLORS] + (int32_t)list);
}

/* Thread 0 clears the sums, if anyone does; all lists wait for that. */
static uint32_t sender_of(uint32_t list) {
  return list + 1 < WAFER_PAIR_LISTS ? 1 + 2 * list : 0;
}

static uint32_t adder_of(uint32_t list) {
  return list + 1 < WAFER_PAIR_LISTS ? 2 + 2 * list : 1 + 2 * list;
}

static void emit_send(const program_site *s, uint32_t list) {
  static const int32_t flat[WAFER_LEVELS] = {0, 0, 0, WAFER_WAVELET_BYTES};
  const wafer_pairs pairs = pairs_of(s->step);
  uint32_t words = pairs.words / pairs.lists;
  wafer_instruction send = begin(WAFER_CORE_move, sender_of(list), true);
  send.shape[3] = words;
  send.in[0] = fragment_memory(
      WAFER_DTYPE_u32, s->in[1].address + (int32_t)(list * words * WAFER_WAVELET_BYTES), flat);
  send.out = fragment_wire(WAFER_DTYPE_u32, color_of(s, list));
  program_put(s->code, send);
}

/* The strides of an operand of the runs: the levels that are left of them, around those that pairs
 * say. */
static wafer_operand operand_of(const nest *runs, uint32_t k, wafer_dtype dtype,
                                const int32_t pair[2]) {
  int32_t stride[WAFER_LEVELS] = {0, pair[0], pair[1], 0};
  if (runs->loops > 1) stride[0] = runs->at[k].stride[0];
  if (runs->loops > 0) stride[3] = runs->at[k].stride[runs->loops - 1];
  return fragment_memory(dtype, runs->at[k].address, stride);
}

/* The pairs of a kind and a tap of a list. */
static void emit_axpy(const program_site *s, const program_pairs_over *over, wafer_pair_kind kind,
                      uint32_t list, bool load) {
  const nest *runs = &over->runs;
  bool cleared = s->step->constant[PAIRS_KINDS] == 1;
  wafer_instruction axpy = begin(WAFER_CORE_axpy, adder_of(list), load);
  /* the last list's words leave when sums are clear */
  axpy.after = cleared && load && sender_of(list) > 0;
  axpy.shape[0] = runs->loops > 1 ? runs->extent[0] : 1;
  axpy.shape[1] = (uint32_t)s->step->constant[PAIRS_ROWS];
  axpy.shape[2] = (uint32_t)s->step->constant[PAIRS_COLS];
  axpy.shape[3] = runs->loops > 0 ? runs->extent[runs->loops - 1] : 1;
  axpy.in[0] = fragment_wire(s->step->in[1].dtype, color_of(s, list));
  axpy.in[1] = operand_of(runs, 1, s->step->in[0].at->dtype, over->operand);
  if (over->tap_loops) axpy.in[1].reg = BASE;
  axpy.out = axpy.in[2] = operand_of(runs, 0, s->step->out->dtype, over->sums);
  if (kind == WAFER_PAIR_begins || kind == WAFER_PAIR_alone)
    axpy.in[2] = (wafer_operand){.kind = WAFER_OPERAND_constant,
                                 .dtype = (uint8_t)s->step->out->dtype,
                                 .reg = WAFER_NO_REGISTER};
  if (kind == WAFER_PAIR_alone || kind == WAFER_PAIR_ends)
    axpy.out = operand_of(runs, 2, program_pairs_result(s->step)->dtype, over->results);
  program_put(s->code, axpy);
}

/* From the innermost loop over taps that goes on back to `top`; behind the last tap. */
static void emit_next_tap(program_code *code, const program_pairs_over *over, uint32_t top) {
  for (uint32_t l = over->tap_loops; l-- > 0;) {
    uint8_t counter = (uint8_t)(COUNTER + 2 * l);
    program_plus(code, BASE, BASE, over->tap[l]);
    program_plus(code, counter, counter, 1);
    program_branch(code, counter, (uint8_t)(counter + 1), top);
    program_plus(code, BASE, BASE, -over->tap[l] * over->taps[l]);
    program_set(code, counter, 0);
  }
}

/* The last pair comes behind its sender's last word. */
static void join(const program_site *s) {
  for (uint32_t i = 0; i < pairs_of(s->step).lists; i++)
    program_put(s->code,
                (wafer_instruction){.op = WAFER_CORE_join, .thread = (uint8_t)adder_of(i)});
}

/* The first tap loads the descriptors, the others go on with them. Lists follow their senders. */
static void emit_kind(const program_site *s, const program_pairs_over *over, wafer_pair_kind kind,
                      bool sends) {
  uint32_t lists = pairs_of(s->step).lists;
  for (uint32_t i = 0; i < lists; i++) {
    if (sends) emit_send(s, i);
    emit_axpy(s, over, kind, i, true);
  }
  if (!over->tap_loops) return;
  uint32_t skip = program_branch(s->code, COUNTER, COUNTER + 1, 0), top = s->code->count;
  for (uint32_t i = 0; i < lists; i++) emit_axpy(s, over, kind, i, false);
  if (!s->code->failed) s->code->at[skip].target = (uint16_t)s->code->count;
  emit_next_tap(s->code, over, top);
}

/* Lists take turns, so a sum's pairs of one kind may be in another list than those of the next. */
static void emit_pass(const program_site *s, const program_pairs_over *over) {
  const wafer_pairs pairs = pairs_of(s->step);
  if (over->tap_loops) program_set(s->code, BASE, 0);
  for (uint32_t l = 0; l < over->tap_loops; l++) {
    program_set(s->code, (uint8_t)(COUNTER + 2 * l), 0);
    program_set(s->code, (uint8_t)(COUNTER + 2 * l + 1), over->taps[l]);
  }
  for (uint32_t i = 0; i < pairs.kinds; i++) {
    wafer_pair_kind kind = wafer_pairs_kind(pairs.kinds, i);
    if (i > 0 && pairs.lists > 1 && kind != WAFER_PAIR_alone) join(s);
    emit_kind(s, over, kind, i == 0);
  }
  join(s);
}

/* ---- passes ---- */

/* Elements of a step of the arithmetic. */
static uint32_t step_of(const program_site *s) {
  bool narrow = wafer_dtype_bytes(s->step->in[0].at->dtype) <= 2;
  const wafer_throughput *rate = &s->p->r->machine->rate[WAFER_RATE_fma][narrow];
  return (rate->elements + rate->cycles - 1) / rate->cycles;
}

static void add_loop(nest *reads, int32_t extent, int32_t operand, int32_t sums) {
  uint32_t loop = nest_loop(reads, extent);
  reads->at[1].stride[loop] = operand;
  reads->at[2].stride[loop] = sums;
}

/* Loops over all pairs of a tap that there could be. */
static void add_pairs(const program_site *s, const program_pairs_over *over, nest *reads) {
  int32_t rows = s->step->constant[PAIRS_ROWS], cols = s->step->constant[PAIRS_COLS];
  int32_t group = (int32_t)over->group, channels = (int32_t)over->channels;
  if (group == 0 || group > rows) group = rows;
  add_loop(reads, group, over->operand[0], over->sums[0]);
  add_loop(reads, (rows + group - 1) / group, channels * over->operand[1], group * over->sums[0]);
  add_loop(reads, over->group ? channels : cols, over->operand[1], over->sums[1]);
}

/* Of the steps of all pairs that there could be, those whose reads fall on the same banks. */
static uint32_t collisions(const program_site *s, const program_pairs_over *over) {
  const nest *runs = &over->runs;
  nest reads = {.inputs = 2, .at = {[1] = runs->at[1], [2] = runs->at[0]}};
  for (uint32_t l = 0; l < runs->loops; l++) {
    uint32_t step = l + 1 < runs->loops ? 1 : step_of(s);
    reads.at[1].stride[l] *= (int32_t)step;
    reads.at[2].stride[l] *= (int32_t)step;
    (void)nest_loop(&reads, (runs->extent[l] + step - 1) / step);
  }
  add_pairs(s, over, &reads);
  for (uint32_t l = 0; l < over->tap_loops; l++) {
    uint32_t loop = nest_loop(&reads, over->taps[l]);
    reads.at[1].stride[loop] = over->tap[l];
    reads.at[2].stride[loop] = 0;
  }
  return nest_collisions(s->p->r->machine, &reads);
}

/* Loops beyond two take the lists again and again. */
static void emit_passes(const program_site *s, const program_pairs_over *over) {
  if (over->runs.loops <= 2) {
    emit_pass(s, over);
    return;
  }
  for (uint32_t i = 0; i < over->runs.extent[0]; i++) {
    program_pairs_over inside = *over;
    inside.runs = nest_inside(&over->runs, i);
    emit_passes(s, &inside);
  }
}

void program_pairs_emit(const program_site *s, uint32_t before, const program_pairs_over *over) {
  const wafer_pairs pairs = pairs_of(s->step);
  program_pairs_over own = *over;
  if (s->code->count == before + 1) s->code->at[before].async = true;
  (void)nest_outside(s->p->r->machine, &own.runs);
  wafer_run run = {1, 1, 1, collisions(s, &own)};
  for (uint32_t l = 0; l < own.runs.loops; l++) {
    uint32_t inner = own.runs.loops - 1 - l;
    *(inner == 0 ? &run.length : inner == 1 ? &run.rows : &run.times) *= own.runs.extent[l];
  }
  emit_passes(s, &own);
  s->code->cycles += wafer_pairs_cycles(s->p->r->machine, &pairs, s->step->in[1].dtype, &run);
}

/* ---- steps ---- */

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

wafer_status program_pairs_set(program *p, uint32_t node, uint32_t operand, const spread *result,
                               program_step *step, bool *ends) {
  uint32_t weight = p->body->nodes[node].operands[operand];
  wafer_pairs pairs = wafer_kernel_pairs(p->r->machine, p->body, p->r->split, weight);
  wafer_layout layout = wafer_kernel_input_layout(p->body, p->r->split, weight);
  const wafer_shape *shape = &p->body->inputs[weight].shape;
  if (p->r->machine->microthreads <
      (pairs.lists < WAFER_PAIR_LISTS ? 2 * pairs.lists + 1 : 2 * pairs.lists))
    return program_refuse(p, "a core has too few microthreads to send itself pairs");
  int32_t *c = step->constant;
  WAFER_TRY(open_colors(p, pairs.lists, &c[PAIRS_COLORS]));
  c[PAIRS_OPERAND] = (int32_t)operand;
  c[PAIRS_LISTS] = (int32_t)pairs.lists;
  c[PAIRS_LENGTH] = (int32_t)pairs.length;
  c[PAIRS_TAPS] = (int32_t)pairs.taps;
  c[PAIRS_WORDS] = (int32_t)pairs.words;
  c[PAIRS_KINDS] = (int32_t)pairs.kinds;
  c[PAIRS_SUMS] = (int32_t)pairs.sums;
  int64_t parts = (int64_t)layout.rows[0] * layout.cols[0];
  c[PAIRS_ROWS] = (int32_t)((shape->dims[0] + parts - 1) / parts);
  c[PAIRS_COLS] = (int32_t)pairs.columns;
  step->in[1] = program_own(p->value[weight]);
  step->in[1].dtype = wafer_stored_dtype(p->body->inputs[weight].dtype, p->body->storage);
  *ends = ends_sums(step);
  if (*ends) step->in[2] = program_own(result);
  if (*ends) step->in_count = 3;
  return WAFER_OK;
}

uint32_t program_pairs_of(const program *p, uint32_t node) {
  return node == p->body->anchor ? program_weight_pairs(p->r->machine, p->body, p->r->split)
                                 : UINT32_MAX;
}

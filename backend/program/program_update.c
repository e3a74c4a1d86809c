/* The end of a step of pipelined training on the cores that hold a gradient's sum: what another
 * replica has added up is added, then the optimizer's rule updates the weight. Every copy of a sum
 * is complete, so each core updates what it has by itself. Rows of the tables are vector
 * instructions over the tile, in the order in which runtime/train/optimizer_rules.c rounds. */
#include <stddef.h>

#include "program_build.h"
#include "program_update.h"

/* What a row reads and writes: arrays beside each other, then the numbers of the update. */
enum { SUM, TERM, WEIGHT, SLOT_0, SLOT_1, ARRAYS };
#define NUMBER(name) (ARRAYS + WAFER_NUMBER_##name)

typedef struct row {
  wafer_op op;
  uint8_t out, in[2]; /* sqrt reads the first alone */
} row;

/* x = g scale + decay w, in place of g */
#define DECAYED                                                                                    \
  {WAFER_OP_mul, TERM, {WEIGHT, NUMBER(decay)}}, {WAFER_OP_mul, SUM, {SUM, NUMBER(scale)}}, {      \
    WAFER_OP_add, SUM, {                                                                           \
      SUM, TERM                                                                                    \
    }                                                                                              \
  }
/* m += rest1 (x - m); v = beta2 v + rest2 x x; w -= size (m / (sqrt(v) root + eps)) */
#define MOMENTS                                                                                    \
  {WAFER_OP_sub, TERM, {SUM, SLOT_0}}, {WAFER_OP_mul, TERM, {TERM, NUMBER(rest1)}},                \
      {WAFER_OP_add, SLOT_0, {SLOT_0, TERM}}, {WAFER_OP_mul, TERM, {SUM, SUM}},                    \
      {WAFER_OP_mul, TERM, {TERM, NUMBER(rest2)}},                                                 \
      {WAFER_OP_mul, SLOT_1, {SLOT_1, NUMBER(beta2)}}, {WAFER_OP_add, SLOT_1, {SLOT_1, TERM}},     \
      {WAFER_OP_sqrt, TERM, {SLOT_1}}, {WAFER_OP_mul, TERM, {TERM, NUMBER(root)}},                 \
      {WAFER_OP_add, TERM, {TERM, NUMBER(eps)}}, {WAFER_OP_div, TERM, {SLOT_0, TERM}},             \
      {WAFER_OP_mul, TERM, {TERM, NUMBER(size)}}, {                                                \
    WAFER_OP_sub, WEIGHT, {                                                                        \
      WEIGHT, TERM                                                                                 \
    }                                                                                              \
  }

static const row sgd[] = {
    DECAYED, {WAFER_OP_mul, SUM, {SUM, NUMBER(lr)}}, {WAFER_OP_sub, WEIGHT, {WEIGHT, SUM}}};
static const row momentum[] = {DECAYED,
                               {WAFER_OP_mul, SLOT_0, {SLOT_0, NUMBER(momentum)}},
                               {WAFER_OP_add, SLOT_0, {SLOT_0, SUM}},
                               {WAFER_OP_mul, TERM, {SLOT_0, NUMBER(lr)}},
                               {WAFER_OP_sub, WEIGHT, {WEIGHT, TERM}}};
static const row adam[] = {DECAYED, MOMENTS};
static const row adamw[] = {{WAFER_OP_mul, WEIGHT, {WEIGHT, NUMBER(kept)}},
                            {WAFER_OP_mul, SUM, {SUM, NUMBER(scale)}},
                            MOMENTS};
static const row statistic[] = {{WAFER_OP_mul, WEIGHT, {SUM, NUMBER(share)}}};
static const row together[] = {{WAFER_OP_add, SUM, {SUM, TERM}}};

_Static_assert(WAFER_COUNT(adam) <= WAFER_UPDATE_INSTRUCTIONS, "code bytes of a sum");

typedef struct rows {
  const row *at;
  uint32_t count;
} rows;
#define ROWS(table)                                                                                \
  (rows) {                                                                                         \
    table, WAFER_COUNT(table)                                                                      \
  }

static rows rule_of(wafer_optimizer_kind kind, bool is_statistic) {
  if (is_statistic) return ROWS(statistic);
  switch (kind) {
  case WAFER_OPTIMIZER_sgd: return ROWS(sgd);
  case WAFER_OPTIMIZER_momentum: return ROWS(momentum);
  case WAFER_OPTIMIZER_adam: return ROWS(adam);
  case WAFER_OPTIMIZER_adamw: return ROWS(adamw);
  default: return (rows){0};
  }
}

/* ---- code ---- */

enum { OF_OP, OF_NUMBER }; /* constants of a step: the op; of each operand a number's address, -1 */

static void emit_row(const program_site *s) {
  const program_step *step = s->step;
  wafer_op op = (wafer_op)step->constant[OF_OP];
  nest n = program_nest_over(program_instruction(op, true), step->in_count, step->out, &s->out);
  n.function = op;
  for (uint32_t i = 0; i < n.inputs && i + 1 < NEST_OPERANDS; i++) {
    int32_t number = step->constant[OF_NUMBER + i];
    if (number < 0)
      nest_place(&n, i + 1, step->in[i].at, &s->in[i]);
    else
      n.at[i + 1] =
          (nest_operand){.kind = WAFER_OPERAND_memory, .dtype = WAFER_DTYPE_f32, .address = number};
  }
  nest_emit(s->code, &n);
}

static void emit_narrow(const program_site *s) {
  const program_step *step = s->step;
  nest n = program_nest_over(WAFER_CORE_convert, 1, step->out, &s->out);
  nest_place(&n, 1, step->in[0].at, &s->in[0]);
  nest_emit(s->code, &n);
}

static void emit_zeros(const program_site *s) {
  program_fill(s, s->step->out, &s->out, 0);
}

static const spread *array_of(const program_held *h, uint8_t which) {
  const spread *const arrays[ARRAYS] = {&h->sum, &h->term, &h->weight, &h->slot[0], &h->slot[1]};
  return arrays[which];
}

static wafer_status add_rows(program *p, const program_held *h, int32_t numbers, rows r) {
  for (uint32_t i = 0; i < r.count; i++) {
    program_step step = program_step_of(p->node, array_of(h, r.at[i].out), emit_row);
    step.constant[OF_OP] = (int32_t)r.at[i].op;
    step.in_count = r.at[i].op == WAFER_OP_sqrt ? 1 : 2;
    for (uint32_t k = 0; k < step.in_count; k++) {
      uint8_t in = r.at[i].in[k];
      step.constant[OF_NUMBER + k] = in < ARRAYS ? -1 : numbers + 4 * (in - ARRAYS);
      step.in[k] = program_own(array_of(h, in < ARRAYS ? in : r.at[i].out));
    }
    WAFER_TRY(program_add(p, &step));
  }
  return WAFER_OK;
}

/* What kernels read where they do not hold f32. */
static wafer_status add_narrow(program *p, const program_held *h) {
  if (!h->stored) return WAFER_OK;
  program_step step = program_step_of(p->node, h->stored, emit_narrow);
  step.in_count = 1;
  step.in[0] = program_own(&h->weight);
  return program_add(p, &step);
}

/* ---- squares ---- */

static bool is_empty(const program_tile *tile, uint32_t rank) {
  for (uint32_t d = 0; d < rank; d++)
    if (tile->len[d] <= 0) return true;
  return false;
}

/* The number += x x, over all that the core has of x. */
static void emit_squares(const program_site *s) {
  const program_step *step = s->step;
  const spread *x = step->in[0].at;
  if (is_empty(&s->in[0], x->rank)) return;
  nest n = program_nest_over(WAFER_CORE_fma, 3, x, &s->in[0]);
  n.at[1] = n.at[2] = n.at[0];
  n.at[0] = n.at[3] = (nest_operand){
      .kind = WAFER_OPERAND_memory, .dtype = WAFER_DTYPE_f32, .address = s->out.address};
  nest_emit(s->code, &n);
}

static wafer_status add_zero(program *p, const spread *squares) {
  program_step step = program_step_of(p->body->anchor, squares, emit_zeros);
  return program_add(p, &step);
}

static wafer_status add_squares(program *p, const program_held *h, const spread *squares) {
  program_step step = program_step_of(p->node, squares, emit_squares);
  spread *once = WAFER_NEW(p->arena, spread, 1);
  const spread *sum = program_ranked(p, &h->sum);
  if (h->statistic) return WAFER_OK;
  if (!once || !sum || !spread_once(p->arena, sum, once)) return program_no_memory(p);
  step.in_count = 1;
  step.in[0] = program_own(once);
  return program_add(p, &step);
}

/* ---- parts ---- */

static wafer_status add_zeros(program *p, const program_held *h) {
  for (uint32_t i = 0; i < h->slot_count; i++) {
    program_step step = program_step_of(p->node, &h->slot[i], emit_zeros);
    WAFER_TRY(program_add(p, &step));
  }
  return WAFER_OK;
}

wafer_status program_update(const program_request *request, const program_update_of *update,
                            program_kernel_code *out) {
  program *p = WAFER_NEW(request->arena, program, 1);
  *out = (program_kernel_code){0};
  if (!p) return WAFER_NO_MEMORY;
  p->out = out;
  WAFER_TRY(program_begin(p, request));
  if (update->part == PROGRAM_UPDATE_squares) WAFER_TRY(add_zero(p, update->squares));
  for (uint32_t i = 0; i < p->body->output_count; i++) {
    const program_held *h = &update->held[i];
    if (!wafer_body_sums(p->body, i)) continue;
    p->node = p->body->outputs[i] - p->body->input_count;
    switch (update->part) {
    case PROGRAM_UPDATE_begin: WAFER_TRY(add_zeros(p, h)); break;
    case PROGRAM_UPDATE_gather: WAFER_TRY(add_rows(p, h, 0, ROWS(together))); break;
    case PROGRAM_UPDATE_squares: WAFER_TRY(add_squares(p, h, update->squares)); break;
    case PROGRAM_UPDATE_rule:
      WAFER_TRY(add_rows(p, h, update->numbers, rule_of(update->optimizer, h->statistic)));
      WAFER_TRY(add_narrow(p, h));
    }
  }
  return program_flush(p);
}

/* RNN, GRU and LSTM, written out step by step: the sequence's length is known.
 *
 * With layout 0: x (seq, batch, in), W (dirs, gates*hidden, in), R (dirs, gates*hidden, hidden), B
 * (dirs, 2*gates*hidden), initial states (dirs, batch, hidden); Y (seq, dirs, batch, hidden), then
 * the last states (dirs, batch, hidden). With layout 1 the batch is the first dim of x, Y and the
 * states; they are transposed at the edges. */
#include <string.h>

#include "operators.h"

#define MOST_STEPS 1024
#define MOST_GATES 4

static const MlirValue none;

typedef struct cell {
  int64_t steps, batch, hidden, dirs, gates;
  uint32_t dir;
  bool batch_first; /* layout 1 */
  double clip;
  wafer_op activations[3];
  MlirValue x;                    /* (seq, batch, in) */
  MlirValue weight, recurrent;    /* (in, gates*hidden), (hidden, gates*hidden) */
  MlirValue bias, recurrent_bias; /* (gates*hidden); null: none */
  MlirValue peephole;             /* (3*hidden); null: none */
  MlirValue h, c;                 /* (batch, hidden) */
} cell;

/* Part `index` of `count` equal ones along the last dim. */
static MlirValue gate(import_node *n, MlirValue x, int64_t index, int64_t hidden) {
  return emit_part(n, x, node_rank(n, x) - 1, index * hidden, hidden);
}

static MlirValue activate(import_node *n, const cell *c, uint32_t which, MlirValue x) {
  if (c->clip > 0) x = emit_clip(n, x, -c->clip, c->clip);
  return emit_unary(n, c->activations[which], x);
}

/* ---- One step: the gates' sums of the input are `x` ---- */

static MlirValue recurrent_sums(import_node *n, const cell *c, MlirValue h) {
  MlirValue sums = emit_binary(n, WAFER_OP_matmul, h, c->recurrent);
  return c->recurrent_bias.ptr ? ADD(sums, c->recurrent_bias) : sums;
}

static void step_rnn(import_node *n, cell *c, MlirValue x) {
  c->h = activate(n, c, 0, ADD(x, recurrent_sums(n, c, c->h)));
}

/* Gates z, r, h: h' = (1 - z) * g(xh + r * (h Rh + bh)) + z * h */
static void step_gru(import_node *n, cell *c, MlirValue x) {
  MlirValue sums = recurrent_sums(n, c, c->h);
  MlirValue z = activate(n, c, 0, ADD(gate(n, x, 0, c->hidden), gate(n, sums, 0, c->hidden)));
  MlirValue r = activate(n, c, 0, ADD(gate(n, x, 1, c->hidden), gate(n, sums, 1, c->hidden)));
  MlirValue kept;
  if (attr_int(n, "linear_before_reset", 0)) {
    kept = MUL(r, gate(n, sums, 2, c->hidden));
  } else {
    kept = emit_binary(n, WAFER_OP_matmul, MUL(r, c->h), gate(n, c->recurrent, 2, c->hidden));
    if (c->recurrent_bias.ptr) kept = ADD(kept, gate(n, c->recurrent_bias, 2, c->hidden));
  }
  MlirValue fresh = activate(n, c, 1, ADD(gate(n, x, 2, c->hidden), kept));
  c->h = ADD(MUL(SUB(emit_scalar_like(n, z, 1), z), fresh), MUL(z, c->h));
}

static MlirValue peep(import_node *n, const cell *c, MlirValue sum, int64_t index,
                      MlirValue state) {
  if (!c->peephole.ptr) return sum;
  return ADD(sum, MUL(gate(n, c->peephole, index, c->hidden), state));
}

/* Gates i, o, f, c; peepholes i, o, f. */
static void step_lstm(import_node *n, cell *c, MlirValue x) {
  MlirValue sums = ADD(x, recurrent_sums(n, c, c->h));
  MlirValue i = activate(n, c, 0, peep(n, c, gate(n, sums, 0, c->hidden), 0, c->c));
  MlirValue f = activate(n, c, 0, peep(n, c, gate(n, sums, 2, c->hidden), 2, c->c));
  MlirValue fresh = activate(n, c, 1, gate(n, sums, 3, c->hidden));
  c->c = ADD(MUL(f, c->c), MUL(i, fresh));
  MlirValue o = activate(n, c, 0, peep(n, c, gate(n, sums, 1, c->hidden), 1, c->c));
  /* the last activation is not clipped */
  double clip = c->clip;
  c->clip = 0;
  c->h = MUL(o, activate(n, c, 2, c->c));
  c->clip = clip;
}

/* ---- A direction ---- */

/* Row `dir` of input `index`, with its first dim dropped. */
static MlirValue row_of(import_node *n, MlirValue x, uint32_t index, uint32_t dir) {
  wafer_shape shape = node_type(n, x).shape;
  if (n->status == WAFER_OK && (shape.rank < 2 || shape.dims[0] <= (int64_t)dir))
    node_bad(n, "input %u has %u dims, its first one must be the directions", index, shape.rank);
  if (n->status != WAFER_OK) return none;
  return emit_reshape(n, emit_part(n, x, 0, dir, 1), shape.rank - 1, shape.dims + 1);
}

static MlirValue of_direction(import_node *n, uint32_t index, uint32_t dir) {
  return row_of(n, node_input(n, index), index, dir);
}

/* The first two of three dims change places. */
static MlirValue swap_first(import_node *n, MlirValue x) {
  return emit_transpose(n, x, 3, (int64_t[]){1, 0, 2});
}

static MlirValue first_state(import_node *n, const cell *c, uint32_t index) {
  if (!node_has_input(n, index))
    return emit_expand(n, emit_scalar_like(n, node_input(n, 0), 0), 2,
                       (int64_t[]){c->batch, c->hidden});
  wafer_shape given = node_type(n, node_input(n, index)).shape;
  if (n->status == WAFER_OK && (given.rank != 3 || given.dims[2] != c->hidden))
    node_bad(n, "input %u has %u dims, the last of %lld, needs 3 and the recurrence's %lld", index,
             given.rank, given.rank ? (long long)given.dims[given.rank - 1] : 0,
             (long long)c->hidden);
  MlirValue states = training_rebatch_along(n, node_input(n, index), c->batch_first ? 0 : 1);
  if (c->batch_first) states = swap_first(n, states);
  return row_of(n, states, index, c->dir);
}

static void open_direction(import_node *n, cell *c, bool lstm) {
  int64_t rows = c->gates * c->hidden;
  c->weight = emit_swap_last(n, of_direction(n, 1, c->dir));
  c->recurrent = emit_swap_last(n, of_direction(n, 2, c->dir));
  if (node_has_input(n, 3)) {
    MlirValue both = of_direction(n, 3, c->dir);
    c->bias = emit_part(n, both, 0, 0, rows);
    c->recurrent_bias = emit_part(n, both, 0, rows, rows);
  }
  c->h = first_state(n, c, 5);
  if (lstm) c->c = first_state(n, c, 6);
  if (lstm && node_has_input(n, 7)) c->peephole = of_direction(n, 7, c->dir);
}

/* Runs a direction; every step's h as (seq, 1, batch, hidden). */
static MlirValue run_direction(import_node *n, cell *c, bool back,
                               void step(import_node *n, cell *c, MlirValue x)) {
  wafer_shape shape = node_type(n, c->x).shape;
  int64_t rows = c->gates * c->hidden, line[] = {1, 1, c->batch, c->hidden};
  MlirValue flat = emit_reshape(n, c->x, 2, (int64_t[]){c->steps * c->batch, shape.dims[2]});
  MlirValue sums = emit_binary(n, WAFER_OP_matmul, flat, c->weight), all = none;
  if (c->bias.ptr) sums = ADD(sums, c->bias);
  sums = emit_reshape(n, sums, 3, (int64_t[]){c->steps, c->batch, rows});
  for (int64_t i = 0; i < c->steps && n->status == WAFER_OK; i++) {
    int64_t at = back ? c->steps - 1 - i : i;
    MlirValue x = emit_part(n, sums, 0, at, 1);
    step(n, c, emit_reshape(n, x, 2, (int64_t[]){c->batch, rows}));
    MlirValue h = emit_reshape(n, c->h, 4, line);
    all = !all.ptr ? h : back ? emit_concat(n, h, all, 0) : emit_concat(n, all, h, 0);
  }
  return all;
}

/* ---- The operators ---- */

static cell open_cell(import_node *n, int64_t gates) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape, r = node_type(n, node_input(n, 2)).shape;
  cell c = {.gates = gates, .clip = attr_float(n, "clip", 0)};
  int64_t layout = attr_int(n, "layout", 0);
  if (n->status != WAFER_OK) return c;
  if (x.rank != 3 || r.rank != 3 || r.dims[1] != gates * r.dims[2]) {
    node_bad(n, "the operand or the recurrence has not three dims that fit");
    return c;
  }
  if (layout != 0 && layout != 1) node_bad(n, "layout is %lld, must be 0 or 1", (long long)layout);
  c.batch_first = layout == 1;
  c.x = c.batch_first ? swap_first(n, node_input(n, 0)) : node_input(n, 0);
  c.steps = x.dims[c.batch_first], c.batch = x.dims[!c.batch_first];
  c.hidden = r.dims[2], c.dirs = r.dims[0];
  if (attr_int(n, "input_forget", 0)) node_problem(n, WAFER_PROBLEM_attribute, "input_forget");
  if (c.steps < 1 || c.steps > MOST_STEPS || c.dirs < 1 || c.dirs > 2)
    node_unsupported(n, "%lld steps, 1 to %d are", (long long)c.steps, MOST_STEPS);
  if (attr_has(n, "activation_alpha") || attr_has(n, "activation_beta"))
    node_problem(n, WAFER_PROBLEM_attribute, "activations with parameters");
  return c;
}

/* Sequences all of full length may be given their lengths. */
static void check_lengths(import_node *n, const cell *c) {
  int_list lengths = node_has_input(n, 4) ? node_ints(n, 4, "sequence_lens") : (int_list){0};
  for (uint32_t i = 0; i < lengths.count; i++)
    if (lengths.at[i] != c->steps) node_unsupported(n, "sequences of unlike lengths");
}

static wafer_op activation_of(import_node *n, wire_bytes name) {
  static const struct {
    const char *name;
    wafer_op op;
  } known[] = {{"Sigmoid", WAFER_OP_sigmoid}, {"Tanh", WAFER_OP_tanh}, {"Relu", WAFER_OP_relu}};
  for (size_t i = 0; i < WAFER_COUNT(known); i++)
    if (strlen(known[i].name) == name.count && !memcmp(known[i].name, name.at, name.count))
      return known[i].op;
  node_problem(n, WAFER_PROBLEM_attribute, "activation %.*s",
               (int)(name.count < 64 ? name.count : 64), (const char *)name.at);
  return WAFER_OP_tanh;
}

static void choose_activations(import_node *n, cell *c, uint32_t per_direction,
                               const wafer_op *usual) {
  const onnx_attribute *a = attr_find(n, "activations");
  size_t given = a ? a->strings.count : 0;
  if (given && given != per_direction * (size_t)c->dirs)
    node_bad(n, "%zu activations, needs %lld", given, (long long)(per_direction * c->dirs));
  if (n->status != WAFER_OK) given = 0;
  for (uint32_t i = 0; i < per_direction; i++)
    c->activations[i] =
        given ? activation_of(n, a->strings.at[c->dir * per_direction + i]) : usual[i];
}

static void recur(import_node *n, int64_t gates, uint32_t per_direction, const wafer_op *usual,
                  void step(import_node *n, cell *c, MlirValue x)) {
  const char *direction = attr_text(n, "direction", "forward");
  bool lstm = gates == MOST_GATES;
  cell c = open_cell(n, gates);
  if (n->status == WAFER_OK) check_lengths(n, &c);
  MlirValue outputs[3] = {none, none, none};
  for (c.dir = 0; n->status == WAFER_OK && (int64_t)c.dir < c.dirs; c.dir++) {
    choose_activations(n, &c, per_direction, usual);
    open_direction(n, &c, lstm);
    bool back = !strcmp(direction, "reverse") || c.dir == 1;
    MlirValue made[3] = {run_direction(n, &c, back, step), none, none};
    int64_t state[] = {1, c.batch, c.hidden};
    made[1] = emit_reshape(n, c.h, 3, state);
    if (lstm) made[2] = emit_reshape(n, c.c, 3, state);
    for (uint32_t i = 0; i < 3; i++)
      outputs[i] = c.dir && made[i].ptr ? emit_concat(n, outputs[i], made[i], i == 0) : made[i];
  }
  for (uint32_t i = 0; i < 3 && c.batch_first && n->status == WAFER_OK; i++)
    if (outputs[i].ptr)
      outputs[i] =
          i ? swap_first(n, outputs[i]) : emit_transpose(n, outputs[i], 4, (int64_t[]){2, 0, 1, 3});
  for (uint32_t i = 0; i < n->output_count && i < 3; i++) n->outputs[i] = outputs[i];
}

void import_rnn(import_node *n) {
  recur(n, 1, 1, (const wafer_op[]){WAFER_OP_tanh}, step_rnn);
}
void import_gru(import_node *n) {
  recur(n, 3, 2, (const wafer_op[]){WAFER_OP_sigmoid, WAFER_OP_tanh}, step_gru);
}
void import_lstm(import_node *n) {
  recur(n, MOST_GATES, 3, (const wafer_op[]){WAFER_OP_sigmoid, WAFER_OP_tanh, WAFER_OP_tanh},
        step_lstm);
}

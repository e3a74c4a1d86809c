/* RNN, GRU and LSTM, written out step by step: the sequence's length is known.
 *
 * With layout 0: x (seq, batch, in), W (dirs, gates*hidden, in), R (dirs, gates*hidden, hidden), B
 * (dirs, 2*gates*hidden), initial states (dirs, batch, hidden); Y (seq, dirs, batch, hidden), then
 * the last states (dirs, batch, hidden). With layout 1 the batch is the first dim of x, Y and the
 * states; they are transposed at the edges.
 *
 * Where sequences have lengths of their own, steps behind a sequence's end leave its states as they
 * are, and Y has zeros there: backwards they come first, and the states begin at the end. The last
 * states of a sequence without any step are zeros, as onnxruntime has them. */
#include <string.h>

#include "compose.h"
#include "operators.h"

#define MOST_STEPS 1024
#define MOST_GATES 4
#define MOST_ACTIVATIONS 3 /* of a direction */

static const MlirValue none;

/* What the input or the state is multiplied with: (in, gates*hidden) or (hidden, gates*hidden). Of
 * integers it has a scale and a zero point, one or one for each column, and what is multiplied is
 * quantized anew each time. */
typedef struct factor {
  MlirValue w, scale, zero; /* scale null: floats */
} factor;

typedef struct cell {
  int64_t steps, batch, hidden, dirs, gates;
  uint32_t dir;
  bool batch_first; /* layout 1 */
  bool couples;     /* LSTM, input_forget: what is not taken in is kept */
  bool quantized;   /* weights are integers, with scales and zero points as inputs 8 to 11 */
  double clip;
  nonlinearity activations[2][MOST_ACTIVATIONS]; /* [direction] */
  MlirValue lengths;                             /* (batch, 1); null: all are full */
  int64_t shortest;                              /* as far as it is known */
  MlirValue x;                                   /* (seq, batch, in) */
  factor weight, recurrent;
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
  return emit_nonlinearity(n, &c->activations[c->dir][which], x);
}

static MlirValue product(import_node *n, MlirValue x, const factor *by) {
  if (!by->scale.ptr) return emit_binary(n, WAFER_OP_matmul, x, by->w);
  quantized_numbers q = emit_dynamically_quantized(n, x);
  MlirValue sums = emit_binary(n, WAFER_OP_matmul, emit_centered(n, q.y, q.zero, false),
                               emit_centered(n, by->w, by->zero, false));
  return MUL(emit_cast(n, sums, WAFER_DTYPE_f32), MUL(q.scale, by->scale));
}

/* ---- One step: the gates' sums of the input are `x` ---- */

static MlirValue recurrent_sums(import_node *n, const cell *c, MlirValue h) {
  MlirValue sums = product(n, h, &c->recurrent);
  return c->recurrent_bias.ptr ? ADD(sums, c->recurrent_bias) : sums;
}

static void step_rnn(import_node *n, cell *c, MlirValue x) {
  c->h = activate(n, c, 0, ADD(x, recurrent_sums(n, c, c->h)));
}

/* Gates z, r, h: h' = (1 - z) * g(xh + r * (h Rh + bh)) + z * h */
static void step_gru(import_node *n, cell *c, MlirValue x) {
  MlirValue sums = recurrent_sums(n, c, c->h), both = ADD(x, sums);
  MlirValue z = activate(n, c, 0, gate(n, both, 0, c->hidden));
  MlirValue r = activate(n, c, 0, gate(n, both, 1, c->hidden));
  MlirValue kept;
  if (attr_int(n, "linear_before_reset", 0)) {
    kept = MUL(r, gate(n, sums, 2, c->hidden));
  } else {
    kept = emit_binary(n, WAFER_OP_matmul, MUL(r, c->h), gate(n, c->recurrent.w, 2, c->hidden));
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
  MlirValue f = c->couples ? SUB(emit_scalar_like(n, i, 1), i)
                           : activate(n, c, 0, peep(n, c, gate(n, sums, 2, c->hidden), 2, c->c));
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

/* Of a vector, an element for each direction; of a matrix, a row. */
static MlirValue quantization_of(import_node *n, uint32_t index, const char *what, uint32_t dir) {
  MlirValue x = node_input(n, index);
  if (!node_has_input(n, index)) node_bad(n, "input %u (%s) is missing", index, what);
  if (n->status != WAFER_OK || node_rank(n, x) != 1) return row_of(n, x, index, dir);
  return emit_reshape(n, emit_part(n, x, 0, dir, 1), 0, NULL);
}

/* Input `index`; integers lie with their columns last, floats with their rows. */
static factor open_factor(import_node *n, const cell *c, uint32_t index, uint32_t scale) {
  factor f = {.w = of_direction(n, index, c->dir)};
  if (!c->quantized) {
    f.w = emit_swap_last(n, f.w);
    return f;
  }
  f.scale = quantization_of(n, scale, "scale", c->dir);
  f.zero = quantization_of(n, scale + 1, "zero point", c->dir);
  return f;
}

static void open_direction(import_node *n, cell *c, bool lstm) {
  int64_t rows = c->gates * c->hidden;
  c->weight = open_factor(n, c, 1, 8);
  c->recurrent = open_factor(n, c, 2, 10);
  if (node_has_input(n, 3)) {
    MlirValue both = of_direction(n, 3, c->dir);
    c->bias = emit_part(n, both, 0, 0, rows);
    c->recurrent_bias = emit_part(n, both, 0, rows, rows);
  }
  c->h = first_state(n, c, 5);
  if (lstm) c->c = first_state(n, c, 6);
  if (lstm && node_has_input(n, 7)) c->peephole = of_direction(n, 7, c->dir);
}

/* `then` for sequences that are longer than `steps`, for others `otherwise`. */
static MlirValue where_longer(import_node *n, const cell *c, int64_t steps, MlirValue then,
                              MlirValue otherwise) {
  if (!c->lengths.ptr || steps < c->shortest) return then;
  MlirValue at = emit_scalar_like(n, c->lengths, (double)steps);
  return emit_select(n, emit_binary(n, WAFER_OP_less, at, c->lengths), then, otherwise);
}

/* Step `at`; its h, zeros where there is none. */
static MlirValue take_step(import_node *n, cell *c, int64_t at, MlirValue x,
                           void step(import_node *n, cell *c, MlirValue x)) {
  const MlirValue h = c->h, state = c->c, zero = emit_scalar_like(n, c->h, 0);
  step(n, c, x);
  MlirValue made = where_longer(n, c, at, c->h, zero);
  c->h = where_longer(n, c, at, c->h, h);
  if (c->c.ptr) c->c = where_longer(n, c, at, c->c, state);
  return made;
}

/* Runs a direction; every step's h as (seq, 1, batch, hidden), which come together as they are
 * made. */
static MlirValue run_direction(import_node *n, cell *c, bool back,
                               void step(import_node *n, cell *c, MlirValue x)) {
  wafer_shape shape = node_type(n, c->x).shape;
  int64_t rows = c->gates * c->hidden, line[] = {1, 1, c->batch, c->hidden};
  MlirValue flat = emit_reshape(n, c->x, 2, (int64_t[]){c->steps * c->batch, shape.dims[2]});
  MlirValue sums = product(n, flat, &c->weight);
  concat_tree all = {.axis = 0, .backwards = back};
  if (c->bias.ptr) sums = ADD(sums, c->bias);
  sums = emit_reshape(n, sums, 3, (int64_t[]){c->steps, c->batch, rows});
  for (int64_t i = 0; i < c->steps && n->status == WAFER_OK; i++) {
    int64_t at = back ? c->steps - 1 - i : i;
    MlirValue x = emit_part(n, sums, 0, at, 1);
    MlirValue h = take_step(n, c, at, emit_reshape(n, x, 2, (int64_t[]){c->batch, rows}), step);
    emit_concat_next(n, &all, emit_reshape(n, h, 4, line));
  }
  MlirValue made = emit_concat_end(n, &all);
  const MlirValue zero = emit_scalar_like(n, c->h, 0);
  c->h = where_longer(n, c, 0, c->h, zero);
  if (c->c.ptr) c->c = where_longer(n, c, 0, c->c, zero);
  return made;
}

/* ---- The operators ---- */

static cell open_cell(import_node *n, int64_t gates, bool quantized) {
  wafer_shape x = node_type(n, node_input(n, 0)).shape, r = node_type(n, node_input(n, 2)).shape;
  cell c = {.gates = gates, .quantized = quantized, .clip = attr_float(n, "clip", 0)};
  int64_t layout = attr_int(n, "layout", 0);
  if (n->status != WAFER_OK) return c;
  if (x.rank != 3 || r.rank != 3 ||
      r.dims[quantized ? 2 : 1] != gates * r.dims[quantized ? 1 : 2]) {
    node_bad(n, "the operand or the recurrence has not three dims that fit");
    return c;
  }
  if (layout != 0 && layout != 1) node_bad(n, "layout is %lld, must be 0 or 1", (long long)layout);
  c.batch_first = layout == 1;
  c.x = c.batch_first ? swap_first(n, node_input(n, 0)) : node_input(n, 0);
  c.steps = x.dims[c.batch_first], c.batch = x.dims[!c.batch_first];
  c.hidden = r.dims[quantized ? 1 : 2], c.dirs = r.dims[0];
  c.couples = attr_int(n, "input_forget", 0) != 0;
  if (c.steps < 1 || c.steps > MOST_STEPS || c.dirs < 1 || c.dirs > 2)
    node_unsupported(n, "%lld steps, 1 to %d are", (long long)c.steps, MOST_STEPS);
  return c;
}

/* What is known of the lengths when compiling. */
static void bound_lengths(import_node *n, cell *c) {
  wafer_view view;
  if (!wafer_ir_constant(n->im->ctx, n->im->ir, node_input(n, 4), &view)) return;
  int_list lengths = node_ints(n, 4, "sequence_lens");
  c->shortest = c->steps;
  for (uint32_t i = 0; i < lengths.count; i++) {
    if (lengths.at[i] < 0 || lengths.at[i] > c->steps)
      node_bad(n, "sequence_lens has %lld, must be 0 to %lld", (long long)lengths.at[i],
               (long long)c->steps);
    c->shortest = lengths.at[i] < c->shortest ? lengths.at[i] : c->shortest;
  }
}

static void open_lengths(import_node *n, cell *c) {
  if (!node_has_input(n, 4)) return;
  MlirValue given = training_rebatch_along(n, node_input(n, 4), 0);
  wafer_type type = node_type(n, given);
  if (n->status == WAFER_OK &&
      (type.shape.rank != 1 || type.shape.dims[0] != c->batch || wafer_dtype_is_float(type.dtype)))
    node_bad(n, "sequence_lens is not a vector of %lld integers", (long long)c->batch);
  if (n->status == WAFER_OK) bound_lengths(n, c);
  if (n->status != WAFER_OK || c->shortest == c->steps) return;
  c->lengths = emit_reshape(n, given, 2, (int64_t[]){c->batch, 1});
}

/* The next parameter that the attribute gives. */
static void take_parameter(float_list given, uint32_t *taken, double *parameter) {
  if (*taken < given.count) *parameter = given.at[(*taken)++];
}

/* Those of all directions in turn; each takes as many parameters as it has. */
static void choose_activations(import_node *n, cell *c, uint32_t per_direction,
                               const char *const *usual) {
  const onnx_attribute *a = attr_find(n, "activations");
  float_list alphas = attr_floats(n, "activation_alpha"), betas = attr_floats(n, "activation_beta");
  size_t given = a ? a->strings.count : 0, all = per_direction * (size_t)c->dirs;
  uint32_t alphas_taken = 0, betas_taken = 0;
  if (given && given != all) node_bad(n, "%zu activations, needs %zu", given, all);
  for (size_t i = 0; i < all && n->status == WAFER_OK; i++) {
    const char *name = usual[i % per_direction];
    size_t length = strlen(name);
    if (given) name = (const char *)a->strings.at[i].at, length = a->strings.at[i].count;
    nonlinearity chosen = nonlinearity_by_name(n, name, length);
    uint32_t parameters = nonlinearity_parameters(&chosen);
    if (parameters > 0) take_parameter(alphas, &alphas_taken, &chosen.alpha);
    if (parameters > 1) take_parameter(betas, &betas_taken, &chosen.beta);
    c->activations[i / per_direction][i % per_direction] = chosen;
  }
}

static void recur(import_node *n, int64_t gates, uint32_t per_direction, const char *const *usual,
                  void step(import_node *n, cell *c, MlirValue x), bool quantized) {
  const char *direction = attr_text(n, "direction", "forward");
  bool lstm = gates == MOST_GATES;
  bool both = !strcmp(direction, "bidirectional"), reverse = !strcmp(direction, "reverse");
  cell c = open_cell(n, gates, quantized);
  if (!both && !reverse && strcmp(direction, "forward") != 0)
    node_bad(n, "direction is '%s', must be forward, reverse or bidirectional", direction);
  if (n->status == WAFER_OK && c.dirs != 1 + both)
    node_bad(n, "direction is '%s', the weights are of %lld", direction, (long long)c.dirs);
  if (n->status == WAFER_OK) open_lengths(n, &c);
  if (n->status == WAFER_OK) choose_activations(n, &c, per_direction, usual);
  MlirValue outputs[3] = {none, none, none};
  for (c.dir = 0; n->status == WAFER_OK && (int64_t)c.dir < c.dirs; c.dir++) {
    open_direction(n, &c, lstm);
    bool back = reverse || c.dir == 1;
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
  recur(n, 1, 1, (const char *const[]){"Tanh"}, step_rnn, false);
}
void import_gru(import_node *n) {
  recur(n, 3, 2, (const char *const[]){"Sigmoid", "Tanh"}, step_gru, false);
}
static const char *const lstm_activations[] = {"Sigmoid", "Tanh", "Tanh"};
void import_lstm(import_node *n) {
  recur(n, MOST_GATES, 3, lstm_activations, step_lstm, false);
}
/* x, W, R, B, sequence_lens, initial_h, initial_c, P, then scale and zero point of W and of R */
void import_dynamic_quantize_lstm(import_node *n) {
  recur(n, MOST_GATES, 3, lstm_activations, step_lstm, true);
}

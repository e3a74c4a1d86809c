/* `wafer run` in steps: what one step gives, the next one takes. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* What is handed on to an input, and how a step's outputs collect. */
typedef struct stepper {
  const run_arguments *a;
  const wafer_plan *plan;
  const wafer_function *f;
  wafer_arena *arena;
  wafer_item **held; /* per input: what the steps hand on; NULL: as it was given */
  wafer_view *then;  /* per input: from the second step on, dtype none: as before */
  bool *train;       /* per input: a sample for each step */
  uint64_t steps;
  char **stack;      /* per output: the steps' bytes so far */
  bool *alike;       /* per output: every step gave one shape */
  wafer_item **last; /* per output */
  wafer_view *shape; /* per output: of the first step */
} stepper;

bool run_has_steps(const run_arguments *a) {
  return a->steps || a->state_count || a->then_count || a->feed_input || a->state_out;
}

const wafer_weight *run_state_value(const run_arguments *a, const char *name) {
  return a->state ? wafer_weights_find(a->state, name) : NULL;
}

static wafer_status find(const stepper *s, bool input, const char *name, uint32_t *out) {
  uint32_t count = input ? s->f->input_count : s->f->output_count;
  const uint32_t *values = input ? s->f->inputs : s->f->outputs;
  for (*out = 0; *out < count; ++*out)
    if (!strcmp(s->plan->values[values[*out]].name, name)) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_USAGE, "there is no %s '%s'",
                    input ? "input" : "output", name);
}

static const wafer_value *value_of(const stepper *s, bool input, uint32_t port) {
  return &s->plan->values[input ? s->f->inputs[port] : s->f->outputs[port]];
}

/* What goes from step to step has elements of one type; its shape may fit the next plan alone. */
static wafer_status check_state(const stepper *s, size_t state) {
  uint32_t from, to;
  WAFER_TRY(find(s, false, s->a->state_outputs[state], &from));
  WAFER_TRY(find(s, true, s->a->state_inputs[state], &to));
  const wafer_value *out = value_of(s, false, from), *in = value_of(s, true, to);
  bool known = out->type.dtype && in->type.dtype;
  if (!known || out->type.dtype == in->type.dtype) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_USAGE,
                    "--state %s=%s: the output has elements of type %s, the input takes %s",
                    out->name, in->name, wafer_dtype_name(out->type.dtype),
                    wafer_dtype_name(in->type.dtype));
}

/* An index is a number, and of a number. `in`, `out`: of which elements; none: not known yet. */
static wafer_status check_feed(const stepper *s, wafer_dtype in, wafer_dtype out) {
  bool takes =
      !in || (in < WAFER_DTYPE_string && in != WAFER_DTYPE_bool && !wafer_dtype_is_float(in));
  bool gives = !out || out < WAFER_DTYPE_string;
  if (takes && gives) return WAFER_OK;
  return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_USAGE,
                    "--feed %s=argmax(%s): the %s has elements of type %s, which %s",
                    s->a->feed_input, s->a->feed_output, takes ? "output" : "input",
                    wafer_dtype_name(takes ? out : in),
                    takes ? "have no largest" : "no index is: integers are wanted");
}

static wafer_status check_names(const stepper *s) {
  uint32_t in, out;
  for (size_t i = 0; i < s->a->state_count; i++) WAFER_TRY(check_state(s, i));
  if (s->a->state_out && !s->a->state_count && !s->a->feed_input)
    return (wafer_status)cli_usage("run", "--state-out has nothing to write: say what goes on with "
                                          "--state OUT=IN or --feed");
  if (!s->a->feed_input) return WAFER_OK;
  WAFER_TRY(find(s, true, s->a->feed_input, &in));
  WAFER_TRY(find(s, false, s->a->feed_output, &out));
  return check_feed(s, value_of(s, true, in)->type.dtype, value_of(s, false, out)->type.dtype);
}

static wafer_status read_then(const stepper *s) {
  for (size_t i = 0; i < s->a->then_count; i++) {
    uint32_t input;
    WAFER_TRY(find(s, true, s->a->then_names[i], &input));
    WAFER_TRY(wafer_npy_read(cli_diag(), s->arena, s->a->then_paths[i], &s->then[input]));
    wafer_npy_adopt(&s->then[input], s->plan->values[s->f->inputs[input]].type.dtype);
  }
  return WAFER_OK;
}

/* Inputs with one dim more than the plan has give a sample to each step. */
static wafer_status count_steps(stepper *s, const wafer_view *inputs) {
  s->steps = s->a->steps;
  for (uint32_t i = 0; i < s->f->input_count; i++) {
    const wafer_value *v = &s->plan->values[s->f->inputs[i]];
    s->train[i] = v->kind == WAFER_VALUE_tensor && inputs[i].shape.rank == v->type.shape.rank + 1;
    if (!s->train[i]) continue;
    uint64_t samples = (uint64_t)inputs[i].shape.dims[0];
    if (!samples)
      return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_USAGE,
                        "input '%s' is a train of no samples, one at least is wanted", v->name);
    if (s->steps && s->steps != samples)
      return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_USAGE,
                        "input '%s' is a train of %llu samples, there are %llu steps", v->name,
                        (unsigned long long)samples, (unsigned long long)s->steps);
    s->steps = samples;
  }
  if (!s->steps) s->steps = 1;
  return WAFER_OK;
}

/* One step alone hands nothing on. */
static void warn_unread(const stepper *s) {
  if (s->steps > 1) return;
  if (s->a->then_count)
    wafer_warn(cli_diag(), wafer_at_file(s->a->plan), "--then changed nothing: there is one step");
  if (s->a->state_count && !s->a->state_out)
    wafer_warn(cli_diag(), wafer_at_file(s->a->plan),
               "--state changed nothing: there is one step, and no --state-out");
}

static wafer_view sample_of(const wafer_view *view, uint64_t sample) {
  wafer_view one = *view;
  one.data = (char *)view->data +
             view->strides[0] * (int64_t)sample * (int64_t)wafer_dtype_bytes(view->dtype);
  one.shape.rank--;
  memmove(one.shape.dims, one.shape.dims + 1, one.shape.rank * sizeof *one.shape.dims);
  memmove(one.strides, one.strides + 1, one.shape.rank * sizeof *one.strides);
  return one;
}

static void enter(const stepper *s, const wafer_view *given, uint64_t step, wafer_view *inputs) {
  for (uint32_t i = 0; i < s->f->input_count; i++) {
    inputs[i] = s->train[i] ? sample_of(&given[i], step) : given[i];
    if (step && s->then[i].dtype) inputs[i] = s->then[i];
    if (s->held[i]) inputs[i] = s->held[i]->tensor;
  }
}

/* ---- Handing on ---- */

static wafer_status hold(stepper *s, uint32_t input, wafer_item *item) {
  if (!item) return cli_no_memory();
  wafer_item_release(s->held[input]);
  s->held[input] = item;
  return WAFER_OK;
}

static wafer_status hand_on(stepper *s, const wafer_view *outputs) {
  for (size_t i = 0; i < s->a->state_count; i++) {
    uint32_t from, to;
    int64_t count = 0;
    WAFER_TRY(find(s, false, s->a->state_outputs[i], &from));
    WAFER_TRY(find(s, true, s->a->state_inputs[i], &to));
    if (wafer_shape_elements(&outputs[from].shape, &count) && count)
      WAFER_TRY(hold(s, to, wafer_item_copy(&outputs[from])));
  }
  return WAFER_OK;
}

/* The index of the largest element of the last row; of equal ones the first. */
static int64_t largest(const wafer_view *view) {
  int64_t count = 0, best = 0;
  (void)wafer_shape_elements(&view->shape, &count);
  int64_t length = view->shape.rank ? view->shape.dims[view->shape.rank - 1] : 1;
  for (int64_t i = 1; i < length; i++)
    if (wafer_element_f64(view->dtype, view->data, count - length + i) >
        wafer_element_f64(view->dtype, view->data, count - length + best))
      best = i;
  return best;
}

/* Tells whether the run ends here. */
static wafer_status feed(stepper *s, const wafer_view *inputs, const wafer_view *outputs,
                         bool *done) {
  uint32_t from, to;
  int64_t count = 0;
  if (!s->a->feed_input) return WAFER_OK;
  WAFER_TRY(find(s, false, s->a->feed_output, &from));
  WAFER_TRY(find(s, true, s->a->feed_input, &to));
  if (!wafer_shape_elements(&outputs[from].shape, &count) || !count)
    return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_BAD_INPUT,
                      "output '%s' has no elements to feed", s->a->feed_output);
  WAFER_TRY(check_feed(s, inputs[to].dtype, outputs[from].dtype));
  int64_t token = largest(&outputs[from]);
  double least, most;
  wafer_dtype_range(inputs[to].dtype, &least, &most);
  if ((double)token > most)
    return wafer_fail(cli_diag(), wafer_at_file(s->a->plan), WAFER_BAD_INPUT,
                      "--feed: input '%s' of type %s takes numbers up to %.0f, the largest element "
                      "of '%s' is at %lld",
                      s->a->feed_input, wafer_dtype_name(inputs[to].dtype), most, s->a->feed_output,
                      (long long)token);
  wafer_item *item = wafer_item_new(inputs[to].dtype, &inputs[to].shape);
  if (!item) return cli_no_memory();
  (void)wafer_shape_elements(&inputs[to].shape, &count);
  for (int64_t i = 0; i < count; i++)
    wafer_element_set_i64(inputs[to].dtype, item->tensor.data, i, token);
  if (!s->a->quiet) printf(" %lld", (long long)token);
  *done = s->a->until_input && token == s->a->until;
  return hold(s, to, item);
}

/* ---- Outputs ---- */

static wafer_status collect(stepper *s, uint64_t step, const wafer_view *outputs) {
  for (uint32_t i = 0; i < s->f->output_count; i++) {
    size_t bytes = wafer_tensor_bytes(outputs[i].dtype, &outputs[i].shape);
    wafer_item_release(s->last[i]);
    s->last[i] = wafer_item_copy(&outputs[i]);
    if (!s->last[i]) return cli_no_memory();
    if (step == 0) {
      s->shape[i] = outputs[i];
      s->alike[i] = outputs[i].shape.rank < WAFER_MAX_RANK && outputs[i].dtype < WAFER_DTYPE_string;
    }
    s->alike[i] = s->alike[i] && outputs[i].dtype == s->shape[i].dtype &&
                  wafer_shape_equal(&outputs[i].shape, &s->shape[i].shape);
    if (!s->alike[i] || !bytes) continue;
    size_t all;
    char *stack = __builtin_mul_overflow(bytes, step + 1, &all) ? NULL : realloc(s->stack[i], all);
    if (!stack) return cli_no_memory();
    s->stack[i] = stack;
    memcpy(stack + step * bytes, s->last[i]->tensor.data, bytes);
  }
  return WAFER_OK;
}

/* Copies to the arena: the stepper's own memory ends with it. */
static wafer_status deliver(const stepper *s, uint64_t steps, wafer_view *outputs) {
  for (uint32_t i = 0; i < s->f->output_count; i++) {
    wafer_view view = s->last[i]->tensor;
    size_t bytes = wafer_tensor_bytes(view.dtype, &view.shape);
    const void *from = view.data;
    wafer_shape shape = view.shape;
    if (s->alike[i] && steps > 1) {
      memmove(shape.dims + 1, shape.dims, shape.rank * sizeof *shape.dims);
      shape.dims[0] = (int64_t)steps;
      shape.rank++;
      from = bytes ? s->stack[i] : from;
      bytes *= steps;
    }
    void *data = wafer_arena_copy(s->arena, from, bytes ? bytes : 1);
    if (!data) return cli_no_memory();
    outputs[i] = wafer_view_of(view.dtype, &shape, data);
  }
  return WAFER_OK;
}

static wafer_status save_state(const stepper *s) {
  wafer_weights *state = wafer_weights_create(s->arena);
  if (!s->a->state_out) return WAFER_OK;
  if (!state) return cli_no_memory();
  for (uint32_t i = 0; i < s->f->input_count; i++) {
    if (!s->held[i]) continue;
    const wafer_view *v = &s->held[i]->tensor;
    const char *name = s->plan->values[s->f->inputs[i]].name;
    if (!wafer_weights_add(state, name, v->dtype, &v->shape, v->data)) return cli_no_memory();
  }
  return wafer_weights_write(cli_diag(), s->a->state_out, state);
}

/* ---- Steps ---- */

static wafer_status run_all(stepper *s, wafer_session *session, const wafer_view *given,
                            wafer_view *outputs, run_totals *totals) {
  wafer_view *inputs = WAFER_NEW(s->arena, wafer_view, s->f->input_count);
  uint64_t step = 0;
  bool done = false;
  if (!inputs) return cli_no_memory();
  WAFER_TRY(run_totals_begin(s->plan, s->arena, s->steps, totals));
  if (s->a->feed_input && !s->a->quiet) printf("%s:", s->a->feed_input);
  for (; step < s->steps && !done; step++) {
    enter(s, given, step, inputs);
    WAFER_TRY(wafer_session_run(session, inputs, s->f->input_count, outputs, s->f->output_count));
    wafer_run_stats stats = wafer_session_stats(session);
    run_totals_add(totals, &stats);
    WAFER_TRY(collect(s, step, outputs));
    WAFER_TRY(feed(s, inputs, outputs, &done));
    WAFER_TRY(hand_on(s, outputs));
  }
  if (s->a->feed_input && !s->a->quiet) printf("\n");
  if (!s->a->quiet)
    printf("%llu steps, %llu cycles\n", (unsigned long long)step,
           (unsigned long long)totals->stats.total_cycles);
  WAFER_TRY(save_state(s));
  return deliver(s, step, outputs);
}

static bool allocate(stepper *s) {
  uint32_t in = s->f->input_count, out = s->f->output_count;
  s->held = WAFER_NEW(s->arena, wafer_item *, in);
  s->then = WAFER_NEW(s->arena, wafer_view, in);
  s->train = WAFER_NEW(s->arena, bool, in);
  s->stack = WAFER_NEW(s->arena, char *, out);
  s->alike = WAFER_NEW(s->arena, bool, out);
  s->last = WAFER_NEW(s->arena, wafer_item *, out);
  s->shape = WAFER_NEW(s->arena, wafer_view, out);
  return s->held && s->then && s->train && s->stack && s->alike && s->last && s->shape;
}

wafer_status run_steps(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                       wafer_session *session, const wafer_view *inputs, wafer_view *outputs,
                       run_totals *totals) {
  stepper s = {.a = a, .plan = plan, .f = &plan->functions[0], .arena = arena};
  if (!allocate(&s)) return cli_no_memory();
  wafer_status status = check_names(&s);
  if (status == WAFER_OK) status = read_then(&s);
  if (status == WAFER_OK) status = count_steps(&s, inputs);
  if (status == WAFER_OK) warn_unread(&s);
  if (status == WAFER_OK) status = run_all(&s, session, inputs, outputs, totals);
  for (uint32_t i = 0; i < s.f->input_count; i++) wafer_item_release(s.held[i]);
  for (uint32_t i = 0; i < s.f->output_count; i++) {
    wafer_item_release(s.last[i]);
    free(s.stack[i]);
  }
  return status;
}

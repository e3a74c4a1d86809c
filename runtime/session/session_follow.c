/* Following a plan's steps once, with every law of plan.h checked as it goes: what is left is a
 * program of stages, and ports. */
#include "session_state.h"

static wafer_loc at_kernel(const wafer_session *s, const wafer_kernel *k) {
  const wafer_node *anchor = k->body.node_count ? &k->body.nodes[k->body.anchor] : NULL;
  return wafer_at_kernel(s->plan->model, k->name, anchor ? anchor->name : NULL);
}

static wafer_loc at_stream(const wafer_session *s, const wafer_stream *t) {
  uint32_t kernel = t->to_kernel != WAFER_NONE ? t->to_kernel : t->from_kernel;
  return kernel != WAFER_NONE ? at_kernel(s, &s->plan->kernels[kernel])
                              : wafer_at_file(s->plan->model);
}

static wafer_status follow_stream(wafer_session *s, const wafer_stream *t) {
  const wafer_value *v = &s->plan->values[t->value];
  if (!held_find(&s->held, t->value, &t->from))
    return wafer_fail(s->diag, at_stream(s, t), WAFER_TRAP,
                      "a stream takes '%s' (node '%s') from %s, where nobody has put it", v->name,
                      v->node, wafer_where_name(t->from.where));
  if (held_find(&s->held, t->value, &t->to)) return WAFER_OK;
  return held_add(&s->held, t->value, &t->to, WAFER_NONE) ? WAFER_OK : session_no_memory(s);
}

static wafer_status weight_tensor(wafer_session *s, const wafer_kernel *k, uint32_t value) {
  const wafer_value *v = &s->plan->values[value];
  const wafer_weight *w = wafer_weights_at(s->plan->weights, v->weight);
  if (w->trained) {
    s->tensor[value] = session_trained_tensor(s, value);
    return s->tensor[value] ? WAFER_OK : session_no_memory(s);
  }
  if (!w->data)
    return wafer_fail(s->diag, at_kernel(s, k), WAFER_BAD_INPUT, "weight '%s' has no data%s%s",
                      w->name, *w->expected ? "; it was expected in " : "", w->expected);
  WAFER_TRY(wafer_plan_touch_weight(s->diag, s->plan, v->weight));
  s->tensor[value] = exec_tensor_constant(s->program, &v->type, w->data, false, s->plan->storage);
  return s->tensor[value] ? WAFER_OK : session_no_memory(s);
}

/* The tensor of a kernel's input: made by an earlier kernel, or a weight touched for the first
 * time. */
static wafer_status input_tensor(wafer_session *s, const wafer_kernel *k, uint32_t input,
                                 exec_tensor **out) {
  uint32_t value = k->inputs[input];
  const wafer_value *v = &s->plan->values[value];
  const wafer_holding need = held_input(k, input);
  if (!held_find(&s->held, value, &need))
    return wafer_fail(s->diag, at_kernel(s, k), WAFER_TRAP,
                      "input %u, '%s' of node '%s', does not lie in the kernel's rectangle in the "
                      "layout that it reads",
                      input, v->name, v->node);
  if (!s->tensor[value] && v->weight != WAFER_NONE) WAFER_TRY(weight_tensor(s, k, value));
  *out = s->tensor[value];
  if (*out) return WAFER_OK;
  return wafer_fail(s->diag, at_kernel(s, k), WAFER_TRAP,
                    "input %u, '%s', is read before anything made it", input, v->name);
}

/* As the cores add up; but how a training plan is executed changes no weight, so its sums have one
 * order, whatever is cut. */
static wafer_sum_order sum_order(const wafer_session *s, const wafer_kernel *k) {
  if (s->plan->training) return (wafer_sum_order){1, 1, 1, 1};
  return wafer_kernel_sum_order(s->plan->machine, &k->body, &k->split);
}

static wafer_status follow_kernel(wafer_session *s, const wafer_kernel *k) {
  exec_tensor **inputs = WAFER_NEW(s->program->arena, exec_tensor *, k->body.input_count);
  exec_tensor **outputs = WAFER_NEW(s->program->arena, exec_tensor *, k->body.output_count);
  if (!inputs || !outputs) return session_no_memory(s);
  for (uint32_t i = 0; i < k->body.input_count; i++) WAFER_TRY(input_tensor(s, k, i, &inputs[i]));
  wafer_sum_order sums = sum_order(s, k);
  WAFER_TRY(
      exec_kernel_build(s->program, &k->body, k->slabs, &sums, at_kernel(s, k), inputs, outputs));
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    wafer_holding made = held_output(k, i);
    s->tensor[k->outputs[i]] = outputs[i];
    if (!held_add(&s->held, k->outputs[i], &made, WAFER_NONE)) return session_no_memory(s);
  }
  s->kernel_end[k - s->plan->kernels] = s->program->stage_count;
  return WAFER_OK;
}

static wafer_status follow_load(wafer_session *s, uint32_t phase) {
  const wafer_phase *p = &s->plan->phases[phase];
  s->loaded[phase] = true;
  for (uint32_t i = 0; i < p->action_count; i++) {
    const wafer_action *a = &p->actions[i];
    if (a->kind == WAFER_ACTION_stream && s->plan->streams[a->index].from.where == WAFER_AT_memoryx)
      WAFER_TRY(follow_stream(s, &s->plan->streams[a->index]));
  }
  return WAFER_OK;
}

static wafer_status follow_phase(wafer_session *s, uint32_t phase) {
  const wafer_phase *p = &s->plan->phases[phase];
  session_segment *seg = &s->segments[s->segment_count++];
  *seg = (session_segment){.phase = phase, .first = s->program->stage_count};
  for (uint32_t i = 0; i < p->action_count; i++) {
    const wafer_action *a = &p->actions[i];
    if (a->kind == WAFER_ACTION_kernel) {
      WAFER_TRY(follow_kernel(s, &s->plan->kernels[a->index]));
      continue;
    }
    const wafer_stream *t = &s->plan->streams[a->index];
    if (s->loaded[phase] && t->from.where == WAFER_AT_memoryx) continue;
    WAFER_TRY(follow_stream(s, t));
  }
  seg->last = s->program->stage_count;
  for (uint32_t i = 0; i < p->free_count; i++) held_drop(&s->held, p->frees[i]);
  return WAFER_OK;
}

/* Inputs lie in the order that their first reader wants. */
static exec_order input_order(const wafer_session *s, uint32_t value) {
  for (uint32_t i = 0; i < s->plan->kernel_count; i++) {
    const wafer_kernel *k = &s->plan->kernels[i];
    for (uint32_t j = 0; j < k->body.input_count; j++)
      if (k->inputs[j] == value) return exec_wanted_order(&k->body, j);
  }
  return exec_row_major();
}

static wafer_status make_inputs(wafer_session *s) {
  for (uint32_t i = 0; i < s->function->input_count; i++) {
    uint32_t value = s->function->inputs[i];
    exec_order order = input_order(s, value);
    exec_tensor *t = exec_tensor_create(s->program, &s->plan->values[value].type, &order);
    if (!t) return session_no_memory(s);
    s->tensor[value] = t;
    s->inputs[i] = (session_port){.value = value, .tensor = t, .of = &s->plan->values[value]};
  }
  return WAFER_OK;
}

/* Whose elements are a caller's: an input's or a trained weight's. */
static bool is_outside(const wafer_session *s, uint32_t buffer) {
  if (s->program->buffers[buffer].outside) return true;
  for (uint32_t i = 0; i < s->function->input_count; i++)
    if (s->inputs[i].tensor->buffer == buffer) return true;
  return false;
}

static wafer_status find_outputs(wafer_session *s) {
  const wafer_holding edge = {.where = WAFER_AT_edge};
  const exec_order row_major = exec_row_major();
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    uint32_t value = s->function->outputs[i];
    const exec_tensor *t = s->tensor[value];
    bool stays = wafer_plan_updates(s->plan) && /* read where it is */
                 s->plan->values[value].owner == WAFER_OWNER_gradient;
    if (!t || (!stays && !held_find(&s->held, value, &edge)))
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_TRAP,
                        "output '%s' (node '%s') never reaches the wafer's edge",
                        s->plan->values[value].name, s->plan->values[value].node);
    bool direct = !exec_tensor_known(s->program, t) && !is_outside(s, t->buffer) &&
                  t->host == t->type && exec_same_order(&t->shape, &t->order, &row_major);
    for (uint32_t j = 0; j < i; j++) direct = direct && s->outputs[j].tensor->buffer != t->buffer;
    s->outputs[i] = (session_port){.value = value,
                                   .tensor = s->tensor[value],
                                   .direct = direct,
                                   .of = &s->plan->values[value]};
  }
  return WAFER_OK;
}

/* Inputs live from the first stage, outputs to the last. */
static void hold_ports(wafer_session *s) {
  exec_buffer *buffers = s->program->buffers;
  uint32_t last = s->program->stage_count;
  for (uint32_t i = 0; i < s->function->input_count; i++) {
    exec_buffer *b = &buffers[s->inputs[i].tensor->buffer];
    b->first = 0;
    b->per_sample = true;
  }
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    exec_buffer *b = &buffers[s->outputs[i].tensor->buffer];
    if (b->first > last) b->first = last;
    b->last = last;
    b->per_sample = true;
  }
}

wafer_status session_follow(wafer_session *s) {
  const wafer_function *f = s->function;
  WAFER_TRY(make_inputs(s));
  for (uint32_t i = 0; i < f->step_count; i++) {
    const wafer_step *step = &f->steps[i];
    if (step->kind == WAFER_STEP_load)
      WAFER_TRY(follow_load(s, step->phase));
    else
      WAFER_TRY(follow_phase(s, step->phase));
  }
  s->program->storage = s->plan->storage; /* as before the first kernel was built */
  for (uint32_t i = 0; i < s->segment_count; i++) s->boundaries[i] = s->segments[i].first;
  WAFER_TRY(find_outputs(s));
  hold_ports(s);
  return WAFER_OK;
}

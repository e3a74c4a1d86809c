/* Executing a plan at kernel fidelity. Creating a session follows the plan's steps once, with every
 * law of plan.h checked as it goes, and leaves a program of stages; running it goes through the
 * stages, sample by sample, phase by phase. */
#include "wafer/session.h"

#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "held.h"
#include "host_plan.h"
#include "session_fabric.h"
#include "session_ports.h"
#include "vmath.h"

typedef struct segment {
  uint32_t phase, first, last; /* stages */
} segment;

struct wafer_session {
  const wafer_plan *plan;
  const wafer_diag *diag;
  const wafer_function *function;
  host_plan *host;    /* functions[0] is the host's: everything below but the pool is its units' */
  wafer_item **items; /* its inputs, then its outputs, of a sample */
  exec_program *program;
  thread_pool *pool;
  bool shares_pool;
  session_fabric *fabric; /* in place of program and pool */
  exec_tensor **tensor; /* per plan value; NULL: not made */
  held held;
  bool *loaded; /* per phase */
  session_port *inputs, *outputs;
  segment *segments; /* phases in the order of steps */
  uint32_t segment_count, *boundaries;
  uint32_t group;    /* samples the buffers are planned for */
  void **out;        /* per output: dense elements of all samples */
  uint64_t out_room; /* samples */
  void *staging;     /* one 16-bit tensor, as given and widened */
  wafer_run_stats stats;
  wafer_timeline timeline;
};

/* --- following the plan */

static wafer_loc at_kernel(const wafer_session *s, const wafer_kernel *k) {
  const wafer_node *anchor = k->body.node_count ? &k->body.nodes[k->body.anchor] : NULL;
  return wafer_at_kernel(s->plan->model, k->name, anchor ? anchor->name : NULL);
}

static wafer_loc at_stream(const wafer_session *s, const wafer_stream *t) {
  uint32_t kernel = t->to_kernel != WAFER_NONE ? t->to_kernel : t->from_kernel;
  return kernel != WAFER_NONE ? at_kernel(s, &s->plan->kernels[kernel])
                              : wafer_at_file(s->plan->model);
}

static wafer_status no_memory(const wafer_session *s) {
  return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_NO_MEMORY,
                    "no memory left while preparing the run");
}

static wafer_status follow_stream(wafer_session *s, const wafer_stream *t) {
  const wafer_value *v = &s->plan->values[t->value];
  if (!held_find(&s->held, t->value, &t->from))
    return wafer_fail(s->diag, at_stream(s, t), WAFER_TRAP,
                      "a stream takes '%s' (node '%s') from %s, where nobody has put it", v->name,
                      v->node, wafer_where_name(t->from.where));
  if (held_find(&s->held, t->value, &t->to)) return WAFER_OK;
  return held_add(&s->held, t->value, &t->to, WAFER_NONE) ? WAFER_OK : no_memory(s);
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
  if (!s->tensor[value] && v->weight != WAFER_NONE) {
    const wafer_weight *w = wafer_weights_at(s->plan->weights, v->weight);
    if (!w->data)
      return wafer_fail(s->diag, at_kernel(s, k), WAFER_BAD_INPUT, "weight '%s' has no data",
                        w->name);
    WAFER_TRY(wafer_plan_touch_weight(s->diag, s->plan, v->weight));
    s->tensor[value] = exec_tensor_constant(s->program, &v->type, w->data, false, s->plan->storage);
    if (!s->tensor[value]) return no_memory(s);
  }
  *out = s->tensor[value];
  if (*out) return WAFER_OK;
  return wafer_fail(s->diag, at_kernel(s, k), WAFER_TRAP,
                    "input %u, '%s', is read before anything made it", input, v->name);
}

static wafer_status follow_kernel(wafer_session *s, const wafer_kernel *k) {
  exec_tensor **inputs = WAFER_NEW(s->program->arena, exec_tensor *, k->body.input_count);
  exec_tensor **outputs = WAFER_NEW(s->program->arena, exec_tensor *, k->body.output_count);
  if (!inputs || !outputs) return no_memory(s);
  for (uint32_t i = 0; i < k->body.input_count; i++) WAFER_TRY(input_tensor(s, k, i, &inputs[i]));
  WAFER_TRY(exec_kernel_build(s->program, &k->body, k->slabs, at_kernel(s, k), inputs, outputs));
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    wafer_holding made = held_output(k, i);
    s->tensor[k->outputs[i]] = outputs[i];
    if (!held_add(&s->held, k->outputs[i], &made, WAFER_NONE)) return no_memory(s);
  }
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
  segment *seg = &s->segments[s->segment_count++];
  *seg = (segment){.phase = phase, .first = s->program->stage_count};
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
    if (!t) return no_memory(s);
    s->tensor[value] = t;
    s->inputs[i] = (session_port){.value = value, .tensor = t, .of = &s->plan->values[value]};
  }
  return WAFER_OK;
}

static bool is_input_buffer(const wafer_session *s, uint32_t buffer) {
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
    if (!t || !held_find(&s->held, value, &edge))
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_TRAP,
                        "output '%s' (node '%s') never reaches the wafer's edge",
                        s->plan->values[value].name, s->plan->values[value].node);
    bool direct = !exec_tensor_known(s->program, t) && !is_input_buffer(s, t->buffer) &&
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

static wafer_status follow(wafer_session *s) {
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

/* --- creating */

static bool allocate(wafer_session *s) {
  wafer_arena *arena = s->program->arena;
  const wafer_plan *plan = s->plan;
  const wafer_function *f = s->function;
  uint64_t *busy = WAFER_NEW(arena, uint64_t, plan->kernel_count);
  uint64_t *phases = WAFER_NEW(arena, uint64_t, plan->phase_count);
  s->tensor = WAFER_NEW(arena, exec_tensor *, plan->value_count);
  s->loaded = WAFER_NEW(arena, bool, plan->phase_count);
  s->inputs = WAFER_NEW(arena, session_port, f->input_count);
  s->outputs = WAFER_NEW(arena, session_port, f->output_count);
  s->segments = WAFER_NEW(arena, segment, f->step_count);
  s->boundaries = WAFER_NEW(arena, uint32_t, f->step_count);
  s->out = WAFER_NEW(arena, void *, f->output_count);
  s->timeline = (wafer_timeline){.kernel_busy = busy, .phase_cycles = phases};
  s->stats = (wafer_run_stats){
      .kernel_busy = busy, .phase_cycles = phases, .instruction_set = vmath_instruction_set()};
  return busy && phases && s->tensor && s->loaded && s->inputs && s->outputs && s->segments &&
         s->boundaries && s->out && held_init(&s->held, arena, plan, f);
}

/* A function of the wafer. */
static wafer_status prepare_unit(wafer_session *s) {
  WAFER_TRY(exec_program_create(s->diag, &s->program));
  s->program->loc = wafer_at_file(s->plan->model);
  s->program->storage = s->plan->storage;
  if (!allocate(s)) return no_memory(s);
  int before = thread_enter();
  wafer_status status = follow(s);
  thread_leave(before);
  return status;
}

/* Ports without tensors: what the checks of views need. */
static wafer_status prepare_fabric(wafer_session *s, const wafer_session_options *options) {
  const wafer_function *f = s->function;
  if (wafer_function_on_host(f))
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "steps of this plan run on the host: fabric fidelity runs plans whose first "
                      "function is the wafer's");
  WAFER_TRY(session_fabric_create(s->plan, options, &s->fabric));
  s->inputs = calloc((size_t)f->input_count + 1, sizeof *s->inputs);
  s->outputs = calloc((size_t)f->output_count + 1, sizeof *s->outputs);
  s->out = calloc((size_t)f->output_count + 1, sizeof *s->out);
  if (!s->inputs || !s->outputs || !s->out) return no_memory(s);
  for (uint32_t i = 0; i < f->input_count; i++)
    s->inputs[i] = (session_port){.value = f->inputs[i], .of = &s->plan->values[f->inputs[i]]};
  for (uint32_t i = 0; i < f->output_count; i++)
    s->outputs[i] = (session_port){.value = f->outputs[i], .of = &s->plan->values[f->outputs[i]]};
  return WAFER_OK;
}

/* The plan's first function, which may be one of the host. */
static wafer_status prepare(wafer_session *s, const wafer_session_options *options) {
  if (options && options->fidelity == WAFER_FIDELITY_fabric) return prepare_fabric(s, options);
  if (!s->shares_pool) {
    WAFER_TRY(wafer_plan_check(s->diag, s->plan->model, s->plan));
    s->pool = thread_pool_create(options ? options->threads : 0);
    if (!s->pool) return no_memory(s);
  }
  if (!wafer_function_on_host(s->function)) return prepare_unit(s);
  s->stats.instruction_set = vmath_instruction_set();
  s->items =
      calloc((size_t)s->function->input_count + s->function->output_count + 1, sizeof *s->items);
  s->out = calloc((size_t)s->function->output_count + 1, sizeof *s->out);
  if (!s->items || !s->out) return no_memory(s);
  return host_plan_create(s->plan, options, s->pool, &s->host);
}

wafer_status session_create_unit(const wafer_plan *plan, uint32_t function,
                                 const wafer_session_options *options, thread_pool *pool,
                                 wafer_session **out) {
  const wafer_diag *diag = options ? options->diag : NULL;
  *out = NULL;
  wafer_session *s = calloc(1, sizeof *s);
  if (!s)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for a session");
  s->plan = plan;
  s->diag = diag;
  s->function = &plan->functions[function];
  s->pool = pool;
  s->shares_pool = pool != NULL;
  wafer_status status = prepare(s, options);
  if (status == WAFER_OK)
    *out = s;
  else
    wafer_session_destroy(s);
  return status;
}

wafer_status wafer_session_create(const wafer_plan *plan, const wafer_session_options *options,
                                  wafer_session **out) {
  *out = NULL;
  if (plan->function_count == 0)
    return wafer_fail(options ? options->diag : NULL, wafer_at_file(plan->model), WAFER_BAD_INPUT,
                      "the plan has no function to run");
  return session_create_unit(plan, 0, options, NULL, out);
}

void wafer_session_destroy(wafer_session *s) {
  if (!s) return;
  for (uint32_t i = 0; s->out && i < s->function->output_count; i++) free(s->out[i]);
  if (s->items) {
    host_plan_destroy(s->host);
    for (uint32_t i = 0; i < s->function->input_count; i++) wafer_item_release(s->items[i]);
    free(s->items);
    free(s->out);
  }
  if (s->fabric) {
    free(s->inputs);
    free(s->outputs);
    free(s->out);
  }
  session_fabric_destroy(s->fabric);
  if (!s->shares_pool) thread_pool_destroy(s->pool);
  free(s->staging);
  exec_program_destroy(s->program);
  free(s);
}

/* --- running */

static wafer_status check_inputs(const wafer_session *s, const wafer_view *inputs, uint32_t count,
                                 bool *train, uint64_t *samples) {
  if (count != s->function->input_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u inputs, given %u", s->function->input_count, count);
  *train = count && inputs[0].shape.rank == s->inputs[0].of->type.shape.rank + 1;
  *samples = *train ? (uint64_t)inputs[0].shape.dims[0] : 1;
  for (uint32_t i = 0; i < count; i++)
    WAFER_TRY(
        session_port_check(s->diag, s->plan->model, &s->inputs[i], &inputs[i], *train, *samples));
  for (uint32_t i = 0; *train && i < s->function->output_count; i++)
    if (s->outputs[i].of->type.shape.rank == WAFER_MAX_RANK)
      return wafer_fail(
          s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
          "output '%s' has %d dimensions, a train needs one more: run samples one by one",
          s->outputs[i].of->name, WAFER_MAX_RANK);
  if (*samples > 0) return WAFER_OK;
  return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_BAD_INPUT,
                    "a train needs at least one sample");
}

/* The largest 16-bit port, twice: as it is and widened. */
static bool make_staging(wafer_session *s) {
  size_t most = 0;
  for (uint32_t i = 0; i < s->function->input_count + s->function->output_count; i++) {
    const session_port *p =
        i < s->function->input_count ? &s->inputs[i] : &s->outputs[i - s->function->input_count];
    if (p->tensor->host != p->tensor->type && session_port_bytes(p) > most)
      most = session_port_bytes(p);
  }
  if (most && !s->staging) s->staging = malloc(3 * most);
  return !most || s->staging;
}

/* Room for the outputs of a train. */
static wafer_status make_out(wafer_session *s, uint64_t samples) {
  if (s->out_room >= samples) return WAFER_OK;
  s->out_room = 0;
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    size_t bytes = session_port_bytes(&s->outputs[i]);
    if (bytes && samples > SIZE_MAX / 2 / bytes) return no_memory(s);
    free(s->out[i]);
    s->out[i] = aligned_alloc(64, (bytes * samples + 127) / 64 * 64);
    if (!s->out[i]) return no_memory(s);
  }
  s->out_room = samples;
  return WAFER_OK;
}

/* And buffers for its groups; nothing when it is as before. */
static wafer_status make_room(wafer_session *s, uint64_t samples) {
  uint64_t group = s->plan->mode == WAFER_MODE_streaming && s->plan->batch > 1 ? s->plan->batch : 1;
  if (group > samples) group = samples;
  if (s->group != group) {
    s->group = 0;
    WAFER_TRY(exec_program_finish(s->program, thread_pool_size(s->pool), (uint32_t)group,
                                  s->segment_count, s->boundaries));
    s->group = (uint32_t)group;
  }
  return make_staging(s) ? make_out(s, samples) : no_memory(s);
}

static void enter_sample(wafer_session *s, const wafer_view *inputs, bool train, uint64_t sample,
                         uint32_t slot) {
  exec_program_select(s->program, slot);
  for (uint32_t i = 0; i < s->function->input_count; i++)
    session_port_load(&s->inputs[i], s->program, s->group == 1, s->staging, &inputs[i], train,
                      sample);
  for (uint32_t i = 0; s->group == 1 && i < s->function->output_count; i++)
    if (s->outputs[i].direct)
      s->program->frame.address[s->outputs[i].tensor->buffer] =
          (char *)s->out[i] + sample * session_port_bytes(&s->outputs[i]);
}

/* Samples [from, from + count), at most a group: every phase for all of them before the next phase.
 */
static wafer_status run_group(wafer_session *s, const wafer_view *inputs, bool train, uint64_t from,
                              uint32_t count) {
  for (uint32_t i = 0; i < count; i++) enter_sample(s, inputs, train, from + i, i);
  for (uint32_t k = 0; k < s->segment_count; k++)
    for (uint32_t i = 0; i < count; i++) {
      if (s->group > 1) exec_program_select(s->program, i);
      WAFER_TRY(exec_program_run(s->program, s->pool, s->segments[k].first, s->segments[k].last));
    }
  for (uint32_t i = 0; i < count; i++) {
    if (s->group > 1) exec_program_select(s->program, i);
    for (uint32_t k = 0; k < s->function->output_count; k++)
      session_port_store(&s->outputs[k], s->program, s->staging,
                         (char *)s->out[k] + (from + i) * session_port_bytes(&s->outputs[k]));
  }
  return WAFER_OK;
}

static void fill_outputs(const wafer_session *s, bool train, uint64_t samples,
                         wafer_view *outputs) {
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    wafer_type type = s->outputs[i].of->type;
    wafer_shape shape = type.shape;
    if (train) {
      memmove(shape.dims + 1, type.shape.dims, type.shape.rank * sizeof *shape.dims);
      shape.dims[0] = (int64_t)samples;
      shape.rank++;
    }
    outputs[i] = wafer_view_of(type.dtype, &shape, s->out[i]);
  }
}

/* Cycles do not depend on values: followed once per length of the train. */
static wafer_status time_train(wafer_session *s, uint64_t samples) {
  if (s->stats.samples == samples) return WAFER_OK;
  uint32_t function = (uint32_t)(s->function - s->plan->functions);
  WAFER_TRY(wafer_timeline_run(s->diag, s->plan, function, samples, &s->timeline));
  s->stats.samples = samples;
  s->stats.latency_cycles = s->timeline.latency_cycles;
  s->stats.interval_cycles = s->timeline.interval_cycles;
  s->stats.total_cycles = s->timeline.total_cycles;
  s->stats.peak_bytes = s->program->memory_bytes + s->program->constant_bytes;
  for (uint32_t i = 0; i < s->function->output_count; i++)
    s->stats.peak_bytes += session_port_bytes(&s->outputs[i]) * s->out_room;
  return WAFER_OK;
}

/* ---- a host function ---- */

static wafer_status check_counts(const wafer_session *s, uint32_t inputs, uint32_t outputs) {
  if (inputs != s->function->input_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u inputs, given %u", s->function->input_count, inputs);
  if (outputs != s->function->output_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u outputs, asked for %u", s->function->output_count, outputs);
  return WAFER_OK;
}

/* Of the sample that was run last; samples follow one another. */
static void count_host(wafer_session *s, uint64_t sample) {
  uint64_t cycles = host_plan_cycles(s->host);
  s->stats.samples = sample + 1;
  if (sample == 0) s->stats.latency_cycles = s->stats.total_cycles = cycles;
  if (sample > 0) s->stats.total_cycles += cycles;
  s->stats.interval_cycles = s->stats.total_cycles / s->stats.samples;
  s->stats.peak_bytes = host_plan_bytes(s->host);
}

/* Sample `sample` of a train becomes an item each. */
static wafer_status enter_items(wafer_session *s, const wafer_view *inputs, bool train,
                                uint64_t sample) {
  for (uint32_t i = 0; i < s->function->input_count; i++) {
    wafer_view view = inputs[i];
    if (train) {
      if (view.dtype != WAFER_DTYPE_none)
        view.data = (char *)view.data +
                    view.strides[0] * (int64_t)sample * (int64_t)wafer_dtype_bytes(view.dtype);
      view.shape.rank--;
      memmove(view.shape.dims, view.shape.dims + 1, view.shape.rank * sizeof *view.shape.dims);
      memmove(view.strides, view.strides + 1, view.shape.rank * sizeof *view.strides);
    }
    wafer_item_release(s->items[i]);
    s->items[i] = wafer_item_copy(&view);
    if (!s->items[i]) return no_memory(s);
  }
  return WAFER_OK;
}

/* One sample: the item's own memory. Of a train: behind those before it. */
static wafer_status leave_item(wafer_session *s, uint32_t output, bool train, uint64_t sample,
                               uint64_t samples, wafer_view *out) {
  const wafer_item *item = s->items[s->function->input_count + output];
  const char *name = s->plan->values[s->function->outputs[output]].name;
  if (item->kind != WAFER_ITEM_tensor)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' is a %s and no tensor; run it with items", name,
                      wafer_item_kind_name(item->kind));
  if (!train) {
    *out = item->tensor;
    return WAFER_OK;
  }
  wafer_shape shape = item->tensor.shape;
  size_t bytes = wafer_tensor_bytes(item->tensor.dtype, &shape);
  if (shape.rank == WAFER_MAX_RANK || item->tensor.dtype == WAFER_DTYPE_string ||
      (bytes && samples > SIZE_MAX / 2 / bytes))
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' cannot be stacked to a train: run samples one by one", name);
  memmove(shape.dims + 1, shape.dims, shape.rank * sizeof *shape.dims);
  shape.dims[0] = (int64_t)samples;
  shape.rank++;
  if (sample == 0) {
    free(s->out[output]);
    s->out[output] = malloc(bytes * samples + 1);
    if (!s->out[output]) return no_memory(s);
    *out = wafer_view_of(item->tensor.dtype, &shape, s->out[output]);
  } else if (out->dtype != item->tensor.dtype || !wafer_shape_equal(&shape, &out->shape)) {
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_UNSUPPORTED,
                      "output '%s' differs in shape from sample to sample: run them one by one",
                      name);
  }
  if (bytes) memcpy((char *)s->out[output] + sample * bytes, item->tensor.data, bytes);
  return WAFER_OK;
}

/* A train when the first input of static type has one dim more than that. */
static wafer_status check_train(const wafer_session *s, const wafer_view *inputs, bool *train,
                                uint64_t *samples) {
  *samples = 1;
  for (uint32_t i = 0; i < s->function->input_count && !*train; i++) {
    const wafer_value *v = &s->plan->values[s->function->inputs[i]];
    *train = v->kind == WAFER_VALUE_tensor && inputs[i].shape.rank == v->type.shape.rank + 1;
    if (*train) *samples = (uint64_t)inputs[i].shape.dims[0];
  }
  for (uint32_t i = 0; i < s->function->input_count && *train; i++)
    if (!inputs[i].shape.rank || (uint64_t)inputs[i].shape.dims[0] != *samples || !*samples)
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_BAD_INPUT,
                        "input '%s' has another number of samples than the train's %llu",
                        s->plan->values[s->function->inputs[i]].name, (unsigned long long)*samples);
  return WAFER_OK;
}

static wafer_status run_host(wafer_session *s, const wafer_view *inputs, wafer_view *outputs) {
  bool train = false;
  uint64_t samples;
  WAFER_TRY(check_train(s, inputs, &train, &samples));
  wafer_item **made = s->items + s->function->input_count;
  for (uint64_t sample = 0; sample < samples; sample++) {
    WAFER_TRY(enter_items(s, inputs, train, sample));
    WAFER_TRY(host_plan_run(s->host, s->items, made));
    count_host(s, sample);
    for (uint32_t i = 0; i < s->function->output_count; i++)
      WAFER_TRY(leave_item(s, i, train, sample, samples, &outputs[i]));
  }
  return WAFER_OK;
}

wafer_status wafer_session_run_items(wafer_session *s, wafer_item *const *inputs,
                                     uint32_t input_count, wafer_item **outputs,
                                     uint32_t output_count) {
  WAFER_TRY(check_counts(s, input_count, output_count));
  if (!s->host)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "every input and output is a tensor: run it with views");
  WAFER_TRY(host_plan_run(s->host, inputs, outputs));
  count_host(s, 0);
  return WAFER_OK;
}

static wafer_status run_fabric(wafer_session *s, const wafer_view *inputs, bool train,
                               uint64_t samples, wafer_view *outputs) {
  WAFER_TRY(make_out(s, samples));
  WAFER_TRY(session_fabric_run(s->fabric, inputs, train, samples, s->out));
  s->stats = session_fabric_stats(s->fabric);
  fill_outputs(s, train, samples, outputs);
  return WAFER_OK;
}

wafer_status wafer_session_run(wafer_session *s, const wafer_view *inputs, uint32_t input_count,
                               wafer_view *outputs, uint32_t output_count) {
  bool train = false;
  uint64_t samples = 0;
  if (s->host) {
    WAFER_TRY(check_counts(s, input_count, output_count));
    return run_host(s, inputs, outputs);
  }
  WAFER_TRY(check_inputs(s, inputs, input_count, &train, &samples));
  if (output_count != s->function->output_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u outputs, asked for %u", s->function->output_count,
                      output_count);
  if (s->fabric) return run_fabric(s, inputs, train, samples, outputs);
  WAFER_TRY(make_room(s, samples));
  for (uint64_t at = 0; at < samples; at += s->group) {
    uint64_t count = samples - at < s->group ? samples - at : s->group;
    if (wafer_cancelled(s->diag))
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                        "cancelled after %llu of %llu samples", (unsigned long long)at,
                        (unsigned long long)samples);
    WAFER_TRY(run_group(s, inputs, train, at, (uint32_t)count));
  }
  fill_outputs(s, train, samples, outputs);
  return time_train(s, samples);
}

wafer_run_stats wafer_session_stats(const wafer_session *s) {
  return s->stats;
}

/* Executing a plan at kernel fidelity. Creating a session follows the plan's steps once
 * (session_follow.c); running it goes through the stages that this left, sample by sample, phase by
 * phase. */
#include "wafer/session.h"

#include <stdlib.h>
#include <string.h>

#include "session_state.h"
#include "tensor/vmath.h"

/* --- creating */

static bool allocate(wafer_session *s) {
  wafer_arena *arena = s->program->arena;
  const wafer_plan *plan = s->plan;
  const wafer_function *f = s->function;
  uint64_t *busy = WAFER_NEW(arena, uint64_t, plan->kernel_count);
  uint64_t *phases = WAFER_NEW(arena, uint64_t, plan->phase_count);
  uint64_t *outputs = WAFER_NEW(arena, uint64_t, f->output_count);
  uint64_t *weights = WAFER_NEW(arena, uint64_t, wafer_weights_count(plan->weights));
  s->tensor = WAFER_NEW(arena, exec_tensor *, plan->value_count);
  s->loaded = WAFER_NEW(arena, bool, plan->phase_count);
  s->kernel_end = WAFER_NEW(arena, uint32_t, plan->kernel_count);
  s->inputs = WAFER_NEW(arena, session_port, f->input_count);
  s->outputs = WAFER_NEW(arena, session_port, f->output_count);
  s->segments = WAFER_NEW(arena, session_segment, f->step_count);
  s->boundaries = WAFER_NEW(arena, uint32_t, f->step_count);
  s->out = WAFER_NEW(arena, void *, f->output_count);
  s->timeline = (wafer_timeline){.kernel_busy = busy,
                                 .phase_cycles = phases,
                                 .output_cycles = outputs,
                                 .weight_cycles = weights};
  s->stats = (wafer_run_stats){.kernel_busy = busy,
                               .phase_cycles = phases,
                               .output_cycles = outputs,
                               .weight_cycles = weights,
                               .instruction_set = vmath_instruction_set()};
  return busy && phases && outputs && weights && s->tensor && s->loaded && s->kernel_end &&
         s->inputs && s->outputs && s->segments && s->boundaries && s->out &&
         held_init(&s->held, arena, plan, f);
}

/* A function of the wafer. */
static wafer_status prepare_unit(wafer_session *s) {
  WAFER_TRY(exec_program_create(s->diag, &s->program));
  s->program->loc = wafer_at_file(s->plan->model);
  s->program->storage = s->plan->storage;
  if (!allocate(s)) return session_no_memory(s);
  int before = thread_enter();
  wafer_status status = session_follow(s);
  thread_leave(before);
  return status;
}

/* Ports without tensors: what the checks of views need. */
static wafer_status prepare_fabric(wafer_session *s, const wafer_session_options *options) {
  const wafer_function *f = s->function;
  WAFER_TRY(
      session_fabric_create(s->plan, (uint32_t)(f - s->plan->functions), options, &s->fabric));
  s->inputs = calloc((size_t)f->input_count + 1, sizeof *s->inputs);
  s->outputs = calloc((size_t)f->output_count + 1, sizeof *s->outputs);
  s->out = calloc((size_t)f->output_count + 1, sizeof *s->out);
  if (!s->inputs || !s->outputs || !s->out) return session_no_memory(s);
  for (uint32_t i = 0; i < f->input_count; i++)
    s->inputs[i] = (session_port){.value = f->inputs[i], .of = &s->plan->values[f->inputs[i]]};
  for (uint32_t i = 0; i < f->output_count; i++)
    s->outputs[i] = (session_port){.value = f->outputs[i], .of = &s->plan->values[f->outputs[i]]};
  return WAFER_OK;
}

/* On the wafer, and something runs there. */
static bool has_phases(const wafer_function *f) {
  for (uint32_t i = 0; i < f->step_count; i++)
    if (f->steps[i].kind == WAFER_STEP_phase) return true;
  return false;
}

/* The plan's first function, which may be one of the host. */
static wafer_status prepare(wafer_session *s, const wafer_session_options *options) {
  bool fabric = options && options->fidelity == WAFER_FIDELITY_fabric;
  if (fabric && has_phases(s->function)) return prepare_fabric(s, options);
  if (!s->shares_pool) {
    WAFER_TRY(wafer_plan_check(s->diag, s->plan->model, s->plan));
    s->pool = thread_pool_create(options ? options->threads : 0);
    if (!s->pool) return session_no_memory(s);
  }
  if (!wafer_function_on_host(s->function)) return prepare_unit(s);
  s->items =
      calloc((size_t)s->function->input_count + s->function->output_count + 1, sizeof *s->items);
  s->out = calloc((size_t)s->function->output_count + 1, sizeof *s->out);
  if (!s->items || !s->out) return session_no_memory(s);
  WAFER_TRY(host_plan_create(s->plan, options, s->pool, &s->host));
  s->stats = host_plan_stats(s->host);
  return WAFER_OK;
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
  s->kernels = options ? options->kernels : NULL;
  wafer_status status = prepare(s, options);
  if (status == WAFER_OK)
    *out = s;
  else
    wafer_session_destroy(s);
  return status;
}

void session_share_faults(wafer_session *unit, session_faults *faults) {
  if (unit->fabric) session_fabric_share_faults(unit->fabric, faults);
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
  wafer_swarmx_destroy(s->sums);
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
    uint64_t count = session_port_count(s->plan, &s->outputs[i], samples);
    if (bytes && count > SIZE_MAX / 2 / bytes) return session_no_memory(s);
    free(s->out[i]);
    s->out[i] = aligned_alloc(64, (bytes * count + 127) / 64 * 64);
    if (!s->out[i]) return session_no_memory(s);
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
  return make_staging(s) ? make_out(s, samples) : session_no_memory(s);
}

/* Where output i of a sample goes: sums are made of one after the other. */
static char *place_of(const wafer_session *s, uint32_t i, uint64_t sample) {
  const session_port *p = &s->outputs[i];
  return (char *)s->out[i] + (session_port_summed(s->plan, p) ? 0 : sample * session_port_bytes(p));
}

static void enter_sample(wafer_session *s, const wafer_view *inputs, bool train, uint64_t sample,
                         uint32_t slot) {
  exec_program_select(s->program, slot);
  for (uint32_t i = 0; i < s->function->input_count; i++)
    session_port_load(&s->inputs[i], s->program, s->group == 1, s->staging, &inputs[i], train,
                      sample);
  for (uint32_t i = 0; s->group == 1 && i < s->function->output_count; i++)
    if (s->outputs[i].direct)
      s->program->frame.address[s->outputs[i].tensor->buffer] = place_of(s, i, sample);
}

/* Samples [from, from + count), at most a group: every phase for all of them before the next phase.
 */
static wafer_status run_group(wafer_session *s, const wafer_view *inputs, bool train, uint64_t from,
                              uint32_t count) {
  for (uint32_t i = 0; i < count; i++) enter_sample(s, inputs, train, from + i, i);
  for (uint32_t k = 0; k < s->segment_count; k++)
    for (uint32_t i = 0; i < count; i++) {
      if (s->group > 1) exec_program_select(s->program, i);
      const session_segment *seg = &s->segments[k];
      WAFER_TRY(s->kernels ? session_run_told(s, seg)
                           : exec_program_run(s->program, s->pool, seg->first, seg->last));
    }
  for (uint32_t i = 0; i < count; i++) {
    if (s->group > 1) exec_program_select(s->program, i);
    for (uint32_t k = 0; k < s->function->output_count; k++)
      session_port_store(&s->outputs[k], s->program, s->staging, place_of(s, k, from + i));
  }
  return WAFER_OK;
}

static void fill_outputs(const wafer_session *s, bool train, uint64_t samples,
                         wafer_view *outputs) {
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    wafer_type type = s->outputs[i].of->type;
    wafer_shape shape = type.shape;
    if (train && !session_port_summed(s->plan, &s->outputs[i])) {
      memmove(shape.dims + 1, type.shape.dims, type.shape.rank * sizeof *shape.dims);
      shape.dims[0] = (int64_t)samples;
      shape.rank++;
    }
    outputs[i] = wafer_view_of(type.dtype, &shape, s->out[i]);
  }
}

/* Of a sparse weight's gradient what belongs to its zeros does not leave the wafer. */
static void leave_zeros(const wafer_session *s, uint64_t samples) {
  const wafer_training *t = s->plan->training;
  for (uint32_t i = 0; t && i < t->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(s->plan->weights, t->trained[i].weight);
    uint32_t o = 0, count = s->function->output_count;
    while (o < count && s->function->outputs[o] != t->trained[i].gradient) o++;
    if (!w->sparse || !w->data || o == count) continue;
    size_t each = wafer_dtype_bytes(w->dtype), elements = w->bytes / each;
    uint64_t times = session_port_count(s->plan, &s->outputs[o], samples);
    for (size_t e = 0; e < elements; e++) {
      if (wafer_element_f64(w->dtype, w->data, (int64_t)e) != 0) continue;
      for (uint64_t k = 0; k < times; k++)
        memset((char *)s->out[o] + k * w->bytes + e * each, 0, each);
    }
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
    s->stats.peak_bytes += session_port_bytes(&s->outputs[i]) *
                           session_port_count(s->plan, &s->outputs[i], s->out_room);
  return WAFER_OK;
}

static wafer_status run_fabric(wafer_session *s, const wafer_view *inputs, bool train,
                               uint64_t samples, wafer_view *outputs) {
  WAFER_TRY(make_out(s, samples));
  wafer_status status = session_fabric_run(s->fabric, inputs, train, samples, s->out);
  s->stats = session_fabric_stats(s->fabric); /* of a run that trapped: which faults struck */
  WAFER_TRY(status);
  leave_zeros(s, samples);
  fill_outputs(s, train, samples, outputs);
  return WAFER_OK;
}

wafer_status wafer_session_run(wafer_session *s, const wafer_view *inputs, uint32_t input_count,
                               wafer_view *outputs, uint32_t output_count) {
  bool train = false;
  uint64_t samples = 0;
  if (s->host) {
    WAFER_TRY(session_check_counts(s, input_count, output_count));
    return session_run_host(s, inputs, outputs);
  }
  WAFER_TRY(check_inputs(s, inputs, input_count, &train, &samples));
  if (output_count != s->function->output_count)
    return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                      "the model has %u outputs, asked for %u", s->function->output_count,
                      output_count);
  if (s->fabric) return run_fabric(s, inputs, train, samples, outputs);
  WAFER_TRY(session_enter_weights(s));
  WAFER_TRY(make_room(s, samples));
  bool sums = train && session_sums(s); /* of a pipeline: sample by sample */
  if (sums) WAFER_TRY(session_sums_begin(s, samples));
  for (uint64_t at = 0; at < samples; at += s->group) {
    uint64_t count = samples - at < s->group ? samples - at : s->group;
    if (wafer_cancelled(s->diag))
      return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_USAGE,
                        "cancelled after %llu of %llu samples", (unsigned long long)at,
                        (unsigned long long)samples);
    WAFER_TRY(run_group(s, inputs, train, at, (uint32_t)count));
    if (sums) WAFER_TRY(session_sums_add(s, at));
  }
  if (sums) WAFER_TRY(session_sums_finish(s));
  leave_zeros(s, samples);
  fill_outputs(s, train, samples, outputs);
  return time_train(s, samples);
}

/* Does the session do steps of pipelined training? `what` it was asked for, by which optimizer;
 * WAFER_OPTIMIZER_COUNT: by any. */
static wafer_status steps(const wafer_session *s, const char *what, wafer_optimizer_kind kind) {
  const wafer_plan *plan = s->plan;
  bool any = kind == WAFER_OPTIMIZER_COUNT;
  if (s->fabric && plan->step_values && (any || kind == plan->training->optimizer)) return WAFER_OK;
  return wafer_fail(s->diag, wafer_at_file(plan->model), WAFER_USAGE, "%s%s: %s", what,
                    any ? "" : wafer_optimizer_name(kind),
                    !s->fabric           ? "only sessions at fabric fidelity do one"
                    : !plan->step_values ? "the plan has no programs that update weights"
                                         : "the plan is made for another optimizer");
}

wafer_status wafer_session_squares(wafer_session *s, double *squares) {
  WAFER_TRY(steps(s, "a norm on the wafer", WAFER_OPTIMIZER_COUNT));
  return session_fabric_squares(s->fabric, squares);
}

wafer_status wafer_session_update(wafer_session *s, const wafer_optimizer *optimizer,
                                  const wafer_update *update, float *const *weights,
                                  wafer_step_cycles *counted) {
  WAFER_TRY(steps(s, "an update by ", optimizer->kind));
  return session_fabric_update(s->fabric, optimizer, update, weights, counted);
}

wafer_run_stats wafer_session_stats(const wafer_session *s) {
  return s->stats;
}

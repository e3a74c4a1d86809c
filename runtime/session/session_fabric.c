/* Fabric fidelity: the launches of a plan, read once, and values between the caller's types and
 * those of cores. */
#include "fabric/fabric_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "tensor/vmath.h"

static wafer_loc here(const session_fabric *s) {
  return wafer_at_file(s->plan->model);
}

wafer_status session_fabric_no_memory(const session_fabric *s) {
  return wafer_fail(s->diag, here(s), WAFER_NO_MEMORY, "no memory left for the fabric");
}

/* ---- values ---- */

static size_t element_of(const session_fabric *s, uint32_t value) {
  return wafer_dtype_bytes(session_fabric_type(s, value));
}

size_t session_fabric_elements(const session_fabric *s, uint32_t value) {
  const fabric_pairs *pairs = s->pairs[value];
  wafer_shape shape =
      pairs ? wafer_pairs_shape(&pairs->form, &pairs->layout) : s->plan->values[value].type.shape;
  int64_t count = 0;
  (void)wafer_shape_elements(&shape, &count);
  return (size_t)count;
}

static size_t sample_bytes(const session_fabric *s, uint32_t value) {
  const wafer_type *type = &s->plan->values[value].type;
  return wafer_tensor_bytes(type->dtype, &type->shape);
}

static bool make_stored(session_fabric *s, uint32_t value) {
  if (s->stored[value]) return true;
  s->stored[value] = calloc(session_fabric_elements(s, value) + 1, element_of(s, value));
  return s->stored[value];
}

static wafer_status put_in_order(session_fabric *s, uint32_t value) {
  const wafer_layout *layout = s->ordered[value];
  return layout
             ? session_fabric_order(s, value, layout, false, element_of(s, value), s->stored[value])
             : WAFER_OK;
}

wafer_status session_fabric_weight(session_fabric *s, uint32_t value) {
  const wafer_value *v = &s->plan->values[value];
  if (s->stored[value]) return WAFER_OK;
  const wafer_weight *w = wafer_weights_at(s->plan->weights, v->weight);
  WAFER_TRY(wafer_plan_touch_weight(s->diag, s->plan, v->weight));
  if (!make_stored(s, value)) return session_fabric_no_memory(s);
  if (s->pairs[value]) return session_fabric_pairs_pack(s, value);
  port_narrow(v->type.dtype, session_fabric_type(s, value), w->data, s->stored[value],
              session_fabric_elements(s, value));
  return put_in_order(s, value);
}

/* One sample of a caller's view, dense and as cores store it. */
wafer_status session_fabric_input(session_fabric *s, uint32_t value, const wafer_view *view,
                                  bool train, uint64_t sample) {
  wafer_view one = *view;
  if (train) {
    one.data = (char *)view->data +
               (int64_t)sample * view->strides[0] * (int64_t)wafer_dtype_bytes(view->dtype);
    one.shape.rank--;
    memmove(one.shape.dims, one.shape.dims + 1, one.shape.rank * sizeof one.shape.dims[0]);
    memmove(one.strides, one.strides + 1, one.shape.rank * sizeof one.strides[0]);
  }
  wafer_view_pack(&one, s->staging);
  port_narrow(view->dtype, session_fabric_type(s, value), s->staging, s->stored[value],
              session_fabric_elements(s, value));
  return put_in_order(s, value);
}

wafer_status session_fabric_output(session_fabric *s, uint32_t value, void *to, uint64_t sample) {
  const wafer_layout *layout = s->ordered[value];
  if (layout)
    WAFER_TRY(session_fabric_order(s, value, layout, true, element_of(s, value), s->stored[value]));
  port_widen(s->plan->values[value].type.dtype, session_fabric_type(s, value), s->stored[value],
             (char *)to + sample * sample_bytes(s, value), session_fabric_elements(s, value));
  return WAFER_OK;
}

/* ---- creating ---- */

static wafer_status check_port(const session_fabric *s, const fabric_launch *l,
                               const wafer_port_use *p) {
  const wafer_plan *plan = s->plan;
  uint64_t count;
  bool known = p->value < plan->value_count;
  const wafer_value *v = known ? &plan->values[p->value] : NULL;
  bool fits = known && wafer_port_fits(p, (int64_t)session_fabric_elements(s, p->value), &count);
  bool right = fits && (p->out || v->weight != WAFER_NONE || s->stored[p->value] ||
                        (plan->step_values && p->value >= plan->step_values));
  if (right) return WAFER_OK;
  return wafer_fail(s->diag, here(s), WAFER_BAD_INPUT,
                    "program %u: a port carries what value %u does not have", l->of->program,
                    p->value);
}

static wafer_status open_launch(session_fabric *s, fabric_launch *l) {
  char file[64];
  snprintf(file, sizeof file, "programs/%u.bin", l->of->program);
  WAFER_TRY(
      wafer_launch_read(s->diag, file, s->arena, s->plan->programs[l->of->program], &l->body));
  WAFER_TRY(wafer_fabric_program_read(s->diag, file, s->arena, l->body.program, &l->band));
  const wafer_machine *m = s->plan->machine;
  if (l->band->width != m->width || l->band->height != m->height)
    return wafer_fail(s->diag, here(s), WAFER_BAD_INPUT,
                      "program %u is for %u x %u cores, the plan's machine has %u x %u",
                      l->of->program, l->band->width, l->band->height, m->width, m->height);
  l->words = WAFER_NEW(s->arena, uint32_t *, l->body.port_count);
  if (!l->words) return session_fabric_no_memory(s);
  for (uint32_t i = 0; i < l->body.port_count; i++) WAFER_TRY(check_port(s, l, &l->body.ports[i]));
  return WAFER_OK;
}

static wafer_status refuse(const session_fabric *s, const char *why) {
  return wafer_fail(s->diag, here(s), WAFER_UNSUPPORTED, "no fabric fidelity for this plan: %s",
                    why);
}

static bool allocate(session_fabric *s) {
  const wafer_plan *plan = s->plan;
  size_t most = 1;
  for (uint32_t i = 0; i < s->function->input_count; i++) {
    size_t bytes = sample_bytes(s, s->function->inputs[i]);
    if (bytes > most) most = bytes;
  }
  s->staging = malloc(most);
  s->launches = WAFER_NEW(s->arena, fabric_launch, plan->launch_count);
  s->stored = WAFER_NEW(s->arena, void *, plan->value_count);
  s->kernel_busy = WAFER_NEW(s->arena, uint64_t, plan->kernel_count);
  s->stream_busy = WAFER_NEW(s->arena, uint64_t, plan->stream_count);
  s->phase_cycles = WAFER_NEW(s->arena, uint64_t, plan->phase_count);
  s->armed = WAFER_NEW(s->arena, uint64_t, plan->phase_count);
  const wafer_machine *wafer = wafer_machine_whole(plan->machine);
  size_t cores = (size_t)wafer->width * wafer->height;
  s->marks.part = calloc(cores, sizeof *s->marks.part);
  s->marks.done = calloc(cores, sizeof *s->marks.done);
  if (!s->marks.part || !s->marks.done) return false;
  if (!s->staging || !s->launches || !s->stored || !s->kernel_busy || !s->stream_busy ||
      !s->phase_cycles || !s->armed)
    return false;
  for (uint32_t i = 0; i < s->function->input_count; i++)
    if (!make_stored(s, s->function->inputs[i])) return false;
  for (uint32_t i = 0; i < s->function->output_count; i++)
    if (!make_stored(s, s->function->outputs[i])) return false;
  return true;
}

static bool has_phase(const wafer_function *f, uint32_t phase) {
  for (uint32_t i = 0; i < f->step_count; i++)
    if (f->steps[i].kind == WAFER_STEP_phase && f->steps[i].phase == phase) return true;
  return false;
}

static wafer_status prepare(session_fabric *s, const wafer_fabric_options *options) {
  const wafer_plan *plan = s->plan;
  WAFER_TRY(wafer_plan_check(s->diag, plan->model, plan));
  if (!plan->launch_count) {
    char why[512];
    snprintf(why, sizeof why, "it has no programs: %s",
             plan->no_programs && *plan->no_programs ? plan->no_programs
                                                     : "compile with --programs always");
    return refuse(s, why);
  }
  if (!(s->arena = wafer_arena_create())) return session_fabric_no_memory(s);
  WAFER_TRY(session_fabric_sparse_begin(s));
  if (!allocate(s)) return session_fabric_no_memory(s);
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    if (!has_phase(s->function, plan->launches[i].phase)) continue;
    fabric_launch *l = &s->launches[s->launch_count++];
    l->of = &plan->launches[i];
    WAFER_TRY(open_launch(s, l));
  }
  if (!s->launch_count) return refuse(s, "no launch is of its function");
  s->stats = (wafer_run_stats){.kernel_busy = s->kernel_busy,
                               .phase_cycles = s->phase_cycles,
                               .stream_busy = s->stream_busy,
                               .instruction_set = vmath_instruction_set()};
  WAFER_TRY(session_fabric_spread(s, &s->launches[0], 1));
  return wafer_fabric_create(s->diag, wafer_machine_whole(plan->machine), &s->launches[0].program,
                             options, &s->fabric);
}

wafer_status session_fabric_create(const wafer_plan *plan, uint32_t function,
                                   const wafer_session_options *options, session_fabric **out) {
  const wafer_diag *diag = options ? options->diag : NULL;
  *out = NULL;
  session_fabric *s = calloc(1, sizeof *s);
  if (!s)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "no memory for a session");
  s->plan = plan;
  s->diag = diag;
  s->function = &plan->functions[function];
  s->kernels = options ? options->kernels : NULL;
  const wafer_fabric_options fabric = {.threads = options ? options->threads : 0, .islands = true};
  wafer_status status = prepare(s, &fabric);
  if (status == WAFER_OK && options && options->watch)
    status = session_fabric_watch_begin(s, options->watch);
  if (status == WAFER_OK && options && options->load) status = session_fabric_load_begin(s);
  if (status == WAFER_OK && options && options->fault_count) {
    s->faults = session_faults_create(options->faults, options->fault_count);
    if (!s->faults) status = session_fabric_no_memory(s);
    if (s->faults) s->stats.fault_struck = s->faults->struck;
  }
  if (status == WAFER_OK)
    *out = s;
  else
    session_fabric_destroy(s);
  return status;
}

void session_fabric_destroy(session_fabric *s) {
  if (!s) return;
  wafer_fabric_destroy(s->fabric);
  if (!s->shared) session_faults_destroy(s->faults);
  for (uint32_t v = 0; s->stored && v < s->plan->value_count; v++) free(s->stored[v]);
  for (uint32_t i = 0; s->launches && i < s->launch_count; i++)
    for (uint32_t p = 0; s->launches[i].words && p < s->launches[i].body.port_count; p++)
      free(s->launches[i].words[p]);
  for (uint32_t i = 0; s->launches && i < s->launch_count; i++)
    session_fabric_gather(&s->launches[i]);
  session_fabric_watch_end(s);
  free(s->load.core_cycles);
  free(s->load.wavelets);
  free(s->marks.part);
  free(s->marks.done);
  free(s->marks.begin);
  free(s->marks.end);
  free(s->marks.finish);
  free(s->staging);
  wafer_arena_destroy(s->arena);
  free(s);
}

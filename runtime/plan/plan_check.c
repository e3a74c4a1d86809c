/* wafer_plan_check: values, kernels, streams, phases, then the functions, each law once. */
#include <stdio.h>

#include "plan_check.h"

#include <string.h>

const char *plan_check_node(const wafer_kernel *kernel) {
  const wafer_kernel_body *body = &kernel->body;
  return body->anchor < body->node_count && body->nodes[body->anchor].name
             ? body->nodes[body->anchor].name
             : NULL;
}

wafer_loc plan_check_at(const plan_check *c, const wafer_kernel *kernel) {
  return wafer_at_kernel(c->file, kernel->name, plan_check_node(kernel));
}

wafer_status plan_check_no_memory(const plan_check *c) {
  return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_NO_MEMORY,
                    "no memory to check the plan");
}

wafer_status plan_check_type(const plan_check *c, wafer_loc loc, const char *what,
                             const wafer_type *type) {
  int64_t elements;
  if (type->dtype <= WAFER_DTYPE_none || type->dtype >= WAFER_DTYPE_COUNT)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s has no element type", what);
  if (type->shape.rank > WAFER_MAX_RANK)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s has %u dims, at most %d are supported",
                      what, type->shape.rank, WAFER_MAX_RANK);
  if (!wafer_shape_elements(&type->shape, &elements))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "%s has a negative dim or too many elements",
                      what);
  return WAFER_OK;
}

/* ---- head and values ---- */

#define MOST_FUNCTIONS 1024 /* each is followed over all values */

static wafer_status check_head(const plan_check *c) {
  const wafer_plan *plan = c->plan;
  wafer_loc loc = wafer_at_file(c->file);
  if (plan->mode != WAFER_MODE_pipelined && plan->mode != WAFER_MODE_streaming)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "mode is neither pipelined nor streaming");
  if (plan->storage != WAFER_DTYPE_f32 && plan->storage != WAFER_DTYPE_f16)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "storage must be f32 or f16");
  if (plan->batch < 1 || (plan->mode == WAFER_MODE_pipelined && plan->batch != 1))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "batch is %u, must be %s", plan->batch,
                      plan->mode == WAFER_MODE_pipelined ? "1 in a pipeline" : "at least 1");
  if (plan->machine->whole && plan->machine->cut.together == (plan->mode == WAFER_MODE_pipelined))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "%u bands are together in weight streaming and in it alone, not in %s mode",
                      plan->machine->cut.bands, wafer_mode_name(plan->mode));
  if (plan->function_count < 1)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "the plan has no function");
  if (plan->function_count > MOST_FUNCTIONS)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "the plan has %u functions, at most %d are read", plan->function_count,
                      MOST_FUNCTIONS);
  return WAFER_OK;
}

static wafer_status check_weight(const plan_check *c, wafer_loc loc, const wafer_value *v) {
  size_t count = c->plan->weights ? wafer_weights_count(c->plan->weights) : 0;
  if (v->weight == WAFER_NONE) return WAFER_OK;
  if (v->weight >= count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "value '%s' is weight %u, the plan has %zu",
                      v->name, v->weight, count);
  const wafer_weight *weight = wafer_weights_at(c->plan->weights, v->weight);
  if (weight->dtype != v->type.dtype || !wafer_shape_equal(&weight->shape, &v->type.shape))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "value '%s' is of another type than its weight '%s'", v->name, weight->name);
  return WAFER_OK;
}

static wafer_status check_values(const plan_check *c) {
  for (uint32_t i = 0; i < c->plan->value_count; i++) {
    const wafer_value *v = &c->plan->values[i];
    wafer_loc loc =
        v->node && *v->node ? wafer_at_node(c->file, v->node, -1) : wafer_at_file(c->file);
    char what[128];
    snprintf(what, sizeof what, "value '%.100s'", v->name);
    if ((uint32_t)v->owner > WAFER_OWNER_gradient)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "value '%s' has no owner", v->name);
    if ((uint32_t)v->kind >= WAFER_VALUE_COUNT ||
        (v->kind == WAFER_VALUE_host && v->weight != WAFER_NONE))
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "value '%s' has no kind, or is a weight and a host value", v->name);
    if (v->kind == WAFER_VALUE_tensor) WAFER_TRY(plan_check_type(c, loc, what, &v->type));
    WAFER_TRY(check_weight(c, loc, v));
  }
  return WAFER_OK;
}

/* ---- phases ---- */

static wafer_status check_phase(plan_check *c, const wafer_phase *phase) {
  const wafer_plan *plan = c->plan;
  wafer_loc loc = wafer_at_file(c->file);
  uint64_t budget = wafer_machine_core_budget(plan->machine);
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_action *action = &phase->actions[a];
    bool stream = action->kind == WAFER_ACTION_stream;
    if ((!stream && action->kind != WAFER_ACTION_kernel) ||
        action->index >= (stream ? plan->stream_count : plan->kernel_count))
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                        "phase '%s': action %u names no stream or kernel", phase->name, a);
  }
  for (uint32_t i = 0; i < phase->free_count; i++)
    if (phase->frees[i] >= plan->value_count)
      return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "phase '%s' frees value %u, the plan has %u",
                        phase->name, phase->frees[i], plan->value_count);
  if (phase->peak_core_bytes > budget)
    return wafer_fail(c->diag, loc, WAFER_NO_FIT,
                      "phase '%s' needs %" PRIu64 " bytes on one core, %" PRIu64 " are allowed",
                      phase->name, phase->peak_core_bytes, budget);
  WAFER_TRY(plan_check_disjoint(c, phase));
  return plan_check_colors(c, phase);
}

/* ---- launches ---- */

/* What a launch's program does is checked when it is read. */
static wafer_status check_launch(const plan_check *c, uint32_t index) {
  const wafer_plan *plan = c->plan;
  const wafer_launch *launch = &plan->launches[index];
  wafer_loc loc = wafer_at_file(c->file);
  bool train = launch->kind == WAFER_LAUNCH_train, action = launch->kind == WAFER_LAUNCH_action;
  if (launch->phase >= plan->phase_count || launch->program >= plan->program_count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "launch %u is of phase %u and program %u, the plan has %u and %u", index,
                      launch->phase, launch->program, plan->phase_count, plan->program_count);
  uint32_t actions = action ? plan->phases[launch->phase].action_count : 1;
  if (launch->action >= actions || (uint32_t)launch->kind >= WAFER_LAUNCH_COUNT)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "launch %u is of action %u, its phase has %u of that kind", index,
                      launch->action, actions);
  if (action && launch->action > 0 &&
      wafer_phase_run_end(&plan->phases[launch->phase], launch->action - 1) > launch->action)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "launch %u begins with action %u, a kernel that runs with the one before it",
                      index, launch->action);
  if (launch->sample >= (action ? plan->batch : 1))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "launch %u is of sample %u, the plan has %u of them together", index,
                      launch->sample, action ? plan->batch : 1);
  if (action && launch->sample % wafer_launch_samples(plan, launch))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "launch %u begins with sample %u, which is not in the first of %u stripes",
                      index, launch->sample, plan->stripes);
  bool ends = wafer_launch_ends_step(launch->kind);
  if (((train || ends) && plan->mode != WAFER_MODE_pipelined) ||
      (action && plan->mode != WAFER_MODE_streaming))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "launch %u is a %s in %s mode", index,
                      wafer_launch_kind_name(launch->kind), wafer_mode_name(plan->mode));
  if (launch->slowest != WAFER_NONE && launch->slowest >= plan->kernel_count)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT, "launch %u names kernel %u, the plan has %u",
                      index, launch->slowest, plan->kernel_count);
  return WAFER_OK;
}

/* Phases follow each other, and so do their loads, each ahead of what its phase does. */
static wafer_status check_launches(const plan_check *c) {
  uint32_t loaded = 0, worked = 0;
  for (uint32_t i = 0; i < c->plan->launch_count; i++) {
    WAFER_TRY(check_launch(c, i));
    const wafer_launch *launch = &c->plan->launches[i];
    bool load = launch->kind == WAFER_LAUNCH_load;
    if (launch->phase < worked || (load && launch->phase < loaded))
      return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                        "launch %u is of phase %u, one before of phase %u", i, launch->phase,
                        load && loaded > worked ? loaded : worked);
    *(load ? &loaded : &worked) = launch->phase;
  }
  return WAFER_OK;
}

static wafer_status check_all(plan_check *c) {
  WAFER_TRY(check_head(c));
  WAFER_TRY(plan_check_stripes(c));
  WAFER_TRY(check_values(c));
  for (uint32_t i = 0; i < c->plan->kernel_count; i++) {
    WAFER_TRY(plan_check_body(c, &c->plan->kernels[i]));
    WAFER_TRY(plan_check_kernel(c, &c->plan->kernels[i]));
  }
  WAFER_TRY(plan_check_stripe_columns(c));
  for (uint32_t i = 0; i < c->plan->stream_count; i++) WAFER_TRY(plan_check_stream(c, i));
  for (uint32_t i = 0; i < c->plan->phase_count; i++)
    WAFER_TRY(check_phase(c, &c->plan->phases[i]));
  WAFER_TRY(plan_check_functions(c));
  WAFER_TRY(plan_check_host_functions(c));
  WAFER_TRY(plan_check_training(c));
  return check_launches(c);
}

wafer_status wafer_plan_check(const wafer_diag *diag, const char *file, const wafer_plan *plan) {
  return wafer_plan_check_peaks(diag, file, plan, NULL);
}

wafer_status wafer_plan_check_peaks(const wafer_diag *diag, const char *file,
                                    const wafer_plan *plan, uint64_t *peaks) {
  plan_check c = {
      .diag = diag, .file = file, .plan = plan, .arena = wafer_arena_create(), .peaks = peaks};
  wafer_status status = c.arena ? check_all(&c) : plan_check_no_memory(&c);
  wafer_arena_destroy(c.arena);
  return status;
}

/* Host functions: every value is made before it is used and in one place of the plan, every call
 * goes to a function of larger index and agrees with it in its numbers of values. What the values
 * are is looked at when they are there, by the runtime. */
#include "plan_check.h"

typedef struct follower {
  const plan_check *c;
  const wafer_function *function;
  uint32_t index;
  uint32_t *owner; /* value -> function that has it, plus 1 */
} follower;

#define refuse(f, loc, format, ...)                                                                \
  wafer_fail((f)->c->diag, loc, WAFER_BAD_INPUT, "function '%s': " format,                         \
             (f)->function->name __VA_OPT__(, ) __VA_ARGS__)

static wafer_loc at_step(const follower *f, const wafer_step *step) {
  return step->node && *step->node ? wafer_at_node(f->c->file, step->node, -1)
                                   : wafer_at_file(f->c->file);
}

static wafer_status make_value(follower *f, wafer_loc loc, uint32_t value) {
  const wafer_plan *plan = f->c->plan;
  if (value >= plan->value_count || plan->values[value].weight != WAFER_NONE || f->owner[value])
    return refuse(f, loc,
                  "value %u is made here, and is a weight, made elsewhere too or not of the plan",
                  value);
  f->owner[value] = f->index + 1;
  return WAFER_OK;
}

static bool is_held(const follower *f, uint32_t value) {
  return value < f->c->plan->value_count &&
         (f->owner[value] == f->index + 1 || f->c->plan->values[value].weight != WAFER_NONE);
}

/* ---- bodies ---- */

static bool agrees(const wafer_step *s, const wafer_function *body) {
  uint64_t in = s->input_count, out = s->output_count, carried = s->carried;
  switch (s->kind) {
  case WAFER_STEP_call:
  case WAFER_STEP_fit: return body->input_count == in && body->output_count == out;
  case WAFER_STEP_if: return in >= 1 && body->input_count == in - 1 && body->output_count == out;
  case WAFER_STEP_loop:
    return in >= 2 + carried && body->input_count == in && body->output_count == out + 1 &&
           out >= carried;
  case WAFER_STEP_scan:
    return in >= carried && body->input_count == in && body->output_count == out && out >= carried;
  case WAFER_STEP_map:
    return in >= 1 && in >= carried && body->input_count == in && body->output_count == out;
  default: return false;
  }
}

static wafer_status check_bodies(const follower *f, const wafer_step *s) {
  const wafer_plan *plan = f->c->plan;
  uint32_t want = s->kind == WAFER_STEP_host  ? 0
                  : s->kind == WAFER_STEP_if  ? 2
                  : s->kind == WAFER_STEP_fit ? (s->body_count ? s->body_count : 1)
                                              : 1;
  if (s->body_count != want)
    return refuse(f, at_step(f, s), "step '%s' has %u bodies, needs %u",
                  wafer_step_kind_name(s->kind), s->body_count, want);
  for (uint32_t i = 0; i < s->body_count; i++) {
    if (s->bodies[i] <= f->index || s->bodies[i] >= plan->function_count)
      return refuse(f, at_step(f, s), "calls function %u; it may call those from %u to %u",
                    s->bodies[i], f->index + 1, plan->function_count - 1);
    if (!agrees(s, &plan->functions[s->bodies[i]]))
      return refuse(f, at_step(f, s),
                    "step '%s' and its body '%s' disagree in their numbers of values",
                    wafer_step_kind_name(s->kind), plan->functions[s->bodies[i]].name);
  }
  return WAFER_OK;
}

/* ---- steps ---- */

static wafer_status check_host(const follower *f, const wafer_step *s) {
  if (s->op <= WAFER_HOST_none || s->op >= WAFER_HOST_COUNT)
    return refuse(f, at_step(f, s), "a host step names no operator");
  const wafer_host_info *info = wafer_host_get(s->op);
  if (s->input_count < info->least || s->input_count > info->most || s->output_count < 1 ||
      s->output_count > info->outputs)
    return refuse(f, at_step(f, s), "%s has %u inputs and %u outputs, which is not what it takes",
                  info->name, s->input_count, s->output_count);
  return WAFER_OK;
}

static wafer_status check_step(follower *f, const wafer_step *s) {
  if ((uint32_t)s->kind >= WAFER_STEP_COUNT || wafer_step_on_wafer(s))
    return refuse(f, wafer_at_file(f->c->file),
                  "steps of the wafer and of the host stand together");
  if (s->kind == WAFER_STEP_host) WAFER_TRY(check_host(f, s));
  WAFER_TRY(check_bodies(f, s));
  for (uint32_t i = 0; i < s->input_count; i++)
    if (s->inputs[i] != WAFER_NONE && !is_held(f, s->inputs[i]))
      return wafer_fail(f->c->diag, at_step(f, s), WAFER_TRAP,
                        "function '%s': step '%s' uses value %u, which nothing has made",
                        f->function->name, wafer_step_kind_name(s->kind), s->inputs[i]);
  for (uint32_t i = 0; i < s->output_count; i++)
    if (s->outputs[i] != WAFER_NONE) WAFER_TRY(make_value(f, at_step(f, s), s->outputs[i]));
  return WAFER_OK;
}

static wafer_status check_function(follower *f) {
  const wafer_function *function = f->function;
  for (uint32_t i = 0; i < function->step_count; i++) WAFER_TRY(check_step(f, &function->steps[i]));
  for (uint32_t i = 0; i < function->output_count; i++)
    if (!is_held(f, function->outputs[i]))
      return wafer_fail(f->c->diag, wafer_at_file(f->c->file), WAFER_TRAP,
                        "output %u of function '%s' is made by none of its steps", i,
                        function->name);
  return WAFER_OK;
}

wafer_status plan_check_host_functions(const plan_check *c) {
  const wafer_plan *plan = c->plan;
  bool host = false;
  for (uint32_t i = 0; i < plan->function_count; i++)
    host = host || wafer_function_on_host(&plan->functions[i]);
  if (!host) return WAFER_OK;
  follower f = {.c = c, .owner = WAFER_NEW(c->arena, uint32_t, plan->value_count)};
  if (!f.owner) return plan_check_no_memory(c);
  for (f.index = 0; f.index < plan->function_count; f.index++) {
    f.function = &plan->functions[f.index];
    for (uint32_t i = 0; i < f.function->input_count; i++)
      WAFER_TRY(make_value(&f, wafer_at_file(c->file), f.function->inputs[i]));
  }
  for (f.index = 0; f.index < plan->function_count; f.index++) {
    f.function = &plan->functions[f.index];
    if (!f.function->step_count || wafer_function_on_host(f.function))
      WAFER_TRY(check_function(&f));
  }
  return WAFER_OK;
}

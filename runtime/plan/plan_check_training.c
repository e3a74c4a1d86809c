/* What a training plan promises its driver: every value that it names is an input or an output of
 * the first function, of the type that it says. */
#include "plan_check.h"

static wafer_status check_value(const plan_check *c, const char *what, uint32_t value, bool input) {
  const wafer_function *f = &c->plan->functions[0];
  if (value < c->plan->value_count && c->plan->values[value].kind == WAFER_VALUE_tensor &&
      plan_check_among(input ? f->inputs : f->outputs, input ? f->input_count : f->output_count,
                       value))
    return WAFER_OK;
  return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                    "training: %s is value %u, which is no %s of function '%s'", what, value,
                    input ? "input" : "output", f->name);
}

static wafer_status check_scalar(const plan_check *c, const char *what, uint32_t value,
                                 bool input) {
  WAFER_TRY(check_value(c, what, value, input));
  const wafer_type *type = &c->plan->values[value].type;
  if (type->dtype == WAFER_DTYPE_f32 && type->shape.rank == 0) return WAFER_OK;
  return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                    "training: %s is value '%s', which is no scalar of f32", what,
                    c->plan->values[value].name);
}

/* The gradient is of the weight's type; `before` is the weight of the one before. */
static wafer_status check_trained(const plan_check *c, const wafer_trained *t, uint32_t before) {
  const wafer_plan *plan = c->plan;
  wafer_loc loc = wafer_at_file(c->file);
  size_t count = plan->weights ? wafer_weights_count(plan->weights) : 0;
  if (t->weight >= count || (before != WAFER_NONE && t->weight <= before))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "training: weight %u follows weight %u, the plan has %zu in ascending order",
                      t->weight, before, count);
  const wafer_weight *weight = wafer_weights_at(plan->weights, t->weight);
  bool evaluates = plan->training->seed == WAFER_NONE;
  if (!weight->trained || !wafer_dtype_is_float(weight->dtype))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "training: weight '%s' is not marked as trained, or has no floats",
                      weight->name);
  if (evaluates != (t->gradient == WAFER_NONE))
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "training: weight '%s' has %s gradient, the plan has %s seed", weight->name,
                      evaluates ? "a" : "no", evaluates ? "no" : "a");
  if (t->statistic && evaluates)
    return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                      "training: weight '%s' is a statistic of an evaluation, which keeps none",
                      weight->name);
  if (evaluates) return WAFER_OK;
  WAFER_TRY(check_value(c, "a gradient", t->gradient, false));
  const wafer_value *v = &plan->values[t->gradient];
  if (v->owner == WAFER_OWNER_gradient && v->type.dtype == weight->dtype &&
      wafer_shape_equal(&v->type.shape, &weight->shape))
    return WAFER_OK;
  return wafer_fail(c->diag, loc, WAFER_BAD_INPUT,
                    "training: value '%s' is not the gradient of weight '%s' by owner or type",
                    v->name, weight->name);
}

static wafer_status check_noise(const plan_check *c, const wafer_noise *noise) {
  WAFER_TRY(check_value(c, "a noise", noise->input, true));
  const wafer_value *v = &c->plan->values[noise->input];
  if (v->type.dtype == WAFER_DTYPE_f32) return WAFER_OK;
  return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                    "training: noise '%s' is not of f32", v->name);
}

static wafer_status check_weights(const plan_check *c, const wafer_training *t) {
  size_t marked = 0, count = c->plan->weights ? wafer_weights_count(c->plan->weights) : 0;
  for (size_t i = 0; i < count; i++) marked += wafer_weights_at(c->plan->weights, i)->trained;
  if (marked != (t ? t->trained_count : 0))
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "%zu weights are marked as trained, the plan trains %u", marked,
                      t ? t->trained_count : 0);
  for (uint32_t i = 0; t && i < t->trained_count; i++)
    WAFER_TRY(check_trained(c, &t->trained[i], i ? t->trained[i - 1].weight : WAFER_NONE));
  return WAFER_OK;
}

/* Sums are there for gradients of a pipeline that trains, for all of them, and with the state that
 * its optimizer keeps. */
static wafer_status check_sums(const plan_check *c, const wafer_kernel *k) {
  const wafer_plan *plan = c->plan;
  bool updates = wafer_plan_updates(plan), any = false;
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    const wafer_value *v = &plan->values[k->outputs[i]];
    bool wanted = updates && v->owner == WAFER_OWNER_gradient, sums = wafer_body_sums(&k->body, i);
    any |= sums;
    if (sums != wanted)
      return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                        "kernel '%s' %s '%s', which is %s of pipelined training", k->name,
                        sums ? "adds up" : "does not add up", v->name,
                        wanted ? "a gradient" : "no gradient");
  }
  uint32_t state = any ? 1 + wafer_optimizer_slots(plan->training->optimizer) : 0;
  if (k->body.state == state) return WAFER_OK;
  return wafer_fail(c->diag, plan_check_at(c, k), WAFER_BAD_INPUT,
                    "kernel '%s' keeps %u values beside each element of a sum, must be %u", k->name,
                    k->body.state, state);
}

static wafer_status check_updates(const plan_check *c, const wafer_training *t) {
  if (t && wafer_plan_updates(c->plan) &&
      ((uint32_t)t->optimizer >= WAFER_OPTIMIZER_COUNT || !wafer_optimizer_on_wafer(t->optimizer)))
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "training: optimizer %u is none that a pipeline has on the wafer",
                      (unsigned)t->optimizer);
  for (uint32_t i = 0; i < c->plan->kernel_count; i++)
    WAFER_TRY(check_sums(c, &c->plan->kernels[i]));
  return WAFER_OK;
}

wafer_status plan_check_training(const plan_check *c) {
  const wafer_training *t = c->plan->training;
  WAFER_TRY(check_weights(c, t));
  WAFER_TRY(check_updates(c, t));
  if (!t) return WAFER_OK;
  WAFER_TRY(check_scalar(c, "the loss", t->loss, false));
  WAFER_TRY(check_scalar(c, "the count", t->count, false));
  if (t->correct != WAFER_NONE)
    WAFER_TRY(check_scalar(c, "the number of right answers", t->correct, false));
  WAFER_TRY(check_value(c, "labels", t->labels, true));
  if (t->seed != WAFER_NONE) WAFER_TRY(check_scalar(c, "the seed", t->seed, true));
  if (!t->micro_batch)
    return wafer_fail(c->diag, wafer_at_file(c->file), WAFER_BAD_INPUT,
                      "training: the micro-batch is 0");
  for (uint32_t i = 0; i < t->noise_count; i++) WAFER_TRY(check_noise(c, &t->noises[i]));
  return WAFER_OK;
}

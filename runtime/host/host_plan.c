#include "host_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "tensor/vmath.h"

wafer_status host_plan_no_memory(const host_plan *p) {
  return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_NO_MEMORY,
                    "no memory left for the values of the host");
}

wafer_loc host_plan_at(const host_plan *p, const wafer_step *step) {
  return step->node && *step->node ? wafer_at_node(p->plan->model, step->node, -1)
                                   : wafer_at_file(p->plan->model);
}

static void release_all(wafer_item **items, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    wafer_item_release(items[i]);
    items[i] = NULL;
  }
}

/* ---- values ---- */

static wafer_status constant(host_plan *p, uint32_t value, wafer_item **out) {
  const wafer_weight *w = wafer_weights_at(p->plan->weights, p->plan->values[value].weight);
  if (!p->constant[value]) {
    if (!w->data)
      return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_BAD_INPUT,
                        "weight '%s' has no data", w->name);
    WAFER_TRY(wafer_plan_touch_weight(p->diag, p->plan, p->plan->values[value].weight));
    wafer_view view = wafer_weight_view(w);
    p->constant[value] = wafer_item_copy(&view);
    if (!p->constant[value]) return host_plan_no_memory(p);
  }
  *out = p->constant[value];
  return WAFER_OK;
}

static wafer_status value_item(host_plan *p, uint32_t value, wafer_item **out) {
  *out = NULL;
  if (value == WAFER_NONE) return WAFER_OK;
  if (p->plan->values[value].weight != WAFER_NONE) return constant(p, value, out);
  *out = p->item[value];
  if (*out) return WAFER_OK;
  return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_TRAP,
                    "'%s' is used before anything made it", p->plan->values[value].name);
}

wafer_status host_plan_input(host_plan *p, const wafer_step *step, uint32_t input,
                             wafer_item **out) {
  return value_item(p, step->inputs[input], out);
}

/* A value of static type takes no other. */
static wafer_status check_item(const host_plan *p, uint32_t value, const wafer_item *item) {
  const wafer_value *v = &p->plan->values[value];
  char want[128], got[128];
  if (v->kind != WAFER_VALUE_tensor) return WAFER_OK;
  if (item->kind == WAFER_ITEM_tensor && item->tensor.dtype == v->type.dtype &&
      wafer_shape_equal(&item->tensor.shape, &v->type.shape))
    return WAFER_OK;
  wafer_shape_format(&v->type.shape, want, sizeof want);
  wafer_shape_format(&item->tensor.shape, got, sizeof got);
  bool tensor = item->kind == WAFER_ITEM_tensor;
  return wafer_fail(p->diag,
                    v->node && *v->node ? wafer_at_node(p->plan->model, v->node, -1)
                                        : wafer_at_file(p->plan->model),
                    WAFER_BAD_INPUT, "'%s' must be %s %s, it is %s%s%s", v->name,
                    wafer_dtype_name(v->type.dtype), want,
                    tensor ? wafer_dtype_name(item->tensor.dtype) : "a ", tensor ? " " : "",
                    tensor ? got : wafer_item_kind_name(item->kind));
}

/* Exporters declare scalars for what a branch makes as a vector of one element: what the model
 * declares, and was compiled for, holds. Takes the item over; NULL: out of memory. */
static wafer_item *as_declared(const host_plan *p, uint32_t value, wafer_item *item) {
  const wafer_type *want = &p->plan->values[value].type;
  if (p->plan->values[value].kind != WAFER_VALUE_tensor || item->kind != WAFER_ITEM_tensor ||
      item->tensor.dtype != want->dtype || wafer_shape_equal(&item->tensor.shape, &want->shape) ||
      !wafer_shape_alike(&item->tensor.shape, &want->shape))
    return item;
  wafer_view view = wafer_view_of(want->dtype, &want->shape, item->tensor.data);
  wafer_item *made = wafer_item_copy(&view);
  wafer_item_release(item);
  return made;
}

static wafer_status set_value(host_plan *p, uint32_t value, wafer_item *item) {
  wafer_item_release(p->item[value]);
  p->item[value] = item;
  if (item) p->item[value] = as_declared(p, value, item);
  if (item && !p->item[value])
    return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_NO_MEMORY, "no memory for '%s'",
                      p->plan->values[value].name);
  return check_item(p, value, p->item[value]);
}

/* ---- functions of the wafer ---- */

static wafer_status unit_of(host_plan *p, uint32_t function, wafer_session **out) {
  if (!p->unit[function])
    WAFER_TRY(session_create_unit(p->plan, function, &p->options, p->pool, &p->unit[function]));
  if (p->faults) session_share_faults(p->unit[function], p->faults);
  *out = p->unit[function];
  return WAFER_OK;
}

static wafer_status call_unit(host_plan *p, uint32_t function, wafer_item *const *inputs,
                              wafer_item **outputs) {
  const wafer_function *f = &p->plan->functions[function];
  wafer_session *unit;
  WAFER_TRY(unit_of(p, function, &unit));
  wafer_view *views = calloc((size_t)f->input_count + f->output_count + 1, sizeof *views);
  if (!views) return host_plan_no_memory(p);
  wafer_view *made = views + f->input_count;
  wafer_status status = WAFER_OK;
  for (uint32_t i = 0; i < f->input_count && status == WAFER_OK; i++) {
    status = check_item(p, f->inputs[i], inputs[i]);
    views[i] = inputs[i]->tensor;
  }
  if (status == WAFER_OK) host_counts_load(p->counts, function);
  if (p->faults) p->faults->start = host_counts_stats(p->counts).total_cycles;
  if (status == WAFER_OK)
    status = wafer_session_run(unit, views, f->input_count, made, f->output_count);
  for (uint32_t i = 0; status == WAFER_OK && i < f->output_count; i++)
    if (!(outputs[i] = wafer_item_copy(&made[i]))) status = host_plan_no_memory(p);
  if (status != WAFER_OK) release_all(outputs, f->output_count);
  if (status == WAFER_OK) {
    wafer_run_stats stats = wafer_session_stats(unit);
    host_counts_call(p->counts, function, &stats);
  }
  free(views);
  return status;
}

/* ---- steps ---- */

static wafer_status run_host(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                             wafer_item **outputs) {
  host_site site = {.diag = p->diag,
                    .loc = host_plan_at(p, step),
                    .attr_count = step->attr_count,
                    .attrs = step->attrs,
                    .input_count = step->input_count,
                    .output_count = step->output_count,
                    .inputs = inputs,
                    .outputs = outputs};
  WAFER_TRY(host_run(&site, step->op));
  for (uint32_t i = 0; i < step->output_count; i++)
    if (!outputs[i]) return host_fail(&site, "gives no output %u", i);
  return WAFER_OK;
}

static wafer_status run_if(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                           wafer_item **outputs) {
  const wafer_item *condition = inputs[0];
  int64_t count = 0;
  bool one = condition && condition->kind == WAFER_ITEM_tensor &&
             condition->tensor.dtype == WAFER_DTYPE_bool &&
             wafer_shape_elements(&condition->tensor.shape, &count) && count == 1;
  if (!one)
    return wafer_fail(p->diag, host_plan_at(p, step), WAFER_BAD_INPUT,
                      "If: the condition must be one bool");
  bool yes = *(const uint8_t *)condition->tensor.data != 0;
  return host_plan_call(p, step->bodies[yes ? 0 : 1], inputs + 1, outputs);
}

static bool fits(const host_plan *p, const wafer_function *f, wafer_item *const *inputs) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    const wafer_value *v = &p->plan->values[f->inputs[i]];
    if (v->kind != WAFER_VALUE_tensor) continue;
    if (!inputs[i] || inputs[i]->kind != WAFER_ITEM_tensor ||
        inputs[i]->tensor.dtype != v->type.dtype ||
        !wafer_shape_equal(&inputs[i]->tensor.shape, &v->type.shape))
      return false;
  }
  return true;
}

static wafer_status run_fit(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                            wafer_item **outputs) {
  for (uint32_t i = 0; i < step->body_count; i++)
    if (fits(p, &p->plan->functions[step->bodies[i]], inputs))
      return host_plan_call(p, step->bodies[i], inputs, outputs);
  char shapes[512] = "";
  for (uint32_t i = 0; i < step->input_count && strlen(shapes) + 128 < sizeof shapes; i++) {
    size_t used = strlen(shapes);
    snprintf(shapes + used, sizeof shapes - used, "%s", used ? ", " : "");
    if (inputs[i]) wafer_shape_format(&inputs[i]->tensor.shape, shapes + strlen(shapes), 64);
  }
  return wafer_fail(p->diag, host_plan_at(p, step), WAFER_BAD_INPUT,
                    "inputs of shapes %s fit none of the %u sizes that the plan was made for",
                    shapes, step->body_count);
}

static wafer_status run_kind(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                             wafer_item **outputs) {
  switch (step->kind) {
  case WAFER_STEP_host: return run_host(p, step, inputs, outputs);
  case WAFER_STEP_call: return host_plan_call(p, step->bodies[0], inputs, outputs);
  case WAFER_STEP_fit: return run_fit(p, step, inputs, outputs);
  case WAFER_STEP_if: return run_if(p, step, inputs, outputs);
  case WAFER_STEP_loop: return host_plan_loop(p, step, inputs, outputs);
  case WAFER_STEP_scan: return host_plan_scan(p, step, inputs, outputs);
  case WAFER_STEP_map: return host_plan_map(p, step, inputs, outputs);
  default:
    return wafer_fail(p->diag, host_plan_at(p, step), WAFER_TRAP,
                      "a step of the wafer stands in a function of the host");
  }
}

static wafer_status run_step(host_plan *p, const wafer_step *step) {
  wafer_item **inputs = calloc((size_t)step->input_count + step->output_count + 1, sizeof *inputs);
  if (!inputs) return host_plan_no_memory(p);
  wafer_item **outputs = inputs + step->input_count;
  wafer_status status = WAFER_OK;
  for (uint32_t i = 0; i < step->input_count && status == WAFER_OK; i++)
    status = host_plan_input(p, step, i, &inputs[i]);
  if (status == WAFER_OK) status = run_kind(p, step, inputs, outputs);
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (!outputs[i]) continue;
    if (status == WAFER_OK && step->outputs[i] != WAFER_NONE)
      status = set_value(p, step->outputs[i], outputs[i]);
    else
      wafer_item_release(outputs[i]);
  }
  free(inputs);
  return status;
}

/* ---- functions of the host ---- */

static void drop_value(host_plan *p, uint32_t value) {
  if (value == WAFER_NONE) return;
  wafer_item_release(p->item[value]);
  p->item[value] = NULL;
}

static void leave(host_plan *p, const wafer_function *f) {
  for (uint32_t i = 0; i < f->input_count; i++) drop_value(p, f->inputs[i]);
  for (uint32_t s = 0; s < f->step_count; s++)
    for (uint32_t i = 0; i < f->steps[s].output_count; i++) drop_value(p, f->steps[s].outputs[i]);
}

static wafer_status follow(host_plan *p, const wafer_function *f, wafer_item *const *inputs,
                           wafer_item **outputs) {
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!inputs[i])
      return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_BAD_INPUT,
                        "function '%s' is called without its input '%s'", f->name,
                        p->plan->values[f->inputs[i]].name);
    WAFER_TRY(set_value(p, f->inputs[i], wafer_item_retain(inputs[i])));
  }
  for (uint32_t s = 0; s < f->step_count; s++) WAFER_TRY(run_step(p, &f->steps[s]));
  for (uint32_t i = 0; i < f->output_count; i++)
    WAFER_TRY(value_item(p, f->outputs[i], &outputs[i]));
  for (uint32_t i = 0; i < f->output_count; i++) wafer_item_retain(outputs[i]);
  return WAFER_OK;
}

wafer_status host_plan_call(host_plan *p, uint32_t function, wafer_item *const *inputs,
                            wafer_item **outputs) {
  const wafer_function *f = &p->plan->functions[function];
  if (wafer_function_on_wafer(f)) {
    for (uint32_t i = 0; i < f->input_count; i++)
      if (!inputs[i] || inputs[i]->kind != WAFER_ITEM_tensor)
        return wafer_fail(p->diag, wafer_at_file(p->plan->model), WAFER_BAD_INPUT,
                          "function '%s' of the wafer takes a tensor as input '%s'", f->name,
                          p->plan->values[f->inputs[i]].name);
    return call_unit(p, function, inputs, outputs);
  }
  wafer_status status = follow(p, f, inputs, outputs);
  leave(p, f);
  if (status != WAFER_OK)
    for (uint32_t i = 0; i < f->output_count; i++) outputs[i] = NULL;
  return status;
}

/* ---- the host plan ---- */

wafer_status host_plan_run(host_plan *p, wafer_item *const *inputs, wafer_item **outputs) {
  release_all(p->results, p->result_count);
  WAFER_TRY(host_plan_call(p, 0, inputs, p->results));
  host_counts_sample(p->counts);
  for (uint32_t i = 0; i < p->result_count; i++) outputs[i] = p->results[i];
  return WAFER_OK;
}

void host_plan_begin(host_plan *p) {
  host_counts_forget(p->counts);
}

wafer_run_stats host_plan_stats(const host_plan *p) {
  wafer_run_stats stats = host_counts_stats(p->counts);
  for (uint32_t i = 0; i < p->plan->function_count; i++)
    if (p->unit[i]) stats.peak_bytes += wafer_session_stats(p->unit[i]).peak_bytes;
  stats.instruction_set = vmath_instruction_set();
  stats.fault_struck = p->faults ? p->faults->struck : NULL;
  return stats;
}

wafer_status host_plan_create(const wafer_plan *plan, const wafer_session_options *options,
                              thread_pool *pool, host_plan **out) {
  const wafer_diag *diag = options ? options->diag : NULL;
  host_plan *p = calloc(1, sizeof *p);
  *out = p;
  if (!p)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for a session");
  *p = (host_plan){.plan = plan,
                   .diag = diag,
                   .pool = pool,
                   .result_count = plan->functions[0].output_count,
                   .unit = calloc(plan->function_count, sizeof *p->unit),
                   .item = calloc((size_t)plan->value_count + 1, sizeof *p->item),
                   .constant = calloc((size_t)plan->value_count + 1, sizeof *p->constant),
                   .results =
                       calloc((size_t)plan->functions[0].output_count + 1, sizeof *p->results)};
  if (options) p->options = *options;
  if (p->options.fault_count && p->options.fidelity == WAFER_FIDELITY_fabric) {
    p->faults = session_faults_create(p->options.faults, p->options.fault_count);
    if (!p->faults) return host_plan_no_memory(p);
    p->options.fault_count = 0; /* units share them */
  }
  p->counts = host_counts_create(plan, &p->options);
  if (!p->unit || !p->item || !p->constant || !p->results || !p->counts)
    return host_plan_no_memory(p);
  for (uint32_t i = 0; i < plan->function_count; i++) {
    wafer_session *unit;
    const wafer_function *f = &plan->functions[i];
    if (wafer_function_on_wafer(f)) WAFER_TRY(unit_of(p, i, &unit));
  }
  return WAFER_OK;
}

void host_plan_destroy(host_plan *p) {
  if (!p) return;
  for (uint32_t i = 0; p->unit && i < p->plan->function_count; i++)
    wafer_session_destroy(p->unit[i]);
  if (p->item) release_all(p->item, p->plan->value_count);
  if (p->constant) release_all(p->constant, p->plan->value_count);
  if (p->results) release_all(p->results, p->result_count);
  free(p->unit);
  free(p->item);
  free(p->constant);
  free(p->results);
  host_counts_destroy(p->counts);
  session_faults_destroy(p->faults);
  free(p);
}

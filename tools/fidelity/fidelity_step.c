/* A step of pipelined training in `wafer check`: after the train the weights are updated on the
 * wafer, and by MemoryX's rules from the same sums; then a second train has the new ones, at both
 * fidelities. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fidelity.h"
#include "wafer/memoryx.h"

static size_t elements_of(const wafer_shape *shape) {
  int64_t count = 0;
  (void)wafer_shape_elements(shape, &count);
  return (size_t)count;
}

static const wafer_weight *weight_of(const wafer_plan *plan, uint32_t trained) {
  return wafer_weights_at(plan->weights, plan->training->trained[trained].weight);
}

wafer_status check_step_begin(const wafer_plan *plan, wafer_arena *arena, uint64_t samples,
                              check_step *out) {
  uint32_t count = plan->training->trained_count;
  wafer_optimizer optimizer = wafer_optimizer_default(plan->training->optimizer);
  double each = 1 / (double)samples;
  *out = (check_step){.optimizer = optimizer,
                      .update = {.number = 1, .lr = optimizer.lr, .scale = each, .share = each},
                      .weights = WAFER_NEW(arena, float *, count)};
  if (!out->weights) return cli_no_memory();
  for (uint32_t i = 0; i < count; i++) {
    out->weights[i] = WAFER_NEW(arena, float, elements_of(&weight_of(plan, i)->shape));
    if (!out->weights[i]) return cli_no_memory();
  }
  out->predicted = wafer_plan_launched_step(plan);
  return wafer_plan_step_cycles(cli_diag(), plan, samples, &out->formula);
}

/* ---- MemoryX ---- */

/* The sums of the train, one after the other, as MemoryX has gradients. */
static void put_sums(const wafer_plan *plan, const wafer_view *outputs, const wafer_memoryx *m,
                     float *to) {
  const wafer_function *f = &plan->functions[0];
  for (uint32_t i = 0; i < plan->training->trained_count; i++) {
    uint32_t o = 0;
    while (f->outputs[o] != plan->training->trained[i].gradient) o++;
    uint64_t first = wafer_memoryx_offset(m, i), end = wafer_memoryx_offset(m, i + 1);
    for (uint64_t e = first; e < end; e++)
      to[e] = (float)wafer_element_f64(outputs[o].dtype, outputs[o].data, (int64_t)(e - first));
  }
}

/* Its value of a weight is rounded to the weight's type; so is what is compared with it. */
static double difference_of(const wafer_weight *w, const void *wanted, const float *got,
                            void *rounded) {
  size_t count = elements_of(&w->shape);
  for (size_t e = 0; e < count; e++)
    wafer_element_set_f64(w->dtype, rounded, (int64_t)e, (double)got[e]);
  const wafer_view have = wafer_view_of(w->dtype, &w->shape, rounded);
  const wafer_view want = wafer_view_of(w->dtype, &w->shape, (void *)(uintptr_t)wanted);
  return check_difference(&have, &want, 0);
}

/* What clipping and a loss scale want to know, from the same sums in f64. */
static wafer_status compare_norm(wafer_arena *arena, const wafer_plan *plan, wafer_memoryx *m,
                                 const float *sums, check_step *step) {
  double *each = WAFER_NEW(arena, double, plan->training->trained_count), all = 0;
  if (!each) return cli_no_memory();
  wafer_memoryx_squares(m, sums, each);
  for (uint32_t i = 0; i < plan->training->trained_count; i++) all += each[i];
  double wanted = sqrt(all) * step->update.scale;
  bool same = step->norm == wanted || (!isfinite(step->norm) && !isfinite(wanted));
  step->norm_difference = same ? 0 : fabs(step->norm - wanted) / wanted;
  return WAFER_OK;
}

static wafer_status compare(const wafer_plan *plan, wafer_arena *arena, wafer_memoryx *m,
                            const check_run *fabric, check_step *step) {
  const wafer_training *t = plan->training;
  float *sums = WAFER_NEW(arena, float, wafer_memoryx_offset(m, t->trained_count) + 1);
  if (!sums) return cli_no_memory();
  put_sums(plan, fabric->outputs, m, sums);
  WAFER_TRY(compare_norm(arena, plan, m, sums, step));
  wafer_memoryx_update(m, &step->update, sums);
  for (uint32_t i = 0; i < t->trained_count; i++) {
    const wafer_weight *w = weight_of(plan, i);
    void *rounded = wafer_arena_alloc(arena, wafer_tensor_bytes(w->dtype, &w->shape) + 1, 16);
    if (!rounded) return cli_no_memory();
    double d = difference_of(w, wafer_memoryx_weight(m, i), step->weights[i], rounded);
    if (!(d <= step->difference)) step->difference = d;
  }
  return WAFER_OK;
}

static wafer_status compare_weights(const wafer_plan *plan, wafer_arena *arena,
                                    const check_run *fabric, check_step *step) {
  const wafer_training *t = plan->training;
  const wafer_memoryx_options options = {
      .optimizer = step->optimizer, .threads = 1, .diag = cli_diag()};
  wafer_parameter *parameters = WAFER_NEW(arena, wafer_parameter, t->trained_count);
  wafer_memoryx *m;
  if (!parameters) return cli_no_memory();
  for (uint32_t i = 0; i < t->trained_count; i++) {
    const wafer_weight *w = weight_of(plan, i);
    parameters[i] = (wafer_parameter){.name = w->name,
                                      .dtype = w->dtype,
                                      .shape = w->shape,
                                      .initial = w->data,
                                      .statistic = t->trained[i].statistic};
  }
  WAFER_TRY(wafer_memoryx_create(&options, parameters, t->trained_count, &m));
  wafer_status status = compare(plan, arena, m, fabric, step);
  wafer_memoryx_destroy(m);
  return status;
}

/* ---- two trains ---- */

static wafer_status run_again(const wafer_plan *plan, wafer_arena *arena, wafer_session *session,
                              const wafer_view *inputs, wafer_view **out) {
  const wafer_function *f = &plan->functions[0];
  *out = WAFER_NEW(arena, wafer_view, f->output_count);
  if (!*out) return cli_no_memory();
  WAFER_TRY(wafer_session_run(session, inputs, f->input_count, *out, f->output_count));
  return check_keep_outputs(plan, arena, *out);
}

wafer_status check_step_fabric(const wafer_plan *plan, wafer_arena *arena, wafer_session *session,
                               const wafer_view *inputs, const check_run *fabric,
                               check_step *step) {
  double squares;
  WAFER_TRY(wafer_session_squares(session, &squares));
  step->norm = sqrt(squares) * step->update.scale;
  WAFER_TRY(wafer_session_update(session, &step->optimizer, &step->update, step->weights,
                                 &step->counted));
  WAFER_TRY(compare_weights(plan, arena, fabric, step));
  return run_again(plan, arena, session, inputs, &step->fabric);
}

wafer_status check_step_kernel(const wafer_plan *plan, wafer_arena *arena, wafer_session *session,
                               const wafer_view *inputs, check_step *step) {
  for (uint32_t i = 0; i < plan->training->trained_count; i++) {
    const wafer_weight *w = weight_of(plan, i);
    size_t count = elements_of(&w->shape);
    void *data = wafer_arena_alloc(arena, wafer_tensor_bytes(w->dtype, &w->shape) + 1, 16);
    if (!data) return cli_no_memory();
    for (size_t e = 0; e < count; e++)
      wafer_element_set_f64(w->dtype, data, (int64_t)e, (double)step->weights[i][e]);
    WAFER_TRY(wafer_session_bind_weight(session, plan->training->trained[i].weight, data));
  }
  return run_again(plan, arena, session, inputs, &step->kernel);
}

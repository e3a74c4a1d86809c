/* The end of a step of pipelined training at fabric fidelity: the launches behind the train. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"
#include "train/optimizer_rules.h"

static bool make_stored(session_fabric *s, uint32_t value) {
  size_t bytes = session_fabric_elements(s, value) * sizeof(float);
  if (!s->stored[value]) s->stored[value] = malloc(bytes + 1);
  return s->stored[value];
}

wafer_status session_fabric_master(session_fabric *s, uint32_t value) {
  const wafer_plan *plan = s->plan;
  uint32_t weight = plan->training->trained[value - plan->step_values - 1].weight;
  const wafer_weight *w = wafer_weights_at(plan->weights, weight);
  if (s->stored[value]) return WAFER_OK;
  WAFER_TRY(wafer_plan_touch_weight(s->diag, plan, weight));
  if (!make_stored(s, value)) return session_fabric_no_memory(s);
  float *to = s->stored[value];
  for (size_t i = 0; i < session_fabric_elements(s, value); i++)
    to[i] = (float)wafer_element_f64(w->dtype, w->data, (int64_t)i);
  return WAFER_OK;
}

/* As runtime/train/optimizer_rules.c and memoryx.c have them. */
static void set_numbers(const wafer_optimizer *optimizer, const wafer_update *update, float *to) {
  rule_step step = rule_step_of(optimizer, update->number, update->lr, update->scale);
  float kept = 1 - step.lr * step.decay, share = (float)update->share;
  const float numbers[WAFER_NUMBER_COUNT] = {
      [WAFER_NUMBER_scale] = step.scale, [WAFER_NUMBER_decay] = step.decay,
      [WAFER_NUMBER_lr] = step.lr,       [WAFER_NUMBER_momentum] = step.momentum,
      [WAFER_NUMBER_rest1] = step.rest1, [WAFER_NUMBER_beta2] = step.beta2,
      [WAFER_NUMBER_rest2] = step.rest2, [WAFER_NUMBER_root] = step.root,
      [WAFER_NUMBER_eps] = step.eps,     [WAFER_NUMBER_size] = step.size,
      [WAFER_NUMBER_kept] = kept,        [WAFER_NUMBER_share] = share};
  memcpy(to, numbers, sizeof numbers);
}

static wafer_status read_weights(session_fabric *s, const fabric_launch *l, float *const *weights) {
  const wafer_training *t = s->plan->training;
  for (uint32_t i = 0; i < l->of->tap_count; i++) {
    const wafer_tap *tap = &l->of->taps[i];
    for (uint32_t k = 0; tap->weight && k < t->trained_count; k++)
      if (t->trained[k].gradient == s->plan->kernels[tap->kernel].outputs[tap->output] &&
          weights[k])
        WAFER_TRY(session_fabric_new_weight(s, tap, weights[k]));
  }
  return WAFER_OK;
}

/* All launches of that kind. */
static wafer_status run_part(session_fabric *s, wafer_launch_kind kind, float *const *weights,
                             double *squares) {
  const fabric_io io = {.samples = 1};
  uint64_t *cycles = wafer_step_part(&s->step, kind);
  for (uint32_t i = 0; i < s->launch_count; i++) {
    fabric_launch *l = &s->launches[i];
    if (l->of->kind != kind) continue;
    WAFER_TRY(session_fabric_only(s, l, &io));
    *cycles += l->stats.cycles;
    if (weights) WAFER_TRY(read_weights(s, l, weights));
    for (uint32_t p = 0; squares && p < l->body.port_count; p++) {
      float sum;
      memcpy(&sum, l->words[p], sizeof sum);
      *squares += (double)sum;
    }
  }
  return WAFER_OK;
}

static wafer_status gather(session_fabric *s) {
  if (!s->gathered) WAFER_TRY(run_part(s, WAFER_LAUNCH_gather, NULL, NULL));
  s->gathered = true;
  return WAFER_OK;
}

wafer_status session_fabric_squares(session_fabric *s, double *squares) {
  *squares = 0;
  WAFER_TRY(gather(s));
  s->step.norm = s->plan->machine->edge_latency_cycles;
  return run_part(s, WAFER_LAUNCH_norm, NULL, squares);
}

wafer_status session_fabric_update(session_fabric *s, const wafer_optimizer *optimizer,
                                   const wafer_update *update, float *const *weights,
                                   wafer_step_cycles *counted) {
  static const wafer_launch_kind parts[] = {WAFER_LAUNCH_control, WAFER_LAUNCH_update,
                                            WAFER_LAUNCH_send};
  if (!make_stored(s, s->plan->step_values)) return session_fabric_no_memory(s);
  set_numbers(optimizer, update, s->stored[s->plan->step_values]);
  WAFER_TRY(gather(s));
  for (uint32_t i = 0; i < WAFER_COUNT(parts); i++) WAFER_TRY(run_part(s, parts[i], weights, NULL));
  s->step.control += s->plan->machine->edge_latency_cycles;
  *counted = s->step;
  counted->step =
      counted->gather + counted->norm + counted->control + counted->update + counted->send;
  s->step = (wafer_step_cycles){0};
  return WAFER_OK;
}

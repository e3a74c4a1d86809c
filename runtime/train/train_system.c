/* A system: a session of a training plan. */
#include <stdlib.h>
#include <string.h>

#include "wafer/session.h"
#include "wafer/train.h"

typedef struct plan_system {
  const wafer_diag *diag;
  const wafer_plan *plan;
  wafer_session *session;
  uint32_t field_count;
  uint32_t *field_inputs; /* input of functions[0] that takes a field */
  float seed;
  float **noises; /* of the plan's noises */
  wafer_view *inputs, *outputs, *gradients;
  uint32_t loss, count, correct; /* outputs; correct or NONE */
  uint32_t *gradient_outputs;
  uint64_t *left,
      *read; /* per trained weight, of the last run; NULL: the plan updates them itself */
} plan_system;

static uint32_t position(const uint32_t *values, uint32_t count, uint32_t value) {
  uint32_t i = 0;
  while (i < count && values[i] != value) i++;
  return i < count ? i : WAFER_NONE;
}

static bool is_field(const wafer_plan *plan, uint32_t value) {
  const wafer_training *t = plan->training;
  if (value == t->labels || value == t->seed) return false;
  for (uint32_t i = 0; i < t->noise_count; i++)
    if (t->noises[i].input == value) return false;
  return true;
}

uint32_t wafer_plan_fields(const wafer_plan *plan, uint32_t *values, uint32_t room) {
  const wafer_function *f = &plan->functions[0];
  uint32_t count = 0;
  for (uint32_t i = 0; i < f->input_count; i++) {
    if (!is_field(plan, f->inputs[i])) continue;
    if (count < room) values[count] = f->inputs[i];
    count++;
  }
  if (count < room) values[count] = plan->training->labels;
  return count + 1;
}

/* ---- draws ---- */

static uint32_t high(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)a * b >> 32);
}

static void philox(uint32_t x[4], uint64_t key) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint32_t y[4] = {high(0xcd9e8d57u, x[2]) ^ x[1] ^ k0, 0xcd9e8d57u * x[2],
                     high(0xd2511f53u, x[0]) ^ x[3] ^ k1, 0xd2511f53u * x[0]};
    memcpy(x, y, sizeof y);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
}

void wafer_draw_uniform(uint64_t seed, uint64_t node, uint64_t step, uint64_t index, float *to,
                        uint64_t count) {
  uint64_t key = wafer_mix(seed, node), where = wafer_mix(step, index);
  for (uint64_t i = 0; i < count; i += 4) {
    uint32_t x[4] = {(uint32_t)(i / 4), (uint32_t)(i / 4 >> 32), (uint32_t)where,
                     (uint32_t)(where >> 32)};
    philox(x, key);
    for (uint64_t j = 0; j < 4 && i + j < count; j++) to[i + j] = (float)(x[j] >> 8) * 0x1p-24f;
  }
}

/* ---- running ---- */

static uint64_t elements_of(const wafer_plan *plan, uint32_t value) {
  int64_t count = 0;
  (void)wafer_shape_elements(&plan->values[value].type.shape, &count);
  return (uint64_t)count;
}

static wafer_status system_bind(void *self, uint32_t parameter, const void *data) {
  plan_system *s = self;
  return wafer_session_bind_weight(s->session, s->plan->training->trained[parameter].weight, data);
}

static float scalar(const plan_system *s, uint32_t output) {
  return output == WAFER_NONE
             ? 0
             : (float)wafer_element_f64(s->outputs[output].dtype, s->outputs[output].data, 0);
}

/* Of a pipeline gradients do not leave the wafer. */
static void tell_time(plan_system *s, wafer_answer *out) {
  const wafer_training *t = s->plan->training;
  wafer_run_stats stats = wafer_session_stats(s->session);
  out->cycles = stats.total_cycles;
  if (wafer_plan_updates(s->plan) || !stats.output_cycles) return;
  for (uint32_t i = 0; i < t->trained_count; i++) {
    s->left[i] = stats.output_cycles[s->gradient_outputs[i]];
    s->read[i] = stats.weight_cycles[t->trained[i].weight];
  }
  out->left = s->left;
  out->read = s->read;
}

static wafer_status system_run(void *self, const wafer_micro_batch *batch, wafer_answer *out) {
  plan_system *s = self;
  const wafer_training *t = s->plan->training;
  const wafer_function *f = &s->plan->functions[0];
  for (uint32_t i = 0; i < s->field_count; i++)
    s->inputs[s->field_inputs[i]].data = (void *)(uintptr_t)batch->fields[i];
  s->seed = batch->loss_gradient;
  for (uint32_t i = 0; i < t->noise_count; i++)
    wafer_draw_uniform(batch->seed, t->noises[i].key, batch->step, batch->index, s->noises[i],
                       elements_of(s->plan, t->noises[i].input));
  WAFER_TRY(wafer_session_run(s->session, s->inputs, f->input_count, s->outputs, f->output_count));
  *out = (wafer_answer){.loss = scalar(s, s->loss),
                        .count = scalar(s, s->count),
                        .correct = scalar(s, s->correct),
                        .gradients = s->gradients};
  if (t->seed == WAFER_NONE) return WAFER_OK;
  out->gradient_count = t->trained_count;
  for (uint32_t i = 0; i < t->trained_count; i++)
    s->gradients[i] = s->outputs[s->gradient_outputs[i]];
  tell_time(s, out);
  return WAFER_OK;
}

static void system_destroy(void *self) {
  plan_system *s = self;
  const wafer_training *t = s->plan->training;
  wafer_session_destroy(s->session);
  for (uint32_t i = 0; s->noises && i < t->noise_count; i++) free(s->noises[i]);
  free(s->noises);
  free(s->field_inputs);
  free(s->gradient_outputs);
  free(s->left);
  free(s->read);
  free(s->inputs);
  free(s->outputs);
  free(s->gradients);
  free(s);
}

/* ---- opening ---- */

static bool take_memory(plan_system *s) {
  const wafer_training *t = s->plan->training;
  const wafer_function *f = &s->plan->functions[0];
  s->field_inputs = calloc(f->input_count + 1, sizeof *s->field_inputs);
  s->inputs = calloc(f->input_count + 1, sizeof *s->inputs);
  s->outputs = calloc(f->output_count + 1, sizeof *s->outputs);
  s->gradients = calloc(t->trained_count + 1, sizeof *s->gradients);
  s->gradient_outputs = calloc(t->trained_count + 1, sizeof *s->gradient_outputs);
  s->left = calloc(t->trained_count + 1, sizeof *s->left);
  s->read = calloc(t->trained_count + 1, sizeof *s->read);
  s->noises = calloc(t->noise_count + 1, sizeof *s->noises);
  if (!s->field_inputs || !s->inputs || !s->outputs || !s->gradients || !s->gradient_outputs ||
      !s->left || !s->read || !s->noises)
    return false;
  for (uint32_t i = 0; i < t->noise_count; i++)
    if (!(s->noises[i] = calloc(elements_of(s->plan, t->noises[i].input) + 1, sizeof(float))))
      return false;
  return true;
}

/* Where everything lies among the inputs and outputs of functions[0]; plan_check has seen that it
 * does. */
static void find_ports(plan_system *s) {
  const wafer_training *t = s->plan->training;
  const wafer_function *f = &s->plan->functions[0];
  for (uint32_t i = 0; i < f->input_count; i++) {
    const wafer_type *type = &s->plan->values[f->inputs[i]].type;
    s->inputs[i] = wafer_view_of(type->dtype, &type->shape, NULL);
    if (is_field(s->plan, f->inputs[i])) s->field_inputs[s->field_count++] = i;
    if (f->inputs[i] == t->seed) s->inputs[i].data = &s->seed;
    for (uint32_t n = 0; n < t->noise_count; n++)
      if (t->noises[n].input == f->inputs[i]) s->inputs[i].data = s->noises[n];
  }
  s->field_inputs[s->field_count++] = position(f->inputs, f->input_count, t->labels);
  s->loss = position(f->outputs, f->output_count, t->loss);
  s->count = position(f->outputs, f->output_count, t->count);
  s->correct = position(f->outputs, f->output_count, t->correct);
  for (uint32_t i = 0; i < t->trained_count; i++)
    s->gradient_outputs[i] = position(f->outputs, f->output_count, t->trained[i].gradient);
}

wafer_status wafer_system_open(const wafer_diag *diag, const wafer_plan *plan, uint32_t threads,
                               wafer_system *out) {
  *out = (wafer_system){0};
  if (!plan->training)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_USAGE,
                      "the plan is of inference, not of training");
  plan_system *s = calloc(1, sizeof *s);
  wafer_session_options options = {.threads = threads, .diag = diag};
  if (!s) return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory");
  s->diag = diag;
  s->plan = plan;
  wafer_status status = take_memory(s) ? wafer_session_create(plan, &options, &s->session)
                                       : wafer_fail(diag, wafer_at_file(plan->model),
                                                    WAFER_NO_MEMORY, "out of memory for a system");
  if (status != WAFER_OK) return system_destroy(s), status;
  find_ports(s);
  *out = (wafer_system){s, system_bind, system_run, system_destroy};
  return WAFER_OK;
}

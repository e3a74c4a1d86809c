/* What a training step consists of: kernels of the forward pass, of the loss, of the backward pass,
 * and of what the backward pass computes again. A kernel is of the pass that its anchor's node is
 * named after. */
#include <cjson/cJSON.h>
#include <string.h>

#include "report.h"

enum { FORWARD, LOSS, BACKWARD, AGAIN, STAGES };
static const char *const names[STAGES] = {"forward", "loss", "backward", "computed again"};
static const char *const keys[STAGES] = {"forward", "loss", "backward", "again"};

typedef struct stages {
  uint64_t kernels[STAGES], cycles[STAGES], parameters;
} stages;

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

static int stage_of(const wafer_kernel *k) {
  const char *node = k->body.nodes[k->body.anchor].name;
  if (!node) return FORWARD;
  if (ends_with(node, ".backward")) return BACKWARD;
  return ends_with(node, ".again") ? AGAIN : !strcmp(node, "loss") ? LOSS : FORWARD;
}

static stages count(const wafer_plan *plan) {
  stages s = {0};
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    int stage = stage_of(&plan->kernels[i]);
    s.kernels[stage]++;
    s.cycles[stage] += wafer_kernel_cycles(&plan->kernels[i]);
  }
  for (uint32_t i = 0; i < plan->training->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, plan->training->trained[i].weight);
    int64_t elements = 0;
    wafer_shape_elements(&w->shape, &elements);
    s.parameters += (uint64_t)elements;
  }
  return s;
}

/* Of a step with one micro-batch: what does not grow with their number. */
static bool find_update(const wafer_plan *plan, wafer_step_cycles *out) {
  return wafer_plan_updates(plan) && wafer_plan_step_cycles(cli_diag(), plan, 1, out) == WAFER_OK;
}

static void print_update(FILE *to, const wafer_plan *plan) {
  typedef unsigned long long ull;
  wafer_step_cycles u;
  if (!find_update(plan, &u)) return;
  fprintf(to,
          "  weights stay on the wafer: %s once a batch, %llu cycles: gather %llu, norm %llu, "
          "control %llu, update %llu, send %llu (%llu words)\n",
          wafer_optimizer_name(plan->training->optimizer), (ull)(u.step - u.train), (ull)u.gather,
          (ull)u.norm, (ull)u.control, (ull)u.update, (ull)u.send, (ull)u.sent_words);
}

static void add_update(cJSON *to, const wafer_plan *plan) {
  wafer_step_cycles u;
  if (!find_update(plan, &u)) return;
  cJSON *o = cJSON_AddObjectToObject(to, "on_wafer");
  cJSON_AddStringToObject(o, "optimizer", wafer_optimizer_name(plan->training->optimizer));
  cJSON_AddNumberToObject(o, "gather_cycles", (double)u.gather);
  cJSON_AddNumberToObject(o, "norm_cycles", (double)u.norm);
  cJSON_AddNumberToObject(o, "control_cycles", (double)u.control);
  cJSON_AddNumberToObject(o, "update_cycles", (double)u.update);
  cJSON_AddNumberToObject(o, "send_cycles", (double)u.send);
  cJSON_AddNumberToObject(o, "sent_words", (double)u.sent_words);
}

void report_print_training(FILE *to, const wafer_plan *plan) {
  if (!plan->training) return;
  stages s = count(plan);
  fprintf(to, "training: a sample above is a micro-batch of %u; %llu parameters in %u weights\n",
          plan->training->micro_batch, (unsigned long long)s.parameters,
          plan->training->trained_count);
  for (int i = 0; i < STAGES; i++)
    if (s.kernels[i])
      fprintf(to, "  %-15s %5llu kernels, %llu cycles\n", names[i],
              (unsigned long long)s.kernels[i], (unsigned long long)s.cycles[i]);
  print_update(to, plan);
  fputc('\n', to);
}

void report_add_training(cJSON *root, const wafer_plan *plan) {
  if (!plan->training) return;
  stages s = count(plan);
  cJSON *o = cJSON_AddObjectToObject(root, "training");
  cJSON_AddNumberToObject(o, "micro_batch_samples", plan->training->micro_batch);
  cJSON_AddNumberToObject(o, "weights", plan->training->trained_count);
  cJSON_AddNumberToObject(o, "parameters", (double)s.parameters);
  add_update(o, plan);
  for (int i = 0; i < STAGES; i++) {
    cJSON *stage = cJSON_AddObjectToObject(o, keys[i]);
    cJSON_AddNumberToObject(stage, "kernels", (double)s.kernels[i]);
    cJSON_AddNumberToObject(stage, "kernel_cycles", (double)s.cycles[i]);
  }
}

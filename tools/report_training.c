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
    s.cycles[stage] += plan->kernels[i].cost.cycles;
  }
  for (uint32_t i = 0; i < plan->training->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, plan->training->trained[i].weight);
    int64_t elements = 0;
    wafer_shape_elements(&w->shape, &elements);
    s.parameters += (uint64_t)elements;
  }
  return s;
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
  fputc('\n', to);
}

void report_add_training(cJSON *root, const wafer_plan *plan) {
  if (!plan->training) return;
  stages s = count(plan);
  cJSON *o = cJSON_AddObjectToObject(root, "training");
  cJSON_AddNumberToObject(o, "micro_batch_samples", plan->training->micro_batch);
  cJSON_AddNumberToObject(o, "weights", plan->training->trained_count);
  cJSON_AddNumberToObject(o, "parameters", (double)s.parameters);
  for (int i = 0; i < STAGES; i++) {
    cJSON *stage = cJSON_AddObjectToObject(o, keys[i]);
    cJSON_AddNumberToObject(stage, "kernels", (double)s.kernels[i]);
    cJSON_AddNumberToObject(stage, "kernel_cycles", (double)s.cycles[i]);
  }
}

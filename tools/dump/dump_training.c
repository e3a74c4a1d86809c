/* The training of a plan: what its driver gives and gets. */
#include <cjson/cJSON.h>
#include <string.h>

#include "dump.h"

static const char *value_name(const wafer_plan *plan, uint32_t value) {
  return value == WAFER_NONE ? "none" : plan->values[value].name;
}

void dump_training(FILE *to, const wafer_plan *plan) {
  const wafer_training *t = plan->training;
  char type[128];
  if (!t) return;
  dump_type(&plan->values[t->labels].type, type, sizeof type);
  fprintf(to, "\ntraining: a run is a micro-batch of %u; labels %s: %s, loss %s, count %s",
          t->micro_batch, value_name(plan, t->labels), type, value_name(plan, t->loss),
          value_name(plan, t->count));
  if (t->correct != WAFER_NONE) fprintf(to, ", correct %s", value_name(plan, t->correct));
  if (t->seed != WAFER_NONE) fprintf(to, ", seed %s", value_name(plan, t->seed));
  if (wafer_plan_updates(plan))
    fprintf(to, ", updates by %s where gradients are added up", wafer_optimizer_name(t->optimizer));
  fputc('\n', to);
  for (uint32_t i = 0; i < t->noise_count; i++)
    fprintf(to, "  noise    %s, key %016llx\n", value_name(plan, t->noises[i].input),
            (ull)t->noises[i].key);
  for (uint32_t i = 0; i < t->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, t->trained[i].weight);
    dump_type(&(wafer_type){w->dtype, w->shape}, type, sizeof type);
    fprintf(to, "  trained  %s: %s, gradient %s\n", w->name, type,
            value_name(plan, t->trained[i].gradient));
  }
}

static void add_value(cJSON *to, const wafer_plan *plan, const char *key, uint32_t value) {
  if (value != WAFER_NONE) cJSON_AddStringToObject(to, key, plan->values[value].name);
}

void dump_training_json(cJSON *root, const wafer_plan *plan) {
  const wafer_training *t = plan->training;
  if (!t) return;
  cJSON *o = cJSON_AddObjectToObject(root, "training");
  cJSON_AddNumberToObject(o, "micro_batch_samples", t->micro_batch);
  add_value(o, plan, "loss", t->loss);
  add_value(o, plan, "count", t->count);
  add_value(o, plan, "correct", t->correct);
  add_value(o, plan, "labels", t->labels);
  add_value(o, plan, "seed", t->seed);
  if (wafer_plan_updates(plan))
    cJSON_AddStringToObject(o, "optimizer", wafer_optimizer_name(t->optimizer));
  cJSON *noises = cJSON_AddArrayToObject(o, "noises");
  for (uint32_t i = 0; i < t->noise_count; i++)
    cJSON_AddItemToArray(noises, cJSON_CreateString(value_name(plan, t->noises[i].input)));
  cJSON *trained = cJSON_AddArrayToObject(o, "trained");
  for (uint32_t i = 0; i < t->trained_count; i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(trained, item);
    cJSON_AddStringToObject(item, "weight",
                            wafer_weights_at(plan->weights, t->trained[i].weight)->name);
    add_value(item, plan, "gradient", t->trained[i].gradient);
  }
}

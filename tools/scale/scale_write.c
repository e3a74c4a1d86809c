/* The table of `wafer scale` as CSV and as JSON. */
#include <cjson/cJSON.h>
#include <stdlib.h>

#include "scale.h"
#include "wafer/file.h"

/* A column: its name in both files, and its number of a row. */
#define COUNTS(X)                                                                                  \
  X(systems, r->systems)                                                                           \
  X(samples, r->samples)                                                                           \
  X(rounds, r->step.rounds)                                                                        \
  X(micro_batch_cycles, r->step.micro_batch)                                                       \
  X(sum_cycles, r->step.sum)                                                                       \
  X(update_cycles, r->step.update)                                                                 \
  X(sum_work_cycles, r->step.sum_work)                                                             \
  X(update_work_cycles, r->step.update_work)                                                       \
  X(step_cycles, r->step.step)
#define REALS(X)                                                                                   \
  X(step_s, r->step.seconds)                                                                       \
  X(samples_per_s, scale_rate(r))                                                                  \
  X(tokens_per_s, scale_rate(r) * (double)t->sequence)                                             \
  X(efficiency, r->efficiency)                                                                     \
  X(days, t->a->tokens / (scale_rate(r) * (double)t->sequence) / 86400)
/* The same, of a cluster of as many processors. */
#define CLUSTER(X)                                                                                 \
  X(data_memory_bytes, g->data_memory)                                                             \
  X(data_moved_bytes, g->data_bytes)                                                               \
  X(data_fits, g->data_fits)                                                                       \
  X(pipeline_memory_bytes, g->pipeline_memory)                                                     \
  X(pipeline_moved_bytes, g->pipeline_bytes)                                                       \
  X(pipeline_fits, g->pipeline_fits)                                                               \
  X(tensor_memory_bytes, g->tensor_memory)                                                         \
  X(tensor_moved_bytes, g->tensor_bytes)                                                           \
  X(tensor_fits, g->tensor_fits)                                                                   \
  X(data, g->grid.data)                                                                            \
  X(pipeline, g->grid.pipeline)                                                                    \
  X(tensor, g->grid.tensor)

static int print_row(const scale_table *t, const scale_row *r, char *to, size_t room) {
  const wafer_scale_gpu *g = &r->cluster;
  char forced[48];
  int used = 0;
#define X(name, value) used += snprintf(to + used, room - (size_t)used, "%.17g,", (double)(value));
  COUNTS(X)
#undef X
#define X(name, value) used += snprintf(to + used, room - (size_t)used, "%.9g,", (double)(value));
  REALS(X)
  CLUSTER(X)
#undef X
  return used +
         snprintf(to + used, room - (size_t)used, "%s\n", scale_forced(g, forced, sizeof forced));
}

wafer_status scale_write_csv(const scale_table *t) {
  size_t room = 1024 * ((size_t)t->count + 1), used = 0;
  char *text = malloc(room);
  if (!text) return cli_no_memory();
#define X(name, value) #name ","
#define C(name, value) "cluster_" #name ","
  used += (size_t)snprintf(text, room, COUNTS(X) REALS(X) CLUSTER(C) "cluster_forced\n");
#undef C
#undef X
  for (uint32_t i = 0; i < t->count; i++)
    used += (size_t)print_row(t, &t->rows[i], text + used, room - used);
  wafer_status status = wafer_file_save(cli_diag(), t->a->csv, text, used);
  free(text);
  return status;
}

static void put(cJSON *json, const char *key, uint64_t number) {
  cJSON_AddNumberToObject(json, key, (double)number);
}

/* What one micro-batch moves over a wafer's edge, and what lies on the fullest core. */
static void put_wafer(cJSON *json, const scale_table *t) {
  wafer_scale_traffic e = wafer_scale_edge(t->plan);
  wafer_scale_core c = wafer_scale_memory(t->plan);
  cJSON *edge = cJSON_AddObjectToObject(json, "edge_of_a_micro_batch");
  put(edge, "weights_bytes", e.weights), put(edge, "inputs_bytes", e.inputs);
  put(edge, "gradients_bytes", e.gradients), put(edge, "outputs_bytes", e.outputs);
  cJSON *core = cJSON_AddObjectToObject(json, "fullest_core");
  cJSON_AddStringToObject(core, "phase", c.phase);
  put(core, "bytes", c.all), put(core, "code_bytes", c.code);
  put(core, "weights_bytes", c.weights), put(core, "inputs_bytes", c.inputs);
  put(core, "outputs_bytes", c.outputs), put(core, "scratch_bytes", c.scratch);
  put(core, "held_bytes", c.held);
}

static void put_gpu(cJSON *one, const wafer_scale_gpu *g) {
  char forced[48];
  put(one, "processors", g->processors);
#define X(name, value) cJSON_AddNumberToObject(one, #name, (double)(value));
  CLUSTER(X)
#undef X
  cJSON_AddStringToObject(one, "forced", scale_forced(g, forced, sizeof forced));
}

static void put_cluster(cJSON *json, const scale_table *t) {
  cJSON *cluster = cJSON_AddObjectToObject(json, "cluster");
  cJSON_AddNumberToObject(cluster, "memory_bytes", 1e9 * t->a->gpu_gb);
  cJSON_AddNumberToObject(cluster, "layers", t->model.layers);
  cJSON_AddNumberToObject(cluster, "activations_of_a_sample", t->model.activations);
  uint64_t samples = t->rows[t->count - 1].samples;
  put(cluster, "samples", samples);
  cJSON *rows = cJSON_AddArrayToObject(cluster, "rows");
  for (uint64_t n = 1; n <= 1024; n *= 4) {
    wafer_scale_gpu g = scale_cluster(t, n, samples);
    cJSON *one = cJSON_CreateObject();
    put_gpu(one, &g);
    cJSON_AddItemToArray(rows, one);
  }
}

wafer_status scale_write_json(const scale_table *t) {
  cJSON *json = cJSON_CreateObject(), *rows = cJSON_AddArrayToObject(json, "rows");
  put(json, "version", 1);
  cJSON_AddStringToObject(json, "model", t->plan->model);
  cJSON_AddStringToObject(json, "machine", t->plan->machine->name);
  put(json, "parameters", wafer_scale_parameters(t->plan));
  put(json, "micro_batch", t->plan->training->micro_batch);
  put(json, "micro_batch_that_does_not_fit", t->next);
  cJSON_AddBoolToObject(json, "layers_outside", t->rows[0].step.rounds == 1);
  cJSON_AddBoolToObject(json, "recomputes", wafer_scale_recomputes(t->plan));
  cJSON_AddBoolToObject(json, "updates_wait", scale_waits(t->a));
  put_wafer(json, t);
  put_cluster(json, t);
  for (uint32_t i = 0; i < t->count; i++) {
    const scale_row *r = &t->rows[i];
    cJSON *one = cJSON_CreateObject();
#define X(name, value) cJSON_AddNumberToObject(one, #name, (double)(value));
    COUNTS(X)
    REALS(X)
#undef X
    put_gpu(cJSON_AddObjectToObject(one, "cluster"), &r->cluster);
    cJSON_AddItemToArray(rows, one);
  }
  char *text = cJSON_Print(json);
  cJSON_Delete(json);
  return cli_write_json(t->a->json, text);
}

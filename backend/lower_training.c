/* The roles of @main's arguments and results -> the plan's training. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lower.h"

static int by_weight(const void *a, const void *b) {
  const wafer_trained *x = a, *y = b;
  return x->weight < y->weight ? -1 : x->weight > y->weight;
}

static uint32_t weight_of(const lowering *l, const char *name) {
  for (uint32_t i = 0; i < wafer_weights_count(l->plan->weights); i++)
    if (!strcmp(wafer_weights_at(l->plan->weights, i)->name, name)) return i;
  return WAFER_NONE;
}

/* Every weight that is marked, with its gradient where the plan has any. A gradient whose weight no
 * kernel reads keeps its place among the outputs. */
static wafer_status lower_trained(lowering *l, MlirOperation main, wafer_training *to) {
  uint32_t weights = (uint32_t)wafer_weights_count(l->plan->weights);
  wafer_trained *trained = WAFER_NEW(l->ctx->arena, wafer_trained, weights + 1);
  if (!trained) return lower_no_memory(l);
  to->trained = trained;
  for (uint32_t i = 0; i < weights; i++)
    if (wafer_weights_at(l->plan->weights, i)->trained)
      trained[to->trained_count++] = (wafer_trained){.weight = i, .gradient = WAFER_NONE};
  for (uint32_t i = 0; i < l->graph.output_count; i++) {
    wafer_ir_port port = wafer_ir_result(main, i);
    if (port.role != WAFER_ROLE_gradient && port.role != WAFER_ROLE_statistic) continue;
    wafer_trained key = {.weight = weight_of(l, port.of)};
    wafer_trained *found = bsearch(&key, trained, to->trained_count, sizeof *trained, by_weight);
    if (!found)
      return wafer_fail(l->ctx->diag, wafer_at_file(l->ir->file), WAFER_INTERNAL,
                        "weight '%s' has a gradient, but no kernel reads it", port.of);
    found->gradient = l->graph.outputs[i];
    found->statistic = port.role == WAFER_ROLE_statistic;
  }
  return WAFER_OK;
}

static void lower_results(const lowering *l, MlirOperation main, wafer_training *to) {
  for (uint32_t i = 0; i < l->graph.output_count; i++) {
    wafer_role role = wafer_ir_result(main, i).role;
    if (role == WAFER_ROLE_loss) to->loss = l->graph.outputs[i];
    if (role == WAFER_ROLE_count) to->count = l->graph.outputs[i];
    if (role == WAFER_ROLE_correct) to->correct = l->graph.outputs[i];
  }
}

static void lower_arguments(const lowering *l, MlirOperation main, wafer_training *to,
                            wafer_noise *noises) {
  for (uint32_t i = 0; i < l->graph.input_count; i++) {
    wafer_ir_port port = wafer_ir_argument(main, i);
    if (port.role == WAFER_ROLE_labels) to->labels = i;
    if (port.role == WAFER_ROLE_seed) to->seed = i;
    if (port.role == WAFER_ROLE_noise)
      noises[to->noise_count++] = (wafer_noise){i, XXH3_64bits(port.of, strlen(port.of))};
  }
}

wafer_status lower_training(lowering *l) {
  uint32_t samples;
  if (!wafer_ir_get_micro_batch(l->ir, &samples)) return WAFER_OK;
  MlirOperation main = wafer_ir_main(l->ir);
  wafer_training *to = WAFER_NEW(l->ctx->arena, wafer_training, 1);
  wafer_noise *noises = WAFER_NEW(l->ctx->arena, wafer_noise, l->graph.input_count + 1);
  if (!to || !noises) return lower_no_memory(l);
  *to = (wafer_training){.loss = WAFER_NONE,
                         .count = WAFER_NONE,
                         .correct = WAFER_NONE,
                         .labels = WAFER_NONE,
                         .seed = WAFER_NONE,
                         .micro_batch = samples,
                         .noises = noises};
  (void)wafer_ir_get_classes(l->ir, &to->classes);
  (void)wafer_ir_get_optimizer(l->ir, &to->optimizer);
  lower_results(l, main, to);
  lower_arguments(l, main, to, noises);
  l->plan->training = to;
  return lower_trained(l, main, to);
}

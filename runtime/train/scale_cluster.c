/* What a cluster of processors would need for the same step: see wafer/scale.h. */
#include <stdlib.h>

#include "wafer/dataset.h"
#include "wafer/scale.h"

/* ---- The model's layers ---- */

typedef struct product {
  uint64_t kind;  /* equal ones are the same op over weights of the same shape */
  double operand; /* elements of a sample that it takes */
} product;

static uint64_t kind_of(wafer_op op, const wafer_shape *weight) {
  uint64_t kind = wafer_mix((uint64_t)op, weight->rank);
  for (uint32_t i = 0; i < weight->rank; i++) kind = wafer_mix(kind, (uint64_t)weight->dims[i]);
  return kind;
}

static double elements_of(const wafer_type *type) {
  int64_t count = 0;
  (void)wafer_shape_elements(&type->shape, &count);
  return (double)count;
}

/* A weight's first product is the forward pass's: `seen` has the weights so far. */
static uint32_t add_products(const wafer_plan *plan, const wafer_kernel *k, bool *seen,
                             product *to) {
  uint32_t count = 0;
  for (uint32_t n = 0; n < k->body.node_count; n++) {
    const wafer_node *node = &k->body.nodes[n];
    for (uint32_t i = 0; i < 2 && wafer_op_is(node->op, WAFER_TRAIT_PRODUCT); i++) {
      uint32_t operand = node->operands[i];
      if (operand >= k->body.input_count) continue;
      uint32_t weight = plan->values[k->inputs[operand]].weight;
      if (weight == WAFER_NONE || seen[weight]) continue;
      const wafer_weight *w = wafer_weights_at(plan->weights, weight);
      if (!w->trained) continue;
      seen[weight] = true;
      to[count++] = (product){kind_of(node->op, &w->shape),
                              elements_of(wafer_body_type(&k->body, node->operands[1 - i])) /
                                  (double)plan->training->micro_batch};
    }
  }
  return count;
}

/* The shortest block that repeats itself over two thirds of the products: where it begins and how
 * often it comes; 0: there is none. */
static uint32_t repeats(const product *at, uint32_t count, uint32_t *first, uint32_t *period) {
  for (uint32_t p = 1; 2 * p <= count; p++) {
    uint32_t same = 0;
    for (uint32_t i = p; i < count; i++) {
      same = at[i].kind == at[i - p].kind ? same + 1 : 0;
      uint32_t times = same / p + 1;
      if (times < 2 || 3 * (uint64_t)times * p < 2 * (uint64_t)count) continue;
      /* It may go on: the last repetition ends where the run does. */
      while (i + 1 < count && at[i + 1].kind == at[i + 1 - p].kind) i++, same++;
      *first = i + 1 - same - p;
      *period = p;
      return same / p + 1;
    }
  }
  return 0;
}

wafer_status wafer_scale_model_of(const wafer_diag *diag, const wafer_plan *plan,
                                  wafer_scale_model *out) {
  size_t weights = wafer_weights_count(plan->weights);
  uint32_t count = 0, first = 0, period = 1;
  product *at = calloc(weights + 1, sizeof *at);
  bool *seen = calloc(weights + 1, sizeof *seen);
  *out = (wafer_scale_model){.parameters = (double)wafer_scale_parameters(plan)};
  for (uint32_t k = 0; at && seen && k < plan->kernel_count; k++)
    count += add_products(plan, &plan->kernels[k], seen, at + count);
  bool done = at && seen;
  uint32_t layers = done ? repeats(at, count, &first, &period) : 0;
  if (!layers) layers = count, first = 0, period = 1;
  out->layers = layers;
  for (uint32_t i = 0; done && i < layers; i++) out->activations += at[first + i * period].operand;
  free(at);
  free(seen);
  return done ? WAFER_OK
              : wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY, "out of memory");
}

/* ---- The cluster ---- */

/* A parameter: weight and gradient of 2 bytes, master copy and two moments of 4. */
#define STATE_BYTES 16.0
#define VALUE_BYTES 2.0
#define TENSOR_LIMIT 8 /* processors that share one fast switch */

/* A stage holds the micro-batches that are between it and the last stage: with as many of them as
 * stages the first holds its layers' part of the whole share of the batch. */
static double memory_of(const wafer_scale_model *m, wafer_scale_grid g) {
  double split = (double)g.pipeline * (double)g.tensor;
  return STATE_BYTES * m->parameters / split +
         VALUE_BYTES * m->activations * m->batch / (split * (double)g.data);
}

static bool allowed(const wafer_scale_model *m, wafer_scale_grid g) {
  return (double)g.data <= m->batch && g.tensor <= TENSOR_LIMIT && (double)g.pipeline <= m->layers;
}

static uint32_t kinds(wafer_scale_grid g) {
  return (g.data > 1) + (g.pipeline > 1) + (g.tensor > 1);
}

static bool better(wafer_scale_grid a, wafer_scale_grid b) {
  if (!b.data || kinds(a) != kinds(b)) return !b.data || kinds(a) < kinds(b);
  return a.data != b.data ? a.data > b.data : a.tensor > b.tensor;
}

static void try_grid(const wafer_scale_model *m, wafer_scale_grid grid, double memory,
                     wafer_scale_gpu *out) {
  if (!allowed(m, grid) || memory_of(m, grid) > memory) return;
  if (better(grid, out->grid)) out->grid = grid;
  out->data_forced &= grid.data > 1;
  out->pipeline_forced &= grid.pipeline > 1;
  out->tensor_forced &= grid.tensor > 1;
}

static void try_grids(const wafer_scale_model *m, double memory, wafer_scale_gpu *out) {
  uint64_t n = out->processors;
  out->data_forced = out->pipeline_forced = out->tensor_forced = true;
  for (uint64_t tensor = 1; tensor <= TENSOR_LIMIT; tensor++)
    for (uint64_t pipeline = 1; n % tensor == 0 && pipeline <= n / tensor; pipeline++)
      if (n / tensor % pipeline == 0)
        try_grid(m, (wafer_scale_grid){n / tensor / pipeline, pipeline, tensor}, memory, out);
  if (!out->grid.data) out->data_forced = out->pipeline_forced = out->tensor_forced = false;
}

wafer_scale_gpu wafer_scale_cluster(const wafer_scale_model *m, uint64_t processors,
                                    double memory) {
  double n = (double)processors, left = n > 1 ? (n - 1) / n : 0;
  double t = m->layers > 0 ? m->activations / m->layers : m->activations;
  const wafer_scale_grid data = {processors, 1, 1}, pipeline = {1, processors, 1},
                         tensor = {1, 1, processors};
  wafer_scale_gpu g = {.processors = processors,
                       .data_memory = memory_of(m, data),
                       .pipeline_memory = memory_of(m, pipeline),
                       .tensor_memory = memory_of(m, tensor),
                       .data_bytes = VALUE_BYTES * 2 * m->parameters * left,
                       .pipeline_bytes = processors > 1 ? VALUE_BYTES * 2 * t * m->batch : 0,
                       .tensor_bytes = VALUE_BYTES * 8 * m->activations * m->batch * left};
  g.data_fits = allowed(m, data) && g.data_memory <= memory;
  g.pipeline_fits = allowed(m, pipeline) && g.pipeline_memory <= memory;
  g.tensor_fits = allowed(m, tensor) && g.tensor_memory <= memory;
  try_grids(m, memory, &g);
  return g;
}

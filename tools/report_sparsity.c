/* Sparse weights: how many elements they have, what streams, what multiplies. */
#include "sparsity.h"

typedef struct sums {
  uint64_t weights, elements, nonzeros;
  uint64_t words, dense_words; /* of the weights' streams and of their gradients' */
  /* Compute cycles of the kernels that take one: the slowest core, the same with non-zeros spread
   * evenly over the tiles, and with dense weights. */
  uint64_t cycles, even_cycles, dense_cycles;
} sums;

static bool is_sparse(const wafer_plan *plan, uint32_t weight) {
  const wafer_weight *w = weight == WAFER_NONE ? NULL : wafer_weights_at(plan->weights, weight);
  return w && w->sparse;
}

static uint32_t weight_of(const wafer_plan *plan, uint32_t value) {
  const wafer_training *t = plan->training;
  for (uint32_t i = 0;
       t && plan->values[value].owner == WAFER_OWNER_gradient && i < t->trained_count; i++)
    if (t->trained[i].gradient == value) return t->trained[i].weight;
  return plan->values[value].weight;
}

static uint64_t even_cycles(const wafer_plan *plan, const wafer_kernel *k) {
  wafer_sparsity even[WAFER_MAX_KERNEL_VALUES];
  wafer_kernel_body body = k->body;
  wafer_cost cost;
  for (uint32_t i = 0; i < body.input_count; i++) {
    even[i] = body.sparsity[i];
    if (!even[i].sparse) continue;
    wafer_layout layout = wafer_kernel_input_layout(&body, &k->split, i);
    uint64_t parts = 1;
    for (uint32_t d = 0; d < layout.rank; d++) parts *= (uint64_t)layout.rows[d] * layout.cols[d];
    even[i].fullest = even[i].nonzeros / parts + (even[i].nonzeros % parts != 0);
  }
  body.sparsity = even;
  wafer_kernel_cost(plan->machine, &body, &k->split, &cost);
  return cost.compute_cycles;
}

static sums count(const wafer_plan *plan) {
  sums s = {0};
  for (uint32_t i = 0; plan->weights && i < wafer_weights_count(plan->weights); i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, i);
    int64_t elements = 0;
    if (!w->sparse || !wafer_shape_elements(&w->shape, &elements)) continue;
    s.weights++;
    s.elements += (uint64_t)elements;
    s.nonzeros += w->nonzeros;
  }
  for (uint32_t i = 0; s.weights && i < plan->stream_count; i++) {
    const wafer_stream *stream = &plan->streams[i];
    if (!is_sparse(plan, weight_of(plan, stream->value))) continue;
    s.words += stream->words;
    s.dense_words +=
        wafer_sparse_words(&plan->values[stream->value].type, plan->storage, UINT64_MAX);
  }
  for (uint32_t i = 0; s.weights && i < plan->kernel_count; i++) {
    const wafer_kernel *k = &plan->kernels[i];
    if (!k->body.sparsity) continue;
    wafer_kernel_body body = k->body;
    wafer_cost dense;
    body.sparsity = NULL;
    wafer_kernel_cost(plan->machine, &body, &k->split, &dense);
    s.cycles += k->cost.compute_cycles;
    s.dense_cycles += dense.compute_cycles;
    s.even_cycles += even_cycles(plan, k);
  }
  return s;
}

static double share(uint64_t part, uint64_t all) {
  return all ? (double)part / (double)all : 0;
}

void report_print_sparsity(FILE *to, const wafer_plan *plan) {
  typedef unsigned long long ull;
  sums s = count(plan);
  if (!s.weights) return;
  fprintf(to, "sparse weights: %llu, %llu of %llu elements (density %.3f)\n", (ull)s.weights,
          (ull)s.nonzeros, (ull)s.elements, share(s.nonzeros, s.elements));
  fprintf(to, "  streamed        %llu words, %.3f of the %llu of dense ones\n", (ull)s.words,
          share(s.words, s.dense_words), (ull)s.dense_words);
  fprintf(to, "  kernels         %llu compute cycles, %.3f of the %llu of dense ones\n",
          (ull)s.cycles, share(s.cycles, s.dense_cycles), (ull)s.dense_cycles);
  fprintf(to, "                  %llu, %.3f, if all cores had equally many non-zeros\n\n",
          (ull)s.even_cycles, share(s.even_cycles, s.dense_cycles));
}

void report_add_sparsity(cJSON *root, const wafer_plan *plan) {
  sums s = count(plan);
  if (!s.weights) return;
  cJSON *o = cJSON_AddObjectToObject(root, "sparsity");
  cJSON_AddNumberToObject(o, "weights", (double)s.weights);
  cJSON_AddNumberToObject(o, "elements", (double)s.elements);
  cJSON_AddNumberToObject(o, "nonzeros", (double)s.nonzeros);
  cJSON_AddNumberToObject(o, "stream_words", (double)s.words);
  cJSON_AddNumberToObject(o, "dense_stream_words", (double)s.dense_words);
  cJSON_AddNumberToObject(o, "compute_cycles", (double)s.cycles);
  cJSON_AddNumberToObject(o, "even_compute_cycles", (double)s.even_cycles);
  cJSON_AddNumberToObject(o, "dense_compute_cycles", (double)s.dense_cycles);
}

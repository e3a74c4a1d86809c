/* Sparse weights: how many elements they have, what streams, what multiplies. */
#include "sparsity.h"
#include "wafer/pairs.h"

typedef struct sums {
  uint64_t weights, elements, nonzeros; /* of those that products take */
  uint64_t words, dense_words;          /* of their streams and of their gradients' */
  uint64_t other_words, other_dense;    /* of sparse ones that none takes, as masks */
  /* Multiply cycles of the kernels that take one: the slowest core, the same with non-zeros spread
   * evenly over the tiles, and with dense weights. */
  uint64_t cycles, even_cycles, dense_cycles;
  uint64_t factors, dealt;   /* weights that multiply; of these, dealt over cores */
  uint64_t zeros_too;        /* weights with which all elements multiply */
  const wafer_kernel *worst; /* of these, the one farthest above its density */
  double worst_share;
  uint64_t worst_mean, worst_fullest, worst_run; /* non-zeros of its tiles, elements of a run */
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

/* Whether a product or convolution of the body multiplies with the value, as it is or transposed;
 * a sparse mask is only added, say. */
static bool is_factor(const wafer_kernel_body *body, uint32_t value) {
  for (uint32_t n = 0; n < body->node_count; n++) {
    const wafer_node *node = &body->nodes[n];
    bool product = wafer_op_is(node->op, WAFER_TRAIT_PRODUCT);
    for (uint32_t i = 0; i < node->operand_count; i++) {
      if (node->operands[i] != value) continue;
      if (product && i < 2) return true;
      if (node->op == WAFER_OP_transpose && is_factor(body, body->input_count + n)) return true;
    }
  }
  return false;
}

/* Whether a kernel multiplies with the weight. */
static bool is_taken(const wafer_plan *plan, uint32_t weight) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    for (uint32_t i = 0; i < kernel->body.input_count; i++)
      if (plan->values[kernel->inputs[i]].weight == weight && is_factor(&kernel->body, i))
        return true;
  }
  return false;
}

static bool multiplies(const wafer_kernel *k) {
  for (uint32_t i = 0; k->body.sparsity && i < k->body.input_count; i++)
    if (k->body.sparsity[i].sparse && is_factor(&k->body, i)) return true;
  return false;
}

/* Non-zeros of a tile, were they spread evenly; rounded up. */
static uint64_t mean_of(const wafer_kernel *k, uint32_t input) {
  wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, input);
  uint64_t parts = 1, nonzeros = k->body.sparsity[input].nonzeros;
  for (uint32_t d = 0; d < layout.rank; d++) parts *= (uint64_t)layout.rows[d] * layout.cols[d];
  return nonzeros / parts + (nonzeros % parts != 0);
}

static uint64_t multiply_cycles(const wafer_plan *plan, const wafer_kernel *k,
                                const wafer_sparsity *sparsity) {
  wafer_kernel_body body = k->body;
  wafer_cost cost;
  body.sparsity = sparsity;
  wafer_kernel_cost(plan->machine, &body, &k->split, &cost);
  return cost.multiply_cycles;
}

static uint64_t even_cycles(const wafer_plan *plan, const wafer_kernel *k) {
  wafer_sparsity even[WAFER_MAX_KERNEL_VALUES];
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    even[i] = k->body.sparsity[i];
    if (!even[i].sparse) continue;
    uint64_t fullest = even[i].fullest;
    even[i].fullest = mean_of(k, i);
    if (even[i].filled) even[i].filled -= fullest - even[i].fullest;
  }
  return multiply_cycles(plan, k, even);
}

static double share(uint64_t part, uint64_t all) {
  return all ? (double)part / (double)all : 0;
}

/* A kernel's share of what is dense, and why, where no other is farther above its density. */
static void judge(sums *s, const wafer_kernel *k, uint64_t cycles, uint64_t dense) {
  double here = share(cycles, dense);
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    const wafer_sparsity *is = &k->body.sparsity[i];
    if (!is->sparse || !is_factor(&k->body, i) || here <= s->worst_share) continue;
    wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
    wafer_layout result = wafer_kernel_output_layout(&k->body, &k->split, 0);
    const wafer_shape *shape = &wafer_body_type(&k->body, k->body.outputs[0])->shape;
    uint64_t tile = wafer_layout_tile(&layout, &k->body.inputs[i].shape), mean = mean_of(k, i);
    uint32_t rank = layout.rank, last = result.rank;
    if (!tile || rank < 2 || !last) continue;
    int64_t parts = (int64_t)result.rows[last - 1] * result.cols[last - 1];
    s->worst = k, s->worst_share = here, s->worst_mean = mean;
    s->worst_fullest = is->fullest ? is->fullest : mean;
    s->worst_run =
        wafer_layout_tile(&result, shape) / (uint64_t)((shape->dims[last - 1] + parts - 1) / parts);
  }
}

static void count_dealt(sums *s, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (k->body.sparsity[i].sparse && is_factor(&k->body, i)) {
      wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
      s->factors++;
      s->dealt += layout.order[0] || layout.order[1];
    }
}

/* Weights of a kernel that lie dense. */
static uint64_t dense_weights(const wafer_plan *plan, const wafer_kernel *k) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < k->body.input_count; i++)
    count += k->body.sparsity[i].fullest > 0 && is_factor(&k->body, i) &&
             !wafer_kernel_pairs(plan->machine, &k->body, &k->split, i).lists;
  return count;
}

static void count_streams(const wafer_plan *plan, sums *s) {
  for (uint32_t i = 0; s->weights && i < plan->stream_count; i++) {
    const wafer_stream *stream = &plan->streams[i];
    uint32_t weight = weight_of(plan, stream->value);
    if (!is_sparse(plan, weight)) continue;
    bool taken = is_taken(plan, weight);
    *(taken ? &s->words : &s->other_words) += stream->words;
    *(taken ? &s->dense_words : &s->other_dense) +=
        wafer_sparse_words(&plan->values[stream->value].type, plan->storage, UINT64_MAX);
  }
}

static sums count(const wafer_plan *plan) {
  sums s = {0};
  for (uint32_t i = 0; plan->weights && i < wafer_weights_count(plan->weights); i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, i);
    int64_t elements = 0;
    if (!w->sparse || !wafer_shape_elements(&w->shape, &elements) || !is_taken(plan, i)) continue;
    s.weights++;
    s.elements += (uint64_t)elements;
    s.nonzeros += w->nonzeros;
  }
  count_streams(plan, &s);
  for (uint32_t i = 0; s.weights && i < plan->kernel_count; i++) {
    const wafer_kernel *k = &plan->kernels[i];
    if (!multiplies(k)) continue;
    uint64_t cycles = multiply_cycles(plan, k, k->body.sparsity);
    uint64_t dense = multiply_cycles(plan, k, NULL);
    s.cycles += cycles;
    s.dense_cycles += dense;
    s.even_cycles += even_cycles(plan, k);
    s.zeros_too += dense_weights(plan, k);
    count_dealt(&s, k);
    judge(&s, k, cycles, dense);
  }
  return s;
}

double report_waste(const wafer_plan *plan) {
  sums s = count(plan);
  double density = share(s.nonzeros, s.elements);
  return density > 0 ? share(s.cycles, s.dense_cycles) / density : 0;
}

void report_print_sparsity(FILE *to, const wafer_plan *plan) {
  typedef unsigned long long ull;
  sums s = count(plan);
  if (!s.weights) return;
  double density = share(s.nonzeros, s.elements), multiplied = share(s.cycles, s.dense_cycles);
  fprintf(to,
          "sparse weights: %llu, density %.3f: %.3f of the words of dense weights stream, products "
          "take %.3f of the multiply cycles\n",
          (ull)s.weights, density, share(s.words, s.dense_words), multiplied);
  fprintf(to, "  elements        %llu of %llu are not zero\n", (ull)s.nonzeros, (ull)s.elements);
  fprintf(to, "  streamed        %llu words; %llu with dense weights: %.3f\n", (ull)s.words,
          (ull)s.dense_words, share(s.words, s.dense_words));
  if (s.other_dense)
    fprintf(
        to,
        "  besides         %llu words of %llu: sparse weights that no product takes, as masks\n",
        (ull)s.other_words, (ull)s.other_dense);
  fprintf(
      to,
      "  multiply        %llu cycles of the slowest cores; %llu with dense weights there: %.3f; "
      "%llu if all tiles were as full\n",
      (ull)s.cycles, (ull)s.dense_cycles, multiplied, (ull)s.even_cycles);
  fprintf(to, "  dealt           %llu weights of %llu, in an order that fills tiles alike\n",
          (ull)s.dealt, (ull)s.factors);
  if (s.zeros_too)
    fprintf(
        to,
        "  zeros too       %llu weights lie dense: pairs of index and value take longer there\n",
        (ull)s.zeros_too);
  if (s.worst && s.worst_share > REPORT_LEAN * density)
    fprintf(
        to,
        "  farthest above  %s, %.3f: a tile has %llu non-zeros, the fullest %llu, each for %llu "
        "rows of a core\n",
        s.worst->name, s.worst_share, (ull)s.worst_mean, (ull)s.worst_fullest, (ull)s.worst_run);
  if (multiplied > REPORT_LEAN * density)
    fprintf(to,
            "  not lean        %.3f is above %.1f times the density: shapes that waste less were "
            "not found, are too slow, or speed was asked for\n",
            multiplied, REPORT_LEAN);
  fputc('\n', to);
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
  cJSON_AddNumberToObject(o, "stream_share", share(s.words, s.dense_words));
  cJSON_AddNumberToObject(o, "other_stream_words", (double)s.other_words);
  cJSON_AddNumberToObject(o, "other_dense_stream_words", (double)s.other_dense);
  cJSON_AddNumberToObject(o, "multiply_cycles", (double)s.cycles);
  cJSON_AddNumberToObject(o, "even_multiply_cycles", (double)s.even_cycles);
  cJSON_AddNumberToObject(o, "dense_multiply_cycles", (double)s.dense_cycles);
  cJSON_AddNumberToObject(o, "multiply_share", share(s.cycles, s.dense_cycles));
  cJSON_AddBoolToObject(
      o, "lean", share(s.cycles, s.dense_cycles) <= REPORT_LEAN * share(s.nonzeros, s.elements));
}

/* Weights of matrix products and of convolutions lose their smallest magnitudes, as many as
 * `sparsity` asks for; and weights that have zeros enough are marked, so that the others alone
 * stream. Without that option and without masks none is: nobody gets dealt layouts, and their
 * exchanges, unasked. Of a model that is trained nothing is marked for zeros it happens to have,
 * since a sparse weight's zeros stay. */
#include <math.h>
#include <string.h>

#include "sparsity.h"

#define SLACK 1e-6 /* elements: 0.9 of 1000 are 900, however 0.9 was rounded */

typedef struct pruning {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  wafer_graph graph;
} pruning;

static bool is_float(const wafer_weight *w) {
  return w->dtype == WAFER_DTYPE_f32 || w->dtype == WAFER_DTYPE_f16 || w->dtype == WAFER_DTYPE_bf16;
}

/* The weight that a body's value is, through transposes, be they kernels of their own; NULL. */
static wafer_weight *weight_behind(const pruning *p, const wafer_graph_kernel *k, uint32_t value) {
  for (;;) {
    while (value >= k->body.input_count) {
      const wafer_node *node = &k->body.nodes[value - k->body.input_count];
      if (node->op != WAFER_OP_transpose) return NULL;
      value = node->operands[0];
    }
    const wafer_graph_value *v = &p->graph.values[k->inputs[value]];
    if (v->owner == WAFER_OWNER_weight) return wafer_weights_find(p->ir->weights, v->name);
    if (v->producer == WAFER_NONE) return NULL;
    k = &p->graph.kernels[v->producer];
    value = k->body.outputs[v->output];
  }
}

static wafer_status no_memory(const pruning *p) {
  return wafer_fail(p->ctx->diag, wafer_at_file(p->ir->file), WAFER_NO_MEMORY,
                    "no memory to prune weights");
}

static wafer_status prune(const pruning *p, wafer_weight *w, double sparsity) {
  int64_t elements = 0;
  if (w->sparse || !is_float(w) || !wafer_shape_elements(&w->shape, &elements)) return WAFER_OK;
  uint64_t zeros = (uint64_t)ceil(sparsity * (double)elements - SLACK);
  if (w->data && !(w->data = sparsity_prune(p->ctx->arena, w, zeros))) return no_memory(p);
  w->digest = 0;
  w->sparse = true;
  w->nonzeros = w->data ? sparsity_nonzeros(w) : (uint64_t)elements - zeros;
  return WAFER_OK;
}

/* Whether an operand is what others are multiplied with: a matrix, or the filters. */
static bool is_factor(const wafer_node *node, uint32_t operand, const wafer_weight *w) {
  if (!wafer_op_is(node->op, WAFER_TRAIT_PRODUCT)) return false;
  return node->op == WAFER_OP_matmul ? w->shape.rank == 2 : operand == 1;
}

static wafer_status prune_factors(const pruning *p, double sparsity) {
  for (uint32_t i = 0; i < p->graph.kernel_count; i++) {
    const wafer_graph_kernel *k = &p->graph.kernels[i];
    for (uint32_t n = 0; n < k->body.node_count; n++)
      for (uint32_t o = 0; o < 2 && o < k->body.nodes[n].operand_count; o++) {
        wafer_weight *w = weight_behind(p, k, k->body.nodes[n].operands[o]);
        if (w && is_factor(&k->body.nodes[n], o, w)) WAFER_TRY(prune(p, w, sparsity));
      }
  }
  return WAFER_OK;
}

static bool is_masked(const wafer_options *o, const char *name) {
  for (size_t i = 0; o && i < o->mask_count; i++)
    if (!strcmp(o->masks[i].input, name)) return true;
  return false;
}

/* A weight that needs fewer words without its zeros. */
static void mark(const pruning *p, wafer_weight *w, wafer_dtype storage) {
  const wafer_options *o = p->ctx->options;
  const wafer_type type = {w->dtype, w->shape};
  bool masked = is_masked(o, w->name);
  if (!o || (o->sparsity <= 0 && !o->mask_count)) return;
  if (w->sparse || !w->data || !is_float(w) || w->shape.rank < 2 || (w->trained && !masked)) return;
  uint64_t nonzeros = sparsity_nonzeros(w);
  uint64_t dense = wafer_sparse_words(&type, storage, UINT64_MAX);
  w->sparse = masked || wafer_sparse_words(&type, storage, nonzeros) < dense;
  if (w->sparse) w->nonzeros = nonzeros;
}

wafer_status wafer_pass_prune(const wafer_ctx *ctx, wafer_ir *ir) {
  pruning p = {.ctx = ctx, .ir = ir};
  const wafer_options *o = ctx->options;
  wafer_dtype storage = o && o->storage ? o->storage : WAFER_DTYPE_f32;
  WAFER_TRY(wafer_graph_read(ctx, ir, &p.graph));
  if (o && o->sparsity > 0) WAFER_TRY(prune_factors(&p, o->sparsity));
  for (uint32_t v = 0; v < p.graph.value_count; v++)
    if (p.graph.values[v].owner == WAFER_OWNER_weight) {
      wafer_weight *w = wafer_weights_find(ir->weights, p.graph.values[v].name);
      if (w) mark(&p, w, storage);
    }
  return WAFER_OK;
}

/* The curves of a pipeline's kernels, for the buffers that are guessed or wanted. */
#include "size_pipelined.h"
#include "streams.h"

/* A first guess, for the bytes: a value that skips stages waits for as many samples as it skips, at
 * most `limit`. Inputs wait outside the wafer. */
static void guess_depths(const pipeline *p, uint32_t k, uint32_t limit, uint32_t *depths) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t producer = p->graph->values[kernel->inputs[i]].producer;
    uint32_t spans = producer == WAFER_NONE ? 0 : p->stage[k] - p->stage[producer] + 1;
    if (spans > limit) spans = limit;
    depths[i] = kernel->body.input_is_weight[i] ? 1
                : spans < SIZE_PIPELINE_DEPTH   ? SIZE_PIPELINE_DEPTH
                                                : spans;
  }
  depths[kernel->body.input_count] = SIZE_PIPELINE_DEPTH;
}

uint64_t pipeline_heaviest_stream(const pipeline *p, uint32_t k) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t most = 0;
  for (uint32_t i = 0; i < kernel->body.input_count + kernel->body.output_count; i++) {
    bool in = i < kernel->body.input_count;
    uint32_t value = in ? kernel->inputs[i] : kernel->outputs[i - kernel->body.input_count];
    if (wafer_graph_is_weight(p->graph, value) || p->graph->values[value].summed) continue;
    uint64_t words = value_words(&p->graph->values[value], kernel->body.storage);
    most = words > most ? words : most;
  }
  return most;
}

/* What is asked of the curves of kernel k; without higher shapes for their lanes, if these do not
 * count. */
static curve_query query_of(const pipeline *p, uint32_t k, bool lanes) {
  return (curve_query){.budget = wafer_machine_core_budget(p->ctx->machine),
                       .words = lanes ? pipeline_heaviest_stream(p, k) : 0,
                       .copied = lanes && p->copied};
}

/* The curve of a kernel, with fewer buffers when it has no shape with as many as guessed. */
static wafer_status find_curve(pipeline *p, uint32_t k, uint32_t limit, uint32_t *depths) {
  curve_query query = query_of(p, k, true);
  guess_depths(p, k, limit, depths);
  for (;; limit /= 2) {
    wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, depths);
    WAFER_TRY(curve_of(p->ctx->diag, p->curves, &body, query, &p->curve[k]));
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < body.input_count; i++)
      deepest = depths[i] > deepest ? depths[i] : deepest;
    if (p->curve[k]->count || deepest <= SIZE_PIPELINE_DEPTH) return WAFER_OK;
    if (limit > 2 * deepest) limit = 2 * deepest;
    guess_depths(p, k, limit / 2, depths);
  }
}

void pipeline_shallow_depths(const pipeline *p, uint32_t k, uint32_t *depths) {
  guess_depths(p, k, SIZE_PIPELINE_DEPTH, depths);
}

wafer_status pipeline_curve_for(const pipeline *p, uint32_t k, const uint32_t *depths, bool lanes,
                                const wafer_curve **out) {
  wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, depths);
  WAFER_TRY(curve_of(p->ctx->diag, p->curves, &body, query_of(p, k, lanes), out));
  return pipeline_keep_lean(p, k, &body, out);
}

wafer_status pipeline_shallow(const pipeline *p, bool lanes, const wafer_curve ***out) {
  uint32_t n = p->graph->kernel_count;
  const wafer_curve **curve = WAFER_NEW(p->ctx->arena, const wafer_curve *, n);
  if (!curve) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t *depths =
        WAFER_NEW(p->ctx->arena, uint32_t, p->graph->kernels[k].body.input_count + 1);
    if (!depths) return pipeline_no_memory(p);
    pipeline_shallow_depths(p, k, depths);
    WAFER_TRY(pipeline_curve_for(p, k, depths, lanes, &curve[k]));
  }
  *out = curve;
  return WAFER_OK;
}

wafer_status pipeline_deepen(pipeline *p, bool *found) {
  *found = false;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const wafer_curve *curve;
    if (!p->wanted[k] || (p->pin && p->pin[k])) continue;
    wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, p->wanted[k]);
    WAFER_TRY(curve_of(p->ctx->diag, p->curves, &body, query_of(p, k, true), &curve));
    if (!curve->count || curve == p->curve[k]) continue;
    WAFER_TRY(pipeline_keep_lean(p, k, &body, &curve));
    p->curve[k] = curve;
    *found = true;
  }
  return WAFER_OK;
}

/* Those that are asked for first, of all kernels. */
static wafer_status find_guessed(pipeline *p, uint32_t limit) {
  uint32_t n = p->graph->kernel_count;
  curve_wish *wishes = WAFER_NEW(p->ctx->arena, curve_wish, n);
  for (uint32_t k = 0; wishes && k < n; k++) {
    const wafer_kernel_body *body = &p->graph->kernels[k].body;
    uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, body->input_count + 1);
    if (!depths) return pipeline_no_memory(p);
    guess_depths(p, k, limit, depths);
    wishes[k] = (curve_wish){size_with_depths(body, depths), query_of(p, k, true)};
  }
  return wishes ? curves_find(p->ctx->diag, p->curves, n, wishes) : pipeline_no_memory(p);
}

wafer_status pipeline_find_curves(pipeline *p, uint32_t limit, bool *fits) {
  uint64_t budget = wafer_machine_core_budget(p->ctx->machine), worst = 0;
  *fits = true;
  p->guess = limit;
  WAFER_TRY(find_guessed(p, limit));
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    uint32_t *depths =
        WAFER_NEW(p->ctx->arena, uint32_t, p->graph->kernels[k].body.input_count + 1);
    if (!depths) return pipeline_no_memory(p);
    WAFER_TRY(find_curve(p, k, limit, depths));
    p->out->kernels[k].depths = depths;
    uint64_t least = p->curve[k]->least_bytes;
    if (p->curve[k]->count || least <= worst) continue;
    worst = least;
    *fits = false;
    wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, depths);
    WAFER_TRY(size_refuse(p->ctx, p->graph, k, &body, least, budget, 0, &p->out->refusal));
  }
  return WAFER_OK;
}

wafer_status pipeline_copied_curves(pipeline *p) {
  p->copied = true;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const wafer_kernel_body *body = &p->graph->kernels[k].body;
    uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, body->input_count + 1);
    if (!depths) return pipeline_no_memory(p);
    WAFER_TRY(find_curve(p, k, p->guess, depths));
    const wafer_kernel_body guessed = size_with_depths(body, depths);
    WAFER_TRY(pipeline_keep_lean(p, k, &guessed, &p->curve[k]));
  }
  return WAFER_OK;
}

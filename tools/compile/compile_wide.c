/* Second thoughts about weights that are quantized. As the model says it, kernels of a pipeline
 * make floats of them for every sample, and send these to the products that take them. Computed once
 * they lie on the cores of these, as they do either way. Weight streaming brings the narrow ones,
 * which takes a part of the time: a pipeline alone has them wide. */
#include "compile_thoughts.h"

/* All it takes are weights: it has the same to give for every sample. */
static bool is_constant(const wafer_plan *plan, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (plan->values[k->inputs[i]].weight == WAFER_NONE) return false;
  return k->body.input_count > 0;
}

static bool has_constants(const wafer_plan *plan) {
  for (uint32_t i = 0; i < plan->kernel_count; i++)
    if (is_constant(plan, &plan->kernels[i])) return true;
  return false;
}

static bool is_better(const candidate *wide, const candidate *now) {
  const uint64_t then = thoughts_worth(wide), worth = thoughts_worth(now);
  return then < worth || (then == worth && wide->latency < now->latency);
}

/* A search says what it found, so that what is kept of the two has to be said behind it. */
static wafer_status make(const thoughts *t, wafer_options options, bool *aloud, candidate *out) {
  *aloud = options.placer == WAFER_PLACER_best && !thoughts_has_programs(&t->now);
  return *aloud ? thoughts_make_flow(t, options, out) : thoughts_make(t, options, out);
}

wafer_status thoughts_try_wide(thoughts *t, const char **told) {
  wafer_options own = t->now.options;
  const wafer_mode_cost streaming = t->now.plan->streaming;
  const uint32_t flip_batch = t->now.plan->flip_batch;
  candidate other = {0};
  bool aloud;
  if (own.wide_weights || own.training || !has_constants(t->now.plan)) return WAFER_OK;
  own.wide_weights = true;
  own.mode = WAFER_MODE_pipelined;
  WAFER_TRY(make(t, own, &aloud, &other));
  const uint64_t wide_worth = thoughts_worth(&other);
  if (!thoughts_choose(&t->now, &other, other.plan && is_better(&other, &t->now))) {
    if (aloud && other.plan)
      *told = wafer_arena_printf(
          t->ctx->arena, "quantized weights stay narrow: %llu cycles, %llu were they wide",
          (unsigned long long)thoughts_worth(&t->now), (unsigned long long)wide_worth);
    return WAFER_OK;
  }
  wafer_plan *wide = thoughts_change(t);
  if (!wide) return cli_no_memory();
  wide->streaming = streaming; /* of the narrow weights, which it would have */
  wide->flip_batch = flip_batch;
  return WAFER_OK;
}

/* Sizing weight streaming: a phase per kernel, each on the whole wafer, one after the other.
 *
 * Kernels are sized in order, twice: first each for itself, then with the shapes that are best all
 * in all (size_layouts.c), where they fit; the better sizing stays. Of a curve's shapes the one
 * wins whose cycles, with what it costs to bring the inputs from where earlier kernels left them,
 * are least, among those whose bytes fit beside everything that is held meanwhile: every sample's
 * copy of each value that a later kernel needs. Where that ends in a kernel that does not fit, all
 * is sized again with a price on what shapes leave behind, by bytes and phases: a backward pass
 * needs values long after they are made. Then the copies of such values end with the phase. Where
 * the inputs of the whole batch do not fit, they pass sample by sample; where weights do not, slice
 * by slice. */
#include "size_streaming.h"

#include <inttypes.h>

#include "streams.h"

#define PRICES_TRIED 5 /* of memory, when the fastest shapes leave too little of it */
#define LEAN_PRICE 16  /* the first one of shapes that spread their results thin */
#define WISHES_TRIED 4 /* the same, of shapes chosen together, */
#define PRICE_STEP 8   /* each so many times the one before */

wafer_status streaming_no_memory(const streaming *s) {
  return wafer_fail(s->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory to size weight streaming");
}

static wafer_status start(streaming *s) {
  uint32_t kernels = s->graph->kernel_count, values = s->graph->value_count;
  wafer_arena *arena = s->ctx->arena;
  s->budget = wafer_machine_core_budget(s->ctx->machine);
  s->out->kernels = WAFER_NEW(arena, sized_kernel, kernels);
  s->out->phases = WAFER_NEW(arena, size_phase, kernels);
  s->own = WAFER_NEW(arena, size_phase, kernels);
  s->held = WAFER_NEW(arena, held, values);
  s->last_use = WAFER_NEW(arena, uint32_t, values);
  if (!s->out->kernels || !s->out->phases || !s->own || !s->held || !s->last_use ||
      !size_whole_wafer(s->ctx->machine, &s->whole))
    return streaming_no_memory(s);
  for (uint32_t v = 0; v < values; v++) {
    const wafer_graph_value *value = &s->graph->values[v];
    s->last_use[v] = value->use_count ? value->uses[value->use_count - 1].kernel : WAFER_NONE;
  }
  return WAFER_OK;
}

static uint64_t per_sample(uint64_t cycles, uint64_t samples) {
  return (cycles + samples - 1) / samples;
}

uint64_t size_streaming_interval(const wafer_machine *machine, const sizing *of,
                                 uint32_t resident) {
  for (uint32_t p = 0; p < of->phase_count; p++)
    if (of->phases[p].fixed_bytes + resident * of->phases[p].sample_bytes >
        wafer_machine_core_budget(machine))
      return UINT64_MAX;
  return per_sample(size_group_cycles(machine, of, resident), (uint64_t)resident * of->stripes);
}

/* The phases, when all kernels have their shapes. */
static void make_phases(streaming *s) {
  sizing *out = s->out;
  uint32_t end;
  for (uint32_t first = 0; first < s->graph->kernel_count; first = end) {
    size_phase *phase = &out->phases[out->phase_count];
    for (end = first; end == first || (s->shares && end < s->graph->kernel_count &&
                                       s->shares[end].phase == s->shares[first].phase);
         end++)
      out->kernels[end].phase = out->phase_count;
    *phase = s->own[first];
    if (end > first + 1)
      size_join(s->ctx->machine, s->graph, s->own, out->kernels, s->shares, first, end, phase);
    if (phase->cores > out->cost.cores) out->cost.cores = phase->cores;
    out->phase_count++;
  }
}

static wafer_status size_all(streaming *s, bool *fits) {
  *fits = true;
  *s->out = (sizing){.stripes = s->stripes};
  if (s->stripes > 1) s->out->stripe_columns = s->ctx->machine->usable.width;
  s->live = s->before = 0;
  WAFER_TRY(start(s));
  if (!s->wished) WAFER_TRY(streaming_find_curves(s));
  for (uint32_t k = 0; k < s->graph->kernel_count && *fits; k++) {
    streaming_at(s, k);
    WAFER_TRY(streaming_phase(s, k, fits));
  }
  if (!*fits) return WAFER_OK;
  size_stay(s);
  make_phases(s);
  return WAFER_OK;
}

/* Each phase for itself, or as `wished`. */
static wafer_status size_once(streaming *s, uint32_t keeps, const wafer_shape_point **wished,
                              sizing *out) {
  bool fits = false;
  s->keeps = keeps;
  s->wished = wished;
  s->out = out;
  s->price = wished ? s->paid : s->lean ? LEAN_PRICE : 0;
  for (int tries = 0; tries < (wished ? 1 : PRICES_TRIED) && !fits; tries++) {
    WAFER_TRY(size_all(s, &fits));
    if (fits) s->paid = s->price;
    s->price = s->price ? s->price * 16 : 1;
  }
  out->cost.fits = fits;
  out->cost.why_not = "";
  if (!fits) return WAFER_OK;
  WAFER_TRY(size_ahead(s));
  out->cost.latency_cycles = size_group_cycles(s->ctx->machine, out, s->batch);
  out->cost.interval_cycles = per_sample(out->cost.latency_cycles, (uint64_t)s->batch * s->stripes);
  out->cost.cores *= s->stripes;
  return WAFER_OK;
}

/* Copies end with their phase only where memory is short without it: first those that wait long.
 * Where that is not enough, all again with results that are spread thin. */
static wafer_status size_greedy(streaming *s, uint32_t *keeps, sizing *out) {
  static const uint32_t tried[] = {UINT32_MAX, 6, 0};
  uint32_t count = s->batch == 1 ? sizeof tried / sizeof *tried : 1;
  *out = (sizing){0};
  for (uint32_t i = 0; i < 2 * count && !out->cost.fits; i++) {
    s->lean = i >= count;
    *keeps = tried[i % count];
    WAFER_TRY(size_once(s, *keeps, NULL, out));
  }
  if (out->cost.fits) return WAFER_OK;
  WAFER_TRY(size_refuse(s->ctx, s->graph, s->refused_kernel, &s->refused, s->asked, s->budget,
                        s->beside, &out->refusal));
  out->cost.why_not = out->refusal.why;
  return WAFER_OK;
}

wafer_status streaming_together(streaming *s, uint32_t keeps, const sizing *greedy, sizing *out) {
  uint64_t price = s->paid / (2 * PRICE_STEP);
  size_forest *forest;
  const wafer_shape_point **wished =
      WAFER_NEW(s->ctx->arena, const wafer_shape_point *, s->graph->kernel_count);
  *out = (sizing){0};
  if (!wished) return streaming_no_memory(s);
  s->greedy = greedy->kernels;
  WAFER_TRY(size_layouts_open(s->ctx, s->curves, s->graph, s->batch, s->stripes, greedy->kernels,
                              &s->waste, s->prices_spread, s->last_use, &forest));
  for (int tries = 0; tries < WISHES_TRIED && !out->cost.fits; tries++) {
    size_layouts(forest, price, wished);
    WAFER_TRY(size_once(s, keeps, wished, out));
    price = price ? price * PRICE_STEP : 2 * PRICE_STEP;
  }
  return WAFER_OK;
}

wafer_status size_again(streaming *s, const sizing *like, sizing *out) {
  uint32_t count = s->graph->kernel_count;
  const wafer_shape_point **wished = WAFER_NEW(s->ctx->arena, const wafer_shape_point *, count);
  if (!wished) return streaming_no_memory(s);
  for (uint32_t k = 0; k < count; k++) wished[k] = like->kernels[k].point;
  s->greedy = like->kernels;
  WAFER_TRY(size_once(s, s->keeps, wished, out));
  for (uint32_t k = 0; k < count && out->cost.fits; k++)
    out->cost.fits = out->kernels[k].point == wished[k];
  return WAFER_OK;
}

/* What all phases take, and what they waste. */
static int64_t priced(const streaming *s, const sizing *of) {
  int64_t sum = (int64_t)of->cost.latency_cycles;
  for (uint32_t k = 0; k < s->graph->kernel_count && s->waste.worth; k++) {
    size_multiply own = size_multiply_cycles(s->ctx->machine, &s->graph->kernels[k].body,
                                             &of->kernels[k].point->split);
    sum += size_waste_price(&own, &s->waste);
  }
  return sum;
}

#define LATE_PART 16 /* of all cycles: what weights are late by, or a sizing is faster by */

/* Where phases wait for weights on their way over the cores: all together again, with a price for
 * that way. */
static wafer_status size_near(streaming *s, uint32_t keeps, sizing *out) {
  uint64_t late = size_spread_group_cycles(s->ctx->machine, out, s->batch);
  sizing near;
  if (s->waste.worth || late - late / LATE_PART <= out->cost.latency_cycles) return WAFER_OK;
  s->prices_spread = true;
  WAFER_TRY(streaming_together(s, keeps, out, &near));
  s->prices_spread = false;
  if (near.cost.fits &&
      size_spread_group_cycles(s->ctx->machine, &near, s->batch) < late - late / LATE_PART)
    *out = near;
  return WAFER_OK;
}

wafer_status streaming_either(streaming *s, uint32_t *keeps, sizing *out) {
  sizing together;
  s->shares = NULL;
  WAFER_TRY(size_greedy(s, keeps, out));
  if (!out->cost.fits || s->lean) return WAFER_OK; /* there, others would hardly fit */
  WAFER_TRY(streaming_together(s, *keeps, out, &together));
  if (together.cost.fits && priced(s, &together) < priced(s, out)) *out = together;
  WAFER_TRY(size_near(s, *keeps, out));
  return s->waste.worth ? WAFER_OK : size_shared(s, out);
}

static bool wants_lean(const wafer_options *o) {
  wafer_sparse_shapes shapes = o ? o->sparse_shapes : WAFER_SPARSE_lean;
  return shapes == WAFER_SPARSE_lean || shapes == WAFER_SPARSE_lean_roomy ||
         shapes == WAFER_SPARSE_lean_undealt;
}

/* Whether MemoryX holds all weights, as cores take them. */
static wafer_status look_at_store(const streaming *s, bool *holds, sizing *out) {
  const wafer_graph *g = s->graph;
  uint64_t bytes = 0, most = s->ctx->machine->memoryx_bytes, largest = 0;
  uint32_t worst = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++)
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
      const wafer_graph_value *v = &g->values[g->kernels[k].inputs[i]];
      if (!g->kernels[k].body.input_is_weight[i] || v->uses[0].kernel != k) continue;
      uint64_t own = value_words(v, g->kernels[k].body.storage) * WAFER_WAVELET_BYTES;
      if (own > largest) largest = own, worst = k;
      bytes += own;
    }
  *holds = bytes <= most;
  if (*holds) return WAFER_OK;
  const char *why = wafer_arena_printf(
      s->ctx->arena,
      "weights need %" PRIu64 " bytes of MemoryX, %" PRIu64 " are there (<memoryx bytes> of '%s')",
      bytes, most, s->ctx->machine->name);
  *out = (sizing){.cost.why_not = why, .refusal = {.kernel = worst, .why = why}};
  return why ? WAFER_OK : streaming_no_memory(s);
}

static wafer_status size_graph(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                               uint32_t resident, uint32_t stripes, sizing *out) {
  streaming s = {
      .ctx = ctx, .graph = graph, .curves = curves, .batch = resident, .stripes = stripes};
  uint32_t keeps;
  bool holds;
  WAFER_TRY(look_at_store(&s, &holds, out));
  if (!holds) return WAFER_OK;
  WAFER_TRY(streaming_either(&s, &keeps, out));
  bool prices_waste = out->cost.fits && !s.lean && wants_lean(ctx->options);
  return prices_waste ? size_sparse(&s, keeps, out) : WAFER_OK;
}

wafer_status size_streaming(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                            uint32_t resident, uint32_t stripes, sizing *out) {
  wafer_ctx of_stripe = *ctx;
  curve_set *set = curve_set_stripe(curves, stripes);
  const sizing *found = set ? curve_set_sizing(set, graph, resident) : NULL;
  if (found) {
    *out = *found;
    return WAFER_OK;
  }
  if (set) {
    of_stripe.machine = curve_set_machine(set);
    WAFER_TRY(size_graph(&of_stripe, set, graph, resident, stripes, out));
    if (!out->cost.fits || curve_set_keep_sizing(set, graph, resident, out)) return WAFER_OK;
  }
  return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to keep a sizing");
}

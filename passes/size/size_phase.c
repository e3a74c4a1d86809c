/* A phase of weight streaming: of the shapes of a kernel's curve, and of the buffers it may have,
 * those that are cheapest beside what is held. */
#include "size_streaming.h"
#include "streams.h"

#define SHAPES_TRIED 48 /* fastest shapes of a curve that are weighed with their relayouts */
#define PASSING_DEPTH 2 /* of inputs that pass sample by sample, see wafer_stream_passes */
/* Of a core's memory, of curves of what is left when few of them are used. */
#define BUDGET_STEPS 64

/* ---- Weighing a shape ---- */

/* Cycles to bring one input; over the edge, that of a sample in every stripe. */
static uint64_t bring_cycles(const streaming *s, const wafer_holding *from, const wafer_holding *to,
                             const wafer_type *type, wafer_dtype storage, uint32_t width) {
  const wafer_machine *m = s->ctx->machine;
  uint64_t words = stream_words(type, storage);
  if (from->where == WAFER_AT_wafer) return relayout_cycles(m, from, to, &type->shape, words);
  return s->stripes * stream_cycles(m, from, to, words) +
         stream_latency(m, from, to, s->corner.x + width);
}

/* Cycles to bring one sample's inputs to the kernel, one after the other. */
static uint64_t inputs_cycles(const streaming *s, const wafer_graph_kernel *kernel,
                              const wafer_kernel_body *body, const wafer_shape_point *point) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (body->input_is_weight[i]) continue;
    uint32_t value = kernel->inputs[i];
    const held *h = &s->held[value];
    wafer_holding to = streaming_input(s, body, point, i);
    wafer_holding from = h->count ? h->at[0] : (wafer_holding){.where = WAFER_AT_edge};
    if (held_has(h, &to)) continue;
    const wafer_type *type = &s->graph->values[value].type;
    all += bring_cycles(s, &from, &to, type, body->storage, point->width);
    if (!h->count) all += size_spread_cycles(s->ctx->machine, body, &to, type);
  }
  return all;
}

/* What a shape's copies cost while later kernels run. */
static uint64_t holding_price(const streaming *s, uint32_t k, const wafer_kernel_body *body,
                              const wafer_shape_point *point) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  uint64_t byte_phases = 0;
  if (!s->price) return 0;
  for (uint32_t i = 0; i < body->input_count + body->output_count; i++) {
    bool out = i >= body->input_count;
    uint32_t value = out ? kernel->outputs[i - body->input_count] : kernel->inputs[i];
    if (s->last_use[value] == WAFER_NONE || (!out && body->input_is_weight[i])) continue;
    wafer_holding at = out ? streaming_output(s, body, point, i - body->input_count)
                           : streaming_input(s, body, point, i);
    if ((!out && streaming_passes(s, body, i)) || held_has(&s->held[value], &at)) continue;
    byte_phases +=
        holding_bytes(&at, &s->graph->values[value].type, body->storage) * (s->last_use[value] - k);
  }
  return s->price * s->batch * byte_phases / 1024;
}

/* The cheapest shape of the curve that fits; NULL: none does. *least: the fewest bytes met. */
static const wafer_shape_point *choose(const streaming *s, uint32_t k,
                                       const wafer_kernel_body *body, const wafer_curve *curve,
                                       uint64_t *least, int64_t *cost) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  const wafer_shape_point *best = NULL;
  int64_t best_cycles = INT64_MAX;
  bool wastes = s->waste.worth && size_multiplies_sparse(body), all = s->price || wastes;
  uint32_t tried = 0;
  for (size_t i = 0; i < curve->count && (tried < SHAPES_TRIED || all); i++) {
    const wafer_shape_point *point = &curve->at[i];
    if (best && !(wastes && s->waste.credit) && (int64_t)point->cycles >= best_cycles) break;
    if (held_stays(s, kernel, body, point)) continue;
    uint64_t bytes = held_beside(s, kernel, body, point);
    *least = bytes < *least ? bytes : *least;
    if (bytes > s->budget) continue;
    int64_t cycles =
        size_own_price(s->curves, s->graph, k, body, point, s->stripes, &s->waste) +
        (int64_t)(inputs_cycles(s, kernel, body, point) + holding_price(s, k, body, point));
    tried++;
    if (cycles >= best_cycles) continue;
    best = point;
    best_cycles = cycles;
  }
  *cost = best_cycles;
  return best;
}

/* Of one kind of curves: tries the whole budget; then curves of what is left beside the held
 * values, in whole steps, so that layers alike share them, and to the byte; then the least that any
 * shape asks for. */
static wafer_status find_in(streaming *s, uint32_t k, const wafer_kernel_body *body, bool lean,
                            const wafer_shape_point **point, uint64_t *asked, int64_t *cost) {
  uint64_t held_bytes = s->batch * s->live;
  uint64_t step = s->lean ? s->budget / BUDGET_STEPS : 1;
  uint64_t left = held_bytes < s->budget ? s->budget - held_bytes : 0, last = UINT64_MAX;
  const uint64_t budgets[] = {s->budget, held_bytes ? left / step * step : s->budget, left};
  const wafer_curve *curve = NULL;
  *point = NULL;
  *asked = UINT64_MAX;
  for (size_t i = 0; i <= WAFER_COUNT(budgets) && !*point; i++) {
    bool least = i == WAFER_COUNT(budgets);
    curve_query query = {.budget = least ? curve->least_bytes : budgets[i], .lean = lean};
    bool hopeless = curve && !curve->count && query.budget < curve->least_bytes;
    if (query.budget == last || hopeless || query.budget == 0 ||
        (least && query.budget >= (left ? left : s->budget)))
      continue;
    last = query.budget;
    WAFER_TRY(curve_of(s->ctx->diag, s->curves, body, query, &curve));
    uint64_t beside =
        curve->least_bytes < UINT64_MAX ? curve->least_bytes + held_bytes : UINT64_MAX;
    if (!curve->count && beside < *asked) *asked = beside;
    *point = choose(s, k, body, curve, asked, cost);
  }
  return WAFER_OK;
}

/* Where memory is very short also among shapes whose results are spread thin. */
static wafer_status find_shape(streaming *s, uint32_t k, const wafer_kernel_body *body,
                               const wafer_shape_point **point, uint64_t *asked, int64_t *cost) {
  const wafer_shape_point *thin;
  uint64_t thin_asked;
  int64_t thin_cost;
  WAFER_TRY(find_in(s, k, body, false, point, asked, cost));
  if (!s->lean) return WAFER_OK;
  WAFER_TRY(find_in(s, k, body, true, &thin, &thin_asked, &thin_cost));
  if (thin && (!*point || thin_cost < *cost)) *point = thin, *cost = thin_cost;
  if (thin_asked < *asked) *asked = thin_asked;
  return WAFER_OK;
}

/* ---- One phase ---- */

static bool drops_copy(const streaming *s, uint32_t k, uint32_t input) {
  uint32_t last = s->last_use[s->graph->kernels[k].inputs[input]];
  return last != WAFER_NONE && last - k > s->keeps;
}

/* `inputs` 0: those that can pass in slices do, others stay with all of the batch. */
static wafer_status set_depths(streaming *s, uint32_t k, uint32_t weights, uint32_t inputs,
                               uint32_t outputs) {
  const wafer_kernel_body *body = &s->graph->kernels[k].body;
  uint32_t *depths = WAFER_NEW(s->ctx->arena, uint32_t, body->input_count + 1);
  if (!depths) return streaming_no_memory(s);
  for (uint32_t i = 0; i < body->input_count; i++) {
    bool slices = drops_copy(s, k, i) || (inputs == 0 && wafer_body_can_pass(body, i));
    depths[i] = body->input_is_weight[i] ? weights : slices ? 0 : inputs ? inputs : s->batch;
  }
  depths[body->input_count] = outputs;
  s->out->kernels[k].depths = depths;
  return WAFER_OK;
}

static uint64_t weight_words(const wafer_kernel_body *body, uint32_t input) {
  const wafer_type *type = &body->inputs[input];
  bool sparse = body->sparsity && body->sparsity[input].sparse;
  return sparse ? wafer_sparse_words(type, body->storage, body->sparsity[input].nonzeros)
                : stream_words(type, body->storage);
}

uint64_t size_weight_cycles(const wafer_machine *m, const wafer_kernel_body *body,
                            const wafer_shape_point *point, const sized_kernel *stays) {
  const wafer_holding from = {.where = WAFER_AT_memoryx},
                      to = {.where = WAFER_AT_wafer, .rect = {0, 0, point->width, point->height}};
  uint64_t sum = 0;
  bool any = false; /* one without words is asked for in its turn, too */
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (!body->input_is_weight[i] || (stays && size_stays(stays, i))) continue;
    any = true;
    sum += stream_cycles(m, &from, &to, weight_words(body, i));
  }
  return any ? sum + m->memoryx_latency_cycles + m->edge_latency_cycles : 0;
}

uint64_t size_weight_spread(const wafer_machine *m, const wafer_kernel_body *body, uint32_t input,
                            const wafer_holding *to) {
  if (!body->input_is_weight[input]) return 0;
  return spread_cycles(m, to, &body->inputs[input].shape, weight_words(body, input));
}

/* Until results have left the wafer, one after the other: the lower the shape is, the fewer lanes
 * they have. *words: without the way. */
static uint64_t output_cycles(const wafer_machine *m, const wafer_graph *graph, uint32_t k,
                              const wafer_shape_point *point, uint32_t stripes, uint64_t *words) {
  const wafer_graph_kernel *kernel = &graph->kernels[k];
  const wafer_holding to = {.where = WAFER_AT_edge},
                      from = {.where = WAFER_AT_wafer, .rect = {0, 0, point->width, point->height}};
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kernel->body.output_count; i++) {
    const wafer_graph_value *value = &graph->values[kernel->outputs[i]];
    if (wafer_graph_is_output(value))
      sum += stream_cycles(m, &from, &to, value_words(value, kernel->body.storage));
  }
  *words = stripes * sum;
  return sum ? *words + stream_latency(m, &from, &to, point->width) : 0;
}

uint64_t size_spread_cycles(const wafer_machine *m, const wafer_kernel_body *body,
                            const wafer_holding *to, const wafer_type *type) {
  if (!size_multiplies_sparse(body)) return 0;
  return spread_cycles(m, to, &type->shape, stream_words(type, body->storage));
}

uint64_t size_work_cycles(const wafer_machine *m, const wafer_graph *graph, uint32_t k,
                          const wafer_kernel_body *body, const wafer_shape_point *point,
                          uint32_t stripes) {
  uint64_t words, out = output_cycles(m, graph, k, point, stripes, &words);
  return body->output_depth ? point->cycles + out : max_u64(point->cycles, out);
}

int64_t size_own_price(curve_set *curves, const wafer_graph *graph, uint32_t k,
                       const wafer_kernel_body *body, const wafer_shape_point *point,
                       uint32_t stripes, const size_waste *waste) {
  const wafer_machine *m = curve_set_machine(curves);
  int64_t work = (int64_t)size_work_cycles(m, graph, k, body, point, stripes);
  if (!waste->worth || !size_multiplies_sparse(body)) return work;
  size_multiply own = curve_multiply(curves, body, point);
  return work + size_waste_price(&own, waste);
}

static bool in_slices(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i] && body->input_depth[i] == 0) return true;
  return false;
}

/* Buffers of each weight; 0: there is none, or they pass in slices. */
static uint32_t weight_depth(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i]) return body->input_depth[i];
  return 0;
}

static uint64_t spread_of(const streaming *s, const wafer_kernel_body *body,
                          const wafer_shape_point *point, const sized_kernel *stays) {
  uint64_t spread = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    const wafer_holding to = streaming_input(s, body, point, i);
    if (stays && size_stays(stays, i)) continue;
    spread = max_u64(spread, size_weight_spread(s->ctx->machine, body, i, &to));
  }
  return spread;
}

void streaming_arrive(streaming *s, uint32_t k) {
  const sized_kernel *sized = &s->out->kernels[k];
  wafer_kernel_body body = size_with_depths(&s->graph->kernels[k].body, sized->depths);
  size_phase *own = &s->own[k];
  streaming_at(s, k);
  own->weights = size_weight_cycles(s->ctx->machine, &body, sized->point, sized);
  own->spread = own->weights ? spread_of(s, &body, sized->point, sized) : 0;
  if (!own->weights) own->load_bytes = 0;
}

static void account(streaming *s, uint32_t k, const wafer_kernel_body *body,
                    const wafer_shape_point *point) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  wafer_mode_cost *cost = &s->out->cost;
  uint64_t bytes = held_beside(s, kernel, body, point);
  wafer_cost parts;
  wafer_kernel_cost(s->ctx->machine, body, &point->split, &parts);
  uint64_t fixed = parts.code_bytes + parts.weight_bytes + parts.scratch_bytes;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (streaming_passes(s, body, i)) {
      fixed += parts.input_bytes;
      break;
    }
  const wafer_machine *m = s->ctx->machine;
  uint64_t leave, in = inputs_cycles(s, kernel, body, point),
                  out = output_cycles(m, s->graph, k, point, s->stripes, &leave);
  uint64_t work = size_work_cycles(m, s->graph, k, body, point, s->stripes);
  uint64_t weights = size_weight_cycles(m, body, point, NULL);
  if (in_slices(body)) { /* nothing arrives before the phase */
    work = max_u64(work, weights);
    weights = 0;
  }
  uint32_t buffers = weight_depth(body);
  uint64_t spread = weights ? spread_of(s, body, point, NULL) : 0;
  s->own[k] = (size_phase){.in = in,
                           .work = work,
                           .beat = max_u64(point->cycles, max_u64(in, out)),
                           .leave = leave,
                           .weights = weights,
                           .spread = spread,
                           .load_bytes = buffers ? parts.weight_bytes / buffers : 0,
                           .fixed_bytes = fixed < bytes ? fixed : bytes,
                           .sample_bytes = (fixed < bytes ? bytes - fixed : 0) / s->batch,
                           .cores = (uint64_t)point->width * point->height};
  s->before = bytes;
  if (bytes > cost->peak_core_bytes) cost->peak_core_bytes = bytes;
}

/* Weights that have no second buffer must find room beside all that the phase before holds. */
static uint64_t bytes_before(const streaming *s, const wafer_kernel_body *body,
                             const wafer_shape_point *point) {
  wafer_cost cost;
  wafer_kernel_cost(s->ctx->machine, body, &point->split, &cost);
  return s->before + cost.weight_bytes;
}

/* A search for a shape of a phase, over ever fewer buffers. */
typedef struct attempt {
  wafer_kernel_body body;
  const wafer_shape_point *point; /* NULL: none fits yet */
  const uint32_t *depths;
  int64_t cost;              /* cycles, with what inputs and memory cost */
  wafer_kernel_body refused; /* the body that asked for least, and what it asked for */
  uint64_t asked;
} attempt;

/* A shape with these buffers, where there was none. */
static wafer_status try_depths(streaming *s, uint32_t k, uint32_t weights, uint32_t inputs,
                               uint32_t outputs, attempt *a) {
  uint64_t least;
  if (a->point) return WAFER_OK;
  WAFER_TRY(set_depths(s, k, weights, inputs, outputs));
  a->depths = s->out->kernels[k].depths;
  a->body = size_with_depths(&s->graph->kernels[k].body, a->depths);
  WAFER_TRY(find_shape(s, k, &a->body, &a->point, &least, &a->cost));
  if (a->point && weights == 1) {
    least = bytes_before(s, &a->body, a->point);
    if (least > s->budget) a->point = NULL;
  }
  if (a->point || (least >= a->asked && a->asked < UINT64_MAX)) return WAFER_OK;
  a->refused = a->body;
  a->asked = least;
  return WAFER_OK;
}

/* The shape wished for, where it fits beside what is held. */
static wafer_status try_wish(streaming *s, uint32_t k, attempt *a) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  const wafer_shape_point *wish = s->wished ? s->wished[k] : NULL;
  if (!wish) return WAFER_OK;
  a->depths = s->greedy[k].depths;
  a->body = size_with_depths(&kernel->body, a->depths);
  if (held_beside(s, kernel, &a->body, wish) <= s->budget) a->point = wish;
  return WAFER_OK;
}

/* Results that nobody needs on the wafer. */
static bool only_leaves(const streaming *s, uint32_t k) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    if (s->last_use[kernel->outputs[i]] != WAFER_NONE) return false;
  return s->batch == 1;
}

/* Activations in slices; with fewer buffers of weights, then with results that leave so. */
static wafer_status try_slices(streaming *s, uint32_t k, bool streams, attempt *a) {
  for (uint32_t weights = SIZE_WEIGHT_DEPTH + 1; weights-- > (streams ? 0 : SIZE_WEIGHT_DEPTH);)
    WAFER_TRY(try_depths(s, k, weights, 0, s->batch, a));
  return only_leaves(s, k) ? try_depths(s, k, streams ? 0 : SIZE_WEIGHT_DEPTH, 0, 0, a) : WAFER_OK;
}

static bool can_pass(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (wafer_body_can_pass(body, i)) return true;
  return false;
}

/* Whether slices may be taken because they are cheaper: they have no programs, so not in a plan
 * that could run at fabric fidelity in reasonable time; and where memory is dear, since a factor as
 * a whole often wants its sum cut, which leaves results on many cores at once. */
static bool weighs_slices(const streaming *s, uint32_t k) {
  const wafer_kernel_body *body = &s->graph->kernels[k].body;
  uint64_t words = 0;
  for (uint32_t i = 0; i < body->input_count; i++)
    words += stream_words(&body->inputs[i], body->storage);
  return s->price > 0 || words > WAFER_PROGRAMS_WORDS;
}

/* Inputs whole, with as many buffers as there is room for. */
static wafer_status try_whole(streaming *s, uint32_t k, bool streams, attempt *a) {
  for (uint32_t weights = SIZE_WEIGHT_DEPTH + 1; weights-- > (streams ? 0 : 1);) {
    WAFER_TRY(try_depths(s, k, weights, s->batch, s->batch, a));
    if (s->batch > PASSING_DEPTH) WAFER_TRY(try_depths(s, k, weights, PASSING_DEPTH, s->batch, a));
  }
  return only_leaves(s, k) ? try_depths(s, k, streams ? 0 : SIZE_WEIGHT_DEPTH, 1, 0, a) : WAFER_OK;
}

wafer_status streaming_find_curves(streaming *s) {
  uint32_t n = s->graph->kernel_count;
  curve_wish *wishes = WAFER_NEW(s->ctx->arena, curve_wish, n);
  for (uint32_t k = 0; wishes && k < n; k++) {
    WAFER_TRY(set_depths(s, k, SIZE_WEIGHT_DEPTH, s->batch, s->batch));
    wishes[k] =
        (curve_wish){size_with_depths(&s->graph->kernels[k].body, s->out->kernels[k].depths),
                     {.budget = s->budget}};
  }
  return wishes ? curves_find(s->ctx->diag, s->curves, n, wishes) : streaming_no_memory(s);
}

wafer_status streaming_phase(streaming *s, uint32_t k, bool *fits) {
  attempt a = {.asked = UINT64_MAX};
  const wafer_kernel_body *body = &s->graph->kernels[k].body;
  bool streams = size_has_weights(body);
  WAFER_TRY(try_wish(s, k, &a));
  bool slices = s->batch == 1 && can_pass(body) && !a.point;
  WAFER_TRY(try_whole(s, k, streams, &a));
  if (slices && (!a.point || weighs_slices(s, k))) {
    attempt passing = {.asked = UINT64_MAX};
    WAFER_TRY(try_slices(s, k, streams, &passing));
    if (passing.point ? !a.point || passing.cost < a.cost : !a.point && passing.asked < a.asked)
      a = passing;
  }
  *fits = a.point != NULL;
  if (!*fits) {
    s->refused = a.refused, s->refused_kernel = k;
    s->asked = a.asked, s->beside = s->batch * s->live;
    return WAFER_OK;
  }
  s->out->kernels[k].point = a.point;
  s->out->kernels[k].depths = a.depths;
  account(s, k, &a.body, a.point);
  return held_update(s, k, &a.body, a.point);
}

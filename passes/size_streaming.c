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
#include <string.h>

#include "size.h"
#include "streams.h"

#define SHAPES_TRIED 48 /* fastest shapes of a curve that are weighed with their relayouts */
#define PASSING_DEPTH 2 /* of inputs that pass sample by sample, see wafer_stream_passes */
#define BUDGETS_TRIED 3 /* curves made again with less memory before giving up */
#define PRICES_TRIED 5  /* of memory, when the fastest shapes leave too little of it */
#define WISHES_TRIED 4  /* the same, of shapes chosen together, */
#define PRICE_STEP 8    /* each so many times the one before */

/* A value's copies on the wafer between phases. */
typedef struct held {
  uint32_t count, room;
  wafer_holding *at;
  uint64_t bytes; /* per core and sample, of all copies */
} held;

typedef struct streaming {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  sizing *out;
  uint32_t batch;
  const wafer_shape_point **wished; /* kernel: the shape to take if it fits; NULL: none */
  const sized_kernel *greedy;       /* of those wishes */
  uint64_t budget;
  wafer_rect whole;
  held *held;         /* value */
  uint32_t *last_use; /* value: the last kernel that needs it */
  uint64_t live;      /* bytes per core and sample of all held values */
  uint64_t before;    /* bytes of the fullest core in the phase before */
  uint64_t price;     /* 1024ths of a cycle for a byte on each core through a phase */
  uint64_t paid;      /* the price at which all fitted */
  uint32_t keeps;     /* kernels: copies of values that are needed later than that end with the
                         phase, and are made again */
} streaming;

static wafer_status no_memory(const streaming *s) {
  return wafer_fail(s->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY,
                    "no memory to size weight streaming");
}

/* ---- Holdings ---- */

static wafer_holding input_holding(const streaming *s, const wafer_kernel_body *body,
                                   const wafer_shape_point *point, uint32_t input) {
  const wafer_layout *lie = curve_layouts(s->curves, body, point);
  return (wafer_holding){WAFER_AT_wafer,
                         {s->whole.x, s->whole.y, point->width, point->height},
                         lie ? lie[input] : wafer_kernel_input_layout(body, &point->split, input)};
}

static wafer_holding output_holding(const streaming *s, const wafer_kernel_body *body,
                                    const wafer_shape_point *point, uint32_t output) {
  const wafer_layout *lie = curve_layouts(s->curves, body, point);
  return (wafer_holding){WAFER_AT_wafer,
                         {s->whole.x, s->whole.y, point->width, point->height},
                         lie ? lie[body->input_count + output]
                             : wafer_kernel_output_layout(body, &point->split, output)};
}

static bool is_held(const held *h, const wafer_holding *holding) {
  for (uint32_t i = 0; i < h->count; i++)
    if (wafer_holding_equal(&h->at[i], holding)) return true;
  return false;
}

static wafer_status hold(streaming *s, uint32_t value, const wafer_holding *holding,
                         wafer_dtype storage) {
  held *h = &s->held[value];
  if (is_held(h, holding)) return WAFER_OK;
  if (h->count == h->room) {
    uint32_t room = h->room ? 2 * h->room : 2;
    wafer_holding *larger = WAFER_NEW(s->ctx->arena, wafer_holding, room);
    if (!larger) return no_memory(s);
    if (h->count) memcpy(larger, h->at, h->count * sizeof *larger);
    h->at = larger;
    h->room = room;
  }
  h->at[h->count++] = *holding;
  uint64_t bytes = holding_bytes(holding, &s->graph->values[value].type, storage);
  h->bytes += bytes;
  s->live += bytes;
  return WAFER_OK;
}

static void drop(streaming *s, uint32_t value) {
  s->live -= s->held[value].bytes;
  s->held[value] = (held){0};
}

/* Copies of this kernel's own inputs that the kernel's bytes count already. */
static uint64_t counted_twice(const streaming *s, const wafer_graph_kernel *kernel,
                              const wafer_kernel_body *body, const wafer_shape_point *point) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    const held *h = &s->held[kernel->inputs[i]];
    if (!h->count) continue;
    wafer_holding holding = input_holding(s, body, point, i);
    if (is_held(h, &holding))
      bytes += holding_bytes(&holding, &s->graph->values[kernel->inputs[i]].type, body->storage);
  }
  return bytes;
}

/* Whether an input's samples pass through a buffer, instead of staying with all of the batch. */
static bool passes(const streaming *s, const wafer_kernel_body *body, uint32_t input) {
  return !body->input_is_weight[input] && body->input_depth[input] < s->batch;
}

/* Whether an input that is to pass lies where the shape needs it: nothing would be sent. */
static bool stays(const streaming *s, const wafer_graph_kernel *kernel,
                  const wafer_kernel_body *body, const wafer_shape_point *point) {
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (!passes(s, body, i) || body->input_depth[i] == 0) continue; /* what is there, serves */
    wafer_holding holding = input_holding(s, body, point, i);
    if (is_held(&s->held[kernel->inputs[i]], &holding)) return true;
  }
  return false;
}

/* ---- Weighing a shape ---- */

/* Cycles to bring one input. */
static uint64_t bring_cycles(const streaming *s, const wafer_holding *from, const wafer_holding *to,
                             const wafer_type *type, wafer_dtype storage, uint32_t width) {
  const wafer_machine *m = s->ctx->machine;
  uint64_t words = stream_words(type, storage);
  if (from->where == WAFER_AT_wafer) return relayout_cycles(m, from, to, &type->shape, words);
  return stream_cycles(m, from, to, words) + stream_latency(m, from, to, width);
}

/* Cycles to bring one sample's inputs to the kernel, one after the other. */
static uint64_t inputs_cycles(const streaming *s, const wafer_graph_kernel *kernel,
                              const wafer_kernel_body *body, const wafer_shape_point *point) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (body->input_is_weight[i]) continue;
    uint32_t value = kernel->inputs[i];
    const held *h = &s->held[value];
    wafer_holding to = input_holding(s, body, point, i);
    wafer_holding from = h->count ? h->at[0] : (wafer_holding){.where = WAFER_AT_edge};
    if (is_held(h, &to)) continue;
    all += bring_cycles(s, &from, &to, &s->graph->values[value].type, body->storage, point->width);
  }
  return all;
}

static uint64_t bytes_beside(const streaming *s, const wafer_graph_kernel *kernel,
                             const wafer_kernel_body *body, const wafer_shape_point *point) {
  return point->bytes + s->batch * (s->live - counted_twice(s, kernel, body, point));
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
    wafer_holding at = out ? output_holding(s, body, point, i - body->input_count)
                           : input_holding(s, body, point, i);
    if ((!out && passes(s, body, i)) || is_held(&s->held[value], &at)) continue;
    byte_phases +=
        holding_bytes(&at, &s->graph->values[value].type, body->storage) * (s->last_use[value] - k);
  }
  return s->price * s->batch * byte_phases / 1024;
}

/* The cheapest shape of the curve that fits; NULL: none does. *least: the fewest bytes met. */
static const wafer_shape_point *choose(const streaming *s, uint32_t k,
                                       const wafer_kernel_body *body, const wafer_curve *curve,
                                       uint64_t *least, uint64_t *cost) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  const wafer_shape_point *best = NULL;
  uint64_t best_cycles = UINT64_MAX;
  uint32_t tried = 0;
  for (size_t i = 0; i < curve->count && (tried < SHAPES_TRIED || s->price); i++) {
    const wafer_shape_point *point = &curve->at[i];
    if (best && point->cycles >= best_cycles) break;
    if (stays(s, kernel, body, point)) continue;
    uint64_t bytes = bytes_beside(s, kernel, body, point);
    *least = bytes < *least ? bytes : *least;
    if (bytes > s->budget) continue;
    uint64_t cycles =
        point->cycles + inputs_cycles(s, kernel, body, point) + holding_price(s, k, body, point);
    tried++;
    if (cycles >= best_cycles) continue;
    best = point;
    best_cycles = cycles;
  }
  *cost = best_cycles;
  return best;
}

/* Tries the whole budget, then curves of what is left beside the held values. */
static wafer_status find_shape(streaming *s, uint32_t k, const wafer_kernel_body *body,
                               const wafer_shape_point **point, uint64_t *asked, uint64_t *cost) {
  uint64_t budget = s->budget, held_bytes = s->batch * s->live;
  *point = NULL;
  *asked = UINT64_MAX;
  for (int tries = 0; tries < BUDGETS_TRIED && !*point; tries++) {
    const wafer_curve *curve;
    WAFER_TRY(curve_of(s->ctx->diag, s->curves, body, budget, 0, &curve));
    if (!curve->count && curve->least_bytes + held_bytes < *asked)
      *asked = curve->least_bytes + held_bytes;
    *point = choose(s, k, body, curve, asked, cost);
    uint64_t next =
        tries == 0 && held_bytes < s->budget ? s->budget - held_bytes : curve->least_bytes;
    if (next >= budget) break;
    budget = next;
  }
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
  if (!depths) return no_memory(s);
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
                            const wafer_shape_point *point) {
  const wafer_holding from = {.where = WAFER_AT_memoryx},
                      to = {.where = WAFER_AT_wafer, .rect = {0, 0, point->width, point->height}};
  uint64_t sum = 0;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i]) sum += stream_cycles(m, &from, &to, weight_words(body, i));
  return sum ? sum + m->memoryx_latency_cycles + m->edge_latency_cycles : 0;
}

static uint64_t output_cycles(const streaming *s, const wafer_graph_kernel *kernel) {
  uint64_t words = 0;
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    if (wafer_graph_is_output(&s->graph->values[kernel->outputs[i]]))
      words += value_words(&s->graph->values[kernel->outputs[i]], kernel->body.storage);
  return words ? edge_out_cycles(s->ctx->machine, words) + s->ctx->machine->edge_latency_cycles : 0;
}

static uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static bool has_weights(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i]) return true;
  return false;
}

static bool in_slices(const wafer_kernel_body *body) {
  for (uint32_t i = 0; i < body->input_count; i++)
    if (body->input_is_weight[i] && body->input_depth[i] == 0) return true;
  return false;
}

static void account(streaming *s, uint32_t k, const wafer_kernel_body *body,
                    const wafer_shape_point *point) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  wafer_mode_cost *cost = &s->out->cost;
  uint64_t bytes = bytes_beside(s, kernel, body, point),
           area = (uint64_t)point->width * point->height;
  wafer_cost parts;
  wafer_kernel_cost(s->ctx->machine, body, &point->split, &parts);
  uint64_t fixed = parts.code_bytes + parts.weight_bytes + parts.scratch_bytes;
  for (uint32_t i = 0; i < body->input_count; i++)
    if (passes(s, body, i)) {
      fixed += parts.input_bytes;
      break;
    }
  uint64_t in = inputs_cycles(s, kernel, body, point), out = output_cycles(s, kernel);
  uint64_t work = point->cycles, weights = size_weight_cycles(s->ctx->machine, body, point);
  if (in_slices(body)) { /* nothing arrives before the phase */
    work = max_u64(work, weights);
    weights = 0;
  }
  s->out->phases[k] = (size_phase){.in = in,
                                   .work = work + out,
                                   .beat = max_u64(point->cycles, max_u64(in, out)),
                                   .weights = weights,
                                   .fixed_bytes = fixed < bytes ? fixed : bytes,
                                   .sample_bytes = (fixed < bytes ? bytes - fixed : 0) / s->batch};
  s->before = bytes;
  if (bytes > cost->peak_core_bytes) cost->peak_core_bytes = bytes;
  if (area > cost->cores) cost->cores = area;
}

/* The copies that the phase makes, then the values that nobody needs any more. */
static wafer_status update_held(streaming *s, uint32_t k, const wafer_kernel_body *body,
                                const wafer_shape_point *point) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (body->input_is_weight[i] || passes(s, body, i)) continue;
    wafer_holding to = input_holding(s, body, point, i);
    WAFER_TRY(hold(s, kernel->inputs[i], &to, body->storage));
  }
  for (uint32_t i = 0; i < body->output_count && body->output_depth > 0; i++) {
    wafer_holding made = output_holding(s, body, point, i);
    WAFER_TRY(hold(s, kernel->outputs[i], &made, body->storage));
  }
  for (uint32_t i = 0; i < body->input_count; i++)
    if (s->last_use[kernel->inputs[i]] == k) drop(s, kernel->inputs[i]);
  for (uint32_t i = 0; i < body->output_count; i++)
    if (s->last_use[kernel->outputs[i]] == WAFER_NONE) drop(s, kernel->outputs[i]);
  return WAFER_OK;
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
  uint64_t cost;             /* cycles, with what inputs and memory cost */
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
  if (bytes_beside(s, kernel, &a->body, wish) <= s->budget) a->point = wish;
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

#define WORDS_WITH_PROGRAMS                                                                        \
  (1u << 23) /* of a kernel's operands: a plan that gets none, see launch.c */

/* Whether slices may be taken because they are cheaper: they have no programs, so not in a plan
 * that could run at fabric fidelity in reasonable time; and where memory is dear, since a factor as
 * a whole often wants its sum cut, which leaves results on many cores at once. */
static bool weighs_slices(const streaming *s, uint32_t k) {
  const wafer_kernel_body *body = &s->graph->kernels[k].body;
  uint64_t words = 0;
  for (uint32_t i = 0; i < body->input_count; i++)
    words += stream_words(&body->inputs[i], body->storage);
  return s->price > 0 || words > WORDS_WITH_PROGRAMS;
}

/* Inputs whole, with as many buffers as there is room for. */
static wafer_status try_whole(streaming *s, uint32_t k, bool streams, attempt *a) {
  for (uint32_t weights = SIZE_WEIGHT_DEPTH + 1; weights-- > (streams ? 0 : 1);) {
    WAFER_TRY(try_depths(s, k, weights, s->batch, s->batch, a));
    if (s->batch > PASSING_DEPTH) WAFER_TRY(try_depths(s, k, weights, PASSING_DEPTH, s->batch, a));
  }
  return only_leaves(s, k) ? try_depths(s, k, streams ? 0 : SIZE_WEIGHT_DEPTH, 1, 0, a) : WAFER_OK;
}

static wafer_status size_phase_of(streaming *s, uint32_t k, bool *fits) {
  attempt a = {.asked = UINT64_MAX};
  const wafer_kernel_body *body = &s->graph->kernels[k].body;
  bool streams = has_weights(body);
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
  if (!*fits)
    return size_refuse(s->ctx, s->graph, k, &a.refused, a.asked, s->budget, s->batch * s->live,
                       &s->out->refusal);
  s->out->kernels[k].point = a.point;
  s->out->kernels[k].depths = a.depths;
  account(s, k, &a.body, a.point);
  return update_held(s, k, &a.body, a.point);
}

/* ---- All together ---- */

static wafer_status start(streaming *s) {
  uint32_t kernels = s->graph->kernel_count, values = s->graph->value_count;
  wafer_arena *arena = s->ctx->arena;
  s->budget = wafer_machine_core_budget(s->ctx->machine);
  s->out->kernels = WAFER_NEW(arena, sized_kernel, kernels);
  s->out->phases = WAFER_NEW(arena, size_phase, kernels);
  s->held = WAFER_NEW(arena, held, values);
  s->last_use = WAFER_NEW(arena, uint32_t, values);
  if (!s->out->kernels || !s->out->phases || !s->held || !s->last_use ||
      !size_whole_wafer(s->ctx->machine, &s->whole))
    return no_memory(s);
  for (uint32_t v = 0; v < values; v++) {
    const wafer_graph_value *value = &s->graph->values[v];
    s->last_use[v] = value->use_count ? value->uses[value->use_count - 1].kernel : WAFER_NONE;
  }
  return WAFER_OK;
}

/* Phases follow each other; a phase's weights start to arrive with the phase before. Within a phase
 * samples overlap. */
static uint64_t group_cycles(const sizing *of, uint32_t phases, uint64_t batch) {
  uint64_t before = 0, start = 0;
  for (uint32_t p = 0; p < phases; p++) {
    const size_phase *phase = &of->phases[p];
    uint64_t works = max_u64(start + phase->in, before + phase->weights);
    before = start;
    start = works + phase->work + (batch - 1) * phase->beat;
  }
  return start;
}

uint64_t size_streaming_interval(const wafer_machine *machine, const wafer_graph *graph,
                                 const sizing *of, uint32_t batch) {
  for (uint32_t p = 0; p < graph->kernel_count; p++)
    if (of->phases[p].fixed_bytes + batch * of->phases[p].sample_bytes >
        wafer_machine_core_budget(machine))
      return UINT64_MAX;
  return (group_cycles(of, graph->kernel_count, batch) + batch - 1) / batch;
}

static wafer_status size_all(streaming *s, bool *fits) {
  *fits = true;
  *s->out = (sizing){0};
  s->live = s->before = 0;
  WAFER_TRY(start(s));
  for (uint32_t k = 0; k < s->graph->kernel_count && *fits; k++)
    WAFER_TRY(size_phase_of(s, k, fits));
  return WAFER_OK;
}

/* Each phase for itself, or as `wished`. */
static wafer_status size_once(streaming *s, uint32_t keeps, const wafer_shape_point **wished,
                              sizing *out) {
  const wafer_graph *graph = s->graph;
  bool fits = false;
  s->keeps = keeps;
  s->wished = wished;
  s->out = out;
  s->price = wished ? s->paid : 0;
  for (int tries = 0; tries < (wished ? 1 : PRICES_TRIED) && !fits; tries++) {
    WAFER_TRY(size_all(s, &fits));
    if (fits) s->paid = s->price;
    s->price = s->price ? s->price * 16 : 1;
  }
  out->cost.fits = fits;
  out->cost.why_not = fits ? "" : out->refusal.why;
  if (!fits) return WAFER_OK;
  out->cost.latency_cycles = group_cycles(out, graph->kernel_count, s->batch);
  out->cost.interval_cycles = (out->cost.latency_cycles + s->batch - 1) / s->batch;
  return WAFER_OK;
}

/* Copies end with their phase only where memory is short without it: first those that wait long. */
static wafer_status size_greedy(streaming *s, uint32_t *keeps, sizing *out) {
  static const uint32_t tried[] = {UINT32_MAX, 6, 0};
  uint32_t count = s->batch == 1 ? sizeof tried / sizeof *tried : 1;
  *out = (sizing){0};
  for (uint32_t i = 0; i < count && !out->cost.fits; i++) {
    *keeps = tried[i];
    WAFER_TRY(size_once(s, tried[i], NULL, out));
  }
  return WAFER_OK;
}

/* The shapes of all kernels chosen together: at the lowest price of memory, from below the one that
 * was paid, with which they fit. */
static wafer_status size_together(streaming *s, uint32_t keeps, const sizing *greedy, sizing *out) {
  uint64_t price = s->paid / (2 * PRICE_STEP);
  const uint32_t *last_use = s->last_use;
  const wafer_shape_point **wished =
      WAFER_NEW(s->ctx->arena, const wafer_shape_point *, s->graph->kernel_count);
  *out = (sizing){0};
  if (!wished) return no_memory(s);
  s->greedy = greedy->kernels;
  for (int tries = 0; tries < WISHES_TRIED && !out->cost.fits; tries++) {
    WAFER_TRY(size_layouts(s->ctx, s->curves, s->graph, s->batch, greedy->kernels, price, last_use,
                           wished));
    WAFER_TRY(size_once(s, keeps, wished, out));
    price = price ? price * PRICE_STEP : 2 * PRICE_STEP;
  }
  return WAFER_OK;
}

static wafer_status size_graph(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                               uint32_t batch, sizing *out) {
  streaming s = {.ctx = ctx, .graph = graph, .curves = curves, .batch = batch};
  sizing together;
  uint32_t keeps;
  WAFER_TRY(size_greedy(&s, &keeps, out));
  if (!out->cost.fits) return WAFER_OK;
  WAFER_TRY(size_together(&s, keeps, out, &together));
  if (together.cost.fits && together.cost.latency_cycles < out->cost.latency_cycles)
    *out = together;
  return WAFER_OK;
}

wafer_status size_streaming(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph,
                            uint32_t batch, sizing *out) {
  const sizing *found = curve_set_sizing(curves, graph, batch);
  if (found) {
    *out = *found;
    return WAFER_OK;
  }
  WAFER_TRY(size_graph(ctx, curves, graph, batch, out));
  if (!out->cost.fits || curve_set_keep_sizing(curves, graph, batch, out)) return WAFER_OK;
  return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to keep a sizing");
}

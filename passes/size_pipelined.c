/* Sizing a pipeline: every kernel on its own rectangle, a train of samples flowing through.
 *
 * The interval T between samples is the slowest kernel's, stream's or the edge's. For a T each kernel needs a
 * shape whose cycles and whose streams (a row of the rectangle is a lane) are at most T; T is feasible when
 * the shelves hold them all. Only cycles that stand on a curve matter, so T is found by bisection over them.
 * Nothing faster than the edge is looked for: it would burn cores and gain nothing. */
#include <stdlib.h>

#include "shelf.h"
#include "size.h"
#include "streams.h"

/* Kernels that are sized alike: the same curve, the same heaviest stream. */
typedef struct kind {
  const wafer_curve *curve;
  uint64_t words;
} kind;

typedef struct pipeline {
  const wafer_ctx *ctx;
  const wafer_graph *graph;
  curve_set *curves;
  sizing *out;
  uint32_t *stage;     /* kernel: length of the longest path to it */
  const wafer_curve **curve;
  uint32_t *kind_of;
  uint32_t kind_count;
  kind *kinds;
  size_t cycle_count;
  uint64_t *cycles;    /* every cycle count on a curve, rising */
  uint64_t edge;       /* cycles of a sample across the edge */
} pipeline;

static wafer_status no_memory(const pipeline *p) {
  return wafer_fail(p->ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to size a pipeline");
}

/* ---- Depths ---- */

static void find_stages(pipeline *p) {
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &p->graph->kernels[k];
    for (uint32_t i = 0; i < kernel->body.input_count; i++) {
      uint32_t producer = p->graph->values[kernel->inputs[i]].producer;
      if (producer != WAFER_NONE && p->stage[k] <= p->stage[producer]) p->stage[k] = p->stage[producer] + 1;
    }
  }
}

/* A first guess, for the bytes: a value that skips stages waits for as many samples as it skips. Inputs wait
 * outside the wafer. */
static wafer_status guess_depths(pipeline *p, uint32_t k) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, kernel->body.input_count + 1);
  if (!depths) return no_memory(p);
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t producer = p->graph->values[kernel->inputs[i]].producer;
    uint32_t spans = producer == WAFER_NONE ? 0 : p->stage[k] - p->stage[producer] + 1;
    depths[i] = kernel->body.input_is_weight[i] ? 1
                : spans < SIZE_PIPELINE_DEPTH   ? SIZE_PIPELINE_DEPTH
                                                : spans;
  }
  depths[kernel->body.input_count] = SIZE_PIPELINE_DEPTH;
  p->out->kernels[k].depths = depths;
  return WAFER_OK;
}

/* ---- Kinds ---- */

static uint64_t heaviest_stream(const pipeline *p, uint32_t k) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t most = 0;
  for (uint32_t i = 0; i < kernel->body.input_count + kernel->body.output_count; i++) {
    bool in = i < kernel->body.input_count;
    uint32_t value = in ? kernel->inputs[i] : kernel->outputs[i - kernel->body.input_count];
    if (wafer_graph_is_weight(p->graph, value)) continue;
    uint64_t words = stream_words(&p->graph->values[value].type, kernel->body.storage);
    most = words > most ? words : most;
  }
  return most;
}

typedef struct keyed {
  kind is;
  uint32_t kernel;
} keyed;

static int by_kind(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->is.curve != y->is.curve) return x->is.curve < y->is.curve ? -1 : 1;
  if (x->is.words != y->is.words) return x->is.words < y->is.words ? -1 : 1;
  return (x->kernel > y->kernel) - (x->kernel < y->kernel);
}

/* Numbers the kinds. Sorting by address only brings equals together; the numbers do not reach the result. */
static wafer_status find_kinds(pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  keyed *order = WAFER_NEW(p->ctx->arena, keyed, n);
  p->kinds = WAFER_NEW(p->ctx->arena, kind, n);
  p->kind_of = WAFER_NEW(p->ctx->arena, uint32_t, n);
  if (!order || !p->kinds || !p->kind_of) return no_memory(p);
  for (uint32_t k = 0; k < n; k++) order[k] = (keyed){{p->curve[k], heaviest_stream(p, k)}, k};
  qsort(order, n, sizeof *order, by_kind);
  for (uint32_t i = 0; i < n; i++) {
    const kind *last = &p->kinds[p->kind_count ? p->kind_count - 1 : 0];
    if (!p->kind_count || order[i].is.curve != last->curve || order[i].is.words != last->words)
      p->kinds[p->kind_count++] = order[i].is;
    p->kind_of[order[i].kernel] = p->kind_count - 1;
  }
  return WAFER_OK;
}

/* ---- Candidates for T ---- */

static int by_cycles(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static wafer_status find_cycles(pipeline *p) {
  size_t total = 1, n = 0;
  for (uint32_t k = 0; k < p->kind_count; k++) total += p->kinds[k].curve->count + 1;
  p->cycles = WAFER_NEW(p->ctx->arena, uint64_t, total);
  if (!p->cycles) return no_memory(p);
  p->cycles[n++] = p->edge;
  for (uint32_t k = 0; k < p->kind_count; k++) {
    for (size_t i = 0; i < p->kinds[k].curve->count; i++)
      if (p->kinds[k].curve->at[i].cycles > p->edge) p->cycles[n++] = p->kinds[k].curve->at[i].cycles;
    if (p->kinds[k].words > p->edge) p->cycles[n++] = p->kinds[k].words;
  }
  qsort(p->cycles, n, sizeof *p->cycles, by_cycles);
  for (size_t i = 0; i < n; i++)
    if (p->cycle_count == 0 || p->cycles[i] != p->cycles[p->cycle_count - 1]) p->cycles[p->cycle_count++] = p->cycles[i];
  return WAFER_OK;
}

static uint64_t edge_cycles(const pipeline *p) {
  uint64_t in = 0, out = 0;
  const wafer_graph *g = p->graph;
  wafer_dtype storage = g->kernel_count ? g->kernels[0].body.storage : WAFER_DTYPE_f32;
  for (uint32_t v = 0; v < g->value_count; v++) {
    if (g->values[v].owner != WAFER_OWNER_input) continue;
    in += g->values[v].use_count * edge_in_cycles(p->ctx->machine, stream_words(&g->values[v].type, storage));
  }
  for (uint32_t i = 0; i < g->output_count; i++)
    out += edge_out_cycles(p->ctx->machine,
                           stream_words(&g->values[g->outputs[i]].type, storage));
  return in > out ? in : out;
}

/* ---- Is T feasible? ---- */

/* What a packing asks for: an interval, and shapes of at most `spare` per cent more cores than the smallest. */
typedef struct target {
  uint64_t cycles, spare;
} target;

#define ANY_SPARE 100000000u /* per cent: any shape */

/* The shapes of a kind for an interval of T; none when it has no such shape. */
static wafer_status shapes_at(const pipeline *p, wafer_arena *arena, const kind *of, const target *t,
                              shelf_shapes *out) {
  uint64_t rows = t->cycles ? (of->words + t->cycles - 1) / t->cycles : of->words, least = UINT64_MAX;
  shelf_point *points = WAFER_NEW(arena, shelf_point, of->curve->count);
  if (!points) return no_memory(p);
  uint32_t n = 0, kept = 0;
  for (size_t i = 0; i < of->curve->count && of->curve->at[i].cycles <= t->cycles; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    uint64_t area = (uint64_t)at->width * at->height;
    if (at->height < rows) continue;
    points[n++] = (shelf_point){at->width, at->height, (uint32_t)i};
    least = area < least ? area : least;
  }
  for (uint32_t i = 0; i < n; i++)
    if ((uint64_t)points[i].width * points[i].height * 100 <= least * (100 + t->spare)) points[kept++] = points[i];
  n = kept;
  *out = (shelf_shapes){shelf_pareto(n, points), points};
  return WAFER_OK;
}

static wafer_status try_target(const pipeline *p, wafer_arena *arena, const target *t, shelf_place *places,
                               bool *fits) {
  shelf_shapes *kinds = WAFER_NEW(arena, shelf_shapes, p->kind_count);
  *fits = false;
  if (!kinds) return no_memory(p);
  for (uint32_t k = 0; k < p->kind_count; k++) {
    WAFER_TRY(shapes_at(p, arena, &p->kinds[k], t, &kinds[k]));
    if (!kinds[k].count) return WAFER_OK;
  }
  shelf_problem problem = {.machine = p->ctx->machine, .kind_count = p->kind_count,
                           .count = p->graph->kernel_count, .kinds = kinds, .kind = p->kind_of};
  return shelf_pack(p->ctx->diag, arena, &problem, places, fits);
}

/* The same in an arena of its own: a bisection leaves nothing behind. */
static wafer_status feasible(const pipeline *p, target t, shelf_place *places, bool *fits) {
  wafer_arena *scratch = wafer_arena_create();
  if (!scratch) return no_memory(p);
  wafer_status status = try_target(p, scratch, &t, places, fits);
  wafer_arena_destroy(scratch);
  return status;
}

/* The least T at which everything fits: an index of cycles, cycle_count when there is none. */
static wafer_status bisect(const pipeline *p, size_t *answer) {
  size_t low = 0, high = p->cycle_count, middle = 0; /* the edge first: small models end there */
  while (low < high) {
    bool fits;
    WAFER_TRY(feasible(p, (target){p->cycles[middle], ANY_SPARE}, NULL, &fits));
    if (fits)
      high = middle;
    else
      low = middle + 1;
    middle = (low + high) / 2;
  }
  *answer = low;
  return WAFER_OK;
}

/* At the T found, with as few cores as still fit on shelves; *found is false when nothing fits. */
static wafer_status pack(const pipeline *p, shelf_place *places, bool *found) {
  static const uint32_t spares[] = {5, 15, 40, 100, 300, ANY_SPARE};
  size_t t;
  WAFER_TRY(bisect(p, &t));
  *found = false;
  for (size_t i = 0; t < p->cycle_count && i < WAFER_COUNT(spares) && !*found; i++)
    WAFER_TRY(feasible(p, (target){p->cycles[t], spares[i]}, places, found));
  return WAFER_OK;
}

/* ---- What it costs ---- */

/* A value on its way to a kernel, before anything is placed: rows are lanes. */
typedef struct hop {
  uint64_t cycles, latency;
} hop;

static hop hop_to(const pipeline *p, uint32_t value, uint32_t k) {
  const wafer_machine *m = p->ctx->machine;
  const wafer_graph_value *v = &p->graph->values[value];
  const wafer_shape_point *to = p->out->kernels[k].point;
  const wafer_shape_point *from = v->producer == WAFER_NONE ? to : p->out->kernels[v->producer].point;
  uint64_t words = stream_words(&v->type, p->graph->kernels[k].body.storage);
  uint64_t lanes = from->height < to->height ? from->height : to->height;
  hop h = {(words + lanes - 1) / lanes, 2 * m->ramp_cycles + (uint64_t)m->hop_cycles * (from->width + to->width)};
  if (v->producer != WAFER_NONE) return h;
  h.latency += m->edge_latency_cycles;
  if (h.cycles < edge_in_cycles(m, words)) h.cycles = edge_in_cycles(m, words);
  return h;
}

static void raise(uint64_t *value, uint64_t to) {
  if (*value < to) *value = to;
}

/* When each kernel starts its first sample. */
static uint64_t start_of(const pipeline *p, uint32_t k, const uint64_t *start) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t at = 0;
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t producer = p->graph->values[kernel->inputs[i]].producer;
    if (kernel->body.input_is_weight[i]) continue;
    hop h = hop_to(p, kernel->inputs[i], k);
    uint64_t made = producer == WAFER_NONE ? 0 : start[producer] + p->out->kernels[producer].point->cycles;
    raise(&at, made + h.cycles + h.latency);
    raise(&p->out->cost.interval_cycles, h.cycles);
  }
  return at;
}

/* Latency along the longest path and the slowest resource. */
static void add_up(const pipeline *p, uint64_t *start) {
  const wafer_graph *g = p->graph;
  wafer_mode_cost *cost = &p->out->cost;
  *cost = (wafer_mode_cost){.fits = true, .why_not = "", .interval_cycles = p->edge};
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    const wafer_shape_point *point = p->out->kernels[k].point;
    start[k] = start_of(p, k, start);
    raise(&cost->interval_cycles, point->cycles);
    raise(&cost->latency_cycles, start[k] + point->cycles);
    cost->cores += (uint64_t)point->width * point->height;
  }
  for (uint32_t i = 0; i < g->output_count; i++) {
    const wafer_graph_value *v = &g->values[g->outputs[i]];
    uint64_t words = stream_words(&v->type, g->kernels[v->producer].body.storage);
    raise(&cost->latency_cycles, start[v->producer] + p->out->kernels[v->producer].point->cycles +
                                     edge_out_cycles(p->ctx->machine, words) + p->ctx->machine->edge_latency_cycles);
  }
}

/* ---- Depths, now that times are known ---- */

static uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/* Samples between the moment a value's first word leaves for kernel k and the moment k is done with it. What
 * comes from the edge leaves just in time. */
static uint64_t input_samples(const pipeline *p, uint32_t k, uint32_t input, const uint64_t *start) {
  uint32_t value = p->graph->kernels[k].inputs[input], producer = p->graph->values[value].producer;
  uint64_t end = start[k] + p->out->kernels[k].point->cycles, t = p->out->cost.interval_cycles;
  hop h = hop_to(p, value, k);
  uint64_t leaves = producer == WAFER_NONE ? start[k] - h.cycles - h.latency
                                           : start[producer] + p->out->kernels[producer].point->cycles;
  return ceil_div(end - leaves, t ? t : 1);
}

/* Samples between the start of kernel k and the moment its last stream has left. */
static uint64_t output_samples(const pipeline *p, uint32_t k) {
  uint64_t slowest = 0, t = p->out->cost.interval_cycles;
  for (uint32_t o = 0; o < p->graph->kernels[k].body.output_count; o++) {
    const wafer_graph_value *v = &p->graph->values[p->graph->kernels[k].outputs[o]];
    for (uint32_t u = 0; u < v->use_count; u++)
      raise(&slowest, hop_to(p, p->graph->kernels[k].outputs[o], v->uses[u].kernel).cycles);
    if (v->owner == WAFER_OWNER_output)
      raise(&slowest, edge_out_cycles(p->ctx->machine, stream_words(&v->type, p->graph->kernels[k].body.storage)));
  }
  return ceil_div(p->out->kernels[k].point->cycles + slowest, t ? t : 1);
}

static bool fits_core(const pipeline *p, uint32_t k, const uint32_t *depths, uint64_t *bytes) {
  wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, depths);
  wafer_cost cost;
  wafer_kernel_cost(p->ctx->machine, &body, &p->out->kernels[k].point->split, &cost);
  *bytes = wafer_cost_bytes(&cost);
  return *bytes <= wafer_machine_core_budget(p->ctx->machine);
}

/* As deep as times ask for; where that is too much for the cores, as guessed before, which fits. */
static wafer_status settle_depths(const pipeline *p, uint32_t k, const uint64_t *start) {
  const wafer_kernel_body *body = &p->graph->kernels[k].body;
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, body->input_count + 1);
  if (!depths) return no_memory(p);
  for (uint32_t i = 0; i <= body->input_count; i++) {
    bool weight = i < body->input_count && body->input_is_weight[i];
    uint64_t samples = weight ? 1 : i < body->input_count ? input_samples(p, k, i, start) : output_samples(p, k);
    depths[i] = (uint32_t)(!weight && samples < SIZE_PIPELINE_DEPTH ? SIZE_PIPELINE_DEPTH : samples);
  }
  uint64_t bytes;
  if (fits_core(p, k, depths, &bytes))
    p->out->kernels[k].depths = depths;
  else
    fits_core(p, k, p->out->kernels[k].depths, &bytes);
  raise(&p->out->cost.peak_core_bytes, bytes);
  return WAFER_OK;
}

static wafer_status finish(const pipeline *p) {
  uint64_t *start = WAFER_NEW(p->ctx->arena, uint64_t, p->graph->kernel_count);
  if (!start) return no_memory(p);
  add_up(p, start);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) WAFER_TRY(settle_depths(p, k, start));
  return WAFER_OK;
}

/* ---- When it does not fit ---- */

/* All fit one by one, not together: the kernel that takes most of the wafer at the least. */
static wafer_status refuse_cores(const pipeline *p) {
  uint64_t total = 0, most = 0;
  uint32_t worst = 0;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < p->curve[k]->count; i++) {
      uint64_t area = (uint64_t)p->curve[k]->at[i].width * p->curve[k]->at[i].height;
      least = area < least ? area : least;
    }
    total += least;
    if (least > most) {
      most = least;
      worst = k;
    }
  }
  size_refusal *r = &p->out->refusal;
  *r = (size_refusal){.kernel = worst};
  r->why = wafer_arena_printf(p->ctx->arena,
                              "%u kernels need at least %llu cores side by side, the wafer has %llu usable "
                              "ones; the largest is '%s' with %llu",
                              p->graph->kernel_count, (unsigned long long)total,
                              (unsigned long long)wafer_rect_area(p->ctx->machine->usable),
                              p->graph->kernels[worst].name, (unsigned long long)most);
  return r->why ? WAFER_OK : no_memory(p);
}

/* ---- All together ---- */

static wafer_status start(pipeline *p) {
  uint32_t n = p->graph->kernel_count;
  wafer_arena *arena = p->ctx->arena;
  p->out->kernels = WAFER_NEW(arena, sized_kernel, n);
  p->stage = WAFER_NEW(arena, uint32_t, n);
  p->curve = WAFER_NEW(arena, const wafer_curve *, n);
  return p->out->kernels && p->stage && p->curve ? WAFER_OK : no_memory(p);
}

/* The curve of every kernel; *fits is false when one has no shape at all, and that one is refused. */
static wafer_status find_curves(pipeline *p, bool *fits) {
  uint64_t budget = wafer_machine_core_budget(p->ctx->machine), worst = 0;
  *fits = true;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    WAFER_TRY(guess_depths(p, k));
    wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, p->out->kernels[k].depths);
    WAFER_TRY(curve_of(p->ctx->diag, p->curves, &body, budget, &p->curve[k]));
    uint64_t least = p->curve[k]->least_bytes;
    if (p->curve[k]->count || least <= worst) continue;
    worst = least;
    *fits = false;
    WAFER_TRY(size_refuse(p->ctx, p->graph, k, &body, least, budget, 0, &p->out->refusal));
  }
  return WAFER_OK;
}

wafer_status size_pipelined(const wafer_ctx *ctx, curve_set *curves, const wafer_graph *graph, sizing *out) {
  *out = (sizing){0};
  pipeline p = {.ctx = ctx, .graph = graph, .curves = curves, .out = out};
  bool fits;
  WAFER_TRY(start(&p));
  find_stages(&p);
  WAFER_TRY(find_curves(&p, &fits));
  if (fits) {
    p.edge = edge_cycles(&p);
    WAFER_TRY(find_kinds(&p));
    WAFER_TRY(find_cycles(&p));
    shelf_place *places = WAFER_NEW(ctx->arena, shelf_place, graph->kernel_count);
    if (!places) return no_memory(&p);
    WAFER_TRY(pack(&p, places, &fits));
    if (!fits) WAFER_TRY(refuse_cores(&p));
    for (uint32_t k = 0; fits && k < graph->kernel_count; k++)
      out->kernels[k].point = &p.curve[k]->at[places[k].index];
  }
  if (fits) return finish(&p);
  out->cost.why_not = out->refusal.why;
  return WAFER_OK;
}

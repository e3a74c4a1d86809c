/* A train of samples through a pipeline whose shapes are chosen: when each kernel starts, how many
 * samples wait in each buffer, and what it costs when a core cannot hold that many. */
#include "route/fabric.h"
#include "size_pipelined.h"
#include "streams.h"

/* ---- What it costs ---- */

/* A value on its way to a kernel. */
typedef struct hop {
  uint64_t cycles, latency;
} hop;

static fabric_end end_of(const pipeline *p, uint32_t kernel) {
  if (kernel == WAFER_NONE) return (fabric_end){{.where = WAFER_AT_edge}, 1, 0};
  wafer_rect rect = p->places[kernel].rect;
  return (fabric_end){
      {.where = WAFER_AT_wafer, .rect = rect}, p->out->kernels[kernel].replicas, rect.width};
}

/* From where the value is made to kernel `k`; WAFER_NONE: to the edge. */
static hop hop_to(const pipeline *p, uint32_t value, uint32_t k) {
  const wafer_machine *m = p->ctx->machine;
  const wafer_graph_value *v = &p->graph->values[value];
  fabric_end from = end_of(p, v->producer), to = end_of(p, k);
  uint32_t user = k == WAFER_NONE ? v->producer : k;
  uint64_t words = stream_words(&v->type, p->graph->kernels[user].body.storage);
  uint64_t hops = fabric_likely_hops(m, &from, &to);
  return (hop){stream_cycles(m, &from.at, &to.at, words),
               stream_latency(m, &from.at, &to.at, hops)};
}

uint64_t pipeline_way(const pipeline *p, uint32_t k, uint32_t input) {
  hop h = hop_to(p, p->graph->kernels[k].inputs[input], k);
  return h.cycles + h.latency;
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
    uint64_t made =
        producer == WAFER_NONE ? 0 : start[producer] + p->out->kernels[producer].point->cycles;
    raise(&at, made + h.cycles + h.latency);
    raise(&p->out->cost.interval_cycles, h.cycles);
  }
  return at;
}

void pipeline_start_late(const pipeline *p, uint32_t k, uint64_t cycles, uint64_t *start) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t due = UINT64_MAX;
  for (uint32_t o = 0; o < kernel->body.output_count; o++) {
    const wafer_graph_value *v = &p->graph->values[kernel->outputs[o]];
    for (uint32_t u = 0; u < v->use_count; u++) {
      uint32_t user = v->uses[u].kernel;
      uint64_t leaves = start[user] - pipeline_way(p, user, v->uses[u].input);
      due = leaves < due ? leaves : due;
    }
  }
  if (due < UINT64_MAX) start[k] = due - cycles;
}

/* Latency along the longest path and the slowest resource. */
static void add_up(const pipeline *p, uint64_t *start) {
  const wafer_graph *g = p->graph;
  wafer_mode_cost *cost = &p->out->cost;
  *cost = (wafer_mode_cost){.fits = true, .why_not = "", .interval_cycles = p->edge};
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    const wafer_shape_point *point = p->out->kernels[k].point;
    uint32_t replicas = p->out->kernels[k].replicas;
    start[k] = start_of(p, k, start);
    raise(&cost->interval_cycles, ceil_div(point->cycles, replicas));
    raise(&cost->latency_cycles, start[k] + point->cycles);
    cost->cores += (uint64_t)point->width * point->height * replicas;
  }
  for (uint32_t i = 0; i < g->output_count; i++) {
    uint32_t producer = g->values[g->outputs[i]].producer;
    if (!wafer_graph_is_output(&g->values[g->outputs[i]])) continue;
    hop h = hop_to(p, g->outputs[i], WAFER_NONE);
    raise(&cost->interval_cycles, h.cycles);
    raise(&cost->latency_cycles,
          start[producer] + p->out->kernels[producer].point->cycles + h.cycles + h.latency);
  }
  for (uint32_t k = g->kernel_count; k-- > 0;)
    if (g->kernels[k].constant) pipeline_start_late(p, k, p->out->kernels[k].point->cycles, start);
}

/* ---- Depths, now that times are known ---- */

/* Cycles between the moment a value's first word leaves for kernel k and the moment k is done with
 * it. What comes from the edge leaves just in time. */
static uint64_t input_span(const pipeline *p, uint32_t k, uint32_t input, const uint64_t *start) {
  uint32_t value = p->graph->kernels[k].inputs[input], producer = p->graph->values[value].producer;
  hop h = hop_to(p, value, k);
  uint64_t leaves = producer == WAFER_NONE
                        ? start[k] - h.cycles - h.latency
                        : start[producer] + p->out->kernels[producer].point->cycles;
  return start[k] + p->out->kernels[k].point->cycles - leaves;
}

/* Cycles between the start of kernel k and the moment its last stream has left. */
static uint64_t output_span(const pipeline *p, uint32_t k) {
  uint64_t slowest = 0;
  for (uint32_t o = 0; o < p->graph->kernels[k].body.output_count; o++) {
    const wafer_graph_value *v = &p->graph->values[p->graph->kernels[k].outputs[o]];
    for (uint32_t u = 0; u < v->use_count; u++)
      raise(&slowest, hop_to(p, p->graph->kernels[k].outputs[o], v->uses[u].kernel).cycles);
    if (wafer_graph_is_output(v))
      raise(&slowest, hop_to(p, p->graph->kernels[k].outputs[o], WAFER_NONE).cycles);
  }
  return p->out->kernels[k].point->cycles + slowest;
}

static bool fits_core(const pipeline *p, uint32_t k, const uint32_t *depths, uint64_t *bytes) {
  wafer_kernel_body body = size_with_depths(&p->graph->kernels[k].body, depths);
  wafer_cost cost;
  wafer_kernel_bytes(p->ctx->machine, &body, &p->out->kernels[k].point->split, &cost);
  *bytes = wafer_cost_bytes(&cost);
  return *bytes <= wafer_machine_core_budget(p->ctx->machine);
}

/* The stages between a value's producer and kernel k hold the train up. */
static void mark_skipped(const pipeline *p, uint32_t k, uint32_t input) {
  uint32_t producer = p->graph->values[p->graph->kernels[k].inputs[input]].producer;
  if (producer == WAFER_NONE) return;
  p->skipped[p->stage[producer] + 1]++;
  p->skipped[p->stage[k] + 1]--;
}

/* The depths that times ask for, none above `limit`; the interval that they allow. Replicas share
 * out the samples. With `last` the
 * stages that too deep values skip are marked. */
static uint64_t fill_depths(const pipeline *p, uint32_t k, const uint64_t *start, uint64_t limit,
                            bool last, uint32_t *depths) {
  const wafer_kernel_body *body = &p->graph->kernels[k].body;
  uint64_t t = p->out->cost.interval_cycles, interval = t, replicas = p->out->kernels[k].replicas;
  for (uint32_t i = 0; i <= body->input_count; i++) {
    bool input = i < body->input_count;
    depths[i] = 1;
    if (input && body->input_is_weight[i]) continue;
    uint64_t span = input ? input_span(p, k, i, start) : output_span(p, k),
             samples = ceil_div(ceil_div(span, t ? t : 1), replicas);
    if (samples > limit) raise(&interval, ceil_div(span, limit * replicas));
    if (samples > limit && last && input) mark_skipped(p, k, i);
    depths[i] = (uint32_t)(samples > limit                 ? limit
                           : samples < SIZE_PIPELINE_DEPTH ? SIZE_PIPELINE_DEPTH
                                                           : samples);
  }
  return interval;
}

/* A route may turn out longer than the way between two rectangles, by an eighth of the way across
 * the wafer or so: room for the samples that come meanwhile where times do not leave that much, as
 * far as the cores can hold them. */
static void spare_depths(const pipeline *p, uint32_t k, const uint64_t *start, uint32_t *depths,
                         uint64_t *bytes) {
  const wafer_kernel_body *body = &p->graph->kernels[k].body;
  const wafer_machine *m = p->ctx->machine;
  uint64_t t = p->out->cost.interval_cycles, replicas = p->out->kernels[k].replicas, room;
  uint64_t detour = (uint64_t)(m->width + m->height) * m->hop_cycles / 8;
  for (uint32_t i = 0; i <= body->input_count; i++) {
    bool input = i < body->input_count;
    if (input && body->input_is_weight[i]) continue;
    uint64_t span = input ? input_span(p, k, i, start) : output_span(p, k), depth = depths[i];
    uint64_t wanted = ceil_div(span + detour, replicas * (t ? t : 1)), more = 0;
    if (wanted > WAFER_MAX_DEPTH) wanted = WAFER_MAX_DEPTH;
    if (wanted > depth) more = wanted - depth;
    for (; more; more /= 2) {
      depths[i] = (uint32_t)(depth + more);
      if (fits_core(p, k, depths, &room)) break;
    }
    depths[i] = (uint32_t)(depth + more);
    if (more) *bytes = room;
  }
}

/* As deep as times ask for, and where that is too much for the cores, as deep as they can hold; the
 * train is then held up to *interval. */
static wafer_status settle_depths(const pipeline *p, uint32_t k, const uint64_t *start,
                                  uint64_t *interval) {
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, p->graph->kernels[k].body.input_count + 1);
  if (!depths) return pipeline_no_memory(p);
  uint64_t limit = UINT32_MAX, bytes; /* of a replica */
  fill_depths(p, k, start, limit, false, depths);
  p->wanted[k] = NULL;
  if (!fits_core(p, k, depths, &bytes)) {
    size_t count = p->graph->kernels[k].body.input_count + 1;
    p->wanted[k] = wafer_arena_copy(p->ctx->arena, depths, count * sizeof *depths);
    if (!p->wanted[k]) return pipeline_no_memory(p);
  }
  while (!fits_core(p, k, depths, &bytes) && limit > SIZE_PIPELINE_DEPTH) {
    uint32_t deepest = 0;
    for (uint32_t i = 0; i <= p->graph->kernels[k].body.input_count; i++)
      deepest = depths[i] > deepest ? depths[i] : deepest;
    limit = deepest - 1 - deepest / 8;
    if (limit < SIZE_PIPELINE_DEPTH) limit = SIZE_PIPELINE_DEPTH;
    fill_depths(p, k, start, limit, false, depths);
  }
  uint64_t allowed = fill_depths(p, k, start, limit, true, depths);
  p->out->kernels[k].depths = depths;
  if (allowed <= p->out->cost.interval_cycles) spare_depths(p, k, start, depths, &bytes);
  raise(interval, allowed);
  raise(&p->out->cost.peak_core_bytes, bytes);
  return WAFER_OK;
}

wafer_status pipeline_settle(pipeline *p, const shelf_place *places) {
  uint32_t n = p->graph->kernel_count;
  uint64_t *start = WAFER_NEW(p->ctx->arena, uint64_t, n), interval = 0;
  if (!start) return pipeline_no_memory(p);
  p->places = places;
  for (uint32_t k = 0; k < n; k++) {
    const wafer_shape_point *point = places[k].point;
    p->out->kernels[k].point = point ? point : &p->curve[k]->at[places[k].index];
    p->out->kernels[k].replicas = places[k].replicas ? places[k].replicas : 1;
  }
  add_up(p, start);
  for (uint32_t k = 0; k < n; k++) WAFER_TRY(settle_depths(p, k, start, &interval));
  raise(&p->out->cost.interval_cycles, interval);
  return WAFER_OK;
}

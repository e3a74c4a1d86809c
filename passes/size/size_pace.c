/* What a layout's core programs will take, as far as sizing can tell: what a core does of a sample,
 * and how samples follow each other. Nothing else in sizing knows in which order cores receive,
 * compute and send. */
#include "size_meet.h"
#include "streams.h"

#define PACE_SAMPLES 16

bool meet_passes_on(const wafer_graph_kernel *kernel, const wafer_graph_value *v, uint32_t input) {
  return !kernel->body.input_is_weight[input] && v->producer != WAFER_NONE && !v->summed;
}

uint64_t meet_room_price(const pipeline *p, const wafer_holding *from, const wafer_shape_point *a,
                         const wafer_holding *to, const wafer_shape_point *b,
                         const wafer_shape *shape, uint64_t words) {
  uint64_t held = a->bytes > b->bytes ? a->bytes : b->bytes, all = 1;
  uint64_t budget = wafer_machine_core_budget(p->ctx->machine);
  for (uint32_t d = 0; d < shape->rank; d++) all *= (uint64_t)shape->dims[d];
  uint64_t each = ceil_div(words * WAFER_WAVELET_BYTES, all ? all : 1);
  uint64_t bytes = meeting_elements(from, to, shape) * each * 3 / 2;
  return bytes && held + bytes > budget ? MEET_NO_ROOM : 0;
}

uint32_t meet_side(const pipeline *p, wafer_rect from, wafer_rect to) {
  const wafer_options *o = p->ctx->options;
  bool rows = from.y == to.y && from.height == to.height;
  bool columns = from.x == to.x && from.width == to.width;
  if (rows == columns || (o && o->training)) return MEET_SIDES;
  if (rows) return to.x > from.x ? MEET_EAST : MEET_WEST;
  return to.y > from.y ? MEET_SOUTH : MEET_NORTH;
}

static const wafer_shape_point *point_at(const pipeline *p, const shelf_place *places, uint32_t k) {
  return places[k].point ? places[k].point : &p->curve[k]->at[places[k].index];
}

/* Cycles of what the kernel sends to the wafer's edge. */
static uint64_t to_edge(const pipeline *p, uint32_t k) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  uint64_t cycles = 0;
  for (uint32_t o = 0; o < kernel->body.output_count; o++) {
    const wafer_graph_value *v = &p->graph->values[kernel->outputs[o]];
    if (wafer_graph_is_output(v))
      cycles += edge_out_cycles(p->ctx->machine, value_words(v, kernel->body.storage));
  }
  return cycles;
}

/* Cores of a kernel's first replica, as it lies. */
static wafer_holding placed(const shelf_place *places, uint32_t k, const wafer_layout *lie) {
  return (wafer_holding){WAFER_AT_wafer, places[k].rect, *lie};
}

/* How the inputs, then the outputs, of every kernel lie. */
static wafer_status lay_out(const pipeline *p, const shelf_place *places,
                            const wafer_layout ***out) {
  uint32_t n = p->graph->kernel_count;
  const wafer_layout **lie = WAFER_NEW(p->ctx->arena, const wafer_layout *, n);
  for (uint32_t k = 0; lie && k < n; k++) {
    lie[k] = curve_layouts(p->curves, &p->graph->kernels[k].body, point_at(p, places, k));
    if (!lie[k]) return pipeline_no_memory(p);
  }
  *out = lie;
  return lie ? WAFER_OK : pipeline_no_memory(p);
}

/* Cycles of the value on its way to input `i` of kernel `k`, and with `priced` a price where it has
 * no room; 0 where no other kernel makes it. */
static uint64_t passing(const pipeline *p, const shelf_place *places, const wafer_layout **lie,
                        uint32_t k, uint32_t i, bool priced) {
  const wafer_graph_kernel *kernel = &p->graph->kernels[k];
  const wafer_graph_value *v = &p->graph->values[kernel->inputs[i]];
  if (!meet_passes_on(kernel, v, i)) return 0;
  uint32_t output = p->graph->kernels[v->producer].body.input_count + v->output;
  wafer_holding from = placed(places, v->producer, &lie[v->producer][output]),
                to = placed(places, k, &lie[k][i]);
  uint64_t words = value_words(v, kernel->body.storage);
  uint64_t cycles = meeting_cycles(p->ctx->machine, &from, &to, &v->type.shape, words);
  if (!priced) return cycles;
  return cycles + meet_room_price(p, &from, point_at(p, places, v->producer), &to,
                                  point_at(p, places, k), &v->type.shape, words);
}

wafer_status pipeline_turn(const pipeline *p, const shelf_place *places, uint64_t *longest) {
  const wafer_graph *g = p->graph;
  const wafer_layout **lie;
  uint64_t *receives = WAFER_NEW(p->ctx->arena, uint64_t, g->kernel_count);
  uint64_t *sends = WAFER_NEW(p->ctx->arena, uint64_t, g->kernel_count);
  uint64_t(*most)[MEET_SIDES] = wafer_arena_alloc(p->ctx->arena, g->value_count, sizeof *most);
  if (!receives || !sends || !most) return pipeline_no_memory(p);
  WAFER_TRY(lay_out(p, places, &lie));
  *longest = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++)
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++) {
      uint64_t cycles = passing(p, places, lie, k, i, true);
      uint32_t value = g->kernels[k].inputs[i], producer = g->values[value].producer;
      receives[k] += cycles;
      if (!cycles) continue;
      uint32_t side = meet_side(p, places[producer].rect, places[k].rect);
      sends[producer] += meet_send(most[value], side, cycles);
    }
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    uint32_t replicas = places[k].replicas ? places[k].replicas : 1;
    uint64_t turn = meet_turn(receives[k], point_at(p, places, k)->cycles / replicas, sends[k]);
    *longest = turn > *longest ? turn : *longest;
  }
  return WAFER_OK;
}

/* When all that came before is done: on the cores of each kernel, and at the wafer's edge. */
typedef struct clocks {
  uint64_t *free, *sent, edge; /* sent: the kernel's outputs so far */
} clocks;

/* The model's inputs enter in the order of their kernels: one whose kernel still holds that of the
 * sample before keeps all behind it waiting. */
static void enter(const pipeline *p, uint32_t k, const wafer_graph_value *v, clocks *c) {
  uint64_t words = value_words(v, p->graph->kernels[k].body.storage);
  if (c->free[k] < c->edge) c->free[k] = c->edge;
  c->edge = c->free[k] += edge_in_cycles(p->ctx->machine, words);
}

/* A sample more: a stream begins when its taker is free and its sender has sent what came before,
 * and a kernel computes when it has both taken and sent; `passing` has a row of inputs for each
 * kernel.
 */
static void pass_sample(const pipeline *p, const shelf_place *places, const uint64_t *passing,
                        clocks *c) {
  const wafer_graph *g = p->graph;
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &g->kernels[k];
    for (uint32_t i = 0; i < kernel->body.input_count; i++, passing++) {
      const wafer_graph_value *v = &g->values[kernel->inputs[i]];
      if (v->owner == WAFER_OWNER_input) enter(p, k, v, c);
      if (!*passing) continue;
      if (c->free[k] < c->sent[v->producer]) c->free[k] = c->sent[v->producer];
      c->sent[v->producer] = c->free[k] += *passing;
    }
    if (c->free[k] < c->sent[k]) c->free[k] = c->sent[k];
    c->free[k] += point_at(p, places, k)->cycles;
    c->sent[k] = c->free[k] + to_edge(p, k);
  }
}

wafer_status pipeline_pace(const pipeline *p, const shelf_place *places, uint64_t *interval) {
  const wafer_graph *g = p->graph;
  size_t inputs = 0, at = 0;
  for (uint32_t k = 0; k < g->kernel_count; k++) inputs += g->kernels[k].body.input_count;
  const wafer_layout **lie;
  uint64_t *cycles = WAFER_NEW(p->ctx->arena, uint64_t, inputs);
  clocks c = {WAFER_NEW(p->ctx->arena, uint64_t, g->kernel_count),
              WAFER_NEW(p->ctx->arena, uint64_t, g->kernel_count), 0};
  uint64_t end = 0, half = 0;
  if (!cycles || !c.free || !c.sent) return pipeline_no_memory(p);
  WAFER_TRY(lay_out(p, places, &lie));
  for (uint32_t k = 0; k < g->kernel_count; k++)
    for (uint32_t i = 0; i < g->kernels[k].body.input_count; i++)
      cycles[at++] = passing(p, places, lie, k, i, false);
  for (uint32_t s = 0; s < 2 * PACE_SAMPLES; s++) {
    if (s == PACE_SAMPLES) half = end;
    pass_sample(p, places, cycles, &c);
    for (uint32_t k = 0; k < g->kernel_count; k++) end = c.sent[k] > end ? c.sent[k] : end;
  }
  *interval = (end - half + PACE_SAMPLES - 1) / PACE_SAMPLES;
  return WAFER_OK;
}

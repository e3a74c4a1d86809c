/* Turns @main into a sequence: the loads of a pipeline's weights, then phases. In weight streaming
 * loads of weights that leave earlier than with the phase before theirs stand before the phase with
 * which they leave; at the end of a phase its weights and the values that nobody needs any more are
 * freed, but for weights that stay for a later one.
 * Streams and calls already stand in an order in which every copy is made before it is used. */
#include "scratch.h"
#include "wafer/graph.h"

typedef struct scheduling {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  wafer_graph graph;
  wafer_mode mode;
  uint32_t *last;      /* value: the last kernel that uses it; WAFER_NONE: none */
  uint32_t most_ahead; /* of all kernels */
} scheduling;

static wafer_builder before(const scheduling *s, MlirOperation op) {
  return (wafer_builder){.ctx = s->ctx,
                         .ir = s->ir,
                         .block = s->graph.block,
                         .before = op,
                         .location = mlirOperationGetLocation(op),
                         .loc = wafer_ir_loc(s->ir, op)};
}

/* The first op that belongs to the phase of action `a`, and the first behind it. */
static MlirOperation op_of(const scheduling *s, uint32_t action) {
  return action < s->graph.action_count ? s->graph.actions[action].op : s->graph.terminator;
}

static wafer_status schedule_pipeline(const scheduling *s) {
  wafer_builder b = before(s, op_of(s, 0));
  WAFER_TRY(wafer_build_load(&b, 0));
  return wafer_build_phase(&b, 0, "pipeline");
}

/* ---- Weight streaming ---- */

static wafer_status free_value(const scheduling *s, wafer_builder *b, uint32_t value) {
  return wafer_build_free(b, s->graph.values[value].value);
}

/* True the first time the kernel names this value. */
static bool is_first(const wafer_graph_kernel *kernel, uint32_t input) {
  for (uint32_t i = 0; i < input; i++)
    if (kernel->inputs[i] == kernel->inputs[input]) return false;
  return true;
}

static bool is_used(const wafer_graph_value *value, uint32_t first, uint32_t last) {
  for (uint32_t u = 0; u < value->use_count; u++)
    if (value->uses[u].kernel >= first && value->uses[u].kernel <= last) return true;
  return false;
}

/* What kernel k is the last one to use, of weights that do not stay the last one in a phase that
 * ends with `last`. */
static wafer_status free_after(const scheduling *s, uint32_t k, uint32_t last, MlirOperation next) {
  const wafer_graph_kernel *kernel = &s->graph.kernels[k];
  wafer_builder b = before(s, next);
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    uint32_t value = kernel->inputs[i];
    bool done = wafer_graph_is_weight(&s->graph, value)
                    ? !is_used(&s->graph.values[value], k + 1, last) &&
                          !wafer_graph_stays(&s->graph, value, last)
                    : s->last[value] == k;
    if (done && is_first(kernel, i)) WAFER_TRY(free_value(s, &b, value));
  }
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    if (s->last[kernel->outputs[i]] == WAFER_NONE) WAFER_TRY(free_value(s, &b, kernel->outputs[i]));
  return WAFER_OK;
}

/* The weights that leave with the phase that ends with kernel `last`: of phases so far behind. */
static wafer_status load_early(const scheduling *s, wafer_builder *b, uint32_t last) {
  const wafer_graph_kernel *kernels = s->graph.kernels;
  uint32_t phase = kernels[last].phase;
  for (uint32_t k = last + 1;
       k < s->graph.kernel_count && kernels[k].phase - phase <= s->most_ahead; k++)
    if (kernels[k].phase != kernels[k - 1].phase && kernels[k].ahead > 1 &&
        kernels[k].ahead == kernels[k].phase - phase)
      WAFER_TRY(wafer_build_load(b, kernels[k].phase));
  return WAFER_OK;
}

static uint32_t first_of_phase(const scheduling *s, uint32_t k) {
  while (k > 0 && s->graph.kernels[k - 1].phase == s->graph.kernels[k].phase) k--;
  return k;
}

static wafer_status begin_phase(const scheduling *s, wafer_builder *b, uint32_t first,
                                uint32_t last) {
  const wafer_graph_kernel *kernel = &s->graph.kernels[first];
  const char *name = kernel->name;
  if (last > first) name = wafer_arena_printf(s->ctx->arena, "%s and %u more", name, last - first);
  if (!name)
    return wafer_fail(s->ctx->diag, kernel->loc, WAFER_NO_MEMORY, "no memory to name a phase");
  WAFER_TRY(load_early(s, b, last));
  return wafer_build_phase(b, kernel->phase, name);
}

/* A phase starts with the first stream behind the last call of the one before that is not one of
 * its outputs. */
static wafer_status schedule_phases(const scheduling *s) {
  const wafer_graph *g = &s->graph;
  uint32_t start = 0;
  for (uint32_t a = 0; a < g->action_count; a++) {
    if (g->actions[a].kind != WAFER_GRAPH_kernel) continue;
    uint32_t last = g->actions[a].index, end = a + 1;
    if (last + 1 < g->kernel_count && g->kernels[last + 1].phase == g->kernels[last].phase)
      continue;
    while (end < g->action_count && g->actions[end].kind == WAFER_GRAPH_stream &&
           g->streams[g->actions[end].index].is.to.where == WAFER_AT_edge)
      end++;
    uint32_t first = first_of_phase(s, last);
    wafer_builder b = before(s, op_of(s, start));
    WAFER_TRY(begin_phase(s, &b, first, last));
    for (uint32_t k = first; k <= last; k++) WAFER_TRY(free_after(s, k, last, op_of(s, end)));
    start = end;
  }
  return WAFER_OK;
}

static wafer_status run(const wafer_ctx *ctx, wafer_ir *ir) {
  scheduling s = {.ctx = ctx, .ir = ir};
  WAFER_TRY(wafer_graph_read(ctx, ir, &s.graph));
  if (!wafer_ir_get_mode(ir, &s.mode))
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_BAD_INPUT,
                      "the module has no wafer.mode, run pass mode before schedule");
  for (uint32_t a = 0; a < s.graph.action_count; a++)
    if (s.graph.actions[a].kind != WAFER_GRAPH_kernel &&
        s.graph.actions[a].kind != WAFER_GRAPH_stream)
      return wafer_fail(ctx->diag, wafer_ir_loc(ir, s.graph.actions[a].op), WAFER_BAD_INPUT,
                        "@main is scheduled already");
  if (s.mode == WAFER_MODE_pipelined) return schedule_pipeline(&s);
  s.last = WAFER_NEW(ctx->arena, uint32_t, s.graph.value_count);
  if (!s.last)
    return wafer_fail(ctx->diag, (wafer_loc){0}, WAFER_NO_MEMORY, "no memory to schedule");
  for (uint32_t v = 0; v < s.graph.value_count; v++) {
    const wafer_graph_value *value = &s.graph.values[v];
    s.last[v] = value->use_count ? value->uses[value->use_count - 1].kernel : WAFER_NONE;
  }
  for (uint32_t k = 0; k < s.graph.kernel_count; k++)
    if (s.graph.kernels[k].ahead > s.most_ahead) s.most_ahead = s.graph.kernels[k].ahead;
  return schedule_phases(&s);
}

wafer_status wafer_pass_schedule(const wafer_ctx *ctx, wafer_ir *ir) {
  return in_scratch(ctx, ir, run);
}

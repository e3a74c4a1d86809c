/* Relays.
 *
 * A core of a pipeline receives, computes and sends in turn. What skips kernels waits at its
 * producer where its reader has no room for as many samples as are under way between: the producer
 * stands still until the sample has passed all those kernels. A chain of kernels that only pass it
 * on, a relay for each one skipped, holds these samples: the branches of a pipeline are balanced
 * as those of a clocked circuit are by registers. Users at different distances share the chain. */
#include "mode_relay.h"

#include <string.h>

typedef struct tap {
  MlirOperation call;
  uint32_t operand;
  MlirValue direct;
} tap;

struct mode_relays {
  uint32_t call_count, tap_count;
  MlirOperation *calls, *funcs; /* in the order of @main */
  tap *taps;
};

typedef struct adding {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  const wafer_graph *graph;
  mode_relayed what;
  uint32_t *stage; /* kernel: see wafer_graph_stages */
  mode_relays *out;
} adding;

static wafer_status no_memory(const adding *a) {
  return wafer_fail(a->ctx->diag, wafer_at_file(a->ir->file), WAFER_NO_MEMORY,
                    "no memory for relays");
}

static bool is_shared_input(const wafer_graph_value *v) {
  return v->owner == WAFER_OWNER_input && v->use_count > 1;
}

/* Relays between the value and that use of it. */
static uint32_t distance(const adding *a, const wafer_graph_value *v, const wafer_graph_use *use) {
  if (v->producer == WAFER_NONE) return a->what.inputs && is_shared_input(v);
  if (!a->what.spacing) return 0;
  return (a->stage[use->kernel] - a->stage[v->producer] - 1) / a->what.spacing;
}

static uint32_t longest(const adding *a, const wafer_graph_value *v) {
  uint32_t most = 0;
  for (uint32_t u = 0; u < v->use_count; u++) {
    uint32_t relays = distance(a, v, &v->uses[u]);
    most = relays > most ? relays : most;
  }
  return most;
}

static bool reserve(adding *a) {
  uint32_t calls = 0, taps = 0;
  for (uint32_t i = 0; i < a->graph->value_count; i++) {
    const wafer_graph_value *v = &a->graph->values[i];
    uint32_t most = longest(a, v);
    calls += most;
    taps += most ? v->use_count : 0;
  }
  if (!calls) return true;
  a->out = WAFER_NEW(a->ctx->arena, mode_relays, 1);
  if (!a->out) return false;
  a->out->calls = WAFER_NEW(a->ctx->arena, MlirOperation, calls);
  a->out->funcs = WAFER_NEW(a->ctx->arena, MlirOperation, calls);
  a->out->taps = WAFER_NEW(a->ctx->arena, tap, taps);
  return a->out->calls && a->out->funcs && a->out->taps;
}

/* The kernel whose place in the source a relay has: the one that makes the value, or takes it
 * first. */
static const wafer_graph_kernel *beside(const adding *a, const wafer_graph_value *v) {
  uint32_t first = v->producer;
  for (uint32_t u = 0; v->producer == WAFER_NONE && u < v->use_count; u++)
    if (first == WAFER_NONE || v->uses[u].kernel < first) first = v->uses[u].kernel;
  return &a->graph->kernels[first];
}

/* A kernel that gives what it takes, and its call before `before`. */
static wafer_status add_relay(adding *a, const wafer_graph_value *v, uint32_t number,
                              MlirOperation before, MlirValue *value) {
  const wafer_graph_kernel *near = beside(a, v);
  MlirLocation location = mlirOperationGetLocation(near->func);
  const char *name =
      wafer_arena_printf(a->ctx->arena, "%s" WAFER_RELAY_SUFFIX "%u", v->name, number);
  MlirValue argument, copy;
  MlirOperation func;
  wafer_builder b;
  if (!name) return no_memory(a);
  WAFER_TRY(wafer_ir_begin_kernel(a->ctx, a->ir, name, location, 1, &v->type, &(bool){false}, &b,
                                  &argument));
  WAFER_TRY(wafer_build_copy(&b, argument, &copy));
  WAFER_TRY(wafer_ir_finish_kernel(&b, WAFER_FAMILY_move, 0, 1, &copy, &func));
  wafer_builder caller = {.ctx = a->ctx,
                          .ir = a->ir,
                          .block = a->graph->block,
                          .before = before,
                          .location = location,
                          .loc = near->loc};
  a->out->funcs[a->out->call_count] = func;
  WAFER_TRY(wafer_ir_call(&caller, func, value, value));
  a->out->calls[a->out->call_count++] = mlirOpResultGetOwner(*value);
  return WAFER_OK;
}

static wafer_status add_chain(adding *a, const wafer_graph_value *v) {
  uint32_t most = longest(a, v);
  if (!most) return WAFER_OK;
  MlirOperation behind = beside(a, v)->call;
  MlirValue value = v->value;
  if (v->producer != WAFER_NONE) behind = mlirOperationGetNextInBlock(behind);
  for (uint32_t r = 1; r <= most; r++) {
    WAFER_TRY(add_relay(a, v, r, behind, &value));
    for (uint32_t u = 0; u < v->use_count; u++) {
      const wafer_graph_use *use = &v->uses[u];
      if (distance(a, v, use) != r) continue;
      MlirOperation call = a->graph->kernels[use->kernel].call;
      a->out->taps[a->out->tap_count++] = (tap){call, use->input, v->value};
      mlirOperationSetOperand(call, use->input, value);
    }
  }
  return WAFER_OK;
}

wafer_status mode_add_relays(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                             mode_relayed what, mode_relays **out) {
  adding a = {ctx, ir, graph, what, WAFER_NEW(ctx->arena, uint32_t, graph->kernel_count), NULL};
  *out = NULL;
  if (!a.stage) return no_memory(&a);
  wafer_graph_stages(graph, a.stage);
  if (!reserve(&a)) return no_memory(&a);
  for (uint32_t i = 0; a.out && i < graph->value_count; i++)
    WAFER_TRY(add_chain(&a, &graph->values[i]));
  *out = a.out;
  return WAFER_OK;
}

void mode_drop_relays(wafer_ir *ir, const mode_relays *relays) {
  for (uint32_t t = 0; t < relays->tap_count; t++)
    mlirOperationSetOperand(relays->taps[t].call, relays->taps[t].operand, relays->taps[t].direct);
  for (uint32_t c = relays->call_count; c-- > 0;) {
    mlirOperationDestroy(relays->calls[c]);
    mlirSymbolTableErase(ir->symbols, relays->funcs[c]);
  }
}

/* ---- Pins ---- */

bool wafer_is_relay(const char *name) {
  const size_t suffix = strlen(WAFER_RELAY_SUFFIX);
  const char *end = strrchr(name, '/');
  if (!end || strncmp(end, WAFER_RELAY_SUFFIX, suffix)) return false;
  return end[suffix] && strspn(end + suffix, "0123456789") == strlen(end + suffix);
}

bool mode_shares_inputs(const wafer_graph *graph) {
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (is_shared_input(&graph->values[i])) return true;
  return false;
}

bool mode_pins_relays(const wafer_options *o) {
  for (uint32_t i = 0; o && i < o->pin_count; i++)
    if (wafer_is_relay(o->pins[i].kernel)) return true;
  return false;
}

static bool has_kernel(const wafer_graph *graph, const char *name) {
  for (uint32_t k = 0; k < graph->kernel_count; k++)
    if (!strcmp(graph->kernels[k].name, name)) return true;
  return false;
}

bool mode_has_pinned_relays(const wafer_options *o, const wafer_graph *graph) {
  for (uint32_t i = 0; i < o->pin_count; i++)
    if (wafer_is_relay(o->pins[i].kernel) && !has_kernel(graph, o->pins[i].kernel)) return false;
  return true;
}

/* Phases: what runs in each, what it frees; and what bounds a kernel. */
#include "lower.h"

/* ---- Bounds ---- */

static void raise(uint64_t *value, uint64_t to) {
  if (*value < to) *value = to;
}

/* Cycles per sample of a kernel's slowest stream of each kind; of its weights per group of samples.
 */
typedef struct traffic {
  uint64_t edge, streams, weights;
} traffic;

static void count_stream(const wafer_stream *s, traffic *all) {
  if (s->from.where == WAFER_AT_memoryx) {
    all[s->to_kernel].weights += s->cycles;
  } else if (s->from.where == WAFER_AT_edge) {
    raise(&all[s->to_kernel].edge, s->cycles);
  } else if (s->to.where == WAFER_AT_edge) {
    if (s->from_kernel != WAFER_NONE) raise(&all[s->from_kernel].edge, s->cycles);
  } else {
    raise(&all[s->to_kernel].streams, s->cycles);
    if (s->from_kernel != WAFER_NONE) raise(&all[s->from_kernel].streams, s->cycles);
  }
}

/* The longest of: its work, its streams, the edge, in streaming the arrival of its weights. Memory
 * also when a faster shape could not have been afforded: nine tenths of a core's bytes are in use.
 */
static wafer_bound bound_of(const lowering *l, const wafer_kernel *k, const traffic *t) {
  uint64_t batch = l->plan->mode == WAFER_MODE_streaming ? wafer_plan_resident(l->plan) : 1;
  uint64_t weights = l->plan->mode == WAFER_MODE_streaming ? t->weights : 0;
  uint64_t budget = wafer_machine_core_budget(l->ctx->machine);
  if (t->edge * batch > k->cost.cycles * batch && t->edge >= t->streams &&
      t->edge * batch >= weights)
    return WAFER_BOUND_edge;
  if (weights > k->cost.cycles * batch && weights > t->streams * batch) return WAFER_BOUND_memory;
  if (t->streams > k->cost.cycles) return WAFER_BOUND_streams;
  return wafer_cost_bytes(&k->cost) >= budget - budget / 10 ? WAFER_BOUND_memory
                                                            : WAFER_BOUND_compute;
}

wafer_status lower_bounds(const lowering *l) {
  traffic *all = WAFER_NEW(l->ctx->arena, traffic, l->graph.kernel_count);
  if (!all) return lower_no_memory(l);
  for (uint32_t s = 0; s < l->graph.stream_count; s++)
    if (l->streams[s].to_kernel != WAFER_NONE || l->streams[s].to.where == WAFER_AT_edge)
      count_stream(&l->streams[s], all);
  for (uint32_t k = 0; k < l->graph.kernel_count; k++)
    l->kernels[k].bound = bound_of(l, &l->kernels[k], &all[k]);
  return WAFER_OK;
}

/* ---- Phases ---- */

/* Actions of the graph [first, last) as one phase; its marker is the action before. */
static wafer_status lower_phase(lowering *l, wafer_phase *phase, uint32_t first, uint32_t last) {
  wafer_action *actions = WAFER_NEW(l->ctx->arena, wafer_action, last - first);
  uint32_t *frees = WAFER_NEW(l->ctx->arena, uint32_t, last - first);
  if (!actions || !frees) return lower_no_memory(l);
  for (uint32_t a = first; a < last; a++) {
    const wafer_graph_action *from = &l->graph.actions[a];
    if (from->kind == WAFER_GRAPH_kernel)
      actions[phase->action_count++] = (wafer_action){WAFER_ACTION_kernel, from->index};
    else if (from->kind == WAFER_GRAPH_stream)
      actions[phase->action_count++] = (wafer_action){WAFER_ACTION_stream, from->index};
    else if (from->kind == WAFER_GRAPH_free)
      frees[phase->free_count++] = from->index;
  }
  phase->actions = actions;
  phase->frees = frees;
  return WAFER_OK;
}

static uint32_t next_phase(const lowering *l, uint32_t action) {
  while (action < l->graph.action_count && l->graph.actions[action].kind != WAFER_GRAPH_phase)
    action++;
  return action;
}

wafer_status lower_phases(lowering *l) {
  uint32_t count = 0;
  for (uint32_t a = 0; a < l->graph.action_count; a++)
    count += l->graph.actions[a].kind == WAFER_GRAPH_phase;
  l->phases = WAFER_NEW(l->ctx->arena, wafer_phase, count);
  if (!l->phases) return lower_no_memory(l);
  uint32_t seen = 0;
  for (uint32_t a = next_phase(l, 0); a < l->graph.action_count; a = next_phase(l, a + 1)) {
    uint32_t index;
    const char *name;
    if (!wafer_ir_phase_get(l->graph.actions[a].op, &index, &name) || index != seen)
      return wafer_fail(l->ctx->diag, wafer_ir_loc(l->ir, l->graph.actions[a].op), WAFER_BAD_INPUT,
                        "phases are not numbered in order: expected %u", seen);
    l->phases[seen].name = name;
    WAFER_TRY(lower_keep(l, &l->phases[seen].name));
    WAFER_TRY(lower_phase(l, &l->phases[seen++], a + 1, next_phase(l, a + 1)));
  }
  l->plan->phase_count = count;
  l->plan->phases = l->phases;
  return WAFER_OK;
}

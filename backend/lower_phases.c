/* Phases: what runs in each, what it frees, the most bytes on one of its cores; and what bounds a
 * kernel. */
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

/* ---- Bytes ---- */

/* A copy of a value on the wafer, while it lives. */
typedef struct live_copy {
  uint32_t value;
  wafer_holding at;
  uint64_t bytes; /* per core, all samples */
} live_copy;

typedef struct live_set {
  uint32_t count;
  live_copy *at; /* room for every stream and output of the plan */
} live_set;

static bool is_live(const live_set *live, uint32_t value, const wafer_holding *at) {
  for (uint32_t i = 0; i < live->count; i++)
    if (live->at[i].value == value && wafer_holding_equal(&live->at[i].at, at)) return true;
  return false;
}

static void bring_to_life(const lowering *l, live_set *live, uint32_t value,
                          const wafer_holding *at) {
  if (at->where != WAFER_AT_wafer || is_live(live, value, at)) return;
  uint64_t samples = l->values[value].weight == WAFER_NONE ? wafer_plan_resident(l->plan) : 1;
  uint64_t bytes = wafer_plan_held_bytes(l->plan, value, at);
  live->at[live->count++] = (live_copy){value, *at, bytes * samples};
}

/* Whether the kernel's own bytes count the copy. */
static bool is_own(const wafer_kernel *k, const live_copy *copy) {
  wafer_holding at = {.where = WAFER_AT_wafer, .rect = k->rect};
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    if (k->inputs[i] != copy->value) continue;
    at.layout = wafer_kernel_input_layout(&k->body, &k->split, i);
    if (wafer_holding_equal(&at, &copy->at)) return true;
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    if (k->outputs[i] != copy->value) continue;
    at.layout = wafer_kernel_output_layout(&k->body, &k->split, i);
    if (wafer_holding_equal(&at, &copy->at)) return true;
  }
  return false;
}

/* Most bytes on a core of the kernel: its own and every other copy that lies on some of its cores.
 */
static uint64_t bytes_on(const wafer_kernel *k, const live_set *live) {
  uint64_t bytes = wafer_cost_bytes(&k->cost);
  for (uint32_t i = 0; i < live->count; i++)
    if (wafer_rect_overlaps(k->rect, live->at[i].at.rect) && !is_own(k, &live->at[i]))
      bytes += live->at[i].bytes;
  return bytes;
}

static void end_lives(live_set *live, const wafer_phase *phase) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < live->count; i++) {
    bool freed = false;
    for (uint32_t f = 0; f < phase->free_count && !freed; f++)
      freed = phase->frees[f] == live->at[i].value;
    if (!freed) live->at[kept++] = live->at[i];
  }
  live->count = kept;
}

/* In a pipeline kernels lie apart and nothing outlives the only phase: each counts for itself. */
static wafer_status find_peaks(const lowering *l) {
  uint32_t room = l->graph.stream_count;
  for (uint32_t k = 0; k < l->graph.kernel_count; k++) room += l->kernels[k].body.output_count;
  live_set live = {.at = WAFER_NEW(l->ctx->arena, live_copy, room)};
  if (!live.at) return lower_no_memory(l);
  bool alone = l->plan->phase_count == 1;
  for (uint32_t p = 0; p < l->plan->phase_count; p++) {
    wafer_phase *phase = &l->phases[p];
    for (uint32_t a = 0; a < phase->action_count; a++) {
      uint32_t index = phase->actions[a].index;
      const wafer_kernel *k = &l->kernels[index];
      if (phase->actions[a].kind == WAFER_ACTION_stream) {
        if (!alone && !wafer_stream_passes(l->plan, &l->streams[index]))
          bring_to_life(l, &live, l->streams[index].value, &l->streams[index].to);
        continue;
      }
      for (uint32_t i = 0; i < k->body.output_count && !alone; i++) {
        wafer_holding at = {WAFER_AT_wafer, k->rect,
                            wafer_kernel_output_layout(&k->body, &k->split, i)};
        bring_to_life(l, &live, k->outputs[i], &at);
      }
      raise(&phase->peak_core_bytes, bytes_on(k, &live));
    }
    end_lives(&live, phase);
  }
  return WAFER_OK;
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
  return find_peaks(l);
}

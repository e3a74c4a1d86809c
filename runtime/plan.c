/* Words of the plan that every reader of it shares. */
#include "wafer/plan.h"

#include <assert.h>

const char *wafer_owner_name(wafer_owner owner) {
  static const char *const names[] = {"input", "output",     "weight",
                                      "state", "activation", "gradient"};
  assert(owner < WAFER_COUNT(names));
  return names[owner];
}

const char *wafer_value_kind_name(wafer_value_kind kind) {
  static const char *const names[] = {
#define X(name) #name,
      WAFER_VALUE_KIND_MAP(X)
#undef X
  };
  return names[kind];
}

const char *wafer_step_kind_name(wafer_step_kind kind) {
  static const char *const names[] = {
#define X(name, summary) #name,
      WAFER_STEP_MAP(X)
#undef X
  };
  return names[kind];
}

bool wafer_function_on_host(const wafer_function *function) {
  for (uint32_t i = 0; i < function->step_count; i++)
    if (!wafer_step_on_wafer(&function->steps[i])) return true;
  return false;
}

const char *wafer_mode_name(wafer_mode mode) {
  static const char *const names[] = {"auto", "pipelined", "streaming"};
  assert(mode < WAFER_COUNT(names));
  return names[mode];
}

const char *wafer_launch_kind_name(wafer_launch_kind kind) {
  static const char *const names[] = {"load",    "action", "train", "gather",
                                      "control", "update", "send"};
  assert(kind < WAFER_COUNT(names));
  return names[kind];
}

const char *wafer_where_name(wafer_where where) {
  static const char *const names[] = {"edge", "memoryx", "wafer"};
  assert(where < WAFER_COUNT(names));
  return names[where];
}

static bool rect_equal(wafer_rect a, wafer_rect b) {
  return a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height;
}

bool wafer_holding_equal(const wafer_holding *a, const wafer_holding *b) {
  if (a->where != b->where) return false;
  return a->where != WAFER_AT_wafer ||
         (rect_equal(a->rect, b->rect) && wafer_layout_equal(&a->layout, &b->layout));
}

uint32_t wafer_phase_run_end(const wafer_phase *phase, uint32_t action) {
  uint32_t end = action + 1;
  if (phase->actions[action].kind != WAFER_ACTION_kernel) return end;
  while (end < phase->action_count && phase->actions[end].kind == WAFER_ACTION_kernel) end++;
  return end;
}

uint32_t wafer_launch_samples(const wafer_plan *plan, const wafer_launch *launch) {
  const wafer_action *a = &plan->phases[launch->phase].actions[launch->action];
  bool crosses = a->kind == WAFER_ACTION_stream && wafer_stream_crosses(&plan->streams[a->index]);
  return crosses ? 1 : plan->stripes;
}

bool wafer_stream_passes(const wafer_plan *plan, const wafer_stream *stream) {
  return stream->to.where == WAFER_AT_wafer && plan->values[stream->value].weight == WAFER_NONE &&
         stream->depth < wafer_plan_resident(plan);
}

/* Words of the plan that every reader of it shares. */
#include "wafer/plan.h"
#include "wafer/pairs.h"

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

bool wafer_function_on_wafer(const wafer_function *function) {
  return function->step_count && !wafer_function_on_host(function);
}

const char *wafer_mode_name(wafer_mode mode) {
  static const char *const names[] = {"auto", "pipelined", "streaming"};
  assert(mode < WAFER_COUNT(names));
  return names[mode];
}

const char *wafer_launch_kind_name(wafer_launch_kind kind) {
  static const char *const names[] = {"load", "action",  "train",  "gather",
                                      "norm", "control", "update", "send"};
  assert(kind < WAFER_COUNT(names));
  return names[kind];
}

const char *wafer_where_name(wafer_where where) {
  static const char *const names[] = {"edge", "memoryx", "wafer"};
  assert(where < WAFER_COUNT(names));
  return names[where];
}

bool wafer_holding_equal(const wafer_holding *a, const wafer_holding *b) {
  if (a->where != b->where) return false;
  return a->where != WAFER_AT_wafer ||
         (wafer_rect_equal(a->rect, b->rect) && wafer_layout_equal(&a->layout, &b->layout));
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

/* The kernel's input that takes a sparse weight from where it lies; NULL: none does. */
static const wafer_kernel *taker(const wafer_plan *plan, uint32_t value, const wafer_holding *at,
                                 uint32_t *input) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    for (uint32_t i = 0; kernel->body.sparsity && i < kernel->body.input_count; i++) {
      if (kernel->inputs[i] != value || !kernel->body.sparsity[i].sparse) continue;
      wafer_holding there = {WAFER_AT_wafer, kernel->rect,
                             wafer_kernel_input_layout(&kernel->body, &kernel->split, i)};
      *input = i;
      if (wafer_holding_equal(&there, at)) return kernel;
    }
  }
  return NULL;
}

uint64_t wafer_plan_held_bytes(const wafer_plan *plan, uint32_t value, const wafer_holding *at) {
  const wafer_type *type = &plan->values[value].type;
  uint32_t weight = plan->values[value].weight, input;
  uint64_t bytes;
  const wafer_kernel *k = weight != WAFER_NONE && wafer_weights_at(plan->weights, weight)->sparse
                              ? taker(plan, value, at, &input)
                              : NULL;
  if (k) return wafer_kernel_input_bytes(plan->machine, &k->body, &k->split, input);
  return __builtin_mul_overflow(wafer_layout_tile(&at->layout, &type->shape),
                                wafer_stored_bytes(type->dtype, plan->storage), &bytes)
             ? UINT64_MAX
             : bytes;
}

static uint64_t stored(const wafer_plan *plan, const uint32_t *values, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; i++) {
    const wafer_type *type = &plan->values[values[i]].type;
    int64_t elements = 0;
    (void)wafer_shape_elements(&type->shape, &elements);
    bytes += (uint64_t)elements * wafer_stored_bytes(type->dtype, plan->storage);
  }
  return bytes;
}

wafer_edge_traffic wafer_plan_edge_traffic(const wafer_plan *plan, uint32_t function) {
  const wafer_function *f = &plan->functions[function];
  const wafer_machine *m = wafer_machine_whole(plan->machine);
  wafer_edge_traffic t = {.in_bytes = stored(plan, f->inputs, f->input_count),
                          .out_bytes = stored(plan, f->outputs, f->output_count)};
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t o = 0; o < plan->kernels[k].body.output_count; o++)
      if (wafer_body_sums(&plan->kernels[k].body, o))
        t.out_bytes -= stored(plan, &plan->kernels[k].outputs[o], 1);
  uint64_t in = wafer_machine_transfer_cycles(m, t.in_bytes, m->edge_in_bytes_per_second);
  uint64_t out = wafer_machine_transfer_cycles(m, t.out_bytes, m->edge_out_bytes_per_second);
  t.cycles = in > out ? in : out;
  return t;
}

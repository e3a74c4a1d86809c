/* A sparse weight that kernels of a pipeline take in several forms: as pairs of other lists, or
 * dense, as the kernels of a backward pass do. Each form is a value of its own to the programs,
 * with the same weight behind it; every kernel has a stream of its own that brings it. */
#include <string.h>

#include "launch_order.h"
#include "wafer/pairs.h"

typedef struct forms {
  wafer_arena *arena;
  wafer_plan *plan;
  wafer_value *values;
  wafer_kernel *kernels;
  wafer_stream *streams;
  wafer_pairs *of; /* per value */
  bool *known;
  uint32_t room;
} forms;

static bool begin(forms *f, wafer_arena *arena, wafer_plan *plan) {
  uint32_t inputs = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++) inputs += plan->kernels[k].body.input_count;
  *f = (forms){.arena = arena, .plan = plan, .room = plan->value_count + inputs};
  f->values = WAFER_NEW(arena, wafer_value, f->room);
  f->kernels = wafer_arena_copy(arena, plan->kernels, plan->kernel_count * sizeof *f->kernels);
  f->streams = wafer_arena_copy(arena, plan->streams, plan->stream_count * sizeof *f->streams);
  f->of = WAFER_NEW(arena, wafer_pairs, f->room);
  f->known = WAFER_NEW(arena, bool, f->room);
  if (!f->values || !f->kernels || !f->streams || !f->of || !f->known) return false;
  for (uint32_t v = 0; v < plan->value_count; v++) f->values[v] = plan->values[v];
  return true;
}

/* The value that is this weight in that form; a new one where there is none yet. */
static uint32_t value_in(forms *f, uint32_t value, const wafer_pairs *form) {
  uint32_t weight = f->values[value].weight, v = 0;
  while (v < f->plan->value_count && (f->values[v].weight != weight || !f->known[v] ||
                                      memcmp(&f->of[v], form, sizeof *form) != 0))
    v++;
  if (v == f->plan->value_count && !f->known[value]) v = value;
  if (v == f->plan->value_count) f->values[f->plan->value_count++] = f->values[value];
  f->of[v] = *form;
  f->known[v] = true;
  return v;
}

/* Input i of the kernel, and the stream that brings it, take their form's value. */
static bool take_form(forms *f, uint32_t kernel, uint32_t i) {
  wafer_kernel *k = &f->kernels[kernel];
  uint32_t value = k->inputs[i];
  wafer_pairs form = wafer_kernel_pairs(f->plan->machine, &k->body, &k->split, i);
  uint32_t own = value_in(f, value, &form);
  if (own == value) return true;
  uint32_t *inputs = wafer_arena_copy(f->arena, k->inputs, k->body.input_count * sizeof *k->inputs);
  if (!inputs) return false;
  inputs[i] = own;
  k->inputs = inputs;
  wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
  for (uint32_t s = 0; s < f->plan->stream_count; s++)
    if (f->streams[s].to_kernel == kernel && f->streams[s].value == value &&
        wafer_layout_equal(&f->streams[s].to.layout, &layout))
      f->streams[s].value = own;
  return true;
}

bool launch_order_forms(wafer_arena *arena, wafer_plan *plan) {
  forms f;
  size_t count = plan->weights ? wafer_weights_count(plan->weights) : 0;
  bool any = false;
  for (size_t w = 0; w < count; w++) any |= wafer_weights_at(plan->weights, w)->sparse;
  if (!any || plan->mode != WAFER_MODE_pipelined) return true;
  if (!begin(&f, arena, plan)) return false;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t i = 0; i < plan->kernels[k].body.input_count; i++) {
      uint32_t weight = f.values[f.kernels[k].inputs[i]].weight;
      if (weight == WAFER_NONE || !wafer_weights_at(plan->weights, weight)->sparse) continue;
      if (!take_form(&f, k, i)) return false;
    }
  plan->values = f.values;
  plan->kernels = f.kernels;
  plan->streams = f.streams;
  return true;
}

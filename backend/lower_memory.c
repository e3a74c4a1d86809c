/* The memory map of a kernel's cores, line by line, from the kernel's cost. */
#include "lower.h"
#include "wafer/pairs.h"

typedef struct memory_map {
  const lowering *lowering;
  wafer_kernel *kernel;
  wafer_memory_item *items;
  uint32_t count;
} memory_map;

static const char *node_of(const memory_map *m, uint32_t value) {
  const wafer_value *v = &m->lowering->values[value];
  return *v->node ? v->node : v->name;
}

static wafer_status add(memory_map *m, const char *what, const char *node, uint64_t bytes) {
  if (!what) return lower_no_memory(m->lowering);
  if (bytes) m->items[m->count++] = (wafer_memory_item){what, node, bytes};
  return WAFER_OK;
}

/* "input x (2 samples)" */
static const char *name_buffer(const memory_map *m, const char *kind, uint32_t value,
                               uint32_t depth, const char *unit) {
  const char *name = m->lowering->values[value].name;
  if (depth == 0)
    return wafer_arena_printf(m->lowering->ctx->arena, "%s %s (2 slices)", kind, name);
  if (depth == 1) return wafer_arena_printf(m->lowering->ctx->arena, "%s %s", kind, name);
  return wafer_arena_printf(m->lowering->ctx->arena, "%s %s (%u %s)", kind, name, depth, unit);
}

/* Of a part in so many copies, or in two slices. */
static uint64_t room_for(uint64_t bytes, uint32_t depth) {
  if (depth > 0) return bytes * depth;
  return 2 * (bytes < WAFER_SLICE_BYTES ? bytes : WAFER_SLICE_BYTES);
}

/* What stays beside a gradient from sample to sample, all in f32. */
static wafer_status add_sum(memory_map *m, uint32_t output, uint64_t *total) {
  const wafer_kernel_body *body = &m->kernel->body;
  wafer_layout layout = wafer_kernel_output_layout(body, &m->kernel->split, output);
  const wafer_type *type = wafer_body_type(body, body->outputs[output]);
  uint64_t one = wafer_layout_tile(&layout, &type->shape) * wafer_dtype_bytes(WAFER_DTYPE_f32);
  uint32_t value = m->kernel->outputs[output];
  const char *const names[] = {"sum of", "weight of", "optimizer state of"};
  const uint64_t tiles[] = {1, 1, body->state > 1 ? body->state - 1 : 0};
  for (size_t i = 0; i < WAFER_COUNT(names); i++) {
    WAFER_TRY(add(m, name_buffer(m, names[i], value, 1, ""), node_of(m, value), one * tiles[i]));
    *total -= one * tiles[i] < *total ? one * tiles[i] : *total;
  }
  return WAFER_OK;
}

/* The tiles of all inputs of a kind, each a line; what the cost counts beyond them (halos, padding
 * of rows) is a line of its own. */
static wafer_status add_inputs(memory_map *m, bool weights, uint64_t total) {
  const wafer_kernel_body *body = &m->kernel->body;
  const char *kind = weights ? "weight" : "input";
  bool passes = false;
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (body->input_is_weight[i] != weights) continue;
    wafer_layout layout = wafer_kernel_input_layout(body, &m->kernel->split, i);
    uint32_t depth = body->input_depth[i];
    passes |= wafer_body_passes(body, i);
    if (!weights && depth == 0) depth = 1; /* a copy that ends with the phase */
    uint64_t bytes = wafer_layout_tile(&layout, &body->inputs[i].shape) *
                     wafer_stored_bytes(body->inputs[i].dtype, body->storage);
    if (body->sparsity && body->sparsity[i].sparse)
      bytes = wafer_kernel_input_bytes(m->lowering->ctx->machine, body, &m->kernel->split, i);
    bytes = room_for(bytes, depth);
    bytes = bytes < total ? bytes : total;
    total -= bytes;
    uint32_t value = m->kernel->inputs[i];
    WAFER_TRY(add(m, name_buffer(m, kind, value, depth, weights ? "buffers" : "samples"),
                  node_of(m, value), bytes));
  }
  for (uint32_t i = 0; weights && i < body->output_count; i++)
    if (wafer_body_sums(body, i)) WAFER_TRY(add_sum(m, i, &total));
  return add(m,
             weights  ? "weights, padding"
             : passes ? "slices of the inputs"
                      : "halo of the inputs",
             m->lowering->values[m->kernel->outputs[0]].node, total);
}

static wafer_status add_outputs(memory_map *m, uint64_t total) {
  const wafer_kernel_body *body = &m->kernel->body;
  for (uint32_t i = 0; i < body->output_count; i++) {
    wafer_layout layout = wafer_kernel_output_layout(body, &m->kernel->split, i);
    const wafer_type *type = wafer_body_type(body, body->outputs[i]);
    uint32_t depth = wafer_body_sums(body, i) ? 1 : body->output_depth;
    uint64_t bytes = room_for(wafer_layout_tile(&layout, &type->shape) *
                                  wafer_stored_bytes(type->dtype, body->storage),
                              depth);
    bytes = bytes < total ? bytes : total;
    total -= bytes;
    uint32_t value = m->kernel->outputs[i];
    WAFER_TRY(add(m, name_buffer(m, "output", value, depth, "samples"), node_of(m, value), bytes));
  }
  return add(m, "padding of the outputs", m->lowering->values[m->kernel->outputs[0]].node, total);
}

wafer_status lower_memory(const lowering *l, wafer_kernel *kernel) {
  uint32_t most = kernel->body.input_count + kernel->body.output_count + 5;
  for (uint32_t i = 0; i < kernel->body.output_count; i++)
    most += wafer_body_sums(&kernel->body, i) ? 3 : 0;
  memory_map m = {
      .lowering = l, .kernel = kernel, .items = WAFER_NEW(l->ctx->arena, wafer_memory_item, most)};
  if (!m.items) return lower_no_memory(l);
  const char *node = l->values[kernel->outputs[0]].node;
  WAFER_TRY(add(&m, "code", node, kernel->cost.code_bytes));
  WAFER_TRY(add_inputs(&m, true, kernel->cost.weight_bytes));
  WAFER_TRY(add_inputs(&m, false, kernel->cost.input_bytes));
  WAFER_TRY(add_outputs(&m, kernel->cost.output_bytes));
  WAFER_TRY(add(&m, "scratch", node, kernel->cost.scratch_bytes));
  kernel->memory_count = m.count;
  kernel->memory = m.items;
  return WAFER_OK;
}

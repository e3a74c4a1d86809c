/* What lies on the wafer between the phases of weight streaming: copies of values, each where a
 * phase made or needed it, until the last kernel that needs the value. */
#include <string.h>

#include "size_streaming.h"
#include "streams.h"

static wafer_rect rect_of(const streaming *s, const wafer_shape_point *point) {
  return (wafer_rect){s->whole.x + s->corner.x, s->whole.y + s->corner.y, point->width,
                      point->height};
}

wafer_holding streaming_input(const streaming *s, const wafer_kernel_body *body,
                              const wafer_shape_point *point, uint32_t input) {
  const wafer_layout *lie = curve_layouts(s->curves, body, point);
  return (wafer_holding){WAFER_AT_wafer, rect_of(s, point),
                         lie ? lie[input] : wafer_kernel_input_layout(body, &point->split, input)};
}

wafer_holding streaming_output(const streaming *s, const wafer_kernel_body *body,
                               const wafer_shape_point *point, uint32_t output) {
  const wafer_layout *lie = curve_layouts(s->curves, body, point);
  return (wafer_holding){WAFER_AT_wafer, rect_of(s, point),
                         lie ? lie[body->input_count + output]
                             : wafer_kernel_output_layout(body, &point->split, output)};
}

bool held_has(const held *h, const wafer_holding *holding) {
  for (uint32_t i = 0; i < h->count; i++)
    if (wafer_holding_equal(&h->at[i], holding)) return true;
  return false;
}

static wafer_status hold(streaming *s, uint32_t value, const wafer_holding *holding,
                         wafer_dtype storage) {
  held *h = &s->held[value];
  if (held_has(h, holding)) return WAFER_OK;
  if (!WAFER_GROW(s->ctx->arena, h->at, h->count, h->room, 2)) return streaming_no_memory(s);
  h->at[h->count++] = *holding;
  uint64_t bytes = holding_bytes(holding, &s->graph->values[value].type, storage);
  h->bytes += bytes;
  s->live += bytes;
  return WAFER_OK;
}

static void drop(streaming *s, uint32_t value) {
  s->live -= s->held[value].bytes;
  s->held[value] = (held){0};
}

/* Copies of this kernel's own inputs that the kernel's bytes count already. */
static uint64_t counted_twice(const streaming *s, const wafer_graph_kernel *kernel,
                              const wafer_kernel_body *body, const wafer_shape_point *point) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < body->input_count; i++) {
    const held *h = &s->held[kernel->inputs[i]];
    if (!h->count) continue;
    wafer_holding holding = streaming_input(s, body, point, i);
    if (held_has(h, &holding))
      bytes += holding_bytes(&holding, &s->graph->values[kernel->inputs[i]].type, body->storage);
  }
  return bytes;
}

bool streaming_passes(const streaming *s, const wafer_kernel_body *body, uint32_t input) {
  return !body->input_is_weight[input] && body->input_depth[input] < s->batch;
}

bool held_stays(const streaming *s, const wafer_graph_kernel *kernel, const wafer_kernel_body *body,
                const wafer_shape_point *point) {
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (!streaming_passes(s, body, i) || body->input_depth[i] == 0)
      continue; /* what is there, serves */
    wafer_holding holding = streaming_input(s, body, point, i);
    if (held_has(&s->held[kernel->inputs[i]], &holding)) return true;
  }
  return false;
}

uint64_t held_beside(const streaming *s, const wafer_graph_kernel *kernel,
                     const wafer_kernel_body *body, const wafer_shape_point *point) {
  return point->bytes + s->batch * (s->live - counted_twice(s, kernel, body, point));
}

wafer_status held_update(streaming *s, uint32_t k, const wafer_kernel_body *body,
                         const wafer_shape_point *point) {
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  for (uint32_t i = 0; i < body->input_count; i++) {
    if (body->input_is_weight[i] || streaming_passes(s, body, i)) continue;
    wafer_holding to = streaming_input(s, body, point, i);
    WAFER_TRY(hold(s, kernel->inputs[i], &to, body->storage));
  }
  for (uint32_t i = 0; i < body->output_count && body->output_depth > 0; i++) {
    wafer_holding made = streaming_output(s, body, point, i);
    WAFER_TRY(hold(s, kernel->outputs[i], &made, body->storage));
  }
  for (uint32_t i = 0; i < body->input_count; i++)
    if (s->last_use[kernel->inputs[i]] == k) drop(s, kernel->inputs[i]);
  for (uint32_t i = 0; i < body->output_count; i++)
    if (s->last_use[kernel->outputs[i]] == WAFER_NONE) drop(s, kernel->outputs[i]);
  return WAFER_OK;
}

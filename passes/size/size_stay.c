/* Weights that stay. Steps of a recurrence are kernels of their own that take the same weights: one
 * that lies where the next of them needs it waits there, if the cores of all phases between have
 * room for it, and comes from MemoryX once. */
#include "size_streaming.h"
#include "streams.h"

#define STAY_ROOM 2 /* of this part of a core: values and programs want room in one piece */

/* A weight of a kernel, whole: in slices nothing of it lies anywhere. */
typedef struct resting {
  bool whole;
  wafer_holding at;
  uint64_t bytes; /* of a core */
} resting;

static resting rest_of(streaming *s, const wafer_graph_use *use) {
  const sized_kernel *sized = &s->out->kernels[use->kernel];
  const wafer_kernel_body *own = &s->graph->kernels[use->kernel].body;
  wafer_kernel_body body = size_with_depths(own, sized->depths);
  bool sparse = body.sparsity && body.sparsity[use->input].sparse;
  streaming_at(s, use->kernel);
  resting r = {.whole = sized->depths[use->input] > 0 && !sparse,
               .at = streaming_input(s, &body, sized->point, use->input)};
  r.bytes = holding_bytes(&r.at, &body.inputs[use->input], body.storage);
  return r;
}

/* Whether the kernels between have room for it, which then is its. */
static bool takes_room(streaming *s, uint32_t first, uint32_t end, uint64_t bytes) {
  for (uint32_t k = first; k < end; k++)
    if (s->own[k].fixed_bytes + s->batch * s->own[k].sample_bytes + bytes > s->budget / STAY_ROOM)
      return false;
  for (uint32_t k = first; k < end; k++) s->own[k].fixed_bytes += bytes;
  return true;
}

/* From each use to the next. */
static void stay(streaming *s, const wafer_graph_value *weight) {
  for (uint32_t u = 1; u < weight->use_count; u++) {
    const wafer_graph_use *before = &weight->uses[u - 1], *use = &weight->uses[u];
    if (before->kernel == use->kernel || use->input >= WAFER_STAYING_INPUTS) continue;
    resting from = rest_of(s, before), to = rest_of(s, use);
    if (from.whole && to.whole && wafer_holding_equal(&from.at, &to.at) &&
        takes_room(s, before->kernel + 1, use->kernel, from.bytes))
      s->out->kernels[use->kernel].stays |= 1u << use->input;
  }
}

void size_stay(streaming *s) {
  if (s->ctx->options && s->ctx->options->training) return;
  for (uint32_t v = 0; v < s->graph->value_count; v++)
    if (wafer_graph_is_weight(s->graph, v)) stay(s, &s->graph->values[v]);
  for (uint32_t k = 0; k < s->graph->kernel_count; k++)
    if (s->out->kernels[k].stays) streaming_arrive(s, k);
}

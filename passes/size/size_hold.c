/* A search that goes on from a layout while no sample stays longer anywhere. What waits for a
 * kernel follows from how long others have a sample. That changes with every layout, so that a
 * search with room for what waits in one finds another in which as much waits elsewhere. Here each
 * kernel gets room for what waits for it now, and next to no shape that is slower than the one it
 * has. */
#include "size_pipelined.h"

#define STEPS 16u /* of depths, for each doubling: kernels of about as much room share a curve */
#define SLACK 32u /* a sample may stay longer by one part in these: there is room for it */

static uint32_t round_up(uint32_t depth) {
  uint32_t step = 1;
  while (depth / step >= 2 * STEPS) step *= 2;
  return (depth + step - 1) / step * step;
}

/* The curve of kernel k for what it holds, or wants to; as it is where no shape has that much. */
static wafer_status make_room(pipeline *p, uint32_t k) {
  const uint32_t *now = p->wanted[k] ? p->wanted[k] : p->out->kernels[k].depths;
  uint32_t inputs = p->graph->kernels[k].body.input_count;
  uint32_t *depths = WAFER_NEW(p->ctx->arena, uint32_t, inputs + 1);
  const wafer_curve *curve;
  if (!depths) return pipeline_no_memory(p);
  for (uint32_t i = 0; i <= inputs; i++) {
    bool waits = i < inputs && pipeline_producer(p, k, i) != WAFER_NONE;
    depths[i] = waits ? round_up(now[i]) : now[i];
  }
  WAFER_TRY(pipeline_curve_for(p, k, depths, true, &curve));
  if (curve->count) p->curve[k] = curve;
  return WAFER_OK;
}

wafer_status pipeline_hold(pipeline *p, uint64_t t) {
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) {
    uint64_t cycles = p->out->kernels[k].point->cycles;
    WAFER_TRY(make_room(p, k));
    p->patience[k] = (uint32_t)(((cycles + cycles / SLACK) * SIZE_PATIENCE + t - 1) / t);
    p->haste[k] = 0;
  }
  return pipeline_find_kinds(p);
}

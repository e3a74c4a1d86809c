/* Sizing a pipeline that one sample at a time passes: cores go where they shorten its way.
 *
 * Shapes that are all as fast as the slowest kernel's can be leave a wafer mostly empty, and make a
 * sample late: its latency is a sum over kernels, not the slowest one's cycles. So each kernel has
 * the shape that is cheapest when a core has a price in cycles, the same for all kernels, which is
 * what makes the sum least for the cores that are spent. The price falls by halves as long as
 * shelves hold the shapes, then by bisection; the layout with the shortest latency stays. */
#include <string.h>

#include "size_pipelined.h"
#include "streams.h"

#define CYCLE 1024u       /* parts that prices are in */
#define HIGHEST_PRICE 256 /* cycles for a core */
#define STEPS 6           /* of bisection, between a price and half of it */
#define SLACK 32          /* shapes that cost one part in so many more let shelves choose */

/* What a kernel of that shape adds to a sample's way: it computes, and its heaviest value passes
 * its rows, once over the rectangle. */
static uint64_t cycles_of(const kind *of, const wafer_shape_point *at) {
  return at->cycles + ceil_div(of->words, at->height) + at->width + at->height;
}

static uint64_t cost_of(const kind *of, const wafer_shape_point *at, uint64_t price) {
  return cycles_of(of, at) * CYCLE + (uint64_t)at->width * at->height * price;
}

static wafer_status list_cheapest(const pipeline *p, wafer_arena *arena, const kind *of,
                                  uint64_t price, shelf_shapes *out) {
  uint32_t n = 0;
  uint64_t least = UINT64_MAX;
  shelf_point *points = WAFER_NEW(arena, shelf_point, of->curve->count);
  if (!points) return pipeline_no_memory(p);
  for (size_t i = 0; i < of->curve->count; i++)
    least = min_u64(least, cost_of(of, &of->curve->at[i], price));
  for (size_t i = 0; i < of->curve->count; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    if (cost_of(of, at, price) <= least + least / SLACK)
      points[n++] = (shelf_point){at->width, at->height, (uint32_t)i};
  }
  *out = (shelf_shapes){shelf_pareto(n, points), points};
  return WAFER_OK;
}

static wafer_status pack(const pipeline *p, wafer_arena *arena, uint64_t price, shelf_place *places,
                         bool *fits) {
  shelf_shapes *kinds = WAFER_NEW(arena, shelf_shapes, p->kind_count);
  if (!kinds) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->kind_count; k++)
    WAFER_TRY(list_cheapest(p, arena, &p->kinds[k], price, &kinds[k]));
  return pipeline_pack(p, arena, kinds, places, fits);
}

/* The same in an arena of its own. */
static wafer_status shelves_at(const pipeline *p, uint64_t price, shelf_place *places, bool *fits) {
  wafer_arena *scratch = wafer_arena_create();
  if (!scratch) return pipeline_no_memory(p);
  wafer_status status = pack(p, scratch, price, places, fits);
  wafer_arena_destroy(scratch);
  return status;
}

/* The next price between one whose shapes shelves do not hold and one whose they do. */
static uint64_t between(uint64_t low, uint64_t high) {
  return low + (high - low) / 2;
}

wafer_status pipeline_quicken(pipeline *p) {
  const uint32_t n = p->graph->kernel_count;
  const shelf_place *best = p->places;
  shelf_place *places = WAFER_NEW(p->ctx->arena, shelf_place, 2 * (size_t)n), *kept = places + n;
  uint64_t latency = p->out->cost.latency_cycles, low = 0, high = 2 * HIGHEST_PRICE * CYCLE;
  if (!places) return pipeline_no_memory(p);
  for (uint32_t steps = 0; steps < STEPS && between(low, high) > low; steps += low > 0) {
    const uint64_t price = between(low, high);
    bool fits;
    WAFER_TRY(shelves_at(p, price, places, &fits));
    *(fits ? &high : &low) = price;
    if (!fits) continue;
    WAFER_TRY(pipeline_settle(p, places));
    if (p->out->cost.latency_cycles >= latency) continue;
    latency = p->out->cost.latency_cycles;
    memcpy(kept, places, n * sizeof *kept);
    best = kept;
  }
  return pipeline_settle(p, best);
}

/* Kernels whose cores do not hold what waits, in a layout that is settled otherwise. Of hundreds
 * there are few, mostly small, and a search that gives them more cores puts all others elsewhere,
 * so that what waits is different again. So those alone get other shapes, and stand in free cores,
 * of which any layout leaves some. */
#include <string.h>

#include "size_best.h"
#include "size_room.h"

#define ROUNDS 8
#define SHAPES 16 /* that are tried for a kernel */

/* ---- Shapes ---- */

/* The smallest shape that is larger than `least` cores, holds what kernel k wants, and keeps the
 * interval with a sample in it no longer than now, or than an interval; NULL: there is none. */
static const wafer_shape_point *next_shape(const search *s, uint32_t k, const wafer_curve *curve,
                                           uint64_t least, uint32_t *copies) {
  const pipeline *p = s->p;
  const sized_kernel *now = &p->out->kernels[k];
  uint64_t t = s->found ? s->found : 1, words = pipeline_heaviest_stream(p, k), fewest = UINT64_MAX;
  uint64_t longest = now->point->cycles > t ? now->point->cycles : t;
  const wafer_shape_point *found = NULL;
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *at = &curve->at[i];
    uint64_t each = (uint64_t)at->width * at->height, needed = (at->cycles + t - 1) / t;
    if (needed < now->replicas) needed = now->replicas; /* all together hold what waits */
    if (needed > s->replicas || at->cycles > longest || words > t * at->height) continue;
    if (needed * each <= least || needed * each >= fewest) continue;
    fewest = needed * each;
    *copies = (uint32_t)needed;
    found = at;
  }
  return found;
}

/* Another shape and place for kernel k, if one of the smallest that do finds a place. */
static wafer_status repair(const search *s, uint32_t k, room *r, shelf_place *place, bool *done) {
  pipeline *p = s->p;
  const wafer_curve *curve;
  const wafer_shape_point *at;
  wafer_rect old = search_all_replicas(place), all;
  uint64_t least = 0;
  uint32_t copies;
  WAFER_TRY(pipeline_curve_for(p, k, p->wanted[k], true, &curve));
  room_cover(r, old, false);
  room_count(r);
  for (int i = 0; i < SHAPES && (at = next_shape(s, k, curve, least, &copies)); i++) {
    least = (uint64_t)copies * at->width * at->height;
    if (!room_find(r, copies * at->width, at->height, old, &all)) continue;
    *place = (shelf_place){
        (uint32_t)(at - curve->at), {all.x, all.y, at->width, at->height}, copies, at};
    *done = true;
    old = all;
    break;
  }
  room_cover(r, old, true);
  return WAFER_OK;
}

/* Of all that want more; *some: one at least has got it. */
static wafer_status repair_all(const search *s, room *r, shelf_place *places, bool *some) {
  pipeline *p = s->p;
  *some = false;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (p->wanted[k] && !search_is_pinned(p, k)) WAFER_TRY(repair(s, k, r, &places[k], some));
  return WAFER_OK;
}

/* Rounds, for what one kernel has others may want. */
static wafer_status repair_rounds(const search *s, room *r, shelf_place *places,
                                  shelf_place *best) {
  pipeline *p = s->p;
  uint32_t n = p->graph->kernel_count;
  uint64_t least = p->out->cost.interval_cycles;
  for (int round = 0; round < ROUNDS && least > s->found; round++) {
    bool some;
    WAFER_TRY(repair_all(s, r, places, &some));
    if (!some) break;
    WAFER_TRY(pipeline_settle(p, places));
    if (p->out->cost.interval_cycles >= least) continue;
    least = p->out->cost.interval_cycles;
    memcpy(best, places, n * sizeof *best);
  }
  return pipeline_settle(p, best);
}

wafer_status search_repair(const search *s, shelf_place *places) {
  const pipeline *p = s->p;
  wafer_arena *scratch = wafer_arena_create();
  uint32_t n = p->graph->kernel_count;
  shelf_place *tried = scratch ? WAFER_NEW(scratch, shelf_place, n) : NULL;
  room r;
  bool ok = tried && room_open(scratch, p->ctx->machine, &r);
  for (uint32_t k = 0; ok && k < n; k++) room_cover(&r, search_all_replicas(&places[k]), true);
  if (ok) memcpy(tried, places, n * sizeof *tried);
  wafer_status status = ok ? repair_rounds(s, &r, tried, places) : pipeline_no_memory(p);
  wafer_arena_destroy(scratch);
  return status;
}

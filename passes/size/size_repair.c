/* Kernels whose cores do not hold what waits, in a layout that is settled otherwise. Of hundreds
 * there are few, mostly small, and a search that gives them more cores puts all others elsewhere,
 * so that what waits is different again. So those alone get other shapes, and stand in free cores,
 * of which any layout leaves some. */
#include <string.h>

#include "size_best.h"

#define ROUNDS 8
#define SHAPES 16 /* that are tried for a kernel */

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* Of all cores of the wafer above and left of a place those that are taken. */
typedef struct fabric {
  uint32_t width, height;
  uint32_t *sums; /* (width + 1) x (height + 1) */
  uint8_t *taken;
} fabric;

static void cover(fabric *f, wafer_rect r, bool taken) {
  uint32_t end_x = min_u32(r.x + r.width, f->width), end_y = min_u32(r.y + r.height, f->height);
  for (uint32_t y = r.y; y < end_y && r.x < end_x; y++)
    memset(f->taken + (size_t)y * f->width + r.x, taken, end_x - r.x);
}

static void add_up(fabric *f) {
  uint32_t row = f->width + 1;
  for (uint32_t y = 0; y < f->height; y++) {
    uint32_t sum = 0, *above = f->sums + (size_t)y * row;
    for (uint32_t x = 0; x < f->width; x++) {
      sum += f->taken[(size_t)y * f->width + x];
      above[row + x + 1] = above[x + 1] + sum;
    }
  }
}

static bool is_free(const fabric *f, wafer_rect r) {
  uint32_t row = f->width + 1;
  const uint32_t *top = f->sums + (size_t)r.y * row + r.x, *end = top + (size_t)r.height * row;
  return end[r.width] - end[0] - top[r.width] + top[0] == 0;
}

/* The nearest free place in the first row of places that has one, by distance from the old one. */
static bool find_place(const fabric *f, uint32_t width, uint32_t height, wafer_rect old,
                       wafer_rect *out) {
  if (width > f->width || height > f->height) return false;
  uint32_t rows = f->height - height, cols = f->width - width;
  for (uint32_t away = 0; away <= f->height; away++)
    for (int side = 0; side < (away ? 2 : 1); side++) {
      uint32_t y = side ? old.y - away : old.y + away, best = UINT32_MAX;
      if ((side && away > old.y) || y > rows) continue;
      for (uint32_t x = 0; x <= cols; x++) {
        uint32_t far = x > old.x ? x - old.x : old.x - x;
        if (far >= best || !is_free(f, (wafer_rect){x, y, width, height})) continue;
        best = far;
        *out = (wafer_rect){x, y, width, height};
      }
      if (best < UINT32_MAX) return true;
    }
  return false;
}

static bool open_fabric(const pipeline *p, const shelf_place *places, wafer_arena *scratch,
                        fabric *f) {
  const wafer_machine *m = p->ctx->machine;
  *f = (fabric){.width = m->usable.x + m->usable.width, .height = m->usable.y + m->usable.height};
  f->sums = WAFER_NEW(scratch, uint32_t, ((size_t)f->width + 1) * (f->height + 1));
  f->taken = WAFER_NEW(scratch, uint8_t, (size_t)f->width * f->height);
  if (!f->sums || !f->taken) return false;
  cover(f, (wafer_rect){0, 0, f->width, f->height}, true);
  cover(f, m->usable, false);
  for (uint32_t i = 0; i < m->dead_count; i++)
    cover(f, (wafer_rect){m->dead[i].x, m->dead[i].y, 1, 1}, true);
  for (uint32_t i = 0; i < m->reserved_count; i++) cover(f, m->reserved[i], true);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    cover(f, search_all_replicas(&places[k]), true);
  return true;
}

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
static wafer_status repair(const search *s, uint32_t k, fabric *f, shelf_place *place, bool *done) {
  pipeline *p = s->p;
  const wafer_curve *curve;
  const wafer_shape_point *at;
  wafer_rect old = search_all_replicas(place), all;
  uint64_t least = 0;
  uint32_t copies;
  WAFER_TRY(pipeline_curve_for(p, k, p->wanted[k], true, &curve));
  cover(f, old, false);
  add_up(f);
  for (int i = 0; i < SHAPES && (at = next_shape(s, k, curve, least, &copies)); i++) {
    least = (uint64_t)copies * at->width * at->height;
    if (!find_place(f, copies * at->width, at->height, old, &all)) continue;
    *place = (shelf_place){
        (uint32_t)(at - curve->at), {all.x, all.y, at->width, at->height}, copies, at};
    *done = true;
    old = all;
    break;
  }
  cover(f, old, true);
  return WAFER_OK;
}

/* Of all that want more; *some: one at least has got it. */
static wafer_status repair_all(const search *s, fabric *f, shelf_place *places, bool *some) {
  pipeline *p = s->p;
  *some = false;
  for (uint32_t k = 0; k < p->graph->kernel_count; k++)
    if (p->wanted[k] && !search_is_pinned(p, k)) WAFER_TRY(repair(s, k, f, &places[k], some));
  return WAFER_OK;
}

/* Rounds, for what one kernel has others may want. */
static wafer_status repair_rounds(const search *s, fabric *f, shelf_place *places,
                                  shelf_place *best) {
  pipeline *p = s->p;
  uint32_t n = p->graph->kernel_count;
  uint64_t least = p->out->cost.interval_cycles;
  for (int round = 0; round < ROUNDS && least > s->found; round++) {
    bool some;
    WAFER_TRY(repair_all(s, f, places, &some));
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
  fabric f;
  bool ok = tried && open_fabric(p, places, scratch, &f);
  if (ok) memcpy(tried, places, n * sizeof *tried);
  wafer_status status = ok ? repair_rounds(s, &f, tried, places) : pipeline_no_memory(p);
  wafer_arena_destroy(scratch);
  return status;
}

/* The least interval at which a pipeline's kernels may fit the wafer: their least areas, in several
 * measures, and what waits in buffers. */
#include "size_best.h"
#include "streams.h"

/* Lengths along a direction of `all` cores, so changed that what fits beside each other still does:
 * measured so, too, no layout has more area than the wafer. Kernels of more than half the wafer's
 * height cannot stand on each other, of more than a third not three; their area does not show it.
 * (Dual feasible functions: Fekete and Schepers, Mathematical Programming 91, 2001.) 0: as it is.
 * To STEPS: what leaves less than `step` parts of 2 STEPS is all, and less than that is nothing.
 * Beyond: so many parts and no fractions. */
#define STEPS 8u
#define PARTS 6u
typedef struct measure {
  uint32_t step; /* below STEPS + PARTS */
  uint64_t all;
} measure;

static uint64_t measured(measure m, uint64_t length) {
  if (m.step > STEPS) { /* in units of 1 / parts of all */
    uint64_t parts = m.step - STEPS + 1, whole = (parts + 1) * length / m.all;
    bool even = (parts + 1) * length % m.all == 0;
    return even ? length * parts : whole * m.all;
  }
  if (2 * STEPS * length < m.step * m.all) return 0;
  return 2 * STEPS * length > (2 * STEPS - m.step) * m.all ? m.all : length;
}

/* What `all` measures: fractions of parts are counted exactly. */
static uint64_t measured_all(measure m) {
  return m.step > STEPS ? m.all * (m.step - STEPS + 1) : m.all;
}

uint32_t search_grow(const search *s, const kind *of, search_sides one, uint64_t cycles, uint64_t t,
                     search_sides grown[2]) {
  wafer_rect usable = s->p->ctx->machine->usable;
  uint64_t copies = t ? max_u64((cycles + t - 1) / t, 1) : 1;
  uint64_t lanes = t ? (of->words + t - 1) / t : of->words;
  search_sides rows = {copies * one.width, max_u64(one.height, lanes)};
  search_sides cols = {copies * max_u64(one.width, lanes), one.height};
  uint32_t n = 0;
  if (copies > s->most || rows.width > usable.width) return 0;
  if (lanes <= of->curve->most_rows) grown[n++] = rows;
  if (lanes <= of->curve->most_cols && lanes > one.height && cols.width <= usable.width)
    grown[n++] = cols;
  return n;
}

/* Least area, so measured, on which a kind takes at most t cycles a sample; UINT64_MAX: none. */
static uint64_t least_area(const search *s, const kind *of, uint64_t t, measure x, measure y) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < of->curve->count && of->curve->at[i].cycles / s->most <= t; i++) {
    const wafer_shape_point *at = &of->curve->at[i];
    search_sides grown[2];
    uint32_t n = search_grow(s, of, (search_sides){at->width, at->height}, at->cycles, t, grown);
    for (uint32_t j = 0; j < n; j++) {
      uint64_t area = measured(x, grown[j].width) * measured(y, grown[j].height);
      if (area < least) least = area;
    }
  }
  return least;
}

static bool measure_fits(const search *s, uint64_t t, measure x, measure y) {
  const pipeline *p = s->p;
  uint64_t room = measured_all(x) * measured_all(y);
  for (uint32_t k = 0; k < p->kind_count; k++) {
    uint64_t least = least_area(s, &p->kinds[k], t, x, y), many = s->many[k];
    if (least > room / many) return false; /* none is that fast, or there is no room */
    room -= least * many;
  }
  return true;
}

/* May shapes of at most t cycles fit the usable cores? */
static bool area_fits(const search *s, uint64_t t) {
  wafer_rect usable = s->p->ctx->machine->usable;
  for (uint32_t step = 0; step <= STEPS + PARTS; step++) {
    measure x = {0, usable.width}, y = {0, usable.height};
    if (!measure_fits(s, t, (measure){step, x.all}, y)) return false;
    if (step && !measure_fits(s, t, x, (measure){step, y.all})) return false;
  }
  return true;
}

/* Of the kinds as they are. */
static wafer_status bisect_bound(search *s) {
  const pipeline *p = s->p;
  s->many = WAFER_NEW(p->ctx->arena, uint32_t, p->kind_count);
  if (!s->many) return pipeline_no_memory(p);
  for (uint32_t k = 0; k < p->graph->kernel_count; k++) s->many[p->kind_of[k]]++;
  uint64_t low = max_u64(p->edge, 1); /* an interval has a cycle */
  uint64_t high = p->cycle_count ? max_u64(p->cycles[p->cycle_count - 1], low) : low;
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    if (area_fits(s, mid))
      high = mid;
    else
      low = mid + 1;
  }
  s->bound = low;
  return WAFER_OK;
}

/* From the bound at hand to where what waits may fit as well. */
static wafer_status raise_bound(search *s) {
  const pipeline *p = s->p;
  uint64_t low = s->bound, cores = wafer_rect_area(p->ctx->machine->usable);
  uint64_t high = max_u64(low, p->out->cost.interval_cycles);
  size_waits *waits;
  bool fit;
  if (low == high) return WAFER_OK;
  WAFER_TRY(size_waits_find(s, &waits));
  while (low < high) {
    uint64_t mid = low + (high - low) / 2;
    WAFER_TRY(size_waits_fit(waits, mid, cores, &fit));
    if (fit)
      high = mid;
    else
      low = mid + 1;
  }
  s->bound = low;
  return WAFER_OK;
}

/* Curves are thinner than all splits, in different places: none may be below the lower one. */
wafer_status search_find_bound(search *s) {
  pipeline *p = s->p;
  const wafer_curve **curve = p->curve;
  uint64_t least = UINT64_MAX;
  for (int lanes = 0; lanes < 2; lanes++) {
    WAFER_TRY(pipeline_shallow(p, lanes, &p->curve));
    WAFER_TRY(pipeline_find_kinds(p));
    WAFER_TRY(bisect_bound(s));
    WAFER_TRY(raise_bound(s));
    if (s->bound < least) least = s->bound;
  }
  s->bound = least;
  p->curve = curve;
  return pipeline_find_kinds(p);
}

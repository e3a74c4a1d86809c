/* The search for a better layout of a pipeline: size_best.c settles what the placement engine
 * finds, size_areas.c says what the engine is asked. */
#ifndef WAFER_PASSES_SIZE_BEST_H
#define WAFER_PASSES_SIZE_BEST_H

#include "size_pipelined.h"
#include "wafer/placer.h"

#define SEARCH_AREAS 4u

/* A rectangle on which nothing stands. Each takes a run of the kernels in their order, and is
 * searched by itself: what lies on the others is fixed for it. */
typedef struct search_area {
  wafer_rect rect;
  uint32_t first, count; /* of the items */
  double fill;           /* the part of its cores that their least areas may take */
  uint64_t time;         /* of its slowest kernel, as found */
} search_area;

typedef struct search {
  pipeline *p;
  search_area areas[SEARCH_AREAS];
  uint32_t area_count;
  uint64_t floor;           /* no shorter interval is of use */
  bool quick;               /* few moves */
  uint32_t replicas;        /* of a kernel, at most: in this try */
  uint32_t most;            /* in any */
  uint64_t bound;           /* no layout has a shorter interval */
  uint32_t *many;           /* of each kind: kernels */
  wafer_placer_edge *edges; /* between kernels */
  uint32_t edge_count;
  uint32_t *item; /* kernels that the engine places: those without a pin */
  uint32_t item_count;
  const wafer_curve *const *guessed; /* of each kernel: the curve for depths as guessed */
  wafer_placed *start; /* of each item: the shelves' layout, then that of the try before */
  uint64_t found;      /* the slowest kernel's time */
} search;

static inline bool search_is_pinned(const pipeline *p, uint32_t k) {
  return p->pin && p->pin[k];
}
/* Cores of all replicas. */
wafer_rect search_all_replicas(const shelf_place *at);
shelf_place search_pinned(const pipeline *p, uint32_t k);

/* The largest rectangles without dead, reserved and pinned cores, and the kernels to place there.
 */
wafer_status search_find_areas(search *s);
/* Deals the kernels out, in their order, so that the least time at which they fill the areas is
 * least; the largest area alone has all where that does not go. */
void search_deal(search *s);
/* After a search: the slower an area turned out to be, the less it is dealt the next time. */
void search_even_out(search *s);
/* size_bound.c. No layout has a shorter interval: s->bound. By curves for the shallowest buffers,
 * and what waits. */
wafer_status search_find_bound(search *s);
/* Sides of all copies of a shape that interval t takes, with rows, and with columns of a copy,
 * enough for the heaviest stream: curves for a bound know nothing of lanes, so a shape that has
 * them is no smaller than one of theirs so grown. How many of both there are: grown beyond the
 * wafer or any split, or with too many copies, a shape is none. */
typedef struct search_sides {
  uint64_t width, height;
} search_sides;
uint32_t search_grow(const search *s, const kind *of, search_sides one, uint64_t cycles, uint64_t t,
                     search_sides grown[2]);
/* size_waits.c. The kernels whose values wait for others, with curves and kinds as they are, and
 * the bound as far as it is known; whether they may fit so many cores at an interval: false, no
 * layout does. */
typedef struct size_waits size_waits;
wafer_status size_waits_find(const search *s, size_waits **out);
wafer_status size_waits_fit(const size_waits *w, uint64_t t, uint64_t cores, bool *fit);
/* size_repair.c. Kernels of a layout just settled that hold less than what waits get other shapes
 * and places in free cores, where that makes the interval shorter; settled again. */
wafer_status search_repair(const search *s, shelf_place *places);
/* What the engine is asked about one area. */
wafer_status search_problem(search *s, const search_area *area, wafer_placer_problem *out);

#endif

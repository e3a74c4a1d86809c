/* Order-preserving shelves: items in topological order fill rows of the wafer, to and fro (a
 * snake), so that neighbours in the pipeline are neighbours on the wafer. Plain structs, no IR. */
#ifndef WAFER_PASSES_SHELF_H
#define WAFER_PASSES_SHELF_H

#include "wafer/machine.h"

/* One way to shape an item; `index` is the caller's. */
typedef struct shelf_point {
  uint32_t width, height, index;
} shelf_point;

/* The ways to shape a kind of item: widths rise, heights fall. */
typedef struct shelf_shapes {
  uint32_t count;
  const shelf_point *at;
} shelf_shapes;

typedef struct shelf_problem {
  const wafer_machine *machine; /* usable rectangle, dead and reserved cores */
  uint32_t kind_count, count;
  const shelf_shapes *kinds;
  const uint32_t *kind; /* of each item */
  uint32_t fixed_count;
  const wafer_rect *fixed; /* what stands already */
  bool every_height;       /* try all heights, however many items there are */
} shelf_problem;

typedef struct shelf_place shelf_place;
struct shelf_place {
  uint32_t index; /* of the chosen point */
  wafer_rect rect;
  uint32_t replicas; /* of the rectangle, side by side; 0 is 1, and what shelves give */
  const struct wafer_shape_point *point; /* of a kernel's curve, or NULL: that of the index */
};

/* Drops points that another one covers and sorts the rest as shelf_shapes wants; the number left.
 */
uint32_t shelf_pareto(uint32_t count, shelf_point *points);

/* Places every item, in as few rows of cores as the heights tried allow; *fits is false when that
 * is more than there are. `places` (count of them) may be NULL to ask for *fits alone.
 * WAFER_NO_MEMORY alone fails. */
wafer_status shelf_pack(const wafer_diag *diag, wafer_arena *arena, const shelf_problem *problem,
                        shelf_place *places, bool *fits);

#endif

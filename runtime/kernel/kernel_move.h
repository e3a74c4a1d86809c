/* What families that only move elements share: move, resize, gather, scatter. Private to their
 * files. */
#ifndef RUNTIME_KERNEL_MOVE_H
#define RUNTIME_KERNEL_MOVE_H

#include "kernel_family.h"

static inline const wafer_shape *kernel_move_shape(const kernel_view *k, uint32_t value) {
  return &kernel_type(k, value)->shape;
}

/* The operand's dims are cut as those of the same number of the result. */
void kernel_move_follow(const kernel_view *k, uint32_t node, uint32_t operand,
                        const kernel_map *result, kernel_map *map);

/* Cycles of a copy of a node's tile. */
static inline uint64_t kernel_move_copy(const kernel_view *k, uint32_t node) {
  uint32_t y = kernel_result(k, node);
  return kernel_over_tile(k, WAFER_RATE_move, kernel_dtype(k, y), y);
}

/* Fabric cycles of the anchor whose operand is cut along reduction loops: the core that has an
 * element sends it. */
uint64_t kernel_move_picked(const kernel_view *k);

/* Bytes of what changes cores where it may wait between two passes. */
uint64_t kernel_move_scratch(const kernel_view *k, uint32_t node);

/* Neighbouring dims of either side with equal products. */
typedef struct dim_group {
  uint32_t lead, onto;   /* the dims that are cut: the first ones, or the largest */
  int64_t inner, beside; /* elements for one index of them */
  int64_t elements;
  bool scattered;         /* one of them is not the first: elements go anywhere */
  uint32_t first, inside; /* just two dims become one: these; inside 0: it is not so */
} dim_group;

/* The group of x and y that begins at dims *i and *j, which move behind it; false: there is none.
 */
bool kernel_move_group(const kernel_view *k, const wafer_shape *x, const wafer_shape *y,
                       uint32_t *i, uint32_t *j, dim_group *g);

/* Fabric cycles of a node whose parts of operand and result begin at other elements; 0: every
 * element is where it stays. */
uint64_t kernel_move_crossing(const kernel_view *k, uint32_t node);

#endif

/* The orders of a plan's layouts: in which order the parts of a dim that follows a dealt weight
 * hold its indices. */
#ifndef WAFER_ORDERS_H
#define WAFER_ORDERS_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A permutation of a dim: index i of the tensor comes at place[i], and index[p] at place p. NULLs:
 * every index at its own place. */
typedef struct wafer_order {
  const uint32_t *place, *index;
} wafer_order;

typedef struct wafer_orders wafer_orders;

/* Deals weights as they are asked for; lives in the arena. NULL: out of memory. */
wafer_orders *wafer_orders_create(wafer_arena *arena, const wafer_plan *plan);

/* Of wafer_layout.order, for a dim of `extent`; NULLs for 0 and for weights that are absent.
 * UNSUPPORTED where kernels with that weight deal it differently, BAD_INPUT where the order is that
 * of another extent, NO_MEMORY; a damaged weight fails as it is touched. */
wafer_status wafer_order_of(const wafer_diag *diag, wafer_orders *orders, uint32_t order,
                            int64_t extent, wafer_order *out);
/* Whether a tensor that lies so has its elements in other places. */
bool wafer_layout_ordered(const wafer_layout *layout);

#ifdef __cplusplus
}
#endif
#endif

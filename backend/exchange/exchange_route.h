/* Which passes make an exchange. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_ROUTE_H
#define BACKEND_EXCHANGE_ROUTE_H

#include "exchange_border.h"

#define ROUTE_PASSES 3

typedef struct route {
  uint32_t count;
  bool even; /* it wants more colours for being faster; or others do, which it was chosen of */
  pass pass[ROUTE_PASSES];
  uint64_t scratch;      /* bytes that words on their way need on a core */
  wafer_rect scratch_at; /* of these cores; empty when there are none */
} route;

/* Between cores: one pass along rows or columns if that is enough. Within a rectangle, or where
 * rectangles overlap, two. Between rectangles that share rows or columns of the fabric: in the
 * source's to the lines that are shared, along these, in the target's to where words belong; so
 * that no other core takes part. Everything lives in the arena. False: out of memory. */
bool route_plan(wafer_arena *arena, const exchange *x, route *out);
/* Over the border. */
bool route_border(wafer_arena *arena, const exchange *x, route *out);

#endif

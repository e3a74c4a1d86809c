/* A reshape as a plain copy: the spread of a tensor and that of its reshape, both seen with the
 * same dims. */
#ifndef BACKEND_SPREAD_RESHAPE_H
#define BACKEND_SPREAD_RESHAPE_H

#include "spread.h"

/* Dims that both have are kept; where one has several for the other's one or several, they are seen
 * as one dim if only the first of them is cut, else all are divided into their common factors.
 * `possible` is false where parts are neither whole indices of a factor nor equal shares of one, or
 * there would be more than WAFER_MAX_RANK dims. False: out of memory. */
bool spread_reshape(wafer_arena *arena, const spread *from, const spread *to, spread *from_view,
                    spread *to_view, bool *possible);

#endif

/* Shape curves that outlast a compilation (wafer_ctx.curves). */
#ifndef WAFER_PASSES_CURVES_KEPT_H
#define WAFER_PASSES_CURVES_KEPT_H

#include "size.h"
#include "wafer/kernel.h"

/* All that a curve follows from, on one wafer. */
typedef struct curves_key {
  uint64_t signature; /* of the body */
  curve_query query;
  uint32_t max_width, max_height, most_points;
} curves_key;

/* Whether both are the same wafer, or bands of it. */
bool curves_same_wafer(const wafer_machine *a, const wafer_machine *b);
/* Whether the machine is the wafer they are of, or a band of it. */
bool curves_kept_of(const wafer_curves *curves, const wafer_machine *machine);
/* NULL: there is none yet. */
const wafer_curve *curves_kept_find(wafer_curves *curves, const curves_key *key);
/* A copy that lives as long as they do; NULL: out of memory. */
const wafer_curve *curves_kept_add(wafer_curves *curves, const curves_key *key,
                                   const wafer_curve *curve);
split_costs *curves_kept_costs(const wafer_curves *curves);

#endif

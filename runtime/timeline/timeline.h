/* The train through the machine of one function of the wafer. Private to
 * runtime/timeline/timeline*.c. */
#ifndef RUNTIME_TIMELINE_H
#define RUNTIME_TIMELINE_H

#include "wafer/plan.h"

/* As wafer_timeline_run, of a function that is no function of the host; adds to arrays. */
wafer_status timeline_unit(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                           uint64_t samples, wafer_timeline *timeline);

/* The same on all bands of the wafer, to which samples go in turn. Arrays hold zeros. */
wafer_status timeline_bands(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                            uint64_t samples, wafer_timeline *timeline);

#endif

/* Where a run at fabric fidelity was busy: a picture of cores and links over the wafer. */
#ifndef WAFER_RUN_HEAT_H
#define WAFER_RUN_HEAT_H

#include "wafer/session.h"

/* Cells of a panel along its longer side, at most: a core each, or the mean of a square of them. */
#define RUN_HEAT_CELLS 180

/* Two panels beside each other: cycles in which cores were at work, wavelets that left routers,
 * both per cycle of the run, on a logarithmic scale; kernels are outlined. The stats are of a run
 * with `load`. */
wafer_status run_heat(const wafer_diag *diag, const wafer_plan *plan, const wafer_run_stats *stats,
                      const char *path);

#endif

/* Queues between router and core: which one each stream of a phase has where it enters and where it
 * leaves a kernel's cores. */
#ifndef WAFER_QUEUES_H
#define WAFER_QUEUES_H

#include "wafer/certificate.h"

/* proof->queues, in the arena, and the figures about them. WAFER_NO_MEMORY alone fails. */
wafer_status queues_assign(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           const wafer_phase *phase, wafer_phase_proof *proof);

#endif

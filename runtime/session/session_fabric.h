/* Fabric fidelity of a session: the plan's launches, one after the other, on one emulated fabric.
 * Private to the runtime. */
#ifndef RUNTIME_SESSION_FABRIC_H
#define RUNTIME_SESSION_FABRIC_H

#include "wafer/session.h"

typedef struct session_fabric session_fabric;

/* Faults of a session, or of all those that a plan with steps on the host calls. */
typedef struct session_faults {
  uint32_t count;
  wafer_fault *at;  /* those that struck are far in the future */
  uint64_t *struck; /* per fault: the cycle of the run; UINT64_MAX: it did not */
  uint64_t start;   /* of the call under way, in cycles of the run */
} session_faults;
/* NULL: out of memory. */
session_faults *session_faults_create(const wafer_fault *faults, uint32_t count);
void session_faults_destroy(session_faults *faults); /* NULL is fine */

/* UNSUPPORTED: the plan has no programs. */
wafer_status session_fabric_create(const wafer_plan *plan, uint32_t function,
                                   const wafer_session_options *options, session_fabric **out);
void session_fabric_destroy(session_fabric *s); /* NULL is fine */
/* In place of faults of its own, of which its options named none; borrowed. */
void session_fabric_share_faults(session_fabric *s, session_faults *faults);

/* `samples` samples of the function; views as in wafer_session_run, already checked. out[i]: dense
 * elements of all samples of output i. */
wafer_status session_fabric_run(session_fabric *s, const wafer_view *inputs, bool train,
                                uint64_t samples, void *const *out);

/* wafer_session_squares, wafer_session_update. */
wafer_status session_fabric_squares(session_fabric *s, double *squares);
wafer_status session_fabric_update(session_fabric *s, const wafer_optimizer *optimizer,
                                   const wafer_update *update, float *const *weights,
                                   wafer_step_cycles *counted);

/* Of the last run; arrays are the session's. */
wafer_run_stats session_fabric_stats(const session_fabric *s);

#endif

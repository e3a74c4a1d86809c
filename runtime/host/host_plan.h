/* Host functions of a plan at run time: steps over items, the wafer's functions among them. */
#ifndef RUNTIME_HOST_PLAN_H
#define RUNTIME_HOST_PLAN_H

#include "host_counts.h"
#include "session/session_fabric.h"
#include "threads.h"
#include "wafer/item.h"
#include "wafer/session.h"

typedef struct host_plan host_plan;

/* Prepares functions[0], a host function, and every function that it reaches. The plan has been
 * checked; it and the pool outlive the host plan. */
wafer_status host_plan_create(const wafer_plan *plan, const wafer_session_options *options,
                              thread_pool *pool, host_plan **out);
void host_plan_destroy(host_plan *p); /* NULL is fine */

/* One sample through functions[0]. The outputs stay the host plan's until its next run. */
wafer_status host_plan_run(host_plan *p, wafer_item *const *inputs, wafer_item **outputs);
/* Before the first sample of a run; and what the wafer did since then. */
void host_plan_begin(host_plan *p);
wafer_run_stats host_plan_stats(const host_plan *p);

/* ---- Between host_plan*.c ---- */

struct host_plan {
  const wafer_plan *plan;
  const wafer_diag *diag;
  wafer_session_options options;
  thread_pool *pool;
  wafer_session **unit;  /* per function: of the wafer's functions that were reached */
  wafer_item **item;     /* per value; a function is never inside itself */
  wafer_item **constant; /* per value: of a weight */
  uint32_t result_count;
  wafer_item **results; /* of the last run */
  host_counts *counts;
  session_faults *faults; /* of all units; NULL: none */
};

wafer_status host_plan_no_memory(const host_plan *p);
wafer_loc host_plan_at(const host_plan *p, const wafer_step *step);
/* A function, host's or wafer's. Each output gets one reference, or none of them on failure. */
wafer_status host_plan_call(host_plan *p, uint32_t function, wafer_item *const *inputs,
                            wafer_item **outputs);
/* The item of a step's input; NULL when it is left out. */
wafer_status host_plan_input(host_plan *p, const wafer_step *step, uint32_t input,
                             wafer_item **out);
/* host_plan_loop.c: steps of these kinds; outputs as of host_plan_call. */
wafer_status host_plan_loop(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                            wafer_item **outputs);
wafer_status host_plan_scan(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                            wafer_item **outputs);
wafer_status host_plan_map(host_plan *p, const wafer_step *step, wafer_item *const *inputs,
                           wafer_item **outputs);

/* session.c: a session of one wafer function, with a pool that others share. */
wafer_status session_create_unit(const wafer_plan *plan, uint32_t function,
                                 const wafer_session_options *options, thread_pool *pool,
                                 wafer_session **out);
/* Of one at fabric fidelity, whose options named no faults. */
void session_share_faults(wafer_session *unit, session_faults *faults);

#endif

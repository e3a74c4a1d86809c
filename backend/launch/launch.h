/* Launches of a plan: the programs that the fabric runs. Private to backend/. */
#ifndef BACKEND_LAUNCH_H
#define BACKEND_LAUNCH_H

#include "wafer/wafer.h"

/* Fills the launches and programs of a plan that is complete otherwise, in the context's arena. A
 * kernel or stream that has no program leaves the plan without any, and `no_programs` says which it
 * is; so it is, where nobody asked for them, if they take long to make. NO_MEMORY alone fails. */
wafer_status launch_plan(const wafer_ctx *ctx, wafer_plan *plan, wafer_programs wanted);

#endif

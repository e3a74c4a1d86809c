/* What the wafer did in the calls of a host plan. Private to the runtime. */
#ifndef RUNTIME_HOST_COUNTS_H
#define RUNTIME_HOST_COUNTS_H

#include "wafer/session.h"

typedef struct host_counts host_counts;

/* The plan is borrowed. A watcher among the options is replaced by one that tells it of calls one
 * behind the other. NULL: out of memory. */
host_counts *host_counts_create(const wafer_plan *plan, wafer_session_options *options);
void host_counts_destroy(host_counts *c); /* NULL is fine */
void host_counts_forget(host_counts *c);  /* before the first sample of a run */
/* functions[function], of the wafer, is about to be called: of a pipeline its weights come first,
 * but for those that are there. It was called; and: a sample is done. */
void host_counts_load(host_counts *c, uint32_t function);
void host_counts_call(host_counts *c, uint32_t function, const wafer_run_stats *of);
void host_counts_sample(host_counts *c);
/* All calls together; arrays are the counts'. */
wafer_run_stats host_counts_stats(const host_counts *c);

#endif

/* Spans of a run as a trace that Perfetto and chrome://tracing open. */
#ifndef WAFER_RUN_TRACE_H
#define WAFER_RUN_TRACE_H

#include "wafer/session.h"

#define RUN_TRACE_LEAST_BYTES 4096
#define RUN_TRACE_BYTES 50000000

typedef struct run_trace run_trace;

/* A file of at most so many bytes (RUN_TRACE_LEAST_BYTES at least); the plan is borrowed. */
wafer_status run_trace_open(const wafer_diag *diag, const wafer_plan *plan, const char *path,
                            uint64_t most_bytes, run_trace **out);
/* The `span` of a wafer_watch, whose self is the trace. What no longer fits is counted. */
void run_trace_span(void *trace, const wafer_span *span);
/* Completes the file, or with `keep` false leaves none; a warning says what was left out. */
wafer_status run_trace_close(run_trace *trace, bool keep);

#endif

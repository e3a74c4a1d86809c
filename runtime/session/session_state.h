/* What the parts of a session share. Private to the runtime. */
#ifndef RUNTIME_SESSION_STATE_H
#define RUNTIME_SESSION_STATE_H

#include "exec/exec.h"
#include "host/host_plan.h"
#include "plan/held.h"
#include "session_fabric.h"
#include "session_ports.h"
#include "wafer/swarmx.h"

typedef struct session_segment {
  uint32_t phase, first, last; /* stages */
} session_segment;

/* A trained weight, where a kernel reads it as a value of the plan. */
typedef struct session_weight {
  struct session_weight *next;
  uint32_t index; /* into the plan's weights */
  exec_tensor *tensor;
  const void *data; /* dense, borrowed; NULL: neither bound nor taken from the plan yet */
  void *own;        /* as cores hold it, where `data` is not that; NULL until needed */
  bool checked;     /* the plan's own data against its digest */
} session_weight;

struct wafer_session {
  const wafer_plan *plan;
  const wafer_diag *diag;
  const wafer_function *function;
  host_plan *host;    /* functions[0] is the host's: everything below but the pool is its units' */
  wafer_item **items; /* its inputs, then its outputs, of a sample */
  exec_program *program;
  thread_pool *pool;
  bool shares_pool;
  session_fabric *fabric; /* in place of program and pool */
  exec_tensor **tensor;   /* per plan value; NULL: not made */
  session_weight *trained;
  held held;
  bool *loaded; /* per phase */
  session_port *inputs, *outputs;
  const wafer_kernel_watch *kernels; /* NULL: nobody asks what they made */
  uint32_t *kernel_end;              /* per plan kernel: the stage after its last */
  session_segment *segments;         /* phases in the order of steps */
  uint32_t segment_count, *boundaries;
  uint32_t group;     /* samples the buffers are planned for */
  void **out;         /* per output: dense elements of all samples */
  uint64_t out_room;  /* samples */
  wafer_swarmx *sums; /* of gradients over a train; NULL until there is one */
  wafer_view *terms;  /* of the sample at hand */
  void *staging;      /* one 16-bit tensor, as given and widened */
  wafer_run_stats stats;
  wafer_timeline timeline;
};

static inline wafer_status session_no_memory(const wafer_session *s) {
  return wafer_fail(s->diag, wafer_at_file(s->plan->model), WAFER_NO_MEMORY,
                    "no memory left while preparing the run");
}

/* --- session_follow.c: the plan's steps once, every law of plan.h checked */
wafer_status session_follow(wafer_session *s);

/* --- session_tap.c: the stages of a segment, of one sample, and what its kernels made. */
wafer_status session_run_told(wafer_session *s, const session_segment *segment);

/* --- session_sums.c: gradients of pipelined training over a train; begin and finish once, add what
 * `out` has of each sample. */
bool session_sums(const wafer_session *s); /* whether the function has any */
wafer_status session_sums_begin(wafer_session *s, uint64_t samples);
wafer_status session_sums_add(wafer_session *s, uint64_t sample);
wafer_status session_sums_finish(wafer_session *s);

/* --- session_weights.c */
/* The tensor of a plan value that is a trained weight; NULL: out of memory. */
exec_tensor *session_trained_tensor(wafer_session *s, uint32_t value);
/* Before a run: every trained weight as cores hold it now. */
wafer_status session_enter_weights(wafer_session *s);

/* --- session_host.c: functions[0] is the host's. Views as in wafer_session_run. */
wafer_status session_run_host(wafer_session *s, const wafer_view *inputs, wafer_view *outputs);
wafer_status session_check_counts(const wafer_session *s, uint32_t inputs, uint32_t outputs);

#endif

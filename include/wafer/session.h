/* Executing a plan. A plan is immutable and shared between threads; a session belongs to one
 * thread, holds buffers and state, and allocates nothing after its first run of a given number of
 * samples. */
#ifndef WAFER_SESSION_H
#define WAFER_SESSION_H

#include "wafer/fault.h"
#include "wafer/item.h"
#include "wafer/memoryx.h"
#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* kernel: each kernel as a tensor computation, cycles from the plan. fabric: every core executes
 * its program, every wavelet moves through routers, cycles are counted; for plans with programs. */
typedef enum wafer_fidelity { WAFER_FIDELITY_kernel, WAFER_FIDELITY_fabric } wafer_fidelity;

/* A piece of a run at fabric fidelity, in cycles from its beginning. */
typedef enum wafer_span_kind {
  WAFER_SPAN_kernel, /* a kernel at one sample */
  WAFER_SPAN_stream, /* a stream at one sample */
  WAFER_SPAN_load,   /* weights on their way in; `index`: the stream of the first of them */
} wafer_span_kind;

typedef struct wafer_span {
  wafer_span_kind kind;
  bool of_core;   /* what core (x, y) alone did of it */
  uint32_t index; /* plan kernel or stream */
  uint32_t x, y;
  uint64_t sample, start, cycles; /* with the latency of the edge where it crosses that */
} wafer_span;

/* Who is told of spans: those of one kind and index in the order of their starts, without overlap;
 * those of a core, for `cores` alone, likewise, loads beside the others. All is borrowed while the
 * session lives. */
typedef struct wafer_watch {
  void *self;
  void (*span)(void *self, const wafer_span *span);
  const wafer_core_at *cores;
  uint32_t core_count;
} wafer_watch;

/* Who is told what each kernel has made: dense elements of its output, as soon as it has; borrowed
 * for the call. Runs of one sample, and such with steps on the host, where a kernel may be called
 * several times, or never. `instead`, of kernel fidelity alone, may be NULL: dense
 * elements that whatever follows takes in place of those, or NULL; asked for after `made`. */
typedef struct wafer_kernel_watch {
  void *self;
  wafer_status (*made)(void *self, uint32_t kernel, uint32_t output, const wafer_view *view);
  void *(*instead)(void *self, uint32_t kernel, uint32_t output);
} wafer_kernel_watch;

typedef struct wafer_session_options {
  wafer_fidelity fidelity; /* zero: kernel */
  uint32_t threads;        /* zero: as many as the machine has */
  const wafer_diag *diag;
  const wafer_kernel_watch *kernels; /* NULL: nobody; fabric fidelity: of a plan with taps */
  /* Fabric fidelity alone. */
  const wafer_watch *watch; /* NULL: nobody */
  bool load;                /* count what cores and links do */
  uint32_t fault_count;     /* they strike in the first run; cycles count from its beginning */
  const wafer_fault *faults;
} wafer_session_options;

typedef struct wafer_session wafer_session;

/* Runs wafer_plan_check, prepares every kernel, loads weights (digests checked). The plan must
 * outlive it. */
wafer_status wafer_session_create(const wafer_plan *plan, const wafer_session_options *options,
                                  wafer_session **out);
void wafer_session_destroy(wafer_session *session); /* NULL is fine */

/* Data of a trained weight (wafer_weight.trained), by its index in the plan's weights: dense
 * row-major, of the weight's type, any alignment. Borrowed until it is bound again or the session
 * ends, and read in every run: what is written to it between two runs counts from the next. NULL,
 * and before the first call: the plan's own data, where there is none a run is BAD_INPUT. USAGE for
 * other weights; UNSUPPORTED at fabric fidelity and where functions[0] is a host function. */
wafer_status wafer_session_bind_weight(wafer_session *session, uint32_t weight, const void *data);

/* Runs functions[0]. inputs[i] is the i-th input of the function; shape as declared, or with one
 * more leading dimension S: a train of S samples. All inputs agree on S. Any strides. outputs[i] is
 * filled in by the call: type, shape (with the leading S when inputs had it) and data, which the
 * session owns until its next run or its end. Gradients of a plan that updates weights on the wafer
 * (wafer_plan_updates) never have a leading S: they are the sums over the train, in f32 before they
 * are stored. Kernel fidelity adds by the tree of wafer/swarmx.h, cores one sample after the other,
 * then replica after replica. */
wafer_status wafer_session_run(wafer_session *session, const wafer_view *inputs,
                               uint32_t input_count, wafer_view *outputs, uint32_t output_count);

/* Fabric fidelity of a plan that updates weights on the wafer (wafer_plan_updates), after a run of
 * its train and before the update: the sums of replicas come together, cores add up the squares of
 * what they have, in f32, and the kernels' numbers leave the wafer. What is not finite makes it so.
 * Only gradients count, not statistics. USAGE: as of wafer_session_update. */
wafer_status wafer_session_squares(wafer_session *session, double *squares);

/* Fabric fidelity of a plan that updates weights on the wafer (wafer_plan_updates), after a run of
 * its train: the sums of replicas come together if they have not, every trained weight is updated
 * with its own and goes to the kernels that read it; the next run has them. weights[i], or NULL:
 * the new value of the plan's i-th trained weight, dense row-major in f32. `counted`: gather, norm
 * if somebody asked for the squares, control, update and send, in cycles. USAGE: another plan or
 * optimizer, or kernel fidelity. */
wafer_status wafer_session_update(wafer_session *session, const wafer_optimizer *optimizer,
                                  const wafer_update *update, float *const *weights,
                                  wafer_step_cycles *counted);

/* The same for a plan with host values (sequences, optionals; functions[0] is a host function): one
 * sample, an item per input and output. Inputs are not kept; outputs are the session's until its
 * next run or its end. */
wafer_status wafer_session_run_items(wafer_session *session, wafer_item *const *inputs,
                                     uint32_t input_count, wafer_item **outputs,
                                     uint32_t output_count);

/* What cores and links did. */
typedef struct wafer_load {
  uint64_t core_cycles; /* in which a core computed, controlled or sent, over cores */
  uint64_t wavelets;    /* over links between routers */
} wafer_load;

/* Of the last run. Arrays are the session's. Where functions[0] is a host function: all calls
 * together, and NULL for output_cycles and weight_cycles. */
typedef struct wafer_run_stats {
  uint64_t samples;
  uint64_t latency_cycles, interval_cycles, total_cycles;
  const uint64_t *kernel_busy;  /* per plan kernel */
  const uint64_t *phase_cycles; /* per plan phase */
  const uint64_t *phase_runs;   /* per plan phase, where functions[0] is a host function; else NULL:
                                   each ran for all samples */
  /* Kernel fidelity alone, first sample. Per output: when it is out. Per plan weight: when it has
   * left MemoryX for the last time. */
  const uint64_t *output_cycles, *weight_cycles;
  const char *instruction_set; /* what the host's arithmetic used: "avx512f", ... */
  uint64_t peak_bytes;         /* buffers of the session */
  /* Fabric fidelity alone; 0 and NULL else. */
  const uint64_t *stream_busy; /* per plan stream */
  uint64_t hops;               /* wavelets over links between routers */
  uint64_t elements;           /* of vector instructions */
  wafer_load all;
  const uint64_t *fault_struck; /* per fault: cycle of the run; UINT64_MAX: it did not */
  /* With `load`: per core (row by row); per core and link (WAFER_LINKS, by wafer_port); per kernel
   * (of a pipeline: all that its cores did); per phase, with its streams and weights. */
  const uint64_t *core_cycles, *link_wavelets;
  const wafer_load *kernel_load, *phase_load;
} wafer_run_stats;
wafer_run_stats wafer_session_stats(const wafer_session *session);

#ifdef __cplusplus
}
#endif
#endif

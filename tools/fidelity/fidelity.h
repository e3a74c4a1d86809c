/* The parts of `wafer check`. */
#ifndef WAFER_FIDELITY_H
#define WAFER_FIDELITY_H

#include "run/run.h"
#include "wafer/memoryx.h"

typedef struct check_arguments {
  run_arguments run; /* plan, inputs, seed, tol (NAN: the storage's), report, quiet */
  bool streams, json;
  double most_mean, most_total; /* percent; INFINITY: any */
} check_arguments;

/* What one fidelity gave. */
typedef struct check_run {
  wafer_view *outputs;
  wafer_run_stats stats;
  const uint64_t *kernel_busy, *stream_busy, *phase_runs; /* as in wafer_run_stats */
} check_run;

/* Pipelined training: an update behind the train, and a train behind that. */
typedef struct check_step {
  wafer_optimizer optimizer;
  wafer_update update;
  float **weights; /* of the plan's trained ones: as they are on the wafer after the update */
  double norm;     /* of the gradient of the mean, as cores add up its squares, */
  double norm_difference; /* and how far that is from MemoryX's, relative to it */
  double difference; /* the largest from MemoryX's, relative to the largest element of its weight */
  wafer_step_cycles formula, predicted, counted; /* predicted: by the clocks of the programs */
  wafer_view *fabric, *kernel; /* outputs of the second train, both with these weights */
} check_step;

/* What a kernel made of one output, call by call; of a plan with steps on the host there may be
 * several, or none. */
typedef struct check_made {
  wafer_view *at; /* no data: there is nothing to put in its place */
  uint32_t count, room;
  size_t next; /* the call to be compared */
} check_made;

/* What kernels made on the fabric, and how far it is from what kernel fidelity makes of the same
 * inputs: what the kernels before added is not counted again. */
typedef struct check_values {
  wafer_arena *arena;
  const wafer_plan *plan;
  check_made **made;  /* per kernel, per output */
  double *difference; /* per kernel: the largest, relative to its output's largest; NAN: unknown */
  double *size;       /* per plan value: the mean of magnitudes, check_size; 0: nobody told */
  uint64_t *told;     /* per plan value: of how many samples or calls that is the mean */
  uint32_t *maker;    /* per plan value: the kernel whose output it is, WAFER_NONE */
} check_values;

/* The largest difference, relative to the largest element wanted, or to `least` if that is more;
 * INFINITY: of another type or shape. */
double check_difference(const wafer_view *got, const wafer_view *wanted, double least);
/* The mean of the magnitudes of what is finite. */
double check_size(const wafer_view *x);
/* Where a value, or one of a kernel's body, is a sum or what only moves one: how large its terms
 * are together, per element. 0: it is none, or nobody told of its terms. */
double check_terms(const check_values *v, uint32_t value);
double check_body_terms(const check_values *v, const wafer_kernel *k, uint32_t value);

/* Outputs of a session's run, to where they stay. */
wafer_status check_keep_outputs(const wafer_plan *plan, wafer_arena *arena, wafer_view *outputs);

/* fidelity_step.c: `fabric` is what the first train gave; sessions are those of the plan, the
 * fabric's behind the first train. */
wafer_status check_step_begin(const wafer_plan *plan, wafer_arena *arena, uint64_t samples,
                              check_step *out);
wafer_status check_step_fabric(const wafer_plan *plan, wafer_arena *arena, wafer_session *session,
                               const wafer_view *inputs, const check_run *fabric, check_step *step);
wafer_status check_step_kernel(const wafer_plan *plan, wafer_arena *arena, wafer_session *session,
                               const wafer_view *inputs, check_step *step);

/* Prints the table, writes the JSON. DIFFER: an output, the mean or the total beyond its limit.
 * `step`: NULL, the plan updates nothing. */
wafer_status check_report(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                          const check_run *fabric, const check_values *values,
                          const check_step *step);

#endif

/* The parts of `wafer check`. */
#ifndef WAFER_FIDELITY_H
#define WAFER_FIDELITY_H

#include "run.h"

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

/* What a kernel made of one output, call by call; of a plan with steps on the host there may be
 * several, or none. */
typedef struct check_made {
  wafer_view *at; /* no data: there is nothing to put in its place */
  size_t count, room;
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

/* Prints the table, writes the JSON. DIFFER: an output, the mean or the total beyond its limit. */
wafer_status check_report(const check_arguments *a, const wafer_plan *plan, const check_run *kernel,
                          const check_run *fabric, const check_values *values);

#endif

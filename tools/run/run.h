/* The parts of `wafer run`. */
#ifndef WAFER_RUN_H
#define WAFER_RUN_H

#include "cli.h"
#include "wafer/session.h"

typedef struct run_arguments {
  const char *plan, *output, *expect, *report;
  size_t input_count;
  const char **input_names, **input_paths;
  uint64_t threads, repeat, samples, seed;
  bool by_largest; /* compare by tol, else by rtol and atol */
  bool has_tol;    /* it was said */
  double tol, rtol, atol;
  size_t own_count; /* outputs with a tol of their own */
  const char **own_names;
  double *own_tols;
  wafer_fidelity fidelity;
  bool quiet;
  /* Fabric fidelity. */
  const char *trace; /* file; NULL: none */
  uint64_t trace_bytes; /* 0: as many as there are by default */
  uint32_t trace_core_count;
  wafer_core_at *trace_cores;
  const char *heat; /* file; NULL: none */
  uint32_t fault_count;
  wafer_fault *faults;
  /* Steps that hand values on (run_steps.c). */
  uint64_t steps;
  size_t state_count, then_count;
  const char **state_outputs, **state_inputs; /* OUT=IN */
  const char **then_names, **then_paths;      /* an input from the second step on */
  const char *feed_input, *feed_output, *until_input;
  int64_t until;
  const char *state_in, *state_out;
  wafer_weights *state; /* of state_in: values of inputs by their names; NULL */
} run_arguments;

/* An output against its reference. */
typedef struct run_difference {
  const char *name;
  bool within;
  double tol;                        /* that held for it */
  double largest, largest_reference; /* |a-b| and |b| over all elements */
  int64_t at;                        /* element of the largest difference */
  double got, wanted;
} run_difference;

/* Reads or makes every input of functions[0]; views live in the arena. */
wafer_status run_inputs(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                        wafer_view *inputs);
/* Whether what is written is none of what is read, but for a state that is carried on, and can be
 * written. */
wafer_status run_check_files(const char *command, const run_arguments *a, wafer_arena *arena);
/* What all steps have taken; of a run that has none, what the session says of it. */
typedef struct run_totals {
  const wafer_plan *plan;
  wafer_run_stats stats;
  uint64_t steps;        /* 0: it has none */
  uint64_t *step_cycles; /* of each */
  uint64_t *kernel_busy, *phase_cycles;
  wafer_load *kernel_load, *phase_load;
} run_totals;
wafer_status run_totals_begin(const wafer_plan *plan, wafer_arena *arena, uint64_t steps,
                              run_totals *out);
void run_totals_add(run_totals *totals, const wafer_run_stats *step);
/* Whether the arguments ask for steps, and one run as a sequence of them: `outputs` are stacked
 * along a new first dim where every step gives one shape, else those of the last step. */
bool run_has_steps(const run_arguments *a);
wafer_status run_steps(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                       wafer_session *session, const wafer_view *inputs, wafer_view *outputs,
                       run_totals *totals);
/* Adds a fault to `faults`, which has room; `command` is for the message. */
bool run_parse_fault(const char *command, run_arguments *a, const char *text);
/* Of sorted times, one at least. */
double run_median(const double *ms, size_t count);
/* When each fault struck; nothing if quiet. */
void run_print_struck(const run_arguments *a, const wafer_run_stats *stats);
/* A run without faults, its outputs copied into the arena; then what the faults did to those of a
 * run with them: DIFFER when a bit is another. */
wafer_status run_sound(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                       const wafer_view *inputs, wafer_view **outputs);
wafer_status run_faults(const run_arguments *a, const wafer_plan *plan,
                        const wafer_run_stats *stats, const wafer_view *sound,
                        const wafer_view *outputs);
/* The value that --state-in has for an input; NULL: none. */
const wafer_weight *run_state_value(const run_arguments *a, const char *name);
/* Writes outputs as DIR/<name>.npy, making DIR. */
wafer_status run_write_outputs(const run_arguments *a, const wafer_plan *plan,
                               const wafer_view *outputs);
/* Whether the outputs that have a tol of their own are the plan's. */
wafer_status run_check_tols(const run_arguments *a, const wafer_plan *plan);
/* Compares with DIR/<name>.npy or DIR/out_<name>.npy; all outputs are compared before WAFER_DIFFER.
 */
wafer_status run_compare(const run_arguments *a, const wafer_plan *plan, wafer_arena *arena,
                         const wafer_view *outputs, run_difference *differences);
/* The name with characters outside A-Za-z0-9._- as '_', in `buffer`. */
void run_file_name(const char *name, char *buffer, size_t bytes);
/* The JSON report, malloc'ed. `ms` are the sorted times of the repeats. */
char *run_report_json(const run_arguments *a, const wafer_plan *plan, const run_totals *totals,
                      const double *ms, size_t ms_count, const run_difference *differences);

#endif

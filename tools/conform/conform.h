/* The parts of `wafer conform`: tests found in folders, each compiled to a plan that is run. */
#ifndef WAFER_CONFORM_H
#define WAFER_CONFORM_H

#include "cli.h"
#include "wafer/onnx.h"

typedef struct conform_arguments {
  const char *folder, *filter, *tsv, *table, *machine;
  wafer_mode mode;
  wafer_fidelity fidelity;
  uint64_t jobs;
} conform_arguments;

/* ---- Finding tests (conform_find.c) ---- */

/* A test: a folder with model.onnx and test_data_set_N/, or NAME.onnx beside NAME_output_N.pb. */
typedef struct conform_case {
  const char *name;  /* path below the folder searched */
  const char *model; /* path of the ONNX file */
  size_t set_count;  /* 0: nothing to compare with */
  const char **sets; /* what stands before "input_0.pb" in the paths of each set's files */
  bool ramp;         /* without input files: inputs rise evenly from 0 to 1 */
} conform_case;

typedef struct conform_cases {
  size_t count;
  const conform_case *at; /* sorted by name */
} conform_cases;

/* Every test below the folder whose name, or its last part, matches the filter (NULL: all). */
wafer_status conform_find(wafer_arena *arena, const char *folder, const char *filter,
                          conform_cases *out);

/* ---- Comparing (conform_compare.c) ---- */

typedef struct conform_difference {
  double ulp;      /* largest, in units of the last place of the outputs' own types */
  double relative; /* largest |a-b| / |b| */
  bool drawn; /* random numbers other than the expected ones, of which that is all that holds */
} conform_difference;

/* How far floats may be from what is expected. */
typedef struct conform_rule {
  double rtol, atol;
  bool drawn; /* outputs may follow from other random numbers than those expected */
} conform_rule;
#define CONFORM_RULE ((conform_rule){.rtol = 1e-3, .atol = 1e-7}) /* the suite's */

/* The rule of onnx's test runner: types and shapes equal; floats |a-b| <= atol + rtol |b|, NaN
 * equal to NaN; everything else exactly. Of random numbers that differ: between the least and the
 * largest expected one. Widens `d`; DIFFER, told to diag, when it does not hold. */
wafer_status conform_compare(const wafer_diag *diag, const conform_rule *rule, const char *output,
                             const wafer_view *got, const wafer_view *wanted,
                             conform_difference *d);

/* Sequences and optionals element by element; strings exactly. */
wafer_status conform_compare_item(const wafer_diag *diag, const conform_rule *rule,
                                  const char *output, const wafer_item *got,
                                  const wafer_item *wanted, conform_difference *d);

/* ---- Values of a test (conform_values.c) ---- */

/* One value per port: what the files of a set hold. The seam for kinds of values other than
 * tensors. */
typedef struct conform_values {
  size_t count;
  const char **names; /* of the model's ports */
  wafer_view *views;
  wafer_item **items; /* NULL for tensors of numbers */
} conform_values;

wafer_status conform_read_inputs(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                                 size_t set, const wafer_onnx_info *info, conform_values *out);
wafer_status conform_read_outputs(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                                  size_t set, const wafer_onnx_info *info, conform_values *out);

/* The suite's rule, or what the test's data.json says beside its model: {"rtol": R, "atol": A}. */
wafer_status conform_read_rule(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                               conform_rule *out);

/* ---- Running (conform_run.c, conform_jobs.c) ---- */

typedef enum conform_verdict {
  CONFORM_WAITING,
  CONFORM_RUNNING,
  CONFORM_PASSED,
  CONFORM_FAILED,
  CONFORM_SKIPPED,
} conform_verdict;

/* Of fixed size: it lies in memory that worker processes share. */
typedef struct conform_result {
  conform_verdict verdict;
  conform_difference difference;
  double compile_ms, run_ms;
  char operators[2048]; /* "Add@14:cores Shape@14:folded": operator, opset, where it ran */
  char types[128];      /* element types of the model's inputs and outputs: "f32 i64" */
  char bound[512];      /* inputs whose value the compiler was given, separated by blanks */
  char message[1024];   /* why it failed or was skipped */
} conform_result;

/* Compiles, writes, opens and runs one test in the mode and at the fidelity of `a`. `scratch` is a
 * file name to use. */
void conform_run(const conform_arguments *a, const wafer_machine *machine, const char *scratch,
                 const conform_case *c, conform_result *result);

/* All of them in worker processes, so that one that crashes or hangs fails alone; prints failures
 * in the order of the cases. *results: one per case. */
wafer_status conform_run_all(const conform_arguments *a, const wafer_machine *machine,
                             const conform_cases *cases, conform_result **results);
void conform_free_results(const conform_cases *cases, conform_result *results);

/* Markdown: a line per operator, the suite's checksum, the tests that do not pass. */
wafer_status conform_write_table(const char *path, const conform_cases *cases,
                                 const conform_result *results);
/* A line per test, and one of column names. */
wafer_status conform_write_tsv(const char *path, const conform_cases *cases,
                               const conform_result *results);

#endif

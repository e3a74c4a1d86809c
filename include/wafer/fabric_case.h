/* Programs whose cycles others have published: a vector instruction, messages, collectives, random
 * traffic. Inputs are seeded and differ from core to core; every result is checked.
 * docs/validation.md compares. */
#ifndef WAFER_FABRIC_CASE_H
#define WAFER_FABRIC_CASE_H

#include "wafer/fault.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero is the default of every field. */
typedef struct wafer_case_options {
  uint32_t width, height; /* cores */
  uint32_t words;         /* elements per core; random has its own */
  wafer_dtype dtype;      /* f32 or f16 */
  uint32_t repeat;        /* back to back; 0: once */
  uint64_t seed;
  const char *algorithm;
  uint32_t group;   /* of a two-phase reduce */
  uint32_t groups;  /* of a gemv's tree */
  uint32_t m, k, n; /* of gemv (m x n) and gemm (m x k by k x n); 0: one element per core */
  double density;   /* of gemv's vector: the share that is not zero and is sent; 0: dense */
  const char *op;   /* of vector: an instruction's name; NULL: add */
  bool conflict;    /* of vector: both inputs in the same banks */
  bool load_descriptors;
  double load;               /* of random: wavelets per cycle and sender */
  uint64_t cycles;           /* of random */
  bool single;               /* wavelets one by one */
  bool plain;                /* elements of cores too: what others are compared with */
  uint32_t threads;          /* of the host; 0: as many as it has */
  uint64_t visits;           /* for tests: visits cores and routers in another order */
  const wafer_fault *faults; /* for a second run, after one without; borrowed */
  uint32_t fault_count;
} wafer_case_options;

typedef struct wafer_case_result {
  uint64_t counted, predicted; /* cycles of one repeat; predicted 0: no formula */
  wafer_fabric_stats stats;
  double seconds;   /* of the cycle loop alone */
  uint64_t checked; /* values */
  uint32_t struck;  /* faults that did; when the run is OK, without any harm */
} wafer_case_result;

typedef struct wafer_case_info {
  const char *name, *algorithms, *summary; /* algorithms: "a|b", "" for one */
} wafer_case_info;

/* The cases; the last has no name. */
const wafer_case_info *wafer_case_list(void);

/* The program of a case, in the arena. */
wafer_status wafer_case_program(const wafer_diag *diag, wafer_arena *arena,
                                const wafer_machine *machine, const char *name,
                                const wafer_case_options *options,
                                const wafer_fabric_program **out);
/* Builds, runs and checks. DIFFER: a core holds what it should not. With faults, the status says
 * how they showed; a run has then four times the cycles of one without. */
wafer_status wafer_case_run(const wafer_diag *diag, const wafer_machine *machine, const char *name,
                            const wafer_case_options *options, wafer_case_result *result);

#ifdef __cplusplus
}
#endif
#endif

/* Runs the program of a kernel body on the emulated fabric and compares with the reference. */
#ifndef PROGRAM_RUN_H
#define PROGRAM_RUN_H

#include "backend/program/program.h"
#include "body_text.h"

typedef struct program_run {
  wafer_status status;
  const char *message; /* of what failed */
  double error;        /* largest difference, relative to the largest output */
  uint64_t counted, predicted,
      modelled;                       /* cycles: of the fabric, of the program, of the cost model */
  uint64_t code_bytes, code_modelled; /* of the core with the most */
  int64_t memory, memory_modelled;    /* the same: code, values, scratch */
  bool sparse;                        /* a weight lies as pairs */
} program_run;

/* `constants` fills the constants of the body; seeds differ in the inputs' elements. */
program_run program_run_body(const char *machine, const body_text *b, const wafer_split *split,
                             uint64_t seed);

#endif

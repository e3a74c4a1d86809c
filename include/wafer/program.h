/* A model that is not one function of the wafer: functions of the host, whose steps call pieces of
 * IR that are compiled each by itself. The frontend makes it, the backend links its pieces to one
 * plan. Lives in the arena of the compilation. */
#ifndef WAFER_PROGRAM_H
#define WAFER_PROGRAM_H

#include "wafer/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_program {
  uint32_t value_count, function_count;
  const wafer_value *values; /* of the host functions; weights are those of `weights` */
  const wafer_function
      *functions;               /* as in a plan; of a piece: name, inputs and outputs, no steps */
  wafer_ir *const *pieces;      /* per function: its IR, NULL for one of the host */
  const wafer_weights *weights; /* constants that host steps read */
} wafer_program;

#ifdef __cplusplus
}
#endif
#endif

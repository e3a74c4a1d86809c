/* Refusing a model that does not fit, for mode.c. */
#ifndef WAFER_PASSES_MODE_REFUSE_H
#define WAFER_PASSES_MODE_REFUSE_H

#include "size/size.h"

typedef struct refusing {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  const wafer_graph *graph;
  wafer_mode asked, mode; /* what the user wants; what does not fit */
  uint32_t batch;
  wafer_cut cut;
  const sizing *pipelined, *streaming; /* as they were sized */
} refusing;

/* Tries remedies, hands the refusal to the options' sink, and fails with it. */
wafer_status mode_refuse(const refusing *c, const size_refusal *refusal);

#endif

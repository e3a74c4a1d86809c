/* Private to backend/: the pieces of wafer_lower. Everything they make lives in the context's
 * arena. */
#ifndef WAFER_BACKEND_LOWER_H
#define WAFER_BACKEND_LOWER_H

#include "wafer/graph.h"

typedef struct lowering {
  const wafer_ctx *ctx;
  const wafer_ir *ir;
  wafer_graph graph;
  wafer_plan *plan;
  wafer_value *values;   /* as the graph numbers them */
  wafer_kernel *kernels; /* as the graph numbers them */
  wafer_stream *streams; /* as the graph numbers them */
  wafer_phase *phases;
} lowering;

wafer_status lower_no_memory(const lowering *l);
/* The text, which is the IR's, becomes a copy in the arena: a plan outlives its IR. */
wafer_status lower_keep(const lowering *l, const char **text);
/* The memory map of a kernel whose other fields are set; sums to its cost's bytes. */
wafer_status lower_memory(const lowering *l, wafer_kernel *kernel);
/* What limits each kernel; needs the streams. */
wafer_status lower_bounds(const lowering *l);
/* Actions and frees of every phase; needs kernels and streams. */
wafer_status lower_phases(lowering *l);
/* What a training plan says to its driver; needs values, weights and the function. */
wafer_status lower_training(lowering *l);

/* The plan gets the text of the IR, unless the options say that it is not written. */
wafer_status lower_text(const wafer_ctx *ctx, const wafer_ir *ir, wafer_plan *plan);
/* The plan of one module, which nothing has checked yet. */
wafer_status lower_piece(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out);
/* wafer_plan_check of a whole plan, whose phases get what they have on a core at most; so does the
 * cost of its mode. */
wafer_status lower_check(const wafer_ctx *ctx, const char *file, wafer_plan *plan,
                         wafer_phase *phases);
/* Of a model of several pieces. */
wafer_status link_program(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_plan **out);

#endif

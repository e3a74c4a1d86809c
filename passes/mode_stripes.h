/* Weight streaming with samples side by side, and as many of them as pay. */
#ifndef WAFER_PASSES_MODE_STRIPES_H
#define WAFER_PASSES_MODE_STRIPES_H

#include "size.h"
#include "wafer/ir.h"

/* Sized for *batch samples, in the stripes with which they are fastest. WAFER_BATCH_auto becomes as
 * many as pay; of micro-batches there is one. */
wafer_status mode_size_stripes(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               uint32_t *batch, sizing *out);

#endif

/* Weight streaming with samples side by side, and as many of them as pay. */
#ifndef WAFER_PASSES_MODE_STRIPES_H
#define WAFER_PASSES_MODE_STRIPES_H

#include "size/size.h"
#include "wafer/ir.h"

/* Bands that are asked for of streaming; 1: none are. */
uint32_t mode_streaming_bands(const wafer_options *o);
/* Sized for *batch samples, in the bands and stripes with which they are fastest: WAFER_BATCH_auto
 * is as many as pay; of micro-batches there is one. *batch becomes those of a band of *cut; the
 * sizing is one of a band, with the wafer's interval and cores. */
wafer_status mode_size_stripes(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               uint32_t *batch, wafer_cut *cut, sizing *out);

#endif

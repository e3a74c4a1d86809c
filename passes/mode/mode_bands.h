/* How the wafer is cut into bands that have the same pipeline, and its sizing on one of them. */
#ifndef WAFER_PASSES_MODE_BANDS_H
#define WAFER_PASSES_MODE_BANDS_H

#include "size/size.h"
#include "wafer/ir.h"

/* Cycles between samples, as core programs of so many bands run them. */
uint64_t mode_pace(const sizing *s, uint32_t bands);
/* As many as are asked for, or as pay. The sizing's interval and cores are those of all bands.
 * Where a search looks for the pace of programs it is one that was found at once. */
wafer_status mode_size_bands(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                             wafer_cut *cut, sizing *out);
/* Then the best sizing of so many, which takes the place of that one. */
wafer_status mode_settle_bands(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                               wafer_cut cut, sizing *out);

#endif

/* Kernels that hold samples of what skips others in a pipeline. */
#ifndef WAFER_PASSES_MODE_RELAY_H
#define WAFER_PASSES_MODE_RELAY_H

#include "size.h"
#include "wafer/ir.h"

typedef struct mode_relays mode_relays;

/* Puts relays on every value that skips kernels: one for each `spacing` kernels that a use of it
 * skips. *out NULL: nothing skips so many. The graph is as it was read before. */
wafer_status mode_add_relays(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                             uint32_t spacing, mode_relays **out);
/* Takes them out of the IR again. */
void mode_drop_relays(wafer_ir *ir, const mode_relays *relays);
/* Whether a pin means a relay, and whether the graph has all that pins mean. */
bool mode_pins_relays(const wafer_options *options);
bool mode_has_pinned_relays(const wafer_options *options, const wafer_graph *graph);

#endif

/* Kernels that hold samples of what skips others in a pipeline. */
#ifndef WAFER_PASSES_MODE_RELAY_H
#define WAFER_PASSES_MODE_RELAY_H

#include "size/size.h"
#include "wafer/ir.h"

typedef struct mode_relays mode_relays;

/* Which values get some. */
typedef struct mode_relayed {
  uint32_t spacing; /* what skips kernels: one for each so many that a use skips; 0: none */
  bool inputs;      /* the model's inputs that several kernels take: one each, so that they cross
                       the wafer's edge once */
} mode_relayed;

/* Puts relays on such values. *out NULL: there are none. The graph is as it was read before. */
wafer_status mode_add_relays(const wafer_ctx *ctx, wafer_ir *ir, const wafer_graph *graph,
                             mode_relayed what, mode_relays **out);
/* Takes them out of the IR again. */
void mode_drop_relays(wafer_ir *ir, const mode_relays *relays);
/* Whether several kernels take the same input of the model. */
bool mode_shares_inputs(const wafer_graph *graph);
/* Whether a pin means a relay, and whether the graph has all that pins mean. */
bool mode_pins_relays(const wafer_options *options);
bool mode_has_pinned_relays(const wafer_options *options, const wafer_graph *graph);

#endif

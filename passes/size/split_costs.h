/* What splits of kernel bodies take, each found once: kernels that look for shapes like their
 * neighbours', in bands of any height, ask for the same ones again and again. */
#ifndef WAFER_PASSES_SPLIT_COSTS_H
#define WAFER_PASSES_SPLIT_COSTS_H

#include "wafer/kernel.h"

typedef struct split_costs split_costs;              /* dies with its arena */
split_costs *split_costs_create(wafer_arena *arena); /* NULL: out of memory */

typedef struct split_cost {
  uint64_t cycles, bytes; /* of wafer_kernel_cost */
} split_cost;

/* A body whose splits are asked for. */
typedef struct split_body {
  split_costs *costs;
  const wafer_machine *machine; /* wafers of all sizes have the same costs */
  const wafer_kernel_body *body;
  uint64_t signature;
} split_body;

split_body split_body_of(split_costs *costs, const wafer_machine *machine,
                         const wafer_kernel_body *body);
/* One that finds no memory to be kept is found again. */
split_cost split_cost_find(const split_body *of, const wafer_split *split);
/* How a value of the body lies then. */
wafer_layout split_layout_of(const split_body *of, const wafer_split *split, uint32_t value);

#endif

/* Which holdings of each value exist while a plan's function is followed. */
#ifndef RUNTIME_HELD_H
#define RUNTIME_HELD_H

#include "wafer/plan.h"

typedef struct held_entry {
  struct held_entry *next;
  wafer_holding holding;
  uint32_t maker; /* whatever the follower noted */
} held_entry;

typedef struct held {
  wafer_arena *arena;
  held_entry **of; /* per value */
  held_entry *spare;
} held;

/* Inputs of the function at the edge, weights in MemoryX. False when out of memory. */
bool held_init(held *h, wafer_arena *arena, const wafer_plan *plan, const wafer_function *function);
/* NULL: not held there. */
const held_entry *held_find(const held *h, uint32_t value, const wafer_holding *holding);
bool held_add(held *h, uint32_t value, const wafer_holding *holding, uint32_t maker);
/* Drops the wafer's holdings of a value. */
void held_drop(held *h, uint32_t value);
/* What a kernel needs for an input, and makes of an output. */
wafer_holding held_input(const wafer_kernel *kernel, uint32_t input);
wafer_holding held_output(const wafer_kernel *kernel, uint32_t output);

#endif

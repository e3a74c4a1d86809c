/* The emulated time of a training step over N systems, counted from what its run did.
 *
 * A system runs its micro-batches one after the other. Its port of SwarmX adds a micro-batch's
 * gradients to those before as they leave the wafer, layer by layer, and sends a partial sum, of
 * one weight after the other, as soon as the last micro-batch in it has given its part. A node of
 * the tree waits for what its children send, joins what is next to each other (wafer/swarmx.h), and
 * passes words on as they come, a hop later; a link carries one sum at a time. MemoryX updates a
 * weight when its finished sum is there and the weight itself has been streamed for the last time
 * of the step, on the server that has it: while earlier layers are still in their backward pass.
 * Clipping and a dynamic loss scale want all sums first: MemoryX squares them as they come, and the
 * factor takes two latencies to everybody. New weights take a hop per level down. */
#ifndef WAFER_STEP_CLOCK_H
#define WAFER_STEP_CLOCK_H

#include "wafer/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A weight: bytes of a sum of its gradients, and what its update reads and writes. */
typedef struct wafer_step_weight {
  uint64_t sum_bytes, update_bytes;
  uint32_t server;
} wafer_step_weight;

/* Cycles from the beginning of the system's first micro-batch, per weight. */
typedef struct wafer_step_partial {
  uint32_t level; /* a node of the tree over micro-batches */
  uint64_t index;
  const uint64_t *ready; /* its last gradient has left the wafer */
} wafer_step_partial;

typedef struct wafer_step_system {
  uint64_t end;         /* of its last micro-batch; 0: it had none */
  const uint64_t *read; /* when the weight's last word went to the wafer */
  uint32_t partial_count;
  const wafer_step_partial *partials; /* in order of their micro-batches */
} wafer_step_system;

typedef struct wafer_step_run {
  const wafer_machine *machine;
  uint32_t weight_count, server_count, system_count;
  const wafer_step_weight *weights;
  const wafer_step_system *systems; /* neighbours have neighbouring micro-batches */
  bool waits;                       /* updates need all sums */
  bool skips;                       /* no update: the loss scale was too large */
} wafer_step_run;

/* Cycles. The three parts follow one another, and are what nothing else hides. */
typedef struct wafer_step_time {
  uint64_t system; /* until the last system has run its micro-batches */
  uint64_t sum;    /* until the last sum is in MemoryX */
  uint64_t update; /* until the last weight is updated */
  uint64_t step;
  uint64_t sum_work, update_work; /* busiest link and server, hidden or not */
} wafer_step_time;

/* Levels of a tree of that fan-out over N systems: 0 for one. */
uint64_t wafer_swarmx_depth(const wafer_machine *machine, uint64_t systems);

wafer_status wafer_step_count(const wafer_diag *diag, const wafer_step_run *run,
                              wafer_step_time *out);

#ifdef __cplusplus
}
#endif
#endif

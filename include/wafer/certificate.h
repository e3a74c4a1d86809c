/* What is proved about a plan from the plan alone, phase by phase, with the figures that show it.
 *
 * Why there is no cyclic wait. An event is an action of a phase for one sample. A stream waits
 * until its value is made, until its target has room, and for the streams of its colour, or of a
 * queue that it shares, that take their turn before it; a kernel waits for its inputs and for room
 * for its outputs. Actions stand in an order in which a value is made before it is used, streams
 * that share take turns in that order, and room for sample s is made when sample s - depth has been
 * used, with a depth of at least 1. So every wait is for an event that comes before in the order
 * (sample, action), and there is no way back. wafer_certify checks each step of this for each
 * action. */
#ifndef WAFER_CERTIFICATE_H
#define WAFER_CERTIFICATE_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_side {
  WAFER_SIDE_east,
  WAFER_SIDE_west,
  WAFER_SIDE_south,
  WAFER_SIDE_north
} wafer_side;
const char *wafer_side_name(wafer_side side);

/* The queue between router and core that a stream has at all cores of one end. The colours at a
 * core have queues of their own in the order of the phase's actions, as many as the machine gives;
 * those beyond share them, and streams of a queue take turns in that order. */
typedef struct wafer_queue_end {
  uint32_t queue; /* WAFER_NONE: no core is at this end, or a load before the pipeline runs */
  /* Action of the phase that has the queue before; from the stream's own action on: for the sample
   * before. WAFER_NONE: no other stream has it. */
  uint32_t after;
} wafer_queue_end;
typedef struct wafer_stream_queues {
  wafer_queue_end out, in;
  /* Of a pipeline, the action of a stream before it that takes the same value out of the same
   * kernel on the same colour: one multicast, whose words leave once and when there is room for
   * all of its streams. It is the first of them. WAFER_NONE: the stream leaves by itself, or is the
   * first. */
  uint32_t with;
} wafer_stream_queues;

typedef struct wafer_phase_proof {
  uint32_t kernels, streams;
  uint32_t waits;         /* checked: each for an earlier event */
  uint32_t longest_chain; /* actions one after the other, each needing the one before */
  uint64_t peak_core_bytes;
  /* Distinct colours at the router that has most, and the streams that take turns on a colour. */
  uint32_t colors, sharing;
  wafer_core_at colors_at;
  /* The busiest link, by cycles of one sample of all streams whose trunk crosses it; those of a
   * multicast cross it once. */
  uint64_t link_cycles;
  uint32_t link_streams;
  wafer_core_at link_at; /* the router it leaves */
  wafer_side link_to;
  /* Most colours into a core, and out of one, while the phase runs (the loads of a pipeline are
   * over by then), and the streams that take turns in a queue with another colour. */
  uint32_t enter, leave, turns;
  const wafer_stream_queues *queues; /* of each action; kernels have none */
} wafer_phase_proof;

/* proofs: plan->phase_count of them, in the arena. The plan has passed wafer_plan_check. TRAP where
 * a wait is not for an earlier event. */
wafer_status wafer_certify(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           const wafer_phase_proof **proofs);

#ifdef __cplusplus
}
#endif
#endif

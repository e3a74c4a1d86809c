/* What the train of a function goes through: events, one for each stream and kernel, in parts, one
 * for each phase that a step runs. Between timeline_link.c, which finds them, and timeline.c, which
 * gives them times. */
#ifndef RUNTIME_TIMELINE_EVENTS_H
#define RUNTIME_TIMELINE_EVENTS_H

#include "plan/queues.h"
#include "timeline.h"
#include "turns.h"

typedef struct event {
  const wafer_action *action;
  const wafer_stream *stream; /* or */
  const wafer_kernel *kernel;
  bool skipped;                      /* a weight stream that a load step ran */
  const wafer_stream_queues *queues; /* of a pipeline's streams */
  uint32_t first;  /* the event with which a stream of a multicast leaves; NONE: by itself */
  uint32_t joined; /* 1 + the next event of a multicast, from its first stream on; 0: none */
  uint64_t cast;   /* when the sample at hand left, */
  uint64_t cycles; /* and how long that takes: of a multicast the longest stream's */
  uint32_t need_count, *need; /* earlier events (of any phase) that make what it uses */
  uint32_t user_count,
      *user;       /* streams: kernels that read from the target; kernels: streams that carry off */
  uint64_t *done;  /* ring over samples: arrival of a stream, end of a kernel */
  uint64_t *left;  /* ring, streams: when the source was read to the end */
  uint32_t output; /* of the function, that it brings to the edge: 1 + the last one; 0: none */
} event;

typedef struct part {
  uint32_t phase, first, last; /* events */
  uint32_t kernels;
  uint32_t armed; /* weight streaming: the part with which its weights may start; NONE: the one
                     before */
  uint64_t start;
} part;

typedef struct line {
  const wafer_diag *diag;
  const wafer_plan *plan;
  const wafer_function *function;
  wafer_arena *arena;
  wafer_timeline *out;
  event *events;
  uint32_t event_count, part_count, window;
  uint64_t stripes; /* samples of a round */
  part *parts;
  uint32_t *before; /* per output: 1 + the one before that the same event brings to the edge */
  bool *loaded;     /* a pipeline's phase: by a load step */
  turns edge_in, edge_out, memoryx;
  bool alone;        /* weight streaming: values change their layout one by one, */
  bool programs;     /* and cores that have programs compute in between, not meanwhile; */
  bool serial;       /* so they do where a phase has several kernels */
  uint64_t exchange; /* until then; `busy`: with what the round does at present */
  uint64_t busy;
  uint64_t crossed;      /* values that follow each other over the border only wait for the words */
  const part *part;      /* being run */
  uint64_t armed, start; /* when weights of the phase may start; the phase itself */
  uint64_t arrived;      /* weights so far have arrived, but for the latencies outside the wafer; */
  uint64_t arrived_before; /* those of earlier phases, for which those of this one wait */
  uint64_t samples, half;  /* of the train, of its last half */
  uint64_t mark;           /* when the last sample before the last half finished */
  uint64_t last;           /* when the last sample finished */
} line;

static inline uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}
static inline uint32_t most(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

wafer_status timeline_no_memory(const line *l);
/* Events and parts of the function, from `l->samples` and `l->stripes`. */
wafer_status timeline_link(line *l);
/* Samples in the buffers that an event fills: every replica has its own, and every stripe. */
uint32_t timeline_buffered(const line *l, const event *e);

#endif

/* Shapes of a pipeline with which neighbours meet: what is chosen from (size_meet_options.c), what
 * passes between them (size_meet_tables.c), and the choice (size_meet.c). */
#ifndef WAFER_PASSES_SIZE_MEET_H
#define WAFER_PASSES_SIZE_MEET_H

#include "size_pipelined.h"

#define MEET_OPTIONS 200                 /* of a kernel */
#define MEET_NO_ROOM (UINT64_C(1) << 30) /* cycles: rather anything else */

typedef struct meet_option {
  const wafer_shape_point *point;
  const wafer_layout *lie; /* of the inputs, then of the outputs */
  uint64_t own; /* cycles to compute a sample and to pass what crosses the wafer's edge */
} meet_option;

/* A value that passes from a kernel to another. */
typedef struct meet_edge {
  uint32_t producer, user, output, input; /* places among the layouts */
  const wafer_shape *shape;
  uint64_t words;
  uint64_t *cycles; /* [option of the producer][option of the user], of all edges alike */
} meet_edge;

/* What a kernel sends and what it receives, in cycles. */
typedef struct meet_passing {
  uint64_t out, in;
} meet_passing;

/* The other end of an edge of the kernel at hand. */
typedef struct meet_neighbor {
  uint32_t kernel, first;     /* place of the first edge to the same one */
  meet_passing without, with; /* what it passes beside the kernel at hand, and all in all */
} meet_neighbor;

typedef struct meet_kernel {
  wafer_kernel_body body; /* with the depths that were settled */
  uint32_t count, chosen;
  meet_option *at;
  uint32_t parent;     /* the producer that ran last, or WAFER_NONE */
  uint32_t edge_count; /* all that touch the kernel, those from its parent first */
  uint32_t up_count, *edges;
  uint64_t *base; /* of each option: the least sum of turns with all that hangs on the kernel */
  uint8_t *best;  /* for each option of the parent */
} meet_kernel;

typedef struct meet {
  pipeline *p;
  uint64_t t;      /* no kernel and no stream takes longer */
  uint32_t share;  /* of the options that a kernel may have: one in so many */
  uint32_t height; /* of a shelf */
  uint64_t price;  /* cycles of a turn that a column of the wafer is worth */
  uint64_t scale;  /* turns of that length weigh as much as they last */
  meet_kernel *kernels;
  uint32_t edge_count;
  meet_edge *edges;
  meet_neighbor *around; /* room for those of any kernel */
} meet;

/* Each kernel's options, the first one its shape at `places`. */
wafer_status meet_open_options(meet *m, const shelf_place *places);

/* The cycles of its edges. */
wafer_status meet_open_tables(meet *m);

/* How value `place` of the kernel's layouts lies, in the middle of a shelf; `beside`: on the right
 * of a kernel that is not. */
wafer_holding meet_holding(const meet *m, const meet_option *o, uint32_t place, bool beside);

/* What a core is busy with a sample of its kernel: it sends while it receives the next one.
 */
static inline uint64_t meet_turn(uint64_t receives, uint64_t computes, uint64_t sends) {
  return computes + (receives > sends ? receives : sends);
}

/* To which side of a producer a value goes; what goes to one side is sent once to all that take it
 * (backend/launch/launch_together.c). */
enum { MEET_EAST, MEET_WEST, MEET_SOUTH, MEET_NORTH, MEET_SIDES };

/* size_pace.c. Those sides, MEET_SIDES: words leave for this rectangle alone. */
uint32_t meet_side(const pipeline *p, wafer_rect from, wafer_rect to);
/* So much longer a kernel sends for one more reader of a value; `most`: of the value and side, what
 * it sends the others for. */
static inline uint64_t meet_send(uint64_t *most, uint32_t side, uint64_t cycles) {
  if (side == MEET_SIDES) return cycles;
  uint64_t more = cycles > most[side] ? cycles - most[side] : 0;
  most[side] += more;
  return more;
}
/* Whether the kernel's input is a value that another kernel makes. */
bool meet_passes_on(const wafer_graph_kernel *kernel, const wafer_graph_value *value,
                    uint32_t input);
/* A price where words on their way, with a half more for halos, have no room beside the kernels. */
uint64_t meet_room_price(const pipeline *p, const wafer_holding *from, const wafer_shape_point *a,
                         const wafer_holding *to, const wafer_shape_point *b,
                         const wafer_shape *shape, uint64_t words);

#endif

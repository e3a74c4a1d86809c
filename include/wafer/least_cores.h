/* The fewest cores on which a kernel of a pipeline can keep pace, however its loops are cut: what
 * the bound of core programs (least_pace.h) is made of.
 *
 * A split of a kernel over its cores has for each of them a turn, of which wafer_least_turn is all
 * that is assumed, with
 *   computes  compute_cycles of wafer_kernel_cost, of the core that has the longest part of every
 *             loop, without what fills pads of dims that are cut (cores at the border alone do so);
 *             but for convolutions, whose steps are known, with one instruction for each nest of
 *             loops and no reads that meet one bank, for programs make one loop of several where
 *             they can; and a cycle for each element of a partial sum that it takes where sums are
 *             cut. Of families move, resize, gather and scatter nothing, for programs copy less
 *             than costs say, and of softmax, normalize and sort half;
 *   takes     words of the activations that it holds, whole tiles, for every core has its own, and
 *             of the halos that a core takes which has neighbours on all sides;
 *   sends     words of its tiles of the outputs; nothing where other cores have the same;
 * and fits if its bytes do, two samples of what it takes and gives. What else crosses links inside
 * the rectangle, what waits there, and how many words a row of cores passes count nothing. */
#ifndef WAFER_LEAST_CORES_H
#define WAFER_LEAST_CORES_H

#include "wafer/arena.h"
#include "wafer/kernel.h"
#include "wafer/machine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The assumption: what overlaps in a core's turn at best. Nothing is received while a kernel
 * computes; what it made is sent while the next sample is received. A word a cycle each way. */
static inline uint64_t wafer_least_turn(uint64_t computes, uint64_t takes, uint64_t sends) {
  return computes + (takes > sends ? takes : sends);
}

/* So many cores at least for a turn of so many cycles. */
typedef struct wafer_least_shape {
  uint64_t cores, cycles;
} wafer_least_shape;

typedef struct wafer_least_cores {
  size_t count;
  const wafer_least_shape *at; /* more cores, and fewer cycles, from one to the next */
  uint64_t tried;              /* all splits over at most so many cores were; over more */
  uint64_t most;               /* (but no more than these) a turn */
  uint64_t work, floor;        /* takes at least work / cores, and floor */
} wafer_least_cores;

/* `takes`: which inputs arrive with every sample; `sends`: which outputs leave the kernel. The
 * body's depths count nothing. WAFER_NO_MEMORY alone fails. */
wafer_status wafer_kernel_least_cores(const wafer_machine *machine, const wafer_kernel_body *body,
                                      const bool *takes, const bool *sends, wafer_arena *arena,
                                      wafer_least_cores *out);

/* Fewest cores, copies of the kernel counted apart, for a turn of so many cycles; UINT64_MAX: none
 * are enough. */
uint64_t wafer_least_cores_for(const wafer_least_cores *of, uint64_t cycles);

/* The turn of one split; UINT64_MAX: it does not fit. */
uint64_t wafer_least_turn_of(const wafer_machine *machine, const wafer_kernel_body *body,
                             const bool *takes, const bool *sends, const wafer_split *split);

#ifdef __cplusplus
}
#endif
#endif

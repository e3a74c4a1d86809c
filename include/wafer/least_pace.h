/* The least cycles between samples that core programs of a pipeline could take: a bound for every
 * layout, number of bands and set of relays of these kernels on this wafer, not for the plan alone.
 *
 * With b bands and T cycles between samples a band has D = b T cycles for a sample, and so has each
 * core of it: no kernel can have a longer turn (of c copies none longer than c D). The fewest cores
 * on which it has no longer one, however its loops are cut, are those of wafer_kernel_least_cores
 * (least_cores.h), where it also stands what overlaps in a turn. T is feasible for b bands where
 * these cores, of all kernels but relays together, are no more than a band's; each kernel has as
 * many copies as takes the fewest cores, up to the most that the plan has of any. The bound is the
 * least T feasible for any b, of whole rows or of halves of them, but not below what crosses the
 * wafer's edge.
 *
 * It knows nothing of waiting, be it for words that share a row of cores, for neighbours or for
 * what skips kernels, nor of how rectangles tile a band. */
#ifndef WAFER_LEAST_PACE_H
#define WAFER_LEAST_PACE_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_least_pace {
  uint64_t cycles; /* of a sample; 0: the plan is no pipeline with core programs, or trains */
  wafer_cut cut;   /* into bands with which that would be so */
  bool at_edge;    /* it is the edge's */
  uint32_t kernel; /* that stands in the way of a cycle less; WAFER_NONE: all kernels together */
} wafer_least_pace;

/* `edge`: cycles of a sample across the wafer's edge; `reached`: those that the plan takes, which
 * the bound is no more than. WAFER_NO_MEMORY alone fails. */
wafer_status wafer_plan_least_pace(const wafer_diag *diag, const wafer_plan *plan, uint64_t edge,
                                   uint64_t reached, wafer_least_pace *out);

#ifdef __cplusplus
}
#endif
#endif

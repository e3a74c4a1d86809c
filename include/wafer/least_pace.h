/* The least cycles between samples that core programs of a pipeline could take: a bound for every
 * layout, number of bands and set of relays of these kernels on this wafer, not for the plan alone.
 *
 * A core receives and computes one after the other, a word a cycle each way; it sends while it
 * receives, not while it computes. So in the D cycles that a band has for a sample, D = b T with b
 * bands and T cycles between samples, the cores of a kernel together spend at least
 *   w = c + max(r, s)   c what one core would compute, were it to hold it all (cuts only add
 *               set-ups; nothing for families move, resize, gather and scatter, whose programs copy
 *               less than their cost says), r the words of its activations, each of which some core
 *               takes, s those of its outputs;
 * and those of all kernels the sum of these, or of all c and the larger of all r and all s, s once
 * more for every further kernel, or the wafer's edge, that wants an output.
 * A kernel has at least
 *   w / D       cores, and as many as hold its weights and two samples of what it takes and
 *               gives; at most as many as its loops can be cut into, and as often as the
 *               plan copies any kernel.
 * T is feasible for b bands where these cores are no more than a band's, and all that is to be done
 * no more than they have cycles; it is not below what crosses the wafer's edge. The bound is the
 * least T feasible for any b. It knows nothing of waiting, of set-ups and of how many words a row
 * of cores passes. */
#ifndef WAFER_LEAST_PACE_H
#define WAFER_LEAST_PACE_H

#include "wafer/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_least_pace {
  uint64_t cycles; /* of a sample; 0: the plan is no pipeline with core programs, or trains */
  uint32_t bands;  /* with which that would be so */
} wafer_least_pace;

/* `edge`: cycles of a sample across the wafer's edge. WAFER_NO_MEMORY alone fails. */
wafer_status wafer_plan_least_pace(const wafer_diag *diag, const wafer_plan *plan, uint64_t edge,
                                   wafer_least_pace *out);

#ifdef __cplusplus
}
#endif
#endif

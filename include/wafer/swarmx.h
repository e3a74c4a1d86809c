/* SwarmX: the sum of the gradients of a step's micro-batches, always in the same order.
 *
 * Micro-batch i of m is a leaf of the binary tree whose node (level, index) covers the leaves
 * [index << level, (index + 1) << level); a node of which one child has no leaves is the other
 * child. A system that ran a range of micro-batches sends one partial sum per maximal node inside
 * its range; f32 addition of two is commutative, so the finished sum has the same bits for every
 * partition and every order of arrival. */
#ifndef WAFER_SWARMX_H
#define WAFER_SWARMX_H

#include <stdint.h>

#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums in f64 beside the vector: loss, elements that count, right answers, one to spare. */
#define WAFER_SWARMX_SCALARS 4

typedef struct wafer_swarmx wafer_swarmx;

/* Sums vectors of `elements` f32. `store`: the folder for buffers, NULL: memory. */
wafer_status wafer_swarmx_create(const wafer_diag *diag, uint64_t elements, const char *store,
                                 uint32_t threads, wafer_swarmx **out);
void wafer_swarmx_destroy(wafer_swarmx *swarmx); /* NULL is fine */

/* A new sum of `leaves` micro-batches; what was held is dropped, its buffers are kept. */
void wafer_swarmx_begin(wafer_swarmx *swarmx, uint64_t leaves);

typedef struct wafer_swarmx_node {
  uint32_t level;
  uint64_t index;
  const float *data; /* dense */
  double scalars[WAFER_SWARMX_SCALARS];
} wafer_swarmx_node;

/* Takes a partial sum, which is copied or added at once. Each leaf comes once. */
wafer_status wafer_swarmx_add(wafer_swarmx *swarmx, const wafer_swarmx_node *node);
/* The same for a leaf whose vector is in pieces, floats of any type and any strides. */
wafer_status wafer_swarmx_add_leaf(wafer_swarmx *swarmx, uint64_t leaf, const wafer_view *pieces,
                                   uint32_t count, const double *scalars);

/* The nodes held now, in order of their leaves: what a system sends. Borrowed until the next call.
 */
uint32_t wafer_swarmx_held(const wafer_swarmx *swarmx, const wafer_swarmx_node **out);
/* Joins what is left at the right end of the tree: all leaves must be there, else INTERNAL. The sum
 * is the SwarmX's until `begin`. */
wafer_status wafer_swarmx_finish(wafer_swarmx *swarmx, const float **sum, const double **scalars);

#ifdef __cplusplus
}
#endif
#endif

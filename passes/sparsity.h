/* Sparse weights in the graph of kernels. */
#ifndef WAFER_PASSES_SPARSITY_H
#define WAFER_PASSES_SPARSITY_H

#include "wafer/graph.h"

/* Fills body.sparsity of a kernel whose inputs are `inputs`: how many elements of each sparse
 * weight are not zero and, once the kernel has a split, how many of the fullest tile, counted. */
wafer_status sparsity_of(const wafer_ctx *ctx, const wafer_ir *ir, const wafer_graph_value *values,
                         const uint32_t *inputs, wafer_graph_kernel *kernel);

/* Takes back estimates that were too low: where the tiles of a kernel in such a split and with such
 * depths, counted, ask for more bytes than was expected, its weights have room for all elements
 * from now on (wafer_sparsity.uneven), and *again is set: the graph is to be read, and sized, anew.
 */
wafer_status sparsity_recount(const wafer_ctx *ctx, const wafer_ir *ir,
                              const wafer_graph_kernel *kernel, const wafer_graph_value *values,
                              const wafer_split *split, const uint32_t *depths, bool *again);

/* The data of a float weight with its `zeros` smallest magnitudes set to zero, in the arena; of
 * equal ones the earlier in row-major order. NaN is the largest. NULL: no memory. */
void *sparsity_prune(wafer_arena *arena, const wafer_weight *weight, uint64_t zeros);
/* Elements that are not zero; of both zeros of floats. */
uint64_t sparsity_nonzeros(const wafer_weight *weight);
/* Those of the tile of a layout that has most; 0: the weight is absent. False: no memory. */
bool sparsity_fullest(const wafer_weight *weight, const wafer_layout *layout, uint64_t *most);

#endif

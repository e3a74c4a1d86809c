/* Sparse weights on cores: pairs of position and value, as the instruction axpy takes them
 * (docs/core.md, sparse wavelets).
 *
 * A tile is some lists of equal length, one behind the other. A core sends each list to itself, a
 * colour for each, and a microthread for each multiplies with the pairs that come: while one sets
 * up a pair the others compute. A list is filled up with pairs of value 0, so that all cores run
 * the same code, and ends with the word that ends pairs. A position is the index of the tile's row,
 * shifted by the bits that count its columns, and that of the column. */
#ifndef WAFER_PAIRS_H
#define WAFER_PAIRS_H

#include "wafer/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WAFER_PAIR_LISTS 3 /* two microthreads each, one clears the sums meanwhile */

typedef struct wafer_pairs {
  uint32_t lists;  /* 0: the tile lies dense, in no more room */
  uint32_t length; /* pairs of a list */
  uint32_t words;  /* of a core */
} wafer_pairs;

/* How a tile of `tile` elements lies, when the fullest has `pairs`. */
wafer_pairs wafer_pairs_of(wafer_dtype stored, uint64_t pairs, uint64_t tile);
/* The same of an input of a kernel, if it is a sparse weight whose fullest tile is known. */
wafer_pairs wafer_kernel_pairs(const wafer_kernel_body *body, const wafer_split *split,
                               uint32_t input);
/* Whether an input is a sparse matrix that the anchor, and nobody else, multiplies with. */
bool wafer_body_multiplies(const wafer_kernel_body *body, uint32_t input);

/* Cycles from when the sums are clear: each pair over `rows` elements of activations and sums,
 * which begin in different banks where their bytes are a multiple of 8. */
uint64_t wafer_pairs_cycles(const wafer_machine *machine, const wafer_pairs *pairs,
                            wafer_dtype stored, uint64_t rows);

/* The words of all tiles as a tensor, [part of dim 0][part of dim 1][word], and how that lies. */
wafer_shape wafer_pairs_shape(const wafer_pairs *pairs, const wafer_layout *weight);
wafer_layout wafer_pairs_layout(const wafer_layout *weight);

/* Fills it from the dense elements of a weight of `shape`. place[d][i]: where index i of dim d
 * comes in the order in which parts follow each other, NULL: i. NO_MEMORY, or BAD_INPUT
 * where a tile has more pairs than its lists; neither says so. */
wafer_status wafer_pairs_pack(const wafer_pairs *pairs, wafer_dtype stored,
                              const wafer_shape *shape, const wafer_layout *weight,
                              const uint32_t *const place[2], const void *elements,
                              uint32_t *words);

#ifdef __cplusplus
}
#endif
#endif

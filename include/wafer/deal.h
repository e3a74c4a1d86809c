/* Sparse weights dealt over cores: which rows and columns of the weight go to which part, so that
 * all tiles hold nearly as many non-zeros. A static permutation, known when the model is compiled.
 */
#ifndef WAFER_DEAL_H
#define WAFER_DEAL_H

#include "wafer/kernel.h"
#include "wafer/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_deal {
  uint32_t *place[2]; /* of each row, of each column: where it comes when the parts follow each
                         other; as many lie in each as of a dim that is not dealt */
  uint64_t fullest;   /* non-zeros of the tile that has most */
} wafer_deal;

/* Deals a weight whose data are there: its rows into parts[0] parts of ceil(rows / parts[0]), the
 * last of what is left, its columns likewise. Rows of filters are the filters, columns their
 * channels, and dims behind those, the taps, stay together. Depends on which elements
 * are zero, and on nothing else. False: out of memory. */
bool wafer_deal_weight(wafer_arena *arena, const wafer_weight *weight, const uint32_t parts[2],
                       wafer_deal *out);

#ifdef __cplusplus
}
#endif
#endif

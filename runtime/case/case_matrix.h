/* Matrices of the cases gemv and gemm: elements are -1, 0 and 1, so that sums are exact in f16 too.
 * Private to case_*.c */
#ifndef RUNTIME_CASE_MATRIX_H
#define RUNTIME_CASE_MATRIX_H

#include "case_build.h"

/* c = a (m x k) times b (k x n), row-major; tiles of mt x kt, kt x nt and mt x nt. */
typedef struct case_matrices {
  uint32_t m, k, n, mt, kt, nt;
  int8_t *a, *b;
  float *c;
} case_matrices;

/* Refuses tiles whose elements are more than a core has room for, before anything is computed. */
wafer_status case_matrices_fit(const case_build *b, uint64_t elements);
/* `of_a`, `of_b`: the share of the elements that are not zero, 0: as chance has it. NULL: no
 * memory.
 */
case_matrices *case_matrices_make(case_build *b, uint32_t m, uint32_t k, uint32_t n, double of_a,
                                  double of_b);

/* A block of a matrix that has `stride` columns, into a core's memory; `turned`: column by column.
 */
typedef struct case_block {
  const int8_t *from;
  uint32_t stride, rows, cols;
  bool turned;
} case_block;
wafer_status case_matrix_put(case_build *b, uint32_t x, uint32_t y, uint32_t address,
                             const case_block *block);

/* Elements of a tile, rounded up to whole bytes of all banks. */
static inline uint32_t case_matrix_room(const case_build *b, uint32_t elements) {
  return (elements * b->bytes + 7) / 8 * 8;
}

#endif

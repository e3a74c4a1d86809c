/* Copies of strided boxes. Dims are sorted so that the destination is written in order; where the
 * source then jumps, the two innermost loops run in small square blocks, so that both sides use
 * whole cache lines. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"

enum { SQUARE = 16 };

static void swap_dims(exec_copy *c, uint32_t i, uint32_t j) {
  int64_t t;
  t = c->extent[i], c->extent[i] = c->extent[j], c->extent[j] = t;
  t = c->from[i], c->from[i] = c->from[j], c->from[j] = t;
  t = c->to[i], c->to[i] = c->to[j], c->to[j] = t;
}

static void sort_by_destination(exec_copy *c) {
  for (uint32_t i = 1; i < c->rank; i++)
    for (uint32_t j = i; j > 0 && llabs(c->to[j - 1]) < llabs(c->to[j]); j--)
      swap_dims(c, j - 1, j);
}

void exec_copy_simplify(exec_copy *c) {
  uint32_t rank = 0;
  for (uint32_t i = 0; i < c->rank; i++)
    if (c->extent[i] != 1) swap_dims(c, rank++, i);
  c->rank = rank;
  sort_by_destination(c);
  rank = 0;
  for (uint32_t i = 0; i < c->rank; i++) {
    if (rank && c->to[rank - 1] == c->to[i] * c->extent[i] &&
        c->from[rank - 1] == c->from[i] * c->extent[i]) {
      c->extent[rank - 1] *= c->extent[i];
      c->to[rank - 1] = c->to[i];
      c->from[rank - 1] = c->from[i];
    } else {
      swap_dims(c, rank++, i);
    }
  }
  c->rank = rank;
  if (rank < 2 || llabs(c->from[rank - 1]) <= 1) return;
  for (uint32_t i = 0; i + 1 < rank; i++)
    if (llabs(c->from[i]) == 1) swap_dims(c, i, rank - 2); /* the source's innermost: second loop */
}

/* What a caller gives may lie anywhere. */
typedef uint8_t any8;
typedef uint16_t any16 __attribute__((aligned(1)));
typedef uint32_t any32 __attribute__((aligned(1)));
typedef uint64_t any64 __attribute__((aligned(1)));

#define COPY_LINE(T)                                                                               \
  static void line_##T(const T *from, int64_t fs, T *to, int64_t ts, int64_t n) {                  \
    if (fs == 1 && ts == 1)                                                                        \
      memcpy(to, from, (size_t)n * sizeof *to);                                                    \
    else if (ts == 1)                                                                              \
      for (int64_t i = 0; i < n; i++) to[i] = from[i * fs];                                        \
    else                                                                                           \
      for (int64_t i = 0; i < n; i++) to[i * ts] = from[i * fs];                                   \
  }                                                                                                \
  static void square_##T(const exec_copy *c, const T *from, T *to) {                               \
    uint32_t r = c->rank;                                                                          \
    int64_t rows = c->extent[r - 2], cols = c->extent[r - 1];                                      \
    for (int64_t i = 0; i < rows; i += SQUARE)                                                     \
      for (int64_t j = 0; j < cols; j += SQUARE) {                                                 \
        int64_t m = rows - i < SQUARE ? rows - i : SQUARE;                                         \
        int64_t n = cols - j < SQUARE ? cols - j : SQUARE;                                         \
        for (int64_t k = i; k < i + m; k++)                                                        \
          line_##T(from + k * c->from[r - 2] + j * c->from[r - 1], c->from[r - 1],                 \
                   to + k * c->to[r - 2] + j * c->to[r - 1], c->to[r - 1], n);                     \
      }                                                                                            \
  }                                                                                                \
  static void box_##T(const exec_copy *c, uint32_t dim, const T *from, T *to) {                    \
    uint32_t left = c->rank - dim;                                                                 \
    if (left == 0)                                                                                 \
      *to = *from;                                                                                 \
    else if (left == 1)                                                                            \
      line_##T(from, c->from[dim], to, c->to[dim], c->extent[dim]);                                \
    else if (left == 2 && llabs(c->from[dim]) == 1 && llabs(c->from[dim + 1]) > 1)                 \
      square_##T(c, from, to);                                                                     \
    else                                                                                           \
      for (int64_t i = 0; i < c->extent[dim]; i++)                                                 \
        box_##T(c, dim + 1, from + i * c->from[dim], to + i * c->to[dim]);                         \
  }
COPY_LINE(any8)
COPY_LINE(any16)
COPY_LINE(any32)
COPY_LINE(any64)

void exec_copy_run(const exec_copy *c, const void *from, void *to) {
  for (uint32_t i = 0; i < c->rank; i++)
    if (c->extent[i] <= 0) return;
  switch (c->element) {
  case 1: box_any8(c, 0, from, to); break;
  case 2: box_any16(c, 0, from, to); break;
  case 4: box_any32(c, 0, from, to); break;
  default: box_any64(c, 0, from, to); break;
  }
}

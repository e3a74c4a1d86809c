/* The words that the string attributes of pad, resize and scatter may hold. */
#ifndef RUNTIME_MODES_H
#define RUNTIME_MODES_H

#include <stddef.h>
#include <string.h>

#define PAD_MODE_MAP(X) X(constant) X(reflect) X(edge) X(wrap)
#define RESIZE_MODE_MAP(X) X(nearest) X(linear) X(cubic)
#define COORDINATES_MAP(X)                                                                         \
  X(half_pixel)                                                                                    \
  X(asymmetric)                                                                                    \
  X(align_corners)                                                                                 \
  X(pytorch_half_pixel)                                                                            \
  X(half_pixel_symmetric)                                                                          \
  X(tf_half_pixel_for_nn)
#define SCATTER_MODE_MAP(X) X(none) X(add) X(mul) X(max) X(min)
#define ROUNDING_MAP(X) X(round_prefer_floor) X(round_prefer_ceil) X(floor) X(ceil)

#define X(word) PAD_##word,
typedef enum pad_mode { PAD_MODE_MAP(X) PAD_MODE_COUNT } pad_mode;
#undef X
#define X(word) RESIZE_##word,
typedef enum resize_mode { RESIZE_MODE_MAP(X) RESIZE_MODE_COUNT } resize_mode;
#undef X
#define X(word) COORDINATES_##word,
typedef enum coordinates { COORDINATES_MAP(X) COORDINATES_COUNT } coordinates;
#undef X
#define X(word) SCATTER_##word,
typedef enum scatter_mode { SCATTER_MODE_MAP(X) SCATTER_MODE_COUNT } scatter_mode;
#undef X
#define X(word) ROUNDING_##word,
typedef enum rounding { ROUNDING_MAP(X) ROUNDING_COUNT } rounding;
#undef X

#define X(word) #word,
static const char *const pad_modes[] = {PAD_MODE_MAP(X)};
static const char *const resize_modes[] = {RESIZE_MODE_MAP(X)};
static const char *const coordinate_modes[] = {COORDINATES_MAP(X)};
static const char *const rounding_modes[] = {ROUNDING_MAP(X)};
static const char *const scatter_modes[] = {SCATTER_MODE_MAP(X)};
#undef X

/* The index of a word, `count` when it is not among them. */
static inline size_t mode_find(const char *const *words, size_t count, const char *word) {
  size_t i = 0;
  while (i < count && (!word || strcmp(words[i], word) != 0)) i++;
  return i;
}

#endif

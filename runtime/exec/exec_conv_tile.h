/* The innermost part of a convolution summed as cores do it (exec_conv_sums.c): a tile is a few
 * windows by some filters, whose sums stay in registers. */
#ifndef RUNTIME_EXEC_CONV_TILE_H
#define RUNTIME_EXEC_CONV_TILE_H

#include <stdbool.h>
#include <stdint.h>

enum { TILE_PLACES = 12, TILE_FILTERS = 16, TILE_CHAINS = 4 }; /* at most */

/* Channels [from, to), and as many times the taps terms of a sum. */
typedef struct tile_part {
  int64_t from, to;
  uint32_t ends; /* chains that end with it, the innermost first */
  bool first;    /* takes the bias */
} tile_part;

typedef struct tile_sum {
  const tile_part *part;
  uint32_t part_count, chains; /* one inside the other */
  int64_t taps;
  bool clips; /* results */
  float clip_min, clip_max;
} tile_sum;

/* Sums of chains, those of a place side by side: the innermost chain first. All zero before a tile
 * and, but for the outermost, after. */
typedef struct tile_chains {
  float of[TILE_CHAINS + 1][TILE_PLACES * TILE_FILTERS] __attribute__((aligned(64)));
} tile_chains;

/* Adds up to chains->of[sum->chains]. Windows begin at x[place], what a term takes of them term[i]
 * elements farther; its `filters` weights lie side by side, in the order of terms, aligned to as
 * many floats as these are, as is the bias. No bias: NULL. */
typedef void tile_add(const tile_sum *sum, const float *const *x, const int64_t *term,
                      const float *weights, const float *bias, tile_chains *chains);

typedef struct conv_tile {
  uint32_t places, filters;
  tile_add *add;
} conv_tile;

/* The tile for so many filters that are left, at least 1, on this machine. */
conv_tile conv_tile_for(int64_t filters);
/* The results of `places` windows, `filters` of each to y[place], and zeros in their stead. */
void conv_tile_store(const conv_tile *tile, const tile_sum *sum, tile_chains *chains,
                     float *const *y, uint32_t places, uint32_t filters);

#endif

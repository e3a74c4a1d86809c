/* What searches share: random numbers, the same on every host, and a clock. */
#ifndef WAFER_PASSES_SEARCH_H
#define WAFER_PASSES_SEARCH_H

#include <stdint.h>
#include <time.h>

typedef struct rng {
  uint64_t state;
} rng;

static inline uint64_t rng_next(rng *r) {
  uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static inline uint32_t rng_below(rng *r, uint32_t n) {
  return (uint32_t)(((rng_next(r) >> 32) * n) >> 32);
}
static inline double rng_unit(rng *r) {
  return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* On a clock that does not go back. */
static inline double search_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif

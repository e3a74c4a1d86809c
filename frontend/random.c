#include "random.h"

#include <math.h>

#define SHIFT 397

void random_seed(random_state *r, uint32_t seed) {
  *r = (random_state){.at = RANDOM_WORDS};
  for (uint32_t i = 0; i < RANDOM_WORDS; i++) {
    r->word[i] = seed;
    seed = 1812433253u * (seed ^ seed >> 30) + i + 1;
  }
}

static void refill(random_state *r) {
  for (uint32_t i = 0; i < RANDOM_WORDS; i++) {
    uint32_t next = r->word[(i + 1) % RANDOM_WORDS];
    uint32_t mixed = (r->word[i] & 0x80000000u) | (next & 0x7fffffffu);
    r->word[i] = r->word[(i + SHIFT) % RANDOM_WORDS] ^ mixed >> 1 ^ (mixed & 1 ? 0x9908b0dfu : 0);
  }
  r->at = 0;
}

static uint32_t next_word(random_state *r) {
  if (r->at == RANDOM_WORDS) refill(r);
  uint32_t y = r->word[r->at++];
  y ^= y >> 11;
  y ^= y << 7 & 0x9d2c5680u;
  y ^= y << 15 & 0xefc60000u;
  return y ^ y >> 18;
}

double random_uniform(random_state *r) {
  uint32_t high = next_word(r) >> 5, low = next_word(r) >> 6;
  return ((double)high * 0x1p26 + low) * 0x1p-53;
}

/* Marsaglia's polar method. */
double random_normal(random_state *r) {
  double x, y, square;
  if (r->has_normal) {
    r->has_normal = false;
    return r->normal;
  }
  do {
    x = 2 * random_uniform(r) - 1;
    y = 2 * random_uniform(r) - 1;
    square = x * x + y * y;
  } while (square >= 1 || square == 0);
  double factor = sqrt(-2 * log(square) / square);
  r->normal = factor * x;
  r->has_normal = true;
  return factor * y;
}

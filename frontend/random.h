/* The Mersenne Twister MT19937 and its numbers as numpy.random.RandomState draws them, which ONNX's
 * seeded operators are tested against. */
#ifndef FRONTEND_RANDOM_H
#define FRONTEND_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

#define RANDOM_WORDS 624

typedef struct random_state {
  uint32_t word[RANDOM_WORDS], at;
  bool has_normal;
  double normal; /* the second one of a pair */
} random_state;

void random_seed(random_state *r, uint32_t seed);
double random_uniform(random_state *r); /* 0 <= u < 1, 53 bits */
double random_normal(random_state *r);  /* mean 0, deviation 1 */

#endif

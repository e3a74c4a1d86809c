/* Whose turn it is at something shared, as the edge or MemoryX. Private to runtime/. */
#ifndef RUNTIME_TURNS_H
#define RUNTIME_TURNS_H

#include <stdint.h>

/* When something shared is taken: the latest stretches, apart and in order. What is asked for later
 * may find room before them, as an early output of the next sample does before a late one of this.
 */
#define TURNS 512
typedef struct turns {
  uint32_t count;
  uint64_t from[TURNS], to[TURNS];
  uint64_t forgotten; /* nothing is free before */
} turns;

/* Occupies it for `cycles`, from the first moment at or after `start` at which it is free for so
 * long; that moment. */
uint64_t turns_take(turns *t, uint64_t start, uint64_t cycles);

#endif

/* What router_bits.c works on, and router_bits_make.c makes: bits of queues, ends of ways. */
#ifndef RUNTIME_ROUTER_BITS_H
#define RUNTIME_ROUTER_BITS_H

#include <stddef.h>

#include "router.h"

/* Bits that are looked at together: a line of the cache of each kind. */
#define BITS_WORDS 8
#define BITS_GROUP (64 * BITS_WORDS)
typedef struct bits_group {
  alignas(64) uint64_t has[BITS_WORDS]; /* a wavelet that may leave */
  uint64_t two[BITS_WORDS];             /* of them; never of a queue that is as others are */
  uint64_t barred[BITS_WORDS];          /* no room beyond */
  uint64_t after[BITS_WORDS]; /* within a field: those whose turn comes before that of all others */
  uint64_t goes[BITS_WORDS];
  uint64_t comes[BITS_WORDS];
  uint64_t apart[BITS_WORDS]; /* there is an end */
  uint64_t unused[BITS_WORDS];
} bits_group;
static_assert(sizeof(bits_group) == 64 * BITS_WORDS, "a place is a bit of a power of two");

/* Of a bit: where that of a kind is, counted from the first group. */
#define BITS_PLACE(kind, bit)                                                                      \
  ((bit) / BITS_GROUP * 4096 + (uint32_t)offsetof(bits_group, kind) * 8 + (bit) % BITS_GROUP)
#define BITS_PLACE_GROUP 4096

/* Fields of links: so many candidates at most. */
enum { BITS_1, BITS_4, BITS_8, BITS_16, BITS_32, BITS_WIDTHS };

/* A bit of which a hop is more than a bit: it comes out of a queue that is as others are, or goes
 * into one, or both. The wavelets in between keep their order: who writes them down where a way
 * begins counts them, and who reads them where it ends. */
typedef struct bits_end {
  alignas(64) fabric_entry *words; /* of the way; NULL: there is none */
  uint32_t mask, at;
  uint32_t bit;
  uint32_t from; /* the queue; FABRIC_NONE: the bit says all of it */
  uint32_t next; /* place of the bit of the queue beyond, FABRIC_NONE: it is as others are, */
  uint32_t to;   /* and this one */
  uint16_t latency, hops; /* to the queue beyond */
} bits_end;

/* Of a strip. A group has fields of one width; the narrow ones come first. */
struct router_bits {
  uint32_t groups, below[BITS_WIDTHS]; /* groups of that width end here */
  bits_group *at;
  uint8_t *active;        /* groups in which somebody may go, or has come */
  uint32_t *to, *from;    /* of a bit: the places of `comes` beyond and of `barred` before it */
  uint32_t *end_of;       /* of those apart, which lead to a group behind the last one */
  uint32_t *list, listed; /* of bits or ends */
  uint32_t count;         /* who went in the cycle before */
  bits_end *ends;
  uint32_t end_count;
  fabric_entry *pool;
  bool busy; /* somebody went, or there is news */
};
#define BITS_BEYOND 64 /* entries of lists that may be written behind the last one */

/* The word of a place; its bit is that of the place. */
static inline uint64_t *bits_word(const struct router_bits *b, uint32_t place) {
  return (uint64_t *)b->at + place / 64;
}
static inline uint64_t bits_mask(uint32_t bit) {
  return 1ull << bit % 64;
}
static inline bool bits_apart(const struct router_bits *b, uint32_t bit) {
  return b->at[bit / BITS_GROUP].apart[bit / 64 % BITS_WORDS] & bits_mask(bit);
}

#endif

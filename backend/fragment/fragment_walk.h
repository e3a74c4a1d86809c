/* A fragment that a clock goes through: between fragment_clock.c, for which it is one more piece of
 * work of each core, and fragment_walk.c, which goes along its lines. */
#ifndef BACKEND_FRAGMENT_WALK_H
#define BACKEND_FRAGMENT_WALK_H

#include "fragment_clock.h"

typedef struct walk {
  fragment_clock *c;
  const fragment *f;
  const fragment_line *line;
  uint64_t times;
  uint32_t trunk;        /* coordinate of the line whose links are used */
  int64_t *past;         /* of the bus at hand */
  int64_t *enter, *done; /* of each position of the line */
  uint32_t *threads;     /* the same: microthreads for its transfers */
  int64_t *ends;         /* the same: of each of its FRAGMENT_TRANSFERS, so far */
  int64_t *begins;       /* the same: when the first word of these is there */
  int64_t edge;          /* the clock's, behind this fragment */
  int64_t border;        /* cycles for which its words keep the border busy */
  int64_t left;          /* the clock's, behind this fragment */
  int64_t leaves;        /* when the first word of cores has come to the border, of those so far */
  int64_t setup, ramp, hop;
  int64_t around;            /* cycles of the way that words make around others, at most */
  uint64_t own, link, taken; /* words that find room at a sender, on a link, at a taker */
} walk;

static inline int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Room for what the fragment's lines leave behind, time after time. NULL: out of memory. */
fragment_past *walk_past(const fragment_clock *c, const fragment *f);
/* Moves the clocks of the cores that are on lines of the fragment. False: out of memory. */
bool walk_lines(walk *w);

#endif

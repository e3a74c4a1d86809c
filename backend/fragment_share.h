/* Colours that several fragments of a launch have at the same routers. Private to the linker.
 *
 * Where words of two fragments come from the same core, they may go on one colour: its route is the
 * union of theirs, a tree from that core, and every core of the tree gets all words in the order in
 * which fragments follow each other, of which filters at its ramp keep those that the fragment
 * sends it. As all cores are at the fragments in that order, none waits for words that come behind
 * those of a later one; where samples go ahead, only fragments that are due less than a period
 * apart are in that order of every core. A colour with switches, with chains of partial sums or
 * with the border at an end is shared with none. */
#ifndef BACKEND_FRAGMENT_SHARE_H
#define BACKEND_FRAGMENT_SHARE_H

#include "fragment_color.h"

typedef enum share_state {
  SHARE_FREE,    /* no fragment has the colour there */
  SHARE_JOINS,   /* others have, whose words come from the same cores */
  SHARE_CLASHES, /* others have */
} share_state;

/* Empty. NULL: out of memory. */
share *share_create(wafer_arena *arena, const fragment_link *link);
/* The fragment has become another, whose colours have other routes. */
void share_again(share *s, uint32_t at);
/* What it would be to give colour `color` of fragment `at` the real one. */
share_state share_look(const share *s, uint32_t at, uint32_t color, uint32_t real);
/* Does it. False: out of memory. */
bool share_take(share *s, uint32_t at, uint32_t color, uint32_t real);

/* The routes and filters of colours that may be shared, with real colours, into `out`; the others
 * stay to be written. False: out of memory. */
bool share_write(share *s, fragment *out);
/* Is it one of those? */
bool share_may(const share *s, uint32_t at, uint32_t color);

#endif

/* Colours that several fragments of a launch have at the same routers. Private to the linker.
 *
 * Where words of two fragments come from the same core, they may go on one colour: its route is the
 * union of theirs, a tree from that core, and every core of the tree gets all words in the order in
 * which fragments follow each other, of which filters at its ramp keep those that the fragment
 * sends it. As all cores are at the fragments in that order, none waits for words that come behind
 * those of a later one; where samples go ahead, only fragments that are due less than a period
 * apart are in that order of every core.
 *
 * A colour with switches, or with chains of partial sums, has words of several cores. Where routers
 * do for one fragment what they do for the other, the words of one go the ways of the other behind
 * them, as those of a later sample do; each router lets all senders of the first by before any of
 * the second. So such colours are one where no router that has both does different things; then
 * lines of one that are joined are those of the other. Filters keep what one fragment sends, then
 * what the other does. A colour with the border at an end is shared with none. */
#ifndef BACKEND_FRAGMENT_SHARE_H
#define BACKEND_FRAGMENT_SHARE_H

#include "fragment_color.h"

typedef enum share_state {
  SHARE_FREE,    /* no fragment has the colour there */
  SHARE_JOINS,   /* others have, whose words come from the same cores, or go the same ways */
  SHARE_CLASHES, /* others have */
} share_state;

/* Empty. NULL: out of memory. */
share *share_create(wafer_arena *arena, const fragment_link *link);
/* Nobody has a colour any more. */
void share_clear(share *s);
/* The fragment has become another, whose colours have other routes. */
void share_again(share *s, uint32_t at);
/* What it would be to give colour `color` of fragment `at` the real one: states[p], of each of
 * `count` parts. `parts`: as around_look tells them of the colour; NULL: all is one. */
void share_look(share *s, uint32_t at, uint32_t color, uint32_t real, const around_router *parts,
                uint32_t count, share_state *states);
/* Does it. False: out of memory. */
bool share_take(share *s, uint32_t at, uint32_t color, uint32_t real, const around_router *parts,
                uint32_t count);

/* The routes and filters of colours that may be shared, with real colours, into `out`; the others
 * stay to be written. False: out of memory. */
bool share_write(share *s, fragment *out);
/* Is it one of those? */
bool share_may(const share *s, uint32_t at, uint32_t color);

#endif

/* One pass of an exchange: every core of the target takes from the cores of its own line. Private
 * to the exchange. */
#ifndef BACKEND_EXCHANGE_PASS_H
#define BACKEND_EXCHANGE_PASS_H

#include "exchange_joint.h"
#include "exchange_line.h"

/* Lines are rows of the spreads as they are given; `columns`: they have been turned over before,
 * and lines are columns of the fabric. */
typedef struct pass {
  const exchange *x;
  wafer_arena *scratch;
  const spread *from, *to; /* rectangles of the same rows */
  /* Further targets of the same rows, in columns of their own on the same side of `from`: what
   * several want leaves a sender once. */
  const spread *const *with;
  uint32_t with_count;
  index_map map;
  bool columns;
  const uint32_t *group;  /* of each column of `from`: the nearest of a group serves; NULL: columns
                             that hold the same are one */
  const uint32_t *trunks; /* NULL; or of each row: those of a number lie side by side, take the
                             same, and share a trunk (line_place) */
  const line_border *border; /* column 0 is the host, column 1 of the spreads lies at x = 0 */
} pass;

/* Adds it to the fragment. False: out of memory. */
bool pass_add(const pass *p, fragment *f, uint64_t *cycles);

/* To where its words go, if all go to one side of their senders. */
fragment_way pass_way(const pass *p);

/* The one of `sorted` that is nearest to `at`, the lower one of two. */
uint32_t pass_nearest(const uint32_t *sorted, uint32_t count, uint32_t at);

#endif

/* Which real colours the fragments of a launch have. Private to the linker. */
#ifndef BACKEND_FRAGMENT_COLOR_H
#define BACKEND_FRAGMENT_COLOR_H

#include "fragment_around.h"

typedef struct share share;

typedef struct fragment_coloring {
  const wafer_diag *diag;
  wafer_arena *arena;
  const wafer_machine *machine;
  const fragment_link *link;
  uint8_t (*of)[WAFER_CORE_BINDINGS]; /* of each fragment: local -> real */
  uint32_t *used;                     /* of each router: set of real colours */
  share *shared;       /* NULL: no two fragments have one colour at a router (fragment_share.h) */
  around *ways;        /* NULL: words keep to their lines */
  const fragment **at; /* the fragments, with the ways that they have */
  fragment_link own;   /* the caller's, with these */
} fragment_coloring;

/* For messages: fragment i of the launch. */
wafer_loc fragment_loc(const fragment_link *link, uint32_t i);

/* NO_FIT: more colours at a router than the machine has. */
wafer_status fragment_color_all(fragment_coloring *l);
/* fragment_ways.c. Real colours for the fragments, which may leave their lines and share colours.
 * *enough: there are enough; else nothing is told. False: out of memory. */
bool fragment_color_ways(fragment_coloring *l, const fragment_link *link, bool shared,
                         bool *enough);

/* Routes and filters of all fragments. */
wafer_status fragment_color_write(const fragment_coloring *l, wafer_fabric_program *out);

#endif

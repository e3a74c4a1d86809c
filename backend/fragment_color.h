/* Which real colours the fragments of a launch have. Private to the linker. */
#ifndef BACKEND_FRAGMENT_COLOR_H
#define BACKEND_FRAGMENT_COLOR_H

#include "fragment.h"

typedef struct share share;

typedef struct fragment_coloring {
  const wafer_diag *diag;
  wafer_arena *arena;
  const wafer_machine *machine;
  const fragment_link *link;
  uint8_t (*of)[WAFER_CORE_BINDINGS]; /* of each fragment: local -> real */
  uint32_t *used;                     /* of each router: set of real colours */
  share *shared; /* NULL: no two fragments have one colour at a router (fragment_share.h) */
} fragment_coloring;

/* For messages: fragment i of the launch. */
wafer_loc fragment_loc(const fragment_link *link, uint32_t i);

/* NO_FIT: more colours at a router than the machine has. */
wafer_status fragment_color_all(fragment_coloring *l);
/* Routes and filters of all fragments. */
wafer_status fragment_color_write(const fragment_coloring *l, wafer_fabric_program *out);

#endif

/* The routers of a colour that is to go other ways: between fragment_cells.c, which tells what it
 * does there, and fragment_around.c, which looks for the ways. */
#ifndef BACKEND_FRAGMENT_CELLS_H
#define BACKEND_FRAGMENT_CELLS_H

#include "fragment_around.h"

#define NONE UINT32_MAX

/* A router of the colour at hand. */
typedef struct cell {
  wafer_route route; /* of this router alone */
  bool passes;       /* it does nothing else */
  bool gone;         /* words go another way */
} cell;

/* Words leave `from` through a port, pass cells in between, and come to `to` through a port. */
typedef struct stretch {
  uint32_t from, to; /* cells */
  uint8_t leaves, enters;
  uint32_t passed; /* routers in between */
} stretch;

struct around {
  wafer_arena *arena;
  const wafer_machine *machine;
  uint32_t width, height;
  const uint32_t *used;
  bool *blocked;      /* routers that are not to be used: of cores that are dead, or of others */
  uint32_t *awaited;  /* of each router: colours that are to begin, end or branch off there */
  uint8_t *kept_here; /* the same: colours kept for these, beside those; 0: none are */
  uint8_t *kept_near; /* the same: for what begins or ends beside it */
  bool ignore;        /* what is kept */
  bool *there;        /* routers of parts; none in between */
  uint32_t *at;       /* of each router: its cell, NONE */
  bool *passed;       /* the same: words of the colour pass there */
  uint8_t *via;   /* the same: the port through which the search came to it, WAFER_PORTS: not yet */
  uint32_t *next; /* routers in the order in which the search came to them */
  around_router *looked; /* the same: what is told of cells */
  cell *cells;
  uint32_t count, room;
  stretch *stretches;
  uint32_t stretch_count, stretch_room;
  uint32_t farthest; /* hops that one of them is longer by, of those found last */
};

static inline uint8_t opposite(uint8_t port) {
  return (uint8_t)((port + 2) % 4);
}

/* The router beyond the port; NONE: outside. */
static inline uint32_t beyond(const around *a, uint32_t at, uint8_t port) {
  uint32_t x = at % a->width, y = at / a->width;
  switch (port) {
  case WAFER_PORT_north: return y ? at - a->width : NONE;
  case WAFER_PORT_south: return y + 1 < a->height ? at + a->width : NONE;
  case WAFER_PORT_west: return x ? at - 1 : NONE;
  default: return x + 1 < a->width ? at + 1 : NONE;
  }
}

static inline uint32_t router_of(const around *a, const cell *c) {
  return c->route.cores.y * a->width + c->route.cores.x;
}

/* The cell beyond the port, NONE. */
static inline uint32_t cell_beyond(const around *a, uint32_t router, uint8_t port) {
  uint32_t other = beyond(a, router, port);
  return other == NONE ? NONE : a->at[other];
}

/* Has the router no colour for words that only pass? `near`: they begin or end beside it. */
bool cells_kept(const around *a, uint32_t router, bool near);
/* Is it a passing cell whose words are not to pass? */
bool cells_closed(const around *a, const cell *c);
/* One more cell. False: out of memory, here and below. */
bool cells_add(around *a, const wafer_route *route, uint32_t router, bool passes);
/* Those of a fragment's colour in place of all. */
bool cells_load(around *a, const fragment *f, uint32_t color);
/* The stretches between them. */
bool cells_stretch(around *a);

#endif

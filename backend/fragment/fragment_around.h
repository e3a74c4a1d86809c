/* Other ways for words on which a colour is free. Private to the linker.
 *
 * Routes of a colour are cores that words begin at, end at or branch off at, and stretches between
 * these on which routers do nothing but pass them on. Only the former must be free: a stretch on
 * which others have the colour goes around them, over any routers nearby. */
#ifndef BACKEND_FRAGMENT_AROUND_H
#define BACKEND_FRAGMENT_AROUND_H

#include "fragment.h"

typedef struct around around;

/* A set of routers. */
typedef struct fragment_where {
  const bool *there; /* of each */
  uint32_t width;    /* of the fabric */
} fragment_where;

/* fragment_split.c. The fragment with another colour, its last, where it has `color` on those
 * routers: no route of it comes from them or goes to them. NULL: out of memory. */
const fragment *fragment_split(wafer_arena *arena, const fragment *f, uint32_t color,
                               const fragment_where *where);

/* `used`: of each router, the set of colours that it has at the time. NULL: out of memory. */
around *around_create(wafer_arena *arena, const wafer_machine *machine, const fragment_link *link,
                      const uint32_t *used);

/* All fragments are to get colours. False: out of memory. */
bool around_begin(around *a, const fragment_link *link);
/* Of each router: how many colours are to begin, end or branch off there. */
const uint32_t *around_awaited(const around *a);
/* The fragment has got its own, or is about to: none are kept for it any more. False: out of
 * memory. */
bool around_came(around *a, const fragment *f);
/* From now on colours are kept for words that begin, end or branch off at the router, and the more
 * the more often this is asked for; and beside it for words that begin or end there. */
void around_keep(around *a, uint32_t router);

/* Whether words may take those that are kept. */
void around_ignore(around *a, bool kept);

/* What a fragment's colour does at a router. `part`: of those with the same words pass from one to
 * the other; of another none do. `passes`: they pass this one alone; `closed`: and are not to, for
 * colours are kept for others. */
typedef struct around_router {
  uint32_t at, part;
  bool passes, closed;
} around_router;
/* The routers of a fragment's colour, until anything else is looked at, and how many parts they
 * are. NULL: out of memory. */
const around_router *around_look(around *a, const fragment *f, uint32_t color, uint32_t *count,
                                 uint32_t *parts);

#define AROUND_NEAR 24 /* routers to each side of a stretch that are looked at */
#define AROUND_NOWHERE UINT32_MAX

/* Looks for ways of the fragment's colour on routers that have not got the real one. *hops: by how
 * many they are longer in all, AROUND_NOWHERE: there are none. False: out of memory. */
bool around_find(around *a, const fragment *f, uint32_t color, uint32_t real, uint32_t *hops);
/* The fragment with one more colour, for some of the parts of one. NULL: out of memory. */
const fragment *around_split(around *a, wafer_arena *arena, const fragment *f, uint32_t color,
                             const bool *parts);
/* The fragment with the ways found last. NULL: out of memory. */
const fragment *around_take(const around *a, wafer_arena *arena, const fragment *f, uint32_t color);

#endif

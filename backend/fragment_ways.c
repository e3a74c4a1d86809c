/* Colours where words leave their lines. Fragments get theirs one after the other: lines on which
 * one is free, or words that come from the same core; else some of their lines get one more, or
 * words go around. Who is stuck comes first the next time, and colours are kept for it where it
 * must have one. */
#include <string.h>

#include "fragment_share.h"

#define MOST_TRIES 96

typedef struct ways {
  fragment_coloring *l;
  uint32_t *order;    /* of fragments */
  uint32_t at, color; /* at hand */
  const around_router *routers;
  uint32_t count, parts;
} ways;

static bool look(ways *w) {
  w->routers = around_look(w->l->ways, w->l->at[w->at], w->color, &w->count, &w->parts);
  return w->routers != NULL;
}

/* The colours that each part cannot have on its lines. NULL: out of memory. */
static uint32_t *taken_of(const ways *w, uint32_t own) {
  const fragment_coloring *l = w->l;
  uint32_t *sets = WAFER_NEW(l->arena, uint32_t, w->parts);
  for (uint32_t i = 0; i < w->count && sets; i++) {
    const around_router *r = &w->routers[i];
    sets[r->part] |= own | l->used[r->at] | (r->closed ? ~(uint32_t)0 : 0);
  }
  return sets;
}

/* May the colour, of words from the same cores, be there, too? */
static bool joins(const ways *w, uint32_t real) {
  for (uint32_t i = 0; i < w->count; i++)
    if (w->routers[i].closed && !(w->l->used[w->routers[i].at] >> real & 1)) return false;
  return share_look(w->l->shared, w->at, w->color, real) == SHARE_JOINS;
}

/* The colour that most parts can have on their lines; *free: which. How many they are. */
static uint32_t find_free(const ways *w, const uint32_t *sets, bool *free, uint32_t *real) {
  uint32_t most = 0, colors = w->l->machine->colors;
  for (uint32_t c = 0; c < colors; c++) {
    uint32_t can = 0;
    for (uint32_t p = 0; p < w->parts; p++) can += !(sets[p] >> c & 1);
    if (can <= most) continue;
    most = can;
    *real = c;
  }
  for (uint32_t p = 0; p < w->parts && most; p++) free[p] = !(sets[p] >> *real & 1);
  return most;
}

/* Those parts have the fragment's colour, the others one more. */
static bool split(ways *w, bool *parts) {
  fragment_coloring *l = w->l;
  for (uint32_t p = 0; p < w->parts; p++) parts[p] = !parts[p];
  l->at[w->at] = around_split(l->ways, l->arena, l->at[w->at], w->color, parts);
  if (!l->at[w->at]) return false;
  if (l->shared) share_again(l->shared, w->at);
  return look(w);
}

/* The colour with which words go the least way around. */
static bool go_around(ways *w, uint32_t own, uint32_t *real) {
  fragment_coloring *l = w->l;
  uint32_t least = AROUND_NOWHERE, hops;
  for (uint32_t c = 0; c < l->machine->colors; c++) {
    if (own >> c & 1) continue;
    if (!around_find(l->ways, l->at[w->at], w->color, c, &hops)) return false;
    if (hops >= least) continue;
    least = hops;
    *real = c;
  }
  if (least == AROUND_NOWHERE) return true;
  if (!around_find(l->ways, l->at[w->at], w->color, *real, &hops)) return false;
  l->at[w->at] = around_take(l->ways, l->arena, l->at[w->at], w->color);
  return l->at[w->at] != NULL;
}

/* On lines, of some parts at least, or around. UINT32_MAX: neither. False: out of memory. */
static bool find_place(ways *w, uint32_t own, bool may_split, uint32_t *real) {
  fragment_coloring *l = w->l;
  *real = UINT32_MAX;
  if (!look(w)) return false;
  uint32_t *sets = taken_of(w, own);
  bool *some = WAFER_NEW(l->arena, bool, w->parts);
  if (!sets || !some) return false;
  uint32_t free = find_free(w, sets, some, real);
  if (free == w->parts) return true;
  if (free && may_split) return split(w, some);
  *real = UINT32_MAX;
  return go_around(w, own, real);
}

/* For a colour of a fragment; UINT32_MAX: there is none for the first of its parts. */
static bool find_real(ways *w, uint32_t own, uint32_t *real) {
  fragment_coloring *l = w->l;
  *real = UINT32_MAX;
  if (!look(w)) return false;
  for (uint32_t c = 0; l->shared && c < l->machine->colors; c++)
    if (!(own >> c & 1) && joins(w, c)) return *real = c, true;
  bool may_split = l->at[w->at]->colors < WAFER_COUNT(*l->of);
  for (int ignore = 0; ignore < 2 && *real == UINT32_MAX; ignore++) {
    around_ignore(l->ways, ignore);
    if (!find_place(w, own, may_split, real)) return false;
  }
  around_ignore(l->ways, false);
  if (*real != UINT32_MAX || w->parts == 1 || !may_split) return true;
  bool *first = WAFER_NEW(l->arena, bool, w->parts);
  if (!first || !look(w)) return false;
  first[0] = true;
  return split(w, first) && find_real(w, own, real);
}

/* The colour at hand is taken at its routers. */
static bool take(ways *w, uint32_t real) {
  w->l->of[w->at][w->color] = (uint8_t)real;
  if (!look(w)) return false;
  for (uint32_t i = 0; i < w->count; i++) w->l->used[w->routers[i].at] |= 1u << real;
  return true;
}

/* *found: colours for all of the fragment, with the ways that it then has. */
static bool color_fragment(ways *w, bool *found) {
  fragment_coloring *l = w->l;
  uint32_t own = 0; /* of colours that may be shared a fragment has none twice */
  if (!around_came(l->ways, l->at[w->at])) return false;
  for (w->color = 0; w->color < l->at[w->at]->colors; w->color++) {
    uint32_t real;
    if (!find_real(w, own, &real)) return false;
    *found = real != UINT32_MAX;
    if (!*found) return true;
    if (!take(w, real)) return false;
    if (l->shared) own |= 1u << real;
  }
  if (l->shared) share_again(l->shared, w->at);
  for (uint32_t c = 0; c < l->at[w->at]->colors && l->shared; c++)
    if (!share_take(l->shared, w->at, c, l->of[w->at][c])) return false;
  return true;
}

/* *found: colours for all. */
static bool color_all(ways *w, const fragment_link *link, bool shared, bool *found) {
  fragment_coloring *l = w->l;
  memset(l->used, 0, (size_t)link->width * link->height * sizeof *l->used);
  for (uint32_t i = 0; i < link->count; i++) l->at[i] = link->at[i];
  l->shared = shared ? share_create(l->arena, l->link) : NULL;
  if (!around_begin(l->ways, link) || (shared && !l->shared)) return false;
  *found = true;
  for (uint32_t i = 0; i < link->count && *found; i++) {
    w->at = w->order[i];
    if (!color_fragment(w, found)) return false;
  }
  return true;
}

/* *any: the stuck part may have it better the next time. */
static bool prefer(ways *w, bool *any) {
  uint32_t i = 0;
  while (w->order[i] != w->at) i++;
  *any = i > 0;
  memmove(w->order + 1, w->order, i * sizeof *w->order);
  w->order[0] = w->at;
  if (!look(w)) return false;
  for (i = 0; i < w->count; i++)
    if (!w->routers[i].passes && !w->routers[i].part)
      *any |= around_keep(w->l->ways, w->routers[i].at);
  return true;
}

/* As above, and nothing of it is left. */
static bool try_all(ways *w, const fragment_link *link, bool shared, bool *found, bool *more) {
  wafer_arena *arena = w->l->arena;
  w->l->arena = wafer_arena_create();
  bool made = w->l->arena && color_all(w, link, shared, found);
  if (made && !*found) made = prefer(w, more);
  wafer_arena_destroy(w->l->arena);
  w->l->arena = arena;
  return made;
}

bool fragment_color_ways(fragment_coloring *l, const fragment_link *link, bool shared,
                         bool *enough) {
  ways w = {.l = l, .order = WAFER_NEW(l->arena, uint32_t, link->count)};
  bool more = true;
  *enough = false;
  l->ways = around_create(l->arena, l->machine, link, l->used);
  if (!w.order || !l->ways) return false;
  for (uint32_t i = 0; i < link->count; i++) w.order[i] = i;
  for (uint32_t i = 0; i < MOST_TRIES && more && !*enough; i++)
    if (!try_all(&w, link, shared, enough, &more)) return false;
  return !*enough || color_all(&w, link, shared, enough);
}

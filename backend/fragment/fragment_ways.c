/* Colours where words leave their lines. Fragments get theirs one after the other: lines on which
 * one is free, or that of fragments with which they may share it; else some of their lines get one
 * more, or words go around. Where none is left, those give a colour up whom it costs least, and
 * come behind; colours are kept for what must have one there. */
#include <string.h>

#include "fragment_share.h"

#define MOST_TRIES 48 /* in a row, of which none got further than one before */
#define LOOK 3        /* at a router, among its colours */
#define LOOK_SHARED 12 /* the same, where others may have each of them */

typedef struct ways {
  fragment_coloring *l;
  bool *done;         /* fragments: have got all of theirs */
  uint32_t *given;    /* the same: how often they have given way */
  bool *needs;        /* routers at which a colour is looked for; none in between */
  uint32_t *own;      /* of each router: set of colours of the fragment at hand */
  uint32_t at, color; /* at hand */
  const around_router *routers;
  uint32_t count, parts;
} ways;

static bool look(ways *w) {
  w->routers = around_look(w->l->ways, w->l->at[w->at], w->color, &w->count, &w->parts);
  if (w->routers)
    fragment_spend(w->l->link->effort, w->count * (uint64_t)(w->l->shared ? LOOK_SHARED : LOOK));
  return w->routers != NULL;
}

/* What it would be to give the parts the real colour on their lines. */
static void look_parts(const ways *w, uint32_t real, share_state *states) {
  const fragment_coloring *l = w->l;
  for (uint32_t p = 0; p < w->parts; p++) states[p] = SHARE_FREE;
  if (l->shared) share_look(l->shared, w->at, w->color, real, w->routers, w->parts, states);
  for (uint32_t i = 0; i < w->count; i++) {
    const around_router *r = &w->routers[i];
    bool is_there = l->used[r->at] >> real & 1;
    bool clashes =
        is_there ? states[r->part] != SHARE_JOINS || w->own[r->at] >> real & 1 : r->closed;
    if (clashes) states[r->part] = SHARE_CLASHES;
  }
}

/* The colour that most parts can have; what it would be for each. How many they are: all, or those
 * that join others, if there are any. */
static uint32_t find_lines(const ways *w, share_state *states, uint32_t *real) {
  uint32_t most = 0, count = 0;
  share_state *own = WAFER_NEW(w->l->arena, share_state, w->parts);
  for (uint32_t c = 0; c < w->l->machine->colors && own; c++) {
    uint32_t joins = 0, free = 0;
    look_parts(w, c, own);
    for (uint32_t p = 0; p < w->parts; p++) {
      joins += own[p] == SHARE_JOINS;
      free += own[p] == SHARE_FREE;
    }
    bool all = joins + free == w->parts;
    uint32_t worth = joins * w->parts + free + all * w->parts * w->parts;
    if (worth <= most) continue;
    most = worth;
    count = all || !joins ? joins + free : joins;
    *real = c;
    memcpy(states, own, w->parts * sizeof *own);
    for (uint32_t p = 0; p < w->parts; p++)
      if (!all && joins && own[p] == SHARE_FREE) states[p] = SHARE_CLASHES;
  }
  return count;
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
static bool go_around(ways *w, uint32_t *real) {
  fragment_coloring *l = w->l;
  uint32_t least = AROUND_NOWHERE, hops;
  for (uint32_t c = 0; c < l->machine->colors; c++) {
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
static bool find_place(ways *w, bool may_split, uint32_t *real) {
  fragment_coloring *l = w->l;
  *real = UINT32_MAX;
  if (!look(w)) return false;
  share_state *states = WAFER_NEW(l->arena, share_state, w->parts);
  bool *some = WAFER_NEW(l->arena, bool, w->parts);
  if (!states || !some) return false;
  if (!w->parts) return *real = 0, true; /* no word has it */
  uint32_t count = find_lines(w, states, real);
  if (count == w->parts) return true;
  for (uint32_t p = 0; p < w->parts; p++) some[p] = count && states[p] != SHARE_CLASHES;
  if (count && may_split) return split(w, some);
  *real = UINT32_MAX;
  return go_around(w, real);
}

/* For a colour of a fragment; UINT32_MAX: there is none for the first of its parts. */
static bool find_real(ways *w, uint32_t *real) {
  fragment_coloring *l = w->l;
  bool may_split = l->at[w->at]->colors < WAFER_COUNT(*l->of);
  *real = UINT32_MAX;
  for (int ignore = 0; ignore < 2 && *real == UINT32_MAX; ignore++) {
    around_ignore(l->ways, ignore);
    if (!find_place(w, may_split, real)) return false;
  }
  around_ignore(l->ways, false);
  if (*real != UINT32_MAX || w->parts == 1 || !may_split) return true;
  bool *first = WAFER_NEW(l->arena, bool, w->parts);
  if (!first || !look(w)) return false;
  first[0] = true;
  return split(w, first) && find_real(w, real);
}

/* The colour at hand is taken at its routers. */
static bool take(ways *w, uint32_t real) {
  w->l->of[w->at][w->color] = (uint8_t)real;
  if (!look(w)) return false;
  for (uint32_t i = 0; i < w->count; i++) {
    w->l->used[w->routers[i].at] |= 1u << real;
    w->own[w->routers[i].at] |= 1u << real;
  }
  return true;
}

/* All of its colours are: others may share them. */
static bool end_fragment(ways *w) {
  fragment_coloring *l = w->l;
  if (l->shared) share_again(l->shared, w->at);
  for (w->color = 0; w->color < l->at[w->at]->colors; w->color++) {
    if (!look(w)) return false;
    for (uint32_t i = 0; i < w->count; i++) w->own[w->routers[i].at] = 0;
    if (l->shared &&
        !share_take(l->shared, w->at, w->color, l->of[w->at][w->color], w->routers, w->parts))
      return false;
  }
  return true;
}

/* *found: colours for all of the fragment, with the ways that it then has. */
static bool color_fragment(ways *w, bool *found) {
  fragment_coloring *l = w->l;
  if (!around_came(l->ways, l->at[w->at])) return false;
  for (w->color = 0; w->color < l->at[w->at]->colors; w->color++) {
    uint32_t real;
    if (!find_real(w, &real)) return false;
    *found = real != UINT32_MAX;
    if (!*found) return true;
    if (!take(w, real)) return false;
  }
  return end_fragment(w);
}

/* ---- who gives way ---- */

/* Nobody has a colour but those that are done. False: out of memory. */
static bool take_again(ways *w, const fragment_link *link) {
  fragment_coloring *l = w->l;
  size_t routers = (size_t)link->width * link->height;
  memset(l->used, 0, routers * sizeof *l->used);
  memset(w->own, 0, routers * sizeof *w->own);
  if (l->shared) share_clear(l->shared);
  if (!around_begin(l->ways, link)) return false;
  for (w->at = 0; w->at < link->count; w->at++) {
    if (!w->done[w->at]) continue;
    if (!around_came(l->ways, link->at[w->at])) return false;
    for (w->color = 0; w->color < l->at[w->at]->colors; w->color++)
      if (!take(w, l->of[w->at][w->color])) return false;
    if (!end_fragment(w)) return false;
  }
  return true;
}

/* Has the fragment the real colour at a router where one is looked for? */
static bool has_needed(const ways *w, const fragment_link *link, uint32_t of, uint32_t real) {
  const fragment *f = w->l->at[of];
  for (uint32_t k = 0; k < f->route_count; k++) {
    wafer_rect r = f->routes[k].cores;
    if (w->l->of[of][f->routes[k].color] != real) continue;
    for (uint32_t y = r.y; y < r.y + r.height; y++)
      for (uint32_t x = r.x; x < r.x + r.width; x++)
        if (w->needs[(size_t)y * link->width + x]) return true;
  }
  return false;
}

/* What it costs that others give the real colour up where it is looked for: more if they have given
 * way before. `give`: they do. */
static uint32_t cost_of(ways *w, const fragment_link *link, uint32_t real, bool give) {
  uint32_t cost = 0;
  for (uint32_t i = 0; i < link->count; i++) {
    if (!w->done[i] || !has_needed(w, link, i, real)) continue;
    cost += 1 + w->given[i];
    if (!give) continue;
    w->done[i] = false;
    w->given[i]++;
    w->l->at[i] = link->at[i];
  }
  return cost;
}

/* Has the fragment at hand the real colour where it looks for one? */
static bool is_own(const ways *w, uint32_t real) {
  for (uint32_t i = 0; i < w->count; i++)
    if (w->own[w->routers[i].at] >> real & 1) return true;
  return false;
}

/* Those that lack a colour least give it up, and come behind. */
static bool make_way(ways *w, const fragment_link *link) {
  uint32_t least = UINT32_MAX, real = 0, at = w->at;
  if (!look(w)) return false;
  for (uint32_t i = 0; i < w->count; i++) w->needs[w->routers[i].at] = true;
  for (uint32_t c = 0; c < w->l->machine->colors; c++) {
    uint32_t cost = is_own(w, c) ? UINT32_MAX : cost_of(w, link, c, false);
    if (cost >= least) continue;
    least = cost;
    real = c;
  }
  if (least != UINT32_MAX) (void)cost_of(w, link, real, true);
  for (uint32_t i = 0; i < w->count; i++)
    if (!w->routers[i].passes) around_keep(w->l->ways, w->routers[i].at);
  for (uint32_t i = 0; i < w->count; i++) w->needs[w->routers[i].at] = false;
  w->l->at[at] = link->at[at];
  w->given[at]++;
  return take_again(w, link);
}

/* The one that is next: who has given way most often. */
static bool next_fragment(ways *w, const fragment_link *link) {
  w->at = UINT32_MAX;
  for (uint32_t i = 0; i < link->count; i++)
    if (!w->done[i] && (w->at == UINT32_MAX || w->given[i] > w->given[w->at])) w->at = i;
  return w->at != UINT32_MAX;
}

static uint32_t done_of(const ways *w, const fragment_link *link) {
  uint32_t done = 0;
  for (uint32_t i = 0; i < link->count; i++) done += w->done[i];
  return done;
}

/* Colours that must begin, end or branch off at one router, wherever words pass: the most of any.
 */
static uint32_t demand_of(const ways *w, const fragment_link *link) {
  const uint32_t *awaited = around_awaited(w->l->ways);
  uint32_t most = 0;
  for (size_t i = 0; i < (size_t)link->width * link->height; i++)
    most = awaited[i] > most ? awaited[i] : most;
  return most;
}

bool fragment_color_ways(fragment_coloring *l, const fragment_link *link, bool shared,
                         bool *enough) {
  size_t routers = (size_t)link->width * link->height;
  ways w = {.l = l,
            .done = WAFER_NEW(l->arena, bool, link->count),
            .given = WAFER_NEW(l->arena, uint32_t, link->count),
            .own = WAFER_NEW(l->arena, uint32_t, routers),
            .needs = WAFER_NEW(l->arena, bool, routers)};
  *enough = false;
  l->ways = around_create(l->arena, l->machine, link, l->used);
  if (!w.given || !w.done || !w.own || !w.needs || !l->ways) return false;
  for (uint32_t i = 0; i < link->count; i++) l->at[i] = link->at[i];
  l->shared = shared ? share_create(l->arena, l->link) : NULL;
  if ((shared && !l->shared) || !take_again(&w, link)) return false;
  if (!shared && demand_of(&w, link) > l->machine->colors) return true;
  for (uint32_t tries = 0, best = 0; next_fragment(&w, link);) {
    bool found = true;
    if (fragment_is_spent(link->effort)) return true;
    if (!color_fragment(&w, &found)) return false;
    w.done[w.at] = found;
    if (found) continue;
    uint32_t done = done_of(&w, link);
    tries = done > best ? 0 : tries + 1;
    best = done > best ? done : best;
    if (tries > MOST_TRIES) return true;
    if (!make_way(&w, link)) return false;
  }
  return *enough = true;
}

/* Real colours of fragments, and their routes and filters with these. */
#include <string.h>

#include "fragment_share.h"

static wafer_status no_memory(const fragment_coloring *l) {
  return wafer_fail(l->diag, wafer_at_file(l->link->name), WAFER_NO_MEMORY,
                    "out of memory for the routes of %u fragments", l->link->count);
}

wafer_loc fragment_loc(const fragment_link *link, uint32_t i) {
  return wafer_at_kernel(link->name, link->at[i]->name, link->at[i]->node);
}

/* ---- colours ---- */

static uint32_t taken(const fragment_coloring *l, wafer_rect r) {
  uint32_t set = 0;
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    for (uint32_t x = r.x; x < r.x + r.width; x++) set |= l->used[y * l->link->width + x];
  return set;
}

static void take(fragment_coloring *l, wafer_rect r, uint32_t set) {
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    for (uint32_t x = r.x; x < r.x + r.width; x++) l->used[y * l->link->width + x] |= set;
}

/* The router of a colour's routes at which most colours are taken. */
static wafer_status refuse(const fragment_coloring *l, uint32_t at, uint32_t color) {
  const fragment *f = l->link->at[at];
  uint32_t most = 0, at_x = 0, at_y = 0;
  for (uint32_t i = 0; i < f->route_count; i++) {
    wafer_rect r = f->routes[i].cores;
    if (f->routes[i].color != color) continue;
    for (uint32_t y = r.y; y < r.y + r.height; y++)
      for (uint32_t x = r.x; x < r.x + r.width; x++) {
        uint32_t count = (uint32_t)__builtin_popcount(l->used[y * l->link->width + x]);
        if (count <= most) continue;
        most = count;
        at_x = x;
        at_y = y;
      }
  }
  if (l->link->lacks_colors) *l->link->lacks_colors = true;
  return wafer_fail(l->diag, fragment_loc(l->link, at), WAFER_NO_FIT,
                    "its routes need %u colors, %u of which are to be had: of the machine's %u "
                    "others use %u at core (%u,%u)%s",
                    f->colors, color, l->machine->colors, most, at_x, at_y,
                    l->link->steps ? "; weight streaming gives each stream all of them" : "");
}

/* The first colour that nobody has at the routers, UINT32_MAX: there is none. */
static uint32_t free_color(const fragment_coloring *l, const fragment *f, uint32_t color,
                           uint32_t own) {
  uint32_t set = own, real = 0;
  for (uint32_t r = 0; r < f->route_count; r++)
    if (f->routes[r].color == color) set |= taken(l, f->routes[r].cores);
  while (real < l->machine->colors && set >> real & 1) real++;
  return real < l->machine->colors ? real : UINT32_MAX;
}

/* One that fragments before have which send words from the same cores; else as above. */
static uint32_t find_color(const fragment_coloring *l, uint32_t at, uint32_t color, uint32_t own) {
  for (uint32_t real = 0; l->shared && real < l->machine->colors; real++) {
    share_state state = SHARE_CLASHES;
    if (!(own >> real & 1)) share_look(l->shared, at, color, real, NULL, 1, &state);
    if (state == SHARE_JOINS) return real;
  }
  return free_color(l, l->link->at[at], color, own);
}

/* *lacks: for which of its colours there is none, `colors` if there are enough. */
static wafer_status color_fragment(fragment_coloring *l, uint32_t at, uint32_t *lacks) {
  const fragment *f = l->link->at[at];
  uint32_t own = 0; /* a fragment's colours differ, wherever they are */
  if (f->colors > l->machine->colors || f->colors > WAFER_COUNT(*l->of))
    return wafer_fail(l->diag, fragment_loc(l->link, at), WAFER_NO_FIT,
                      "needs %u colors, the machine has %u", f->colors, l->machine->colors);
  for (*lacks = 0; *lacks < f->colors; ++*lacks) {
    uint32_t real = find_color(l, at, *lacks, own);
    if (real == UINT32_MAX) return WAFER_OK;
    l->of[at][*lacks] = (uint8_t)real;
    own |= 1u << real;
  }
  for (uint32_t r = 0; r < f->route_count; r++)
    take(l, f->routes[r].cores, 1u << l->of[at][f->routes[r].color]);
  for (uint32_t c = 0; c < f->colors && l->shared; c++)
    if (!share_take(l->shared, at, c, l->of[at][c], NULL, 1)) return no_memory(l);
  return WAFER_OK;
}

/* *enough: there are colours for all. If not, that is told if nobody else is to try. */
static wafer_status color_each(fragment_coloring *l, bool last, bool *enough) {
  size_t routers = (size_t)l->link->width * l->link->height;
  memset(l->used, 0, routers * sizeof *l->used);
  *enough = true;
  for (uint32_t i = 0; i < l->link->count && *enough; i++) {
    uint32_t lacks = 0;
    if (l->link->at[i]->failed) return no_memory(l);
    WAFER_TRY(color_fragment(l, i, &lacks));
    *enough = lacks == l->link->at[i]->colors;
    if (!*enough && last) return refuse(l, i, lacks);
  }
  return WAFER_OK;
}

/* Fragments keep to their lines: each with a colour of its own, then some share. */
static wafer_status color_lines(fragment_coloring *l, bool last, bool *enough) {
  l->shared = NULL;
  WAFER_TRY(color_each(l, false, enough));
  if (*enough) return WAFER_OK;
  l->shared = share_create(l->arena, l->link);
  return l->shared ? color_each(l, last, enough) : no_memory(l);
}

/* They leave them. */
static wafer_status color_around(fragment_coloring *l, const fragment_link *link) {
  bool enough = false;
  for (int shared = 0; shared < 2 && !enough; shared++)
    if (!fragment_color_ways(l, link, shared, &enough)) return no_memory(l);
  *link->around = l->at;
  if (enough) return WAFER_OK;
  for (uint32_t i = 0; i < link->count; i++) l->at[i] = link->at[i];
  return color_lines(l, true, &enough);
}

wafer_status fragment_color_all(fragment_coloring *l) {
  const fragment_link *link = l->link;
  bool enough;
  l->of = wafer_arena_alloc(l->arena, link->count, sizeof *l->of);
  l->used = WAFER_NEW(l->arena, uint32_t, (size_t)link->width * link->height);
  l->at = WAFER_NEW(l->arena, const fragment *, link->count);
  if (!l->of || !l->used || !l->at) return no_memory(l);
  for (uint32_t i = 0; i < link->count; i++) l->at[i] = link->at[i];
  l->own = *link;
  l->own.at = l->at;
  l->link = &l->own;
  if (link->around) *link->around = NULL;
  WAFER_TRY(color_lines(l, !link->around, &enough));
  return enough ? WAFER_OK : color_around(l, link);
}

/* ---- routes and filters ---- */

/* What is written: the fragments of the launch, then one of all that is shared. */
typedef struct writing {
  const fragment_coloring *l;
  const fragment *shared; /* its colours are real */
  wafer_route *routes;
  wafer_filter *filters;
  wafer_filter_use *uses;
} writing;

static const fragment *written_at(const writing *w, uint32_t i) {
  return i < w->l->link->count ? w->l->link->at[i] : w->shared;
}

/* False: it is written with those that are shared. */
static bool real_color(const writing *w, uint32_t i, uint8_t color, uint8_t *real) {
  bool own = i < w->l->link->count;
  *real = own ? w->l->of[i][color] : color;
  return !own || !w->l->shared || !share_may(w->l->shared, i, color);
}

static void write_stripe(const writing *w, uint32_t i, uint32_t stripe, wafer_fabric_program *out) {
  const fragment *f = written_at(w, i);
  const fragment_link *link = w->l->link;
  uint8_t real;
  for (uint32_t r = 0; r < f->route_count; r++) {
    if (!real_color(w, i, f->routes[r].color, &real)) continue;
    wafer_route *to = &w->routes[out->route_count++];
    *to = f->routes[r];
    to->cores = fragment_in_stripe(link, to->cores, stripe);
    to->color = real;
  }
  for (uint32_t k = 0; k < f->use_count; k++)
    if (real_color(w, i, f->uses[k].color, &real))
      w->uses[out->filter_use_count++] =
          (wafer_filter_use){fragment_in_stripe(link, f->uses[k].cores, stripe), real,
                             out->filter_count + f->uses[k].filter};
}

static void write_fragment(const writing *w, uint32_t i, wafer_fabric_program *out) {
  const fragment *f = written_at(w, i);
  for (uint32_t b = 0; b < fragment_stripes(w->l->link); b++) write_stripe(w, i, b, out);
  for (uint32_t k = 0; k < f->filter_count; k++)
    w->filters[out->filter_count++] = (wafer_filter){f->filters[k].runs, f->filters[k].count, true};
}

wafer_status fragment_color_write(const fragment_coloring *l, wafer_fabric_program *out) {
  fragment shared;
  size_t routes = 0, filters = 0, uses = 0;
  writing w = {.l = l, .shared = &shared};
  fragment_begin(&shared, l->arena, l->link->name, NULL, (wafer_rect){0, 0, 1, 1});
  if (l->shared && !share_write(l->shared, &shared)) return no_memory(l);
  for (uint32_t i = 0; i <= l->link->count; i++) {
    routes += written_at(&w, i)->route_count;
    filters += written_at(&w, i)->filter_count;
    uses += written_at(&w, i)->use_count;
  }
  uint32_t stripes = fragment_stripes(l->link);
  out->routes = w.routes = WAFER_NEW(l->arena, wafer_route, routes * stripes);
  out->filters = w.filters = WAFER_NEW(l->arena, wafer_filter, filters);
  out->filter_uses = w.uses = WAFER_NEW(l->arena, wafer_filter_use, uses * stripes);
  if (!w.routes || !w.filters || !w.uses) return no_memory(l);
  for (uint32_t i = 0; i <= l->link->count; i++) write_fragment(&w, i, out);
  return WAFER_OK;
}

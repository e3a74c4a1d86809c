#include "fragment_share.h"

#include <string.h>

#define NONE UINT32_MAX

/* With whom a colour may be shared. */
enum {
  ALONE,  /* none */
  ROOTED, /* whose words come from the same core */
  ALIKE   /* whose routers do the same */
};

/* A colour at a router. */
typedef struct cell {
  const wafer_route *way; /* of who came first */
  uint8_t from, to;       /* rooted: port, set of ports of all */
  bool used, filtered;    /* filtered: its core has a filter for each that has it */
  uint8_t kind;
  int64_t due[2]; /* the earliest and the latest of those that have it */
} cell;

/* In lists by router: a fragment of which its core sends words; one of which it takes some. */
typedef struct flow {
  uint32_t fragment, next;
  uint64_t words;
} flow;
typedef struct taker {
  uint32_t fragment, filter, next; /* filter NONE: it keeps all */
} taker;

struct share {
  wafer_arena *arena;
  const fragment_link *link;
  wafer_rect rect;                                /* of the routers that any fragment has */
  cell *cells[WAFER_CORE_BINDINGS];               /* of each real colour; NULL: not in use */
  bool *filtered;                                 /* of each router; none in between */
  uint8_t *kinds;                                 /* of the parts at hand */
  bool (*may)[WAFER_CORE_BINDINGS];               /* of each fragment's colours: with any */
  uint8_t (*real)[WAFER_CORE_BINDINGS];           /* of those that have one */
  uint32_t *first_flow, *last_flow, *first_taker; /* of each router, of the colour at hand */
  flow *flows;
  uint32_t flow_count, flow_room;
  taker *takers;
  uint32_t taker_count, taker_room;
  uint32_t *runs;
  uint32_t run_count, run_room;
};

static size_t router_at(const share *s, uint32_t x, uint32_t y) {
  return (size_t)(y - s->rect.y) * s->rect.width + (x - s->rect.x);
}
static size_t routers_of(const share *s) {
  return (size_t)s->rect.width * s->rect.height;
}

/* ---- who may share ---- */

static bool is_source(const fragment *f, const wafer_route *route) {
  for (uint32_t i = 0; i < f->source_count; i++)
    if (f->sources[i].color == route->color && wafer_rect_within(route->cores, f->sources[i].cores))
      return true;
  return false;
}

static bool at_border(const fragment *f, uint32_t color) {
  for (uint32_t i = 0; i < f->port_count; i++)
    if (f->ports[i].color == color) return true;
  return false;
}

/* Every word's sender and number is known. */
static bool is_counted(const fragment *f, const wafer_route *r) {
  return r->positions == 1 && (r->at[0].from != WAFER_PORT_ramp || is_source(f, r));
}

/* Around all routes, and wherever words may go around them. */
static wafer_rect around_all(const fragment_link *link) {
  uint32_t left = link->width, top = link->height, right = 0, bottom = 0;
  for (uint32_t i = 0; i < link->count; i++)
    for (uint32_t k = 0; k < link->at[i]->route_count; k++) {
      wafer_rect r = link->at[i]->routes[k].cores;
      left = r.x < left ? r.x : left;
      top = r.y < top ? r.y : top;
      right = r.x + r.width > right ? r.x + r.width : right;
      bottom = r.y + r.height > bottom ? r.y + r.height : bottom;
    }
  if (left >= right) return (wafer_rect){0};
  left = left > AROUND_NEAR ? left - AROUND_NEAR : 0;
  top = top > AROUND_NEAR ? top - AROUND_NEAR : 0;
  right = right + AROUND_NEAR < link->width ? right + AROUND_NEAR : link->width;
  bottom = bottom + AROUND_NEAR < link->height ? bottom + AROUND_NEAR : link->height;
  return (wafer_rect){left, top, right - left, bottom - top};
}

share *share_create(wafer_arena *arena, const fragment_link *link) {
  share *s = WAFER_NEW(arena, share, 1);
  if (!s) return NULL;
  *s = (share){.arena = arena, .link = link, .rect = around_all(link)};
  s->filtered = WAFER_NEW(arena, bool, routers_of(s));
  s->kinds = WAFER_NEW(arena, uint8_t, routers_of(s) + 1);
  s->may = wafer_arena_alloc(arena, link->count, sizeof *s->may);
  s->real = wafer_arena_alloc(arena, link->count, sizeof *s->real);
  if (!s->filtered || !s->kinds || !s->may || !s->real) return NULL;
  memset(s->real, 0xff, link->count * sizeof *s->real);
  for (uint32_t i = 0; i < link->count; i++) share_again(s, i);
  return s;
}

void share_clear(share *s) {
  for (uint32_t real = 0; real < WAFER_COUNT(s->cells); real++)
    if (s->cells[real]) memset(s->cells[real], 0, routers_of(s) * sizeof(cell));
  memset(s->real, 0xff, s->link->count * sizeof *s->real);
  for (uint32_t i = 0; i < s->link->count; i++) share_again(s, i);
}

void share_again(share *s, uint32_t at) {
  const fragment *f = s->link->at[at];
  for (uint32_t c = 0; c < f->colors; c++) s->may[at][c] = !at_border(f, c);
}

bool share_may(const share *s, uint32_t at, uint32_t color) {
  return s->may[at][color];
}

/* ---- routers ---- */

static int64_t due_of(const share *s, uint32_t at) {
  return s->link->due ? s->link->due[at] : 0;
}

/* Do samples of the fragment and of those that have the colour come in turn? Not where one is due a
 * period after another: cores are then samples ahead with that. */
static bool in_turn(const share *s, const cell *c, uint32_t at) {
  int64_t due = due_of(s, at), period = s->link->period;
  return !s->link->due || (due < c->due[0] + period && c->due[1] < due + period);
}

/* The routers of a fragment's colour one after the other: route by route, row by row. */
typedef struct walk {
  const fragment *f;
  uint32_t color;
  const around_router *parts; /* NULL: all are one */
  uint32_t route, x, y;       /* at hand */
  uint32_t count;             /* so far, this one too */
} walk;

static bool next_router(walk *w) {
  if (w->count++) {
    wafer_rect k = w->f->routes[w->route].cores;
    if (++w->x < k.x + k.width) return true;
    w->x = k.x;
    if (++w->y < k.y + k.height) return true;
    w->route++;
  }
  while (w->route < w->f->route_count && w->f->routes[w->route].color != w->color) w->route++;
  if (w->route == w->f->route_count) return false;
  w->x = w->f->routes[w->route].cores.x;
  w->y = w->f->routes[w->route].cores.y;
  return true;
}
/* To the last router of the route at hand. */
static void skip_route(walk *w) {
  wafer_rect k = w->f->routes[w->route].cores;
  w->x = k.x + k.width - 1;
  w->y = k.y + k.height - 1;
}
static uint32_t part_of(const walk *w) {
  return w->parts ? w->parts[w->count - 1].part : 0;
}

/* With whom each part may have its colour. */
static void find_kinds(share *s, uint32_t at, uint32_t color, const around_router *parts,
                       uint32_t count) {
  walk w = {.f = s->link->at[at], .color = color, .parts = parts};
  uint32_t route = NONE;
  bool counted = true;
  for (uint32_t p = 0; p < count; p++) s->kinds[p] = s->may[at][color] ? ROOTED : ALONE;
  while (next_router(&w)) {
    if (w.route != route) counted = is_counted(w.f, &w.f->routes[w.route]);
    route = w.route;
    if (!counted && s->kinds[part_of(&w)] == ROOTED) s->kinds[part_of(&w)] = ALIKE;
    if (!parts) skip_route(&w);
  }
}

/* Where the fragment has filters on the colour; or, when that has been looked at, no more. */
static void mark_filters(share *s, const fragment *f, uint32_t color, bool filtered) {
  for (uint32_t i = 0; i < f->use_count; i++) {
    wafer_rect k = f->uses[i].cores;
    if (f->uses[i].color != color) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) s->filtered[router_at(s, x, y)] = filtered;
  }
}

/* Where both have it the words must come from the same side: the routers before are then the same,
 * back to the sender; or routers must do the same. */
static bool may_join(const share *s, const cell *c, const wafer_route *r, uint8_t kind,
                     size_t router) {
  if (c->kind == ALONE || kind == ALONE) return false;
  if (c->kind == ROOTED) return kind == ROOTED && c->from == r->at[0].from;
  return c->filtered == s->filtered[router] && fragment_same_way(c->way, r);
}

void share_look(share *s, uint32_t at, uint32_t color, uint32_t real, const around_router *parts,
                uint32_t count, share_state *states) {
  walk w = {.f = s->link->at[at], .color = color, .parts = parts};
  for (uint32_t p = 0; p < count; p++) states[p] = SHARE_FREE;
  if (!s->cells[real]) return;
  find_kinds(s, at, color, parts, count);
  mark_filters(s, w.f, color, true);
  while (next_router(&w)) {
    size_t router = router_at(s, w.x, w.y);
    uint32_t part = part_of(&w);
    const cell *c = &s->cells[real][router];
    if (!c->used || states[part] == SHARE_CLASHES) continue;
    bool joins = may_join(s, c, &w.f->routes[w.route], s->kinds[part], router) && in_turn(s, c, at);
    states[part] = joins ? SHARE_JOINS : SHARE_CLASHES;
  }
  mark_filters(s, w.f, color, false);
}

/* Who comes to words that go the same ways does as they do. */
static void take_at(share *s, uint32_t at, const wafer_route *r, uint8_t kind, uint32_t real,
                    size_t router) {
  cell *c = &s->cells[real][router];
  int64_t due = due_of(s, at), first = c->used && c->due[0] < due ? c->due[0] : due;
  int64_t last = c->used && c->due[1] > due ? c->due[1] : due;
  *c = (cell){.way = c->used ? c->way : r,
              .from = r->at[0].from,
              .to = c->to | r->at[0].to,
              .used = true,
              .filtered = s->filtered[router],
              .kind = c->used ? c->kind : kind,
              .due = {first, last}};
}

bool share_take(share *s, uint32_t at, uint32_t color, uint32_t real, const around_router *parts,
                uint32_t count) {
  walk w = {.f = s->link->at[at], .color = color, .parts = parts};
  if (!s->cells[real]) s->cells[real] = WAFER_NEW(s->arena, cell, routers_of(s));
  if (!s->cells[real]) return false;
  s->real[at][color] = (uint8_t)real;
  find_kinds(s, at, color, parts, count);
  mark_filters(s, w.f, color, true);
  while (next_router(&w))
    take_at(s, at, &w.f->routes[w.route], s->kinds[part_of(&w)], real, router_at(s, w.x, w.y));
  mark_filters(s, w.f, color, false);
  return true;
}

/* ---- what cores send and take ---- */

static bool add_flow(share *s, size_t router, uint32_t of, uint64_t words) {
  if (!WAFER_GROW(s->arena, s->flows, s->flow_count, s->flow_room, 256)) return false;
  s->flows[s->flow_count] = (flow){of, NONE, words};
  if (s->first_flow[router] == NONE)
    s->first_flow[router] = s->flow_count;
  else
    s->flows[s->last_flow[router]].next = s->flow_count;
  s->last_flow[router] = s->flow_count++;
  return true;
}

/* Of one execution of a fragment. */
static bool add_flows(share *s, uint32_t at, uint32_t color) {
  const fragment *f = s->link->at[at];
  for (uint32_t i = 0; i < f->source_count; i++) {
    wafer_rect k = f->sources[i].cores;
    if (f->sources[i].color != color) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++)
        if (!add_flow(s, router_at(s, x, y), at, f->sources[i].words)) return false;
  }
  return true;
}

static taker *find_taker(const share *s, size_t router, uint32_t of) {
  for (uint32_t t = s->first_taker[router]; t != NONE; t = s->takers[t].next)
    if (s->takers[t].fragment == of) return &s->takers[t];
  return NULL;
}

static bool to_ramp(const wafer_route *r) {
  for (uint32_t i = 0; i < r->positions; i++)
    if (r->at[i].to & WAFER_TO(ramp)) return true;
  return false;
}

static bool add_takers(share *s, uint32_t at, uint32_t color) {
  const fragment *f = s->link->at[at];
  for (uint32_t i = 0; i < f->route_count; i++) {
    wafer_rect k = f->routes[i].cores;
    if (f->routes[i].color != color || !to_ramp(&f->routes[i])) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) {
        uint32_t *first = &s->first_taker[router_at(s, x, y)];
        if (!WAFER_GROW(s->arena, s->takers, s->taker_count, s->taker_room, 256)) return false;
        s->takers[s->taker_count] = (taker){at, NONE, *first};
        *first = s->taker_count++;
      }
  }
  for (uint32_t i = 0; i < f->use_count; i++) {
    wafer_rect k = f->uses[i].cores;
    if (f->uses[i].color != color) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) {
        taker *t = find_taker(s, router_at(s, x, y), at);
        if (t) t->filter = f->uses[i].filter;
      }
  }
  return true;
}

/* Every colour of a fragment that has become `real`, each on routers of its own. */
typedef bool adder(share *s, uint32_t at, uint32_t color);
static bool add_each(share *s, uint32_t at, uint32_t real, adder *add) {
  for (uint32_t c = 0; c < s->link->at[at]->colors; c++)
    if (s->real[at][c] == real && s->may[at][c] && !add(s, at, c)) return false;
  return true;
}

static bool collect(share *s, uint32_t real) {
  const fragment_link *link = s->link;
  size_t routers = routers_of(s);
  uint32_t count = link->steps ? link->step_count : link->count;
  memset(s->first_flow, 0xff, routers * sizeof *s->first_flow);
  memset(s->first_taker, 0xff, routers * sizeof *s->first_taker);
  s->flow_count = s->taker_count = 0;
  for (uint32_t i = 0; i < link->count; i++)
    if (!add_each(s, i, real, add_takers)) return false;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = link->steps ? link->steps[i] : i;
    if (at != FRAGMENT_ENDS && !add_each(s, at, real, add_flows)) return false;
  }
  return true;
}

/* ---- filters ---- */

static bool add_run(share *s, uint64_t words) {
  if (!WAFER_GROW(s->arena, s->runs, s->run_count, s->run_room, 256)) return false;
  s->runs[s->run_count++] = (uint32_t)words;
  return true;
}

/* Runs are skipped and kept in turn. */
static bool push_run(share *s, bool keep, uint64_t words) {
  if (words == 0) return true;
  if (s->run_count && (s->run_count % 2 == 0) == keep) {
    s->runs[s->run_count - 1] += (uint32_t)words;
    return true;
  }
  if (s->run_count == 0 && keep && !add_run(s, 0)) return false;
  return add_run(s, words);
}

static bool push_flow(share *s, const flow *sent, size_t core) {
  const taker *t = find_taker(s, core, sent->fragment);
  if (!t || t->filter == NONE) return push_run(s, t != NULL, sent->words);
  const fragment_filter *filter = &s->link->at[sent->fragment]->filters[t->filter];
  for (uint32_t i = 0; i < filter->count; i++)
    if (!push_run(s, i % 2 == 1, filter->runs[i])) return false;
  return true;
}

/* The router from which the words at (x, y) come. */
static size_t root_of(const share *s, const cell *cells, uint32_t x, uint32_t y) {
  for (;;) switch (cells[router_at(s, x, y)].from) {
    case WAFER_PORT_north: y--; break;
    case WAFER_PORT_south: y++; break;
    case WAFER_PORT_west: x--; break;
    case WAFER_PORT_east: x++; break;
    default: return router_at(s, x, y);
    }
}

/* All that the core's sender sends until it begins anew. */
static bool push_rooted(share *s, const cell *cells, uint32_t x, uint32_t y) {
  size_t core = router_at(s, x, y);
  for (uint32_t i = s->first_flow[root_of(s, cells, x, y)]; i != NONE; i = s->flows[i].next)
    if (!push_flow(s, &s->flows[i], core)) return false;
  return true;
}

/* What passes the core of each fragment, until the first comes again. */
static bool push_alike(share *s, size_t core) {
  const fragment_link *link = s->link;
  uint32_t count = link->steps ? link->step_count : link->count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = link->steps ? link->steps[i] : i;
    const taker *t = at == FRAGMENT_ENDS ? NULL : find_taker(s, core, at);
    const fragment_filter *filter = t ? &link->at[at]->filters[t->filter] : NULL;
    for (uint32_t k = 0; filter && k < filter->count; k++)
      if (!push_run(s, k % 2 == 1, filter->runs[k])) return false;
  }
  return true;
}

static bool add_filter(share *s, uint32_t real, uint32_t x, uint32_t y, fragment *out) {
  const cell *cells = s->cells[real], *c = &cells[router_at(s, x, y)];
  s->run_count = 0;
  if (c->kind == ALIKE && !c->filtered) return true;
  if (!(c->kind == ALIKE ? push_alike(s, router_at(s, x, y)) : push_rooted(s, cells, x, y)))
    return false;
  if (s->run_count % 2 && !add_run(s, 0)) return false;
  bool all = s->run_count == 2 && s->runs[0] == 0;
  if (!all)
    fragment_filter_add(out, (wafer_rect){x, y, 1, 1}, (uint8_t)real, s->runs, s->run_count);
  return true;
}

/* ---- writing ---- */

static bool same_cell(const cell *a, const cell *b) {
  if (!a->used || !b->used) return a->used == b->used;
  if (a->kind != b->kind) return false;
  if (a->kind == ALIKE) return fragment_same_way(a->way, b->way);
  return a->from == b->from && a->to == b->to;
}

static bool write_row(share *s, uint32_t real, uint32_t y, fragment *out) {
  uint32_t end = s->rect.x + s->rect.width;
  for (uint32_t x = s->rect.x, n; x < end; x += n) {
    const cell *c = &s->cells[real][router_at(s, x, y)];
    for (n = 1; x + n < end && same_cell(c, c + n);) n++;
    if (!c->used || c->kind == ALONE) continue;
    wafer_route route = *c->way;
    route.cores = (wafer_rect){x, y, n, 1};
    route.color = (uint8_t)real;
    if (c->kind == ROOTED) route.at[0].to = c->to;
    fragment_route(out, &route);
    for (uint32_t i = 0; i < n && to_ramp(&route); i++)
      if (!add_filter(s, real, x + i, y, out)) return false;
  }
  return true;
}

bool share_write(share *s, fragment *out) {
  size_t routers = routers_of(s);
  s->first_flow = WAFER_NEW(s->arena, uint32_t, routers);
  s->last_flow = WAFER_NEW(s->arena, uint32_t, routers);
  s->first_taker = WAFER_NEW(s->arena, uint32_t, routers);
  if (!s->first_flow || !s->last_flow || !s->first_taker) return false;
  for (uint32_t real = 0; real < WAFER_COUNT(s->cells); real++) {
    if (!s->cells[real]) continue;
    if (!collect(s, real)) return false;
    for (uint32_t y = s->rect.y; y < s->rect.y + s->rect.height; y++)
      if (!write_row(s, real, y, out)) return false;
  }
  return !out->failed;
}

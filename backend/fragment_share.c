#include "fragment_share.h"

#include <string.h>

#define NONE UINT32_MAX

/* A colour at a router. */
typedef struct cell {
  uint8_t from, to; /* port, set of ports */
  bool used, alone; /* alone: nobody may share it */
  int64_t due[2];   /* the earliest and the latest of those that have it */
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
  cell *cells[WAFER_CORE_BINDINGS];               /* of each real colour; NULL: not in use */
  uint8_t (*may)[WAFER_CORE_BINDINGS];            /* of each fragment's colours */
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
  return (size_t)y * s->link->width + x;
}

/* ---- who may share ---- */

static bool inside(wafer_rect a, wafer_rect b) {
  return a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width &&
         a.y + a.height <= b.y + b.height;
}

static bool is_source(const fragment *f, const wafer_route *route) {
  for (uint32_t i = 0; i < f->source_count; i++)
    if (f->sources[i].color == route->color && inside(route->cores, f->sources[i].cores))
      return true;
  return false;
}

/* Every word's sender and number is known. */
static bool is_counted(const fragment *f, uint32_t color) {
  for (uint32_t i = 0; i < f->port_count; i++)
    if (f->ports[i].color == color) return false;
  for (uint32_t i = 0; i < f->route_count; i++) {
    const wafer_route *r = &f->routes[i];
    if (r->color != color) continue;
    if (r->positions != 1 || (r->at[0].from == WAFER_PORT_ramp && !is_source(f, r))) return false;
  }
  return true;
}

share *share_create(wafer_arena *arena, const fragment_link *link) {
  share *s = WAFER_NEW(arena, share, 1);
  if (!s) return NULL;
  *s = (share){.arena = arena, .link = link};
  s->may = wafer_arena_alloc(arena, link->count, sizeof *s->may);
  s->real = wafer_arena_alloc(arena, link->count, sizeof *s->real);
  if (!s->may || !s->real) return NULL;
  memset(s->real, 0xff, link->count * sizeof *s->real);
  for (uint32_t i = 0; i < link->count; i++) share_again(s, i);
  return s;
}

void share_again(share *s, uint32_t at) {
  const fragment *f = s->link->at[at];
  for (uint32_t c = 0; c < f->colors; c++) s->may[at][c] = is_counted(f, c);
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

/* Where both have it the words must come from the same side: the routers before are then the same,
 * back to the sender. */
share_state share_look(const share *s, uint32_t at, uint32_t color, uint32_t real) {
  const fragment *f = s->link->at[at];
  const cell *cells = s->cells[real];
  share_state state = SHARE_FREE;
  for (uint32_t i = 0; i < f->route_count && cells; i++) {
    const wafer_route *r = &f->routes[i];
    wafer_rect k = r->cores;
    if (r->color != color) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) {
        const cell *c = &cells[router_at(s, x, y)];
        if (!c->used) continue;
        if (c->alone || !s->may[at][color] || c->from != r->at[0].from || !in_turn(s, c, at))
          return SHARE_CLASHES;
        state = SHARE_JOINS;
      }
  }
  return state;
}

bool share_take(share *s, uint32_t at, uint32_t color, uint32_t real) {
  const fragment *f = s->link->at[at];
  if (!s->cells[real])
    s->cells[real] = WAFER_NEW(s->arena, cell, (size_t)s->link->width * s->link->height);
  if (!s->cells[real]) return false;
  s->real[at][color] = (uint8_t)real;
  for (uint32_t i = 0; i < f->route_count; i++) {
    const wafer_route *r = &f->routes[i];
    wafer_rect k = r->cores;
    if (r->color != color) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) {
        cell *c = &s->cells[real][router_at(s, x, y)];
        int64_t due = due_of(s, at), first = c->used && c->due[0] < due ? c->due[0] : due;
        int64_t last = c->used && c->due[1] > due ? c->due[1] : due;
        *c = (cell){r->at[0].from, c->to | r->at[0].to, true, !s->may[at][color], {first, last}};
      }
  }
  return true;
}

/* ---- what cores send and take ---- */

/* Room for `need` of them; false: out of memory. */
static bool grow(share *s, void *list, uint32_t need, uint32_t *room, size_t size) {
  void *old, *more;
  if (need <= *room) return true;
  uint32_t next = *room ? 2 * *room : 256;
  memcpy(&old, list, sizeof old);
  if (!(more = wafer_arena_alloc(s->arena, next, size))) return false;
  if (*room) memcpy(more, old, *room * size);
  memcpy(list, &more, sizeof more);
  *room = next;
  return true;
}

static bool add_flow(share *s, size_t router, uint32_t of, uint64_t words) {
  if (!grow(s, &s->flows, s->flow_count + 1, &s->flow_room, sizeof *s->flows)) return false;
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

static bool add_takers(share *s, uint32_t at, uint32_t color) {
  const fragment *f = s->link->at[at];
  for (uint32_t i = 0; i < f->route_count; i++) {
    wafer_rect k = f->routes[i].cores;
    if (f->routes[i].color != color || !(f->routes[i].at[0].to & WAFER_TO(ramp))) continue;
    for (uint32_t y = k.y; y < k.y + k.height; y++)
      for (uint32_t x = k.x; x < k.x + k.width; x++) {
        uint32_t *first = &s->first_taker[router_at(s, x, y)];
        if (!grow(s, &s->takers, s->taker_count + 1, &s->taker_room, sizeof *s->takers))
          return false;
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

/* The colour of a fragment that has become `real`; NONE: none of those that may be shared. */
static uint32_t local_of(const share *s, uint32_t at, uint32_t real) {
  for (uint32_t c = 0; c < s->link->at[at]->colors; c++)
    if (s->real[at][c] == real && s->may[at][c]) return c;
  return NONE;
}

static bool collect(share *s, uint32_t real) {
  const fragment_link *link = s->link;
  size_t routers = (size_t)link->width * link->height;
  uint32_t count = link->steps ? link->step_count : link->count;
  memset(s->first_flow, 0xff, routers * sizeof *s->first_flow);
  memset(s->first_taker, 0xff, routers * sizeof *s->first_taker);
  s->flow_count = s->taker_count = 0;
  for (uint32_t i = 0; i < link->count; i++) {
    uint32_t color = local_of(s, i, real);
    if (color != NONE && !add_takers(s, i, color)) return false;
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = link->steps ? link->steps[i] : i;
    uint32_t color = at == FRAGMENT_ENDS ? NONE : local_of(s, at, real);
    if (color != NONE && !add_flows(s, at, color)) return false;
  }
  return true;
}

/* ---- filters ---- */

/* Runs are skipped and kept in turn. */
static bool push_run(share *s, bool keep, uint64_t words) {
  if (words == 0) return true;
  if (s->run_count && (s->run_count % 2 == 0) == keep) {
    s->runs[s->run_count - 1] += (uint32_t)words;
    return true;
  }
  if (!grow(s, &s->runs, s->run_count + 3, &s->run_room, sizeof *s->runs)) return false;
  if (s->run_count == 0 && keep) s->runs[s->run_count++] = 0;
  s->runs[s->run_count++] = (uint32_t)words;
  return true;
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
static bool add_filter(share *s, uint32_t real, uint32_t x, uint32_t y, fragment *out) {
  const cell *cells = s->cells[real];
  size_t core = router_at(s, x, y);
  s->run_count = 0;
  for (uint32_t i = s->first_flow[root_of(s, cells, x, y)]; i != NONE; i = s->flows[i].next)
    if (!push_flow(s, &s->flows[i], core)) return false;
  if (s->run_count % 2) s->runs[s->run_count++] = 0;
  bool all = s->run_count == 2 && s->runs[0] == 0;
  if (!all)
    fragment_filter_add(out, (wafer_rect){x, y, 1, 1}, (uint8_t)real, s->runs, s->run_count);
  return true;
}

/* ---- writing ---- */

static bool same_cell(const cell *a, const cell *b) {
  return a->used == b->used && a->alone == b->alone && a->from == b->from && a->to == b->to;
}

static bool write_row(share *s, uint32_t real, uint32_t y, fragment *out) {
  const cell *row = &s->cells[real][router_at(s, 0, y)];
  for (uint32_t x = 0, n; x < s->link->width; x += n) {
    const cell *c = &row[x];
    for (n = 1; x + n < s->link->width && same_cell(c, &row[x + n]);) n++;
    if (!c->used || c->alone) continue;
    wafer_route route = {.cores = {x, y, n, 1}, .color = (uint8_t)real, .positions = 1};
    route.at[0].from = c->from;
    route.at[0].to = c->to;
    fragment_route(out, &route);
    for (uint32_t i = 0; i < n && c->to & WAFER_TO(ramp); i++)
      if (!add_filter(s, real, x + i, y, out)) return false;
  }
  return true;
}

bool share_write(share *s, fragment *out) {
  size_t routers = (size_t)s->link->width * s->link->height;
  s->first_flow = WAFER_NEW(s->arena, uint32_t, routers);
  s->last_flow = WAFER_NEW(s->arena, uint32_t, routers);
  s->first_taker = WAFER_NEW(s->arena, uint32_t, routers);
  if (!s->first_flow || !s->last_flow || !s->first_taker) return false;
  for (uint32_t real = 0; real < WAFER_COUNT(s->cells); real++) {
    if (!s->cells[real]) continue;
    if (!collect(s, real)) return false;
    for (uint32_t y = 0; y < s->link->height; y++)
      if (!write_row(s, real, y, out)) return false;
  }
  return !out->failed;
}

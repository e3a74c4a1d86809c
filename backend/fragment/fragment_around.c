#include "fragment_cells.h"

#include <string.h>

static void block(around *a, wafer_rect r) {
  for (uint32_t y = r.y; y < r.y + r.height && y < a->height; y++)
    for (uint32_t x = r.x; x < r.x + r.width && x < a->width; x++)
      a->blocked[y * a->width + x] = true;
}

around *around_create(wafer_arena *arena, const wafer_machine *machine, const fragment_link *link,
                      const uint32_t *used) {
  around *a = WAFER_NEW(arena, around, 1);
  size_t routers = (size_t)link->width * link->height;
  if (!a) return NULL;
  *a = (around){.arena = arena,
                .machine = machine,
                .width = link->width,
                .height = link->height,
                .used = used};
  a->blocked = WAFER_NEW(arena, bool, routers);
  a->awaited = WAFER_NEW(arena, uint32_t, routers);
  a->kept_here = WAFER_NEW(arena, uint8_t, routers);
  a->kept_near = WAFER_NEW(arena, uint8_t, routers);
  a->there = WAFER_NEW(arena, bool, routers);
  a->at = WAFER_NEW(arena, uint32_t, routers);
  a->passed = WAFER_NEW(arena, bool, routers);
  a->via = WAFER_NEW(arena, uint8_t, routers);
  a->next = WAFER_NEW(arena, uint32_t, routers);
  a->looked = WAFER_NEW(arena, around_router, routers);
  if (!a->blocked || !a->there || !a->awaited || !a->kept_here || !a->kept_near || !a->at ||
      !a->passed || !a->via || !a->next || !a->looked)
    return NULL;
  memset(a->at, 0xff, routers * sizeof *a->at);
  memset(a->via, WAFER_PORTS, routers);
  for (uint32_t i = 0; i < machine->dead_count; i++)
    block(a, (wafer_rect){machine->dead[i].x, machine->dead[i].y, 1, 1});
  for (uint32_t i = 0; i < machine->reserved_count; i++) block(a, machine->reserved[i]);
  return a;
}

/* ---- what is kept ---- */

static void keep(const around *a, uint8_t *kept, uint8_t more) {
  if (*kept < a->machine->colors / 4) *kept = (uint8_t)(*kept + more);
}

void around_keep(around *a, uint32_t router) {
  keep(a, &a->kept_here[router], 2);
  for (uint8_t port = 0; port < WAFER_PORT_ramp; port++) {
    uint32_t other = beyond(a, router, port);
    if (other != NONE) keep(a, &a->kept_near[other], 1);
  }
}

void around_ignore(around *a, bool kept) {
  a->ignore = kept;
}

/* ---- another way ---- */

static bool is_taken(const around *a, uint32_t router, uint32_t real) {
  return a->used[router] >> real & 1;
}

/* Keeps a stretch as it is; false: others have the colour on it. */
static bool keep_stretch(const around *a, const stretch *s, uint32_t real) {
  for (int mark = 0; mark < 2; mark++) {
    uint8_t out = s->leaves;
    uint32_t at = cell_beyond(a, router_of(a, &a->cells[s->from]), out);
    for (; at != s->to; at = cell_beyond(a, router_of(a, &a->cells[at]), out)) {
      uint32_t router = router_of(a, &a->cells[at]);
      if (!mark && (is_taken(a, router, real) || cells_closed(a, &a->cells[at]))) return false;
      if (mark) a->passed[router] = true;
      out = (uint8_t)__builtin_ctz(a->cells[at].route.at[0].to);
    }
  }
  return true;
}

static void leave_stretch(const around *a, const stretch *s) {
  uint8_t out = s->leaves;
  uint32_t at = cell_beyond(a, router_of(a, &a->cells[s->from]), out);
  while (at != s->to) {
    cell *c = &a->cells[at];
    uint32_t router = router_of(a, c);
    out = (uint8_t)__builtin_ctz(c->route.at[0].to);
    at = cell_beyond(a, router, out);
    c->gone = true;
  }
}

/* The routers near a stretch. */
typedef struct window {
  uint32_t left, top, right, bottom; /* inside */
} window;

static window window_of(const around *a, uint32_t from, uint32_t to) {
  uint32_t x[2] = {from % a->width, to % a->width}, y[2] = {from / a->width, to / a->width};
  window w = {x[0] < x[1] ? x[0] : x[1], y[0] < y[1] ? y[0] : y[1], x[0] > x[1] ? x[0] : x[1],
              y[0] > y[1] ? y[0] : y[1]};
  w.left = w.left > AROUND_NEAR ? w.left - AROUND_NEAR : 0;
  w.top = w.top > AROUND_NEAR ? w.top - AROUND_NEAR : 0;
  w.right = w.right + AROUND_NEAR < a->width ? w.right + AROUND_NEAR : a->width - 1;
  w.bottom = w.bottom + AROUND_NEAR < a->height ? w.bottom + AROUND_NEAR : a->height - 1;
  return w;
}

static bool inside(const around *a, const window *w, uint32_t router) {
  uint32_t x = router % a->width, y = router / a->width;
  return x >= w->left && x <= w->right && y >= w->top && y <= w->bottom;
}

/* May words leave the first cell through that port instead, or come to the last one? */
static bool may_leave(const around *a, const stretch *s, uint8_t port) {
  const wafer_route *r = &a->cells[s->from].route;
  return port == s->leaves || !((wafer_route_from(r) | wafer_route_to(r)) >> port & 1);
}
static bool may_enter(const around *a, const stretch *s, uint8_t port) {
  const wafer_route *r = &a->cells[s->to].route;
  return port == s->enters || !((wafer_route_from(r) | wafer_route_to(r)) >> port & 1);
}

static bool is_beside(const around *a, uint32_t router, uint32_t other) {
  return router + 1 == other || other + 1 == router || router + a->width == other ||
         other + a->width == router;
}

/* Breadth first from the first cell's router, until the last one's is beyond a port of the router
 * that it returns; NONE: there is no way. `*out`: that port. `most`: colours of a router on it. */
static uint32_t search(around *a, const stretch *s, uint32_t real, uint32_t most, uint32_t *reached,
                       uint8_t *out) {
  uint32_t from = router_of(a, &a->cells[s->from]), to = router_of(a, &a->cells[s->to]);
  window w = window_of(a, from, to);
  *reached = 1;
  a->next[0] = from;
  a->via[from] = WAFER_PORT_ramp;
  for (uint32_t i = 0; i < *reached; i++)
    for (uint8_t port = 0; port < WAFER_PORT_ramp; port++) {
      uint32_t at = a->next[i], other = beyond(a, at, port);
      if (other == NONE || (i == 0 && !may_leave(a, s, port))) continue;
      if (other == to && may_enter(a, s, opposite(port))) {
        *out = port;
        return at;
      }
      bool near = i == 0 || is_beside(a, other, to);
      bool free = !cells_kept(a, other, near) && !a->passed[other] && !is_taken(a, other, real) &&
                  (uint32_t)__builtin_popcount(a->used[other]) < most;
      if (!free || a->via[other] != WAFER_PORTS || !inside(a, &w, other)) continue;
      a->via[other] = port;
      a->next[(*reached)++] = other;
    }
  return NONE;
}

/* The port of a route's ends in place of another. */
static void change(wafer_route *r, uint8_t before, uint8_t after, bool out) {
  for (uint32_t i = 0; i < r->positions; i++) {
    if (!out && r->at[i].from == before) r->at[i].from = after;
    if (out && r->at[i].to >> before & 1)
      r->at[i].to = (uint8_t)((r->at[i].to & ~(1u << before)) | 1u << after);
  }
}

/* From the last router that the search came to back to the first. `*passed`: those in between.
 * False: out of memory. */
static bool go_way(around *a, const stretch *s, uint32_t last, uint8_t out, uint32_t *passed) {
  uint32_t from = router_of(a, &a->cells[s->from]);
  wafer_route route = {.color = a->cells[s->from].route.color, .positions = 1};
  change(&a->cells[s->to].route, s->enters, opposite(out), false);
  for (*passed = 0; last != from; ++*passed) {
    uint8_t via = a->via[last];
    route.at[0].from = opposite(via);
    route.at[0].to = (uint8_t)(1u << out);
    if (!cells_add(a, &route, last, true)) return false;
    a->passed[last] = true;
    last = beyond(a, last, opposite(via));
    out = via;
  }
  change(&a->cells[s->from].route, s->leaves, out, true);
  return true;
}

/* *more: hops, AROUND_NOWHERE. */
static bool go_around(around *a, const stretch *s, uint32_t real, uint32_t *more) {
  uint32_t reached, passed = 0, last = NONE, colors = a->machine->colors;
  uint8_t out;
  bool made = true;
  for (uint32_t i = 0; i < 2 && last == NONE; i++) { /* where there is much room, or any */
    last = search(a, s, real, i ? colors : colors - colors / 4, &reached, &out);
    made = last == NONE || go_way(a, s, last, out, &passed);
    for (uint32_t k = 0; k < reached; k++) a->via[a->next[k]] = WAFER_PORTS;
  }
  *more = last == NONE ? AROUND_NOWHERE : passed > s->passed ? passed - s->passed : 0;
  return made;
}

bool around_find(around *a, const fragment *f, uint32_t color, uint32_t real, uint32_t *hops) {
  *hops = AROUND_NOWHERE;
  if (!cells_load(a, f, color) || !cells_stretch(a)) return false;
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t router = router_of(a, &a->cells[i]);
    if (a->cells[i].passes) continue;
    if (is_taken(a, router, real)) return true;
    a->passed[router] = true;
  }
  uint32_t left = 0, all = 0;
  for (uint32_t i = 0; i < a->stretch_count; i++)
    if (!keep_stretch(a, &a->stretches[i], real)) a->stretches[left++] = a->stretches[i];
  for (uint32_t i = 0; i < left; i++) leave_stretch(a, &a->stretches[i]);
  a->farthest = 0;
  for (uint32_t i = 0; i < left; i++) {
    uint32_t more;
    if (!go_around(a, &a->stretches[i], real, &more)) return false;
    if (more == AROUND_NOWHERE) return true;
    if (more > a->farthest) a->farthest = more;
    all += more;
  }
  *hops = all;
  return true;
}

/* ---- who is to come ---- */

static bool await(around *a, const fragment *f, uint32_t more) {
  for (uint32_t c = 0; c < f->colors; c++) {
    if (!cells_load(a, f, c)) return false;
    for (uint32_t i = 0; i < a->count; i++)
      if (!a->cells[i].passes) a->awaited[router_of(a, &a->cells[i])] += more;
  }
  return true;
}

bool around_begin(around *a, const fragment_link *link) {
  memset(a->awaited, 0, (size_t)a->width * a->height * sizeof *a->awaited);
  for (uint32_t i = 0; i < link->count; i++)
    if (!await(a, link->at[i], 1)) return false;
  return true;
}

const uint32_t *around_awaited(const around *a) {
  return a->awaited;
}

bool around_came(around *a, const fragment *f) {
  return await(a, f, UINT32_MAX);
}

/* ---- parts ---- */

const fragment *around_split(around *a, wafer_arena *arena, const fragment *f, uint32_t color,
                             const bool *parts) {
  uint32_t count, all;
  const around_router *routers = around_look(a, f, color, &count, &all);
  if (!routers) return NULL;
  for (uint32_t i = 0; i < count; i++) a->there[routers[i].at] = parts[routers[i].part];
  const fragment *out = fragment_split(arena, f, color, &(fragment_where){a->there, a->width});
  for (uint32_t i = 0; i < count; i++) a->there[routers[i].at] = false;
  return out;
}

/* ---- routes again ---- */

/* The cell at that router if it is not yet written and goes the same way. */
static bool continues(const around *a, const bool *written, const wafer_route *r, uint32_t x,
                      uint32_t y) {
  if (x >= a->width || y >= a->height) return false;
  uint32_t c = a->at[y * a->width + x];
  return c != NONE && !a->cells[c].gone && !written[c] && fragment_same_way(r, &a->cells[c].route);
}

/* As wide as it goes, then as high. */
static wafer_route widest(const around *a, bool *written, const cell *c) {
  wafer_route r = c->route;
  wafer_rect *k = &r.cores;
  while (continues(a, written, &r, k->x + k->width, k->y)) k->width++;
  for (bool all = true; all; k->height += all)
    for (uint32_t x = k->x; x < k->x + k->width && all; x++)
      all = continues(a, written, &r, x, k->y + k->height);
  for (uint32_t y = k->y; y < k->y + k->height; y++)
    for (uint32_t x = k->x; x < k->x + k->width; x++) written[a->at[y * a->width + x]] = true;
  return r;
}

const fragment *around_take(const around *a, wafer_arena *arena, const fragment *f,
                            uint32_t color) {
  fragment *out = wafer_arena_copy(arena, f, sizeof *f);
  bool *written = WAFER_NEW(arena, bool, a->count);
  if (!out || !written) return NULL;
  out->arena = arena;
  if (a->farthest > f->around) out->around = a->farthest;
  out->cycles += (uint64_t)(out->around - f->around) * a->machine->hop_cycles;
  out->routes = NULL;
  out->route_count = out->route_room = 0;
  for (uint32_t i = 0; i < f->route_count; i++)
    if (f->routes[i].color != color) fragment_route(out, &f->routes[i]);
  for (uint32_t i = 0; i < a->count; i++) {
    if (a->cells[i].gone || written[i]) continue;
    wafer_route r = widest(a, written, &a->cells[i]);
    fragment_route(out, &r);
  }
  return out->failed ? NULL : out;
}

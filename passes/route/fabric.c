#include "fabric.h"

#include <string.h>

enum { FROM_WEST, FROM_EAST, FROM_NORTH, FROM_SOUTH, FROM_RAMP, SIDES };

/* The routers claimed since the last fabric_clear; it alone says what to wipe. */
typedef struct claimed {
  uint32_t count, room;
  uint32_t *at;
} claimed;

struct fabric {
  wafer_arena *arena;
  const wafer_machine *machine;
  uint32_t colors;
  uint32_t *in[SIDES]; /* router: colours that enter it from this side */
  uint32_t *dead;      /* router: a bit, NULL when none is dead */
  claimed claimed;
  uint32_t *queue; /* of a detour: routers in the order they were reached */
  uint8_t *came;   /* and from which side, plus 1 */
};

fabric *fabric_create(wafer_arena *arena, const wafer_machine *m) {
  fabric *f = WAFER_NEW(arena, fabric, 1);
  size_t routers = (size_t)m->width * m->height;
  if (!f) return NULL;
  f->arena = arena;
  f->machine = m;
  f->colors = m->colors < FABRIC_MAX_COLORS ? m->colors : FABRIC_MAX_COLORS;
  for (int side = 0; side < SIDES; side++)
    if (!(f->in[side] = WAFER_NEW(arena, uint32_t, routers))) return NULL;
  if (m->dead_count && !(f->dead = WAFER_NEW(arena, uint32_t, routers / 32 + 1))) return NULL;
  for (uint32_t i = 0; i < m->dead_count; i++) {
    size_t router = (size_t)m->dead[i].y * m->width + m->dead[i].x;
    f->dead[router / 32] |= 1u << router % 32;
  }
  return f;
}

void fabric_clear(fabric *f) {
  for (size_t i = 0; i < f->claimed.count; i++)
    for (int side = 0; side < SIDES; side++) f->in[side][f->claimed.at[i]] = 0;
  f->claimed.count = 0;
}

/* ---- Walking a route ---- */

typedef struct walker {
  const wafer_route_segment *route;
  uint32_t count, segment;
  uint32_t x, y;
  int side; /* the router at (x, y) receives from there */
} walker;

static walker walk_start(uint32_t count, const wafer_route_segment *route) {
  return (walker){
      .route = route, .count = count, .x = route[0].x0, .y = route[0].y0, .side = FROM_RAMP};
}

/* The next router of the route; false behind the last. */
static bool walk_next(walker *w) {
  while (w->segment < w->count && w->x == w->route[w->segment].x1 &&
         w->y == w->route[w->segment].y1)
    w->segment++;
  if (w->segment == w->count) return false;
  const wafer_route_segment *s = &w->route[w->segment];
  if (w->x != s->x1) {
    w->side = w->x < s->x1 ? FROM_WEST : FROM_EAST;
    w->x += w->x < s->x1 ? 1 : UINT32_MAX;
  } else {
    w->side = w->y < s->y1 ? FROM_NORTH : FROM_SOUTH;
    w->y += w->y < s->y1 ? 1 : UINT32_MAX;
  }
  return true;
}

static size_t router_at(const fabric *f, const walker *w) {
  return (size_t)w->y * f->machine->width + w->x;
}

const wafer_machine *fabric_machine(const fabric *f) {
  return f->machine;
}

bool fabric_alive(const fabric *f, uint32_t count, const wafer_route_segment *route) {
  if (!f->dead) return true;
  walker w = walk_start(count, route);
  do {
    size_t router = router_at(f, &w);
    if (f->dead[router / 32] >> router % 32 & 1) return false;
  } while (walk_next(&w));
  return true;
}

/* ---- Detours ---- */

/* Routers of a holding: its cores, those of the first and of the last replica, or the border of the
 * fabric. */
static bool holds(const fabric *f, const fabric_end *end, uint32_t x, uint32_t y) {
  if (end->at.where != WAFER_AT_wafer)
    return x == 0 || y == 0 || x == f->machine->width - 1 || y == f->machine->height - 1;
  wafer_rect r = end->at.rect;
  uint32_t last = (end->replicas - 1) * end->columns; /* columns further on */
  return x >= r.x && (x - r.x < r.width || (x - r.x >= last && x - r.x - last < r.width)) &&
         y >= r.y && y - r.y < r.height;
}

static bool passable(const fabric *f, size_t router, uint32_t color) {
  if (f->dead && f->dead[router / 32] >> router % 32 & 1) return false;
  for (int side = 0; color < FABRIC_MAX_COLORS && side < SIDES; side++)
    if (f->in[side][router] >> color & 1) return false;
  return true;
}

/* No way leads through the replicas between the first and the last: it would meet the row in which
 * it passes them. */
static void close_middle(fabric *f, const fabric_end *end) {
  wafer_rect r = end->at.rect;
  uint32_t last = (end->replicas - 1) * end->columns;
  if (end->at.where != WAFER_AT_wafer || last <= r.width) return;
  for (uint32_t y = r.y; y < r.y + r.height; y++)
    memset(f->came + (size_t)y * f->machine->width + r.x + r.width, FROM_RAMP + 1, last - r.width);
}

static size_t push_sources(fabric *f, const fabric_end *from, uint32_t color) {
  uint32_t w = f->machine->width, h = f->machine->height;
  size_t count = 0;
  for (uint32_t y = 0; y < h; y++)
    for (uint32_t x = 0; x < w; x++)
      if (holds(f, from, x, y) && passable(f, (size_t)y * w + x, color)) {
        f->came[(size_t)y * w + x] = FROM_RAMP + 1;
        f->queue[count++] = y * w + x;
      }
  return count;
}

/* Goes on from a router, ahead first; the number of routers then reached. */
static size_t spread_out(fabric *f, uint32_t at, uint32_t color, size_t count) {
  uint32_t w = f->machine->width, x = at % w, y = at / w;
  const struct {
    bool there;
    uint32_t to;
  } ways[] = {[FROM_WEST] = {x + 1 < w, at + 1},
              [FROM_EAST] = {x > 0, at - 1},
              [FROM_NORTH] = {y + 1 < f->machine->height, at + w},
              [FROM_SOUTH] = {y > 0, at - w}};
  int ahead = f->came[at] - 1;
  for (int i = 0; i <= FROM_SOUTH; i++) {
    int side = ahead == FROM_RAMP ? i : i == 0 ? ahead : i <= ahead ? i - 1 : i;
    if (!ways[side].there || f->came[ways[side].to] || !passable(f, ways[side].to, color)) continue;
    f->came[ways[side].to] = (uint8_t)(side + 1);
    f->queue[count++] = ways[side].to;
  }
  return count;
}

/* Backwards from where the search ended, then turned about; 0 segments: too many. */
static uint32_t trace(const fabric *f, uint32_t end, wafer_route_segment *route) {
  uint32_t w = f->machine->width, at = end, turn = end, count = 0;
  while (f->came[at] != FROM_RAMP + 1) {
    int side = f->came[at] - 1;
    while (f->came[at] == side + 1)
      at = side == FROM_WEST    ? at - 1
           : side == FROM_EAST  ? at + 1
           : side == FROM_NORTH ? at - w
                                : at + w;
    if (count == FABRIC_MAX_DETOUR - 2) return 0; /* replicas may add two */
    route[count++] = (wafer_route_segment){at % w, at / w, turn % w, turn / w};
    turn = at;
  }
  if (!count) route[count++] = (wafer_route_segment){end % w, end / w, end % w, end / w};
  for (uint32_t i = 0; i < count / 2; i++) {
    wafer_route_segment last = route[count - 1 - i];
    route[count - 1 - i] = route[i];
    route[i] = last;
  }
  return count;
}

/* Is the colour free, and every core alive, along the whole route? */
static bool all_passable(const fabric *f, uint32_t count, const wafer_route_segment *route,
                         uint32_t color) {
  walker w = walk_start(count, route);
  do {
    if (!passable(f, router_at(f, &w), color)) return false;
  } while (walk_next(&w));
  return true;
}

wafer_status fabric_detour(fabric *f, const fabric_end *from, const fabric_end *to, uint32_t color,
                           wafer_route_segment *route, uint32_t *count) {
  size_t routers = (size_t)f->machine->width * f->machine->height;
  *count = 0;
  if (!f->queue) f->queue = WAFER_NEW(f->arena, uint32_t, routers);
  if (!f->came) f->came = WAFER_NEW(f->arena, uint8_t, routers);
  if (!f->queue || !f->came) return WAFER_NO_MEMORY;
  memset(f->came, 0, routers);
  close_middle(f, from);
  close_middle(f, to);
  size_t reached = push_sources(f, from, color);
  for (size_t head = 0; head < reached; head++) {
    uint32_t at = f->queue[head], w = f->machine->width;
    if (holds(f, to, at % w, at / w)) {
      *count = trace(f, at, route);
      bool whole = *count && fabric_reach(from, to, count, route);
      if (!whole || !all_passable(f, *count, route, color)) *count = 0;
      return WAFER_OK;
    }
    reached = spread_out(f, at, color, reached);
  }
  return WAFER_OK;
}

/* ---- Colours ---- */

static uint32_t all_colors(const fabric *f) {
  return f->colors == 32 ? UINT32_MAX : (1u << f->colors) - 1;
}

/* Colours that other streams bring to the router; with `shared`, from another side alone. */
static uint32_t taken_at(const fabric *f, const walker *w, bool shared) {
  uint32_t taken = 0;
  size_t router = router_at(f, w);
  for (int side = 0; side < SIDES; side++)
    if (!shared || side != w->side) taken |= f->in[side][router];
  return taken;
}

/* The colours that may be used along the whole path; 0 names the router that has none left. */
static uint32_t free_along(const fabric *f, const fabric_path *path, bool shared,
                           wafer_core_at *congested) {
  uint32_t free = all_colors(f);
  walker w = walk_start(path->count, path->at);
  do {
    free &= ~taken_at(f, &w, shared);
    if (!free) {
      *congested = (wafer_core_at){w.x, w.y};
      return 0;
    }
  } while (walk_next(&w));
  return free;
}

static bool remember(fabric *f, uint32_t router) {
  claimed *c = &f->claimed;
  if (!WAFER_GROW(f->arena, c->at, c->count, c->room, 4096)) return false;
  c->at[c->count++] = router;
  return true;
}

bool fabric_claim(fabric *f, uint32_t count, const wafer_route_segment *route, uint32_t color,
                  wafer_core_at *clash) {
  walker w = walk_start(count, route);
  bool clear = true;
  do {
    uint32_t router = (uint32_t)router_at(f, &w);
    if (clear && taken_at(f, &w, true) >> color & 1) {
      *clash = (wafer_core_at){w.x, w.y};
      clear = false;
    }
    f->in[w.side][router] |= 1u << color;
    if (!remember(f, router)) {
      *clash = (wafer_core_at){WAFER_NONE, WAFER_NONE};
      return false;
    }
  } while (walk_next(&w));
  return clear;
}

#define HOPS_PER_COLOR 16

bool fabric_assign(fabric *f, uint32_t count, const fabric_path *paths, uint32_t join,
                   uint32_t avoid, uint32_t *chosen, uint32_t *color, wafer_core_at *congested) {
  const struct {
    uint32_t of; /* colours that come into question */
    bool shared; /* with others */
  } rounds[] = {{join, true}, {~avoid, false}, {UINT32_MAX, false}, {UINT32_MAX, true}};
  uint64_t best = UINT64_MAX;
  for (size_t i = join ? 0 : 1; i < WAFER_COUNT(rounds) && best == UINT64_MAX; i++)
    for (uint32_t p = 0; p < count && (p < FABRIC_WEIGHED || best == UINT64_MAX); p++) {
      uint32_t free = free_along(f, &paths[p], rounds[i].shared, congested) & rounds[i].of;
      if (!free) continue;
      uint32_t lowest = (uint32_t)__builtin_ctz(free);
      uint64_t price =
          wafer_route_hops(paths[p].count, paths[p].at) + (uint64_t)lowest * HOPS_PER_COLOR;
      if (price >= best) continue;
      best = price;
      *chosen = p;
      *color = lowest;
    }
  if (best == UINT64_MAX) return false;
  return fabric_claim(f, paths[*chosen].count, paths[*chosen].at, *color, congested);
}

static uint32_t colors_at(const fabric *f, uint32_t router) {
  uint32_t taken = 0;
  for (int side = 0; side < SIDES; side++) taken |= f->in[side][router];
  return (uint32_t)__builtin_popcount(taken);
}

uint32_t fabric_busiest(const fabric *f, uint32_t room, wafer_core_at *at, uint32_t *colors) {
  uint32_t count = 0, width = f->machine->width;
  for (size_t i = 0; i < f->claimed.count; i++) {
    uint32_t router = f->claimed.at[i], n = colors_at(f, router), k = count;
    bool there = false;
    for (uint32_t j = 0; j < count; j++) there |= at[j].y * width + at[j].x == router;
    if (there || (count == room && (!room || n <= colors[room - 1]))) continue;
    if (k == room) k--;
    for (; k > 0 && colors[k - 1] < n; k--) {
      at[k] = at[k - 1];
      colors[k] = colors[k - 1];
    }
    at[k] = (wafer_core_at){router % width, router / width};
    colors[k] = n;
    if (count < room) count++;
  }
  return count;
}

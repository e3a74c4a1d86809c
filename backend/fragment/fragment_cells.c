/* What a colour of a fragment does at each router as it is: cells, the parts that words join them
 * to, and the stretches on which they only pass. */
#include "fragment_cells.h"

#include <string.h>

bool cells_kept(const around *a, uint32_t router, bool near) {
  uint32_t kept = a->kept_here[router] + (near ? 0u : a->kept_near[router]);
  if (a->blocked[router]) return true;
  return kept && !a->ignore &&
         (uint32_t)__builtin_popcount(a->used[router]) + a->awaited[router] + kept >
             a->machine->colors;
}

bool cells_add(around *a, const wafer_route *route, uint32_t router, bool passes) {
  if (!WAFER_GROW(a->arena, a->cells, a->count, a->room, 1024)) return false;
  cell *c = &a->cells[a->count];
  *c = (cell){.route = *route, .passes = passes};
  c->route.cores = (wafer_rect){router % a->width, router / a->width, 1, 1};
  a->at[router] = a->count++;
  return true;
}

static void forget(around *a) {
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t router = router_of(a, &a->cells[i]);
    a->at[router] = NONE;
    a->passed[router] = false;
  }
  a->count = a->stretch_count = 0;
}

static bool add_cells(around *a, const fragment *f, uint32_t color) {
  for (uint32_t i = 0; i < f->route_count; i++) {
    const wafer_route *r = &f->routes[i];
    if (r->color != color) continue;
    for (uint32_t y = r->cores.y; y < r->cores.y + r->cores.height; y++)
      for (uint32_t x = r->cores.x; x < r->cores.x + r->cores.width; x++)
        if (!cells_add(a, r, y * a->width + x, false)) return false;
  }
  return true;
}

/* From a router of the colour to one, and nothing else. */
static bool passes(const around *a, const cell *c) {
  const wafer_route *r = &c->route;
  uint32_t router = router_of(a, c), to = r->at[0].to;
  if (r->positions != 1 || r->at[0].from == WAFER_PORT_ramp) return false;
  if (to & (to - 1) || to == WAFER_TO(ramp)) return false;
  uint8_t out = (uint8_t)__builtin_ctz(to);
  return cell_beyond(a, router, r->at[0].from) != NONE && cell_beyond(a, router, out) != NONE;
}

static bool add_stretch(around *a, uint32_t from, uint8_t leaves) {
  stretch s = {.from = from, .leaves = leaves};
  uint8_t out = leaves;
  uint32_t at = cell_beyond(a, router_of(a, &a->cells[from]), out);
  for (; at != NONE && a->cells[at].passes; s.passed++) {
    out = (uint8_t)__builtin_ctz(a->cells[at].route.at[0].to);
    at = cell_beyond(a, router_of(a, &a->cells[at]), out);
  }
  if (at == NONE || !s.passed) return true;
  if (!WAFER_GROW(a->arena, a->stretches, a->stretch_count, a->stretch_room, 1024)) return false;
  s.to = at;
  s.enters = opposite(out);
  a->stretches[a->stretch_count++] = s;
  return true;
}

/* Do words pass from one router to the other, or back? */
static bool are_joined(const cell *one, const cell *other, uint8_t port) {
  uint32_t back = opposite(port);
  return (wafer_route_to(&one->route) >> port & wafer_route_from(&other->route) >> back & 1) ||
         (wafer_route_from(&one->route) >> port & wafer_route_to(&other->route) >> back & 1);
}

/* All cells that are joined with that one. */
static void find_part(around *a, uint32_t first, uint32_t part) {
  uint32_t count = 1;
  a->next[0] = first;
  a->looked[first].part = part;
  for (uint32_t i = 0; i < count; i++)
    for (uint8_t port = 0; port < WAFER_PORT_ramp; port++) {
      uint32_t at = a->next[i], other = cell_beyond(a, a->looked[at].at, port);
      if (other == NONE || a->looked[other].part != NONE) continue;
      if (!are_joined(&a->cells[at], &a->cells[other], port)) continue;
      a->looked[other].part = part;
      a->next[count++] = other;
    }
}

bool cells_closed(const around *a, const cell *c) {
  uint32_t router = router_of(a, c);
  if (!c->passes) return false;
  uint8_t out = (uint8_t)__builtin_ctz(c->route.at[0].to), in = c->route.at[0].from;
  bool near =
      !a->cells[cell_beyond(a, router, out)].passes || !a->cells[cell_beyond(a, router, in)].passes;
  return cells_kept(a, router, near);
}

bool cells_load(around *a, const fragment *f, uint32_t color) {
  forget(a);
  if (!add_cells(a, f, color)) return false;
  for (uint32_t i = 0; i < a->count; i++) a->cells[i].passes = passes(a, &a->cells[i]);
  return true;
}

const around_router *around_look(around *a, const fragment *f, uint32_t color, uint32_t *count,
                                 uint32_t *parts) {
  *parts = 0;
  if (!cells_load(a, f, color)) return NULL;
  for (uint32_t i = 0; i < a->count; i++)
    a->looked[i] = (around_router){router_of(a, &a->cells[i]), NONE, a->cells[i].passes,
                                   cells_closed(a, &a->cells[i])};
  for (uint32_t i = 0; i < a->count; i++)
    if (a->looked[i].part == NONE) find_part(a, i, (*parts)++);
  *count = a->count;
  return a->looked;
}

bool cells_stretch(around *a) {
  for (uint32_t i = 0; i < a->count; i++)
    for (uint8_t port = 0; port < WAFER_PORT_ramp && !a->cells[i].passes; port++)
      if (wafer_route_to(&a->cells[i].route) >> port & 1 && !add_stretch(a, i, port)) return false;
  return true;
}

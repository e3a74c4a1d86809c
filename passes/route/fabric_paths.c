/* Candidate ways between two holdings: straight, with one corner, with two. */
#include <string.h>

#include "fabric.h"

typedef struct candidates {
  const wafer_machine *machine;
  const fabric *fabric; /* NULL: every router works */
  const fabric_end *from, *to;
  uint32_t count, room;
  fabric_path *paths;
} candidates;

/* Adds the route through these corners, and on through all replicas; corners that repeat are
 * dropped. */
static void add_path(candidates *c, uint32_t count, const wafer_core_at *corners) {
  fabric_path path = {0};
  if (c->count == c->room) return;
  for (uint32_t i = 0; i + 1 < count; i++) {
    wafer_route_segment s = {corners[i].x, corners[i].y, corners[i + 1].x, corners[i + 1].y};
    bool point = s.x0 == s.x1 && s.y0 == s.y1;
    if (!point || (path.count == 0 && i + 2 == count)) path.at[path.count++] = s;
  }
  if (path.count && fabric_reach(c->from, c->to, &path.count, path.at) &&
      (!c->fabric || fabric_alive(c->fabric, path.count, path.at)))
    c->paths[c->count++] = path;
}

/* The n-th of `count` numbers from `low` on, from the middle outwards. */
static uint32_t outwards(uint32_t low, uint32_t count, uint32_t n) {
  uint32_t middle = low + (count - 1) / 2;
  return n % 2 ? middle + (n + 1) / 2 : middle - n / 2;
}

/* At most `most` of them, evenly thinned. */
static uint32_t spread(uint32_t low, uint32_t count, uint32_t n, uint32_t most) {
  return outwards(low, count, count <= most ? n : (uint32_t)((uint64_t)n * count / most));
}

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}
static uint32_t max_u32(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}
static uint32_t right(wafer_rect r) {
  return r.x + r.width - 1;
}
static uint32_t bottom(wafer_rect r) {
  return r.y + r.height - 1;
}

/* ---- Replicas ---- */

/* All replicas. */
static wafer_rect whole(const fabric_end *end) {
  wafer_rect r = end->at.rect;
  r.width += (end->replicas - 1) * end->columns;
  return r;
}

/* Where a route along a column may enter or leave: the first replica or the last, the nearer to
 * `other`. From there on it passes the rest. */
static wafer_rect near_end(const fabric_end *end, wafer_rect other) {
  wafer_rect r = end->at.rect, all = whole(end);
  bool east = 2 * (uint64_t)other.x + other.width > 2 * (uint64_t)all.x + all.width;
  if (east) r.x += (end->replicas - 1) * end->columns;
  return r;
}

/* From (x, y) in its row to where a route has passed all replicas: *to, which is x when it has.
 * False when there are some on both sides. */
static bool farthest(const fabric_end *end, uint32_t x, uint32_t *to) {
  uint32_t first = right(end->at.rect);
  uint32_t last = end->at.rect.x + (end->replicas - 1) * end->columns;
  *to = end->at.where != WAFER_AT_wafer || end->replicas < 2 ? x : x <= first ? last : first;
  return *to == x || x <= first || x >= last;
}

/* Runs that go on in the same direction become one. */
static uint32_t straighten(uint32_t count, wafer_route_segment *route) {
  uint32_t n = 1;
  for (uint32_t i = 1; i < count; i++) {
    wafer_route_segment *last = &route[n - 1], next = route[i];
    bool row = last->y0 == last->y1 && last->y1 == next.y1 && next.y0 == next.y1;
    if (row && (last->x0 < last->x1) == (next.x0 < next.x1))
      last->x1 = next.x1;
    else
      route[n++] = next;
  }
  return n;
}

bool fabric_reach(const fabric_end *from, const fabric_end *to, uint32_t *count,
                  wafer_route_segment *route) {
  wafer_route_segment first = route[0], last = route[*count - 1];
  uint32_t x;
  if (!farthest(from, first.x0, &x)) return false;
  if (x != first.x0) {
    memmove(route + 1, route, *count * sizeof *route);
    route[0] = (wafer_route_segment){x, first.y0, first.x0, first.y0};
    ++*count;
  }
  if (!farthest(to, last.x1, &x)) return false;
  if (x != last.x1) route[(*count)++] = (wafer_route_segment){last.x1, last.y1, x, last.y1};
  *count = straighten(*count, route);
  return true;
}

/* ---- Shapes of routes ---- */

#define ROWS_TRIED 40

/* Between the border of the fabric and a rectangle, along rows: the nearer side first. */
static void edge_rows(candidates *c, wafer_rect r, bool inwards) {
  uint32_t last = c->machine->width - 1;
  bool west_first = r.x <= last - right(r);
  for (uint32_t turn = 0; turn < 2; turn++) {
    bool west = (turn == 0) == west_first;
    for (uint32_t n = 0; n < min_u32(r.height, ROWS_TRIED); n++) {
      uint32_t y = spread(r.y, r.height, n, ROWS_TRIED);
      wafer_core_at edge = {west ? 0 : last, y}, border = {west ? r.x : right(r), y};
      add_path(c, 2, inwards ? (wafer_core_at[]){edge, border} : (wafer_core_at[]){border, edge});
    }
  }
}

static void edge_columns(candidates *c, wafer_rect r, bool inwards) {
  uint32_t last = c->machine->height - 1;
  for (uint32_t n = 0; n < min_u32(r.width, ROWS_TRIED); n++) {
    uint32_t x = spread(r.x, r.width, n, ROWS_TRIED);
    bool north = r.y <= last - bottom(r);
    wafer_core_at edge = {x, north ? 0 : last}, border = {x, north ? r.y : bottom(r)};
    add_path(c, 2, inwards ? (wafer_core_at[]){edge, border} : (wafer_core_at[]){border, edge});
  }
}

/* Rectangles on one corner, one phase's after another's: along a row through both. */
static void overlapping(candidates *c, wafer_rect a, wafer_rect b) {
  uint32_t low = max_u32(a.y, b.y), rows = min_u32(bottom(a), bottom(b)) - low + 1;
  for (uint32_t n = 0; n < min_u32(rows, ROWS_TRIED); n++) {
    uint32_t y = spread(low, rows, n, ROWS_TRIED);
    add_path(c, 2, (wafer_core_at[]){{a.x, y}, {right(b), y}});
  }
}

static void straight_rows(candidates *c, wafer_rect a, wafer_rect b) {
  uint32_t top = max_u32(a.y, b.y), end = min_u32(bottom(a), bottom(b));
  for (uint32_t n = 0; top <= end && n < min_u32(end - top + 1, ROWS_TRIED); n++) {
    uint32_t y = spread(top, end - top + 1, n, ROWS_TRIED);
    bool east = right(a) < b.x;
    add_path(c, 2, (wafer_core_at[]){{east ? right(a) : a.x, y}, {east ? b.x : right(b), y}});
  }
}

static void straight_columns(candidates *c, wafer_rect a, wafer_rect b) {
  uint32_t left = max_u32(a.x, b.x), stop = min_u32(right(a), right(b));
  for (uint32_t n = 0; left <= stop && n < min_u32(stop - left + 1, ROWS_TRIED); n++) {
    uint32_t x = spread(left, stop - left + 1, n, ROWS_TRIED);
    bool south = bottom(a) < b.y;
    add_path(c, 2, (wafer_core_at[]){{x, south ? bottom(a) : a.y}, {x, south ? b.y : bottom(b)}});
  }
}

#define BENDS_TRIED 10

/* One corner: out of a's side along a row, into b's along a column; or, `columns`, the other way
 * round. Each is what a route in its direction may enter. */
static void bend(candidates *c, wafer_rect a, wafer_rect b, uint32_t n, bool columns) {
  wafer_rect across = columns ? a : b, along = columns ? b : a;
  uint32_t x = spread(across.x, across.width, n % across.width, BENDS_TRIED);
  uint32_t y = spread(along.y, along.height, n % along.height, BENDS_TRIED);
  if ((x >= along.x && x <= right(along)) || (y >= across.y && y <= bottom(across))) return;
  wafer_core_at side = {x > right(along) ? right(along) : along.x, y};
  wafer_core_at end = {x, y < across.y ? across.y : bottom(across)}, corner = {x, y};
  add_path(c, 3,
           columns ? (wafer_core_at[]){end, corner, side} : (wafer_core_at[]){side, corner, end});
}

static void bent(candidates *c, const fabric_end *from, const fabric_end *to) {
  wafer_rect a = whole(from), b = whole(to);
  for (uint32_t n = 0; n < BENDS_TRIED; n++) {
    bend(c, a, near_end(to, a), n, false);
    bend(c, near_end(from, b), b, n, true);
  }
}

/* Two corners: along a row, a column between the two (or beside them), along a row. */
static void zigzag(candidates *c, wafer_rect a, wafer_rect b) {
  uint32_t last = c->machine->width - 1, low = min_u32(a.x, b.x),
           high = max_u32(right(a), right(b));
  for (uint32_t n = 0; n < 3 * BENDS_TRIED; n++) {
    uint32_t gap = 1 + n / 2;
    uint32_t x = n % 2 ? (low >= gap ? low - gap : 0) : min_u32(high + gap, last);
    uint32_t from = spread(a.y, a.height, n % a.height, 3 * BENDS_TRIED);
    uint32_t to = spread(b.y, b.height, n % b.height, 3 * BENDS_TRIED);
    bool in_a = x >= a.x && x <= right(a), in_b = x >= b.x && x <= right(b);
    if (in_a || in_b || from == to) continue; /* it would come back the way it went */
    add_path(c, 4,
             (wafer_core_at[]){{x > right(a) ? right(a) : a.x, from},
                               {x, from},
                               {x, to},
                               {x > right(b) ? right(b) : b.x, to}});
  }
}

/* Between rectangles apart: those along rows go by all replicas, those along columns by the nearer
 * end of them. */
static void between(candidates *c, const fabric_end *from, const fabric_end *to) {
  wafer_rect a = whole(from), b = whole(to);
  wafer_rect a_end = near_end(from, b), b_end = near_end(to, a);
  bool rows = min_u32(a.height, b.height) >= min_u32(a_end.width, b_end.width);
  straight_rows(c, a, b);
  if (!rows) straight_columns(c, a_end, b_end);
  if (!rows) bent(c, from, to);
  zigzag(c, a, b);
  if (rows) straight_columns(c, a_end, b_end);
  if (rows) bent(c, from, to);
}

static void find_all(candidates *c) {
  const fabric_end *from = c->from, *to = c->to;
  bool inwards = from->at.where != WAFER_AT_wafer, outward = to->at.where != WAFER_AT_wafer;
  if (inwards || outward) {
    const fabric_end *end = inwards ? to : from;
    edge_rows(c, whole(end), inwards);
    edge_columns(c, end->at.rect, inwards);
  } else if (wafer_rect_overlaps(from->at.rect, to->at.rect)) {
    overlapping(c, from->at.rect, to->at.rect);
  } else {
    between(c, from, to);
  }
}

uint32_t fabric_paths(const fabric *f, const fabric_end *from, const fabric_end *to,
                      fabric_path *paths) {
  candidates c = {fabric_machine(f), f, from, to, 0, FABRIC_MAX_PATHS, paths};
  find_all(&c);
  return c.count;
}

uint64_t fabric_likely_hops(const wafer_machine *m, const fabric_end *from, const fabric_end *to) {
  fabric_path paths[FABRIC_WEIGHED];
  candidates c = {m, NULL, from, to, 0, FABRIC_WEIGHED, paths};
  uint64_t least = UINT64_MAX;
  find_all(&c);
  for (uint32_t p = 0; p < c.count; p++) {
    uint64_t hops = wafer_route_hops(paths[p].count, paths[p].at);
    least = hops < least ? hops : least;
  }
  return c.count ? least : 0;
}

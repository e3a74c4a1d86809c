/* Candidate ways between two holdings: straight, with one corner, with two. */
#include "fabric.h"

typedef struct candidates {
  const fabric *fabric;
  uint32_t count;
  fabric_path *paths;
} candidates;

/* Adds the route through these corners; corners that repeat are dropped. */
static void add_path(candidates *c, uint32_t count, const wafer_core_at *corners) {
  fabric_path path = {0};
  if (c->count == FABRIC_MAX_PATHS) return;
  for (uint32_t i = 0; i + 1 < count; i++) {
    wafer_route_segment s = {corners[i].x, corners[i].y, corners[i + 1].x, corners[i + 1].y};
    bool point = s.x0 == s.x1 && s.y0 == s.y1;
    if (!point || (path.count == 0 && i + 2 == count)) path.at[path.count++] = s;
  }
  if (path.count && fabric_alive(c->fabric, path.count, path.at)) c->paths[c->count++] = path;
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

#define ROWS_TRIED 40

/* Between the border of the fabric and a rectangle, along rows: the nearer side first. */
static void edge_rows(candidates *c, wafer_rect r, bool inwards) {
  uint32_t last = fabric_machine(c->fabric)->width - 1;
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
  uint32_t last = fabric_machine(c->fabric)->height - 1;
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

/* One corner: out of the side along a row, into the other along a column; then the other way round.
 */
static void bent(candidates *c, wafer_rect a, wafer_rect b) {
  for (uint32_t n = 0; n < BENDS_TRIED; n++) {
    uint32_t x = spread(b.x, b.width, n % b.width, BENDS_TRIED),
             y = spread(a.y, a.height, n % a.height, BENDS_TRIED);
    if ((x < a.x || x > right(a)) && (y < b.y || y > bottom(b)))
      add_path(c, 3,
               (wafer_core_at[]){
                   {x > right(a) ? right(a) : a.x, y}, {x, y}, {x, y < b.y ? b.y : bottom(b)}});
    x = spread(a.x, a.width, n % a.width, BENDS_TRIED);
    y = spread(b.y, b.height, n % b.height, BENDS_TRIED);
    if ((x < b.x || x > right(b)) && (y < a.y || y > bottom(a)))
      add_path(c, 3,
               (wafer_core_at[]){
                   {x, y > bottom(a) ? bottom(a) : a.y}, {x, y}, {x < b.x ? b.x : right(b), y}});
  }
}

/* Two corners: along a row, a column between the two (or beside them), along a row. */
static void zigzag(candidates *c, wafer_rect a, wafer_rect b) {
  uint32_t last = fabric_machine(c->fabric)->width - 1, low = min_u32(a.x, b.x),
           high = max_u32(right(a), right(b));
  for (uint32_t n = 0; n < 3 * BENDS_TRIED; n++) {
    uint32_t gap = 1 + n / 2;
    uint32_t x = n % 2 ? (low >= gap ? low - gap : 0) : min_u32(high + gap, last);
    uint32_t from = spread(a.y, a.height, n % a.height, 3 * BENDS_TRIED);
    uint32_t to = spread(b.y, b.height, n % b.height, 3 * BENDS_TRIED);
    bool in_a = x >= a.x && x <= right(a), in_b = x >= b.x && x <= right(b);
    if (in_a || in_b) continue;
    add_path(c, 4,
             (wafer_core_at[]){{x > right(a) ? right(a) : a.x, from},
                               {x, from},
                               {x, to},
                               {x > right(b) ? right(b) : b.x, to}});
  }
}

uint32_t fabric_paths(const fabric *f, const wafer_holding *from, const wafer_holding *to,
                      fabric_path *paths) {
  candidates c = {.fabric = f, .paths = paths};
  bool inwards = from->where != WAFER_AT_wafer, outward = to->where != WAFER_AT_wafer;
  if (inwards || outward) {
    wafer_rect r = inwards ? to->rect : from->rect;
    edge_rows(&c, r, inwards);
    edge_columns(&c, r, inwards);
  } else if (wafer_rect_overlaps(from->rect, to->rect)) {
    overlapping(&c, from->rect, to->rect);
  } else {
    bool rows =
        min_u32(from->rect.height, to->rect.height) >= min_u32(from->rect.width, to->rect.width);
    straight_rows(&c, from->rect, to->rect);
    if (!rows) straight_columns(&c, from->rect, to->rect);
    if (!rows) bent(&c, from->rect, to->rect);
    zigzag(&c, from->rect, to->rect);
    if (rows) straight_columns(&c, from->rect, to->rect);
    if (rows) bent(&c, from->rect, to->rect);
  }
  return c.count;
}

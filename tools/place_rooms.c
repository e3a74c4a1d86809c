/* Free cores around rectangles: room for other splits, and for shorter wires. */
#include <stdlib.h>
#include <string.h>

#include "place.h"

#define SWEEPS 8

/* A rectangle's extent along one axis. */
typedef struct extent {
  uint32_t at, size;
} extent;

static extent along(const wafer_placed *r, bool upright) {
  return upright ? (extent){r->y, r->height} : (extent){r->x, r->width};
}

static bool overlap(extent a, extent b) {
  return a.at < b.at + b.size && b.at < a.at + a.size;
}

/* Where rectangle i could be along an axis, others standing still: from the lowest place to the end
 * of the highest. */
static void free_along(const contest *c, const wafer_placed *at, uint32_t i, bool upright,
                       uint32_t *low, uint32_t *high) {
  extent own = along(&at[i], upright), across = along(&at[i], !upright);
  *low = 0, *high = upright ? c->height : c->width;
  for (uint32_t k = 0; k < c->count; k++) {
    if (k == i || !overlap(across, along(&at[k], !upright))) continue;
    extent o = along(&at[k], upright);
    uint32_t end = o.at + o.size;
    if (end <= own.at && end > *low) *low = end;
    if (end > own.at && o.at < *high) *high = o.at;
  }
}

/* Both ends move by as much, at most by half the length. */
static uint32_t growth(const contest *c, const wafer_placed *rooms, uint32_t i, bool upright) {
  extent own = along(&rooms[i], upright);
  uint32_t low, high, most = own.size / 2;
  free_along(c, rooms, i, upright, &low, &high);
  if (own.at - low < most) most = own.at - low;
  if (high - own.at - own.size < most) most = high - own.at - own.size;
  return most;
}

void contest_rooms(const contest *c, const wafer_placed *at, wafer_placed *rooms) {
  memcpy(rooms, at, c->count * sizeof *rooms);
  for (uint32_t i = 0; i < c->count; i++) {
    uint32_t by = growth(c, rooms, i, false);
    rooms[i].x -= by, rooms[i].width += 2 * by;
    by = growth(c, rooms, i, true);
    rooms[i].y -= by, rooms[i].height += 2 * by;
  }
}

/* The edges at each kernel. */
typedef struct slider {
  const contest *c;
  wafer_placed *at;
  uint32_t *first, *edge;
} slider;

/* Twice where the middle of an edge's other end is. */
static int64_t other_middle(const slider *s, uint32_t i, bool upright, uint32_t e) {
  const wafer_placer_edge *edge = &s->c->edges[e];
  extent o = along(&s->at[edge->from == i ? edge->to : edge->from], upright);
  return 2 * (int64_t)o.at + o.size;
}

/* Twice the length of the kernel's wires along an axis, standing at `place`. */
static uint64_t wires_at(const slider *s, uint32_t i, bool upright, uint32_t place) {
  int64_t middle = 2 * (int64_t)place + along(&s->at[i], upright).size;
  uint64_t sum = 0;
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++)
    sum += s->c->edges[s->edge[k]].weight *
           (uint64_t)llabs(middle - other_middle(s, i, upright, s->edge[k]));
  return sum;
}

/* Wires are shortest where one of them is, or next to it. */
static bool slide(const slider *s, uint32_t i, bool upright) {
  uint32_t low, high;
  free_along(s->c, s->at, i, upright, &low, &high);
  extent own = along(&s->at[i], upright);
  uint32_t last = high - own.size, best = own.at;
  if (low == last) return false;
  uint64_t least = wires_at(s, i, upright, best);
  for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
    int64_t place = (other_middle(s, i, upright, s->edge[k]) - own.size) / 2;
    uint32_t from = place < low ? low : place > last ? last : (uint32_t)place;
    for (uint32_t x = from; x <= from + 1 && x <= last; x++) {
      uint64_t wires = wires_at(s, i, upright, x);
      if (wires < least) least = wires, best = x;
    }
  }
  if (best == own.at) return false;
  *(upright ? &s->at[i].y : &s->at[i].x) = best;
  return true;
}

static void list_edges(const slider *s) {
  const contest *c = s->c;
  for (uint32_t e = 0; e < c->edge_count; e++)
    s->first[c->edges[e].from]++, s->first[c->edges[e].to]++;
  for (uint32_t i = 0; i < c->count; i++) s->first[i + 1] += s->first[i];
  for (uint32_t e = 0; e < c->edge_count; e++)
    s->edge[--s->first[c->edges[e].from]] = e, s->edge[--s->first[c->edges[e].to]] = e;
}

bool contest_slide(const contest *c, wafer_placed *at) {
  slider s = {c, at, calloc((size_t)c->count + 1, sizeof *s.first),
              calloc(2 * (size_t)c->edge_count + 1, sizeof *s.edge)};
  bool ok = s.first && s.edge, moved = ok;
  if (ok) list_edges(&s);
  for (uint32_t sweep = 0; sweep < SWEEPS && moved; sweep++) {
    moved = false;
    for (uint32_t i = 0; i < c->count; i++) {
      moved |= slide(&s, i, false);
      moved |= slide(&s, i, true);
    }
  }
  free(s.first);
  free(s.edge);
  return ok;
}

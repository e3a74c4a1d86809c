/* Free cores around rectangles: room for other splits. */
#include <string.h>

#include "place.h"

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

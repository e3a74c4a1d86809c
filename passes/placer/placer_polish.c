/* The last of a layout, cuts or none: kernels take other shapes where there are free cores around
 * them, and all are shifted to where wires are shortest, as long as the score falls. */
#include <string.h>

#include "placer_search.h"

#define NEAR 8   /* the first step where little has changed */
#define WAYS 16u /* four parities, two rooms, two shapes in each */

bool polisher_init(polisher *o, const placer *in, curve_cache *cache, wafer_arena *arena) {
  *o = (polisher){.in = in, .cache = cache};
  o->now.at = WAFER_NEW(arena, wafer_placed, in->p->count);
  return o->now.at && shifter_init(&o->shift, in->p, arena);
}

static void copy(const placer *in, layout *to, const layout *from) {
  wafer_placed *at = to->at;
  memcpy(at, from->at, in->p->count * sizeof *at);
  *to = *from;
  to->at = at;
}

/* Shifts what is there now; better than the best, it is the best. */
static bool settle(polisher *o, layout *best) {
  shift_all(&o->shift, o->now.at, o->settled ? NEAR : SHIFT_FAR);
  o->settled++;
  layout_score(o->in, &o->now);
  if (o->now.score >= best->score) return false;
  copy(o->in, best, &o->now);
  return true;
}

/* ---- Rooms and shapes ---- */

/* The cores that kernel i could have, its extent across staying as it is. */
static wafer_placed room_of(const polisher *o, uint32_t i, bool upright) {
  const wafer_placed *at = o->now.at;
  wafer_placed own = at[i];
  uint32_t low = 0, high = upright ? o->in->p->height : o->in->p->width;
  uint32_t here = upright ? own.y : own.x;
  for (uint32_t k = 0; k < o->in->p->count; k++) {
    const wafer_placed *b = &at[k];
    bool across = upright ? own.x < b->x + b->width && b->x < own.x + own.width
                          : own.y < b->y + b->height && b->y < own.y + own.height;
    if (k == i || !across) continue;
    uint32_t from = upright ? b->y : b->x, to = from + (upright ? b->height : b->width);
    if (to <= here && to > low) low = to;
    if (from > here && from < high) high = from;
  }
  if (upright)
    own.y = low, own.height = high - low;
  else
    own.x = low, own.width = high - low;
  return own;
}

/* The point of a room that is lowest, or else narrowest; PLACER_NONE: there is none. */
static uint32_t within(const curve *c, const wafer_placed *room, bool lowest) {
  uint32_t best = PLACER_NONE;
  for (uint32_t i = 0; i < c->count && c->at[i].w <= room->width; i++) {
    if (c->at[i].h > room->height) continue;
    best = i;
    if (!lowest) break;
  }
  return best;
}

static uint32_t clamp(int64_t v, uint32_t low, uint32_t high) {
  return v < low ? low : v > high ? high : (uint32_t)v;
}

/* Gives kernel i another shape in a room, its centre where it was as far as may be; false when it
 * has none of that kind, or has it already. */
static bool reshape(polisher *o, uint32_t i, const curve *c, const wafer_placed *room,
                    bool lowest) {
  uint32_t k = within(c, room, lowest);
  wafer_placed *at = &o->now.at[i];
  if (k == PLACER_NONE || (c->at[k].w == at->width && c->at[k].h == at->height)) return false;
  uint32_t w = c->at[k].w, h = c->at[k].h, which = c->which[k];
  int64_t x = (2 * (int64_t)at->x + at->width - w) / 2;
  int64_t y = (2 * (int64_t)at->y + at->height - h) / 2;
  *at = (wafer_placed){o->cache->index[o->in->p->kind[i]][which / 2],
                       which % 2,
                       clamp(x, room->x, room->x + room->width - w),
                       clamp(y, room->y, room->y + room->height - h),
                       w,
                       h};
  return true;
}

/* Shapes of kernel i that take at most this time; NULL: none. */
static const curve *curve_of(const polisher *o, uint32_t i, uint64_t time) {
  const curve *c = curve_at(o->cache, o->in->p->kind[i], time);
  return c && c->count ? c : NULL;
}

/* ---- What is tried ---- */

/* All kernels with sides as odd along an axis, where they have room for it. */
static bool align(polisher *o, layout *best, bool upright, uint32_t odd) {
  bool any = false;
  copy(o->in, &o->now, best);
  for (uint32_t i = 0; i < o->in->p->count; i++) {
    const wafer_placed *at = &o->now.at[i];
    if ((upright ? at->height : at->width) % 2 == odd) continue;
    uint32_t want = curve_parity(at->width, at->height) ^ (upright ? 2 : 1);
    const curve *c = curve_of(o, i, best->time);
    wafer_placed room = room_of(o, i, upright);
    if (c && reshape(o, i, leaf_part(o->cache, c, want), &room, !upright)) any = true;
  }
  return any && settle(o, best);
}

static uint64_t time_of(const polisher *o, uint32_t i) {
  return o->in->p->kinds[o->in->p->kind[i]].at[o->now.at[i].shape].time;
}

/* All kernels faster than the slowest: those that are not take other shapes. */
static bool hurry(polisher *o, layout *best) {
  copy(o->in, &o->now, best);
  for (uint32_t i = 0; i < o->in->p->count; i++) {
    if (time_of(o, i) < best->time) continue;
    const curve *c = curve_of(o, i, best->time - 1);
    bool done = false;
    for (uint32_t way = 0; c && way < 4 && !done; way++) {
      wafer_placed room = room_of(o, i, way & 1);
      done = reshape(o, i, c, &room, way & 2);
    }
    if (!done) return false;
  }
  return settle(o, best);
}

/* Kernel i in all its other shapes. */
static bool vary(polisher *o, layout *best, uint32_t i) {
  bool better = false;
  for (uint32_t way = 0; way < WAYS; way++) {
    const curve *c = curve_of(o, i, best->time);
    copy(o->in, &o->now, best);
    wafer_placed room = room_of(o, i, way & 4);
    if (c && reshape(o, i, leaf_part(o->cache, c, way % 4), &room, way & 8))
      better |= settle(o, best);
  }
  return better;
}

/* What the layouts tried count for. */
static uint64_t moves_of(const polisher *o) {
  return o->settled * 2 * o->in->p->count;
}

static bool over(const polisher *o, const budget *b) {
  if (b->until > 0 && search_seconds() >= b->until) return true;
  return b->most && moves_of(o) >= b->most;
}

uint64_t layout_polish(polisher *o, layout *best, const budget *b) {
  o->settled = 0;
  o->shift.until = b->until;
  copy(o->in, &o->now, best);
  settle(o, best);
  for (bool better = true; better && !over(o, b);) {
    better = false;
    for (uint32_t k = 0; k < 4 && !over(o, b); k++) better |= align(o, best, k & 1, k >> 1);
    while (!over(o, b) && hurry(o, best)) better = true;
    for (uint32_t i = 0; i < o->in->p->count && !over(o, b); i++) better |= vary(o, best, i);
  }
  return moves_of(o);
}

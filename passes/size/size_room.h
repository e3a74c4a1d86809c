/* Free cores of a wafer, and the places among them. */
#ifndef WAFER_PASSES_SIZE_ROOM_H
#define WAFER_PASSES_SIZE_ROOM_H

#include "wafer/machine.h"

typedef struct room {
  uint32_t width, height;
  uint32_t *sums; /* (width + 1) x (height + 1): of all cores above and left those that are taken */
  uint8_t *taken;
} room;

/* Of a wafer without kernels: what is not usable, dead or reserved is taken. False: no memory. */
bool room_open(wafer_arena *arena, const wafer_machine *machine, room *out);
void room_cover(room *r, wafer_rect rect, bool taken);
/* Heeds what has been covered since. */
void room_count(room *r);
/* The nearest free place in the first row of places that has one, by distance from `near`; false:
 * there is none. */
bool room_find(const room *r, uint32_t width, uint32_t height, wafer_rect near, wafer_rect *out);

#endif

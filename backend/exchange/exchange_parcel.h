/* What cores of a line send to others, and which of it is sent once. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_PARCEL_H
#define BACKEND_EXCHANGE_PARCEL_H

#include "exchange_line.h"

typedef struct parcels {
  wafer_arena *scratch;
  wafer_dtype dtype;
  line_parcel *at;
  uint32_t count, room;
  line_box *boxes;
  uint32_t box_count, box_room;
  uint32_t *sends, send_buckets; /* parcels by what they send */
} parcels;

/* Room for one element more in `list`, a pointer to elements of that size. False: out of memory,
 * here and below. */
/* Begins anew. */
void parcels_clear(parcels *p);
bool parcels_add_box(parcels *p, const line_box *box);
/* A parcel of the boxes from `first` on; of parcels of one sender that are the same elements all
 * name the first. */
bool parcels_add(parcels *p, uint32_t from, uint32_t first);
/* What each kind of sender sends once to cores that take different parts of it (exchange_cast.h).
 */
bool parcels_send_once(parcels *p, uint32_t kinds);

#endif

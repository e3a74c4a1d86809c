/* What a core sends once to cores that want different parts of it: a piece, or the union of all
 * pieces, of which the others are runs of words that filters keep. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_CAST_H
#define BACKEND_EXCHANGE_CAST_H

#include "exchange_line.h"

#define CAST_BOXES 8

typedef struct cast {
  wafer_arena *scratch;
  wafer_dtype dtype;
  const line_box *boxes;
  line_parcel *parcels;
  const uint32_t *of; /* parcels of one kind of sender, */
  uint32_t count;     /* so many; their `send` and runs are set */
  uint32_t next;      /* number of the parcel that is to be added where there are boxes: */
  uint32_t box_count, words;
  line_box box[CAST_BOXES]; /* of a source alone */
} cast;

/* Chooses what takes the fewest words. False: out of memory. */
bool cast_once(cast *c);

#endif

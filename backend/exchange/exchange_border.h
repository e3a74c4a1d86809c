/* The host's side of an exchange over the border. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_BORDER_H
#define BACKEND_EXCHANGE_BORDER_H

#include "exchange_mid.h"

/* How the tensor of a spread is shared out to the rows of its rectangle, each element to one of the
 * rows that hold it. One column wide, at x = 0. */
typedef struct border {
  spread host;
  line_border ports;
} border;

/* Where all columns hold the same, and rows that do lie side by side, what comes in needs one of
 * these rows: the kind of each, else NULL. False: out of memory. */
bool border_trunks(wafer_arena *arena, const spread *s, const uint32_t **trunks);
/* `lanes`: words that cross the border in a cycle; `whole`: each row gets all that it holds,
 * whoever else has it. False: out of memory. */
bool border_make(wafer_arena *arena, const spread *s, uint32_t value, uint64_t lanes, bool whole,
                 border *out);

#endif

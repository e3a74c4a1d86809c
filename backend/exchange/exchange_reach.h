/* Near moves of a line and far ones. Private to the exchange. */
#ifndef BACKEND_EXCHANGE_REACH_H
#define BACKEND_EXCHANGE_REACH_H

#include "exchange_line.h"

/* The distance up to which moves take buses of their own, before all others; 0: no more than one
 * set of buses is worth it. False: out of memory. */
bool reach_near(const wafer_machine *machine, wafer_arena *scratch, const line *l, uint32_t *near);

#endif

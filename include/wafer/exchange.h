/* What it costs to bring a tensor from one layout to another, without making the routes. */
#ifndef WAFER_EXCHANGE_H
#define WAFER_EXCHANGE_H

#include "wafer/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a tensor lies, and where. */
typedef struct wafer_spot {
  wafer_rect rect;
  wafer_layout layout;
} wafer_spot;

/* Cycles of an exchange of one sample of a tensor whose elements cores hold as `dtype`: a pass
 * along rows and one along columns, of which what is in place already takes nothing. An estimate
 * from the numbers of parts alone: it does not know how unequal parts meet. */
uint64_t wafer_exchange_cycles(const wafer_machine *machine, const wafer_spot *from,
                               const wafer_spot *to, const wafer_shape *shape, wafer_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif

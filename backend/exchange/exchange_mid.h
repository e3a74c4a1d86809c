/* What lies between two passes: the spread in which words wait where a row meets a column. Private
 * to the exchange. */
#ifndef BACKEND_EXCHANGE_MID_H
#define BACKEND_EXCHANGE_MID_H

#include "exchange_pass.h"

typedef struct mid {
  spread s;            /* in the rows of the source and the columns of the target */
  index_map map;       /* from it to the target */
  uint32_t *row_group; /* rows of the source that hold the same: the nearest serves */
} mid;

/* Each row has what the rows of the target need of its own elements; of rows that hold the same,
 * what the rows nearest to it need. A last dim of one index is put to spreads whose map has
 * constant indices (`to` with it: `flagged`). False: out of memory. */
bool mid_make(wafer_arena *arena, const spread *from, const spread *to, const index_map *map,
              mid *out);
/* Whether every row of the target finds what it needs in its own row of the source. */
bool mid_is_needless(wafer_arena *arena, const spread *from, const spread *to, const index_map *map,
                     bool *needless);
/* Words over the fullest line of a row pass into `s`, about. */
uint64_t mid_load(wafer_arena *arena, const spread *s);

#endif

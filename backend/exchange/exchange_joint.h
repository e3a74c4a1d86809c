/* How one dim of a source spread meets the dim of the target that follows it, on the lines of a
 * pass: for each pair of kinds of positions, which indices go from the one to the other. */
#ifndef BACKEND_EXCHANGE_JOINT_H
#define BACKEND_EXCHANGE_JOINT_H

#include "exchange.h"

/* Indices src, src + step, ... of the source's buffer go to dst, dst + 1, ... of the target's. */
typedef struct joint_piece {
  int32_t src, step, dst, count;
} joint_piece;

typedef struct joint_list {
  const joint_piece *at;
  uint32_t count;
} joint_list;

typedef struct joint {
  uint32_t sources, targets; /* kinds of positions */
  joint_list *list;          /* sources * targets */
  uint64_t hash;
} joint;

/* The pieces of one part that go to another, in the order of the target's indices. */
bool joint_pieces(wafer_arena *arena, const spread_part *source, const spread_part *target,
                  const index_dim *map, joint_list *out);

/* Parts whose runs are together in one order: where those that begin first end first, as parts of a
 * dim do, with halos or without, what goes to each of them is found without looking at all. */
typedef struct joint_many {
  const spread_part *parts; /* the caller's */
  uint32_t count;
  spread_part all;      /* their runs, by lo; by hi as well if they are `ordered` */
  const uint32_t *part; /* of each of these */
  bool ordered;
  struct joint_work *work; /* of each part, while a source is met */
} joint_many;
/* NULL: out of memory. */
joint_many *joint_many_of(wafer_arena *arena, const spread_part *parts, uint32_t count);
/* joint_pieces, of each of the targets; `out`: as many lists. */
bool joint_pieces_of(wafer_arena *arena, const spread_part *source, const joint_many *targets,
                     const index_dim *map, joint_list *out);

/* Between the kinds of columns of row kind `s` of the source and `t` of the target. A NULL source:
 * the target's dim repeats; a NULL target: the source's index is constant. */
bool joint_of(wafer_arena *arena, const spread_dim *source, uint32_t s, const spread_dim *target,
              uint32_t t, const index_dim *map, joint *out);
bool joint_equal(const joint *a, const joint *b);

/* All that parts of one row kind hold, as one part; `at` counts on. */
bool joint_union(wafer_arena *arena, const spread_part *const *parts, uint32_t count,
                 spread_part *out);
/* What rows of that kind hold of a dim in all of their columns. */
bool joint_of_row(wafer_arena *arena, const spread_dim *dim, uint32_t kind, spread_part *out);

#endif

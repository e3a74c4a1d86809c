/* Exchanges: a tensor moves from one spread over cores to another, by routes and programs.
 *
 * Words go along the rows to the column where they are needed, then along the columns (or the other
 * way about, whichever loads the links less); a pass that moves nothing vanishes. In a pass, the
 * lines are independent of each other. A line is an ordered bus per direction: every sender's
 * router lets the core's own words by first, then those from behind, so that the words of the
 * nearest sender come first, one per cycle, and filters at the ramps keep what a core needs. Where
 * words go a few cores far, a line is cut into segments that work at the same time, on two colours.
 *
 * Everything follows from the kinds of rows and columns of the spreads: lines alike are made once.
 */
#ifndef BACKEND_EXCHANGE_H
#define BACKEND_EXCHANGE_H

#include "fragment/fragment.h"
#include "spread.h"

/* Indices that are looked up, one for each of a target's dim: negative where there is no source.
 * They are met by runs of even steps, of which most tables have few. */
typedef struct index_run {
  int64_t first, count; /* of the target */
  int64_t at, step;     /* the first one's, and from one to the next */
} index_run;
typedef struct index_table {
  const int64_t *at;
  const index_run *runs; /* in order, all of them */
  uint32_t run_count;
} index_table;
/* NULL: out of memory. `at` is kept. */
const index_table *index_table_of(wafer_arena *arena, const int64_t *at, int64_t count);

/* Index of a dim of the source: a * i + b, where i is the index of dim `dim` of the target; or that
 * which is looked up. Indices outside the source have none either. */
#define INDEX_CONSTANT (-1) /* dim: the index is b */
typedef struct index_dim {
  int dim;
  int64_t a, b;
  const index_table *table; /* NULL: a and b; else as long as the target's dim */
} index_dim;

/* Where the elements of a target come from. No two dims of the source follow one of the target; a
 * dim of the target that none follows repeats (expand). */
typedef struct index_map {
  index_dim dim[WAFER_MAX_RANK]; /* of each dim of the source */
} index_map;

index_map index_identity(void);
/* Dim d of the target is dim perm[d] of the source. */
index_map index_transpose(uint32_t rank, const int64_t *perm);

typedef struct exchange {
  const wafer_diag *diag;
  const wafer_machine *machine;
  const spread *from, *to; /* of one element type; `from` holds each element somewhere */
  index_map map;
  int32_t scratch;          /* address on every core that passes words on */
  uint32_t scratch_room;    /* bytes */
  uint32_t value;           /* of the plan; for ports */
  const wafer_rect *others; /* rectangles whose cores take part only where they lie in `from` or */
  uint32_t other_count;     /* `to`, or share neither rows nor columns with either */
  uint32_t lanes_first;     /* unless lanes_end is 0: words leave by rows (or columns, if they */
  uint32_t lanes_end;       /* share those) lanes_first .. lanes_end - 1 alone */
  bool few_colors;          /* no way that wants more colours for being faster */
  uint64_t border_rate; /* bytes a second that all ports share, for the prediction; 0: no limit */
} exchange;

/* Adds code, routes and predicted cycles to the fragment, whose rectangle has those of both spreads
 * and of the scratch. Rectangles may overlap or lie apart; where they share rows or columns of the
 * fabric no other core takes part, else those where the source's rows meet the target's columns (or
 * the other way about) do. Elements of `to` without a source are left as they are. NO_FIT: more
 * scratch than there is room. */
wafer_status exchange_add(const exchange *x, fragment *f);
/* The same for several targets of one source, of which each sender sends once what several cores
 * take, where their first words go along the same lines to the same side. At most
 * EXCHANGE_TOGETHER; words on their way have one place, the highest scratch of any. */
#define EXCHANGE_TOGETHER 8
wafer_status exchange_add_together(const exchange *x, uint32_t count, fragment *f);
/* Between the host and cores, over the west border of the fabric: one of `from` and `to` is NULL,
 * the map the identity. Every row of the spread has a port at x = 0 and y of the row; each element
 * crosses the border once, and what several rows need goes on along the columns. */
wafer_status exchange_border(const exchange *x, fragment *f);
/* Bytes of scratch that either needs on a core; 0 when one pass does it. UINT64_MAX: out of
 * memory. */
uint64_t exchange_scratch(const exchange *x);
/* The same of those that are added together, and the cores that each of them needs it on. */
uint64_t exchange_scratch_at(const exchange *x, uint32_t count, wafer_rect *where);

#endif

/* What a shape curve is made of: the ways to cut loops (kernel_cuts.c), the search over pairs of
 * them (kernel_curve.c), the set that stays (kernel_pareto.c). Private to runtime/. */
#ifndef KERNEL_CURVE_H
#define KERNEL_CURVE_H

#include "kernel_family.h"
#include "threads.h"

#define KERNEL_MAX_CUT 4 /* loops that are cut */

/* The parts of up to two loops along one direction. */
typedef struct kernel_choice {
  uint32_t loop[2], parts[2], length;
  uint64_t cycles, bytes, weights, inputs; /* with the other direction uncut */
  uint64_t alone;                          /* vector work with all other loops cut to one element */
  bool beaten;
} kernel_choice;

typedef struct kernel_choices {
  bool made;
  size_t count;
  kernel_choice *at;
} kernel_choices;

/* By index of cut: [i][i] loop i alone, [i][j] with i < j both. */
typedef struct kernel_lists {
  kernel_choices of[KERNEL_MAX_CUT][KERNEL_MAX_CUT];
} kernel_lists;

/* What is known of a choice over the rows and one over the columns together. */
typedef struct kernel_pair {
  uint64_t cycles; /* vector work alone, or all */
  uint64_t bytes : 61;
  bool has_bytes : 1, has_work : 1, has_all : 1;
} kernel_pair;

/* Pairs of two lists. */
typedef struct kernel_pairs kernel_pairs;
struct kernel_pairs {
  const kernel_choices *rows, *cols;
  kernel_pair *at;
  kernel_pairs *next;
};

struct wafer_cuts {
  const wafer_machine *machine;
  wafer_arena *arena;
  wafer_workers *workers; /* NULL: none */
  uint32_t max_width, max_height;
  uint32_t most_cols, most_rows;        /* of any split within these */
  uint32_t loop[KERNEL_MAX_CUT], count; /* the loops that are cut, longest first */
  uint64_t least_bytes[2]; /* of any split, once nothing was found to fit, without and with `lean`;
                              0: not known */
  kernel_lists lists[2];   /* pruned by cycles, vector work and bytes; by kinds of bytes alone */
  kernel_pairs *pairs;     /* as far as they have been tried */
};

/* What a search for a curve works with, as long as it lasts. */
typedef struct kernel_search {
  wafer_cuts *cuts;
  wafer_arena *scratch;
  kernel_view *views; /* of the body, one for each thread; the caller's is the first */
  uint32_t opened;    /* of them */
  kernel_choices all[KERNEL_MAX_CUT][KERNEL_MAX_CUT]; /* weighed; both kinds of lists are of them */
} kernel_search;

/* `some` for all of first .. end - 1, in parts, over the threads of the cuts' workers; which thread
 * has which part must not matter. */
typedef void kernel_some(void *self, kernel_view *view, size_t first, size_t end);
void kernel_share_out(kernel_search *search, size_t count, kernel_some *some, void *self);

/* The list of cuts of loops `i` and `j` (indices of cuts->loop, i <= j), made when first asked for;
 * NULL: out of memory. */
const kernel_choices *kernel_cuts_list(kernel_search *search, bool bytes_alone, uint32_t i,
                                       uint32_t j);

/* Of all pairs of two lists of the cuts, [rows][cols]; nothing is known at first. NULL: out of
 * memory. */
kernel_pair *kernel_cuts_pairs(wafer_cuts *cuts, const kernel_choices *rows,
                               const kernel_choices *cols);

/* Next number of parts after `parts` with a smaller quotient; above extent when there is none. */
int64_t kernel_next_parts(int64_t extent, int64_t parts);
/* The split of a choice over the rows and one over the columns; cols NULL: uncut. */
wafer_split kernel_split_of(const kernel_choice *rows, const kernel_choice *cols);

/* ---- Sets of points ---- */

typedef struct kernel_points {
  wafer_curve_options options;
  wafer_arena *scratch;
  size_t count, capacity;
  wafer_shape_point *at; /* of malloc */
} kernel_points;

static inline uint64_t kernel_area(const wafer_shape_point *p) {
  return (uint64_t)p->width * p->height;
}

/* Cycles, or those of the heaviest stream over the rows. */
static inline uint64_t kernel_time(const wafer_curve_options *options, uint64_t cycles,
                                   uint32_t height) {
  uint64_t stream = (uint64_t)kernel_ceil((int64_t)options->stream_words, height);
  return cycles > stream ? cycles : stream;
}

/* All bytes of a core, no more than UINT64_MAX. */
static inline uint64_t kernel_all_bytes(const wafer_cost *cost) {
  uint64_t bytes = kernel_add(cost->code_bytes, cost->weight_bytes);
  bytes = kernel_add(bytes, kernel_add(cost->input_bytes, cost->output_bytes));
  return kernel_add(bytes, cost->scratch_bytes);
}

/* Drops what another point is nowhere worse than; the rest by time. */
wafer_status kernel_only_pareto(kernel_points *points);
/* Leaves as many of a Pareto set as the options allow. */
wafer_status kernel_thin(kernel_points *points);
/* By cycles, then area, then width. */
void kernel_sort_points(kernel_points *points);

#endif

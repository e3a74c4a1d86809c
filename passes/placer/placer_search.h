/* The search over slicing trees: candidates that rounds anneal, weed out and anneal again. */
#ifndef WAFER_PASSES_PLACER_SEARCH_H
#define WAFER_PASSES_PLACER_SEARCH_H

#include <pthread.h>

#include "placer.h"

#define PLACER_CANDIDATES 32u

/* One line of search: where it stands, and the best layout it has found. */
typedef struct candidate {
  tree_shape now;
  layout best;
  rng rng;
  bool failed; /* nothing could be laid out */
} candidate;

typedef struct placer_run {
  placer in;
  const wafer_diag *diag;
  const wafer_placer_options *options;
  double started;
  uint64_t time;  /* the least of the first layouts; 0: of none */
  double scale;   /* unit of the temperatures: the wire a kernel costs in the first layouts */
  uint32_t count; /* of candidates */
  candidate candidates[PLACER_CANDIDATES];
  pthread_mutex_t lock; /* around what is shown, which decides nothing */
  double shown, first;
} placer_run;

/* So many moves, until this time; 0: as many, as long as the other allows. */
typedef struct budget {
  uint64_t most;
  double until;
} budget;

/* Shifts, and other shapes of no longer a time, in a layout. */
typedef struct polisher {
  const placer *in;
  curve_cache *cache;
  shifter shift;
  layout now;
  uint64_t settled; /* layouts tried */
} polisher;

bool polisher_init(polisher *o, const placer *in, curve_cache *cache, wafer_arena *arena);
/* Makes the layout better, as far as the budget goes; the moves that counted for. */
uint64_t layout_polish(polisher *o, layout *best, const budget *b);

/* What a thread works with. */
typedef struct worker {
  placer_run *run;
  wafer_arena *arena;
  curve_cache cache;
  tree tree;
  polisher polisher;
  uint32_t *order; /* scratch, of all kernels */
  uint64_t moves;
} worker;

/* In units of the run's scale. */
typedef struct heat {
  double hot, cold;
} heat;

/* A legal placement with this score was found. */
void placer_report(placer_run *run, double score);

/* Lays the kernels out on `shelves` shelves, or as `start` has them, at the least time at which
 * they fit. */
void search_start(worker *w, candidate *c, uint32_t shelves, const wafer_placed *start);
/* The layout of least time that keeps one of the orders, looked for near a time, 0 being the
 * bound; `part`: see tree_least. */
void search_least(worker *w, candidate *c, const uint32_t *order, uint32_t part, uint64_t time,
                  const budget *b);
/* The same for the order of the leaves where the candidate stands. */
void search_again(worker *w, candidate *c, const budget *b);
/* Tries random stacks, at most `most`; the candidate stands at the best. */
void search_stacks(worker *w, candidate *c, uint32_t most, const budget *b);
/* Anneals from where the candidate stands, and leaves it at the best it found. */
void search_anneal(worker *w, candidate *c, const heat *h, const budget *b);
/* Polishes the candidate's best layout, which then need not be a tree's. */
void search_polish(worker *w, candidate *c, const budget *b);

#endif

/* One of the engine's independent searches, and the run they belong to. */
#ifndef WAFER_PASSES_PLACER_CHAIN_H
#define WAFER_PASSES_PLACER_CHAIN_H

#include <pthread.h>

#include "placer.h"

typedef struct placer_run {
  placer in;
  const wafer_diag *diag;
  double started, seconds;
  pthread_mutex_t lock; /* around what is shown, which decides nothing */
  double shown;
} placer_run;

typedef struct chain {
  placer_run *run;
  wafer_arena *arena;
  uint32_t number;
  rng rng;
  const uint32_t *order;
  curve_cache cache;
  tree tree, round_tree, best_tree;
  layout best;
  uint64_t moves, most_moves, looked;
  double now, started, deadline, first;
  bool failed; /* out of memory */
} chain;

double placer_seconds(void);
/* A legal placement with this score was found. */
void placer_report(placer_run *run, double score);

/* Searches; c->best is the outcome. False when nothing could be laid out at all. */
bool chain_run(chain *c);

#endif

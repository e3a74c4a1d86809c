/* What this process has of a training run: systems, a share of the weight servers, a node of
 * SwarmX. Alone it has all of them; of several ranks P, rank p has
 * - systems [N p / P, N (p + 1) / P) of N, and so micro-batches that follow one another;
 * - servers p, p + P, ... and their parameters;
 * - of SwarmX a node of a binomial tree whose every subtree has systems that follow one another.
 * Rank 0 runs the loop; the others do what it tells them (train_ranks.c). Every operation below is
 * called by all ranks at once. */
#ifndef RUNTIME_TRAIN_LOCAL_H
#define RUNTIME_TRAIN_LOCAL_H

#include "store.h"
#include "wafer/train.h"

/* Parameters are numbered by *place*: those of rank 0's servers first, in their own order. */
typedef struct local {
  wafer_local about;
  uint32_t rank, rank_count;
  wafer_memoryx *memoryx;       /* of this rank's servers */
  wafer_swarmx *root, *partial; /* partial: of the system at work; one alone adds to the root */
  wafer_feed *feed, *eval_feed, *rest_feed;
  wafer_parameter *parameters; /* by place */
  uint32_t *parameter;         /* place -> parameter */
  uint32_t *place;             /* parameter -> place */
  uint32_t *first;             /* rank -> place; one more at the end */
  uint64_t *offset;            /* place -> element of the gradient vector; one more at the end */
  void **value;                /* place -> current weight on this rank */
  wafer_view *pieces;          /* a micro-batch's gradients by place */
  double *squares;             /* by place */
  store_block weights;         /* values of other ranks' servers */
  store_block mine, incoming;  /* finished gradients of this rank's servers; a node of another */
  store_block *states;         /* of other ranks, for a checkpoint */
  uint32_t state_count, state_room;
  const float *sum; /* finished gradients of this rank's servers */
  /* What this step's systems did, in words (train_local_clock.c); rank 0's of all. */
  uint64_t *log;
  size_t log_count, log_room;
  wafer_step_weight *about_weights; /* by place */
} local;

wafer_status local_no_memory(const local *l);
size_t local_bytes(const local *l, uint32_t place); /* of its weight */
static inline wafer_status local_send(const local *l, uint32_t to, const void *data, size_t bytes) {
  return bytes ? l->about.ranks.send(l->about.ranks.self, to, data, bytes) : WAFER_OK;
}
static inline wafer_status local_receive(const local *l, uint32_t from, void *data, size_t bytes) {
  return bytes ? l->about.ranks.receive(l->about.ranks.self, from, data, bytes) : WAFER_OK;
}

/* train_local_run.c. Scalars are rank 0's; the others' are not touched. */
wafer_status local_run(local *l, const wafer_work *work, double *scalars);
wafer_status local_squares(local *l, double *squares);
wafer_status local_update(local *l, const wafer_update *update);
wafer_status local_evaluate(local *l, double *scalars);
wafer_status local_share(local *l); /* every server's weights to all ranks */

/* train_local_clock.c. What a system did: its micro-batches [first, end), which take as long as the
 * last one, and what it sends. A rank's log goes up with its sums. */
wafer_status local_log(local *l, uint64_t first, uint64_t end, const wafer_answer *last,
                       const wafer_swarmx *sent);
wafer_status local_send_log(local *l, uint32_t to);
wafer_status local_receive_log(local *l, uint32_t from);
wafer_status local_count(local *l, bool waits, bool skips, wafer_step_time *out);

/* train_local_tables.c. Tables are rank 0's, NULL elsewhere. */
wafer_status local_save(local *l, wafer_arena *arena, wafer_weights **weights,
                        wafer_weights **state);
wafer_status local_load(local *l, const wafer_weights *weights, const wafer_weights *state);

/* train_ranks.c */
extern const wafer_transport local_transport; /* without self */

#endif

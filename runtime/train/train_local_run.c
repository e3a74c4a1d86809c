/* Micro-batches, sums and updates. */
#include <stdlib.h>
#include <string.h>

#include "train_local.h"

/* ---- micro-batches ---- */

typedef struct batch_source {
  const wafer_system *system;
  wafer_feed *feed;
  wafer_micro_batch batch;
} batch_source;

static wafer_status run_one(batch_source *from, uint64_t sample, wafer_answer *answer) {
  WAFER_TRY(wafer_feed_take(from->feed, sample, &from->batch.fields));
  return from->system->run(from->system->self, &from->batch, answer);
}

/* Micro-batches [first, end) of a step, their gradients added to `to`, and what was done logged. */
static wafer_status run_range(local *l, const wafer_work *work, uint64_t first, uint64_t end,
                              wafer_swarmx *to) {
  batch_source from = {
      &l->about.training,
      l->feed,
      {.loss_gradient = work->loss_gradient, .seed = l->about.seed, .step = work->step}};
  wafer_answer a = {0};
  for (uint64_t i = first; i < end; i++) {
    from.batch.index = i;
    WAFER_TRY(run_one(&from, work->first + i * l->about.micro_batch, &a));
    const double scalars[WAFER_SWARMX_SCALARS] = {a.loss, a.count, a.correct};
    for (uint32_t p = 0; p < a.gradient_count; p++) l->pieces[p] = a.gradients[l->parameter[p]];
    WAFER_TRY(wafer_swarmx_add_leaf(to, i, l->pieces, a.gradient_count, scalars));
  }
  return local_log(l, first, end, &a, to);
}

/* What a system with a part of the micro-batches does: partial sums, then one message per node. */
static wafer_status run_system(local *l, const wafer_work *work, uint32_t system, bool alone) {
  uint64_t m = work->micro_batches, n = l->about.systems;
  uint64_t first = m * system / n, end = m * (system + 1) / n;
  const wafer_swarmx_node *nodes;
  if (alone) return run_range(l, work, first, end, l->root);
  wafer_swarmx_begin(l->partial, m);
  WAFER_TRY(run_range(l, work, first, end, l->partial));
  uint32_t count = wafer_swarmx_held(l->partial, &nodes);
  for (uint32_t i = 0; i < count; i++) WAFER_TRY(wafer_swarmx_add(l->root, &nodes[i]));
  return WAFER_OK;
}

/* ---- SwarmX between ranks ---- */

static wafer_status send_nodes(local *l, uint32_t to) {
  const wafer_swarmx_node *nodes;
  uint32_t count = wafer_swarmx_held(l->root, &nodes);
  size_t bytes = l->offset[l->about.parameter_count] * sizeof(float);
  WAFER_TRY(local_send(l, to, &count, sizeof count));
  for (uint32_t i = 0; i < count; i++) {
    WAFER_TRY(local_send(l, to, &nodes[i], sizeof nodes[i]));
    WAFER_TRY(local_send(l, to, nodes[i].data, bytes));
  }
  return local_send_log(l, to);
}

static wafer_status receive_nodes(local *l, uint32_t from) {
  uint32_t count;
  size_t bytes = l->offset[l->about.parameter_count] * sizeof(float);
  WAFER_TRY(local_receive(l, from, &count, sizeof count));
  for (uint32_t i = 0; i < count; i++) {
    wafer_swarmx_node node;
    WAFER_TRY(local_receive(l, from, &node, sizeof node));
    WAFER_TRY(local_receive(l, from, l->incoming.data, bytes));
    node.data = l->incoming.data;
    WAFER_TRY(wafer_swarmx_add(l->root, &node));
  }
  return local_receive_log(l, from);
}

/* Partial sums go up the tree; what reaches rank 0 covers all micro-batches. */
static wafer_status sum_up(local *l) {
  for (uint32_t bit = 1; bit < l->rank_count; bit <<= 1) {
    if (l->rank & bit) return send_nodes(l, l->rank - bit);
    if (l->rank + bit < l->rank_count) WAFER_TRY(receive_nodes(l, l->rank + bit));
  }
  return WAFER_OK;
}

/* The finished gradients from rank 0 to the servers. */
static wafer_status hand_out(local *l, const float *sum) {
  const uint64_t *offset = l->offset;
  if (l->rank) {
    uint64_t count = offset[l->first[l->rank + 1]] - offset[l->first[l->rank]];
    l->sum = l->mine.data;
    return local_receive(l, 0, l->mine.data, count * sizeof(float));
  }
  l->sum = sum;
  for (uint32_t r = 1; r < l->rank_count; r++) {
    uint64_t at = offset[l->first[r]], count = offset[l->first[r + 1]] - at;
    WAFER_TRY(local_send(l, r, sum + at, count * sizeof(float)));
  }
  return WAFER_OK;
}

wafer_status local_run(local *l, const wafer_work *work, double *scalars) {
  const double *sums;
  const float *sum = NULL;
  uint64_t n = l->about.systems;
  uint32_t first = (uint32_t)(n * l->rank / l->rank_count);
  uint32_t end = (uint32_t)(n * (l->rank + 1) / l->rank_count);
  wafer_swarmx_begin(l->root, work->micro_batches);
  l->log_count = 0;
  for (uint32_t i = first; i < end; i++) WAFER_TRY(run_system(l, work, i, end - first == 1));
  WAFER_TRY(sum_up(l));
  if (l->rank == 0) {
    WAFER_TRY(wafer_swarmx_finish(l->root, &sum, &sums));
    memcpy(scalars, sums, WAFER_SWARMX_SCALARS * sizeof *scalars);
  }
  return hand_out(l, sum);
}

/* ---- MemoryX ---- */

/* Parameter by parameter in their order, whoever keeps them. */
wafer_status local_squares(local *l, double *squares) {
  double *own = l->squares + l->first[l->rank];
  wafer_memoryx_squares(l->memoryx, l->sum, own);
  if (l->rank)
    return local_send(l, 0, own, (l->first[l->rank + 1] - l->first[l->rank]) * sizeof *own);
  for (uint32_t r = 1; r < l->rank_count; r++)
    WAFER_TRY(local_receive(l, r, l->squares + l->first[r],
                            (l->first[r + 1] - l->first[r]) * sizeof *own));
  *squares = 0;
  for (uint32_t i = 0; i < l->about.parameter_count; i++) *squares += l->squares[l->place[i]];
  return WAFER_OK;
}

wafer_status local_share(local *l) {
  for (uint32_t r = 0; l->rank_count > 1 && r < l->rank_count; r++)
    for (uint32_t p = l->first[r]; p < l->first[r + 1]; p++)
      WAFER_TRY(wafer_ranks_broadcast(&l->about.ranks, r, l->value[p], local_bytes(l, p)));
  return WAFER_OK;
}

wafer_status local_update(local *l, const wafer_update *update) {
  wafer_memoryx_update(l->memoryx, update, l->sum);
  return local_share(l);
}

/* ---- evaluation ---- */

typedef struct score {
  double loss, count, correct;
} score;

/* Micro-batches [first, end) in the order of the files; the last of all may be smaller and has a
 * system of its own. */
static wafer_status score_range(local *l, uint64_t first, uint64_t end, score *to) {
  uint64_t samples = wafer_dataset_samples(l->about.eval_data), size = l->about.eval_micro_batch;
  batch_source whole = {&l->about.evaluation, l->eval_feed, {.seed = l->about.seed}};
  batch_source rest = {&l->about.rest, l->rest_feed, {.seed = l->about.seed}};
  for (uint64_t i = first; i < end; i++) {
    wafer_answer a;
    batch_source *from = samples - i * size < size ? &rest : &whole;
    from->batch.index = i;
    WAFER_TRY(run_one(from, i * size, &a));
    *to++ = (score){a.loss, a.count, a.correct};
  }
  return WAFER_OK;
}

static wafer_status score_all(local *l, uint64_t count, score *scores) {
  uint64_t first = count * l->rank / l->rank_count, end = count * (l->rank + 1) / l->rank_count;
  WAFER_TRY(score_range(l, first, end, scores + first));
  if (l->rank) return local_send(l, 0, scores + first, (end - first) * sizeof *scores);
  for (uint32_t r = 1; r < l->rank_count; r++) {
    first = count * r / l->rank_count;
    end = count * (r + 1) / l->rank_count;
    WAFER_TRY(local_receive(l, r, scores + first, (end - first) * sizeof *scores));
  }
  return WAFER_OK;
}

wafer_status local_evaluate(local *l, double *scalars) {
  uint64_t samples = wafer_dataset_samples(l->about.eval_data), size = l->about.eval_micro_batch;
  uint64_t count = (samples + size - 1) / size;
  score *scores = calloc(count + 1, sizeof *scores);
  if (!scores) return local_no_memory(l);
  wafer_status status = score_all(l, count, scores);
  if (l->rank == 0) memset(scalars, 0, WAFER_SWARMX_SCALARS * sizeof *scalars);
  for (uint64_t i = 0; l->rank == 0 && i < count; i++) {
    scalars[0] += scores[i].loss;
    scalars[1] += scores[i].count;
    scalars[2] += scores[i].correct;
  }
  free(scores);
  return status;
}

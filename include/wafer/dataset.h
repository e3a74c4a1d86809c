/* Samples for training, read through mapped .npy files.
 *
 * A dataset is `fields` arrays of equally many samples: the model's inputs in order, the labels
 * last. Its path says how it lies on disk:
 * - X.npy,Y.npy: a file per field
 * - DIR: x-*.npy and y-*.npy, shards in the order of their names, one y for each x; or tokens-*.npy
 * - tokens.npy: one dim of integers; with `lm`, windows of `sequence` tokens and, as labels, the
 *   same moved by one; windows do not overlap, and none crosses two shards
 *
 * The order of an epoch is a keyed permutation of the samples, a function of (seed, epoch): sample
 * number n of a run is known without any state, and a run goes on anywhere. */
#ifndef WAFER_DATASET_H
#define WAFER_DATASET_H

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_dataset wafer_dataset;

/* Lives in the arena, and with it the mapped files. BAD_INPUT: fields or shards that do not fit
 * each other. */
wafer_status wafer_dataset_open(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                bool lm, wafer_dataset **out);
/* Of tokens: the window's length, before anything below is asked. */
wafer_status wafer_dataset_window(wafer_dataset *dataset, int64_t sequence);

uint64_t wafer_dataset_samples(const wafer_dataset *dataset);
uint32_t wafer_dataset_fields(const wafer_dataset *dataset);
/* Of one sample. */
wafer_shape wafer_dataset_shape(const wafer_dataset *dataset, uint32_t field);

/* Which sample is number n: an epoch after the other, each in its own order; in the order of the
 * files without `shuffle`. */
uint64_t wafer_dataset_at(const wafer_dataset *dataset, bool shuffle, uint64_t seed,
                          uint64_t number);
/* Copies samples one after the other to `to`, converted to a type as C casts. BAD_INPUT: a value
 * does not fit an integer type, or a label of `classes` (0: not asked) is none of 0 .. classes - 1
 * nor, with `ignores`, ignore_index. */
typedef struct wafer_gather {
  uint32_t field;
  wafer_dtype dtype;
  int64_t classes, ignore_index;
  bool ignores;
} wafer_gather;
wafer_status wafer_dataset_gather(const wafer_dataset *dataset, const wafer_diag *diag,
                                  const wafer_gather *how, const uint64_t *samples, uint32_t count,
                                  void *to);

/* Warns of the first row of the files that has a NaN or an infinity, if any: what training that
 * fails may be asked. Reads everything. */
void wafer_dataset_doubt(const wafer_dataset *dataset, const wafer_diag *diag);

/* Element `index` of a permutation of 0 .. count-1 that a key chooses. */
uint64_t wafer_permute(uint64_t key, uint64_t count, uint64_t index);
/* A thread's worth of mixing: equal on every host. */
uint64_t wafer_mix(uint64_t a, uint64_t b);

/* ---- activation server: the samples of the next micro-batches, made in the background ---- */

typedef struct wafer_feed wafer_feed;

typedef struct wafer_feed_options {
  const wafer_dataset *dataset;
  const wafer_gather *fields; /* per field of the dataset; copied */
  uint32_t micro_batch;
  bool shuffle;
  uint64_t seed;
  const wafer_diag *diag;
} wafer_feed_options;

wafer_status wafer_feed_create(const wafer_feed_options *options, wafer_feed **out);
void wafer_feed_destroy(wafer_feed *feed); /* NULL is fine */
/* Samples number .. number + micro_batch - 1, a dense array per field, until the next call. Asking
 * for what follows the last call costs no waiting once the feed keeps up. */
wafer_status wafer_feed_take(wafer_feed *feed, uint64_t number, const void *const **fields);

#ifdef __cplusplus
}
#endif
#endif

/* What the two halves of datasets share: shards and where samples lie in them. */
#ifndef RUNTIME_DATASET_H
#define RUNTIME_DATASET_H

#include "wafer/dataset.h"

enum { DATASET_FIELDS = 16 };

typedef struct shard {
  const char *path;
  wafer_view view;
} shard;

/* Shards of a field; `first` has their first samples and the end. */
typedef struct field {
  uint32_t shard_count;
  shard *shards;
  uint64_t *first;
} field;

struct wafer_dataset {
  const wafer_diag *diag;
  wafer_arena *arena;
  const char *path;
  bool tokens;
  int64_t sequence; /* of tokens; 0 until it is known */
  uint32_t field_count;
  field fields[DATASET_FIELDS]; /* of tokens: one */
  uint64_t samples;
};

#endif

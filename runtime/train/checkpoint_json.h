/* checkpoint.json: text of a fixed form, with a digest of itself. */
#ifndef RUNTIME_CHECKPOINT_JSON_H
#define RUNTIME_CHECKPOINT_JSON_H

#include "wafer/checkpoint.h"

#define CHECKPOINT_FILES 2
extern const char *const checkpoint_files[CHECKPOINT_FILES];

typedef struct checkpoint_part {
  uint64_t bytes, digest;
} checkpoint_part;

/* The text in the arena; NULL: out of memory. */
char *checkpoint_print(wafer_arena *arena, const wafer_checkpoint *about,
                       const checkpoint_part parts[CHECKPOINT_FILES]);
/* NULL, or what is wrong with the text. */
const char *checkpoint_parse(wafer_arena *arena, const char *text, size_t bytes,
                             wafer_checkpoint *about, checkpoint_part parts[CHECKPOINT_FILES]);

#endif

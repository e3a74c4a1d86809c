/* Large arrays of training: in memory, or in files that are mapped and have no name any more, so
 * that a process that dies leaves nothing behind. Files may together be larger than the memory. */
#ifndef RUNTIME_STORE_H
#define RUNTIME_STORE_H

#include <stddef.h>

#include "threads.h"
#include "wafer/diag.h"

typedef struct store_block {
  void *data; /* zeroed, aligned to a page; not NULL, not even for 0 bytes */
  size_t bytes;
} store_block;

/* `folder` NULL: in memory. Space on disk is taken at once: a full disk is an error here, and no
 * fault later. NO_MEMORY or IO. */
wafer_status store_take(const wafer_diag *diag, const char *folder, size_t bytes, store_block *out);
void store_release(store_block *block); /* one that is zero is fine */

/* Blocks 0 .. count-1 over the threads, however many there are. */
void store_each(thread_pool *pool, uint64_t count, void (*run)(void *self, uint64_t block),
                void *self);

#endif

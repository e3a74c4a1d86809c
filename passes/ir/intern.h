/* A table from keys of bytes to what was made for them: exact, whole keys are compared. */
#ifndef WAFER_PASSES_INTERN_H
#define WAFER_PASSES_INTERN_H

#include "wafer/arena.h"

typedef struct intern intern; /* dies with its arena */

intern *intern_create(wafer_arena *arena); /* NULL: out of memory */
/* Where the key's thing is: NULL there when the key is new. The slot is good until the next call.
 * NULL: out of memory. */
void **intern_slot(intern *table, const void *key, size_t bytes);

#endif

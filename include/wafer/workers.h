/* Threads of the host that wait for work to share. What is made with them does not depend on how
 * many they are. */
#ifndef WAFER_WORKERS_H
#define WAFER_WORKERS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wafer_workers wafer_workers;

/* As many as the host has, the caller among them, and no more than `most`. NULL when out of memory
 * or threads. */
wafer_workers *wafer_workers_create(uint32_t most);
void wafer_workers_destroy(wafer_workers *workers); /* NULL is fine */

/* Does tiles 0 .. tiles - 1 of a job, each by one of them; more than 65,535, or with NULL, by the
 * caller alone. `thread` counts from 0. One caller at a time. */
typedef void wafer_job(void *self, uint32_t tile, uint32_t thread);
void wafer_workers_run(wafer_workers *workers, uint32_t tiles, wafer_job *job, void *self);

#ifdef __cplusplus
}
#endif
#endif

/* A small pool: tiles 0 .. n-1 of a job over the threads of a session, the caller among them. Which
 * thread takes a tile does not influence results; each prefers the same tiles every time, for its
 * cache's sake. */
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "wafer/workers.h"

#define THREADS_MOST_TILES 65535 /* of one job */

typedef struct wafer_workers thread_pool;
typedef wafer_job thread_job;

/* `threads` counts the caller; 0: as many as the machine has. NULL when out of memory or threads.
 */
thread_pool *thread_pool_create(uint32_t threads);
void thread_pool_destroy(thread_pool *pool); /* NULL is fine */
uint32_t thread_pool_size(const thread_pool *pool);

/* Returns when every tile is done. One caller at a time. Allocates nothing. Library primitives that
 * the job calls see one OpenMP thread; the caller's setting is as before afterwards. */
void thread_pool_run(thread_pool *pool, uint32_t tiles, thread_job *job, void *self);

/* Around many runs in quick succession: workers stay awake between them. */
void thread_pool_series(thread_pool *pool, bool on);

/* Between these the caller's OpenMP setting is one thread: around a series of runs. */
int thread_enter(void);
void thread_leave(int before);

#endif

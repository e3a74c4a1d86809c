#include "threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* A waiting thread polls this often before it sleeps: longer than the gaps between the kernels of
 * one inference, far shorter than a time slice. */
enum { SPINS = 4000 };

/* Tiles of one thread's share, in a cache line of its own: next to take, end. Idle threads take
 * from others' shares too. */
typedef struct share {
  _Alignas(64) atomic_uint next;
  uint32_t end;
} share;

typedef struct worker {
  thread_pool *pool;
  uint32_t index;
  pthread_t thread;
} worker;

struct thread_pool {
  uint32_t size;
  worker *workers; /* size - 1 */
  share *shares;   /* size */
  thread_job *job;
  void *self;
  _Alignas(64) atomic_uint ticket; /* counts jobs; a change wakes the workers */
  _Alignas(64) atomic_uint busy;   /* workers that have not left the current job */
  atomic_bool stop;
  atomic_uint sleepers;
  pthread_mutex_t lock;
  pthread_cond_t wake;
};

static void pause_a_little(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

int thread_enter(void) {
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}

void thread_leave(int before) {
  if (before != 1) omp_set_num_threads(before);
}

static void take_tiles(thread_pool *pool, uint32_t thread) {
  for (uint32_t i = 0; i < pool->size; i++) {
    share *from = &pool->shares[(thread + i) % pool->size];
    for (;;) {
      if (atomic_load_explicit(&from->next, memory_order_relaxed) >= from->end) break;
      uint32_t tile = atomic_fetch_add_explicit(&from->next, 1, memory_order_relaxed);
      if (tile >= from->end) break;
      pool->job(pool->self, tile, thread);
    }
  }
}

static void wait_for_ticket(thread_pool *pool, uint32_t seen) {
  for (int i = 0; i < SPINS; i++) {
    if (atomic_load_explicit(&pool->ticket, memory_order_acquire) != seen) return;
    pause_a_little();
  }
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->sleepers, 1);
  while (atomic_load(&pool->ticket) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
  atomic_fetch_sub(&pool->sleepers, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument) {
  worker *self = argument;
  thread_pool *pool = self->pool;
  omp_set_num_threads(1);
  for (uint32_t seen = 0;;) {
    wait_for_ticket(pool, seen);
    seen++;
    if (atomic_load(&pool->stop)) return NULL;
    take_tiles(pool, self->index);
    atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_release);
  }
}

static void issue_ticket(thread_pool *pool) {
  atomic_fetch_add(&pool->ticket, 1);
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

static void wait_for_workers(thread_pool *pool) {
  for (int i = 0; atomic_load_explicit(&pool->busy, memory_order_acquire) != 0; i++)
    if (i < SPINS)
      pause_a_little();
    else
      sched_yield();
}

static bool start_workers(thread_pool *pool, uint32_t threads) {
  for (pool->size = 1; pool->size < threads; pool->size++) {
    worker *w = &pool->workers[pool->size - 1];
    *w = (worker){.pool = pool, .index = pool->size};
    if (pthread_create(&w->thread, NULL, work, w) != 0) return false;
  }
  return true;
}

thread_pool *thread_pool_create(uint32_t threads) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (threads == 0) threads = online < 1 ? 1 : (uint32_t)online;
  if (threads > 256) threads = 256;
  thread_pool *pool = aligned_alloc(64, sizeof *pool);
  if (!pool) return NULL;
  *pool = (thread_pool){.workers = calloc(threads, sizeof *pool->workers),
                        .shares = aligned_alloc(64, threads * sizeof *pool->shares)};
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  if (pool->workers && pool->shares && start_workers(pool, threads)) return pool;
  thread_pool_destroy(pool);
  return NULL;
}

void thread_pool_destroy(thread_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stop, true);
  issue_ticket(pool);
  for (uint32_t i = 0; i + 1 < pool->size; i++) pthread_join(pool->workers[i].thread, NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  free(pool->workers);
  free(pool->shares);
  free(pool);
}

uint32_t thread_pool_size(const thread_pool *pool) {
  return pool->size;
}

void thread_pool_run(thread_pool *pool, uint32_t tiles, thread_job *job, void *self) {
  int before = thread_enter();
  if (pool->size == 1 || tiles <= 1) {
    for (uint32_t i = 0; i < tiles; i++) job(self, i, 0);
  } else {
    pool->job = job;
    pool->self = self;
    for (uint32_t i = 0; i < pool->size; i++) {
      pool->shares[i].end = (uint32_t)((uint64_t)tiles * (i + 1) / pool->size);
      atomic_store_explicit(&pool->shares[i].next, (uint32_t)((uint64_t)tiles * i / pool->size),
                            memory_order_relaxed);
    }
    atomic_store(&pool->busy, pool->size - 1);
    issue_ticket(pool);
    take_tiles(pool, 0);
    wait_for_workers(pool);
  }
  thread_leave(before);
}

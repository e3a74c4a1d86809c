#include "threads.h"

#include <assert.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* A waiting thread polls this often before it sleeps; longer while the caller is in a series of
 * jobs, for waking costs as much as a small kernel. */
enum { SPINS = 2000, SERIES_SPINS = 200000 };

/* Tiles of one thread's share, in a cache line of its own: ticket of the job << 32 | next tile <<
 * 16 | end. Idle threads take from others' shares too. The ticket keeps a thread that comes late
 * from taking a tile of a job that it does not know. */
typedef struct share {
  _Alignas(64) atomic_uint_fast64_t claim;
} share;

typedef struct worker {
  thread_pool *pool;
  uint32_t index;
  pthread_t thread;
} worker;

struct wafer_workers {
  uint32_t size;
  worker *workers; /* size - 1 */
  share *shares;   /* size */
  thread_job *job;
  void *self;
  _Alignas(64) atomic_uint ticket; /* counts jobs; a change wakes the workers */
  _Alignas(64) atomic_uint left;   /* tiles of the job that are not done */
  atomic_bool stop, series;
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

/* The next tile of a share; false when it has none left for that ticket. */
static bool claim(share *from, uint32_t ticket, uint32_t *tile) {
  uint64_t now = atomic_load_explicit(&from->claim, memory_order_acquire);
  do {
    *tile = now >> 16 & 0xffff;
    if ((uint32_t)(now >> 32) != ticket || *tile >= (now & 0xffff)) return false;
  } while (!atomic_compare_exchange_weak_explicit(&from->claim, &now, now + 0x10000,
                                                  memory_order_acq_rel, memory_order_acquire));
  return true;
}

static void take_tiles(thread_pool *pool, uint32_t ticket, uint32_t thread) {
  uint32_t tile;
  for (uint32_t i = 0; i < pool->size; i++)
    while (claim(&pool->shares[(thread + i) % pool->size], ticket, &tile)) {
      pool->job(pool->self, tile, thread);
      atomic_fetch_sub_explicit(&pool->left, 1, memory_order_release);
    }
}

static int patience(thread_pool *pool) {
  return atomic_load_explicit(&pool->series, memory_order_relaxed) ? SERIES_SPINS : SPINS;
}

static void wait_for_ticket(thread_pool *pool, uint32_t seen) {
  for (int i = 0; i < patience(pool); i++) {
    if (atomic_load_explicit(&pool->ticket, memory_order_acquire) != seen) return;
    if (i < SPINS)
      pause_a_little();
    else
      sched_yield(); /* has no tile: nobody waits for it */
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
    seen = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    if (atomic_load(&pool->stop)) return NULL;
    take_tiles(pool, seen, self->index);
  }
}

static void issue_ticket(thread_pool *pool) {
  atomic_fetch_add(&pool->ticket, 1);
  if (atomic_load(&pool->sleepers) == 0) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

/* Yielding early would give the core away for a time slice on a busy machine. */
static void wait_for_tiles(thread_pool *pool) {
  for (int i = 0; atomic_load_explicit(&pool->left, memory_order_acquire) != 0; i++)
    if (i < SERIES_SPINS)
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

static uint32_t online(void) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return processors < 1 ? 1 : (uint32_t)processors;
}

thread_pool *thread_pool_create(uint32_t threads) {
  if (threads == 0) threads = online();
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

void thread_pool_series(thread_pool *pool, bool on) {
  atomic_store_explicit(&pool->series, on, memory_order_relaxed);
}

uint32_t thread_pool_size(const thread_pool *pool) {
  return pool->size;
}

/* Everything of the job is in place before the shares carry its ticket, and a tile can be taken
 * only from then on: a worker that is not scheduled holds nobody up. */
static void run_shared(thread_pool *pool, uint32_t tiles, thread_job *job, void *self) {
  uint32_t ticket = atomic_load_explicit(&pool->ticket, memory_order_relaxed) + 1;
  pool->job = job;
  pool->self = self;
  atomic_store_explicit(&pool->left, tiles, memory_order_relaxed);
  for (uint32_t i = 0; i < pool->size; i++) {
    uint64_t first = (uint64_t)tiles * i / pool->size, end = (uint64_t)tiles * (i + 1) / pool->size;
    atomic_store_explicit(&pool->shares[i].claim, (uint64_t)ticket << 32 | first << 16 | end,
                          memory_order_release);
  }
  issue_ticket(pool);
  take_tiles(pool, ticket, 0);
  wait_for_tiles(pool);
}

void thread_pool_run(thread_pool *pool, uint32_t tiles, thread_job *job, void *self) {
  assert(tiles <= THREADS_MOST_TILES);
  int before = thread_enter();
  if (pool->size == 1 || tiles <= 1) {
    for (uint32_t i = 0; i < tiles; i++) job(self, i, 0);
  } else {
    run_shared(pool, tiles, job, self);
  }
  thread_leave(before);
}

wafer_workers *wafer_workers_create(uint32_t most) {
  uint32_t host = online();
  return thread_pool_create(host < most ? host : most);
}

void wafer_workers_destroy(wafer_workers *workers) {
  thread_pool_destroy(workers);
}

void wafer_workers_run(wafer_workers *workers, uint32_t tiles, wafer_job *job, void *self) {
  for (uint32_t i = 0; (!workers || tiles > THREADS_MOST_TILES) && i < tiles; i++) job(self, i, 0);
  if (workers && tiles <= THREADS_MOST_TILES) thread_pool_run(workers, tiles, job, self);
}

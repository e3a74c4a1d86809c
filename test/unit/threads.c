/* Every tile runs exactly once, whatever the number of threads. */
#include "runtime/threads.h"

#include <CUnit/CUnit.h>
#include <omp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

enum { TILES = 1000 };

typedef struct counters {
  atomic_uint runs[TILES];
  uint32_t threads;
  atomic_uint strangers; /* tiles run under a thread number out of range or with OpenMP threads */
} counters;

static void count(void *self, uint32_t tile, uint32_t thread) {
  counters *c = self;
  atomic_fetch_add(&c->runs[tile], 1);
  if (thread >= c->threads || omp_get_max_threads() != 1) atomic_fetch_add(&c->strangers, 1);
}

static void runs_each_tile_once(void) {
  static counters c;
  for (uint32_t threads = 1; threads <= 5; threads++) {
    thread_pool *pool = thread_pool_create(threads);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
    c.threads = thread_pool_size(pool);
    CU_ASSERT(c.threads == threads);
    for (uint32_t tiles = 0; tiles <= TILES; tiles += 125) {
      for (uint32_t i = 0; i < TILES; i++) atomic_store(&c.runs[i], 0);
      thread_pool_run(pool, tiles, count, &c);
      uint32_t wrong = 0;
      for (uint32_t i = 0; i < TILES; i++) wrong += atomic_load(&c.runs[i]) != (i < tiles);
      CU_ASSERT(wrong == 0);
    }
    CU_ASSERT(atomic_load(&c.strangers) == 0);
    thread_pool_destroy(pool);
  }
}

static void wakes_sleeping_workers(void) {
  static counters c = {.threads = 3};
  thread_pool *pool = thread_pool_create(3);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  for (int i = 0; i < 5; i++) {
    usleep(3000);
    thread_pool_run(pool, 64, count, &c);
  }
  for (uint32_t i = 0; i < 64; i++) CU_ASSERT(atomic_load(&c.runs[i]) == 5);
  thread_pool_destroy(pool);
}

static void leaves_the_callers_setting(void) {
  omp_set_num_threads(3);
  thread_pool *pool = thread_pool_create(2);
  CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
  static counters c = {.threads = 2};
  thread_pool_run(pool, 8, count, &c);
  CU_ASSERT(omp_get_max_threads() == 3);
  CU_ASSERT(atomic_load(&c.strangers) == 0);
  thread_pool_destroy(pool);
  thread_pool_destroy(NULL);
}

static void add_one(void *self, uint32_t tile, uint32_t thread) {
  (void)thread;
  atomic_fetch_add((atomic_uint *)self, tile % 2 + 1);
}

/* Also where nobody helps, and where there are more tiles than a pool takes at a time. */
static void workers_run_all(void) {
  static const uint32_t tiles[] = {0, 1, 100, THREADS_MOST_TILES, THREADS_MOST_TILES + 2};
  wafer_workers *workers = wafer_workers_create(2);
  CU_ASSERT_PTR_NOT_NULL_FATAL(workers);
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (int alone = 0; alone < 2; alone++) {
      atomic_uint sum = 0;
      wafer_workers_run(alone ? NULL : workers, tiles[i], add_one, &sum);
      CU_ASSERT_EQUAL(atomic_load(&sum), tiles[i] + tiles[i] / 2);
    }
  wafer_workers_destroy(workers);
}

CU_TestInfo tests_threads[] = {
    {"runs each tile once", runs_each_tile_once},
    {"wakes sleeping workers", wakes_sleeping_workers},
    {"leaves the caller's OpenMP setting", leaves_the_callers_setting},
    {"workers run all tiles", workers_run_all},
    CU_TEST_INFO_NULL,
};

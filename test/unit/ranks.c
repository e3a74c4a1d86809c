#include "wafer/ranks.h"

#include <CUnit/CUnit.h>

#include "thread_ranks.h"

typedef struct task {
  wafer_ranks ranks;
  uint32_t root;
  uint64_t data[3];
  wafer_status status;
} task;

static void *broadcast(void *self) {
  task *t = self;
  t->status = wafer_ranks_broadcast(&t->ranks, t->root, t->data, sizeof t->data);
  return NULL;
}

static void broadcasts_reach_everyone(void) {
  for (uint32_t count = 1; count <= MOST_RANKS; count++)
    for (uint32_t root = 0; root < count; root++) {
      post p;
      wafer_ranks ranks[MOST_RANKS];
      task tasks[MOST_RANKS] = {0};
      pthread_t threads[MOST_RANKS];
      post_open(&p, count, ranks);
      for (uint32_t i = 0; i < count; i++) {
        tasks[i] = (task){.ranks = ranks[i], .root = root};
        if (i == root) tasks[i].data[0] = 7, tasks[i].data[2] = root;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, broadcast, &tasks[i]), 0);
      }
      for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(tasks[i].status, WAFER_OK);
        CU_ASSERT(tasks[i].data[0] == 7 && tasks[i].data[2] == root);
      }
      CU_ASSERT(post_close(&p));
    }
}

static void one_rank_needs_nobody(void) {
  wafer_ranks alone = {0};
  int data = 3;
  CU_ASSERT_EQUAL(wafer_ranks_broadcast(&alone, 0, &data, sizeof data), WAFER_OK);
  CU_ASSERT_EQUAL(data, 3);
}

CU_TestInfo tests_ranks[] = {{"broadcasts reach everyone", broadcasts_reach_everyone},
                             {"one rank needs nobody", one_rank_needs_nobody},
                             CU_TEST_INFO_NULL};

/* Islands of a fabric one after the other, or side by side: the same cycles, bytes, traps and marks
 * as all of them together. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "fabric_trial.h"

/* Of a deadlock the last cycle in which somebody looked in vain is told, which is not the same. */
static void forget_cycle(outcome *o) {
  char *cycle = strstr(o->text, "deadlock") ? strstr(o->text, " cycle ") : NULL;
  if (cycle) memmove(cycle, strchr(cycle, ':'), strlen(strchr(cycle, ':')) + 1);
}

static bool same(const outcome *a, const outcome *b) {
  return a->status == b->status && !memcmp(&a->stats, &b->stats, sizeof a->stats) &&
         !memcmp(a->finish, b->finish, sizeof a->finish) &&
         !memcmp(a->marks, b->marks, sizeof a->marks) &&
         !memcmp(a->worked, b->worked, sizeof a->worked) &&
         !memcmp(a->wavelets, b->wavelets, sizeof a->wavelets) &&
         !memcmp(a->results, b->results, sizeof a->results) && !strcmp(a->text, b->text);
}

/* Random programs, divided over and over again into islands of a core or more. */
static void islands_are_exact(void) {
  static trial t;
  static outcome whole, divided;
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  for (uint64_t seed = 1; seed <= 900; seed++) {
    const wafer_machine *m = machines[seed % 2];
    const wafer_fabric_options together = {.threads = 1};
    const wafer_fabric_options islands = {
        .threads = 1 + (uint32_t)seed % 3, .islands = true, .island = 1 + (uint32_t)seed % 5};
    trial_make(&t, seed);
    trial_run(&t, m, &together, &whole);
    trial_run(&t, m, &islands, &divided);
    forget_cycle(&whole);
    forget_cycle(&divided);
    bool equal = same(&whole, &divided);
    if (!equal)
      printf("\nseed %u: status %d %d, cycles %u %u, hops %u %u, elements %u %u\n%s%s\n",
             (unsigned)seed, whole.status, divided.status, (unsigned)whole.stats.cycles,
             (unsigned)divided.stats.cycles, (unsigned)whole.stats.hops,
             (unsigned)divided.stats.hops, (unsigned)whole.stats.elements,
             (unsigned)divided.stats.elements, whole.text, divided.text);
    CU_ASSERT(equal);
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fabric_islands[] = {
    {"islands are exact", islands_are_exact},
    CU_TEST_INFO_NULL,
};

/* Sends that go in bursts, and cores that are not woken by every word: the same cycles, hops and
 * values as word by word, where links are shared, queues run full, and control works beside them.
 */
#include <CUnit/CUnit.h>

#include "wafer/fabric_case.h"

typedef struct trial {
  const char *name, *algorithm;
  uint32_t width, height, words;
  double load;
} trial;

static const trial trials[] = {
    {.name = "random", .width = 5, .height = 5, .words = 1, .load = 0.02},
    {.name = "random", .width = 12, .height = 9, .words = 1, .load = 0.1},
    {.name = "random", .width = 16, .height = 16, .words = 1, .load = 0.3},
    {.name = "random", .width = 9, .height = 14, .words = 1, .load = 0.9},
    {.name = "reduce", .algorithm = "tree", .width = 7, .height = 1, .words = 64},
    {.name = "reduce", .algorithm = "tree", .width = 13, .height = 2, .words = 5},
    {.name = "reduce", .algorithm = "star", .width = 9, .height = 1, .words = 33},
    {.name = "reduce", .algorithm = "two-phase", .width = 11, .height = 1, .words = 40},
    {.name = "all-reduce", .algorithm = "ring", .width = 6, .height = 1, .words = 48},
};

static void check(const wafer_machine *machine, const trial *t, uint64_t seed) {
  wafer_case_options o = {.width = t->width,
                          .height = t->height,
                          .words = t->words,
                          .algorithm = t->algorithm,
                          .load = t->load,
                          .cycles = t->load > 0 ? 1500 : 0,
                          .repeat = 1,
                          .seed = seed,
                          .plain = true};
  wafer_case_result one, many;
  CU_ASSERT(wafer_case_run(NULL, machine, t->name, &o, &one) == WAFER_OK);
  o.plain = false;
  CU_ASSERT(wafer_case_run(NULL, machine, t->name, &o, &many) == WAFER_OK);
  bool same = one.counted == many.counted && one.checked == many.checked &&
              one.stats.hops == many.stats.hops && one.stats.elements == many.stats.elements &&
              one.stats.core_cycles == many.stats.core_cycles;
  if (!same)
    printf("\n%s %s %ux%u, seed %u: cycles %u %u, work %u %u\n", t->name,
           t->algorithm ? t->algorithm : "", t->width, t->height, (unsigned)seed,
           (unsigned)one.counted, (unsigned)many.counted, (unsigned)one.stats.core_cycles,
           (unsigned)many.stats.core_cycles);
  CU_ASSERT(same);
}

static void words_in_time(void) {
  static const char *const machines[] = {"wse2", "wse3", "small64"};
  wafer_arena *arena = wafer_arena_create();
  for (size_t m = 0; m < WAFER_COUNT(machines); m++) {
    const wafer_machine *machine;
    CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, machines[m], &machine) == WAFER_OK);
    for (size_t i = 0; i < WAFER_COUNT(trials); i++)
      for (uint64_t seed = 1; seed <= 3; seed++) check(machine, &trials[i], seed);
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_core_patience[] = {
    {"words are taken in time", words_in_time},
    CU_TEST_INFO_NULL,
};

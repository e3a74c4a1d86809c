/* Queues of which a bit says all: the same cycles and bytes as from queue to queue, for any number
 * of threads. Programs drawn at random: fabric_strips.c. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "wafer/fabric_case.h"

/* Many flows over each link, up to more words than links and cores can take: turns are taken as in
 * queues, and who has no room waits. Along a line so many that links have fields of every width. */
static void crowded_bits_are_exact(void) {
  static const double loads[] = {0.03, 0.1, 0.3, 0.6, 1};
  static const uint32_t sides[][2] = {{5, 3}, {12, 9}, {20, 16}, {1, 24}, {64, 1}, {1, 60}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  for (uint32_t i = 0; i < 3 * WAFER_COUNT(loads) * WAFER_COUNT(sides); i++) {
    const uint32_t *side = sides[i % WAFER_COUNT(sides)];
    wafer_case_result one, bits;
    wafer_case_options o = {.width = side[0],
                            .height = side[1],
                            .words = 8,
                            .cycles = 1500,
                            .load = loads[i % WAFER_COUNT(loads)],
                            .seed = 1 + i,
                            .threads = 1,
                            .plain = true};
    CU_ASSERT_FATAL(wafer_case_run(NULL, machine, "random", &o, &one) == WAFER_OK);
    o.plain = false;
    o.single = true;
    for (o.threads = 1; o.threads <= 2; o.threads++) {
      CU_ASSERT_FATAL(wafer_case_run(NULL, machine, "random", &o, &bits) == WAFER_OK);
      CU_ASSERT(one.counted == bits.counted && one.checked == bits.checked);
      CU_ASSERT(!memcmp(&one.stats, &bits.stats, sizeof one.stats));
    }
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fabric_bits[] = {
    {"crowded bits are exact", crowded_bits_are_exact},
    CU_TEST_INFO_NULL,
};

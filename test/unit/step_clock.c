/* Counting a step by hand: machine wse2, whose links and servers move 150 GB/s at 1.1 GHz, a word
 * of 4,096 bytes in 30.04 cycles, rounded up. */
#include "wafer/step_clock.h"

#include <CUnit/CUnit.h>

#include "wafer/arena.h"
#include "wafer/tensor.h"

enum { BYTES = 4096, LINK = 31, HOP = 1100, LATENCY = 1100 };

static const wafer_step_weight weights[] = {{BYTES, 10 * BYTES, 0}, {BYTES, 10 * BYTES, 0}};

static wafer_step_time counted(wafer_step_run run) {
  wafer_arena *arena = wafer_arena_create();
  wafer_step_time time;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "wse2", &run.machine), WAFER_OK);
  run.weight_count = 2;
  if (!run.weights) run.weights = weights;
  if (!run.server_count) run.server_count = 1;
  CU_ASSERT_EQUAL(wafer_step_count(NULL, &run, &time), WAFER_OK);
  wafer_arena_destroy(arena);
  return time;
}

/* The first weight's gradient is out early, its update long done when the second's comes. */
static void one_system_updates_as_gradients_come(void) {
  const uint64_t ready[] = {10000, 49000}, read[] = {5000, 6000};
  const wafer_step_partial partial = {0, 0, ready};
  const wafer_step_system system = {50000, read, 1, &partial};
  wafer_step_time t = counted((wafer_step_run){.system_count = 1, .systems = &system});
  CU_ASSERT_EQUAL(t.system, 50000);
  CU_ASSERT_EQUAL(t.sum, 0);
  CU_ASSERT_EQUAL(t.update, 49000 + LINK + LATENCY + 301 - 50000);
  CU_ASSERT_EQUAL(t.update_work, 2 * 301);
  t = counted((wafer_step_run){.system_count = 1, .systems = &system, .waits = true});
  CU_ASSERT_EQUAL(t.update, 3 * LATENCY + 2 * 301);
  t = counted((wafer_step_run){.system_count = 1, .systems = &system, .skips = true});
  CU_ASSERT_EQUAL(t.update, 0);
}

static void a_weight_that_is_still_read_waits(void) {
  const uint64_t ready[] = {10000, 20000}, read[] = {60000, 6000};
  const wafer_step_partial partial = {0, 0, ready};
  const wafer_step_system system = {50000, read, 1, &partial};
  wafer_step_time t = counted((wafer_step_run){.system_count = 1, .systems = &system});
  CU_ASSERT_EQUAL(t.step, 60000 + 301);
  static const wafer_step_weight apart[] = {{BYTES, 10 * BYTES, 1}, {BYTES, 100 * BYTES, 0}};
  t = counted(
      (wafer_step_run){.system_count = 1, .systems = &system, .weights = apart, .server_count = 2});
  CU_ASSERT_EQUAL(t.step, 60000 + 301); /* the other server's long one is done */
}

/* Two sums of two systems meet in a node, and go on as one when the later is there. */
static void siblings_join_where_they_meet(void) {
  const uint64_t early[] = {10000, 20000}, late[] = {30000, 40000}, read[] = {0, 0};
  const wafer_step_partial partials[] = {{1, 0, early}, {1, 1, late}};
  const wafer_step_system systems[] = {{40000, read, 1, partials}, {41000, read, 1, partials + 1}};
  wafer_step_time t = counted((wafer_step_run){.system_count = 2, .systems = systems});
  CU_ASSERT_EQUAL(t.system, HOP + 41000); /* new weights came down a level */
  CU_ASSERT_EQUAL(t.sum, 40000 + LINK + HOP - 41000);
  CU_ASSERT_EQUAL(t.update, LATENCY + 301);
}

/* Sums that are no siblings stay apart on the way: three systems of two micro-batches each, the
 * middle one's halves belong to different sums. A system without any sends nothing. */
static void others_climb_apart(void) {
  const uint64_t ready[] = {100, 100}, read[] = {0, 0};
  const wafer_step_partial partials[] = {
      {1, 0, ready}, {0, 2, ready}, {0, 3, ready}, {1, 2, ready}};
  const wafer_step_system systems[] = {
      {100, read, 1, partials}, {100, read, 2, partials + 1}, {100, read, 1, partials + 3}, {0}};
  wafer_step_time t = counted((wafer_step_run){.system_count = 4, .systems = systems});
  CU_ASSERT_EQUAL(t.sum_work, 4 * LINK); /* of the middle port */
  CU_ASSERT_EQUAL(t.sum, 4 * LINK + HOP);
}

CU_TestInfo tests_step_clock[] = {
    {"one system updates as gradients come", one_system_updates_as_gradients_come},
    {"a weight that is still read waits", a_weight_that_is_still_read_waits},
    {"siblings join where they meet", siblings_join_where_they_meet},
    {"others climb apart", others_climb_apart},
    CU_TEST_INFO_NULL,
};

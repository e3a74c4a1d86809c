/* `slower` of the options: a search for the pace of programs takes shelves of kernels that may take
 * so much longer than the shortest interval, and so does what is laid out for its latency; nothing
 * else does. */
#include <CUnit/CUnit.h>

#include "compiled.h"

#define NET                                                                                        \
  "in x f32 64x192; Softmax(axis=1) x -> a; Softmax(axis=0) a -> b; Softmax(axis=1) b -> c; "      \
  "Softmax(axis=0) c -> d; Mul a d -> y; out y"

#define UNLIKE                                                                                     \
  "in x f32 64x64; MatMul x x -> a; Softmax(axis=1) a -> b; Softmax(axis=0) b -> c; "              \
  "Softmax(axis=1) c -> d; MatMul d x -> y; out y"

static uint64_t slowest(wafer_placer_kind placer, wafer_objective objective, uint32_t slower,
                        uint64_t *cores) {
  wafer_options options = {.mode = WAFER_MODE_pipelined,
                           .programs = WAFER_PROGRAMS_always,
                           .placer = placer,
                           .objective = objective,
                           .bands = 1,
                           .slower = slower};
  uint64_t most = 0;
  compiled m;
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, NET), WAFER_OK);
  CU_ASSERT(m.plan->launch_count > 0);
  *cores = 0;
  for (uint32_t k = 0; k < m.plan->kernel_count; k++) {
    uint64_t cycles = m.plan->kernels[k].cost.cycles;
    most = cycles > most ? cycles : most;
    *cores += wafer_rect_area(m.plan->kernels[k].rect);
  }
  compiled_end(&m);
  return most;
}

static void kernels_take_longer(void) {
  uint64_t cores, fewer, more, shelf;
  const wafer_objective pace = WAFER_OBJECTIVE_throughput;
  uint64_t t = slowest(WAFER_PLACER_shelf, pace, 0, &cores);
  CU_ASSERT_EQUAL(slowest(WAFER_PLACER_shelf, pace, 3 * WAFER_SLOWER_PARTS, &shelf), t);
  CU_ASSERT_EQUAL(shelf, cores);
  uint64_t fast = slowest(WAFER_PLACER_best, pace, 0, &more);
  uint64_t slow = slowest(WAFER_PLACER_best, pace, 3 * WAFER_SLOWER_PARTS, &fewer);
  CU_ASSERT(slow > t && slow > fast && fewer < more);
}

/* The edge's pace holds nothing up where a sample counts by itself, unless that is asked for. */
static void one_sample_has_no_pace(void) {
  const wafer_objective late = WAFER_OBJECTIVE_latency;
  uint64_t cores, more, fewer, as_many;
  uint64_t t = slowest(WAFER_PLACER_shelf, WAFER_OBJECTIVE_throughput, 0, &cores);
  uint64_t fastest = slowest(WAFER_PLACER_shelf, late, 0, &more);
  CU_ASSERT(fastest < t && more > cores);
  CU_ASSERT(slowest(WAFER_PLACER_shelf, late, 3 * WAFER_SLOWER_PARTS, &fewer) > fastest);
  CU_ASSERT(fewer < more);
  CU_ASSERT_EQUAL(slowest(WAFER_PLACER_shelf, late, WAFER_SLOWER_PACE, &as_many), t);
  CU_ASSERT_EQUAL(as_many, cores);
}

static uint64_t latency(uint32_t slower) {
  const wafer_options options = {.mode = WAFER_MODE_pipelined,
                                 .programs = WAFER_PROGRAMS_never,
                                 .objective = WAFER_OBJECTIVE_latency,
                                 .slower = slower};
  compiled m;
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, UNLIKE), WAFER_OK);
  uint64_t cycles = m.plan->pipelined.latency_cycles;
  compiled_end(&m);
  return cycles;
}

/* Shapes as fast as the slowest kernel's can be leave cores where they shorten nothing. */
static void cores_have_a_price(void) {
  CU_ASSERT(latency(WAFER_SLOWER_PRICED) < latency(0));
}

CU_TestInfo tests_slower[] = {
    {"kernels may take longer, on fewer cores", kernels_take_longer},
    {"one sample has no pace", one_sample_has_no_pace},
    {"cores have a price where one sample counts", cores_have_a_price},
    CU_TEST_INFO_NULL,
};

#include "wafer/scale.h"

#include <CUnit/CUnit.h>

/* A plan that trains one weight of 1,000 f32 elements, without phases. */
typedef struct fixture {
  wafer_arena *arena;
  const wafer_machine *machine;
  wafer_trained trained;
  wafer_training training;
  wafer_plan plan;
} fixture;

static void setup(fixture *f) {
  *f = (fixture){.arena = wafer_arena_create()};
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, f->arena, "wse2", &f->machine), WAFER_OK);
  wafer_weights *weights = wafer_weights_create(f->arena);
  wafer_weights_add(weights, "w", WAFER_DTYPE_f32, &(wafer_shape){1, {1000}}, NULL);
  f->training = (wafer_training){.micro_batch = 1, .trained_count = 1, .trained = &f->trained};
  f->plan = (wafer_plan){
      .model = "m", .machine = f->machine, .weights = weights, .training = &f->training};
}

static void a_step_is_the_sum_of_its_parts(void) {
  fixture f;
  setup(&f);
  const wafer_machine *m = f.machine;
  wafer_scale_options options = {
      .systems = 16, .micro_batches = 33, .servers = 2, .state_bytes = 12};
  wafer_scale_step s;
  wafer_scale_of(&f.plan, &options, 5000, &s);
  CU_ASSERT_EQUAL(wafer_scale_parameters(&f.plan), 1000);
  CU_ASSERT_EQUAL(s.depth, 2); /* fan-out 4 */
  CU_ASSERT_EQUAL(s.rounds, 3);
  CU_ASSERT_EQUAL(s.system, 15000);
  CU_ASSERT_EQUAL(s.sum, 4 * m->swarmx_hop_cycles +
                             wafer_machine_transfer_cycles(m, 4000, m->swarmx_bytes_per_second));
  CU_ASSERT_EQUAL(s.update, m->memoryx_latency_cycles +
                                wafer_machine_transfer_cycles(m, (24000 + 4000) / 2,
                                                              m->memoryx_bytes_per_second));
  CU_ASSERT_EQUAL(s.step, s.system + s.sum + s.update);
  wafer_arena_destroy(f.arena);
}

static void one_system_pays_too(void) {
  fixture f;
  setup(&f);
  wafer_scale_options options = {.systems = 1, .micro_batches = 1, .state_bytes = 12};
  wafer_scale_step s;
  wafer_scale_of(&f.plan, &options, 5000, &s);
  CU_ASSERT_EQUAL(s.depth, 0);
  CU_ASSERT(s.sum > 0);
  CU_ASSERT(s.update > f.machine->memoryx_latency_cycles);
  wafer_arena_destroy(f.arena);
}

static void a_plan_of_inference_is_refused(void) {
  fixture f;
  setup(&f);
  f.plan.training = NULL;
  wafer_scale_options options = {.systems = 1, .micro_batches = 1};
  wafer_scale_step s;
  CU_ASSERT_EQUAL(wafer_scale_predict(NULL, &f.plan, &options, &s), WAFER_USAGE);
  wafer_arena_destroy(f.arena);
}

static void a_cluster_needs_room(void) {
  wafer_scale_gpu g = wafer_scale_cluster(175e9, 1e9, 96, 64, 8, 80e9);
  CU_ASSERT_FALSE(g.data_fits);
  CU_ASSERT_FALSE(g.tensor_fits);
  CU_ASSERT_DOUBLE_EQUAL(g.data_bytes, 4 * 175e9 * 7 / 8, 1);
  g = wafer_scale_cluster(1e9, 1e6, 24, 8, 8, 80e9);
  CU_ASSERT_TRUE(g.data_fits && g.tensor_fits);
  CU_ASSERT_DOUBLE_EQUAL(g.tensor_bytes, 16 * 1e6 * 8 * 7 / 8, 1);
}

CU_TestInfo tests_scale[] = {
    {"a step is the sum of its parts", a_step_is_the_sum_of_its_parts},
    {"one system pays too", one_system_pays_too},
    {"a plan of inference is refused", a_plan_of_inference_is_refused},
    {"a cluster needs room", a_cluster_needs_room},
    CU_TEST_INFO_NULL,
};

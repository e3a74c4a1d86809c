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

/* Two weights: one's gradient is out at 3,000 of 5,000 cycles, the other's at 4,900. */
static const wafer_scale_gradient gradients[] = {{3000, 100, 100000, 400000},
                                                 {4900, 2000, 50, 200}};
static const wafer_scale_pass pass = {5000, 2, gradients};

static void a_step_is_the_sum_of_its_parts(void) {
  fixture f;
  setup(&f);
  const wafer_machine *m = f.machine;
  wafer_scale_options options = {
      .systems = 6, .micro_batches = 17, .servers = 2, .state_bytes = 12, .waits = true};
  wafer_scale_step s;
  wafer_scale_of(m, &options, &pass, &s);
  uint64_t hops = 2 * m->swarmx_hop_cycles;
  uint64_t first = wafer_machine_transfer_cycles(m, 400000, m->swarmx_bytes_per_second);
  uint64_t second = wafer_machine_transfer_cycles(m, 200, m->swarmx_bytes_per_second);
  uint64_t work =
      wafer_machine_transfer_cycles(m, (2400000 + 400000) / 2, m->memoryx_bytes_per_second) +
      wafer_machine_transfer_cycles(m, (1200 + 200) / 2, m->memoryx_bytes_per_second);
  CU_ASSERT_EQUAL(wafer_scale_parameters(&f.plan), 1000);
  CU_ASSERT_EQUAL(s.depth, 2); /* fan-out 4 */
  CU_ASSERT_EQUAL(s.rounds, 3);
  CU_ASSERT_EQUAL(s.system, 15000 + hops);
  CU_ASSERT_EQUAL(s.sum, 3000 + first + second + hops - 5000); /* the second waits for the first */
  CU_ASSERT_EQUAL(s.update, 3 * m->memoryx_latency_cycles + work);
  CU_ASSERT_EQUAL(s.sum_work, first + second);
  CU_ASSERT_EQUAL(s.update_work, work);
  CU_ASSERT_EQUAL(s.step, s.system + s.sum + s.update);
  wafer_arena_destroy(f.arena);
}

/* The large update begins while the second gradient is not there yet. */
static void updates_at_once_are_hidden(void) {
  fixture f;
  setup(&f);
  const wafer_machine *m = f.machine;
  wafer_scale_options options = {.systems = 1, .micro_batches = 1, .state_bytes = 12};
  wafer_scale_gradient early[] = {gradients[0], {90000, 2000, 50, 200}};
  wafer_scale_pass longer = {90000, 2, early};
  wafer_scale_step s;
  wafer_scale_of(m, &options, &longer, &s);
  uint64_t last = wafer_machine_transfer_cycles(m, 200, m->swarmx_bytes_per_second);
  CU_ASSERT_EQUAL(s.depth, 0);
  CU_ASSERT_EQUAL(s.sum, last);
  CU_ASSERT_EQUAL(s.update, m->memoryx_latency_cycles + wafer_machine_transfer_cycles(
                                                            m, 1400, m->memoryx_bytes_per_second));
  early[0].read = 100000; /* it still goes to the wafer when its gradient is there */
  wafer_scale_of(m, &options, &longer, &s);
  CU_ASSERT(s.update > 10000);
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
  const wafer_scale_model gpt3 = {175e9, 96, 96 * 2048 * 12288., 64};
  wafer_scale_gpu g = wafer_scale_cluster(&gpt3, 8, 80e9);
  CU_ASSERT_FALSE(g.data_fits || g.tensor_fits || g.pipeline_fits);
  CU_ASSERT_EQUAL(g.grid.data, 0); /* 2.8 TB of parameters and state on 0.64 TB */
  CU_ASSERT_DOUBLE_EQUAL(g.data_bytes, 4 * 175e9 * 7 / 8, 1);
  const wafer_scale_model small = {1e9, 24, 1e6, 8};
  g = wafer_scale_cluster(&small, 8, 80e9);
  CU_ASSERT_TRUE(g.data_fits && g.tensor_fits && g.pipeline_fits);
  CU_ASSERT_TRUE(g.grid.data == 8 && g.grid.pipeline == 1 && g.grid.tensor == 1);
  CU_ASSERT_FALSE(g.data_forced || g.pipeline_forced || g.tensor_forced);
  CU_ASSERT_DOUBLE_EQUAL(g.tensor_bytes, 16 * 1e6 * 8 * 7 / 8, 1);
}

/* Kinds that no grid does without: 2.8 TB want 36 parts at least. 96 processors have them as stages
 * alone, 1,024 are more than there are stages, 8,192 more than stages and samples. */
static void what_is_forced_follows_from_all_grids(void) {
  const wafer_scale_model gpt3 = {175e9, 96, 96 * 2048 * 12288., 64};
  wafer_scale_gpu g = wafer_scale_cluster(&gpt3, 96, 80e9);
  CU_ASSERT_TRUE(g.pipeline_forced && !g.tensor_forced && !g.data_forced);
  CU_ASSERT_TRUE(g.grid.pipeline == 96 && g.grid.tensor == 1);
  g = wafer_scale_cluster(&gpt3, 1024, 80e9);
  CU_ASSERT_TRUE(g.grid.data == 16 && g.grid.pipeline == 64);
  CU_ASSERT_TRUE(g.pipeline_forced && g.data_forced && !g.tensor_forced);
  g = wafer_scale_cluster(&gpt3, 8192, 80e9);
  CU_ASSERT_TRUE(g.pipeline_forced && g.data_forced && g.tensor_forced);
}

CU_TestInfo tests_scale[] = {
    {"a step is the sum of its parts", a_step_is_the_sum_of_its_parts},
    {"updates at once are hidden", updates_at_once_are_hidden},
    {"a plan of inference is refused", a_plan_of_inference_is_refused},
    {"a cluster needs room", a_cluster_needs_room},
    {"what is forced follows from all grids", what_is_forced_follows_from_all_grids},
    CU_TEST_INFO_NULL,
};

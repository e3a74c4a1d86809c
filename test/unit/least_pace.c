/* The bound of core programs: no plan of them is below it, whoever lays it out, and it is no less
 * than what it counts. */
#include "wafer/least_pace.h"

#include <CUnit/CUnit.h>

#include "onnx_text.h"
#include "scratch.h"
#include "wafer/least_cores.h"
#include "wafer/wafer.h"
#include "wafer/zoo.h"

typedef struct made {
  wafer_ctx ctx;
  wafer_machine machine;
  wafer_ir *ir;
  const wafer_plan *plan;
} made;

/* A pipeline on small64, with the edge's limit or without. */
static void make(made *m, const char *model, const wafer_options *options, bool edge) {
  const wafer_machine *shipped;
  *m = (made){.ctx = {.arena = wafer_arena_create(), .options = options}};
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, m->ctx.arena, "small64", &shipped), WAFER_OK);
  m->machine = *shipped;
  if (!edge)
    m->machine.edge_in_bytes_per_second = m->machine.edge_out_bytes_per_second = UINT64_MAX;
  m->ctx.machine = &m->machine;
  CU_ASSERT_EQUAL_FATAL(wafer_import(&m->ctx, model, &m->ir), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&m->ctx, m->ir, WAFER_DEFAULT_PASSES), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_lower(&m->ctx, m->ir, &m->plan), WAFER_OK);
}

static void unmake(made *m) {
  wafer_ir_destroy(m->ir);
  wafer_arena_destroy(m->ctx.arena);
}

/* Of a plan that takes as long as any. */
static wafer_least_pace bound_of(const wafer_plan *plan, uint64_t edge) {
  wafer_least_pace least;
  CU_ASSERT_EQUAL_FATAL(wafer_plan_least_pace(NULL, plan, edge, 1 << 30, &least), WAFER_OK);
  return least;
}

static uint64_t least_of(const wafer_plan *plan, uint64_t edge) {
  return bound_of(plan, edge).cycles;
}

static uint64_t interval_of(const wafer_plan *plan) {
  wafer_timeline t = {0};
  uint64_t samples = 64 * (uint64_t)wafer_machine_bands(plan->machine);
  CU_ASSERT_EQUAL(wafer_timeline_run(NULL, plan, 0, samples, &t), WAFER_OK);
  return t.interval_cycles ? t.interval_cycles : 1;
}

/* What turns count of computing no program does without. */
static void check_programs(const wafer_plan *plan) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    const bool none[16] = {false};
    CU_ASSERT_FATAL(kernel->body.input_count <= 16 && kernel->body.output_count <= 16);
    CU_ASSERT(wafer_least_turn_of(plan->machine, &kernel->body, none, none, &kernel->split) <=
              kernel->program_cycles);
  }
}

/* Every way to lay the model out; the bound is that of the model, but for fused kernels. */
static void check_all(const char *model) {
  static const uint32_t bands[] = {0, 1, 4};
  for (int placer = 0; placer < 2; placer++)
    for (size_t b = 0; b < WAFER_COUNT(bands); b++)
      for (int relays = 0; relays < 2; relays++) {
        wafer_options options = {.mode = WAFER_MODE_pipelined,
                                 .programs = WAFER_PROGRAMS_always,
                                 .placer = placer ? WAFER_PLACER_best : WAFER_PLACER_shelf,
                                 .relays = relays ? WAFER_RELAYS_auto : WAFER_RELAYS_none,
                                 .place_moves = 2000,
                                 .bands = bands[b]};
        made m;
        make(&m, model, &options, false);
        uint64_t least = least_of(m.plan, 0), interval = interval_of(m.plan);
        CU_ASSERT(m.plan->launch_count > 0);
        CU_ASSERT(least > 0 && least <= interval);
        check_programs(m.plan);
        unmake(&m);
      }
}

static void no_plan_is_below(void) {
  static const int64_t widths[][4] = {{1, 8, 16, 10}, {3, 16, 16, 4}, {2, 24, 8, 6}};
  scratch folder = scratch_create();
  for (size_t i = 0; i < WAFER_COUNT(widths); i++) {
    wafer_zoo_model net = {
        .name = "cnn", .kind = WAFER_ZOO_cnn, .batch = 1, .width_count = 4, .side = 8};
    for (int w = 0; w < 4; w++) net.widths[w] = widths[i][w];
    const wafer_zoo_options fresh = {.init = true, .seed = i};
    const char *path = scratch_path(&folder, "net.onnx");
    CU_ASSERT_EQUAL_FATAL(wafer_zoo_write(NULL, &net, &fresh, path), WAFER_OK);
    check_all(path);
  }
  scratch_remove(&folder);
}

/* Several want the first value; relays may hold it on its way. */
static void no_plan_with_skips_is_below(void) {
  scratch folder = scratch_create();
  protobuf *model = calloc(1, sizeof *model);
  onnx_text_model(model, 16,
                  "in x f32 16x48; Softmax(axis=1) x -> a; Transpose(perm=[1,0]) x -> t; MatMul a "
                  "t -> b; Softmax(axis=0) b -> "
                  "c; MatMul c a -> d; Softmax(axis=1) d -> e; "
                  "Mul a e -> y; out y");
  check_all(scratch_save(&folder, "t.onnx", model->bytes, model->count));
  free(model);
  scratch_remove(&folder);
}

/* Of one kernel: what its cores compute, and a word in for each element while those of the sample
 * before go out, on no more cores than there are; no less than the edge; of streams there is none.
 */
static void bound_is_what_it_counts(void) {
  scratch folder = scratch_create();
  protobuf *model = calloc(1, sizeof *model);
  wafer_options options = {.mode = WAFER_MODE_pipelined, .programs = WAFER_PROGRAMS_always};
  bool arrives[] = {true}, leaves[] = {true};
  wafer_least_cores least;
  made m;
  onnx_text_model(model, 16, "in x f32 256x256; Exp x -> y; out y");
  make(&m, scratch_save(&folder, "t.onnx", model->bytes, model->count), &options, true);
  CU_ASSERT_EQUAL_FATAL(m.plan->kernel_count, 1);
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_least_cores(&m.machine, &m.plan->kernels[0].body, arrives,
                                                 leaves, m.ctx.arena, &least),
                        WAFER_OK);
  wafer_least_pace bound = bound_of(m.plan, 0);
  uint64_t time = bound.cycles * bound.cut.bands;
  uint64_t rows = m.machine.usable.height / bound.cut.bands, cores = rows * m.machine.usable.width;
  CU_ASSERT(wafer_least_cores_for(&least, time) <= cores);
  CU_ASSERT(wafer_least_cores_for(&least, time - bound.cut.bands) > cores);
  CU_ASSERT(!bound.at_edge && bound.kernel == 0);
  CU_ASSERT_EQUAL(least_of(m.plan, 123456), 123456);
  CU_ASSERT(bound_of(m.plan, 123456).at_edge);
  wafer_plan streams = *m.plan;
  streams.launch_count = 0;
  CU_ASSERT_EQUAL(least_of(&streams, 0), 0);
  unmake(&m);
  free(model);
  scratch_remove(&folder);
}

CU_TestInfo tests_least_pace[] = {
    {"no plan is below it", no_plan_is_below},
    {"no plan with skips and relays is below it", no_plan_with_skips_is_below},
    {"it is what it counts", bound_is_what_it_counts},
    CU_TEST_INFO_NULL,
};

/* include/wafer/fault.h: faults as text, and what a run does with them. */
#include "wafer/fault.h"

#include <CUnit/CUnit.h>

#include "caught.h"
#include "wafer/fabric_case.h"
#include "wafer/wafer.h"

static void faults_are_spelt(void) {
  static const struct {
    const char *text;
    wafer_fault want;
  } rows[] = {{"drop@3,4,50", {WAFER_FAULT_drop, 0, 3, 4, 50, 0}},
              {"stuck@0,0,0", {WAFER_FAULT_stuck, 0, 0, 0, 0, 0}},
              {"flip@12,1,9,31", {WAFER_FAULT_flip, 31, 12, 1, 9, 0}},
              {"flip@2,3,400,7,1000", {WAFER_FAULT_upset, 7, 2, 3, 1000, 400}}};
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    wafer_fault got;
    char text[96];
    CU_ASSERT_FATAL(wafer_fault_parse(rows[i].text, &got));
    CU_ASSERT(got.kind == rows[i].want.kind && got.bit == rows[i].want.bit &&
              got.x == rows[i].want.x && got.y == rows[i].want.y &&
              got.cycle == rows[i].want.cycle && got.address == rows[i].want.address);
    wafer_fault_format(&got, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, rows[i].text);
  }
  static const char *const bad[] = {"",
                                    "drop",
                                    "drop@",
                                    "lose@1,2,3",
                                    "drop@1,2",
                                    "drop@1,2,3,4",
                                    "flip@1,2,3,32",
                                    "flip@1,2,3,8,5",
                                    "stuck@1,2,3,4,5",
                                    "flip@1,2,3,4,5,6",
                                    "drop@-1,2,3",
                                    "drop@1,2,3 ",
                                    "flip@1,2,3,",
                                    "drop@4294967296,0,0",
                                    "drop@0,0,18446744073709551616"};
  wafer_fault got;
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) CU_ASSERT(!wafer_fault_parse(bad[i], &got));
  CU_ASSERT(wafer_fault_parse("flip@1,2,3", &got) && got.bit == 0);
}

static const struct {
  const char *name;
  wafer_case_options options;
  uint32_t cycles; /* about */
} cases[] = {
    {"reduce", {.width = 12, .words = 20, .algorithm = "tree"}, 150},
    {"reduce", {.width = 9, .height = 2, .words = 20, .algorithm = "star"}, 190},
    {"all-reduce", {.width = 5, .height = 4, .words = 20}, 120},
    {"all-reduce", {.width = 6, .words = 12, .algorithm = "ring"}, 120},
    {"random", {.width = 6, .height = 6, .words = 8, .cycles = 300, .load = 0.3}, 300},
    {"gemv", {.width = 4, .height = 8, .words = 1, .m = 16, .n = 12, .repeat = 2}, 200},
    {"gemm", {.width = 4, .height = 4, .words = 1, .m = 8, .k = 8, .n = 8, .repeat = 2}, 700},
    {"gemm", {.width = 4, .height = 4, .words = 1, .algorithm = "summa"}, 300},
};

static wafer_status run(const wafer_machine *machine, size_t one, const wafer_fault *fault,
                        caught *c, wafer_case_result *result) {
  wafer_diag diag = caught_diag(c);
  wafer_case_options options = cases[one].options;
  options.faults = fault;
  options.fault_count = 1;
  return wafer_case_run(&diag, machine, cases[one].name, &options, result);
}

static uint32_t draw(uint64_t *state, uint32_t count) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % count;
}

/* What strikes shows, and says what it was; what does not, changes nothing. */
static void every_fault_shows_or_is_harmless(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  uint32_t shown[3] = {0}, struck[3] = {0};
  uint64_t state = 5;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 480; i++) {
    size_t one = i % WAFER_COUNT(cases);
    uint32_t height = cases[one].options.height ? cases[one].options.height : 1;
    wafer_fault fault = {.kind = (uint8_t)(i / WAFER_COUNT(cases) % 3),
                         .x = draw(&state, cases[one].options.width),
                         .y = draw(&state, height),
                         .cycle = draw(&state, cases[one].cycles),
                         .bit = (uint8_t)draw(&state, 32)};
    caught c;
    wafer_case_result result;
    wafer_status status = run(wse2, one, &fault, &c, &result);
    struck[fault.kind] += result.struck;
    if (status == WAFER_OK) {
      CU_ASSERT(c.count == 0);
      continue;
    }
    char text[96];
    wafer_fault_format(&fault, text, sizeof text);
    bool named = (status == WAFER_TRAP || status == WAFER_DIFFER) && c.severity == WAFER_NOTE &&
                 result.struck == 1 && strstr(c.text, text);
    if (!named) printf("\n%s %s: %d %s\n", cases[one].name, text, status, c.text);
    CU_ASSERT(named);
    shown[fault.kind]++;
  }
  /* A lost word of these programs is always missed; a flipped bit may be of padding, or of words
   * that nobody needs any more. */
  CU_ASSERT(struck[WAFER_FAULT_drop] > 100 && shown[WAFER_FAULT_drop] == struck[WAFER_FAULT_drop]);
  CU_ASSERT(struck[WAFER_FAULT_flip] > 100 && shown[WAFER_FAULT_flip] > 80);
  CU_ASSERT(shown[WAFER_FAULT_stuck] > 100);
  wafer_arena_destroy(arena);
}

static void late_faults_do_nothing(void) {
  static const wafer_fault late[] = {{WAFER_FAULT_drop, 0, 1, 0, 100000, 0},
                                     {WAFER_FAULT_stuck, 0, 1, 0, 100000, 0}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(late); i++) {
    caught c;
    wafer_case_result result;
    CU_ASSERT(run(wse2, 0, &late[i], &c, &result) == WAFER_OK && result.struck == 0);
  }
  static const wafer_fault outside = {WAFER_FAULT_drop, 0, 12, 0, 1, 0};
  caught c;
  wafer_case_result result;
  CU_ASSERT(run(wse2, 0, &outside, &c, &result) == WAFER_USAGE);
  wafer_arena_destroy(arena);
}

/* ---- plans ---- */

typedef struct model {
  caught last;
  wafer_diag diag;
  wafer_arena *arena;
  wafer_ir *ir; /* the plan borrows its names */
  const wafer_plan *plan;
  wafer_view in, out[8];
  const void *sound[8]; /* outputs without faults */
  uint64_t cycles;
} model;

/* One run with what the options say; OK leaves the outputs' elements in the arena. */
static wafer_status run_model(model *m, wafer_session_options options, uint64_t *struck) {
  wafer_session *session;
  uint32_t outputs = m->plan->functions[0].output_count;
  options.fidelity = WAFER_FIDELITY_fabric;
  options.threads = 1;
  options.diag = &m->diag;
  m->last.count = 0;
  CU_ASSERT_FATAL(wafer_session_create(m->plan, &options, &session) == WAFER_OK);
  wafer_status status = wafer_session_run(session, &m->in, 1, m->out, outputs);
  wafer_run_stats stats = wafer_session_stats(session);
  if (struck) *struck = stats.fault_struck[0];
  m->cycles = status == WAFER_OK ? stats.total_cycles : m->cycles;
  for (uint32_t i = 0; i < outputs && status == WAFER_OK; i++)
    m->out[i].data = wafer_arena_copy(m->arena, m->out[i].data,
                                      wafer_tensor_bytes(m->out[i].dtype, &m->out[i].shape));
  wafer_session_destroy(session);
  return status;
}

static void open_model(model *m, wafer_mode mode) {
  *m = (model){.arena = wafer_arena_create()};
  m->diag = caught_diag(&m->last);
  wafer_options options = {.mode = mode, .programs = WAFER_PROGRAMS_always};
  wafer_ctx ctx = {.arena = m->arena, .diag = &m->diag, .options = &options};
  CU_ASSERT_FATAL(wafer_machine_open(&m->diag, m->arena, "small16", &ctx.machine) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_import(&ctx, WAFER_SOURCE_DIR "/test/data/small_cnn.onnx", &m->ir) ==
                  WAFER_OK);
  CU_ASSERT_FATAL(wafer_transform(&ctx, m->ir, WAFER_DEFAULT_PASSES) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_lower(&ctx, m->ir, &m->plan) == WAFER_OK);
  const wafer_type *type = &m->plan->values[m->plan->functions[0].inputs[0]].type;
  size_t bytes = wafer_tensor_bytes(type->dtype, &type->shape);
  m->in = wafer_view_of(type->dtype, &type->shape, wafer_arena_alloc(m->arena, bytes, 8));
  for (size_t i = 0; i < bytes / sizeof(float); i++)
    ((float *)m->in.data)[i] = (float)((i * 37) % 101) / 50 - 1;
  CU_ASSERT_FATAL(run_model(m, (wafer_session_options){.load = true}, NULL) == WAFER_OK);
  for (uint32_t i = 0; i < m->plan->functions[0].output_count; i++) m->sound[i] = m->out[i].data;
}

static bool same_outputs(const model *m) {
  bool same = true;
  for (uint32_t i = 0; i < m->plan->functions[0].output_count; i++)
    same &=
        !memcmp(m->sound[i], m->out[i].data, wafer_tensor_bytes(m->out[i].dtype, &m->out[i].shape));
  return same;
}

/* Over all launches of a plan: what did not strike changes no bit; what trapped is named; no run
 * goes on for ever. */
static void plans_show_faults(wafer_mode mode) {
  model m;
  uint64_t state = 11, cycles;
  uint32_t trapped = 0, differed = 0, harmless = 0;
  open_model(&m, mode);
  cycles = m.cycles;
  for (uint32_t i = 0; i < 128; i++) {
    const wafer_rect *rect = &m.plan->kernels[draw(&state, m.plan->kernel_count)].rect;
    wafer_fault fault = {.kind = (uint8_t)(i % 4),
                         .x = rect->x + draw(&state, rect->width),
                         .y = rect->y + draw(&state, rect->height),
                         .cycle = draw(&state, (uint32_t)cycles)};
    fault.bit = (uint8_t)draw(&state, fault.kind == WAFER_FAULT_upset ? 8 : 32);
    fault.address = fault.kind == WAFER_FAULT_upset ? draw(&state, 3000) : 0;
    uint64_t struck;
    wafer_status status =
        run_model(&m, (wafer_session_options){.fault_count = 1, .faults = &fault}, &struck);
    char text[96];
    wafer_fault_format(&fault, text, sizeof text);
    CU_ASSERT(struck == UINT64_MAX || struck >= fault.cycle);
    if (status != WAFER_OK)
      CU_ASSERT(status == WAFER_TRAP && struck != UINT64_MAX && strstr(m.last.text, text));
    bool same = status == WAFER_OK && same_outputs(&m);
    if (struck == UINT64_MAX) CU_ASSERT(same);
    trapped += status != WAFER_OK;
    differed += status == WAFER_OK && !same;
    harmless += same;
  }
  CU_ASSERT(trapped > 4 && differed > 4 && harmless > 4);
  wafer_ir_destroy(m.ir);
  wafer_arena_destroy(m.arena);
}

static void streaming_plans_show_faults(void) {
  plans_show_faults(WAFER_MODE_streaming);
}

static void pipelines_show_faults(void) {
  plans_show_faults(WAFER_MODE_pipelined);
}

/* A plan's kernels, phases and links do what all of them did. */
static void loads_add_up(void) {
  static const wafer_mode modes[] = {WAFER_MODE_streaming, WAFER_MODE_pipelined};
  for (size_t i = 0; i < WAFER_COUNT(modes); i++) {
    model m;
    wafer_session *session;
    open_model(&m, modes[i]);
    const wafer_session_options options = {
        .fidelity = WAFER_FIDELITY_fabric, .threads = 1, .diag = &m.diag, .load = true};
    CU_ASSERT_FATAL(wafer_session_create(m.plan, &options, &session) == WAFER_OK);
    wafer_load phases = {0}, kernels = {0}, wafer = {0};
    for (int run = 0; run < 2; run++) /* the second brings no weights where they stay */
      CU_ASSERT_FATAL(wafer_session_run(session, &m.in, 1, m.out,
                                        m.plan->functions[0].output_count) == WAFER_OK);
    wafer_run_stats stats = wafer_session_stats(session);
    const wafer_machine *machine = m.plan->machine;
    for (uint32_t k = 0; k < m.plan->kernel_count; k++) {
      kernels.core_cycles += stats.kernel_load[k].core_cycles;
      kernels.wavelets += stats.kernel_load[k].wavelets;
      CU_ASSERT(stats.kernel_load[k].core_cycles > 0);
    }
    for (uint32_t p = 0; p < m.plan->phase_count; p++) {
      phases.core_cycles += stats.phase_load[p].core_cycles;
      phases.wavelets += stats.phase_load[p].wavelets;
    }
    for (uint32_t c = 0; c < machine->width * machine->height; c++) {
      wafer.core_cycles += stats.core_cycles[c];
      for (uint32_t l = 0; l < WAFER_LINKS; l++)
        wafer.wavelets += stats.link_wavelets[c * WAFER_LINKS + l];
      CU_ASSERT(stats.core_cycles[c] <= stats.total_cycles);
    }
    CU_ASSERT(stats.all.wavelets == stats.hops && wafer.wavelets == stats.hops);
    CU_ASSERT(phases.core_cycles == stats.all.core_cycles && phases.wavelets == stats.hops);
    CU_ASSERT(wafer.core_cycles == stats.all.core_cycles);
    CU_ASSERT(kernels.core_cycles <= phases.core_cycles && kernels.wavelets <= phases.wavelets);
    wafer_session_destroy(session);
    wafer_ir_destroy(m.ir);
    wafer_arena_destroy(m.arena);
  }
}

CU_TestInfo tests_fault[] = {
    {"faults are spelt", faults_are_spelt},
    {"every fault shows or is harmless", every_fault_shows_or_is_harmless},
    {"late faults do nothing", late_faults_do_nothing},
    {"streaming plans show faults", streaming_plans_show_faults},
    {"pipelines show faults", pipelines_show_faults},
    {"loads add up", loads_add_up},
    CU_TEST_INFO_NULL,
};

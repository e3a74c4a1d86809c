/* backend/lower*.c: from placed IR to a plan that its own check accepts, in both modes. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "compiled.h"
#include "wafer/ir.h"

static const char program[] =
    "func.func @main(%x: tensor<1x3x16x16xf32> {wafer.name = \"x\"})\n"
    "    -> (tensor<1x8x8x8xf32> {wafer.name = \"y\"}) {\n"
    "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<8x3x3x3xf32>\n"
    "  %c = \"nn.conv\"(%x, %w) {group = 1 : i64, strides = array<i64: 2, 2>,\n"
    "    dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>}\n"
    "    : (tensor<1x3x16x16xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x8x8xf32> loc(\"conv1\")\n"
    "  %r = \"nn.relu\"(%c) : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32> loc(\"relu1\")\n"
    "  %s = \"nn.softmax\"(%r) {axis = 1 : i64} : (tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>\n"
    "    loc(\"soft\")\n"
    "  %y = \"nn.mul\"(%r, %s) : (tensor<1x8x8x8xf32>, tensor<1x8x8x8xf32>)\n"
    "    -> tensor<1x8x8x8xf32> loc(\"gate\")\n"
    "  return %y : tensor<1x8x8x8xf32>\n"
    "}\n";

typedef struct fixture {
  scratch folder;
  caught caught;
  wafer_diag diag;
  wafer_options options;
  wafer_ctx ctx;
  wafer_ir *ir;
} fixture;

static void setup(fixture *f, wafer_mode mode, uint32_t batch, const char *passes) {
  memset(f, 0, sizeof *f);
  f->folder = scratch_create();
  f->diag = caught_diag(&f->caught);
  f->options = (wafer_options){.mode = mode, .batch = batch};
  f->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = &f->diag, .options = &f->options};
  const char *path = scratch_save(&f->folder, "model.mlir", program, strlen(program));
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&f->diag, f->ctx.arena, "small16", &f->ctx.machine),
                        WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_parse(&f->ctx, path, &f->ir), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&f->ctx, f->ir, passes), WAFER_OK);
}

static void teardown(fixture *f) {
  wafer_ir_destroy(f->ir);
  wafer_arena_destroy(f->ctx.arena);
  scratch_remove(&f->folder);
}

static void check_memory(const wafer_plan *plan) {
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->kernels[k].memory_count; i++) {
      sum += plan->kernels[k].memory[i].bytes;
      CU_ASSERT(strlen(plan->kernels[k].memory[i].node) > 0);
    }
    CU_ASSERT_EQUAL(sum, wafer_cost_bytes(&plan->kernels[k].cost));
  }
}

static bool has_item(const wafer_kernel *kernel, const char *what) {
  for (uint32_t i = 0; i < kernel->memory_count; i++)
    if (!strcmp(kernel->memory[i].what, what)) return true;
  return false;
}

static void pipelined(void) {
  fixture f;
  const wafer_plan *plan;
  setup(&f, WAFER_MODE_pipelined, 0, "default");
  CU_ASSERT_EQUAL_FATAL(wafer_lower(&f.ctx, f.ir, &plan), WAFER_OK);
  CU_ASSERT_EQUAL(plan->mode, WAFER_MODE_pipelined);
  CU_ASSERT_EQUAL(plan->batch, 1);
  CU_ASSERT_STRING_EQUAL(plan->model, "model.mlir");
  CU_ASSERT_EQUAL_FATAL(plan->kernel_count, 2);
  CU_ASSERT_EQUAL_FATAL(plan->phase_count, 1);
  CU_ASSERT_EQUAL_FATAL(plan->functions[0].step_count, 2);
  CU_ASSERT_EQUAL(plan->functions[0].steps[0].kind, WAFER_STEP_load);
  CU_ASSERT_EQUAL(plan->functions[0].steps[1].kind, WAFER_STEP_phase);
  CU_ASSERT_EQUAL(plan->phases[0].action_count, plan->kernel_count + plan->stream_count);
  CU_ASSERT_STRING_EQUAL(plan->values[plan->functions[0].inputs[0]].name, "x");
  CU_ASSERT_STRING_EQUAL(plan->values[plan->functions[0].outputs[0]].name, "y");
  CU_ASSERT_EQUAL(wafer_weights_count(plan->weights), 1);
  CU_ASSERT_STRING_EQUAL(plan->kernels[0].name, "conv1");
  CU_ASSERT_TRUE(has_item(&plan->kernels[0], "code"));
  CU_ASSERT_TRUE(has_item(&plan->kernels[0], "weight w"));
  CU_ASSERT_TRUE(plan->pipelined.fits && plan->streaming.fits);
  CU_ASSERT(plan->pipelined.latency_cycles > plan->pipelined.interval_cycles);
  CU_ASSERT(plan->mlir_bytes > 100);
  check_memory(plan);
  teardown(&f);
}

/* Streams between kernels name both ends, those of the edge one. */
static void ends_of_streams(void) {
  fixture f;
  const wafer_plan *plan;
  setup(&f, WAFER_MODE_pipelined, 0, "default");
  CU_ASSERT_EQUAL_FATAL(wafer_lower(&f.ctx, f.ir, &plan), WAFER_OK);
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    CU_ASSERT_EQUAL(s->from_kernel != WAFER_NONE, s->from.where == WAFER_AT_wafer);
    CU_ASSERT_EQUAL(s->to_kernel != WAFER_NONE, s->to.where == WAFER_AT_wafer);
  }
  teardown(&f);
}

static void streaming(void) {
  fixture f;
  const wafer_plan *plan;
  setup(&f, WAFER_MODE_streaming, 17, "default"); /* which no stripes divide */
  CU_ASSERT_EQUAL_FATAL(wafer_lower(&f.ctx, f.ir, &plan), WAFER_OK);
  CU_ASSERT_EQUAL(plan->batch, 17);
  CU_ASSERT_EQUAL_FATAL(plan->phase_count, 2);
  CU_ASSERT_STRING_EQUAL(plan->phases[0].name, "conv1");
  CU_ASSERT_EQUAL(plan->functions[0].step_count, 2);
  CU_ASSERT_EQUAL(plan->functions[0].steps[0].kind, WAFER_STEP_phase);
  CU_ASSERT_EQUAL(plan->phases[0].free_count, 2); /* the input and the weight */
  CU_ASSERT_EQUAL(plan->kernels[0].body.output_depth, 17);
  for (uint32_t p = 0; p < plan->phase_count; p++) {
    CU_ASSERT(plan->phases[p].peak_core_bytes >= wafer_cost_bytes(&plan->kernels[p].cost));
    CU_ASSERT(plan->phases[p].peak_core_bytes <= wafer_machine_core_budget(plan->machine));
  }
  CU_ASSERT(plan->streaming.interval_cycles < plan->streaming.latency_cycles);
  check_memory(plan);
  teardown(&f);
}

/* Small layers, whose weights leave MemoryX several phases ahead. */
static void add_layers(char *text, size_t room, uint32_t layers) {
  size_t used = (size_t)snprintf(text, room, "in x f32 8x8");
  for (uint32_t i = 0; i < layers; i++) {
    used += (size_t)snprintf(text + used, room - used, "; init w%u f32 8x8 =", i);
    for (uint32_t e = 0; e < 64; e++)
      used += (size_t)snprintf(text + used, room - used, " 0.%u", (e + i) % 7);
    used += (size_t)snprintf(text + used, room - used, "; MatMul %c w%u -> %c", (int)('x' - i), i,
                             (int)('w' - i));
  }
  snprintf(text + used, room - used, "; out %c", (int)('x' - layers));
}

/* Bytes of a core that the weights of a phase take. */
static uint64_t weights_of(const wafer_plan *plan, uint32_t phase) {
  uint64_t bytes = 0;
  for (uint32_t a = 0; a < plan->phases[phase].action_count; a++) {
    const wafer_action *action = &plan->phases[phase].actions[a];
    const wafer_stream *s = &plan->streams[action->index];
    if (action->kind == WAFER_ACTION_stream && s->from.where == WAFER_AT_memoryx)
      bytes += wafer_plan_held_bytes(plan, s->value, &s->to);
  }
  return bytes;
}

/* What lies on a core for phases to come is on it: peaks left it out, and were less than what the
 * plan's own check adds up. In streaming all kernels have the wafer's corner. */
static void peaks_count_what_came_ahead(void) {
  static char text[16384];
  const wafer_options options = {.mode = WAFER_MODE_streaming};
  compiled m;
  uint64_t ahead = 0, most = 0, loads = 0;
  add_layers(text, sizeof text, 6);
  CU_ASSERT_EQUAL_FATAL(compiled_text(&m, NULL, &options, text), WAFER_OK);
  const wafer_plan *plan = m.plan;
  for (uint32_t s = 0; s < plan->functions[0].step_count; s++) {
    const wafer_step *step = &plan->functions[0].steps[s];
    const wafer_phase *phase = &plan->phases[step->phase];
    if (step->kind == WAFER_STEP_load) {
      ahead += weights_of(plan, step->phase);
      loads |= 1u << step->phase;
      continue;
    }
    if (loads & 1u << step->phase) ahead -= weights_of(plan, step->phase);
    for (uint32_t a = 0; a < phase->action_count; a++)
      if (phase->actions[a].kind == WAFER_ACTION_kernel)
        CU_ASSERT(phase->peak_core_bytes >=
                  ahead + wafer_cost_bytes(&plan->kernels[phase->actions[a].index].cost));
    most = phase->peak_core_bytes > most ? phase->peak_core_bytes : most;
  }
  CU_ASSERT(loads > 0);
  CU_ASSERT_EQUAL(plan->streaming.peak_core_bytes, most);
  compiled_end(&m);
}

static void refuses_what_is_not_placed(void) {
  fixture f;
  const wafer_plan *plan;
  setup(&f, WAFER_MODE_auto, 0, "default:fuse");
  CU_ASSERT_EQUAL(wafer_lower(&f.ctx, f.ir, &plan), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NULL(plan);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.caught.text, "run all passes before lowering"));
  teardown(&f);
  setup(&f, WAFER_MODE_auto, 0, "default:size");
  CU_ASSERT_EQUAL(wafer_lower(&f.ctx, f.ir, &plan), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.caught.text, "has no split or rectangle"));
  teardown(&f);
}

/* The n-th allocation fails, for ever larger n, until none does: an error each time, nothing else.
 */
static void lack_of_memory(void) {
  bool done = false;
  size_t tries = 0;
  for (size_t n = 1; !done; n += 1 + n / 12, tries++) {
    fixture f;
    const wafer_plan *plan = NULL;
    setup(&f, tries % 2 ? WAFER_MODE_streaming : WAFER_MODE_pipelined, 2, "");
    wafer_arena_fail_after(n);
    wafer_status status = wafer_transform(&f.ctx, f.ir, WAFER_DEFAULT_PASSES);
    if (status == WAFER_OK) status = wafer_lower(&f.ctx, f.ir, &plan);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    if (status != WAFER_OK && status != WAFER_NO_MEMORY)
      printf("  n = %zu: %s\n", n, f.caught.text);
    CU_ASSERT(status == WAFER_OK || f.caught.count > 0);
    done = status == WAFER_OK;
    teardown(&f);
  }
  CU_ASSERT(tries > 20);
}

CU_TestInfo tests_lower[] = {
    {"a pipeline", pipelined},
    {"streams name the kernels at their ends", ends_of_streams},
    {"weight streaming", streaming},
    {"peaks count weights that came ahead", peaks_count_what_came_ahead},
    {"what is not placed is refused", refuses_what_is_not_placed},
    {"lack of memory is an error", lack_of_memory},
    CU_TEST_INFO_NULL,
};

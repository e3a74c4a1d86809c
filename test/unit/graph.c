/* passes/ir/graph.c: the fused IR as plain structs, before and after the passes that decide. */
#include "wafer/graph.h"

#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "scratch.h"

static const char program[] =
    "func.func @main(%x: tensor<1x4x8x8xf32> {wafer.name = \"x\"})\n"
    "    -> (tensor<1x4x8x8xf32> {wafer.name = \"y\"}, tensor<1x4x1x1xf32> {wafer.name = "
    "\"mean\"}) {\n"
    "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<4x4x1x1xf32>\n"
    "  %c = \"nn.conv\"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = "
    "array<i64: 1, 1>,\n"
    "    pads = array<i64: 0, 0, 0, 0>} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> "
    "tensor<1x4x8x8xf32> loc(\"conv1\")\n"
    "  %m = \"nn.reduce_mean\"(%c) {axes = array<i64: 2, 3>, keepdims = 1 : i64}\n"
    "    : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32> loc(\"pool\")\n"
    "  %y = \"nn.mul\"(%c, %m) : (tensor<1x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x8x8xf32> "
    "loc(\"gate\")\n"
    "  return %y, %m : tensor<1x4x8x8xf32>, tensor<1x4x1x1xf32>\n"
    "}\n";

typedef struct fixture {
  scratch folder;
  caught caught;
  wafer_diag diag;
  wafer_options options;
  wafer_ctx ctx;
  wafer_ir *ir;
} fixture;

static void setup(fixture *f, const char *text, const char *passes) {
  memset(f, 0, sizeof *f);
  f->folder = scratch_create();
  f->diag = caught_diag(&f->caught);
  f->options.mode = WAFER_MODE_streaming;
  f->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = &f->diag, .options = &f->options};
  const char *path = scratch_save(&f->folder, "model.mlir", text, strlen(text));
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

static void after_fuse(void) {
  fixture f;
  wafer_graph g;
  setup(&f, program, "default:fuse");
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &g), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(g.kernel_count, 3);
  CU_ASSERT_EQUAL(g.value_count, 5);
  CU_ASSERT_EQUAL(g.input_count, 1);
  CU_ASSERT_EQUAL(g.stream_count, 0);
  CU_ASSERT_EQUAL(g.action_count, 3);
  CU_ASSERT_STRING_EQUAL(g.values[0].name, "x");
  CU_ASSERT_EQUAL(g.values[0].owner, WAFER_OWNER_input);
  CU_ASSERT_STRING_EQUAL(g.kernels[0].name, "conv1");
  CU_ASSERT_FALSE(g.kernels[0].sized || g.kernels[0].placed);
  CU_ASSERT_TRUE(wafer_graph_is_weight(&g, g.kernels[0].inputs[1]));
  CU_ASSERT_STRING_EQUAL(g.values[g.kernels[0].inputs[1]].name, "w");
  const wafer_graph_value *conv = &g.values[g.kernels[0].outputs[0]];
  CU_ASSERT_STRING_EQUAL(conv->name, "conv1");
  CU_ASSERT_EQUAL(conv->owner, WAFER_OWNER_activation);
  CU_ASSERT_EQUAL_FATAL(conv->use_count, 2);
  CU_ASSERT_EQUAL(conv->uses[0].kernel, 1);
  CU_ASSERT_EQUAL(conv->uses[1].kernel, 2);
  CU_ASSERT_EQUAL(conv->uses[1].input, 0);
  CU_ASSERT_STRING_EQUAL(g.values[g.outputs[0]].name, "y");
  CU_ASSERT_EQUAL(g.values[g.outputs[1]].owner, WAFER_OWNER_output);
  CU_ASSERT_EQUAL(g.values[g.outputs[1]].producer, 1);
  teardown(&f);
}

/* Streams are seen through: a call uses the value, wherever it has been carried. */
static void after_schedule(void) {
  fixture f;
  wafer_graph g;
  setup(&f, program, "default");
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &g), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(g.kernel_count, 3);
  CU_ASSERT_EQUAL(g.value_count, 5);
  CU_ASSERT_TRUE(g.stream_count >= 4);
  uint32_t phases = 0, frees = 0;
  for (uint32_t a = 0; a < g.action_count; a++) {
    phases += g.actions[a].kind == WAFER_GRAPH_phase;
    frees += g.actions[a].kind == WAFER_GRAPH_free;
  }
  CU_ASSERT_EQUAL(phases, 1 + g.kernels[2].phase);
  CU_ASSERT_EQUAL(frees, 5);
  for (uint32_t k = 0; k < 3; k++) {
    CU_ASSERT_TRUE(g.kernels[k].sized && g.kernels[k].placed);
    CU_ASSERT_TRUE(g.kernels[k].phase <= k);
    CU_ASSERT_EQUAL(g.kernels[k].rect.width, wafer_split_width(&g.kernels[k].split));
  }
  CU_ASSERT_EQUAL(g.values[g.kernels[2].inputs[0]].producer, 0);
  teardown(&f);
}

static void refuses_what_is_not_fused(void) {
  fixture f;
  wafer_graph g;
  setup(&f, program, "shape");
  CU_ASSERT_EQUAL(wafer_graph_read(&f.ctx, f.ir, &g), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.caught.text, "run pass fuse"));
  teardown(&f);
}

/* What is made of weights alone, and of that, takes nothing of a sample, and comes just before who
 * takes it: the first of several. */
static void constants_come_late(void) {
  static const char text[] =
      "func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {\n"
      "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<8x64xf32>\n"
      "  %p = \"nn.softmax\"(%w) {axis = 1 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %q = \"nn.softmax\"(%p) {axis = 0 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %a = \"nn.softmax\"(%x) {axis = 1 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %b = \"nn.softmax\"(%a) {axis = 0 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %c = \"nn.softmax\"(%b) {axis = 1 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %d = \"nn.mul\"(%c, %q) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %e = \"nn.softmax\"(%d) {axis = 0 : i64} : (tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  %y = \"nn.mul\"(%e, %q) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>\n"
      "  return %y : tensor<8x64xf32>\n}\n";
  static const bool constant[] = {true, true, false, false, false, false};
  static const uint32_t due[] = {0, 1, 0, 1, 2, 3}; /* products go with what they are of */
  uint32_t stage[WAFER_COUNT(due)];
  fixture f;
  wafer_graph g;
  setup(&f, text, "default:fuse");
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &g), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(g.kernel_count, WAFER_COUNT(due));
  wafer_graph_stages(&g, stage);
  for (uint32_t k = 0; k < g.kernel_count; k++) {
    CU_ASSERT_EQUAL(g.kernels[k].constant, constant[k]);
    CU_ASSERT_EQUAL(stage[k], due[k]);
  }
  teardown(&f);
}

CU_TestInfo tests_graph[] = {
    {"what takes nothing of a sample comes late", constants_come_late},
    {"kernels, values and uses after fuse", after_fuse},
    {"streams are seen through", after_schedule},
    {"ops that are not fused are refused", refuses_what_is_not_fused},
    CU_TEST_INFO_NULL,
};

/* passes/mode/mode_relay.c: kernels that hold samples of what skips others, put in and taken out.
 */
#include "passes/mode/mode_relay.h"
#include "size_scene.h"

/* y = softmax(relu(x) + relu of a product of it, twice): the first relu is wanted again two kernels
 * later, and three. */
static const char program[] =
    "func.func @main(%x: tensor<8x16xf32> {wafer.name = \"x\"})\n"
    "    -> (tensor<8x16xf32> {wafer.name = \"y\"}) {\n"
    "  %w = \"nn.weight\"() {name = \"w\"} : () -> tensor<16x16xf32>\n"
    "  %a = \"nn.matmul\"(%x, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> "
    "loc(\"a\")\n"
    "  %b = \"nn.matmul\"(%a, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> "
    "loc(\"b\")\n"
    "  %c = \"nn.matmul\"(%b, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> "
    "loc(\"c\")\n"
    "  %d = \"nn.add\"(%c, %a) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> "
    "loc(\"d\")\n"
    "  %e = \"nn.matmul\"(%d, %w) : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32> "
    "loc(\"e\")\n"
    "  %y = \"nn.add\"(%e, %a) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> "
    "loc(\"f\")\n"
    "  return %y : tensor<8x16xf32>\n"
    "}\n";

static void lay(fixture *f) {
  setup(f, "small16", program);
  CU_ASSERT_EQUAL_FATAL(f->graph.kernel_count, 4);
}

static const char *text_of(const fixture *f) {
  const char *text = "";
  size_t bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_ir_print(&f->ctx, f->ir, &text, &bytes), WAFER_OK);
  return text;
}

/* The producer of the last input of kernel `name`. */
static const char *giver(const wafer_graph *g, const char *name) {
  for (uint32_t k = 0; k < g->kernel_count; k++) {
    const wafer_graph_kernel *kernel = &g->kernels[k];
    if (strcmp(kernel->name, name)) continue;
    for (uint32_t i = kernel->body.input_count; i-- > 0;) {
      uint32_t from = g->values[kernel->inputs[i]].producer;
      if (from != WAFER_NONE && wafer_is_relay(g->kernels[from].name)) return g->kernels[from].name;
    }
  }
  return "";
}

/* Users at different distances share one chain, each behind as many relays as it skips kernels. */
static void test_chain(void) {
  fixture f;
  mode_relays *relays;
  wafer_graph with;
  lay(&f);
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){1, false}, &relays),
                        WAFER_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(relays);
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &with), WAFER_OK);
  CU_ASSERT_EQUAL(with.kernel_count, 6);
  CU_ASSERT_STRING_EQUAL(giver(&with, "c"), "a/relay1");
  CU_ASSERT_STRING_EQUAL(giver(&with, "e"), "a/relay2");
  CU_ASSERT_STRING_EQUAL(giver(&with, "b"), "");
  teardown(&f);
}

/* What is taken out leaves no trace, and the same names are free again. */
static void test_dropped(void) {
  fixture f;
  mode_relays *relays;
  lay(&f);
  const char *before = text_of(&f), *first;
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){1, false}, &relays),
                        WAFER_OK);
  first = text_of(&f);
  CU_ASSERT_STRING_NOT_EQUAL(first, before);
  mode_drop_relays(f.ir, relays);
  CU_ASSERT_STRING_EQUAL(text_of(&f), before);
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){1, false}, &relays),
                        WAFER_OK);
  CU_ASSERT_STRING_EQUAL(text_of(&f), first);
  teardown(&f);
}

/* One relay for two kernels: the use that skips one has none; nothing skips four. */
static void test_spacing(void) {
  fixture f;
  mode_relays *relays;
  wafer_graph with;
  lay(&f);
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){4, false}, &relays),
                        WAFER_OK);
  CU_ASSERT_PTR_NULL(relays);
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){2, false}, &relays),
                        WAFER_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(relays);
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &with), WAFER_OK);
  CU_ASSERT_EQUAL(with.kernel_count, 5);
  CU_ASSERT_STRING_EQUAL(giver(&with, "c"), "");
  CU_ASSERT_STRING_EQUAL(giver(&with, "e"), "a/relay1");
  teardown(&f);
}

/* An input that two kernels take. */
static const char shared[] =
    "func.func @main(%x: tensor<8x8xf32> {wafer.name = \"x\"})\n"
    "    -> (tensor<8x8xf32> {wafer.name = \"y\"}) {\n"
    "  %a = \"nn.softmax\"(%x) {axis = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32> "
    "loc(\"a\")\n"
    "  %b = \"nn.matmul\"(%a, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> "
    "loc(\"b\")\n"
    "  %y = \"nn.matmul\"(%b, %a) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> "
    "loc(\"c\")\n"
    "  return %y : tensor<8x8xf32>\n"
    "}\n";

/* A relay takes it for both, what skips kernels has none. */
static void test_inputs(void) {
  fixture f;
  mode_relays *relays;
  wafer_graph with;
  setup(&f, "small16", shared);
  const char *before = text_of(&f);
  CU_ASSERT_TRUE(mode_shares_inputs(&f.graph));
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){0, true}, &relays),
                        WAFER_OK);
  CU_ASSERT_PTR_NOT_NULL_FATAL(relays);
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &with), WAFER_OK);
  CU_ASSERT_EQUAL(with.kernel_count, 4);
  CU_ASSERT_STRING_EQUAL(giver(&with, "a"), "x/relay1");
  CU_ASSERT_STRING_EQUAL(giver(&with, "b"), "x/relay1");
  CU_ASSERT_STRING_EQUAL(giver(&with, "c"), "");
  CU_ASSERT_FALSE(mode_shares_inputs(&with));
  mode_drop_relays(f.ir, relays);
  CU_ASSERT_STRING_EQUAL(text_of(&f), before);
  teardown(&f);
  lay(&f); /* one user */
  CU_ASSERT_EQUAL_FATAL(mode_add_relays(&f.ctx, f.ir, &f.graph, (mode_relayed){0, true}, &relays),
                        WAFER_OK);
  CU_ASSERT_PTR_NULL(relays);
  teardown(&f);
}

/* How many kernels a pipeline that waits for its input has; `pinned`: one of them is, if it can be.
 */
static uint32_t kernels_with(wafer_relays relays, wafer_programs programs, bool pinned) {
  fixture f;
  setup(&f, "small16", shared);
  wafer_machine slow = *f.ctx.machine;
  const wafer_pin pin = {.kernel = "a", .rect = {0, 0, 1, 1}, .kept = true};
  const wafer_options options = {.mode = WAFER_MODE_pipelined,
                                 .relays = relays,
                                 .programs = programs,
                                 .bands = 1,
                                 .pins = &pin,
                                 .pin_count = pinned};
  slow.edge_in_bytes_per_second = slow.clock_hz / 8; /* an eighth of a byte a cycle */
  f.ctx.machine = &slow;
  f.ctx.options = &options;
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&f.ctx, f.ir, "mode"), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f.ctx, f.ir, &f.graph), WAFER_OK);
  uint32_t count = f.graph.kernel_count;
  teardown(&f);
  return count;
}

/* The relay of the input is there at once, however large the model, unless kernels are pinned. */
static void test_waits_for_inputs(void) {
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_none, WAFER_PROGRAMS_never, false), 3);
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_inputs, WAFER_PROGRAMS_never, false), 4);
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_inputs, WAFER_PROGRAMS_never, true), 3);
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_inputs, WAFER_PROGRAMS_always, false), 4);
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_inputs, WAFER_PROGRAMS_always, true), 3);
  CU_ASSERT_EQUAL(kernels_with(WAFER_RELAYS_auto, WAFER_PROGRAMS_always, false), 4);
}

static void test_names(void) {
  CU_ASSERT_TRUE(wafer_is_relay("a/relay1") && wafer_is_relay("/b/Conv/relay12"));
  CU_ASSERT_FALSE(wafer_is_relay("relay1") || wafer_is_relay("a/relay") ||
                  wafer_is_relay("a/relay1/b") || wafer_is_relay("a/relay1b"));
}

CU_TestInfo tests_relay[] = {
    {"users of a value share its relays", test_chain},
    {"taken out, they leave no trace", test_dropped},
    {"one for several kernels", test_spacing},
    {"an input of several kernels enters once", test_inputs},
    {"where a pipeline waits for it it does at once", test_waits_for_inputs},
    {"names of relays", test_names},
    CU_TEST_INFO_NULL,
};

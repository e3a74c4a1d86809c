/* passes/size/size_layouts.c, size_options.c: shapes of weight streaming chosen together. */
#include "passes/size/size_layouts.h"
#include "passes/streams.h"
#include "size_scene.h"

/* Weight streaming: what all of a chain can take as it lies is never exchanged, and no sizing is
 * worse than one that looks at each phase alone. */
static void layouts_agree(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "small64", chain(text, sizeof text, 6));
  streams(&f, &s);
  for (uint32_t k = 1; k < f.graph.kernel_count; k++) CU_ASSERT_EQUAL(s.phases[k].in, 0);
  teardown(&f);
}

/* Bytes of a core, times the phases that they wait, of what kernels leave in the shapes wished. */
static uint64_t left_behind(const fixture *f, const sizing *s, const wafer_shape_point **wished,
                            const uint32_t *last_use) {
  uint64_t sum = 0;
  for (uint32_t k = 0; k < f->graph.kernel_count; k++) {
    const wafer_graph_kernel *kernel = &f->graph.kernels[k];
    uint32_t value = kernel->outputs[0];
    if (last_use[value] == WAFER_NONE) continue;
    const wafer_split *split = &(wished[k] ? wished[k] : s->kernels[k].point)->split;
    wafer_layout layout = wafer_kernel_output_layout(&kernel->body, split, 0);
    sum += wafer_layout_tile(&layout, &f->graph.values[value].type.shape) * (last_use[value] - k);
  }
  return sum;
}

/* Where memory has a price, shapes chosen together leave less of their results on a core. */
static void layouts_pay_for_memory(void) {
  char text[8192];
  fixture f;
  sizing s;
  const wafer_shape_point *wished[16];
  uint32_t last_use[64];
  setup(&f, "wse2", chain(text, sizeof text, 5));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &s), WAFER_OK);
  CU_ASSERT_FATAL(f.graph.kernel_count <= WAFER_COUNT(wished) && f.graph.value_count <= 64);
  for (uint32_t v = 0; v < f.graph.value_count; v++)
    last_use[v] = f.graph.values[v].producer == WAFER_NONE ? WAFER_NONE : f.graph.kernel_count;
  size_forest *forest;
  CU_ASSERT_EQUAL_FATAL(size_layouts_open(&f.ctx, f.curves, &f.graph, 1, 1, s.kernels,
                                          &(size_waste){0}, false, last_use, &forest),
                        WAFER_OK);
  uint64_t before = 0;
  for (uint64_t price = 0; price <= 1 << 20; price += 1 << 20) {
    size_layouts(forest, price, wished);
    uint64_t bytes = left_behind(&f, &s, wished, last_use);
    if (price) CU_ASSERT(bytes < before);
    before = bytes;
  }
  teardown(&f);
}

/* Shapes chosen together are shapes of their kernels, within the cores. */
static void layouts_are_legal(void) {
  char text[8192];
  fixture f;
  sizing s;
  const wafer_shape_point *wished[16];
  setup(&f, "small16", chain(text, sizeof text, 5));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &s), WAFER_OK);
  CU_ASSERT_FATAL(s.cost.fits && f.graph.kernel_count <= WAFER_COUNT(wished));
  size_forest *forest;
  CU_ASSERT_EQUAL_FATAL(size_layouts_open(&f.ctx, f.curves, &f.graph, 1, 1, s.kernels,
                                          &(size_waste){0}, false, NULL, &forest),
                        WAFER_OK);
  size_layouts(forest, 0, wished);
  for (uint32_t k = 0; k < f.graph.kernel_count; k++) {
    if (!wished[k]) continue;
    wafer_kernel_body body = size_with_depths(&f.graph.kernels[k].body, s.kernels[k].depths);
    wafer_cost cost;
    wafer_kernel_cost(f.ctx.machine, &body, &wished[k]->split, &cost);
    CU_ASSERT(wished[k]->width <= 16 && wished[k]->height <= 16);
    CU_ASSERT_EQUAL(wafer_split_width(&wished[k]->split), wished[k]->width);
    CU_ASSERT_EQUAL(wafer_split_height(&wished[k]->split), wished[k]->height);
    CU_ASSERT(wished[k]->cycles == cost.cycles && wished[k]->bytes == wafer_cost_bytes(&cost));
    CU_ASSERT(wished[k]->bytes <= wafer_machine_core_budget(f.ctx.machine));
  }
  teardown(&f);
}

static wafer_holding lying(const layouts *l, const layout_option *o, wafer_layout layout) {
  return (wafer_holding){
      WAFER_AT_wafer, {l->whole.x, l->whole.y, o->point->width, o->point->height}, layout};
}

/* The exchange of one value between two options, from nothing but their splits. */
static uint64_t exchange_alone(const layouts *l, uint32_t k, uint32_t input,
                               const layout_option *from, const layout_option *to) {
  const wafer_graph_value *v = &l->graph->values[l->graph->kernels[k].inputs[input]];
  wafer_holding left = lying(l, from,
                             wafer_kernel_output_layout(&l->bodies[v->producer],
                                                        &from->point->split, v->output)),
                want = lying(l, to,
                             wafer_kernel_input_layout(&l->bodies[k], &to->point->split, input));
  if (wafer_holding_equal(&left, &want)) return 0;
  return relayout_cycles(l->ctx->machine, &left, &want, &v->type.shape,
                         stream_words(&v->type, l->bodies[k].storage));
}

/* Layers that repeat share options, and the cycles between them are those of their own. */
static void layers_share_options(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "small64", chain(text, sizeof text, 8));
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 1, 1, &s), WAFER_OK);
  layouts l = {.ctx = &f.ctx, .graph = &f.graph, .curves = f.curves, .batch = 1, .stripes = 1};
  uint32_t n = f.graph.kernel_count, shared = 0, different = 0;
  CU_ASSERT_EQUAL_FATAL(layouts_open(&l), WAFER_OK);
  for (uint32_t k = 0; k < n; k++) {
    CU_ASSERT_EQUAL_FATAL(layouts_open_kernel(&l, k, &s.kernels[k]), WAFER_OK);
    if (k) shared += l.options[k] == l.options[k - 1];
    for (uint32_t i = 0; i < f.graph.kernels[k].body.input_count; i++) {
      const wafer_graph_value *v = &f.graph.values[f.graph.kernels[k].inputs[i]];
      if (v->producer == WAFER_NONE || v->producer + 1 != k) continue;
      layout_edge e = {.producer = v->producer, .user = k};
      CU_ASSERT_EQUAL_FATAL(layouts_open_edge(&l, &e, true), WAFER_OK);
      for (uint32_t a = 0; a < l.options[e.producer]->count; a++)
        for (uint32_t b = 0; b < l.options[k]->count; b++)
          different +=
              layouts_edge_cycles(&l, &e, a, b) !=
              exchange_alone(&l, k, i, &l.options[e.producer]->at[a], &l.options[k]->at[b]);
    }
  }
  CU_ASSERT(shared >= 3);
  CU_ASSERT_EQUAL(different, 0);
  teardown(&f);
}

static bool offers(const layout_options *set, wafer_split split) {
  bool found = false;
  for (uint32_t i = 0; i < set->count; i++)
    found |= !memcmp(&set->at[i].point->split, &split, sizeof split);
  return found;
}

/* Whatever its curve has, a kernel over two dims may be cut as any other over them: one dim along
 * each direction, or what of the first one is left over along the next. */
static void options_fill_the_wafer(void) {
  fixture f;
  sizing s;
  setup(&f, "small16",
        "func.func @main(%x: tensor<64x4x64xf32>) -> tensor<64x4x64xf32> {\n"
        "  %y = \"nn.exp\"(%x) : (tensor<64x4x64xf32>) -> tensor<64x4x64xf32>\n"
        "  return %y : tensor<64x4x64xf32>\n}\n");
  streams(&f, &s);
  layouts l = {.ctx = &f.ctx, .graph = &f.graph, .curves = f.curves, .batch = 1, .stripes = 1};
  CU_ASSERT_EQUAL_FATAL(layouts_open(&l), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(layouts_open_kernel(&l, 0, &s.kernels[0]), WAFER_OK);
  wafer_split split = size_uncut();
  split.rows[0] = 16;
  CU_ASSERT_TRUE(offers(l.options[0], split));
  split.cols[2] = 16;
  CU_ASSERT_TRUE(offers(l.options[0], split));
  split = size_uncut();
  split.rows[1] = split.rows[2] = 4;
  split.cols[0] = 16;
  CU_ASSERT_TRUE(offers(l.options[0], split));
  CU_ASSERT(l.options[0]->count <= LAYOUT_MOST_OPTIONS);
  teardown(&f);
}

CU_TestInfo tests_size_layouts[] = {
    {"layouts agree", layouts_agree},
    {"layouts pay for memory", layouts_pay_for_memory},
    {"layouts are legal", layouts_are_legal},
    {"layers share options", layers_share_options},
    {"options fill the wafer", options_fill_the_wafer},
    CU_TEST_INFO_NULL,
};

/* passes/size/size_share.c: kernels of weight streaming that share a phase. */
#include "passes/size/size_streaming.h"
#include "size_scene.h"

/* A softmax, of which `heads` results leave the wafer, each by a softmax of its own. */
static const char *branches(char *text, size_t bytes, uint32_t heads) {
  size_t at = (size_t)snprintf(text, bytes, "func.func @main(%%x: tensor<64x64xf32>) -> (");
  for (uint32_t i = 0; i < heads; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%stensor<64x64xf32>", i ? ", " : "");
  at += (size_t)snprintf(text + at, bytes - at,
                         ") {\n  %%s = \"nn.softmax\"(%%x) {axis = 1 : i64} : "
                         "(tensor<64x64xf32>) -> tensor<64x64xf32>\n");
  for (uint32_t i = 0; i < heads; i++)
    at += (size_t)snprintf(text + at, bytes - at,
                           "  %%v%u = \"nn.softmax\"(%%s) {axis = %u : i64} : "
                           "(tensor<64x64xf32>) -> tensor<64x64xf32>\n",
                           i, i % 2);
  at += (size_t)snprintf(text + at, bytes - at, "  return ");
  for (uint32_t i = 0; i < heads; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%s%%v%u", i ? ", " : "", i);
  at += (size_t)snprintf(text + at, bytes - at, " : ");
  for (uint32_t i = 0; i < heads; i++)
    at += (size_t)snprintf(text + at, bytes - at, "%stensor<64x64xf32>", i ? ", " : "");
  snprintf(text + at, bytes - at, "\n}\n");
  return text;
}

/* What leaves the wafer does so together: the way to the host counts once, not with each head. */
static void heads_share_a_phase(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", branches(text, sizeof text, 4));
  streams(&f, &s);
  CU_ASSERT_EQUAL_FATAL(f.graph.kernel_count, 5);
  CU_ASSERT(s.phase_count < 5);
  for (uint32_t a = 0; a < 5; a++) {
    CU_ASSERT_PTR_NOT_NULL_FATAL(s.kernels[a].rect);
    CU_ASSERT(a == 0 || s.kernels[a].phase - s.kernels[a - 1].phase <= 1);
    for (uint32_t b = 0; b < a; b++)
      CU_ASSERT(s.kernels[a].phase != s.kernels[b].phase ||
                !wafer_rect_overlaps(*s.kernels[a].rect, *s.kernels[b].rect));
  }
  CU_ASSERT(s.cost.latency_cycles < 4 * f.ctx.machine->edge_latency_cycles + 2000);
  const sizing *kept = curve_set_sizing(f.curves, &f.graph, 1);
  CU_ASSERT_PTR_NOT_NULL_FATAL(kept);
  CU_ASSERT_EQUAL(kept->phase_count, s.phase_count);
  CU_ASSERT(!memcmp(kept->kernels[4].rect, s.kernels[4].rect, sizeof(wafer_rect)));
  teardown(&f);
}

/* Nothing is won by lying apart in a chain, nor where samples are resident together. */
static void others_have_one_each(void) {
  char text[8192];
  fixture f;
  sizing s;
  setup(&f, "wse2", chain(text, sizeof text, 6));
  streams(&f, &s);
  CU_ASSERT_EQUAL(s.phase_count, f.graph.kernel_count);
  CU_ASSERT_PTR_NULL(s.kernels[0].rect);
  teardown(&f);
  setup(&f, "wse2", branches(text, sizeof text, 4));
  for (uint32_t stripes = 1; stripes <= 2; stripes++) {
    CU_ASSERT_EQUAL_FATAL(size_streaming(&f.ctx, f.curves, &f.graph, 2 / stripes, stripes, &s),
                          WAFER_OK);
    CU_ASSERT_EQUAL(s.phase_count, f.graph.kernel_count);
  }
  teardown(&f);
}

/* Kernels of a turn take the longest, turns follow each other, latencies come once. */
static void phases_join(void) {
  char text[8192];
  fixture f;
  setup(&f, "wse2", branches(text, sizeof text, 2));
  const wafer_machine *m = f.ctx.machine;
  const uint64_t way = m->memoryx_latency_cycles + m->edge_latency_cycles;
  const wafer_shape_point points[] = {{.cycles = 100}, {.cycles = 50}, {.cycles = 70}};
  const sized_kernel kernels[] = {
      {.point = &points[0]}, {.point = &points[1]}, {.point = &points[2]}};
  const size_share shares[3] = {{0}};
  const size_phase own[] = {
      {.in = 10, .work = 100, .weights = way + 30, .fixed_bytes = 8, .cores = 4},
      {.in = 5, .work = 50 + 20 + 1000, .leave = 20, .fixed_bytes = 9, .cores = 5},
      {.in = 7, .work = 70 + 30 + 900, .leave = 30, .weights = way + 40, .cores = 6}};
  size_phase joined;
  size_join(m, &f.graph, own, kernels, shares, 0, 3, &joined);
  CU_ASSERT_EQUAL(joined.in, 10);
  CU_ASSERT_EQUAL(joined.work, 100 + (5 + 7 + 70) + (20 + 30 + 1000));
  CU_ASSERT_EQUAL(joined.weights, way + 30 + 40);
  CU_ASSERT_EQUAL(joined.leave, 50);
  CU_ASSERT_EQUAL(joined.fixed_bytes, 9);
  CU_ASSERT_EQUAL(joined.cores, 15);
  teardown(&f);
}

CU_TestInfo tests_size_share[] = {
    {"heads share a phase", heads_share_a_phase},
    {"chains, and several samples, have a phase for each kernel", others_have_one_each},
    {"phases join", phases_join},
    CU_TEST_INFO_NULL,
};

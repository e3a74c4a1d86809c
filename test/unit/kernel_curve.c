/* The laws of shape curves. */
#include <CUnit/CUnit.h>
#include <stdio.h>

#include "kernel_plain.h"

typedef struct curve_case {
  const char *name, *family, *inputs, *op, *operands, *attrs;
} curve_case;

static const curve_case curve_cases[] = {
    {"conv", "conv", "1x32x20x20xf32 w:48x32x3x3xf32", "conv", "0 1",
     "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
    {"depthwise", "conv", "1x48x20x20xf32 w:48x1x3x3xf32", "conv", "0 1",
     "group=48 strides=2,2 dilations=1,1 pads=1,1,1,1"},
    {"gemm", "gemm", "1x200xf32 w:200x100xf32", "matmul", "0 1", ""},
    {"attention", "gemm", "1x8x40x15xf32 1x8x15x40xf32", "matmul", "0 1", ""},
    {"map", "map", "1x16x12x12xf32", "relu", "0", ""},
    {"vector", "map", "3000xf32", "relu", "0", ""},
    {"softmax", "softmax", "8x40x40xf32", "softmax", "0", "axis=2"},
    {"normalize", "normalize", "8x40x40xf32", "normalize", "0", "axes=2 epsilon=1e-5 center=1"},
    {"reduce", "reduce", "1x48x20x20xf32", "reduce_mean", "0", "axes=2,3 keepdims=1"},
    {"pool", "pool", "1x16x20x20xf32", "max_pool", "0",
     "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0"},
    {"transpose", "move", "1x16x20x20xf32", "transpose", "0", "perm=0,2,3,1"},
    {"resize", "resize", "1x16x10x10xf32", "resize", "0",
     "shape=1,16,20,20 scales=1,1,2,2 mode=linear coordinates=half_pixel rounding=floor "
     "cubic_a=-0.75 "
     "exclude_outside=0"},
    {"transposed", "conv_transpose", "1x16x10x10xf32 w:16x8x2x2xf32", "conv_transpose", "0 1",
     "group=1 strides=2,2 dilations=1,1 pads=0,0,0,0 output_padding=0,0"},
    {"scalar", "map", "f32", "relu", "0", ""},
    {"empty", "map", "0x4xf32", "relu", "0", ""},
};

static void check_point(const char *name, const body_text *b, const wafer_shape_point *p,
                        uint64_t budget) {
  wafer_machine m = plain_machine();
  wafer_loops loops;
  wafer_cost cost;
  wafer_kernel_loops(&b->body, &loops);
  wafer_kernel_cost(&m, &b->body, &p->split, &cost);
  bool ok = cost.cycles == p->cycles && wafer_cost_bytes(&cost) == p->bytes && p->bytes <= budget &&
            wafer_split_height(&p->split) == p->height &&
            wafer_split_width(&p->split) == p->width && p->height <= 32 && p->width <= 32;
  for (uint32_t l = 0; l < WAFER_MAX_LOOPS; l++) {
    uint32_t parts = p->split.rows[l] * p->split.cols[l];
    ok &= parts == 1 || (l < loops.count && loops.divisible[l] && parts <= loops.extent[l]);
  }
  if (!ok) printf("\n  %s: point %ux%u is not what its split costs", name, p->width, p->height);
  CU_ASSERT(ok);
}

static void check_curve(const curve_case *c, const body_text *b, const wafer_curve *curve,
                        uint64_t budget) {
  CU_ASSERT(curve->count > 0 && curve->count <= 512);
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *p = &curve->at[i];
    check_point(c->name, b, p, budget);
    CU_ASSERT(p->height <= curve->most_rows && p->width <= curve->most_cols);
    CU_ASSERT(i == 0 || p->cycles >= p[-1].cycles);
    for (size_t j = 0; j < i; j++) /* earlier ones are no slower, so they must not fit inside */
      CU_ASSERT(curve->at[j].width > p->width || curve->at[j].height > p->height);
  }
}

/* On at most 32 x 32 cores. */
static const wafer_curve_options case_options = {
    .max_width = 32, .max_height = 32, .budget = 48000};

static void make_case(const wafer_machine *m, const curve_case *c, wafer_arena *arena, body_text *b,
                      wafer_curve *curve) {
  body_text_begin(b, c->family, c->inputs);
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(b, c->op, c->operands, c->attrs), UINT32_MAX);
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(m, &b->body, &case_options, arena, curve), WAFER_OK);
}

/* Cuts add set-ups and take no work away: all cores of a shape compute no less than one would. */
static void test_cuts_add_work(void) {
  wafer_machine m = plain_machine();
  for (size_t i = 0; i < WAFER_COUNT(curve_cases); i++) {
    const curve_case *c = &curve_cases[i];
    wafer_arena *arena = wafer_arena_create();
    body_text b;
    wafer_curve curve;
    wafer_split whole = split_whole();
    wafer_cost cost, all;
    make_case(&m, c, arena, &b, &curve);
    wafer_kernel_cost(&m, &b.body, &whole, &all);
    for (size_t p = 0; p < curve.count && b.body.family != WAFER_FAMILY_move; p++) {
      wafer_kernel_cost(&m, &b.body, &curve.at[p].split, &cost);
      uint64_t cores = (uint64_t)curve.at[p].width * curve.at[p].height;
      if (cores * cost.compute_cycles < all.compute_cycles)
        printf("\n  %s: %llu cores compute %llu cycles, one %llu", c->name,
               (unsigned long long)cores, (unsigned long long)cost.compute_cycles,
               (unsigned long long)all.compute_cycles);
      CU_ASSERT(cores * cost.compute_cycles >= all.compute_cycles);
    }
    wafer_arena_destroy(arena);
  }
}

/* Parts that make no part smaller count for nothing: 40 are cut into 20 at most within 32. */
static void test_most_parts(void) {
  static const struct {
    const char *input;
    uint32_t most;
  } cases[] = {{"40xf32", 20}, {"40x3xf32", 30}, {"5x7xf32", 21}, {"16x9xf32", 32}, {"f32", 1}};
  wafer_machine m = plain_machine();
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    curve_case c = {"most", "map", cases[i].input, "relu", "0", ""};
    wafer_arena *arena = wafer_arena_create();
    body_text b;
    wafer_curve curve;
    make_case(&m, &c, arena, &b, &curve);
    CU_ASSERT(curve.most_rows == cases[i].most && curve.most_cols == cases[i].most);
    wafer_arena_destroy(arena);
  }
}

static void test_curves(void) {
  wafer_machine m = plain_machine();
  for (size_t i = 0; i < WAFER_COUNT(curve_cases); i++) {
    const curve_case *c = &curve_cases[i];
    wafer_arena *arena = wafer_arena_create();
    body_text b;
    wafer_curve curve, again;
    make_case(&m, c, arena, &b, &curve);
    check_curve(c, &b, &curve, case_options.budget);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &case_options, arena, &again), WAFER_OK);
    CU_ASSERT(curve.count == again.count &&
              memcmp(curve.at, again.at, curve.count * sizeof *curve.at) == 0);
    wafer_arena_destroy(arena);
  }
}

/* Against every split of two loops, one per direction: none fits inside a point and is faster. */
static void test_curve_is_least(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_curve_options options = {.max_width = 32, .max_height = 32, .budget = 48000};
  body_text b;
  wafer_curve curve;
  body_text_begin(&b, "map", "24x18xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  for (uint32_t r = 1; r <= 24; r++)
    for (uint32_t c = 1; c <= 18; c++) {
      wafer_split split = split_whole();
      wafer_cost cost;
      bool beaten = false;
      split.rows[0] = r, split.cols[1] = c;
      wafer_kernel_cost(&m, &b.body, &split, &cost);
      for (size_t i = 0; i < curve.count && !beaten; i++)
        beaten =
            curve.at[i].width <= c && curve.at[i].height <= r && curve.at[i].cycles <= cost.cycles;
      CU_ASSERT(beaten);
    }
  wafer_arena_destroy(arena);
}

static uint64_t least_area(const wafer_curve *curve, uint64_t cycles) {
  uint64_t area = UINT64_MAX;
  for (size_t i = 0; i < curve->count; i++) {
    uint64_t one = (uint64_t)curve->at[i].width * curve->at[i].height;
    if (curve->at[i].cycles <= cycles && one < area) area = one;
  }
  return area;
}

/* More memory never asks for more cores (the curve is thinned to 2 %, so with that slack). */
static void test_curve_monotone(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  wafer_curve tight, roomy;
  body_text_begin(&b, "conv", "1x32x20x20xf32 w:48x32x3x3xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1");
  wafer_curve_options options = {.max_width = 32, .max_height = 32, .budget = 12000};
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &tight), WAFER_OK);
  options.budget = 48000;
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &roomy), WAFER_OK);
  for (size_t i = 0; i < tight.count; i++) {
    uint64_t cycles = tight.at[i].cycles, area = (uint64_t)tight.at[i].width * tight.at[i].height;
    CU_ASSERT(least_area(&roomy, cycles + cycles / 25) <= area);
  }
  CU_ASSERT(roomy.at[roomy.count - 1].cycles >= tight.at[tight.count - 1].cycles);
  wafer_arena_destroy(arena);
}

/* Whether a shape leaves the sum of a product whole, on more cores than this. */
static bool spreads_sums(const wafer_curve *curve, uint32_t cores) {
  bool found = false;
  for (size_t i = 0; i < curve->count; i++) {
    const wafer_shape_point *p = &curve->at[i];
    found |= p->split.rows[2] * p->split.cols[2] == 1 && p->width * p->height > cores;
  }
  return found;
}

/* With `lean` the longer dim of a product's result is cut in both directions. */
static void test_lean_curve(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_curve_options options = {.max_width = 32, .max_height = 32, .budget = 48000};
  body_text b;
  wafer_curve curve;
  body_text_begin(&b, "gemm", "4x512xf32 512x512xf32");
  body_text_node(&b, "matmul", "0 1", "");
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_FALSE(spreads_sums(&curve, 4 * 32));
  options.lean = true;
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_TRUE(spreads_sums(&curve, 4 * 32));
  wafer_arena_destroy(arena);
}

/* Where a core has room for one filter and few places, filters are cut along both directions. */
static void test_large_filters_in_groups(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_curve_options options = {.max_width = 743, .max_height = 992, .budget = 45056};
  body_text b;
  wafer_curve curve;
  body_text_begin(&b, "conv", "1x512x14x14xf32 w:1024x256x3x3xf32");
  body_text_node(&b, "conv", "0 1", "group=2 strides=1,1 dilations=1,1 pads=1,1,1,1");
  b.depth[0] = b.body.output_depth = 2;
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_FATAL(curve.count > 0);
  const wafer_split *split = &curve.at[0].split;
  CU_ASSERT(split->rows[1] > 1 && split->cols[1] > 1);
  CU_ASSERT(curve.at[0].bytes <= options.budget);
  wafer_arena_destroy(arena);
}

/* Of five loops of 32, channels and places of a volume, the sum over channels is one that is cut.
 */
static void test_windows_of_volumes(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_curve_options options = {.max_width = 743, .max_height = 992, .budget = 45056};
  body_text b;
  wafer_curve curve;
  body_text_begin(&b, "conv", "1x32x32x32x32xf32 w:32x32x5x5x5xf32");
  body_text_node(&b, "conv", "0 1", "group=1 strides=1,1,1 dilations=1,1,1 pads=2,2,2,2,2,2");
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_FATAL(curve.count > 0);
  CU_ASSERT(curve.at[0].split.rows[5] * curve.at[0].split.cols[5] > 1);
  wafer_arena_destroy(arena);
}

static void test_curve_without_room(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  wafer_curve curve;
  wafer_curve_options options = {.max_width = 2, .max_height = 2, .budget = 4000};
  body_text_begin(&b, "map", "4096xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT_EQUAL(curve.count, 0);
  CU_ASSERT_EQUAL(curve.least_bytes, 768 + 2 * 4 * 1024); /* 4 parts of 1024 */
  options.budget = curve.least_bytes;
  CU_ASSERT_EQUAL(wafer_kernel_curve(&m, &b.body, &options, arena, &curve), WAFER_OK);
  CU_ASSERT(curve.count > 0);
  wafer_arena_destroy(arena);
}

/* Choices are weighed by whichever thread takes them. */
static void test_curves_by_many(void) {
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_workers *workers = wafer_workers_create(4);
  body_text b;
  body_text_begin(&b, "gemm", "1x720x840xf32 w:840x960xf32");
  body_text_node(&b, "matmul", "0 1", "");
  wafer_cuts *cuts = wafer_cuts_create(&m, &b.body, 400, 300, workers, arena);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cuts);
  for (uint64_t budget = 48000; budget > 1500; budget /= 2) {
    wafer_curve_options options = {.max_width = 400, .max_height = 300, .budget = budget};
    wafer_curve shared, alone;
    CU_ASSERT_EQUAL_FATAL(wafer_cuts_curve(cuts, &b.body, &options, arena, &shared), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &alone), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(shared.count, alone.count);
    CU_ASSERT(alone.count == 0 || memcmp(shared.at, alone.at, alone.count * sizeof *alone.at) == 0);
  }
  wafer_workers_destroy(workers);
  wafer_arena_destroy(arena);
}

/* Curves of different bodies by whichever thread takes them. */
static void test_many_curves(void) {
  enum { BODIES = WAFER_COUNT(curve_cases) };
  wafer_machine m = plain_machine();
  wafer_workers *workers = wafer_workers_create(4);
  wafer_curve_options options = {.max_width = 32, .max_height = 32, .budget = 48000};
  wafer_arena *arenas[BODIES];
  wafer_curve curves[BODIES];
  wafer_curve_task tasks[BODIES];
  static body_text bodies[BODIES];
  for (size_t i = 0; i < BODIES; i++) {
    const curve_case *c = &curve_cases[i];
    body_text_begin(&bodies[i], c->family, c->inputs);
    body_text_node(&bodies[i], c->op, c->operands, c->attrs);
    arenas[i] = wafer_arena_create();
    tasks[i] = (wafer_curve_task){
        .cuts = wafer_cuts_create(&m, &bodies[i].body, 32, 32, workers, arenas[i]),
        .body = &bodies[i].body,
        .options = options,
        .arena = arenas[i],
        .curve = &curves[i]};
    CU_ASSERT_PTR_NOT_NULL_FATAL(tasks[i].cuts);
  }
  CU_ASSERT_EQUAL_FATAL(wafer_cuts_curves(workers, tasks, BODIES), WAFER_OK);
  for (size_t i = 0; i < BODIES; i++) {
    wafer_curve alone;
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &bodies[i].body, &options, arenas[i], &alone),
                          WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(curves[i].count, alone.count);
    CU_ASSERT(memcmp(curves[i].at, alone.at, alone.count * sizeof *alone.at) == 0);
    wafer_arena_destroy(arenas[i]);
  }
  wafer_workers_destroy(workers);
}

/* Cuts that other curves have used, or found no room for, give the curve that they give at first.
 */
static void test_curves_share_cuts(void) {
  static const uint64_t budgets[] = {48000, 900, 12000, 5000, 3000, 1500, 20000};
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  body_text b;
  conv_3x3(&b);
  wafer_cuts *cuts = wafer_cuts_create(&m, &b.body, 32, 24, NULL, arena);
  CU_ASSERT_PTR_NOT_NULL_FATAL(cuts);
  size_t empty = 0;
  for (size_t i = 0; i < WAFER_COUNT(budgets); i++) {
    wafer_curve_options options = {.max_width = 32, .max_height = 24, .budget = budgets[i]};
    wafer_curve shared, alone;
    CU_ASSERT_EQUAL_FATAL(wafer_cuts_curve(cuts, &b.body, &options, arena, &shared), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(wafer_kernel_curve(&m, &b.body, &options, arena, &alone), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(shared.count, alone.count);
    if (alone.count) {
      CU_ASSERT(alone.count == 0 ||
                memcmp(shared.at, alone.at, alone.count * sizeof *alone.at) == 0);
      continue;
    }
    CU_ASSERT_EQUAL(shared.least_bytes, alone.least_bytes);
    empty++;
  }
  CU_ASSERT(empty >= 2 && empty < WAFER_COUNT(budgets));
  wafer_arena_destroy(arena);
}

static void test_curve_out_of_memory(void) {
  wafer_machine m = plain_machine();
  wafer_curve_options options = {.max_width = 32, .max_height = 32, .budget = 48000};
  body_text b;
  conv_3x3(&b);
  wafer_status status = WAFER_NO_MEMORY;
  for (size_t n = 1; status == WAFER_NO_MEMORY && n < 200; n++) {
    wafer_arena *arena = wafer_arena_create();
    wafer_curve curve;
    wafer_arena_fail_after(n);
    status = wafer_kernel_curve(&m, &b.body, &options, arena, &curve);
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    CU_ASSERT(status == WAFER_OK || curve.count == 0);
    wafer_arena_destroy(arena);
  }
  CU_ASSERT_EQUAL(status, WAFER_OK);
}

CU_TestInfo tests_kernel_curve[] = {
    {"points of curves are what their splits cost, none inside another", test_curves},
    {"cuts add work", test_cuts_add_work},
    {"the most parts of a direction", test_most_parts},
    {"no split beats the curve", test_curve_is_least},
    {"more memory, no more cores", test_curve_monotone},
    {"large filters in groups: cut along both directions", test_large_filters_in_groups},
    {"windows of volumes are cut along their channels", test_windows_of_volumes},
    {"nothing fits: the fewest bytes", test_curve_without_room},
    {"curves share cuts, in any order", test_curves_share_cuts},
    {"threads weigh the same curves", test_curves_by_many},
    {"threads find curves side by side", test_many_curves},
    {"lean curves spread sums that stay whole", test_lean_curve},
    {"curve without host memory", test_curve_out_of_memory},
    CU_TEST_INFO_NULL,
};

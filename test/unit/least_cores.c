/* The fewest cores for a turn: no split has fewer, whatever directions its loops are cut in. */
#include "wafer/least_cores.h"

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "kernel_plain.h"

#define SPLITS 3000 /* of a kernel */

typedef struct least_case {
  const char *name, *family, *inputs, *op, *operands, *attrs;
} least_case;

static const least_case cases[] = {
    {"conv", "conv", "1x32x20x20xf32 w:48x32x3x3xf32", "conv", "0 1",
     "group=1 strides=1,1 dilations=1,1 pads=1,1,1,1"},
    {"strided", "conv", "1x5x33x21xf32 w:7x5x5x3xf32", "conv", "0 1",
     "group=1 strides=2,3 dilations=1,1 pads=2,1,2,1"},
    {"depthwise", "conv", "1x48x20x20xf32 w:48x1x3x3xf32", "conv", "0 1",
     "group=48 strides=2,2 dilations=1,1 pads=1,1,1,1"},
    {"groups", "conv", "1x24x10x10xf32 w:36x6x3x3xf32", "conv", "0 1",
     "group=4 strides=1,1 dilations=1,1 pads=1,1,1,1"},
    {"gemm", "gemm", "1x200xf32 w:200x100xf32", "matmul", "0 1", ""},
    {"odd", "gemm", "49x30xf32 w:30x21xf32", "matmul", "0 1", ""},
    {"attention", "gemm", "1x8x40x15xf32 1x8x15x40xf32", "matmul", "0 1", ""},
    {"map", "map", "1x16x12x12xf32", "relu", "0", ""},
    {"vector", "map", "3000xf32", "relu", "0", ""},
    {"softmax", "softmax", "8x40x40xf32", "softmax", "0", "axis=2"},
    {"normalize", "normalize", "8x40x40xf32", "normalize", "0", "axes=2 epsilon=1e-5 center=1"},
    {"reduce", "reduce", "1x48x20x20xf32", "reduce_mean", "0", "axes=2,3 keepdims=1"},
    {"pool", "pool", "1x16x20x20xf32", "max_pool", "0",
     "kernel=2,2 strides=2,2 dilations=1,1 pads=0,0,0,0 ceil_mode=0"},
    {"transpose", "move", "1x16x20x20xf32", "transpose", "0", "perm=0,2,3,1"},
    {"reshape", "move", "1x16x20x20xf32", "reshape", "0", "shape=320,20"},
    {"transposed", "conv_transpose", "1x16x10x10xf32 w:16x8x2x2xf32", "conv_transpose", "0 1",
     "group=1 strides=2,2 dilations=1,1 pads=0,0,0,0 output_padding=0,0"},
    {"scalar", "map", "f32", "relu", "0", ""},
    {"empty", "map", "0x4xf32", "relu", "0", ""},
};

static void begin(body_text *b, const least_case *c) {
  body_text_begin(b, c->family, c->inputs);
  CU_ASSERT_NOT_EQUAL_FATAL(body_text_node(b, c->op, c->operands, c->attrs), UINT32_MAX);
}

static uint32_t draw(uint64_t *state, uint64_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % below);
}

/* Some loops in many parts, others in few; over rows, columns or both. */
static wafer_split any_split(const wafer_loops *loops, uint64_t *state) {
  wafer_split split = split_whole();
  for (uint32_t l = 0; l < loops->count; l++) {
    if (!loops->divisible[l] || draw(state, 3) == 0) continue;
    uint64_t extent = (uint64_t)loops->extent[l], most = draw(state, 2) ? extent : 1 + extent / 4;
    split.rows[l] = 1 + draw(state, most);
    split.cols[l] = 1 + draw(state, extent / split.rows[l]);
    if (draw(state, 2)) split.rows[l] = 1;
  }
  return split;
}

static void check_splits(const least_case *c, const wafer_machine *m, const body_text *b) {
  bool takes[4] = {false}, sends[4] = {true, true, true, true};
  wafer_arena *arena = wafer_arena_create();
  wafer_least_cores least;
  wafer_loops loops;
  uint64_t state = 1, fit = 0;
  for (uint32_t i = 0; i < b->body.input_count; i++) takes[i] = !b->body.input_is_weight[i];
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_least_cores(m, &b->body, takes, sends, arena, &least),
                        WAFER_OK);
  wafer_kernel_loops(&b->body, &loops);
  for (int i = 0; i < SPLITS; i++) {
    wafer_split split = any_split(&loops, &state);
    uint64_t turn = wafer_least_turn_of(m, &b->body, takes, sends, &split), cores = 1;
    if (turn == UINT64_MAX) continue;
    for (uint32_t l = 0; l < loops.count; l++) cores *= (uint64_t)split.rows[l] * split.cols[l];
    uint64_t needed = wafer_least_cores_for(&least, turn);
    if (needed > cores)
      printf("\n  %s: %llu cores take %llu cycles, for which %llu are needed", c->name,
             (unsigned long long)cores, (unsigned long long)turn, (unsigned long long)needed);
    CU_ASSERT(needed <= cores);
    fit++;
  }
  CU_ASSERT(fit > 0);
  wafer_arena_destroy(arena);
}

static void no_split_has_fewer(void) {
  for (size_t i = 0; i < WAFER_COUNT(cases); i++)
    for (int small = 0; small < 2; small++) {
      wafer_machine m = plain_machine();
      body_text b;
      if (small) m.core_bytes = 12288;
      begin(&b, &cases[i]);
      check_splits(&cases[i], &m, &b);
    }
}

/* Turns get shorter, and cores more; there are splits as good, but for one part in 128. */
static void cores_are_least(void) {
  bool takes[] = {true}, sends[] = {true};
  wafer_machine m = plain_machine();
  wafer_arena *arena = wafer_arena_create();
  wafer_least_cores least;
  body_text b;
  body_text_begin(&b, "map", "24x18xf32");
  body_text_node(&b, "relu", "0", "");
  CU_ASSERT_EQUAL_FATAL(wafer_kernel_least_cores(&m, &b.body, takes, sends, arena, &least),
                        WAFER_OK);
  CU_ASSERT_EQUAL(least.tried, 24 * 18);
  for (size_t i = 0; i < least.count; i++) {
    const wafer_least_shape *at = &least.at[i];
    uint64_t best = UINT64_MAX;
    CU_ASSERT(i == 0 || (at->cores > at[-1].cores && at->cycles < at[-1].cycles));
    for (uint32_t r = 1; r <= 24; r++)
      for (uint32_t c = 1; c <= 18 && r * c <= at->cores; c++) {
        wafer_split split = split_whole();
        split.rows[0] = r, split.cols[1] = c;
        uint64_t turn = wafer_least_turn_of(&m, &b.body, takes, sends, &split);
        best = turn < best ? turn : best;
      }
    CU_ASSERT(at->cycles <= best && at->cycles + best / 64 + 1 >= best);
  }
  CU_ASSERT_EQUAL(wafer_least_cores_for(&least, least.at[0].cycles), least.at[0].cores);
  CU_ASSERT_EQUAL(wafer_least_cores_for(&least, least.at[least.count - 1].cycles - 1), UINT64_MAX);
  wafer_arena_destroy(arena);
}

/* What a core computes, and what it takes while it sends; memory makes it several. */
static void turns_are_what_they_count(void) {
  bool takes[] = {true, false}, sends[] = {true};
  wafer_machine m = plain_machine();
  wafer_split split = split_text("rows0:2");
  body_text b;
  body_text_begin(&b, "map", "100x30xf32");
  body_text_node(&b, "relu", "0", "");
  wafer_cost cost = cost_of(&b, "rows0:2");
  uint64_t turn = wafer_least_turn_of(&m, &b.body, takes, sends, &split);
  CU_ASSERT_EQUAL(turn, cost.compute_cycles + 1500);
  takes[0] = sends[0] = false;
  CU_ASSERT_EQUAL(wafer_least_turn_of(&m, &b.body, takes, sends, &split), cost.compute_cycles);
  takes[0] = sends[0] = true;
  body_text_begin(&b, "gemm", "10x40xf32 w:40x20xf32");
  body_text_node(&b, "matmul", "0 1", "");
  split = split_text("cols2:4");
  cost =
      cost_of(&b, "cols2:4"); /* sums of 10 x 20 from the neighbour; whose they are is not said */
  turn = wafer_least_turn_of(&m, &b.body, takes, sends, &split);
  CU_ASSERT_EQUAL(turn, cost.compute_cycles + 10 * 20 + 10 * 40 / 4);
}

CU_TestInfo tests_least_cores[] = {
    {"no split has fewer", no_split_has_fewer},
    {"they are the least", cores_are_least},
    {"turns are what they count", turns_are_what_they_count},
    CU_TEST_INFO_NULL,
};

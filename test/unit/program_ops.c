/* Programs of kernels of one op, cut as a test says: what the cost model counts of them, and what
 * f16 storage asks of them. */
#include <CUnit/CUnit.h>

#include "program_many.h"

/* A kernel of one op, cut as `split` says, on small64. */
static program_run run_op(const char *family, const char *inputs, const char *op,
                          const char *operands, const char *attrs, const char *split,
                          uint64_t seed) {
  body_text b;
  wafer_split cut = split_text(split);
  body_text_begin(&b, family, inputs);
  CU_ASSERT_TRUE_FATAL(put(&b, op, operands, attrs));
  return program_run_body("small64", &b, &cut, seed);
}

/* Few words over many neighbours are summed in two phases, more of them in one chain; the cost
 * model and the program pick alike, and both sum right. */
static void test_phases(void) {
  static const struct {
    const char *inputs, *family, *op, *operands, *attrs, *split;
    uint32_t parts;
    uint64_t words;
    bool phases;
  } cases[] = {
      {"12x180xf32", "reduce", "reduce_sum", "0", "axes=1 keepdims=0", "cols1:60", 60, 12, true},
      {"40x61xf32", "reduce", "reduce_max", "0", "axes=1 keepdims=0", "rows1:61", 61, 40, true},
      {"400x180xf32", "reduce", "reduce_sum", "0", "axes=1 keepdims=0", "cols1:60", 60, 400, false},
      {"4x50xf32 w:50x6xf32", "gemm", "matmul", "0 1", "", "cols2:50", 50, 24, true},
      {"4x5xf32 w:5x6xf32", "gemm", "matmul", "0 1", "", "cols2:5", 5, 24, false},
      {"6x40xf32", "softmax", "softmax", "0", "axis=1", "cols1:40", 40, 6, true},
      {"6x80xf32", "normalize", "normalize", "0", "axes=1 epsilon=1e-5 center=1", "cols1:40", 40, 6,
       true},
  };
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *m;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(NULL, arena, "small64", &m), WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    CU_ASSERT_EQUAL(wafer_reduce_group(m, cases[i].parts, cases[i].words) < cases[i].parts,
                    cases[i].phases);
    program_run run = run_op(cases[i].family, cases[i].inputs, cases[i].op, cases[i].operands,
                             cases[i].attrs, cases[i].split, i);
    if (run.status != WAFER_OK) printf("\n  %s: %s", cases[i].op, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT_TRUE(run.error <= F32_ERROR);
    CU_ASSERT_TRUE(run.code_bytes <= run.code_modelled);
    if (off(run.predicted, run.counted) > 0.1 || off(run.modelled, run.counted) > 0.15)
      printf("\n  %s %s: counted %llu, predicted %llu, modelled %llu", cases[i].op, cases[i].inputs,
             (unsigned long long)run.counted, (unsigned long long)run.predicted,
             (unsigned long long)run.modelled);
    CU_ASSERT_TRUE(off(run.predicted, run.counted) <= 0.1);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.15);
  }
  wafer_arena_destroy(arena);
}

/* The index of an extreme is found where the axis is cut, too: once it was refused. A core holds
 * the indices of its part alone, so that a vocabulary of any size fits. */
static void test_args(void) {
  static const struct {
    const char *inputs, *op, *attrs, *split;
  } cases[] = {
      {"1x5003xf32", "arg_max", "axis=1 keepdims=0 last=0", "rows1:12 cols1:8"},
      {"3x61x7xi32", "arg_min", "axis=1 keepdims=1 last=1", "cols2:20"},
      {"61x5xf16", "arg_max", "axis=0 keepdims=0 last=1", "rows1:9 cols0:5"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    program_run run =
        run_op("reduce", cases[i].inputs, cases[i].op, "0", cases[i].attrs, cases[i].split, i);
    if (run.status != WAFER_OK || run.error > 0 || off(run.modelled, run.counted) > 0.1)
      printf("\n  %s: status %d, error %g, counted %llu, modelled %llu: %s", cases[i].inputs,
             run.status, run.error, (unsigned long long)run.counted,
             (unsigned long long)run.modelled, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error == 0);
    CU_ASSERT(run.memory <= run.memory_modelled);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.1);
  }
}

/* The cost model counts what programs do: a square reads one bank twice at every step; what is cut
 * along two dims that are summed is chained over each, without flows side by side, and sent to all
 * parts at once. Halos of both sides come through one ramp; pads are as long as the buffer; taps of
 * a pool are innermost, so that its result stays; filters that are fewer than four other loops turn
 * are not; windows at a border are scaled one by one. Where operands lie decides which reads
 * collide, in halves of a word too; a halo on one side has its corners there; cores at a border
 * that fill in zeros first keep nobody waiting when halos are few words. */
#define DILATED(by, group)                                                                         \
  "group=" group " strides=1,1 dilations=" by "," by " pads=" by "," by "," by "," by
#define STRIDED(group, by, pads) "group=" group " strides=" by " dilations=1,1 pads=" pads
#define POOL(size, pad)                                                                            \
  "kernel=" size "," size " strides=1,1 dilations=1,1 pads=" pad "," pad "," pad "," pad           \
  " ceil_mode=0"
static void test_modelled(void) {
  static const struct {
    const char *inputs, *family, *op, *operands, *attrs, *split;
  } cases[] = {
      {"33x13xf32", "map", "mul", "0 0", "", ""},
      {"33x13xf16", "map", "mul", "0 0", "", "rows0:3"},
      {"6x14x9xf32", "reduce", "reduce_sum", "0", "axes=1,2 keepdims=0", "rows1:7 rows2:3"},
      {"4x14x9xf32", "reduce", "reduce_max", "0", "axes=1,2 keepdims=1", "rows1:7 cols2:3"},
      {"1x4x24x24xf32 w:16x4x3x3xf32", "conv", "conv", "0 1", DILATED("6", "1"), "cols1:4 rows2:6"},
      {"1x16x20x20xf32 w:16x1x3x3xf32", "conv", "conv", "0 1", DILATED("2", "16"),
       "cols1:4 rows2:10"},
      {"1x8x16x16xf32 w:2x8x3x3xf32", "conv", "conv", "0 1", DILATED("1", "1"), "rows2:4 cols3:4"},
      {"1x1x10x10xf32", "pool", "max_pool", "0", POOL("5", "2"), ""},
      {"1x3x16x16xf32", "pool", "max_pool", "0", POOL("3", "1"), "rows2:4"},
      {"1x1x10x10xf32", "pool", "average_pool", "0", POOL("5", "2") " count_include_pad=0", ""},
      {"1x48x8x8xf32 w:48x1x5x5xf32", "conv", "conv", "0 1", STRIDED("48", "2,2", "2,2,2,2"),
       "rows1:16 cols1:3"},
      {"1x1x49x10xf32 w:32x1x10x4xf32", "conv", "conv", "0 1", STRIDED("1", "2,2", "4,1,4,1"),
       "cols1:4"},
      {"1x16x9x7xf16 w:24x16x3x3xf16", "conv", "conv", "0 1", DILATED("1", "1"), "rows1:2 cols2:3"},
      {"1x28x32x32xf32 w:28x1x3x3xf32", "conv", "conv", "0 1", STRIDED("28", "2,2", "0,0,1,1"),
       "rows2:4 rows3:8 cols1:7"},
      {"1x20x7x7xf32 w:20x1x3x3xf32", "conv", "conv", "0 1", DILATED("1", "20"),
       "rows1:20 cols2:7 cols3:7"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    program_run run = run_op(cases[i].family, cases[i].inputs, cases[i].op, cases[i].operands,
                             cases[i].attrs, cases[i].split, i);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    if (off(run.modelled, run.counted) > 0.05)
      printf("\n  %s %s %s: counted %llu, modelled %llu %s", cases[i].op, cases[i].inputs,
             cases[i].split, (unsigned long long)run.counted, (unsigned long long)run.modelled,
             run.message);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.05);
  }
}

/* What follows a reduction to one number is computed where that number is, and sent to all cores at
 * the end: once every step sent its operand to all of them. */
static void test_scalars(void) {
  body_text b;
  wafer_split split = split_text("cols0:8");
  body_text_begin(&b, "reduce", "16x4x8xf32 f32");
  CU_ASSERT_TRUE_FATAL(put(&b, "reduce_max", "0", "axes=0,1,2 keepdims=0"));
  CU_ASSERT_TRUE_FATAL(put(&b, "sub", "2 1", "") && put(&b, "abs", "3", "") &&
                       put(&b, "mul", "4 1", "") && put(&b, "exp", "5", ""));
  program_run run = program_run_body("small64", &b, &split, 1);
  CU_ASSERT_EQUAL(run.status, WAFER_OK);
  CU_ASSERT(run.error <= F32_ERROR);
  bool close = off(run.modelled, run.counted) <= 0.1;
  if (!close)
    printf("\n  counted %llu, modelled %llu\n", (unsigned long long)run.counted,
           (unsigned long long)run.modelled);
  CU_ASSERT(close);
}

/* Products of f16 tensors are summed in f32: an element is at most a step of f16 off, where sums of
 * f16 are several. */
static void test_f16_sums(void) {
  static const char *const splits[] = {"", "cols2:4", "rows0:2 rows2:3"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++) {
    body_text b;
    wafer_split split = split_text(splits[i]);
    body_text_begin(&b, "gemm", "4x400xf16 400x6xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "matmul", "0 1", ""));
    program_run run = program_run_body("small64", &b, &split, i);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error <= 0x1p-10);
  }
}

/* The same of rows that are added to one: small ones beside a large one would vanish one by one. */
static void test_f16_rows(void) {
  static const char *const modes[] = {"mode=add", "mode=mul"};
  for (size_t i = 0; i < WAFER_COUNT(modes); i++) {
    body_text b;
    wafer_split split = split_text(i ? "rows0:2" : "cols1:3");
    body_text_begin(&b, "scatter", "21x3xf16 1500xi64 1500x3xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "scatter", "0 1 2", modes[i]));
    program_run run = program_run_body("small64", &b, &split, i);
    if (run.status != WAFER_OK || run.error > 0x1p-10)
      printf("\n  %s: status %d, error %g: %s", modes[i], run.status, run.error, run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error <= 0x1p-10);
    CU_ASSERT(run.memory <= run.memory_modelled);
  }
}

/* What only moves f16 elements moves them as they are stored: as f32 in between they would take
 * twice the words and two conversions, which the cost model does not count. */
static void test_f16_moves(void) {
  static const char *const splits[] = {"", "rows0:4", "rows0:2 cols1:3"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++) {
    body_text b;
    wafer_split split = split_text(splits[i]);
    body_text_begin(&b, "move", "12x9x10xf16");
    CU_ASSERT_TRUE_FATAL(put(&b, "slice", "0", "starts=0,0,0 shape=12,9,8 steps=1,1,1") &&
                         put(&b, "reshape", "1", "shape=12,9,2,4") &&
                         put(&b, "transpose", "2", "perm=0,2,1,3"));
    b.body.anchor = 2;
    for (uint32_t v = 0; v < 4; v++) CU_ASSERT_EQUAL(wafer_body_dtype(&b.body, v), WAFER_DTYPE_f16);
    program_run run = program_run_body("small64", &b, &split, i);
    if (run.status != WAFER_OK || run.error > 0 || off(run.modelled, run.counted) > 0.15)
      printf("\n  %s: status %d, error %g, counted %llu, modelled %llu: %s", splits[i], run.status,
             run.error, (unsigned long long)run.counted, (unsigned long long)run.modelled,
             run.message);
    CU_ASSERT_EQUAL(run.status, WAFER_OK);
    CU_ASSERT(run.error == 0);
    CU_ASSERT_TRUE(off(run.modelled, run.counted) <= 0.15);
  }
}

/* What a kernel has computed, in f32, beside what is stored in f16, as rotary embeddings have it:
 * once it was refused. */
static void test_f16_concat(void) {
  static const char *const splits[] = {"", "rows0:3", "rows0:2 cols1:4"};
  for (size_t i = 0; i < WAFER_COUNT(splits); i++)
    for (uint32_t more = 0; more < 2; more++) {
      body_text b;
      wafer_split split = split_text(splits[i]);
      body_text_begin(&b, "move", "6x5xf16 6x3xf16");
      CU_ASSERT_TRUE_FATAL(put(&b, "neg", "0", "") && put(&b, "concat", "2 1", "axis=1"));
      CU_ASSERT_TRUE_FATAL(!more || put(&b, "concat", "3 2", "axis=1"));
      b.body.anchor = 1 + more;
      program_run run = program_run_body("small64", &b, &split, i);
      if (run.status != WAFER_OK || run.error > 0)
        printf("\n  %s: status %d, error %g: %s", splits[i], run.status, run.error, run.message);
      CU_ASSERT_EQUAL(run.status, WAFER_OK);
      CU_ASSERT(run.error == 0);
    }
}

CU_TestInfo tests_program_ops[] = {{"scalars", test_scalars},
                                   {"two phases of a reduction", test_phases},
                                   {"indices of extremes", test_args},
                                   {"what the cost model counts", test_modelled},
                                   {"sums of f16", test_f16_sums},
                                   {"rows of f16", test_f16_rows},
                                   {"moves of f16", test_f16_moves},
                                   {"concatenations of f16", test_f16_concat},
                                   CU_TEST_INFO_NULL};

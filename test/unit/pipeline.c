/* passes/pipeline.c: what a text of passes asks for, needs and gives, callbacks, and lack of
 * memory. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "scratch.h"
#include "wafer/ir.h"

static const char net[] =
    "func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {\n"
    "  %w = \"nn.constant\"() {value = dense<0.5> : tensor<3x2x1x1xf32>} : () -> "
    "tensor<3x2x1x1xf32>\n"
    "  %s = \"nn.constant\"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> "
    "tensor<3xf32>\n"
    "  %0 = \"nn.conv\"(%x, %w) {group = 1 : i64, strides = array<i64: 1, 1>, dilations = "
    "array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>} : (tensor<1x2x4x4xf32>, "
    "tensor<3x2x1x1xf32>) -> tensor<1x3x4x4xf32>\n"
    "  %1 = \"nn.batch_norm\"(%0, %s, %s, %s, %s) {epsilon = 1.0e-3 : f64} : "
    "(tensor<1x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> "
    "tensor<1x3x4x4xf32>\n"
    "  %2 = \"nn.relu\"(%1) : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>\n"
    "  func.return %2 : tensor<1x3x4x4xf32>\n}\n";

typedef struct fixture {
  scratch folder;
  caught last;
  wafer_diag diag;
  wafer_options options;
  wafer_ctx ctx;
  wafer_ir *ir;
} fixture;

static void setup(fixture *f) {
  *f = (fixture){.folder = scratch_create()};
  f->diag = caught_diag(&f->last);
  f->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = &f->diag, .options = &f->options};
  const char *path = scratch_save(&f->folder, "net.mlir", net, sizeof net - 1);
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&f->diag, f->ctx.arena, "small16", &f->ctx.machine),
                        WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_parse(&f->ctx, path, &f->ir), WAFER_OK);
}

static void teardown(fixture *f) {
  wafer_ir_destroy(f->ir);
  wafer_arena_destroy(f->ctx.arena);
  scratch_remove(&f->folder);
}

static void texts_of_passes(void) {
  static const struct {
    const char *passes;
    wafer_status status;
    const char *words;
  } cases[] = {
      {"", WAFER_OK, NULL},
      {"shape", WAFER_OK, NULL},
      {"shape,fold,simplify", WAFER_OK, NULL},
      {"shape,,simplify,", WAFER_OK, NULL},
      {"default:simplify", WAFER_OK, NULL},
      {"default", WAFER_OK, NULL},
      {"shape,canonicalize{max-iterations=2},cse", WAFER_OK, NULL},
      {"fold", WAFER_USAGE, "wafer-fold needs what no earlier pass gives; run 'shape' before it"},
      {"shape,place", WAFER_USAGE, "wafer-place needs what no earlier pass gives; run 'size'"},
      {"simplify,shape", WAFER_USAGE, "wafer-simplify needs"},
      {"shape,nonesuch", WAFER_USAGE, "no pass 'nonesuch'"},
      {"shape,canonicalize{bad-option=1}", WAFER_USAGE, "no such option bad-option"},
      {"default:nonesuch", WAFER_USAGE, "no pass 'nonesuch' to stop after"},
      {"defaults", WAFER_USAGE, "no pass 'defaults'"},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    fixture f;
    setup(&f);
    wafer_status status = wafer_transform(&f.ctx, f.ir, cases[i].passes);
    CU_ASSERT_EQUAL(status, cases[i].status);
    if (cases[i].words) CU_ASSERT_PTR_NOT_NULL(strstr(f.last.text, cases[i].words));
    if (status != cases[i].status) printf("'%s': %d %s\n", cases[i].passes, status, f.last.text);
    teardown(&f);
  }
}

/* A pass may build on one of an earlier call: the module carries what was given. */
static void facts_last(void) {
  fixture f;
  setup(&f);
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "shape"), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "simplify"), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "fuse,mode"), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "place"), WAFER_USAGE);
  teardown(&f);
}

typedef struct printed {
  char passes[128];
  bool all_modules;
} printed;

static void note_print(void *self, const char *pass, const char *text, size_t bytes) {
  printed *p = self;
  strcat(strcat(p->passes, pass), " ");
  p->all_modules &= bytes == strlen(text) && strstr(text, "func.func @main") != NULL;
}

static void prints_after(void) {
  static const struct {
    const char *after, *passes;
  } cases[] = {{"all", "shape cse simplify "}, {"cse", "cse "}, {NULL, ""}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    fixture f;
    printed p = {.all_modules = true};
    setup(&f);
    f.options =
        (wafer_options){.print_after = cases[i].after, .print = note_print, .print_self = &p};
    CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "shape,cse,simplify"), WAFER_OK);
    CU_ASSERT_STRING_EQUAL(p.passes, cases[i].passes);
    CU_ASSERT_TRUE(p.all_modules);
    f.options.print_after = "fuse";
    CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "shape"), WAFER_USAGE);
    teardown(&f);
  }
}

static void note_progress(void *self, const char *what, uint64_t done, uint64_t total) {
  (void)what;
  uint64_t *seen = self;
  CU_ASSERT(done <= total && total == 3);
  seen[0]++;
}

static bool after_two(void *self) {
  return ((uint64_t *)self)[0] > 1;
}

static void progress_and_cancel(void) {
  fixture f;
  uint64_t seen = 0;
  setup(&f);
  wafer_diag diag = {.progress = note_progress, .self = &seen};
  f.ctx.diag = &diag;
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "shape,fold,simplify"), WAFER_OK);
  CU_ASSERT_EQUAL(seen, 4);
  seen = 0;
  diag.cancelled = after_two;
  CU_ASSERT_EQUAL(wafer_transform(&f.ctx, f.ir, "shape,fold,simplify"), WAFER_USAGE);
  CU_ASSERT_EQUAL(seen, 2);
  teardown(&f);
}

/* What becomes of the batch_norm: part of the convolution, which gets a bias, or ops of its own. */
static void note_norm(void *self, const char *pass, const char *text, size_t bytes) {
  const char *conv = strstr(text, "\"nn.conv\"("), *end = conv ? strchr(conv, ')') : NULL;
  uint32_t commas = 0;
  (void)pass, (void)bytes;
  for (const char *at = conv; at && at < end; at++) commas += *at == ',';
  *(bool *)self = commas == 2 || strstr(text, "nn.add") || strstr(text, "nn.batch_norm");
}

/* Whichever allocation fails, the compiler says so or does without; it never crashes or leaks, and
 * what it makes computes the same. */
static void lack_of_memory(void) {
  wafer_status status = WAFER_OK;
  for (size_t n = 1; n <= 150; n++) {
    fixture f;
    bool shifted = false;
    setup(&f);
    f.options =
        (wafer_options){.print_after = "simplify", .print = note_norm, .print_self = &shifted};
    wafer_arena_fail_after(n);
    status = wafer_transform(&f.ctx, f.ir, "default:simplify");
    wafer_arena_fail_after(0);
    CU_ASSERT(status == WAFER_OK || status == WAFER_NO_MEMORY);
    CU_ASSERT_EQUAL(status != WAFER_OK, f.last.count > 0);
    CU_ASSERT(shifted || status != WAFER_OK);
    if (status != WAFER_OK && status != WAFER_NO_MEMORY) printf("#%zu: %s\n", n, f.last.text);
    teardown(&f);
  }
  CU_ASSERT_EQUAL(status, WAFER_OK);
}

CU_TestInfo tests_pipeline[] = {
    {"texts of passes", texts_of_passes}, {"facts last", facts_last},
    {"prints after", prints_after},       {"progress and cancel", progress_and_cancel},
    {"lack of memory", lack_of_memory},   CU_TEST_INFO_NULL,
};

/* tools/conform/conform_*.c: the rule of comparison, its measures, and workers that die. */
#include <CUnit/CUnit.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scratch.h"
#include "tools/conform/conform.h"

static wafer_status compare(wafer_dtype dtype, void *got, void *wanted, int64_t count,
                            conform_difference *d) {
  const wafer_shape shape = {.rank = 1, .dims = {count}};
  wafer_view a = wafer_view_of(dtype, &shape, got), b = wafer_view_of(dtype, &shape, wanted);
  *d = (conform_difference){0};
  return conform_compare(NULL, &CONFORM_RULE, "y", &a, &b, d);
}

static void test_floats(void) {
  static const struct {
    float got, wanted;
    bool holds;
  } cases[] = {
      {1, 1, true},
      {1.0009f, 1, true},
      {1.0011f, 1, false},
      {9e-8f, 0, true},
      {2e-7f, 0, false},
      {NAN, NAN, true},
      {NAN, 1, false},
      {1, NAN, false},
      {INFINITY, INFINITY, true},
      {INFINITY, -INFINITY, false},
      {INFINITY, 3e38f, false},
      {-0.0f, 0.0f, true},
  };
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    conform_difference d;
    float got = cases[i].got, wanted = cases[i].wanted;
    wafer_status status = compare(WAFER_DTYPE_f32, &got, &wanted, 1, &d);
    CU_ASSERT_EQUAL(status, cases[i].holds ? WAFER_OK : WAFER_DIFFER);
    if ((status == WAFER_OK) != cases[i].holds) fprintf(stderr, "%g against %g\n", got, wanted);
  }
}

static void test_measures(void) {
  conform_difference d;
  float got[] = {1, nextafterf(nextafterf(2, 3), 3)}, wanted[] = {1, 2};
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_f32, got, wanted, 2, &d), WAFER_OK);
  CU_ASSERT_EQUAL(d.ulp, 2);
  CU_ASSERT_DOUBLE_EQUAL(d.relative, 2 * 0x1p-23, 1e-12);
  uint16_t half = wafer_f16_of_f32(1) + 1, one = wafer_f16_of_f32(1);
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_f16, &half, &one, 1, &d), WAFER_OK);
  CU_ASSERT_EQUAL(d.ulp, 1);
  float tiny = 3 * 0x1p-149f, zero = 0;
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_f32, &tiny, &zero, 1, &d), WAFER_OK);
  CU_ASSERT_EQUAL(d.ulp, 3);
}

static void test_exact(void) {
  conform_difference d;
  int64_t big = 1000000000000, next = big + 1;
  bool yes = true, no = false;
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_i64, &big, &big, 1, &d), WAFER_OK);
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_i64, &next, &big, 1, &d), WAFER_DIFFER);
  CU_ASSERT_EQUAL(compare(WAFER_DTYPE_bool, &yes, &no, 1, &d), WAFER_DIFFER);
}

/* Random numbers need not be those expected, but of their range. */
static void test_drawn(void) {
  const wafer_shape shape = {.rank = 1, .dims = {3}};
  const conform_rule rule = {.rtol = 1e-3, .atol = 1e-7, .drawn = true};
  float expected[] = {0, 1, 1}, cases[][3] = {{1, 0, 0}, {0, 1, 1}, {0, 1, 2}, {NAN, 0, 1}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    conform_difference d = {0};
    wafer_view a = wafer_view_of(WAFER_DTYPE_f32, &shape, cases[i]),
               b = wafer_view_of(WAFER_DTYPE_f32, &shape, expected);
    CU_ASSERT_EQUAL(conform_compare(NULL, &rule, "y", &a, &b, &d), i < 2 ? WAFER_OK : WAFER_DIFFER);
    CU_ASSERT_EQUAL(d.drawn, i == 0);
    if (i == 0) CU_ASSERT_EQUAL(d.ulp, 0);
    if (i == 0)
      CU_ASSERT_EQUAL(conform_compare(NULL, &CONFORM_RULE, "y", &a, &b, &d), WAFER_DIFFER);
  }
}

static void test_unlike(void) {
  const wafer_shape flat = {.rank = 1, .dims = {1}}, deep = {.rank = 2, .dims = {1, 1}};
  float one = 1;
  conform_difference d = {0};
  wafer_view a = wafer_view_of(WAFER_DTYPE_f32, &flat, &one),
             b = wafer_view_of(WAFER_DTYPE_f32, &deep, &one),
             c = wafer_view_of(WAFER_DTYPE_i32, &flat, &one);
  CU_ASSERT_EQUAL(conform_compare(NULL, &CONFORM_RULE, "y", &a, &b, &d), WAFER_DIFFER);
  CU_ASSERT_EQUAL(conform_compare(NULL, &CONFORM_RULE, "y", &a, &c, &d), WAFER_DIFFER);
}

static void test_find(void) {
  wafer_arena *arena = wafer_arena_create();
  conform_cases cases;
  const char *folder = WAFER_SOURCE_DIR "/test/data/conform/";
  CU_ASSERT_EQUAL_FATAL(conform_find(arena, folder, NULL, &cases), WAFER_OK);
  static const char *const names[] = {"bare", "differs", "passes", "ramp", "reshapes", "unknown"};
  CU_ASSERT_EQUAL_FATAL(cases.count, WAFER_COUNT(names));
  for (size_t i = 0; i < WAFER_COUNT(names); i++)
    CU_ASSERT_STRING_EQUAL(cases.at[i].name, names[i]);
  CU_ASSERT_EQUAL(cases.at[0].set_count, 0);
  CU_ASSERT_EQUAL(cases.at[2].set_count, 1);
  CU_ASSERT_FALSE(cases.at[2].ramp);
  CU_ASSERT(cases.at[3].ramp);
  CU_ASSERT_EQUAL_FATAL(conform_find(arena, WAFER_SOURCE_DIR "/test/data", "*/re*", &cases),
                        WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(cases.count, 1);
  CU_ASSERT_STRING_EQUAL(cases.at[0].name, "conform/reshapes");
  wafer_arena_destroy(arena);
}

/* In place of the compiler: the case's name says what becomes of it. */
void conform_run(const conform_arguments *a, const wafer_machine *machine, const char *scratch_file,
                 const conform_case *c, conform_result *result) {
  (void)a, (void)machine, (void)scratch_file;
  if (!strcmp(c->name, "aborts")) raise(SIGKILL);
  if (!strcmp(c->name, "exits")) _exit(3);
  result->difference.ulp = 2;
  result->verdict = CONFORM_PASSED;
}

/* What conform_run_all prints of the failures goes to a file for the while. */
static wafer_status run_silently(const conform_arguments *a, const conform_cases *cases,
                                 conform_result **results) {
  fflush(stdout);
  int kept = dup(STDOUT_FILENO), nothing = open("/dev/null", O_WRONLY);
  dup2(nothing, STDOUT_FILENO);
  wafer_status status = conform_run_all(a, NULL, cases, results);
  fflush(stdout);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(nothing);
  return status;
}

static void test_workers(void) {
  static const conform_case at[] = {
      {.name = "a"}, {.name = "aborts"}, {.name = "b"}, {.name = "exits"}, {.name = "z"}};
  const conform_cases cases = {WAFER_COUNT(at), at};
  for (uint64_t jobs = 1; jobs <= 4; jobs += 3) {
    const conform_arguments a = {.jobs = jobs};
    conform_result *results;
    CU_ASSERT_EQUAL_FATAL(run_silently(&a, &cases, &results), WAFER_OK);
    for (size_t i = 0; i < cases.count; i++) {
      bool dies = i == 1 || i == 3;
      CU_ASSERT_EQUAL(results[i].verdict, dies ? CONFORM_FAILED : CONFORM_PASSED);
      CU_ASSERT_EQUAL(results[i].difference.ulp, dies ? 0 : 2);
    }
    CU_ASSERT_STRING_EQUAL(results[1].message, "crashed: Killed");
    CU_ASSERT_STRING_EQUAL(results[3].message, "ended its process with exit code 3");
    conform_free_results(&cases, results);
  }
}

static void test_table(void) {
  static const conform_case at[] = {{.name = "a\tb"}};
  const conform_cases cases = {1, at};
  conform_result *result = calloc(1, sizeof *result);
  scratch s = scratch_create();
  const char *path = scratch_path(&s, "t.tsv");
  *result = (conform_result){.verdict = CONFORM_PASSED,
                             .operators = "Add@14:cores",
                             .bound = "shape",
                             .message = "two\nlines"};
  CU_ASSERT_EQUAL(conform_write_tsv(path, &cases, result), WAFER_OK);
  char text[512] = "";
  FILE *file = fopen(path, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(file);
  size_t bytes = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  CU_ASSERT(bytes > 0);
  CU_ASSERT_PTR_NOT_NULL(
      strstr(text, "\na b\tpassed\tAdd@14:cores\t0\t0\t0.0\t0.0\tshape\ttwo lines\n"));
  free(result);
  scratch_remove(&s);
}

CU_TestInfo tests_conform[] = {{"the rule for floats", test_floats},
                               {"units of the last place", test_measures},
                               {"everything else exactly", test_exact},
                               {"types and shapes", test_unlike},
                               {"drawn", test_drawn},
                               {"tests below a folder", test_find},
                               {"workers that die", test_workers},
                               {"the table", test_table},
                               CU_TEST_INFO_NULL};

#include "wafer/dataset.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "caught.h"
#include "scratch.h"
#include "wafer/npy.h"

static void put(scratch *in, const char *name, wafer_dtype dtype, wafer_shape shape,
                const void *data) {
  wafer_view view = wafer_view_of(dtype, &shape, (void *)(uintptr_t)data);
  CU_ASSERT_EQUAL_FATAL(wafer_npy_write(NULL, scratch_path(in, name), &view), WAFER_OK);
}

static void orders_are_permutations(void) {
  static const uint64_t counts[] = {1, 2, 3, 17, 1000, 4097};
  for (size_t c = 0; c < WAFER_COUNT(counts); c++) {
    bool *seen = calloc(counts[c], sizeof *seen);
    uint64_t fixed = 0, other = 0;
    for (uint64_t i = 0; i < counts[c]; i++) {
      uint64_t to = wafer_permute(7, counts[c], i);
      CU_ASSERT_FATAL(to < counts[c] && !seen[to]);
      seen[to] = true;
      fixed += to == i;
      other += to == wafer_permute(8, counts[c], i);
    }
    if (counts[c] >= 1000) CU_ASSERT(fixed < 20 && other < 20);
    free(seen);
  }
}

/* Two shards; each epoch has every sample once, in an order of its own. */
static void epochs_have_every_sample_once(void) {
  scratch in = scratch_create();
  float x[20];
  uint8_t y[10];
  for (int i = 0; i < 20; i++) x[i] = (float)i;
  for (int i = 0; i < 10; i++) y[i] = (uint8_t)i;
  put(&in, "x-0.npy", WAFER_DTYPE_f32, (wafer_shape){2, {4, 2}}, x);
  put(&in, "x-1.npy", WAFER_DTYPE_f32, (wafer_shape){2, {6, 2}}, x + 8);
  put(&in, "y-0.npy", WAFER_DTYPE_u8, (wafer_shape){1, {4}}, y);
  put(&in, "y-1.npy", WAFER_DTYPE_u8, (wafer_shape){1, {6}}, y + 4);
  wafer_arena *arena = wafer_arena_create();
  wafer_dataset *d;
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(NULL, arena, in.folder, false, &d), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_dataset_samples(d), 10);
  CU_ASSERT_EQUAL(wafer_dataset_shape(d, 0).dims[0], 2);
  const wafer_gather gathers[] = {{.field = 0, .dtype = WAFER_DTYPE_f32},
                                  {.field = 1, .dtype = WAFER_DTYPE_i64, .classes = 10}};
  int same = 0;
  for (uint64_t epoch = 0; epoch < 2; epoch++) {
    uint32_t seen = 0;
    for (uint64_t n = epoch * 10; n < epoch * 10 + 10; n++) {
      float row[2];
      int64_t label;
      uint64_t at = wafer_dataset_at(d, true, 3, n);
      CU_ASSERT_EQUAL(wafer_dataset_gather(d, NULL, &gathers[0], &at, 1, row), WAFER_OK);
      CU_ASSERT_EQUAL(wafer_dataset_gather(d, NULL, &gathers[1], &at, 1, &label), WAFER_OK);
      CU_ASSERT(row[0] == 2 * (float)label && row[1] == row[0] + 1 && (uint64_t)label == at);
      seen |= 1u << label;
      same += at == wafer_dataset_at(d, true, 3, n + 10);
      CU_ASSERT_EQUAL(wafer_dataset_at(d, false, 3, n), n % 10);
    }
    CU_ASSERT_EQUAL(seen, 1023);
  }
  CU_ASSERT(same < 20);
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

static void tokens_come_in_windows(void) {
  scratch in = scratch_create();
  uint8_t one[11], two[3] = {100, 101, 102};
  for (int i = 0; i < 11; i++) one[i] = (uint8_t)i;
  put(&in, "tokens-0.npy", WAFER_DTYPE_u8, (wafer_shape){1, {11}}, one);
  put(&in, "tokens-1.npy", WAFER_DTYPE_u8, (wafer_shape){1, {3}}, two); /* too short */
  put(&in, "tokens-2.npy", WAFER_DTYPE_u8, (wafer_shape){1, {11}}, one);
  wafer_arena *arena = wafer_arena_create();
  wafer_dataset *d;
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(NULL, arena, in.folder, true, &d), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_window(d, 5), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_dataset_samples(d), 4);
  CU_ASSERT_EQUAL(wafer_dataset_fields(d), 2);
  uint64_t samples[] = {1, 3};
  int64_t x[10], y[10];
  wafer_gather g = {.field = 0, .dtype = WAFER_DTYPE_i64};
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, NULL, &g, samples, 2, x), WAFER_OK);
  g.field = 1;
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, NULL, &g, samples, 2, y), WAFER_OK);
  for (int i = 0; i < 10; i++) CU_ASSERT(x[i] == 5 + i % 5 && y[i] == 6 + i % 5);
  caught last;
  wafer_diag diag = caught_diag(&last);
  g.classes = 8; /* the second window's labels are 6 to 10, in rows 6 to 10 */
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, &diag, &g, samples, 2, y), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "row 8 has label 8, the loss has classes 0 to 7"));
  /* The first token of a shard is nobody's label; none is picked from the back, ignored or not. */
  uint64_t first = 0;
  const int16_t odd[6] = {-3, 1, 2, 3, 4, 5}, large[6] = {9, 1, 2, 3, 4, 5};
  for (int i = 0; i < 2; i++) {
    wafer_dataset *strange;
    put(&in, "odd.npy", WAFER_DTYPE_i16, (wafer_shape){1, {6}}, i ? large : odd);
    CU_ASSERT_EQUAL_FATAL(
        wafer_dataset_open(NULL, arena, scratch_path(&in, "odd.npy"), true, &strange), WAFER_OK);
    CU_ASSERT_EQUAL_FATAL(wafer_dataset_window(strange, 5), WAFER_OK);
    g = (wafer_gather){0, WAFER_DTYPE_i64, .classes = 8, .ignores = true, .ignore_index = -3};
    CU_ASSERT_EQUAL(wafer_dataset_gather(strange, &diag, &g, &first, 1, x), WAFER_BAD_INPUT);
    CU_ASSERT_STRING_EQUAL(last.text, i ? "row 0 has token 9, the model has tokens 0 to 7"
                                        : "row 0 has token -3, the model has tokens 0 to 7");
    g.field = 1;
    CU_ASSERT_EQUAL(wafer_dataset_gather(strange, &diag, &g, &first, 1, x), WAFER_OK);
  }
  wafer_dataset *short_one;
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(&diag, arena, in.folder, true, &short_one), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_dataset_window(short_one, 11), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "no shard has the 12 tokens of one window and its labels");
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

static void expect(const char *path, bool lm, const char *text) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_arena *arena = wafer_arena_create();
  wafer_dataset *d;
  CU_ASSERT_NOT_EQUAL(wafer_dataset_open(&diag, arena, path, lm, &d), WAFER_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, text));
  if (!strstr(last.text, text)) printf("\n'%s' is not '%s'\n", last.text, text);
  wafer_arena_destroy(arena);
}

static void what_does_not_fit_is_named(void) {
  scratch in = scratch_create();
  float x[12] = {0};
  char path[1100];
  put(&in, "a.npy", WAFER_DTYPE_f32, (wafer_shape){2, {4, 3}}, x);
  put(&in, "b.npy", WAFER_DTYPE_f32, (wafer_shape){1, {5}}, x);
  put(&in, "c.npy", WAFER_DTYPE_f32, (wafer_shape){0, {0}}, x);
  snprintf(path, sizeof path, "%s/a.npy,%s/b.npy", in.folder, in.folder);
  expect(path, false, "5 of f32, which does not fit 4x3 of f32 in");
  snprintf(path, sizeof path, "%s/a.npy,%s/c.npy", in.folder, in.folder);
  expect(path, false, "a scalar holds no samples");
  snprintf(path, sizeof path, "%s/a.npy", in.folder);
  expect(path, false, "names one file");
  expect(path, true, "tokens are integers of one dim, found f32 of 2 dims");
  expect(in.folder, false, "has 0 files x-*.npy");
  expect(in.folder, true, "has no tokens-*.npy");
  put(&in, "x-1.npy", WAFER_DTYPE_f32, (wafer_shape){2, {4, 3}}, x); /* labels of another shard */
  put(&in, "y-2.npy", WAFER_DTYPE_f32, (wafer_shape){1, {4}}, x);
  expect(in.folder, false, "has x-1.npy and y-2.npy, which are no shard");
  scratch_remove(&in);
}

static void labels_out_of_range_are_named(void) {
  scratch in = scratch_create();
  caught last;
  wafer_diag diag = caught_diag(&last);
  char path[1100];
  int32_t y[] = {0, 9, 10, -100};
  put(&in, "y.npy", WAFER_DTYPE_i32, (wafer_shape){1, {4}}, y);
  snprintf(path, sizeof path, "%s/y.npy,%s/y.npy", in.folder, in.folder);
  wafer_arena *arena = wafer_arena_create();
  wafer_dataset *d;
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(&diag, arena, path, false, &d), WAFER_OK);
  wafer_gather g = {.field = 1, .dtype = WAFER_DTYPE_i64, .classes = 10};
  int64_t to[4];
  uint64_t samples[] = {0, 1, 2, 3};
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, &diag, &g, samples, 2, to), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, &diag, &g, samples, 3, to), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "row 2 has label 10, the loss has classes 0 to 9; "
                                    "--ignore-index names labels that do not count");
  g.ignores = true;
  g.ignore_index = -100;
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, &diag, &g, samples + 3, 1, to), WAFER_OK);
  CU_ASSERT_EQUAL(to[0], -100);
  g = (wafer_gather){.field = 1, .dtype = WAFER_DTYPE_u8};
  CU_ASSERT_EQUAL(wafer_dataset_gather(d, &diag, &g, samples + 3, 1, to), WAFER_BAD_INPUT);
  CU_ASSERT_STRING_EQUAL(last.text, "row 3 has -100, which the model's input of u8 does not hold");
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

/* In order, with jumps back and ahead, and a failure that is told when its turn comes. */
static void the_feed_gives_what_is_asked(void) {
  scratch in = scratch_create();
  caught last;
  wafer_diag diag = caught_diag(&last);
  char path[1100];
  int16_t x[50];
  for (int i = 0; i < 50; i++) x[i] = (int16_t)i;
  put(&in, "x.npy", WAFER_DTYPE_i16, (wafer_shape){1, {50}}, x);
  snprintf(path, sizeof path, "%s/x.npy,%s/x.npy", in.folder, in.folder);
  wafer_arena *arena = wafer_arena_create();
  wafer_dataset *d;
  wafer_feed *feed;
  CU_ASSERT_EQUAL_FATAL(wafer_dataset_open(NULL, arena, path, false, &d), WAFER_OK);
  const wafer_gather fields[] = {{.field = 0, .dtype = WAFER_DTYPE_f32},
                                 {.field = 1, .dtype = WAFER_DTYPE_i32, .classes = 46}};
  wafer_feed_options o = {.dataset = d, .fields = fields, .micro_batch = 5, .diag = &diag};
  CU_ASSERT_EQUAL_FATAL(wafer_feed_create(&o, &feed), WAFER_OK);
  for (uint64_t i = 0; i < 300; i++) {
    uint64_t number = i < 9 ? i * 5 : i % 3 == 0 ? i % 40 : (i % 3) * 7;
    const void *const *got;
    CU_ASSERT_EQUAL_FATAL(wafer_feed_take(feed, number, &got), WAFER_OK);
    for (uint64_t j = 0; j < 5; j++) {
      CU_ASSERT_EQUAL(((const float *)got[0])[j], (float)(number + j));
      CU_ASSERT_EQUAL(((const int32_t *)got[1])[j], (int32_t)(number + j));
    }
  }
  const void *const *got;
  CU_ASSERT_EQUAL(last.count, 0);
  CU_ASSERT_EQUAL(wafer_feed_take(feed, 45, &got), WAFER_BAD_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "row 46 has label 46"));
  wafer_feed_destroy(feed);
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

CU_TestInfo tests_dataset[] = {
    {"orders are permutations", orders_are_permutations},
    {"epochs have every sample once", epochs_have_every_sample_once},
    {"tokens come in windows", tokens_come_in_windows},
    {"what does not fit is named", what_does_not_fit_is_named},
    {"labels out of range are named", labels_out_of_range_are_named},
    {"the feed gives what is asked", the_feed_gives_what_is_asked},
    CU_TEST_INFO_NULL,
};

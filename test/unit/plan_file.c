#define _GNU_SOURCE /* memmem */
#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "relay_plan.h"
#include "scratch.h"

static scratch in;
static wafer_arena *arena;
static relay_plan relay;
static const wafer_plan *const plan = &relay.plan;
static caught last;
static wafer_diag diag;

static void begin(void) {
  in = scratch_create();
  diag = caught_diag(&last);
  arena = wafer_arena_create();
  const wafer_machine *machine;
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&diag, arena, "small16", &machine), WAFER_OK);
  CU_ASSERT_FATAL(relay_init(&relay, machine, arena, WAFER_MODE_pipelined));
  relay.plan.mlir = "module {\n}\n";
  relay.plan.mlir_bytes = strlen(relay.plan.mlir);
}

static void end(void) {
  wafer_arena_destroy(arena);
  scratch_remove(&in);
}

/* The plan's file in memory, malloc'ed. */
static char *bytes_of(const wafer_plan *written, size_t *bytes) {
  const char *path = scratch_path(&in, "made.wplan");
  CU_ASSERT_EQUAL_FATAL(wafer_plan_write(&diag, written, path), WAFER_OK);
  long size = scratch_load(path, NULL, 0);
  CU_ASSERT_FATAL(size > 0);
  char *text = malloc((size_t)size);
  CU_ASSERT_EQUAL(scratch_load(path, text, (size_t)size), size);
  *bytes = (size_t)size;
  return text;
}

/* Opens these bytes and checks every digest; the first failure. */
static wafer_status check(const char *text, size_t bytes) {
  const wafer_plan *opened;
  const char *path = scratch_save(&in, "p.wplan", text, bytes);
  last.count = 0;
  wafer_status status = wafer_plan_open(&diag, path, &opened);
  CU_ASSERT_EQUAL(status == WAFER_OK, opened != NULL);
  if (status == WAFER_OK) status = wafer_plan_verify(&diag, opened);
  wafer_plan_close(opened);
  CU_ASSERT_EQUAL(last.count, status != WAFER_OK);
  return status;
}

static void test_open_gives_what_was_written(void) {
  begin();
  const wafer_plan *opened;
  const char *path = scratch_path(&in, "p.wplan");
  char *before, *after;
  size_t before_bytes, after_bytes;
  CU_ASSERT_EQUAL_FATAL(wafer_plan_write(&diag, plan, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(&diag, path, &opened), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_plan_print_xml(&diag, plan, &before, &before_bytes), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_plan_print_xml(&diag, opened, &after, &after_bytes), WAFER_OK);
  CU_ASSERT_STRING_EQUAL(before, after);
  CU_ASSERT(before_bytes == strlen(before) && after_bytes == before_bytes);
  CU_ASSERT_EQUAL(opened->mlir_bytes, plan->mlir_bytes);
  CU_ASSERT(!plan->mlir_bytes || !memcmp(opened->mlir, plan->mlir, plan->mlir_bytes));
  CU_ASSERT_EQUAL_FATAL(wafer_weights_count(opened->weights), wafer_weights_count(plan->weights));
  for (size_t i = 0; i < wafer_weights_count(plan->weights); i++) {
    const wafer_weight *a = wafer_weights_at(plan->weights, i),
                       *b = wafer_weights_at(opened->weights, i);
    CU_ASSERT_STRING_EQUAL(a->name, b->name);
    CU_ASSERT(a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes));
  }
  free(before);
  free(after);
  wafer_plan_close(opened);
  CU_ASSERT_EQUAL(last.count, 0);
  end();
}

static void test_equal_plans_are_equal_bytes(void) {
  begin();
  size_t first_bytes, second_bytes;
  char *first = bytes_of(plan, &first_bytes), *second;
  wafer_plan *copy = WAFER_NEW(arena, wafer_plan, 1);
  *copy = *plan;
  second = bytes_of(copy, &second_bytes);
  CU_ASSERT(first_bytes == second_bytes && !memcmp(first, second, first_bytes));
  CU_ASSERT_EQUAL(check(first, first_bytes), WAFER_OK);
  free(first);
  free(second);
  end();
}

static void test_every_changed_byte_is_found(void) {
  begin();
  size_t bytes, missed = 0;
  char *text = bytes_of(plan, &bytes);
  for (size_t i = 0; i < bytes; i++) {
    char kept = text[i];
    text[i] = (char)(kept ^ 1 << i % 8);
    if (check(text, bytes) != WAFER_BAD_INPUT)
      printf("\n  byte %zu of %zu: not found\n", i, bytes), missed++;
    text[i] = kept;
  }
  CU_ASSERT_EQUAL(missed, 0);
  free(text);
  end();
}

static void test_truncated_is_refused(void) {
  begin();
  size_t bytes;
  char *text = bytes_of(plan, &bytes);
  for (size_t size = 0; size < bytes; size++) CU_ASSERT_EQUAL(check(text, size), WAFER_BAD_INPUT);
  text = realloc(text, bytes + 1);
  text[bytes] = 0;
  CU_ASSERT_EQUAL(check(text, bytes + 1), WAFER_BAD_INPUT);
  free(text);
  end();
}

static void test_other_files_are_refused(void) {
  begin();
  static const char *const others[] = {"", "PK",
                                       "not a plan at all, but longer than an end record is"};
  for (size_t i = 0; i < WAFER_COUNT(others); i++)
    CU_ASSERT_EQUAL(check(others[i], strlen(others[i])), WAFER_BAD_INPUT);
  const wafer_plan *opened;
  CU_ASSERT_EQUAL(wafer_plan_open(&diag, scratch_path(&in, "none"), &opened), WAFER_IO);
  CU_ASSERT_EQUAL(wafer_plan_open(&diag, in.folder, &opened), WAFER_IO);
  CU_ASSERT_PTR_NULL(opened);
  end();
}

/* Only the changed weight is refused, and only when it is touched. */
static void test_weights_are_checked_at_first_touch(void) {
  begin();
  size_t bytes;
  char *text = bytes_of(plan, &bytes);
  const wafer_weight *weight = wafer_weights_at(plan->weights, 0);
  char *data = memmem(text, bytes, weight->data, weight->bytes);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data);
  data[weight->bytes - 1] ^= 4;
  const wafer_plan *opened;
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(&diag, scratch_save(&in, "p.wplan", text, bytes), &opened),
                        WAFER_OK);
  for (uint32_t i = 1; i < wafer_weights_count(opened->weights); i++)
    CU_ASSERT_EQUAL(wafer_plan_touch_weight(&diag, opened, i), WAFER_OK);
  CU_ASSERT_EQUAL(last.count, 0);
  for (int again = 0; again < 2; again++) {
    CU_ASSERT_EQUAL(wafer_plan_touch_weight(&diag, opened, 0), WAFER_BAD_INPUT);
    CU_ASSERT(strstr(last.text, weight->name) != NULL);
  }
  CU_ASSERT_EQUAL(wafer_plan_verify(&diag, opened), WAFER_BAD_INPUT);
  wafer_plan_close(opened);
  free(text);
  end();
}

static void test_absent_weights_open_but_do_not_run(void) {
  begin();
  wafer_weight *weight = wafer_weights_at(plan->weights, 0);
  weight->data = NULL;
  CU_ASSERT_EQUAL(wafer_plan_touch_weight(&diag, plan, 0), WAFER_BAD_INPUT);
  const wafer_plan *opened;
  const char *path = scratch_path(&in, "p.wplan");
  CU_ASSERT_EQUAL(wafer_plan_write(&diag, plan, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(&diag, path, &opened), WAFER_OK);
  CU_ASSERT_EQUAL(wafer_plan_verify(&diag, opened), WAFER_OK);
  CU_ASSERT_PTR_NULL(wafer_weights_at(opened->weights, 0)->data);
  last.count = 0;
  CU_ASSERT_EQUAL(wafer_plan_touch_weight(&diag, opened, 0), WAFER_BAD_INPUT);
  CU_ASSERT(last.count == 1 && strstr(last.text, "is absent"));
  wafer_plan_close(opened);
  end();
}

static void *touch_all(void *self) {
  const wafer_plan *opened = self;
  uintptr_t failed = 0;
  for (int again = 0; again < 100; again++)
    for (uint32_t i = 0; i < wafer_weights_count(opened->weights); i++)
      failed += wafer_plan_touch_weight(NULL, opened, i) != WAFER_OK;
  return (void *)failed;
}

static void test_threads_touch_at_the_same_time(void) {
  begin();
  const wafer_plan *opened;
  pthread_t threads[4];
  void *failed;
  const char *path = scratch_path(&in, "p.wplan");
  CU_ASSERT_EQUAL(wafer_plan_write(&diag, plan, path), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_plan_open(&diag, path, &opened), WAFER_OK);
  for (int t = 0; t < 4; t++)
    CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[t], NULL, touch_all, (void *)(uintptr_t)opened),
                          0);
  for (int t = 0; t < 4; t++) {
    pthread_join(threads[t], &failed);
    CU_ASSERT_PTR_NULL(failed);
  }
  wafer_plan_close(opened);
  end();
}

static void test_unwritable_is_reported(void) {
  begin();
  CU_ASSERT_EQUAL(wafer_plan_write(&diag, plan, scratch_path(&in, "no/such/folder.wplan")),
                  WAFER_IO);
  CU_ASSERT_EQUAL(wafer_plan_write(&diag, plan, "/dev/full"), WAFER_IO);
  CU_ASSERT_EQUAL(last.count, 2);
  CU_ASSERT_EQUAL(scratch_entries(&in, 0), 0);
  end();
}

static void test_memory_runs_out(void) {
  begin();
  size_t bytes;
  char *text = bytes_of(plan, &bytes);
  const char *path = scratch_save(&in, "p.wplan", text, bytes);
  for (size_t n = 1;; n++) {
    const wafer_plan *opened;
    wafer_arena_fail_after(n);
    wafer_status status = wafer_plan_open(&diag, path, &opened);
    wafer_arena_fail_after(0);
    wafer_plan_close(opened);
    if (status == WAFER_NO_MEMORY) continue;
    CU_ASSERT_EQUAL(status, WAFER_OK);
    break;
  }
  free(text);
  end();
}

CU_TestInfo tests_plan_file[] = {
    {"open gives what was written", test_open_gives_what_was_written},
    {"equal plans are equal bytes", test_equal_plans_are_equal_bytes},
    {"every changed byte is found", test_every_changed_byte_is_found},
    {"a truncated file is refused", test_truncated_is_refused},
    {"other files are refused", test_other_files_are_refused},
    {"weights are checked at first touch", test_weights_are_checked_at_first_touch},
    {"absent weights open but do not run", test_absent_weights_open_but_do_not_run},
    {"threads touch at the same time", test_threads_touch_at_the_same_time},
    {"an unwritable file is reported", test_unwritable_is_reported},
    {"memory runs out", test_memory_runs_out},
    CU_TEST_INFO_NULL,
};

#include "wafer/arena.h"

#include <CUnit/CUnit.h>
#include <stdint.h>
#include <string.h>

static int is_zero(const unsigned char *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (data[i]) return 0;
  return 1;
}

static void memory_is_zeroed_aligned_and_apart(void) {
  static const size_t sizes[] = {1, 15, 16, 17, 0, 4000, 4100, 100000, 3, 5000000, 16000, 8};
  unsigned char *got[WAFER_COUNT(sizes)];
  wafer_arena *arena = wafer_arena_create();
  for (size_t i = 0; i < WAFER_COUNT(sizes); i++) {
    got[i] = wafer_arena_alloc(arena, sizes[i], 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(got[i]);
    CU_ASSERT_EQUAL((uintptr_t)got[i] % 16, 0);
    CU_ASSERT(is_zero(got[i], sizes[i]));
    memset(got[i], (int)i + 1, sizes[i]);
  }
  for (size_t i = 0; i < WAFER_COUNT(sizes); i++)
    for (size_t j = 0; j < sizes[i]; j += 97) CU_ASSERT_EQUAL(got[i][j], i + 1);
  CU_ASSERT(wafer_arena_bytes(arena) >= 5124160);
  wafer_arena_destroy(arena);
}

static void many_small_ones(void) {
  wafer_arena *arena = wafer_arena_create();
  uint32_t *first = WAFER_NEW(arena, uint32_t, 1);
  *first = 7;
  for (uint32_t i = 0; i < 200000; i++) {
    uint32_t *one = WAFER_NEW(arena, uint32_t, 3);
    if (!one || one[0] || one[2]) CU_FAIL_FATAL("not zeroed");
    one[0] = one[2] = i + 1;
  }
  CU_ASSERT_EQUAL(*first, 7);
  wafer_arena_destroy(arena);
}

static void overflow_is_refused(void) {
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_PTR_NULL(wafer_arena_alloc(arena, SIZE_MAX / 2, 3));
  CU_ASSERT_PTR_NULL(wafer_arena_alloc(arena, SIZE_MAX, 1));
  CU_ASSERT_PTR_NULL(wafer_arena_alloc(arena, SIZE_MAX - 24, 1));
  CU_ASSERT_PTR_NULL(wafer_arena_strndup(arena, "x", SIZE_MAX));
  CU_ASSERT_PTR_NOT_NULL(wafer_arena_alloc(arena, 0, SIZE_MAX));
  wafer_arena_destroy(arena);
  wafer_arena_destroy(NULL);
}

static void strings_are_copied(void) {
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_STRING_EQUAL(wafer_arena_strdup(arena, "hello"), "hello");
  CU_ASSERT_STRING_EQUAL(wafer_arena_strdup(arena, ""), "");
  CU_ASSERT_STRING_EQUAL(wafer_arena_strndup(arena, "hello", 2), "he");
  CU_ASSERT_STRING_EQUAL(wafer_arena_printf(arena, "%d-%s", 5, "x"), "5-x");
  CU_ASSERT_EQUAL(memcmp(wafer_arena_copy(arena, "a\0b", 3), "a\0b", 3), 0);
  CU_ASSERT_PTR_NULL(wafer_arena_strdup(arena, NULL));
  CU_ASSERT_PTR_NULL(wafer_arena_strndup(arena, NULL, 1));
  CU_ASSERT_PTR_NULL(wafer_arena_copy(arena, NULL, 1));
  wafer_arena_destroy(arena);
}

static char order[4];
static void note(void *object) {
  strncat(order, object, 1);
}

static void what_was_deferred_runs_latest_first(void) {
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT(wafer_arena_defer(arena, note, "a"));
  CU_ASSERT(wafer_arena_defer(arena, note, "b"));
  wafer_arena_fail_after(1);
  CU_ASSERT_FALSE(wafer_arena_defer(arena, note, "c"));
  wafer_arena_destroy(arena);
  CU_ASSERT_STRING_EQUAL(order, "ba");
}

static void the_nth_allocation_fails_once(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_arena_fail_after(3);
  CU_ASSERT_PTR_NOT_NULL(wafer_arena_alloc(arena, 1, 1));
  CU_ASSERT_PTR_NOT_NULL(wafer_arena_strdup(arena, "x"));
  CU_ASSERT_PTR_NULL(wafer_arena_printf(arena, "x"));
  CU_ASSERT_PTR_NOT_NULL(wafer_arena_printf(arena, "x"));
  wafer_arena_fail_after(1);
  CU_ASSERT_PTR_NULL(wafer_arena_create());
  wafer_arena_fail_after(1);
  wafer_arena_fail_after(0);
  CU_ASSERT_PTR_NOT_NULL(wafer_arena_alloc(arena, 1, 1));
  wafer_arena_destroy(arena);
}

/* Lists keep what they have, also when there is no memory for more. */
static void lists_grow(void) {
  wafer_arena *arena = wafer_arena_create();
  uint32_t *list = NULL, count = 0, room = 0;
  for (; count < 1000; count++) {
    CU_ASSERT_FATAL(WAFER_GROW(arena, list, count, room, 3));
    list[count] = count;
  }
  CU_ASSERT_EQUAL(room, 1536);
  for (uint32_t i = 0; i < count; i++) CU_ASSERT_EQUAL(list[i], i);
  const uint32_t *before = list;
  count = room;
  wafer_arena_fail_after(1);
  CU_ASSERT(!WAFER_GROW(arena, list, count, room, 3));
  wafer_arena_fail_after(0);
  CU_ASSERT(list == before && room == 1536);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_arena[] = {
    {"memory is zeroed, aligned and apart", memory_is_zeroed_aligned_and_apart},
    {"many small ones", many_small_ones},
    {"overflow is refused", overflow_is_refused},
    {"lists grow", lists_grow},
    {"strings are copied", strings_are_copied},
    {"what was deferred runs latest first", what_was_deferred_runs_latest_first},
    {"the nth allocation fails once", the_nth_allocation_fails_once},
    CU_TEST_INFO_NULL,
};

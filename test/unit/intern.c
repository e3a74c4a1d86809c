/* passes/ir/intern.c: exact keys of any length. */
#include "passes/ir/intern.h"

#include <CUnit/CUnit.h>
#include <stdint.h>
#include <string.h>

static void keys_are_exact(void) {
  enum { COUNT = 3000 };
  wafer_arena *arena = wafer_arena_create();
  intern *table = intern_create(arena);
  static char things[COUNT];
  for (uint32_t pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < COUNT; i++) {
      uint64_t key[3] = {i / 50, i % 50, 7};
      void **slot = intern_slot(table, key, sizeof key);
      CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
      CU_ASSERT_PTR_EQUAL(*slot, pass ? &things[i] : NULL);
      *slot = &things[i];
    }
  wafer_arena_destroy(arena);
}

/* A key that begins like another one, or goes on with zeros, is another key. */
static void lengths_count(void) {
  wafer_arena *arena = wafer_arena_create();
  intern *table = intern_create(arena);
  static const char text[] = "abc\0\0\0\0\0\0";
  for (size_t bytes = 1; bytes < sizeof text; bytes++) {
    void **slot = intern_slot(table, text, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(slot);
    CU_ASSERT_PTR_NULL(*slot);
    *slot = (void *)(uintptr_t)&text[bytes];
  }
  CU_ASSERT_PTR_EQUAL(*intern_slot(table, "abc", 3), &text[3]);
  wafer_arena_destroy(arena);
}

static void a_failed_slot_changes_nothing(void) {
  wafer_arena *arena = wafer_arena_create();
  intern *table = intern_create(arena);
  static char thing;
  uint32_t failed = 0;
  for (uint64_t key = 0; key < 1000; key++) {
    if (key % 3 == 0) wafer_arena_fail_after(1);
    void **slot = intern_slot(table, &key, sizeof key);
    wafer_arena_fail_after(0);
    failed += !slot;
    if (!slot) slot = intern_slot(table, &key, sizeof key);
    CU_ASSERT_FATAL(slot && !*slot);
    *slot = &thing;
  }
  CU_ASSERT(failed > 0);
  for (uint64_t key = 0; key < 1000; key++)
    CU_ASSERT_PTR_EQUAL(*intern_slot(table, &key, sizeof key), &thing);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_intern[] = {
    {"keys are exact", keys_are_exact},
    {"lengths count", lengths_count},
    {"a failed slot changes nothing", a_failed_slot_changes_nothing},
    CU_TEST_INFO_NULL,
};

#include "wafer/weights.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

static const wafer_shape pair = {1, {2}};

static void names_find_their_weight(void) {
  enum { COUNT = 5000 };
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  wafer_weight *first = wafer_weights_add(weights, "w0", WAFER_DTYPE_f32, &pair, NULL);
  for (int i = 1; i < COUNT; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    CU_ASSERT_PTR_NOT_NULL(wafer_weights_add(weights, name, WAFER_DTYPE_f16, &pair, &pair));
  }
  CU_ASSERT_EQUAL(wafer_weights_count(weights), COUNT);
  CU_ASSERT_PTR_EQUAL(wafer_weights_find(weights, "w0"), first);
  CU_ASSERT_EQUAL(first->bytes, 8);
  for (int i = 0; i < COUNT; i++) {
    char name[16];
    snprintf(name, sizeof name, "w%d", i);
    CU_ASSERT_PTR_EQUAL(wafer_weights_find(weights, name), wafer_weights_at(weights, (size_t)i));
    CU_ASSERT_STRING_EQUAL(wafer_weights_at(weights, (size_t)i)->name, name);
  }
  CU_ASSERT_PTR_NULL(wafer_weights_find(weights, "w5000"));
  CU_ASSERT_PTR_NULL(wafer_weights_at(weights, COUNT));
  wafer_arena_destroy(arena);
}

static void a_taken_name_is_numbered(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  static const char *const in[] = {"a", "a", "a_3", "a", "", ""};
  static const char *const want[] = {"a", "a_2", "a_3", "a_4", "", "_2"};
  for (size_t i = 0; i < WAFER_COUNT(in); i++)
    CU_ASSERT_STRING_EQUAL(wafer_weights_add(weights, in[i], WAFER_DTYPE_f32, &pair, NULL)->name,
                           want[i]);
  for (int i = 0; i < 100000; i++) wafer_weights_add(weights, "b", WAFER_DTYPE_f32, &pair, NULL);
  CU_ASSERT_PTR_NOT_NULL(wafer_weights_find(weights, "b_100000"));
  wafer_arena_destroy(arena);
}

static void a_digest_is_of_the_data(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  uint8_t data[2] = {'h', 'i'}, other[2] = {'h', 'j'};
  wafer_weight *a = wafer_weights_add(weights, "a", WAFER_DTYPE_u8, &pair, data);
  wafer_weight *b = wafer_weights_add(weights, "b", WAFER_DTYPE_i8, &pair, data);
  wafer_weight *c = wafer_weights_add(weights, "c", WAFER_DTYPE_u8, &pair, other);
  wafer_weight *absent = wafer_weights_add(weights, "d", WAFER_DTYPE_u8, &pair, NULL);
  CU_ASSERT_EQUAL(a->digest, 0);
  CU_ASSERT_EQUAL(wafer_weight_digest(a), wafer_weight_digest(b));
  CU_ASSERT_NOT_EQUAL(wafer_weight_digest(a), wafer_weight_digest(c));
  CU_ASSERT_EQUAL(a->digest, wafer_weight_digest(a));
  CU_ASSERT_EQUAL(wafer_weight_digest(absent), 0);
  wafer_view view = wafer_weight_view(c);
  CU_ASSERT_EQUAL(wafer_element_i64(view.dtype, view.data, 1), 'j');
  wafer_arena_destroy(arena);
}

/* Bytes alike of another type or shape are other data; what the model brings is never shared. */
static void computed_data_is_shared(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_weights *weights = wafer_weights_create(arena);
  static const wafer_shape column = {2, {2, 1}};
  uint8_t data[2] = {1, 2}, same[2] = {1, 2}, other[2] = {2, 1};
  wafer_weight *given = wafer_weights_add(weights, "given", WAFER_DTYPE_u8, &pair, data);
  wafer_weight *first = wafer_weights_share(weights, "a", WAFER_DTYPE_u8, &pair, data);
  CU_ASSERT_PTR_NOT_EQUAL(first, given);
  CU_ASSERT_PTR_EQUAL(wafer_weights_share(weights, "b", WAFER_DTYPE_u8, &pair, same), first);
  CU_ASSERT_PTR_NOT_EQUAL(wafer_weights_share(weights, "c", WAFER_DTYPE_i8, &pair, same), first);
  CU_ASSERT_PTR_NOT_EQUAL(wafer_weights_share(weights, "d", WAFER_DTYPE_u8, &column, same), first);
  CU_ASSERT_PTR_NOT_EQUAL(wafer_weights_share(weights, "e", WAFER_DTYPE_u8, &pair, other), first);
  CU_ASSERT_STRING_EQUAL(first->name, "a");
  CU_ASSERT_EQUAL(wafer_weights_count(weights), 5);
  wafer_arena_destroy(arena);
}

static void a_failed_add_changes_nothing(void) {
  wafer_arena *arena = wafer_arena_create();
  wafer_arena_fail_after(2);
  CU_ASSERT_PTR_NULL(wafer_weights_create(arena));
  wafer_weights *weights = wafer_weights_create(arena);
  for (size_t count = 0; count < 40; count++)
    for (size_t n = 1;; n++) {
      wafer_arena_fail_after(n);
      wafer_weight *added = wafer_weights_add(weights, "w", WAFER_DTYPE_f32, &pair, NULL);
      CU_ASSERT_EQUAL(wafer_weights_count(weights), count + (added != NULL));
      if (added) break;
    }
  wafer_arena_fail_after(0);
  CU_ASSERT_EQUAL(wafer_weights_count(weights), 40);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_weights[] = {
    {"names find their weight", names_find_their_weight},
    {"a taken name is numbered", a_taken_name_is_numbered},
    {"a digest is of the data", a_digest_is_of_the_data},
    {"computed data is shared", computed_data_is_shared},
    {"a failed add changes nothing", a_failed_add_changes_nothing},
    CU_TEST_INFO_NULL,
};

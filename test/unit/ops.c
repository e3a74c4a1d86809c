/* The registry: every row obeys the laws of ops.def, names map both ways, attributes are found. */
#include "wafer/ops.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "scratch.h"

static void test_rows(void) {
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++) {
    const wafer_op_info *info = wafer_op_get((wafer_op)op);
    bool source = (info->traits & WAFER_TRAIT_SOURCE) != 0,
         map = (info->traits & WAFER_TRAIT_MAP) != 0;
    CU_ASSERT(info->least <= info->most);
    CU_ASSERT(info->most <= WAFER_OP_MAX_OPERANDS);
    CU_ASSERT(source == (info->most == 0));
    CU_ASSERT(!(info->traits & WAFER_TRAIT_COMMUTES) || info->least >= 2);
    CU_ASSERT(!map || info->family == WAFER_FAMILY_map);
    CU_ASSERT((uint32_t)info->rate < WAFER_RATE_COUNT);
    CU_ASSERT(info->attr_count <= WAFER_OP_MAX_ATTRS);
    for (uint32_t i = 0; i < info->attr_count; i++)
      for (uint32_t j = 0; j < i; j++) CU_ASSERT(info->attrs[i] != info->attrs[j]);
  }
}

static void test_op_names(void) {
  for (uint32_t op = 0; op < WAFER_OP_COUNT; op++) {
    const wafer_op_info *info = wafer_op_get((wafer_op)op);
    CU_ASSERT_EQUAL(wafer_op_by_name(info->name), (wafer_op)op); /* so names are unique */
  }
  static const char *const unknown[] = {NULL, "", "Add", "addd", "ad", "conv ", "none"};
  for (size_t i = 0; i < WAFER_COUNT(unknown); i++)
    CU_ASSERT_EQUAL(wafer_op_by_name(unknown[i]), WAFER_OP_COUNT);
}

static void test_other_names(void) {
  for (uint32_t id = 0; id < WAFER_ATTR_COUNT; id++)
    CU_ASSERT_EQUAL(wafer_attr_by_name(wafer_attr_name((wafer_attr_id)id)), (wafer_attr_id)id);
  CU_ASSERT_EQUAL(wafer_attr_by_name("stride"), WAFER_ATTR_COUNT);
  CU_ASSERT_EQUAL(wafer_attr_by_name(NULL), WAFER_ATTR_COUNT);
  for (uint32_t f = 0; f <= WAFER_FAMILY_none; f++)
    CU_ASSERT_EQUAL(wafer_family_by_name(wafer_family_name((wafer_family)f)), (wafer_family)f);
  CU_ASSERT_EQUAL(wafer_family_by_name("gem"), WAFER_FAMILY_none);
  CU_ASSERT_EQUAL(wafer_family_by_name(NULL), WAFER_FAMILY_none);
  for (uint32_t a = 0; a < WAFER_RATE_COUNT; a++)
    for (uint32_t b = 0; b < a; b++)
      CU_ASSERT(strcmp(wafer_rate_name((wafer_rate)a), wafer_rate_name((wafer_rate)b)) != 0);
}

static void test_columns(void) {
  const wafer_op_info *resize = wafer_op_get(WAFER_OP_resize);
  CU_ASSERT_EQUAL(resize->attr_count, 7);
  CU_ASSERT_EQUAL(resize->attrs[0], WAFER_ATTR_shape);
  CU_ASSERT_EQUAL(resize->attrs[6], WAFER_ATTR_exclude_outside);
  CU_ASSERT_EQUAL(wafer_op_get(WAFER_OP_constant)->attr_count, 1);
  CU_ASSERT_EQUAL(wafer_op_get(WAFER_OP_matmul)->attr_count, 0);
  CU_ASSERT_EQUAL(wafer_op_get(WAFER_OP_conv)->most, 3);
  CU_ASSERT_EQUAL(wafer_op_get(WAFER_OP_conv)->family, WAFER_FAMILY_conv);
  CU_ASSERT_EQUAL(wafer_op_get(WAFER_OP_batch_norm)->family, WAFER_FAMILY_none);
  CU_ASSERT(wafer_op_is(WAFER_OP_add, WAFER_TRAIT_MAP | WAFER_TRAIT_COMMUTES));
  CU_ASSERT(!wafer_op_is(WAFER_OP_sub, WAFER_TRAIT_MAP | WAFER_TRAIT_COMMUTES));
  CU_ASSERT_EQUAL(wafer_attr_kind_of(WAFER_ATTR_epsilon), WAFER_ATTR_KIND_float);
  CU_ASSERT_EQUAL(wafer_attr_kind_of(WAFER_ATTR_value), WAFER_ATTR_KIND_data);
}

static void test_attributes(void) {
  static const int64_t pads[] = {1, 2};
  static const double scales[] = {0.5};
  const wafer_attr list[] = {
      {.id = WAFER_ATTR_axis, .i = -3},
      {.id = WAFER_ATTR_epsilon, .f = 0.25},
      {.id = WAFER_ATTR_mode, .s = "edge"},
      {.id = WAFER_ATTR_pads, .ints = {2, pads}},
      {.id = WAFER_ATTR_scales, .floats = {1, scales}},
  };
  const wafer_attrs attrs = {WAFER_COUNT(list), list};
  uint32_t count = 0;
  CU_ASSERT_EQUAL(wafer_attr_int(&attrs, WAFER_ATTR_axis), -3);
  CU_ASSERT_EQUAL(wafer_attr_float(&attrs, WAFER_ATTR_epsilon), 0.25);
  CU_ASSERT_STRING_EQUAL(wafer_attr_string(&attrs, WAFER_ATTR_mode), "edge");
  CU_ASSERT(wafer_attr_ints(&attrs, WAFER_ATTR_pads, &count) == pads && count == 2);
  CU_ASSERT(wafer_attr_floats(&attrs, WAFER_ATTR_scales, &count) == scales && count == 1);
  CU_ASSERT_PTR_NULL(wafer_attr_find(&attrs, WAFER_ATTR_keepdims));
  CU_ASSERT_PTR_NULL(wafer_attr_find(NULL, WAFER_ATTR_axis));
}

/* ARCHITECTURE.md says how many core ops and ONNX operators there are. */
static void test_documented_counts(void) {
  static const char *const onnx[] = {
#define ONNX_IN(domain, type, since, least, most, how, op) domain "." #type,
#include "../../frontend/onnx.def"
  };
  static char document[32768];
  char sentence[64];
  uint32_t operators = 1;
  for (size_t i = 1; i < WAFER_COUNT(onnx); i++) operators += strcmp(onnx[i - 1], onnx[i]) != 0;
  long bytes = scratch_load(WAFER_SOURCE_DIR "/ARCHITECTURE.md", document, sizeof document - 1);
  CU_ASSERT_FATAL(bytes > 0 && bytes < (long)sizeof document - 1);
  snprintf(sentence, sizeof sentence, "has %d core ops; the %u ONNX operators", WAFER_OP_COUNT,
           operators);
  CU_ASSERT_PTR_NOT_NULL(strstr(document, sentence));
}

CU_TestInfo tests_ops[] = {
    {"rows", test_rows},
    {"op names", test_op_names},
    {"other names", test_other_names},
    {"columns", test_columns},
    {"attributes", test_attributes},
    {"counts in the documents", test_documented_counts},
    CU_TEST_INFO_NULL,
};

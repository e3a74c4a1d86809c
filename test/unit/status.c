#include "wafer/status.h"

#include <CUnit/CUnit.h>

/* The codes are exit codes that scripts rely on. */
static void codes_are_the_documented_ones(void) {
  CU_ASSERT_EQUAL(WAFER_OK, 0);
  CU_ASSERT_EQUAL(WAFER_USAGE, 1);
  CU_ASSERT_EQUAL(WAFER_BAD_INPUT, 2);
  CU_ASSERT_EQUAL(WAFER_UNSUPPORTED, 3);
  CU_ASSERT_EQUAL(WAFER_NO_FIT, 4);
  CU_ASSERT_EQUAL(WAFER_TRAP, 5);
  CU_ASSERT_EQUAL(WAFER_DIFFER, 6);
  CU_ASSERT_EQUAL(WAFER_IO, 7);
  CU_ASSERT_EQUAL(WAFER_NO_MEMORY, 8);
  CU_ASSERT_EQUAL(WAFER_INTERNAL, 9);
}

static void every_code_has_a_sentence(void) {
  for (int code = 0; code <= 9; code++)
    CU_ASSERT_STRING_NOT_EQUAL(wafer_status_text((wafer_status)code), "unknown status");
  CU_ASSERT_STRING_EQUAL(wafer_status_text((wafer_status)10), "unknown status");
}

CU_TestInfo tests_status[] = {
    {"codes are the documented ones", codes_are_the_documented_ones},
    {"every code has a sentence", every_code_has_a_sentence},
    CU_TEST_INFO_NULL,
};

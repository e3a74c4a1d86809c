/* Runs every suite of suites.def: a CUnit suite per source file, named after it.
 * A file x.c defines `const CU_TestInfo tests_x[]`, ending in CU_TEST_INFO_NULL. */
#include <CUnit/Basic.h>
#include <stdlib.h>

#define SUITE(name) extern CU_TestInfo tests_##name[];
#include "suites.def"

int main(void) {
  CU_SuiteInfo suites[] = {
#define SUITE(name) {#name, NULL, NULL, NULL, NULL, tests_##name},
#include "suites.def"
      CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
    return EXIT_FAILURE;
  CU_basic_set_mode(CU_BRM_NORMAL);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

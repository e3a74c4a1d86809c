#include "../../frontend/random.h"

#include <CUnit/CUnit.h>
#include <math.h>
#include <stddef.h>

/* What numpy.random.RandomState(seed) draws. */
static void uniform_draws_are_numpys(void) {
  static const struct {
    uint32_t seed;
    double want[3];
  } cases[] = {
      {0, {0.5488135039273248, 0.7151893663724195, 0.6027633760716439}},
      {42, {0.3745401188473625, 0.9507143064099162, 0.7319939418114051}},
      {4294967295u, {0.0976320289940138, 0.9123828453026218, 0.78903530185164}},
  };
  random_state r;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    random_seed(&r, cases[i].seed);
    for (int k = 0; k < 3; k++) CU_ASSERT_EQUAL(random_uniform(&r), cases[i].want[k]);
  }
  random_seed(&r, 0);
  double last = 0;
  for (int k = 0; k < 1000; k++) last = random_uniform(&r); /* past the first block of words */
  CU_ASSERT_EQUAL(last, 0.6771411441114241);
}

static void normal_draws_are_numpys(void) {
  static const double want[] = {1.764052345967664, 0.4001572083672233, 0.9787379841057392,
                                2.240893199201458};
  random_state r;
  random_seed(&r, 0);
  for (int k = 0; k < 4; k++) CU_ASSERT_DOUBLE_EQUAL(random_normal(&r), want[k], 1e-15);
}

CU_TestInfo tests_random[] = {
    {"uniform draws are numpy's", uniform_draws_are_numpys},
    {"normal draws are numpy's", normal_draws_are_numpys},
    CU_TEST_INFO_NULL,
};

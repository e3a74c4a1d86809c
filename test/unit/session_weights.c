/* Trained weights of the relay plan, y = relu(x) + w, bound from outside. */
#include "wafer/session.h"

#include <CUnit/CUnit.h>

#include "caught.h"
#include "relay_plan.h"

typedef struct fixture {
  wafer_arena *arena;
  relay_plan relay;
  wafer_session *session;
  float x[5 * 8];
} fixture;

static fixture f;

/* The session is open, w is trained, x is filled. */
static void prepare(wafer_mode mode, wafer_dtype storage, bool initial, uint32_t threads) {
  const wafer_machine *small;
  f.arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "small16", &small) == WAFER_OK);
  CU_ASSERT_FATAL(relay_init(&f.relay, small, f.arena, mode));
  f.relay.plan.storage = storage;
  f.relay.plan.batch = mode == WAFER_MODE_streaming ? 3 : 1;
  relay_settle(&f.relay, small);
  wafer_weight *w = wafer_weights_at(f.relay.plan.weights, 0);
  w->trained = true;
  if (!initial) w->data = NULL;
  for (int i = 0; i < 5 * 8; i++) f.x[i] = (float)(i % 11) - 5.0f;
  wafer_session_options options = {.threads = threads};
  CU_ASSERT_FATAL(wafer_session_create(&f.relay.plan, &options, &f.session) == WAFER_OK);
}

static void finish(void) {
  wafer_session_destroy(f.session);
  wafer_arena_destroy(f.arena);
}

/* A run of 5 samples; whether every element is what w gives. */
static bool run_gives(const float *w) {
  wafer_shape shape = {.rank = 2, .dims = {5, 8}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, f.x), out;
  if (wafer_session_run(f.session, &in, 1, &out, 1) != WAFER_OK) return false;
  const float *y = out.data;
  for (int i = 0; i < 5 * 8; i++) {
    float want = (f.x[i] < 0 ? 0.0f : f.x[i]) + w[i % 8];
    if (f.relay.plan.storage == WAFER_DTYPE_f16) wafer_round_f16(&want, 1);
    if (y[i] != want) return false;
  }
  return true;
}

static void binds_again(void) {
  for (int m = WAFER_MODE_pipelined; m <= WAFER_MODE_streaming; m++)
    for (uint32_t threads = 1; threads <= 2; threads++) {
      prepare((wafer_mode)m, WAFER_DTYPE_f32, true, threads);
      float first[8], second[8];
      for (int i = 0; i < 8; i++) first[i] = (float)i + 0.25f, second[i] = -first[i];
      CU_ASSERT(run_gives(f.relay.w));
      CU_ASSERT(wafer_session_bind_weight(f.session, 0, first) == WAFER_OK);
      CU_ASSERT(run_gives(first));
      CU_ASSERT(wafer_session_bind_weight(f.session, 0, second) == WAFER_OK);
      CU_ASSERT(run_gives(second));
      CU_ASSERT(wafer_session_bind_weight(f.session, 0, NULL) == WAFER_OK);
      CU_ASSERT(run_gives(f.relay.w));
      finish();
    }
}

/* What lies at the same place is another number in the next run. */
static void sees_updates_in_place(void) {
  prepare(WAFER_MODE_streaming, WAFER_DTYPE_f32, false, 2);
  float w[8] = {0};
  CU_ASSERT(wafer_session_bind_weight(f.session, 0, w) == WAFER_OK);
  for (int step = 0; step < 3; step++) {
    CU_ASSERT(run_gives(w));
    for (int i = 0; i < 8; i++) w[i] -= 0.125f * (float)(i + step);
  }
  finish();
}

static void takes_any_alignment(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, false, 1);
  char bytes[1 + 8 * sizeof(float)];
  float w[8];
  for (int step = 0; step < 2; step++) {
    for (int i = 0; i < 8; i++) w[i] = 3.0f * (float)(i + step);
    memcpy(bytes + 1, w, sizeof w);
    CU_ASSERT(wafer_session_bind_weight(f.session, 0, bytes + 1) == WAFER_OK);
    CU_ASSERT(run_gives(w));
  }
  finish();
}

/* f16 storage: cores hold the rounded weight, the caller's stays as it is. */
static void rounds_as_cores_do(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f16, true, 1);
  float w[8], rounded[8];
  for (int step = 0; step < 2; step++) {
    for (int i = 0; i < 8; i++) w[i] = rounded[i] = 0.3f + 0.0001f * (float)(i + step);
    wafer_round_f16(rounded, 8);
    CU_ASSERT(wafer_session_bind_weight(f.session, 0, w) == WAFER_OK);
    CU_ASSERT(run_gives(rounded));
    CU_ASSERT(w[0] == 0.3f + 0.0001f * (float)step);
  }
  finish();
}

static void refuses_what_is_not_trained(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, true, 1);
  float w[8] = {0};
  CU_ASSERT(wafer_session_bind_weight(f.session, 1, w) == WAFER_USAGE);
  CU_ASSERT(wafer_session_bind_weight(f.session, 2, w) == WAFER_USAGE);
  CU_ASSERT(run_gives(f.relay.w));
  finish();
}

/* Nothing in the plan, nothing bound: the session opens, a run says which weight it misses. */
static void misses_absent_data(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, false, 1);
  float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  wafer_session_destroy(f.session);
  caught c = {0};
  wafer_diag diag = caught_diag(&c);
  wafer_session_options options = {.threads = 1, .diag = &diag};
  CU_ASSERT_FATAL(wafer_session_create(&f.relay.plan, &options, &f.session) == WAFER_OK);
  wafer_shape shape = {.rank = 1, .dims = {8}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, f.x), out;
  CU_ASSERT(wafer_session_run(f.session, &in, 1, &out, 1) == WAFER_BAD_INPUT);
  CU_ASSERT(strstr(c.text, "'w'") != NULL);
  CU_ASSERT(wafer_session_bind_weight(f.session, 0, w) == WAFER_OK);
  CU_ASSERT(run_gives(w));
  finish();
}

CU_TestInfo tests_session_weights[] = {
    {"binds a weight, another, and the plan's again", binds_again},
    {"sees what changes in place", sees_updates_in_place},
    {"takes any alignment", takes_any_alignment},
    {"rounds weights as cores do", rounds_as_cores_do},
    {"refuses weights that are not trained", refuses_what_is_not_trained},
    {"names a weight without data", misses_absent_data},
    CU_TEST_INFO_NULL,
};

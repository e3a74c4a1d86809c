/* Trained weights bound from outside: the relay plan, y = relu(x) + w, over scalars, as an
 * evaluation plan whose loss is y. */
#include "wafer/session.h"

#include <CUnit/CUnit.h>

#include "caught.h"
#include "relay_plan.h"

typedef struct fixture {
  wafer_arena *arena;
  relay_plan relay;
  wafer_session *session;
  wafer_training training;
} fixture;

static fixture f;
static const float samples[5] = {-2, 0.5f, 0, 3, 1.25f};
static const wafer_trained trained = {.weight = 0, .gradient = WAFER_NONE};

static void make_scalar(relay_plan *r) {
  const wafer_type scalar = {.dtype = WAFER_DTYPE_f32};
  for (int i = 0; i < RELAY_VALUES; i++) r->values[i].type = scalar;
  for (int i = 0; i < 2; i++) r->types[i][0] = r->types[i][1] = r->nodes[i].type = scalar;
  for (size_t i = 0; i < 2; i++) {
    wafer_weight *w = wafer_weights_at(r->plan.weights, i);
    w->shape = scalar.shape;
    w->bytes = sizeof(float);
  }
  relay_streams(r);
  if (r->plan.mode == WAFER_MODE_streaming) r->streams[RELAY_HAND_OVER].from_kernel = WAFER_NONE;
}

static void make_training(relay_plan *r, bool initial) {
  wafer_weight *w = wafer_weights_at(r->plan.weights, 0);
  w->trained = true;
  if (!initial) w->data = NULL;
  f.training = (wafer_training){.loss = RELAY_Y,
                                .count = RELAY_Y,
                                .correct = WAFER_NONE,
                                .labels = RELAY_X,
                                .seed = WAFER_NONE,
                                .micro_batch = 1,
                                .trained_count = 1,
                                .trained = &trained};
  r->plan.training = &f.training;
}

/* The session is open, w is trained. */
static void prepare(wafer_mode mode, wafer_dtype storage, bool initial, uint32_t threads) {
  const wafer_machine *small;
  f.arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "small16", &small) == WAFER_OK);
  CU_ASSERT_FATAL(relay_init(&f.relay, small, f.arena, mode));
  f.relay.plan.storage = storage;
  f.relay.plan.batch = mode == WAFER_MODE_streaming ? 3 : 1;
  make_scalar(&f.relay);
  relay_settle(&f.relay, small);
  for (int i = 0; i < RELAY_STREAMS; i++) f.relay.streams[i].words = 1;
  make_training(&f.relay, initial);
  wafer_diag diag = {.emit = wafer_diag_to_file, .self = stderr};
  wafer_session_options options = {.threads = threads, .diag = &diag};
  CU_ASSERT_FATAL(wafer_session_create(&f.relay.plan, &options, &f.session) == WAFER_OK);
}

static void finish(void) {
  wafer_session_destroy(f.session);
  wafer_arena_destroy(f.arena);
}

/* A run of 5 samples; whether every one is what w gives. */
static bool run_gives(float w) {
  float x[5];
  memcpy(x, samples, sizeof x);
  wafer_shape shape = {.rank = 1, .dims = {5}};
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &shape, x), out;
  if (wafer_session_run(f.session, &in, 1, &out, 1) != WAFER_OK) return false;
  const float *y = out.data;
  for (int i = 0; i < 5; i++) {
    float want = (x[i] < 0 ? 0.0f : x[i]) + w;
    if (f.relay.plan.storage == WAFER_DTYPE_f16) wafer_round_f16(&want, 1);
    if (y[i] != want) return false;
  }
  return true;
}

static wafer_status bind(const void *w) {
  return wafer_session_bind_weight(f.session, 0, w);
}

static void binds_again(void) {
  for (int m = WAFER_MODE_pipelined; m <= WAFER_MODE_streaming; m++)
    for (uint32_t threads = 1; threads <= 2; threads++) {
      prepare((wafer_mode)m, WAFER_DTYPE_f32, true, threads);
      float first = 0.25f, second = -7.5f;
      CU_ASSERT(run_gives(f.relay.w[0]));
      CU_ASSERT(bind(&first) == WAFER_OK && run_gives(first));
      CU_ASSERT(bind(&second) == WAFER_OK && run_gives(second));
      CU_ASSERT(bind(NULL) == WAFER_OK && run_gives(f.relay.w[0]));
      finish();
    }
}

/* What lies at the same place is another number in the next run. */
static void sees_updates_in_place(void) {
  prepare(WAFER_MODE_streaming, WAFER_DTYPE_f32, false, 2);
  float w = 0;
  CU_ASSERT(bind(&w) == WAFER_OK);
  for (int step = 0; step < 3; step++, w -= 0.125f) CU_ASSERT(run_gives(w));
  finish();
}

static void takes_any_alignment(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, false, 1);
  char bytes[1 + sizeof(float)];
  for (float w = 3; w < 5; w++) {
    memcpy(bytes + 1, &w, sizeof w);
    CU_ASSERT(bind(bytes + 1) == WAFER_OK && run_gives(w));
  }
  finish();
}

/* f16 storage: cores hold the rounded weight, the caller's stays as it is. */
static void rounds_as_cores_do(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f16, true, 1);
  for (int step = 0; step < 2; step++) {
    float given = 0.3f + 0.001f * (float)step, w = given, rounded = given;
    wafer_round_f16(&rounded, 1);
    CU_ASSERT(bind(&w) == WAFER_OK && run_gives(rounded));
    CU_ASSERT(w == given);
  }
  finish();
}

static void refuses_what_is_not_trained(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, true, 1);
  float w = 0;
  CU_ASSERT(wafer_session_bind_weight(f.session, 1, &w) == WAFER_USAGE);
  CU_ASSERT(wafer_session_bind_weight(f.session, 2, &w) == WAFER_USAGE);
  CU_ASSERT(run_gives(f.relay.w[0]));
  finish();
}

/* Nothing in the plan, nothing bound: the session opens, a run says which weight it misses. */
static void misses_absent_data(void) {
  prepare(WAFER_MODE_pipelined, WAFER_DTYPE_f32, false, 1);
  float x = 1, w = 2;
  wafer_session_destroy(f.session);
  caught c = {0};
  wafer_diag diag = caught_diag(&c);
  wafer_session_options options = {.threads = 1, .diag = &diag};
  CU_ASSERT_FATAL(wafer_session_create(&f.relay.plan, &options, &f.session) == WAFER_OK);
  wafer_view in = wafer_view_of(WAFER_DTYPE_f32, &(wafer_shape){0}, &x), out;
  CU_ASSERT(wafer_session_run(f.session, &in, 1, &out, 1) == WAFER_BAD_INPUT);
  CU_ASSERT(strstr(c.text, "'w'") != NULL);
  CU_ASSERT(bind(&w) == WAFER_OK && run_gives(w));
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

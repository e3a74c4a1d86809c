/* Sessions over the relay plan: values, trains, groups, and plans that must not run. */
#include "wafer/session.h"

#include <CUnit/CUnit.h>
#include <malloc.h>

#include "relay_plan.h"

typedef struct fixture {
  wafer_arena *arena;
  relay_plan relay;
  wafer_session *session;
} fixture;

static fixture *prepare(wafer_mode mode) {
  static fixture f;
  const wafer_machine *small;
  f.arena = wafer_arena_create();
  f.session = NULL;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "small16", &small) == WAFER_OK);
  CU_ASSERT_FATAL(relay_init(&f.relay, small, f.arena, mode));
  return &f;
}

static wafer_status open_with(fixture *f, uint32_t threads) {
  return wafer_session_create(&f->relay.plan, &(wafer_session_options){.threads = threads},
                              &f->session);
}

static void finish(fixture *f) {
  wafer_session_destroy(f->session);
  wafer_arena_destroy(f->arena);
}

static wafer_view numbers(float *data,
                          int64_t samples) { /* 0: one sample without the leading dim */
  wafer_shape shape = {.rank = samples ? 2 : 1, .dims = {samples ? samples : 8, 8}};
  return wafer_view_of(WAFER_DTYPE_f32, &shape, data);
}

static void fill(float *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) x[i] = (float)(i % 11) - 5.0f;
}

static void check(const float *x, const float *y, int64_t count, const float *w) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; i++) wrong += y[i] != (x[i] < 0 ? 0.0f : x[i]) + w[i % 8];
  CU_ASSERT(wrong == 0);
}

static void computes_in_both_modes(void) {
  static const wafer_mode modes[] = {WAFER_MODE_pipelined, WAFER_MODE_streaming};
  for (int m = 0; m < 2; m++)
    for (uint32_t threads = 1; threads <= 2; threads++) {
      fixture *f = prepare(modes[m]);
      float x[8];
      wafer_view in = numbers(x, 0), out;
      fill(x, 8);
      CU_ASSERT_FATAL(open_with(f, threads) == WAFER_OK);
      CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
      CU_ASSERT(out.shape.rank == 1 && out.shape.dims[0] == 8 && out.dtype == WAFER_DTYPE_f32);
      check(x, out.data, 8, f->relay.w);
      wafer_run_stats stats = wafer_session_stats(f->session);
      CU_ASSERT(stats.samples == 1 && stats.latency_cycles > 0 && stats.kernel_busy[0] > 0);
      finish(f);
    }
}

/* Trains of several lengths in one session, groups of 3 in streaming mode. */
static void runs_trains(void) {
  static const int64_t lengths[] = {1, 5, 3, 7};
  for (int m = WAFER_MODE_pipelined; m <= WAFER_MODE_streaming; m++) {
    fixture *f = prepare((wafer_mode)m);
    f->relay.plan.batch = m == WAFER_MODE_streaming ? 3 : 1;
    relay_settle(&f->relay, f->relay.plan.machine);
    CU_ASSERT_FATAL(open_with(f, 2) == WAFER_OK);
    for (size_t i = 0; i < WAFER_COUNT(lengths); i++) {
      float x[7 * 8];
      wafer_view in = numbers(x, lengths[i]), out;
      fill(x, 7 * 8);
      CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
      CU_ASSERT(out.shape.rank == 2 && out.shape.dims[0] == lengths[i] && out.shape.dims[1] == 8);
      check(x, out.data, lengths[i] * 8, f->relay.w);
      CU_ASSERT(wafer_session_stats(f->session).samples == (uint64_t)lengths[i]);
    }
    finish(f);
  }
}

/* Every other element of a longer array, backwards. */
static void reads_any_strides(void) {
  fixture *f = prepare(WAFER_MODE_pipelined);
  float x[16], plain[8];
  wafer_view in = numbers(x + 14, 0), out;
  fill(x, 16);
  in.strides[0] = -2;
  for (int i = 0; i < 8; i++) plain[i] = x[14 - 2 * i];
  CU_ASSERT_FATAL(open_with(f, 1) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  check(plain, out.data, 8, f->relay.w);
  finish(f);
}

static void refuses_other_inputs(void) {
  fixture *f = prepare(WAFER_MODE_pipelined);
  float x[16] = {0};
  wafer_view in = numbers(x, 0), out, wrong;
  CU_ASSERT_FATAL(open_with(f, 1) == WAFER_OK);
  CU_ASSERT(wafer_session_run(f->session, &in, 0, &out, 1) == WAFER_USAGE);
  CU_ASSERT(wafer_session_run(f->session, &in, 1, &out, 0) == WAFER_USAGE);
  wrong = in;
  wrong.dtype = WAFER_DTYPE_i32;
  CU_ASSERT(wafer_session_run(f->session, &wrong, 1, &out, 1) == WAFER_BAD_INPUT);
  wrong = in;
  wrong.shape.dims[0] = 7;
  CU_ASSERT(wafer_session_run(f->session, &wrong, 1, &out, 1) == WAFER_BAD_INPUT);
  wrong = numbers(x, 2);
  wrong.shape.dims[0] = 0;
  CU_ASSERT(wafer_session_run(f->session, &wrong, 1, &out, 1) == WAFER_BAD_INPUT);
  CU_ASSERT(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  finish(f);
}

static void exchanges_a_weight(void) {
  fixture *f = prepare(WAFER_MODE_pipelined);
  float x[8];
  wafer_view in = numbers(x, 0), out;
  fill(x, 8);
  f->relay.values[RELAY_W].weight = 1;
  CU_ASSERT_FATAL(open_with(f, 1) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  check(x, out.data, 8, f->relay.v);
  finish(f);
}

static void drop(relay_plan *r, uint32_t phase, uint32_t stream) {
  uint32_t kept = 0, count = r->phases[phase].action_count;
  for (uint32_t i = 0; i < count; i++) {
    wafer_action a = r->actions[phase][i];
    if (a.kind != WAFER_ACTION_stream || a.index != stream) r->actions[phase][kept++] = a;
  }
  r->phases[phase].action_count = kept;
}

static void drop_input(relay_plan *r) {
  drop(r, 0, RELAY_IN);
}
static void drop_hand_over(relay_plan *r) {
  drop(r, 1, RELAY_HAND_OVER);
}
static void drop_weight(relay_plan *r) {
  drop(r, 1, RELAY_WEIGHT);
}
static void drop_output(relay_plan *r) {
  drop(r, 1, RELAY_OUT);
}
static void free_early(relay_plan *r) {
  r->frees[0][r->phases[0].free_count++] = RELAY_H;
}
static void swap_phases(relay_plan *r) {
  r->steps[0].phase = 1, r->steps[1].phase = 0;
}
static void deliver_elsewhere(relay_plan *r) {
  r->streams[RELAY_HAND_OVER].to.rect.x++;
}

static void traps_on_broken_plans(void) {
  static const struct {
    const char *name;
    void (*edit)(relay_plan *r);
    wafer_status want;
  } cases[] = {{"input stream dropped", drop_input, WAFER_TRAP},
               {"hand-over dropped", drop_hand_over, WAFER_TRAP},
               {"weight stream dropped", drop_weight, WAFER_TRAP},
               {"output stream dropped", drop_output, WAFER_TRAP},
               {"freed early", free_early, WAFER_TRAP},
               {"phases swapped", swap_phases, WAFER_TRAP},
               {"delivered elsewhere", deliver_elsewhere, WAFER_BAD_INPUT}};
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    fixture *f = prepare(WAFER_MODE_streaming);
    cases[i].edit(&f->relay);
    wafer_status status = open_with(f, 1);
    if (status != cases[i].want) printf("\n  %s: %s", cases[i].name, wafer_status_text(status));
    CU_ASSERT(status == cases[i].want && f->session == NULL);
    finish(f);
  }
}

/* f16 storage rounds the input on its way in, the weight, and what each kernel stores. */
static void rounds_storage(void) {
  fixture *f = prepare(WAFER_MODE_pipelined);
  float x[8], want[8];
  wafer_view in = numbers(x, 0), out;
  f->relay.plan.storage = WAFER_DTYPE_f16;
  relay_settle(&f->relay, f->relay.plan.machine);
  for (int i = 0; i < 8; i++) {
    x[i] = 1.0f + 0.0001f * (float)(i + 1);
    f->relay.w[i] = 0.3f;
    float a = x[i], w = 0.3f;
    wafer_round_f16(&a, 1);
    wafer_round_f16(&w, 1);
    want[i] = a + w;
    wafer_round_f16(&want[i], 1);
  }
  CU_ASSERT_FATAL(open_with(f, 1) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  CU_ASSERT(memcmp(out.data, want, sizeof want) == 0);
  finish(f);
}

/* What kernels made, and numbers that stand for what the first of them did. */
typedef struct told {
  float made[2][8], instead[8];
  uint32_t calls;
} told;

static wafer_status keep(void *self, uint32_t kernel, uint32_t output, const wafer_view *view) {
  told *t = self;
  t->calls++;
  CU_ASSERT(output == 0 && kernel < 2);
  memcpy(t->made[kernel % 2], view->data, sizeof t->made[0]);
  return WAFER_OK;
}
static void *put(void *self, uint32_t kernel, uint32_t output) {
  told *t = self;
  return kernel == 0 && output == 0 ? t->instead : NULL;
}

/* A kernel is compared from given inputs: what those before it made does not count. */
static void goes_on_from_other_values(void) {
  static const wafer_mode modes[] = {WAFER_MODE_pipelined, WAFER_MODE_streaming};
  for (int m = 0; m < 2; m++) {
    fixture *f = prepare(modes[m]);
    float x[8];
    wafer_view in = numbers(x, 0), out;
    told t = {.instead = {100, 200, 300, 400, 500, 600, 700, 800}};
    const wafer_kernel_watch watch = {&t, keep, put};
    fill(x, 8);
    CU_ASSERT_FATAL(wafer_session_create(&f->relay.plan,
                                         &(wafer_session_options){.threads = 1, .kernels = &watch},
                                         &f->session) == WAFER_OK);
    CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
    CU_ASSERT(t.calls == 2);
    for (int i = 0; i < 8; i++) {
      CU_ASSERT(t.made[0][i] == (x[i] < 0 ? 0.0f : x[i]));
      CU_ASSERT(t.made[1][i] == t.instead[i] + f->relay.w[i]);
    }
    CU_ASSERT(memcmp(out.data, t.made[1], sizeof t.made[1]) == 0);
    finish(f);
  }
}

static void allocates_nothing_later(void) {
  fixture *f = prepare(WAFER_MODE_streaming);
  float x[8];
  wafer_view in = numbers(x, 0), out;
  fill(x, 8);
  CU_ASSERT_FATAL(open_with(f, 1) == WAFER_OK); /* a second thread may still be starting */
  CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < 20; i++)
    CU_ASSERT_FATAL(wafer_session_run(f->session, &in, 1, &out, 1) == WAFER_OK);
  struct mallinfo2 after = mallinfo2();
  CU_ASSERT(after.uordblks == before.uordblks);
  finish(f);
}

CU_TestInfo tests_session[] = {
    {"computes in both modes", computes_in_both_modes},
    {"runs trains of any length", runs_trains},
    {"reads inputs of any strides", reads_any_strides},
    {"refuses other inputs", refuses_other_inputs},
    {"computes with an exchanged weight", exchanges_a_weight},
    {"traps on broken plans", traps_on_broken_plans},
    {"rounds what cores store", rounds_storage},
    {"goes on from other values than a kernel made", goes_on_from_other_values},
    {"allocates nothing after the first run", allocates_nothing_later},
    CU_TEST_INFO_NULL,
};

/* Timelines of a two-kernel relay, worked out by hand. */
#include <CUnit/CUnit.h>

#include "compiled.h"
#include "relay_plan.h"

typedef struct fixture {
  wafer_arena *arena;
  wafer_machine machine;
  relay_plan relay;
} fixture;

/* Kernels of 100 and 60 cycles, streams of 10 with a latency of 5, an edge without limit. */
static fixture *start(wafer_mode mode) {
  static fixture f;
  const wafer_machine *small;
  f.arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "small16", &small) == WAFER_OK);
  f.machine = *small;
  f.machine.edge_in_bytes_per_second = f.machine.edge_out_bytes_per_second = UINT64_MAX;
  f.machine.memoryx_bytes_per_second = UINT64_MAX;
  CU_ASSERT_FATAL(relay_init(&f.relay, &f.machine, f.arena, mode));
  f.relay.kernels[0].cost.cycles = 100;
  f.relay.kernels[1].cost.cycles = 60;
  return &f;
}

static wafer_timeline run(fixture *f, uint64_t samples, uint64_t *finish) {
  wafer_timeline t = {.finish = finish};
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &f->relay.plan, 0, samples, &t) == WAFER_OK);
  return t;
}

static void times_one_sample(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  wafer_timeline t = run(f, 1, NULL);
  CU_ASSERT(t.latency_cycles == 15 + 100 + 15 + 60 + 15);
  CU_ASSERT(t.interval_cycles == t.latency_cycles && t.total_cycles == t.latency_cycles);
  wafer_arena_destroy(f->arena);
}

static void is_bound_by_the_slowest_kernel(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 2;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 2;
  wafer_timeline t = run(f, 20, NULL);
  CU_ASSERT(t.latency_cycles == 205 && t.interval_cycles == 100 &&
            t.total_cycles == 205 + 19 * 100);
  f->relay.kernels[0].replicas = 2; /* now the second one is the slowest */
  CU_ASSERT(run(f, 20, NULL).interval_cycles == 60);
  wafer_arena_destroy(f->arena);
}

/* One sample at a time in every buffer: the first kernel waits for its input, which waits for it;
 * its output must have left before it starts again. */
static void waits_for_room(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  CU_ASSERT(run(f, 20, NULL).interval_cycles == 115);
  f->relay.kernels[1].cost.cycles =
      200; /* the hand-over buffer is free only when the second kernel ends */
  CU_ASSERT(run(f, 20, NULL).interval_cycles == 215);
  wafer_arena_destroy(f->arena);
}

/* Every replica has buffers of its own: of two, each waits as before, for every other sample. */
static void replicas_have_their_own_room(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  f->relay.kernels[0].replicas = 2; /* the second is held up by its one buffer */
  CU_ASSERT(run(f, 20, NULL).interval_cycles == 75);
  CU_ASSERT(run(f, 20, NULL).latency_cycles == 205); /* of a sample nothing changes */
  f->relay.kernels[1].replicas = 2;                  /* 115 cycles for two samples */
  CU_ASSERT(run(f, 20, NULL).interval_cycles == 58);
  wafer_arena_destroy(f->arena);
}

/* The sum's other operand comes from the edge too: where it has no queue of its own, it comes after
 * the first kernel's result, and that of the next sample after it. */
static void takes_turns_in_queues(void) {
  static const uint32_t inputs[] = {RELAY_X, RELAY_W};
  fixture *f = start(WAFER_MODE_pipelined);
  f->relay.function.input_count = 2;
  f->relay.function.inputs = inputs;
  f->relay.values[RELAY_W].owner = WAFER_OWNER_input;
  f->relay.streams[RELAY_WEIGHT].from.where = WAFER_AT_edge;
  CU_ASSERT_EQUAL(run(f, 1, NULL).latency_cycles, 205);
  f->machine.input_queues = 1;
  CU_ASSERT_EQUAL(run(f, 1, NULL).latency_cycles, 215);
  CU_ASSERT_EQUAL(run(f, 20, NULL).interval_cycles, 115); /* room for one: as before */
  wafer_arena_destroy(f->arena);
}

static void shares_the_edge(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 2;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 2;
  f->machine.edge_in_bytes_per_second = f->machine.clock_hz / 10; /* 32 bytes take 320 cycles */
  wafer_timeline t = run(f, 20, NULL);
  CU_ASSERT(t.interval_cycles == 320 && t.latency_cycles == 325 + 100 + 15 + 60 + 15);
  wafer_arena_destroy(f->arena);
}

/* Weights of the second phase come while the first one works; samples of a group go through each
 * phase. */
static void streams_weights_ahead(void) {
  fixture *f = start(WAFER_MODE_streaming);
  uint64_t finish[8];
  wafer_timeline t = run(f, 1, finish);
  CU_ASSERT(t.latency_cycles == 115 + 15 + 60 + 15 && finish[0] == t.latency_cycles);
  f->relay.streams[RELAY_WEIGHT].cycles = 1000;
  CU_ASSERT(run(f, 1, NULL).latency_cycles == 1005 + 60 + 15);
  f->relay.steps[2] = f->relay.steps[1]; /* loaded no earlier than with its own phase */
  f->relay.steps[1] = (wafer_step){.kind = WAFER_STEP_load, .phase = 1};
  f->relay.function.step_count = 3;
  CU_ASSERT(run(f, 1, NULL).latency_cycles == 115 + 1005 + 60 + 15);
  f->relay.steps[1] = f->relay.steps[2];
  f->relay.function.step_count = 2;
  f->relay.plan.batch = 4;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 4;
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 4;
  t = run(f, 4, finish);
  CU_ASSERT(t.total_cycles == finish[3] && t.interval_cycles == (t.total_cycles + 3) / 4);
  CU_ASSERT(finish[0] < finish[3] && finish[3] == finish[0] + 3 * 60);
  t = run(f, 5, finish); /* a group that is not full waits for its weights as a full one does */
  CU_ASSERT(t.interval_cycles == (t.total_cycles + 4) / 5);
  t = run(f, 8, finish);
  CU_ASSERT(t.interval_cycles == (finish[7] - finish[3] + 3) / 4);
  wafer_arena_destroy(f->arena);
}

/* Two stripes: kernels of a round work side by side, its samples follow each other over the border.
 * A round that is not full takes as long. */
static void works_in_stripes(void) {
  fixture *f = start(WAFER_MODE_streaming);
  uint64_t finish[4], busy[2];
  f->relay.plan.batch = 4;
  f->relay.plan.stripes = 2;
  f->relay.plan.stripe_columns = 4;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 2;
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 2;
  wafer_timeline t = {.finish = finish, .kernel_busy = busy};
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &f->relay.plan, 0, 4, &t) == WAFER_OK);
  CU_ASSERT(busy[0] == 4 * 100 && busy[1] == 4 * 60);
  CU_ASSERT(finish[0] == 15 + 210 + 15 + 60 + 15 && finish[1] == finish[0] + 10);
  CU_ASSERT(finish[2] == finish[0] + 60 && finish[3] == finish[1] + 60);
  uint64_t full = t.total_cycles;
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &f->relay.plan, 0, 3, &t) == WAFER_OK);
  CU_ASSERT(t.total_cycles == full && busy[0] == 3 * 100);
  f->relay.plan.stripes = 1;
  f->relay.plan.stripe_columns = 0;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 4;
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 4;
  CU_ASSERT(run(f, 4, NULL).total_cycles == full + 200 - 10 + 120 - 10);
  wafer_arena_destroy(f->arena);
}

/* Kernels that stand one behind another run at once; values that follow each other over the border
 * wait for the words before them, not for their arrival. */
static void kernels_run_at_once(void) {
  fixture *f = start(WAFER_MODE_streaming);
  relay_plan *r = &f->relay;
  static const wafer_action actions[] = {
      {WAFER_ACTION_stream, RELAY_IN}, {WAFER_ACTION_stream, RELAY_WEIGHT},
      {WAFER_ACTION_kernel, 0},        {WAFER_ACTION_kernel, 1},
      {WAFER_ACTION_stream, 4},        {WAFER_ACTION_stream, RELAY_OUT}};
  static const uint32_t of_input[] = {RELAY_X, RELAY_W}, outputs[] = {RELAY_H, RELAY_Y};
  wafer_stream streams[6];
  memcpy(streams, r->streams, sizeof r->streams);
  streams[4] = r->streams[RELAY_OUT]; /* the first kernel's result leaves as well */
  streams[4].value = RELAY_H;
  streams[4].from = r->streams[RELAY_HAND_OVER].from;
  streams[5] = r->streams[RELAY_IN]; /* the second takes the input too */
  streams[5].to = r->streams[RELAY_HAND_OVER].to;
  wafer_action all[7];
  memcpy(all + 1, actions, sizeof actions);
  all[0] = (wafer_action){WAFER_ACTION_stream, 5};
  r->kernels[1].inputs = of_input;
  r->plan.streams = streams;
  r->plan.stream_count = 6;
  r->phases[0].actions = all;
  r->phases[0].action_count = 7;
  r->function.step_count = 1;
  r->function.output_count = 2;
  r->function.outputs = outputs;
  CU_ASSERT_EQUAL(wafer_phase_run_end(&r->phases[0], 0), 1);
  CU_ASSERT_EQUAL(wafer_phase_run_end(&r->phases[0], 3), 5);
  uint64_t ends[2];
  wafer_timeline t = {.output_cycles = ends};
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &r->plan, 0, 1, &t) == WAFER_OK);
  CU_ASSERT_EQUAL(ends[0], (10 + 10 + 5) + 100 + 15);
  CU_ASSERT_EQUAL(ends[1], (10 + 10 + 5) + 100 + 10 + 15);
  CU_ASSERT_EQUAL(t.latency_cycles, ends[1]);
  all[1] = actions[1]; /* a weight between the two has come before */
  all[2] = actions[0];
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &r->plan, 0, 1, &t) == WAFER_OK);
  CU_ASSERT_EQUAL(t.latency_cycles, (10 + 10 + 5) + 100 + 10 + 15);
  wafer_arena_destroy(f->arena);
}

/* As deep as a plan file can say: rings are as long as the train, no longer. */
static void takes_any_depth(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = 7;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = 7;
  uint64_t want = run(f, 7, NULL).total_cycles;
  f->relay.streams[RELAY_IN].depth = f->relay.streams[RELAY_HAND_OVER].depth = UINT32_MAX;
  for (int i = 0; i < 2; i++) f->relay.kernels[i].body.output_depth = UINT32_MAX;
  CU_ASSERT(run(f, 7, NULL).total_cycles == want);
  wafer_arena_destroy(f->arena);
}

static void counts_busy_cycles(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  uint64_t busy[2], phase[1];
  wafer_timeline t = {.kernel_busy = busy, .phase_cycles = phase};
  CU_ASSERT_FATAL(wafer_timeline_run(NULL, &f->relay.plan, 0, 7, &t) == WAFER_OK);
  CU_ASSERT(busy[0] == 700 && busy[1] == 420 && phase[0] == t.total_cycles);
  wafer_arena_destroy(f->arena);
}

static void traps_on_what_is_not_held(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  wafer_timeline t = {0};
  f->relay.actions[0][2] = f->relay.actions[0][0]; /* the hand-over is gone */
  CU_ASSERT(wafer_timeline_run(NULL, &f->relay.plan, 0, 1, &t) == WAFER_TRAP);
  wafer_arena_destroy(f->arena);
}

/* Cycles of a sample on the slowest kernel or stream. */
static uint64_t pace_of(const wafer_plan *plan) {
  uint64_t pace = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    if (plan->kernels[k].cost.cycles > pace) pace = plan->kernels[k].cost.cycles;
  for (uint32_t i = 0; i < plan->stream_count; i++)
    if (plan->streams[i].cycles > pace) pace = plan->streams[i].cycles;
  return pace;
}

static uint64_t interval_of(const wafer_plan *plan) {
  wafer_timeline t = {0};
  CU_ASSERT_EQUAL(wafer_timeline_run(NULL, plan, 0, 400, &t), WAFER_OK);
  return t.interval_cycles;
}

/* A value skips six kernels: compiled, the pipeline keeps the pace of its slowest one. With two
 * samples of room where the value ends, as other streams have, it would stall. */
static void skips_do_not_stall(void) {
  wafer_options options = {
      .mode = WAFER_MODE_pipelined, .bands = 1, .programs = WAFER_PROGRAMS_never};
  compiled m;
  CU_ASSERT_EQUAL_FATAL(
      compiled_text(&m, NULL, &options,
                    "in x f32 64x64; Softmax(axis=1) x -> a; Softmax(axis=0) a -> b; "
                    "Softmax(axis=1) b -> c; Softmax(axis=0) c -> d; Softmax(axis=1) d -> e; "
                    "Softmax(axis=0) e -> f; Softmax(axis=1) f -> g; Mul a g -> y; out y"),
      WAFER_OK);
  wafer_plan shallow = *m.plan;
  wafer_stream *streams = wafer_arena_copy(m.ctx.arena, shallow.streams,
                                           shallow.stream_count * sizeof *shallow.streams);
  CU_ASSERT_PTR_NOT_NULL_FATAL(streams);
  uint32_t deep = 0;
  for (uint32_t i = 0; i < shallow.stream_count; i++) {
    deep += streams[i].depth > 4;
    if (streams[i].depth > 2) streams[i].depth = 2;
  }
  shallow.streams = streams;
  CU_ASSERT_EQUAL(deep, 1);
  CU_ASSERT_EQUAL(interval_of(m.plan), pace_of(m.plan));
  CU_ASSERT(interval_of(&shallow) > pace_of(m.plan));
  wafer_plan shared =
      *m.plan; /* one queue for both operands of the last: the early one runs ahead */
  wafer_machine narrow = *shared.machine;
  narrow.input_queues = 1;
  shared.machine = &narrow;
  CU_ASSERT(interval_of(&shared) <= pace_of(m.plan) + pace_of(m.plan) / 4);
  compiled_end(&m);
}

/* Samples that fill a pipeline of programs leave unlike later ones: what the clock has seen of
 * short trains stands for them, and for those in between. */
static void short_trains_fill_up(void) {
  static wafer_launch train;
  fixture *f = start(WAFER_MODE_pipelined);
  uint64_t edge = 2 * f->machine.edge_latency_cycles, finish[12];
  train = (wafer_launch){.kind = WAFER_LAUNCH_train,
                         .predicted = 1000,
                         .interval = 100,
                         .fill = 1300,
                         .short_train_count = 3,
                         .short_trains = (const uint64_t[]){1300, 1400, 2100},
                         .slowest = 0};
  f->relay.plan.launches = &train;
  f->relay.plan.launch_count = 1;
  CU_ASSERT(run(f, 1, NULL).total_cycles == 1000 + edge);
  CU_ASSERT(run(f, 3, NULL).total_cycles == 1350 + edge);
  CU_ASSERT(run(f, 12, finish).total_cycles == 2500 + edge);
  CU_ASSERT(finish[1] == 1300 + edge && finish[4] == 1575 + edge && finish[7] == 2100 + edge &&
            finish[8] == 2200 + edge && finish[11] == 2500 + edge);
  train.short_train_count = 0;
  CU_ASSERT(run(f, 5, NULL).total_cycles == 1800 + edge);
  wafer_arena_destroy(f->arena);
}

/* Bands let their samples out over one edge: a value of the second, which is there as early as that
 * of the first, passes behind it, but nobody waits where the edge is idle. */
static void bands_share_the_edge(void) {
  fixture *f = start(WAFER_MODE_pipelined);
  wafer_plan *plan = &f->relay.plan;
  wafer_machine band = *plan->machine;
  uint64_t edge = 2 * band.edge_latency_cycles, finish[3];
  wafer_launch train = {.kind = WAFER_LAUNCH_train,
                        .predicted = 1000,
                        .interval = 500,
                        .fill = 500,
                        .leaving_count = 4,
                        .leaving = (const uint64_t[]){400, 100, 800, 200},
                        .slowest = 0};
  band.whole = plan->machine;
  band.cut = (wafer_cut){2, 1, false};
  plan->machine = &band;
  plan->launches = &train;
  plan->launch_count = 1;
  CU_ASSERT(run(f, 3, finish).total_cycles == 1500 + edge);
  CU_ASSERT(finish[0] == 1000 + edge && finish[1] == 1200 + edge && finish[2] == 1500 + edge);
  wafer_arena_destroy(f->arena);
}

/* Bands of streaming are done together: two samples when one would be, three when the second round
 * is, which is filled up. */
static void bands_stream_together(void) {
  fixture *f = start(WAFER_MODE_streaming);
  wafer_plan *plan = &f->relay.plan;
  uint64_t one[2], finish[3];
  uint64_t total = run(f, 2, one).total_cycles;
  wafer_machine band = *plan->machine;
  band.whole = plan->machine;
  band.cut = (wafer_cut){2, 1, true};
  plan->machine = &band;
  CU_ASSERT(run(f, 3, finish).total_cycles == total);
  CU_ASSERT(finish[0] == one[0] && finish[1] == one[0] && finish[2] == one[1]);
  wafer_timeline four = run(f, 4, NULL);
  CU_ASSERT(four.total_cycles == total);
  CU_ASSERT(four.interval_cycles == (run(f, 3, NULL).interval_cycles));
  wafer_arena_destroy(f->arena);
}

CU_TestInfo tests_timeline[] = {
    {"times one sample", times_one_sample},
    {"is bound by the slowest kernel", is_bound_by_the_slowest_kernel},
    {"waits for room in buffers", waits_for_room},
    {"streams take turns in queues", takes_turns_in_queues},
    {"replicas have their own room", replicas_have_their_own_room},
    {"values that skip kernels do not stall them", skips_do_not_stall},
    {"short trains fill up", short_trains_fill_up},
    {"shares the edge", shares_the_edge},
    {"bands share the edge", bands_share_the_edge},
    {"bands of streaming are together", bands_stream_together},
    {"streams weights ahead", streams_weights_ahead},
    {"works in stripes", works_in_stripes},
    {"kernels run at once", kernels_run_at_once},
    {"takes any depth of buffers", takes_any_depth},
    {"counts busy cycles", counts_busy_cycles},
    {"traps on what is not held", traps_on_what_is_not_held},
    CU_TEST_INFO_NULL,
};

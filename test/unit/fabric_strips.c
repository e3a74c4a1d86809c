/* The wafer cut into strips, on one thread and on several: the same cycles, bytes and words. */
#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "fabric_trial.h"
#include "wafer/fabric_case.h"

/* Some cores read what nobody wrote, several of them in one cycle. */
static void spoil(trial *t) {
  for (uint32_t i = 0; i < t->width * t->height; i++)
    for (uint32_t k = 0; k < t->programs[i].code_count; k++) {
      wafer_instruction *code = &t->code[i][k];
      if (code->in[0].kind == WAFER_OPERAND_memory && trial_draw(t, 3) == 0)
        code->in[0].address = 30000;
    }
}

static void strips_change_nothing(void) {
  static trial t;
  static outcome whole, cut;
  static const wafer_fabric_options ways[] = {{.threads = 1, .strips = 2},
                                              {.threads = 2, .strips = 2},
                                              {.threads = 2, .strips = 5},
                                              {.threads = 3, .strips = 3},
                                              {.threads = 2, .strips = 3, .single = true}};
  const wafer_machine *machines[2];
  wafer_arena *arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machines[0]) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse3", &machines[1]) == WAFER_OK);
  uint32_t ended = 0, trapped = 0;
  for (uint64_t seed = 1; seed <= 800; seed++) {
    trial_make(&t, seed);
    if (seed % 4 == 0) spoil(&t);
    trial_run(&t, machines[seed / 2 % 2], NULL, &whole);
    const wafer_fabric_options *way = &ways[seed % WAFER_COUNT(ways)];
    trial_run(&t, machines[seed / 2 % 2], way, &cut);
    bool same = !memcmp(&whole, &cut, sizeof whole);
    if (!same)
      printf("\nseed %u, %u threads, %u strips: cycles %u %u, hops %u %u\n%s---\n%s",
             (unsigned)seed, way->threads, way->strips, (unsigned)whole.stats.cycles,
             (unsigned)cut.stats.cycles, (unsigned)whole.stats.hops, (unsigned)cut.stats.hops,
             whole.text, cut.text);
    CU_ASSERT(same);
    ended += whole.status == WAFER_OK;
    trapped += whole.status == WAFER_TRAP;
  }
  CU_ASSERT(ended > 100 && trapped > 60);
  wafer_arena_destroy(arena);
}

static bool same_run(const outcome *a, const outcome *b) {
  return a->status == b->status && !memcmp(&a->stats, &b->stats, sizeof a->stats) &&
         !memcmp(a->finish, b->finish, sizeof a->finish) &&
         !memcmp(a->worked, b->worked, sizeof a->worked) &&
         !memcmp(a->marks, b->marks, sizeof a->marks) &&
         !memcmp(a->results, b->results, sizeof a->results) && !strcmp(a->text, b->text);
}

/* Where nobody counts what links carry, simple hops are by themselves: one that asks ahead for a
 * link at the border of its strip kept another one from it. */
static void simple_hops_wait_at_borders(void) {
  static trial t;
  static outcome one, cut;
  static const wafer_fabric_options ways[] = {{.threads = 1, .single = true},
                                              {.threads = 1, .strips = 3, .single = true},
                                              {.threads = 2, .strips = 4, .single = true}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  uint32_t ended = 0;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  for (uint64_t seed = 1; seed <= 600; seed++) {
    trial_make(&t, seed);
    t.uncounted = true;
    trial_run(&t, machine, &(wafer_fabric_options){.threads = 1, .plain = true}, &one);
    trial_run(&t, machine, &ways[seed % WAFER_COUNT(ways)], &cut);
    if (!same_run(&one, &cut))
      printf("\nseed %u: status %d %d, cycles %u %u, hops %u %u\n", (unsigned)seed, one.status,
             cut.status, (unsigned)one.stats.cycles, (unsigned)cut.stats.cycles,
             (unsigned)one.stats.hops, (unsigned)cut.stats.hops);
    CU_ASSERT(same_run(&one, &cut));
    ended += one.status == WAFER_OK;
  }
  CU_ASSERT(ended > 300); /* the others wait for each other */
  wafer_arena_destroy(arena);
}

/* Enough to do in a cycle that threads really go side by side. */
static void threads_change_nothing(void) {
  static const wafer_case_options cases[] = {
      {.width = 24, .height = 20, .words = 8, .cycles = 2000, .load = 0.2},
      {.width = 24, .height = 20, .words = 8, .cycles = 2000, .load = 0.2, .single = true},
      {.width = 32, .height = 24, .words = 64},
  };
  static const char *const names[] = {"random", "random", "all-reduce"};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    wafer_case_result one, several;
    wafer_case_options o = cases[i];
    o.threads = 1;
    CU_ASSERT_FATAL(wafer_case_run(NULL, machine, names[i], &o, &one) == WAFER_OK);
    for (o.threads = 2; o.threads <= 3; o.threads++) {
      CU_ASSERT_FATAL(wafer_case_run(NULL, machine, names[i], &o, &several) == WAFER_OK);
      CU_ASSERT(one.counted == several.counted && one.checked == several.checked);
      CU_ASSERT(!memcmp(&one.stats, &several.stats, sizeof one.stats));
    }
  }
  wafer_arena_destroy(arena);
}

enum { TALL = 8, WORDS = 40 };

/* Words go up a column and out at its top, every third cycle: a cycle in which only the border has
 * something to do is one for all strips. */
static void border_is_one(void) {
  static const wafer_route routes[] = {
      {.cores = {0, 0, 1, TALL - 1}, .positions = 1, .at = {{WAFER_PORT_south, WAFER_TO(north)}}},
      {.cores = {0, TALL - 1, 1, 1}, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(north)}}}};
  static const wafer_core_task start = {.kind = WAFER_TASK_start};
  static const wafer_core_binding out = {.output = true};
  static const wafer_instruction send = {
      .op = WAFER_CORE_move,
      .count_reg = WAFER_NO_REGISTER,
      .shape = {1, 1, 1, WORDS},
      .out = {.kind = WAFER_OPERAND_fabric, .dtype = WAFER_DTYPE_f32},
      .in = {{.kind = WAFER_OPERAND_memory,
              .dtype = WAFER_DTYPE_f32,
              .reg = WAFER_NO_REGISTER,
              .stride = {0, 0, 0, 4}}}};
  static const wafer_core_program sender = {.name = "sender",
                                            .code = &send,
                                            .code_count = 1,
                                            .tasks = &start,
                                            .task_count = 1,
                                            .bindings = &out,
                                            .binding_count = 1};
  uint32_t core[TALL], sent[WORDS], whole[WORDS];
  for (uint32_t i = 0; i < TALL; i++) core[i] = i + 1 < TALL ? WAFER_NO_PROGRAM : 0;
  for (uint32_t i = 0; i < WORDS; i++) sent[i] = i * 2654435761u;
  const wafer_fabric_program program = {.name = "column",
                                        .width = 1,
                                        .height = TALL,
                                        .programs = &sender,
                                        .program_count = 1,
                                        .core = core,
                                        .routes = routes,
                                        .route_count = 2};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  wafer_fabric_stats one, many;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  for (uint32_t strips = 1; strips <= 4; strips++) {
    const wafer_fabric_options options = {.threads = 1 + strips % 2, .strips = strips};
    wafer_fabric *f;
    memset(whole, 0, sizeof whole);
    CU_ASSERT_FATAL(wafer_fabric_create(NULL, machine, &program, &options, &f) == WAFER_OK);
    CU_ASSERT(wafer_fabric_write(f, 0, TALL - 1, 0, sent, sizeof sent));
    wafer_fabric_rate(f, 0, 1, 3);
    CU_ASSERT(wafer_fabric_drain(f, 0, 0, WAFER_PORT_north, 0, whole, WORDS, 0, NULL) == WAFER_OK);
    CU_ASSERT(wafer_fabric_run(f, strips == 1 ? &one : &many) == WAFER_OK);
    CU_ASSERT(!memcmp(whole, sent, sizeof sent));
    CU_ASSERT(strips == 1 || !memcmp(&one, &many, sizeof one));
    wafer_fabric_destroy(f);
  }
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fabric_strips[] = {
    {"strips change nothing", strips_change_nothing},
    {"simple hops wait at borders", simple_hops_wait_at_borders},
    {"threads change nothing", threads_change_nothing},
    {"the border is one", border_is_one},
    CU_TEST_INFO_NULL,
};

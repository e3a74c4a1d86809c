/* Fragments and the program that they become. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "fragment_words.h"

/* The same of many words, as streams do it. */
static void send_many(fragment *f, uint32_t x, uint32_t words, int32_t from, int32_t to) {
  uint8_t c = fragment_color(f);
  wafer_instruction code[] = {send_words(c, from), {.op = WAFER_CORE_join, .thread = 0}};
  code[0].shape[3] = words;
  code[0].async = true;
  fragment_run(f, (wafer_rect){x, 0, 1, 1}, fragment_code_add(f, code, 2));
  code[0] = take_words(c, to);
  code[0].shape[3] = words;
  code[0].async = true;
  fragment_run(f, (wafer_rect){x + 1, 0, 1, 1}, fragment_code_add(f, code, 2));
  fragment_route(f, &(wafer_route){{x, 0, 1, 1}, c, 1, false, {{WAFER_PORT_ramp, WAFER_TO(east)}}});
  fragment_route(
      f, &(wafer_route){{x + 1, 0, 1, 1}, c, 1, false, {{WAFER_PORT_west, WAFER_TO(ramp)}}});
}

typedef struct marks {
  int32_t last[5]; /* of each core */
  uint32_t count;
} marks;

static void note_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  marks *m = user;
  (void)y;
  (void)cycle;
  m->last[x] = value;
  m->count++;
}

/* Along a row, in fragments one after the other; rows are alike. */
static void test_relay(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  fragment f[3];
  const fragment *at[] = {&f[0], &f[1], &f[2]};
  wafer_fabric_program program;
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 3; i++) {
    fragment_begin(&f[i], arena, "relay", NULL, (wafer_rect){i, 0, 2, 1});
    send_east(&f[i], i, 0, 0, 0);
    CU_ASSERT_EQUAL(f[i].code_count, 2);
  }
  fragment_link link = {
      .name = "relay", .width = 5, .height = 1, .count = 3, .at = at, .marks = true};
  CU_ASSERT_FATAL(fragment_link_program(&diag, arena, wse2, &link, &program) == WAFER_OK);
  CU_ASSERT_EQUAL(program.program_count, 4);
  CU_ASSERT_EQUAL(program.core[4], WAFER_NO_PROGRAM);
  CU_ASSERT(program.routes[1].color != program.routes[2].color); /* both at core 1 */
  CU_ASSERT_FATAL(wafer_fabric_create(&diag, wse2, &program, NULL, &fabric) == WAFER_OK);
  float words[WORDS] = {1, 2, 3, 4}, got[WORDS] = {0};
  wafer_fabric_write(fabric, 0, 0, 0, words, sizeof words);
  marks m = {.count = 0};
  wafer_fabric_observe(fabric, note_mark, &m);
  CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
  CU_ASSERT(m.count == 10 && m.last[0] == 3 && m.last[3] == 3);
  CU_ASSERT(wafer_fabric_read(fabric, 3, 0, 0, got, sizeof got));
  for (int i = 0; i < WORDS; i++) CU_ASSERT_EQUAL(got[i], words[i]);
  wafer_fabric_destroy(fabric);
  wafer_arena_destroy(arena);
}

/* Even samples are those of cores 0 and 1, odd ones of 1 and 2, as with two replicas; of five. */
static void test_turns(void) {
  enum { SAMPLES = 5 };
  static const uint32_t steps[] = {2, 0, FRAGMENT_ENDS, 1, FRAGMENT_ENDS};
  static const int32_t up[WAFER_LEVELS] = {0};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  fragment f[3];
  const fragment *at[] = {&f[0], &f[1], &f[2]};
  wafer_fabric_program program;
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  const wafer_instruction more = {
      .op = WAFER_CORE_add,
      .count_reg = WAFER_NO_REGISTER,
      .shape = {1, 1, 1, 1},
      .out = fragment_memory(WAFER_DTYPE_f32, 0, up),
      .in = {fragment_memory(WAFER_DTYPE_f32, 0, up),
             {.kind = WAFER_OPERAND_constant, .dtype = WAFER_DTYPE_f32, .value = 1}}};
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 2; i++) { /* each receiver counts */
    fragment_begin(&f[i], arena, "turns", NULL, (wafer_rect){i, 0, 2, 1});
    send_east(&f[i], i, 0, 4, 4);
    fragment_run(&f[i], (wafer_rect){i + 1, 0, 1, 1}, fragment_code_add(&f[i], &more, 1));
  }
  fragment_begin(&f[2], arena, "once", NULL, (wafer_rect){1, 0, 1, 1}); /* core 1 alone */
  fragment_run(&f[2], f[2].rect, fragment_code_add(&f[2], &more, 1));
  fragment_link link = {.name = "turns",
                        .width = 3,
                        .height = 1,
                        .count = 3,
                        .at = at,
                        .marks = true,
                        .step_count = WAFER_COUNT(steps),
                        .steps = steps,
                        .once = 1};
  CU_ASSERT_FATAL(fragment_link_program(&diag, arena, wse2, &link, &program) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_create(&diag, wse2, &program, NULL, &fabric) == WAFER_OK);
  const float words[1 + WORDS] = {0, 1, 2, 3, 4};
  float got;
  for (uint32_t x = 0; x < 3; x++) {
    wafer_fabric_write(fabric, x, 0, 0, words, sizeof words);
    wafer_fabric_set(fabric, x, 0, FRAGMENT_SAMPLES, SAMPLES);
  }
  marks m = {.count = 0};
  wafer_fabric_observe(fabric, note_mark, &m);
  CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
  CU_ASSERT_EQUAL(m.count, 3 * SAMPLES + 3 + 5 + 2 + 1); /* ends; beginnings of the fragments */
  CU_ASSERT(wafer_fabric_read(fabric, 1, 0, 0, &got, sizeof got) && got == 3 + 1);
  CU_ASSERT(wafer_fabric_read(fabric, 2, 0, 0, &got, sizeof got) && got == 2);
  wafer_fabric_destroy(fabric);
  wafer_arena_destroy(arena);
}

/* Sends of a stream go on while the core takes the next sample, and end before it computes: core 1
 * takes words, counts up what it sends, and sends. The code was once joined at the end of each
 * stream, and cores received and sent in turn. */
static void test_sends_go_on(void) {
  enum { SAMPLES = 4, MANY = 256 };
  static const uint32_t steps[] = {0, 1, 2, FRAGMENT_ENDS};
  static const int32_t up[WAFER_LEVELS] = {0, 0, 0, 4};
  uint64_t cycles[2];
  for (int on = 0; on < 2; on++) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_machine *wse2;
    caught c;
    wafer_diag diag = caught_diag(&c);
    fragment f[3];
    const fragment *at[] = {&f[0], &f[1], &f[2]};
    wafer_fabric_program program;
    wafer_fabric *fabric;
    wafer_fabric_stats stats;
    CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
    for (uint32_t i = 0; i < 3; i += 2) { /* 0 to 1, and 1 to 2 */
      uint32_t x = i / 2;
      fragment_begin(&f[i], arena, "goes on", NULL, (wafer_rect){x, 0, 2, 1});
      f[i].stream = on;
      send_many(&f[i], x, MANY, i ? 4 * MANY : 0, 0);
    }
    fragment_begin(&f[1], arena, "counts", NULL, (wafer_rect){1, 0, 1, 1});
    const wafer_instruction more = {
        .op = WAFER_CORE_add,
        .count_reg = WAFER_NO_REGISTER,
        .shape = {1, 1, 1, MANY},
        .out = fragment_memory(WAFER_DTYPE_f32, 4 * MANY, up),
        .in = {fragment_memory(WAFER_DTYPE_f32, 4 * MANY, up),
               {.kind = WAFER_OPERAND_constant, .dtype = WAFER_DTYPE_f32, .value = 1}}};
    fragment_run(&f[1], (wafer_rect){1, 0, 1, 1}, fragment_code_add(&f[1], &more, 1));
    fragment_link link = {.name = "goes on",
                          .width = 3,
                          .height = 1,
                          .count = 3,
                          .at = at,
                          .marks = true,
                          .step_count = WAFER_COUNT(steps),
                          .steps = steps};
    CU_ASSERT_FATAL(fragment_link_program(&diag, arena, wse2, &link, &program) == WAFER_OK);
    CU_ASSERT_FATAL(wafer_fabric_create(&diag, wse2, &program, NULL, &fabric) == WAFER_OK);
    const float words[2 * MANY] = {0};
    float got[MANY];
    for (uint32_t x = 0; x < 3; x++) {
      wafer_fabric_write(fabric, x, 0, 0, words, sizeof words);
      wafer_fabric_set(fabric, x, 0, FRAGMENT_SAMPLES, SAMPLES);
    }
    CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
    cycles[on] = stats.cycles;
    CU_ASSERT(wafer_fabric_read(fabric, 2, 0, 0, got, sizeof got));
    CU_ASSERT(got[0] == SAMPLES && got[MANY - 1] == SAMPLES);
    wafer_fabric_destroy(fabric);
    wafer_arena_destroy(arena);
  }
  CU_ASSERT(cycles[0] - cycles[1] > (SAMPLES - 1) * (MANY - 64)); /* each sample's words but one */
}

/* Core 0 counts up what it sends, and core 1 adds what it takes, two samples later: it has three
 * rooms, and takes the first of two samples before it adds any. Trains shorter than that end, too.
 */
static void run_ahead(int32_t samples) {
  enum { PERIOD = 100, ROOM = 4 * WORDS, SUM = 3 * ROOM };
  static const uint32_t steps[] = {0, 1, 2, 3, FRAGMENT_ENDS};
  static const int64_t due[] = {0, 0, 0, 2 * PERIOD + 1};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  fragment f[4];
  const fragment *at[] = {&f[0], &f[1], &f[2], &f[3]};
  wafer_fabric_program program;
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  wafer_instruction count = move_words(), moves[2], add;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 4; i++)
    fragment_begin(&f[i], arena, "ahead", NULL,
                   i == 2 ? (wafer_rect){0, 0, 2, 1} : (wafer_rect){i % 2, 0, 1, 1});
  count.op = WAFER_CORE_add;
  count.out = count.in[0] = words_at(0);
  count.in[1] = (wafer_operand){.kind = WAFER_OPERAND_constant, .dtype = WAFER_DTYPE_f32};
  count.in[1].value = 1;
  fragment_run(&f[0], f[0].rect, fragment_code_add(&f[0], &count, 1));
  for (int32_t i = 0; i < 2; i++) {
    moves[i] = move_words();
    moves[i].out = words_at(i * ROOM);
    moves[i].in[0] = words_at((i + 1) * ROOM);
  }
  f[1].stream = f[1].makes_room = true;
  fragment_run(&f[1], f[1].rect, fragment_code_add(&f[1], moves, 2));
  f[2].stream = true;
  send_east(&f[2], 0, 0, 0, 2 * ROOM);
  add = count;
  add.out = add.in[0] = words_at(SUM);
  add.in[1] = words_at(0);
  fragment_run(&f[3], f[3].rect, fragment_code_add(&f[3], &add, 1));
  const fragment_link link = {.name = "ahead",
                              .width = 2,
                              .height = 1,
                              .count = 4,
                              .at = at,
                              .step_count = WAFER_COUNT(steps),
                              .steps = steps,
                              .due = due,
                              .period = PERIOD};
  CU_ASSERT_FATAL(fragment_link_program(&diag, arena, wse2, &link, &program) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_create(&diag, wse2, &program, NULL, &fabric) == WAFER_OK);
  const float words[4 * WORDS] = {0};
  float got = 0;
  for (uint32_t x = 0; x < 2; x++) {
    wafer_fabric_write(fabric, x, 0, 0, words, sizeof words);
    wafer_fabric_set(fabric, x, 0, FRAGMENT_SAMPLES, samples);
  }
  CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
  CU_ASSERT(wafer_fabric_read(fabric, 1, 0, SUM, &got, sizeof got));
  CU_ASSERT_EQUAL(got, (float)(samples * (samples + 1) / 2));
  wafer_fabric_destroy(fabric);
  wafer_arena_destroy(arena);
}

static void test_goes_ahead(void) {
  for (int32_t samples = 1; samples < 6; samples++) run_ahead(samples);
}

/* Equal code is stored once, whatever the bytes between fields. */
static void test_equal_code(void) {
  wafer_arena *arena = wafer_arena_create();
  fragment f;
  fragment_begin(&f, arena, "equal", NULL, (wafer_rect){0, 0, 1, 1});
  wafer_instruction a, b;
  memset(&a, 0x00, sizeof a);
  memset(&b, 0x5a, sizeof b);
  a = (wafer_instruction){.op = WAFER_CORE_end};
  b = (wafer_instruction){.op = WAFER_CORE_end};
  uint32_t first = fragment_code_add(&f, &a, 1);
  CU_ASSERT_EQUAL(fragment_code_add(&f, &b, 1), first);
  b.value = 1;
  CU_ASSERT(fragment_code_add(&f, &b, 1) != first);
  for (int32_t i = 0; i < 500; i++) { /* the table grows */
    b.value = i;
    fragment_code_add(&f, &b, 1);
  }
  CU_ASSERT_EQUAL(f.code_count, 500);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fragment[] = {{"a relay", test_relay},
                                {"samples in turn", test_turns},
                                {"sends go on", test_sends_go_on},
                                {"samples ahead", test_goes_ahead},
                                {"equal code once", test_equal_code},
                                CU_TEST_INFO_NULL};

/* Colours of fragments: which share one, which get several, and where there are too few. */
#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "fragment_words.h"

/* Core 0 sends WORDS words at `at` to core `to` of its row, which puts them at `at` too. */
static void send_far(fragment *f, uint32_t to, int32_t at) {
  uint8_t c = fragment_color(f);
  wafer_instruction code = send_words(c, at);
  wafer_route route = {.cores = {0, 0, 1, 1}, .color = c, .positions = 1};
  fragment_run(f, route.cores, fragment_code_add(f, &code, 1));
  code = take_words(c, at);
  fragment_run(f, (wafer_rect){to, 0, 1, 1}, fragment_code_add(f, &code, 1));
  fragment_source_add(f, route.cores, c, WORDS);
  route.at[0].from = WAFER_PORT_ramp;
  route.at[0].to = WAFER_TO(east);
  fragment_route(f, &route);
  route.at[0].from = WAFER_PORT_west;
  route.cores = (wafer_rect){1, 0, to - 1, 1};
  fragment_route(f, &route);
  route.at[0].to = WAFER_TO(ramp);
  route.cores = (wafer_rect){to, 0, 1, 1};
  fragment_route(f, &route);
}

enum { MANY = 40, CORES = 4 };

/* More fragments on a row of cores than the machine has colours; to link once each, or half of them
 * at each of two samples. */
typedef struct crowd {
  wafer_arena *arena;
  const wafer_machine *machine;
  fragment f[MANY];
  const fragment *at[MANY];
  uint32_t steps[MANY + 2];
  wafer_fabric_program program; /* as long as the fabric that runs it */
} crowd;

static void crowd_begin(crowd *c) {
  c->arena = wafer_arena_create();
  CU_ASSERT_FATAL(wafer_machine_open(NULL, c->arena, "wse2", &c->machine) == WAFER_OK);
  for (uint32_t i = 0; i < MANY; i++) {
    fragment_begin(&c->f[i], c->arena, "crowd", NULL, (wafer_rect){0, 0, CORES, 1});
    c->at[i] = &c->f[i];
    c->steps[i + (i >= MANY / 2)] = i;
  }
  c->steps[MANY / 2] = c->steps[MANY + 1] = FRAGMENT_ENDS;
}

/* The fabric that runs them, as a train if asked; its memory is yet to be written. */
static wafer_fabric *crowd_link(crowd *c, bool train) {
  const fragment_link link = {.name = "crowd",
                              .width = CORES,
                              .height = 1,
                              .count = MANY,
                              .at = c->at,
                              .step_count = MANY + 2,
                              .steps = train ? c->steps : NULL};
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_fabric *fabric;
  CU_ASSERT_FATAL(fragment_link_program(&diag, c->arena, c->machine, &link, &c->program) ==
                  WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_create(&diag, c->machine, &c->program, NULL, &fabric) == WAFER_OK);
  for (uint32_t x = 0; x < CORES; x++)
    wafer_fabric_set(fabric, x, 0, FRAGMENT_SAMPLES, train ? 4 : 0);
  return fabric;
}

static bool has_words(wafer_fabric *fabric, uint32_t x, uint32_t address, const float *want) {
  float got[WORDS];
  return wafer_fabric_read(fabric, x, 0, address, got, sizeof got) &&
         memcmp(got, want, sizeof got) == 0;
}

/* All go out from one core. */
static void test_shared_colors(void) {
  static crowd c;
  crowd_begin(&c);
  for (uint32_t i = 0; i < MANY; i++) send_far(&c.f[i], 1 + i % (CORES - 1), (int32_t)(16 * i));
  for (int train = 0; train < 2; train++) {
    wafer_fabric *fabric = crowd_link(&c, train);
    wafer_fabric_stats stats;
    float words[WORDS * MANY];
    for (int i = 0; i < WORDS * MANY; i++) words[i] = (float)i;
    wafer_fabric_write(fabric, 0, 0, 0, words, sizeof words);
    CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
    for (uint32_t i = 0; i < MANY; i++)
      CU_ASSERT(has_words(fabric, 1 + i % (CORES - 1), 16 * i, &words[WORDS * i]));
    wafer_fabric_destroy(fabric);
  }
  wafer_arena_destroy(c.arena);
}

/* Core 1 of a row sends WORDS words at `at` east, then core 0 does; core 2 takes those of one, core
 * 3 those of the other, and puts them at `at`. */
static void send_in_turn(fragment *f, bool swapped, int32_t at) {
  static const uint32_t first[] = {0, WORDS, WORDS, 0}, second[] = {WORDS, WORDS};
  uint8_t c = fragment_color(f);
  for (uint32_t x = 0; x < 4; x++) {
    const wafer_rect core = {x, 0, 1, 1};
    wafer_instruction code = x < 2 ? send_words(c, at) : take_words(c, at);
    wafer_route route = {.cores = core, .color = c, .positions = 1 + (x == 1)};
    code.control = x == 0   ? WAFER_CONTROL_reset
                   : x == 1 ? WAFER_CONTROL_advance
                            : WAFER_CONTROL_none;
    fragment_run(f, core, fragment_code_add(f, &code, 1));
    route.at[0].from = x < 2 ? WAFER_PORT_ramp : WAFER_PORT_west;
    route.at[0].to = x < 2    ? WAFER_TO(east)
                     : x == 2 ? WAFER_TO(east) | WAFER_TO(ramp)
                              : WAFER_TO(ramp);
    route.at[1].from = WAFER_PORT_west;
    route.at[1].to = WAFER_TO(east);
    fragment_route(f, &route);
    if (x < 2) continue;
    bool early = (x == 2) != swapped;
    fragment_filter_add(f, core, c, early ? first : second, early ? 4 : 2);
  }
}

/* Several cores of a line send, over switches: fragments share colours where routers do the same
 * for all. */
static void test_lines_alike(void) {
  static crowd c;
  crowd_begin(&c);
  for (uint32_t i = 0; i < MANY; i++) send_in_turn(&c.f[i], i % 3 == 1, (int32_t)(16 * i));
  for (int train = 0; train < 2; train++) {
    wafer_fabric *fabric = crowd_link(&c, train);
    wafer_fabric_stats stats;
    float words[2][WORDS * MANY];
    for (int i = 0; i < 2 * WORDS * MANY; i++)
      words[i / (WORDS * MANY)][i % (WORDS * MANY)] = (float)i;
    for (uint32_t x = 0; x < 2; x++) wafer_fabric_write(fabric, x, 0, 0, words[x], sizeof words[x]);
    CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
    for (uint32_t i = 0; i < 2 * MANY; i++) {
      uint32_t from = (i % 2 == 0) != (i / 2 % 3 == 1); /* core 2 has the first words, of core 1 */
      CU_ASSERT(has_words(fabric, 2 + i % 2, 16 * (i / 2), &words[from][WORDS * (i / 2)]));
    }
    wafer_fabric_destroy(fabric);
  }
  wafer_arena_destroy(c.arena);
}

/* What is due less than a period apart shares a colour; what is due a period later does not, for a
 * core ahead with the one takes two samples of it before the other's first. They once shared, and
 * cores waited for each other's words. */
static void test_colors_in_turn(void) {
  enum { TURNS = 30, PERIOD = 100 };
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  static fragment f[TURNS];
  const fragment *at[TURNS];
  uint32_t steps[TURNS + 1];
  int64_t due[TURNS];
  wafer_fabric_program program;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < TURNS; i++) {
    fragment_begin(&f[i], arena, "in turn", NULL, (wafer_rect){0, 0, 3, 1});
    send_far(&f[i], 1 + i % 2, (int32_t)(16 * i));
    at[i] = &f[i];
    steps[i] = i;
  }
  steps[TURNS] = FRAGMENT_ENDS;
  for (uint32_t apart = 1; apart <= PERIOD; apart += PERIOD - 1) {
    const fragment_link link = {.name = "in turn",
                                .width = 3,
                                .height = 1,
                                .count = TURNS,
                                .at = at,
                                .step_count = TURNS + 1,
                                .steps = steps,
                                .due = due,
                                .period = PERIOD};
    for (uint32_t i = 0; i < TURNS; i++) due[i] = (int64_t)i * apart;
    CU_ASSERT_EQUAL(fragment_link_program(&diag, arena, wse2, &link, &program),
                    apart < PERIOD ? WAFER_OK : WAFER_NO_FIT);
  }
  wafer_arena_destroy(arena);
}

/* One core more colours than the machine has, of words that cross the border. */
static void test_colors_run_out(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  static fragment f[25];
  const fragment *at[25];
  wafer_fabric_program program;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 25; i++) {
    fragment_begin(&f[i], arena, i < 24 ? "many" : "last", "node", (wafer_rect){0, 0, 2, 1});
    send_east(&f[i], 0, 0, 0, 0);
    fragment_port(&f[i], &(wafer_port_use){.side = WAFER_PORT_west, .out = true});
    at[i] = &f[i];
  }
  fragment_link link = {.name = "crowd", .width = 2, .height = 1, .count = 25, .at = at};
  CU_ASSERT_EQUAL(fragment_link_program(&diag, arena, wse2, &link, &program), WAFER_NO_FIT);
  CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "others use 24 at core (0,0)"));
  wafer_arena_destroy(arena);
}

/* Core (x, y) sends words at 0 over one router to the core two farther east, which puts them there,
 * too. */
static void send_over(fragment *f, uint32_t x, uint32_t y, uint8_t c) {
  wafer_instruction code = send_words(c, 0);
  fragment_run(f, (wafer_rect){x, y, 1, 1}, fragment_code_add(f, &code, 1));
  code = take_words(c, 0);
  fragment_run(f, (wafer_rect){x + 2, y, 1, 1}, fragment_code_add(f, &code, 1));
  for (uint32_t i = 0; i < 3; i++) {
    wafer_route route = {.cores = {x + i, y, 1, 1}, .color = c, .positions = 1};
    route.at[0].from = i ? WAFER_PORT_west : WAFER_PORT_ramp;
    route.at[0].to = i < 2 ? WAFER_TO(east) : WAFER_TO(ramp);
    fragment_route(f, &route);
  }
}

/* Two lines of a fragment: all colours are taken on the one between its ends, so that its words go
 * around, and what is left at these is not what is left on the other line, so that each has a
 * colour of its own. */
static void test_words_go_around(void) {
  enum { LINES = 24, WIDTH = 4, HEIGHT = 5, OTHER = 4 };
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  caught c;
  wafer_diag diag = caught_diag(&c);
  static fragment f[2 * LINES];
  const fragment *at[2 * LINES], *const *around;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 2 * LINES; i++) {
    fragment_begin(&f[i], arena, "crowd", NULL, (wafer_rect){0, 0, WIDTH, HEIGHT});
    at[i] = &f[i];
  }
  for (uint32_t i = 0; i < LINES; i++)
    send_beside(&f[i], 1, 0, i + 1 < LINES, 64,
                64 + 16 * (int32_t)i); /* the last where the line ends */
  for (uint32_t i = 0; i + 1 < LINES; i++)
    send_east(&f[LINES + i], 1, OTHER, 64, 64 + 16 * (int32_t)i);
  for (uint32_t i = 0; i + 1 < 2 * LINES; i++) /* what crosses the border shares no colour */
    fragment_port(&f[i], &(wafer_port_use){.side = WAFER_PORT_west, .out = true});
  fragment *two = &f[2 * LINES - 1];
  uint8_t color = fragment_color(two);
  send_over(two, 0, 0, color);
  send_over(two, 0, OTHER, color);
  bool lacks = false;
  fragment_link link = {.name = "around",
                        .width = WIDTH,
                        .height = HEIGHT,
                        .count = 2 * LINES,
                        .at = at,
                        .lacks_colors = &lacks};
  wafer_fabric_program program;
  CU_ASSERT_EQUAL(fragment_link_program(&diag, arena, wse2, &link, &program), WAFER_NO_FIT);
  CU_ASSERT(lacks);
  link.around = &around;
  fragment_effort little = {.most = 1}, any = {0};
  link.effort = &little; /* where that takes too long they keep to their lines */
  CU_ASSERT_EQUAL(fragment_link_program(&diag, arena, wse2, &link, &program), WAFER_NO_FIT);
  CU_ASSERT(fragment_is_spent(&little));
  link.effort = &any;
  CU_ASSERT_FATAL(fragment_link_program(&diag, arena, wse2, &link, &program) == WAFER_OK);
  CU_ASSERT(any.spent > little.spent && !fragment_is_spent(&any));
  CU_ASSERT_PTR_NOT_NULL_FATAL(around);
  CU_ASSERT_EQUAL(around[2 * LINES - 1]->colors, 2);
  CU_ASSERT_EQUAL(around[2 * LINES - 1]->around, 4);
  wafer_fabric *fabric;
  wafer_fabric_stats stats;
  CU_ASSERT_FATAL(wafer_fabric_create(&diag, wse2, &program, NULL, &fabric) == WAFER_OK);
  float words[WORDS] = {1, 2, 3, 4}, got[WORDS];
  for (uint32_t y = 0; y < HEIGHT; y += OTHER)
    for (uint32_t x = 0; x < 2; x++)
      wafer_fabric_write(fabric, x, y, x ? 64 : 0, words, sizeof words);
  CU_ASSERT_EQUAL(wafer_fabric_run(fabric, &stats), WAFER_OK);
  for (uint32_t y = 0; y < HEIGHT; y += OTHER) {
    CU_ASSERT(wafer_fabric_read(fabric, 2, y, 0, got, sizeof got));
    CU_ASSERT(memcmp(got, words, sizeof got) == 0);
  }
  wafer_fabric_destroy(fabric);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fragment_color[] = {{"colors that fragments share", test_shared_colors},
                                      {"lines alike share colors", test_lines_alike},
                                      {"colors of what comes in turn", test_colors_in_turn},
                                      {"colors run out", test_colors_run_out},
                                      {"words go around", test_words_go_around},
                                      CU_TEST_INFO_NULL};

/* include/wafer/fault.h: faults as text, and what a run does with them. */
#include "wafer/fault.h"

#include <CUnit/CUnit.h>

#include "caught.h"
#include "wafer/fabric_case.h"

static void faults_are_spelt(void) {
  static const struct {
    const char *text;
    wafer_fault want;
  } rows[] = {{"drop@3,4,50", {WAFER_FAULT_drop, 0, 3, 4, 50}},
              {"stuck@0,0,0", {WAFER_FAULT_stuck, 0, 0, 0, 0}},
              {"flip@12,1,9,31", {WAFER_FAULT_flip, 31, 12, 1, 9}}};
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    wafer_fault got;
    char text[96];
    CU_ASSERT_FATAL(wafer_fault_parse(rows[i].text, &got));
    CU_ASSERT(got.kind == rows[i].want.kind && got.bit == rows[i].want.bit &&
              got.x == rows[i].want.x && got.y == rows[i].want.y &&
              got.cycle == rows[i].want.cycle);
    wafer_fault_format(&got, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, rows[i].text);
  }
  static const char *const bad[] = {"",          "drop",       "drop@",         "lose@1,2,3",
                                    "drop@1,2",  "drop@1,2,3,4", "flip@1,2,3,32", "drop@-1,2,3",
                                    "drop@1,2,3 ", "flip@1,2,3,", "drop@4294967296,0,0",
                                    "drop@0,0,18446744073709551616"};
  wafer_fault got;
  for (size_t i = 0; i < WAFER_COUNT(bad); i++) CU_ASSERT(!wafer_fault_parse(bad[i], &got));
  CU_ASSERT(wafer_fault_parse("flip@1,2,3", &got) && got.bit == 0);
}

static const struct {
  const char *name;
  wafer_case_options options;
  uint32_t cycles; /* about */
} cases[] = {
    {"reduce", {.width = 12, .words = 20, .algorithm = "tree"}, 150},
    {"reduce", {.width = 9, .height = 2, .words = 20, .algorithm = "star"}, 190},
    {"all-reduce", {.width = 5, .height = 4, .words = 20}, 120},
    {"all-reduce", {.width = 6, .words = 12, .algorithm = "ring"}, 120},
    {"random", {.width = 6, .height = 6, .words = 8, .cycles = 300, .load = 0.3}, 300},
    {"gemv", {.width = 4, .height = 8, .words = 1, .m = 16, .n = 12, .repeat = 2}, 200},
    {"gemm", {.width = 4, .height = 4, .words = 1, .m = 8, .k = 8, .n = 8, .repeat = 2}, 700},
    {"gemm", {.width = 4, .height = 4, .words = 1, .algorithm = "summa"}, 300},
};

static wafer_status run(const wafer_machine *machine, size_t one, const wafer_fault *fault,
                        caught *c, wafer_case_result *result) {
  wafer_diag diag = caught_diag(c);
  wafer_case_options options = cases[one].options;
  options.faults = fault;
  options.fault_count = 1;
  return wafer_case_run(&diag, machine, cases[one].name, &options, result);
}

static uint32_t draw(uint64_t *state, uint32_t count) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % count;
}

/* What strikes shows, and says what it was; what does not, changes nothing. */
static void every_fault_shows_or_is_harmless(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  uint32_t shown[3] = {0}, struck[3] = {0};
  uint64_t state = 5;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (uint32_t i = 0; i < 480; i++) {
    size_t one = i % WAFER_COUNT(cases);
    uint32_t height = cases[one].options.height ? cases[one].options.height : 1;
    wafer_fault fault = {.kind = (uint8_t)(i / WAFER_COUNT(cases) % 3),
                         .x = draw(&state, cases[one].options.width),
                         .y = draw(&state, height),
                         .cycle = draw(&state, cases[one].cycles),
                         .bit = (uint8_t)draw(&state, 32)};
    caught c;
    wafer_case_result result;
    wafer_status status = run(wse2, one, &fault, &c, &result);
    struck[fault.kind] += result.struck;
    if (status == WAFER_OK) {
      CU_ASSERT(c.count == 0);
      continue;
    }
    char text[96];
    wafer_fault_format(&fault, text, sizeof text);
    bool named = (status == WAFER_TRAP || status == WAFER_DIFFER) &&
                 c.severity == WAFER_NOTE && result.struck == 1 && strstr(c.text, text);
    if (!named) printf("\n%s %s: %d %s\n", cases[one].name, text, status, c.text);
    CU_ASSERT(named);
    shown[fault.kind]++;
  }
  /* A lost word of these programs is always missed; a flipped bit may be of padding, or of words
   * that nobody needs any more. */
  CU_ASSERT(struck[WAFER_FAULT_drop] > 100 && shown[WAFER_FAULT_drop] == struck[WAFER_FAULT_drop]);
  CU_ASSERT(struck[WAFER_FAULT_flip] > 100 && shown[WAFER_FAULT_flip] > 80);
  CU_ASSERT(shown[WAFER_FAULT_stuck] > 100);
  wafer_arena_destroy(arena);
}

static void late_faults_do_nothing(void) {
  static const wafer_fault late[] = {{WAFER_FAULT_drop, 0, 1, 0, 100000},
                                     {WAFER_FAULT_stuck, 0, 1, 0, 100000}};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(late); i++) {
    caught c;
    wafer_case_result result;
    CU_ASSERT(run(wse2, 0, &late[i], &c, &result) == WAFER_OK && result.struck == 0);
  }
  static const wafer_fault outside = {WAFER_FAULT_drop, 0, 12, 0, 1};
  caught c;
  wafer_case_result result;
  CU_ASSERT(run(wse2, 0, &outside, &c, &result) == WAFER_USAGE);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fault[] = {
    {"faults are spelt", faults_are_spelt},
    {"every fault shows or is harmless", every_fault_shows_or_is_harmless},
    {"late faults do nothing", late_faults_do_nothing},
    CU_TEST_INFO_NULL,
};

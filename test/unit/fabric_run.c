/* Cores and routers by small programs: strictness, deadlocks, switches, arbitration, tasks. */
#include <CUnit/CUnit.h>

#include "caught.h"
#include "wafer/fabric.h"

#define R WAFER_NO_REGISTER
#define MEM(at)                                                                                    \
  {.kind = WAFER_OPERAND_memory,                                                                   \
   .dtype = WAFER_DTYPE_f32,                                                                       \
   .reg = R,                                                                                       \
   .address = at,                                                                                  \
   .stride = {0, 0, 0, 4}}
#define FABRIC(c) {.kind = WAFER_OPERAND_fabric, .dtype = WAFER_DTYPE_f32, .color = c}
#define MOVE(n, to, from)                                                                          \
  {                                                                                                \
    .op = WAFER_CORE_move, .shape = {1, 1, 1, n}, .count_reg = R, .out = to, .in = { from }        \
  }

typedef struct fixture {
  wafer_arena *arena;
  const wafer_machine *machine;
  wafer_fabric *fabric;
  wafer_diag diag;
  caught caught;
  wafer_fabric_stats stats;
} fixture;

static fixture *start(const wafer_fabric_program *program) {
  static fixture f;
  f = (fixture){.arena = wafer_arena_create()};
  f.diag = caught_diag(&f.caught);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "wse2", &f.machine) == WAFER_OK);
  wafer_fabric_create(&f.diag, f.machine, program, NULL, &f.fabric);
  return &f;
}

static void finish(fixture *f) {
  wafer_fabric_destroy(f->fabric);
  wafer_arena_destroy(f->arena);
}

static const wafer_core_task at_start = {.kind = WAFER_TASK_start};
static const uint32_t both[] = {0, 1};

/* Two cores in a row: colour 0 eastwards, colour 1 westwards. */
static const wafer_route pair[] = {
    {.cores = {0, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(east)}}},
    {.cores = {1, 0, 1, 1}, .color = 0, .positions = 1, .at = {{WAFER_PORT_west, WAFER_TO(ramp)}}},
    {.cores = {1, 0, 1, 1}, .color = 1, .positions = 1, .at = {{WAFER_PORT_ramp, WAFER_TO(west)}}},
    {.cores = {0, 0, 1, 1}, .color = 1, .positions = 1, .at = {{WAFER_PORT_east, WAFER_TO(ramp)}}},
};
static const wafer_core_binding left_bindings[] = {{0, 2, true}, {1, 0, false}};
static const wafer_core_binding right_bindings[] = {{1, 2, true}, {0, 0, false}};

#define PAIR(list, routes_used)                                                                    \
  {.name = "pair",                                                                                 \
   .width = 2,                                                                                     \
   .height = 1,                                                                                    \
   .programs = list,                                                                               \
   .program_count = 2,                                                                             \
   .core = both,                                                                                   \
   .routes = pair,                                                                                 \
   .route_count = routes_used}

static wafer_status run_pair(const wafer_instruction *left, uint32_t left_count,
                             const wafer_instruction *right, uint32_t right_count, fixture **out) {
  wafer_core_program programs[] = {
      {"left", "node_l", left, left_count, &at_start, 1, left_bindings, 2},
      {"right", "node_r", right, right_count, &at_start, 1, right_bindings, 2}};
  wafer_fabric_program p = PAIR(programs, 4);
  fixture *f = *out = start(&p);
  CU_ASSERT_FATAL(f->fabric != NULL);
  float words[64];
  for (int i = 0; i < 64; i++) words[i] = (float)i;
  for (uint32_t x = 0; x < 2; x++)
    CU_ASSERT(wafer_fabric_write(f->fabric, x, 0, 0, words, sizeof words));
  return wafer_fabric_run(f->fabric, &f->stats);
}

static void sends_and_counts(void) {
  static const wafer_instruction left[] = {MOVE(64, FABRIC(0), MEM(0))};
  static const wafer_instruction right[] = {MOVE(64, MEM(256), FABRIC(0))};
  fixture *f;
  CU_ASSERT(run_pair(left, 1, right, 1, &f) == WAFER_OK);
  CU_ASSERT(f->stats.hops == 64 && f->stats.elements == 128);
  CU_ASSERT(f->stats.cycles == 5 + 64 + 6); /* set-up; words; ramp, hop, ramp and the add */
  float got;
  CU_ASSERT(wafer_fabric_read(f->fabric, 1, 0, 256 + 4 * 63, &got, 4) && got == 63);
  finish(f);
}

static void trapped(const wafer_instruction *left, const wafer_instruction *right,
                    const char *place, const char *text) {
  fixture *f;
  CU_ASSERT(run_pair(left, 1, right, 1, &f) == WAFER_TRAP);
  CU_ASSERT(strstr(f->caught.place, place) != NULL);
  CU_ASSERT(strstr(f->caught.text, text) != NULL);
  finish(f);
}

static void traps(void) {
  static const wafer_instruction quiet[] = {{.op = WAFER_CORE_end}};
  static const wafer_instruction send[] = {MOVE(4, FABRIC(0), MEM(0))};
  static const wafer_instruction unwritten[] = {MOVE(1, MEM(0), MEM(400))};
  static const wafer_instruction far[] = {MOVE(4, MEM(49000), MEM(0))};
  trapped(send, quiet, "core (1,0)", "4 wavelets of color 0 are left in the core's input queue");
  trapped(unwritten, quiet, "core (0,0)", "reads address 400, which nobody has written");
  trapped(far, quiet, "core (0,0)", "writes 4 bytes at address 49000");
}

static void reports_deadlock(void) {
  static const wafer_instruction left[] = {MOVE(1, MEM(0), FABRIC(1)), MOVE(1, FABRIC(0), MEM(0))};
  static const wafer_instruction right[] = {MOVE(1, MEM(0), FABRIC(0)), MOVE(1, FABRIC(1), MEM(0))};
  fixture *f;
  CU_ASSERT(run_pair(left, 2, right, 2, &f) == WAFER_TRAP);
  CU_ASSERT(f->caught.count == 4); /* the trap, and three notes: left, right, left again */
  CU_ASSERT_STRING_EQUAL(f->caught.text,
                         "core (0,0) waits for a wavelet of color 1: the cycle is closed");
  finish(f);
}

static void reports_a_full_queue(void) {
  static const wafer_instruction left[] = {MOVE(64, FABRIC(0), MEM(0)),
                                           MOVE(64, MEM(0), FABRIC(1))};
  static const wafer_instruction right[] = {MOVE(64, FABRIC(1), MEM(0)),
                                            MOVE(64, MEM(0), FABRIC(0))};
  fixture *f;
  CU_ASSERT(run_pair(left, 2, right, 2, &f) == WAFER_TRAP);
  CU_ASSERT_STRING_EQUAL(f->caught.text,
                         "core (0,0) waits to send on color 0: the cycle is closed");
  finish(f);
}

static void a_missing_route_is_a_trap(void) {
  static const wafer_instruction send[] = {MOVE(4, FABRIC(0), MEM(0))};
  static const wafer_instruction quiet[] = {{.op = WAFER_CORE_end}};
  wafer_core_program programs[] = {{"left", "node_l", send, 1, &at_start, 1, left_bindings, 1},
                                   {"right", NULL, quiet, 1, &at_start, 1, NULL, 0}};
  wafer_fabric_program p = PAIR(programs, 1);
  fixture *f = start(&p);
  float zero[4] = {0};
  CU_ASSERT_FATAL(f->fabric != NULL);
  wafer_fabric_write(f->fabric, 0, 0, 0, zero, sizeof zero);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_TRAP);
  CU_ASSERT_STRING_EQUAL(f->caught.text,
                         "a wavelet of color 0 came in from the west and has no route");
  finish(f);
}

static void refuses_bad_programs(void) {
  static const wafer_instruction code[] = {MOVE(4, FABRIC(3), MEM(0))};
  wafer_core_program programs[] = {{"left", NULL, code, 1, &at_start, 1, left_bindings, 2},
                                   {"right", NULL, code, 1, &at_start, 1, right_bindings, 2}};
  wafer_fabric_program p = PAIR(programs, 4);
  fixture *f = start(&p);
  CU_ASSERT(f->fabric == NULL && f->caught.status == WAFER_BAD_INPUT);
  CU_ASSERT(strstr(f->caught.text, "color 3") != NULL);
  finish(f);
}

/* A data task adds each wavelet; its switch costs what the machine says. */
static void data_tasks_take_wavelets(void) {
  static const wafer_instruction left[] = {
      {.op = WAFER_CORE_move,
       .shape = {1, 1, 1, 5},
       .count_reg = R,
       .out = {.kind = WAFER_OPERAND_fabric, .dtype = WAFER_DTYPE_i32, .color = 0},
       .in = {{.kind = WAFER_OPERAND_constant, .dtype = WAFER_DTYPE_i32, .value = 7}}}};
  static const wafer_instruction right[] = {{.op = WAFER_CORE_plus, .a = 5, .b = 5, .c = 15},
                                            {.op = WAFER_CORE_end}};
  static const wafer_core_task task = {.kind = WAFER_TASK_data, .color = 0};
  wafer_core_program programs[] = {{"left", NULL, left, 1, &at_start, 1, left_bindings, 2},
                                   {"right", NULL, right, 2, &task, 1, right_bindings, 2}};
  wafer_fabric_program p = PAIR(programs, 4);
  fixture *f = start(&p);
  CU_ASSERT_FATAL(f->fabric != NULL);
  CU_ASSERT(wafer_fabric_run(f->fabric, &f->stats) == WAFER_OK);
  CU_ASSERT(wafer_fabric_get(f->fabric, 1, 0, 5) == 35);
  CU_ASSERT(wafer_fabric_finish(f->fabric, 1, 0) == 11 + 5 * (10 + 2));
  finish(f);
}

/* An image grows with what is written, in any order, and keeps it; what lies between is nobody's.
 */
static void memory_keeps_what_is_written(void) {
  static const uint32_t none[4] = {WAFER_NO_PROGRAM, WAFER_NO_PROGRAM, WAFER_NO_PROGRAM,
                                   WAFER_NO_PROGRAM};
  static const uint32_t at[] = {40, 4096, 200, 30001, 47};
  wafer_fabric_program p = {.name = "memory", .width = 2, .height = 2, .core = none};
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *machine;
  wafer_fabric *f;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &machine) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_fabric_create(NULL, machine, &p, NULL, &f) == WAFER_OK);
  unsigned char byte;
  CU_ASSERT(!wafer_fabric_read(f, 1, 1, 0, &byte, 1));
  for (size_t i = 0; i < WAFER_COUNT(at); i++) {
    byte = (unsigned char)(at[i] * 7);
    CU_ASSERT(wafer_fabric_write(f, 1, 1, at[i], &byte, 1));
    for (size_t k = 0; k <= i; k++) {
      CU_ASSERT(wafer_fabric_read(f, 1, 1, at[k], &byte, 1));
      CU_ASSERT(byte == (unsigned char)(at[k] * 7));
    }
    CU_ASSERT(!wafer_fabric_read(f, 1, 1, at[i] + 1, &byte, 1));
    CU_ASSERT(!wafer_fabric_read(f, 1, 1, at[i] - 1, &byte, 2));
    CU_ASSERT(!wafer_fabric_read(f, 0, 1, at[i], &byte, 1));
  }
  CU_ASSERT(!wafer_fabric_write(f, 1, 1, machine->core_bytes, &byte, 1));
  wafer_fabric_destroy(f);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_fabric_run[] = {
    {"sends and counts", sends_and_counts},
    {"traps", traps},
    {"reports a deadlock", reports_deadlock},
    {"reports a full queue", reports_a_full_queue},
    {"a missing route is a trap", a_missing_route_is_a_trap},
    {"refuses bad programs", refuses_bad_programs},
    {"data tasks take wavelets", data_tasks_take_wavelets},
    {"memory keeps what is written", memory_keeps_what_is_written},
    CU_TEST_INFO_NULL,
};

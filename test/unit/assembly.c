/* include/wafer/assembly.h: programs as text and as bytes, there and back. */
#include "wafer/assembly.h"

#include <CUnit/CUnit.h>
#include <stdlib.h>

#include "caught.h"
#include "wafer/fabric_case.h"

static wafer_bytes bytes_of(wafer_arena *arena, const wafer_fabric_program *program) {
  wafer_bytes bytes = {"", 0};
  CU_ASSERT_FATAL(wafer_fabric_program_write(arena, program, &bytes));
  return bytes;
}

static bool equal(wafer_bytes a, wafer_bytes b) {
  return a.size == b.size && !memcmp(a.data, b.data, a.size);
}

/* Through bytes, then through text: the same bytes again. */
static void check_round(wafer_arena *arena, const char *name, const wafer_fabric_program *program) {
  caught c;
  wafer_diag diag = caught_diag(&c);
  wafer_bytes first = bytes_of(arena, program);
  const wafer_fabric_program *read, *again;
  char *text;
  size_t size;
  wafer_status status = wafer_fabric_program_read(&diag, name, arena, first, &read);
  if (status != WAFER_OK) printf("\n%s: %s: %s\n", name, c.place, c.text);
  CU_ASSERT_FATAL(status == WAFER_OK);
  CU_ASSERT(equal(first, bytes_of(arena, read)));
  CU_ASSERT_FATAL(wafer_assembly_print(&diag, read, &text, &size) == WAFER_OK);
  status = wafer_assembly_read(&diag, arena, name, text, size, &again);
  if (status != WAFER_OK) printf("\n%s: %s: %s\n", name, c.place, c.text);
  CU_ASSERT_FATAL(status == WAFER_OK);
  CU_ASSERT(equal(first, bytes_of(arena, again)));
  free(text);
}

static void all_cases_come_back(void) {
  static const struct {
    const char *name;
    wafer_case_options options;
  } cases[] = {
      {"vector", {.words = 9}},
      {"send", {.width = 5, .height = 3, .words = 7}},
      {"broadcast", {.width = 5, .height = 3, .words = 7}},
      {"reduce", {.width = 9, .words = 7, .algorithm = "star"}},
      {"reduce", {.width = 9, .height = 2, .words = 7, .algorithm = "chain", .repeat = 3}},
      {"reduce", {.width = 13, .words = 7, .algorithm = "tree"}},
      {"reduce", {.width = 11, .words = 7, .algorithm = "two-phase"}},
      {"all-reduce", {.width = 6, .words = 12, .algorithm = "ring"}},
      {"all-reduce", {.width = 6, .height = 5, .words = 12}},
      {"random", {.width = 20, .height = 20, .words = 8, .cycles = 1000}},
      {"gemv", {.width = 6, .height = 7, .words = 1, .algorithm = "tree", .repeat = 2}},
      {"gemm", {.width = 6, .height = 6, .words = 1, .repeat = 2}},
      {"gemm", {.width = 5, .height = 5, .words = 1, .algorithm = "summa"}},
  };
  wafer_arena *arena = wafer_arena_create();
  const wafer_machine *wse2;
  CU_ASSERT_FATAL(wafer_machine_open(NULL, arena, "wse2", &wse2) == WAFER_OK);
  for (size_t i = 0; i < WAFER_COUNT(cases); i++) {
    const wafer_fabric_program *program;
    wafer_status status =
        wafer_case_program(NULL, arena, wse2, cases[i].name, &cases[i].options, &program);
    CU_ASSERT_FATAL(status == WAFER_OK);
    check_round(arena, cases[i].name, program);
  }
  wafer_arena_destroy(arena);
}

/* Every instruction, operand and option. */
static const char all[] =
    "; a program\n"
    "fabric \"all \\x22\" 4x2\n"
    "program \"one\" node \"Conv_1\"\n"
    "  in 0 #1\n"
    "  out 2 #0\n"
    "  task start L7\n"
    "  task local L0 blocked\n"
    "  task data #1 L0\n"
    "  task control #1 L9\n"
    "L0:\n"
    "L7:\n"
    "    move [3,64] f16#0, f32@256+r3(256,-4) thread 2 after 0 then T1 async load advance\n"
    "    fma [2,1,r5] f32@0(0,0,4), f16@8(2,0,2), f32=-0.1, f32@0(0,0,4) reset\n"
    "    select [4] null, bool@0(1), i64#1, u8=3\n"
    "    apply clip{min=0 max=6.5} [9] f32@0(4), f32@0(4)\n"
    "    apply cast{to=\"f16\"} [9] f16@0(2), f32@0(4)\n"
    "    apply tanh [9] bf16@0(2), bf16@0(2)\n"
    "    set r2 -5\n"
    "    plus r2 r3 _ 2147483647\n"
    "    minus r2 _ r3 0\n"
    "    times r2 r3 r4\n"
    "    branch _ r2 L9 ; back\n"
    "L9: time r13\n"
    "    delay r2 3\n"
    "    activate T1\n"
    "    block T1\n"
    "    unblock T1\n"
    "    join 7\n"
    "    mark 12\n"
    "    load r2 r3 -8 i64\n"
    "    bound r2 30\n"
    "    end\n"
    "program \"two\"\n"
    "L0:\n"
    "    end\n"
    "at 0,0 2x2 program 0\n"
    "at 3,0 1x1 program 1\n"
    "route #0 0,0 1x2 ramp -> east ramp | west -> ramp wrap\n"
    "route #1 1,0 3x1 east -> west\n"
    "filter skip 3 keep 4 skip 0 keep 1 repeat\n"
    "filter\n"
    "ramp #1 1,0 2x1 filter 1\n";

static wafer_status read_text(wafer_arena *arena, const char *text, caught *c,
                              const wafer_fabric_program **out) {
  wafer_diag diag = caught_diag(c);
  return wafer_assembly_read(&diag, arena, "p.fabric", text, strlen(text), out);
}

static void everything_comes_back(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_fabric_program *p;
  caught c;
  wafer_status status = read_text(arena, all, &c, &p);
  if (status != WAFER_OK) printf("\n%s: %s\n", c.place, c.text);
  CU_ASSERT_FATAL(status == WAFER_OK);
  CU_ASSERT(p->width == 4 && p->height == 2 && p->program_count == 2 && p->route_count == 2);
  CU_ASSERT(p->core[2] == WAFER_NO_PROGRAM && p->core[3] == 1 && p->core[4] == 0);
  CU_ASSERT_STRING_EQUAL(p->name, "all \"");
  CU_ASSERT_STRING_EQUAL(p->programs[0].node, "Conv_1");
  const wafer_instruction *code = p->programs[0].code;
  CU_ASSERT(code[0].shape[0] == 1 && code[0].shape[2] == 3 && code[0].shape[3] == 64);
  CU_ASSERT(code[0].in[0].stride[2] == 256 && code[0].in[0].stride[3] == -4);
  CU_ASSERT(code[0].after == 1 && code[0].then == 2 && code[0].async && code[0].load_descriptors);
  CU_ASSERT(code[1].count_reg == 5 && code[1].in[1].value == -0.1);
  CU_ASSERT(code[10].op == WAFER_CORE_branch && code[10].target == 11);
  CU_ASSERT(p->programs[0].task_count == 4 && p->programs[0].tasks[3].entry == 11);
  CU_ASSERT(p->filter_count == 2 && p->filters[0].run_count == 4 && p->filters[0].repeat);
  check_round(arena, "all", p);
  wafer_arena_destroy(arena);
}

static void equal_programs_are_stored_once(void) {
  static const char text[] = "fabric \"f\" 3x1\nprogram \"a\"\n end\nprogram \"b\"\n end\n"
                             "program \"a\"\n end\nat 0,0 1x1 program 2\nat 1,0 1x1 program 1\n"
                             "at 2,0 1x1 program 0\n";
  wafer_arena *arena = wafer_arena_create();
  const wafer_fabric_program *p;
  caught c;
  CU_ASSERT_FATAL(read_text(arena, text, &c, &p) == WAFER_OK && p->program_count == 3);
  wafer_bytes bytes = bytes_of(arena, p);
  CU_ASSERT_FATAL(wafer_fabric_program_read(NULL, "f", arena, bytes, &p) == WAFER_OK);
  CU_ASSERT(p->program_count == 2);
  CU_ASSERT(p->core[0] == 0 && p->core[1] == 1 && p->core[2] == 0);
  wafer_arena_destroy(arena);
}

#define HEAD "fabric \"f\" 2x2\nprogram \"a\"\n"

static void refuses_with_the_line(void) {
  static const struct {
    const char *text, *place, *message;
  } rows[] = {
      {"", "p.fabric:1:1", "expected fabric, a name and a size, found the end of the line"},
      {"fabric \"f\" 0x5\n", "p.fabric:1:15", "1 to 4194304 cores"},
      {"fabric \"f\" 99999x99999\n", "p.fabric:1:23", "1 to 4194304 cores"},
      {"fabric \"f\n", "p.fabric:1:10", "expected a name in which"},
      {HEAD "  mov [4] f32@0(4), f32@0(4)\n", "p.fabric:3:3", "expected an instruction"},
      {HEAD "  move [4] f33@0(4)\n", "p.fabric:3:12", "its element type"},
      {HEAD "  move [4] f32@0(4,4)\n", "p.fabric:3:19", "')' after a stride for each level"},
      {HEAD "  move [2,4] f32@0(4)\n", "p.fabric:3:21", "a stride for each level"},
      {HEAD "  move [1,1,1,1,1] f32@0(4)\n", "p.fabric:3:17", "four levels at most"},
      {HEAD "  move [4] f32@4294967296(4)\n", "p.fabric:3:16", "an address"},
      {HEAD "  move [4] f32#0, f32#1 thread 8\n", "p.fabric:3:32", "a microthread from 0 to 7"},
      {HEAD "  apply conv [4] f32#0\n", "p.fabric:3:13", "the name of a map"},
      {HEAD "  set r16 1\n", "p.fabric:3:8", "a register"},
      {HEAD "  load r1 r2 0 32\n", "p.fabric:3:16", "a type, as in i64"},
      {HEAD "  branch _ r1 L3\n", "p.fabric:3:15", "there is no label L3"},
      {HEAD "  branch _ r1 L3\nL3:\n", "p.fabric:3:15", "no instruction follows label L3"},
      {HEAD "L1:\nL1:\n", "p.fabric:4:3", "a label of its own"},
      {HEAD " end 4\n", "p.fabric:3:6", "expected the end of the line, found '4'"},
      {HEAD "at 0,0 3x1 program 0\n", "p.fabric:3:11", "a rectangle inside the fabric"},
      {HEAD "at 0,0 1x1 program 1\n", "p.fabric:3:20", "the number of a program"},
      {HEAD "at 0,0 1x1 program 0\nat 0,0 1x1 program 0\n", "p.fabric:4:21", "no program yet"},
      {HEAD "route #0 0,0 1x1 up -> ramp\n", "p.fabric:3:18", "a port"},
      {HEAD "ramp #0 0,0 1x1 filter 0\n", "p.fabric:3:25", "a filter of a line before"},
  };
  for (size_t i = 0; i < WAFER_COUNT(rows); i++) {
    wafer_arena *arena = wafer_arena_create();
    const wafer_fabric_program *p;
    caught c;
    wafer_status status = read_text(arena, rows[i].text, &c, &p);
    bool as_wanted = status == WAFER_BAD_INPUT && c.count == 1 && !p &&
                     !strcmp(c.place, rows[i].place) && strstr(c.text, rows[i].message);
    if (!as_wanted) printf("\n%s: %s: %s\n", rows[i].text, c.place, c.text);
    CU_ASSERT(as_wanted);
    wafer_arena_destroy(arena);
  }
}

/* Every byte changed and every length: refused with one error, or read. */
static void damaged_bytes_are_refused(void) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_fabric_program *p;
  caught c;
  CU_ASSERT_FATAL(read_text(arena, all, &c, &p) == WAFER_OK);
  wafer_bytes bytes = bytes_of(arena, p);
  unsigned char *copy = wafer_arena_copy(arena, bytes.data, bytes.size);
  uint32_t refused = 0;
  for (size_t i = 0; i < bytes.size; i++)
    for (unsigned flip = 1; flip < 256; flip *= 2) {
      wafer_arena *own = wafer_arena_create();
      wafer_diag diag = caught_diag(&c);
      copy[i] ^= (unsigned char)flip;
      wafer_status status =
          wafer_fabric_program_read(&diag, "p", own, (wafer_bytes){copy, bytes.size}, &p);
      copy[i] ^= (unsigned char)flip;
      refused += status != WAFER_OK;
      CU_ASSERT(status == WAFER_OK ? c.count == 0 : status == WAFER_BAD_INPUT && c.count == 1);
      wafer_arena_destroy(own);
    }
  CU_ASSERT(refused > bytes.size);
  for (size_t size = 0; size < bytes.size; size++)
    CU_ASSERT(wafer_fabric_program_read(NULL, "p", arena, (wafer_bytes){copy, size}, &p) ==
              WAFER_BAD_INPUT);
  wafer_arena_destroy(arena);
}

CU_TestInfo tests_assembly[] = {
    {"all cases come back", all_cases_come_back},
    {"everything comes back", everything_comes_back},
    {"equal programs are stored once", equal_programs_are_stored_once},
    {"refuses with the line", refuses_with_the_line},
    {"damaged bytes are refused", damaged_bytes_are_refused},
    CU_TEST_INFO_NULL,
};

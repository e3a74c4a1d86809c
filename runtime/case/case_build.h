/* How the validation programs are put together. */
#ifndef RUNTIME_CASE_BUILD_H
#define RUNTIME_CASE_BUILD_H

#include "wafer/fabric_case.h"

#define CASE_CODE 96 /* instructions of a program */
#define CASE_TASKS 6

typedef struct case_program {
  wafer_core_program program;
  wafer_instruction code[CASE_CODE];
  wafer_core_task tasks[CASE_TASKS];
  wafer_core_binding bindings[WAFER_CORE_BINDINGS];
  uint32_t loop; /* the first instruction of a repeat */
} case_program;

typedef struct case_build case_build;
struct case_build {
  const wafer_diag *diag;
  const wafer_machine *machine;
  wafer_arena *arena;
  wafer_case_options o;
  wafer_fabric *fabric;
  wafer_fabric_program fabric_program;
  case_program **programs;
  uint32_t program_count, program_room;
  uint32_t *core;
  wafer_route *routes;
  uint32_t route_count, route_room;
  uint32_t bytes;    /* of an element */
  uint64_t wavelets; /* that `words` elements are */
  uint64_t predicted;
  uint64_t checked;
  uint32_t answer;       /* address of the result */
  uint32_t answer_words; /* elements of it; 0: as many as the input */
  bool timed;            /* registers 13 and 14 hold the cycles around what counts: their mean */
  bool warms;            /* repeats come after one that does not count; set before programs begin */
  void *state;           /* of the case */
  bool failed;           /* out of memory, or more than there is room for */
};

typedef struct case_row {
  wafer_case_info info;
  wafer_status (*build)(case_build *b);
  /* Expected value of element i of the answer of core (x, y); false: that core has no answer. */
  bool (*expect)(const case_build *b, uint32_t x, uint32_t y, uint32_t i, double *value);
  void (*prepare)(case_build *b); /* registers, before the run; may be NULL */
  /* Memories, before the run; NULL: the words of case_input at address 0. */
  wafer_status (*fill)(case_build *b);
} case_row;

#define CASE(name) extern const case_row case_##name##_row;
#include "cases.def"

/* As many elements per core, of the case's type; the answer lies in banks that they do not use. */
void case_set_words(case_build *b, uint32_t words);
/* A program: started at cycle 0, its body `repeat` times; register 2 counts down, and where the
 * case warms up, register 5 is `repeat`. */
case_program *case_program_begin(case_build *b, const char *name);
uint32_t case_program_end(case_build *b, case_program *p);
/* Registers: r[a] = r[b] + value. */
void case_add(case_build *b, case_program *p, uint8_t a, uint8_t from, int32_t value);
/* To instruction `target` while r[a] > 0. */
void case_loop(case_build *b, case_program *p, uint8_t a, uint32_t target);
wafer_instruction *case_emit(case_build *b, case_program *p, wafer_instruction code);
/* Descriptors of the case's type, `words` long where nothing else is said. */
wafer_operand case_memory(const case_build *b, int32_t address);
wafer_operand case_in(case_build *b, case_program *p, uint8_t color);
wafer_operand case_out(case_build *b, case_program *p, uint8_t color);
wafer_instruction case_instruction(const case_build *b, wafer_core_op op, wafer_operand out,
                                   wafer_operand x, wafer_operand y);
void case_route(case_build *b, wafer_rect cores, uint8_t color, wafer_port from, uint32_t to);
void case_route_add(case_build *b, wafer_route route);
/* A straight line of one colour westwards, from core (x, y) to core (to, y). */
void case_line_west(case_build *b, uint32_t x, uint32_t to, uint32_t y, uint8_t color);
void case_place(case_build *b, uint32_t x, uint32_t y, uint32_t program);

/* The input of a core: small integers, so that sums are exact in any order. */
double case_input(const case_build *b, uint32_t x, uint32_t y, uint32_t i);
uint64_t case_random(uint64_t *state);
wafer_status case_refuse(const case_build *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Cycles from one core's element to its neighbour's, `hops` away. */
uint64_t case_depth(const case_build *b);
uint64_t case_hops(const case_build *b, uint64_t hops);
/* Cycles in which all words come in and are added: a wavelet a cycle, unless adding is slower. */
uint64_t case_sums(const case_build *b);

#endif

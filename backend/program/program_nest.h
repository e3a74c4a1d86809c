/* A loop nest over memory on one core: the form in which every family says what it computes. It
 * becomes one vector instruction with descriptors of four levels; loops beyond those are loops of
 * the program. */
#ifndef PROGRAM_NEST_H
#define PROGRAM_NEST_H

#include "wafer/fabric.h"

#define NEST_LOOPS 16
#define NEST_OPERANDS 4 /* the output, then the inputs */

typedef struct nest_operand {
  uint8_t kind, dtype; /* wafer_operand_kind: memory, constant or fabric */
  uint8_t color;
  int32_t address;
  int32_t stride[NEST_LOOPS]; /* bytes */
  double value;
} nest_operand;

typedef struct nest {
  wafer_core_op op;
  wafer_op function; /* of apply */
  const wafer_attrs *attrs;
  uint32_t inputs, loops;
  uint32_t along; /* operands behind the inputs that loops move as well: for the caller's use */
  uint32_t extent[NEST_LOOPS];
  nest_operand at[NEST_OPERANDS];
} nest;

/* Instructions under construction. */
typedef struct program_code {
  wafer_arena *arena;
  const wafer_machine *machine;
  wafer_instruction *at;
  uint32_t count, room;
  uint64_t cycles; /* they take, as predicted */
  bool failed;     /* no memory */
} program_code;

/* A loop of `extent`; the strides are those of the output and of each input. Returns its number. */
uint32_t nest_loop(nest *n, int64_t extent);
/* Appends the instructions; a nest over nothing adds none. */
void nest_emit(program_code *code, const nest *n);
/* Loops brought into order, and how many of them are outside of one instruction's descriptors. */
uint32_t nest_outside(const wafer_machine *machine, nest *n);
/* Of 4096 steps over a nest, those whose first two inputs lie on banks that collide. */
uint32_t nest_collisions(const wafer_machine *machine, const nest *n);
/* Iteration i of loop 0 of such a nest. */
nest nest_inside(const nest *n, uint32_t i);
/* Such a nest without loops outside as an instruction whose operands are moved by registers (0: by
 * none); the cycles it takes with its descriptors loaded. */
uint64_t nest_instruction(const wafer_machine *machine, const nest *n,
                          const uint8_t base[NEST_OPERANDS], wafer_instruction *out);
/* Appends one instruction. */
void program_put(program_code *code, wafer_instruction instruction);
/* Appends a scalar instruction. */
void program_set(program_code *code, uint8_t reg, int32_t value);
/* a = b + value */
void program_plus(program_code *code, uint8_t a, uint8_t b, int32_t value);
/* To `target` when a < b. Returns its place, so that it can be given another target. */
uint32_t program_branch(program_code *code, uint8_t a, uint8_t b, uint32_t target);
/* What a nest takes, as nest_emit adds to `cycles`. */
uint64_t nest_cycles(const wafer_machine *machine, const nest *n);

#endif

/* A row of cores with programs of a few instructions, for tests of the fabric. */
#ifndef FABRIC_ROW_H
#define FABRIC_ROW_H

#include <CUnit/CUnit.h>
#include <string.h>

#include "caught.h"
#include "wafer/fabric.h"

#define R WAFER_NO_REGISTER
#define AT(T, where, ...)                                                                          \
  {.kind = WAFER_OPERAND_memory,                                                                   \
   .dtype = WAFER_DTYPE_##T,                                                                       \
   .reg = R,                                                                                       \
   .address = where,                                                                               \
   .stride = __VA_ARGS__}
#define FLAT(T, where, step)                                                                       \
  {                                                                                                \
    .kind = WAFER_OPERAND_memory, .dtype = WAFER_DTYPE_##T, .reg = R, .address = where,            \
    .stride = {                                                                                    \
      0,                                                                                           \
      0,                                                                                           \
      0,                                                                                           \
      step                                                                                         \
    }                                                                                              \
  }
#define WIRE(T, c) {.kind = WAFER_OPERAND_fabric, .dtype = WAFER_DTYPE_##T, .color = c}
#define CONSTANT(T, v) {.kind = WAFER_OPERAND_constant, .dtype = WAFER_DTYPE_##T, .value = v}
#define NOWHERE(T) {.kind = WAFER_OPERAND_null, .dtype = WAFER_DTYPE_##T}
#define DO(name, n, to, ...)                                                                       \
  .op = WAFER_CORE_##name, .shape = {1, 1, 1, n}, .count_reg = R, .out = to, .in = {__VA_ARGS__}
#define APPLY(name, n, to, ...)                                                                    \
  .op = WAFER_CORE_apply, .function = WAFER_OP_##name, .shape = {1, 1, 1, n}, .count_reg = R,      \
  .out = to, .in = {__VA_ARGS__}

enum { MOST_OF_ROW = 4 };

static const wafer_core_task at_start = {.kind = WAFER_TASK_start};

typedef struct fixture {
  wafer_arena *arena;
  const wafer_machine *machine;
  wafer_fabric *fabric;
  wafer_diag diag;
  caught caught;
  wafer_fabric_stats stats;
  wafer_core_program programs[MOST_OF_ROW];
  uint32_t core[MOST_OF_ROW];
  wafer_fabric_program program;
} fixture;

static const wafer_core_binding bindings[] = {
    {0, 2, true}, {0, 0, false}, {1, 3, true}, {1, 1, false}};

/* A row of `cores`; core x runs code[x], `counts[x]` instructions, and has colours 0 and 1. */
static inline fixture *lay(uint32_t cores, const wafer_instruction *const *code,
                           const uint32_t *counts, const wafer_route *routes,
                           uint32_t route_count) {
  static fixture f;
  f = (fixture){.arena = wafer_arena_create()};
  f.diag = caught_diag(&f.caught);
  CU_ASSERT_FATAL(wafer_machine_open(NULL, f.arena, "wse2", &f.machine) == WAFER_OK);
  for (uint32_t x = 0; x < cores; x++) {
    f.core[x] = counts[x] ? x : WAFER_NO_PROGRAM;
    static const wafer_instruction nothing = {.op = WAFER_CORE_end};
    f.programs[x] = (wafer_core_program){.name = "isa",
                                         .code = counts[x] ? code[x] : &nothing,
                                         .code_count = counts[x] ? counts[x] : 1,
                                         .tasks = &at_start,
                                         .task_count = 1,
                                         .bindings = bindings,
                                         .binding_count = route_count ? 4 : 0};
  }
  f.program = (wafer_fabric_program){.name = "isa",
                                     .width = cores,
                                     .height = 1,
                                     .programs = f.programs,
                                     .program_count = cores,
                                     .core = f.core,
                                     .routes = routes,
                                     .route_count = route_count};
  return &f;
}

static inline void create(fixture *f) {
  wafer_fabric_create(&f->diag, f->machine, &f->program, NULL, &f->fabric);
}

static inline void finish(fixture *f) {
  wafer_fabric_destroy(f->fabric);
  wafer_arena_destroy(f->arena);
}

static inline fixture *one_core(const wafer_instruction *code, uint32_t count) {
  fixture *f = lay(1, &code, &count, NULL, 0);
  create(f);
  if (!f->fabric) printf("\n%s\n", f->caught.text);
  CU_ASSERT_FATAL(f->fabric != NULL);
  return f;
}

static inline void put(fixture *f, uint32_t x, uint32_t address, const void *data, uint32_t bytes) {
  CU_ASSERT(wafer_fabric_write(f->fabric, x, 0, address, data, bytes));
}

static inline void run(fixture *f) {
  wafer_status status = wafer_fabric_run(f->fabric, &f->stats);
  if (status != WAFER_OK) printf("\n%s\n", f->caught.text);
  CU_ASSERT(status == WAFER_OK);
}

#endif

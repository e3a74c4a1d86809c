/* The program of one kernel of a plan, and its way through assembly and back. */
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>

#include "caught.h"
#include "wafer/assembly.h"
#include "wafer/wafer.h"

static const char model[] = WAFER_SOURCE_DIR "/test/data/small_cnn.onnx";

/* The plan borrows its names from the IR. */
static const wafer_plan *compile(wafer_arena *arena, const wafer_diag *diag, wafer_mode mode,
                                 wafer_ir **out) {
  wafer_options options = {.mode = mode, .programs = WAFER_PROGRAMS_never};
  wafer_ctx ctx = {.arena = arena, .diag = diag, .options = &options};
  wafer_ir *ir;
  const wafer_plan *plan;
  CU_ASSERT_FATAL(wafer_machine_open(diag, arena, "small16", &ctx.machine) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_import(&ctx, model, &ir) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_transform(&ctx, ir, WAFER_DEFAULT_PASSES) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_lower(&ctx, ir, &plan) == WAFER_OK);
  *out = ir;
  return plan;
}

/* Same bytes: programs, which core runs which, routes, filters. */
static void check_round(wafer_arena *arena, const wafer_fabric_program *program) {
  const wafer_fabric_program *back;
  wafer_bytes before, after;
  char *text;
  size_t bytes;
  CU_ASSERT_FATAL(wafer_assembly_print(NULL, program, &text, &bytes) == WAFER_OK);
  CU_ASSERT_FATAL(wafer_assembly_read(NULL, arena, "k.s", text, bytes, &back) == WAFER_OK);
  free(text);
  CU_ASSERT_FATAL(wafer_fabric_program_write(arena, program, &before));
  CU_ASSERT_FATAL(wafer_fabric_program_write(arena, back, &after));
  CU_ASSERT(before.size == after.size && !memcmp(before.data, after.data, before.size));
}

static void check_inside(const wafer_fabric_program *p, wafer_rect r) {
  uint32_t inside = 0, outside = 0;
  for (uint32_t i = 0; i < p->width * p->height; i++) {
    uint32_t x = i % p->width, y = i / p->width;
    bool in = x >= r.x && x < r.x + r.width && y >= r.y && y < r.y + r.height;
    if (p->core[i] != WAFER_NO_PROGRAM) *(in ? &inside : &outside) += 1;
  }
  CU_ASSERT(inside > 0);
  CU_ASSERT_EQUAL(outside, 0);
  for (uint32_t i = 0; i < p->route_count; i++) {
    wafer_rect at = p->routes[i].cores;
    CU_ASSERT(at.x >= r.x && at.x + at.width <= r.x + r.width);
    CU_ASSERT(at.y >= r.y && at.y + at.height <= r.y + r.height);
  }
}

static void comes_back(wafer_mode mode) {
  caught last;
  wafer_diag diag = caught_diag(&last);
  wafer_arena *arena = wafer_arena_create();
  wafer_ir *ir;
  const wafer_plan *plan = compile(arena, &diag, mode, &ir), *whole;
  const wafer_ctx ctx = {.machine = plan->machine, .arena = arena, .diag = &diag};
  const wafer_fabric_program *program;
  CU_ASSERT(wafer_plan_kernel_program(&diag, arena, plan, 0, &program) == WAFER_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(last.text, "no programs"));
  CU_ASSERT_FATAL(wafer_plan_add_programs(&ctx, plan, false, &whole) == WAFER_OK);
  CU_ASSERT(whole->kernel_count > 3);
  for (uint32_t k = 0; k < whole->kernel_count; k++) {
    CU_ASSERT_FATAL(wafer_plan_kernel_program(&diag, arena, whole, k, &program) == WAFER_OK);
    CU_ASSERT(program->program_count > 0);
    CU_ASSERT(whole->kernels[k].program_cycles > 0 && plan->kernels[k].program_cycles == 0);
    check_round(arena, program);
    if (mode == WAFER_MODE_pipelined) check_inside(program, whole->kernels[k].rect);
  }
  wafer_ir_destroy(ir);
  wafer_arena_destroy(arena);
}

static void of_launches(void) {
  comes_back(WAFER_MODE_streaming);
}

static void of_pipelines(void) {
  comes_back(WAFER_MODE_pipelined);
}

CU_TestInfo tests_launch_kernel[] = {
    {"a launch of its own comes back from assembly", of_launches},
    {"the part of a pipeline comes back, and is the kernel's alone", of_pipelines},
    CU_TEST_INFO_NULL,
};

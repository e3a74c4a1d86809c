/* What tests of sizing share: a model of a text on a machine, fused, and shapes to come. */
#ifndef TEST_UNIT_SIZE_SCENE_H
#define TEST_UNIT_SIZE_SCENE_H

#include "passes/size/size.h"

#include <CUnit/CUnit.h>
#include <stdio.h>
#include <string.h>

#include "caught.h"
#include "scratch.h"

typedef struct fixture {
  scratch folder;
  caught caught;
  wafer_diag diag;
  wafer_ctx ctx;
  wafer_ir *ir;
  wafer_graph graph;
  curve_set *curves;
} fixture;

static inline void setup(fixture *f, const char *machine, const char *text) {
  memset(f, 0, sizeof *f);
  f->folder = scratch_create();
  f->diag = caught_diag(&f->caught);
  f->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = &f->diag};
  const char *path = scratch_save(&f->folder, "model.mlir", text, strlen(text));
  CU_ASSERT_EQUAL_FATAL(wafer_machine_open(&f->diag, f->ctx.arena, machine, &f->ctx.machine),
                        WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_ir_parse(&f->ctx, path, &f->ir), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_transform(&f->ctx, f->ir, "default:fuse"), WAFER_OK);
  CU_ASSERT_EQUAL_FATAL(wafer_graph_read(&f->ctx, f->ir, &f->graph), WAFER_OK);
  f->curves = curve_set_of(&f->ctx, f->ir);
  CU_ASSERT_PTR_NOT_NULL_FATAL(f->curves);
}

static inline void teardown(fixture *f) {
  wafer_ir_destroy(f->ir);
  wafer_arena_destroy(f->ctx.arena);
  scratch_remove(&f->folder);
}

/* Sizes weight streaming, one sample resident; it fits. */
static inline void streams(fixture *f, sizing *out) {
  CU_ASSERT_EQUAL_FATAL(size_streaming(&f->ctx, f->curves, &f->graph, 1, 1, out), WAFER_OK);
  CU_ASSERT_TRUE_FATAL(out->cost.fits);
}

/* `count` softmaxes in a row; the last is multiplied with the first one's operand. */
static inline const char *chain(char *text, size_t bytes, uint32_t count) {
  size_t at =
      (size_t)snprintf(text, bytes,
                       "func.func @main(%%x: tensor<64x64xf32>) -> tensor<64x64xf32> {\n"
                       "  %%v0 = \"nn.exp\"(%%x) : (tensor<64x64xf32>) -> tensor<64x64xf32>\n");
  for (uint32_t i = 0; i < count; i++)
    at += (size_t)snprintf(
        text + at, bytes - at,
        "  %%v%u = \"nn.softmax\"(%%v%u) {axis = 1 : i64} : (tensor<64x64xf32>) -> "
        "tensor<64x64xf32>\n",
        i + 1, i);
  snprintf(text + at, bytes - at,
           "  %%y = \"nn.mul\"(%%v%u, %%v0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> "
           "tensor<64x64xf32>\n  return %%y : tensor<64x64xf32>\n}\n",
           count);
  return text;
}

#endif

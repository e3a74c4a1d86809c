/* Any bytes as an ONNX model: the whole compiler must refuse or compile them, never crash. */
#include <unistd.h>

#include "fuzz.h"

static void compile(const wafer_ctx *ctx, const char *path) {
  wafer_ir *ir;
  const wafer_plan *plan;
  if (wafer_import(ctx, path, &ir) != WAFER_OK) return;
  if (wafer_transform(ctx, ir, WAFER_DEFAULT_PASSES) == WAFER_OK &&
      wafer_lower(ctx, ir, &plan) != WAFER_OK) {
  }
  wafer_ir_destroy(ir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  int file = fuzz_file(data, size, path);
  if (file < 0) return 0;
  wafer_ctx ctx = {.arena = wafer_arena_create()};
  if (ctx.arena && wafer_machine_open(NULL, ctx.arena, "small16", &ctx.machine) == WAFER_OK)
    compile(&ctx, path);
  wafer_arena_destroy(ctx.arena);
  close(file);
  return 0;
}

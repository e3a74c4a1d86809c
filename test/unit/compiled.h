/* A model that goes from ONNX to a plan on the machine small64. */
#ifndef COMPILED_H
#define COMPILED_H

#include "onnx_text.h"
#include "scratch.h"
#include "wafer/wafer.h"

/* Stays in place: the context's options, if any, are its caller's. */
typedef struct compiled {
  scratch folder;
  wafer_ctx ctx;
  wafer_ir *ir;
  const wafer_plan *plan;
} compiled;

static inline wafer_status compiled_begin(compiled *c, const wafer_diag *diag,
                                          const wafer_options *options, const protobuf *model) {
  *c = (compiled){.folder = scratch_create()};
  c->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = diag, .options = options};
  const char *path = scratch_save(&c->folder, "t.onnx", model->bytes, model->count);
  wafer_status status = wafer_machine_open(NULL, c->ctx.arena, "small64", &c->ctx.machine);
  if (status == WAFER_OK) status = wafer_import(&c->ctx, path, &c->ir);
  if (status == WAFER_OK) status = wafer_transform(&c->ctx, c->ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&c->ctx, c->ir, &c->plan);
  return status;
}

/* The model as text of onnx_text.h. */
static inline wafer_status compiled_text(compiled *c, const wafer_diag *diag,
                                         const wafer_options *options, const char *text) {
  protobuf *model = calloc(1, sizeof *model);
  onnx_text_model(model, 16, text);
  wafer_status status = compiled_begin(c, diag, options, model);
  free(model);
  return status;
}

static inline void compiled_end(compiled *c) {
  wafer_ir_destroy(c->ir);
  wafer_arena_destroy(c->ctx.arena);
  scratch_remove(&c->folder);
}

#endif

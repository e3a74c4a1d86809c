/* A model written as text and imported, with what was said of it. */
#ifndef IMPORT_SESSION_H
#define IMPORT_SESSION_H

#include <CUnit/CUnit.h>
#include <stdio.h>

#include "../../frontend/import.h"
#include "onnx_text.h"
#include "scratch.h"

typedef struct said {
  char text[8192]; /* every message, one a line */
} said;

static inline void remember(void *self, wafer_severity severity, wafer_status status,
                            const wafer_loc *loc, const char *text) {
  said *s = self;
  char place[256];
  (void)severity, (void)status;
  wafer_loc_format(loc, place, sizeof place);
  size_t used = strlen(s->text);
  snprintf(s->text + used, sizeof s->text - used, "%s: %s\n", place, text);
}

typedef struct session {
  scratch folder;
  said said;
  wafer_diag diag;
  wafer_options options;
  wafer_ctx ctx;
  wafer_ir *ir;
  wafer_status status;
} session;

/* A graph attribute of the node, from text; NULL: none. */
static inline void put_graph(protobuf *node, const char *name, const char *text) {
  protobuf *parts = calloc(2, sizeof *parts);
  if (text) {
    onnx_text_graph(&parts[0], text);
    pb_text(&parts[1], 1, name);
    pb_message(&parts[1], 6, &parts[0]);
    pb_int(&parts[1], 20, 5);
    pb_message(node, 5, &parts[1]);
  }
  free(parts);
}

static inline void import_file(session *s, const char *path) {
  s->diag = (wafer_diag){.emit = remember, .self = &s->said};
  s->ctx = (wafer_ctx){.arena = wafer_arena_create(), .diag = &s->diag, .options = &s->options};
  s->status = wafer_import(&s->ctx, path, &s->ir);
}

static inline void import_text(session *s, int64_t opset, const char *text) {
  protobuf *model = calloc(1, sizeof *model);
  s->folder = scratch_create();
  onnx_text_model(model, opset, text);
  import_file(s, scratch_save(&s->folder, "t.onnx", model->bytes, model->count));
  free(model);
}

static inline void end(session *s) {
  wafer_ir_destroy(s->ir);
  wafer_arena_destroy(s->ctx.arena);
  scratch_remove(&s->folder);
}

static inline MlirOperation terminator(const wafer_ir *ir) {
  return mlirBlockGetTerminator(wafer_ir_body(wafer_ir_main(ir)));
}

static inline MlirValue result(const session *s, intptr_t index) {
  return mlirOperationGetOperand(terminator(s->ir), index);
}

/* "2x2: 1 2 3 4" */
static inline void format_value(const session *s, MlirValue value, char *out, size_t room) {
  wafer_type type = wafer_ir_value_type(value);
  wafer_view view;
  int64_t count;
  wafer_shape_format(&type.shape, out, room);
  wafer_shape_elements(&type.shape, &count);
  if (!wafer_ir_constant(&s->ctx, s->ir, value, &view)) return;
  strcat(out, ":");
  for (int64_t i = 0; i < count && strlen(out) + 32 < room; i++)
    snprintf(out + strlen(out), room - strlen(out), " %.5g",
             wafer_element_f64(view.dtype, view.data, i) + 0.0);
}

/* The graph's result y folds to that constant. */
static inline void check_folded(int64_t opset, const char *text, const char *want) {
  session s = {0};
  char graph[1024], got[512] = "";
  snprintf(graph, sizeof graph, "%s; out y", text);
  import_text(&s, opset, graph);
  if (s.status == WAFER_OK) format_value(&s, result(&s, 0), got, sizeof got);
  if (strcmp(got, want)) printf("%s\n  got %s\n%s", graph, got, s.said.text);
  CU_ASSERT_STRING_EQUAL(got, want);
  end(&s);
}

/* The graph is refused with such words. */
static inline void check_refused(int64_t opset, const char *text, wafer_status status,
                                 const char *want) {
  session s = {0};
  char graph[1024];
  snprintf(graph, sizeof graph, "%s; out y", text);
  import_text(&s, opset, graph);
  bool good = s.status == status && strstr(s.said.text, want);
  if (!good) printf("%s\n  said %s", graph, s.said.text);
  CU_ASSERT(good);
  end(&s);
}

#endif

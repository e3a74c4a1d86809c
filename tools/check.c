#include "check.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A problem that has been reported, in the arena. */
typedef struct found {
  const char *kind, *node, *text, *remedy;
  int64_t index; /* of the node, -1: it concerns no node */
} found;

typedef struct checker {
  const char *model;
  wafer_arena *arena;
  wafer_diag diag; /* lists what is unsupported too: tensors, matching */
  found *at;
  uint32_t count, room;
  bool full; /* out of memory */
} checker;

static void note(void *self, const wafer_problem *p) {
  checker *c = self;
  if (!WAFER_GROW(c->arena, c->at, c->count, c->room, 32)) {
    c->full = true;
    return;
  }
  bool at_node = p->loc && p->loc->kind == WAFER_AT_NODE;
  found f = {.kind = wafer_problem_name(p->kind),
             .node = at_node ? wafer_arena_strdup(c->arena, p->loc->name) : "",
             .text = wafer_arena_strdup(c->arena, p->text),
             .remedy = wafer_arena_strdup(c->arena, p->remedy),
             .index = at_node ? p->loc->index : -1};
  c->full |= !f.node || !f.text || !f.remedy;
  if (!c->full) c->at[c->count++] = f;
}

static void emit(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  wafer_problem_kind kind =
      loc && loc->kind == WAFER_AT_NODE ? WAFER_PROBLEM_operator : WAFER_PROBLEM_type;
  if (severity == WAFER_ERROR && status == WAFER_UNSUPPORTED)
    note(self, &(wafer_problem){kind, loc, text, wafer_problem_remedy(kind)});
  else
    cli_diag()->emit(cli_diag()->self, severity, status, loc, text);
}

static void print_text(const checker *c) {
  for (size_t i = 0; i < c->count; i++) {
    const found *f = &c->at[i];
    printf("%s: ", f->kind);
    if (f->index >= 0) printf("node '%s' (#%lld): ", f->node, (long long)f->index);
    printf("%s\n  %s\n", f->text, f->remedy);
  }
  if (c->count)
    printf("%s: %u problem%s\n", c->model, c->count, c->count == 1 ? "" : "s");
  else
    printf("%s: every operator compiles\n", c->model);
}

static bool add_problem(cJSON *list, const found *f) {
  cJSON *problem = cJSON_CreateObject();
  if (!problem || !cJSON_AddItemToArray(list, problem)) {
    cJSON_Delete(problem);
    return false;
  }
  bool placed = f->index < 0 || (cJSON_AddStringToObject(problem, "node", f->node) &&
                                 cJSON_AddNumberToObject(problem, "index", (double)f->index));
  return placed && cJSON_AddStringToObject(problem, "kind", f->kind) &&
         cJSON_AddStringToObject(problem, "problem", f->text) &&
         cJSON_AddStringToObject(problem, "remedy", f->remedy);
}

static wafer_status print_json(const checker *c) {
  cJSON *root = cJSON_CreateObject();
  bool fits = root && cJSON_AddStringToObject(root, "model", c->model) &&
              cJSON_AddBoolToObject(root, "compiles", !c->count);
  cJSON *list = fits ? cJSON_AddArrayToObject(root, "problems") : NULL;
  for (size_t i = 0; list && i < c->count; i++)
    if (!add_problem(list, &c->at[i])) list = NULL;
  char *text = list ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  if (!text) return cli_no_memory();
  puts(text);
  free(text);
  return WAFER_OK;
}

static wafer_status find_problems(const wafer_ctx *ctx, const char *model) {
  wafer_ir *ir;
  WAFER_TRY(wafer_import(ctx, model, &ir));
  wafer_status status = wafer_transform(ctx, ir, "default:fuse");
  wafer_ir_destroy(ir);
  return status;
}

wafer_status check_model(const wafer_ctx *ctx, const char *model, bool json) {
  checker c = {.model = model, .arena = ctx->arena};
  c.diag = (wafer_diag){.emit = emit, .progress = cli_diag()->progress, .self = &c};
  wafer_options options = *ctx->options;
  options.problem = note;
  options.problem_self = &c;
  wafer_ctx own = *ctx;
  own.options = &options;
  own.diag = &c.diag;
  wafer_status status = find_problems(&own, model);
  cli_progress_done();
  if (c.full) return cli_no_memory();
  if (status != WAFER_OK && !c.count) return status; /* said already */
  if (!json)
    print_text(&c);
  else
    WAFER_TRY(print_json(&c));
  return status;
}

/* Why a model does not fit, as JSON: docs/placement.md, wafer-refusal-1; and remedies' machines. */
#include <cjson/cJSON.h>

#include "compile.h"

static char *refusal_json(const char *model, const wafer_refusal *r) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddStringToObject(root, "schema", "wafer-refusal-1");
  cJSON_AddStringToObject(root, "model", model);
  cJSON_AddStringToObject(root, "machine", r->machine);
  cJSON_AddStringToObject(root, "mode", wafer_mode_name(r->mode));
  cJSON_AddStringToObject(root, "kernel", r->kernel);
  cJSON_AddStringToObject(root, "onnx_node", r->node);
  cJSON_AddStringToObject(root, "why", r->why);
  if (r->asked) cJSON_AddNumberToObject(root, "asked_core_bytes", (double)r->asked);
  if (r->asked) cJSON_AddNumberToObject(root, "allowed_core_bytes", (double)r->allowed);
  cJSON *owners = cJSON_AddArrayToObject(root, "owners");
  for (size_t i = 0; i < r->owner_count; i++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(owners, o);
    cJSON_AddStringToObject(o, "what", r->owners[i].what);
    cJSON_AddStringToObject(o, "onnx_node", r->owners[i].node);
    cJSON_AddNumberToObject(o, "core_bytes", (double)r->owners[i].bytes);
  }
  cJSON *remedies = cJSON_AddArrayToObject(root, "remedies");
  for (size_t i = 0; i < r->remedy_count; i++) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToArray(remedies, o);
    cJSON_AddStringToObject(o, "option", r->remedies[i].option);
    cJSON_AddNumberToObject(o, "interval_cycles", (double)r->remedies[i].interval_cycles);
  }
  char *text = root ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  return text;
}

void compile_refused(void *self, const wafer_refusal *r) {
  const compile_refusal *to = self;
  if (to->report) (void)cli_write_json(to->report, refusal_json(to->model, r));
}

/* --repair goes with --defects: what a machine file names is repaired as that says. */
wafer_status compile_other_machine(void *self, wafer_arena *arena, const char *name,
                                   const char *repair, const wafer_machine **out) {
  const compile_refusal *of = self;
  compile_machine asked = *of->machine;
  const wafer_machine *whole;
  if (name) asked.name = name;
  if (repair && !asked.defects) return WAFER_USAGE;
  if (repair) asked.repair = repair;
  WAFER_TRY(compile_machine_open(NULL, &asked, arena, out, &whole));
  return of->reserved.count ? compile_reserve(NULL, &of->reserved, arena, out) : WAFER_OK;
}

#include "parameters.h"

#include <string.h>

#define SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"
#define KIND "pkg.torch.export.graph_signature.InputSpec.kind"
#define FOLDED "pkg.onnxscript.optimizer.folded_from"

static const char *entry_of(const onnx_entries *entries, const char *key) {
  for (size_t i = 0; i < entries->count; i++)
    if (entries->at[i].key && entries->at[i].value && !strcmp(entries->at[i].key, key))
      return entries->at[i].value;
  return NULL;
}

/* The text between the next two quotes, which *at then stands behind; NULL: there is none. */
static const char *quoted(wafer_arena *arena, const char **at, const char *end, bool *ok) {
  const char *open = memchr(*at, '\'', (size_t)(end - *at));
  const char *close = open ? memchr(open + 1, '\'', (size_t)(end - open - 1)) : NULL;
  if (!close) return NULL;
  *at = close + 1;
  char *text = wafer_arena_strndup(arena, open + 1, (size_t)(close - open - 1));
  *ok &= text != NULL;
  return text;
}

/* The next line of a signature that names a parameter. */
static const char *next_parameter(const char **at, const char **end) {
  static const char says[] = ": PARAMETER target=";
  const char *found = *at ? strstr(*at, says) : NULL;
  if (!found) return NULL;
  found += sizeof says - 1;
  const char *newline = strchr(found, '\n');
  *end = newline ? newline : found + strlen(found);
  return *at = found;
}

static size_t count_parameters(const char *signature) {
  size_t count = 0;
  for (const char *at = signature, *end; next_parameter(&at, &end);) count++;
  return count;
}

static bool read_names(parameter_list *list, wafer_arena *arena, const onnx_graph *graph,
                       const char *signature) {
  bool ok = true;
  for (const char *at = signature, *end, *name; ok && next_parameter(&at, &end);)
    if ((name = quoted(arena, &at, end, &ok))) scope_add(&list->names, name), list->told = true;
  for (size_t i = 0; i < graph->value_info.count; i++) {
    const onnx_value *v = &graph->value_info.at[i];
    const char *kind = entry_of(&v->metadata, KIND);
    if (kind && v->name && !strcmp(kind, "PARAMETER"))
      scope_add(&list->names, v->name), list->told = true;
  }
  return ok;
}

static bool read_folded(parameter_list *list, wafer_arena *arena, const onnx_graph *graph) {
  bool ok = true;
  for (size_t i = 0; list->told && i < graph->value_info.count; i++) {
    const onnx_value *v = &graph->value_info.at[i];
    const char *at = v->name ? entry_of(&v->metadata, FOLDED) : NULL, *name;
    const char *end = at ? at + strlen(at) : NULL;
    while (at && ok && (name = quoted(arena, &at, end, &ok)))
      if (scope_find(&list->names, name)) {
        scope_add(&list->folded, v->name);
        break;
      }
  }
  return ok;
}

bool parameters_read(parameter_list *list, wafer_arena *arena, const onnx_graph *graph) {
  const char *signature = entry_of(&graph->metadata, SIGNATURE);
  size_t values = graph->value_info.count;
  *list = (parameter_list){0};
  return scope_init(&list->names, arena, NULL, NULL, count_parameters(signature) + values) &&
         scope_init(&list->folded, arena, NULL, NULL, values) &&
         read_names(list, arena, graph, signature) && read_folded(list, arena, graph);
}

bool parameters_exclude(const parameter_list *list, const char *name) {
  return list->told && !scope_find(&list->names, name) && !scope_find(&list->folded, name);
}

/* Inputs and expected outputs of a conformance test. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"
#include "wafer/file.h"

static const char *path_of(wafer_arena *arena, const conform_case *c, size_t set, const char *kind,
                           size_t index) {
  return wafer_arena_printf(arena, "%s%s_%zu.pb", c->sets[set], kind, index);
}

/* Suites of onnx before 1.13 write bf16 as the u16 of its bits. */
static wafer_status read_tensor(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                const wafer_onnx_port *port, wafer_view *out) {
  WAFER_TRY(wafer_onnx_tensor_read(diag, arena, path, out));
  if (port->dtype == WAFER_DTYPE_bf16 && out->dtype == WAFER_DTYPE_u16)
    out->dtype = WAFER_DTYPE_bf16;
  return WAFER_OK;
}

/* What the suite's runner feeds to models that come without inputs: i / n for element i of n. */
static wafer_status ramp(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                         const wafer_onnx_port *port, wafer_view *out) {
  int64_t count;
  if (port->open || port->dtype != WAFER_DTYPE_f32 || !wafer_shape_elements(&port->shape, &count))
    return wafer_fail(diag, wafer_at_file(c->model), WAFER_UNSUPPORTED,
                      "input '%s' has no file, and is no f32 tensor of known shape", port->name);
  float *data = WAFER_NEW(arena, float, (size_t)count);
  if (!data)
    return wafer_fail(diag, wafer_at_file(c->model), WAFER_NO_MEMORY, "no memory for its inputs");
  for (int64_t i = 0; i < count; i++) data[i] = (float)((double)i / (double)count);
  *out = wafer_view_of(WAFER_DTYPE_f32, &port->shape, data);
  return WAFER_OK;
}

/* What is no tensor of numbers is an item, and lives as long as the arena. */
static void drop_item(void *item) {
  wafer_item_release(item);
}

static wafer_status read_value(const wafer_diag *diag, wafer_arena *arena, const char *path,
                               const wafer_onnx_port *port, wafer_view *view, wafer_item **item) {
  if (port->kind == WAFER_ITEM_tensor && port->dtype != WAFER_DTYPE_none)
    return read_tensor(diag, arena, path, port, view);
  WAFER_TRY(wafer_onnx_item_read(diag, arena, path, port->kind, item));
  *view = (*item)->tensor;
  if (wafer_arena_defer(arena, drop_item, *item)) return WAFER_OK;
  wafer_item_release(*item);
  return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory for its value");
}

static wafer_status make(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                         size_t count, conform_values *out) {
  *out = (conform_values){.names = WAFER_NEW(arena, const char *, count),
                          .views = WAFER_NEW(arena, wafer_view, count),
                          .items = WAFER_NEW(arena, wafer_item *, count)};
  if (out->names && out->views && out->items) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(c->model), WAFER_NO_MEMORY, "no memory for its values");
}

wafer_status conform_read_inputs(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                                 size_t set, const wafer_onnx_info *info, conform_values *out) {
  WAFER_TRY(make(diag, arena, c, info->input_count, out));
  for (; out->count < info->input_count; out->count++) {
    const char *path = path_of(arena, c, set, "input", out->count);
    wafer_view *view = &out->views[out->count];
    out->names[out->count] = info->inputs[out->count].name;
    if (c->ramp)
      WAFER_TRY(ramp(diag, arena, c, &info->inputs[out->count], view));
    else if (path && access(path, F_OK) != 0)
      return WAFER_OK; /* inputs that are left out stand at the end */
    else
      WAFER_TRY(
          read_value(diag, arena, path, &info->inputs[out->count], view, &out->items[out->count]));
  }
  return WAFER_OK;
}

wafer_status conform_read_outputs(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                                  size_t set, const wafer_onnx_info *info, conform_values *out) {
  WAFER_TRY(make(diag, arena, c, info->output_count, out));
  for (; out->count < info->output_count; out->count++) {
    out->names[out->count] = info->outputs[out->count].name;
    WAFER_TRY(read_value(diag, arena, path_of(arena, c, set, "output", out->count),
                         &info->outputs[out->count], &out->views[out->count],
                         &out->items[out->count]));
  }
  return WAFER_OK;
}

/* A number of the object that is not negative; absent: as it is. */
static bool read_number(const cJSON *root, const char *key, double *out) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, key);
  if (!item) return true;
  *out = cJSON_GetNumberValue(item);
  return isfinite(*out) && *out >= 0;
}

wafer_status conform_read_rule(const wafer_diag *diag, wafer_arena *arena, const conform_case *c,
                               conform_rule *out) {
  const char *slash = strrchr(c->model, '/');
  const char *path = wafer_arena_printf(
      arena, "%.*s/data.json", slash ? (int)(slash - c->model) : 1, slash ? c->model : ".");
  wafer_bytes bytes;
  *out = CONFORM_RULE;
  if (!path || access(path, F_OK) != 0) return WAFER_OK;
  WAFER_TRY(wafer_file_map(diag, arena, path, &bytes));
  cJSON *root = cJSON_ParseWithLength(bytes.data, bytes.size);
  bool fine = cJSON_IsObject(root) && read_number(root, "rtol", &out->rtol) &&
              read_number(root, "atol", &out->atol);
  cJSON_Delete(root);
  if (fine) return WAFER_OK;
  return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                    "must be a JSON object, its rtol and atol numbers that are not negative");
}

/* Reading an ONNX node: inputs, attributes, failures. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "import.h"

/* ---- Failures ---- */

static void describe_inputs(const import_node *n, char *text, size_t room) {
  size_t used = 0;
  *text = 0;
  for (uint32_t i = 0; i < n->input_count && i < 4 && used + 64 < room; i++) {
    char shape[48];
    strcpy(shape, *n->node->input.at[i] ? "unknown" : "absent");
    const char *dtype = "";
    if (node_has_input(n, i)) {
      wafer_type type = wafer_ir_value_type(n->inputs[i]);
      wafer_shape_format(&type.shape, shape, sizeof shape);
      dtype = wafer_dtype_name(type.dtype);
    }
    used += (size_t)snprintf(text + used, room - used, "%s%s%s%s", i ? ", " : "", dtype,
                             *dtype ? " " : "", shape);
  }
}

void node_bad(import_node *n, const char *format, ...) {
  if (n->status != WAFER_OK) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  n->status =
      wafer_fail(n->im->ctx->diag, n->im->b.loc, WAFER_BAD_INPUT, "%s: %s", n->node->op_type, text);
}

static void unsupported(import_node *n, wafer_problem_kind kind, const char *format, va_list list) {
  char text[512], types[320];
  if (n->status != WAFER_OK) return;
  vsnprintf(text, sizeof text, format, list);
  describe_inputs(n, types, sizeof types);
  const char *domain = n->node->domain && *n->node->domain ? n->node->domain : "ai.onnx";
  n->status = import_problem(n->im->ctx, n->im->b.loc, WAFER_UNSUPPORTED, kind, NULL,
                             "operator %s of %s, opset %lld, on (%s): %s", n->node->op_type, domain,
                             (long long)n->opset, types, text);
}

void node_unsupported(import_node *n, const char *format, ...) {
  va_list list;
  va_start(list, format);
  unsupported(n, WAFER_PROBLEM_operator, format, list);
  va_end(list);
}

void node_problem(import_node *n, wafer_problem_kind kind, const char *format, ...) {
  va_list list;
  va_start(list, format);
  unsupported(n, kind, format, list);
  va_end(list);
}

static void no_memory(import_node *n) {
  if (n->status == WAFER_OK)
    n->status = wafer_fail(n->im->ctx->diag, n->im->b.loc, WAFER_NO_MEMORY,
                           "no memory to import this node");
}

int64_t *node_new_ints(import_node *n, int64_t count) {
  int64_t *ints = count < 0 ? NULL : WAFER_NEW(n->im->ctx->arena, int64_t, (size_t)count);
  if (!ints) no_memory(n);
  return ints;
}

wafer_view node_new_tensor(import_node *n, wafer_dtype dtype, uint32_t rank, const int64_t *dims) {
  wafer_shape shape = {.rank = rank};
  int64_t count;
  if (rank) memcpy(shape.dims, dims, rank * sizeof *dims);
  bool fits = n->status == WAFER_OK && wafer_shape_elements(&shape, &count);
  void *data =
      fits ? wafer_arena_alloc(n->im->ctx->arena, (size_t)count, wafer_dtype_bytes(dtype)) : NULL;
  if (!data) no_memory(n);
  return wafer_view_of(dtype, &shape, data);
}

/* ---- Inputs ---- */

typedef struct value_list {
  wafer_arena *arena;
  MlirValue *at;
  uint32_t count, room;
} value_list;

/* Drops the value when memory runs out: lists are for messages. */
static void push_value(value_list *list, MlirValue value) {
  if (!WAFER_GROW(list->arena, list->at, list->count, list->room, 16)) return;
  list->at[list->count++] = value;
}

/* Nothing where there is no room for all of it. */
static void append_text(char *text, size_t room, const char *before, const char *word,
                        const char *after) {
  size_t used = strlen(text), more = strlen(before) + strlen(word) + strlen(after);
  if (used + more < room) stpcpy(stpcpy(stpcpy(text + used, before), word), after);
}

bool node_has_input(const import_node *n, uint32_t index) {
  return index < n->input_count && !mlirValueIsNull(n->inputs[index]);
}

MlirValue node_input(const import_node *n, uint32_t index) {
  return index < n->input_count ? n->inputs[index] : (MlirValue){NULL};
}

wafer_type node_type(const import_node *n, MlirValue value) {
  bool usable = n->status == WAFER_OK && !mlirValueIsNull(value);
  return usable ? wafer_ir_value_type(value) : (wafer_type){.dtype = WAFER_DTYPE_f32};
}

uint32_t node_rank(const import_node *n, MlirValue value) {
  return node_type(n, value).shape.rank;
}
wafer_dtype node_dtype(const import_node *n, MlirValue value) {
  return node_type(n, value).dtype;
}

/* The values of the program that an op's value is computed from: arguments of its piece. */
static value_list arguments_behind(const import_node *n, MlirValue value) {
  wafer_arena *arena = n->im->ctx->arena;
  wafer_ir_map *seen = wafer_ir_map_create(arena);
  value_list work = {.arena = arena}, found = {.arena = arena};
  push_value(&work, value);
  while (seen && work.count) {
    MlirValue at = work.at[--work.count];
    if (wafer_ir_map_get(seen, at.ptr) != WAFER_NONE || !wafer_ir_map_put(seen, at.ptr, 0))
      continue;
    if (mlirValueIsABlockArgument(at)) {
      push_value(&found, at);
      continue;
    }
    MlirOperation op = mlirOpResultGetOwner(at);
    for (intptr_t i = 0; i < mlirOperationGetNumOperands(op); i++)
      push_value(&work, mlirOperationGetOperand(op, i));
  }
  return found;
}

static const wafer_value *argument_value(const import_node *n, MlirValue argument) {
  intptr_t number = mlirBlockArgumentGetArgNumber(argument);
  return &n->im->program.values[n->im->fn->open->inputs.at[number]];
}

bool node_given_by_inputs(const import_node *n, MlirValue value) {
  value_list arguments = arguments_behind(n, value);
  for (size_t i = 0; i < arguments.count; i++)
    if (argument_value(n, arguments.at[i])->owner != WAFER_OWNER_input) return false;
  return true;
}

const char *node_inputs_behind(const import_node *n, MlirValue value) {
  wafer_arena *arena = n->im->ctx->arena;
  const wafer_options *options = n->im->ctx->options;
  value_list arguments = arguments_behind(n, value);
  char list[300] = "", remedy[300] = "";
  for (size_t i = 0; i < arguments.count; i++) {
    const wafer_value *v = argument_value(n, arguments.at[i]);
    if (v->owner != WAFER_OWNER_input) continue;
    if (options && options->needs) options->needs(options->needs_self, v->name);
    append_text(list, sizeof list, *list ? ", '" : "'", v->name, "'");
    append_text(remedy, sizeof remedy, " --bind ", v->name, "=FILE.npy");
  }
  if (!*list) return "own results, of a loop or of the host";
  const char *text = wafer_arena_printf(arena, "input %s; give%s", list, remedy);
  return text ? text : "inputs";
}

bool node_constant(import_node *n, uint32_t index, const char *what, wafer_view *view) {
  if (n->status != WAFER_OK) return false;
  if (!node_has_input(n, index)) {
    node_bad(n, "input %u (%s) is missing", index, what);
    return false;
  }
  if (wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[index], view)) return true;
  if (training_known(n->im, n->inputs[index], true, view)) return true;
  const char *behind = node_inputs_behind(n, n->inputs[index]);
  node_problem(n, WAFER_PROBLEM_value,
               "input %u (%s, '%s') must be known when compiling, it depends on the model's %s",
               index, what, n->node->input.at[index], behind);
  return false;
}

int_list node_ints(import_node *n, uint32_t index, const char *what) {
  wafer_view view;
  int64_t count;
  if (!node_constant(n, index, what, &view)) return (int_list){0};
  if (view.shape.rank > 1 || wafer_dtype_is_float(view.dtype)) {
    node_bad(n, "input %u (%s) must be a vector of integers", index, what);
    return (int_list){0};
  }
  wafer_shape_elements(&view.shape, &count);
  if (count > 1 << 20) {
    node_bad(n, "input %u (%s) has %lld entries", index, what, (long long)count);
    return (int_list){0};
  }
  int64_t *ints = node_new_ints(n, count);
  if (!ints) return (int_list){0};
  for (int64_t i = 0; i < count; i++) ints[i] = wafer_element_i64(view.dtype, view.data, i);
  return (int_list){(uint32_t)count, ints};
}

double node_float(import_node *n, uint32_t index, const char *what, double absent) {
  wafer_view view;
  int64_t count;
  if (!node_has_input(n, index) || !node_constant(n, index, what, &view)) return absent;
  if (wafer_shape_elements(&view.shape, &count) && count == 1)
    return wafer_element_f64(view.dtype, view.data, 0);
  node_bad(n, "input %u (%s) must be a scalar, it has %lld elements", index, what,
           (long long)count);
  return absent;
}

/* ---- Attributes ---- */

#define READ (UINT64_C(1) << 63) /* of `has`: somebody has asked for the attribute */

static const onnx_attribute *named_in(const onnx_node *node, const char *name) {
  for (size_t i = 0; node && i < node->attribute.count; i++) {
    onnx_attribute *attribute = &node->attribute.at[i];
    if (!attribute->name || strcmp(attribute->name, name) != 0) continue;
    attribute->has |= READ;
    return attribute;
  }
  return NULL;
}

/* Attributes that say nothing about results here: of training, of branches not taken, what the
 * operands' shapes and types say too, and what is asked for only where it matters: exporters write
 * all of them. */
static bool may_be_unread(const char *name) {
  static const char *const names[] = {"broadcast",
                                      "consumed_inputs",
                                      "else_branch",
                                      "extrapolation_value",
                                      "hidden_size",
                                      "is_test",
                                      "keep_aspect_ratio_policy",
                                      "momentum",
                                      "noop_with_empty_axes",
                                      "ratio",
                                      "saturate",
                                      "seed",
                                      "sorted",
                                      "stash_type",
                                      "storage_order",
                                      "then_branch"};
  for (size_t i = 0; i < WAFER_COUNT(names); i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

void node_unread(import_node *n) {
  for (size_t i = 0; i < n->node->attribute.count; i++) {
    const onnx_attribute *attribute = &n->node->attribute.at[i];
    if (!(attribute->has & READ) && attribute->name && !may_be_unread(attribute->name))
      wafer_warn(n->im->ctx->diag, n->im->b.loc, "%s: attribute %s is ignored", n->node->op_type,
                 attribute->name);
  }
}

/* In a function's body an attribute may stand for one of the calling node, or its default. */
static const onnx_attribute *resolve(const frame *f, const onnx_attribute *attribute) {
  while (attribute && attribute->ref_attr_name && *attribute->ref_attr_name && f) {
    const char *name = attribute->ref_attr_name;
    attribute = named_in(f->call, name);
    for (size_t i = 0; !attribute && f->function && i < f->function->attribute_proto.count; i++) {
      const onnx_attribute *fallback = &f->function->attribute_proto.at[i];
      if (fallback->name && !strcmp(fallback->name, name)) return fallback;
    }
    f = f->caller;
  }
  return attribute;
}

const onnx_attribute *attr_find(import_node *n, const char *name) {
  return resolve(n->scope->frame, named_in(n->node, name));
}

bool attr_has(import_node *n, const char *name) {
  return attr_find(n, name) != NULL;
}

/* The attribute when it is there and of this type; another type is an error. */
static const onnx_attribute *typed(import_node *n, const char *name, onnx_attribute_type type) {
  if (n->status != WAFER_OK) return NULL;
  const onnx_attribute *attribute = attr_find(n, name);
  if (!attribute || onnx_attribute_type_of(attribute) == type) return attribute;
  node_bad(n, "attribute %s is of type %d, must be %d", name,
           (int)onnx_attribute_type_of(attribute), (int)type);
  return NULL;
}

int64_t attr_int(import_node *n, const char *name, int64_t absent) {
  const onnx_attribute *attribute = typed(n, name, ONNX_INT);
  return attribute ? attribute->i : absent;
}

double attr_float(import_node *n, const char *name, double absent) {
  const onnx_attribute *attribute = typed(n, name, ONNX_FLOAT);
  return attribute ? (double)attribute->f : absent;
}

wafer_dtype attr_dtype(import_node *n, const char *name, wafer_dtype absent) {
  int64_t named = attr_int(n, name, 0);
  if (named == 0) return absent;
  bool known = named > 0 && named < INT32_MAX;
  wafer_dtype dtype = known ? wafer_dtype_by_onnx((int32_t)named) : WAFER_DTYPE_none;
  if (dtype == WAFER_DTYPE_none)
    node_unsupported(n, "%s %lld (%s)", name, (long long)named, onnx_data_type_name(named));
  return dtype == WAFER_DTYPE_none ? absent : dtype;
}

const char *attr_text(import_node *n, const char *name, const char *absent) {
  const onnx_attribute *attribute = typed(n, name, ONNX_TEXT);
  if (!attribute) return absent;
  const char *text = wafer_arena_strndup(n->im->ctx->arena,
                                         attribute->s.count ? (const char *)attribute->s.at : "",
                                         attribute->s.count);
  if (!text) no_memory(n);
  return text ? text : absent;
}

int_list attr_ints(import_node *n, const char *name) {
  const onnx_attribute *attribute = typed(n, name, ONNX_INTS);
  if (!attribute) return (int_list){0};
  return (int_list){(uint32_t)attribute->ints.count, attribute->ints.at};
}

bool attr_ints_of(import_node *n, const char *name, uint32_t count, int64_t absent, int64_t least,
                  int64_t *out) {
  int_list list = attr_ints(n, name);
  if (list.count && list.count != count)
    node_bad(n, "attribute %s has %u entries, needs %u", name, list.count, count);
  for (uint32_t i = 0; i < count && n->status == WAFER_OK; i++) {
    out[i] = list.count ? list.at[i] : absent;
    if (out[i] < least || out[i] > INT32_MAX)
      node_bad(n, "%s[%u] is %lld", name, i, (long long)out[i]);
  }
  return n->status == WAFER_OK;
}

float_list attr_floats(import_node *n, const char *name) {
  const onnx_attribute *attribute = typed(n, name, ONNX_FLOATS);
  if (!attribute) return (float_list){0};
  double *wide = WAFER_NEW(n->im->ctx->arena, double, attribute->floats.count);
  if (!wide) no_memory(n);
  if (!wide) return (float_list){0};
  for (size_t i = 0; i < attribute->floats.count; i++) wide[i] = (double)attribute->floats.at[i];
  return (float_list){(uint32_t)attribute->floats.count, wide};
}

int_list attr_ints_moved(import_node *n, const char *name, int64_t until, uint32_t index) {
  if (n->opset < until) return attr_ints(n, name);
  return node_has_input(n, index) ? node_ints(n, index, name) : (int_list){0};
}

uint32_t node_axis(import_node *n, int64_t axis, uint32_t rank) {
  if (axis >= -(int64_t)rank && axis < (int64_t)rank)
    return (uint32_t)(axis < 0 ? axis + rank : axis);
  node_bad(n, "axis %lld is out of range, %u dims are there", (long long)axis, rank);
  return 0;
}

uint32_t node_axes(import_node *n, int_list axes, uint32_t rank) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < axes.count; i++) {
    uint32_t axis = node_axis(n, axes.at[i], rank);
    if (set >> axis & 1) node_bad(n, "axis %lld is named twice", (long long)axes.at[i]);
    set |= 1u << axis;
  }
  return set;
}

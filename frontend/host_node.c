#include "host_node.h"
#include "operators.h"

#include <string.h>

/* ---- Which nodes ---- */

static wafer_host_op op_of(const import_node *n) {
  wafer_host_op op = wafer_host_by_name(n->node->op_type);
  return wafer_host_get(op)->when & WAFER_HOST_INTERNAL ? WAFER_HOST_none : op;
}

static bool has_host_input(const import_node *n) {
  for (uint32_t i = 0; i < n->input_count; i++)
    if (n->entries[i] && n->entries[i]->host) return true;
  return false;
}

/* Whether the cores cannot do without the operand, and it is not known. */
static bool is_missed(import_node *n, const wafer_host_info *info, uint32_t i) {
  wafer_view view;
  return info->fixed >> i & 1 && node_has_input(n, i) &&
         !wafer_ir_constant(n->im->ctx, n->im->ir, n->inputs[i], &view) &&
         !training_known(n->im, n->inputs[i], false, &view);
}

bool host_takes(import_node *n) {
  const wafer_host_info *info = wafer_host_get(op_of(n));
  bool always = info->when & WAFER_HOST_ALWAYS;
  if (sequence_is_known(n)) return false;
  if (has_host_input(n) || (always && !info->fixed)) return true;
  for (uint32_t i = 0; i < n->input_count && i < 32; i++)
    if (is_missed(n, info, i) && (always || !node_given_by_inputs(n, n->inputs[i]))) return true;
  return false;
}

/* ---- Types ---- */

wafer_type host_static_type(const onnx_type *type) {
  const onnx_tensor_type *tensor = type ? type->tensor : NULL;
  const onnx_shape *shape = tensor ? tensor->shape : NULL;
  int64_t elements;
  if (!shape || shape->dim.count > WAFER_MAX_RANK || tensor->elem_type <= 0 ||
      tensor->elem_type > INT32_MAX)
    return (wafer_type){0};
  wafer_type made = {.dtype = wafer_dtype_by_onnx((int32_t)tensor->elem_type),
                     .shape = {.rank = (uint32_t)shape->dim.count}};
  for (uint32_t d = 0; d < made.shape.rank; d++) {
    if (!ONNX_HAS(&shape->dim.at[d], ONNX_DIM_VALUE)) return (wafer_type){0};
    made.shape.dims[d] = shape->dim.at[d].value;
  }
  return wafer_shape_elements(&made.shape, &elements) ? made : (wafer_type){0};
}

static const onnx_type *type_in(const onnx_values *values, const char *name) {
  for (size_t i = 0; i < values->count; i++)
    if (values->at[i].name && !strcmp(values->at[i].name, name)) return values->at[i].type;
  return NULL;
}

wafer_type host_declared(const scope *s, const char *name) {
  if (!s->graph) return (wafer_type){0};
  const onnx_type *type = type_in(&s->graph->output, name);
  if (!type) type = type_in(&s->graph->value_info, name);
  return host_static_type(type);
}

/* What is known of an operator's result, `x` being the type of its first operand (dtype none: not
 * known). */
static wafer_type fixed_type(wafer_host_op op, wafer_type x) {
  switch (op) {
  case WAFER_HOST_ScatterElements: return x;
  case WAFER_HOST_SequenceLength:
  case WAFER_HOST_Size: return (wafer_type){.dtype = WAFER_DTYPE_i64};
  case WAFER_HOST_OptionalHasElement: return (wafer_type){.dtype = WAFER_DTYPE_bool};
  default: return (wafer_type){0};
  }
}

/* ---- Attributes ---- */

typedef struct attr_list {
  wafer_arena *arena;
  wafer_host_attr *at;
  uint32_t count;
  bool failed;
} attr_list;

static void add_ints(attr_list *l, const char *name, size_t count, const int64_t *ints) {
  int64_t *copy = WAFER_NEW(l->arena, int64_t, count);
  l->failed = l->failed || !copy;
  if (l->failed) return;
  if (count) memcpy(copy, ints, count * sizeof *copy);
  l->at[l->count++] = (wafer_host_attr){
      .name = name, .kind = WAFER_HOST_ATTR_ints, .count = (uint32_t)count, .ints = copy};
}

static void add_floats(attr_list *l, const char *name, size_t count, const float *floats) {
  double *copy = WAFER_NEW(l->arena, double, count);
  l->failed = l->failed || !copy;
  if (l->failed) return;
  for (size_t i = 0; i < count; i++) copy[i] = (double)floats[i];
  l->at[l->count++] = (wafer_host_attr){
      .name = name, .kind = WAFER_HOST_ATTR_floats, .count = (uint32_t)count, .floats = copy};
}

static void add_texts(attr_list *l, const char *name, size_t count, const wire_bytes *texts) {
  const char **copy = WAFER_NEW(l->arena, const char *, count);
  l->failed = l->failed || !copy;
  for (size_t i = 0; !l->failed && i < count; i++) {
    copy[i] = wafer_arena_strndup(l->arena, texts[i].count ? (const char *)texts[i].at : "",
                                  texts[i].count);
    l->failed = !copy[i];
  }
  if (!l->failed)
    l->at[l->count++] = (wafer_host_attr){
        .name = name, .kind = WAFER_HOST_ATTR_texts, .count = (uint32_t)count, .texts = copy};
}

static void add_text(attr_list *l, const char *name, const char *text) {
  wire_bytes bytes = {(const uint8_t *)text, strlen(text)};
  add_texts(l, name, 1, &bytes);
}

/* A tensor: its elements as a list, its type beside it. */
static wafer_status add_tensor(import_node *n, attr_list *l, const char *name,
                               const onnx_tensor *tensor) {
  const char *type_name = wafer_arena_printf(l->arena, "%s.dtype", name);
  wafer_view view;
  int64_t count;
  if (!type_name) return import_no_memory(n->im);
  if (tensor->data_type == ONNX_STRING) {
    add_texts(l, name, tensor->string_data.count, tensor->string_data.at);
    add_text(l, type_name, "string");
    return WAFER_OK;
  }
  WAFER_TRY(data_view(&n->im->store, tensor, &view));
  wafer_shape_elements(&view.shape, &count);
  bool floats = wafer_dtype_is_float(view.dtype);
  int64_t *ints = WAFER_NEW(l->arena, int64_t, (size_t)count);
  double *doubles = WAFER_NEW(l->arena, double, (size_t)count);
  if (!ints || !doubles) return import_no_memory(n->im);
  for (int64_t i = 0; i < count; i++)
    if (floats)
      doubles[i] = wafer_element_f64(view.dtype, view.data, i);
    else
      ints[i] = wafer_element_i64(view.dtype, view.data, i);
  wafer_host_attr *a = &l->at[l->count++];
  *a = (wafer_host_attr){.name = name, .count = (uint32_t)count};
  a->kind = floats ? WAFER_HOST_ATTR_floats : WAFER_HOST_ATTR_ints;
  if (floats)
    a->floats = doubles;
  else
    a->ints = ints;
  add_text(l, type_name, wafer_dtype_name(view.dtype));
  return WAFER_OK;
}

static wafer_status add_attr(import_node *n, attr_list *l, const char *name) {
  const onnx_attribute *a = attr_find(n, name);
  if (!a) return WAFER_OK;
  switch (onnx_attribute_type_of(a)) {
  case ONNX_FLOAT: add_floats(l, name, 1, &a->f); break;
  case ONNX_INT: add_ints(l, name, 1, &a->i); break;
  case ONNX_TEXT: add_texts(l, name, 1, &a->s); break;
  case ONNX_FLOATS: {
    const float_list list = attr_floats(n, name);
    l->at[l->count++] = (wafer_host_attr){
        .name = name, .kind = WAFER_HOST_ATTR_floats, .count = list.count, .floats = list.at};
    break;
  }
  case ONNX_INTS: add_ints(l, name, a->ints.count, a->ints.at); break;
  case ONNX_TEXTS: add_texts(l, name, a->strings.count, a->strings.at); break;
  case ONNX_TENSOR: return a->t ? add_tensor(n, l, name, a->t) : WAFER_OK;
  default: break; /* types of elements, which values carry themselves */
  }
  return l->failed ? import_no_memory(n->im) : WAFER_OK;
}

static wafer_status read_attrs(import_node *n, wafer_step *step) {
  attr_list l = {.arena = n->im->ctx->arena};
  l.at = WAFER_NEW(l.arena, wafer_host_attr, 2 * n->node->attribute.count + 3);
  if (!l.at) return import_no_memory(n->im);
  for (size_t i = 0; i < n->node->attribute.count; i++)
    if (n->node->attribute.at[i].name) WAFER_TRY(add_attr(n, &l, n->node->attribute.at[i].name));
  if (n->opset < 13 && (step->op == WAFER_HOST_Softmax || step->op == WAFER_HOST_LogSoftmax))
    add_ints(&l, "flat", 1, &(int64_t){1}); /* the dims from the axis on are one */
  if (n->opset < 16 && step->op == WAFER_HOST_RoiAlign &&
      !attr_has(n, "coordinate_transformation_mode"))
    add_text(&l, "coordinate_transformation_mode", "output_half_pixel");
  if (step->op == WAFER_HOST_core) add_text(&l, "op", wafer_op_get(n->op->op)->name);
  step->attrs = l.at;
  step->attr_count = l.count;
  return l.failed ? import_no_memory(n->im) : WAFER_OK;
}

/* ---- Steps ---- */

wafer_status host_inputs(import_node *n, uint32_t first, number_list *out) {
  for (uint32_t i = first; i < n->input_count; i++) {
    uint32_t number = WAFER_NONE;
    name_entry *e = n->entries[i];
    if (e && (e->host || e->numbered || e->state == NAME_TENSOR || !mlirValueIsNull(e->value)))
      WAFER_TRY(assembly_value(n->im, e, &number));
    if (!number_add(n->im->ctx->arena, out, number)) return import_no_memory(n->im);
  }
  return WAFER_OK;
}

wafer_status host_step(import_node *n, wafer_step *step, uint32_t output_count,
                       const wafer_type *types) {
  uint32_t *outputs = WAFER_NEW(n->im->ctx->arena, uint32_t, output_count + 1);
  if (!outputs) return import_no_memory(n->im);
  for (uint32_t i = 0; i < output_count; i++) {
    const char *name = i < n->output_count ? n->node->output.at[i] : "";
    wafer_type type = types[i];
    outputs[i] = WAFER_NONE;
    if (!*name) continue;
    if (!type.dtype) type = host_declared(n->scope, name);
    n->results[i].name = name;
    WAFER_TRY(assembly_new(n->im, name, n->label,
                           type.dtype ? WAFER_VALUE_tensor : WAFER_VALUE_host, &type,
                           &n->results[i]));
    outputs[i] = n->results[i].number;
  }
  step->phase = WAFER_NONE;
  step->node = n->label;
  step->outputs = outputs;
  step->output_count = output_count;
  return assembly_step_add(n->im, step);
}

/* Identity hands its operand on. */
static bool is_alias(const import_node *n) {
  return !strcmp(n->node->op_type, "Identity") && n->input_count == 1;
}

void import_host(import_node *n) {
  wafer_step step = {.kind = WAFER_STEP_host, .op = op_of(n)};
  wafer_type *types = WAFER_NEW(n->im->ctx->arena, wafer_type, n->output_count + 1);
  number_list inputs = {0};
  if (!types) n->status = import_no_memory(n->im);
  if (n->status != WAFER_OK) return;
  if (is_alias(n)) {
    n->results[0] = *n->entries[0];
    return;
  }
  if (!step.op && n->op && n->op->op != NO_OP && n->op->import == import_direct)
    step.op = WAFER_HOST_core;
  if (!step.op) {
    node_unsupported(n,
                     "an operand has dims that only the run knows, or is no tensor, and the host "
                     "does not have this operator");
    return;
  }
  const wafer_host_info *info = wafer_host_get(step.op);
  if (n->input_count < info->least || n->input_count > info->most ||
      n->output_count > info->outputs) {
    node_bad(n, "has %u inputs and %u outputs, which is not what it takes", n->input_count,
             n->output_count);
    return;
  }
  n->status = read_attrs(n, &step);
  if (n->status == WAFER_OK) n->status = host_inputs(n, 0, &inputs);
  step.inputs = inputs.at;
  step.input_count = inputs.count;
  if (n->status == WAFER_OK && inputs.count && inputs.at[0] != WAFER_NONE) {
    const wafer_value *x = &n->im->program.values[inputs.at[0]];
    if (x->kind == WAFER_VALUE_tensor) types[0] = x->type;
  }
  types[0] = fixed_type(step.op, types[0]);
  if (n->status == WAFER_OK) n->status = host_step(n, &step, n->output_count, types);
}

wafer_status strings_step(importer *im, const onnx_tensor *tensor, name_entry *entry) {
  attr_list l = {.arena = im->ctx->arena};
  l.at = WAFER_NEW(l.arena, wafer_host_attr, 2);
  uint32_t *output = WAFER_NEW(l.arena, uint32_t, 1);
  if (!l.at || !output) return import_no_memory(im);
  add_ints(&l, "shape", tensor->dims.count, tensor->dims.at);
  add_texts(&l, "value", tensor->string_data.count, tensor->string_data.at);
  if (l.failed) return import_no_memory(im);
  WAFER_TRY(assembly_new(im, entry->name, "", WAFER_VALUE_host, NULL, entry));
  *output = entry->number;
  wafer_step step = {.kind = WAFER_STEP_host,
                     .phase = WAFER_NONE,
                     .op = WAFER_HOST_strings,
                     .node = entry->name ? entry->name : "",
                     .attrs = l.at,
                     .attr_count = l.count,
                     .outputs = output,
                     .output_count = 1};
  return assembly_step_add(im, &step);
}

wafer_status host_texts_at(import_node *n, const char *name, MlirValue place) {
  const wire_blobs *texts = &attr_find(n, name)->strings;
  attr_list l = {.arena = n->im->ctx->arena};
  name_entry entry = {.value = place, .fn = n->im->fn, .piece = n->im->fn->open};
  uint32_t *number = WAFER_NEW(l.arena, uint32_t, 1);
  int64_t *places = node_new_ints(n, (int64_t)texts->count);
  l.at = WAFER_NEW(l.arena, wafer_host_attr, 2);
  if (!number || !places || !l.at) return import_no_memory(n->im);
  for (size_t i = 0; i < texts->count; i++) places[i] = (int64_t)i;
  add_ints(&l, "keys_int64s", texts->count, places);
  add_texts(&l, "values_strings", texts->count, texts->at);
  if (l.failed) return import_no_memory(n->im);
  WAFER_TRY(assembly_value(n->im, &entry, number));
  wafer_step step = {.kind = WAFER_STEP_host,
                     .op = WAFER_HOST_LabelEncoder,
                     .attrs = l.at,
                     .attr_count = l.count,
                     .inputs = number,
                     .input_count = 1};
  return host_step(n, &step, 1, &(wafer_type){0});
}

wafer_status copy_step(importer *im, name_entry *entry) {
  uint32_t *values = WAFER_NEW(im->ctx->arena, uint32_t, 2);
  if (!values) return import_no_memory(im);
  WAFER_TRY(assembly_value(im, entry, &values[0]));
  const wafer_value of = im->program.values[values[0]];
  WAFER_TRY(assembly_new(im, of.name, of.node, of.kind, &of.type, entry));
  values[1] = entry->number;
  wafer_step step = {.kind = WAFER_STEP_host,
                     .phase = WAFER_NONE,
                     .op = WAFER_HOST_copy,
                     .node = "",
                     .inputs = values,
                     .input_count = 1,
                     .outputs = values + 1,
                     .output_count = 1};
  return assembly_step_add(im, &step);
}

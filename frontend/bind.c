/* Static types of the model's inputs: declared dims, --dim, --shape and --bind. */
#include <stdio.h>
#include <string.h>

#include "import.h"
#include "wafer/npy.h"

/* A symbolic dim and its size, 0 while nobody has given one; `by` says who did. */
typedef struct symbol {
  const char *name, *by;
  int64_t size;
} symbol;

typedef struct binder {
  const wafer_ctx *ctx;
  const char *file;
  const onnx_graph *graph;
  const scope *initializers;
  model_input *inputs;
  uint32_t count;
  symbol *symbols;
  size_t symbol_count;
  uint32_t unsupported, open; /* inputs of other types, inputs with an open dim */
} binder;

static wafer_status fail_file(const binder *b, wafer_status status, const char *text) {
  return wafer_fail(b->ctx->diag, wafer_at_file(b->file), status, "%s", text);
}

static const onnx_shape *declared_shape(const onnx_value *info) {
  return info->type && info->type->tensor ? info->type->tensor->shape : NULL;
}

static symbol *find_symbol(const binder *b, const char *name) {
  for (size_t i = 0; i < b->symbol_count; i++)
    if (!strcmp(b->symbols[i].name, name)) return &b->symbols[i];
  return NULL;
}

/* The name of a symbolic dim, NULL for numbers and nameless dims; some exporters write '?' for any
 * that they do not know, alike or not. */
static const char *symbol_of(const onnx_dim *dim) {
  bool named = !ONNX_HAS(dim, ONNX_DIM_VALUE) && dim->param && *dim->param;
  return named && strcmp(dim->param, "?") ? dim->param : NULL;
}

static bool is_number(const onnx_dim *dim) {
  return ONNX_HAS(dim, ONNX_DIM_VALUE) && dim->value >= 0;
}

/* ---- Gathering ---- */

static wafer_status gather_symbols(binder *b) {
  size_t most = 0;
  for (uint32_t i = 0; i < b->count; i++) {
    const onnx_shape *shape = declared_shape(b->inputs[i].info);
    most += shape ? shape->dim.count : 0;
  }
  b->symbols = WAFER_NEW(b->ctx->arena, symbol, most);
  if (!b->symbols) return fail_file(b, WAFER_NO_MEMORY, "out of memory");
  for (uint32_t i = 0; i < b->count; i++) {
    const onnx_shape *shape = declared_shape(b->inputs[i].info);
    for (size_t d = 0; shape && d < shape->dim.count; d++) {
      const char *name = symbol_of(&shape->dim.at[d]);
      if (name && !find_symbol(b, name)) b->symbols[b->symbol_count++].name = name;
    }
  }
  return WAFER_OK;
}

static wafer_status gather_inputs(binder *b) {
  b->inputs = WAFER_NEW(b->ctx->arena, model_input, b->graph->input.count);
  if (!b->inputs) return fail_file(b, WAFER_NO_MEMORY, "out of memory");
  for (size_t i = 0; i < b->graph->input.count; i++) {
    const onnx_value *info = &b->graph->input.at[i];
    if (!info->name || !*info->name)
      return fail_file(b, WAFER_BAD_INPUT, "an input of the graph has no name");
    if (!scope_find(b->initializers, info->name)) b->inputs[b->count++].info = info;
  }
  return gather_symbols(b);
}

/* ---- Names given by the user ---- */

/* Appends a name to a list for a message. */
static void list_name(char *list, size_t room, const char *name) {
  size_t used = strlen(list);
  if (used + strlen(name) + 8 < room)
    snprintf(list + used, room - used, "%s'%s'", used ? ", " : "", name);
  else if (used + 6 < room && strcmp(list + used - 3, "..."))
    snprintf(list + used, room - used, ", ...");
}

static wafer_status no_such_input(const binder *b, const char *option, const char *name) {
  char list[400] = "";
  for (uint32_t i = 0; i < b->count; i++) list_name(list, sizeof list, b->inputs[i].info->name);
  return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_USAGE,
                    "%s names '%s', which is no input of the model; its inputs are %s", option,
                    name, *list ? list : "none");
}

static model_input *find_input(const binder *b, const char *name) {
  for (uint32_t i = 0; i < b->count; i++)
    if (!strcmp(b->inputs[i].info->name, name)) return &b->inputs[i];
  return NULL;
}

static wafer_status set_symbol(const binder *b, symbol *s, int64_t size, const char *by) {
  if (s->by && s->size != size)
    return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_BAD_INPUT,
                      "dim '%s' is %lld by %s and %lld by %s", s->name, (long long)s->size, s->by,
                      (long long)size, by);
  *s = (symbol){s->name, by, size};
  return WAFER_OK;
}

static wafer_status apply_dims(binder *b) {
  const wafer_options *options = b->ctx->options;
  for (size_t i = 0; i < options->dim_count; i++) {
    const wafer_dim_binding *dim = &options->dims[i];
    symbol *s = find_symbol(b, dim->name);
    char list[400] = "";
    for (size_t k = 0; k < b->symbol_count; k++) list_name(list, sizeof list, b->symbols[k].name);
    if (!s)
      return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_USAGE,
                        "--dim names '%s', which is no symbolic dim of the model; %s%s", dim->name,
                        *list ? "they are " : "it has none", list);
    if (dim->size < 0 || dim->size > INT32_MAX)
      return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_USAGE,
                        "--dim %s=%lld must be 0 to %d", dim->name, (long long)dim->size,
                        INT32_MAX);
    WAFER_TRY(set_symbol(b, s, dim->size, "--dim"));
  }
  return WAFER_OK;
}

/* A whole shape for an input; symbolic dims of the same name follow. */
static wafer_status apply_shape(binder *b, model_input *in, const wafer_shape *shape,
                                const char *option) {
  const onnx_shape *declared = declared_shape(in->info);
  const char *name = in->info->name;
  char text[128];
  int64_t elements;
  wafer_shape_format(shape, text, sizeof text);
  if (!wafer_shape_elements(shape, &elements))
    return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_BAD_INPUT,
                      "%s %s=%s is negative or too large", option, name, text);
  if (declared && declared->dim.count != shape->rank)
    return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_BAD_INPUT,
                      "%s %s=%s has %u dims, the model's input has %zu", option, name, text,
                      shape->rank, declared->dim.count);
  for (uint32_t d = 0; declared && d < shape->rank; d++) {
    const onnx_dim *dim = &declared->dim.at[d];
    if (symbol_of(dim))
      WAFER_TRY(set_symbol(b, find_symbol(b, symbol_of(dim)), shape->dims[d], option));
    if (is_number(dim) && dim->value != shape->dims[d] && dim->value != 0)
      return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_BAD_INPUT,
                        "%s %s=%s: dim %u is %lld in the model", option, name, text, d,
                        (long long)dim->value);
  }
  in->type.shape = *shape;
  return WAFER_OK;
}

/* The leading dim of every input that no option shapes. */
static uint32_t micro_batch(const binder *b) {
  const wafer_options *o = b->ctx->options;
  return o && o->training ? o->training->micro_batch : 0;
}

static wafer_status apply_micro_batch(binder *b, const bool *shaped) {
  uint32_t samples = micro_batch(b);
  for (uint32_t i = 0; samples && i < b->count; i++) {
    const onnx_shape *declared = declared_shape(b->inputs[i].info);
    const wafer_shape *given = &b->inputs[i].type.shape;
    if (shaped[i] && !b->inputs[i].bound && given->rank && given->dims[0] != samples)
      return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_USAGE,
                        "--shape gives input '%s' a leading dim of %lld, --micro-batch says %u",
                        b->inputs[i].info->name, (long long)given->dims[0], samples);
    if (shaped[i] || !declared || !declared->dim.count || !symbol_of(&declared->dim.at[0]))
      continue;
    symbol *s = find_symbol(b, symbol_of(&declared->dim.at[0]));
    WAFER_TRY(set_symbol(b, s, samples, "--micro-batch"));
  }
  return WAFER_OK;
}

int64_t bind_declared_batch(const model_input *inputs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const onnx_shape *declared = declared_shape(inputs[i].info);
    if (declared && declared->dim.count && is_number(&declared->dim.at[0]))
      return declared->dim.at[0].value;
  }
  return 0;
}

static wafer_status apply_shapes(binder *b, bool *shaped) {
  const wafer_options *options = b->ctx->options;
  for (size_t i = 0; i < options->shape_count; i++) {
    model_input *in = find_input(b, options->shapes[i].input);
    if (!in) return no_such_input(b, "--shape", options->shapes[i].input);
    WAFER_TRY(apply_shape(b, in, &options->shapes[i].shape, "--shape"));
    shaped[in - b->inputs] = true;
  }
  for (size_t i = 0; i < options->value_count; i++) {
    model_input *in = find_input(b, options->values[i].input);
    if (!in) return no_such_input(b, "--bind", options->values[i].input);
    WAFER_TRY(apply_shape(b, in, &options->values[i].value.shape, "--bind"));
    in->bound = &options->values[i].value;
    shaped[in - b->inputs] = true;
  }
  return WAFER_OK;
}

/* ---- Types ---- */

static const char *kind_of(const onnx_type *type) {
  if (!type) return "of no declared type";
  return type->sequence   ? "a sequence"
         : type->map      ? "a map"
         : type->optional ? "an optional"
         : type->sparse   ? "a sparse tensor"
                          : "of no declared type";
}

static wafer_status element_type(binder *b, model_input *in) {
  const onnx_value *info = in->info;
  wafer_loc loc = wafer_at_file(b->file);
  in->host = info->type && (info->type->sequence || info->type->optional ||
                            (info->type->tensor && info->type->tensor->elem_type == ONNX_STRING));
  if (in->host && in->bound)
    return wafer_fail(b->ctx->diag, loc, WAFER_USAGE,
                      "--bind %s: only tensors of numbers can be bound", info->name);
  if (in->host) return WAFER_OK;
  if (!info->type || !info->type->tensor) {
    b->unsupported++;
    return import_problem(b->ctx, loc, WAFER_UNSUPPORTED, WAFER_PROBLEM_type, NULL,
                          "input '%s' is %s; only tensors are supported", info->name,
                          kind_of(info->type));
  }
  int64_t elem = info->type->tensor->elem_type;
  in->type.dtype =
      elem > 0 && elem < INT32_MAX ? wafer_dtype_by_onnx((int32_t)elem) : WAFER_DTYPE_none;
  if (in->type.dtype == WAFER_DTYPE_none) {
    b->unsupported++;
    return import_problem(b->ctx, loc, WAFER_UNSUPPORTED, WAFER_PROBLEM_type, NULL,
                          "input '%s' is of element type %lld (%s)", info->name, (long long)elem,
                          onnx_data_type_name(elem));
  }
  if (in->bound) {
    wafer_view *given = WAFER_NEW(b->ctx->arena, wafer_view, 1);
    if (!given) return wafer_fail(b->ctx->diag, loc, WAFER_NO_MEMORY, "no memory for the inputs");
    *given = *in->bound;
    wafer_npy_adopt(given, in->type.dtype);
    in->bound = given;
  }
  if (in->bound && in->bound->dtype != in->type.dtype)
    return wafer_fail(b->ctx->diag, loc, WAFER_BAD_INPUT,
                      "--bind %s is of type %s, the model's input of type %s", info->name,
                      wafer_dtype_name(in->bound->dtype), wafer_dtype_name(in->type.dtype));
  return WAFER_OK;
}

/* Says which dims are open and how to close them. */
static wafer_status report_open(binder *b, const model_input *in) {
  const onnx_shape *declared = declared_shape(in->info);
  char text[256] = "", remedy[600] = "give ";
  for (size_t d = 0; declared && d < declared->dim.count; d++) {
    const onnx_dim *dim = &declared->dim.at[d];
    const char *name = symbol_of(dim) ? symbol_of(dim) : "?";
    size_t used = strlen(text), given = strlen(remedy);
    if (is_number(dim))
      snprintf(text + used, sizeof text - used, "%s%lld", d ? "x" : "", (long long)dim->value);
    else
      snprintf(text + used, sizeof text - used, "%s%s", d ? "x" : "", name);
    const symbol *s = symbol_of(dim) ? find_symbol(b, name) : NULL;
    if (s && !s->by) snprintf(remedy + given, sizeof remedy - given, "--dim %s=N ", name);
  }
  size_t given = strlen(remedy);
  snprintf(remedy + given, sizeof remedy - given, "%s--shape %s=...",
           given > strlen("give ") ? "or " : "", in->info->name);
  b->open++;
  return import_problem(b->ctx, wafer_at_file(b->file), WAFER_BAD_INPUT, WAFER_PROBLEM_dim, remedy,
                        "input '%s' has dims that the model leaves open (%s)", in->info->name,
                        declared ? text : "unknown rank");
}

static wafer_status static_shape(binder *b, model_input *in) {
  const onnx_shape *declared = declared_shape(in->info);
  if (!declared) return report_open(b, in);
  if (declared->dim.count > WAFER_MAX_RANK) {
    b->unsupported++;
    return import_problem(b->ctx, wafer_at_file(b->file), WAFER_UNSUPPORTED, WAFER_PROBLEM_type,
                          NULL, "input '%s' has %zu dims, at most %d are supported", in->info->name,
                          declared->dim.count, WAFER_MAX_RANK);
  }
  in->type.shape.rank = (uint32_t)declared->dim.count;
  for (uint32_t d = 0; d < in->type.shape.rank; d++) {
    const onnx_dim *dim = &declared->dim.at[d];
    const symbol *s = symbol_of(dim) ? find_symbol(b, symbol_of(dim)) : NULL;
    bool batch = d == 0 && micro_batch(b);
    if (!batch && !is_number(dim) && (!s || !s->by)) return report_open(b, in);
    in->type.shape.dims[d] = batch ? micro_batch(b) : s ? s->size : dim->value;
  }
  int64_t elements;
  if (!wafer_shape_elements(&in->type.shape, &elements))
    return wafer_fail(b->ctx->diag, wafer_at_file(b->file), WAFER_BAD_INPUT,
                      "input '%s' has too many elements", in->info->name);
  return WAFER_OK;
}

/* Open dims and types that we have not leave the input unknown; anything else ends it. */
static wafer_status type_inputs(binder *b, const bool *shaped, wafer_status *problem) {
  for (uint32_t i = 0; i < b->count; i++) {
    uint32_t before = b->unsupported + b->open;
    wafer_status status = element_type(b, &b->inputs[i]);
    if (status == WAFER_OK && !shaped[i] && !b->inputs[i].host)
      status = static_shape(b, &b->inputs[i]);
    if (status != WAFER_OK && before == b->unsupported + b->open) return status;
    b->inputs[i].unknown = status != WAFER_OK;
  }
  *problem = b->open ? WAFER_BAD_INPUT : b->unsupported ? WAFER_UNSUPPORTED : WAFER_OK;
  return WAFER_OK;
}

wafer_status bind_inputs(const wafer_ctx *ctx, const char *file, const onnx_graph *graph,
                         const scope *initializers, model_input **out, uint32_t *count,
                         wafer_status *problem) {
  binder b = {.ctx = ctx, .file = file, .graph = graph, .initializers = initializers};
  WAFER_TRY(gather_inputs(&b));
  bool *shaped = WAFER_NEW(ctx->arena, bool, b.count);
  if (!shaped) return fail_file(&b, WAFER_NO_MEMORY, "out of memory");
  if (ctx->options) WAFER_TRY(apply_dims(&b));
  if (ctx->options) WAFER_TRY(apply_shapes(&b, shaped));
  WAFER_TRY(apply_micro_batch(&b, shaped));
  WAFER_TRY(type_inputs(&b, shaped, problem));
  *out = b.inputs;
  *count = b.count;
  return WAFER_OK;
}

bool bind_contradicts(const onnx_type *declared, const wafer_type *type) {
  if (!declared || !declared->tensor) return declared && (declared->sequence || declared->map);
  if (declared->tensor->elem_type && declared->tensor->elem_type < INT32_MAX &&
      wafer_dtype_by_onnx((int32_t)declared->tensor->elem_type) != type->dtype)
    return true;
  const onnx_shape *shape = declared->tensor->shape;
  if (!shape) return false;
  if (shape->dim.count != type->shape.rank) return true;
  for (uint32_t d = 0; d < type->shape.rank; d++) {
    const onnx_dim *dim = &shape->dim.at[d];
    if (is_number(dim) && dim->value != 0 && dim->value != type->shape.dims[d]) return true;
  }
  return false;
}

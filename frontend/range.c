/* A dim of several sizes: the model is imported once for each, and a function of the host calls the
 * one that its inputs fit. Weights are one again when the pieces are linked. */
#include <string.h>

#include "import.h"

#define MOST_SIZES 256

/* What is joined: every size's program, renumbered behind those before it. */
typedef struct join {
  const wafer_ctx *ctx;
  const char *file;
  wafer_program *made;
  wafer_value *values;
  wafer_function *functions;
  wafer_ir **pieces;
  wafer_weights *weights;
  uint32_t *bodies;
  uint32_t value_count, function_count;
} join;

static wafer_status no_memory(const join *j) {
  return wafer_fail(j->ctx->diag, wafer_at_file(j->file), WAFER_NO_MEMORY,
                    "no memory to import the model");
}

/* A model that is one function of the wafer, as a program. */
static wafer_status as_program(const wafer_ctx *ctx, wafer_ir *ir) {
  if (ir->program) return WAFER_OK;
  MlirOperation main = wafer_ir_main(ir);
  MlirBlock body = wafer_ir_body(main);
  MlirOperation end = mlirBlockGetTerminator(body);
  uint32_t in = (uint32_t)mlirBlockGetNumArguments(body);
  uint32_t out = (uint32_t)mlirOperationGetNumOperands(end);
  wafer_program *p = WAFER_NEW(ctx->arena, wafer_program, 1);
  wafer_value *values = WAFER_NEW(ctx->arena, wafer_value, in + out);
  wafer_function *function = WAFER_NEW(ctx->arena, wafer_function, 1);
  uint32_t *numbers = WAFER_NEW(ctx->arena, uint32_t, in + out);
  wafer_ir **pieces = WAFER_NEW(ctx->arena, wafer_ir *, 1);
  if (!p || !values || !function || !numbers || !pieces)
    return wafer_fail(ctx->diag, wafer_at_file(ir->file), WAFER_NO_MEMORY,
                      "no memory to import the model");
  for (uint32_t i = 0; i < in + out; i++) {
    MlirValue value = i < in ? mlirBlockGetArgument(body, i) : mlirOperationGetOperand(end, i - in);
    values[i] = (wafer_value){.name = i < in ? wafer_ir_argument_name(main, i)
                                             : wafer_ir_result_name(main, i - in),
                              .node = "",
                              .owner = i < in ? WAFER_OWNER_input : WAFER_OWNER_output,
                              .type = wafer_ir_value_type(value),
                              .weight = WAFER_NONE};
    numbers[i] = i;
  }
  *function = (wafer_function){.name = "main",
                               .input_count = in,
                               .inputs = numbers,
                               .output_count = out,
                               .outputs = numbers + in};
  pieces[0] = ir;
  *p = (wafer_program){.value_count = in + out,
                       .function_count = 1,
                       .values = values,
                       .functions = function,
                       .pieces = pieces};
  ir->program = p;
  return WAFER_OK;
}

static const uint32_t *shifted(const join *j, uint32_t count, const uint32_t *at, uint32_t by) {
  uint32_t *made = WAFER_NEW(j->ctx->arena, uint32_t, count);
  for (uint32_t i = 0; made && i < count; i++)
    made[i] = at[i] == WAFER_NONE ? WAFER_NONE : at[i] + by;
  return made;
}

static wafer_status add_values(join *j, const wafer_program *from) {
  for (uint32_t i = 0; i < from->value_count; i++) {
    wafer_value *v = &j->values[j->value_count++];
    *v = from->values[i];
    if (v->owner == WAFER_OWNER_input || v->owner == WAFER_OWNER_output)
      v->owner = WAFER_OWNER_activation;
    if (v->weight == WAFER_NONE) continue;
    const wafer_weight *w = wafer_weights_at(from->weights, v->weight);
    v->weight = (uint32_t)wafer_weights_count(j->weights);
    wafer_weight *added = wafer_weights_add(j->weights, w->name, w->dtype, &w->shape, w->data);
    if (!added) return no_memory(j);
    added->expected = w->expected;
    added->sparse = w->sparse, added->nonzeros = w->nonzeros;
    v->name = added->name;
  }
  return WAFER_OK;
}

static wafer_status add_function(join *j, const wafer_program *from, uint32_t index, int64_t size,
                                 uint32_t values, uint32_t functions) {
  wafer_function *f = &j->functions[j->function_count];
  *f = from->functions[index];
  wafer_step *steps = WAFER_NEW(j->ctx->arena, wafer_step, f->step_count);
  f->name = wafer_arena_printf(j->ctx->arena, "%s@%lld", f->name, (long long)size);
  f->inputs = shifted(j, f->input_count, f->inputs, values);
  f->outputs = shifted(j, f->output_count, f->outputs, values);
  if (!steps || !f->name || !f->inputs || !f->outputs) return no_memory(j);
  for (uint32_t s = 0; s < f->step_count; s++) {
    steps[s] = f->steps[s];
    steps[s].inputs = shifted(j, steps[s].input_count, steps[s].inputs, values);
    steps[s].outputs = shifted(j, steps[s].output_count, steps[s].outputs, values);
    steps[s].bodies = shifted(j, steps[s].body_count, steps[s].bodies, functions);
    if (!steps[s].inputs || !steps[s].outputs || !steps[s].bodies) return no_memory(j);
  }
  f->steps = steps;
  j->pieces[j->function_count++] = from->pieces[index];
  return WAFER_OK;
}

/* Inputs and outputs of the first size; where another size has another type, a host value. */
static void join_port(wafer_value *port, const wafer_value *other) {
  if (other->kind != port->kind || other->type.dtype != port->type.dtype ||
      !wafer_shape_equal(&other->type.shape, &port->type.shape)) {
    port->kind = WAFER_VALUE_host;
    port->type = (wafer_type){0};
  }
}

static void join_ports(join *j, const wafer_program *first, const wafer_program *other) {
  const wafer_function *f = &first->functions[0], *g = &other->functions[0];
  for (uint32_t i = 0; i < f->input_count; i++)
    join_port(&j->values[i], &other->values[g->inputs[i]]);
  for (uint32_t i = 0; i < f->output_count; i++)
    join_port(&j->values[f->input_count + i], &other->values[g->outputs[i]]);
}

/* The function that chooses; values 0.. are its inputs and outputs. */
static wafer_status start(join *j, const wafer_program *first, uint32_t sizes) {
  const wafer_function *f = &first->functions[0];
  uint32_t ports = f->input_count + f->output_count;
  uint32_t *numbers = WAFER_NEW(j->ctx->arena, uint32_t, ports);
  wafer_step *step = WAFER_NEW(j->ctx->arena, wafer_step, 1);
  if (!numbers || !step) return no_memory(j);
  for (uint32_t i = 0; i < ports; i++) {
    bool input = i < f->input_count;
    numbers[i] = i;
    j->values[i] = first->values[input ? f->inputs[i] : f->outputs[i - f->input_count]];
    j->values[i].owner = input ? WAFER_OWNER_input : WAFER_OWNER_output;
  }
  *step = (wafer_step){.kind = WAFER_STEP_fit,
                       .phase = WAFER_NONE,
                       .node = "",
                       .input_count = f->input_count,
                       .inputs = numbers,
                       .output_count = f->output_count,
                       .outputs = numbers + f->input_count,
                       .body_count = sizes,
                       .bodies = j->bodies};
  j->functions[0] = (wafer_function){.name = "main",
                                     .input_count = f->input_count,
                                     .inputs = numbers,
                                     .output_count = f->output_count,
                                     .outputs = numbers + f->input_count,
                                     .step_count = 1,
                                     .steps = step};
  j->value_count = ports;
  j->function_count = 1;
  return WAFER_OK;
}

static wafer_status join_sizes(const wafer_ctx *ctx, wafer_ir *const *irs, uint32_t count,
                               int64_t least) {
  wafer_arena *arena = ctx->arena;
  join j = {.ctx = ctx, .file = irs[0]->file, .made = WAFER_NEW(arena, wafer_program, 1)};
  const wafer_function *f = &irs[0]->program->functions[0];
  size_t values = (size_t)f->input_count + f->output_count, functions = 1;
  for (uint32_t k = 0; k < count; k++) {
    values += irs[k]->program->value_count;
    functions += irs[k]->program->function_count;
  }
  j.values = WAFER_NEW(arena, wafer_value, values);
  j.functions = WAFER_NEW(arena, wafer_function, functions);
  j.pieces = WAFER_NEW(arena, wafer_ir *, functions);
  j.bodies = WAFER_NEW(arena, uint32_t, count);
  j.weights = wafer_weights_create(arena);
  if (!j.made || !j.values || !j.functions || !j.pieces || !j.bodies || !j.weights)
    return no_memory(&j);
  WAFER_TRY(start(&j, irs[0]->program, count));
  for (uint32_t k = 0; k < count; k++) {
    const wafer_program *from = irs[k]->program;
    uint32_t value = j.value_count, function = j.function_count;
    join_ports(&j, irs[0]->program, from);
    WAFER_TRY(add_values(&j, from));
    j.bodies[k] = function;
    for (uint32_t i = 0; i < from->function_count; i++)
      WAFER_TRY(add_function(&j, from, i, least + k, value, function));
  }
  *j.made = (wafer_program){.value_count = j.value_count,
                            .function_count = j.function_count,
                            .values = j.values,
                            .functions = j.functions,
                            .pieces = j.pieces,
                            .weights = j.weights};
  for (uint32_t k = 0; k < count; k++) {
    irs[k]->sized = true;
    if (k) irs[k - 1]->next = irs[k];
    irs[k]->program = NULL; /* its pieces are those of the whole now */
  }
  irs[0]->program = j.made;
  return WAFER_OK;
}

static wafer_status import_sizes(const wafer_ctx *ctx, const char *path, size_t dim, wafer_ir **irs,
                                 uint32_t count) {
  wafer_options options = *ctx->options;
  wafer_ctx own = *ctx;
  wafer_dim_binding *dims = WAFER_NEW(ctx->arena, wafer_dim_binding, options.dim_count);
  if (!dims)
    return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory for the dims");
  memcpy(dims, options.dims, options.dim_count * sizeof *dims);
  options.dims = dims;
  own.options = &options;
  for (uint32_t k = 0; k < count; k++) {
    dims[dim] = (wafer_dim_binding){.name = options.dims[dim].name,
                                    .size = ctx->options->dims[dim].size + k};
    WAFER_TRY(import_one(&own, path, &irs[k]));
    WAFER_TRY(as_program(ctx, irs[k]));
  }
  return join_sizes(ctx, irs, count, ctx->options->dims[dim].size);
}

wafer_status wafer_import(const wafer_ctx *ctx, const char *path, wafer_ir **out) {
  const wafer_options *o = ctx->options;
  size_t ranged = 0, dim = 0;
  *out = NULL;
  for (size_t i = 0; o && i < o->dim_count; i++)
    if (o->dims[i].last > o->dims[i].size) ranged++, dim = i;
  if (!ranged) return import_one(ctx, path, out);
  int64_t count = o->dims[dim].last - o->dims[dim].size + 1;
  if (ranged > 1 || count > MOST_SIZES)
    return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_USAGE,
                      "%zu dims have a range, the last of %lld sizes; one may have it, of at most "
                      "%d",
                      ranged, (long long)count, MOST_SIZES);
  if (o->training)
    return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_USAGE,
                      "--dim %s=%lld..%lld: a training step is of one size; give one",
                      o->dims[dim].name, (long long)o->dims[dim].size,
                      (long long)o->dims[dim].last);
  wafer_ir **irs = WAFER_NEW(ctx->arena, wafer_ir *, (size_t)count);
  if (!irs)
    return wafer_fail(ctx->diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory for the sizes");
  wafer_status status = import_sizes(ctx, path, dim, irs, (uint32_t)count);
  if (status == WAFER_OK) *out = irs[0];
  for (int64_t k = 0; status != WAFER_OK && k < count; k++) wafer_ir_destroy(irs[k]);
  return status;
}

/* Makes a training step of a model that was imported for training: its outputs give way to the loss
 * and the gradients of its parameters, and these, arguments of @main so far, become weights.
 *
 * Statistics that a model keeps while it is trained stay results: the next value of an argument
 * that the loss does not read.
 *
 *   @main(x, w: parameter) -> y   =>   @main(x, labels, seed) -> loss, count, gradient of w
 *                                      %w = nn.weight "w"
 *
 * Without a seed, for evaluation: the loss alone. Nothing to do in inference. Needs types; the
 * program is simplified once more while parameters are still arguments, whose values no rewrite may
 * use. */
#include "grad/grad.h"

#include <string.h>

typedef struct trainer {
  const wafer_ctx *ctx;
  wafer_ir *ir;
  const wafer_training_options *options;
  MlirOperation main, end; /* the function and its return */
  MlirBlock block;
  grad d;
  wafer_builder b;
  MlirValue output, labels, seed; /* seed: null for evaluation */
  uint32_t parameter_count;
  MlirValue *parameters, *gradients; /* of a statistic: its next value */
  const char **names;                /* of the parameters' weights */
  bool *trained, *statistic;
} trainer;

static wafer_status no_memory(const trainer *t) {
  return wafer_fail(t->ctx->diag, wafer_at_file(t->ir->file), WAFER_NO_MEMORY,
                    "no memory for the gradients");
}

/* ---- What there is ---- */

static wafer_status find_output(trainer *t) {
  const char *want = t->options->output;
  uint32_t count = (uint32_t)mlirOperationGetNumOperands(t->end), i = 0;
  while (want && i < count && strcmp(wafer_ir_result_name(t->main, i), want)) i++;
  if (i >= count)
    return wafer_fail(t->ctx->diag, wafer_at_file(t->ir->file), WAFER_USAGE,
                      "the loss reads output '%s', which the model does not have; its first one is "
                      "'%s'",
                      want ? want : "", count ? wafer_ir_result_name(t->main, 0) : "none");
  t->output = mlirOperationGetOperand(t->end, i);
  return WAFER_OK;
}

static wafer_status find_parameters(trainer *t) {
  wafer_arena *arena = t->ctx->arena;
  size_t count = (size_t)mlirBlockGetNumArguments(t->block);
  t->parameters = WAFER_NEW(arena, MlirValue, count + 1);
  t->gradients = WAFER_NEW(arena, MlirValue, count + 1);
  t->names = WAFER_NEW(arena, const char *, count + 1);
  t->trained = WAFER_NEW(arena, bool, count + 1);
  t->statistic = WAFER_NEW(arena, bool, count + 1);
  if (!t->parameters || !t->gradients || !t->names || !t->trained || !t->statistic)
    return no_memory(t);
  for (uint32_t i = 0; i < count; i++) {
    wafer_ir_port port = wafer_ir_argument(t->main, i);
    if (port.role != WAFER_ROLE_parameter) continue;
    t->names[t->parameter_count] = port.of;
    t->parameters[t->parameter_count++] = mlirBlockGetArgument(t->block, i);
  }
  return WAFER_OK;
}

static void find_statistics(trainer *t) {
  uint32_t results = (uint32_t)mlirOperationGetNumOperands(t->end);
  for (uint32_t i = 0; i < results; i++) {
    wafer_ir_port port = wafer_ir_result(t->main, i);
    if (port.role != WAFER_ROLE_statistic) continue;
    for (uint32_t p = 0; p < t->parameter_count; p++) {
      if (strcmp(t->names[p], port.of)) continue;
      t->statistic[p] = true;
      t->gradients[p] = mlirOperationGetOperand(t->end, i);
    }
  }
}

/* ---- Loss and gradients ---- */

static void enter_loss(trainer *t) {
  t->b.location = wafer_ir_location(t->ir, "loss", -1);
  t->b.loc = wafer_at_node(t->ir->file, "loss", -1);
}

/* The new arguments stand behind the model's. */
static wafer_status build_loss(trainer *t, grad_loss *loss) {
  wafer_type type = wafer_ir_value_type(t->output), labels, scalar = {.dtype = WAFER_DTYPE_f32};
  WAFER_TRY(grad_loss_labels(t->ctx, t->ir, &type, &labels));
  enter_loss(t);
  t->labels = wafer_ir_add_argument(&t->b, &labels);
  if (!t->options->evaluate) t->seed = wafer_ir_add_argument(&t->b, &scalar);
  grad_loss_build(&t->d, t->output, t->labels, t->seed, loss);
  return t->d.status;
}

/* A parameter from which only zeros come back is trained all the same, by zeros: whether it is must
 * not depend on what a rule makes, so that plans for training and evaluation agree. */
static wafer_status derive(trainer *t, const grad_loss *loss) {
  wafer_grad what = {.y = t->output,
                     .seed = loss->part,
                     .variable_count = t->parameter_count,
                     .fixed_count = t->parameter_count,
                     .fixed = t->parameters};
  WAFER_TRY(wafer_grad_reaches(&t->b, &what, t->trained));
  if (t->options->evaluate) return WAFER_OK;
  MlirValue *gradients = WAFER_NEW(t->ctx->arena, MlirValue, t->parameter_count + 1);
  if (!gradients) return no_memory(t);
  WAFER_TRY(wafer_grad_build(&t->b, &what, gradients));
  for (uint32_t i = 0; i < t->parameter_count; i++) {
    wafer_type type = wafer_ir_value_type(t->parameters[i]);
    t->trained[i] |= t->statistic[i];
    if (t->statistic[i]) continue;
    t->gradients[i] = gradients[i];
    if (t->trained[i] && mlirValueIsNull(t->gradients[i]))
      WAFER_TRY(wafer_build_splat(&t->b, &type, 0, &t->gradients[i]));
  }
  return WAFER_OK;
}

/* ---- The function ---- */

/* What the function takes and gives from now on. */
static wafer_status finish(trainer *t, const grad_loss *loss) {
  uint32_t count = 0, most = t->parameter_count + 3;
  wafer_ir_port *ports = WAFER_NEW(t->ctx->arena, wafer_ir_port, most);
  MlirValue *values = WAFER_NEW(t->ctx->arena, MlirValue, most);
  intptr_t arguments = mlirBlockGetNumArguments(t->block);
  wafer_ir_port *in = WAFER_NEW(t->ctx->arena, wafer_ir_port, (size_t)arguments);
  if (!ports || !values || !in) return no_memory(t);
  for (intptr_t i = 0; i < arguments; i++) in[i] = wafer_ir_argument(t->main, (uint32_t)i);
  intptr_t own = t->options->evaluate ? arguments - 1 : arguments - 2;
  in[own] = (wafer_ir_port){"labels", WAFER_ROLE_labels, NULL};
  if (!t->options->evaluate) in[own + 1] = (wafer_ir_port){"seed", WAFER_ROLE_seed, NULL};
  values[count] = loss->loss, ports[count++] = (wafer_ir_port){"loss", WAFER_ROLE_loss, NULL};
  values[count] = loss->count, ports[count++] = (wafer_ir_port){"count", WAFER_ROLE_count, NULL};
  if (!mlirValueIsNull(loss->correct))
    values[count] = loss->correct,
    ports[count++] = (wafer_ir_port){"correct", WAFER_ROLE_correct, NULL};
  for (uint32_t i = 0; i < t->parameter_count && !t->options->evaluate; i++) {
    if (!t->trained[i]) continue;
    wafer_role role = t->statistic[i] ? WAFER_ROLE_statistic : WAFER_ROLE_gradient;
    const char *name =
        wafer_arena_printf(t->ctx->arena, t->statistic[i] ? "next:%s" : "gradient:%s", t->names[i]);
    if (!name) return no_memory(t);
    values[count] = t->gradients[i];
    ports[count++] = (wafer_ir_port){name, role, t->names[i]};
  }
  mlirOperationSetOperands(t->end, count, values);
  return wafer_ir_set_ports(t->ctx, t->ir, in, ports);
}

/* Parameters that are left become weights at the head of the function. */
static wafer_status settle_parameters(trainer *t) {
  intptr_t count = mlirBlockGetNumArguments(t->block), kept = 0;
  intptr_t results = mlirOperationGetNumOperands(t->end);
  wafer_ir_port *in = WAFER_NEW(t->ctx->arena, wafer_ir_port, (size_t)count);
  wafer_ir_port *out = WAFER_NEW(t->ctx->arena, wafer_ir_port, (size_t)results);
  if (!in || !out) return no_memory(t);
  wafer_builder b = t->b;
  b.before = mlirBlockGetFirstOperation(t->block);
  b.location = wafer_ir_location(t->ir, NULL, -1);
  uint32_t parameter = 0;
  for (intptr_t i = 0; i < count; i++) {
    wafer_ir_port port = wafer_ir_argument(t->main, (uint32_t)i);
    MlirValue argument = mlirBlockGetArgument(t->block, kept), value;
    if (port.role != WAFER_ROLE_parameter) {
      in[kept++] = port;
      continue;
    }
    wafer_type type = wafer_ir_value_type(argument);
    wafer_weight *weight = wafer_weights_find(t->ir->weights, port.of);
    if (!weight) /* of a text */
      weight = wafer_weights_add(t->ir->weights, port.of, type.dtype, &type.shape, NULL);
    if (!weight) return no_memory(t);
    weight->trained = t->trained[parameter++];
    WAFER_TRY(wafer_build_weight(&b, weight, &value));
    mlirValueReplaceAllUsesOfWith(argument, value);
    mlirBlockEraseArgument(t->block, kept);
  }
  for (intptr_t i = 0; i < results; i++) out[i] = wafer_ir_result(t->main, (uint32_t)i);
  return wafer_ir_set_ports(t->ctx, t->ir, in, out);
}

static wafer_status check_parameters(const trainer *t) {
  uint32_t trained = 0;
  for (uint32_t i = 0; i < t->parameter_count; i++) trained += t->trained[i];
  if (trained) return WAFER_OK;
  return wafer_fail(t->ctx->diag, wafer_at_file(t->ir->file), WAFER_UNSUPPORTED,
                    t->parameter_count
                        ? "there is nothing to train: the loss depends on none of the model's %u "
                          "float weights that are not frozen"
                        : "there is nothing to train: the model has %u float weights that are not "
                          "frozen",
                    t->parameter_count);
}

/* What is computed again, is so for want of memory, or because it was asked for. */
static wafer_status save_memory(const trainer *t) {
  bool fits = t->options->recompute == WAFER_RECOMPUTE_none;
  if (t->options->recompute == WAFER_RECOMPUTE_auto) WAFER_TRY(grad_fits(t->ctx, t->ir, &fits));
  return fits ? WAFER_OK : grad_recompute(t->ctx, t->ir);
}

static uint32_t micro_batch(const trainer *t) {
  if (t->options->micro_batch) return t->options->micro_batch;
  wafer_type type = wafer_ir_value_type(t->output);
  return type.shape.rank && type.shape.dims[0] ? (uint32_t)type.shape.dims[0] : 1;
}

wafer_status wafer_pass_grad(const wafer_ctx *ctx, wafer_ir *ir) {
  const wafer_training_options *options = ctx->options ? ctx->options->training : NULL;
  if (!options) return WAFER_OK;
  trainer t = {.ctx = ctx, .ir = ir, .options = options, .main = wafer_ir_main(ir)};
  grad_loss loss;
  t.block = wafer_ir_body(t.main);
  t.end = mlirBlockGetTerminator(t.block);
  t.b = (wafer_builder){.ctx = ctx, .ir = ir, .block = t.block, .before = t.end};
  t.d.b = &t.b;
  WAFER_TRY(find_output(&t));
  WAFER_TRY(find_parameters(&t));
  find_statistics(&t);
  wafer_ir_set_micro_batch(ir, micro_batch(&t));
  WAFER_TRY(build_loss(&t, &loss));
  WAFER_TRY(derive(&t, &loss));
  WAFER_TRY(check_parameters(&t));
  WAFER_TRY(finish(&t, &loss));
  WAFER_TRY(wafer_pass_simplify(ctx, ir));
  WAFER_TRY(grad_join(ctx, ir, t.end));
  WAFER_TRY(settle_parameters(&t));
  if (options->evaluate) return WAFER_OK;
  grad_defer(t.end);
  return save_memory(&t);
}

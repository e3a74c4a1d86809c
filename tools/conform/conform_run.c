/* One conformance test: ONNX -> plan, written and opened again, run, compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conform.h"

/* A test under way. */
typedef struct runner {
  const conform_arguments *a;
  const wafer_machine *machine;
  const char *scratch;
  const conform_case *c;
  conform_result *result;
  wafer_arena *arena;
  wafer_diag diag; /* the first error becomes the result's message */
  const wafer_onnx_info *info;
  conform_rule rule;
  bool *needed;             /* per input: its value must be known when compiling */
  bool more;                /* an input was added to them */
  bool *on_cores, *on_host; /* per node of the model */
  bool planned;             /* a plan was made and opened */
} runner;

static void emit(void *self, wafer_severity severity, wafer_status status, const wafer_loc *loc,
                 const char *text) {
  runner *r = self;
  (void)status;
  if (severity != WAFER_ERROR || *r->result->message) return;
  wafer_loc at = loc ? *loc : (wafer_loc){0};
  if (at.file && !strcmp(at.file, r->c->model)) at.file = NULL;
  char place[256];
  wafer_loc_format(&at, place, sizeof place);
  snprintf(r->result->message, sizeof r->result->message, "%s%s%s", place, *place ? ": " : "",
           text);
}

/* Appends a word to a list separated by blanks; a list that is full ends in "...". */
static void append(char *list, size_t room, const char *word) {
  size_t used = strlen(list), more = strlen(word) + (used ? 1 : 0);
  if (used + more + 5 < room)
    snprintf(list + used, room - used, "%s%s", used ? " " : "", word);
  else if (used + 5 <= room && (used < 3 || strcmp(list + used - 3, "...") != 0))
    snprintf(list + used, room - used, " ...");
}

/* ---- Compiling ---- */

static void note_needed(void *self, const char *input) {
  runner *r = self;
  for (size_t i = 0; i < r->info->input_count; i++)
    if (!strcmp(r->info->inputs[i].name, input) && !r->needed[i]) r->needed[i] = r->more = true;
}

/* Values of the inputs that the compiler must know, shapes of those that the model leaves open. */
static wafer_status bind_inputs(runner *r, const conform_values *inputs, wafer_options *o) {
  wafer_value_binding *values = WAFER_NEW(r->arena, wafer_value_binding, inputs->count);
  wafer_shape_binding *shapes = WAFER_NEW(r->arena, wafer_shape_binding, inputs->count);
  *o = (wafer_options){.mode = r->a->mode, .values = values, .shapes = shapes};
  o->needs = note_needed;
  o->needs_self = r;
  if (!values || !shapes) return WAFER_NO_MEMORY;
  for (size_t i = 0; i < inputs->count; i++) {
    if (r->needed[i])
      values[o->value_count++] = (wafer_value_binding){inputs->names[i], inputs->views[i]};
    else if (r->info->inputs[i].open && !inputs->items[i])
      shapes[o->shape_count++] = (wafer_shape_binding){inputs->names[i], inputs->views[i].shape};
  }
  return WAFER_OK;
}

/* Imports; inputs whose values turn out to be needed are given, until there are no more. */
static wafer_status import(runner *r, const conform_values *inputs, wafer_ctx *ctx,
                           wafer_options *options, wafer_ir **ir) {
  for (;;) {
    r->more = false;
    WAFER_TRY(bind_inputs(r, inputs, options));
    wafer_status status = wafer_import(ctx, r->c->model, ir);
    if (status == WAFER_OK || !r->more) return status;
    *r->result->message = 0;
  }
}

static wafer_status compile(runner *r, const conform_values *inputs) {
  wafer_options options;
  wafer_ctx ctx = {.machine = r->machine, .arena = r->arena, .diag = &r->diag, .options = &options};
  wafer_ir *ir;
  const wafer_plan *plan;
  WAFER_TRY(import(r, inputs, &ctx, &options, &ir));
  wafer_status status = wafer_transform(&ctx, ir, WAFER_DEFAULT_PASSES);
  if (status == WAFER_OK) status = wafer_lower(&ctx, ir, &plan);
  if (status == WAFER_OK) status = wafer_plan_write(&r->diag, plan, r->scratch);
  wafer_ir_destroy(ir);
  return status;
}

/* ---- What ran where ---- */

/* The nodes that a name of the plan stands for; a name inside a function is "call/node". */
static void mark_node(runner *r, const char *name, bool *on) {
  for (const char *at = name; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL) {
    bool found = false;
    for (size_t i = 0; i < r->info->node_count; i++)
      if (!strcmp(r->info->nodes[i].label, at)) found = on[i] = true;
    if (found) return;
  }
}

static void mark_cores(runner *r, const wafer_plan *plan) {
  r->planned = true;
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel_body *body = &plan->kernels[k].body;
    for (uint32_t i = 0; i < body->node_count; i++) mark_node(r, body->nodes[i].name, r->on_cores);
  }
  for (uint32_t f = 0; f < plan->function_count; f++)
    for (uint32_t s = 0; s < plan->functions[f].step_count; s++)
      if (plan->functions[f].steps[s].node)
        mark_node(r, plan->functions[f].steps[s].node, r->on_host);
}

static bool same_operator(const wafer_onnx_node *a, const wafer_onnx_node *b) {
  return !strcmp(a->type, b->type) && !strcmp(a->domain, b->domain) && a->opset == b->opset;
}

/* An operator of which nothing runs on cores was computed when compiling, or moves nothing. */
static void list_operators(runner *r) {
  const wafer_onnx_node *nodes = r->info->nodes;
  for (size_t i = 0; i < r->info->node_count; i++) {
    bool cores = false, host = false, seen = false;
    for (size_t k = 0; k < i; k++) seen |= same_operator(&nodes[k], &nodes[i]);
    if (seen) continue;
    for (size_t k = i; k < r->info->node_count; k++) {
      cores |= same_operator(&nodes[k], &nodes[i]) && r->on_cores[k];
      host |= same_operator(&nodes[k], &nodes[i]) && r->on_host[k];
    }
    bool is_default = !strcmp(nodes[i].domain, "ai.onnx");
    char word[512];
    snprintf(word, sizeof word, "%s%s%s@%lld:%s", is_default ? "" : nodes[i].domain,
             is_default ? "" : ".", nodes[i].type, (long long)nodes[i].opset,
             !r->planned ? "none"
             : host      ? "host"
             : cores     ? "cores"
                         : "folded");
    append(r->result->operators, sizeof r->result->operators, word);
  }
}

static void list_types(runner *r) {
  const wafer_onnx_info *info = r->info;
  uint64_t seen = 1; /* of no element type: not a tensor */
  for (size_t i = 0; i < info->input_count + info->output_count; i++) {
    wafer_dtype dtype =
        i < info->input_count ? info->inputs[i].dtype : info->outputs[i - info->input_count].dtype;
    if (!(seen >> dtype & 1))
      append(r->result->types, sizeof r->result->types, wafer_dtype_name(dtype));
    seen |= UINT64_C(1) << dtype;
  }
}

static void list_bound(runner *r) {
  *r->result->bound = 0;
  for (size_t i = 0; i < r->info->input_count; i++)
    if (r->needed[i]) append(r->result->bound, sizeof r->result->bound, r->info->inputs[i].name);
}

/* ---- Running ---- */

static const wafer_view *value_named(const conform_values *values, const char *name) {
  for (size_t i = 0; i < values->count; i++)
    if (!strcmp(values->names[i], name)) return &values->views[i];
  return NULL;
}

/* Tensors are `views`; of a plan whose first function is the host's, `items`. */
static wafer_status compare_outputs(runner *r, const wafer_plan *plan, const wafer_view *views,
                                    wafer_item *const *items, const conform_values *wanted) {
  const wafer_function *f = &plan->functions[0];
  wafer_status first = WAFER_OK;
  for (uint32_t i = 0; i < f->output_count; i++) {
    const char *name = plan->values[f->outputs[i]].name;
    const wafer_view *view = value_named(wanted, name);
    if (!view)
      return wafer_fail(&r->diag, (wafer_loc){0}, WAFER_BAD_INPUT, "no file for output '%s'", name);
    wafer_item tensor = {.kind = WAFER_ITEM_tensor, .tensor = *view};
    const wafer_item *item = wanted->items[view - wanted->views];
    wafer_status status =
        items ? conform_compare_item(&r->diag, &r->rule, name, items[i], item ? item : &tensor,
                                     &r->result->difference)
              : conform_compare(&r->diag, &r->rule, name, &views[i], view, &r->result->difference);
    if (first == WAFER_OK) first = status;
  }
  return first;
}

/* Each input as an item with a reference. */
static wafer_status make_items(runner *r, const wafer_plan *plan, const conform_values *inputs,
                               wafer_item **items) {
  const wafer_function *f = &plan->functions[0];
  for (uint32_t i = 0; i < f->input_count; i++) {
    const char *name = plan->values[f->inputs[i]].name;
    const wafer_view *view = value_named(inputs, name);
    if (!view)
      return wafer_fail(&r->diag, (wafer_loc){0}, WAFER_BAD_INPUT, "no file for input '%s'", name);
    wafer_item *item = inputs->items[view - inputs->views];
    items[i] = item ? wafer_item_retain(item) : wafer_item_copy(view);
    if (!items[i]) return WAFER_NO_MEMORY;
  }
  return WAFER_OK;
}

static wafer_status run_items(runner *r, const wafer_plan *plan, const conform_values *inputs,
                              const conform_values *wanted) {
  const wafer_function *f = &plan->functions[0];
  const wafer_session_options options = {
      .fidelity = r->a->fidelity, .threads = 1, .diag = &r->diag};
  wafer_session *session;
  wafer_item **in = WAFER_NEW(r->arena, wafer_item *, f->input_count);
  wafer_item **out = WAFER_NEW(r->arena, wafer_item *, f->output_count);
  if (!in || !out) return WAFER_NO_MEMORY;
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  wafer_status status = make_items(r, plan, inputs, in);
  if (status == WAFER_OK)
    status = wafer_session_run_items(session, in, f->input_count, out, f->output_count);
  if (status == WAFER_OK) status = compare_outputs(r, plan, NULL, out, wanted);
  for (uint32_t i = 0; i < f->input_count; i++) wafer_item_release(in[i]);
  wafer_session_destroy(session);
  return status;
}

static wafer_status run_session(runner *r, const wafer_plan *plan, const conform_values *inputs,
                                const conform_values *wanted) {
  const wafer_function *f = &plan->functions[0];
  const wafer_session_options options = {
      .fidelity = r->a->fidelity, .threads = 1, .diag = &r->diag};
  wafer_session *session;
  wafer_view *in = WAFER_NEW(r->arena, wafer_view, f->input_count);
  wafer_view *out = WAFER_NEW(r->arena, wafer_view, f->output_count);
  if (!in || !out) return WAFER_NO_MEMORY;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const char *name = plan->values[f->inputs[i]].name;
    const wafer_view *view = value_named(inputs, name);
    if (!view)
      return wafer_fail(&r->diag, (wafer_loc){0}, WAFER_BAD_INPUT, "no file for input '%s'", name);
    in[i] = *view;
  }
  WAFER_TRY(wafer_session_create(plan, &options, &session));
  wafer_status status = wafer_session_run(session, in, f->input_count, out, f->output_count);
  if (status == WAFER_OK) status = compare_outputs(r, plan, out, NULL, wanted);
  wafer_session_destroy(session);
  return status;
}

static wafer_status run_plan(runner *r, const conform_values *inputs,
                             const conform_values *wanted) {
  const wafer_plan *plan, *whole;
  WAFER_TRY(wafer_plan_open(&r->diag, r->scratch, &plan));
  wafer_ctx ctx = {.machine = plan->machine, .arena = r->arena, .diag = &r->diag};
  wafer_status status = WAFER_OK;
  whole = plan;
  mark_cores(r, plan);
  if (r->a->fidelity == WAFER_FIDELITY_fabric)
    status = wafer_plan_add_programs(&ctx, plan, false, &whole);
  if (status == WAFER_OK)
    status = wafer_function_on_host(&whole->functions[0]) ? run_items(r, whole, inputs, wanted)
                                                          : run_session(r, whole, inputs, wanted);
  wafer_plan_close(plan);
  return status;
}

static wafer_status run_set(runner *r, size_t set) {
  conform_values inputs, wanted;
  WAFER_TRY(conform_read_inputs(&r->diag, r->arena, r->c, set, r->info, &inputs));
  WAFER_TRY(conform_read_outputs(&r->diag, r->arena, r->c, set, r->info, &wanted));
  double started = cli_seconds();
  wafer_status status = compile(r, &inputs);
  double compiled = cli_seconds();
  if (status == WAFER_OK) status = run_plan(r, &inputs, &wanted);
  r->result->compile_ms += 1e3 * (compiled - started);
  r->result->run_ms += 1e3 * (cli_seconds() - compiled);
  unlink(r->scratch);
  return status;
}

/* ONNX leaves the generator of these to each implementation, seeded or not. */
static bool draws_numbers(const wafer_onnx_info *info) {
  static const char *const random[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                       "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  for (size_t i = 0; i < info->node_count; i++)
    for (size_t k = 0; k < WAFER_COUNT(random); k++)
      if (!strcmp(info->nodes[i].domain, "ai.onnx") && !strcmp(info->nodes[i].type, random[k]))
        return true;
  return false;
}

static wafer_status run_sets(runner *r) {
  WAFER_TRY(wafer_onnx_inspect(&r->diag, r->arena, r->c->model, &r->info));
  WAFER_TRY(conform_read_rule(&r->diag, r->arena, r->c, &r->rule));
  r->rule.drawn = draws_numbers(r->info);
  r->needed = WAFER_NEW(r->arena, bool, r->info->input_count);
  r->on_cores = WAFER_NEW(r->arena, bool, r->info->node_count);
  r->on_host = WAFER_NEW(r->arena, bool, r->info->node_count);
  if (!r->needed || !r->on_cores || !r->on_host) return WAFER_NO_MEMORY;
  wafer_status status = WAFER_OK;
  for (size_t set = 0; set < r->c->set_count && status == WAFER_OK; set++) status = run_set(r, set);
  list_operators(r);
  list_types(r);
  list_bound(r);
  return status;
}

void conform_run(const conform_arguments *a, const wafer_machine *machine, const char *scratch,
                 const conform_case *c, conform_result *result) {
  runner r = {a, machine, scratch, c, result, .arena = wafer_arena_create()};
  r.diag = (wafer_diag){.emit = emit, .self = &r};
  wafer_status status = r.arena ? WAFER_OK : WAFER_NO_MEMORY;
  if (status == WAFER_OK && c->set_count) status = run_sets(&r);
  wafer_arena_destroy(r.arena);
  if (status != WAFER_OK && !*result->message)
    snprintf(result->message, sizeof result->message, "%s", wafer_status_text(status));
  if (status == WAFER_OK && result->difference.drawn)
    snprintf(result->message, sizeof result->message,
             "other random numbers than those expected: types, shapes and ranges agree");
  if (status == WAFER_OK && !c->set_count)
    snprintf(result->message, sizeof result->message, "has no test_data_set_0");
  result->verdict = status != WAFER_OK  ? CONFORM_FAILED
                    : c->set_count == 0 ? CONFORM_SKIPPED
                                        : CONFORM_PASSED;
}

#include "assembly.h"

#include <string.h>

#include "import.h"

bool number_add(wafer_arena *arena, number_list *list, uint32_t number) {
  if (!WAFER_GROW(arena, list->at, list->count, list->room, 8)) return false;
  list->at[list->count++] = number;
  return true;
}

/* ---- Values ---- */

wafer_status assembly_new(importer *im, const char *name, const char *node, wafer_value_kind kind,
                          const wafer_type *type, name_entry *entry) {
  program_state *p = &im->program;
  if (!WAFER_GROW(im->ctx->arena, p->values, p->value_count, p->value_room, 8))
    return import_no_memory(im);
  p->values[p->value_count] = (wafer_value){.name = name ? name : "",
                                            .node = node ? node : "",
                                            .owner = WAFER_OWNER_activation,
                                            .kind = kind,
                                            .weight = WAFER_NONE};
  if (kind == WAFER_VALUE_tensor) p->values[p->value_count].type = *type;
  *entry = (name_entry){.name = entry->name,
                        .state = NAME_KNOWN,
                        .host = kind == WAFER_VALUE_host,
                        .numbered = true,
                        .number = p->value_count++,
                        .fn = im->fn};
  return WAFER_OK;
}

/* A constant that host steps read. */
static wafer_status new_weight(importer *im, name_entry *entry, const wafer_view *view) {
  program_state *p = &im->program;
  name_entry made = {0};
  wafer_type type = {view->dtype, view->shape};
  const char *name = entry->name ? entry->name : im->b.loc.name ? im->b.loc.name : "constant";
  if (!p->weights && !(p->weights = wafer_weights_create(im->ctx->arena)))
    return import_no_memory(im);
  WAFER_TRY(assembly_new(im, name, "", WAFER_VALUE_tensor, &type, &made));
  wafer_weight *weight = wafer_weights_add(p->weights, name, view->dtype, &view->shape, view->data);
  if (!weight) return import_no_memory(im);
  wafer_value *value = &p->values[made.number];
  value->owner = WAFER_OWNER_weight;
  value->name = weight->name;
  value->weight = (uint32_t)wafer_weights_count(p->weights) - 1;
  entry->numbered = true;
  entry->number = made.number;
  return WAFER_OK;
}

/* A result of a piece that something behind the piece takes. */
static wafer_status export_value(importer *im, name_entry *entry) {
  piece *from = entry->piece;
  name_entry made = {0};
  wafer_type type = wafer_ir_value_type(entry->value);
  const char *node = mlirValueIsAOpResult(entry->value)
                         ? wafer_ir_node_name(mlirOpResultGetOwner(entry->value))
                         : "";
  WAFER_TRY(
      assembly_new(im, entry->name ? entry->name : node, node, WAFER_VALUE_tensor, &type, &made));
  uint32_t count = from->outputs.count;
  if (!WAFER_GROW(im->ctx->arena, from->results, count, from->result_room, 8) ||
      !number_add(im->ctx->arena, &from->outputs, made.number))
    return import_no_memory(im);
  from->results[count] = entry->value;
  entry->numbered = true;
  entry->number = made.number;
  return WAFER_OK;
}

wafer_status assembly_value(importer *im, name_entry *entry, uint32_t *out) {
  wafer_view view;
  if (!entry->numbered && entry->state == NAME_TENSOR) {
    MlirValue ignored;
    WAFER_TRY(assembly_use(im, entry, &ignored));
  }
  if (!entry->numbered) {
    if (wafer_ir_constant(im->ctx, entry->piece->ir, entry->value, &view))
      WAFER_TRY(new_weight(im, entry, &view));
    else
      WAFER_TRY(export_value(im, entry));
  }
  *out = entry->number;
  return WAFER_OK;
}

/* A value that a piece is given as an argument. */
static wafer_status import_value(importer *im, name_entry *entry) {
  piece *to = im->fn->open;
  if (!number_add(im->ctx->arena, &to->inputs, entry->number)) return import_no_memory(im);
  wafer_type type = im->program.values[entry->number].type;
  entry->value = wafer_ir_add_argument(&to->b, &type);
  entry->piece = to;
  return WAFER_OK;
}

wafer_status assembly_use(importer *im, name_entry *entry, MlirValue *out) {
  WAFER_TRY(assembly_open(im));
  *out = (MlirValue){NULL};
  if (entry->state == NAME_UNKNOWN || (entry->state == NAME_KNOWN && entry->host)) return WAFER_OK;
  if (entry->state == NAME_TENSOR && entry->piece != im->fn->open) {
    WAFER_TRY(training_parameter(im, entry->tensor, entry->name, &entry->value));
    if (mlirValueIsNull(entry->value))
      WAFER_TRY(import_tensor(im, entry->tensor, entry->name, &entry->value));
    entry->piece = im->fn->open;
  } else if (entry->state == NAME_KNOWN && entry->piece != im->fn->open &&
             (entry->numbered || !mlirValueIsNull(entry->value))) {
    wafer_view view;
    if (!entry->numbered && wafer_ir_constant(im->ctx, entry->piece->ir, entry->value, &view)) {
      WAFER_TRY(wafer_build_constant(&im->b, entry->name ? entry->name : "constant", &view,
                                     &entry->value));
      entry->piece = im->fn->open;
    } else {
      uint32_t number;
      WAFER_TRY(assembly_value(im, entry, &number));
      const wafer_value *v = &im->program.values[number];
      if (v->weight != WAFER_NONE) {
        view = wafer_weight_view(wafer_weights_at(im->program.weights, v->weight));
        WAFER_TRY(wafer_build_constant(&im->b, v->name, &view, &entry->value));
        entry->piece = im->fn->open;
      } else {
        WAFER_TRY(import_value(im, entry));
      }
    }
  }
  *out = entry->value;
  return WAFER_OK;
}

/* ---- Captures ---- */

static bool is_constant(const importer *im, const name_entry *e) {
  wafer_view view;
  return e->state == NAME_KNOWN && !e->host && !mlirValueIsNull(e->value) &&
         wafer_ir_constant(im->ctx, e->piece->ir, e->value, &view);
}

/* The entry in function `fn`, from the function that has it inwards. */
static wafer_status local_in(importer *im, assembly *fn, name_entry *entry, name_entry **out) {
  wafer_arena *arena = im->ctx->arena;
  *out = entry;
  if (entry->fn == fn || !fn->outer) return WAFER_OK;
  uint32_t known = wafer_ir_map_get(fn->locals, entry);
  if (known != WAFER_NONE) return *out = fn->local[known], WAFER_OK;
  name_entry *mine = WAFER_NEW(arena, name_entry, 1);
  if (!mine || !WAFER_GROW(arena, fn->local, fn->local_count, fn->local_room, 8))
    return import_no_memory(im);
  bool value = entry->state == NAME_KNOWN && (entry->numbered || !mlirValueIsNull(entry->value));
  *mine = *entry;
  mine->fn = fn;
  if (value && !is_constant(im, entry)) {
    name_entry *outer;
    uint32_t number;
    assembly *current = im->fn;
    WAFER_TRY(local_in(im, fn->outer, entry, &outer));
    im->fn = fn->outer;
    wafer_status status = assembly_value(im, outer, &number);
    im->fn = fn;
    if (status == WAFER_OK && im->program.values[number].weight == WAFER_NONE) {
      wafer_value v = im->program.values[number];
      status = assembly_new(im, v.name, v.node, v.kind, &v.type, mine);
      if (status == WAFER_OK && v.owner == WAFER_OWNER_input)
        im->program.values[mine->number].owner = v.owner;
      if (status == WAFER_OK && (!number_add(arena, &fn->inputs, mine->number) ||
                                 !number_add(arena, &fn->captures, number)))
        status = import_no_memory(im);
    }
    im->fn = current;
    WAFER_TRY(status);
  }
  fn->local[fn->local_count] = mine;
  if (!wafer_ir_map_put(fn->locals, entry, fn->local_count++)) return import_no_memory(im);
  *out = mine;
  return WAFER_OK;
}

wafer_status assembly_local(importer *im, name_entry *entry, name_entry **out) {
  return local_in(im, im->fn, entry, out);
}

/* Adds to `a` what `all` has beyond its own captures, and puts them into the order of `all`. */
static wafer_status reorder_captures(importer *im, assembly *a, const number_list *all) {
  uint32_t own = a->inputs.count - a->captures.count;
  number_list inputs = {0};
  for (uint32_t i = 0; i < own; i++)
    if (!number_add(im->ctx->arena, &inputs, a->inputs.at[i])) return import_no_memory(im);
  for (uint32_t i = 0; i < all->count; i++) {
    uint32_t k = 0;
    while (k < a->captures.count && a->captures.at[k] != all->at[i]) k++;
    uint32_t number = k < a->captures.count ? a->inputs.at[own + k] : WAFER_NONE;
    if (number == WAFER_NONE) {
      name_entry made = {0};
      wafer_value v = im->program.values[all->at[i]];
      WAFER_TRY(assembly_new(im, v.name, v.node, v.kind, &v.type, &made));
      number = made.number;
    }
    if (!number_add(im->ctx->arena, &inputs, number)) return import_no_memory(im);
  }
  a->inputs = inputs;
  im->program.functions[a->function].inputs = inputs.at;
  im->program.functions[a->function].input_count = inputs.count;
  return WAFER_OK;
}

wafer_status assembly_unify(importer *im, assembly *a, assembly *b, number_list *out) {
  assembly *both[] = {a, b};
  *out = (number_list){0};
  for (int k = 0; k < 2; k++)
    for (uint32_t i = 0; both[k] && i < both[k]->captures.count; i++) {
      uint32_t j = 0, number = both[k]->captures.at[i];
      while (j < out->count && out->at[j] != number) j++;
      if (j == out->count && !number_add(im->ctx->arena, out, number)) return import_no_memory(im);
    }
  for (int k = 0; k < 2; k++)
    if (both[k]) WAFER_TRY(reorder_captures(im, both[k], out));
  return WAFER_OK;
}

/* ---- Pieces and steps ---- */

static wafer_status new_function(importer *im, const char *name, wafer_ir *ir, uint32_t *out) {
  program_state *p = &im->program;
  wafer_arena *arena = im->ctx->arena;
  uint32_t n = p->function_count, rooms[3] = {p->function_room, p->function_room, p->function_room};
  if (!WAFER_GROW(arena, p->functions, n, rooms[0], 8) ||
      !WAFER_GROW(arena, p->pieces, n, rooms[1], 8) || !WAFER_GROW(arena, p->used, n, rooms[2], 8))
    return import_no_memory(im);
  p->function_room = rooms[0];
  p->functions[n] = (wafer_function){.name = name};
  p->pieces[n] = ir;
  p->used[n] = false;
  *out = p->function_count++;
  return name ? WAFER_OK : import_no_memory(im);
}

static void enter_piece(importer *im) {
  im->ir = im->fn->open->ir;
  MlirLocation location = im->b.location;
  wafer_loc loc = im->b.loc;
  im->b = im->fn->open->b;
  im->b.location = location;
  im->b.loc = loc;
}

wafer_status assembly_open(importer *im) {
  assembly *fn = im->fn;
  if (fn->open) return WAFER_OK;
  wafer_arena *arena = im->ctx->arena;
  piece *made = WAFER_NEW(arena, piece, 1);
  if (!made) return import_no_memory(im);
  WAFER_TRY(wafer_ir_create_piece(im->ctx, im->root, &made->ir));
  const char *name = wafer_arena_printf(arena, "%s.%u", im->program.functions[fn->function].name,
                                        im->program.function_count);
  WAFER_TRY(new_function(im, name, made->ir, &made->function));
  WAFER_TRY(wafer_ir_begin_main(im->ctx, made->ir, 0, NULL, NULL, &made->b, NULL));
  fn->open = made;
  enter_piece(im);
  return WAFER_OK;
}

wafer_status assembly_first_piece(importer *im) {
  return new_function(im, "main.1", im->root, &im->fn->open->function);
}

static wafer_status append(importer *im, const wafer_step *step, piece *of) {
  assembly_step *made = WAFER_NEW(im->ctx->arena, assembly_step, 1);
  if (!made) return import_no_memory(im);
  *made = (assembly_step){.step = *step, .piece = of};
  if (im->fn->last)
    im->fn->last->next = made;
  else
    im->fn->first = made;
  im->fn->last = made;
  return WAFER_OK;
}

static wafer_status close_piece(importer *im) {
  wafer_step call = {.kind = WAFER_STEP_call, .phase = WAFER_NONE, .node = ""};
  WAFER_TRY(append(im, &call, im->fn->open));
  im->fn->open = NULL;
  return WAFER_OK;
}

wafer_status assembly_step_add(importer *im, const wafer_step *step) {
  const piece *open = im->fn->open;
  bool needs = false;
  for (uint32_t i = 0; open && i < step->input_count; i++)
    for (uint32_t k = 0; k < open->outputs.count; k++)
      needs = needs || open->outputs.at[k] == step->inputs[i];
  im->program.host = true;
  if (needs) WAFER_TRY(close_piece(im));
  return append(im, step, NULL);
}

/* ---- Functions ---- */

wafer_status assembly_begin(importer *im, const char *name, assembly *a) {
  *a = (assembly){.outer = im->fn, .locals = wafer_ir_map_create(im->ctx->arena)};
  if (!a->locals) return import_no_memory(im);
  WAFER_TRY(new_function(im, name, NULL, &a->function));
  im->fn = a;
  return WAFER_OK;
}

wafer_status assembly_input(importer *im, const char *name, wafer_value_kind kind,
                            const wafer_type *type, name_entry *entry) {
  WAFER_TRY(assembly_new(im, name, "", kind, type, entry));
  return number_add(im->ctx->arena, &im->fn->inputs, entry->number) ? WAFER_OK
                                                                    : import_no_memory(im);
}

/* Arguments that nothing uses go; the module is closed with the results that something takes. */
static wafer_status finish_piece(importer *im, piece *p) {
  wafer_arena *arena = im->ctx->arena;
  wafer_function *f = &im->program.functions[p->function];
  uint32_t *kept = WAFER_NEW(arena, uint32_t, p->inputs.count + 1), left;
  uint32_t *inputs = WAFER_NEW(arena, uint32_t, p->inputs.count + 1);
  const char **names = WAFER_NEW(arena, const char *, p->inputs.count + p->outputs.count + 1);
  if (!kept || !inputs || !names) return import_no_memory(im);
  p->b.location = wafer_ir_location(p->ir, NULL, -1);
  p->b.loc = wafer_at_file(im->file);
  for (uint32_t i = 0; i < p->outputs.count; i++)
    names[p->inputs.count + i] = im->program.values[p->outputs.at[i]].name;
  WAFER_TRY(wafer_ir_finish_main(&p->b, p->outputs.count, names + p->inputs.count, p->results));
  left = wafer_ir_prune_arguments(&p->b, kept);
  for (uint32_t i = 0; i < left; i++) {
    inputs[i] = p->inputs.at[kept[i]];
    names[i] = im->program.values[inputs[i]].name;
  }
  WAFER_TRY(wafer_ir_name_arguments(&p->b, left, names));
  f->inputs = inputs;
  f->input_count = left;
  f->outputs = p->outputs.at;
  f->output_count = p->outputs.count;
  im->program.used[p->function] = true;
  return WAFER_OK;
}

/* The steps as an array; pieces without results have none. */
static wafer_status take_steps(importer *im, const assembly *a) {
  uint32_t count = 0;
  for (const assembly_step *s = a->first; s; s = s->next) count++;
  wafer_step *steps = WAFER_NEW(im->ctx->arena, wafer_step, count + 1);
  if (!steps) return import_no_memory(im);
  count = 0;
  for (assembly_step *s = a->first; s; s = s->next) {
    if (s->piece && !s->piece->outputs.count) continue;
    steps[count] = s->step;
    if (s->piece) {
      uint32_t *body = WAFER_NEW(im->ctx->arena, uint32_t, 1);
      if (!body) return import_no_memory(im);
      WAFER_TRY(finish_piece(im, s->piece));
      const wafer_function *f = &im->program.functions[s->piece->function];
      *body = s->piece->function;
      steps[count].inputs = f->inputs;
      steps[count].input_count = f->input_count;
      steps[count].outputs = f->outputs;
      steps[count].output_count = f->output_count;
      steps[count].bodies = body;
      steps[count].body_count = 1;
    }
    count++;
  }
  wafer_function *f = &im->program.functions[a->function];
  f->steps = steps;
  f->step_count = count;
  f->inputs = a->inputs.at;
  f->input_count = a->inputs.count;
  f->outputs = a->outputs.at;
  f->output_count = a->outputs.count;
  im->program.used[a->function] = true;
  return WAFER_OK;
}

static void leave(importer *im) {
  im->fn = im->fn->outer;
  if (im->fn && im->fn->open) enter_piece(im);
}

/* A result that is a constant, or an input, is made by a piece as any other. */
static wafer_status result_value(importer *im, name_entry *entry, uint32_t *out) {
  name_entry copy = *entry;
  bool constant = entry->state == NAME_TENSOR || is_constant(im, entry) ||
                  (entry->numbered && im->program.values[entry->number].weight != WAFER_NONE);
  if (!constant) return assembly_value(im, entry, out);
  MlirValue value;
  WAFER_TRY(assembly_use(im, &copy, &value));
  copy.state = NAME_KNOWN;
  WAFER_TRY(export_value(im, &copy));
  *out = copy.number;
  return WAFER_OK;
}

wafer_status assembly_end(importer *im, uint32_t count, name_entry *const *entries) {
  assembly *a = im->fn;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t number;
    WAFER_TRY(result_value(im, entries[i], &number));
    if (!number_add(im->ctx->arena, &a->outputs, number)) return import_no_memory(im);
  }
  if (a->open) WAFER_TRY(close_piece(im));
  WAFER_TRY(take_steps(im, a));
  leave(im);
  return WAFER_OK;
}

void assembly_abandon(importer *im) {
  im->program.used[im->fn->function] = false;
  leave(im);
}

/* ---- The program ---- */

/* Marks what the steps of a function call. */
static void mark(const program_state *p, uint32_t function, bool *reached) {
  reached[function] = true;
  for (uint32_t i = function; i < p->function_count; i++) {
    if (!reached[i]) continue;
    for (uint32_t s = 0; s < p->functions[i].step_count; s++)
      for (uint32_t b = 0; b < p->functions[i].steps[s].body_count; b++)
        reached[p->functions[i].steps[s].bodies[b]] = true;
  }
}

/* Functions that nothing calls go, and the others are numbered anew in their order. */
wafer_status assembly_finish(importer *im, wafer_program **out) {
  program_state *p = &im->program;
  wafer_arena *arena = im->ctx->arena;
  uint32_t count = 0;
  bool *reached = WAFER_NEW(arena, bool, p->function_count);
  uint32_t *number = WAFER_NEW(arena, uint32_t, p->function_count);
  wafer_program *made = WAFER_NEW(arena, wafer_program, 1);
  if (!reached || !number || !made) return import_no_memory(im);
  mark(p, 0, reached);
  for (uint32_t i = 0; i < p->function_count; i++) {
    number[i] = count;
    if (!reached[i]) {
      if (p->pieces[i] != im->root) wafer_ir_destroy(p->pieces[i]);
      p->pieces[i] = NULL;
      continue;
    }
    p->functions[count] = p->functions[i];
    p->pieces[count++] = p->pieces[i];
  }
  p->function_count = count;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t s = 0; s < p->functions[i].step_count; s++) {
      wafer_step *step = (wafer_step *)(uintptr_t)&p->functions[i].steps[s];
      uint32_t *bodies = WAFER_NEW(arena, uint32_t, step->body_count);
      if (!bodies) return import_no_memory(im);
      for (uint32_t b = 0; b < step->body_count; b++) bodies[b] = number[step->bodies[b]];
      step->bodies = bodies;
    }
  *made = (wafer_program){.value_count = p->value_count,
                          .function_count = count,
                          .values = p->values,
                          .functions = p->functions,
                          .pieces = p->pieces,
                          .weights = p->weights};
  *out = made;
  return WAFER_OK;
}

void assembly_discard(importer *im) {
  if (im->root->program) return;
  for (uint32_t i = 0; i < im->program.function_count; i++)
    if (im->program.pieces[i] != im->root) wafer_ir_destroy(im->program.pieces[i]);
}

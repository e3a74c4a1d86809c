/* What ends a step of pipelined training, on cores: the sums of replicas come to the first one,
 * their squares are added up and leave, the numbers of the update to all cores that have sums,
 * these update their part of the weights, which then go to every kernel that reads them. A launch
 * for each, of all kernels at once. */
#include "launch_state.h"
#include "launch_tap.h"
#include "program/program_update.h"

/* What the kernel's sums have beside them, on a replica's cores; only the first has all of it. */
typedef struct held_request {
  const wafer_kernel *kernel;
  program_held *held; /* per output */
  spread *outputs, *inputs;
  program_request program;
} held_request;

static uint32_t trained_of(const launcher *l, uint32_t gradient) {
  const wafer_training *t = l->plan->training;
  uint32_t i = 0;
  while (i < t->trained_count && t->trained[i].gradient != gradient) i++;
  return i;
}

static bool has_sums(const wafer_kernel *k) {
  return k->body.output_is_summed != NULL;
}

/* ---- places ---- */

static memory_place beside(wafer_rect rect, uint32_t gradient, uint32_t what) {
  return (memory_place){
      .value = gradient, .sample = what, .at = {.where = WAFER_AT_wafer, .rect = rect}};
}

/* The sum's spread at a place of its own, taken where it was not. */
static wafer_status place_beside(launcher *l, const wafer_kernel *k, uint32_t output, uint32_t what,
                                 int32_t phase, spread *out) {
  memory_place place = beside(k->rect, k->outputs[output], what);
  const memory_place *found = memory_find(&l->map, place.value, place.sample, &place.at);
  if (!found) {
    if (!program_sum_spread(l->map.arena, l->plan->machine, &k->body, &k->split, k->rect, output,
                            &place.spread))
      return launch_no_memory(l);
    WAFER_TRY(launch_take(l, launch_at_kernel(l, k), &place, 0, phase));
    found = &place;
  }
  *out = found->spread;
  return WAFER_OK;
}

/* Two reads of one instruction had best come from places of different phase. The sum's is not the
 * output's, which is the term. */
static int32_t phase_of(const launcher *l, const wafer_kernel *k, uint32_t output, bool of_term) {
  int32_t term = program_phase(l->plan->machine, &k->body, &k->split, k->body.outputs[output]);
  return of_term ? term : term ? 0 : 4;
}

static wafer_status place_state(launcher *l, const wafer_kernel *k, uint32_t i, program_held *h) {
  wafer_optimizer_kind kind = l->plan->training->optimizer;
  h->statistic = l->plan->training->trained[trained_of(l, k->outputs[i])].statistic;
  h->slot_count = h->statistic ? 0 : wafer_optimizer_slots(kind);
  WAFER_TRY(
      place_beside(l, k, i, LAUNCH_WEIGHT, phase_of(l, k, i, h->slot_count == 0), &h->weight));
  for (uint32_t s = 0; s < h->slot_count; s++)
    WAFER_TRY(
        place_beside(l, k, i, LAUNCH_SLOT + s, phase_of(l, k, i, h->slot_count == 1), &h->slot[s]));
  return WAFER_OK;
}

/* Of the first replica, after the train: where a sample's gradient lay there is room for terms, or,
 * if it is no f32, for what kernels read. */
static wafer_status place_all(launcher *l, const wafer_kernel *k, uint32_t i, program_held *h) {
  memory_place sum = beside(k->rect, k->outputs[i], LAUNCH_SUM);
  const spread *output;
  WAFER_TRY(place_state(l, k, i, h));
  h->sum = memory_find(&l->map, sum.value, sum.sample, &sum.at)->spread;
  WAFER_TRY(launch_place_output(l, k, k->rect, i, &output));
  h->stored = output->dtype == WAFER_DTYPE_f32 ? NULL : output;
  if (h->stored) return place_beside(l, k, i, LAUNCH_TERM, phase_of(l, k, i, true), &h->term);
  h->term = *output;
  return WAFER_OK;
}

/* The numbers of an update, whole on every core of the kernel. */
static wafer_status place_numbers(launcher *l, const wafer_kernel *k, spread *out) {
  const wafer_layout whole = {
      .rank = 1, .rows = {1}, .cols = {1}, .row_stride = {1}, .col_stride = {1}};
  const wafer_shape shape = {1, {WAFER_NUMBER_COUNT}};
  memory_place place = {.value = l->plan->step_values,
                        .at = {.where = WAFER_AT_wafer, .rect = k->rect, .layout = whole}};
  const memory_place *found = memory_find(&l->map, place.value, 0, &place.at);
  if (!found) {
    if (!spread_of_layout(l->map.arena, k->rect, &whole, &shape, WAFER_DTYPE_f32, 0, &place.spread))
      return launch_no_memory(l);
    WAFER_TRY(launch_take(l, launch_at_kernel(l, k), &place, 0, 0));
    found = &place;
  }
  *out = found->spread;
  return WAFER_OK;
}

/* ---- pieces ---- */

static wafer_status add_exchange(launcher *l, const wafer_kernel *k, const char *name,
                                 uint32_t value, const spread *from, const spread *to,
                                 launch_pieces *p) {
  wafer_rect rect = !from ? to->rect : !to ? from->rect : wafer_rect_around(from->rect, to->rect);
  uint32_t scratch = memory_top(&l->map, rect);
  const wafer_machine *m = l->plan->machine;
  fragment *f = WAFER_NEW(l->arena, fragment, 1);
  if (!f) return launch_no_memory(l);
  fragment_begin(f, l->arena, name, k->body.nodes[k->body.anchor].name, rect);
  f->stream = true;
  exchange x = {.diag = &l->diag,
                .machine = m,
                .from = from,
                .to = to,
                .map = index_identity(),
                .scratch = (int32_t)scratch,
                .scratch_room = l->map.limit - scratch,
                .value = value,
                .border_rate = to ? m->edge_in_bytes_per_second : m->edge_out_bytes_per_second};
  if (from && to) launch_lower_scratch(l, &x, 1);
  WAFER_TRY(from && to ? exchange_add(&x, f) : exchange_border(&x, f));
  return launch_add_piece(l, p, f, LAUNCH_ONCE) ? WAFER_OK : launch_no_memory(l);
}

static wafer_status begin_request(launcher *l, const wafer_kernel *k, held_request *r) {
  *r = (held_request){.kernel = k,
                      .held = WAFER_NEW(l->arena, program_held, k->body.output_count),
                      .outputs = WAFER_NEW(l->arena, spread, k->body.output_count),
                      .inputs = WAFER_NEW(l->arena, spread, k->body.input_count)};
  if (!r->held || !r->outputs || !r->inputs) return launch_no_memory(l);
  r->program = (program_request){.diag = &l->diag,
                                 .arena = l->arena,
                                 .machine = l->plan->machine,
                                 .loc = launch_at_kernel(l, k),
                                 .name = k->name,
                                 .body = &k->body,
                                 .split = &k->split,
                                 .rect = k->rect,
                                 .inputs = r->inputs,
                                 .outputs = r->outputs};
  return WAFER_OK;
}

static wafer_status add_code(launcher *l, const program_kernel_code *code, launch_pieces *p) {
  for (uint32_t i = 0; i < code->fragment_count; i++)
    if (!launch_add_piece(l, p, code->fragments[i], LAUNCH_ONCE)) return launch_no_memory(l);
  return WAFER_OK;
}

static wafer_status add_program(launcher *l, const held_request *r, program_update_part part,
                                int32_t numbers, launch_pieces *p) {
  const program_update_of update = {
      .part = part, .optimizer = l->plan->training->optimizer, .numbers = numbers, .held = r->held};
  program_kernel_code code;
  WAFER_TRY(program_update(&r->program, &update, &code));
  return add_code(l, &code, p);
}

/* What a launch adds of a kernel with sums. */
typedef wafer_status adder(launcher *l, held_request *r, launch_pieces *p);

static wafer_status hold_all(launcher *l, const held_request *r) {
  for (uint32_t i = 0; i < r->kernel->body.output_count; i++)
    if (wafer_body_sums(&r->kernel->body, i)) WAFER_TRY(place_all(l, r->kernel, i, &r->held[i]));
  return WAFER_OK;
}

/* Replica after replica, as whoever reads sums adds them up. */
static wafer_status add_gather(launcher *l, held_request *r, launch_pieces *p) {
  const wafer_kernel *k = r->kernel;
  if (k->replicas > 1) WAFER_TRY(hold_all(l, r));
  for (uint32_t replica = 1; replica < k->replicas; replica++) {
    wafer_rect rect = k->rect;
    rect.x += replica * rect.width;
    for (uint32_t i = 0; i < k->body.output_count; i++) {
      if (!wafer_body_sums(&k->body, i)) continue;
      memory_place other = beside(rect, k->outputs[i], LAUNCH_SUM);
      const spread *from = &memory_find(&l->map, other.value, other.sample, &other.at)->spread;
      WAFER_TRY(add_exchange(l, k, k->name, k->outputs[i], from, &r->held[i].term, p));
    }
    WAFER_TRY(add_program(l, r, PROGRAM_UPDATE_gather, 0, p));
  }
  return WAFER_OK;
}

/* The numbers of the update, which come later, leave their place to the sums of squares. */
static wafer_status add_norm(launcher *l, held_request *r, launch_pieces *p) {
  const wafer_training *t = l->plan->training;
  const wafer_kernel *k = r->kernel;
  spread numbers, *each = WAFER_NEW(l->arena, spread, 2), *total = each + 1;
  const wafer_layout whole = {
      .rank = 2, .rows = {1, 1}, .cols = {1, 1}, .row_stride = {1, 1}, .col_stride = {1, 1}};
  const wafer_shape shape = {2, {1, 1}};
  const wafer_rect first = {k->rect.x, k->rect.y, 1, 1};
  const program_update_of update = {
      .part = PROGRAM_UPDATE_squares, .optimizer = t->optimizer, .held = r->held, .squares = each};
  program_kernel_code code;
  WAFER_TRY(hold_all(l, r));
  WAFER_TRY(place_numbers(l, k, &numbers));
  int32_t at = numbers.address;
  if (!each || !spread_of_layout(l->arena, k->rect, &whole, &shape, WAFER_DTYPE_f32, at, each) ||
      !spread_of_layout(l->arena, first, &whole, &shape, WAFER_DTYPE_f32, at, total))
    return launch_no_memory(l);
  WAFER_TRY(program_update(&r->program, &update, &code));
  WAFER_TRY(add_code(l, &code, p));
  WAFER_TRY(program_total(&r->program, each, &code));
  WAFER_TRY(add_code(l, &code, p));
  return add_exchange(l, k, k->name, l->plan->step_values + 1 + t->trained_count, total, NULL, p);
}

static wafer_status add_control(launcher *l, held_request *r, launch_pieces *p) {
  spread numbers;
  WAFER_TRY(place_numbers(l, r->kernel, &numbers));
  return add_exchange(l, r->kernel, r->kernel->name, l->plan->step_values, NULL, &numbers, p);
}

static wafer_status add_tap(launcher *l, const held_request *r, uint32_t i, launch_pieces *p) {
  uint32_t most = l->plan->training->trained_count;
  if (!p->taps) p->taps = WAFER_NEW(l->ctx->arena, wafer_tap, most);
  if (!p->taps) return launch_no_memory(l);
  wafer_tap *tap = &p->taps[p->tap_count++];
  *tap =
      (wafer_tap){.kernel = (uint32_t)(r->kernel - l->plan->kernels), .output = i, .weight = true};
  return launch_tap_of(l->ctx->arena, &r->held[i].weight, tap) ? WAFER_OK : launch_no_memory(l);
}

static wafer_status add_update(launcher *l, held_request *r, launch_pieces *p) {
  spread numbers;
  WAFER_TRY(hold_all(l, r));
  WAFER_TRY(place_numbers(l, r->kernel, &numbers));
  for (uint32_t i = 0; i < r->kernel->body.output_count; i++)
    if (wafer_body_sums(&r->kernel->body, i)) WAFER_TRY(add_tap(l, r, i, p));
  return add_program(l, r, PROGRAM_UPDATE_rule, numbers.address, p);
}

/* ---- launches ---- */

static wafer_status finish(launcher *l, wafer_launch_kind kind, uint32_t phase, launch_pieces *p) {
  wafer_launch launch = {.kind = kind, .phase = phase};
  if (!p->count) return WAFER_OK;
  WAFER_TRY(launch_time_kernel(l, p->at, p->count, &launch.predicted));
  return launch_finish(l, launch, l->plan->phases[phase].name, p);
}

/* Of actions `first` .. end - 1. */
typedef wafer_status maker(launcher *l, wafer_launch_kind kind, uint32_t index, adder *add,
                           uint32_t first, uint32_t end);

/* Where these want more colours than there are, one half after the other. */
static wafer_status launch_halves(launcher *l, wafer_launch_kind kind, uint32_t index, adder *add,
                                  uint32_t first, uint32_t end, maker *make) {
  l->lacks_colors = false;
  wafer_status status = make(l, kind, index, add, first, end);
  if (status != WAFER_NO_FIT || !l->lacks_colors || end - first < 2) return status;
  uint32_t middle = first + (end - first) / 2;
  l->why[0] = 0;
  WAFER_TRY(launch_halves(l, kind, index, add, first, middle, make));
  return launch_halves(l, kind, index, add, middle, end, make);
}

static wafer_status make_kernels(launcher *l, wafer_launch_kind kind, uint32_t index, adder *add,
                                 uint32_t first, uint32_t end) {
  const wafer_phase *phase = &l->plan->phases[index];
  launch_pieces p;
  WAFER_TRY(launch_begin(l, &p));
  for (uint32_t a = first; a < end; a++) {
    const wafer_kernel *k = &l->plan->kernels[phase->actions[a].index];
    held_request r;
    if (phase->actions[a].kind != WAFER_ACTION_kernel || !has_sums(k)) continue;
    WAFER_TRY(begin_request(l, k, &r));
    WAFER_TRY(add(l, &r, &p));
  }
  return finish(l, kind, index, &p);
}

static wafer_status launch_kernels(launcher *l, wafer_launch_kind kind, uint32_t index,
                                   adder *add) {
  uint32_t end = l->plan->phases[index].action_count;
  return launch_halves(l, kind, index, add, 0, end, make_kernels);
}

/* The kernel that has the sum of a trained weight's gradient. */
static const wafer_kernel *maker_of(const launcher *l, uint32_t gradient, uint32_t *output) {
  for (uint32_t k = 0; k < l->plan->kernel_count; k++)
    for (*output = 0; *output < l->plan->kernels[k].body.output_count; ++*output)
      if (l->plan->kernels[k].outputs[*output] == gradient) return &l->plan->kernels[k];
  return NULL;
}

/* To all replicas of a kernel that a stream brought the weight to at first. */
static wafer_status add_send(launcher *l, const wafer_stream *t, launch_pieces *p) {
  const wafer_training *training = l->plan->training;
  uint32_t i = 0, output = 0;
  while (i < training->trained_count &&
         training->trained[i].weight != l->plan->values[t->value].weight)
    i++;
  if (i == training->trained_count) return WAFER_OK;
  const wafer_kernel *k = maker_of(l, training->trained[i].gradient, &output);
  program_held held = {0};
  WAFER_TRY(place_all(l, k, output, &held));
  const spread *to, *from = held.stored ? held.stored : &held.weight;
  spread *source = wafer_arena_copy(l->arena, from, sizeof *from);
  if (!source) return launch_no_memory(l);
  for (l->turn = 0; l->turn == 0 || launch_replica(l, t->to_kernel, l->turn); l->turn++) {
    wafer_holding target = t->to;
    target.rect = launch_on_replica(l, t->to_kernel, target.rect);
    WAFER_TRY(launch_place_target(l, t, &target, &to));
    WAFER_TRY(add_exchange(l, k, l->plan->values[t->value].name, t->value, source, to, p));
  }
  l->turn = 0;
  return WAFER_OK;
}

static wafer_status make_sends(launcher *l, wafer_launch_kind kind, uint32_t index, adder *add,
                               uint32_t first, uint32_t end) {
  const wafer_phase *phase = &l->plan->phases[index];
  launch_pieces p;
  (void)add;
  WAFER_TRY(launch_begin(l, &p));
  for (uint32_t a = first; a < end; a++)
    if (launch_is_load(l, &phase->actions[a]))
      WAFER_TRY(add_send(l, &l->plan->streams[phase->actions[a].index], &p));
  return finish(l, kind, index, &p);
}

wafer_status launch_end_step(launcher *l, uint32_t phase) {
  uint32_t end = l->plan->phases[phase].action_count;
  WAFER_TRY(launch_kernels(l, WAFER_LAUNCH_gather, phase, add_gather));
  WAFER_TRY(launch_kernels(l, WAFER_LAUNCH_norm, phase, add_norm));
  WAFER_TRY(launch_kernels(l, WAFER_LAUNCH_control, phase, add_control));
  WAFER_TRY(launch_kernels(l, WAFER_LAUNCH_update, phase, add_update));
  return launch_halves(l, WAFER_LAUNCH_send, phase, NULL, 0, end, make_sends);
}

/* ---- before the first train ---- */

/* A weight in f32 comes to where its gradient is added up, and its state is cleared. */
static wafer_status add_first(launcher *l, held_request *r, launch_pieces *p) {
  const wafer_kernel *k = r->kernel;
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    if (!wafer_body_sums(&k->body, i)) continue;
    uint32_t trained = trained_of(l, k->outputs[i]);
    WAFER_TRY(place_state(l, k, i, &r->held[i]));
    WAFER_TRY(add_exchange(l, k, k->name, l->plan->step_values + 1 + trained, NULL,
                           &r->held[i].weight, p));
  }
  return add_program(l, r, PROGRAM_UPDATE_begin, 0, p);
}

/* A launch for each kernel, as of other weights. */
static wafer_status launch_first(launcher *l, uint32_t index, const wafer_kernel *k) {
  held_request r;
  launch_pieces p;
  WAFER_TRY(launch_begin(l, &p));
  WAFER_TRY(begin_request(l, k, &r));
  WAFER_TRY(add_first(l, &r, &p));
  return finish(l, WAFER_LAUNCH_load, index, &p);
}

/* Values that ports alone name: see wafer_plan. */
static wafer_status append_values(launcher *l) {
  wafer_plan *plan = l->plan;
  const wafer_training *t = plan->training;
  uint32_t count = plan->value_count;
  wafer_value *values = WAFER_NEW(l->ctx->arena, wafer_value, count + 2 + t->trained_count);
  if (!values) return launch_no_memory(l);
  for (uint32_t i = 0; i < count; i++) values[i] = plan->values[i];
  values[count] = (wafer_value){.name = "numbers of the update",
                                .node = "",
                                .owner = WAFER_OWNER_input,
                                .type = {WAFER_DTYPE_u32, {1, {WAFER_NUMBER_COUNT}}},
                                .weight = WAFER_NONE};
  for (uint32_t i = 0; i < t->trained_count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, t->trained[i].weight);
    values[count + 1 + i] = (wafer_value){.name = w->name,
                                          .node = "",
                                          .owner = WAFER_OWNER_input,
                                          .type = {WAFER_DTYPE_u32, w->shape},
                                          .weight = WAFER_NONE};
  }
  values[count + 1 + t->trained_count] = (wafer_value){.name = "squares of the sums",
                                                       .node = "",
                                                       .owner = WAFER_OWNER_output,
                                                       .type = {WAFER_DTYPE_u32, {2, {1, 1}}},
                                                       .weight = WAFER_NONE};
  plan->values = values;
  plan->step_values = count;
  plan->value_count = count + 2 + t->trained_count;
  return WAFER_OK;
}

wafer_status launch_begin_steps(launcher *l, uint32_t phase) {
  WAFER_TRY(append_values(l));
  for (uint32_t a = 0; a < l->plan->phases[phase].action_count; a++) {
    const wafer_action *action = &l->plan->phases[phase].actions[a];
    const wafer_kernel *k = &l->plan->kernels[action->index];
    if (action->kind != WAFER_ACTION_kernel || !has_sums(k)) continue;
    WAFER_TRY(launch_first(l, phase, k));
  }
  return WAFER_OK;
}

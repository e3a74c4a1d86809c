/* What a launch is put together from: kernels into their fragments, streams into exchanges between
 * two spreads, or between one and the border. Every copy of a value has addresses while it lives.
 */
#include <string.h>

#include "exchange/exchange.h"
#include "launch_order.h"
#include "launch_state.h"
#include "launch_tap.h"
#include "program/program.h"

/* ---- where values lie ---- */

/* A value of a kernel's body, or none: how the kernel would have a copy lie. */
typedef struct wish {
  const wafer_kernel *kernel;
  uint32_t value;
} wish;

static wafer_status make_spread(launcher *l, uint32_t value, const wafer_holding *at, wish by,
                                spread *out) {
  const wafer_type *type = &l->plan->values[value].type;
  wafer_dtype dtype = wafer_stored_dtype(type->dtype, l->plan->storage);
  const wafer_kernel *k = by.kernel;
  bool made =
      k ? program_spread(l->map.arena, l->plan->machine, &k->body, &k->split, at->rect, by.value,
                         out)
        : spread_of_layout(l->map.arena, at->rect, &at->layout, &type->shape, dtype, 0, out);
  return made ? WAFER_OK : launch_no_memory(l);
}

/* Which of a holding's copies is that of the sample at hand. `depth`: samples that there is room
 * for; where they pass to a kernel, later ones come into the place of earlier ones. */
static uint32_t slot_of(const launcher *l, uint32_t value, const wafer_holding *at,
                        uint32_t depth) {
  uint32_t resident = wafer_plan_resident(l->plan);
  if (l->plan->values[value].weight != WAFER_NONE) return 0;
  bool passes = depth > 0 && depth < resident && !memory_find(&l->map, value, resident - 1, at);
  return passes ? l->sample % depth : l->sample;
}

/* Samples that there is room for on the cores that take the value, in a train: beside the one that
 * the kernel reads those that come after it, each in the place behind. */
static uint32_t rooms_of(const launcher *l, uint32_t value, const wafer_holding *at) {
  for (uint32_t i = 0; l->rooms && i < l->plan->stream_count; i++) {
    const wafer_stream *t = &l->plan->streams[i];
    if (l->rooms[i] > 1 && t->value == value && wafer_holding_equal(&t->to, at)) return l->rooms[i];
  }
  return 1;
}

static uint64_t room_bytes(const spread *s) {
  return (spread_bytes(s) + 7) / 8 * 8;
}

wafer_status launch_take(launcher *l, wafer_loc loc, memory_place *place, uint32_t least,
                         int32_t phase) {
  uint64_t bytes = room_bytes(&place->spread) * rooms_of(l, place->value, &place->at);
  bool lacks;
  place->bytes = bytes < l->map.limit ? (uint32_t)bytes : l->map.limit + 1;
  const memory_place *found = memory_take(&l->map, *place, least, (uint32_t)phase, &lacks);
  if (lacks) return launch_no_memory(l);
  if (!found)
    return wafer_fail(&l->diag, loc, WAFER_NO_FIT,
                      "no %llu bytes in one piece are free for '%s' on every core of %ux%u",
                      (unsigned long long)bytes, l->plan->values[place->value].name,
                      place->at.rect.width, place->at.rect.height);
  *place = *found;
  return WAFER_OK;
}

/* The place of a copy; taken when it has none yet. */
static wafer_status place_of(launcher *l, wafer_loc loc, uint32_t value, const wafer_holding *at,
                             uint32_t depth, wish by, const spread **out) {
  memory_place place = {.value = value, .sample = slot_of(l, value, at, depth), .at = *at};
  const memory_place *found = memory_find(&l->map, value, place.sample, at);
  const wafer_kernel *k = by.kernel;
  if (!found) {
    WAFER_TRY(make_spread(l, value, at, by, &place.spread));
    WAFER_TRY(launch_take(l, loc, &place, 0,
                          k ? program_phase(l->plan->machine, &k->body, &k->split, by.value) : 0));
    found = &place;
  }
  spread *copy = WAFER_NEW(l->arena, spread, 1); /* the map may move */
  if (!copy) return launch_no_memory(l);
  *copy = found->spread;
  *out = copy;
  return WAFER_OK;
}

/* Body value of the kernel at `index` of the plan that reads `value` in that layout. */
static wish reader_of(const launcher *l, uint32_t index, uint32_t value, const wafer_holding *at) {
  if (index == WAFER_NONE) return (wish){0};
  const wafer_kernel *k = &l->plan->kernels[index];
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_layout layout = wafer_kernel_input_layout(&k->body, &k->split, i);
    if (k->inputs[i] == value && wafer_layout_equal(&layout, &at->layout)) return (wish){k, i};
  }
  return (wish){0};
}

/* The cores of the replica that the sample at hand is on; rectangles are those of the first. */
wafer_rect launch_on_replica(const launcher *l, uint32_t kernel, wafer_rect rect) {
  rect.x += launch_replica(l, kernel, l->turn) * rect.width;
  return rect;
}

/* ---- a kernel ---- */

bool launch_add_piece(launcher *l, launch_pieces *p, const fragment *f, uint32_t part) {
  if (p->count == p->room) {
    uint32_t room = p->room ? 2 * p->room : 16;
    const fragment **at = WAFER_NEW(l->arena, const fragment *, room);
    uint32_t *parts = WAFER_NEW(l->arena, uint32_t, room);
    if (!at || !parts) return false;
    if (p->count) memcpy(at, p->at, p->count * sizeof *at);
    if (p->count) memcpy(parts, p->parts, p->count * sizeof *parts);
    p->at = at;
    p->parts = parts;
    p->room = room;
  }
  p->parts[p->count] = part;
  p->at[p->count++] = f;
  return true;
}

/* Sums are asked for of every replica, what else there is of the first. */
static wafer_status add_taps(launcher *l, const wafer_kernel *k, const spread *outputs,
                             const spread *sums, launch_pieces *p) {
  uint32_t replica = launch_replica(l, (uint32_t)(k - l->plan->kernels), l->turn);
  if (!l->tapped) return WAFER_OK;
  if (p->tap_count + k->body.output_count > p->tap_room) {
    uint32_t room = 2 * p->tap_room + k->body.output_count;
    wafer_tap *taps = WAFER_NEW(l->ctx->arena, wafer_tap, room);
    if (!taps) return launch_no_memory(l);
    if (p->tap_count) memcpy(taps, p->taps, p->tap_count * sizeof *taps);
    p->taps = taps;
    p->tap_room = room;
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    bool summed = sums && wafer_body_sums(&k->body, i);
    if (replica && !summed) continue;
    wafer_tap *tap = &p->taps[p->tap_count++];
    *tap = (wafer_tap){.kernel = (uint32_t)(k - l->plan->kernels), .output = i, .replica = replica};
    if (!launch_tap_of(l->ctx->arena, summed ? &sums[i] : &outputs[i], tap))
      return launch_no_memory(l);
  }
  return WAFER_OK;
}

/* Sums of a kernel's gradients find places on its cores, where they are for good: nowhere that
 * words of streams pass in later samples. */
static wafer_status place_sums(launcher *l, const wafer_kernel *k, wafer_rect rect, spread *sums) {
  uint32_t above = memory_top(&l->passing, rect);
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    if (!wafer_body_sums(&k->body, i)) continue;
    memory_place place = {.value = k->outputs[i],
                          .sample = LAUNCH_SUM,
                          .at = {.where = WAFER_AT_wafer, .rect = rect}};
    if (!program_sum_spread(l->map.arena, l->plan->machine, &k->body, &k->split, rect, i,
                            &place.spread))
      return launch_no_memory(l);
    int32_t other = program_phase(l->plan->machine, &k->body, &k->split, k->body.outputs[i]);
    WAFER_TRY(launch_take(l, launch_at_kernel(l, k), &place, above, other ? 0 : 4));
    sums[i] = place.spread;
  }
  return WAFER_OK;
}

wafer_status launch_place_output(launcher *l, const wafer_kernel *k, wafer_rect rect, uint32_t i,
                                 const spread **out) {
  wafer_holding made = {.where = WAFER_AT_wafer,
                        .rect = rect,
                        .layout = wafer_kernel_output_layout(&k->body, &k->split, i)};
  return place_of(l, launch_at_kernel(l, k), k->outputs[i], &made, k->body.output_depth,
                  (wish){k, k->body.outputs[i]}, out);
}

wafer_status launch_add_kernel(launcher *l, const wafer_kernel *k, launch_pieces *p) {
  wafer_loc loc = launch_at_kernel(l, k);
  wafer_rect rect = launch_on_replica(l, (uint32_t)(k - l->plan->kernels), k->rect);
  spread *inputs = WAFER_NEW(l->arena, spread, k->body.input_count);
  spread *outputs = WAFER_NEW(l->arena, spread, k->body.output_count), *sums = NULL;
  const spread *at;
  if (!inputs || !outputs) return launch_no_memory(l);
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_holding need = {.where = WAFER_AT_wafer,
                          .rect = rect,
                          .layout = wafer_kernel_input_layout(&k->body, &k->split, i)};
    WAFER_TRY(place_of(l, loc, k->inputs[i], &need, k->body.input_depth[i], (wish){k, i}, &at));
    inputs[i] = *at;
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    WAFER_TRY(launch_place_output(l, k, rect, i, &at));
    outputs[i] = *at;
  }
  if (k->body.output_is_summed) {
    sums = WAFER_NEW(l->arena, spread, k->body.output_count);
    if (!sums) return launch_no_memory(l);
    WAFER_TRY(place_sums(l, k, rect, sums));
  }
  program_request request = {.diag = &l->diag,
                             .arena = l->arena,
                             .machine = l->plan->machine,
                             .loc = loc,
                             .name = k->name,
                             .body = &k->body,
                             .split = &k->split,
                             .rect = rect,
                             .inputs = inputs,
                             .outputs = outputs,
                             .sums = sums,
                             .scratch = (int32_t)memory_top(&l->map, rect),
                             .scratch_end = (int32_t)l->map.limit};
  program_kernel_code code;
  WAFER_TRY(program_kernel(&request, &code));
  uint32_t above = memory_top(&l->passing, rect);
  if (code.data_count && above > (uint32_t)request.scratch) { /* constants are there for good */
    request.scratch = (int32_t)above;
    WAFER_TRY(program_kernel(&request, &code));
  }
  uint64_t *cycles = &l->kernels[k - l->plan->kernels].program_cycles;
  const fragment *const *again = (const fragment *const *)code.fragments + code.clear_count;
  if (!*cycles) /* samples and replicas are alike */
    WAFER_TRY(launch_time_kernel(l, again, code.fragment_count - code.clear_count, cycles));
  for (uint32_t i = 0; i < code.fragment_count; i++)
    if (!launch_add_piece(l, p, code.fragments[i], i < code.clear_count ? LAUNCH_ONCE : p->action))
      return launch_no_memory(l);
  if (!memory_put(&l->map, rect, (uint32_t)request.scratch, (uint32_t)code.scratch_bytes))
    return launch_no_memory(l);
  for (uint32_t i = 0; i < code.data_count; i++) {
    WAFER_TRY(launch_order_data(&l->diag, l->arena, l->orders, k, &code.data[i]));
    if (!launch_data_add(l->arena, &code.data[i], &p->data)) return launch_no_memory(l);
  }
  return add_taps(l, k, outputs, sums, p);
}

/* ---- a stream ---- */

static wafer_loc at_stream(const launcher *l, const wafer_stream *t) {
  uint32_t kernel = t->to_kernel != WAFER_NONE ? t->to_kernel : t->from_kernel;
  return kernel == WAFER_NONE ? wafer_at_file(l->plan->model)
                              : launch_at_kernel(l, &l->plan->kernels[kernel]);
}

/* What comes from MemoryX comes to all stripes, a sample to or from the one at hand. False: no
 * memory.
 */
static bool move_to_stripes(const launcher *l, const wafer_stream *t, const spread **s,
                            wafer_rect *rect) {
  const wafer_plan *plan = l->plan;
  spread *there = wafer_arena_copy(l->arena, *s, sizeof *there);
  if (!there) return false;
  if (t->from.where != WAFER_AT_memoryx)
    there->rect.x += l->stripe * plan->stripe_columns;
  else if (plan->stripes > 1 &&
           !spread_repeat(l->arena, *s, plan->stripes, plan->stripe_columns, there))
    return false;
  *s = there;
  *rect = there->rect;
  return true;
}

/* Where scratch may begin on all cores that a stream passes. */
static uint32_t top_of(const launcher *l, const wafer_stream *t, wafer_rect rect) {
  if (l->plan->stripes > 1 && wafer_stream_crosses(t)) rect.width = l->plan->stripe_columns;
  return memory_top(&l->map, rect);
}

/* Bytes a second that what crosses the border shares. */
static uint64_t border_rate(const wafer_machine *m, const wafer_stream *t) {
  if (t->to.where == WAFER_AT_edge) return m->edge_out_bytes_per_second;
  uint64_t edge = m->edge_in_bytes_per_second, memoryx = m->memoryx_bytes_per_second;
  return t->from.where == WAFER_AT_memoryx && memoryx < edge ? memoryx : edge;
}

/* In weight streaming, where streams have the wafer to themselves, what their programs take. Of
 * what crosses the border the way past stripes is latency, and of a weight all that follows when
 * its words have crossed: it keeps nobody waiting. A sample's program counts the way of the first
 * stripe, a weight's of all. */
static wafer_status note_cycles(launcher *l, const wafer_stream *t, const fragment *f) {
  const wafer_machine *m = l->plan->machine;
  wafer_stream *own = &l->streams[t - l->plan->streams];
  bool weight = t->from.where == WAFER_AT_memoryx;
  uint64_t way = (l->plan->stripes - 1) * l->plan->stripe_columns * (uint64_t)m->hop_cycles;
  uint64_t cycles, crossed;
  if (l->plan->mode != WAFER_MODE_streaming || l->stripe) return WAFER_OK;
  WAFER_TRY(launch_time_stream(l, f, weight ? wafer_launch_opening(m) : 0, &cycles, &crossed));
  own->cycles = weight ? crossed : cycles;
  own->latency = wafer_stream_crosses(t) ? m->edge_latency_cycles : 0;
  if (weight)
    own->latency += m->memoryx_latency_cycles + cycles - crossed;
  else if (wafer_stream_crosses(t))
    own->latency += way;
  return WAFER_OK;
}

/* The place of what a stream brings; with rooms, the first one, which the kernel reads. */
wafer_status launch_place_target(launcher *l, const wafer_stream *t, const wafer_holding *target,
                                 const spread **out) {
  return place_of(l, at_stream(l, t), t->value, target, t->depth,
                  reader_of(l, t->to_kernel, t->value, &t->to), out);
}

/* The rooms of all streams and what kernels make, before words of any stream find places on their
 * way above them: those of other samples pass between a kernel and the next one that writes there.
 */
wafer_status launch_take_rooms(launcher *l, const wafer_phase *phase) {
  const spread *at;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_action *action = &phase->actions[a];
    const wafer_kernel *k =
        action->kind == WAFER_ACTION_kernel ? &l->plan->kernels[action->index] : NULL;
    for (uint32_t i = 0; k && i < k->body.output_count; i++)
      WAFER_TRY(launch_place_output(l, k, k->rect, i, &at));
    if (action->kind != WAFER_ACTION_stream || launch_is_load(l, action)) continue;
    const wafer_stream *t = &l->plan->streams[action->index];
    if (t->to.where == WAFER_AT_wafer) WAFER_TRY(launch_place_target(l, t, &t->to, &at));
  }
  return WAFER_OK;
}

/* What waits for the kernel moves up by a room; before the first sample all rooms are cleared, for
 * it moves whether or not anything is in them. */
static wafer_status add_moves(launcher *l, const wafer_stream *t, const spread *to, uint32_t rooms,
                              launch_pieces *p) {
  int32_t each = (int32_t)room_bytes(to), bytes = (int32_t)wafer_dtype_bytes(to->dtype);
  const int32_t stride[WAFER_LEVELS] = {0, 0, 0, bytes};
  const wafer_machine *m = l->plan->machine;
  const char *name = l->plan->values[t->value].name, *node = l->plan->values[t->value].node;
  fragment *clear = WAFER_NEW(l->arena, fragment, 1), *moves = WAFER_NEW(l->arena, fragment, 1);
  wafer_instruction *code = WAFER_NEW(l->arena, wafer_instruction, rooms);
  if (!clear || !moves || !code) return launch_no_memory(l);
  wafer_instruction one = {.op = WAFER_CORE_move,
                           .load_descriptors = true,
                           .count_reg = WAFER_NO_REGISTER,
                           .shape = {1, 1, 1, (uint32_t)(each / bytes)}};
  for (uint32_t i = 0; i + 1 < rooms; i++) {
    code[i] = one;
    code[i].out = fragment_memory(to->dtype, to->address + (int32_t)i * each, stride);
    code[i].in[0] = fragment_memory(to->dtype, to->address + (int32_t)(i + 1) * each, stride);
  }
  fragment_begin(moves, l->arena, name, node, to->rect);
  moves->stream = moves->makes_room = true;
  fragment_run(moves, to->rect, fragment_code_add(moves, code, rooms - 1));
  one.shape[WAFER_LEVELS - 1] *= rooms;
  one.out = fragment_memory(to->dtype, to->address, stride);
  one.in[0] = (wafer_operand){.kind = WAFER_OPERAND_constant, .dtype = (uint8_t)to->dtype};
  fragment_begin(clear, l->arena, name, node, to->rect);
  fragment_run(clear, to->rect, fragment_code_add(clear, &one, 1));
  if (moves->failed || clear->failed) return launch_no_memory(l);
  uint64_t setup = m->vector_setup_cycles + m->descriptor_load_cycles - 1;
  moves->cycles = (rooms - 1) * (setup + wafer_machine_cycles(m, WAFER_RATE_move, to->dtype,
                                                              (uint64_t)(each / bytes)));
  moves->codes[0].cycles = moves->cycles;
  clear->cycles = clear->codes[0].cycles = moves->cycles;
  if (!launch_add_piece(l, p, clear, LAUNCH_ONCE) || !launch_add_piece(l, p, moves, p->action))
    return launch_no_memory(l);
  return WAFER_OK;
}

/* Above what lies on any of these cores; false: there are none. */
static bool top_of_all(const launcher *l, const wafer_rect *rects, uint32_t count, uint32_t *top) {
  bool any = false;
  *top = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t own = wafer_rect_area(rects[i]) ? memory_top(&l->map, rects[i]) : 0;
    any |= wafer_rect_area(rects[i]) > 0;
    *top = own > *top ? own : *top;
  }
  return any;
}

void launch_lower_scratch(const launcher *l, exchange *x, uint32_t count) {
  exchange lower[EXCHANGE_TOGETHER];
  wafer_rect where[EXCHANGE_TOGETHER], there[EXCHANGE_TOGETHER];
  uint32_t top;
  memcpy(lower, x, count * sizeof *x);
  for (int tries = 0; tries < 2; tries++) {
    if (exchange_scratch_at(lower, count, where) == 0 || !top_of_all(l, where, count, &top)) return;
    for (uint32_t i = 0; i < count; i++) {
      lower[i].scratch = (int32_t)top;
      lower[i].scratch_room = l->map.limit - top;
    }
    exchange_scratch_at(lower, count, there);
    if (memcmp(where, there, count * sizeof *where) != 0) continue;
    memcpy(x, lower, count * sizeof *x);
    return;
  }
}

/* The exchange of a stream, its rooms before it. */
static wafer_status make_exchange(launcher *l, const wafer_stream *t, launch_pieces *p, exchange *x,
                                  wafer_rect *rect) {
  wafer_loc loc = at_stream(l, t);
  wafer_holding source = t->from, target = t->to;
  const spread *from = NULL, *to = NULL;
  source.rect = launch_on_replica(l, t->from_kernel, source.rect);
  target.rect = launch_on_replica(l, t->to_kernel, target.rect);
  if (t->from.where == WAFER_AT_wafer)
    WAFER_TRY(place_of(l, loc, t->value, &source, wafer_plan_resident(l->plan),
                       reader_of(l, WAFER_NONE, 0, NULL), &from));
  if (t->to.where == WAFER_AT_wafer) WAFER_TRY(launch_place_target(l, t, &target, &to));
  uint32_t rooms = l->rooms ? l->rooms[t - l->plan->streams] : 1;
  if (rooms > 1) {
    WAFER_TRY(add_moves(l, t, to, rooms, p));
    spread *last = wafer_arena_copy(l->arena, to, sizeof *last);
    if (!last) return launch_no_memory(l);
    last->address += (int32_t)((rooms - 1) * room_bytes(to));
    to = last;
  }
  *rect = !from ? to->rect : !to ? from->rect : wafer_rect_around(from->rect, to->rect);
  uint32_t scratch = top_of(l, t, *rect);
  if (wafer_stream_crosses(t) && !move_to_stripes(l, t, to ? &to : &from, rect))
    return launch_no_memory(l);
  index_map map;
  WAFER_TRY(launch_order_map(&l->diag, l->arena, l->orders, l->plan, t, &map));
  *x = (exchange){.diag = &l->diag,
                  .machine = l->plan->machine,
                  .from = from,
                  .to = to,
                  .map = map,
                  .scratch = (int32_t)scratch,
                  .scratch_room = l->map.limit - scratch,
                  .value = t->value,
                  .others = l->others,
                  .other_count = l->other_count,
                  .few_colors = l->few_colors,
                  .border_rate = border_rate(l->plan->machine, t)};
  return WAFER_OK;
}

wafer_status launch_weigh_together(launcher *l, const wafer_stream *const *t, uint32_t count,
                                   uint64_t *cycles) {
  exchange x[EXCHANGE_TOGETHER];
  wafer_rect rect, all = {0};
  launch_pieces none = {0};
  fragment f;
  for (uint32_t i = 0; i < count; i++) {
    WAFER_TRY(make_exchange(l, t[i], &none, &x[i], &rect));
    x[i].scratch_room = INT32_MAX / 2; /* the train will tell whether there is room */
    all = wafer_rect_around(all, rect);
  }
  fragment_begin(&f, l->arena, l->plan->values[t[0]->value].name, NULL, all);
  WAFER_TRY(exchange_add_together(x, count, &f));
  *cycles = f.cycles;
  l->even |= f.even;
  return f.failed ? launch_no_memory(l) : WAFER_OK;
}

/* Those that come with the stream, itself first. */
static uint32_t find_with(const launcher *l, const wafer_stream *t,
                          const wafer_stream *out[EXCHANGE_TOGETHER]) {
  uint32_t count = 1, own = (uint32_t)(t - l->plan->streams);
  out[0] = t;
  for (uint32_t i = 0; l->with && i < l->plan->stream_count; i++)
    if (i != own && l->with[i] == own) out[count++] = &l->plan->streams[i];
  return count;
}

wafer_status launch_add_stream(launcher *l, const wafer_stream *t, launch_pieces *p) {
  const wafer_stream *with[EXCHANGE_TOGETHER];
  const wafer_value *v = &l->plan->values[t->value];
  exchange x[EXCHANGE_TOGETHER];
  wafer_rect all = {0};
  fragment *f = WAFER_NEW(l->arena, fragment, 1);
  if (!f) return launch_no_memory(l);
  if (l->with && l->with[t - l->plan->streams] != t - l->plan->streams) return WAFER_OK;
  uint32_t count = find_with(l, t, with);
  for (uint32_t i = 0; i < count; i++) {
    wafer_rect rect;
    WAFER_TRY(make_exchange(l, with[i], p, &x[i], &rect));
    all = wafer_rect_around(all, rect);
  }
  if (l->rooms) launch_lower_scratch(l, x, count);
  fragment_begin(f, l->arena, v->name, v->node, all);
  f->stream = true;
  WAFER_TRY(x->from && x->to ? exchange_add_together(x, count, f) : exchange_border(x, f));
  WAFER_TRY(note_cycles(l, t, f));
  l->even |= f->even;
  if (l->ways && !l->with) l->ways[t - l->plan->streams] = (launch_way){f->way, f->cycles};
  if (l->other_count && f->scratch_end > (uint32_t)x->scratch &&
      !memory_put(&l->passing, f->scratch_at, (uint32_t)x->scratch,
                  f->scratch_end - (uint32_t)x->scratch))
    return launch_no_memory(l);
  return launch_add_piece(l, p, f, p->action) ? WAFER_OK : launch_no_memory(l);
}

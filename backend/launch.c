/* Plan -> launches. Follows the plan's phases, gives every copy of a value addresses while it
 * lives, and turns each action into a program for the fabric: a kernel into its fragments, a stream
 * into an exchange between two spreads, or between one and the border. */
#include "launch.h"

#include <stdio.h>
#include <string.h>

#include "exchange.h"
#include "launch_data.h"
#include "launch_tap.h"
#include "memory_map.h"
#include "program.h"
#include "wafer/assembly.h"

typedef struct launcher {
  const wafer_ctx *ctx;
  wafer_plan *plan;
  wafer_diag diag; /* keeps the first message */
  char why[512];
  memory_map map;
  memory_map passing;    /* of a train: words on their way between kernels */
  wafer_arena *arena;    /* of the launch being made */
  wafer_stream *streams; /* the plan's, with the cycles of their programs */
  wafer_launch *launches;
  wafer_bytes *programs;
  uint32_t launch_count, program_count;
  bool tapped;        /* launches say where outputs of kernels lie */
  wafer_rect *others; /* of the kernels of a pipeline: their cores are busy with their own */
  uint32_t other_count;
} launcher;

/* ---- what went wrong ---- */

static void keep_message(void *self, wafer_severity severity, wafer_status status,
                         const wafer_loc *loc, const char *text) {
  launcher *l = self;
  char place[256];
  (void)status;
  if (severity != WAFER_ERROR || l->why[0]) return;
  wafer_loc_format(loc, place, sizeof place);
  snprintf(l->why, sizeof l->why, "%s%s%s", place, *place ? ": " : "", text);
}

static wafer_loc at_kernel(const launcher *l, const wafer_kernel *k) {
  return wafer_at_kernel(l->plan->model, k->name, k->body.nodes[k->body.anchor].name);
}

static wafer_status no_memory(const launcher *l) {
  return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_NO_MEMORY,
                    "no memory for the programs");
}

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
      k ? program_spread(l->map.arena, &k->body, &k->split, k->rect, by.value, out)
        : spread_of_layout(l->map.arena, at->rect, &at->layout, &type->shape, dtype, 0, out);
  return made ? WAFER_OK : no_memory(l);
}

/* The place of a copy; taken when it has none yet. */
static wafer_status place_of(launcher *l, wafer_loc loc, uint32_t value, const wafer_holding *at,
                             wish by, const spread **out) {
  const memory_place *found = memory_find(&l->map, value, at);
  memory_place place = {.value = value, .at = *at};
  bool lacks = false;
  if (!found) {
    WAFER_TRY(make_spread(l, value, at, by, &place.spread));
    uint64_t bytes = (spread_bytes(&place.spread) + 7) / 8 * 8;
    const wafer_kernel *k = by.kernel;
    int32_t phase = k ? program_phase(&k->body, &k->split, by.value) : 0;
    place.bytes = bytes < l->map.limit ? (uint32_t)bytes : l->map.limit + 1;
    found = memory_take(&l->map, place, (uint32_t)phase, &lacks);
    if (lacks) return no_memory(l);
    if (!found)
      return wafer_fail(&l->diag, loc, WAFER_NO_FIT,
                        "no %llu bytes in one piece are free for '%s' on every core of %ux%u",
                        (unsigned long long)bytes, l->plan->values[value].name, at->rect.width,
                        at->rect.height);
  }
  spread *copy = WAFER_NEW(l->arena, spread, 1); /* the map may move */
  if (!copy) return no_memory(l);
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

/* ---- programs ---- */

static uint32_t find_program(const launcher *l, wafer_bytes bytes) {
  uint32_t i = 0;
  while (i < l->program_count && (l->programs[i].size != bytes.size ||
                                  memcmp(l->programs[i].data, bytes.data, bytes.size) != 0))
    i++;
  return i;
}

/* What has been put together for a launch. */
typedef struct pieces {
  uint32_t count, room;
  const fragment **at;
  uint32_t *parts; /* action of each */
  uint32_t action; /* at hand */
  launch_data_list data;
  uint32_t tap_count, tap_room;
  wafer_tap *taps;
} pieces;

/* ---- the time of a train ---- */

#define TRAIN_SAMPLES 8

typedef struct train_clock {
  uint64_t *free; /* per kernel: when its cores have done the pieces so far */
  uint64_t end;   /* of the sample */
} train_clock;

/* A stream takes the cores of both its ends from when both are free. */
static void pass_piece(const launcher *l, const wafer_phase *phase, uint32_t action,
                       uint64_t cycles, train_clock *c) {
  const wafer_action *a = &phase->actions[action];
  uint32_t one = a->index, other = WAFER_NONE;
  if (a->kind == WAFER_ACTION_stream) {
    one = l->plan->streams[a->index].from_kernel;
    other = l->plan->streams[a->index].to_kernel;
  }
  uint64_t start = one == WAFER_NONE ? 0 : c->free[one];
  if (other != WAFER_NONE && c->free[other] > start) start = c->free[other];
  if (one != WAFER_NONE) c->free[one] = start + cycles;
  if (other != WAFER_NONE) c->free[other] = start + cycles;
  if (start + cycles > c->end) c->end = start + cycles;
}

/* The kernel whose cores have most to do of a sample. */
static uint32_t slowest_kernel(const launcher *l, const pieces *p, const wafer_phase *phase) {
  uint32_t slowest = WAFER_NONE;
  uint64_t most = 0;
  for (uint32_t k = 0; k < l->plan->kernel_count; k++) {
    uint64_t cycles = 0;
    for (uint32_t i = 0; i < p->count; i++) {
      const wafer_action *a = &phase->actions[p->parts[i]];
      const wafer_stream *t = &l->plan->streams[a->index];
      bool own =
          a->kind == WAFER_ACTION_stream ? t->from_kernel == k || t->to_kernel == k : a->index == k;
      if (own) cycles += p->at[i]->cycles;
    }
    if (cycles <= most) continue;
    most = cycles;
    slowest = k;
  }
  return slowest;
}

/* Cores go through their pieces in the order of the phase, sample after sample. */
static wafer_status time_train(launcher *l, const pieces *p, wafer_launch *launch) {
  const wafer_phase *phase = &l->plan->phases[launch->phase];
  train_clock c = {.free = WAFER_NEW(l->arena, uint64_t, l->plan->kernel_count)};
  uint64_t ends[TRAIN_SAMPLES], half = TRAIN_SAMPLES / 2;
  if (!c.free) return no_memory(l);
  for (uint32_t s = 0; s < TRAIN_SAMPLES; s++) {
    for (uint32_t i = 0; i < p->count; i++) pass_piece(l, phase, p->parts[i], p->at[i]->cycles, &c);
    ends[s] = c.end;
  }
  launch->predicted = ends[0];
  launch->slowest = slowest_kernel(l, p, phase);
  launch->interval = (ends[TRAIN_SAMPLES - 1] - ends[TRAIN_SAMPLES - 1 - half] + half - 1) / half;
  return WAFER_OK;
}

/* Links the pieces, and keeps the bytes. */
static wafer_status finish(launcher *l, wafer_launch launch, const char *name, const pieces *p) {
  const wafer_machine *m = l->plan->machine;
  fragment_link link = {.name = name,
                        .width = m->width,
                        .height = m->height,
                        .count = p->count,
                        .at = (const fragment *const *)p->at,
                        .train = launch.kind == WAFER_LAUNCH_train,
                        .marks = true};
  wafer_launch_body body = {
      .part_count = p->count, .parts = p->parts, .data_count = p->data.count, .data = p->data.at};
  wafer_fabric_program program;
  fragment_ports ports;
  link.ports = &ports;
  WAFER_TRY(fragment_link_program(&l->diag, l->arena, m, &link, &program));
  body.port_count = ports.count;
  body.ports = ports.at;
  if (!wafer_fabric_program_write(l->arena, &program, &body.program)) return no_memory(l);
  wafer_bytes bytes;
  if (!wafer_launch_write(l->arena, &body, &bytes)) return no_memory(l);
  launch.program = find_program(l, bytes);
  if (launch.program == l->program_count) {
    void *copy = wafer_arena_alloc(l->ctx->arena, bytes.size, 1);
    if (!copy) return no_memory(l);
    memcpy(copy, bytes.data, bytes.size);
    l->programs[l->program_count++] = (wafer_bytes){copy, bytes.size};
  }
  for (uint32_t i = 0; i < p->count; i++) launch.predicted += p->at[i]->cycles;
  launch.slowest = WAFER_NONE;
  launch.tap_count = p->tap_count;
  launch.taps = p->taps;
  if (launch.kind == WAFER_LAUNCH_train) WAFER_TRY(time_train(l, p, &launch));
  l->launches[l->launch_count++] = launch;
  return WAFER_OK;
}

/* ---- a kernel ---- */

static bool add_piece(launcher *l, pieces *p, const fragment *f) {
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
  p->parts[p->count] = p->action;
  p->at[p->count++] = f;
  return true;
}

static wafer_status add_taps(launcher *l, const wafer_kernel *k, const spread *outputs, pieces *p) {
  if (!l->tapped) return WAFER_OK;
  if (p->tap_count + k->body.output_count > p->tap_room) {
    uint32_t room = 2 * p->tap_room + k->body.output_count;
    wafer_tap *taps = WAFER_NEW(l->ctx->arena, wafer_tap, room);
    if (!taps) return no_memory(l);
    if (p->tap_count) memcpy(taps, p->taps, p->tap_count * sizeof *taps);
    p->taps = taps;
    p->tap_room = room;
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    wafer_tap *tap = &p->taps[p->tap_count++];
    *tap = (wafer_tap){.kernel = (uint32_t)(k - l->plan->kernels), .output = i};
    if (!launch_tap_of(l->ctx->arena, &outputs[i], tap)) return no_memory(l);
  }
  return WAFER_OK;
}

/* Inputs where the phase has put them, outputs where there is room. */
static wafer_status add_kernel(launcher *l, const wafer_kernel *k, pieces *p) {
  wafer_loc loc = at_kernel(l, k);
  spread *inputs = WAFER_NEW(l->arena, spread, k->body.input_count);
  spread *outputs = WAFER_NEW(l->arena, spread, k->body.output_count);
  const spread *at;
  if (!inputs || !outputs) return no_memory(l);
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_holding need = {.where = WAFER_AT_wafer,
                          .rect = k->rect,
                          .layout = wafer_kernel_input_layout(&k->body, &k->split, i)};
    WAFER_TRY(place_of(l, loc, k->inputs[i], &need, (wish){k, i}, &at));
    inputs[i] = *at;
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    wafer_holding made = {.where = WAFER_AT_wafer,
                          .rect = k->rect,
                          .layout = wafer_kernel_output_layout(&k->body, &k->split, i)};
    WAFER_TRY(place_of(l, loc, k->outputs[i], &made, (wish){k, k->body.outputs[i]}, &at));
    outputs[i] = *at;
  }
  program_request request = {.diag = &l->diag,
                             .arena = l->arena,
                             .machine = l->plan->machine,
                             .loc = loc,
                             .name = k->name,
                             .body = &k->body,
                             .split = &k->split,
                             .rect = k->rect,
                             .inputs = inputs,
                             .outputs = outputs,
                             .scratch = (int32_t)memory_top(&l->map, k->rect),
                             .scratch_end = (int32_t)l->map.limit};
  program_kernel_code code;
  WAFER_TRY(program_kernel(&request, &code));
  uint32_t above = memory_top(&l->passing, k->rect);
  if (code.data_count && above > (uint32_t)request.scratch) { /* constants are there for good */
    request.scratch = (int32_t)above;
    WAFER_TRY(program_kernel(&request, &code));
  }
  for (uint32_t i = 0; i < code.fragment_count; i++)
    if (!add_piece(l, p, code.fragments[i])) return no_memory(l);
  if (!memory_put(&l->map, k->rect, (uint32_t)request.scratch, (uint32_t)code.scratch_bytes))
    return no_memory(l);
  for (uint32_t i = 0; i < code.data_count; i++)
    if (!launch_data_add(l->arena, &code.data[i], &p->data)) return no_memory(l);
  return add_taps(l, k, outputs, p);
}

/* ---- a stream ---- */

static wafer_rect around(wafer_rect a, wafer_rect b) {
  uint32_t x = a.x < b.x ? a.x : b.x, y = a.y < b.y ? a.y : b.y;
  uint32_t right = a.x + a.width > b.x + b.width ? a.x + a.width : b.x + b.width;
  uint32_t below = a.y + a.height > b.y + b.height ? a.y + a.height : b.y + b.height;
  return (wafer_rect){x, y, right - x, below - y};
}

static wafer_loc at_stream(const launcher *l, const wafer_stream *t) {
  uint32_t kernel = t->to_kernel != WAFER_NONE ? t->to_kernel : t->from_kernel;
  return kernel == WAFER_NONE ? wafer_at_file(l->plan->model)
                              : at_kernel(l, &l->plan->kernels[kernel]);
}

/* Bytes a second that what crosses the border shares. */
static uint64_t border_rate(const wafer_machine *m, const wafer_stream *t) {
  if (t->to.where == WAFER_AT_edge) return m->edge_out_bytes_per_second;
  uint64_t edge = m->edge_in_bytes_per_second, memoryx = m->memoryx_bytes_per_second;
  return t->from.where == WAFER_AT_memoryx && memoryx < edge ? memoryx : edge;
}

/* In weight streaming, where streams have the wafer to themselves, what their programs take. */
static void note_cycles(launcher *l, const wafer_stream *t, uint64_t cycles) {
  const wafer_machine *m = l->plan->machine;
  wafer_stream *own = &l->streams[t - l->plan->streams];
  if (l->plan->mode != WAFER_MODE_streaming) return;
  own->cycles = cycles;
  own->latency = t->from.where == WAFER_AT_memoryx ? m->memoryx_latency_cycles : 0;
  if (t->from.where != WAFER_AT_wafer || t->to.where != WAFER_AT_wafer)
    own->latency += m->edge_latency_cycles;
}

static wafer_status add_stream(launcher *l, const wafer_stream *t, pieces *p) {
  wafer_loc loc = at_stream(l, t);
  const wafer_value *v = &l->plan->values[t->value];
  const spread *from = NULL, *to = NULL;
  fragment *f = WAFER_NEW(l->arena, fragment, 1);
  if (!f) return no_memory(l);
  if (t->from.where == WAFER_AT_wafer)
    WAFER_TRY(place_of(l, loc, t->value, &t->from, reader_of(l, WAFER_NONE, 0, NULL), &from));
  if (t->to.where == WAFER_AT_wafer)
    WAFER_TRY(
        place_of(l, loc, t->value, &t->to, reader_of(l, t->to_kernel, t->value, &t->to), &to));
  wafer_rect rect = !from ? to->rect : !to ? from->rect : around(from->rect, to->rect);
  uint32_t scratch = memory_top(&l->map, rect);
  fragment_begin(f, l->arena, v->name, v->node, rect);
  const exchange x = {.diag = &l->diag,
                      .machine = l->plan->machine,
                      .from = from,
                      .to = to,
                      .map = index_identity(),
                      .scratch = (int32_t)scratch,
                      .scratch_room = l->map.limit - scratch,
                      .value = t->value,
                      .others = l->others,
                      .other_count = l->other_count,
                      .border_rate = border_rate(l->plan->machine, t)};
  WAFER_TRY(from && to ? exchange_add(&x, f) : exchange_border(&x, f));
  note_cycles(l, t, f->cycles);
  if (l->other_count && f->scratch_end > scratch &&
      !memory_put(&l->passing, f->scratch_at, scratch, f->scratch_end - scratch))
    return no_memory(l);
  return add_piece(l, p, f) ? WAFER_OK : no_memory(l);
}

/* ---- phases ---- */

/* Each launch in an arena of its own. */
static wafer_status begin(launcher *l, pieces *p) {
  wafer_arena_destroy(l->arena);
  *p = (pieces){0};
  l->arena = wafer_arena_create();
  l->passing = (memory_map){.arena = l->arena};
  return l->arena ? WAFER_OK : no_memory(l);
}

static bool is_load(const launcher *l, const wafer_action *a) {
  return a->kind == WAFER_ACTION_stream &&
         l->plan->streams[a->index].from.where == WAFER_AT_memoryx;
}

/* The weights of a phase: a launch for those of each kernel, so that they find colours. */
static wafer_status launch_load(launcher *l, uint32_t index) {
  const wafer_phase *phase = &l->plan->phases[index];
  const wafer_launch launch = {.kind = WAFER_LAUNCH_load, .phase = index};
  uint32_t kernel = WAFER_NONE;
  pieces p;
  WAFER_TRY(begin(l, &p));
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_stream *t = &l->plan->streams[phase->actions[a].index];
    if (!is_load(l, &phase->actions[a])) continue;
    if (p.count && t->to_kernel != kernel) {
      WAFER_TRY(finish(l, launch, phase->name, &p));
      WAFER_TRY(begin(l, &p));
    }
    kernel = t->to_kernel;
    p.action = a;
    WAFER_TRY(add_stream(l, t, &p));
  }
  return p.count ? finish(l, launch, phase->name, &p) : WAFER_OK;
}

static wafer_status launch_action(launcher *l, uint32_t index, uint32_t a) {
  const wafer_phase *phase = &l->plan->phases[index];
  const wafer_action *action = &phase->actions[a];
  pieces p;
  WAFER_TRY(begin(l, &p));
  p.action = a;
  if (action->kind == WAFER_ACTION_kernel)
    WAFER_TRY(add_kernel(l, &l->plan->kernels[action->index], &p));
  else
    WAFER_TRY(add_stream(l, &l->plan->streams[action->index], &p));
  if (p.count == 0) return WAFER_OK; /* everything is in place */
  return finish(l, (wafer_launch){.kind = WAFER_LAUNCH_action, .phase = index, .action = a},
                phase->name, &p);
}

/* The weights of the next phase arrive while this one works: they find their places while its own
 * are still taken. `next`: of the function, WAFER_NONE: it was the last. */
static wafer_status launch_phase(launcher *l, uint32_t index, uint32_t next) {
  const wafer_phase *phase = &l->plan->phases[index];
  for (uint32_t a = 0; a < phase->action_count; a++)
    if (!is_load(l, &phase->actions[a])) WAFER_TRY(launch_action(l, index, a));
  if (next != WAFER_NONE) WAFER_TRY(launch_load(l, next));
  memory_drop(&l->map, WAFER_NONE);
  for (uint32_t i = 0; i < phase->free_count; i++) memory_drop(&l->map, phase->frees[i]);
  return WAFER_OK;
}

/* Every kernel and stream of a pipeline, in an order in which a core does its share of each: sends
 * and receives meet in the same order everywhere, so none waits for ever. */
static wafer_status launch_train(launcher *l, uint32_t index) {
  const wafer_phase *phase = &l->plan->phases[index];
  pieces p;
  WAFER_TRY(begin(l, &p));
  l->others = WAFER_NEW(l->arena, wafer_rect, phase->action_count);
  if (!l->others) return no_memory(l);
  l->other_count = 0;
  for (uint32_t a = 0; a < phase->action_count; a++)
    if (phase->actions[a].kind == WAFER_ACTION_kernel)
      l->others[l->other_count++] = l->plan->kernels[phase->actions[a].index].rect;
  for (uint32_t a = 0; a < phase->action_count; a++) {
    const wafer_action *action = &phase->actions[a];
    if (is_load(l, action)) continue;
    p.action = a;
    if (action->kind == WAFER_ACTION_kernel)
      WAFER_TRY(add_kernel(l, &l->plan->kernels[action->index], &p));
    else
      WAFER_TRY(add_stream(l, &l->plan->streams[action->index], &p));
  }
  return finish(l, (wafer_launch){.kind = WAFER_LAUNCH_train, .phase = index}, phase->name, &p);
}

/* Shares may lie where the kernel before left them: no stream says that they pass. */
static wafer_status refuse_slices(const launcher *l, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (wafer_body_passes(&k->body, i))
      return wafer_fail(&l->diag, at_kernel(l, k), WAFER_UNSUPPORTED,
                        "'%s' passes in slices, for which there are no programs; run at kernel "
                        "fidelity",
                        l->plan->values[k->inputs[i]].name);
  return WAFER_OK;
}

static uint32_t next_phase(const wafer_function *f, uint32_t step) {
  while (step < f->step_count && f->steps[step].kind != WAFER_STEP_phase) step++;
  return step < f->step_count ? f->steps[step].phase : WAFER_NONE;
}

/* A function begins with memories of which nothing is known. */
static wafer_status launch_function(launcher *l, const wafer_function *f) {
  bool pipelined = l->plan->mode == WAFER_MODE_pipelined;
  uint32_t first = next_phase(f, 0);
  l->map.count = 0;
  if (first == WAFER_NONE) return WAFER_OK;
  WAFER_TRY(launch_load(l, first));
  for (uint32_t i = 0; i < f->step_count; i++) {
    if (f->steps[i].kind != WAFER_STEP_phase) continue;
    uint32_t phase = f->steps[i].phase, next = next_phase(f, i + 1);
    if (pipelined && next != WAFER_NONE)
      return wafer_fail(&l->diag, wafer_at_file(l->plan->model), WAFER_UNSUPPORTED,
                        "function '%s' of a pipelined plan has several phases; compile with --mode "
                        "streaming",
                        f->name);
    WAFER_TRY(pipelined ? launch_train(l, phase) : launch_phase(l, phase, next));
    wafer_progress(l->ctx->diag, "programs", phase + 1, l->plan->phase_count);
  }
  return WAFER_OK;
}

static wafer_status launch_all(launcher *l) {
  const wafer_plan *plan = l->plan;
  uint64_t most = plan->phase_count;
  if (plan->batch != 1)
    return wafer_fail(&l->diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                      "programs serve one resident sample, the plan has %u", plan->batch);
  for (uint32_t i = 0; i < plan->kernel_count; i++)
    if (plan->kernels[i].replicas > 1)
      return wafer_fail(&l->diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "programs serve one replica, kernel '%s' has %u; compile with --replicas 1",
                        plan->kernels[i].name, plan->kernels[i].replicas);
  for (uint32_t i = 0; i < plan->stream_count; i++)
    if (plan->streams[i].depth == 0)
      return wafer_fail(&l->diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "'%s' passes in slices, for which there are no programs",
                        plan->values[plan->streams[i].value].name);
  for (uint32_t i = 0; i < plan->kernel_count; i++) WAFER_TRY(refuse_slices(l, &plan->kernels[i]));
  for (uint32_t i = 0; plan->weights && i < wafer_weights_count(plan->weights); i++)
    if (wafer_weights_at(plan->weights, i)->sparse)
      return wafer_fail(&l->diag, wafer_at_file(plan->model), WAFER_UNSUPPORTED,
                        "cores take dense weights, '%s' streams its non-zeros; run at kernel "
                        "fidelity",
                        wafer_weights_at(plan->weights, i)->name);
  for (uint32_t i = 0; i < plan->phase_count; i++) most += 2 * plan->phases[i].action_count;
  l->launches = WAFER_NEW(l->ctx->arena, wafer_launch, most);
  l->programs = WAFER_NEW(l->ctx->arena, wafer_bytes, most);
  l->streams =
      wafer_arena_copy(l->ctx->arena, plan->streams, plan->stream_count * sizeof *plan->streams);
  if (!l->launches || !l->programs || !l->streams) return no_memory(l);
  for (uint32_t i = 0; i < plan->function_count; i++)
    if (!wafer_function_on_host(&plan->functions[i]))
      WAFER_TRY(launch_function(l, &plan->functions[i]));
  return WAFER_OK;
}

/* Most cores, over all kernels, and words, over all streams, of a plan that gets its programs
 * unasked. */
#define AUTO_CORES (1u << 20)
#define AUTO_WORDS (1u << 23)

static bool is_small(const wafer_plan *plan) {
  uint64_t cores = 0, words = 0;
  for (uint32_t k = 0; k < plan->kernel_count; k++) cores += wafer_rect_area(plan->kernels[k].rect);
  for (uint32_t s = 0; s < plan->stream_count && words <= AUTO_WORDS; s++)
    words += plan->streams[s].words;
  return cores <= AUTO_CORES && words <= AUTO_WORDS;
}

static wafer_status make_programs(launcher *l) {
  l->diag = (wafer_diag){.emit = keep_message, .self = l};
  l->map = (memory_map){.arena = wafer_arena_create(),
                        .limit = wafer_machine_core_budget(l->plan->machine)};
  wafer_status status = l->map.arena ? launch_all(l) : no_memory(l);
  wafer_arena_destroy(l->arena);
  wafer_arena_destroy(l->map.arena);
  if (status != WAFER_OK) return status;
  l->plan->streams = l->streams;
  l->plan->launches = l->launches;
  l->plan->launch_count = l->launch_count;
  l->plan->programs = l->programs;
  l->plan->program_count = l->program_count;
  l->plan->no_programs = "";
  return WAFER_OK;
}

wafer_status launch_plan(const wafer_ctx *ctx, wafer_plan *plan, wafer_programs wanted) {
  launcher l = {.ctx = ctx, .plan = plan};
  if (wafer_plan_updates(plan)) {
    plan->no_programs =
        "pipelined training runs at kernel fidelity: its sums and updates have none";
    return WAFER_OK;
  }
  if (wanted == WAFER_PROGRAMS_never || (wanted == WAFER_PROGRAMS_auto && !is_small(plan))) {
    plan->no_programs = "made when they are needed; compile with --programs always keeps them";
    return WAFER_OK;
  }
  wafer_status status = make_programs(&l);
  if (status == WAFER_NO_MEMORY)
    return wafer_fail(ctx->diag, wafer_at_file(plan->model), status, "%s", l.why);
  if (status == WAFER_OK) return WAFER_OK;
  plan->no_programs = wafer_arena_strdup(ctx->arena, l.why);
  return plan->no_programs ? WAFER_OK : no_memory(&l);
}

wafer_status wafer_plan_add_programs(const wafer_ctx *ctx, const wafer_plan *plan, bool taps,
                                     const wafer_plan **out) {
  *out = plan;
  if (plan->launch_count && !taps) return WAFER_OK;
  wafer_plan *copy = wafer_arena_copy(ctx->arena, plan, sizeof *plan);
  launcher l = {.ctx = ctx, .plan = copy, .tapped = taps};
  wafer_status status = copy ? make_programs(&l) : WAFER_NO_MEMORY;
  if (status != WAFER_OK)
    return wafer_fail(ctx->diag, wafer_at_file(plan->model), status,
                      "no programs for fabric fidelity: %s", l.why);
  *out = copy;
  return WAFER_OK;
}

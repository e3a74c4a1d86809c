#include "wafer/certificate.h"

#include <stdlib.h>
#include <string.h>

#include "queues.h"

typedef struct certifier {
  const wafer_diag *diag;
  const wafer_plan *plan;
  wafer_phase_proof *proof; /* of the phase being looked at */
  const wafer_phase *phase;
  uint32_t *made;      /* value: 1 + the action of this phase that made its last copy */
  uint32_t *kernel_at; /* kernel: 1 + its action in this phase */
  uint32_t *chain;     /* action: actions up to it, each needing the one before */
  uint32_t *color;     /* router: 1 + the last colour counted there */
  uint32_t *colors;    /* router: distinct colours */
  uint64_t *load[4];   /* link out of a router, by side: cycles */
  uint32_t *streams[4];
  uint32_t *cast[4]; /* 1 + the first action of the last multicast counted there */
} certifier;

const char *wafer_side_name(wafer_side side) {
  static const char *const names[] = {"east", "west", "south", "north"};
  return (uint32_t)side < WAFER_COUNT(names) ? names[side] : "nowhere";
}

static wafer_status no_memory(const certifier *c) {
  return wafer_fail(c->diag, wafer_at_file(c->plan->model), WAFER_NO_MEMORY,
                    "no memory for a certificate");
}

/* ---- waits ---- */

/* Action `at` waits for `before`, both counted from 1; 0: for nothing of this phase. */
static wafer_status wait_for(certifier *c, uint32_t at, uint32_t before, const char *what) {
  if (!before) return WAFER_OK;
  if (before >= at)
    return wafer_fail(c->diag, wafer_at_file(c->plan->model), WAFER_TRAP,
                      "phase '%s': action %u waits for action %u (%s), which comes after it: they "
                      "may wait for each other",
                      c->phase->name, at - 1, before - 1, what);
  c->proof->waits++;
  if (c->chain[at - 1] <= c->chain[before - 1]) c->chain[at - 1] = c->chain[before - 1] + 1;
  return WAFER_OK;
}

/* Room for sample s is what sample s - depth used, an earlier one; in weight streaming that for a
 * slice (depth 0) what an earlier slice used. */
static wafer_status check_room(certifier *c, uint32_t depth, const char *of) {
  bool slices = c->plan->mode == WAFER_MODE_streaming;
  if (depth >= 1 || slices) return c->proof->waits++, WAFER_OK;
  return wafer_fail(c->diag, wafer_at_file(c->plan->model), WAFER_TRAP,
                    "phase '%s': there is no room for one sample of '%s'", c->phase->name, of);
}

/* Its turn in a queue is after that of a stream before it, or of one of the sample before. */
static wafer_status check_turn(certifier *c, uint32_t at, const wafer_queue_end *end,
                               const char *of) {
  if (end->after == WAFER_NONE) return WAFER_OK;
  if (end->after + 1 >= at) return c->proof->waits++, WAFER_OK;
  return wait_for(c, at, end->after + 1, of);
}

static wafer_status check_stream(certifier *c, uint32_t at, const wafer_stream *s) {
  const char *name = c->plan->values[s->value].name;
  const wafer_stream_queues *queues = &c->proof->queues[at - 1];
  WAFER_TRY(check_turn(c, at, &queues->out, name));
  WAFER_TRY(check_turn(c, at, &queues->in, name));
  if (queues->with != WAFER_NONE) WAFER_TRY(wait_for(c, at, queues->with + 1, name));
  uint32_t from = s->from_kernel == WAFER_NONE ? 0 : c->kernel_at[s->from_kernel];
  WAFER_TRY(wait_for(c, at, from, name));
  if (s->from.where == WAFER_AT_wafer) WAFER_TRY(wait_for(c, at, c->made[s->value], name));
  if (s->to_kernel != WAFER_NONE && c->kernel_at[s->to_kernel] <= at &&
      c->kernel_at[s->to_kernel] > 0)
    return wait_for(c, c->kernel_at[s->to_kernel], at, name);
  c->made[s->value] = at;
  return check_room(c, s->depth, name);
}

static wafer_status check_kernel(certifier *c, uint32_t at, const wafer_kernel *k) {
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    WAFER_TRY(wait_for(c, at, c->made[k->inputs[i]], c->plan->values[k->inputs[i]].name));
    if (!k->body.input_is_weight[i])
      WAFER_TRY(check_room(c, k->body.input_depth[i], c->plan->values[k->inputs[i]].name));
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) c->made[k->outputs[i]] = at;
  return check_room(c, k->body.output_depth, k->name);
}

static wafer_status check_waits(certifier *c) {
  const wafer_plan *plan = c->plan;
  const wafer_phase *p = c->phase;
  memset(c->made, 0, plan->value_count * sizeof *c->made);
  memset(c->kernel_at, 0, plan->kernel_count * sizeof *c->kernel_at);
  for (uint32_t a = 0; a < p->action_count; a++) {
    c->chain[a] = 1;
    if (p->actions[a].kind == WAFER_ACTION_kernel) c->kernel_at[p->actions[a].index] = a + 1;
  }
  for (uint32_t a = 0; a < p->action_count; a++) {
    const wafer_action *action = &p->actions[a];
    bool stream = action->kind == WAFER_ACTION_stream;
    WAFER_TRY(stream ? check_stream(c, a + 1, &plan->streams[action->index])
                     : check_kernel(c, a + 1, &plan->kernels[action->index]));
    if (c->chain[a] > c->proof->longest_chain) c->proof->longest_chain = c->chain[a];
  }
  return WAFER_OK;
}

/* ---- routes ---- */

/* Each router of the trunk once, and the link by which it is left. */
typedef struct step {
  const wafer_stream *stream;
  uint32_t segment, x, y;
} step;

/* The way on from a router; false at the end. */
static bool next_side(step *s, wafer_side *to) {
  const wafer_route_segment *r = &s->stream->route[s->segment];
  while (s->x == r->x1 && s->y == r->y1) {
    if (++s->segment == s->stream->route_count) return false;
    r = &s->stream->route[s->segment];
  }
  *to = s->x != r->x1 ? (s->x < r->x1 ? WAFER_SIDE_east : WAFER_SIDE_west)
                      : (s->y < r->y1 ? WAFER_SIDE_south : WAFER_SIDE_north);
  return true;
}

static void advance(step *s, wafer_side to) {
  if (to == WAFER_SIDE_east) s->x++;
  if (to == WAFER_SIDE_west) s->x--;
  if (to == WAFER_SIDE_south) s->y++;
  if (to == WAFER_SIDE_north) s->y--;
}

static void clear_trunk(const certifier *c, const wafer_stream *stream) {
  step s = {stream, 0, stream->route->x0, stream->route->y0};
  wafer_side to;
  for (bool more = true; more;) {
    size_t at = (size_t)s.y * c->plan->machine->width + s.x;
    c->color[at] = c->colors[at] = 0;
    for (int i = 0; i < 4; i++) c->load[i][at] = c->streams[i][at] = c->cast[i][at] = 0;
    more = next_side(&s, &to);
    if (more) advance(&s, to);
  }
}

static void count_router(certifier *c, const step *s, uint32_t color, bool *shares) {
  size_t at = (size_t)s->y * c->plan->machine->width + s->x;
  if (c->color[at] == color + 1) {
    *shares = true;
    return;
  }
  c->color[at] = color + 1;
  if (++c->colors[at] <= c->proof->colors) return;
  c->proof->colors = c->colors[at];
  c->proof->colors_at = (wafer_core_at){s->x, s->y};
}

static void count_link(certifier *c, const step *s, wafer_side to, uint32_t first) {
  size_t at = (size_t)s->y * c->plan->machine->width + s->x;
  if (c->cast[to][at] == first + 1) return;
  c->cast[to][at] = first + 1;
  c->load[to][at] += s->stream->cycles;
  c->streams[to][at]++;
  if (c->load[to][at] <= c->proof->link_cycles) return;
  c->proof->link_cycles = c->load[to][at];
  c->proof->link_streams = c->streams[to][at];
  c->proof->link_at = (wafer_core_at){s->x, s->y};
  c->proof->link_to = to;
}

/* Loads of weights come before a pipeline runs: they share colours with it, not time. */
static void count_trunk(certifier *c, uint32_t action) {
  const wafer_stream *stream = &c->plan->streams[c->phase->actions[action].index];
  uint32_t with = c->proof->queues[action].with, first = with == WAFER_NONE ? action : with;
  step s = {stream, 0, stream->route->x0, stream->route->y0};
  bool shares = false, more = true, load = stream->from.where == WAFER_AT_memoryx;
  for (wafer_side to; more;) {
    count_router(c, &s, stream->color, &shares);
    more = next_side(&s, &to);
    if (!more) break;
    if (!load || c->plan->mode == WAFER_MODE_streaming) count_link(c, &s, to, first);
    advance(&s, to);
  }
  c->proof->sharing += shares;
}

typedef struct colored {
  uint32_t color, action;
} colored;

static int by_color(const void *left, const void *right) {
  const colored *a = left, *b = right;
  if (a->color != b->color) return a->color < b->color ? -1 : 1;
  return a->action < b->action ? -1 : a->action > b->action;
}

/* Colour by colour, so that a router counts each once. */
static wafer_status check_routes(certifier *c, wafer_arena *arena) {
  const wafer_phase *p = c->phase;
  colored *order = WAFER_NEW(arena, colored, p->action_count);
  size_t count = 0;
  if (!order) return no_memory(c);
  for (uint32_t a = 0; a < p->action_count; a++)
    if (p->actions[a].kind == WAFER_ACTION_stream)
      order[count++] = (colored){c->plan->streams[p->actions[a].index].color, a};
  if (count) qsort(order, count, sizeof *order, by_color);
  for (size_t i = 0; i < count; i++) count_trunk(c, order[i].action);
  for (size_t i = 0; i < count; i++)
    clear_trunk(c, &c->plan->streams[p->actions[order[i].action].index]);
  return WAFER_OK;
}

/* ---- the whole ---- */

static bool make_room(certifier *c, wafer_arena *arena) {
  const wafer_plan *plan = c->plan;
  size_t routers = (size_t)plan->machine->width * plan->machine->height;
  uint32_t actions = 0;
  for (uint32_t i = 0; i < plan->phase_count; i++)
    if (plan->phases[i].action_count > actions) actions = plan->phases[i].action_count;
  c->made = WAFER_NEW(arena, uint32_t, plan->value_count);
  c->kernel_at = WAFER_NEW(arena, uint32_t, plan->kernel_count);
  c->chain = WAFER_NEW(arena, uint32_t, actions);
  c->color = WAFER_NEW(arena, uint32_t, routers);
  c->colors = WAFER_NEW(arena, uint32_t, routers);
  bool ok = c->made && c->kernel_at && c->chain && c->color && c->colors;
  for (int i = 0; i < 4; i++) {
    c->load[i] = WAFER_NEW(arena, uint64_t, routers);
    c->streams[i] = WAFER_NEW(arena, uint32_t, routers);
    c->cast[i] = WAFER_NEW(arena, uint32_t, routers);
    ok = ok && c->load[i] && c->streams[i] && c->cast[i];
  }
  return ok;
}

static void count_actions(certifier *c) {
  for (uint32_t a = 0; a < c->phase->action_count; a++)
    if (c->phase->actions[a].kind == WAFER_ACTION_kernel)
      c->proof->kernels++;
    else
      c->proof->streams++;
}

static wafer_status certify(certifier *c, wafer_arena *arena, wafer_arena *scratch,
                            wafer_phase_proof *proofs) {
  if (!make_room(c, scratch)) return no_memory(c);
  for (uint32_t i = 0; i < c->plan->phase_count; i++) {
    c->phase = &c->plan->phases[i];
    c->proof = &proofs[i];
    c->proof->peak_core_bytes = c->phase->peak_core_bytes;
    count_actions(c);
    WAFER_TRY(queues_assign(c->diag, arena, c->plan, c->phase, c->proof));
    WAFER_TRY(check_waits(c));
    WAFER_TRY(check_routes(c, scratch));
  }
  return WAFER_OK;
}

wafer_status wafer_certify(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           const wafer_phase_proof **proofs) {
  certifier c = {.diag = diag, .plan = plan};
  wafer_arena *scratch = wafer_arena_create();
  wafer_phase_proof *made = WAFER_NEW(arena, wafer_phase_proof, plan->phase_count);
  *proofs = made;
  wafer_status status = made && scratch ? certify(&c, arena, scratch, made) : no_memory(&c);
  wafer_arena_destroy(scratch);
  return status;
}

/* Colours get queues in the order of actions. Kernels of a pipeline lie apart, so that only the
 * streams of one kernel meet at a core; in weight streaming what one phase left lies under the
 * kernels of the next, and rectangles are compared. */
#include "queues.h"

#include <string.h>

typedef struct end {
  uint32_t action, color, queue;
  uint32_t root;  /* the end that first had the queue here */
  uint32_t older; /* 1 + the end before in the same list */
  bool opens;     /* no end before has the colour here */
  wafer_rect rect;
} end;

typedef struct assigner {
  const wafer_plan *plan;
  wafer_stream_queues *queues; /* of each action */
  end *ends;
  uint32_t count, turns;
  uint32_t *newest; /* of each kernel, and of all other ends: 1 + an end */
} assigner;

static wafer_queue_end *side_of(const assigner *a, uint32_t action, bool out) {
  return out ? &a->queues[action].out : &a->queues[action].in;
}

/* What the ends before have at the same cores. */
typedef struct company {
  uint32_t colors, used;               /* distinct ones; a bit per queue */
  uint32_t last[WAFER_MACHINE_QUEUES]; /* of each queue: 1 + the end that has it last */
  uint32_t same;                       /* 1 + an end of the same colour */
} company;

static company meet(const assigner *a, uint32_t list, wafer_rect rect, uint32_t color) {
  company c = {0};
  for (uint32_t i = a->newest[list]; i; i = a->ends[i - 1].older) {
    const end *e = &a->ends[i - 1];
    if (!wafer_rect_overlaps(e->rect, rect)) continue;
    c.colors += e->opens;
    c.used |= 1u << e->queue;
    if (!c.last[e->queue]) c.last[e->queue] = i;
    if (e->color == color) c.same = i;
  }
  return c;
}

/* The colour's own, the first that is free, or one to share. */
static uint32_t choose(const assigner *a, const company *c, uint32_t queues) {
  if (c->same) return a->ends[c->same - 1].queue;
  for (uint32_t q = 0; q < queues; q++)
    if (!(c->used >> q & 1)) return q;
  return c->colors % queues;
}

/* Streams of one queue follow each other, and the first the last, a sample later. */
static void take_turn(const assigner *a, end *e, const company *c, bool out) {
  uint32_t last = c->last[e->queue];
  e->root = a->count;
  if (!last) return;
  e->root = a->ends[last - 1].root;
  side_of(a, e->action, out)->after = a->ends[last - 1].action;
  side_of(a, a->ends[e->root].action, out)->after = e->action;
}

static void add_end(assigner *a, uint32_t action, const wafer_stream *s, bool out, uint32_t *most) {
  const wafer_machine *m = a->plan->machine;
  uint32_t kernel = out ? s->from_kernel : s->to_kernel;
  uint32_t queues = out ? m->output_queues : m->input_queues;
  bool own = a->plan->mode == WAFER_MODE_pipelined && kernel != WAFER_NONE;
  uint32_t list = own ? kernel : a->plan->kernel_count;
  end *e = &a->ends[a->count];
  *e = (end){.action = action, .color = s->color, .rect = out ? s->from.rect : s->to.rect};
  company c = meet(a, list, e->rect, s->color);
  e->queue = choose(a, &c, queues);
  e->opens = !c.same;
  take_turn(a, e, &c, out);
  side_of(a, action, out)->queue = e->queue;
  e->older = a->newest[list];
  a->newest[list] = ++a->count;
  a->turns += !c.same && c.colors >= queues;
  if (c.colors + e->opens > *most) *most = c.colors + e->opens;
}

static void assign_side(assigner *a, const wafer_phase *phase, bool out, uint32_t *most) {
  a->count = 0;
  memset(a->newest, 0, ((size_t)a->plan->kernel_count + 1) * sizeof *a->newest);
  for (uint32_t i = 0; i < phase->action_count; i++) {
    *side_of(a, i, out) = (wafer_queue_end){WAFER_NONE, WAFER_NONE};
    a->queues[i].with = WAFER_NONE;
    if (phase->actions[i].kind != WAFER_ACTION_stream) continue;
    const wafer_stream *s = &a->plan->streams[phase->actions[i].index];
    bool load = s->from.where == WAFER_AT_memoryx && a->plan->mode == WAFER_MODE_pipelined;
    if (!load && (out ? s->from : s->to).where == WAFER_AT_wafer) add_end(a, i, s, out, most);
  }
}

static const wafer_stream *stream_of(const assigner *a, const wafer_phase *p, uint32_t action) {
  const wafer_action *at = &p->actions[action];
  return at->kind == WAFER_ACTION_stream ? &a->plan->streams[at->index] : NULL;
}

/* Whether two streams are the same words on the same colour, to other cores. */
static bool alike(const wafer_stream *s, const wafer_stream *t) {
  return s->value == t->value && s->color == t->color && s->from_kernel == t->from_kernel &&
         s->to.where == WAFER_AT_wafer && t->to.where == WAFER_AT_wafer &&
         wafer_holding_equal(&s->from, &t->from);
}

/* Streams that follow each other in the queue of what they leave, alike, are one multicast. One
 * that takes turns where it enters goes by itself: all would wait for its turn. */
static void join(assigner *a, const wafer_phase *phase) {
  for (uint32_t i = 0; i < phase->action_count; i++) {
    const wafer_stream *s = stream_of(a, phase, i), *t;
    wafer_stream_queues *q = &a->queues[i];
    q->with = WAFER_NONE;
    if (!s || s->from_kernel == WAFER_NONE || q->out.after >= i) continue;
    t = stream_of(a, phase, q->out.after);
    uint32_t first = a->queues[q->out.after].with;
    if (first == WAFER_NONE) first = q->out.after;
    if (alike(s, t) && q->in.after == WAFER_NONE) q->with = first;
  }
}

wafer_status queues_assign(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           const wafer_phase *phase, wafer_phase_proof *proof) {
  assigner a = {.plan = plan};
  a.queues = WAFER_NEW(arena, wafer_stream_queues, phase->action_count);
  a.ends = WAFER_NEW(arena, end, phase->action_count);
  a.newest = WAFER_NEW(arena, uint32_t, (size_t)plan->kernel_count + 1);
  if (!a.queues || !a.ends || !a.newest)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory for the queues of a phase");
  assign_side(&a, phase, true, &proof->leave);
  assign_side(&a, phase, false, &proof->enter);
  if (plan->mode == WAFER_MODE_pipelined) join(&a, phase);
  proof->queues = a.queues;
  proof->turns = a.turns;
  return WAFER_OK;
}

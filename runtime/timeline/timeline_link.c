/* Who needs whom in the train: every stream and kernel of a function as an event, with the earlier
 * ones that make what it uses, those in its part that its buffer waits for, and rings for as many
 * samples as any buffer reaches back. */
#include "plan/held.h"
#include "timeline_events.h"

wafer_status timeline_no_memory(const line *l) {
  return wafer_fail(l->diag, wafer_at_file(l->plan->model), WAFER_NO_MEMORY,
                    "no memory left for the timeline");
}

static void add_need(event *e, uint32_t maker) {
  if (maker != WAFER_NONE) e->need[e->need_count++] = maker;
}

static wafer_status link_stream(line *l, held *h, uint32_t index) {
  event *e = &l->events[index];
  const wafer_stream *t = e->stream;
  const held_entry *from = held_find(h, t->value, &t->from);
  e->need = WAFER_NEW(l->arena, uint32_t, 1);
  if (!e->need) return timeline_no_memory(l);
  if (!from)
    return wafer_fail(l->diag, wafer_at_file(l->plan->model), WAFER_TRAP,
                      "a stream takes '%s' from where nobody has put it",
                      l->plan->values[t->value].name);
  add_need(e, from->maker);
  return held_add(h, t->value, &t->to, index) ? WAFER_OK : timeline_no_memory(l);
}

static wafer_status link_kernel(line *l, held *h, uint32_t index) {
  event *e = &l->events[index];
  const wafer_kernel *k = e->kernel;
  e->need = WAFER_NEW(l->arena, uint32_t, k->body.input_count);
  if (!e->need) return timeline_no_memory(l);
  for (uint32_t i = 0; i < k->body.input_count; i++) {
    wafer_holding need = held_input(k, i);
    const held_entry *from = held_find(h, k->inputs[i], &need);
    if (!from)
      return wafer_fail(l->diag, wafer_at_kernel(l->plan->model, k->name, NULL), WAFER_TRAP,
                        "'%s' does not lie where the kernel reads it",
                        l->plan->values[k->inputs[i]].name);
    add_need(e, from->maker);
  }
  for (uint32_t i = 0; i < k->body.output_count; i++) {
    wafer_holding made = held_output(k, i);
    if (!held_add(h, k->outputs[i], &made, index)) return timeline_no_memory(l);
  }
  return WAFER_OK;
}

/* The first stream of a multicast gets the others as a list, and all of them the longest's cycles.
 */
static void link_multicasts(line *l, const part *p) {
  for (uint32_t i = p->first; i < p->last; i++) {
    event *e = &l->events[i];
    if (!e->stream || e->first == WAFER_NONE) continue;
    event *first = &l->events[e->first];
    e->joined = first->joined;
    first->joined = i + 1;
    first->cycles = later(first->cycles, e->cycles);
  }
  for (uint32_t i = p->first; i < p->last; i++) {
    event *e = &l->events[i];
    if (e->stream && e->first != WAFER_NONE) e->cycles = l->events[e->first].cycles;
  }
}

static wafer_status link_part(line *l, held *h, part *p) {
  const wafer_phase *phase = &l->plan->phases[p->phase];
  bool pipelined = l->plan->mode == WAFER_MODE_pipelined;
  wafer_phase_proof proof = {0};
  if (pipelined) WAFER_TRY(queues_assign(l->diag, l->arena, l->plan, phase, &proof));
  p->first = l->event_count;
  for (uint32_t i = 0; i < phase->action_count; i++) {
    uint32_t index = l->event_count++;
    event *e = &l->events[index];
    e->action = &phase->actions[i];
    if (e->action->kind == WAFER_ACTION_kernel) {
      e->kernel = &l->plan->kernels[e->action->index];
      p->kernels++;
      WAFER_TRY(link_kernel(l, h, index));
      continue;
    }
    e->stream = &l->plan->streams[e->action->index];
    e->queues = pipelined ? &proof.queues[i] : NULL;
    e->first = e->queues && e->queues->with != WAFER_NONE ? p->first + e->queues->with : WAFER_NONE;
    e->cycles = e->stream->cycles;
    e->skipped = l->loaded[p->phase] && e->stream->from.where == WAFER_AT_memoryx;
    WAFER_TRY(link_stream(l, h, index));
  }
  p->last = l->event_count;
  link_multicasts(l, p);
  for (uint32_t i = 0; i < phase->free_count; i++) held_drop(h, phase->frees[i]);
  return WAFER_OK;
}

/* The other direction, within a part: it is what makes a full buffer hold its producer up. */
static wafer_status link_users(line *l, const part *p) {
  for (uint32_t i = p->first; i < p->last; i++)
    for (uint32_t k = 0; k < l->events[i].need_count; k++) {
      uint32_t maker = l->events[i].need[k];
      if (maker >= p->first && maker < p->last) l->events[maker].user_count++;
    }
  for (uint32_t i = p->first; i < p->last; i++) {
    event *e = &l->events[i];
    if (!(e->user = WAFER_NEW(l->arena, uint32_t, e->user_count))) return timeline_no_memory(l);
    e->user_count = 0;
    for (uint32_t k = 0; k < e->need_count; k++) {
      uint32_t maker = e->need[k];
      if (maker < p->first || maker >= p->last) continue;
      event *m = &l->events[maker];
      m->user[m->user_count++] = i;
    }
  }
  return WAFER_OK;
}

uint32_t timeline_buffered(const line *l, const event *e) {
  const wafer_stream *t = e->stream;
  const wafer_kernel *at = e->kernel;
  if (t) at = t->to_kernel == WAFER_NONE ? NULL : &l->plan->kernels[t->to_kernel];
  uint64_t depth = most(1, t ? t->depth : e->kernel->body.output_depth);
  depth *= l->stripes * (at ? most(1, at->replicas) : 1);
  return depth < UINT32_MAX ? (uint32_t)depth : UINT32_MAX;
}

/* Rings reach back as far as any buffer or replica does, and no further than the train. */
static wafer_status make_rings(line *l) {
  l->window = 1;
  for (uint32_t i = 0; i < l->event_count; i++) {
    const event *e = &l->events[i];
    l->window = most(l->window, timeline_buffered(l, e));
  }
  if (l->window >= l->samples + l->stripes - 1)
    l->window = (uint32_t)(l->samples + l->stripes - 1);
  else if (l->window < UINT32_MAX)
    l->window++;
  for (uint32_t i = 0; i < l->event_count; i++) {
    l->events[i].done = WAFER_NEW(l->arena, uint64_t, l->window);
    l->events[i].left = WAFER_NEW(l->arena, uint64_t, l->window);
    if (!l->events[i].done || !l->events[i].left) return timeline_no_memory(l);
  }
  return WAFER_OK;
}

static wafer_status find_outputs(line *l, const held *h) {
  const wafer_holding edge = {.where = WAFER_AT_edge};
  for (uint32_t i = 0; i < l->function->output_count; i++) {
    uint32_t value = l->function->outputs[i];
    const held_entry *e = held_find(h, value, &edge);
    if (!e && wafer_plan_updates(l->plan)) e = h->of[value]; /* a gradient, added up where it is */
    if (!e || e->maker == WAFER_NONE) continue;
    event *maker = &l->events[e->maker];
    l->before[i] = maker->output;
    maker->output = i + 1;
  }
  return WAFER_OK;
}

wafer_status timeline_link(line *l) {
  const wafer_plan *plan = l->plan;
  size_t room = 0;
  held h;
  for (uint32_t i = 0; i < l->function->step_count; i++)
    room += plan->phases[l->function->steps[i].phase].action_count;
  l->events = WAFER_NEW(l->arena, event, room);
  l->parts = WAFER_NEW(l->arena, part, l->function->step_count);
  l->before = WAFER_NEW(l->arena, uint32_t, l->function->output_count);
  l->loaded = WAFER_NEW(l->arena, bool, plan->phase_count);
  uint32_t *early = WAFER_NEW(l->arena, uint32_t, plan->phase_count); /* 1 + the part */
  if (!l->events || !l->parts || !l->before || !l->loaded || !early ||
      !held_init(&h, l->arena, plan, l->function))
    return timeline_no_memory(l);
  for (uint32_t i = 0; i < l->function->step_count; i++) {
    const wafer_step *step = &l->function->steps[i];
    if (step->kind == WAFER_STEP_load) {
      l->loaded[step->phase] = plan->mode == WAFER_MODE_pipelined;
      early[step->phase] = l->part_count + 1;
      continue;
    }
    part *p = &l->parts[l->part_count++];
    p->phase = step->phase;
    p->armed = early[step->phase] ? early[step->phase] - 1 : WAFER_NONE;
    WAFER_TRY(link_part(l, &h, p));
    WAFER_TRY(link_users(l, p));
  }
  WAFER_TRY(find_outputs(l, &h));
  return make_rings(l);
}

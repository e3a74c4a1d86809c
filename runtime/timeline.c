/* The train through the machine in cycles, without values.
 *
 * A stream starts a sample when its source has it, its links are free, the edge (or MemoryX) has
 * bandwidth left, the target's buffer has room, and in a pipeline it is its turn in queues that it
 * shares; it ends `cycles` later and has arrived `latency` after that. A kernel starts a sample
 * when all inputs have arrived, its replica is free, and its outputs' buffer has room; every
 * replica has buffers of its own, and so has every stripe, where the samples of a round, one in
 * each, do the same side by side. Phases follow each other; weights that stream in for a phase may
 * arrive from the start of the phase before, or of the one that a load step of theirs stands
 * before; those that pass in slices have no room before their phase, and arrive while their kernel
 * works. Time 0 is when all that a pipeline's load steps bring is in place. */
#include <stdlib.h>
#include <string.h>

#include "held.h"
#include "queues.h"
#include "timeline.h"
#include "turns.h"

typedef struct event {
  const wafer_action *action;
  const wafer_stream *stream; /* or */
  const wafer_kernel *kernel;
  bool skipped;                      /* a weight stream that a load step ran */
  const wafer_stream_queues *queues; /* of a pipeline's streams */
  uint32_t first;  /* the event with which a stream of a multicast leaves; NONE: by itself */
  uint32_t joined; /* 1 + the next event of a multicast, from its first stream on; 0: none */
  uint64_t cast;   /* when the sample at hand left, */
  uint64_t cycles; /* and how long that takes: of a multicast the longest stream's */
  uint32_t need_count, *need;        /* earlier events (of any phase) that make what it uses */
  uint32_t user_count,
      *user;       /* streams: kernels that read from the target; kernels: streams that carry off */
  uint64_t *done;  /* ring over samples: arrival of a stream, end of a kernel */
  uint64_t *left;  /* ring, streams: when the source was read to the end */
  uint32_t output; /* of the function, that it brings to the edge: 1 + the last one; 0: none */
} event;

typedef struct part {
  uint32_t phase, first, last; /* events */
  uint32_t kernels;
  uint32_t armed; /* weight streaming: the part with which its weights may start; NONE: the one
                     before */
  uint64_t start;
} part;

typedef struct line {
  const wafer_diag *diag;
  const wafer_plan *plan;
  const wafer_function *function;
  wafer_arena *arena;
  wafer_timeline *out;
  event *events;
  uint32_t event_count, part_count, window;
  uint64_t stripes; /* samples of a round */
  part *parts;
  uint32_t *before; /* per output: 1 + the one before that the same event brings to the edge */
  bool *loaded;     /* a pipeline's phase: by a load step */
  turns edge_in, edge_out, memoryx;
  bool alone;        /* weight streaming: values change their layout one by one, */
  bool programs;     /* and cores that have programs compute in between, not meanwhile; */
  bool serial;       /* so they do where a phase has several kernels */
  uint64_t exchange; /* until then; `busy`: with what the round does at present */
  uint64_t busy;
  uint64_t crossed;      /* values that follow each other over the border only wait for the words */
  const part *part;      /* being run */
  uint64_t armed, start; /* when weights of the phase may start; the phase itself */
  uint64_t arrived;      /* weights so far have arrived, but for the latencies outside the wafer; */
  uint64_t arrived_before; /* those of earlier phases, for which those of this one wait */
  uint64_t samples, half;  /* of the train, of its last half */
  uint64_t mark;           /* when the last sample before the last half finished */
  uint64_t last;           /* when the last sample finished */
} line;

static wafer_status no_memory(const line *l) {
  return wafer_fail(l->diag, wafer_at_file(l->plan->model), WAFER_NO_MEMORY,
                    "no memory left for the timeline");
}

/* --- who needs whom */

static void add_need(event *e, uint32_t maker) {
  if (maker != WAFER_NONE) e->need[e->need_count++] = maker;
}

static wafer_status link_stream(line *l, held *h, uint32_t index) {
  event *e = &l->events[index];
  const wafer_stream *t = e->stream;
  const held_entry *from = held_find(h, t->value, &t->from);
  e->need = WAFER_NEW(l->arena, uint32_t, 1);
  if (!e->need) return no_memory(l);
  if (!from)
    return wafer_fail(l->diag, wafer_at_file(l->plan->model), WAFER_TRAP,
                      "a stream takes '%s' from where nobody has put it",
                      l->plan->values[t->value].name);
  add_need(e, from->maker);
  return held_add(h, t->value, &t->to, index) ? WAFER_OK : no_memory(l);
}

static wafer_status link_kernel(line *l, held *h, uint32_t index) {
  event *e = &l->events[index];
  const wafer_kernel *k = e->kernel;
  e->need = WAFER_NEW(l->arena, uint32_t, k->body.input_count);
  if (!e->need) return no_memory(l);
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
    if (!held_add(h, k->outputs[i], &made, index)) return no_memory(l);
  }
  return WAFER_OK;
}

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
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
    if (!(e->user = WAFER_NEW(l->arena, uint32_t, e->user_count))) return no_memory(l);
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

static uint32_t most(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

/* Samples in the buffers that an event fills: every replica has its own, and every stripe. */
static uint32_t buffered(const line *l, const event *e) {
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
    l->window = most(l->window, buffered(l, e));
  }
  if (l->window >= l->samples + l->stripes - 1)
    l->window = (uint32_t)(l->samples + l->stripes - 1);
  else if (l->window < UINT32_MAX)
    l->window++;
  for (uint32_t i = 0; i < l->event_count; i++) {
    l->events[i].done = WAFER_NEW(l->arena, uint64_t, l->window);
    l->events[i].left = WAFER_NEW(l->arena, uint64_t, l->window);
    if (!l->events[i].done || !l->events[i].left) return no_memory(l);
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

static wafer_status link_all(line *l) {
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
    return no_memory(l);
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

/* --- time */

static uint64_t at(const line *l, const uint64_t *ring, uint64_t sample) {
  return ring[sample % l->window];
}

static bool in_slices(const event *e) {
  return e->stream && e->stream->depth == 0 && e->stream->from.where == WAFER_AT_memoryx;
}

static bool leaves_in_slices(const event *e) {
  return e->kernel && e->kernel->body.output_depth == 0;
}

/* When everything that an event needs is there. What earlier phases made was there when this one
 * began. */
static uint64_t ready(const line *l, const event *e, uint64_t sample) {
  uint64_t time = 0;
  for (uint32_t i = 0; i < e->need_count; i++) {
    const event *m = &l->events[e->need[i]];
    if (e->need[i] >= l->part->first && !m->skipped)
      time = later(time, at(l, in_slices(m) || leaves_in_slices(m) ? m->left : m->done, sample));
  }
  return time;
}

/* When the last slices of a kernel's weights are there. */
static uint64_t sliced(const line *l, const event *e, uint64_t sample) {
  uint64_t time = 0;
  for (uint32_t i = 0; i < e->need_count; i++) {
    const event *m = &l->events[e->need[i]];
    if (e->need[i] >= l->part->first && in_slices(m)) time = later(time, at(l, m->done, sample));
  }
  return time;
}

/* Holds an event up until sample - depth has left the buffer that it fills. `base`: first sample of
 * the group; earlier ones ended with the phase. */
static uint64_t room(const line *l, const event *e, uint64_t sample, uint64_t base) {
  uint64_t time = 0, depth = buffered(l, e);
  if (sample < base + depth) return 0;
  for (uint32_t i = 0; i < e->user_count; i++) {
    const event *u = &l->events[e->user[i]];
    time = later(time, at(l, u->stream ? u->left : u->done, sample - depth));
  }
  return time;
}

/* Until the stream that has the queue before is through it, the last of a queue with the sample
 * before. Of a kernel's inputs those from far up run ahead of those from near, as far as their
 * deeper buffers allow. */
static uint64_t turn(const line *l, const event *e, const wafer_queue_end *end, uint64_t sample,
                     uint64_t base) {
  if (end->after == WAFER_NONE) return 0;
  const event *before = &l->events[l->part->first + end->after];
  uint64_t behind = before >= e, own = buffered(l, e);
  if (own > buffered(l, before)) behind = own - 1;
  return sample < base + behind ? 0 : at(l, before->left, sample - behind);
}

static bool is_weight(const event *e) {
  return e->stream && e->stream->from.where == WAFER_AT_memoryx;
}

/* When a stream's sample may leave, as far as room where it goes and turns in queues let it; the
 * others of a multicast leave in the turn of its first. */
static uint64_t may_leave(const line *l, const event *e, uint64_t sample, uint64_t base) {
  uint64_t start = room(l, e, sample, base);
  if (e->queues && e->first == WAFER_NONE)
    start = later(start, turn(l, e, &e->queues->out, sample, base));
  if (e->queues) start = later(start, turn(l, e, &e->queues->in, sample, base));
  uint64_t behind = wafer_stream_crosses(e->stream) ? 1 : l->stripes;
  return sample >= base + behind ? later(start, at(l, e->left, sample - behind)) : start;
}

/* Whether its value crosses the border the same way as that of the event before; weights in between
 * have come ahead of both. */
static bool follows(const line *l, const event *e) {
  const event *first = &l->events[l->part->first], *by = e;
  while (by > first && is_weight(by - 1)) by--;
  const wafer_stream *t = e->stream, *before = by == first ? NULL : by[-1].stream;
  return before && ((t->from.where == WAFER_AT_edge && before->from.where == WAFER_AT_edge) ||
                    (t->to.where == WAFER_AT_edge && before->to.where == WAFER_AT_edge));
}

static void run_stream(line *l, event *e, uint64_t sample, uint64_t base) {
  const wafer_stream *t = e->stream;
  const wafer_machine *m = l->plan->machine;
  bool weight = is_weight(e);
  uint64_t start = later(ready(l, e, sample), weight && t->depth > 0 ? l->armed : l->start);
  uint64_t shared = 0;
  if (weight && sample != base) { /* weights come once per group */
    e->done[sample % l->window] = at(l, e->done, sample - 1);
    e->left[sample % l->window] = at(l, e->left, sample - 1);
    return;
  }
  if (e->first != WAFER_NONE) {
    start = l->events[e->first].cast;
  } else {
    start = later(start, may_leave(l, e, sample, base));
    for (uint32_t i = e->joined; i; i = l->events[i - 1].joined)
      start = later(start, may_leave(l, &l->events[i - 1], sample, base));
    e->cast = start;
  }
  bool alone = l->alone && !weight;
  if (alone) start = later(start, follows(l, e) ? l->crossed : l->exchange);
  uint64_t bytes = t->words * WAFER_WAVELET_BYTES;
  if (weight) { /* in streaming one after the other: they share the way to their cores too */
    shared = wafer_machine_transfer_cycles(m, bytes, m->memoryx_bytes_per_second);
    bool streams = l->plan->mode == WAFER_MODE_streaming;
    if (streams) start = later(start, l->arrived_before);
    start = turns_take(&l->memoryx, start, streams ? later(t->cycles, shared) : shared);
    uint64_t outside = (uint64_t)m->memoryx_latency_cycles + m->edge_latency_cycles;
    uint64_t inside = t->latency > outside ? t->latency - outside : 0;
    l->arrived = later(l->arrived, start + later(t->cycles, shared) + inside);
  } else if (t->from.where == WAFER_AT_edge)
    start =
        turns_take(&l->edge_in, start,
                   shared = wafer_machine_transfer_cycles(m, bytes, m->edge_in_bytes_per_second));
  else if (t->to.where == WAFER_AT_edge)
    start =
        turns_take(&l->edge_out, start,
                   shared = wafer_machine_transfer_cycles(m, bytes, m->edge_out_bytes_per_second));
  const event *from = e->need_count ? &l->events[e->need[0]] : NULL;
  if (from && leaves_in_slices(from)) {
    uint64_t made = at(l, from->done, sample);
    e->left[sample % l->window] = later(start + later(t->cycles, shared), made);
    e->done[sample % l->window] = at(l, e->left, sample) + t->latency;
    return;
  }
  e->left[sample % l->window] = start + later(e->cycles, shared);
  e->done[sample % l->window] = start + later(e->cycles, shared) + t->latency;
  if (weight && sample == 0 && l->out->weight_cycles)
    l->out->weight_cycles[l->plan->values[t->value].weight] = at(l, e->left, sample);
  if (in_slices(e)) e->left[sample % l->window] = start + t->latency; /* the first one is there */
  if (alone) l->busy = later(l->busy, at(l, e->done, sample));
}

static void run_kernel(line *l, event *e, uint64_t sample, uint64_t base) {
  const wafer_kernel *k = e->kernel;
  uint64_t start = later(ready(l, e, sample), l->start), copies = l->stripes * most(1, k->replicas);
  start = later(start, room(l, e, sample, base));
  if (l->serial) start = later(start, l->exchange);
  if (sample >= base + copies) start = later(start, at(l, e->done, sample - copies));
  e->left[sample % l->window] = start; /* the first slice of a result leaves at once */
  e->done[sample % l->window] = later(start + wafer_kernel_cycles(k), sliced(l, e, sample));
  if (l->serial) l->busy = later(l->busy, at(l, e->done, sample));
  if (l->out->kernel_busy && sample < l->samples)
    l->out->kernel_busy[e->action->index] += wafer_kernel_cycles(k);
}

static void finish(line *l, uint64_t sample, uint32_t output, uint64_t time) {
  wafer_timeline *out = l->out;
  if (sample == 0 && out->output_cycles) out->output_cycles[output] = time;
  if (out->finish) out->finish[sample] = later(out->finish[sample], time);
  if (sample == 0) out->latency_cycles = later(out->latency_cycles, time);
  if (sample + l->half + 1 == l->samples) l->mark = later(l->mark, time);
  if (sample + 1 == l->samples) l->last = later(l->last, time);
}

/* Samples from `first` on, one in every stripe, each event for all of them before the next. A round
 * that is not full is filled up. The end of the last. */
static uint64_t run_round(line *l, const part *p, uint64_t first, uint64_t base) {
  uint64_t end = 0;
  for (uint32_t i = p->first; i < p->last; i++) {
    event *e = &l->events[i];
    uint64_t left = 0;
    for (uint64_t s = first; s < first + l->stripes && !e->skipped; s++) {
      if (e->stream)
        run_stream(l, e, s, base);
      else
        run_kernel(l, e, s, base);
      left = later(left, at(l, e->left, s));
      end = later(end, at(l, e->done, s));
    }
    if (!is_weight(e)) l->crossed = left;
    if (e->stream || i + 1 == p->last || e[1].stream) l->exchange = l->busy; /* else at once */
  }
  return end;
}

static void run_part(line *l, part *p, uint64_t before, uint64_t base, uint64_t count) {
  uint64_t end = p->start = l->start;
  l->part = p;
  l->arrived_before = l->arrived;
  l->serial = l->programs || (l->alone && p->kernels > 1);
  l->armed = p->armed == WAFER_NONE ? before : l->parts[p->armed].start;
  for (uint64_t first = base; first < base + count; first += l->stripes) {
    end = later(end, run_round(l, p, first, base));
    for (uint64_t s = first; s < first + l->stripes && s < base + count; s++)
      for (uint32_t i = p->first; i < p->last; i++)
        for (uint32_t o = l->events[i].output; o; o = l->before[o - 1])
          finish(l, s, o - 1, at(l, l->events[i].done, s));
  }
  if (base == 0 && l->out->phase_cycles) l->out->phase_cycles[p->phase] = end - l->start;
  l->start = end;
}

/* A train that fits one group has no steady state: its share of the whole stands for it. */
static void conclude(line *l, uint64_t group) {
  wafer_timeline *out = l->out;
  out->total_cycles = l->start;
  if (l->samples == 1)
    out->interval_cycles = out->latency_cycles;
  else if (l->samples <= group)
    out->interval_cycles = (l->start + l->samples - 1) / l->samples;
  else
    out->interval_cycles = (l->last - l->mark + l->half - 1) / l->half;
}

/* What a train of so many samples takes. Short ones stand in the plan, others between them take an
 * even part of the way. */
static uint64_t train_cycles(const wafer_launch *train, uint64_t samples) {
  uint64_t before = train->predicted, from = 1;
  for (uint32_t i = 0; i < train->short_train_count; i++, from *= 2) {
    uint64_t end = later(before, train->short_trains[i]);
    if (samples <= 2 * from) return before + (end - before) * (samples - from) / from;
    before = end;
  }
  return samples <= from ? before : later(before, train->fill + samples * train->interval);
}

/* Where a pipeline has programs, their time is known better than from its streams: cores do not
 * compute while they receive and send. */
static void follow_programs(line *l) {
  const wafer_plan *plan = l->plan;
  uint64_t edge = 2 * plan->machine->edge_latency_cycles;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const wafer_launch *launch = &plan->launches[i];
    wafer_timeline *out = l->out;
    if (launch->kind != WAFER_LAUNCH_train || launch->phase != l->parts[0].phase) continue;
    out->latency_cycles = launch->predicted + edge;
    out->interval_cycles = l->samples == 1 ? out->latency_cycles : launch->interval;
    out->total_cycles = train_cycles(launch, l->samples) + edge;
    if (out->phase_cycles) out->phase_cycles[launch->phase] = out->total_cycles - edge;
    for (uint64_t s = 0; out->finish && s < l->samples; s++)
      out->finish[s] = train_cycles(launch, s + 1) + edge;
  }
}

static wafer_status run_train(line *l) {
  const wafer_plan *plan = l->plan;
  bool streams = plan->mode == WAFER_MODE_streaming;
  uint64_t batch = streams && plan->batch ? plan->batch : 1;
  uint64_t group = streams ? batch : l->samples;
  l->programs = streams && batch > 1 && plan->launch_count;
  l->alone = streams && (wafer_plan_resident(plan) == 1 || l->programs);
  WAFER_TRY(link_all(l));
  uint64_t before = 0; /* start of the part before */
  for (uint64_t base = 0; base < l->samples; base += group) {
    uint64_t count = l->samples - base < group ? l->samples - base : group;
    for (uint32_t i = 0; i < l->part_count; before = l->parts[i++].start)
      run_part(l, &l->parts[i], before, base, count);
  }
  conclude(l, batch);
  follow_programs(l);
  return WAFER_OK;
}

/* Samples of the last half of a train. In weight streaming it begins with a group: what the samples
 * of one share, part of them would have for nothing. */
static uint64_t last_half(const wafer_plan *plan, uint64_t samples) {
  uint64_t before = samples - samples / 2;
  if (plan->mode == WAFER_MODE_streaming && plan->batch > 1) before -= before % plan->batch;
  return samples < 2 ? 1 : samples - before;
}

wafer_status timeline_unit(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                           uint64_t samples, wafer_timeline *timeline) {
  line l = {.diag = diag,
            .plan = plan,
            .function = &plan->functions[function],
            .out = timeline,
            .samples = samples,
            .stripes = plan->stripes,
            .half = last_half(plan, samples),
            .arena = wafer_arena_create()};
  if (!l.arena) return no_memory(&l);
  wafer_status status = samples ? run_train(&l) : WAFER_OK;
  wafer_arena_destroy(l.arena);
  return status;
}

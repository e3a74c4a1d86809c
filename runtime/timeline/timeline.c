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
#include "timeline_events.h"

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
  uint64_t time = 0, depth = timeline_buffered(l, e);
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
  uint64_t behind = before >= e, own = timeline_buffered(l, e);
  if (own > timeline_buffered(l, before)) behind = own - 1;
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
  WAFER_TRY(timeline_link(l));
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
  if (!l.arena) return timeline_no_memory(&l);
  wafer_status status = samples ? run_train(&l) : WAFER_OK;
  wafer_arena_destroy(l.arena);
  return status;
}

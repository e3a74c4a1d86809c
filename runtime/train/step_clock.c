#include "wafer/step_clock.h"

#include <stdlib.h>

#include "wafer/arena.h"

/* What a port or a node of SwarmX sends, in the order of its micro-batches. */
typedef struct partial {
  uint32_t level;
  uint64_t index;
  uint64_t *time; /* per weight */
} partial;
typedef struct sender {
  uint32_t count;
  partial *at;
} sender;

/* A sum of one weight on a link, or an update on a server. */
typedef struct message {
  uint64_t time;
  uint32_t partial, weight;
} message;

typedef struct counter {
  const wafer_step_run *run;
  wafer_arena *arena;
  message *messages;
  wafer_step_time *out;
} counter;

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

uint64_t wafer_swarmx_depth(const wafer_machine *machine, uint64_t systems) {
  uint64_t depth = 0;
  for (uint64_t reach = 1; reach < systems; reach *= machine->swarmx_fanout) depth++;
  return depth;
}

/* ---- links ---- */

static int by_time(const void *a, const void *b) {
  const message *x = a, *y = b;
  if (x->time != y->time) return x->time < y->time ? -1 : 1;
  if (x->partial != y->partial) return x->partial < y->partial ? -1 : 1;
  return (x->weight > y->weight) - (x->weight < y->weight);
}

/* First come, first served. A port has the whole sum before it sends; a node passes words on, so
 * that a sum is never further than a hop behind what it is made of. */
static void send(counter *c, sender *s, bool port) {
  const wafer_machine *m = c->run->machine;
  uint32_t count = 0;
  uint64_t free = 0, work = 0, hop = port ? 0 : m->swarmx_hop_cycles;
  for (uint32_t p = 0; p < s->count; p++)
    for (uint32_t w = 0; w < c->run->weight_count; w++)
      c->messages[count++] = (message){s->at[p].time[w], p, w};
  qsort(c->messages, count, sizeof *c->messages, by_time);
  for (uint32_t i = 0; i < count; i++) {
    const message *one = &c->messages[i];
    uint64_t cycles = wafer_machine_transfer_cycles(m, c->run->weights[one->weight].sum_bytes,
                                                    m->swarmx_bytes_per_second);
    free = port ? later(one->time, free) + cycles : later(one->time, free + cycles);
    s->at[one->partial].time[one->weight] = free + hop;
    work += cycles;
  }
  c->out->sum_work = later(c->out->sum_work, work);
}

/* ---- the tree ---- */

static void join(const counter *c, sender *s) {
  partial *a = &s->at[s->count - 2], *b = a + 1;
  for (uint32_t w = 0; w < c->run->weight_count; w++) a->time[w] = later(a->time[w], b->time[w]);
  a->level++;
  a->index >>= 1;
  s->count--;
}

/* Children that follow one another, as one; `all`: to a single sum. */
static void gather(const counter *c, const sender *children, uint32_t count, bool all,
                   sender *out) {
  out->count = 0;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t p = 0; p < children[i].count; p++) {
      out->at[out->count++] = children[i].at[p];
      for (; out->count > 1; join(c, out)) {
        const partial *a = &out->at[out->count - 2], *b = a + 1;
        if (a->level != b->level || (a->index & 1) || b->index != a->index + 1) break;
      }
    }
  while (all && out->count > 1) join(c, out);
}

/* Copies: times move as sums climb. */
static bool take_ports(const counter *c, sender *ports, uint32_t *most) {
  for (uint32_t s = 0; s < c->run->system_count; s++) {
    const wafer_step_system *from = &c->run->systems[s];
    ports[s].count = from->partial_count;
    ports[s].at = WAFER_NEW(c->arena, partial, from->partial_count);
    if (!ports[s].at) return false;
    *most += from->partial_count;
    for (uint32_t p = 0; p < from->partial_count; p++) {
      const wafer_step_partial *one = &from->partials[p];
      uint64_t *time =
          wafer_arena_copy(c->arena, one->ready, c->run->weight_count * sizeof *one->ready);
      if (!time) return false;
      ports[s].at[p] = (partial){one->level, one->index, time};
    }
  }
  return true;
}

/* From all ports to MemoryX: times when the finished sums are there. */
static bool climb(counter *c, uint64_t **arrival) {
  uint32_t width = c->run->system_count, fanout = c->run->machine->swarmx_fanout, most = 0;
  sender *at = WAFER_NEW(c->arena, sender, width), top;
  if (!at || !take_ports(c, at, &most)) return false;
  c->messages = WAFER_NEW(c->arena, message, (size_t)most * c->run->weight_count + 1);
  top.at = WAFER_NEW(c->arena, partial, (size_t)most + 1);
  if (!c->messages || !top.at) return false;
  if (width == 1) gather(c, at, 1, true, &top), at[0] = top;
  for (uint32_t s = 0; s < width; s++) send(c, &at[s], true);
  while (width > 1) {
    uint32_t nodes = (width + fanout - 1) / fanout;
    for (uint32_t n = 0; n < nodes; n++) {
      uint32_t first = n * fanout, count = width - first < fanout ? width - first : fanout;
      sender made = {.at = WAFER_NEW(c->arena, partial, (size_t)most + 1)};
      if (!made.at) return false;
      gather(c, at + first, count, nodes == 1, &made);
      send(c, &made, false);
      at[n] = made;
    }
    width = nodes;
  }
  *arrival = at[0].count ? at[0].at[0].time : NULL;
  return true;
}

/* ---- MemoryX ---- */

/* First come, first served on every server; `begin`: no earlier. */
static uint64_t update(counter *c, const uint64_t *arrival, uint64_t begin, uint64_t *free) {
  const wafer_step_run *run = c->run;
  const wafer_machine *m = run->machine;
  uint64_t end = 0;
  uint64_t *work = free + run->server_count;
  for (uint32_t w = 0; w < run->weight_count; w++) {
    uint64_t time = later(arrival[w] + m->memoryx_latency_cycles, begin);
    for (uint32_t s = 0; s < run->system_count; s++)
      if (run->systems[s].read) time = later(time, run->systems[s].read[w]);
    c->messages[w] = (message){time, 0, w};
  }
  qsort(c->messages, run->weight_count, sizeof *c->messages, by_time);
  for (uint32_t i = 0; i < run->weight_count; i++) {
    const wafer_step_weight *w = &run->weights[c->messages[i].weight];
    uint64_t cycles =
        wafer_machine_transfer_cycles(m, w->update_bytes, m->memoryx_bytes_per_second);
    free[w->server] = later(c->messages[i].time, free[w->server]) + cycles;
    work[w->server] += cycles;
    end = later(end, free[w->server]);
    c->out->update_work = later(c->out->update_work, work[w->server]);
  }
  return end;
}

static bool count(counter *c) {
  const wafer_step_run *run = c->run;
  wafer_step_time *out = c->out;
  uint64_t *arrival = NULL, last = 0;
  uint64_t *free = WAFER_NEW(c->arena, uint64_t, 2 * (size_t)run->server_count);
  uint64_t down =
      wafer_swarmx_depth(run->machine, run->system_count) * run->machine->swarmx_hop_cycles;
  if (!free || !climb(c, &arrival)) return false;
  for (uint32_t s = 0; s < run->system_count; s++)
    out->system = later(out->system, run->systems[s].end);
  uint64_t here = out->system;
  for (uint32_t w = 0; arrival && w < run->weight_count; w++) last = later(last, arrival[w]);
  last = later(last, here);
  out->sum = last - here;
  if (arrival && !run->skips) {
    uint64_t begin = run->waits ? last + 3 * run->machine->memoryx_latency_cycles : 0;
    out->update = later(update(c, arrival, begin, free), last) - last;
  }
  out->system += down;
  out->step = out->system + out->sum + out->update;
  return true;
}

wafer_status wafer_step_count(const wafer_diag *diag, const wafer_step_run *run,
                              wafer_step_time *out) {
  *out = (wafer_step_time){0};
  counter c = {.run = run, .arena = wafer_arena_create(), .out = out};
  bool done = c.arena && count(&c);
  wafer_arena_destroy(c.arena);
  return done ? WAFER_OK
              : wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "out of memory for the clock");
}

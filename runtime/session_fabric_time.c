/* The time of a run at fabric fidelity: the cycles of launches put together, and for a pipeline what
 * the marks of its cores tell. Latencies of the edge and of MemoryX, which lie outside of the fabric,
 * come from the machine. */
#include <stdlib.h>
#include <string.h>

#include "fabric_session.h"

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static const wafer_action *action_of(const session_fabric *s, const fabric_launch *l) {
  return &s->plan->phases[l->of->phase].actions[l->of->action];
}

/* ---- streaming ---- */

/* Weights of a phase stand before its actions and behind those of the phase before, with which they
 * share the time. */
void session_fabric_tick(session_fabric *s, fabric_clock *c, const fabric_launch *l) {
  const wafer_machine *m = s->plan->machine;
  uint64_t cycles = l->stats.cycles;
  if (l->of->kind == WAFER_LAUNCH_load) {
    c->memoryx = later(c->memoryx, c->start) + cycles;
    c->weights = c->memoryx + m->memoryx_latency_cycles + m->edge_latency_cycles;
    return;
  }
  if (l->of->phase != c->phase) {
    c->phase = l->of->phase;
    c->start = c->now;
  }
  const wafer_action *a = action_of(s, l);
  uint64_t before = c->now;
  if (l->body.port_count) cycles += m->edge_latency_cycles;
  if (a->kind == WAFER_ACTION_kernel) {
    c->now = later(c->now, c->weights);
    s->kernel_busy[a->index] += cycles;
  } else {
    s->stream_busy[a->index] += cycles;
  }
  c->now += cycles;
  s->phase_cycles[l->of->phase] += c->now - before;
}

/* ---- trains ---- */

static bool is_kernel(const session_fabric *s, uint32_t part) {
  const fabric_launch *l = s->running;
  const wafer_phase *phase = &s->plan->phases[l->of->phase];
  if (part >= l->body.part_count || l->body.parts[part] >= phase->action_count) return false;
  return phase->actions[l->body.parts[part]].kind == WAFER_ACTION_kernel;
}

static void on_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  session_fabric *s = user;
  fabric_marks *m = &s->marks;
  size_t core = (size_t)y * s->plan->machine->width + x;
  if (is_kernel(s, m->part[core])) m->busy[core] += cycle - m->since[core];
  m->part[core] = (uint32_t)value;
  m->since[core] = cycle;
  if ((uint32_t)value != s->running->body.part_count || m->done[core] >= m->samples) return;
  uint64_t *finish = &m->finish[m->done[core]++];
  *finish = later(*finish, cycle);
}

wafer_status session_fabric_watch(session_fabric *s, const fabric_launch *l, uint64_t samples) {
  fabric_marks *m = &s->marks;
  size_t cores = (size_t)s->plan->machine->width * s->plan->machine->height;
  uint64_t *finish = realloc(m->finish, samples * sizeof *finish);
  if (!finish) return session_fabric_no_memory(s);
  m->finish = finish;
  m->samples = samples;
  memset(finish, 0, samples * sizeof *finish);
  memset(m->part, 0xff, cores * sizeof *m->part);
  memset(m->done, 0, cores * sizeof *m->done);
  memset(m->busy, 0, cores * sizeof *m->busy);
  s->running = l;
  wafer_fabric_observe(s->fabric, on_mark, s);
  return WAFER_OK;
}

/* A kernel is as long at a sample as the slowest of its cores on average. */
static uint64_t kernel_cycles(const session_fabric *s, const wafer_kernel *k) {
  uint64_t most = 0;
  for (uint32_t y = k->rect.y; y < k->rect.y + k->rect.height; y++)
    for (uint32_t x = k->rect.x; x < k->rect.x + k->rect.width; x++)
      most = later(most, s->marks.busy[(size_t)y * s->plan->machine->width + x]);
  return most;
}

/* The interval is that of the last half of the train. */
void session_fabric_train_time(session_fabric *s, const fabric_launch *l) {
  const fabric_marks *m = &s->marks;
  uint64_t edge = 2 * s->plan->machine->edge_latency_cycles, half = m->samples / 2;
  for (uint32_t k = 0; k < s->plan->kernel_count; k++)
    s->kernel_busy[k] = kernel_cycles(s, &s->plan->kernels[k]);
  s->phase_cycles[l->of->phase] = l->stats.cycles;
  s->stats.latency_cycles = m->finish[0] + edge;
  s->stats.total_cycles = l->stats.cycles + edge;
  s->stats.interval_cycles =
      half ? (m->finish[m->samples - 1] - m->finish[m->samples - 1 - half] + half - 1) / half
           : s->stats.latency_cycles;
}

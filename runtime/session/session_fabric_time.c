/* The time of a run at fabric fidelity: the cycles of launches put together, and for a pipeline
 * what the marks of its cores tell. Latencies of the edge and of MemoryX, which lie outside of the
 * fabric, come from the machine. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static const wafer_action *action_of(const session_fabric *s, const fabric_launch *l) {
  return &session_fabric_phase(s, l)->actions[l->of->action];
}

/* A kernel takes from when the inputs of its last core are there to when its last core has ended;
 * cores whose inputs come early wait for their neighbours meanwhile. */
static uint64_t kernel_cycles(const session_fabric *s, uint32_t k) {
  const fabric_marks *m = &s->marks;
  uint64_t cycles = 0;
  for (uint64_t i = k * m->samples; i < (k + 1) * m->samples; i++)
    cycles += m->end[i] - m->begin[i];
  return cycles;
}

bool session_fabric_several(const session_fabric *s, const fabric_launch *l) {
  return l->of->kind == WAFER_LAUNCH_action &&
         wafer_phase_run_end(session_fabric_phase(s, l), l->of->action) > l->of->action + 1;
}

uint64_t session_fabric_action_cycles(const session_fabric *s, const fabric_launch *l, uint32_t a,
                                      uint64_t cycles) {
  return session_fabric_several(s, l)
             ? kernel_cycles(s, session_fabric_phase(s, l)->actions[a].index) / s->marks.samples
             : cycles;
}

/* ---- streaming ---- */

/* A value without elements crosses it like others: no word does, but the host waits for it. */
fabric_border session_fabric_border(const session_fabric *s, const fabric_launch *l) {
  if (l->of->kind != WAFER_LAUNCH_action || action_of(s, l)->kind != WAFER_ACTION_stream)
    return FABRIC_BORDER_none;
  const wafer_stream *t = &s->plan->streams[action_of(s, l)->index];
  if (t->from.where == WAFER_AT_edge) return FABRIC_BORDER_in;
  return t->to.where == WAFER_AT_edge ? FABRIC_BORDER_out : FABRIC_BORDER_none;
}

static bool takes(const wafer_kernel *k, uint32_t value) {
  for (uint32_t i = 0; i < k->body.input_count; i++)
    if (k->inputs[i] == value) return true;
  return false;
}

/* Whether a kernel that begins with action `a` takes weights that come for its phase: one that
 * takes none does not wait for them. */
static bool takes_weights(const session_fabric *s, const wafer_phase *phase, uint32_t a) {
  for (uint32_t end = wafer_phase_run_end(phase, a); a < end; a++)
    for (uint32_t i = 0; i < phase->action_count; i++) {
      if (phase->actions[i].kind != WAFER_ACTION_stream) continue;
      const wafer_stream *t = &s->plan->streams[phase->actions[i].index];
      if (t->from.where == WAFER_AT_memoryx &&
          takes(&s->plan->kernels[phase->actions[a].index], t->value))
        return true;
    }
  return false;
}

/* Samples of all stripes, and values of a phase, follow each other over the border, where the
 * latency and the way past other stripes count once. Weights of a phase stand before its actions
 * and behind those of the phase with which they leave, with which they share the time. They follow
 * each other over the border; those of the next phase come when they have all arrived. */
uint64_t session_fabric_start(session_fabric *s, fabric_clock *c, const fabric_launch *l) {
  if (l->of->kind == WAFER_LAUNCH_load) {
    if (c->loading != l->of->phase) c->memoryx = c->loaded;
    c->loading = l->of->phase;
    s->told = c->loaded;
    return later(c->memoryx, c->start);
  }
  s->told = 0;
  if (l->of->phase != c->phase) {
    c->phase = l->of->phase;
    c->start = c->now;
    c->border = FABRIC_BORDER_none;
  }
  if (c->border != FABRIC_BORDER_none && c->border == session_fabric_border(s, l))
    return c->crossed;
  bool waits = action_of(s, l)->kind == WAFER_ACTION_kernel &&
               takes_weights(s, session_fabric_phase(s, l), l->of->action);
  return waits ? later(c->now, s->armed[l->of->phase]) : c->now;
}

void session_fabric_tick(session_fabric *s, fabric_clock *c, const fabric_launch *l,
                         uint32_t samples) {
  const wafer_machine *m = s->plan->machine;
  uint64_t cycles = l->stats.cycles;
  if (l->of->kind == WAFER_LAUNCH_load) {
    session_fabric_watch_launch(s, l, cycles);
    c->memoryx = s->start + l->stats.border;
    c->loaded = later(c->loaded, s->start + cycles);
    s->armed[l->of->phase] = c->loaded + m->memoryx_latency_cycles + m->edge_latency_cycles;
    return;
  }
  const wafer_phase *phase = session_fabric_phase(s, l);
  uint64_t way = l->of->sample % s->plan->stripes * s->plan->stripe_columns * m->hop_cycles;
  c->border = session_fabric_border(s, l);
  c->crossed = s->start + (cycles > way ? cycles - way : 0);
  if (c->border != FABRIC_BORDER_none) cycles += m->edge_latency_cycles;
  session_fabric_watch_launch(s, l, cycles);
  for (uint32_t i = l->of->action; i < wafer_phase_run_end(phase, l->of->action); i++) {
    const wafer_action *a = &phase->actions[i];
    *(a->kind == WAFER_ACTION_kernel ? &s->kernel_busy[a->index] : &s->stream_busy[a->index]) +=
        samples * session_fabric_action_cycles(s, l, i, cycles);
  }
  cycles = later(c->now, s->start + cycles);
  s->phase_cycles[l->of->phase] += cycles - c->now;
  c->now = cycles;
}

/* ---- trains ---- */

/* The kernel whose part it is, WAFER_NONE: a stream's, or none. */
static uint32_t kernel_of(const session_fabric *s, uint32_t part) {
  const fabric_launch *l = s->running;
  const wafer_phase *phase = &s->plan->phases[l->of->phase];
  if (part >= l->body.part_count || l->body.parts[part] >= phase->action_count) return WAFER_NONE;
  const wafer_action *a = &phase->actions[l->body.parts[part]];
  return a->kind == WAFER_ACTION_kernel ? a->index : WAFER_NONE;
}

static void on_mark(void *user, uint32_t x, uint32_t y, uint64_t cycle, int32_t value) {
  session_fabric *s = user;
  fabric_marks *m = &s->marks;
  wafer_core_at at;
  uint32_t band = wafer_machine_band_at(s->plan->machine, x, y, &at);
  size_t core = (size_t)y * wafer_machine_whole(s->plan->machine)->width + x;
  uint64_t sample = (uint64_t)m->done[core] * m->bands + band;
  uint32_t left = kernel_of(s, m->part[core]), entered = kernel_of(s, (uint32_t)value);
  if (s->watch) {
    session_fabric_watch_part(s, core, m->part[core], sample, m->since[core], cycle);
    m->since[core] = cycle;
  }
  m->part[core] = (uint32_t)value;
  if (sample >= m->samples) return;
  if (left != entered) {
    uint64_t *end = left == WAFER_NONE ? NULL : &m->end[left * m->samples + sample];
    uint64_t *begin = entered == WAFER_NONE ? NULL : &m->begin[entered * m->samples + sample];
    if (end) *end = later(*end, cycle);
    if (begin) *begin = later(*begin, cycle);
  }
  if ((uint32_t)value != s->running->body.part_count) return;
  uint64_t *finish = &m->finish[sample];
  m->done[core]++;
  *finish = later(*finish, cycle);
}

static bool clear(uint64_t **at, uint64_t count) {
  free(*at);
  *at = calloc(count ? count : 1, sizeof **at);
  return *at != NULL;
}

wafer_status session_fabric_watch(session_fabric *s, const fabric_launch *l, uint64_t samples) {
  fabric_marks *m = &s->marks;
  const wafer_machine *wafer = wafer_machine_whole(s->plan->machine);
  size_t cores = (size_t)wafer->width * wafer->height;
  if (!clear(&m->finish, samples) || !clear(&m->begin, samples * s->plan->kernel_count) ||
      !clear(&m->end, samples * s->plan->kernel_count))
    return session_fabric_no_memory(s);
  m->samples = samples;
  m->bands = session_fabric_bands(s, samples);
  memset(m->part, 0xff, cores * sizeof *m->part);
  memset(m->done, 0, cores * sizeof *m->done);
  s->running = l;
  WAFER_TRY(session_fabric_watch_train(s, l));
  wafer_fabric_observe(s->fabric, on_mark, s);
  return WAFER_OK;
}

/* The interval is that of the last half of the train, of which each band has as much. */
void session_fabric_train_time(session_fabric *s, const fabric_launch *l) {
  const fabric_marks *m = &s->marks;
  uint64_t edge = 2 * s->plan->machine->edge_latency_cycles, half = m->samples / 2;
  if (half > m->bands) half -= half % m->bands;
  for (uint32_t k = 0; k < s->plan->kernel_count; k++) s->kernel_busy[k] = kernel_cycles(s, k);
  s->phase_cycles[l->of->phase] = l->stats.cycles;
  s->stats.latency_cycles = m->finish[0] + edge;
  s->stats.total_cycles = l->stats.cycles + edge;
  s->stats.interval_cycles =
      half ? (m->finish[m->samples - 1] - m->finish[m->samples - 1 - half] + half - 1) / half
           : s->stats.latency_cycles;
}

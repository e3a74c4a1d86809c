/* When the weights of a phase leave MemoryX. They may start with the phase before theirs; where the
 * phases before are shorter than the way from MemoryX they start earlier, as many phases as it
 * takes, if cores have room for them meanwhile. So short layers come in groups. */
#include "size_streaming.h"

#define AHEAD_MOST 16 /* phases */
#define AHEAD_ROOM 2  /* of this part of a core: values and programs want room in one piece */

/* Phases one after the other. */
typedef struct walk {
  const wafer_machine *machine;
  const sizing *of;
  uint64_t batch;
  bool spreads;                    /* weights are on their way over the cores, too */
  uint64_t starts[AHEAD_MOST + 1]; /* ring over phases */
  uint64_t start;                  /* of the phase at hand */
  uint64_t memoryx;                /* free from here on */
} walk;

static uint64_t later(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static uint64_t start_of(const walk *w, uint32_t phase) {
  return w->starts[phase % WAFER_COUNT(w->starts)];
}

/* When the weights of phase p leave MemoryX. */
static uint64_t leaves(const walk *w, uint32_t p, uint32_t ahead) {
  return later(w->memoryx, start_of(w, p > ahead ? p - ahead : 0));
}

static void enter(walk *w, uint32_t p) {
  w->starts[p % WAFER_COUNT(w->starts)] = w->start;
}

/* Until a phase's weights are where it needs them. */
static uint64_t way(const walk *w, const size_phase *phase) {
  return phase->weights + (w->spreads ? phase->spread : 0);
}

/* A phase's samples overlap. */
static void pass(walk *w, uint32_t p) {
  const size_phase *phase = &w->of->phases[p];
  uint64_t works = w->start + phase->in;
  if (phase->weights) {
    uint64_t left = leaves(w, p, phase->ahead);
    w->memoryx = left + phase->weights - w->machine->memoryx_latency_cycles -
                 w->machine->edge_latency_cycles;
    works = later(works, left + way(w, phase));
  }
  w->start = works + phase->work + (w->batch - 1) * phase->beat;
}

static uint64_t walked(walk w) {
  for (uint32_t p = 0; p < w.of->phase_count; p++) {
    enter(&w, p);
    pass(&w, p);
  }
  return w.start;
}

uint64_t size_group_cycles(const wafer_machine *machine, const sizing *of, uint64_t batch) {
  return walked((walk){.machine = machine, .of = of, .batch = batch});
}

uint64_t size_spread_group_cycles(const wafer_machine *machine, const sizing *of, uint64_t batch) {
  return walked((walk){.machine = machine, .of = of, .batch = batch, .spreads = true});
}

/* Whether a phase from `first` on, before that of kernel k, uses one of its weights. One that does
 * not stay ends with each phase that uses it: it cannot be on its way to a later one meanwhile. */
static bool used_since(const streaming *s, uint32_t k, uint32_t first) {
  const sized_kernel *kernels = s->out->kernels;
  const wafer_graph_kernel *kernel = &s->graph->kernels[k];
  for (uint32_t i = 0; i < kernel->body.input_count; i++) {
    const wafer_graph_value *value = &s->graph->values[kernel->inputs[i]];
    if (size_stays(&kernels[k], i)) continue;
    for (uint32_t u = 0; kernel->body.input_is_weight[i] && u < value->use_count; u++) {
      uint32_t user = value->uses[u].kernel;
      if (kernels[user].phase >= first && kernels[user].phase < kernels[k].phase) return true;
    }
  }
  return false;
}

/* Whether the weights of phase p, whose first kernel is k, may lie on their cores from phase
 * `first` on. `early`: bytes of others that do, per phase. */
static bool has_room(const streaming *s, const uint64_t *early, uint32_t p, uint32_t k,
                     uint32_t first) {
  const size_phase *phases = s->out->phases;
  for (uint32_t q = first; q < p; q++)
    if (phases[q].fixed_bytes + s->batch * phases[q].sample_bytes + early[q] +
            phases[p].load_bytes >
        s->budget / AHEAD_ROOM)
      return false;
  for (; k < s->graph->kernel_count && s->out->kernels[k].phase == p; k++)
    if (used_since(s, k, first)) return false;
  return true;
}

wafer_status size_ahead(streaming *s) {
  uint32_t count = s->out->phase_count, k = 0; /* first kernel of the phase */
  uint64_t *early = WAFER_NEW(s->ctx->arena, uint64_t, count);
  walk w = {.machine = s->ctx->machine, .of = s->out, .batch = s->batch, .spreads = true};
  if (!early) return streaming_no_memory(s);
  for (uint32_t p = 0; p < count; p++) {
    size_phase *phase = &s->out->phases[p];
    uint32_t *ahead = &phase->ahead;
    enter(&w, p);
    *ahead = 1;
    while (s->out->kernels[k].phase < p) k++;
    while (phase->weights && *ahead < AHEAD_MOST && *ahead < p &&
           leaves(&w, p, *ahead) > w.memoryx &&
           leaves(&w, p, *ahead) + way(&w, phase) > w.start + phase->in &&
           has_room(s, early, p, k, p - *ahead - 1))
      ++*ahead;
    for (uint32_t q = p > *ahead ? p - *ahead : 0; q < p; q++) early[q] += phase->load_bytes;
    pass(&w, p);
  }
  return WAFER_OK;
}

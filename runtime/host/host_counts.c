/* What the wafer did in the calls of a host plan: the counts of one call after the other, in one
 * row. */
#include "host_counts.h"

#include <string.h>


struct host_counts {
  wafer_arena *arena;
  const wafer_plan *plan;
  uint64_t samples; /* since it forgot */
  const wafer_loads *loads;
  uint32_t last; /* function that ran on the wafer; WAFER_NONE: none has */
  wafer_run_stats sum;
  /* What the sum's arrays are; `load` of fabric fidelity asks for the last four. */
  uint64_t *kernel_busy, *stream_busy, *phase_cycles, *phase_runs, *core_cycles, *link_wavelets;
  wafer_load *kernel_load, *phase_load;
  wafer_watch shifted;
  const wafer_watch *watch;
};

static size_t cores_of(const wafer_plan *plan) {
  const wafer_machine *wafer = wafer_machine_whole(plan->machine);
  return (size_t)wafer->width * wafer->height;
}

/* Calls follow each other. */
static void shift(void *self, const wafer_span *span) {
  const host_counts *c = self;
  wafer_span told = *span;
  told.start += c->sum.total_cycles;
  told.sample = c->samples;
  c->watch->span(c->watch->self, &told);
}

static bool make_load(host_counts *c) {
  c->core_cycles = WAFER_NEW(c->arena, uint64_t, cores_of(c->plan));
  c->link_wavelets = WAFER_NEW(c->arena, uint64_t, cores_of(c->plan) * WAFER_LINKS);
  c->kernel_load = WAFER_NEW(c->arena, wafer_load, c->plan->kernel_count);
  c->phase_load = WAFER_NEW(c->arena, wafer_load, c->plan->phase_count);
  return c->core_cycles && c->link_wavelets && c->kernel_load && c->phase_load;
}

host_counts *host_counts_create(const wafer_plan *plan, wafer_session_options *options) {
  wafer_arena *arena = wafer_arena_create();
  host_counts *c = arena ? WAFER_NEW(arena, host_counts, 1) : NULL;
  bool fabric = options->fidelity == WAFER_FIDELITY_fabric;
  if (!c) {
    wafer_arena_destroy(arena);
    return NULL;
  }
  *c = (host_counts){.arena = arena,
                     .plan = plan,
                     .loads = wafer_loads_of(arena, plan),
                     .last = WAFER_NONE,
                     .kernel_busy = WAFER_NEW(arena, uint64_t, plan->kernel_count),
                     .stream_busy = WAFER_NEW(arena, uint64_t, plan->stream_count),
                     .phase_cycles = WAFER_NEW(arena, uint64_t, plan->phase_count),
                     .phase_runs = WAFER_NEW(arena, uint64_t, plan->phase_count),
                     .watch = options->watch};
  if (c->watch) {
    c->shifted = (wafer_watch){c, shift, c->watch->cores, c->watch->core_count};
    options->watch = &c->shifted;
  }
  bool made = c->loads && c->kernel_busy && c->stream_busy && c->phase_cycles && c->phase_runs;
  if (made && fabric && options->load) made = make_load(c);
  if (made) {
    host_counts_forget(c);
    return c;
  }
  host_counts_destroy(c);
  return NULL;
}

void host_counts_destroy(host_counts *c) {
  if (c) wafer_arena_destroy(c->arena);
}

void host_counts_forget(host_counts *c) {
  const wafer_plan *plan = c->plan;
  memset(c->kernel_busy, 0, plan->kernel_count * sizeof *c->kernel_busy);
  memset(c->stream_busy, 0, plan->stream_count * sizeof *c->stream_busy);
  memset(c->phase_cycles, 0, plan->phase_count * sizeof *c->phase_cycles);
  memset(c->phase_runs, 0, plan->phase_count * sizeof *c->phase_runs);
  if (c->core_cycles) {
    memset(c->core_cycles, 0, cores_of(plan) * sizeof *c->core_cycles);
    memset(c->link_wavelets, 0, cores_of(plan) * WAFER_LINKS * sizeof *c->link_wavelets);
    memset(c->kernel_load, 0, plan->kernel_count * sizeof *c->kernel_load);
    memset(c->phase_load, 0, plan->phase_count * sizeof *c->phase_load);
  }
  c->samples = 0;
  c->sum = (wafer_run_stats){.kernel_busy = c->kernel_busy,
                             .stream_busy = c->stream_busy,
                             .phase_cycles = c->phase_cycles,
                             .phase_runs = c->phase_runs,
                             .core_cycles = c->core_cycles,
                             .link_wavelets = c->link_wavelets,
                             .kernel_load = c->kernel_load,
                             .phase_load = c->phase_load};
}

static void add(uint64_t *to, const uint64_t *more, size_t count) {
  for (size_t i = 0; to && more && i < count; i++) to[i] += more[i];
}

static void add_load(wafer_load *to, const wafer_load *more, size_t count) {
  for (size_t i = 0; to && more && i < count; i++) {
    to[i].core_cycles += more[i].core_cycles;
    to[i].wavelets += more[i].wavelets;
  }
}

void host_counts_load(host_counts *c, uint32_t function) {
  c->sum.total_cycles += wafer_loads_cycles(c->loads, function, c->last);
  c->last = function;
}

void host_counts_call(host_counts *c, uint32_t function, const wafer_run_stats *of) {
  const wafer_plan *plan = c->plan;
  const wafer_function *f = &plan->functions[function];
  c->sum.total_cycles += of->total_cycles;
  c->sum.hops += of->hops;
  c->sum.elements += of->elements;
  add_load(&c->sum.all, &of->all, 1);
  add(c->kernel_busy, of->kernel_busy, plan->kernel_count);
  add(c->stream_busy, of->stream_busy, plan->stream_count);
  add(c->phase_cycles, of->phase_cycles, plan->phase_count);
  add(c->core_cycles, of->core_cycles, cores_of(plan));
  add(c->link_wavelets, of->link_wavelets, cores_of(plan) * WAFER_LINKS);
  add_load(c->kernel_load, of->kernel_load, plan->kernel_count);
  add_load(c->phase_load, of->phase_load, plan->phase_count);
  for (uint32_t i = 0; i < f->step_count; i++)
    if (f->steps[i].kind == WAFER_STEP_phase) c->phase_runs[f->steps[i].phase]++;
}

void host_counts_sample(host_counts *c) {
  if (c->samples++ == 0) c->sum.latency_cycles = c->sum.total_cycles;
}

wafer_run_stats host_counts_stats(const host_counts *c) {
  wafer_run_stats stats = c->sum;
  stats.samples = c->samples;
  stats.interval_cycles = c->samples ? c->sum.total_cycles / c->samples : 0;
  return stats;
}

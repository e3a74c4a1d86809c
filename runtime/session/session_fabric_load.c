/* What cores and links did in a run, by kernel and phase; and faults, whose cycles count from the
 * beginning of the run over all of its launches. */
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric_session.h"

/* ---- load ---- */

wafer_status session_fabric_load_begin(session_fabric *s) {
  const wafer_plan *plan = s->plan;
  const wafer_machine *wafer = wafer_machine_whole(plan->machine);
  size_t cores = (size_t)wafer->width * wafer->height;
  fabric_load *l = &s->load;
  *l = (fabric_load){.core_cycles = calloc(cores, sizeof(uint64_t)),
                     .wavelets = calloc(cores * WAFER_LINKS, sizeof(uint64_t)),
                     .kernels = WAFER_NEW(s->arena, wafer_load, plan->kernel_count),
                     .phases = WAFER_NEW(s->arena, wafer_load, plan->phase_count)};
  if (!l->core_cycles || !l->wavelets || !l->kernels || !l->phases)
    return session_fabric_no_memory(s);
  s->stats.core_cycles = l->core_cycles;
  s->stats.link_wavelets = l->wavelets;
  s->stats.kernel_load = l->kernels;
  s->stats.phase_load = l->phases;
  wafer_fabric_count(s->fabric, true);
  return WAFER_OK;
}

void session_fabric_load_clear(session_fabric *s) {
  const wafer_plan *plan = s->plan;
  const wafer_machine *wafer = wafer_machine_whole(plan->machine);
  size_t cores = (size_t)wafer->width * wafer->height;
  s->stats.all = (wafer_load){0};
  if (!s->load.core_cycles) return;
  memset(s->load.core_cycles, 0, cores * sizeof(uint64_t));
  memset(s->load.wavelets, 0, cores * WAFER_LINKS * sizeof(uint64_t));
  memset(s->load.kernels, 0, plan->kernel_count * sizeof(wafer_load));
  memset(s->load.phases, 0, plan->phase_count * sizeof(wafer_load));
}

static void add(wafer_load *to, uint64_t core_cycles, uint64_t wavelets) {
  to->core_cycles += core_cycles;
  to->wavelets += wavelets;
}

/* All that the cores of a kernel have done so far, in all bands and stripes. */
static wafer_load of_kernel(const session_fabric *s, const wafer_kernel *k) {
  const wafer_machine *m = s->plan->machine;
  uint32_t bands = wafer_machine_bands(m), columns = s->plan->stripe_columns;
  wafer_load sum = {0};
  for (uint32_t b = 0; b < bands; b++) {
    wafer_rect r = session_fabric_rect(s, b, k->rect);
    for (uint32_t i = 0; i < r.height * s->plan->stripes * r.width; i++) {
      uint32_t row = i / (s->plan->stripes * r.width), col = i % (s->plan->stripes * r.width);
      uint32_t x = r.x + col / r.width * columns + col % r.width;
      size_t core = (size_t)(r.y + row) * wafer_machine_whole(m)->width + x;
      const uint64_t *links = &s->load.wavelets[core * WAFER_LINKS];
      add(&sum, s->load.core_cycles[core], links[0] + links[1] + links[2] + links[3]);
    }
  }
  return sum;
}

/* Adds what the kernels of actions [first, end) have done so far, or takes it away. */
static void add_kernels(session_fabric *s, const wafer_phase *phase, uint32_t first, uint32_t end,
                        bool away) {
  for (uint32_t a = first; a < end; a++) {
    if (phase->actions[a].kind != WAFER_ACTION_kernel) continue;
    uint32_t k = phase->actions[a].index;
    wafer_load done = of_kernel(s, &s->plan->kernels[k]);
    if (away) done = (wafer_load){-done.core_cycles, -done.wavelets};
    add(&s->load.kernels[k], done.core_cycles, done.wavelets);
  }
}

/* Where kernels run at once cores belong to them; else launches do. */
void session_fabric_load_launch(session_fabric *s, const fabric_launch *l) {
  const wafer_phase *phase = &s->plan->phases[l->of->phase];
  bool train = l->of->kind == WAFER_LAUNCH_train, action = l->of->kind == WAFER_LAUNCH_action;
  uint32_t first = action ? l->of->action : 0;
  uint32_t end = train ? phase->action_count : action ? wafer_phase_run_end(phase, first) : 0;
  bool apart = train || end > first + 1;
  add(&s->stats.all, l->stats.core_cycles, l->stats.hops);
  if (!s->load.core_cycles) return;
  add(&s->load.phases[l->of->phase], l->stats.core_cycles, l->stats.hops);
  if (apart) add_kernels(s, phase, first, end, true);
  wafer_fabric_load(s->fabric, s->load.core_cycles, s->load.wavelets);
  if (apart) add_kernels(s, phase, first, end, false);
  if (apart || !action || phase->actions[first].kind != WAFER_ACTION_kernel) return;
  add(&s->load.kernels[phase->actions[first].index], l->stats.core_cycles, l->stats.hops);
}

/* ---- faults ---- */

/* What the cost model says, with room for its errors and for what faults do. */
static uint64_t limit_of(const fabric_launch *l, uint64_t samples) {
  uint64_t cycles = l->of->predicted + l->of->interval * (samples - 1);
  return cycles > UINT64_MAX / 32 ? UINT64_MAX : 16 * cycles + 1000000;
}

session_faults *session_faults_create(const wafer_fault *faults, uint32_t count) {
  session_faults *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  *f = (session_faults){.count = count,
                        .at = calloc((size_t)count + 1, sizeof *f->at),
                        .struck = calloc((size_t)count + 1, sizeof *f->struck)};
  if (!f->at || !f->struck) {
    session_faults_destroy(f);
    return NULL;
  }
  if (count) memcpy(f->at, faults, count * sizeof *faults);
  for (uint32_t i = 0; i < count; i++) f->struck[i] = UINT64_MAX;
  return f;
}

void session_faults_destroy(session_faults *f) {
  if (!f) return;
  free(f->at);
  free(f->struck);
  free(f);
}

void session_fabric_share_faults(session_fabric *s, session_faults *faults) {
  s->faults = faults;
  s->shared = true;
  s->stats.fault_struck = faults->struck;
}

/* What has struck is over; a core that is stuck stays so. */
wafer_status session_fabric_inject(session_fabric *s, const fabric_launch *l, uint64_t samples) {
  session_faults *f = s->faults;
  if (!f) return WAFER_OK;
  for (uint32_t i = 0; i < f->count; i++)
    if (f->struck[i] != UINT64_MAX && f->at[i].kind != WAFER_FAULT_stuck)
      f->at[i].cycle = UINT64_MAX;
  return wafer_fabric_inject(s->fabric, f->at, f->count, f->start + s->start, limit_of(l, samples));
}

void session_fabric_faults_launch(session_fabric *s) {
  session_faults *f = s->faults;
  for (uint32_t i = 0; f && i < f->count; i++) {
    uint64_t cycle = wafer_fabric_struck(s->fabric, i);
    if (f->struck[i] == UINT64_MAX) f->struck[i] = cycle;
  }
}

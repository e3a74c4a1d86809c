/* Samples go in turn to the bands of a wafer, which share nothing but its edge. */
#include <stdlib.h>

#include "timeline.h"

/* Cycles for which a sample keeps the wafer's edge busy, the longer direction. */
static uint64_t edge_cycles(const wafer_plan *plan, const wafer_function *f) {
  const wafer_machine *m = plan->machine;
  uint64_t in = 0, out = 0;
  for (uint32_t s = 0; s < f->step_count; s++) {
    const wafer_phase *phase = &plan->phases[f->steps[s].phase];
    for (uint32_t a = 0; f->steps[s].kind == WAFER_STEP_phase && a < phase->action_count; a++) {
      const wafer_stream *t = &plan->streams[phase->actions[a].index];
      if (phase->actions[a].kind != WAFER_ACTION_stream) continue;
      uint64_t bytes = t->words * WAFER_WAVELET_BYTES;
      if (t->from.where == WAFER_AT_edge)
        in += wafer_machine_transfer_cycles(m, bytes, m->edge_in_bytes_per_second);
      if (t->to.where == WAFER_AT_edge)
        out += wafer_machine_transfer_cycles(m, bytes, m->edge_out_bytes_per_second);
    }
  }
  return in > out ? in : out;
}

/* From when each sample of the first band is done to when each of the train is; bands begin one
 * after the other, as the edge brings their samples. Backwards, in place. */
static uint64_t deal(uint64_t *finish, uint64_t samples, uint32_t bands, uint64_t edge) {
  uint64_t first = finish[0], last = 0;
  for (uint64_t s = samples; s-- > 0;) {
    uint64_t end = finish[s / bands] + s % bands * edge, brought = first + s * edge;
    finish[s] = end > brought ? end : brought;
    last = finish[s] > last ? finish[s] : last;
  }
  return last;
}

wafer_status timeline_bands(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                            uint64_t samples, wafer_timeline *out) {
  uint32_t bands = wafer_machine_bands(plan->machine);
  uint64_t own = (samples + bands - 1) / bands, edge, last;
  wafer_timeline one = *out;
  if (bands == 1 || samples == 0) return timeline_unit(diag, plan, function, samples, out);
  uint64_t *finish = out->finish ? out->finish : calloc(samples, sizeof *finish);
  if (!finish)
    return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                      "no memory left for the timeline");
  one.finish = finish;
  wafer_status status = timeline_unit(diag, plan, function, own, &one);
  edge = edge_cycles(plan, &plan->functions[function]);
  last = finish[own - 1];
  out->latency_cycles = one.latency_cycles;
  out->total_cycles = one.total_cycles - last + deal(finish, samples, bands, edge);
  out->interval_cycles = own > 1 ? (one.interval_cycles + bands - 1) / bands : edge;
  if (out->interval_cycles < edge) out->interval_cycles = edge;
  if (samples == 1) out->interval_cycles = out->latency_cycles;
  for (uint32_t k = 0; out->kernel_busy && k < plan->kernel_count; k++)
    out->kernel_busy[k] = out->kernel_busy[k] / own * samples;
  if (finish != out->finish) free(finish);
  return status;
}

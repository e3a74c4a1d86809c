/* Samples go in turn to the bands of a wafer, which share nothing but its edge. */
#include "timeline.h"

/* From when each sample of the first band is done to when each of the train is: bands, which have
 * the edge in turn, keep step. Backwards, in place. */
static void deal(uint64_t *finish, uint64_t samples, uint32_t bands) {
  for (uint64_t s = samples; s-- > 0;) finish[s] = finish[s / bands];
}

wafer_status timeline_bands(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                            uint64_t samples, wafer_timeline *out) {
  uint32_t all = wafer_machine_bands(plan->machine),
           bands = samples < all ? (uint32_t)samples : all;
  if (bands <= 1) return timeline_unit(diag, plan, function, samples, 1, out);
  uint64_t own = (samples + bands - 1) / bands;
  wafer_status status = timeline_unit(diag, plan, function, own, bands, out);
  out->interval_cycles = (out->interval_cycles + bands - 1) / bands;
  if (out->finish) deal(out->finish, samples, bands);
  for (uint32_t k = 0; out->kernel_busy && k < plan->kernel_count; k++)
    out->kernel_busy[k] = out->kernel_busy[k] / own * samples;
  return status;
}

/* Samples go in turn to the bands of a wafer, which share nothing but its edge: those of a pipeline
 * one after the other, those of weight streaming together. */
#include <stdlib.h>

#include "timeline.h"

/* Cycles for which a sample keeps the wafer's edge busy. */
typedef struct edge_share {
  uint64_t in, out;
} edge_share;

static edge_share edge_of(const wafer_plan *plan, const wafer_function *f) {
  const wafer_machine *m = plan->machine;
  edge_share edge = {0};
  for (uint32_t s = 0; s < f->step_count; s++) {
    const wafer_phase *phase = &plan->phases[f->steps[s].phase];
    for (uint32_t a = 0; f->steps[s].kind == WAFER_STEP_phase && a < phase->action_count; a++) {
      const wafer_stream *t = &plan->streams[phase->actions[a].index];
      if (phase->actions[a].kind != WAFER_ACTION_stream) continue;
      uint64_t bytes = t->words * WAFER_WAVELET_BYTES;
      if (t->from.where == WAFER_AT_edge)
        edge.in += wafer_machine_transfer_cycles(m, bytes, m->edge_in_bytes_per_second);
      if (t->to.where == WAFER_AT_edge)
        edge.out += wafer_machine_transfer_cycles(m, bytes, m->edge_out_bytes_per_second);
    }
  }
  return edge;
}

/* A value of a sample that leaves the wafer: its first word is at the edge in cycle `from`. */
typedef struct leaving {
  uint64_t from, cycles, sample;
  size_t order;
} leaving;

static int by_time(const void *a, const void *b) {
  const leaving *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

/* Values leave one after the other, those of a first sample as `list` says, when and for how long,
 * with `latency` on the way. Samples are done as `finish` says, unless the edge is busy with
 * others. False: no memory. */
static bool leave(const uint64_t *list, size_t count, uint64_t latency, uint64_t *finish,
                  uint64_t samples) {
  size_t each = count / 2;
  uint64_t first = finish[0], passed = 0;
  leaving *all = calloc(samples, (each ? each : 1) * sizeof *all);
  if (!all) return false;
  for (size_t i = 0; i < samples * each; i++) {
    const uint64_t *of = &list[2 * (i % each)];
    all[i] = (leaving){of[0] + finish[i / each] - first, of[1], i / each, i};
  }
  qsort(all, samples * each, sizeof *all, by_time);
  for (size_t i = 0; i < samples * each; i++) {
    uint64_t *end = &finish[all[i].sample];
    passed = (passed > all[i].from ? passed : all[i].from) + all[i].cycles;
    if (passed + latency > *end) *end = passed + latency;
  }
  free(all);
  return true;
}

static wafer_status no_memory(const wafer_diag *diag, const wafer_plan *plan) {
  return wafer_fail(diag, wafer_at_file(plan->model), WAFER_NO_MEMORY,
                    "no memory left for the timeline");
}

/* The train of the plan's launches that knows when values leave; NULL: none. */
static const wafer_launch *train_of(const wafer_plan *plan) {
  for (uint32_t i = 0; i < plan->launch_count; i++)
    if (plan->launches[i].kind == WAFER_LAUNCH_train && plan->launches[i].leaving_count)
      return &plan->launches[i];
  return NULL;
}

/* From when each sample of the first band is done to when each of the train is: bands begin one
 * after the other, as the edge brings their samples, and it lets out what they make. Where no train
 * tells, all words of a sample leave at its end. Backwards, in place. False: no memory. */
static bool deal(const wafer_plan *plan, const edge_share *edge, uint64_t *finish,
                 uint64_t samples) {
  uint32_t bands = wafer_machine_bands(plan->machine);
  const wafer_launch *train = train_of(plan);
  uint64_t first = finish[0];
  const uint64_t at_end[2] = {first > edge->out ? first - edge->out : 0, edge->out};
  for (uint64_t s = samples; s-- > 0;) {
    uint64_t end = finish[s / bands] + s % bands * edge->in, brought = first + s * edge->in;
    finish[s] = end > brought ? end : brought;
  }
  if (!train) return leave(at_end, 2, 0, finish, samples);
  return leave(train->leaving, train->leaving_count,
               2 * (uint64_t)plan->machine->edge_latency_cycles, finish, samples);
}

/* A pipeline of several bands. */
static wafer_status run_in_turn(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                                uint64_t samples, uint64_t *finish, wafer_timeline *out) {
  uint32_t bands = wafer_machine_bands(plan->machine);
  uint64_t own = (samples + bands - 1) / bands, last, latest = 0;
  edge_share edge = edge_of(plan, &plan->functions[function]);
  uint64_t busiest = edge.in > edge.out ? edge.in : edge.out;
  wafer_timeline one = *out;
  one.finish = finish;
  wafer_status status = timeline_unit(diag, plan, function, own, &one);
  last = finish[own - 1];
  if (status == WAFER_OK && !deal(plan, &edge, finish, samples)) status = no_memory(diag, plan);
  for (uint64_t s = 0; s < samples; s++) latest = finish[s] > latest ? finish[s] : latest;
  out->latency_cycles = one.latency_cycles;
  out->total_cycles = one.total_cycles - last + latest;
  out->interval_cycles = own > 1 ? (one.interval_cycles + bands - 1) / bands : busiest;
  if (out->interval_cycles < busiest) out->interval_cycles = busiest;
  for (uint32_t k = 0; out->kernel_busy && k < plan->kernel_count; k++)
    out->kernel_busy[k] = out->kernel_busy[k] / own * samples;
  return status;
}

/* Weight streaming: bands do the same at the same time, with the edge's rates shared out; a round
 * that is not full is filled up. */
static wafer_status run_together(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                                 uint64_t samples, uint64_t *finish, wafer_timeline *out) {
  uint32_t bands = wafer_machine_bands(plan->machine);
  uint64_t own = (samples + bands - 1) / bands;
  wafer_timeline one = *out;
  one.finish = finish;
  WAFER_TRY(timeline_unit(diag, plan, function, own, &one));
  for (uint64_t s = samples; s-- > 0;) finish[s] = finish[s / bands];
  out->latency_cycles = one.latency_cycles;
  out->total_cycles = one.total_cycles;
  uint64_t all = own > 1 ? one.interval_cycles : one.total_cycles;
  uint64_t in_one = own > 1 ? bands : samples;
  out->interval_cycles = (all + in_one - 1) / in_one;
  for (uint32_t k = 0; out->kernel_busy && k < plan->kernel_count; k++)
    out->kernel_busy[k] = out->kernel_busy[k] / own * samples;
  return WAFER_OK;
}

wafer_status timeline_bands(const wafer_diag *diag, const wafer_plan *plan, uint32_t function,
                            uint64_t samples, wafer_timeline *out) {
  bool together = plan->machine->cut.together;
  if (wafer_machine_bands(plan->machine) == 1 || samples == 0)
    return timeline_unit(diag, plan, function, samples, out);
  uint64_t *finish = out->finish ? out->finish : calloc(samples, sizeof *finish);
  if (!finish) return no_memory(diag, plan);
  wafer_status status =
      (together ? run_together : run_in_turn)(diag, plan, function, samples, finish, out);
  if (samples == 1) out->interval_cycles = out->latency_cycles;
  if (finish != out->finish) free(finish);
  return status;
}

/* Figures of a plan:
 * - Samples/s: clock / interval, the interval of a train through the timeline; of one replica: of
 *   the plan with one replica of every kernel
 * - Compute Samples/s: clock / slowest kernel (pipelined) or / sum of kernels (streaming): no edge,
 *   no streams
 * - Transmission Samples/s: clock / cycles that the edge needs for one sample's inputs or outputs,
 *   and in streaming the batch's share of the weights
 * - Active PEs: cores inside a kernel's rectangle, of the usable ones
 * - Compute Utilization: operations of one sample / (interval * usable cores * 2 *
 *   multiply-accumulates a cycle)
 * Of a model in several functions a sample is that of the way that takes longest (report_way.c),
 * and what is said of a pipeline or of streaming is of each function, one after the other. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

static uint64_t max64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

static uint64_t storage_bytes(const wafer_plan *plan, const wafer_type *type) {
  int64_t elements = 0;
  (void)wafer_shape_elements(&type->shape, &elements);
  return (uint64_t)elements * wafer_stored_bytes(type->dtype, plan->storage);
}

/* Of a sparse one non-zeros alone stream. */
static uint64_t bytes_of_weight(const wafer_plan *plan, const wafer_value *value) {
  const wafer_weight *w = wafer_weights_at(plan->weights, value->weight);
  uint64_t bytes = storage_bytes(plan, &value->type), pairs = UINT64_MAX;
  if (w->sparse)
    pairs = WAFER_WAVELET_BYTES * wafer_sparse_words(&value->type, plan->storage, w->nonzeros);
  return pairs < bytes ? pairs : bytes;
}

/* Bytes of a function's weights. */
static uint64_t weight_bytes(const wafer_plan *plan, const report_way *way, uint32_t function) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < plan->value_count; i++)
    if (plan->values[i].weight != WAFER_NONE && way->of_weight[i] == function)
      bytes += bytes_of_weight(plan, &plan->values[i]);
  return bytes;
}

/* In streaming weights come in with the inputs, once for all samples that are resident; a
 * pipeline's come where the function before it has not left them. */
static void measure_traffic(report *r, const report_way *way) {
  const wafer_plan *plan = r->plan;
  const wafer_machine *m = wafer_machine_whole(plan->machine);
  const uint64_t rate = m->edge_in_bytes_per_second < m->memoryx_bytes_per_second
                            ? m->edge_in_bytes_per_second
                            : m->memoryx_bytes_per_second;
  const bool streams = plan->mode == WAFER_MODE_streaming;
  for (uint32_t f = 0; f < plan->function_count; f++) {
    const wafer_call *c = &way->calls[f];
    if (!c->calls) continue;
    wafer_edge_traffic edge = wafer_plan_edge_traffic(plan, f);
    const uint64_t weights = weight_bytes(plan, way, f), loads = streams ? c->calls : c->loads,
                   in =
                       wafer_machine_transfer_cycles(m, edge.in_bytes, m->edge_in_bytes_per_second);
    uint64_t wait = loads ? c->waits / loads : 0, bytes = weights;
    if (streams) wait = wafer_machine_transfer_cycles(m, weights, rate) / plan->batch;
    if (streams) bytes = c->calls * weights;
    if (c->waits) bytes = (uint64_t)((unsigned __int128)weights * c->waits / c->load);
    r->edge_in_bytes += c->calls * edge.in_bytes;
    r->edge_out_bytes += c->calls * edge.out_bytes;
    r->weight_bytes += bytes;
    r->edge_cycles +=
        loads * max64(in + wait, edge.cycles) + (c->calls - loads) * max64(in, edge.cycles);
  }
}

/* Between samples: copies share them out. */
static uint64_t kernel_interval(const wafer_kernel *k) {
  return (wafer_kernel_cycles(k) + k->replicas - 1) / k->replicas;
}

static uint32_t slowest_kernel(const wafer_plan *plan) {
  uint32_t slowest = 0;
  for (uint32_t i = 1; i < plan->kernel_count; i++)
    if (kernel_interval(&plan->kernels[i]) > kernel_interval(&plan->kernels[slowest])) slowest = i;
  return slowest;
}

/* Of a call of one function: its slowest kernel in a pipeline, all of them in streaming; and the
 * cores that they have, over the cycles of the phases in streaming. */
static void measure_function(report *r, const report_way *way, uint32_t function, double *cores) {
  const wafer_plan *plan = r->plan;
  const uint64_t bands = wafer_machine_bands(plan->machine), calls = way->calls[function].calls;
  uint64_t sum = 0, slowest = 0;
  double core_cycles = 0;
  *cores = 0;
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    const wafer_kernel *k = &plan->kernels[i];
    if (way->of_kernel[i] != function) continue;
    double area = (double)wafer_rect_area(k->rect) * k->replicas * bands * plan->stripes;
    uint64_t replicas = (uint64_t)k->replicas * bands;
    sum += wafer_kernel_cycles(k);
    slowest = max64(slowest, (wafer_kernel_cycles(k) + replicas - 1) / replicas);
    r->operations += calls * k->cost.operations;
    *cores += area;
    core_cycles += area * (double)wafer_kernel_cycles(k);
  }
  if (plan->mode == WAFER_MODE_streaming) {
    uint64_t copies = plan->stripes * bands;
    slowest = (sum + copies - 1) / copies;
    *cores = sum ? core_cycles / (double)sum : 0;
  }
  r->compute_cycles += calls * slowest;
}

/* Functions follow each other: cores are the mean over what they take. */
static void measure_kernels(report *r, const report_way *way) {
  double all = 0, cores;
  for (uint32_t f = 0; f < r->plan->function_count; f++) {
    if (!way->calls[f].calls) continue;
    measure_function(r, way, f, &cores);
    double cycles = way->several ? (double)report_way_spent(way, f) : 1;
    r->active_cores += cores * cycles;
    all += cycles;
  }
  if (all > 0) r->active_cores /= all;
}

/* Where programs say how long a pipeline's cores take: what they do one after the other. False: no
 * such programs, or something else takes longer. */
static bool name_slowest(report *r) {
  const wafer_plan *plan = r->plan;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const wafer_launch *l = &plan->launches[i];
    uint64_t bands = wafer_machine_bands(plan->machine),
             interval = (l->interval + bands - 1) / bands;
    if (l->slowest == WAFER_NONE || interval <= r->edge_cycles) continue;
    const wafer_kernel *k = &plan->kernels[l->slowest];
    snprintf(r->bottleneck, sizeof r->bottleneck,
             "kernel %s: its %ux%u cores do not compute (%llu cycles) while they receive and send, "
             "%llu cycles per sample%s",
             k->name, k->rect.width, k->rect.height, (unsigned long long)wafer_kernel_cycles(k),
             (unsigned long long)l->interval, bands > 1 ? " of a band" : "");
    return true;
  }
  return false;
}

#define WAITING_PART 16 /* of the interval: less is no matter */

static const char *copies_of(const wafer_kernel *k, char *to, size_t size) {
  snprintf(to, size, "each of %u times ", k->replicas);
  return k->replicas > 1 ? to : "";
}

/* Samples go one by one through functions, one by one: the one that takes most of it. */
static void name_function(report *r, const report_way *way) {
  typedef unsigned long long ull;
  const wafer_plan *plan = r->plan;
  const uint32_t f = report_way_longest(way, plan->function_count);
  if (!way->calls[f].calls) {
    snprintf(r->bottleneck, sizeof r->bottleneck, "nothing runs on the wafer");
    return;
  }
  snprintf(r->bottleneck, sizeof r->bottleneck,
           "function %s: %llu of the %llu cycles of a sample, for which kernels alone would take "
           "%llu, and the edge with inputs, outputs and weights %llu",
           plan->functions[f].name, (ull)report_way_spent(way, f), (ull)r->interval_cycles,
           (ull)r->compute_cycles, (ull)r->edge_cycles);
}

static void name_bottleneck(report *r, const report_way *way) {
  const wafer_plan *plan = r->plan;
  char copies[32];
  if (way->several) {
    name_function(r, way);
    return;
  }
  if (name_slowest(r)) return;
  uint64_t stream = 0, bands = wafer_machine_bands(plan->machine);
  uint32_t widest = WAFER_NONE;
  for (uint32_t i = 0; i < plan->stream_count; i++)
    if (plan->streams[i].from.where == WAFER_AT_wafer &&
        plan->streams[i].to.where == WAFER_AT_wafer && plan->streams[i].cycles > stream) {
      stream = plan->streams[i].cycles;
      widest = i;
    }
  const wafer_kernel *k = plan->kernel_count ? &plan->kernels[slowest_kernel(plan)] : NULL;
  stream = (stream + bands - 1) / bands; /* of a sample, as the other two */
  uint64_t most = max64(r->edge_cycles, max64(r->compute_cycles, stream));
  bool waits = plan->mode == WAFER_MODE_pipelined && k &&
               r->interval_cycles - r->interval_cycles / WAITING_PART > most;
  if (waits) {
    snprintf(r->bottleneck, sizeof r->bottleneck,
             "samples wait for each other, for room in buffers or for turns of streams: kernels, "
             "streams and edge alone would take %llu of the %llu cycles per sample",
             (unsigned long long)most, (unsigned long long)r->interval_cycles);
    return;
  }
  if (r->edge_cycles >= r->compute_cycles && r->edge_cycles >= stream)
    snprintf(r->bottleneck, sizeof r->bottleneck,
             "the wafer's edge: %llu B in and %llu B out per sample%s take %llu cycles",
             (unsigned long long)r->edge_in_bytes, (unsigned long long)r->edge_out_bytes,
             plan->mode == WAFER_MODE_streaming ? ", and the weights," : "",
             (unsigned long long)r->edge_cycles);
  else if (plan->mode == WAFER_MODE_pipelined && stream > r->compute_cycles)
    snprintf(r->bottleneck, sizeof r->bottleneck, "the stream of '%s': %llu cycles per sample",
             plan->values[plan->streams[widest].value].name, (unsigned long long)stream);
  else if (k)
    snprintf(r->bottleneck, sizeof r->bottleneck,
             "kernel %s: %llu cycles per sample%s on %s%ux%u cores", k->name,
             (unsigned long long)wafer_kernel_cycles(k), bands > 1 ? " of a band" : "",
             copies_of(k, copies, sizeof copies), k->rect.width, k->rect.height);
}

/* Long enough for every replica to have had several samples. */
static uint64_t pipelined_train(const wafer_plan *plan) {
  uint64_t most = 16;
  for (uint32_t i = 0; i < plan->kernel_count; i++) most = max64(most, plan->kernels[i].replicas);
  return 4 * most * wafer_machine_bands(plan->machine);
}

/* The interval of the same plan with one replica of every kernel, if any has more. */
static wafer_status time_one_replica(const wafer_diag *diag, report *r) {
  wafer_plan plan = *r->plan;
  size_t bytes = plan.kernel_count * sizeof *plan.kernels;
  bool many = false;
  for (uint32_t i = 0; i < plan.kernel_count; i++) many |= plan.kernels[i].replicas > 1;
  if (!many) return WAFER_OK;
  wafer_kernel *kernels = malloc(bytes);
  if (!kernels)
    return wafer_fail(diag, wafer_at_file(plan.model), WAFER_NO_MEMORY, "no memory for a report");
  memcpy(kernels, plan.kernels, bytes);
  for (uint32_t i = 0; i < plan.kernel_count; i++) kernels[i].replicas = 1;
  plan.kernels = kernels;
  plan.launch_count = 0;
  const wafer_ctx ctx = {.machine = plan.machine, .arena = wafer_arena_create(), .diag = diag};
  const wafer_plan *alone = &plan;
  wafer_timeline timeline = {0};
  wafer_status status = WAFER_OK;
  if (!ctx.arena)
    status = wafer_fail(diag, wafer_at_file(plan.model), WAFER_NO_MEMORY, "no memory for a report");
  if (status == WAFER_OK && r->plan->launch_count) /* timed by their programs, both */
    status = wafer_plan_add_programs(&ctx, &plan, false, &alone);
  if (status == WAFER_OK) status = wafer_timeline_run(diag, alone, 0, r->train_samples, &timeline);
  wafer_arena_destroy(ctx.arena);
  free(kernels);
  r->one_replica_interval_cycles = max64(timeline.interval_cycles, 1);
  return status;
}

/* The interval of the pipeline of one band. */
static wafer_status time_one_band(const wafer_diag *diag, report *r) {
  wafer_plan plan = *r->plan;
  wafer_machine band = *plan.machine;
  wafer_timeline timeline = {0};
  if (!band.whole) return WAFER_OK;
  band.whole = NULL;
  plan.machine = &band;
  WAFER_TRY(wafer_timeline_run(diag, &plan, 0, r->train_samples, &timeline));
  r->one_band_interval_cycles = max64(timeline.interval_cycles, 1);
  return WAFER_OK;
}

wafer_status report_make(const wafer_diag *diag, const wafer_plan *plan, report *out) {
  *out = (report){.plan = plan};
  wafer_timeline timeline = {0};
  out->train_samples =
      plan->mode == WAFER_MODE_streaming ? 4 * wafer_plan_together(plan) : pipelined_train(plan);
  WAFER_TRY(wafer_timeline_run(diag, plan, 0, out->train_samples, &timeline));
  out->latency_cycles = timeline.latency_cycles;
  out->interval_cycles = max64(timeline.interval_cycles, 1);
  WAFER_TRY(time_one_replica(diag, out));
  WAFER_TRY(time_one_band(diag, out));
  report_way way;
  WAFER_TRY(report_way_find(diag, plan, &way));
  measure_traffic(out, &way);
  measure_kernels(out, &way);
  if (plan->mode == WAFER_MODE_pipelined) /* a train is no whole number of turns of all copies */
    out->interval_cycles = max64(out->interval_cycles, out->compute_cycles);
  const wafer_machine *m = wafer_machine_whole(plan->machine);
  double clock = (double)m->clock_hz;
  out->samples_per_s = clock / (double)out->interval_cycles;
  out->compute_samples_per_s = clock / (double)max64(out->compute_cycles, 1);
  out->transmission_samples_per_s = clock / (double)max64(out->edge_cycles, 1);
  const wafer_throughput *fma = &m->rate[WAFER_RATE_fma][plan->storage == WAFER_DTYPE_f16];
  double peak = (double)wafer_rect_area(m->usable) * 2.0 * fma->elements / fma->cycles;
  out->utilization = (double)out->operations / (peak * (double)out->interval_cycles);
  name_bottleneck(out, &way);
  report_way_drop(&way);
  return WAFER_OK;
}

wafer_status report_bound(const wafer_diag *diag, report *r) {
  return wafer_plan_least_pace(diag, r->plan, r->edge_cycles, r->interval_cycles, &r->least);
}

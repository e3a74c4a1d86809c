/* The report as a user reads it. */
#include <string.h>

#include "report.h"
#include "sparsity.h"

typedef unsigned long long ull;

static void print_head(FILE *to, const report *r) {
  const wafer_plan *plan = r->plan;
  const wafer_machine *m = plan->machine;
  double usable = (double)wafer_rect_area(wafer_machine_whole(m)->usable);
  fprintf(to, "Samples/s               %.6g\n", r->samples_per_s);
  if (r->one_replica_interval_cycles)
    fprintf(to, "  of one replica        %.6g\n",
            (double)plan->machine->clock_hz / (double)r->one_replica_interval_cycles);
  if (m->whole)
    fprintf(to, "  of one band           %.6g (%u bands of %u rows%s, each with the %s below)\n",
            (double)m->clock_hz / (double)r->one_band_interval_cycles, m->cut.bands, m->height,
            m->cut.sides > 1 ? " at the west and the east side" : "",
            m->cut.together ? "phases" : "pipeline");
  fprintf(to, "Compute Samples/s       %.6g\n", r->compute_samples_per_s);
  fprintf(to, "Transmission Samples/s  %.6g\n", r->transmission_samples_per_s);
  fprintf(to, "Active PEs              %.1f %% (%.0f of %.0f)\n", 100 * r->active_cores / usable,
          r->active_cores, usable);
  fprintf(to, "Compute Utilization     %.3g %%\n", 100 * r->utilization);
  fprintf(to, "latency                 %llu cycles (%.3g us at %.2f GHz)\n", (ull)r->latency_cycles,
          1e6 * (double)r->latency_cycles / (double)plan->machine->clock_hz,
          (double)plan->machine->clock_hz * 1e-9);
  fprintf(to, "interval                %llu cycles per sample (", (ull)r->interval_cycles);
  if (wafer_function_on_host(&plan->functions[0]))
    fputs("one by one, each on the way through the functions that takes longest", to);
  else
    fprintf(to, "a train of %llu", (ull)r->train_samples);
  fprintf(to, "%s)\n\n",
          plan->launch_count ? "" : "; no programs: by streams that flow while cores compute");
}

static void print_mode(FILE *to, const char *name, const wafer_mode_cost *c, bool chosen) {
  fprintf(to, "  %c %-10s ", chosen ? '*' : ' ', name);
  if (!c->fits) {
    fprintf(to, "does not fit: %s\n", c->why_not);
    return;
  }
  fprintf(to, "interval %llu, latency %llu cycles; %llu cores, at most %llu B of a core\n",
          (ull)c->interval_cycles, (ull)c->latency_cycles, (ull)c->cores, (ull)c->peak_core_bytes);
}

void report_print_resident(FILE *to, const wafer_plan *plan) {
  uint32_t bands = plan->machine->cut.together ? plan->machine->cut.bands : 1;
  if (bands * plan->stripes == 1) return;
  fprintf(to, "  side by side in");
  if (bands > 1) fprintf(to, " %u bands of %u rows", bands, plan->machine->height);
  if (plan->stripes > 1)
    fprintf(to, "%s %u stripes of %u columns", bands > 1 ? ", each in" : "", plan->stripes,
            plan->stripe_columns);
  fprintf(to, ", %u in each; places are those of the first\n", wafer_plan_resident(plan));
}

static void print_modes(FILE *to, const report *r) {
  const wafer_plan *plan = r->plan;
  uint64_t together = wafer_plan_together(plan);
  fprintf(to, "mode: %s, for %llu sample%s resident in streaming\n", wafer_mode_name(plan->mode),
          (ull)together, together == 1 ? "" : "s");
  report_print_resident(to, plan);
  print_mode(to, "pipelined", &plan->pipelined, plan->mode == WAFER_MODE_pipelined);
  print_mode(to, "streaming", &plan->streaming, plan->mode == WAFER_MODE_streaming);
  if (plan->flip_batch)
    fprintf(to, "  the faster mode changes at --batch %u\n\n", plan->flip_batch);
  else
    fprintf(to, "  no --batch would change which is faster\n\n");
}

/* The last `most` characters of a name. */
static const char *tail(const char *name, size_t most) {
  size_t length = strlen(name);
  return length > most ? name + length - most : name;
}

/* The ONNX nodes of a kernel: the first, the last and how many; the first `skip` characters of the
 * kernel's name are left out where they share them. */
static void print_nodes(FILE *to, const wafer_kernel *k, size_t skip) {
  const char *first = "", *last = "";
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->body.node_count; i++) {
    const char *name = k->body.nodes[i].name;
    if (!name || !*name || k->body.nodes[i].op == WAFER_OP_constant || !strcmp(name, last))
      continue;
    if (!count++) first = name;
    last = name;
  }
  size_t first_skip = strncmp(first, k->name, skip) ? 0 : skip,
         last_skip = strncmp(last, k->name, skip) ? 0 : skip;
  fputs(tail(first + first_skip, 36), to);
  if (count > 1) fprintf(to, " .. %s (%u)", tail(last + last_skip, 36), count);
}

static void print_kernel(FILE *to, const wafer_kernel *k, size_t skip, int wide) {
  fprintf(to, "%-*s %-14s %4ux%-4u %4u %10llu %7llu %-8s ", wide,
          tail(k->name + skip, (size_t)wide), wafer_family_name(k->body.family), k->rect.width,
          k->rect.height, k->replicas, (ull)wafer_kernel_cycles(k), (ull)wafer_cost_bytes(&k->cost),
          wafer_bound_name(k->bound));
  print_nodes(to, k, skip);
  fputc('\n', to);
}

/* Whose the kernels are that follow. */
static void print_function(FILE *to, const wafer_plan *plan, const report_way *way,
                           uint32_t function) {
  if (function == WAFER_NONE) return;
  const wafer_call *c = &way->calls[function];
  fprintf(to, "function %s: %llu cycles", plan->functions[function].name, (ull)c->cycles);
  if (c->load)
    fprintf(to, " and %llu for its weights, at most %llu behind another function%s", (ull)c->load,
            (ull)way->behind[function], c->calls && !c->loads ? ", none behind itself" : "");
  if (c->calls)
    fprintf(to, ", %llu call%s a sample\n", (ull)c->calls, c->calls == 1 ? "" : "s");
  else
    fprintf(to, ", not on the way that takes longest\n");
}

static void print_kernels(FILE *to, const wafer_plan *plan, const report_way *way) {
  enum { most = 200, widest = 40 };
  size_t skip = cli_shared_prefix(plan);
  int wide = 6;
  for (uint32_t i = 0; i < plan->kernel_count && i < most; i++) {
    int length = (int)strlen(plan->kernels[i].name + skip);
    wide = length > wide ? length : wide;
  }
  wide = wide > widest ? widest : wide;
  if (skip) fprintf(to, "kernels (in %.*s)\n", (int)skip, plan->kernels[0].name);
  fprintf(to, "%-*s %-14s %9s %4s %10s %7s %-8s %s\n", wide, "kernel", "family", "cores", "rep",
          "cycles", "B/core", "bound", "ONNX nodes");
  for (uint32_t i = 0; i < plan->kernel_count && i < most; i++) {
    if (way->several && (i == 0 || way->of_kernel[i] != way->of_kernel[i - 1]))
      print_function(to, plan, way, way->of_kernel[i]);
    print_kernel(to, &plan->kernels[i], skip, wide);
  }
  if (plan->kernel_count > most)
    fprintf(to, "... and %u more: `wafer dump` lists all\n", plan->kernel_count - most);
}

/* Every step that is not the wafer's, by name. */
static void print_host(FILE *to, const wafer_plan *plan) {
  uint32_t count = 0;
  for (uint32_t f = 0; f < plan->function_count; f++)
    for (uint32_t i = 0; i < plan->functions[f].step_count; i++) {
      const wafer_step *s = &plan->functions[f].steps[i];
      if (wafer_step_on_wafer(s) || s->kind == WAFER_STEP_call) continue;
      if (!count++) fputs("host: these steps run on the host, one after the other\n", to);
      fprintf(to, "  %-20s node '%s' in function '%s'\n",
              s->kind == WAFER_STEP_host ? wafer_host_get(s->op)->name
                                         : wafer_step_kind_name(s->kind),
              s->node ? s->node : "", plan->functions[f].name);
    }
  if (!count) fputs("host: nothing runs on the host\n", to);
}

/* What is broken and what it costs. */
static void print_defects(FILE *to, const report *r) {
  const wafer_machine *m = wafer_machine_whole(r->plan->machine);
  if (!m->defects) return;
  if (m->repair)
    fprintf(to,
            "defects: %u dead cores bypassed by %u spare %s of %u x %u; a link is at most %u hops, "
            "%.2f on average; a hop is counted as %u cycles and a run at most %u more\n",
            m->repair->dead_count, m->repair->lost, m->repair->columns ? "columns" : "rows",
            m->repair->width, m->repair->height, m->repair->links_most,
            m->repair->links_mean * 1e-3, m->hop_cycles, m->detour_cycles);
  else
    fprintf(to, "defects: %u dead cores avoided\n", m->dead_count);
  if (!r->whole.interval_cycles) return;
  uint64_t left = wafer_rect_area(m->usable) - m->dead_count;
  fprintf(to,
          "  they cost %.2f %% of the cores (%llu of %llu left), and %.2f %% of the throughput: "
          "interval %llu cycles, %llu on a whole wafer; latency %llu, %llu\n",
          100.0 * (1 - (double)left / (double)r->whole.cores), (ull)left, (ull)r->whole.cores,
          100.0 * (1 - (double)r->whole.interval_cycles / (double)r->interval_cycles),
          (ull)r->interval_cycles, (ull)r->whole.interval_cycles, (ull)r->latency_cycles,
          (ull)r->whole.latency_cycles);
}

static void print_bound(FILE *to, const report *r) {
  if (!r->least.cycles) return;
  fprintf(to, "bound: no core programs of these kernels take less than %llu cycles per sample",
          (ull)r->least.cycles);
  const wafer_least_pace *l = &r->least;
  if (l->at_edge)
    fprintf(to, ", which are the edge's");
  else if (l->kernel != WAFER_NONE)
    fprintf(to, " (with %u band%s, by '%s' alone)", l->cut.bands, l->cut.bands == 1 ? "" : "s",
            r->plan->kernels[l->kernel].name);
  else
    fprintf(to, " (with %u band%s that all kernels together fill)", l->cut.bands,
            l->cut.bands == 1 ? "" : "s");
  fprintf(to, "; the interval is %.1f %% above it\n",
          100 * ((double)r->interval_cycles / (double)l->cycles - 1));
}

wafer_status report_print(FILE *to, const report *r) {
  const wafer_plan *plan = r->plan;
  report_way way;
  WAFER_TRY(report_way_find(cli_diag(), plan, &way));
  fprintf(to, "%s on %s: %u ONNX nodes, %u kernels, %u streams, %u phase%s, storage %s\n\n",
          plan->model, plan->machine->name, plan->node_count, plan->kernel_count,
          plan->stream_count, plan->phase_count, plan->phase_count == 1 ? "" : "s",
          wafer_dtype_name(plan->storage));
  print_head(to, r);
  print_modes(to, r);
  report_print_training(to, plan);
  report_print_sparsity(to, plan);
  print_kernels(to, plan, &way);
  report_way_drop(&way);
  fprintf(to, "\nbottleneck: %s\n", r->bottleneck);
  print_bound(to, r);
  if (r->placer) fprintf(to, "placer: %s\n", r->placer);
  print_defects(to, r);
  print_host(to, plan);
  if (plan->launch_count)
    fprintf(to, "fabric fidelity: %u launches, %u programs\n", plan->launch_count,
            plan->program_count);
  else
    fprintf(to, "fabric fidelity: no programs: %s\n", plan->no_programs);
  return WAFER_OK;
}

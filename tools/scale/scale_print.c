/* What `wafer scale` says. */
#include "scale.h"

typedef unsigned long long ull;

static void print_rows(const scale_table *t) {
  printf("%8s %8s %7s %12s %12s %12s %12s %12s %10s %12s\n", "systems", "samples", "rounds",
         "step ms", "sum us", "update ms", "samples/s", "tokens/s", "efficiency", "days");
  for (uint32_t i = 0; i < t->count; i++) {
    const scale_row *r = &t->rows[i];
    double hz = (double)t->plan->machine->clock_hz, tokens = scale_rate(r) * (double)t->sequence;
    printf("%8llu %8llu %7llu %12.3f %12.3f %12.3f %12.2f %12.0f %10.5f %12.2f\n", (ull)r->systems,
           (ull)r->samples, (ull)r->step.rounds, 1e3 * r->step.seconds,
           1e6 * (double)r->step.sum / hz, 1e3 * (double)r->step.update / hz, scale_rate(r), tokens,
           r->efficiency, t->a->tokens / tokens / 86400);
  }
}

/* What is hidden, and what waiting for all gradients costs. */
static void print_tail(const scale_table *t) {
  const scale_arguments *a = t->a;
  const scale_row *r = &t->rows[0];
  uint64_t micro = t->plan->training->micro_batch;
  wafer_scale_step other;
  wafer_scale_options options = {.systems = r->systems,
                                 .micro_batches = (r->samples + micro - 1) / micro,
                                 .servers = a->servers,
                                 .state_bytes = a->state_bytes,
                                 .waits = !scale_waits(a)};
  wafer_scale_of(t->plan->machine, &options, &t->pass, &other);
  double hz = (double)t->plan->machine->clock_hz;
  printf("sums take %.3f ms of a link and updates %.3f ms of a weight server, sum and update are "
         "what the backward pass does not hide\n",
         1e3 * (double)r->step.sum_work / hz, 1e3 * (double)r->step.update_work / hz);
  printf(scale_waits(a)
             ? "updates wait for all gradients (%s); with updates at once a step takes %.3f ms\n"
             : "updates begin as each layer's gradient is summed; if they waited for all%s, a step "
               "would take %.3f ms\n",
         scale_waits(a) ? a->clip_norm > 0 ? "clipping" : "dynamic loss scale" : "",
         1e3 * other.seconds);
}

static void print_loss(const scale_table *t) {
  const scale_row *first = &t->rows[0], *last = &t->rows[t->count - 1];
  uint64_t micro = t->plan->training->micro_batch;
  uint64_t micro_batches = (last->samples + micro - 1) / micro;
  if (micro_batches < last->systems)
    printf("%llu of %llu systems have no micro-batch\n", (ull)(last->systems - micro_batches),
           (ull)last->systems);
  if (t->count < 2) return;
  double hz = (double)t->plan->machine->clock_hz;
  uint64_t more = last->step.depth - first->step.depth;
  printf("efficiency at %llu systems %.5f: the tree is %llu deep, %.3f us of hops more, down and "
         "up, for each step of %.3f ms%s\n",
         (ull)last->systems, last->efficiency, (ull)last->step.depth,
         1e6 * 2 * (double)(more * t->plan->machine->swarmx_hop_cycles) / hz,
         1e3 * last->step.seconds,
         t->a->global ? "; fewer micro-batches per system leave sum and update to be paid" : "");
}

/* A net of a few thousand weights moves as many bytes, a large one terabytes. */
static void put_bytes(const char *what, uint64_t bytes, const char *after) {
  static const char units[] = " kMGT";
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1000 && units[unit + 1]; unit++) value /= 1000;
  if (unit == 0)
    printf("%s%llu B%s", what, (ull)bytes, after);
  else
    printf("%s%.3f %cB%s", what, value, units[unit], after);
}

static void print_wafer(const scale_table *t) {
  wafer_scale_traffic e = wafer_scale_edge(t->plan);
  wafer_scale_core c = wafer_scale_memory(t->plan);
  uint64_t micro = t->plan->training->micro_batch, rounds = t->rows[0].step.rounds;
  printf("model %s, %llu trained parameters, machine %s, %s\n", t->plan->model,
         (ull)wafer_scale_parameters(t->plan), t->plan->machine->name,
         wafer_dtype_name(t->plan->storage));
  printf("loop order: %s; activations %s; micro-batch %llu",
         rounds == 1 ? "layers outside, weights come once per pass"
                     : "micro-batches outside, weights come with each",
         wafer_scale_recomputes(t->plan) ? "computed again in the backward pass" : "kept",
         (ull)micro);
  if (t->next)
    printf(", %llu does not fit", (ull)t->next);
  else if (!t->a->training.options.micro_batch)
    printf(", no larger power of two divides the batch");
  fputs("\nedge of a wafer, a step: ", stdout);
  put_bytes("weights in ", rounds * e.weights, ", ");
  put_bytes("inputs in ", rounds * e.inputs, ", ");
  put_bytes("gradients out ", rounds * e.gradients, ", ");
  put_bytes("outputs ", rounds * e.outputs, "\n");
  printf("fullest core, phase '%s': %llu B: code %llu, weights %llu, inputs %llu, outputs %llu, "
         "scratch %llu, held %llu\n\n",
         c.phase, (ull)c.all, (ull)c.code, (ull)c.weights, (ull)c.inputs, (ull)c.outputs,
         (ull)c.scratch, (ull)c.held);
}

const char *scale_forced(const wafer_scale_gpu *g, char *to, size_t bytes) {
  if (!g->grid.data) return "does not fit";
  snprintf(to, bytes, "%s%s%s%s%s", g->data_forced ? "data" : "",
           g->data_forced && (g->pipeline_forced || g->tensor_forced) ? "+" : "",
           g->pipeline_forced ? "pipeline" : "", g->pipeline_forced && g->tensor_forced ? "+" : "",
           g->tensor_forced ? "tensor" : "");
  return *to ? to : "none";
}

static void print_cluster(const scale_table *t) {
  char forced[48], grid[64];
  const wafer_scale_model *m = &t->model;
  const scale_row *last = &t->rows[t->count - 1];
  printf(
      "\na cluster of processors of %.0f GB for %.0f samples, %.0f layers, %.0f activations of a "
      "sample kept (what each layer takes):\nmemory GB / moved GB per step, ! does not fit\n",
      t->a->gpu_gb, (double)last->samples, m->layers, m->activations);
  printf("%10s %22s %22s %22s  %-20s %s\n", "processors", "data", "pipeline", "tensor",
         "data x pipe x tensor", "forced");
  for (uint64_t n = 1; n <= 1024; n *= 4) {
    wafer_scale_gpu g = scale_cluster(t, n, last->samples);
    snprintf(grid, sizeof grid, "%llu x %llu x %llu", (ull)g.grid.data, (ull)g.grid.pipeline,
             (ull)g.grid.tensor);
    printf("%10llu %10.2f%c %10.2f %10.2f%c %10.2f %10.2f%c %10.2f  %-20s %s\n", (ull)n,
           1e-9 * g.data_memory, g.data_fits ? ' ' : '!', 1e-9 * g.data_bytes,
           1e-9 * g.pipeline_memory, g.pipeline_fits ? ' ' : '!', 1e-9 * g.pipeline_bytes,
           1e-9 * g.tensor_memory, g.tensor_fits ? ' ' : '!', 1e-9 * g.tensor_bytes,
           g.grid.data ? grid : "-", scale_forced(&g, forced, sizeof forced));
  }
}

void scale_print(const scale_table *t) {
  print_wafer(t);
  print_rows(t);
  print_tail(t);
  print_loss(t);
  print_cluster(t);
}

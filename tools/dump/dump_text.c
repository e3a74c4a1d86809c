/* A plan as a person reads it. */
#include <string.h>

#include "dump.h"
#include "report/report.h"
#include "sparsity.h"

void dump_type(const wafer_type *type, char *buffer, size_t bytes) {
  size_t used = 0;
  buffer[0] = 0;
  for (uint32_t d = 0; d < type->shape.rank && used < bytes; d++)
    used += (size_t)snprintf(buffer + used, bytes - used, "%lldx", (long long)type->shape.dims[d]);
  if (used < bytes) snprintf(buffer + used, bytes - used, "%s", wafer_dtype_name(type->dtype));
}

/* Parts per dim, "1x64x4x1", over rows and columns together. */
static void put_parts(const uint32_t *rows, const uint32_t *cols, uint32_t count, char *buffer,
                      size_t bytes) {
  size_t used = 0;
  buffer[0] = 0;
  for (uint32_t d = 0; d < count && used < bytes; d++)
    used +=
        (size_t)snprintf(buffer + used, bytes - used, d ? "x%llu" : "%llu", (ull)rows[d] * cols[d]);
}

void dump_holding(const wafer_holding *h, char *buffer, size_t bytes) {
  char parts[8 * 24];
  if (h->where != WAFER_AT_wafer) {
    snprintf(buffer, bytes, "%s", wafer_where_name(h->where));
    return;
  }
  put_parts(h->layout.rows, h->layout.cols, h->layout.rank, parts, sizeof parts);
  snprintf(buffer, bytes, "%ux%u at %u,%u in %s parts", h->rect.width, h->rect.height, h->rect.x,
           h->rect.y, h->layout.rank ? parts : "1");
}

wafer_rect dump_extent(const wafer_kernel *kernel) {
  wafer_rect r = kernel->rect;
  if (kernel->replicas > 1) r.width *= kernel->replicas;
  return r;
}

/* Loops that are cut, as "h:4 rows w:8 cols"; loops are numbered as the header of kernel.h orders
 * them. */
void dump_split(const wafer_kernel *k, char *buffer, size_t bytes) {
  size_t used = 0;
  snprintf(buffer, bytes, "whole");
  for (uint32_t i = 0; i < WAFER_MAX_LOOPS; i++)
    for (int cols = 0; cols < 2; cols++) {
      uint32_t parts = cols ? k->split.cols[i] : k->split.rows[i];
      if (parts < 2 || used >= bytes) continue;
      used += (size_t)snprintf(buffer + used, bytes - used, "%sloop %u in %u over %s",
                               used ? ", " : "", i, parts, cols ? "columns" : "rows");
    }
}

/* ---- sections ---- */

static void print_machine(FILE *to, const wafer_machine *m) {
  const wafer_machine *whole = wafer_machine_whole(m); /* which has the edge */
  char edge[48];
  if (whole->edge_in_bytes_per_second == UINT64_MAX)
    snprintf(edge, sizeof edge, "unlimited");
  else
    snprintf(edge, sizeof edge, "%.6g Gb/s in, %.6g out",
             (double)whole->edge_in_bytes_per_second * 8e-9,
             (double)whole->edge_out_bytes_per_second * 8e-9);
  fprintf(to, "machine %s\n", m->name);
  fprintf(to, "  cores    %ux%u, usable %ux%u at %u,%u; %u dead\n", m->width, m->height,
          m->usable.width, m->usable.height, m->usable.x, m->usable.y, m->dead_count);
  if (m->whole)
    fprintf(to, "           a band of %ux%u; %u bands have the same %s, %u rows apart%s\n",
            m->whole->width, m->whole->height, m->cut.bands,
            m->cut.together ? "phases at the same time" : "pipeline", m->height,
            m->cut.sides > 1 ? ", half of them mirrored at the east border" : "");
  if (m->repair)
    fprintf(to, "           of %ux%u with %u dead cores, bypassed by %u spare %s\n",
            m->repair->width, m->repair->height, m->repair->dead_count, m->repair->lost,
            m->repair->columns ? "columns" : "rows");
  fprintf(to, "  a core   %u bytes, %u of them reserved; %.6g GHz\n", m->core_bytes,
          m->reserved_bytes, (double)m->clock_hz * 1e-9);
  fprintf(to, "  fabric   %u colors, hop %u, ramp %u cycles; edge %s\n", m->colors, m->hop_cycles,
          m->ramp_cycles, edge);
}

static void print_mode(FILE *to, const wafer_plan *plan, wafer_mode mode,
                       const wafer_mode_cost *c) {
  fprintf(to, "  %c %-10s", plan->mode == mode ? '*' : ' ', wafer_mode_name(mode));
  if (!c->fits)
    fprintf(to, "does not fit: %s\n", c->why_not);
  else
    fprintf(to, "latency %llu, interval %llu cycles; %llu cores, at most %llu bytes of one\n",
            (ull)c->latency_cycles, (ull)c->interval_cycles, (ull)c->cores,
            (ull)c->peak_core_bytes);
}

static void print_values(FILE *to, const wafer_plan *plan, const uint32_t *at, uint32_t count) {
  char type[128];
  for (uint32_t i = 0; i < count; i++) {
    const wafer_value *v = &plan->values[at[i]];
    if (v->kind == WAFER_VALUE_host)
      snprintf(type, sizeof type, "host value");
    else
      dump_type(&v->type, type, sizeof type);
    fprintf(to, "%s%s: %s", i ? ", " : "", v->name, type);
  }
}

static void print_host_step(FILE *to, const wafer_plan *plan, const wafer_step *s) {
  fprintf(to, "  %-6s", wafer_step_kind_name(s->kind));
  if (s->kind == WAFER_STEP_host) fprintf(to, " %s", wafer_host_get(s->op)->name);
  for (uint32_t i = 0; i < s->body_count; i++)
    fprintf(to, " %s", plan->functions[s->bodies[i]].name);
  if (s->node && *s->node) fprintf(to, " (node '%s')", s->node);
  for (uint32_t i = 0; i < s->output_count; i++)
    fprintf(to, "%s%s", i ? ", " : " -> ",
            s->outputs[i] == WAFER_NONE ? "none" : plan->values[s->outputs[i]].name);
  fputc('\n', to);
}

static void print_function(FILE *to, const wafer_plan *plan, const wafer_function *f) {
  enum { most = 24 };
  fprintf(to, "function %s(", f->name);
  print_values(to, plan, f->inputs, f->input_count);
  fputs(") -> (", to);
  print_values(to, plan, f->outputs, f->output_count);
  fputs(")\n", to);
  for (uint32_t i = 0; i < f->step_count; i++) {
    if (f->step_count > most && i == most / 2) {
      fprintf(to, "  ... %u more steps\n", f->step_count - most);
      i = f->step_count - most / 2;
    }
    const wafer_step *s = &f->steps[i];
    if (wafer_step_on_wafer(s))
      fprintf(to, "  %-6s phase %u '%s'\n", s->kind == WAFER_STEP_load ? "load" : "run", s->phase,
              plan->phases[s->phase].name);
    else
      print_host_step(to, plan, s);
  }
}

/* A name without the path that all share, and of that the last `most` characters: names differ
 * there. */
static const char *brief(const wafer_plan *plan, size_t skip, const char *name, size_t most) {
  if (skip && !strncmp(name, plan->kernels[0].name, skip)) name += skip;
  size_t length = strlen(name);
  return length > most ? name + length - most : name;
}

/* The ONNX nodes of a kernel: the first, the last and how many. */
static void print_nodes(FILE *to, const wafer_plan *plan, size_t skip, const wafer_kernel *k) {
  enum { most = 44 };
  const char *first = "", *last = "";
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->body.node_count; i++) {
    const wafer_node *node = &k->body.nodes[i];
    if (!*node->name || node->op == WAFER_OP_constant || !strcmp(node->name, last)) continue;
    if (!count++) first = node->name;
    last = node->name;
  }
  fputs(brief(plan, skip, first, most), to);
  if (count > 1) fprintf(to, " .. %s (%u)", brief(plan, skip, last, most), count);
}

enum { WIDEST = 40 };

static int name_width(const wafer_plan *plan, size_t skip, const wafer_phase *p) {
  size_t wide = 6;
  for (uint32_t i = 0; i < p->action_count; i++) {
    if (p->actions[i].kind != WAFER_ACTION_kernel) continue;
    size_t length = strlen(brief(plan, skip, plan->kernels[p->actions[i].index].name, WIDEST));
    wide = length > wide ? length : wide;
  }
  return (int)wide;
}

static void print_kernels(FILE *to, const wafer_plan *plan, size_t skip, const wafer_phase *p) {
  int wide = name_width(plan, skip, p);
  fprintf(to, "  %-6s %-*s %-14s %9s %11s %4s %10s %7s %-8s %s\n", "#", wide, "kernel", "family",
          "at", "cores", "rep", "cycles", "B/core", "bound", "ONNX nodes");
  for (uint32_t i = 0; i < p->action_count; i++) {
    if (p->actions[i].kind != WAFER_ACTION_kernel) continue;
    const wafer_kernel *k = &plan->kernels[p->actions[i].index];
    fprintf(to, "  k%-5u %-*s %-14s %4u,%-4u %5ux%-5u %4u %10llu %7llu %-8s ", p->actions[i].index,
            wide, brief(plan, skip, k->name, WIDEST), wafer_family_name(k->body.family), k->rect.x,
            k->rect.y, k->rect.width, k->rect.height, k->replicas, (ull)wafer_kernel_cycles(k),
            (ull)wafer_cost_bytes(&k->cost), wafer_bound_name(k->bound));
    print_nodes(to, plan, skip, k);
    fputc('\n', to);
  }
}

/* "edge", "memoryx", "k3", or "held": what an earlier phase left, or a later one takes. */
static const char *end_name(const wafer_holding *h, uint32_t kernel, char buffer[16]) {
  if (h->where != WAFER_AT_wafer) return wafer_where_name(h->where);
  if (kernel == WAFER_NONE) return "held";
  snprintf(buffer, 16, "k%u", kernel);
  return buffer;
}

static void print_stream(FILE *to, const wafer_plan *plan, size_t skip, uint32_t index) {
  const wafer_stream *s = &plan->streams[index];
  const wafer_value *v = &plan->values[s->value];
  char from[16], into[16], type[128];
  dump_type(&v->type, type, sizeof type);
  fprintf(to, "  s%-5u %5u %8s -> %-8s %10llu %9llu %9llu %5u  %s %s: %s\n", index, s->color,
          end_name(&s->from, s->from_kernel, from), end_name(&s->to, s->to_kernel, into),
          (ull)s->words, (ull)s->cycles, (ull)s->latency, s->depth, wafer_owner_name(v->owner),
          brief(plan, skip, v->name, 60), type);
}

static void print_phase(FILE *to, const wafer_plan *plan, size_t skip, uint32_t index) {
  const wafer_phase *p = &plan->phases[index];
  uint32_t kernels = 0;
  for (uint32_t i = 0; i < p->action_count; i++)
    kernels += p->actions[i].kind == WAFER_ACTION_kernel;
  fprintf(to, "\nphase %u '%s': %u kernel%s, %u stream%s; at most %llu of %u bytes of a core\n",
          index, p->name, kernels, kernels == 1 ? "" : "s", p->action_count - kernels,
          p->action_count - kernels == 1 ? "" : "s", (ull)p->peak_core_bytes,
          wafer_machine_core_budget(plan->machine));
  if (kernels) print_kernels(to, plan, skip, p);
  if (kernels < p->action_count)
    fprintf(to, "  %-6s %5s %8s    %-8s %10s %9s %9s %5s  %s\n", "#", "color", "from", "to",
            "words", "cycles", "latency", "depth", "value");
  for (uint32_t i = 0; i < p->action_count; i++)
    if (p->actions[i].kind == WAFER_ACTION_stream)
      print_stream(to, plan, skip, p->actions[i].index);
  for (uint32_t i = 0; i < p->free_count; i++)
    fprintf(to, "%s%s%s", i ? ", " : "  then drops ",
            brief(plan, skip, plan->values[p->frees[i]].name, 60),
            i + 1 == p->free_count ? "\n" : "");
}

static void print_memory(FILE *to, const wafer_plan *plan, size_t skip) {
  uint64_t present = 0, absent = 0;
  size_t count = plan->weights ? wafer_weights_count(plan->weights) : 0;
  for (size_t i = 0; i < count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, i);
    *(w->data ? &present : &absent) += w->bytes;
  }
  for (size_t i = 0; i < count; i++) {
    const wafer_weight *w = wafer_weights_at(plan->weights, i);
    int64_t elements = 0;
    if (!w->sparse || !wafer_shape_elements(&w->shape, &elements)) continue;
    fprintf(to, "\n  sparse %s: %llu of %lld elements", w->name, (ull)w->nonzeros,
            (long long)elements);
  }
  fprintf(to, "\nmemory\n  weights  %zu, %llu bytes in the plan", count, (ull)present);
  if (absent) fprintf(to, ", %llu bytes absent", (ull)absent);
  fprintf(to, "\n\n  %-6s %8s %8s %8s %8s %8s %8s  %s\n", "#", "code", "weights", "inputs",
          "outputs", "scratch", "in all", "bytes of a core of the kernel");
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    const wafer_cost *c = &plan->kernels[i].cost;
    fprintf(to, "  k%-5u %8llu %8llu %8llu %8llu %8llu %8llu  %s\n", i, (ull)c->code_bytes,
            (ull)c->weight_bytes, (ull)c->input_bytes, (ull)c->output_bytes, (ull)c->scratch_bytes,
            (ull)wafer_cost_bytes(c), brief(plan, skip, plan->kernels[i].name, 60));
  }
}

void dump_text(FILE *to, const wafer_plan *plan) {
  size_t skip = cli_shared_prefix(plan);
  fprintf(to,
          "%s, compiled by %s: %u ONNX nodes -> %u kernels, %u streams, %u phase%s; storage %s\n\n",
          plan->model, plan->producer, plan->node_count, plan->kernel_count, plan->stream_count,
          plan->phase_count, plan->phase_count == 1 ? "" : "s", wafer_dtype_name(plan->storage));
  print_machine(to, plan->machine);
  uint64_t together = wafer_plan_together(plan);
  fprintf(to, "\nmodes, %llu sample%s resident\n", (unsigned long long)together,
          together == 1 ? "" : "s");
  report_print_resident(to, plan);
  print_mode(to, plan, WAFER_MODE_pipelined, &plan->pipelined);
  print_mode(to, plan, WAFER_MODE_streaming, &plan->streaming);
  if (plan->flip_batch)
    fprintf(to, "  the faster mode changes at %u samples resident\n", plan->flip_batch);
  fputc('\n', to);
  report_print_sparsity(to, plan);
  for (uint32_t i = 0; i < plan->function_count; i++) print_function(to, plan, &plan->functions[i]);
  dump_training(to, plan);
  if (skip) fprintf(to, "\nnames below are in %.*s\n", (int)skip, plan->kernels[0].name);
  for (uint32_t i = 0; i < plan->phase_count; i++) print_phase(to, plan, skip, i);
  print_memory(to, plan, skip);
}

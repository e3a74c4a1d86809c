/* One kernel in full. */
#include <string.h>

#include "dump.h"

static void print_attr(FILE *to, const wafer_attr *attr) {
  fprintf(to, " %s=", wafer_attr_name(attr->id));
  switch (wafer_attr_kind_of(attr->id)) {
  case WAFER_ATTR_KIND_int: fprintf(to, "%lld", (long long)attr->i); break;
  case WAFER_ATTR_KIND_float: fprintf(to, "%.9g", attr->f); break;
  case WAFER_ATTR_KIND_string: fprintf(to, "'%s'", attr->s); break;
  case WAFER_ATTR_KIND_data: fputs(attr->data.splat ? "(one element)" : "(elements)", to); break;
  case WAFER_ATTR_KIND_ints:
    for (uint32_t i = 0; i < attr->ints.count; i++)
      fprintf(to, "%s%lld", i ? "," : "", (long long)attr->ints.at[i]);
    break;
  case WAFER_ATTR_KIND_floats:
    for (uint32_t i = 0; i < attr->floats.count; i++)
      fprintf(to, "%s%.9g", i ? "," : "", attr->floats.at[i]);
    break;
  }
}

/* Values of the body as %0, %1, ...: inputs first, then one per node. */
static void print_body(FILE *to, const wafer_kernel *k) {
  char type[128];
  const wafer_kernel_body *b = &k->body;
  fputs("\nops\n", to);
  for (uint32_t i = 0; i < b->node_count; i++) {
    const wafer_node *n = &b->nodes[i];
    fprintf(to, "  %%%u = %s", b->input_count + i, wafer_op_get(n->op)->name);
    for (uint32_t o = 0; o < n->operand_count; o++)
      fprintf(to, "%s%%%u", o ? ", " : " ", n->operands[o]);
    for (uint32_t a = 0; a < n->attrs.count; a++) print_attr(to, &n->attrs.at[a]);
    dump_type(&n->type, type, sizeof type);
    fprintf(to, " : %s", type);
    if (*n->name) fprintf(to, "   of '%s'", n->name);
    fputs(i == b->anchor ? "   <- anchor\n" : "\n", to);
  }
}

static void print_value(FILE *to, const wafer_plan *plan, const wafer_kernel *k, uint32_t number,
                        uint32_t value, wafer_layout layout) {
  char type[128], held[256];
  wafer_holding holding = {WAFER_AT_wafer, k->rect, layout};
  dump_type(wafer_body_type(&k->body, number), type, sizeof type);
  dump_holding(&holding, held, sizeof held);
  fprintf(to, "  %%%u = %s %s: %s on %s\n", number, wafer_owner_name(plan->values[value].owner),
          plan->values[value].name, type, held);
}

static void print_values(FILE *to, const wafer_plan *plan, const wafer_kernel *k) {
  const wafer_kernel_body *b = &k->body;
  if (b->input_count) fputs("\ninputs\n", to);
  for (uint32_t i = 0; i < b->input_count; i++)
    print_value(to, plan, k, i, k->inputs[i], wafer_kernel_input_layout(b, &k->split, i));
  fputs("\noutputs\n", to);
  for (uint32_t i = 0; i < b->output_count; i++)
    print_value(to, plan, k, b->outputs[i], k->outputs[i],
                wafer_kernel_output_layout(b, &k->split, i));
}

static void print_cost(FILE *to, const wafer_kernel *k) {
  const wafer_cost *c = &k->cost;
  fprintf(to,
          "\ncost of a sample\n  %llu cycles: %llu compute, %llu fabric; bound by %s\n  %llu "
          "operations\n",
          (ull)c->cycles, (ull)c->compute_cycles, (ull)c->fabric_cycles, wafer_bound_name(k->bound),
          (ull)c->operations);
  if (k->program_cycles) fprintf(to, "  %llu cycles of its programs\n", (ull)k->program_cycles);
  fprintf(to, "\nmemory, bytes of a core\n");
  for (uint32_t i = 0; i < k->memory_count; i++)
    fprintf(to, "  %8llu  %-44s %s\n", (ull)k->memory[i].bytes, k->memory[i].what,
            k->memory[i].node);
  fprintf(to, "  %8llu  in all\n", (ull)wafer_cost_bytes(c));
}

static void print_streams(FILE *to, const wafer_plan *plan, uint32_t kernel) {
  char from[256], into[256];
  fputs("\nstreams\n", to);
  for (uint32_t i = 0; i < plan->stream_count; i++) {
    const wafer_stream *s = &plan->streams[i];
    if (s->from_kernel != kernel && s->to_kernel != kernel) continue;
    dump_holding(&s->from, from, sizeof from);
    dump_holding(&s->to, into, sizeof into);
    fprintf(to, "  s%-4u color %-2u %s %s: %s -> %s; %llu words, %llu cycles\n", i, s->color,
            s->to_kernel == kernel ? "in " : "out", plan->values[s->value].name, from, into,
            (ull)s->words, (ull)s->cycles);
  }
}

uint32_t dump_find_kernel(const wafer_plan *plan, const char *name) {
  char number[16];
  for (uint32_t i = 0; i < plan->kernel_count; i++)
    if (!strcmp(plan->kernels[i].name, name)) return i;
  for (uint32_t i = 0; i < plan->kernel_count; i++) {
    snprintf(number, sizeof number, "k%u", i);
    if (!strcmp(number, name) || !strcmp(number + 1, name)) return i;
  }
  return plan->kernel_count;
}

void dump_kernel(FILE *to, const wafer_plan *plan, uint32_t i) {
  const wafer_kernel *k = &plan->kernels[i];
  char split[512];
  dump_split(k, split, sizeof split);
  fprintf(to,
          "kernel k%u '%s': %s, %ux%u cores at %u,%u, %u replica%s, storage %s\nsplit %s; %u tiles "
          "on the host\n",
          i, k->name, wafer_family_name(k->body.family), k->rect.width, k->rect.height, k->rect.x,
          k->rect.y, k->replicas, k->replicas == 1 ? "" : "s", wafer_dtype_name(k->body.storage),
          split, k->slabs);
  print_values(to, plan, k);
  print_body(to, k);
  print_cost(to, k);
  print_streams(to, plan, i);
}

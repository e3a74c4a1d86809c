/* What is proved about a plan, and the order that proves it. */
#include "dump.h"
#include "wafer/certificate.h"

typedef unsigned long long ull;

static const char *end_of(const wafer_plan *plan, const wafer_holding *at, uint32_t kernel) {
  if (kernel != WAFER_NONE) return plan->kernels[kernel].name;
  return at->where == WAFER_AT_wafer ? "an earlier phase" : wafer_where_name(at->where);
}

/* ", queue 2 -> 0": where a stream leaves cores, and where it enters them. */
static void print_queues(FILE *to, const wafer_stream_queues *q) {
  if (q->out.queue == WAFER_NONE && q->in.queue == WAFER_NONE) return;
  fputs(", queue", to);
  if (q->out.queue != WAFER_NONE) fprintf(to, " %u ->", q->out.queue);
  if (q->in.queue != WAFER_NONE)
    fprintf(to, "%s %u", q->out.queue == WAFER_NONE ? " ->" : "", q->in.queue);
  if (q->with != WAFER_NONE) fprintf(to, ", in one multicast with %u", q->with);
}

static void print_order(FILE *to, const wafer_plan *plan, const wafer_phase *p,
                        const wafer_phase_proof *f) {
  for (uint32_t a = 0; a < p->action_count; a++) {
    if (p->actions[a].kind == WAFER_ACTION_kernel) {
      fprintf(to, "    %4u kernel %s\n", a, plan->kernels[p->actions[a].index].name);
      continue;
    }
    const wafer_stream *s = &plan->streams[p->actions[a].index];
    fprintf(to, "    %4u stream %s: %s -> %s, color %u", a, plan->values[s->value].name,
            end_of(plan, &s->from, s->from_kernel), end_of(plan, &s->to, s->to_kernel), s->color);
    print_queues(to, &f->queues[a]);
    fprintf(to, ", room for %u\n", s->depth);
  }
}

static void print_phase(FILE *to, const wafer_plan *plan, uint32_t phase,
                        const wafer_phase_proof *f) {
  const wafer_machine *m = plan->machine;
  const wafer_phase *p = &plan->phases[phase];
  fprintf(to, "phase %u '%s': %u kernels, %u streams\n", phase, p->name, f->kernels, f->streams);
  fprintf(to,
          "  rectangles   inside the usable %ux%u at %u,%u, apart, on no dead or reserved core\n",
          m->usable.width, m->usable.height, m->usable.x, m->usable.y);
  fprintf(to, "  memory       at most %llu of %u bytes of a core\n", (ull)f->peak_core_bytes,
          wafer_machine_core_budget(m));
  fprintf(to,
          "  routes       connected, over live routers, each colour into a router from one side\n");
  fprintf(to, "  colors       at most %u of %u at a router", f->colors, m->colors);
  if (f->colors) fprintf(to, ", at %u,%u", f->colors_at.x, f->colors_at.y);
  fprintf(to, "; %u streams take turns on another's\n", f->sharing);
  fprintf(
      to,
      "  queues       at most %u colors into a core (%u queues), %u out of one (%u); %u streams "
      "take turns in another's\n",
      f->enter, m->input_queues, f->leave, m->output_queues, f->turns);
  if (f->link_streams)
    fprintf(to, "  busiest link from %u,%u to the %s: %u streams, %llu cycles of a sample\n",
            f->link_at.x, f->link_at.y, wafer_side_name(f->link_to), f->link_streams,
            (ull)f->link_cycles);
  fprintf(
      to,
      "  waits        %u, each for an event before it in the order (sample, action); the longest "
      "chain has %u actions\n",
      f->waits, f->longest_chain);
  print_order(to, plan, p, f);
}

wafer_status dump_certificate(FILE *to, const wafer_diag *diag, const wafer_plan *plan) {
  wafer_arena *arena = wafer_arena_create();
  const wafer_phase_proof *proofs;
  if (!arena) return wafer_fail(diag, (wafer_loc){0}, WAFER_NO_MEMORY, "the host is out of memory");
  wafer_status status = wafer_certify(diag, arena, plan, &proofs);
  for (uint32_t i = 0; status == WAFER_OK && i < plan->phase_count; i++)
    print_phase(to, plan, i, &proofs[i]);
  if (status == WAFER_OK)
    fprintf(to, "%s: %u phases proved legal and free of cyclic waits\n", plan->model,
            plan->phase_count);
  wafer_arena_destroy(arena);
  return status;
}

/* Sums of pipelined training: what a kernel makes of the gradient of a weight is added, in f32, to
 * a sum that stays on the core; it is cleared once, before the first sample of a train. An output
 * lies on all cores that have a part of it by then, so every copy of a sum is complete. */
#include "program_build.h"

bool program_sum_spread(wafer_arena *arena, const wafer_machine *machine,
                        const wafer_kernel_body *body, const wafer_split *split, wafer_rect rect,
                        uint32_t output, spread *out) {
  if (!program_spread(arena, machine, body, split, rect, body->outputs[output], out)) return false;
  out->dtype = WAFER_DTYPE_f32;
  program_pack_like(out, out);
  return true;
}

static void emit_clear(const program_site *s) {
  program_fill(s, s->step->out, &s->out, 0);
}

static void emit_add(const program_site *s) {
  const program_step *step = s->step;
  nest n = program_nest_over(WAFER_CORE_add, 2, step->out, &s->out);
  nest_place(&n, 1, step->out, &s->out);
  nest_place(&n, 2, step->in[0].at, &s->in[0]);
  nest_emit(s->code, &n);
}

wafer_status program_clear_sums(program *p) {
  for (uint32_t i = 0; p->r->sums && i < p->body->output_count; i++) {
    if (!wafer_body_sums(p->body, i)) continue;
    p->node = p->body->outputs[i] - p->body->input_count;
    program_step step = program_step_of(p->node, &p->r->sums[i], emit_clear);
    WAFER_TRY(program_add(p, &step));
  }
  return program_flush(p);
}

wafer_status program_add_sums(program *p) {
  for (uint32_t i = 0; p->r->sums && i < p->body->output_count; i++) {
    if (!wafer_body_sums(p->body, i)) continue;
    p->node = p->body->outputs[i] - p->body->input_count;
    program_step step = program_step_of(p->node, &p->r->sums[i], emit_add);
    step.in_count = 1;
    step.in[0] = program_own(&p->r->outputs[i]);
    WAFER_TRY(program_add(p, &step));
  }
  return WAFER_OK;
}

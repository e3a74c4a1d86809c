/* Gradients that stay on their cores, at kernel fidelity: of a train there is their sum, over
 * SwarmX's binary tree of micro-batches, as a run of training would add them up one by one. */
#include "port.h"
#include "session_state.h"

static uint64_t elements_of(const session_port *p) {
  int64_t count = 0;
  (void)wafer_shape_elements(&p->of->type.shape, &count);
  return (uint64_t)count;
}

bool session_sums(const wafer_session *s) {
  for (uint32_t i = 0; i < s->function->output_count; i++)
    if (session_port_summed(s->plan, &s->outputs[i])) return true;
  return false;
}

wafer_status session_sums_begin(wafer_session *s, uint64_t samples) {
  uint64_t elements = 0;
  for (uint32_t i = 0; i < s->function->output_count; i++)
    if (session_port_summed(s->plan, &s->outputs[i])) elements += elements_of(&s->outputs[i]);
  if (!s->sums) WAFER_TRY(wafer_swarmx_create(s->diag, elements, NULL, 1, &s->sums));
  if (!s->terms) s->terms = WAFER_NEW(s->program->arena, wafer_view, s->function->output_count);
  if (!s->terms) return session_no_memory(s);
  wafer_swarmx_begin(s->sums, samples);
  return WAFER_OK;
}

wafer_status session_sums_add(wafer_session *s, uint64_t sample) {
  static const double nothing[WAFER_SWARMX_SCALARS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    const wafer_type *type = &s->outputs[i].of->type;
    if (session_port_summed(s->plan, &s->outputs[i]))
      s->terms[count++] = wafer_view_of(type->dtype, &type->shape, s->out[i]);
  }
  return wafer_swarmx_add_leaf(s->sums, sample, s->terms, count, nothing);
}

wafer_status session_sums_finish(wafer_session *s) {
  const float *sum;
  const double *scalars;
  WAFER_TRY(wafer_swarmx_finish(s->sums, &sum, &scalars));
  for (uint32_t i = 0; i < s->function->output_count; i++) {
    const session_port *p = &s->outputs[i];
    if (!session_port_summed(s->plan, p)) continue;
    port_narrow(WAFER_DTYPE_f32, p->of->type.dtype, sum, s->out[i], elements_of(p));
    sum += elements_of(p);
  }
  return WAFER_OK;
}

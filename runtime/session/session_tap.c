/* Telling what each kernel has made, at kernel fidelity: the stages of a phase kernel by kernel. */
#include <stdlib.h>

#include "session_state.h"

static wafer_status tell(wafer_session *s, uint32_t kernel, uint32_t output) {
  uint32_t value = s->plan->kernels[kernel].outputs[output];
  const wafer_type *type = &s->plan->values[value].type;
  const session_port port = {
      .value = value, .tensor = s->tensor[value], .of = &s->plan->values[value]};
  const wafer_kernel_watch *watch = s->kernels;
  size_t bytes = (session_port_bytes(&port) + 7) / 8 * 8;
  char *dense = malloc(4 * bytes + 1); /* elements, and room to widen those of 16 bits */
  if (!dense) return session_no_memory(s);
  session_port_store(&port, s->program, dense + bytes, dense);
  wafer_view view = wafer_view_of(type->dtype, &type->shape, dense);
  wafer_status status = watch->made(watch->self, kernel, output, &view);
  if (status == WAFER_OK && watch->instead) {
    view.data = watch->instead(watch->self, kernel, output);
    if (view.data) session_port_load(&port, s->program, false, dense, &view, false, 0);
  }
  free(dense);
  return status;
}

wafer_status session_run_told(wafer_session *s, const session_segment *segment) {
  const wafer_phase *phase = &s->plan->phases[segment->phase];
  uint32_t at = segment->first;
  for (uint32_t i = 0; i < phase->action_count; i++) {
    uint32_t k = phase->actions[i].index;
    if (phase->actions[i].kind != WAFER_ACTION_kernel) continue;
    WAFER_TRY(exec_program_run(s->program, s->pool, at, s->kernel_end[k]));
    at = s->kernel_end[k];
    for (uint32_t o = 0; o < s->plan->kernels[k].body.output_count; o++) WAFER_TRY(tell(s, k, o));
  }
  return WAFER_OK;
}

/* Inputs and outputs of a session: between a caller's views and tensors in physical order. */
#ifndef RUNTIME_SESSION_PORTS_H
#define RUNTIME_SESSION_PORTS_H

#include "exec/exec.h"
#include "wafer/plan.h"

typedef struct session_port {
  uint32_t value; /* of the plan */
  const wafer_value *of;
  exec_tensor *tensor;
  bool direct; /* an output whose buffer may be the caller's memory */
} session_port;

static inline size_t session_port_bytes(const session_port *p) { /* of a sample, for the caller */
  return wafer_tensor_bytes(p->of->type.dtype, &p->of->type.shape);
}

/* A gradient of pipelined training: of a train there is its sum alone. */
static inline bool session_port_summed(const wafer_plan *plan, const session_port *p) {
  return wafer_plan_updates(plan) && p->of->owner == WAFER_OWNER_gradient;
}
/* How many of an output a train of so many samples has. */
static inline uint64_t session_port_count(const wafer_plan *plan, const session_port *p,
                                          uint64_t samples) {
  return session_port_summed(plan, p) ? 1 : samples;
}

/* The declared type and shape, or for a train one more leading dim of `samples`. */
wafer_status session_port_check(const wafer_diag *diag, const char *model, const session_port *p,
                                const wafer_view *view, bool train, uint64_t samples);
/* Brings a sample in, rounded as the program stores. `in_place`: a view that lies as the tensor
 * would is not copied. `staging` has room for a 16-bit tensor three times. */
void session_port_load(const session_port *p, exec_program *program, bool in_place, void *staging,
                       const wafer_view *view, bool train, uint64_t sample);
/* Dense and row-major at `to`. */
void session_port_store(const session_port *p, const exec_program *program, void *staging,
                        char *to);

#endif

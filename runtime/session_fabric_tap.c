/* What a launch has left in the memories: the outputs of its kernels, element by element, for
 * whoever compares them with those of kernel fidelity, and those that no stream takes away. */
#include <stdlib.h>

#include "fabric_session.h"
#include "port.h"

typedef struct tap_reader {
  const session_fabric *s;
  const wafer_tap *tap;
  const wafer_shape *shape;
  uint32_t x, y, row, col;
  uint32_t element; /* bytes, as cores store it */
  char *to;
  int64_t bad; /* address that nobody has written; -1: none */
} tap_reader;

static void read_from(tap_reader *r, uint32_t d, int64_t index, int64_t address) {
  if (d == r->shape->rank) {
    if (!wafer_fabric_read(r->s->fabric, r->x, r->y, (uint32_t)address, r->to + index * r->element,
                           r->element))
      r->bad = address;
    return;
  }
  const wafer_tap_dim *dim = &r->tap->dim[d];
  const wafer_tap_part *part = &dim->part[dim->row[r->row] * dim->cols + dim->col[r->col]];
  for (int32_t i = part->lo; i < part->hi; i++)
    read_from(r, d + 1, index * r->shape->dims[d] + i,
              address + (int64_t)(part->at + i - part->lo) * dim->stride);
}

/* Elements of the output as cores store them. */
static wafer_status read_tap(session_fabric *s, const wafer_tap *tap, uint32_t stripe, void *to) {
  const wafer_kernel *k = &s->plan->kernels[tap->kernel];
  uint32_t value = k->outputs[tap->output];
  tap_reader r = {.s = s,
                  .tap = tap,
                  .shape = &s->plan->values[value].type.shape,
                  .element = (uint32_t)wafer_dtype_bytes(session_fabric_type(s, value)),
                  .to = to,
                  .bad = -1};
  for (r.row = 0; r.row < k->rect.height; r.row++)
    for (r.col = 0; r.col < k->rect.width && r.bad < 0; r.col++) {
      r.x = k->rect.x + r.col + stripe * s->plan->stripe_columns;
      r.y = k->rect.y + r.row;
      read_from(&r, 0, 0, tap->address);
    }
  if (r.bad >= 0)
    return wafer_fail(s->diag, wafer_at_kernel(s->plan->model, k->name, NULL), WAFER_TRAP,
                      "core (%u,%u) has left nothing of output %u at address %lld", r.x, r.y,
                      tap->output, (long long)r.bad);
  wafer_layout layout = wafer_kernel_output_layout(&k->body, &k->split, tap->output);
  return wafer_layout_ordered(&layout) ? session_fabric_order(s, value, &layout, true, to)
                                       : WAFER_OK;
}

static wafer_status tell(session_fabric *s, const wafer_tap *tap, uint32_t stripe) {
  uint32_t value = s->plan->kernels[tap->kernel].outputs[tap->output];
  const wafer_type *type = &s->plan->values[value].type;
  wafer_dtype stored = session_fabric_type(s, value);
  size_t count = session_fabric_elements(s, value);
  void *wide = calloc(count + 1, wafer_dtype_bytes(type->dtype));
  void *raw = calloc(count + 1, wafer_dtype_bytes(stored));
  wafer_status status = raw && wide ? read_tap(s, tap, stripe, raw) : session_fabric_no_memory(s);
  if (status == WAFER_OK) {
    port_widen(type->dtype, stored, raw, wide, count);
    wafer_view view = wafer_view_of(type->dtype, &type->shape, wide);
    status = s->kernels->made(s->kernels->self, tap->kernel, tap->output, &view);
  }
  free(raw);
  free(wide);
  return status;
}

wafer_status session_fabric_left(session_fabric *s, const fabric_launch *l, const fabric_io *io) {
  const wafer_function *f = s->function;
  for (uint32_t k = 0; wafer_plan_updates(s->plan) && k < f->output_count; k++)
    for (uint32_t i = 0; i < l->of->tap_count; i++) {
      const wafer_tap *tap = &l->of->taps[i];
      uint32_t value = s->plan->kernels[tap->kernel].outputs[tap->output];
      if (value != f->outputs[k] || s->plan->values[value].owner != WAFER_OWNER_gradient) continue;
      WAFER_TRY(read_tap(s, tap, 0, s->stored[value]));
      WAFER_TRY(session_fabric_output(s, value, io->out[k], io->first));
    }
  return WAFER_OK;
}

wafer_status session_fabric_tell(session_fabric *s, const fabric_launch *l, const fabric_io *io) {
  uint32_t stripes = s->plan->stripes > 1 ? io->stripes : 1;
  for (uint32_t b = 0; b < stripes; b++)
    for (uint32_t i = 0; s->kernels && i < l->of->tap_count; i++)
      WAFER_TRY(tell(s, &l->of->taps[i], b));
  return WAFER_OK;
}

/* What a launch has left in the memories: the outputs of its kernels, element by element, for
 * whoever compares them with those of kernel fidelity, and those that no stream takes away. */
#include <stdlib.h>

#include "fabric/fabric_session.h"
#include "port.h"

typedef struct tap_reader {
  const session_fabric *s;
  const wafer_tap *tap;
  const wafer_shape *shape;
  uint32_t x, y, row, col;
  uint32_t element; /* bytes */
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

static bool is_sum(const session_fabric *s, const wafer_tap *tap) {
  return wafer_body_sums(&s->plan->kernels[tap->kernel].body, tap->output);
}

/* Elements of the output as cores store them. */
static wafer_status read_tap(session_fabric *s, const wafer_tap *tap, uint32_t stripe,
                             uint32_t band, void *to) {
  const wafer_kernel *k = &s->plan->kernels[tap->kernel];
  uint32_t value = k->outputs[tap->output];
  wafer_dtype dtype =
      is_sum(s, tap) || tap->weight ? WAFER_DTYPE_f32 : session_fabric_type(s, value);
  tap_reader r = {.s = s,
                  .tap = tap,
                  .shape = &s->plan->values[value].type.shape,
                  .element = (uint32_t)wafer_dtype_bytes(dtype),
                  .to = to,
                  .bad = -1};
  for (r.row = 0; r.row < k->rect.height; r.row++)
    for (r.col = 0; r.col < k->rect.width && r.bad < 0; r.col++) {
      uint32_t x = k->rect.x + tap->replica * k->rect.width + r.col;
      wafer_core_at at = wafer_machine_band_core(
          s->plan->machine, band, x + stripe * s->plan->stripe_columns, k->rect.y + r.row);
      r.x = at.x;
      r.y = at.y;
      read_from(&r, 0, 0, tap->address);
    }
  if (r.bad >= 0)
    return wafer_fail(s->diag, wafer_at_kernel(s->plan->model, k->name, NULL), WAFER_TRAP,
                      "core (%u,%u) has left nothing of output %u at address %lld", r.x, r.y,
                      tap->output, (long long)r.bad);
  wafer_layout layout = wafer_kernel_output_layout(&k->body, &k->split, tap->output);
  return wafer_layout_ordered(&layout)
             ? session_fabric_order(s, value, &layout, true, r.element, to)
             : WAFER_OK;
}

/* What the replicas have added up, together: first to last. */
static wafer_status read_sum(session_fabric *s, const fabric_launch *l, const wafer_tap *first,
                             float *to, float *one, size_t count) {
  WAFER_TRY(read_tap(s, first, 0, 0, to));
  for (uint32_t i = 0; i < l->of->tap_count; i++) {
    const wafer_tap *tap = &l->of->taps[i];
    if (tap->kernel != first->kernel || tap->output != first->output || !tap->replica) continue;
    WAFER_TRY(read_tap(s, tap, 0, 0, one));
    for (size_t e = 0; e < count; e++) to[e] += one[e];
  }
  return WAFER_OK;
}

/* An output in the plan's type, dense. */
static wafer_status read_output(session_fabric *s, const fabric_launch *l, const wafer_tap *tap,
                                uint32_t stripe, uint32_t band, void *out) {
  uint32_t value = s->plan->kernels[tap->kernel].outputs[tap->output];
  wafer_dtype type = s->plan->values[value].type.dtype, stored = session_fabric_type(s, value);
  size_t count = session_fabric_elements(s, value);
  bool sum = is_sum(s, tap);
  size_t each = wafer_dtype_bytes(sum ? WAFER_DTYPE_f32 : stored);
  char *raw = calloc(count + 1, 2 * each);
  if (!raw) return session_fabric_no_memory(s);
  wafer_status status =
      sum ? read_sum(s, l, tap, (float *)raw, (float *)(raw + count * each), count)
          : read_tap(s, tap, stripe, band, raw);
  if (status == WAFER_OK && sum)
    port_narrow(WAFER_DTYPE_f32, type, raw, out, count);
  else if (status == WAFER_OK)
    port_widen(type, stored, raw, out, count);
  free(raw);
  return status;
}

wafer_status session_fabric_new_weight(session_fabric *s, const wafer_tap *tap, float *to) {
  return read_tap(s, tap, 0, 0, to);
}

static wafer_status tell(session_fabric *s, const fabric_launch *l, const wafer_tap *tap,
                         uint32_t stripe, uint32_t band) {
  uint32_t value = s->plan->kernels[tap->kernel].outputs[tap->output];
  const wafer_type *type = &s->plan->values[value].type;
  void *wide = calloc(session_fabric_elements(s, value) + 1, wafer_dtype_bytes(type->dtype));
  wafer_status status =
      wide ? read_output(s, l, tap, stripe, band, wide) : session_fabric_no_memory(s);
  if (status == WAFER_OK) {
    wafer_view view = wafer_view_of(type->dtype, &type->shape, wide);
    status = s->kernels->made(s->kernels->self, tap->kernel, tap->output, &view);
  }
  free(wide);
  return status;
}

wafer_status session_fabric_left(session_fabric *s, const fabric_launch *l, const fabric_io *io) {
  const wafer_function *f = s->function;
  for (uint32_t k = 0; k < f->output_count; k++)
    for (uint32_t i = 0; i < l->of->tap_count; i++) {
      const wafer_tap *tap = &l->of->taps[i];
      uint32_t value = s->plan->kernels[tap->kernel].outputs[tap->output];
      if (value == f->outputs[k] && is_sum(s, tap) && !tap->replica)
        WAFER_TRY(read_output(s, l, tap, 0, 0, io->out[k]));
    }
  return WAFER_OK;
}

wafer_status session_fabric_tell(session_fabric *s, const fabric_launch *l, const fabric_io *io) {
  uint32_t stripes = s->plan->stripes > 1 ? io->stripes : 1;
  for (uint32_t i = 0; s->kernels && i < stripes * io->samples; i++)
    for (uint32_t t = 0; io->first + i <= io->last && t < l->of->tap_count; t++)
      if (!l->of->taps[t].replica)
        WAFER_TRY(
            tell(s, l, &l->of->taps[t], i / (uint32_t)io->samples, i % (uint32_t)io->samples));
  return WAFER_OK;
}

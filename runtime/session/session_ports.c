#include "session_ports.h"

#include <string.h>

wafer_status session_port_check(const wafer_diag *diag, const char *model, const session_port *p,
                                const wafer_view *view, bool train, uint64_t samples) {
  wafer_type type = p->of->type;
  const char *name = p->of->name;
  wafer_shape shape = view->shape;
  if (train && shape.rank) {
    memmove(shape.dims, shape.dims + 1, (shape.rank - 1) * sizeof *shape.dims);
    shape.rank--;
  }
  if (view->dtype != type.dtype)
    return wafer_fail(diag, wafer_at_file(model), WAFER_BAD_INPUT, "input '%s' is %s, given %s",
                      name, wafer_dtype_name(type.dtype), wafer_dtype_name(view->dtype));
  bool same =
      wafer_shape_equal(&shape, &type.shape) && (!train || view->shape.dims[0] == (int64_t)samples);
  if (same) return WAFER_OK;
  char want[128], have[128];
  wafer_shape_format(&type.shape, want, sizeof want);
  wafer_shape_format(&view->shape, have, sizeof have);
  return wafer_fail(
      diag, wafer_at_file(model), WAFER_BAD_INPUT,
      "input '%s' has shape %s (or one more leading dimension, the same for all inputs), given %s",
      name, want, have);
}

/* Sample `index` of a caller's view; `strides` are those inside a sample. */
static const char *sample_of(const wafer_view *view, bool train, uint64_t index,
                             const int64_t **strides) {
  *strides = train ? view->strides + 1 : view->strides;
  int64_t at = train ? (int64_t)index * view->strides[0] : 0;
  return (const char *)view->data + at * (int64_t)wafer_dtype_bytes(view->dtype);
}

static void copy_box(const wafer_shape *shape, size_t element, const void *from,
                     const int64_t *from_strides, void *to, const int64_t *to_strides) {
  exec_copy box = {.rank = shape->rank, .element = element};
  for (uint32_t d = 0; d < shape->rank; d++) {
    box.extent[d] = shape->dims[d];
    box.from[d] = from_strides[d];
    box.to[d] = to_strides[d];
  }
  exec_copy_simplify(&box);
  exec_copy_run(&box, from, to);
}

static size_t count_of(const exec_tensor *t) {
  int64_t n = 1;
  for (uint32_t d = 0; d < t->shape.rank; d++) n *= t->shape.dims[d];
  return (size_t)n;
}

static void load_widened(const exec_tensor *t, void *staging, const void *from,
                         const int64_t *strides, void *to) {
  wafer_view plain = wafer_view_of(t->host, &t->shape, NULL);
  size_t n = count_of(t);
  float *wide = staging;
  uint16_t *narrow = (uint16_t *)(wide + n);
  copy_box(&t->shape, sizeof *narrow, from, strides, narrow, plain.strides);
  for (size_t i = 0; i < n; i++)
    wide[i] =
        t->type == WAFER_DTYPE_f16 ? wafer_f32_of_f16(narrow[i]) : wafer_f32_of_bf16(narrow[i]);
  copy_box(&t->shape, sizeof *wide, wide, plain.strides, to, t->strides);
}

static bool lies_alike(const exec_tensor *t, const int64_t *strides) {
  for (uint32_t d = 0; d < t->shape.rank; d++)
    if (t->shape.dims[d] != 1 && t->strides[d] != strides[d]) return false;
  return true;
}

void session_port_load(const session_port *p, exec_program *program, bool in_place, void *staging,
                       const wafer_view *view, bool train, uint64_t sample) {
  const int64_t *strides;
  const exec_tensor *t = p->tensor;
  const char *from = sample_of(view, train, sample, &strides);
  bool rounds = exec_rounds(t->type, program->storage);
  void **address = &program->frame.address[t->buffer];
  if (t->host != t->type)
    load_widened(t, staging, from, strides, *address);
  else if (in_place && !rounds && lies_alike(t, strides) &&
           (uintptr_t)from % wafer_dtype_bytes(t->type) == 0)
    *address = (void *)(uintptr_t)from;
  else
    copy_box(&t->shape, wafer_dtype_bytes(t->type), from, strides, *address, t->strides);
  if (rounds) exec_round(t->type, program->storage, *address, count_of(t));
}

void session_port_store(const session_port *p, const exec_program *program, void *staging,
                        char *to) {
  const exec_tensor *t = p->tensor;
  const void *from = program->frame.address[t->buffer];
  wafer_view plain = wafer_view_of(t->type, &t->shape, NULL);
  if (from == to) return;
  if (t->host == t->type) {
    copy_box(&t->shape, wafer_dtype_bytes(t->type), from, t->strides, to, plain.strides);
    return;
  }
  float *wide = staging;
  copy_box(&t->shape, sizeof *wide, from, t->strides, wide, plain.strides);
  for (size_t i = 0, n = count_of(t); i < n; i++)
    ((uint16_t *)to)[i] =
        t->type == WAFER_DTYPE_f16 ? wafer_f16_of_f32(wide[i]) : wafer_bf16_of_f32(wide[i]);
}

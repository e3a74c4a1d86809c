#include <string.h>

#include "exec.h"

wafer_dtype exec_host_dtype(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_f16 || dtype == WAFER_DTYPE_bf16 ? WAFER_DTYPE_f32 : dtype;
}

exec_order exec_row_major(void) {
  exec_order order;
  for (uint8_t i = 0; i < WAFER_MAX_RANK; i++) order.dim[i] = i;
  return order;
}

exec_order exec_channels_last(uint32_t rank) {
  exec_order order = exec_row_major();
  if (rank < 3) return order;
  for (uint8_t i = 1; i + 1u < rank; i++) order.dim[i] = (uint8_t)(i + 1);
  order.dim[rank - 1] = 1;
  return order;
}

bool exec_same_order(const wafer_shape *shape, const exec_order *a, const exec_order *b) {
  uint32_t i = 0, j = 0;
  for (;;) {
    while (i < shape->rank && shape->dims[a->dim[i]] == 1) i++;
    while (j < shape->rank && shape->dims[b->dim[j]] == 1) j++;
    if (i == shape->rank || j == shape->rank) return i == j;
    if (a->dim[i++] != b->dim[j++]) return false;
  }
}

static exec_tensor *new_tensor(exec_program *p, const wafer_type *type, const exec_order *order,
                               uint32_t buffer) {
  exec_tensor *t = WAFER_NEW(p->arena, exec_tensor, 1);
  if (!t) return NULL;
  *t = (exec_tensor){.type = type->dtype,
                     .host = exec_host_dtype(type->dtype),
                     .shape = type->shape,
                     .order = *order,
                     .buffer = buffer};
  int64_t stride = 1;
  for (uint32_t i = type->shape.rank; i-- > 0;) {
    t->strides[order->dim[i]] = stride;
    stride *= type->shape.dims[order->dim[i]];
  }
  return t;
}

static size_t bytes_of(const wafer_type *type) {
  return wafer_tensor_bytes(exec_host_dtype(type->dtype), &type->shape);
}

static exec_tensor *in_buffer(exec_program *p, const wafer_type *type, const exec_order *order,
                              const void *constant) {
  if (!WAFER_GROW(p->arena, p->buffers, p->buffer_count, p->buffer_room, 64)) return NULL;
  p->buffers[p->buffer_count] =
      (exec_buffer){.bytes = bytes_of(type), .constant = constant, .first = UINT32_MAX};
  return new_tensor(p, type, order, p->buffer_count++);
}

exec_tensor *exec_tensor_create(exec_program *p, const wafer_type *type, const exec_order *order) {
  return in_buffer(p, type, order, NULL);
}

exec_tensor *exec_tensor_view(exec_program *p, const exec_tensor *base, const wafer_type *type,
                              const exec_order *order) {
  return new_tensor(p, type, order, base->buffer);
}

static void widen(float *out, const char *data, const wafer_type *type, size_t count, bool splat) {
  for (size_t i = 0; i < count; i++) {
    uint16_t bits;
    memcpy(&bits, data + (splat ? 0 : 2 * i), sizeof bits);
    out[i] = type->dtype == WAFER_DTYPE_f16 ? wafer_f32_of_f16(bits) : wafer_f32_of_bf16(bits);
  }
}

exec_tensor *exec_tensor_outside(exec_program *p, const wafer_type *type, const exec_order *order) {
  exec_tensor *t = in_buffer(p, type, order, NULL);
  if (t) p->buffers[t->buffer].outside = true;
  return t;
}

void exec_lay_out(void *out, const wafer_type *type, const void *data, bool splat,
                  wafer_dtype storage) {
  wafer_dtype host = exec_host_dtype(type->dtype);
  size_t element = wafer_dtype_bytes(host), bytes = bytes_of(type), count = bytes / element;
  if (host != type->dtype)
    widen(out, data, type, count, splat);
  else if (!splat)
    memcpy(out, data, bytes);
  else
    for (size_t i = 0; i < count; i++) memcpy((char *)out + i * element, data, element);
  if (exec_rounds(type->dtype, storage)) exec_round(type->dtype, storage, out, count);
}

exec_tensor *exec_tensor_constant(exec_program *p, const wafer_type *type, const void *data,
                                  bool splat, wafer_dtype storage) {
  bool same = exec_host_dtype(type->dtype) == type->dtype && !exec_rounds(type->dtype, storage);
  exec_order order = exec_row_major();
  if (same && !splat && (uintptr_t)data % wafer_dtype_bytes(type->dtype) == 0)
    return in_buffer(p, type, &order, data);
  void *copy = exec_alloc(p, bytes_of(type));
  if (!copy) return NULL;
  exec_lay_out(copy, type, data, splat, storage);
  return in_buffer(p, type, &order, copy);
}

const void *exec_tensor_known(const exec_program *p, const exec_tensor *t) {
  const exec_buffer *b = &p->buffers[t->buffer];
  return b->outside ? NULL : b->constant;
}

void exec_use(exec_program *p, const exec_tensor *t) {
  exec_buffer *b = &p->buffers[t->buffer];
  uint32_t stage = p->stage_count - 1;
  if (stage < b->first) b->first = stage;
  if (stage > b->last) b->last = stage;
}

bool exec_rounds(wafer_dtype type, wafer_dtype storage) {
  return type == WAFER_DTYPE_f16 || type == WAFER_DTYPE_bf16 ||
         (type == WAFER_DTYPE_f32 && storage == WAFER_DTYPE_f16);
}

void exec_round(wafer_dtype type, wafer_dtype storage, float *values, size_t count) {
  if (type == WAFER_DTYPE_bf16)
    for (size_t i = 0; i < count; i++) values[i] = wafer_f32_of_bf16(wafer_bf16_of_f32(values[i]));
  else if (exec_rounds(type, storage))
    wafer_round_f16(values, count);
}

uint32_t exec_outer_dim(const exec_tensor *t) {
  for (uint32_t i = 0; i < t->shape.rank; i++)
    if (t->shape.dims[t->order.dim[i]] != 1) return t->order.dim[i];
  return 0;
}

#include "host_work.h"

wafer_view work_input(host_work *w, uint32_t input) {
  const wafer_view *view;
  if (w->status == WAFER_OK) w->status = host_numbers(w->site, input, &view);
  return w->status == WAFER_OK ? *view : (wafer_view){0};
}

wafer_view work_keep(host_work *w, wafer_item *item) {
  bool room = item && w->count < WAFER_COUNT(w->made);
  if (w->status == WAFER_OK && !room) w->status = host_no_memory(w->site);
  if (!room) wafer_item_release(item);
  if (room) w->made[w->count++] = item;
  return w->status == WAFER_OK ? item->tensor : (wafer_view){0};
}

wafer_view work_op(host_work *w, wafer_op op, uint32_t attr_count, const wafer_attr *attrs,
                   uint32_t count, const wafer_view *operands) {
  wafer_item *item = NULL;
  const wafer_attrs all = {attr_count, attrs};
  if (w->status == WAFER_OK) w->status = host_core_item(w->site, op, &all, count, operands, &item);
  return w->status == WAFER_OK ? work_keep(w, item) : (wafer_view){0};
}

wafer_view work_scalar(host_work *w, wafer_view x, double value) {
  if (w->status != WAFER_OK) return x;
  wafer_view one = work_keep(w, wafer_item_new(x.dtype, &(wafer_shape){0}));
  if (w->status == WAFER_OK) wafer_element_set_f64(x.dtype, one.data, 0, value);
  return one;
}

wafer_view work_reshape(host_work *w, wafer_view x, uint32_t rank, const int64_t *dims) {
  return work_op(w, WAFER_OP_reshape, 1, (wafer_attr[]){HOST_INTS(shape, rank, dims)}, 1, &x);
}

wafer_view work_reduce(host_work *w, wafer_op op, wafer_view x, uint32_t dims) {
  int64_t axes[WAFER_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t d = 0; d < x.shape.rank; d++)
    if (dims >> d & 1) axes[count++] = d;
  wafer_attr attrs[] = {HOST_INTS(axes, count, axes), HOST_INT(keepdims, 1)};
  return work_op(w, op, WAFER_COUNT(attrs), attrs, 1, &x);
}

wafer_status work_end(host_work *w, wafer_view y) {
  wafer_item *result = NULL;
  for (uint32_t i = 0; i < w->count; i++) {
    bool is_result = w->status == WAFER_OK && !result && w->made[i]->tensor.data == y.data;
    if (is_result)
      result = w->made[i];
    else
      wafer_item_release(w->made[i]);
  }
  if (w->status != WAFER_OK) return w->status;
  return host_give(w->site, 0, result ? result : wafer_item_copy(&y));
}

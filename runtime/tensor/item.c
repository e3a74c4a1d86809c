#include "wafer/item.h"

#include <stdlib.h>
#include <string.h>

const char *wafer_item_kind_name(wafer_item_kind kind) {
  static const char *const names[] = {"tensor", "sequence", "optional"};
  return names[kind];
}

/* The item and `bytes` behind it, zeroed, in one block. */
static wafer_item *allocate(size_t bytes) {
  const size_t head = (sizeof(wafer_item) + 15) / 16 * 16;
  wafer_item *item = bytes <= SIZE_MAX - head ? calloc(1, head + bytes) : NULL;
  if (item) *item = (wafer_item){.references = 1, .tensor.data = (char *)item + head};
  return item;
}

wafer_item *wafer_item_new(wafer_dtype dtype, const wafer_shape *shape) {
  int64_t elements;
  size_t bytes;
  if (!wafer_shape_elements(shape, &elements) ||
      __builtin_mul_overflow((size_t)elements, wafer_dtype_bytes(dtype), &bytes))
    return NULL;
  wafer_item *item = allocate(bytes);
  if (item) item->tensor = wafer_view_of(dtype, shape, item->tensor.data);
  return item;
}

/* The pointers, then the text that they point to. */
static wafer_item *copy_strings(const wafer_view *view) {
  int64_t elements;
  if (!wafer_shape_elements(&view->shape, &elements)) return NULL;
  size_t count = (size_t)elements, bytes = 0;
  const char **given = calloc(count + 1, sizeof *given);
  if (!given) return NULL;
  wafer_view_pack(view, given);
  for (size_t i = 0; i < count; i++) bytes += strlen(given[i]) + 1;
  wafer_item *item = allocate(count * sizeof(char *) + bytes);
  if (item) {
    const char **at = item->tensor.data;
    char *text = (char *)(at + count);
    item->tensor = wafer_view_of(WAFER_DTYPE_string, &view->shape, at);
    for (size_t i = 0; i < count; i++) {
      at[i] = text;
      text = stpcpy(text, given[i]) + 1;
    }
  }
  free(given);
  return item;
}

wafer_item *wafer_item_copy(const wafer_view *view) {
  if (view->dtype == WAFER_DTYPE_string) return copy_strings(view);
  wafer_item *item = wafer_item_new(view->dtype, &view->shape);
  if (item) wafer_view_pack(view, item->tensor.data);
  return item;
}

wafer_item *wafer_item_list(wafer_item_kind kind, uint32_t count, wafer_item *const *items) {
  wafer_item *list = allocate(count * sizeof *items);
  if (!list) return NULL;
  wafer_item **at = list->tensor.data;
  for (uint32_t i = 0; i < count; i++) at[i] = wafer_item_retain(items[i]);
  list->kind = kind;
  list->count = count;
  list->items = at;
  list->tensor = (wafer_view){0};
  return list;
}

wafer_item *wafer_item_retain(wafer_item *item) {
  item->references++;
  return item;
}

void wafer_item_release(wafer_item *item) {
  if (!item || --item->references) return;
  for (uint32_t i = 0; i < item->count; i++) wafer_item_release(item->items[i]);
  free(item);
}

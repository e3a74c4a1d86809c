/* What a name of a model may hold on the host, beside the wafer: a tensor whose dims are known at
 * run time, a tensor of strings, a sequence, an optional. An item is immutable once it is made and
 * counted by reference; it belongs to one thread. */
#ifndef WAFER_ITEM_H
#define WAFER_ITEM_H

#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_item_kind {
  WAFER_ITEM_tensor,
  WAFER_ITEM_sequence,
  WAFER_ITEM_optional
} wafer_item_kind;
const char *wafer_item_kind_name(wafer_item_kind kind);

typedef struct wafer_item {
  wafer_item_kind kind;
  wafer_view tensor; /* dense; elements of WAFER_DTYPE_string are `const char *` */
  uint32_t count;    /* of a sequence; of an optional 0 or 1 */
  struct wafer_item *const *items;
  uint32_t references;
} wafer_item;

/* Each gives one reference; NULL when out of memory or when the dims have too many elements. */
wafer_item *wafer_item_new(wafer_dtype dtype, const wafer_shape *shape); /* zeroed, not strings */
wafer_item *wafer_item_copy(const wafer_view *view); /* of any strides; strings with their text */
/* Keeps a reference to each item. */
wafer_item *wafer_item_list(wafer_item_kind kind, uint32_t count, wafer_item *const *items);

wafer_item *wafer_item_retain(wafer_item *item); /* the argument */
void wafer_item_release(wafer_item *item);       /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif

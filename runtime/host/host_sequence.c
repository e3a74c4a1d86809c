/* Host operators on sequences and optionals. Elements are shared, not copied. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

wafer_status host_sequence_construct(host_site *site) {
  for (uint32_t i = 0; i < site->input_count; i++)
    if (!host_has(site, i)) return host_fail(site, "operand %u is missing", i);
  return host_give(site, 0, wafer_item_list(WAFER_ITEM_sequence, site->input_count, site->inputs));
}

/* A position in a sequence of `count`; the end counts as one when `end` is set. */
static wafer_status position(const host_site *site, uint32_t input, uint32_t count, bool end,
                             uint32_t absent, uint32_t *out) {
  int64_t at = absent;
  if (host_has(site, input)) WAFER_TRY(host_scalar(site, input, &at));
  if (at < -(int64_t)count || at >= (int64_t)count + end)
    return host_fail(site, "position %" PRId64 " is out of range, the sequence has %u elements", at,
                     count);
  *out = (uint32_t)(at < 0 ? at + count : at);
  return WAFER_OK;
}

/* A sequence's items without the one at `gap`, or with `more` before the one at `gap`. */
static wafer_status rebuild(host_site *site, const wafer_item *from, uint32_t gap,
                            wafer_item *more) {
  uint32_t count = more ? from->count + 1 : from->count - 1;
  wafer_item **items = calloc((size_t)count + 1, sizeof *items);
  if (!items) return host_no_memory(site);
  for (uint32_t i = 0; i < count; i++)
    items[i] = i < gap   ? from->items[i]
               : !more   ? from->items[i + 1]
               : i > gap ? from->items[i - 1]
                         : more;
  wafer_item *list = wafer_item_list(WAFER_ITEM_sequence, count, items);
  free(items);
  return host_give(site, 0, list);
}

wafer_status host_sequence_insert(host_site *site) {
  const wafer_item *list;
  uint32_t at = 0;
  WAFER_TRY(host_list(site, 0, &list));
  if (!host_has(site, 1)) return host_fail(site, "operand 1 is missing");
  WAFER_TRY(position(site, 2, list->count, true, list->count, &at));
  return rebuild(site, list, at, site->inputs[1]);
}

wafer_status host_sequence_erase(host_site *site) {
  const wafer_item *list;
  uint32_t at = 0;
  WAFER_TRY(host_list(site, 0, &list));
  if (!list->count) return host_fail(site, "the sequence is empty");
  WAFER_TRY(position(site, 1, list->count, false, list->count - 1, &at));
  return rebuild(site, list, at, NULL);
}

wafer_status host_sequence_at(host_site *site) {
  const wafer_item *list;
  uint32_t at = 0;
  WAFER_TRY(host_list(site, 0, &list));
  WAFER_TRY(position(site, 1, list->count, false, 0, &at));
  return host_give(site, 0, wafer_item_retain(list->items[at]));
}

/* A scalar. */
static wafer_status give_number(host_site *site, wafer_dtype dtype, int64_t value) {
  wafer_view *view;
  WAFER_TRY(host_new(site, 0, dtype, &(wafer_shape){0}, &view));
  wafer_element_set_i64(dtype, view->data, 0, value);
  return WAFER_OK;
}

wafer_status host_sequence_length(host_site *site) {
  const wafer_item *list;
  WAFER_TRY(host_list(site, 0, &list));
  return give_number(site, WAFER_DTYPE_i64, list->count);
}

/* ---- tensors to sequences and back ---- */

/* The lengths of the parts along a dim; a scalar `split` is the length of all but the last. */
static wafer_status part_lengths(const host_site *site, int64_t dim, int64_t **out,
                                 uint32_t *count) {
  const wafer_view *split = NULL;
  if (host_has(site, 1)) WAFER_TRY(host_tensor(site, 1, &split));
  if (split && (split->dtype == WAFER_DTYPE_string || wafer_dtype_is_float(split->dtype)))
    return host_fail(site, "split must be of integers");
  bool listed = split && split->shape.rank > 0;
  int64_t step = split && !listed ? wafer_element_i64(split->dtype, split->data, 0) : 1, sum = 0;
  if (step < 1) return host_fail(site, "split is %" PRId64, step);
  int64_t parts = listed ? host_elements(split) : dim / step + (dim % step != 0);
  if (parts > INT32_MAX) return host_fail(site, "%" PRId64 " parts are too many", parts);
  int64_t *lengths = calloc((size_t)parts + 1, sizeof *lengths);
  if (!lengths) return host_no_memory(site);
  for (int64_t i = 0; i < parts; i++) {
    int64_t left = dim - sum;
    lengths[i] = listed        ? wafer_element_i64(split->dtype, split->data, i)
                 : step < left ? step
                               : left;
    if (lengths[i] < 0 || lengths[i] > left) break;
    sum += lengths[i];
  }
  if (sum != dim) {
    free(lengths);
    return host_fail(site, "the parts do not sum to the %" PRId64 " elements of the dim", dim);
  }
  *out = lengths;
  *count = (uint32_t)parts;
  return WAFER_OK;
}

wafer_status host_split_to_sequence(host_site *site) {
  const wafer_view *x;
  uint32_t axis = 0, count = 0;
  int64_t *lengths = NULL, start = 0;
  WAFER_TRY(host_tensor(site, 0, &x));
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), x->shape.rank, &axis));
  bool drop = !host_has(site, 1) && !host_int(site, "keepdims", 1);
  WAFER_TRY(part_lengths(site, x->shape.dims[axis], &lengths, &count));
  wafer_item **parts = calloc((size_t)count + 1, sizeof *parts);
  wafer_status status = parts ? WAFER_OK : host_no_memory(site);
  for (uint32_t i = 0; i < count && status == WAFER_OK; start += lengths[i++])
    status = host_cut(site, x, axis, start, lengths[i], drop, &parts[i]);
  if (status == WAFER_OK)
    status = host_give(site, 0, wafer_item_list(WAFER_ITEM_sequence, count, parts));
  for (uint32_t i = 0; parts && i < count; i++) wafer_item_release(parts[i]);
  free(parts);
  free(lengths);
  return status;
}

wafer_status host_concat_from_sequence(host_site *site) {
  const wafer_item *list;
  bool fresh = host_int(site, "new_axis", 0) != 0;
  uint32_t axis;
  WAFER_TRY(host_list(site, 0, &list));
  if (!list->count) return host_fail(site, "the sequence is empty");
  for (uint32_t i = 0; i < list->count; i++)
    if (list->items[i]->kind != WAFER_ITEM_tensor)
      return host_fail(site, "entry %u of the sequence is a %s, must be a tensor", i,
                       wafer_item_kind_name(list->items[i]->kind));
  uint32_t rank = list->items[0]->tensor.shape.rank + fresh;
  if (rank > WAFER_MAX_RANK) return host_fail(site, "the result has %u dims", rank);
  WAFER_TRY(host_axis(site, host_int(site, "axis", 0), rank, &axis));
  wafer_view *views = calloc(list->count, sizeof *views);
  if (!views) return host_no_memory(site);
  for (uint32_t i = 0; i < list->count; i++) {
    wafer_view from = list->items[i]->tensor;
    if (fresh && from.shape.rank < WAFER_MAX_RANK && axis <= from.shape.rank) {
      memmove(&from.shape.dims[axis + 1], &from.shape.dims[axis],
              (from.shape.rank - axis) * sizeof from.shape.dims[0]);
      from.shape.dims[axis] = 1;
      from.shape.rank++;
    }
    views[i] = wafer_view_of(from.dtype, &from.shape, from.data);
  }
  wafer_item *joined = NULL;
  wafer_status status = host_join(site, list->count, views, axis, &joined);
  free(views);
  return status == WAFER_OK ? host_give(site, 0, joined) : status;
}

/* ---- optionals ---- */

wafer_status host_optional(host_site *site) {
  return host_give(site, 0,
                   wafer_item_list(WAFER_ITEM_optional, host_has(site, 0) ? 1 : 0, site->inputs));
}

wafer_status host_optional_has_element(host_site *site) {
  bool has = host_has(site, 0) &&
             (site->inputs[0]->kind != WAFER_ITEM_optional || site->inputs[0]->count == 1);
  return give_number(site, WAFER_DTYPE_bool, has);
}

wafer_status host_optional_get_element(host_site *site) {
  if (!host_has(site, 0)) return host_fail(site, "operand 0 is missing");
  wafer_item *item = site->inputs[0];
  if (item->kind == WAFER_ITEM_optional && item->count == 0)
    return host_fail(site, "the optional is empty");
  return host_give(site, 0,
                   wafer_item_retain(item->kind == WAFER_ITEM_optional ? item->items[0] : item));
}

/* The same item under another name. */
wafer_status host_copy(host_site *site) {
  if (!host_has(site, 0)) return host_fail(site, "operand 0 is missing");
  return host_give(site, 0, wafer_item_retain(site->inputs[0]));
}

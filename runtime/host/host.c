#include "host.h"

#include <string.h>

#define ANY UINT32_MAX
#define ALWAYS WAFER_HOST_ALWAYS
#define STRINGS WAFER_HOST_STRINGS
#define RUNTIME WAFER_HOST_RUNTIME
#define INTERNAL WAFER_HOST_INTERNAL

static const wafer_host_info infos[WAFER_HOST_COUNT] = {
    [WAFER_HOST_none] = {.name = "none"},
#define HOST(name, least, most, outputs, when, fixed, function)                                    \
  [WAFER_HOST_##name] = {#name, least, most, outputs, when, fixed},
#include "wafer/host.def"
};

static host_rule *const rules[WAFER_HOST_COUNT] = {
#define HOST(name, least, most, outputs, when, fixed, function)                                    \
  [WAFER_HOST_##name] = host_##function,
#include "wafer/host.def"
};

const wafer_host_info *wafer_host_get(wafer_host_op op) {
  return &infos[op];
}

wafer_host_op wafer_host_by_name(const char *name) {
  for (uint32_t i = 1; i < WAFER_HOST_COUNT; i++)
    if (!strcmp(infos[i].name, name)) return (wafer_host_op)i;
  return WAFER_HOST_none;
}

const char *wafer_host_attr_kind_name(wafer_host_attr_kind kind) {
  static const char *const names[] = {
#define X(name) #name,
      WAFER_HOST_ATTR_MAP(X)
#undef X
  };
  return names[kind];
}

wafer_status host_run(host_site *site, wafer_host_op op) {
  site->info = &infos[op];
  if (site->input_count < site->info->least || site->input_count > site->info->most)
    return host_fail(site, "has %u operands, takes %u to %u", site->input_count, site->info->least,
                     site->info->most);
  if (site->output_count < 1 || site->output_count > site->info->outputs)
    return host_fail(site, "has %u outputs, gives 1 to %u", site->output_count,
                     site->info->outputs);
  return rules[op](site);
}

wafer_status host_no_memory(const host_site *site) {
  return wafer_fail(site->diag, site->loc, WAFER_NO_MEMORY, "%s: no memory for the result",
                    site->info->name);
}

/* ---- Attributes ---- */

const wafer_host_attr *host_attr(const host_site *site, const char *name,
                                 wafer_host_attr_kind kind) {
  for (uint32_t i = 0; i < site->attr_count; i++)
    if (site->attrs[i].kind == kind && !strcmp(site->attrs[i].name, name)) return &site->attrs[i];
  return NULL;
}

int64_t host_int(const host_site *site, const char *name, int64_t absent) {
  const wafer_host_attr *a = host_attr(site, name, WAFER_HOST_ATTR_ints);
  return a && a->count ? a->ints[0] : absent;
}

double host_float(const host_site *site, const char *name, double absent) {
  const wafer_host_attr *a = host_attr(site, name, WAFER_HOST_ATTR_floats);
  return a && a->count ? a->floats[0] : absent;
}

const char *host_text(const host_site *site, const char *name, const char *absent) {
  const wafer_host_attr *a = host_attr(site, name, WAFER_HOST_ATTR_texts);
  return a && a->count ? a->texts[0] : absent;
}

/* ---- Inputs ---- */

wafer_status host_tensor(const host_site *site, uint32_t input, const wafer_view **out) {
  if (!host_has(site, input)) return host_fail(site, "operand %u is missing", input);
  if (site->inputs[input]->kind != WAFER_ITEM_tensor)
    return host_fail(site, "operand %u is a %s, must be a tensor", input,
                     wafer_item_kind_name(site->inputs[input]->kind));
  *out = &site->inputs[input]->tensor;
  return WAFER_OK;
}

wafer_status host_typed(const host_site *site, uint32_t input, wafer_dtype dtype,
                        const wafer_view **out) {
  WAFER_TRY(host_tensor(site, input, out));
  if ((*out)->dtype == dtype) return WAFER_OK;
  return host_fail(site, "operand %u is of type %s, must be %s", input,
                   wafer_dtype_name((*out)->dtype), wafer_dtype_name(dtype));
}

wafer_status host_list(const host_site *site, uint32_t input, const wafer_item **out) {
  if (!host_has(site, input)) return host_fail(site, "operand %u is missing", input);
  *out = site->inputs[input];
  if ((*out)->kind == WAFER_ITEM_optional && (*out)->count == 1) *out = (*out)->items[0];
  if ((*out)->kind == WAFER_ITEM_sequence) return WAFER_OK;
  return host_fail(site, "operand %u is a %s, must be a sequence", input,
                   wafer_item_kind_name((*out)->kind));
}

static bool is_integer(wafer_dtype dtype) {
  return dtype != WAFER_DTYPE_none && dtype != WAFER_DTYPE_string && !wafer_dtype_is_float(dtype);
}

wafer_status host_numbers(const host_site *site, uint32_t input, const wafer_view **out) {
  WAFER_TRY(host_tensor(site, input, out));
  if ((*out)->dtype != WAFER_DTYPE_none && (*out)->dtype != WAFER_DTYPE_string) return WAFER_OK;
  return host_fail(site, "operand %u is of type %s, must be of numbers", input,
                   wafer_dtype_name((*out)->dtype));
}

wafer_status host_scalar(const host_site *site, uint32_t input, int64_t *out) {
  const wafer_view *view;
  WAFER_TRY(host_tensor(site, input, &view));
  if (!is_integer(view->dtype) || host_elements(view) != 1)
    return host_fail(site, "operand %u must be one integer", input);
  *out = wafer_element_i64(view->dtype, view->data, 0);
  return WAFER_OK;
}

wafer_status host_ints(const host_site *site, uint32_t input, uint32_t most, int64_t *out,
                       uint32_t *count) {
  const wafer_view *view;
  WAFER_TRY(host_tensor(site, input, &view));
  int64_t elements = host_elements(view);
  if (!is_integer(view->dtype) || view->shape.rank > 1 || elements > most)
    return host_fail(site, "operand %u must be a vector of at most %u integers", input, most);
  for (int64_t i = 0; i < elements; i++) out[i] = wafer_element_i64(view->dtype, view->data, i);
  *count = (uint32_t)elements;
  return WAFER_OK;
}

wafer_status host_axis(const host_site *site, int64_t axis, uint32_t rank, uint32_t *out) {
  if (axis < -(int64_t)rank || axis >= (int64_t)rank)
    return host_fail(site, "axis %" PRId64 " is out of range, %u dims are there", axis, rank);
  *out = (uint32_t)(axis < 0 ? axis + rank : axis);
  return WAFER_OK;
}

/* ---- Outputs ---- */

wafer_status host_give(host_site *site, uint32_t output, wafer_item *item) {
  if (!item) return host_no_memory(site);
  if (output >= site->output_count) {
    wafer_item_release(item);
    return WAFER_OK;
  }
  site->outputs[output] = item;
  return WAFER_OK;
}

wafer_status host_new(host_site *site, uint32_t output, wafer_dtype dtype, const wafer_shape *shape,
                      wafer_view **out) {
  wafer_item *item = wafer_item_new(dtype, shape);
  WAFER_TRY(host_give(site, output, item));
  *out = &item->tensor;
  return WAFER_OK;
}

/* Strings are moved as what they are to the host, pointers; their text is copied then. */
wafer_status host_core_item(const host_site *site, wafer_op op, const wafer_attrs *attrs,
                            uint32_t count, const wafer_view *operands, wafer_item **out) {
  wafer_view views[WAFER_OP_MAX_OPERANDS];
  wafer_type types[WAFER_OP_MAX_OPERANDS], type;
  bool strings = false, moves = wafer_op_is(op, WAFER_TRAIT_VIEW) || op == WAFER_OP_gather;
  for (uint32_t i = 0; i < count; i++) {
    views[i] = operands[i];
    if (views[i].dtype == WAFER_DTYPE_string) {
      if (!moves) return host_fail(site, "operand %u is of strings", i);
      strings = true;
      views[i].dtype = WAFER_DTYPE_u64;
    }
    types[i] = (wafer_type){views[i].dtype, views[i].shape};
  }
  WAFER_TRY(wafer_op_infer(site->diag, site->loc, op, attrs, count, types, &type));
  wafer_item *item = wafer_item_new(type.dtype, &type.shape);
  if (!item) return host_no_memory(site);
  wafer_status status =
      wafer_reference_run(site->diag, site->loc, op, attrs, count, views, &item->tensor);
  if (status == WAFER_OK && strings) {
    item->tensor.dtype = WAFER_DTYPE_string;
    wafer_item *copy = wafer_item_copy(&item->tensor);
    wafer_item_release(item);
    item = copy;
    if (!item) return host_no_memory(site);
  }
  if (status == WAFER_OK)
    *out = item;
  else
    wafer_item_release(item);
  return status;
}

wafer_status host_core_op(host_site *site, wafer_op op, const wafer_attrs *attrs, uint32_t count,
                          const wafer_view *operands) {
  wafer_item *item;
  WAFER_TRY(host_core_item(site, op, attrs, count, operands, &item));
  return host_give(site, 0, item);
}

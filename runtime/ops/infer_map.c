/* Shape rules of sources and maps. */
#include "infer.h"

#include <string.h>

/* Sources have no operands to tell a type from: the caller's stays. */
wafer_status infer_constant(const infer_site *site, wafer_type *result) {
  int64_t elements;
  if (wafer_shape_elements(&result->shape, &elements) && elements &&
      !wafer_attr_find(site->attrs, WAFER_ATTR_value)->data.bytes)
    return infer_fail(site, "has no data for %" PRId64 " elements", elements);
  return WAFER_OK;
}

wafer_status infer_weight(const infer_site *site, wafer_type *result) {
  (void)site, (void)result;
  return WAFER_OK;
}

/* Operand 0's element type, all operands broadcast. */
static wafer_status broadcast(const infer_site *site, wafer_type *result) {
  *result = site->operands[0];
  for (uint32_t i = 1; i < site->operand_count; i++)
    WAFER_TRY(infer_broadcast_into(site, &result->shape, &site->operands[i].shape));
  return WAFER_OK;
}

static wafer_status map_of(const infer_site *site, bool (*is)(wafer_dtype), const char *what,
                           wafer_type *result) {
  WAFER_TRY(infer_class(site, 0, is, what));
  WAFER_TRY(infer_same_dtype(site, 0, site->operand_count));
  return broadcast(site, result);
}

static wafer_status to_bool(wafer_status status, wafer_type *result) {
  result->dtype = WAFER_DTYPE_bool;
  return status;
}

wafer_status infer_number(const infer_site *site, wafer_type *result) {
  return map_of(site, infer_is_number, "a number type", result);
}

wafer_status infer_real(const infer_site *site, wafer_type *result) {
  return map_of(site, wafer_dtype_is_float, "a float type", result);
}

wafer_status infer_logical(const infer_site *site, wafer_type *result) {
  return map_of(site, infer_is_bool, "bool", result);
}

wafer_status infer_bitwise(const infer_site *site, wafer_type *result) {
  return map_of(site, infer_is_countable, "bool or an integer type", result);
}

wafer_status infer_compare(const infer_site *site, wafer_type *result) {
  return to_bool(map_of(site, infer_is_any, "a type", result), result);
}

wafer_status infer_order(const infer_site *site, wafer_type *result) {
  return to_bool(infer_number(site, result), result);
}

wafer_status infer_predicate(const infer_site *site, wafer_type *result) {
  return to_bool(infer_real(site, result), result);
}

wafer_status infer_pow(const infer_site *site, wafer_type *result) {
  WAFER_TRY(infer_class(site, 0, infer_is_number, "a number type"));
  WAFER_TRY(infer_class(site, 1, infer_is_number, "a number type"));
  return broadcast(site, result);
}

wafer_status infer_cast(const infer_site *site, wafer_type *result) {
  const char *name = wafer_attr_string(site->attrs, WAFER_ATTR_to);
  *result = site->operands[0];
  result->dtype = wafer_dtype_by_name(name);
  if (result->dtype == WAFER_DTYPE_none)
    return infer_fail(site, "attribute to is '%.64s', which is no element type", name);
  return WAFER_OK;
}

wafer_status infer_bitcast(const infer_site *site, wafer_type *result) {
  WAFER_TRY(infer_cast(site, result));
  if (wafer_dtype_bits(result->dtype) != wafer_dtype_bits(site->operands[0].dtype))
    return infer_fail(site, "%s and %s differ in size", wafer_dtype_name(site->operands[0].dtype),
                      wafer_dtype_name(result->dtype));
  return WAFER_OK;
}

wafer_status infer_select(const infer_site *site, wafer_type *result) {
  WAFER_TRY(infer_class(site, 0, infer_is_bool, "bool"));
  WAFER_TRY(infer_same_dtype(site, 1, 3));
  WAFER_TRY(broadcast(site, result));
  result->dtype = site->operands[1].dtype;
  return WAFER_OK;
}

wafer_status infer_softmax(const infer_site *site, wafer_type *result) {
  uint32_t axis;
  WAFER_TRY(infer_axis(site, &site->operands[0].shape, &axis));
  return infer_real(site, result);
}

wafer_status infer_batch_norm(const infer_site *site, wafer_type *result) {
  const wafer_shape *x = &site->operands[0].shape;
  for (uint32_t i = 0; i < site->operand_count; i++)
    WAFER_TRY(infer_class(site, i, wafer_dtype_is_float, "a float type"));
  if (x->rank < 2) return infer_fail(site, "operand 0 has %u dims, needs at least 2", x->rank);
  for (uint32_t i = 1; i < site->operand_count; i++) {
    const wafer_shape *shape = &site->operands[i].shape;
    if (shape->rank != 1 || shape->dims[0] != x->dims[1])
      return infer_fail(site, "operand %u is %s, must be %" PRId64 ", the channels of operand 0", i,
                        infer_text(shape).at, x->dims[1]);
  }
  *result = site->operands[0];
  return WAFER_OK;
}

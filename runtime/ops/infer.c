/* wafer_op_infer: checks what every op owes, then asks the rule that its row names. */
#include "infer.h"

#include <stdio.h>
#include <string.h>

static infer_rule *const rules[WAFER_OP_COUNT] = {
#define OP(name, least, most, traits, shape, ...) [WAFER_OP_##name] = infer_##shape,
#include "wafer/ops.def"
};

/* ---- for the rules ---- */

infer_shape_text infer_text(const wafer_shape *shape) {
  infer_shape_text text;
  wafer_shape_format(shape, text.at, sizeof text.at);
  return text;
}

wafer_status infer_ints(const infer_site *site, wafer_attr_id id, uint32_t count, int64_t least,
                        int64_t most, const int64_t **out) {
  uint32_t given;
  const int64_t *at = wafer_attr_ints(site->attrs, id, &given);
  if (given != count)
    return infer_fail(site, "attribute %s has %u entries, needs %u", wafer_attr_name(id), given,
                      count);
  for (uint32_t i = 0; i < count; i++)
    if (at[i] < least || at[i] > most)
      return infer_fail(site, "attribute %s[%u] is %" PRId64 ", must be %" PRId64 " to %" PRId64,
                        wafer_attr_name(id), i, at[i], least, most);
  *out = at;
  return WAFER_OK;
}

wafer_status infer_axis(const infer_site *site, const wafer_shape *shape, uint32_t *axis) {
  int64_t value = wafer_attr_int(site->attrs, WAFER_ATTR_axis);
  if (value < 0 || value >= shape->rank)
    return infer_fail(site, "axis is %" PRId64 ", must be at least 0 and less than the rank, %u",
                      value, shape->rank);
  *axis = (uint32_t)value;
  return WAFER_OK;
}

wafer_status infer_shape_attr(const infer_site *site, wafer_shape *shape) {
  uint32_t rank;
  const int64_t *dims = wafer_attr_ints(site->attrs, WAFER_ATTR_shape, &rank);
  if (rank > WAFER_MAX_RANK)
    return infer_fail(site, "attribute shape has %u dims, at most %d are supported", rank,
                      WAFER_MAX_RANK);
  *shape = (wafer_shape){.rank = rank};
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0)
      return infer_fail(site, "attribute shape[%u] is %" PRId64 ", must be at least 0", i, dims[i]);
    shape->dims[i] = dims[i];
  }
  return WAFER_OK;
}

wafer_status infer_word(const infer_site *site, wafer_attr_id id, const char *const *words,
                        size_t count) {
  char list[256] = "";
  const char *given = wafer_attr_string(site->attrs, id);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(words[i], given) == 0) return WAFER_OK;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
  }
  return infer_fail(site, "attribute %s is '%.64s', must be one of %s", wafer_attr_name(id), given,
                    list);
}

wafer_status infer_broadcast_into(const infer_site *site, wafer_shape *shape,
                                  const wafer_shape *with) {
  wafer_shape wide = shape->rank >= with->rank ? *shape : *with;
  for (uint32_t i = 1; i <= wide.rank; i++) { /* from the innermost dim on */
    int64_t a = i <= shape->rank ? shape->dims[shape->rank - i] : 1;
    int64_t b = i <= with->rank ? with->dims[with->rank - i] : 1;
    if (a != b && a != 1 && b != 1)
      return infer_fail(site, "%s and %s do not broadcast: %" PRId64 " against %" PRId64,
                        infer_text(shape).at, infer_text(with).at, a, b);
    wide.dims[wide.rank - i] = a == 1 ? b : a;
  }
  *shape = wide;
  return WAFER_OK;
}

wafer_status infer_same_dtype(const infer_site *site, uint32_t first, uint32_t count) {
  const wafer_type *operands = site->operands;
  for (uint32_t i = first + 1; i < count; i++)
    if (operands[i].dtype != operands[first].dtype)
      return infer_fail(site, "operand %u is of type %s, operand %u of type %s; they must agree", i,
                        wafer_dtype_name(operands[i].dtype), first,
                        wafer_dtype_name(operands[first].dtype));
  return WAFER_OK;
}

wafer_status infer_class(const infer_site *site, uint32_t index, bool (*is)(wafer_dtype),
                         const char *what) {
  wafer_dtype dtype = site->operands[index].dtype;
  if (is(dtype)) return WAFER_OK;
  return infer_fail(site, "operand %u is of type %s, must be %s", index, wafer_dtype_name(dtype),
                    what);
}

/* ---- what every op owes ---- */

static wafer_status check_type(const infer_site *site, const char *what, uint32_t index,
                               const wafer_type *type) {
  int64_t elements;
  if (type->dtype <= WAFER_DTYPE_none || type->dtype >= WAFER_DTYPE_COUNT)
    return infer_fail(site, "%s %u has no element type", what, index);
  if (type->shape.rank > WAFER_MAX_RANK)
    return infer_fail(site, "%s %u has %u dims, at most %d are supported", what, index,
                      type->shape.rank, WAFER_MAX_RANK);
  if (!wafer_shape_elements(&type->shape, &elements))
    return infer_fail(site, "%s %u, %s, has a negative dim or too many elements", what, index,
                      infer_text(&type->shape).at);
  return WAFER_OK;
}

/* The member that follows from the kind may be read. */
static bool is_set(const wafer_attr *attr) {
  switch (wafer_attr_kind_of(attr->id)) {
  case WAFER_ATTR_KIND_ints: return attr->ints.count == 0 || attr->ints.at != NULL;
  case WAFER_ATTR_KIND_floats: return attr->floats.count == 0 || attr->floats.at != NULL;
  case WAFER_ATTR_KIND_string: return attr->s != NULL;
  default: return true;
  }
}

static wafer_status check_site(const infer_site *site) {
  const wafer_op_info *info = site->info;
  if (site->operand_count < info->least || site->operand_count > info->most)
    return infer_fail(site, "has %u operands, takes %u to %u", site->operand_count, info->least,
                      info->most);
  for (uint32_t i = 0; i < info->attr_count; i++) {
    const wafer_attr *attr = wafer_attr_find(site->attrs, info->attrs[i]);
    if (!attr || !is_set(attr))
      return infer_fail(site, "lacks attribute %s", wafer_attr_name(info->attrs[i]));
  }
  for (uint32_t i = 0; i < site->operand_count; i++)
    WAFER_TRY(check_type(site, "operand", i, &site->operands[i]));
  return WAFER_OK;
}

wafer_status wafer_op_infer(const wafer_diag *diag, wafer_loc loc, wafer_op op,
                            const wafer_attrs *attrs, uint32_t operand_count,
                            const wafer_type *operands, wafer_type *result) {
  if ((uint32_t)op >= WAFER_OP_COUNT)
    return wafer_fail(diag, loc, WAFER_BAD_INPUT, "there is no op %u, at most %u", (unsigned)op,
                      (unsigned)WAFER_OP_COUNT - 1);
  infer_site site = {diag, loc, wafer_op_get(op), attrs, operand_count, operands};
  wafer_type type = wafer_op_is(op, WAFER_TRAIT_SOURCE) ? *result : (wafer_type){0};
  WAFER_TRY(check_site(&site));
  WAFER_TRY(rules[op](&site, &type));
  WAFER_TRY(check_type(&site, "result", 0, &type));
  *result = type;
  return WAFER_OK;
}

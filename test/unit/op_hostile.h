/* Attributes as a broken or malicious plan may have them, from a fixed seed. */
#ifndef OP_HOSTILE_H
#define OP_HOSTILE_H

#include "op_text.h"

static inline uint64_t op_hostile_next(uint64_t *state) { /* xorshift64 */
  *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
  return *state;
}

/* Small values mostly, limits sometimes. */
static inline int64_t op_hostile_int(uint64_t *state) {
  static const int64_t limits[] = {INT64_MIN, INT64_MAX,        INT32_MIN,
                                   INT32_MAX, (int64_t)1 << 31, -1};
  uint64_t r = op_hostile_next(state);
  return r % 8 == 0 ? limits[r / 8 % WAFER_COUNT(limits)] : (int64_t)(r / 8 % 5);
}

/* A word that the attribute may hold, one of another, or none. */
static inline const char *op_hostile_word(uint64_t *state, wafer_op op, wafer_attr_id id) {
  static const char *const words[][6] = {
      {"constant", "reflect", "edge", "wrap", "nearest", "cubic"},
      {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
       ""},
      {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "floor", ""},
      {"f32", "bool", "u8", "i64", "bf16", "f128"},
      {"none", "add", "mul", "max", "min", "constant"},
  };
  uint32_t row = id == WAFER_ATTR_coordinates ? 1
                 : id == WAFER_ATTR_rounding  ? 2
                 : id == WAFER_ATTR_to        ? 3
                 : op == WAFER_OP_scatter     ? 4
                                              : 0;
  return words[row][op_hostile_next(state) % 6];
}

/* As many entries as operands of `rank` need, mostly. */
static inline uint32_t op_hostile_count(uint64_t *state, wafer_op op, wafer_attr_id id,
                                        uint32_t rank) {
  uint64_t r = op_hostile_next(state);
  bool windows = wafer_op_get(op)->family == WAFER_FAMILY_conv ||
                 wafer_op_get(op)->family == WAFER_FAMILY_conv_transpose ||
                 wafer_op_get(op)->family == WAFER_FAMILY_pool;
  uint32_t each = windows && rank >= 2 ? rank - 2 : rank;
  if (r % 16 == 0 || id == WAFER_ATTR_axes) return (uint32_t)(r / 16 % 8);
  return id == WAFER_ATTR_pads ? 2 * each : each;
}

static inline void op_hostile_attrs(uint64_t *state, wafer_op op, uint32_t rank,
                                    op_text_attrs *out) {
  const wafer_op_info *info = wafer_op_get(op);
  memset(out, 0, sizeof *out);
  out->attrs = (wafer_attrs){info->attr_count, out->list};
  for (uint32_t i = 0; i < info->attr_count; i++) {
    wafer_attr *attr = &out->list[i];
    uint32_t count = op_hostile_count(state, op, info->attrs[i], rank);
    attr->id = info->attrs[i];
    for (uint32_t j = 0; j < 32; j++) {
      out->ints[i][j] = op_hostile_int(state);
      out->floats[i][j] = (double)op_hostile_int(state) / 2;
    }
    switch (wafer_attr_kind_of(attr->id)) {
    case WAFER_ATTR_KIND_int: attr->i = op_hostile_int(state); break;
    case WAFER_ATTR_KIND_float: attr->f = (double)op_hostile_int(state); break;
    case WAFER_ATTR_KIND_string: attr->s = op_hostile_word(state, op, attr->id); break;
    case WAFER_ATTR_KIND_ints: attr->ints.count = count, attr->ints.at = out->ints[i]; break;
    case WAFER_ATTR_KIND_floats:
      attr->floats.count = count, attr->floats.at = out->floats[i];
      break;
    case WAFER_ATTR_KIND_data: attr->data.bytes = NULL; break;
    }
  }
}

#endif

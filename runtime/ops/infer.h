/* The shape rules of ops.def: what infer_*.c share. */
#ifndef RUNTIME_INFER_H
#define RUNTIME_INFER_H

#include <inttypes.h>

#include "wafer/ops.h"

/* The question. Operands have valid types and their number fits the op's row; every attribute of
 * the row is there, strings and lists are not NULL. Nothing else is known of the attributes'
 * values. */
typedef struct infer_site {
  const wafer_diag *diag;
  wafer_loc loc;
  const wafer_op_info *info;
  const wafer_attrs *attrs;
  uint32_t operand_count;
  const wafer_type *operands;
} infer_site;

/* A rule fills `result`; wafer_op_infer then checks the product of its dims. */
typedef wafer_status infer_rule(const infer_site *site, wafer_type *result);

#define OP(name, least, most, traits, shape, ...) infer_rule infer_##shape;
#include "wafer/ops.def"

/* `return infer_fail(site, "...", ...)`: BAD_INPUT, the text led by the op's name. */
#define infer_fail(site, format, ...)                                                              \
  wafer_fail((site)->diag, (site)->loc, WAFER_BAD_INPUT, "%s: " format,                            \
             (site)->info->name __VA_OPT__(, ) __VA_ARGS__)

/* A shape as text, for messages: infer_text(&shape).at */
typedef struct infer_shape_text {
  char at[200];
} infer_shape_text;
infer_shape_text infer_text(const wafer_shape *shape);

/* The attribute is `count` integers, each in least .. most. */
wafer_status infer_ints(const infer_site *site, wafer_attr_id id, uint32_t count, int64_t least,
                        int64_t most, const int64_t **out);
/* The attribute is an axis of `shape`, not negative. */
wafer_status infer_axis(const infer_site *site, const wafer_shape *shape, uint32_t *axis);
/* The attribute is a list of dims: the shape. */
wafer_status infer_shape_attr(const infer_site *site, wafer_shape *shape);
/* The attribute is one of `count` words. */
wafer_status infer_word(const infer_site *site, wafer_attr_id id, const char *const *words,
                        size_t count);
/* Broadcasts `with` into `shape`. */
wafer_status infer_broadcast_into(const infer_site *site, wafer_shape *shape,
                                  const wafer_shape *with);
/* Operands 0 .. count-1 agree in element type. */
wafer_status infer_same_dtype(const infer_site *site, uint32_t first, uint32_t count);

/* Classes of element types. */
static inline bool infer_is_number(wafer_dtype dtype) {
  return dtype != WAFER_DTYPE_bool;
}
static inline bool infer_is_bool(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_bool;
}
static inline bool infer_is_any(wafer_dtype dtype) {
  return dtype != WAFER_DTYPE_none;
}
static inline bool infer_is_integer(wafer_dtype dtype) {
  return !wafer_dtype_is_float(dtype) && dtype != WAFER_DTYPE_bool;
}
static inline bool infer_is_countable(wafer_dtype dtype) {
  return !wafer_dtype_is_float(dtype);
}
/* Operand `index` is of a class; `what` names it: "a float type". */
wafer_status infer_class(const infer_site *site, uint32_t index, bool (*is)(wafer_dtype),
                         const char *what);

#endif

/* The loops of elementwise ops: one function per op and held element type. */
#ifndef RUNTIME_EXEC_MAP_OPS_H
#define RUNTIME_EXEC_MAP_OPS_H

#include <stddef.h>

#include "wafer/ops.h"

/* Attributes of the op: clip's bounds, mod's truncate, isinf's signs. */
typedef struct map_attrs {
  double low, high;
  int64_t flags;
} map_attrs;

/* out[i] of a[i], b[i], c[i]; out may be any of them. */
typedef void map_loop(void *out, const void *a, const void *b, const void *c, size_t n,
                      const map_attrs *attrs);

typedef enum map_form {
  MAP_ALL,          /* every operand has n elements */
  MAP_RIGHT_SCALAR, /* b has one element */
  MAP_LEFT_SCALAR,  /* a has one element */
} map_form;

/* NULL where there is none. `type` is the held type of the operands (of the second one for select).
 */
map_loop *map_loop_get(wafer_op op, wafer_dtype type, map_form form);
map_attrs map_attrs_of(wafer_op op, const wafer_attrs *attrs);
map_loop *map_loop_cast(wafer_dtype from, wafer_dtype to);

#endif

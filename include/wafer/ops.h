/* The core ops seen from C: the registry of ops.def, attributes, and nodes, the form in which an op
 * stands outside MLIR (in a kernel of a plan, for the interpreter, for cost models). */
#ifndef WAFER_OPS_H
#define WAFER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "wafer/arena.h"
#include "wafer/diag.h"
#include "wafer/machine.h"
#include "wafer/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_op {
#define OP(name, ...) WAFER_OP_##name,
#include "wafer/ops.def"
  WAFER_OP_COUNT
} wafer_op;

typedef enum wafer_family {
#define FAMILY(name, ...) WAFER_FAMILY_##name,
#include "wafer/kernels.def"
  WAFER_FAMILY_COUNT,
  WAFER_FAMILY_none = WAFER_FAMILY_COUNT
} wafer_family;

enum {
  WAFER_TRAIT_MAP = 1,
  WAFER_TRAIT_COMMUTES = 2,
  WAFER_TRAIT_VIEW = 4,
  WAFER_TRAIT_SOURCE = 8,
  WAFER_TRAIT_PRODUCT = 16,
  WAFER_TRAIT_WINDOW = 32,
  WAFER_TRAIT_INDEX = 64
};

typedef enum wafer_attr_kind {
  WAFER_ATTR_KIND_int,
  WAFER_ATTR_KIND_float,
  WAFER_ATTR_KIND_ints,
  WAFER_ATTR_KIND_floats,
  WAFER_ATTR_KIND_string,
  WAFER_ATTR_KIND_data,
} wafer_attr_kind;

typedef enum wafer_attr_id {
#define ATTR(name, kind) WAFER_ATTR_##name,
#include "wafer/attrs.def"
  WAFER_ATTR_COUNT
} wafer_attr_id;

#define WAFER_OP_MAX_ATTRS 10
#define WAFER_OP_MAX_OPERANDS 8

typedef struct wafer_op_info {
  const char *name;
  uint32_t least, most; /* operands */
  uint32_t traits;
  wafer_family family;
  wafer_rate rate;
  uint32_t attr_count;
  wafer_attr_id attrs[WAFER_OP_MAX_ATTRS];
} wafer_op_info;

const wafer_op_info *wafer_op_get(wafer_op op);
/* WAFER_OP_COUNT when there is none. */
wafer_op wafer_op_by_name(const char *name);
static inline bool wafer_op_is(wafer_op op, uint32_t traits) {
  return (wafer_op_get(op)->traits & traits) == traits;
}
const char *wafer_family_name(wafer_family family);
wafer_family wafer_family_by_name(const char *name); /* none when unknown */

const char *wafer_attr_name(wafer_attr_id id);
wafer_attr_kind wafer_attr_kind_of(wafer_attr_id id);
wafer_attr_id wafer_attr_by_name(const char *name); /* WAFER_ATTR_COUNT when unknown */

/* One attribute. The member that is set follows from wafer_attr_kind_of(id). */
typedef struct wafer_attr {
  wafer_attr_id id;
  union {
    int64_t i;
    double f;
    const char *s;
    struct {
      uint32_t count;
      const int64_t *at;
    } ints;
    struct {
      uint32_t count;
      const double *at;
    } floats;
    struct { /* elements of the op's result type; `splat`: one element stands for all */
      const void *bytes;
      bool splat;
    } data;
  };
} wafer_attr;

/* The attributes of one op, in the order of its row. */
typedef struct wafer_attrs {
  uint32_t count;
  const wafer_attr *at;
} wafer_attrs;

/* NULL when the op does not carry it. */
const wafer_attr *wafer_attr_find(const wafer_attrs *attrs, wafer_attr_id id);
/* For attributes the op's row demands (asserted). */
int64_t wafer_attr_int(const wafer_attrs *attrs, wafer_attr_id id);
double wafer_attr_float(const wafer_attrs *attrs, wafer_attr_id id);
const char *wafer_attr_string(const wafer_attrs *attrs, wafer_attr_id id);
const int64_t *wafer_attr_ints(const wafer_attrs *attrs, wafer_attr_id id, uint32_t *count);
/* Numbers of dims, which inference has accepted, as a bit set. */
uint32_t wafer_attr_dims(const wafer_attrs *attrs, wafer_attr_id id);
/* How many dims of rank `rank` a reduction over all others keeps, if these come first and there are
 * any; 0: it is another. */
uint32_t wafer_reduction_keeps(const wafer_attrs *attrs, uint32_t rank);
const double *wafer_attr_floats(const wafer_attrs *attrs, wafer_attr_id id, uint32_t *count);

/* The type of a value inside a kernel. */
typedef struct wafer_type {
  wafer_dtype dtype;
  wafer_shape shape;
} wafer_type;
static inline bool wafer_type_equal(const wafer_type *a, const wafer_type *b) {
  return a->dtype == b->dtype && wafer_shape_equal(&a->shape, &b->shape);
}

/* One op inside a kernel. Values of a kernel are numbered: its inputs first, then one per node. */
typedef struct wafer_node {
  wafer_op op;
  const char *name; /* of the ONNX node it comes from */
  uint32_t operand_count;
  uint32_t operands[WAFER_OP_MAX_OPERANDS]; /* value numbers, each less than the node's own */
  wafer_attrs attrs;
  wafer_type type; /* of the result */
} wafer_node;
/* An attribute whose length is known: as many as dims. */
static inline const int64_t *wafer_node_ints(const wafer_node *node, wafer_attr_id id) {
  uint32_t count;
  return wafer_attr_ints(&node->attrs, id, &count);
}
/* Of a reduction: whether dim d of its operand goes. */
bool wafer_node_reduces(const wafer_node *node, uint32_t d);
/* Of a gather: how many leading dims its data and its indices share, all before the axis or none.
 */
uint32_t wafer_node_shares(const wafer_node *node);

/* The type of the op's result from its operands' types and its attributes: the shape rule of
 * ops.def. BAD_INPUT names what contradicts; dims are checked against overflow. Used when IR is
 * built, by pass `shape`, and to check an untrusted plan. */
wafer_status wafer_op_infer(const wafer_diag *diag, wafer_loc loc, wafer_op op,
                            const wafer_attrs *attrs, uint32_t operand_count,
                            const wafer_type *operands, wafer_type *result);

/* The oracle: plain loops over dense row-major tensors, every op and element type; slow and
 * obviously right. Constant folding, tests, and kernels of rare types use it. `result->data` is
 * written; its dtype and shape must be the node's. Sums accumulate in f64 for floats, int64 for
 * integers. WAFER_UNSUPPORTED names what it cannot do. */
wafer_status wafer_reference_run(const wafer_diag *diag, wafer_loc loc, wafer_op op,
                                 const wafer_attrs *attrs, uint32_t operand_count,
                                 const wafer_view *operands, const wafer_view *result);

/* Element j of dim d of a resize's result, from `in` elements to `out`, is the sum of weight[k]
 * times the element index[k] of its operand; unused taps weigh 0. Indices are inside the operand.
 */
typedef struct wafer_resize_taps {
  int64_t index[4];
  double weight[4];
} wafer_resize_taps;
void wafer_resize_taps_of(const wafer_attrs *attrs, uint32_t d, int64_t in, int64_t out, int64_t j,
                          wafer_resize_taps *taps);
/* ONNX's Range of start, limit and delta, one element each of one type of numbers: how many there
 * are, `most` at most (false: more, or no range), and their values. */
bool wafer_range_count(const wafer_view of[3], int64_t most, int64_t *count);
void wafer_range_fill(const wafer_view of[3], int64_t count, void *data);

/* The least numbers with which every element j of the result needs only elements
 * floor((j * in - before) / out) .. floor((j * in + after) / out) of dim d of the operand. */
void wafer_resize_window(const wafer_attrs *attrs, uint32_t d, int64_t in, int64_t out,
                         int64_t *before, int64_t *after);

#ifdef __cplusplus
}
#endif
#endif

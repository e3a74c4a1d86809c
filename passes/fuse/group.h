/* Which ops form one kernel. Plain C over plain structs: fuse.c fills them from the IR. */
#ifndef WAFER_PASSES_GROUP_H
#define WAFER_PASSES_GROUP_H

#include "wafer/ir.h"
#include "wafer/ops.h"

#define GROUP_MAX_OPS 64 /* of an anchor with its elementwise tail, or of a map kernel */
#define GROUP_MAX_VIEWS                                                                            \
  240                      /* views of a tree and what they use: within WAFER_MAX_KERNEL_VALUES    \
                            */
#define GROUP_MAX_INPUTS 8 /* non-constant operands from outside, but for trees of views */
#define GROUP_WHOLE 1024   /* elements that a core may well have whole */
#define GROUP_MAX_PARTS 4  /* of a concatenation, of parts of at most GROUP_SMALL_PART elements */
#define GROUP_SMALL_PART 1536
#define GROUP_PAIRS 8 /* times its operands and its reduction: what is so large stays where it is  \
                       */
#define GROUP_ROOMY_PART 4096 /* elements that any core has room for */

/* An op of @main. Values are numbered: op i makes value i, arguments follow from `count` on. */
typedef struct group_op {
  wafer_op op;
  uint32_t operand_count;
  uint32_t operands[WAFER_OP_MAX_OPERANDS];
  wafer_shape shape; /* of the result */
  bool returned;     /* the result is an output of the model */
  bool mixes;        /* sums over a dim that the result has as well, of what it multiplies */
  int64_t taken;     /* elements of all operands */
  uint32_t keeps;    /* of a reduction: see wafer_reduction_keeps */
  bool behind;       /* then: it may well follow what makes its operand */
  uint32_t moved; /* of a concatenation or slice: dims along which elements change places, a set */
} group_op;

typedef struct group {
  wafer_family family;
  uint32_t anchor, last; /* ops */
  uint32_t size, inputs; /* ops; operands from outside that are not constants */
  bool closed;           /* a value of it is already used elsewhere */
  bool views;            /* a tree of views so far */
} group;

/* Groups in an order in which they can run: by their last op. */
typedef struct grouping {
  uint32_t count;
  const group *at;
  const uint32_t *of; /* group of each op, UINT32_MAX for sources */
  bool scattered;     /* `whole` makes a difference */
} grouping;

/* Ops stand in topological order; linear in their number. `whole`: concatenations of many small
 * parts are kernels as others are. WAFER_NO_MEMORY alone fails. */
wafer_status group_ops(const wafer_diag *diag, wafer_arena *arena, uint32_t count,
                       const group_op *ops, bool whole, grouping *out);

/* Transposed matrices whose data are absent become weights of their own. */
wafer_status fuse_swap_weights(const wafer_ctx *ctx, wafer_ir *ir, MlirBlock block);

#endif

/* Host operators: what no core can do (host.def), as the steps of a plan name them. */
#ifndef WAFER_HOST_H
#define WAFER_HOST_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum wafer_host_op {
  WAFER_HOST_none,
#define HOST(name, ...) WAFER_HOST_##name,
#include "wafer/host.def"
  WAFER_HOST_COUNT
} wafer_host_op;

/* When the importer makes a host step of the operator. */
enum {
  WAFER_HOST_ALWAYS = 1,   /* by cores only where all operands of `fixed` are known, if any */
  WAFER_HOST_STRINGS = 2,  /* on strings alone */
  WAFER_HOST_RUNTIME = 4,  /* when an operand's dims are known at run time alone */
  WAFER_HOST_INTERNAL = 8, /* no operator of ONNX: made by the importer */
};

typedef struct wafer_host_info {
  const char *name;
  uint32_t least, most; /* operands */
  uint32_t outputs;     /* at most */
  uint32_t when;
  uint32_t fixed; /* bit i: where operand i is not known when compiling, the host does it */
} wafer_host_info;

const wafer_host_info *wafer_host_get(wafer_host_op op);
wafer_host_op wafer_host_by_name(const char *name); /* none when unknown */

/* An attribute of a host operator: a list; a scalar is a list of one. */
#define WAFER_HOST_ATTR_MAP(X) X(ints) X(floats) X(texts)

typedef enum wafer_host_attr_kind {
#define X(name) WAFER_HOST_ATTR_##name,
  WAFER_HOST_ATTR_MAP(X)
#undef X
      WAFER_HOST_ATTR_COUNT
} wafer_host_attr_kind;
const char *wafer_host_attr_kind_name(wafer_host_attr_kind kind);

typedef struct wafer_host_attr {
  const char *name; /* ONNX's */
  wafer_host_attr_kind kind;
  uint32_t count;
  union {
    const int64_t *ints;
    const double *floats;
    const char *const *texts;
  };
} wafer_host_attr;

#ifdef __cplusplus
}
#endif
#endif

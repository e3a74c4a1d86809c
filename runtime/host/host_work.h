/* Host operators that are compositions of core ops. A failure sticks: after the first one every
 * helper returns at once, so compositions are written as plain expressions and end with
 * work_end. */
#ifndef RUNTIME_HOST_WORK_H
#define RUNTIME_HOST_WORK_H

#include "host.h"

typedef struct host_work {
  host_site *site;
  wafer_item *made[24]; /* along the way */
  uint32_t count;
  wafer_status status;
} host_work;

/* Input `input`, a tensor of numbers or bools. */
wafer_view work_input(host_work *w, uint32_t input);
/* Keeps an item until the end. NULL: out of memory. */
wafer_view work_keep(host_work *w, wafer_item *item);
wafer_view work_op(host_work *w, wafer_op op, uint32_t attr_count, const wafer_attr *attrs,
                   uint32_t count, const wafer_view *operands);
static inline wafer_view work_unary(host_work *w, wafer_op op, wafer_view a) {
  return work_op(w, op, 0, NULL, 1, &a);
}
static inline wafer_view work_binary(host_work *w, wafer_op op, wafer_view a, wafer_view b) {
  return work_op(w, op, 0, NULL, 2, (wafer_view[]){a, b});
}
/* A scalar of x's element type. */
wafer_view work_scalar(host_work *w, wafer_view x, double value);
wafer_view work_reshape(host_work *w, wafer_view x, uint32_t rank, const int64_t *dims);
/* Over the dims of a bit set, which stay as 1. */
wafer_view work_reduce(host_work *w, wafer_op op, wafer_view x, uint32_t dims);
/* `format` as of host_fail. */
#define work_fail(w, ...)                                                                          \
  ((w)->status = (w)->status == WAFER_OK ? host_fail((w)->site, __VA_ARGS__) : (w)->status)
/* `y` becomes output 0, unless something failed; what was made goes. */
wafer_status work_end(host_work *w, wafer_view y);

#endif

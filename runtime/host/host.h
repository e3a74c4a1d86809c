/* Host operators: what host_*.c share. */
#ifndef RUNTIME_HOST_H
#define RUNTIME_HOST_H

#include <inttypes.h>

#include "wafer/diag.h"
#include "wafer/host.h"
#include "wafer/item.h"
#include "wafer/ops.h"

/* One step to do. Inputs may be NULL where one is left out; outputs are NULL until they are set,
 * each with one reference. */
typedef struct host_site {
  const wafer_diag *diag;
  wafer_loc loc;
  const wafer_host_info *info;
  uint32_t attr_count;
  const wafer_host_attr *attrs;
  uint32_t input_count, output_count;
  wafer_item *const *inputs;
  wafer_item **outputs;
} host_site;

typedef wafer_status host_rule(host_site *site);
#define HOST(name, least, most, outputs, when, fixed, function) host_rule host_##function;
#include "wafer/host.def"

/* Does a step: operand numbers are checked, then its rule. */
wafer_status host_run(host_site *site, wafer_host_op op);

/* `return host_fail(site, "...", ...)`: BAD_INPUT, the text led by the operator's name. */
#define host_fail(site, format, ...)                                                               \
  wafer_fail((site)->diag, (site)->loc, WAFER_BAD_INPUT, "%s: " format,                            \
             (site)->info->name __VA_OPT__(, ) __VA_ARGS__)
wafer_status host_no_memory(const host_site *site);

/* ---- Attributes ---- */

/* NULL when it is absent or of another kind. */
const wafer_host_attr *host_attr(const host_site *site, const char *name,
                                 wafer_host_attr_kind kind);
int64_t host_int(const host_site *site, const char *name, int64_t absent);
double host_float(const host_site *site, const char *name, double absent);
const char *host_text(const host_site *site, const char *name, const char *absent);

/* ---- Inputs ---- */

static inline bool host_has(const host_site *site, uint32_t input) {
  return input < site->input_count && site->inputs[input];
}
/* Input `input` is there and a tensor; and of numbers or bools; or of this element type. */
wafer_status host_tensor(const host_site *site, uint32_t input, const wafer_view **out);
wafer_status host_numbers(const host_site *site, uint32_t input, const wafer_view **out);
wafer_status host_typed(const host_site *site, uint32_t input, wafer_dtype dtype,
                        const wafer_view **out);
wafer_status host_list(const host_site *site, uint32_t input, const wafer_item **out);
/* A scalar, or a tensor of one element, of an integer type. */
wafer_status host_scalar(const host_site *site, uint32_t input, int64_t *out);
/* A vector of integers; `most` entries at most. */
wafer_status host_ints(const host_site *site, uint32_t input, uint32_t most, int64_t *out,
                       uint32_t *count);
/* -rank <= axis < rank, counted from the end when negative. */
wafer_status host_axis(const host_site *site, int64_t axis, uint32_t rank, uint32_t *out);

static inline int64_t host_elements(const wafer_view *view) {
  int64_t elements = 0;
  (void)wafer_shape_elements(&view->shape, &elements);
  return elements;
}

/* ---- Outputs ---- */

/* A new tensor as output `output`. */
wafer_status host_new(host_site *site, uint32_t output, wafer_dtype dtype, const wafer_shape *shape,
                      wafer_view **out);
/* `item`, a reference of which is taken over; NULL: out of memory. */
wafer_status host_give(host_site *site, uint32_t output, wafer_item *item);
/* A core op over views, its result's type by the op's rule: output 0. Strings may be moved. */
wafer_status host_core_op(host_site *site, wafer_op op, const wafer_attrs *attrs, uint32_t count,
                          const wafer_view *operands);
/* The same as an item. */
wafer_status host_core_item(const host_site *site, wafer_op op, const wafer_attrs *attrs,
                            uint32_t count, const wafer_view *operands, wafer_item **out);

/* Tensors one behind the other along `axis`; types and other dims must agree. */
wafer_status host_join(const host_site *site, uint32_t count, const wafer_view *views,
                       uint32_t axis, wafer_item **out);
/* `count` elements of dim `axis` from `start`; `drop`: without that dim, when count is 1. */
wafer_status host_cut(const host_site *site, const wafer_view *view, uint32_t axis, int64_t start,
                      int64_t count, bool drop, wafer_item **out);

#define HOST_INT(key, value) ((wafer_attr){.id = WAFER_ATTR_##key, .i = (value)})
#define HOST_TEXT(key, value) ((wafer_attr){.id = WAFER_ATTR_##key, .s = (value)})
#define HOST_INTS(key, n, values) ((wafer_attr){.id = WAFER_ATTR_##key, .ints = {(n), (values)}})

#endif

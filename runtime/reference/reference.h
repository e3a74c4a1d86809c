/* The oracle's loops: what reference_*.c share. */
#ifndef RUNTIME_REFERENCE_H
#define RUNTIME_REFERENCE_H

#include <inttypes.h>

#include "wafer/ops.h"

/* One op to compute. wafer_op_infer has accepted it, operands and result are dense, and the result
 * has at least one element. */
typedef struct reference_site {
  const wafer_diag *diag;
  wafer_loc loc;
  const wafer_op_info *info;
  const wafer_attrs *attrs;
  uint32_t count; /* operands */
  const wafer_view *in, *out;
  wafer_arena *scratch; /* NULL until the first reference_alloc */
} reference_site;

typedef wafer_status reference_rule(reference_site *site);

#define OP(name, ...) reference_rule reference_##name;
#include "wafer/ops.def"

/* `count` elements of `size` bytes that live until the op is done. */
wafer_status reference_alloc(reference_site *site, int64_t count, size_t size, void *out);

static inline int64_t reference_elements(const wafer_view *view) {
  int64_t elements;
  wafer_shape_elements(&view->shape, &elements);
  return elements;
}

/* The word of a string attribute as its index in a list of modes.h. */
size_t reference_word(const reference_site *site, wafer_attr_id id, const char *const *words,
                      size_t count);

/* Elements at, at + step, ... of a tensor, as doubles or as int64 (u64: the bits), and back. */
void reference_load_f64(const wafer_view *view, int64_t at, int64_t step, int64_t n, double *out);
void reference_load_i64(const wafer_view *view, int64_t at, int64_t step, int64_t n, int64_t *out);
void reference_store_f64(const wafer_view *view, int64_t at, int64_t n, const double *from);
void reference_store_i64(const wafer_view *view, int64_t at, int64_t n, const int64_t *from);

/* Eight bytes that hold any element: f when the tensor's type is a float, else i. */
typedef union reference_cell {
  double f;
  int64_t i;
} reference_cell;
void reference_load(const wafer_view *view, int64_t at, int64_t n, reference_cell *out);
void reference_store(const wafer_view *view, int64_t at, int64_t n, const reference_cell *from);

/* What no element of a type is beyond; floats: the infinities. */
reference_cell reference_least(wafer_dtype dtype);
reference_cell reference_greatest(wafer_dtype dtype);

/* int64 arithmetic that wraps. */
static inline int64_t wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t wrap_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
/* a < b; `huge`: both are u64. */
static inline bool int_less(int64_t a, int64_t b, bool huge) {
  return huge ? (uint64_t)a < (uint64_t)b : a < b;
}
/* Truncates; what has no result, x / 0, is 0, and the least integer / -1 wraps. */
int64_t int_div(int64_t a, int64_t b, bool huge);

/* A walk over the rows (runs along the innermost dim) of up to 4 tensors with common dims:
 *   for (walk_begin(&w); w.more; walk_next(&w)) ... w.n elements of tensor t at w.at[t] + j *
 * w.step[t] Fill rank, dims, tensors and strides. Neighbouring dims that all tensors run through as
 * one are merged, so a row may be longer than dims[rank - 1]. */
#define WALK_TENSORS 4
typedef struct walk {
  uint32_t rank, tensors;
  int64_t dims[WAFER_MAX_RANK];
  int64_t strides[WALK_TENSORS][WAFER_MAX_RANK];
  bool more;
  int64_t n, at[WALK_TENSORS], step[WALK_TENSORS];
  int64_t index[WAFER_MAX_RANK];
} walk;
void walk_begin(walk *w);
void walk_next(walk *w);
/* The strides of `view` broadcast to `shape`: 0 along dims it repeats. */
void walk_broadcast(const wafer_view *view, const wafer_shape *shape, int64_t *strides);

/* n elements of `size` bytes, steps in elements. */
void reference_copy(size_t size, void *to, int64_t to_step, const void *from, int64_t from_step,
                    int64_t n);

#endif

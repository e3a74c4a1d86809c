/* wafer_reference_run, and the loading, storing and walking that its loops share. */
#include "reference.h"

#include <math.h>
#include <string.h>

#include "ops/modes.h"

static reference_rule *const rules[WAFER_OP_COUNT] = {
#define OP(name, ...) [WAFER_OP_##name] = reference_##name,
#include "wafer/ops.def"
};

/* ---- the entry ---- */

static wafer_status check_result(const reference_site *site, const wafer_type *type) {
  char want[128], have[128];
  const wafer_view *out = site->out;
  if (type->dtype == out->dtype && wafer_shape_equal(&type->shape, &out->shape)) return WAFER_OK;
  wafer_shape_format(&type->shape, want, sizeof want);
  wafer_shape_format(&out->shape, have, sizeof have);
  return wafer_fail(site->diag, site->loc, WAFER_BAD_INPUT, "%s: the result is %s %s, not %s %s",
                    site->info->name, want, wafer_dtype_name(type->dtype), have,
                    wafer_dtype_name(out->dtype));
}

static wafer_status check_dense(const reference_site *site) {
  for (uint32_t i = 0; i <= site->count; i++) {
    const wafer_view *view = i < site->count ? &site->in[i] : site->out;
    if (!wafer_view_is_dense(view))
      return wafer_fail(site->diag, site->loc, WAFER_UNSUPPORTED,
                        "%s: %s %u has gaps or is not row-major; make it dense first",
                        site->info->name, i < site->count ? "operand" : "result",
                        i < site->count ? i : 0);
  }
  return WAFER_OK;
}

wafer_status wafer_reference_run(const wafer_diag *diag, wafer_loc loc, wafer_op op,
                                 const wafer_attrs *attrs, uint32_t operand_count,
                                 const wafer_view *operands, const wafer_view *result) {
  wafer_type types[WAFER_OP_MAX_OPERANDS] = {0}, type = {result->dtype, result->shape};
  for (uint32_t i = 0; i < operand_count && i < WAFER_OP_MAX_OPERANDS; i++)
    types[i] = (wafer_type){operands[i].dtype, operands[i].shape};
  WAFER_TRY(wafer_op_infer(diag, loc, op, attrs, operand_count, types, &type));
  reference_site site = {diag, loc, wafer_op_get(op), attrs, operand_count, operands, result, NULL};
  WAFER_TRY(check_result(&site, &type));
  WAFER_TRY(check_dense(&site));
  if (reference_elements(result) == 0) return WAFER_OK;
  wafer_status status = rules[op](&site);
  wafer_arena_destroy(site.scratch);
  return status;
}

wafer_status reference_alloc(reference_site *site, int64_t count, size_t size, void *out) {
  if (!site->scratch) site->scratch = wafer_arena_create();
  void *at = site->scratch ? wafer_arena_alloc(site->scratch, (size_t)count, size) : NULL;
  memcpy(out, &at, sizeof at);
  if (at) return WAFER_OK;
  return wafer_fail(site->diag, site->loc, WAFER_NO_MEMORY,
                    "%s: the host has no %" PRId64 " elements of %zu bytes left", site->info->name,
                    count, size);
}

size_t reference_word(const reference_site *site, wafer_attr_id id, const char *const *words,
                      size_t count) {
  return mode_find(words, count, wafer_attr_string(site->attrs, id));
}

/* ---- elements ---- */

void reference_load_f64(const wafer_view *view, int64_t at, int64_t step, int64_t n, double *out) {
  if (view->dtype != WAFER_DTYPE_f32) {
    for (int64_t i = 0; i < n; i++)
      out[i] = wafer_element_f64(view->dtype, view->data, at + i * step);
    return;
  }
  const char *from = (const char *)view->data + at * 4;
  for (int64_t i = 0; i < n; i++) {
    float value; /* tensors may lie unaligned */
    memcpy(&value, from + i * step * 4, sizeof value);
    out[i] = (double)value;
  }
}

void reference_load_i64(const wafer_view *view, int64_t at, int64_t step, int64_t n, int64_t *out) {
  for (int64_t i = 0; i < n; i++)
    out[i] = wafer_element_i64(view->dtype, view->data, at + i * step);
}

void reference_store_f64(const wafer_view *view, int64_t at, int64_t n, const double *from) {
  if (view->dtype != WAFER_DTYPE_f32) {
    for (int64_t i = 0; i < n; i++) wafer_element_set_f64(view->dtype, view->data, at + i, from[i]);
    return;
  }
  char *to = (char *)view->data + at * 4;
  for (int64_t i = 0; i < n; i++) {
    float value = (float)from[i];
    memcpy(to + i * 4, &value, sizeof value);
  }
}

void reference_store_i64(const wafer_view *view, int64_t at, int64_t n, const int64_t *from) {
  for (int64_t i = 0; i < n; i++) wafer_element_set_i64(view->dtype, view->data, at + i, from[i]);
}

void reference_load(const wafer_view *view, int64_t at, int64_t n, reference_cell *out) {
  if (wafer_dtype_is_float(view->dtype))
    reference_load_f64(view, at, 1, n, &out->f);
  else
    reference_load_i64(view, at, 1, n, &out->i);
}

void reference_store(const wafer_view *view, int64_t at, int64_t n, const reference_cell *from) {
  if (wafer_dtype_is_float(view->dtype))
    reference_store_f64(view, at, n, &from->f);
  else
    reference_store_i64(view, at, n, &from->i);
}

static uint32_t value_bits(wafer_dtype dtype) {
  return dtype == WAFER_DTYPE_bool ? 1 : wafer_dtype_bits(dtype);
}

reference_cell reference_least(wafer_dtype dtype) {
  if (wafer_dtype_is_float(dtype)) return (reference_cell){.f = -INFINITY};
  if (!wafer_dtype_is_signed(dtype)) return (reference_cell){.i = 0};
  return (reference_cell){.i = (int64_t)(UINT64_MAX << (value_bits(dtype) - 1))};
}

reference_cell reference_greatest(wafer_dtype dtype) {
  if (wafer_dtype_is_float(dtype)) return (reference_cell){.f = INFINITY};
  uint32_t sign = wafer_dtype_is_signed(dtype) ? 1 : 0;
  return (reference_cell){.i = (int64_t)(UINT64_MAX >> (64 - value_bits(dtype) + sign))};
}

int64_t int_div(int64_t a, int64_t b, bool huge) {
  if (b == 0) return 0;
  if (huge) return (int64_t)((uint64_t)a / (uint64_t)b);
  return b == -1 ? wrap_sub(0, a) : a / b;
}

#define COPY(type)                                                                                 \
  for (int64_t i = 0; i < n; i++)                                                                  \
  memcpy((char *)to + i * to_step * (int64_t)sizeof(type),                                         \
         (const char *)from + i * from_step * (int64_t)sizeof(type), sizeof(type))

void reference_copy(size_t size, void *to, int64_t to_step, const void *from, int64_t from_step,
                    int64_t n) {
  if (n <= 0) return;
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)n * size);
    return;
  }
  switch (size) {
  case 1: COPY(uint8_t); break;
  case 2: COPY(uint16_t); break;
  case 4: COPY(uint32_t); break;
  default: COPY(uint64_t); break;
  }
}

/* ---- walks ---- */

/* Dim `d` and the next one are one for every tensor. */
static bool mergeable(const walk *w, uint32_t d) {
  for (uint32_t t = 0; t < w->tensors; t++)
    if (w->strides[t][d] != w->strides[t][d + 1] * w->dims[d + 1]) return false;
  return true;
}

static void drop_dim(walk *w, uint32_t d) {
  w->rank--;
  for (uint32_t i = d; i < w->rank; i++) {
    w->dims[i] = w->dims[i + 1];
    for (uint32_t t = 0; t < w->tensors; t++) w->strides[t][i] = w->strides[t][i + 1];
  }
}

void walk_begin(walk *w) {
  w->more = true;
  for (uint32_t d = 0; d < w->rank; d++) w->more &= w->dims[d] > 0;
  for (uint32_t d = w->rank; w->more && d-- > 0;) {
    if (w->dims[d] == 1) {
      drop_dim(w, d);
    } else if (d + 1 < w->rank && mergeable(w, d)) {
      w->dims[d + 1] *= w->dims[d];
      drop_dim(w, d);
    }
  }
  w->n = w->rank ? w->dims[w->rank - 1] : 1;
  for (uint32_t t = 0; t < WALK_TENSORS; t++) {
    w->at[t] = 0;
    w->step[t] = w->rank && t < w->tensors ? w->strides[t][w->rank - 1] : 0;
  }
  memset(w->index, 0, sizeof w->index);
}

void walk_next(walk *w) {
  for (uint32_t d = w->rank ? w->rank - 1 : 0; d-- > 0;) {
    int64_t back = ++w->index[d] == w->dims[d] ? w->dims[d] : 0;
    for (uint32_t t = 0; t < w->tensors; t++) w->at[t] += w->strides[t][d] * (1 - back);
    if (!back) return;
    w->index[d] = 0;
  }
  w->more = false;
}

void walk_broadcast(const wafer_view *view, const wafer_shape *shape, int64_t *strides) {
  wafer_view dense = wafer_view_of(view->dtype, &view->shape, view->data);
  uint32_t lead = shape->rank - view->shape.rank;
  for (uint32_t d = 0; d < shape->rank; d++)
    strides[d] = d < lead || view->shape.dims[d - lead] == 1 ? 0 : dense.strides[d - lead];
}

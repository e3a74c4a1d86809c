/* Sparse tensors of a model, made dense when they are read. */
#include <string.h>

#include "data.h"

#define MOST_BYTES (INT64_C(1) << 31) /* as much as a file can hold of a dense one */

struct dense_tensor {
  dense_tensor *next;
  const onnx_sparse *of;
  onnx_tensor tensor;
};

/* What is being read: where `values` go in `shape`. */
typedef struct sparse {
  const data_store *store;
  const char *name;
  wafer_shape shape;
  int64_t elements;
  wafer_view values, indices;
  int64_t count;    /* of the values */
  bool coordinates; /* an index is one number per dim, else its place in row-major order */
} sparse;

#define FAIL(s, status, format, ...)                                                               \
  wafer_fail((s)->store->diag, wafer_at_file((s)->store->file), status,                            \
             "sparse tensor '%s': " format, (s)->name __VA_OPT__(, ) __VA_ARGS__)

static wafer_status read_shape(sparse *s, const wire_ints *dims) {
  if (dims->count < 1 || dims->count > WAFER_MAX_RANK)
    return FAIL(s, dims->count ? WAFER_UNSUPPORTED : WAFER_BAD_INPUT,
                "has %zu dims, 1 to %d are supported", dims->count, WAFER_MAX_RANK);
  s->shape.rank = (uint32_t)dims->count;
  for (uint32_t i = 0; i < s->shape.rank; i++) s->shape.dims[i] = dims->at[i];
  if (wafer_shape_elements(&s->shape, &s->elements)) return WAFER_OK;
  char text[128];
  wafer_shape_format(&s->shape, text, sizeof text);
  return FAIL(s, WAFER_BAD_INPUT, "shape %s is negative or too large", text);
}

/* Memory is asked for only when all of it adds up. */
static wafer_status check_values(sparse *s) {
  if (s->values.shape.rank != 1)
    return FAIL(s, WAFER_BAD_INPUT, "its values have %u dims, must be a vector",
                s->values.shape.rank);
  s->count = s->values.shape.dims[0];
  if (wafer_dtype_bits(s->values.dtype) < 8)
    return FAIL(s, WAFER_UNSUPPORTED, "values of type %s; store the tensor dense",
                wafer_dtype_name(s->values.dtype));
  int64_t width = (int64_t)wafer_dtype_bytes(s->values.dtype);
  if (s->elements > MOST_BYTES / width)
    return FAIL(s, WAFER_UNSUPPORTED,
                "is %lld elements of %lld bytes when dense, at most %lld bytes are allowed; "
                "store the tensor dense, as external data",
                (long long)s->elements, (long long)width, (long long)MOST_BYTES);
  return WAFER_OK;
}

static wafer_status check_indices(sparse *s) {
  const wafer_shape *shape = &s->indices.shape;
  char text[128];
  s->coordinates = shape->rank == 2;
  bool fits = (shape->rank == 1 || (s->coordinates && shape->dims[1] == s->shape.rank)) &&
              shape->dims[0] == s->count;
  wafer_shape_format(shape, text, sizeof text);
  if (!fits)
    return FAIL(s, WAFER_BAD_INPUT, "its indices are %s, must be %lld or %lldx%u", text,
                (long long)s->count, (long long)s->count, s->shape.rank);
  if (s->indices.dtype == WAFER_DTYPE_i64) return WAFER_OK;
  return FAIL(s, WAFER_BAD_INPUT, "its indices are of type %s, must be i64",
              wafer_dtype_name(s->indices.dtype));
}

/* The place of value i in row-major order. */
static wafer_status place_of(const sparse *s, int64_t i, int64_t *out) {
  uint32_t each = s->coordinates ? s->shape.rank : 1;
  *out = 0;
  for (uint32_t d = 0; d < each; d++) {
    int64_t limit = s->coordinates ? s->shape.dims[d] : s->elements;
    int64_t index = wafer_element_i64(WAFER_DTYPE_i64, s->indices.data, i * each + d);
    if (index < 0 || index >= limit)
      return FAIL(s, WAFER_BAD_INPUT, "index %lld of value %lld must be 0 to %lld",
                  (long long)index, (long long)i, (long long)limit - 1);
    *out = *out * limit + index;
  }
  return WAFER_OK;
}

static wafer_status fill(const sparse *s, uint8_t *to) {
  size_t width = wafer_dtype_bytes(s->values.dtype);
  const uint8_t *from = s->values.data;
  for (int64_t i = 0, place, before = -1; i < s->count; before = place, i++) {
    WAFER_TRY(place_of(s, i, &place));
    if (place <= before)
      return FAIL(s, WAFER_BAD_INPUT,
                  "the index of value %lld does not lie behind the one before; indices must rise",
                  (long long)i);
    memcpy(to + (size_t)place * width, from + (size_t)i * width, width);
  }
  return WAFER_OK;
}

static wafer_status make_dense(data_store *store, const onnx_sparse *of, onnx_tensor *out) {
  const onnx_tensor *values = of->values;
  sparse s = {.store = store, .name = values && values->name ? values->name : "(unnamed)"};
  if (!values) return FAIL(&s, WAFER_BAD_INPUT, "has no values");
  WAFER_TRY(read_shape(&s, &of->dims));
  WAFER_TRY(data_view(store, values, &s.values));
  WAFER_TRY(check_values(&s));
  if (!of->indices && s.count)
    return FAIL(&s, WAFER_BAD_INPUT, "has %lld values, but no indices", (long long)s.count);
  if (of->indices) WAFER_TRY(data_view(store, of->indices, &s.indices));
  if (of->indices) WAFER_TRY(check_indices(&s));
  size_t width = wafer_dtype_bytes(s.values.dtype);
  uint8_t *data = wafer_arena_alloc(store->arena, (size_t)s.elements, width);
  if (!data) return FAIL(&s, WAFER_NO_MEMORY, "out of memory for its elements");
  WAFER_TRY(fill(&s, data));
  *out = (onnx_tensor){.has = UINT64_C(1) << ONNX_TENSOR_RAW_DATA,
                       .dims = of->dims,
                       .data_type = values->data_type,
                       .name = values->name,
                       .raw_data = {data, (size_t)s.elements * width}};
  return WAFER_OK;
}

wafer_status data_dense(data_store *store, const onnx_sparse *of, const onnx_tensor **out) {
  dense_tensor *made = store->dense;
  while (made && made->of != of) made = made->next;
  if (!made) {
    made = WAFER_NEW(store->arena, dense_tensor, 1);
    if (!made)
      return wafer_fail(store->diag, wafer_at_file(store->file), WAFER_NO_MEMORY,
                        "out of memory for a sparse tensor");
    size_t masks = store->mask_count; /* they are for the dense tensor */
    store->mask_count = 0;
    wafer_status status = make_dense(store, of, &made->tensor);
    store->mask_count = masks;
    if (status != WAFER_OK) return status;
    made->of = of;
    made->next = store->dense;
    store->dense = made;
  }
  *out = &made->tensor;
  return WAFER_OK;
}

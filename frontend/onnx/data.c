#include "data.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct data_file {
  data_file *next;
  const char *location;
  wafer_bytes bytes;
};

static const char *name_of(const onnx_tensor *tensor) {
  return tensor->name && *tensor->name ? tensor->name : "(unnamed)";
}

#define FAIL(store, status, tensor, format, ...)                                                   \
  wafer_fail((store)->diag, wafer_at_file((store)->file), status, "tensor '%s': " format,          \
             name_of(tensor), __VA_ARGS__)

/* Where a typed field holds the elements of a type, and the wire type of one (0: varint). */
static const struct typed_row {
  wafer_dtype dtype;
  size_t offset;
  uint32_t element;
  const char *field;
} typed_rows[] = {
    {WAFER_DTYPE_f32, offsetof(onnx_tensor, float_data), 5, "float_data"},
    {WAFER_DTYPE_f64, offsetof(onnx_tensor, double_data), 1, "double_data"},
    {WAFER_DTYPE_i64, offsetof(onnx_tensor, int64_data), 0, "int64_data"},
    {WAFER_DTYPE_u64, offsetof(onnx_tensor, uint64_data), 0, "uint64_data"},
    {WAFER_DTYPE_u32, offsetof(onnx_tensor, uint64_data), 0, "uint64_data"},
    {WAFER_DTYPE_i32, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_i16, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_u16, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_i8, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_u8, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_bool, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_f16, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    {WAFER_DTYPE_bf16, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
    /* and every type of 8 bits and less, those of 4 and 2 bits packed */
    {WAFER_DTYPE_none, offsetof(onnx_tensor, int32_data), 0, "int32_data"},
};

static wafer_status wrong_size(const data_store *store, const onnx_tensor *tensor,
                               const char *where, uint64_t got, uint64_t want) {
  return FAIL(store, WAFER_BAD_INPUT, tensor, "%s holds %llu bytes, its shape asks for %llu", where,
              (unsigned long long)got, (unsigned long long)want);
}

static wafer_status no_memory(const data_store *store, const onnx_tensor *tensor) {
  return FAIL(store, WAFER_NO_MEMORY, tensor, "%s", "out of memory for its elements");
}

/* ---- external data ---- */

static bool has_parent_step(const char *path) {
  for (const char *at = path; at; at = strchr(at, '/')) {
    at += *at == '/';
    if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2])) return true;
  }
  return false;
}

/* The real path of the model's folder, with a slash at its end. */
static wafer_status find_folder(data_store *store) {
  if (store->folder) return WAFER_OK;
  const char *slash = strrchr(store->file, '/');
  char *name =
      slash ? wafer_arena_strndup(store->arena, store->file, (size_t)(slash - store->file) + 1)
            : wafer_arena_strdup(store->arena, ".");
  char *real = name ? realpath(name, NULL) : NULL;
  if (real) store->folder = wafer_arena_printf(store->arena, "%s/", strcmp(real, "/") ? real : "");
  free(real);
  if (!store->folder)
    return wafer_fail(store->diag, wafer_at_file(store->file), WAFER_IO,
                      "cannot find the folder of external data: %m");
  return WAFER_OK;
}

/* The real path of `location`, refused when it is not below the model's folder. */
static wafer_status resolve(data_store *store, const onnx_tensor *tensor, const char *location,
                            char **out) {
  if (*location == '/' || has_parent_step(location))
    return FAIL(store, WAFER_BAD_INPUT, tensor,
                "external data '%s' lies outside the model's folder; only files below it are read",
                location);
  WAFER_TRY(find_folder(store));
  char *joined = wafer_arena_printf(store->arena, "%s%s", store->folder, location);
  char *real = joined ? realpath(joined, NULL) : NULL;
  if (!real)
    return FAIL(store, errno == ENOMEM ? WAFER_NO_MEMORY : WAFER_IO, tensor,
                "external data '%s' cannot be read: %s; put it beside the model", location,
                strerror(errno));
  bool inside = !strncmp(real, store->folder, strlen(store->folder));
  *out = inside ? wafer_arena_strdup(store->arena, real) : NULL;
  free(real);
  if (!inside)
    return FAIL(
        store, WAFER_BAD_INPUT, tensor,
        "external data '%s' is a link out of the model's folder; only files below it are read",
        location);
  return *out ? WAFER_OK : no_memory(store, tensor);
}

static wafer_status open_external(data_store *store, const onnx_tensor *tensor,
                                  const char *location, const data_file **out) {
  for (*out = store->files; *out; *out = (*out)->next)
    if (!strcmp((*out)->location, location)) return WAFER_OK;
  data_file *file = WAFER_NEW(store->arena, data_file, 1);
  if (!file) return no_memory(store, tensor);
  char *path;
  WAFER_TRY(resolve(store, tensor, location, &path));
  WAFER_TRY(wafer_file_map(store->diag, store->arena, path, &file->bytes));
  file->location = location;
  file->next = store->files;
  *out = store->files = file;
  return WAFER_OK;
}

static const char *entry_of(const onnx_tensor *tensor, const char *key) {
  for (size_t i = 0; i < tensor->external_data.count; i++) {
    const onnx_entry *entry = &tensor->external_data.at[i];
    if (entry->key && entry->value && !strcmp(entry->key, key)) return entry->value;
  }
  return NULL;
}

/* A decimal number of bytes; `fallback` when the key is absent. */
static wafer_status number_of(const data_store *store, const onnx_tensor *tensor, const char *key,
                              uint64_t fallback, uint64_t *out) {
  const char *text = entry_of(tensor, key);
  *out = fallback;
  if (!text) return WAFER_OK;
  char *end;
  errno = 0;
  *out = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno)
    return FAIL(store, WAFER_BAD_INPUT, tensor, "external data have %s '%s', not a number of bytes",
                key, text);
  return WAFER_OK;
}

static wafer_status external_view(data_store *store, const onnx_tensor *tensor, size_t bytes,
                                  const void **data) {
  const char *location = entry_of(tensor, "location");
  if (!location || !*location)
    return FAIL(store, WAFER_BAD_INPUT, tensor, "%s", "external data without a location");
  uint64_t offset, length;
  WAFER_TRY(number_of(store, tensor, "offset", 0, &offset));
  WAFER_TRY(number_of(store, tensor, "length", bytes, &length));
  if (length != bytes) return wrong_size(store, tensor, "external data", length, bytes);
  const data_file *file;
  WAFER_TRY(open_external(store, tensor, location, &file));
  if (offset > file->bytes.size || bytes > file->bytes.size - offset)
    return FAIL(store, WAFER_BAD_INPUT, tensor,
                "external data '%s' are %zu bytes, bytes %llu to %llu are asked for", location,
                file->bytes.size, (unsigned long long)offset, (unsigned long long)offset + bytes);
  *data = (const uint8_t *)file->bytes.data + offset;
  return WAFER_OK;
}

/* ---- data in the file ---- */

/* Varints -> elements; only the low bits of each count, as protobuf has it for narrow types. */
static wafer_status unpack(const data_store *store, const onnx_tensor *tensor,
                           const struct typed_row *row, wire_bytes packed, int64_t elements,
                           const void **data) {
  size_t width = row->dtype ? wafer_dtype_bytes(row->dtype) : 1;
  uint8_t *to = wafer_arena_alloc(store->arena, (size_t)elements, width);
  if (!to) return no_memory(store, tensor);
  int64_t count = 0;
  for (uint64_t value; wire_next_varint(&packed, &value); count++)
    if (count < elements) memcpy(to + (size_t)count * width, &value, width);
  if (count != elements)
    return FAIL(store, WAFER_BAD_INPUT, tensor, "%s holds %lld elements, its shape asks for %lld",
                row->field, (long long)count, (long long)elements);
  *data = to;
  return WAFER_OK;
}

static wafer_status typed_view(const data_store *store, const onnx_tensor *tensor,
                               wafer_dtype dtype, int64_t elements, const void **data) {
  const struct typed_row *row = typed_rows;
  while (row->dtype != dtype && row->dtype != WAFER_DTYPE_none) row++;
  wire_bytes packed;
  memcpy(&packed, (const uint8_t *)tensor + row->offset, sizeof packed);
  size_t want = (size_t)elements * wafer_dtype_bytes(dtype);
  if (row->element == 0) {
    if ((uint64_t)elements > packed.count) /* before memory is asked for */
      return FAIL(store, WAFER_BAD_INPUT, tensor,
                  "%s is too short for the %lld elements of its shape", row->field,
                  (long long)elements);
    return unpack(store, tensor, row, packed, elements, data);
  }
  if (packed.count != want) return wrong_size(store, tensor, row->field, packed.count, want);
  *data = packed.at;
  return WAFER_OK;
}

static wafer_status shape_of(const data_store *store, const onnx_tensor *tensor, wafer_shape *shape,
                             int64_t *elements) {
  if (tensor->dims.count > WAFER_MAX_RANK)
    return FAIL(store, WAFER_UNSUPPORTED, tensor, "has %zu dims, at most %d are supported",
                tensor->dims.count, WAFER_MAX_RANK);
  *shape = (wafer_shape){.rank = (uint32_t)tensor->dims.count};
  for (uint32_t i = 0; i < shape->rank; i++) shape->dims[i] = tensor->dims.at[i];
  char text[128];
  wafer_shape_format(shape, text, sizeof text);
  if (!wafer_shape_elements(shape, elements))
    return FAIL(store, WAFER_BAD_INPUT, tensor, "shape %s is negative or too large", text);
  return WAFER_OK;
}

static wafer_status find_bytes(data_store *store, const onnx_tensor *tensor, wafer_dtype dtype,
                               int64_t elements, const void **data) {
  static const uint64_t nothing;
  size_t bytes = (size_t)elements * wafer_dtype_bytes(dtype);
  *data = &nothing;
  if (tensor->data_location == 1) return external_view(store, tensor, bytes, data);
  if (!ONNX_HAS(tensor, ONNX_TENSOR_RAW_DATA))
    return elements ? typed_view(store, tensor, dtype, elements, data) : WAFER_OK;
  if (tensor->raw_data.count != bytes)
    return wrong_size(store, tensor, "raw_data", tensor->raw_data.count, bytes);
  *data = tensor->raw_data.at;
  return WAFER_OK;
}

/* Elements of less than 8 bits lie packed, the first one in the low bits; each gets its own byte.
 */
static wafer_status find_data(data_store *store, const onnx_tensor *tensor, wafer_dtype dtype,
                              int64_t elements, const void **data) {
  uint32_t bits = wafer_dtype_bits(dtype), each = 8 / (bits < 8 ? bits : 8);
  if (bits >= 8) return find_bytes(store, tensor, dtype, elements, data);
  const void *packed;
  WAFER_TRY(find_bytes(store, tensor, WAFER_DTYPE_f8e5m2, (elements + each - 1) / each, &packed));
  uint8_t *apart = wafer_arena_alloc(store->arena, (size_t)elements, 1);
  if (!apart) return no_memory(store, tensor);
  bool extends = wafer_dtype_is_signed(dtype) && !wafer_dtype_is_float(dtype);
  for (int64_t i = 0; i < elements; i++) {
    uint32_t code = ((const uint8_t *)packed)[i / each] >> (i % each * bits) & ((1u << bits) - 1);
    apart[i] = (uint8_t)(extends && code >> (bits - 1) ? code | ~0u << bits : code);
  }
  *data = apart;
  return WAFER_OK;
}

/* "FILE, bytes 8 to 24"; NULL when the file is there, or cannot be looked for. */
static const char *lacking(const data_store *store, const onnx_tensor *tensor, size_t bytes) {
  const char *location = entry_of(tensor, "location"), *folder = store->folder;
  uint64_t offset;
  bool lies_below = location && *location && *location != '/' && !has_parent_step(location);
  if (!store->may_lack || tensor->data_location != 1 || !lies_below || !folder) return NULL;
  if (number_of(store, tensor, "offset", 0, &offset) != WAFER_OK) return NULL;
  char *path = wafer_arena_printf(store->arena, "%s%s", folder, location);
  if (!path || access(path, F_OK) == 0 || errno != ENOENT) return NULL;
  return wafer_arena_printf(store->arena, "%s, bytes %llu to %llu", location,
                            (unsigned long long)offset, (unsigned long long)offset + bytes);
}

static wafer_status apply_mask(const data_store *store, const onnx_tensor *tensor,
                               const wafer_view *mask, wafer_view *out) {
  int64_t elements;
  size_t bytes = wafer_dtype_bytes(out->dtype);
  if (!wafer_shape_equal(&mask->shape, &out->shape) || !wafer_view_is_dense(mask) ||
      !wafer_shape_elements(&out->shape, &elements)) {
    char has[128], wants[128];
    wafer_shape_format(&mask->shape, has, sizeof has);
    wafer_shape_format(&out->shape, wants, sizeof wants);
    return FAIL(store, WAFER_BAD_INPUT, tensor, "its mask is %s, must be dense and %s", has, wants);
  }
  char *data = wafer_arena_copy(store->arena, out->data, (size_t)elements * bytes);
  if (!data) return no_memory(store, tensor);
  for (int64_t i = 0; i < elements; i++)
    if (wafer_element_f64(mask->dtype, mask->data, i) == 0)
      memset(data + (size_t)i * bytes, 0, bytes);
  out->data = data;
  return WAFER_OK;
}

static wafer_status view_of(data_store *store, const onnx_tensor *tensor, wafer_view *out,
                            const char **expected) {
  *out = (wafer_view){0};
  wafer_shape shape;
  int64_t elements;
  WAFER_TRY(shape_of(store, tensor, &shape, &elements));
  bool known = tensor->data_type > 0 && tensor->data_type < INT32_MAX;
  wafer_dtype dtype = known ? wafer_dtype_by_onnx((int32_t)tensor->data_type) : WAFER_DTYPE_none;
  if (dtype == WAFER_DTYPE_none)
    return FAIL(store, WAFER_UNSUPPORTED, tensor, "element type %lld (%s) is not supported",
                (long long)tensor->data_type, onnx_data_type_name(tensor->data_type));
  const void *data = NULL;
  if (expected && store->may_lack) WAFER_TRY(find_folder(store));
  if (expected) *expected = lacking(store, tensor, wafer_tensor_bytes(dtype, &shape));
  if (!expected || !*expected) WAFER_TRY(find_data(store, tensor, dtype, elements, &data));
  *out = wafer_view_of(dtype, &shape, (void *)(uintptr_t)data);
  for (size_t i = 0; data && tensor->name && i < store->mask_count; i++) {
    if (strcmp(store->masks[i].input, tensor->name)) continue;
    store->mask_used[i] = true;
    WAFER_TRY(apply_mask(store, tensor, &store->masks[i].value, out));
  }
  return WAFER_OK;
}

wafer_status data_view(data_store *store, const onnx_tensor *tensor, wafer_view *out) {
  return view_of(store, tensor, out, NULL);
}

wafer_status data_find(data_store *store, const onnx_tensor *tensor, wafer_view *out,
                       const char **expected) {
  return view_of(store, tensor, out, expected);
}

/* The .npy format: magic, version, the length of a header, the header (a Python dict as text,
 * padded so that the data starts at a multiple of 64), the data. */
#include "wafer/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/npy_text.h"
#include "wafer/file.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define DATA_ALIGNMENT 64
#define HEADER_MAX 65536u /* numpy itself refuses more than 10,000 unless told otherwise */

/* ---- reading ---- */

typedef struct scanner {
  const wafer_diag *diag;
  wafer_loc loc; /* the file */
  const char *at, *end;
} scanner;

typedef struct header {
  char descr[16];
  bool fortran, has_descr, has_fortran, has_shape;
  size_t width; /* of strings */
  wafer_shape shape;
} header;

static void skip_space(scanner *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t')) s->at++;
}

static bool take(scanner *s, char wanted) {
  skip_space(s);
  if (s->at == s->end || *s->at != wanted) return false;
  s->at++;
  return true;
}

static bool take_word(scanner *s, const char *word) {
  size_t length = strlen(word);
  skip_space(s);
  if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) return false;
  s->at += length;
  return true;
}

/* A quoted string without escapes, shorter than `bytes`. */
static bool take_string(scanner *s, char *buffer, size_t bytes) {
  char quote = take(s, '\'') ? '\'' : take(s, '"') ? '"' : '\0';
  size_t used = 0;
  if (!quote) return false;
  for (; s->at < s->end && *s->at != quote; s->at++) {
    if (used + 1 >= bytes || *s->at == '\\') return false;
    buffer[used++] = *s->at;
  }
  buffer[used] = '\0';
  return take(s, quote);
}

static bool take_number(scanner *s, int64_t *value) {
  skip_space(s);
  const char *start = s->at;
  for (*value = 0; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
    if (__builtin_mul_overflow(*value, 10, value) ||
        __builtin_add_overflow(*value, *s->at - '0', value))
      return false;
  return s->at > start;
}

static wafer_status read_shape(scanner *s, wafer_shape *shape) {
  *shape = (wafer_shape){0};
  if (!take(s, '('))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header's shape is not a tuple of numbers");
  while (!take(s, ')')) {
    int64_t dim;
    if (shape->rank == WAFER_MAX_RANK)
      return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the tensor has more than %d dimensions",
                        WAFER_MAX_RANK);
    if (!take_number(s, &dim))
      return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                        "the header's shape is not a tuple of numbers");
    shape->dims[shape->rank++] = dim;
    if (take(s, ',')) continue;
    if (!take(s, ')'))
      return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                        "the header's shape is not a tuple of numbers");
    break;
  }
  return WAFER_OK;
}

static wafer_status read_descr(scanner *s, header *h) {
  if (!take_string(s, h->descr, sizeof h->descr))
    return wafer_fail(
        s->diag, s->loc, WAFER_BAD_INPUT,
        "the header's descr is not one plain element type; structured arrays are refused");
  return WAFER_OK;
}

static wafer_status read_fortran(scanner *s, header *h) {
  h->fortran = take_word(s, "True");
  if (!h->fortran && !take_word(s, "False"))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header's fortran_order is neither True nor False");
  return WAFER_OK;
}

/* One `'key': value` of the dict; each key may come once. */
static wafer_status read_entry(scanner *s, header *h) {
  char key[16] = "";
  if (!take_string(s, key, sizeof key) || !take(s, ':'))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header is not a dict of descr, fortran_order and shape");
  bool *seen = strcmp(key, "descr") == 0           ? &h->has_descr
               : strcmp(key, "fortran_order") == 0 ? &h->has_fortran
               : strcmp(key, "shape") == 0         ? &h->has_shape
                                                   : NULL;
  if (!seen)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the header has an unknown key '%s'", key);
  if (*seen)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the header has the key '%s' twice", key);
  *seen = true;
  if (seen == &h->has_descr) return read_descr(s, h);
  if (seen == &h->has_fortran) return read_fortran(s, h);
  return read_shape(s, &h->shape);
}

static wafer_status read_header(scanner *s, header *h) {
  if (!take(s, '{'))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header is not a dict of descr, fortran_order and shape");
  while (!take(s, '}')) {
    WAFER_TRY(read_entry(s, h));
    if (take(s, ',')) continue;
    if (!take(s, '}'))
      return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the header's dict does not end");
    break;
  }
  skip_space(s);
  if (s->at != s->end)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the header goes on after its dict");
  if (!h->has_descr || !h->has_fortran || !h->has_shape)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header lacks one of descr, fortran_order and shape");
  return WAFER_OK;
}

/* Leaves `s` on the header's text and `bytes` on what follows it. */
static wafer_status find_header(scanner *s, wafer_bytes *bytes) {
  const unsigned char *data = bytes->data;
  if (bytes->size < MAGIC_BYTES + 4 || memcmp(data, MAGIC, MAGIC_BYTES) != 0)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "is not a .npy file: the first bytes are not \\x93NUMPY");
  unsigned major = data[6], minor = data[7];
  if (major < 1 || major > 3 || minor != 0)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      ".npy version %u.%u is unknown; 1.0, 2.0 and 3.0 are read", major, minor);
  size_t start = major == 1 ? 10 : 12;
  if (bytes->size < start)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "ends inside the header");
  uint32_t length = data[8] | (uint32_t)data[9] << 8;
  if (major > 1) length |= (uint32_t)data[10] << 16 | (uint32_t)data[11] << 24;
  if (length > HEADER_MAX)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the header has %" PRIu32 " bytes, at most %u are read", length, HEADER_MAX);
  if (length > bytes->size - start)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "ends inside the header");
  s->at = (const char *)data + start;
  s->end = s->at + length;
  *bytes = (wafer_bytes){s->end, bytes->size - start - length};
  return WAFER_OK;
}

/* "|u1", "<u1" and "=u1" are one type to numpy, and so are "V2" and "<V2". */
static wafer_dtype dtype_of(const char *descr) {
  char plain[16];
  snprintf(plain, sizeof plain, "%s", descr);
  if (!strcmp(plain, "|V2")) plain[0] = '<';
  if (plain[0] == '=') plain[0] = '<';
  wafer_dtype dtype = wafer_dtype_by_npy(plain);
  if (dtype != WAFER_DTYPE_none || plain[0] != '<') return dtype;
  plain[0] = '|';
  return wafer_dtype_by_npy(plain);
}

static wafer_status check_type(const scanner *s, header *h, wafer_dtype *dtype) {
  *dtype = npy_text_type(h->descr, &h->width) ? WAFER_DTYPE_string : dtype_of(h->descr);
  if (*dtype == WAFER_DTYPE_string && h->fortran && h->shape.rank > 1)
    return wafer_fail(s->diag, s->loc, WAFER_UNSUPPORTED,
                      "strings in Fortran order; save them in C order");
  if (*dtype != WAFER_DTYPE_none) return WAFER_OK;
  if (h->descr[0] == '>')
    return wafer_fail(s->diag, s->loc, WAFER_UNSUPPORTED,
                      "big-endian elements ('%s'); save it as '<%s'", h->descr, h->descr + 1);
  return wafer_fail(s->diag, s->loc, WAFER_UNSUPPORTED,
                    "elements of type '%s'; save it as one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, "
                    "as strings (U), or as raw bits, V1 or V2",
                    h->descr);
}

static wafer_status check_size(const scanner *s, const header *h, wafer_dtype dtype, size_t have) {
  char shape[128];
  int64_t elements;
  wafer_shape_format(&h->shape, shape, sizeof shape);
  if (!wafer_shape_elements(&h->shape, &elements))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "a tensor of %s elements is too large",
                      shape);
  bool texts = dtype == WAFER_DTYPE_string;
  size_t each = texts ? h->width * sizeof(uint32_t) : wafer_dtype_bytes(dtype), want;
  if (__builtin_mul_overflow((size_t)elements, each, &want)) want = SIZE_MAX;
  if (have != want)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "%s of %s needs %zu bytes of data, the file has %zu", shape,
                      wafer_dtype_name(dtype), want, have);
  return WAFER_OK;
}

static wafer_status read_texts(const scanner *s, wafer_arena *arena, size_t width, wafer_bytes data,
                               wafer_view *out) {
  int64_t count = 0;
  wafer_shape_elements(&out->shape, &count);
  out->data = npy_text_read(arena, data.data, (size_t)count, width);
  if (out->data) return WAFER_OK;
  return wafer_fail(s->diag, s->loc, WAFER_NO_MEMORY, "out of memory for %lld strings",
                    (long long)count);
}

/* The data row-major and aligned: where it is, or copied into the arena. */
static wafer_status place_data(const scanner *s, wafer_arena *arena, bool fortran, wafer_bytes data,
                               wafer_view *out) {
  if (!fortran && (uintptr_t)data.data % wafer_dtype_bytes(out->dtype) == 0) {
    out->data = (void *)(uintptr_t)data.data;
    return WAFER_OK;
  }
  void *copy = wafer_arena_alloc(arena, data.size, 1);
  if (!copy)
    return wafer_fail(s->diag, s->loc, WAFER_NO_MEMORY, "out of memory for %zu bytes", data.size);
  wafer_view stored = *out;
  stored.data = (void *)(uintptr_t)data.data;
  int64_t stride = 1;
  for (uint32_t i = 0; fortran && i < stored.shape.rank; stride *= stored.shape.dims[i++])
    stored.strides[i] = stride;
  wafer_view_pack(&stored, copy);
  out->data = copy;
  return WAFER_OK;
}

wafer_status wafer_npy_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                            wafer_view *out) {
  wafer_bytes bytes;
  header h = {0};
  wafer_dtype dtype;
  scanner s = {.diag = diag, .loc = wafer_at_file(path)};
  *out = (wafer_view){0};
  WAFER_TRY(wafer_file_map(diag, arena, path, &bytes));
  WAFER_TRY(find_header(&s, &bytes));
  WAFER_TRY(read_header(&s, &h));
  WAFER_TRY(check_type(&s, &h, &dtype));
  WAFER_TRY(check_size(&s, &h, dtype, bytes.size));
  wafer_view view = wafer_view_of(dtype, &h.shape, NULL);
  if (dtype == WAFER_DTYPE_string)
    WAFER_TRY(read_texts(&s, arena, h.width, bytes, &view));
  else
    WAFER_TRY(place_data(&s, arena, h.fortran, bytes, &view));
  *out = view;
  return WAFER_OK;
}

/* ---- types that numpy has not ---- */

static bool in_range(wafer_dtype dtype, const wafer_view *view) {
  int64_t count;
  if (!wafer_shape_elements(&view->shape, &count)) return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t value = wafer_element_i64(view->dtype, view->data, i);
    int8_t kept;
    wafer_element_set_i64(dtype, &kept, 0, value);
    if (wafer_element_i64(dtype, &kept, 0) != value) return false;
  }
  return true;
}

void wafer_npy_adopt(wafer_view *view, wafer_dtype wanted) {
  if (view->dtype == wanted || !wafer_view_is_dense(view)) return;
  if (view->dtype == WAFER_DTYPE_string || wanted == WAFER_DTYPE_string) return;
  uint32_t bits = wafer_dtype_bits(wanted);
  bool is_float = wafer_dtype_is_float(wanted), raw = wafer_dtype_npy(view->dtype)[1] == 'V';
  if (is_float && wafer_dtype_npy(wanted)[1] == 'V') {
    bool carries = raw || view->dtype == (bits > 8 ? WAFER_DTYPE_u16 : WAFER_DTYPE_u8);
    if (carries && wafer_dtype_bytes(view->dtype) == wafer_dtype_bytes(wanted))
      view->dtype = wanted;
  } else if (!is_float && bits < 8) {
    wafer_view whole = *view;
    if (raw && wafer_dtype_bytes(view->dtype) == 1)
      whole.dtype = wafer_dtype_is_signed(wanted) ? WAFER_DTYPE_i8 : WAFER_DTYPE_u8;
    bool carries = whole.dtype == WAFER_DTYPE_i8 || whole.dtype == WAFER_DTYPE_u8;
    if (carries && in_range(wanted, &whole)) view->dtype = wanted;
  }
}

/* ---- writing ---- */

/* As numpy writes version 1.0. Returns the bytes used, a multiple of DATA_ALIGNMENT. */
static size_t format_header(const wafer_view *view, const char *descr, char *buffer, size_t bytes) {
  size_t start = MAGIC_BYTES + 4;
  int used = snprintf(buffer + start, bytes - start,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  size_t end = start + (size_t)used;
  for (uint32_t i = 0; i < view->shape.rank; i++)
    end += (size_t)snprintf(buffer + end, bytes - end, "%s%" PRId64 "%s", i ? " " : "",
                            view->shape.dims[i], i + 1 < view->shape.rank || i == 0 ? "," : "");
  if (view->shape.rank > 1 && buffer[end - 1] == ',') end--;
  end += (size_t)snprintf(buffer + end, bytes - end, "), }");
  size_t total = (end + 1 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
  memset(buffer + end, ' ', total - end);
  buffer[total - 1] = '\n';
  memcpy(buffer, MAGIC "\x01", MAGIC_BYTES + 2);
  buffer[8] = (char)((total - start) & 0xff);
  buffer[9] = (char)((total - start) >> 8);
  return total;
}

static void *pack_texts(const wafer_view *view, char *descr, size_t room, size_t *bytes) {
  const char *const *texts = view->data;
  int64_t count = 0;
  wafer_shape_elements(&view->shape, &count);
  size_t width = npy_text_width(texts, (size_t)count);
  snprintf(descr, room, "<U%zu", width);
  *bytes = (size_t)count * width * sizeof(uint32_t);
  uint32_t *points = calloc((size_t)count + 1, width * sizeof *points);
  for (int64_t i = 0; points && i < count; i++)
    npy_text_write(texts[i], width, points + (size_t)i * width);
  return points;
}

wafer_status wafer_npy_write(const wafer_diag *diag, const char *path, const wafer_view *view) {
  char text[512], descr[32];
  wafer_file *file;
  bool texts = view->dtype == WAFER_DTYPE_string, copies = texts || !wafer_view_is_dense(view);
  size_t bytes = wafer_tensor_bytes(view->dtype, &view->shape);
  void *packed = !copies ? NULL
                 : texts ? pack_texts(view, descr, sizeof descr, &bytes)
                         : malloc(bytes);
  if (copies && !packed)
    return wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "out of memory for %zu bytes",
                      bytes);
  if (!texts) snprintf(descr, sizeof descr, "%s", wafer_dtype_npy(view->dtype));
  if (copies && !texts) wafer_view_pack(view, packed);
  wafer_status status = wafer_file_begin(diag, path, &file);
  if (status == WAFER_OK) {
    size_t head = format_header(view, descr, text, sizeof text);
    if (wafer_file_write(file, text, head) == WAFER_OK)
      (void)wafer_file_write(file, packed ? packed : view->data, bytes);
    status = wafer_file_commit(file);
  }
  free(packed);
  return status;
}

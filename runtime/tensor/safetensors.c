#include "safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u
#define LENGTH_BYTES 8u
#define HEADER_MAX ((uint64_t)100 << 20) /* the limit of the format's own library */
#define METADATA "__metadata__"

/* ---- writing ---- */

/* The header as it grows; `failed` once memory ran out. */
typedef struct text {
  wafer_arena *arena;
  char *data;
  size_t used, bytes;
  bool failed;
} text;

static void put(text *to, const char *from, size_t bytes) {
  if (!to->failed && to->bytes - to->used < bytes) {
    size_t larger = (to->bytes + bytes) * 2;
    char *grown = wafer_arena_alloc(to->arena, larger, 1);
    to->failed = !grown;
    if (grown && to->used) memcpy(grown, to->data, to->used);
    if (grown) to->data = grown, to->bytes = larger;
  }
  if (to->failed) return;
  memcpy(to->data + to->used, from, bytes);
  to->used += bytes;
}

static void put_word(text *to, const char *word) {
  put(to, word, strlen(word));
}

static void put_number(text *to, uint64_t number) {
  char digits[24];
  put(to, digits, (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number));
}

static void put_string(text *to, const char *string) {
  put_word(to, "\"");
  for (; *string; string++) {
    char escape[8];
    unsigned char c = (unsigned char)*string;
    if (c < 0x20) put(to, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
    if (c == '"' || c == '\\') put_word(to, "\\");
    if (c >= 0x20) put(to, string, 1);
  }
  put_word(to, "\"");
}

static void put_tensor(text *to, const wafer_weight *weight, uint64_t begin) {
  put_word(to, to->used > LENGTH_BYTES + 1 ? "," : "");
  put_string(to, weight->name);
  put_word(to, ":{\"dtype\":");
  put_string(to, wafer_dtype_safetensors(weight->dtype));
  put_word(to, ",\"shape\":[");
  for (uint32_t i = 0; i < weight->shape.rank; i++) {
    put_word(to, i ? "," : "");
    put_number(to, (uint64_t)weight->shape.dims[i]);
  }
  put_word(to, "],\"data_offsets\":[");
  put_number(to, begin);
  put_word(to, ",");
  put_number(to, begin + weight->bytes);
  put_word(to, "]}");
}

/* 64-byte multiples first, then by falling element size: no holes, yet everything aligned. */
static uint32_t place_class(const wafer_weight *weight) {
  return weight->bytes % ALIGNMENT == 0 ? ALIGNMENT : (uint32_t)wafer_dtype_bytes(weight->dtype);
}

/* Fills parts[1..] in file order and begins[] in table order. */
static size_t place_data(const wafer_weights *weights, wafer_bytes *parts, uint64_t *begins) {
  size_t used = 1;
  uint64_t offset = 0;
  for (uint32_t class = ALIGNMENT; class > 0; class /= 2)
    for (size_t i = 0; i < wafer_weights_count(weights); i++) {
      const wafer_weight *weight = wafer_weights_at(weights, i);
      if (!weight->data || place_class(weight) != class) continue;
      begins[i] = offset;
      offset += weight->bytes;
      parts[used++] = (wafer_bytes){weight->data, weight->bytes};
    }
  return used;
}

static void put_header(text *to, const wafer_weights *weights, const uint64_t *begins) {
  put(to, (const char[LENGTH_BYTES]){0}, LENGTH_BYTES);
  put_word(to, "{");
  for (size_t i = 0; i < wafer_weights_count(weights); i++)
    if (wafer_weights_at(weights, i)->data) put_tensor(to, wafer_weights_at(weights, i), begins[i]);
  put_word(to, "}");
  while (!to->failed && to->used % ALIGNMENT != 0) put_word(to, " ");
  for (uint32_t i = 0; !to->failed && i < LENGTH_BYTES; i++)
    to->data[i] = (char)((to->used - LENGTH_BYTES) >> (8 * i) & 0xff);
}

wafer_status safetensors_parts(const wafer_diag *diag, wafer_loc loc, wafer_arena *arena,
                               const wafer_weights *weights, wafer_bytes **parts, size_t *count) {
  size_t room = wafer_weights_count(weights);
  text header = {.arena = arena};
  wafer_bytes *made = WAFER_NEW(arena, wafer_bytes, room + 1);
  uint64_t *begins = WAFER_NEW(arena, uint64_t, room);
  *parts = NULL;
  *count = 0;
  if (!made || !begins) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "out of memory for weights");
  size_t used = place_data(weights, made, begins);
  put_header(&header, weights, begins);
  if (header.failed) return wafer_fail(diag, loc, WAFER_NO_MEMORY, "out of memory for weights");
  made[0] = (wafer_bytes){header.data, header.used};
  *parts = made;
  *count = used;
  return WAFER_OK;
}

/* ---- reading ---- */

/* A strict reader of the little JSON there is: objects, strings, arrays of non-negative integers.
 */
typedef struct scanner {
  const wafer_diag *diag;
  wafer_loc loc;
  wafer_arena *arena;
  const unsigned char *at, *end;
  wafer_bytes data; /* what follows the header */
  bool no_memory;
} scanner;

typedef struct tensor {
  const char *name;
  wafer_dtype dtype;
  wafer_shape shape;
  uint64_t offsets[2];
} tensor;

static wafer_status no_memory(const scanner *s) {
  return wafer_fail(s->diag, s->loc, WAFER_NO_MEMORY, "out of memory for the weights' header");
}

static wafer_status malformed(const scanner *s, const char *what) {
  if (s->no_memory) return no_memory(s);
  return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "the weights' header is malformed: %s", what);
}

static void skip_space(scanner *s) {
  while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
    s->at++;
}

static bool take(scanner *s, char wanted) {
  skip_space(s);
  if (s->at == s->end || *s->at != (unsigned char)wanted) return false;
  s->at++;
  return true;
}

static bool take_number(scanner *s, uint64_t *value) {
  skip_space(s);
  const unsigned char *start = s->at;
  for (*value = 0; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
    if (__builtin_mul_overflow(*value, 10u, value) ||
        __builtin_add_overflow(*value, (uint64_t)(*s->at - '0'), value))
      return false;
  return s->at > start && (s->at == start + 1 || *start != '0');
}

static bool take_hex4(scanner *s, uint32_t *value) {
  *value = 0;
  if (s->end - s->at < 4) return false;
  for (int i = 0; i < 4; i++, s->at++) {
    uint32_t c = *s->at | 0x20u;
    uint32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
    if (digit == 16) return false;
    *value = *value << 4 | digit;
  }
  return true;
}

/* Appends a code point as UTF-8. */
static char *put_utf8(char *to, uint32_t c) {
  if (c < 0x80) return *to = (char)c, to + 1;
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  *to++ = (char)((0xff00u >> (more + 1) & 0xffu) | c >> 6 * more);
  while (more-- > 0) *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
  return to;
}

/* After "\u": one unit, or a pair of surrogates. NUL is refused: names are C strings. */
static char *take_unicode(scanner *s, char *to) {
  uint32_t c, low;
  if (!take_hex4(s, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000)) return NULL;
  if (c >= 0xd800 && c < 0xdc00) {
    if (s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u') return NULL;
    s->at += 2;
    if (!take_hex4(s, &low) || low < 0xdc00 || low > 0xdfff) return NULL;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  return put_utf8(to, c);
}

static char *take_escape(scanner *s, char *to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  if (s->at == s->end) return NULL;
  char c = (char)*s->at++;
  if (c == 'u') return take_unicode(s, to);
  const char *found = c ? strchr(from, c) : NULL;
  if (!found) return NULL;
  *to = into[found - from];
  return to + 1;
}

/* A string in the arena; NULL when malformed or out of memory. Escapes never grow. */
static const char *take_string(scanner *s) {
  if (!take(s, '"')) return NULL;
  const unsigned char *stop = s->at;
  while (stop < s->end && *stop != '"') stop += *stop == '\\' ? 2 : 1;
  if (stop >= s->end) return NULL;
  char *made = wafer_arena_alloc(s->arena, (size_t)(stop - s->at) + 1, 1), *to = made;
  s->no_memory = !made;
  while (to && s->at < stop) {
    unsigned char c = *s->at++;
    if (c == '\\')
      to = take_escape(s, to);
    else if (c < 0x20)
      return NULL;
    else
      *to++ = (char)c;
  }
  return to && take(s, '"') ? made : NULL;
}

/* A number of numbers in [ ], at most `room`; false when malformed. */
static bool take_numbers(scanner *s, uint64_t *numbers, uint32_t room, uint32_t *count) {
  *count = 0;
  if (!take(s, '[')) return false;
  if (take(s, ']')) return true;
  do {
    if (*count == room || !take_number(s, &numbers[*count])) return false;
    ++*count;
  } while (take(s, ','));
  return take(s, ']');
}

static bool take_shape(scanner *s, wafer_shape *shape) {
  uint64_t dims[WAFER_MAX_RANK];
  if (!take_numbers(s, dims, WAFER_MAX_RANK, &shape->rank)) return false;
  for (uint32_t i = 0; i < shape->rank; i++) {
    if (dims[i] > INT64_MAX) return false;
    shape->dims[i] = (int64_t)dims[i];
  }
  return true;
}

/* One of dtype, shape and data_offsets; `seen` has a bit for each. */
static bool take_field(scanner *s, tensor *t, unsigned *seen) {
  static const char *const keys[] = {"dtype", "shape", "data_offsets"};
  const char *key = take_string(s);
  uint32_t which = 0, two;
  while (key && which < WAFER_COUNT(keys) && strcmp(keys[which], key) != 0) which++;
  if (!key || which == WAFER_COUNT(keys) || *seen & 1u << which || !take(s, ':')) return false;
  *seen |= 1u << which;
  if (which == 1) return take_shape(s, &t->shape);
  if (which == 2) return take_numbers(s, t->offsets, 2, &two) && two == 2;
  const char *name = take_string(s);
  t->dtype = name ? wafer_dtype_by_safetensors(name) : WAFER_DTYPE_none;
  return t->dtype != WAFER_DTYPE_none;
}

static wafer_status read_tensor(scanner *s, tensor *t) {
  unsigned seen = 0;
  int64_t elements;
  if (!take(s, '{')) return malformed(s, "a tensor is not an object");
  do {
    if (!take_field(s, t, &seen))
      return malformed(s, "a tensor's fields are not one dtype, shape and data_offsets each");
  } while (take(s, ','));
  if (!take(s, '}') || seen != 7)
    return malformed(s, "a tensor lacks dtype, shape or data_offsets");
  if (!wafer_shape_elements(&t->shape, &elements)) return malformed(s, "a tensor is too large");
  if (t->offsets[0] > t->offsets[1] || t->offsets[1] > s->data.size)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "weight '%s' lies at bytes %" PRIu64 " to %" PRIu64 " of %zu", t->name,
                      t->offsets[0], t->offsets[1], s->data.size);
  uint64_t want = (uint64_t)elements * wafer_dtype_bytes(t->dtype);
  if (t->offsets[1] - t->offsets[0] != want)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "weight '%s' has %" PRIu64 " bytes, its shape needs %" PRIu64, t->name,
                      t->offsets[1] - t->offsets[0], want);
  return WAFER_OK;
}

/* "__metadata__": {string: string ...}, read and dropped. */
static wafer_status skip_metadata(scanner *s) {
  if (!take(s, '{')) return malformed(s, "its metadata is not an object");
  if (take(s, '}')) return WAFER_OK;
  do {
    if (!take_string(s) || !take(s, ':') || !take_string(s))
      return malformed(s, "its metadata is not strings");
  } while (take(s, ','));
  return take(s, '}') ? WAFER_OK : malformed(s, "its metadata does not end");
}

static wafer_status read_entry(scanner *s, wafer_weights *weights) {
  tensor t = {.name = take_string(s)};
  if (!t.name || !take(s, ':')) return malformed(s, "a name is missing");
  if (strcmp(t.name, METADATA) == 0) return skip_metadata(s);
  if (wafer_weights_find(weights, t.name))
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "weight '%s' is there twice", t.name);
  WAFER_TRY(read_tensor(s, &t));
  const unsigned char *data = (const unsigned char *)s->data.data + t.offsets[0];
  if (!wafer_weights_add(weights, t.name, t.dtype, &t.shape, data)) return no_memory(s);
  return WAFER_OK;
}

static int by_place(const void *left, const void *right) {
  const wafer_weight *a = *(wafer_weight *const *)left, *b = *(wafer_weight *const *)right;
  if (a->data != b->data) return (uintptr_t)a->data < (uintptr_t)b->data ? -1 : 1;
  return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* empty ones before what starts there */
}

/* From `first` on, the weights cover the data: no holes, no overlaps. */
static wafer_status check_cover(const scanner *s, const wafer_weights *weights, size_t first) {
  size_t count = wafer_weights_count(weights) - first;
  wafer_weight **sorted = WAFER_NEW(s->arena, wafer_weight *, count);
  if (!sorted) return no_memory(s);
  for (size_t i = 0; i < count; i++) sorted[i] = wafer_weights_at(weights, first + i);
  qsort(sorted, count, sizeof *sorted, by_place);
  const unsigned char *next = s->data.data, *end = next + s->data.size;
  for (size_t i = 0; i < count; next += sorted[i++]->bytes)
    if ((const unsigned char *)sorted[i]->data != next)
      return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                        "weight '%s' does not start where the one before it ends", sorted[i]->name);
  if (next != end)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT, "%zu bytes after the last weight",
                      (size_t)(end - next));
  return WAFER_OK;
}

/* Splits the file into header and data. */
static wafer_status find_header(scanner *s, wafer_bytes file) {
  const unsigned char *data = file.data;
  uint64_t length = 0;
  if (file.size < LENGTH_BYTES) return malformed(s, "the file ends inside it");
  for (uint32_t i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)data[i] << (8 * i);
  if (length > HEADER_MAX)
    return wafer_fail(s->diag, s->loc, WAFER_BAD_INPUT,
                      "the weights' header has %" PRIu64 " bytes, at most %" PRIu64 " are read",
                      length, HEADER_MAX);
  if (length > file.size - LENGTH_BYTES) return malformed(s, "the file ends inside it");
  s->at = data + LENGTH_BYTES;
  s->end = s->at + length;
  s->data = (wafer_bytes){s->end, file.size - LENGTH_BYTES - (size_t)length};
  return WAFER_OK;
}

wafer_status safetensors_read(const wafer_diag *diag, wafer_loc loc, wafer_bytes file,
                              wafer_arena *arena, wafer_weights *weights) {
  scanner s = {.diag = diag, .loc = loc, .arena = arena};
  size_t first = wafer_weights_count(weights);
  WAFER_TRY(find_header(&s, file));
  if (!take(&s, '{')) return malformed(&s, "it is not an object");
  if (!take(&s, '}')) {
    do {
      WAFER_TRY(read_entry(&s, weights));
    } while (take(&s, ','));
    if (!take(&s, '}')) return malformed(&s, "it does not end");
  }
  skip_space(&s);
  if (s.at != s.end) return malformed(&s, "it goes on after its object");
  return check_cover(&s, weights, first);
}

/* ---- files ---- */

wafer_status wafer_weights_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                                wafer_weights *weights) {
  wafer_bytes file;
  WAFER_TRY(wafer_file_map(diag, arena, path, &file));
  return safetensors_read(diag, wafer_at_file(path), file, arena, weights);
}

static wafer_status write_parts(const wafer_diag *diag, const char *path, const wafer_bytes *parts,
                                size_t count) {
  wafer_file *file;
  WAFER_TRY(wafer_file_begin(diag, path, &file));
  for (size_t i = 0; i < count; i++) {
    wafer_status status = wafer_file_write(file, parts[i].data, parts[i].size);
    if (status == WAFER_OK) continue;
    wafer_file_abort(file);
    return status;
  }
  return wafer_file_commit(file);
}

wafer_status wafer_weights_write(const wafer_diag *diag, const char *path,
                                 const wafer_weights *weights) {
  wafer_arena *arena = wafer_arena_create();
  wafer_bytes *parts;
  size_t count;
  wafer_status status =
      arena ? safetensors_parts(diag, wafer_at_file(path), arena, weights, &parts, &count)
            : wafer_fail(diag, wafer_at_file(path), WAFER_NO_MEMORY, "no memory to write it");
  if (status == WAFER_OK) status = write_parts(diag, path, parts, count);
  wafer_arena_destroy(arena);
  return status;
}

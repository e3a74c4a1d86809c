#include "wire.h"

#include <stdbool.h>
#include <string.h>

/* The four cases of the wire format. */
enum { VARINT = 0, EIGHT_BYTES = 1, LENGTH = 2, FOUR_BYTES = 5 };

/* One field as it stands in the input. */
typedef struct item {
  uint32_t number, type;
  uint64_t value;   /* VARINT, FOUR_BYTES, EIGHT_BYTES */
  wire_bytes bytes; /* LENGTH; of the others, the encoded element itself */
} item;

/* A message being decoded. */
typedef struct frame {
  const wire_source *source;
  const wire_message *message;
  wire_bytes bytes;
  uint32_t depth;
  uint8_t *out;
} frame;

static size_t offset_of(const wire_source *source, const uint8_t *at) {
  return (size_t)(at - source->input.at);
}

static wafer_status damaged(const frame *f, const uint8_t *at, const char *what) {
  return wafer_fail(f->source->diag, wafer_at_file(f->source->file), WAFER_BAD_INPUT,
                    "not a readable ONNX file: %s in %s at byte %zu", what, f->message->name,
                    offset_of(f->source, at));
}

static wafer_status no_memory(const frame *f) {
  return wafer_fail(f->source->diag, wafer_at_file(f->source->file), WAFER_NO_MEMORY,
                    "no memory to read %s at byte %zu", f->message->name,
                    offset_of(f->source, f->bytes.at));
}

/* NULL when a varint is truncated or longer than ten bytes. */
static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
  *value = 0;
  for (unsigned shift = 0; at < end && shift < 70; shift += 7) {
    uint8_t byte = *at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return at;
  }
  return NULL;
}

static uint64_t little_endian(const uint8_t *at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

static wafer_status read_fixed(const frame *f, const uint8_t **at, size_t bytes, item *out) {
  const uint8_t *end = f->bytes.at + f->bytes.count;
  if ((size_t)(end - *at) < bytes) return damaged(f, *at, "truncated number");
  out->value = little_endian(*at, bytes);
  *at += bytes;
  return WAFER_OK;
}

static wafer_status read_length(const frame *f, const uint8_t **at, item *out) {
  const uint8_t *end = f->bytes.at + f->bytes.count, *start = *at;
  uint64_t length;
  *at = read_varint(*at, end, &length);
  if (!*at) return damaged(f, start, "truncated length");
  if (length > (uint64_t)(end - *at))
    return wafer_fail(
        f->source->diag, wafer_at_file(f->source->file), WAFER_BAD_INPUT,
        "truncated or damaged: field %u of %s at byte %zu is %llu bytes long, %zu are left",
        out->number, f->message->name, offset_of(f->source, start), (unsigned long long)length,
        (size_t)(end - *at));
  out->bytes = (wire_bytes){*at, (size_t)length};
  *at += length;
  return WAFER_OK;
}

/* Reads the field at *at and moves behind it. */
static wafer_status next_item(const frame *f, const uint8_t **at, item *out) {
  const uint8_t *end = f->bytes.at + f->bytes.count, *start = *at;
  uint64_t key;
  *at = read_varint(*at, end, &key);
  if (!*at || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
    return damaged(f, start, "bad field number");
  *out = (item){.number = (uint32_t)(key >> 3), .type = (uint32_t)(key & 7)};
  const uint8_t *payload = *at;
  if (out->type == LENGTH) return read_length(f, at, out);
  if (out->type == VARINT) {
    *at = read_varint(*at, end, &out->value);
    if (!*at) return damaged(f, payload, "truncated number");
  } else if (out->type == FOUR_BYTES || out->type == EIGHT_BYTES) {
    WAFER_TRY(read_fixed(f, at, out->type == FOUR_BYTES ? 4 : 8, out));
  } else {
    return damaged(f, start, "unknown wire type");
  }
  out->bytes = (wire_bytes){payload, (size_t)(*at - payload)};
  return WAFER_OK;
}

static const wire_field *field_of(const frame *f, uint32_t number) {
  static const wire_field unknown = {.kind = WIRE_UNKNOWN};
  return number < f->message->count ? &f->message->fields[number] : &unknown;
}

/* The wire type of a field that is not packed. */
static uint32_t type_of(const wire_field *field) {
  switch (field->kind) {
  case WIRE_INT:
  case WIRE_INTS: return VARINT;
  case WIRE_FLOAT:
  case WIRE_FLOATS: return FOUR_BYTES;
  case WIRE_PACKED: return field->element;
  default: return LENGTH;
  }
}

static bool may_be_packed(const wire_field *field) {
  return field->kind == WIRE_INTS || field->kind == WIRE_FLOATS || field->kind == WIRE_PACKED;
}

/* Varints in a packed payload; false when the last one does not end or one is too long. */
static bool count_varints(wire_bytes packed, size_t *count) {
  size_t length = 0;
  *count = 0;
  for (size_t i = 0; i < packed.count; i++) {
    if (++length > 10) return false;
    if (packed.at[i] & 0x80) continue;
    ++*count;
    length = 0;
  }
  return length == 0;
}

/* Elements that one occurrence of a field adds to its list. */
static wafer_status count_elements(const frame *f, const wire_field *field, const item *it,
                                   size_t *count) {
  *count = 1;
  if (it->type == type_of(field) && !(field->kind == WIRE_PACKED)) return WAFER_OK;
  if (field->kind == WIRE_PACKED && it->type == field->element) return WAFER_OK;
  if (it->type != LENGTH || !may_be_packed(field))
    return damaged(f, it->bytes.at, "field of an unexpected wire type");
  size_t width = type_of(field) == FOUR_BYTES ? 4 : 8;
  if (type_of(field) == VARINT) {
    if (!count_varints(it->bytes, count)) return damaged(f, it->bytes.at, "truncated number");
  } else {
    *count = it->bytes.count / width;
    if (it->bytes.count % width) return damaged(f, it->bytes.at, "packed numbers of an odd length");
  }
  return WAFER_OK;
}

/* How often each field occurs: `count` elements of lists, `bytes` of packed payloads, `chunks`. */
typedef struct tally {
  size_t count, bytes, chunks;
} tally;

static wafer_status count_fields(const frame *f, tally *tallies) {
  const uint8_t *at = f->bytes.at, *end = at + f->bytes.count;
  while (at < end) {
    item it;
    WAFER_TRY(next_item(f, &at, &it));
    const wire_field *field = field_of(f, it.number);
    if (field->kind == WIRE_UNKNOWN) continue;
    size_t elements;
    WAFER_TRY(count_elements(f, field, &it, &elements));
    tally *t = &tallies[it.number];
    t->count += elements;
    t->bytes += it.bytes.count;
    if (field->kind == WIRE_MESSAGE && t->chunks)
      return damaged(f, it.bytes.at, "second value of a field that holds one");
    t->chunks++;
  }
  return WAFER_OK;
}

static size_t element_bytes(const wire_field *field) {
  switch (field->kind) {
  case WIRE_INTS: return sizeof(int64_t);
  case WIRE_FLOATS: return sizeof(float);
  case WIRE_TEXTS: return sizeof(const char *);
  case WIRE_BLOBS: return sizeof(wire_bytes);
  case WIRE_MESSAGES: return field->message->bytes;
  default: return 0;
  }
}

/* The layout that every list member shares. */
typedef struct list {
  void *at;
  size_t count;
} list;

static wafer_status allocate_lists(const frame *f, const tally *tallies) {
  for (uint32_t n = 0; n < f->message->count; n++) {
    const wire_field *field = &f->message->fields[n];
    bool join = field->kind == WIRE_PACKED && tallies[n].chunks > 1;
    if (!tallies[n].chunks || (!element_bytes(field) && !join)) continue;
    list l = {.count = 0};
    l.at = join ? wafer_arena_alloc(f->source->arena, tallies[n].bytes, 1)
                : wafer_arena_alloc(f->source->arena, tallies[n].count, element_bytes(field));
    if (!l.at) return no_memory(f);
    memcpy(f->out + field->offset, &l, sizeof l);
  }
  return WAFER_OK;
}

/* Length of the well-formed UTF-8 sequence at `at`, 0 when it is none or a control character. */
static size_t utf8_length(const uint8_t *at, size_t left) {
  if (*at < 0x80) return *at >= 0x20 || *at == '\t' || *at == '\n' || *at == '\r';
  size_t length = *at >= 0xf0 ? 4 : *at >= 0xe0 ? 3 : 2;
  if (*at < 0xc2 || *at > 0xf4 || left < length) return 0;
  for (size_t i = 1; i < length; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  bool overlong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xf0 && at[1] < 0x90);
  bool surrogate = *at == 0xed && at[1] > 0x9f;
  bool beyond = *at == 0xf4 && at[1] > 0x8f;
  return overlong || surrogate || beyond ? 0 : length;
}

static wafer_status copy_text(const frame *f, wire_bytes bytes, const char **out) {
  for (size_t i = 0, step; i < bytes.count; i += step)
    if (!(step = utf8_length(bytes.at + i, bytes.count - i)))
      return damaged(f, bytes.at + i, "name that is not UTF-8 text");
  *out = wafer_arena_strndup(f->source->arena, (const char *)bytes.at, bytes.count);
  return *out ? WAFER_OK : no_memory(f);
}

static float float_of(uint64_t bits) {
  uint32_t narrow = (uint32_t)bits;
  float value;
  memcpy(&value, &narrow, sizeof value);
  return value;
}

static void append_numbers(const wire_field *field, const item *it, list *l) {
  wire_bytes packed = it->bytes;
  if (field->kind == WIRE_INTS) {
    int64_t *to = l->at;
    for (uint64_t value; wire_next_varint(&packed, &value);) to[l->count++] = (int64_t)value;
  } else {
    float *to = l->at;
    for (; packed.count; packed.at += 4, packed.count -= 4)
      to[l->count++] = float_of(little_endian(packed.at, 4));
  }
}

static void append_payload(const item *it, const tally *t, list *l) {
  if (t->chunks == 1) {
    *l = (list){(void *)(uintptr_t)it->bytes.at, it->bytes.count};
  } else {
    if (it->bytes.count) memcpy((uint8_t *)l->at + l->count, it->bytes.at, it->bytes.count);
    l->count += it->bytes.count;
  }
}

static wafer_status decode(const frame *f);

static wafer_status decode_child(const frame *f, const wire_field *field, const item *it,
                                 void *out) {
  frame child = {f->source, field->message, it->bytes, f->depth + 1, out};
  if (child.depth > WIRE_MAX_DEPTH)
    return wafer_fail(
        f->source->diag, wafer_at_file(f->source->file), WAFER_BAD_INPUT,
        "%s at byte %zu is nested deeper than %d messages (%d graphs inside one another)",
        field->message->name, offset_of(f->source, it->bytes.at), WIRE_MAX_DEPTH,
        WIRE_MAX_DEPTH / 3);
  return decode(&child);
}

static wafer_status store_one(const frame *f, const wire_field *field, const item *it,
                              uint8_t *member) {
  int64_t integer = (int64_t)it->value;
  float real = float_of(it->value);
  const char *text;
  void *child;
  switch (field->kind) {
  case WIRE_INT: memcpy(member, &integer, sizeof integer); return WAFER_OK;
  case WIRE_FLOAT: memcpy(member, &real, sizeof real); return WAFER_OK;
  case WIRE_BYTES: memcpy(member, &it->bytes, sizeof it->bytes); return WAFER_OK;
  case WIRE_TEXT:
    WAFER_TRY(copy_text(f, it->bytes, &text));
    memcpy(member, &text, sizeof text);
    return WAFER_OK;
  default:
    child = wafer_arena_alloc(f->source->arena, 1, field->message->bytes);
    if (!child) return no_memory(f);
    memcpy(member, &child, sizeof child);
    return decode_child(f, field, it, child);
  }
}

static wafer_status append(const frame *f, const wire_field *field, const item *it, const tally *t,
                           uint8_t *member) {
  list l;
  memcpy(&l, member, sizeof l);
  size_t at = l.count;
  switch (field->kind) {
  case WIRE_TEXTS: WAFER_TRY(copy_text(f, it->bytes, (const char **)l.at + l.count++)); break;
  case WIRE_BLOBS: ((wire_bytes *)l.at)[l.count++] = it->bytes; break;
  case WIRE_PACKED: append_payload(it, t, &l); break;
  case WIRE_MESSAGES:
    l.count++;
    WAFER_TRY(decode_child(f, field, it, (uint8_t *)l.at + at * field->message->bytes));
    break;
  default: append_numbers(field, it, &l); break;
  }
  memcpy(member, &l, sizeof l);
  return WAFER_OK;
}

static wafer_status decode(const frame *f) {
  tally tallies[WIRE_MAX_FIELDS] = {0};
  WAFER_TRY(count_fields(f, tallies));
  WAFER_TRY(allocate_lists(f, tallies));
  uint64_t has = 0;
  const uint8_t *at = f->bytes.at, *end = at + f->bytes.count;
  while (at < end) {
    item it;
    WAFER_TRY(next_item(f, &at, &it));
    const wire_field *field = field_of(f, it.number);
    if (field->kind == WIRE_UNKNOWN) continue;
    has |= UINT64_C(1) << it.number;
    uint8_t *member = f->out + field->offset;
    if (element_bytes(field) || field->kind == WIRE_PACKED)
      WAFER_TRY(append(f, field, &it, &tallies[it.number], member));
    else
      WAFER_TRY(store_one(f, field, &it, member));
  }
  memcpy(f->out, &has, sizeof has);
  return WAFER_OK;
}

wafer_status wire_decode(const wire_source *source, const wire_message *message, void **out) {
  *out = NULL;
  frame top = {source, message, source->input, 1, NULL};
  top.out = wafer_arena_alloc(source->arena, 1, message->bytes);
  if (!top.out) return no_memory(&top);
  WAFER_TRY(decode(&top));
  *out = top.out;
  return WAFER_OK;
}

bool wire_next_varint(wire_bytes *packed, uint64_t *value) {
  if (!packed->count) return false;
  const uint8_t *next = read_varint(packed->at, packed->at + packed->count, value);
  if (!next) return false;
  packed->count -= (size_t)(next - packed->at);
  packed->at = next;
  return true;
}

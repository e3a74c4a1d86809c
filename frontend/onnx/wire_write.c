/* Protobuf's wire format, written. */
#include <string.h>

#include "wafer/onnx_write.h"

enum { VARINT = 0, LENGTH = 2, FOUR_BYTES = 5 };

static bool reserve(wafer_message *m, size_t more) {
  if (m->failed) return false;
  if (m->room - m->count >= more) return true;
  size_t room = m->room ? m->room : 64;
  while (room - m->count < more) room *= 2;
  uint8_t *larger = wafer_arena_alloc(m->arena, room, 1);
  m->failed = !larger;
  if (!larger) return false;
  if (m->count) memcpy(larger, m->bytes, m->count);
  m->bytes = larger;
  m->room = room;
  return true;
}

static void put(wafer_message *m, const void *data, size_t count) {
  if (!count || !reserve(m, count)) return;
  memcpy(m->bytes + m->count, data, count);
  m->count += count;
}

static void put_varint(wafer_message *m, uint64_t value) {
  uint8_t bytes[10];
  size_t count = 0;
  for (; value >= 0x80; value >>= 7) bytes[count++] = (uint8_t)(0x80 | (value & 0x7f));
  bytes[count++] = (uint8_t)value;
  put(m, bytes, count);
}

static void put_key(wafer_message *m, uint32_t field, uint32_t type) {
  put_varint(m, (uint64_t)field << 3 | type);
}

void wafer_message_int(wafer_message *m, uint32_t field, int64_t value) {
  put_key(m, field, VARINT);
  put_varint(m, (uint64_t)value);
}

void wafer_message_float(wafer_message *m, uint32_t field, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                      (uint8_t)(bits >> 24)};
  put_key(m, field, FOUR_BYTES);
  put(m, bytes, sizeof bytes);
}

void wafer_message_head(wafer_message *m, uint32_t field, uint64_t count) {
  put_key(m, field, LENGTH);
  put_varint(m, count);
}

void wafer_message_bytes(wafer_message *m, uint32_t field, const void *data, size_t count) {
  wafer_message_head(m, field, count);
  put(m, data, count);
}

void wafer_message_text(wafer_message *m, uint32_t field, const char *text) {
  wafer_message_bytes(m, field, text, strlen(text));
}

/* Packed. */
void wafer_message_ints(wafer_message *m, uint32_t field, const int64_t *values, size_t count) {
  wafer_message packed = {.arena = m->arena};
  for (size_t i = 0; i < count; i++) put_varint(&packed, (uint64_t)values[i]);
  wafer_message_add(m, field, &packed);
}

void wafer_message_add(wafer_message *m, uint32_t field, const wafer_message *inner) {
  m->failed |= inner->failed;
  wafer_message_bytes(m, field, inner->bytes, inner->count);
}

void wafer_message_append(wafer_message *m, const wafer_message *fields) {
  m->failed |= fields->failed;
  put(m, fields->bytes, fields->count);
}

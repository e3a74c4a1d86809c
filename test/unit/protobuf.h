/* Writes protobuf by hand, for tests of the ONNX reader: fields are appended to a fixed buffer. */
#ifndef UNIT_PROTOBUF_H
#define UNIT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct protobuf {
  uint8_t bytes[1 << 16];
  size_t count;
} protobuf;

static inline void pb_byte(protobuf *pb, unsigned byte) {
  if (pb->count == sizeof pb->bytes) abort();
  pb->bytes[pb->count++] = (uint8_t)byte;
}

static inline void pb_varint(protobuf *pb, uint64_t value) {
  for (; value >= 0x80; value >>= 7) pb_byte(pb, 0x80 | (value & 0x7f));
  pb_byte(pb, (unsigned)value);
}

static inline void pb_raw(protobuf *pb, const void *data, size_t count) {
  if (count > sizeof pb->bytes - pb->count) abort();
  if (count) memcpy(pb->bytes + pb->count, data, count);
  pb->count += count;
}

static inline void pb_int(protobuf *pb, uint32_t field, int64_t value) {
  pb_varint(pb, field << 3);
  pb_varint(pb, (uint64_t)value);
}

static inline void pb_data(protobuf *pb, uint32_t field, const void *data, size_t count) {
  pb_varint(pb, field << 3 | 2);
  pb_varint(pb, count);
  pb_raw(pb, data, count);
}

static inline void pb_text(protobuf *pb, uint32_t field, const char *text) {
  pb_data(pb, field, text, strlen(text));
}

static inline void pb_message(protobuf *pb, uint32_t field, const protobuf *message) {
  pb_data(pb, field, message->bytes, message->count);
}

#endif

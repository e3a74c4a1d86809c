/* Changes that keep an XML file well formed. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

static const uint64_t edges[] = {
    0,        1,          2,          3,         7,          8,          15,         16,
    17,       255,        256,        32767,     65535,      65536,      1000000000, INT32_MAX,
    1u << 31, UINT32_MAX, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, 1ull << 48, 24};

uint64_t fuzz_next(uint64_t *state) { /* SplitMix64 */
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  return (z ^ (z >> 27)) * 0x94d049bb133111ebu;
}

/* Bytes [from, to) of the text become `with`; the new size, or the old one when there is no room.
 */
static size_t replace(uint8_t *data, size_t size, size_t room, size_t from, size_t to,
                      const void *with, size_t length) {
  if (size - (to - from) + length > room) return size;
  memmove(data + from + length, data + to, size - to);
  memcpy(data + from, with, length);
  return size - (to - from) + length;
}

/* ---- numbers ---- */

static bool is_digit(uint8_t c) {
  return c >= '0' && c <= '9';
}

static size_t digits_end(const uint8_t *data, size_t size, size_t from) {
  while (from < size && is_digit(data[from])) from++;
  return from;
}

/* One of the edges, or a neighbour of the number that was there. */
static uint64_t another(uint64_t was, uint64_t pick) {
  switch (pick % 4) {
  case 0: return was + 1;
  case 1: return was - 1;
  case 2: return pick / 4 % 64;
  default: return edges[pick / 4 % (sizeof edges / sizeof *edges)];
  }
}

/* Every number of the text that is spelt like `was`. */
static size_t replace_all(uint8_t *data, size_t size, size_t room, const char *was,
                          size_t was_length, const char *with, size_t length) {
  for (size_t at = 0; at < size;) {
    size_t end = digits_end(data, size, at);
    if (end - at == was_length && !memcmp(data + at, was, was_length)) {
      size_t changed = replace(data, size, room, at, end, with, length);
      if (changed == size && was_length != length) return size;
      size = changed;
      end = at + length;
    }
    at = end + 1;
  }
  return size;
}

size_t fuzz_change_number(uint8_t *data, size_t size, size_t room, uint64_t *state) {
  char text[24], was_text[24];
  size_t from = size ? fuzz_next(state) % size : 0, to;
  uint64_t was = 0;
  while (from < size && !is_digit(data[from])) from++;
  while (from > 0 && from < size && is_digit(data[from - 1])) from--;
  to = digits_end(data, size, from);
  if (from == to || to - from >= sizeof was_text) return size;
  memcpy(was_text, data + from, to - from);
  for (size_t i = from; i < to; i++) was = 10 * was + (data[i] - '0');
  size_t length = (size_t)snprintf(text, sizeof text, "%" PRIu64, another(was, fuzz_next(state)));
  if (fuzz_next(state) % 2 == 0)
    return replace_all(data, size, room, was_text, to - from, text, length);
  return replace(data, size, room, from, to, text, length);
}

/* ---- attributes ---- */

typedef struct attribute {
  size_t name, equals, end; /* where the name begins, the '=' and the closing quote stand */
} attribute;

/* The first attribute at or behind `at`, or of the whole text. */
static bool find_attribute(const uint8_t *data, size_t size, size_t at, attribute *out) {
  for (size_t tries = 0; tries < size; tries++, at = (at + 1) % size) {
    if (data[at] != '=' || at == 0 || at + 1 >= size || data[at + 1] != '"') continue;
    const uint8_t *end = memchr(data + at + 2, '"', size - at - 2);
    if (!end) continue;
    *out = (attribute){at, at, (size_t)(end - data)};
    while (out->name > 0 && data[out->name - 1] > ' ') out->name--;
    return true;
  }
  return false;
}

size_t fuzz_copy_attribute(uint8_t *data, size_t size, size_t room, uint64_t *state) {
  attribute to, from;
  char value[256];
  if (size == 0 || !find_attribute(data, size, fuzz_next(state) % size, &to)) return size;
  for (int tries = 0; tries < 64; tries++) {
    if (!find_attribute(data, size, fuzz_next(state) % size, &from)) return size;
    size_t length = from.end - from.equals - 2;
    if (from.equals - from.name != to.equals - to.name || length > sizeof value ||
        memcmp(data + from.name, data + to.name, to.equals - to.name))
      continue;
    memcpy(value, data + from.equals + 2, length);
    return replace(data, size, room, to.equals + 2, to.end, value, length);
  }
  return size;
}

#include "tensor/npy_text.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN 0xfffdu /* the replacement character */

bool npy_text_type(const char *descr, size_t *width) {
  char *end;
  if ((descr[0] != '<' && descr[0] != '=') || descr[1] != 'U' || descr[2] < '0' || descr[2] > '9')
    return false;
  *width = strtoul(descr + 2, &end, 10);
  return !*end && *width > 0 && *width <= UINT32_MAX;
}

static bool is_scalar(uint32_t point) {
  return point < 0xd800 || (point > 0xdfff && point < 0x110000);
}

/* Up to four bytes of UTF-8; returns how many. */
static size_t encode(uint32_t point, char *out) {
  size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3f));
  out[0] = (char)(first[length] | point);
  return length;
}

const char **npy_text_read(wafer_arena *arena, const void *data, size_t count, size_t width) {
  const char **texts = WAFER_NEW(arena, const char *, count + 1);
  for (size_t i = 0; texts && i < count; i++) {
    const char *from = (const char *)data + i * width * sizeof(uint32_t);
    char *text = wafer_arena_alloc(arena, 4 * width + 1, 1), *at = text;
    if (!text) return NULL;
    for (size_t k = 0; k < width; k++) {
      uint32_t point;
      memcpy(&point, from + k * sizeof point, sizeof point);
      if (!point) break;
      at += encode(is_scalar(point) ? point : UNKNOWN, at);
    }
    *at = 0;
    texts[i] = text;
  }
  return texts;
}

/* The next code point of UTF-8, which does not end here. */
static uint32_t decode(const unsigned char **text) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  uint32_t byte = *(*text)++;
  if (byte < 0x80) return byte;
  size_t more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
  uint32_t point = byte & (0x3fu >> more);
  for (size_t i = 0; i < more; i++) {
    if ((**text & 0xc0) != 0x80) return UNKNOWN;
    point = point << 6 | (*(*text)++ & 0x3fu);
  }
  return more && byte < 0xf8 && point >= least[more] && is_scalar(point) ? point : UNKNOWN;
}

size_t npy_text_width(const char *const *texts, size_t count) {
  size_t widest = 1;
  for (size_t i = 0; i < count; i++) {
    const unsigned char *at = (const unsigned char *)texts[i];
    size_t width = 0;
    for (; *at; width++) decode(&at);
    if (width > widest) widest = width;
  }
  return widest;
}

void npy_text_write(const char *text, size_t width, uint32_t *out) {
  const unsigned char *at = (const unsigned char *)text;
  for (size_t k = 0; k < width; k++) out[k] = *at ? decode(&at) : 0;
}

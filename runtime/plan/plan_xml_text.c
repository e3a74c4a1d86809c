/* Strings of plan.xml: a buffer that grows, and the escapes for bytes that XML cannot hold. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_xml.h"

static bool reserve(xml_text *out, size_t more) {
  if (out->failed) return false;
  if (more < out->capacity - out->count) return true;
  size_t capacity = out->capacity ? out->capacity * 2 : 256;
  while (capacity - out->count <= more) capacity *= 2;
  char *at = realloc(out->at, capacity);
  if (!at) {
    out->failed = true;
    return false;
  }
  out->at = at;
  out->capacity = capacity;
  return true;
}

void xml_put(xml_text *out, const char *bytes, size_t count) {
  if (!reserve(out, count)) return;
  memcpy(out->at + out->count, bytes, count);
  out->count += count;
  out->at[out->count] = 0;
}

void xml_printf(xml_text *out, const char *format, ...) {
  char small[128];
  va_list args;
  va_start(args, format);
  int count = vsnprintf(small, sizeof small, format, args);
  va_end(args);
  if (count < 0) {
    out->failed = true;
  } else if ((size_t)count < sizeof small) {
    xml_put(out, small, (size_t)count);
  } else if (reserve(out, (size_t)count)) {
    va_start(args, format);
    vsnprintf(out->at + out->count, (size_t)count + 1, format, args);
    va_end(args);
    out->count += (size_t)count;
  }
}

/* Bytes of the UTF-8 character at `s`, 0 when it is none that XML allows. */
static size_t xml_character(const unsigned char *s) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (s[0] < 0x80) return s[0] >= 0x20 && s[0] != 0x7f;
  size_t count = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
  uint32_t code = s[0] & (0xffu >> (count + 1));
  for (size_t i = 1; i < count; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (s[i] & 0x3f);
  }
  bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least[count] || code > 0x10ffff || surrogate || (code & 0xfffe) == 0xfffe ? 0
                                                                                          : count;
}

void xml_print_string(xml_text *out, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  while (*s) {
    size_t run = 0;
    for (size_t count; s[run] != '\\' && (count = s[run] ? xml_character(s + run) : 0);
         run += count) {
    }
    xml_put(out, (const char *)s, run);
    s += run;
    if (*s == '\\')
      xml_put(out, "\\\\", 2), s++;
    else if (*s)
      xml_printf(out, "\\x%02x", *s++);
  }
  xml_put(out, "", 0);
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

wafer_status xml_parse_string(wafer_arena *arena, const char *text, const char **out) {
  char *copy = wafer_arena_strdup(arena, text);
  if (!copy) return WAFER_NO_MEMORY;
  *out = copy;
  char *to = copy;
  for (const char *from = copy; *from;) {
    if (*from != '\\') {
      *to++ = *from++;
    } else if (from[1] == '\\') {
      *to++ = '\\';
      from += 2;
    } else {
      int high = from[1] == 'x' ? hex_digit(from[2]) : -1;
      int low = high >= 0 ? hex_digit(from[3]) : -1;
      if (low < 0 || !(high | low)) return WAFER_BAD_INPUT;
      *to++ = (char)(high << 4 | low);
      from += 4;
    }
  }
  *to = 0;
  return WAFER_OK;
}

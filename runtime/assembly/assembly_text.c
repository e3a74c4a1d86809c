/* The words of assembly. */
#include "assembly_text.h"

#include <stdlib.h>
#include <string.h>

wafer_status assembly_wrong(const assembly_text *t, const char *expected) {
  wafer_loc loc = wafer_at_line(t->file, t->line, (uint32_t)(t->at - t->line_start) + 1);
  size_t bytes = 0;
  while (t->at + bytes < t->end && t->at[bytes] > ' ' && t->at[bytes] < 127 && bytes < 32) bytes++;
  if (!bytes)
    return wafer_fail(t->diag, loc, WAFER_BAD_INPUT, "expected %s, found %s", expected,
                      t->at == t->end || *t->at == '\n' ? "the end of the line"
                                                        : "a character that is not printable");
  return wafer_fail(t->diag, loc, WAFER_BAD_INPUT, "expected %s, found '%.*s'", expected,
                    (int)bytes, t->at);
}

wafer_status assembly_no_memory(const assembly_text *t) {
  return wafer_fail(t->diag, wafer_at_file(t->file), WAFER_NO_MEMORY, "no room for the program");
}

void assembly_skip(assembly_text *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\r')) t->at++;
}

bool assembly_at_end(assembly_text *t) {
  assembly_skip(t);
  return t->at == t->end || *t->at == '\n' || *t->at == ';';
}

bool assembly_is(assembly_text *t, char c) {
  assembly_skip(t);
  if (t->at == t->end || *t->at != c) return false;
  t->at++;
  return true;
}

static bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

size_t assembly_peek(assembly_text *t) {
  assembly_skip(t);
  size_t bytes = 0;
  while (t->at + bytes < t->end && in_word(t->at[bytes])) bytes++;
  return bytes;
}

bool assembly_word(assembly_text *t, const char *word) {
  size_t bytes = assembly_peek(t);
  if (bytes != strlen(word) || memcmp(t->at, word, bytes)) return false;
  t->at += bytes;
  return true;
}

wafer_status assembly_number(assembly_text *t, uint64_t most, const char *what, uint64_t *out) {
  assembly_skip(t);
  const char *at = t->at;
  uint64_t value = 0;
  for (; at < t->end && *at >= '0' && *at <= '9'; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (value > (UINT64_MAX - digit) / 10) return assembly_wrong(t, what);
    value = value * 10 + digit;
  }
  if (at == t->at || value > most) return assembly_wrong(t, what);
  t->at = at;
  *out = value;
  return WAFER_OK;
}

wafer_status assembly_integer(assembly_text *t, int64_t least, int64_t most, const char *what,
                              int64_t *out) {
  bool negative = assembly_is(t, '-');
  uint64_t value, size = negative ? (uint64_t)-(least + 1) + 1 : (uint64_t)most;
  WAFER_TRY(assembly_number(t, size, what, &value));
  *out = negative ? (int64_t)-value : (int64_t)value;
  return WAFER_OK;
}

/* As strtod has it, which also knows inf and nan. */
wafer_status assembly_real(assembly_text *t, double *out) {
  char text[64], *rest;
  size_t bytes = 0;
  assembly_skip(t);
  while (bytes + 1 < sizeof text && t->at + bytes < t->end &&
         (in_word(t->at[bytes]) || strchr("+-.", t->at[bytes])) && t->at[bytes]) {
    text[bytes] = t->at[bytes];
    bytes++;
  }
  text[bytes] = 0;
  *out = strtod(text, &rest);
  if (!bytes || rest == text) return assembly_wrong(t, "a number");
  t->at += rest - text;
  return WAFER_OK;
}

static int hex(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

wafer_status assembly_string(assembly_text *t, const char **out) {
  if (!assembly_is(t, '"')) return assembly_wrong(t, "a name in quotation marks");
  size_t room = 0;
  while (t->at + room < t->end && t->at[room] != '"' && t->at[room] != '\n') room++;
  char *text = WAFER_NEW(t->arena, char, room + 1), *to = text;
  if (!text) return assembly_no_memory(t);
  for (; t->at < t->end && *t->at != '"'; t->at++) {
    int c = (unsigned char)*t->at;
    if (c == '\\') {
      bool escape = t->end - t->at > 3 && t->at[1] == 'x';
      escape = escape && hex(t->at[2]) >= 0 && hex(t->at[3]) >= 0;
      c = escape ? hex(t->at[2]) * 16 + hex(t->at[3]) : 0;
      if (escape) t->at += 3;
    }
    if (!c || *t->at == '\n') return assembly_wrong(t, "a name in which \\ is spelt \\x5c");
    *to++ = (char)c;
  }
  if (!assembly_is(t, '"')) return assembly_wrong(t, "a quotation mark");
  *out = text;
  return WAFER_OK;
}

wafer_status assembly_color(assembly_text *t, uint8_t *out) {
  uint64_t color;
  if (!assembly_is(t, '#')) return assembly_wrong(t, "a color, as in #3");
  WAFER_TRY(assembly_number(t, UINT8_MAX, "a color from 0 to 255", &color));
  *out = (uint8_t)color;
  return WAFER_OK;
}

wafer_status assembly_grow(assembly_text *t, void *list, uint32_t count, uint32_t *room,
                           size_t size) {
  return wafer_arena_grow(t->arena, list, count, room, size, 16) ? WAFER_OK : assembly_no_memory(t);
}

wafer_status assembly_label(assembly_text *t, uint32_t at, bool task) {
  assembly_use use = {.at = at, .task = task, .line = t->line};
  uint64_t label;
  assembly_skip(t);
  use.column = (uint32_t)(t->at - t->line_start) + 1;
  if (!assembly_is(t, 'L')) return assembly_wrong(t, "a label, as in L5");
  WAFER_TRY(assembly_number(t, ASSEMBLY_LABELS - 1, "a label from L0 to L65535", &label));
  use.label = (uint32_t)label;
  WAFER_TRY(assembly_grow(t, &t->uses, t->use_count, &t->use_room, sizeof use));
  t->uses[t->use_count++] = use;
  return WAFER_OK;
}

/* Attributes of host operators in plan.xml. */
#include <string.h>

#include "plan_xml.h"

static void put_text(xml_text *out, const char *text) {
  if (!*text) xml_put(out, "\\e", 2);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c > ' ' && c < 0x7f && c != '\\')
      xml_put(out, text, 1);
    else
      xml_printf(out, "\\x%02X", c);
  }
}

void xml_host_attr_print(xml_text *out, const wafer_host_attr *attr) {
  xml_put(out, "", 0);
  for (uint32_t i = 0; i < attr->count; i++) {
    if (i) xml_put(out, " ", 1);
    if (attr->kind == WAFER_HOST_ATTR_ints)
      xml_printf(out, "%lld", (long long)attr->ints[i]);
    else if (attr->kind == WAFER_HOST_ATTR_floats)
      xml_print_float(out, attr->floats[i]);
    else
      put_text(out, attr->texts[i]);
  }
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One entry of a list of texts; `bytes` of it. No text holds a zero. */
static wafer_status parse_text(wafer_arena *arena, const char *at, size_t bytes, const char **out) {
  char *entry = WAFER_NEW(arena, char, bytes + 1), *to = entry;
  if (!entry) return WAFER_NO_MEMORY;
  *out = entry;
  if (bytes == 2 && !memcmp(at, "\\e", 2)) return WAFER_OK;
  for (size_t i = 0; i < bytes; i++, to++) {
    *to = at[i];
    if (at[i] != '\\') continue;
    bool whole = bytes - i > 3 && at[i + 1] == 'x';
    int high = whole ? hex_digit(at[i + 2]) : -1, low = whole ? hex_digit(at[i + 3]) : -1;
    if (high < 0 || low < 0 || high + low == 0) return WAFER_BAD_INPUT;
    *to = (char)(high * 16 + low);
    i += 3;
  }
  return WAFER_OK;
}

static wafer_status parse_texts(wafer_arena *arena, const char *text, wafer_host_attr *attr) {
  const char **texts = WAFER_NEW(arena, const char *, strlen(text) / 2 + 1);
  if (!texts) return WAFER_NO_MEMORY;
  while (*text) {
    size_t bytes = strcspn(text, " ");
    if (!bytes) return WAFER_BAD_INPUT;
    WAFER_TRY(parse_text(arena, text, bytes, &texts[attr->count++]));
    text += bytes;
    if (*text == ' ' && !*++text) return WAFER_BAD_INPUT;
  }
  attr->texts = texts;
  return WAFER_OK;
}

wafer_status xml_host_attr_parse(wafer_arena *arena, const xml_host_attr *item,
                                 wafer_host_attr *attr) {
  *attr = (wafer_host_attr){.name = item->name, .kind = item->kind};
  if (item->kind == WAFER_HOST_ATTR_texts) return parse_texts(arena, item->value, attr);
  bool floats = item->kind == WAFER_HOST_ATTR_floats;
  wafer_attr list = {0};
  WAFER_TRY(xml_parse_list(arena, item->value, floats, &list));
  attr->count = floats ? list.floats.count : list.ints.count;
  if (floats)
    attr->floats = list.floats.at;
  else
    attr->ints = list.ints.at;
  return WAFER_OK;
}

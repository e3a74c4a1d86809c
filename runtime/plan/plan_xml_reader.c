#include "plan_xml_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- where, and what is wrong ---- */

wafer_loc xml_reader_here(const xml_reader *r) {
  xmlNodePtr node = xmlTextReaderCurrentNode(r->xml);
  if (node && node->type == XML_ATTRIBUTE_NODE) node = node->parent;
  bool lined = node && node->type == XML_ELEMENT_NODE; /* the structs of other kinds are shorter */
  long line =
      lined && node->line != USHRT_MAX ? node->line : xmlTextReaderGetParserLineNumber(r->xml);
  return wafer_at_line(r->file, line > 0 ? (uint32_t)line : 0, 0);
}

wafer_status xml_reader_no_memory(const xml_reader *r) {
  return wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "no memory for the plan");
}

void xml_reader_error(void *self, xmlErrorPtr error) {
  xml_reader *r = self;
  if (r->xml_error[0] || !error->message) return;
  r->xml_line = error->line > 0 ? (uint32_t)error->line : 0;
  for (size_t i = 0; i < sizeof r->xml_error - 1 && error->message[i] && error->message[i] != '\n';
       i++) {
    unsigned char c = (unsigned char)error->message[i];
    r->xml_error[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
  }
}

wafer_status xml_reader_not_xml(const xml_reader *r) {
  return wafer_fail(r->diag, wafer_at_line(r->file, r->xml_line, 0), WAFER_BAD_INPUT,
                    "not well-formed XML: %s",
                    r->xml_error[0] ? r->xml_error : "the document ends too early");
}

/* ---- lists ---- */

wafer_status xml_reader_push(const xml_reader *r, xml_items *list, const void *item, size_t bytes) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    char *at = capacity <= UINT32_MAX ? realloc(list->at, capacity * bytes) : NULL;
    if (!at) return xml_reader_no_memory(r);
    list->at = at;
    list->capacity = capacity;
  }
  memcpy(list->at + list->count++ * bytes, item, bytes);
  return WAFER_OK;
}

wafer_status xml_reader_take(const xml_reader *r, xml_items *list, size_t bytes, void *out,
                             uint32_t *count) {
  void *at = wafer_arena_alloc(r->arena, list->count, bytes);
  if (!at) return xml_reader_no_memory(r);
  if (list->count) memcpy(at, list->at, list->count * bytes);
  memcpy(out, &at, sizeof at);
  *count = (uint32_t)list->count;
  list->count = 0;
  return WAFER_OK;
}

/* ---- walking ---- */

static bool is_blank(const xmlChar *text) {
  return !text || !text[strspn((const char *)text, " \t\r\n")];
}

wafer_status xml_reader_advance(xml_reader *r) {
  for (;;) {
    int more = xmlTextReaderRead(r->xml);
    if (more != 1 || r->xml_error[0]) return xml_reader_not_xml(r);
    switch (xmlTextReaderNodeType(r->xml)) {
    case XML_READER_TYPE_ELEMENT:
    case XML_READER_TYPE_END_ELEMENT: return WAFER_OK;
    case XML_READER_TYPE_COMMENT:
    case XML_READER_TYPE_WHITESPACE:
    case XML_READER_TYPE_SIGNIFICANT_WHITESPACE: break;
    case XML_READER_TYPE_TEXT:
      if (is_blank(xmlTextReaderConstValue(r->xml))) break;
      return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                        "text where only elements may stand");
    default:
      return wafer_fail(
          r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
          "a plan holds elements and comments alone, no DTD, entity, CDATA or processing "
          "instruction");
    }
  }
}

const char *xml_reader_name(const xml_reader *r) {
  return (const char *)xmlTextReaderConstName(r->xml);
}

/* The row of the attribute `name`, looked for from `next` on since files mostly keep the table's
 * order. */
static uint32_t find_field(const xml_element *element, const char *name, uint32_t next) {
  for (uint32_t i = 0; i < element->field_count; i++) {
    uint32_t k = (next + i) % element->field_count;
    if (!strcmp(element->fields[k].name, name)) return k;
  }
  return element->field_count;
}

static wafer_status parse_field(const xml_reader *r, const xml_element *element, const xml_field *f,
                                const char *text, void *owner) {
  wafer_status status = f->codec->parse(r->arena, text, f, owner);
  if (status == WAFER_OK) return WAFER_OK;
  if (status == WAFER_NO_MEMORY) return xml_reader_no_memory(r);
  return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                    "<%s> has %s=\"%.40s\"%s, expected %s", element->name, f->name, text,
                    strlen(text) > 40 ? "..." : "", f->codec->expected);
}

wafer_status xml_reader_fields(const xml_reader *r, const xml_element *element, void *owner) {
  uint32_t seen = 0, next = 0;
  while (xmlTextReaderMoveToNextAttribute(r->xml) == 1) {
    const char *name = xml_reader_name(r), *text = (const char *)xmlTextReaderConstValue(r->xml);
    if (!text) return xml_reader_no_memory(r);
    uint32_t k = find_field(element, name, next);
    if (k == element->field_count) {
      if (element == &xml_node_element && wafer_attr_by_name(name) != WAFER_ATTR_COUNT) continue;
      return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                        "<%s> has no attribute '%.40s'", element->name, name);
    }
    WAFER_TRY(parse_field(r, element, &element->fields[k], text, owner));
    seen |= 1u << k;
    next = k + 1;
  }
  xmlTextReaderMoveToElement(r->xml);
  for (uint32_t k = 0; k < element->field_count; k++) {
    const xml_field *f = &element->fields[k];
    if (seen >> k & 1) continue;
    if (!f->fallback)
      return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT,
                        "<%s> lacks its attribute '%s'", element->name, f->name);
    WAFER_TRY(parse_field(r, element, f, f->fallback, owner));
  }
  return WAFER_OK;
}

wafer_status xml_reader_children(xml_reader *r, const char *parent, const xml_child *children,
                                 size_t count) {
  if (xmlTextReaderIsEmptyElement(r->xml)) return WAFER_OK;
  for (;;) {
    WAFER_TRY(xml_reader_advance(r));
    if (xmlTextReaderNodeType(r->xml) == XML_READER_TYPE_END_ELEMENT) return WAFER_OK;
    const char *name = xml_reader_name(r);
    size_t i = 0;
    while (i < count && strcmp(children[i].element->name, name)) i++;
    if (i == count)
      return wafer_fail(r->diag, xml_reader_here(r), WAFER_BAD_INPUT, "<%s> holds no <%.40s>",
                        parent, name);
    WAFER_TRY(children[i].read(r));
  }
}

wafer_status xml_reader_leaf(xml_reader *r, const xml_element *element, void *owner) {
  WAFER_TRY(xml_reader_fields(r, element, owner));
  return xml_reader_children(r, element->name, NULL, 0);
}

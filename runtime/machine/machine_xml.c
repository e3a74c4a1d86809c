/* A machine as XML: docs/machine.md. The schema decides about the form, machine_fields.def about
 * ranges, wafer_machine_check about the rest. */
#include <inttypes.h>
#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_fields.h"
#include "wafer/file.h"
#include "xml_schema.h"

#define FILE_MAX ((size_t)16 << 20) /* bytes: room for half a million dead cores */

static const unsigned char schema[] = {
#include "machine.rng.inc"
};

/* What goes through libxml2's callbacks: the first error is the precise one, later ones follow from
 * it. */
typedef struct reading {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;
  wafer_status status;
} reading;

static wafer_status fail_at(reading *r, long line, const char *what) {
  r->status =
      wafer_fail(r->diag, wafer_at_line(r->file, (uint32_t)line, 0), WAFER_BAD_INPUT, "%s", what);
  return r->status;
}

static wafer_status no_memory(reading *r) {
  r->status = wafer_fail(r->diag, wafer_at_file(r->file), WAFER_NO_MEMORY, "out of memory");
  return r->status;
}

/* libxml2's sentences end in a line break, and ours have no full stop. */
static void first_error(void *context, xmlErrorPtr error) {
  reading *r = context;
  char text[512];
  if (r->status != WAFER_OK || error->level < XML_ERR_ERROR) return;
  if (error->code == XML_ERR_NO_MEMORY) {
    no_memory(r);
    return;
  }
  snprintf(text, sizeof text, "%s", error->message ? error->message : "malformed");
  text[strcspn(text, "\n")] = '\0';
  if (text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a') text[0] = (char)(text[0] - 'A' + 'a');
  fail_at(r, error->line, text);
}

/* ---- the document ---- */

static void first_parse_error(void *context, xmlErrorPtr error) {
  first_error(((xmlParserCtxtPtr)context)->_private, error);
}

/* No document type at all: without one there are no entities to expand and nothing to fetch. */
static void refuse_document_type(void *context, const xmlChar *name, const xmlChar *external,
                                 const xmlChar *system) {
  xmlParserCtxtPtr parser = context;
  reading *r = parser->_private;
  (void)name, (void)external, (void)system;
  if (r->status == WAFER_OK)
    fail_at(r, xmlSAX2GetLineNumber(parser), "document type declarations are refused");
  xmlStopParser(parser);
}

static xmlDocPtr parse_document(reading *r, const char *text, size_t bytes) {
  xmlParserCtxtPtr parser = xmlNewParserCtxt();
  if (!parser) return no_memory(r), NULL;
  parser->_private = r;
  parser->sax->serror = first_parse_error;
  parser->sax->internalSubset = refuse_document_type;
  xmlDocPtr document = xmlCtxtReadMemory(parser, text, (int)bytes, NULL, NULL,
                                         XML_PARSE_NONET | XML_PARSE_BIG_LINES);
  if (!document && r->status == WAFER_OK) fail_at(r, 0, "is not well-formed XML");
  xmlFreeParserCtxt(parser);
  if (r->status == WAFER_OK) return document;
  xmlFreeDoc(document);
  return NULL;
}

static wafer_status check_schema(reading *r, xmlDocPtr document) {
  int result = xml_schema_check((const char *)schema, sizeof schema - 1, document, first_error, r);
  if (result == 0 || r->status != WAFER_OK) return r->status;
  return result < 0 ? no_memory(r) : fail_at(r, 0, "does not follow the schema");
}

/* ---- its fields ---- */

static xmlNodePtr find_element(xmlNodePtr root, const char *name) {
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at))
    if (strcmp((const char *)at->name, name) == 0) return at;
  return NULL;
}

/* An attribute's text in the arena; NULL when reported. */
static const char *attribute_of(reading *r, xmlNodePtr element, const char *name) {
  char what[256];
  xmlChar *text = xmlGetNoNsProp(element, (const xmlChar *)name);
  const char *copy = wafer_arena_strdup(r->arena, (const char *)text);
  if (text && !copy) no_memory(r);
  xmlFree(text);
  if (text) return copy;
  snprintf(what, sizeof what, "<%s> lacks %s", (const char *)element->name, name);
  fail_at(r, xmlGetLineNo(element), what);
  return NULL;
}

/* The number at *text, which moves behind it; UINT64_MAX stands for all that are larger. */
static bool take_number(const char **text, uint64_t *value) {
  const char *start = *text;
  bool fits = true;
  for (*value = 0; **text >= '0' && **text <= '9'; ++*text)
    fits = fits && !__builtin_mul_overflow(*value, 10u, value) &&
           !__builtin_add_overflow(*value, (uint64_t)(**text - '0'), value);
  if (!fits) *value = UINT64_MAX;
  return *text > start && (*start != '0' || *text == start + 1);
}

static bool take_all(const char *text, uint64_t *value) {
  return take_number(&text, value) && !*text;
}

static wafer_status read_field(reading *r, xmlNodePtr root, const machine_field *field,
                               wafer_machine *machine) {
  char what[256];
  uint64_t value = UINT64_MAX;
  xmlNodePtr element = find_element(root, field->element);
  if (!element) {
    snprintf(what, sizeof what, "<%s> is missing", field->element);
    return fail_at(r, xmlGetLineNo(root), what);
  }
  if (field->kind == FIELD_optional && !xmlHasProp(element, (const xmlChar *)field->attribute)) {
    machine_field_set(machine, field, field->minimum);
    return WAFER_OK;
  }
  const char *text = attribute_of(r, element, field->attribute);
  if (!text) return r->status;
  bool unlimited = field->kind == FIELD_bandwidth && strcmp(text, "unlimited") == 0;
  if (unlimited || (take_all(text, &value) && value >= field->minimum && value <= field->maximum)) {
    machine_field_set(machine, field, value);
    return WAFER_OK;
  }
  snprintf(what, sizeof what, "%s %s is '%.64s'; allowed are %" PRIu64 " to %" PRIu64 "%s",
           field->element, field->attribute, text, field->minimum, field->maximum,
           field->kind == FIELD_bandwidth ? " and unlimited" : "");
  return fail_at(r, xmlGetLineNo(element), what);
}

/* "elements/cycles", or elements in one cycle. */
static wafer_status read_throughput(reading *r, xmlNodePtr element, const char *attribute,
                                    wafer_throughput *out) {
  uint64_t elements = 0, cycles = 1;
  const char *at = attribute_of(r, element, attribute);
  if (!at) return r->status;
  bool good = take_number(&at, &elements) && (*at != '/' || (at++, take_number(&at, &cycles)));
  if (!good || *at || !elements || !cycles || elements > MACHINE_MAX_RATE ||
      cycles > MACHINE_MAX_RATE)
    return fail_at(r, xmlGetLineNo(element),
                   "a rate is elements/cycles, both numbers from 1 to 65536");
  *out = (wafer_throughput){(uint32_t)elements, (uint32_t)cycles};
  return WAFER_OK;
}

static wafer_status read_rate(reading *r, xmlNodePtr element, wafer_machine *machine) {
  char what[256];
  int rate = 0;
  const char *name = attribute_of(r, element, "of");
  if (!name) return r->status;
  while (rate < WAFER_RATE_COUNT && strcmp(wafer_rate_name((wafer_rate)rate), name) != 0) rate++;
  bool known = rate < WAFER_RATE_COUNT;
  if (!known || machine->rate[rate][0].cycles) {
    snprintf(what, sizeof what, "rate of '%.64s' is %s", name, known ? "there twice" : "unknown");
    return fail_at(r, xmlGetLineNo(element), what);
  }
  WAFER_TRY(read_throughput(r, element, "bits32", &machine->rate[rate][0]));
  return read_throughput(r, element, "bits16", &machine->rate[rate][1]);
}

static wafer_status read_rates(reading *r, xmlNodePtr root, wafer_machine *machine) {
  char what[256];
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at))
    if (strcmp((const char *)at->name, "rate") == 0) WAFER_TRY(read_rate(r, at, machine));
  for (int rate = 0; rate < WAFER_RATE_COUNT; rate++)
    if (!machine->rate[rate][0].cycles) {
      snprintf(what, sizeof what, "the rate of '%s' is missing", wafer_rate_name((wafer_rate)rate));
      return fail_at(r, xmlGetLineNo(root), what);
    }
  return WAFER_OK;
}

/* Numbers with single spaces between them. */
static wafer_status read_queues(reading *r, xmlNodePtr root, const char *name, uint32_t *count,
                                uint32_t words[WAFER_MACHINE_QUEUES]) {
  char what[256];
  uint64_t value;
  xmlNodePtr element = find_element(root, name);
  const char *at = element ? attribute_of(r, element, "words") : NULL;
  if (r->status != WAFER_OK) return r->status;
  for (*count = 0; at && *count < WAFER_MACHINE_QUEUES && take_number(&at, &value); at++) {
    if (value < 1 || value > MACHINE_MAX_QUEUE_WORDS) break;
    words[(*count)++] = (uint32_t)value;
    if (!*at) return WAFER_OK;
    if (*at != ' ') break;
  }
  snprintf(what, sizeof what, "<%s> %s: 1 to %d queues of 1 to %u words", name,
           element ? "words" : "is missing", WAFER_MACHINE_QUEUES, MACHINE_MAX_QUEUE_WORDS);
  return fail_at(r, xmlGetLineNo(element ? element : root), what);
}

static int by_row(const void *left, const void *right) {
  const wafer_core_at *a = left, *b = right;
  if (a->y != b->y) return a->y < b->y ? -1 : 1;
  return (a->x > b->x) - (a->x < b->x);
}

static wafer_status read_dead_core(reading *r, xmlNodePtr element, const wafer_machine *machine,
                                   wafer_core_at *out) {
  uint64_t column, row;
  const char *x = attribute_of(r, element, "x"), *y = x ? attribute_of(r, element, "y") : NULL;
  if (!y) return r->status;
  if (!take_all(x, &column) || !take_all(y, &row) || column >= machine->width ||
      row >= machine->height)
    return fail_at(r, xmlGetLineNo(element), "a dead core is not inside the fabric");
  *out = (wafer_core_at){(uint32_t)column, (uint32_t)row};
  return WAFER_OK;
}

/* The children of that name. */
static uint32_t count_of(xmlNodePtr root, const char *name) {
  uint32_t count = 0;
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at))
    count += strcmp((const char *)at->name, name) == 0;
  return count;
}

static wafer_status read_number(reading *r, xmlNodePtr element, const char *attribute,
                                uint64_t most, uint64_t *out) {
  char what[256];
  const char *text = attribute_of(r, element, attribute);
  if (!text) return r->status;
  if (take_all(text, out) && *out <= most) return WAFER_OK;
  snprintf(what, sizeof what, "%s %s is '%.64s'; allowed are 0 to %" PRIu64,
           (const char *)element->name, attribute, text, most);
  return fail_at(r, xmlGetLineNo(element), what);
}

static wafer_status read_dead(reading *r, xmlNodePtr root, const wafer_machine *machine,
                              wafer_defects *out) {
  wafer_core_at *dead = WAFER_NEW(r->arena, wafer_core_at, count_of(root, "dead"));
  if (!dead) return no_memory(r);
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at))
    if (strcmp((const char *)at->name, "dead") == 0)
      WAFER_TRY(read_dead_core(r, at, machine, &dead[out->dead_count++]));
  if (out->dead_count) qsort(dead, out->dead_count, sizeof *dead, by_row);
  out->dead = dead;
  return WAFER_OK;
}

static wafer_status read_links(reading *r, xmlNodePtr root, const wafer_machine *machine,
                               wafer_defects *out) {
  wafer_link_at *links = WAFER_NEW(r->arena, wafer_link_at, count_of(root, "dead-link"));
  if (!links) return no_memory(r);
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at)) {
    wafer_core_at from;
    if (strcmp((const char *)at->name, "dead-link") != 0) continue;
    WAFER_TRY(read_dead_core(r, at, machine, &from));
    const char *to = attribute_of(r, at, "to");
    if (!to) return r->status;
    if (strcmp(to, "east") && strcmp(to, "south"))
      return fail_at(r, xmlGetLineNo(at), "a dead link goes to the east or to the south");
    links[out->link_count++] = (wafer_link_at){from.x, from.y, to[0] == 's'};
  }
  out->links = links;
  return WAFER_OK;
}

/* Both elements are there at most once: the schema says so. */
static wafer_status read_random(reading *r, xmlNodePtr root, wafer_defects *out) {
  xmlNodePtr random = find_element(root, "random-dead"), repair = find_element(root, "repair");
  uint64_t per_million = 0;
  if (random) {
    WAFER_TRY(read_number(r, random, "per-million", 1000000, &per_million));
    WAFER_TRY(read_number(r, random, "seed", UINT64_MAX, &out->seed));
    out->per_million = (uint32_t)per_million;
  }
  const char *with = repair ? attribute_of(r, repair, "with") : NULL;
  if (r->status != WAFER_OK) return r->status;
  if (with) out->policy = strcmp(with, "spares") ? WAFER_REPAIR_avoid : WAFER_REPAIR_spares;
  return WAFER_OK;
}

static wafer_status read_defects(reading *r, xmlNodePtr root, const wafer_machine *machine,
                                 wafer_defects *out) {
  WAFER_TRY(read_dead(r, root, machine, out));
  WAFER_TRY(read_links(r, root, machine, out));
  return read_random(r, root, out);
}

static wafer_status read_reserved(reading *r, xmlNodePtr root, wafer_machine *machine) {
  wafer_rect *rects = WAFER_NEW(r->arena, wafer_rect, count_of(root, "reserved"));
  if (!rects) return no_memory(r);
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at)) {
    uint64_t x, y, width, height;
    if (strcmp((const char *)at->name, "reserved") != 0) continue;
    WAFER_TRY(read_number(r, at, "x", 16383, &x));
    WAFER_TRY(read_number(r, at, "y", 16383, &y));
    WAFER_TRY(read_number(r, at, "width", 16384, &width));
    WAFER_TRY(read_number(r, at, "height", 16384, &height));
    rects[machine->reserved_count++] =
        (wafer_rect){(uint32_t)x, (uint32_t)y, (uint32_t)width, (uint32_t)height};
  }
  machine->reserved = rects;
  return WAFER_OK;
}

static wafer_status read_bands(reading *r, xmlNodePtr root, wafer_cut *cut) {
  xmlNodePtr element = find_element(root, "bands");
  bool sided = element && xmlHasProp(element, (const xmlChar *)"sides");
  bool together = element && xmlHasProp(element, (const xmlChar *)"together");
  uint64_t count = 1, sides = 1;
  if (element) WAFER_TRY(read_number(r, element, "count", 32768, &count));
  if (sided) WAFER_TRY(read_number(r, element, "sides", 2, &sides));
  *cut = (wafer_cut){(uint32_t)count, (uint32_t)sides, together};
  return count && sides
             ? WAFER_OK
             : fail_at(r, xmlGetLineNo(element), "a wafer has at least one band, at one side");
}

static wafer_status read_machine(reading *r, xmlNodePtr root, wafer_machine *machine,
                                 wafer_defects *defects, wafer_cut *cut) {
  if (strcmp((const char *)root->name, "machine") != 0)
    return fail_at(r, xmlGetLineNo(root), "is not a machine: the outer element must be <machine>");
  machine->name = attribute_of(r, root, "name");
  if (!machine->name) return r->status;
  for (size_t i = 0; i < machine_field_count; i++)
    WAFER_TRY(read_field(r, root, &machine_fields[i], machine));
  WAFER_TRY(read_rates(r, root, machine));
  WAFER_TRY(
      read_queues(r, root, "input-queues", &machine->input_queues, machine->input_queue_words));
  WAFER_TRY(
      read_queues(r, root, "output-queues", &machine->output_queues, machine->output_queue_words));
  WAFER_TRY(read_reserved(r, root, machine));
  WAFER_TRY(read_bands(r, root, cut));
  return read_defects(r, root, machine, defects);
}

wafer_status wafer_machine_parse(const wafer_diag *diag, wafer_arena *arena, const char *file,
                                 const char *text, size_t bytes, const wafer_machine **out) {
  reading r = {.diag = diag, .file = file, .arena = arena};
  *out = NULL;
  if (bytes > FILE_MAX)
    return wafer_fail(diag, wafer_at_file(file), WAFER_BAD_INPUT,
                      "a machine file has at most %zu bytes, this one %zu", FILE_MAX, bytes);
  wafer_machine *machine = WAFER_NEW(arena, wafer_machine, 1);
  if (!machine) return no_memory(&r);
  xmlDocPtr document = parse_document(&r, text, bytes);
  if (!document) return r.status;
  wafer_defects defects = {0};
  wafer_cut cut = {1, 1, false};
  wafer_status status = read_machine(&r, xmlDocGetRootElement(document), machine, &defects, &cut);
  if (status == WAFER_OK) status = check_schema(&r, document);
  xmlFreeDoc(document);
  WAFER_TRY(status);
  bool whole = !defects.dead_count && !defects.link_count && !defects.per_million;
  const wafer_rect *reserved = machine->reserved;
  uint32_t reserved_count = machine->reserved_count;
  machine->reserved_count = 0; /* places of the fabric as defects leave it */
  WAFER_TRY(wafer_machine_check(diag, file, machine));
  if (!whole) {
    const wafer_machine *left;
    WAFER_TRY(wafer_machine_apply(diag, arena, file, machine, &defects, &left));
    *machine = *left;
  }
  machine->reserved = reserved;
  machine->reserved_count = reserved_count;
  WAFER_TRY(wafer_machine_check(diag, file, machine));
  return wafer_machine_band(diag, arena, machine, cut, out);
}

wafer_status wafer_machine_defects_open(const wafer_diag *diag, wafer_arena *arena,
                                        const char *path, wafer_defects *out) {
  reading r = {.diag = diag, .file = path, .arena = arena};
  const wafer_machine any = {.width = 16384, .height = 16384};
  wafer_bytes file;
  *out = (wafer_defects){.policy = WAFER_REPAIR_spares};
  WAFER_TRY(wafer_file_map(diag, arena, path, &file));
  if (file.size > FILE_MAX)
    return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                      "a file of defects has at most %zu bytes, this one %zu", FILE_MAX, file.size);
  xmlDocPtr document = parse_document(&r, (const char *)file.data, file.size);
  if (!document) return r.status;
  xmlNodePtr root = xmlDocGetRootElement(document);
  wafer_status status =
      strcmp((const char *)root->name, "defects") == 0
          ? read_defects(&r, root, &any, out)
          : fail_at(&r, xmlGetLineNo(root), "the outer element must be <defects>");
  if (status == WAFER_OK) status = check_schema(&r, document);
  xmlFreeDoc(document);
  return status;
}

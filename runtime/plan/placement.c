#include "wafer/placement.h"

#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wafer/file.h"
#include "xml_schema.h"

#define FILE_MAX ((size_t)64 << 20) /* bytes */

static const unsigned char schema[] = {
#include "placement.rng.inc"
};

uint64_t wafer_kernel_identity(const wafer_kernel_body *body) {
  uint32_t one[WAFER_MAX_KERNEL_VALUES];
  wafer_kernel_body alike = *body;
  for (uint32_t i = 0; i < WAFER_MAX_KERNEL_VALUES; i++) one[i] = 1;
  alike.input_depth = one;
  alike.output_depth = 1;
  return wafer_kernel_signature(&alike);
}

/* ---- reading ---- */

typedef struct reading {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;
  wafer_status status;
} reading;

static wafer_status no_memory(const wafer_diag *diag, const char *file) {
  return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY, "no memory for a placement");
}

/* The first error is the precise one. */
static void on_error(void *self, xmlErrorPtr error) {
  reading *r = self;
  if (r->status != WAFER_OK || error->level < XML_ERR_ERROR) return;
  size_t length = error->message ? strcspn(error->message, "\n") : 0;
  r->status =
      wafer_fail(r->diag, wafer_at_line(r->file, (uint32_t)error->line, 0), WAFER_BAD_INPUT, "%.*s",
                 (int)(length < 200 ? length : 200), error->message ? error->message : "");
}

/* Without a document type there are no entities to expand and nothing to fetch. */
static xmlDocPtr parse(reading *r, const wafer_bytes *file) {
  xmlParserCtxtPtr parser = xmlNewParserCtxt();
  if (!parser) return r->status = no_memory(r->diag, r->file), NULL;
  xmlSetStructuredErrorFunc(r, on_error);
  xmlDocPtr document =
      xmlCtxtReadMemory(parser, file->data, (int)file->size, NULL, NULL, XML_PARSE_NONET);
  xmlSetStructuredErrorFunc(NULL, NULL);
  xmlFreeParserCtxt(parser);
  if (document && document->intSubset && r->status == WAFER_OK)
    r->status = wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT,
                           "document type declarations are refused");
  if (document && r->status == WAFER_OK) return document;
  if (r->status == WAFER_OK) r->status = no_memory(r->diag, r->file);
  xmlFreeDoc(document);
  return NULL;
}

static wafer_status validate(reading *r, xmlDocPtr document) {
  int result = xml_schema_check((const char *)schema, sizeof schema - 1, document, on_error, r);
  if (r->status != WAFER_OK || result == 0) return r->status;
  return result < 0 ? no_memory(r->diag, r->file)
                    : wafer_fail(r->diag, wafer_at_file(r->file), WAFER_BAD_INPUT,
                                 "does not follow the schema");
}

/* Numbers of at most five digits: the schema says so. */
static uint32_t number_of(xmlNodePtr element, const char *attribute) {
  xmlChar *text = xmlGetNoNsProp(element, (const xmlChar *)attribute);
  uint32_t value = text ? (uint32_t)strtoul((const char *)text, NULL, 10) : 0;
  xmlFree(text);
  return value;
}

static wafer_rect rect_of(xmlNodePtr element) {
  return (wafer_rect){number_of(element, "x"), number_of(element, "y"), number_of(element, "width"),
                      number_of(element, "height")};
}

/* As many loops as are given, the others uncut; the schema keeps numbers short. */
static void parts_of(xmlNodePtr element, const char *attribute, uint32_t *parts) {
  xmlChar *text = xmlGetNoNsProp(element, (const xmlChar *)attribute);
  char *at = (char *)text;
  for (uint32_t i = 0; at && i < WAFER_MAX_LOOPS; i++) {
    uint32_t number = (uint32_t)strtoul(at, &at, 10);
    parts[i] = number ? number : 1;
  }
  xmlFree(text);
}

/* False: out of memory. NULL where there is none. */
static bool string_of(reading *r, xmlNodePtr element, const char *attribute, const char **out) {
  xmlChar *text = xmlGetNoNsProp(element, (const xmlChar *)attribute);
  *out = text ? wafer_arena_strdup(r->arena, (const char *)text) : NULL;
  bool made = !text || *out;
  xmlFree(text);
  return made;
}

static wafer_status collect(reading *r, xmlNodePtr root, wafer_pins *out) {
  size_t count = xmlChildElementCount(root);
  wafer_pin *pins = WAFER_NEW(r->arena, wafer_pin, count);
  wafer_rect *reserved = WAFER_NEW(r->arena, wafer_rect, count);
  if (!pins || !reserved) return no_memory(r->diag, r->file);
  *out = (wafer_pins){.cut = {number_of(root, "bands"), 1},
                      .reductions_behind = xmlHasProp(root, (const xmlChar *)"reductions") != NULL,
                      .pins = pins,
                      .reserved = reserved};
  if (xmlHasProp(root, (const xmlChar *)"sides")) out->cut.sides = number_of(root, "sides");
  if (!string_of(r, root, "machine", &out->machine) || !string_of(r, root, "mode", &out->mode))
    return no_memory(r->diag, r->file);
  for (xmlNodePtr at = xmlFirstElementChild(root); at; at = xmlNextElementSibling(at)) {
    if (strcmp((const char *)at->name, "reserve") == 0) {
      reserved[out->reserved_count++] = rect_of(at);
      continue;
    }
    const char *name;
    if (!string_of(r, at, "name", &name) || !name) return no_memory(r->diag, r->file);
    pins[out->pin_count] = (wafer_pin){.rect = rect_of(at), .replicas = number_of(at, "replicas")};
    parts_of(at, "rows", pins[out->pin_count].split.rows);
    parts_of(at, "cols", pins[out->pin_count].split.cols);
    pins[out->pin_count++].kernel = name;
  }
  return WAFER_OK;
}

wafer_status wafer_pins_read(const wafer_diag *diag, wafer_arena *arena, const char *path,
                             wafer_pins *out) {
  reading r = {.diag = diag, .file = path, .arena = arena};
  wafer_bytes file;
  *out = (wafer_pins){0};
  WAFER_TRY(wafer_file_map(diag, arena, path, &file));
  if (file.size > FILE_MAX)
    return wafer_fail(diag, wafer_at_file(path), WAFER_BAD_INPUT,
                      "a placement has at most %zu bytes, this one %zu", FILE_MAX, file.size);
  xmlDocPtr document = parse(&r, &file);
  if (!document) return r.status;
  wafer_status status = validate(&r, document);
  if (status == WAFER_OK) status = collect(&r, xmlDocGetRootElement(document), out);
  xmlFreeDoc(document);
  return status;
}

/* ---- of a plan ---- */

static bool has_reductions_behind(const wafer_plan *plan) {
  uint32_t first;
  for (uint32_t k = 0; k < plan->kernel_count; k++)
    for (uint32_t n = 0; n < plan->kernels[k].body.node_count; n++)
      if (wafer_body_reduces(&plan->kernels[k].body, n, &first)) return true;
  return false;
}

wafer_status wafer_pins_of(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                           wafer_pins *out) {
  wafer_pin *pins = WAFER_NEW(arena, wafer_pin, plan->kernel_count);
  *out = (wafer_pins){.machine = plan->machine->name,
                      .cut = wafer_machine_cut(plan->machine),
                      .reductions_behind = has_reductions_behind(plan),
                      .pin_count = plan->kernel_count,
                      .reserved_count = plan->machine->reserved_count,
                      .pins = pins,
                      .reserved = plan->machine->reserved};
  if (!pins) return no_memory(diag, plan->model);
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    pins[k] = (wafer_pin){.kernel = kernel->name,
                          .rect = kernel->rect,
                          .replicas = kernel->replicas,
                          .split = kernel->split,
                          .kept = true,
                          .identity = wafer_kernel_identity(&kernel->body)};
  }
  return WAFER_OK;
}

static void put_attribute(FILE *to, const char *name, const char *text) {
  fprintf(to, " %s=\"", name);
  for (; *text; text++) switch (*text) {
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '"': fputs("&quot;", to); break;
    default:
      if ((unsigned char)*text < ' ')
        fprintf(to, "&#%d;", *text);
      else
        fputc(*text, to);
    }
  fputc('"', to);
}

static void put_rect(FILE *to, wafer_rect r) {
  fprintf(to, " x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\"", r.x, r.y, r.width, r.height);
}

static void put_parts(FILE *to, const char *name, uint32_t loops, const uint32_t *parts) {
  fprintf(to, " %s=\"", name);
  for (uint32_t i = 0; i < loops; i++) fprintf(to, "%s%u", i ? " " : "", parts[i]);
  fputc('"', to);
}

static void put_split(FILE *to, const wafer_kernel *kernel) {
  wafer_loops loops;
  wafer_kernel_loops(&kernel->body, &loops);
  if (!loops.count) return;
  put_parts(to, "rows", loops.count, kernel->split.rows);
  put_parts(to, "cols", loops.count, kernel->split.cols);
}

static void put_all(FILE *to, const wafer_plan *plan) {
  fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<placement version=\"1\"", to);
  put_attribute(to, "model", plan->model);
  put_attribute(to, "machine", plan->machine->name);
  put_attribute(to, "mode", wafer_mode_name(plan->mode));
  wafer_cut cut = wafer_machine_cut(plan->machine);
  if (cut.bands > 1) fprintf(to, " bands=\"%u\"", cut.bands);
  if (cut.sides > 1) fprintf(to, " sides=\"%u\"", cut.sides);
  if (has_reductions_behind(plan)) put_attribute(to, "reductions", "behind");
  fputs(">\n", to);
  for (uint32_t i = 0; i < plan->machine->reserved_count; i++) {
    fputs("  <reserve", to);
    put_rect(to, plan->machine->reserved[i]);
    fputs("/>\n", to);
  }
  for (uint32_t k = 0; k < plan->kernel_count; k++) {
    const wafer_kernel *kernel = &plan->kernels[k];
    const char *node = kernel->body.nodes[kernel->body.anchor].name;
    fputs("  <kernel", to);
    put_attribute(to, "name", kernel->name);
    if (node && *node) put_attribute(to, "node", node);
    if (kernel->replicas > 1) fprintf(to, " replicas=\"%u\"", kernel->replicas);
    put_rect(to, kernel->rect);
    put_split(to, kernel);
    fputs("/>\n", to);
  }
  fputs("</placement>\n", to);
}

wafer_status wafer_pins_print(const wafer_diag *diag, wafer_arena *arena, const wafer_plan *plan,
                              char **text, size_t *bytes) {
  char *made = NULL;
  *text = NULL;
  *bytes = 0;
  FILE *to = open_memstream(&made, bytes);
  if (to) put_all(to, plan);
  bool complete = to && !ferror(to);
  if (to && fclose(to) != 0) complete = false;
  if (complete) *text = wafer_arena_strndup(arena, made, *bytes);
  free(made);
  return *text ? WAFER_OK : no_memory(diag, plan->model);
}

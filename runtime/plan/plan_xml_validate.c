/* plan.xml against its schema. Slower than reading, and reading checks all that safety needs: this
 * says whether another tool may rely on the schema. */
#include <libxml/xmlreader.h>
#include <limits.h>

#include "plan_xml.h"
#include "xml_schema.h"

static const char schema[] = {
#include "plan.rng.inc"
};

typedef struct validation {
  const wafer_diag *diag;
  const char *file;
  bool failed;
} validation;

static void on_error(void *self, xmlErrorPtr error) {
  validation *v = self;
  if (v->failed || !error->message) return;
  v->failed = true;
  int bytes = 0;
  while (error->message[bytes] && error->message[bytes] != '\n' && bytes < 200) bytes++;
  (void)wafer_fail(v->diag, wafer_at_line(v->file, error->line > 0 ? (uint32_t)error->line : 0, 0),
                   WAFER_BAD_INPUT, "%.*s", bytes, error->message);
}

static bool walk(validation *v, xmlTextReaderPtr reader, xmlRelaxNGPtr compiled) {
  if (xmlTextReaderRelaxNGSetSchema(reader, compiled) < 0) return false;
  int more;
  while ((more = xmlTextReaderRead(reader)) == 1) {
  }
  v->failed |= more < 0 || xmlTextReaderIsValid(reader) != 1;
  return true;
}

wafer_status plan_xml_validate(const wafer_diag *diag, const char *file, const char *text,
                               size_t bytes) {
  if (bytes > INT_MAX)
    return wafer_fail(diag, wafer_at_file(file), WAFER_BAD_INPUT, "%zu bytes, at most %d are read",
                      bytes, INT_MAX);
  validation v = {.diag = diag, .file = file};
  xmlRelaxNGPtr compiled = xml_schema_compile(schema, sizeof schema - 1);
  xmlTextReaderPtr reader =
      compiled ? xmlReaderForMemory(text, (int)bytes, NULL, "UTF-8", XML_PARSE_NONET) : NULL;
  if (reader) xmlTextReaderSetStructuredErrorHandler(reader, on_error, &v);
  bool walked = reader && walk(&v, reader, compiled);
  xmlFreeTextReader(reader);
  xmlRelaxNGFree(compiled);
  if (!walked)
    return wafer_fail(diag, wafer_at_file(file), WAFER_NO_MEMORY,
                      "no memory for the schema of plan.xml");
  return v.failed ? WAFER_BAD_INPUT : WAFER_OK;
}

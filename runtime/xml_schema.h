/* RELAX NG schemas of libxml2, which builds its tables of data types at the first one: that must
 * not happen twice at a time, whichever file is read. */
#ifndef RUNTIME_XML_SCHEMA_H
#define RUNTIME_XML_SCHEMA_H

#include <libxml/relaxng.h>
#include <stddef.h>

/* xmlRelaxNGFree it; NULL: no memory, for the schemas are ours. */
xmlRelaxNGPtr xml_schema_compile(const char *schema, size_t bytes);

/* Whether a document follows the schema: 0 yes, above 0 no, -1 no memory. `on_error` is told why
 * not. */
int xml_schema_check(const char *schema, size_t bytes, xmlDocPtr document,
                     xmlStructuredErrorFunc on_error, void *self);

#endif

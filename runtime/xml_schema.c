#include "xml_schema.h"

#include <pthread.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static xmlRelaxNGPtr compile(const char *schema, size_t bytes) {
  xmlRelaxNGParserCtxtPtr parser = xmlRelaxNGNewMemParserCtxt(schema, (int)bytes);
  xmlRelaxNGPtr compiled = parser ? xmlRelaxNGParse(parser) : NULL;
  xmlRelaxNGFreeParserCtxt(parser);
  return compiled;
}

xmlRelaxNGPtr xml_schema_compile(const char *schema, size_t bytes) {
  pthread_mutex_lock(&one_at_a_time);
  xmlRelaxNGPtr compiled = compile(schema, bytes);
  pthread_mutex_unlock(&one_at_a_time);
  return compiled;
}

int xml_schema_check(const char *schema, size_t bytes, xmlDocPtr document,
                     xmlStructuredErrorFunc on_error, void *self) {
  int result = -1;
  pthread_mutex_lock(&one_at_a_time);
  xmlRelaxNGPtr compiled = compile(schema, bytes);
  xmlRelaxNGValidCtxtPtr validator = compiled ? xmlRelaxNGNewValidCtxt(compiled) : NULL;
  if (validator) {
    xmlRelaxNGSetValidStructuredErrors(validator, on_error, self);
    result = xmlRelaxNGValidateDoc(validator, document);
  }
  xmlRelaxNGFreeValidCtxt(validator);
  xmlRelaxNGFree(compiled);
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}

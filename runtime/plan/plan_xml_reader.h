/* Walking the elements of plan.xml: attributes by the tables of plan_xml.h, lists that grow, and
 * where what is wrong stands. Private to plan_xml*.c. */
#ifndef RUNTIME_PLAN_XML_READER_H
#define RUNTIME_PLAN_XML_READER_H

#include <libxml/xmlreader.h>

#include "plan_xml.h"

/* Items of one kind, in the order of the file. */
typedef struct xml_items {
  char *at;
  size_t count, capacity;
} xml_items;

typedef struct xml_reader {
  const wafer_diag *diag;
  const char *file;
  wafer_arena *arena;
  xmlTextReaderPtr xml;
  wafer_plan *plan;
  wafer_weights *weights;
  xml_items values, kernels, streams, phases, launches, functions; /* of the plan */
  xml_items inputs, nodes, outputs, memory, steps; /* of the kernel or function being read */
  xml_items attrs;                                 /* of the step being read */
  xml_items trained, noises;                       /* of the training being read */
  wafer_cost *cost;                                /* of that kernel */
  bool costed;
  bool seen_mode[2];
  char xml_error[256]; /* the first thing libxml2 complained about */
  uint32_t xml_line;
} xml_reader;

wafer_loc xml_reader_here(const xml_reader *r);
wafer_status xml_reader_no_memory(const xml_reader *r);
/* A structured error handler of libxml2 that keeps the first error; failing with it. */
void xml_reader_error(void *self, xmlErrorPtr error);
wafer_status xml_reader_not_xml(const xml_reader *r);

wafer_status xml_reader_push(const xml_reader *r, xml_items *list, const void *item, size_t bytes);
/* Moves the items to the arena; the list is empty then. */
wafer_status xml_reader_take(const xml_reader *r, xml_items *list, size_t bytes, void *out,
                             uint32_t *count);

/* To the next start or end of an element. */
wafer_status xml_reader_advance(xml_reader *r);
const char *xml_reader_name(const xml_reader *r);
/* Reads the attributes of the element the reader stands on. A node's op attributes are passed over.
 */
wafer_status xml_reader_fields(const xml_reader *r, const xml_element *element, void *owner);

typedef struct xml_child {
  const xml_element *element;
  wafer_status (*read)(xml_reader *r); /* stands on the start, leaves the reader on the end */
} xml_child;

wafer_status xml_reader_children(xml_reader *r, const char *parent, const xml_child *children,
                                 size_t count);
/* An element without any inside. */
wafer_status xml_reader_leaf(xml_reader *r, const xml_element *element, void *owner);

#endif
